"""A graph of scalars as LLVM text: each node one instruction on a vector of paths, or on one number for all of them.

Values are printed depth first from the requested results, so that they live briefly, and once in every region where
they can be seen: before all loops, before a loop, inside it. A product that has one reader, an addition, is printed
with it as one fused operation; no flag leaves the compiler a choice, so that bits depend on the graph alone.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from stodyn.numerics.printing import compiling, elementary
from stodyn.numerics.printing.nodes import Entry, Loop, Node, reachable, value_of
from stodyn.numerics.printing.vectors import Table, is_immediate
from stodyn.numerics.printing.walk import Walk, first_of, key_of

NAMES = {"float64": "double", "float32": "float", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
         "uint8": "i8", "uint16": "i16", "uint32": "i32", "uint64": "i64", "bool": "i1"}  # fmt: skip
KINDS = {np.dtype(name): kind for name, kind in NAMES.items()}  # dtypes are slow to put into words
TWINS = {"sin": "cos", "cos": "sin"}


class Writer:
    """The text of one function: names, blocks, and instructions on addresses and counters."""

    def __init__(self, width: int, name: str = ""):
        self.width, self.name = width, name
        self.head: list[str] = []  # of the first block, before all else
        self.lines: list[str] = []
        self.elementary: set[tuple[str, int]] = set()
        self.table: Table | None = None
        self.block = "entry"
        self._count = 0

    def fresh(self, word: str = "v") -> str:
        self._count += 1
        return f"{word}{self._count}"

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """The name of the result of an instruction."""
        name = "%" + self.fresh()
        self.emit(f"{name} = {text}")
        return name

    def open(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def branch(self, which: str, yes: str, no: str, rarely: bool = False) -> None:
        """`rarely` taken: what it leads to is kept out of the way of the rest, and out of its registers."""
        self.emit(f"br i1 {which}, label %{yes}, label %{no}{', !prof !0' if rarely else ''}")

    def carry(self, place: int, before: str, phis: Iterable[tuple[str, str, str, str]]) -> None:
        """Write into the lines from `place` on, kept free at the head of a loop, the values it carries: (name, type,
        value when it is entered from the block `before`, value after a turn that ends here)."""
        for k, (name, type_, start, new) in enumerate(phis):
            self.lines[place + k] = f"  {name} = phi {type_} [ {start}, %{before} ], [ {new}, %{self.block} ]"

    def call(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        return self.value(f"call {result} @{name}({', '.join(f'{t} {a}' for t, a in arguments)})")

    def type(self, dtype: Any, lane: bool = True) -> str:
        kind = KINDS[np.dtype(dtype)]
        return f"<{self.width} x {kind}>" if lane and self.width > 1 else kind

    # --- counters and memory ------------------------------------------------------------------------------------------

    def whole(self, op: str, a: str | int, b: str | int) -> str:
        """a op b between counters."""
        return self.value(f"{op} i64 {a}, {b}")

    def at(self, base: str, index: str | int, size: int = 1) -> str:
        """The address of byte index * size behind base."""
        offset = index if size == 1 else index * size if isinstance(index, int) else self.whole("mul", index, size)
        return base if offset == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, address: str, type_: str, align: int = 8) -> str:
        return self.value(f"load {type_}, ptr {address}, align {align}")

    def store(self, x: str, address: str, type_: str, align: int = 8) -> None:
        self.emit(f"store {type_} {x}, ptr {address}, align {align}")

    def load_row(self, address: str, dtype: Any, lane: bool = True) -> str:
        """Numbers of a row in the type that the function computes in."""
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            x = self.load(address, self.type("float64", lane))
            return x if dtype == np.float64 else self._cast("fptrunc", x, "float64", dtype, lane)
        x = self.load(address, self.type("int64", lane))
        return x if dtype.itemsize == 8 else self._cast("trunc", x, "int64", dtype, lane)

    def store_row(self, x: str, address: str, dtype: Any, lane: bool = True) -> None:
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            x = x if dtype == np.float64 else self._cast("fpext", x, dtype, "float64", lane)
            self.store(x, address, self.type("float64", lane))
            return
        if dtype.itemsize < 8:
            x = self._cast("sext" if dtype.kind == "i" else "zext", x, dtype, "int64", lane)
        self.store(x, address, self.type("int64", lane))

    def _cast(self, op: str, x: str, source: Any, wanted: Any, lane: bool) -> str:
        return self.value(f"{op} {self.type(source, lane)} {x} to {self.type(wanted, lane)}")

    def spread(self, number: str, dtype: Any) -> str:
        """One number for all paths as a vector."""
        if self.width == 1:
            return number
        kind, vector = self.type(dtype, False), self.type(dtype)
        one = self.value(f"insertelement {vector} poison, {kind} {number}, i32 0")
        return self.value(f"shufflevector {vector} {one}, {vector} poison, <{self.width} x i32> zeroinitializer")

    @contextlib.contextmanager
    def counted(self, first: str | int, last: str | int, step: str | int = 1) -> Iterator[str]:
        """for (i = first; i < last; i += step), possibly never."""
        head, body, end, before = self.fresh("head"), self.fresh("body"), self.fresh("end"), self.block
        i, following = "%" + self.fresh("i"), "%" + self.fresh("i")
        self.jump(head)
        self.open(head)
        place = len(self.lines)
        self.lines.append("")
        self.branch(self.value(f"icmp slt i64 {i}, {last}"), body, end)
        self.open(body)
        yield i
        self.emit(f"{following} = add nsw i64 {i}, {step}")
        self.lines[place] = f"  {i} = phi i64 [ {first}, %{before} ], [ {following}, %{self.block} ]"
        self.jump(head)
        self.open(end)

    def text(self, signature: str) -> str:
        return "\n".join([f"define {signature} {{", "entry:", *self.head, *self.lines, "}", ""])


def short(type_: str) -> str:
    """<4 x double> -> v4f64, as the names of intrinsics end."""
    words = {"double": "f64", "float": "f32"}
    if not type_.startswith("<"):
        return words.get(type_, type_)
    n, _, kind = type_[1:-1].partition(" x ")
    return f"v{n}{words.get(kind, kind)}"


class Printer(Walk):
    """Prints nodes into a writer; `inputs` gives the value of an input where it is first asked for.

    results  everything that will be requested, which determines the readers of each node
    leading  those of the results that have the same bits whatever else is requested; None: all
    homes    of entries of branches that stay in memory, by loop and place, the row where each lies
    """

    def __init__(
        self, writer: Writer, results: Sequence[Entry], inputs: Callable[[Node], str],
        leading: Sequence[Entry] | None = None,
    ):  # fmt: skip
        super().__init__(results, inputs, leading)
        self.w = writer
        self.homes: dict[tuple[int, int], str] = {}
        self._part: _Part | None = None
        self.wanted: dict[int, list[int]] = {}  # the entries of each loop that are read after it
        for node in self.nodes:
            if node.op == "result":
                bisect.insort(self.wanted.setdefault(node.attr[0].number, []), node.attr[1])
        turns = {(node.op, id(node.args[0])): node for node in self.nodes if node.op in TWINS}
        self.twins = {id(node): turns.get((TWINS[op], of)) for (op, of), node in turns.items()}

    # --- operands -----------------------------------------------------------------------------------------------------

    def read(self, entry: Entry, lane: bool = True) -> str:
        """An operand: a vector over the paths, or one number where `lane` is False (and the entry is one)."""
        value = value_of(entry)
        if value is not None:
            return self.number(value, lane)
        key = key_of(entry)
        text = self.known_as(key)
        if text is None:
            self.need(entry)
            text = self.known_as(key)
        assert text is not None
        if lane and not entry.lane:
            spread = self.known_as((key, "spread"))
            if spread is None:
                spread = self.scopes[-1][key, "spread"] = self.w.spread(text, entry.dtype)
            return spread
        return text

    def number(self, value: np.generic, lane: bool = True) -> str:
        kind, dtype = KINDS[value.dtype], value.dtype
        is_loaded = lane and self._part is not None and self._part.loads_numbers
        if is_loaded and dtype == np.float64 and not is_immediate(float(value)):
            return self._from_table(float(value))
        if dtype == np.bool_:
            text = "true" if value else "false"
        elif dtype.kind in "iu":
            text = str(int(value))
        else:
            text = f"0x{np.float64(value).view(np.uint64):016X}"
        return f"splat ({kind} {text})" if lane and self.w.width > 1 else text

    def any(self, mask: str) -> str:
        return (
            mask
            if self.w.width == 1
            else self.w.call(f"llvm.vector.reduce.or.v{self.w.width}i1", "i1", (self.w.type("bool"), mask))
        )

    # --- printing -----------------------------------------------------------------------------------------------------

    def operation(self, node: Node) -> str:
        operands = [self.read(a, node.lane) for a in node.args]
        rule = OPERATIONS.get(node.op)
        if rule is not None:
            return rule(self.w, node, *operands)
        T, width = self.w.type(node.dtype, node.lane), self.w.width if node.lane else 1
        twin = self.twins.get(id(node))
        if twin is not None:
            return self._sin_and_cos(node, twin, T, width, operands[0])
        self.w.elementary.add((node.op, width))
        arguments = ", ".join(f"{T} {x}" for x in operands)
        return self.w.value(f"call {T} @{elementary.call_name(node.op, width)}({arguments})")

    def _sin_and_cos(self, node: Node, twin: Node, T: str, width: int, x: str) -> str:
        """One of them; where the other is needed too, it is printed and named as well."""
        self.w.elementary.add((elementary.SIN_AND_COS, width))
        both = f"{{ {T}, {T} }}"
        pair = self.w.value(f"call {both} @{elementary.call_name(elementary.SIN_AND_COS, width)}({T} {x})")
        sine, cosine = (self.w.value(f"extractvalue {both} {pair}, {k}") for k in (0, 1))
        self.name(twin, cosine if node.op == "sin" else sine)
        return sine if node.op == "sin" else cosine

    def fusion(self, node: Node) -> str:
        """a·b + c in one rounding, with the signs of a subtraction."""
        fusion, T = self.fused[id(node)], self.w.type(node.dtype, node.lane)
        a, b, c = (self.read(x, node.lane) for x in fusion.operands)
        if fusion.minus_product:
            a = self.w.value(f"fneg {T} {a}")
        if fusion.minus_rest:
            c = self.w.value(f"fneg {T} {c}")
        return self.w.call(f"llvm.fma.{short(T)}", T, (T, a), (T, b), (T, c))

    def loop(self, loop: Loop) -> None:
        """Turns while any of the paths is active; where no path enters, nothing of the loop is computed."""
        if loop.is_branch:
            self._branch(loop)
            return
        w, types = self.w, [self.w.type(node.dtype) for node in loop.carried]
        first, enters = [self.read(e) for e in loop.first], self.read(loop.enters)
        is_sure = value_of(loop.enters) is not None
        outside, inside, head, end = w.block, w.fresh("enter"), w.fresh("turn"), w.fresh("left")
        if not is_sure:
            w.branch(self.any(enters), inside, end)
            w.open(inside)
        with contextlib.nullcontext() if is_sure else self.scope():
            for node in loop.outside:
                self.need(node)
            before = w.block
            w.jump(head)
            w.open(head)
            with self.scope():
                names = [f"%{w.fresh('c')}" for _ in types]
                active = f"%{w.fresh('c')}"
                place = len(w.lines)
                w.lines += [""] * (len(types) + 1)
                self.name(loop.active, active if w.width > 1 else "true")  # a path alone is in a turn only if active
                for node, name in zip(loop.carried, names, strict=True):
                    self.name(node, name)
                after, goes_on = [self.read(e) for e in loop.after], self.read(loop.goes_on)
                mask = w.type("bool")
                phis = zip((*names, active), (*types, mask), (*first, enters), (*after, goes_on), strict=True)
                w.carry(place, before, phis)
                w.branch(self.any(goes_on), head, end)
                latch = w.block
        w.open(end)
        for k, (type_, start, new) in enumerate(zip(types, first, after, strict=True)):
            merged = new
            if not is_sure:
                merged = w.value(f"phi {type_} [ {start}, %{outside} ], [ {new}, %{latch} ]")
            self.scopes[-1][loop.number, k] = merged

    # --- branches: loops of one turn ----------------------------------------------------------------------------------

    def _branch(self, loop: Loop) -> None:
        """Computes the entries where a path needs it. Entries with a home are read and written there alone."""
        w = self.w
        wanted = self.wanted[loop.number]
        passed_on = [k for k in wanted if (loop.number, k) not in self.homes]
        first, enters = {k: self.read(loop.first[k]) for k in passed_on}, self.read(loop.enters)
        outside, inside, end = w.block, w.fresh("enter"), w.fresh("left")
        if loop.is_for_all:
            is_entered = self.read(loop.enters, False)
        else:
            is_entered = self._any_not_below(loop.enters) or self.any(enters)
        w.branch(is_entered, inside, end, rarely=True)
        w.open(inside)
        part = compiling.processor().register
        with self.scope():
            if self._part is None and w.width > part and not loop.is_for_all:
                after = self._in_parts(loop, wanted, first, part)
            else:
                after = self._once(loop, wanted, enters, first)
        before = w.block
        w.jump(end)
        w.open(end)
        for k in wanted:
            merged = "in memory"
            if k in first:
                type_ = w.type(loop.carried[k].dtype)
                merged = w.value(f"phi {type_} [ {first[k]}, %{outside} ], [ {after[k]}, %{before} ]")
            self.scopes[-1][loop.number, k] = merged

    def _any_not_below(self, entry: Entry) -> str | None:
        """Whether "not a < b" with one b for all paths holds for any of them, by the largest a; None for other tests,
        and where the processor has no maximum that keeps NaN."""
        below = entry.args[0] if isinstance(entry, Node) and entry.op == "not" else None
        if self.w.width == 1 or not isinstance(below, Node) or not compiling.processor().is_arm:
            return None
        a, b = below.args if below.op == "lt" else below.args[::-1] if below.op == "gt" else (None, None)
        if a is None or not isinstance(a, Node) or not a.lane or (isinstance(b, Node) and b.lane):
            return None
        T, one = self.w.type(a.dtype), self.w.type(a.dtype, False)
        largest = self.w.call(f"llvm.vector.reduce.fmaximum.{short(T)}", one, (T, self.read(a)))
        return self.w.value(f"fcmp uge {one} {largest}, {self.read(b, False)}")

    def _once(self, loop: Loop, wanted: Sequence[int], enters: str, first: dict[int, str]) -> dict[int, str]:
        """The entries after the turn."""
        w = self.w
        self.name(loop.active, enters if w.width > 1 else "true")
        for k, node in enumerate(loop.carried):
            if id(node) in self.readers:
                home = self.homes.get((loop.number, k))
                known = first[k] if k in first else w.load_row(home, node.dtype) if home else self.read(loop.first[k])
                self.name(node, known)
        after = {k: self.read(loop.after[k]) for k in wanted}
        for k in wanted:
            if (loop.number, k) in self.homes:
                w.store_row(after[k], self.homes[loop.number, k], loop.carried[k].dtype)
        return after

    def _in_parts(self, loop: Loop, wanted: Sequence[int], first: dict[int, str], part: int) -> dict[int, str]:
        """The entries after the turn, computed with few paths together, those of one register: as a rule, one of many
        needs the turn. What is taken from outside passes through memory."""
        w, whole = self.w, self.w.width
        elsewhere = self._read_at_home()
        for node in reachable(loop.after):  # inputs are loaded for all paths together
            if node.op == "input" and node.lane and id(node) not in elsewhere:
                self.need(node)
        homes = {k: self.homes.get((loop.number, k)) or self._slot() for k in wanted}
        for k, x in first.items():
            w.store_row(x, homes[k], loop.carried[k].dtype)
        self._part = _Part(len(self.scopes), {key_of(node): node for node in self.nodes if node.lane}, whole, part)
        place = len(w.lines)
        with w.counted(0, whole, part) as lane, self.scope():
            self._part.lane, w.width = lane, part
            some, following = w.fresh("some"), w.fresh("next")
            enters = self.read(loop.enters)
            w.branch(self.any(enters), some, following, rarely=True)
            w.open(some)
            with self.scope():
                here = {k: w.at(home, lane, 8) for k, home in homes.items()}
                homes_before, self.homes = self.homes, self.homes | {(loop.number, k): home for k, home in here.items()}
                self._once(loop, wanted, enters, {})
                self.homes = homes_before
            w.jump(following)
            w.open(following)
            w.width = whole
        w.lines[place:place] = self._part.stores
        self._part = None
        return {k: w.load_row(homes[k], loop.carried[k].dtype) for k in first}

    def _read_at_home(self) -> set[int]:
        """The nodes of entries with a home, which only their own branch reads."""
        results = [node.attr for node in self.nodes if node.op == "result"]
        return {id(loop.first[place]) for loop, place in results if (loop.number, place) in self.homes}

    def operands(self, node: Node) -> list[Entry]:
        if node.op != "result":
            return super().operands(node)
        loop = node.attr[0]
        return [loop.enters, *(e for k, e in enumerate(loop.first) if (loop.number, k) not in self.homes)]

    def _from_table(self, number: float) -> str:
        w = self.w
        w.table = w.table or Table(f"sd_numbers_of_{w.name}")
        at = self.known_as("table")
        if at is None:
            at = self.scopes[-1]["table"] = w.load(f"@{w.table.symbol}.at", "ptr")
        return w.load(w.at(at, w.table.offset(number)), w.type("float64"), 16)

    def _slot(self) -> str:
        """Memory for a number of each path of the vector."""
        name = f"%{self.w.fresh('slot')}"
        self.w.head.append(f"  {name} = alloca [{self.w.width} x double], align 64")
        return name

    def known_as(self, key: Any) -> str | None:
        part = self._part
        if part is None or part.lane is None:
            return super().known_as(key)
        value = first_of(key, self.scopes[part.floor :])
        if value is not None or (isinstance(key, tuple) and key[1] == "spread"):
            return value
        value = first_of(key, self.scopes[: part.floor])
        if value is None or key not in part.lanes:
            return value
        return self._part_of(key, value)

    def _part_of(self, key: Any, whole: str) -> str:
        """A part of a value known outside, by way of memory."""
        w, part = self.w, self._part
        assert part is not None and part.lane is not None
        dtype = part.lanes[key].dtype
        if key not in part.slots:
            w.width, lines = part.whole, w.lines
            part.slots[key], w.lines = self._slot(), part.stores
            w.store_row(whole, part.slots[key], dtype)
            w.width, w.lines = part.width, lines
        value = self.scopes[-1][key] = w.load_row(w.at(part.slots[key], part.lane, 8), dtype)
        return value


class _Part:
    """A branch that is being printed for a part of the paths: scopes below `floor` hold values of all of them.

    lanes   the nodes that differ from path to path, by key
    slots   where values from outside are kept, and `stores`, the lines that put them there
    """

    def __init__(self, floor: int, lanes: dict[Any, Node], whole: int, width: int):
        self.floor, self.lanes, self.whole, self.width = floor, lanes, whole, width
        self.loads_numbers = compiling.processor().is_arm
        self.lane: str | None = None
        self.slots: dict[Any, str] = {}
        self.stores: list[str] = []


# --- the table of operations: node -> instruction ---------------------------------------------------------------------


def _types(w: Writer, node: Node) -> tuple[str, np.dtype]:
    """The type of the first operand, and what kind of number it is."""
    dtype = node.args[0].dtype
    return w.type(dtype, node.lane), dtype


def _arithmetic(real: str, whole: str) -> Callable[..., str]:
    def rule(w: Writer, node: Node, a: str, b: str) -> str:
        T, dtype = _types(w, node)
        if dtype == np.bool_ and whole in ("add", "mul"):  # of truth values: either, both
            return w.value(f"{'or' if whole == 'add' else 'and'} {T} {a}, {b}")
        return w.value(f"{real if dtype.kind == 'f' else whole} {T} {a}, {b}")

    return rule


def _div(w: Writer, node: Node, a: str, b: str) -> str:
    T, dtype = _types(w, node)
    return w.value(f"fdiv {T} {a}, {b}") if dtype.kind == "f" else _whole_division(w, node, "div", T, dtype, a, b)


def _rem(w: Writer, node: Node, a: str, b: str) -> str:
    T, dtype = _types(w, node)
    return w.value(f"frem {T} {a}, {b}") if dtype.kind == "f" else _whole_division(w, node, "rem", T, dtype, a, b)


def _splat(type_: str, number: int) -> str:
    return f"splat ({type_.split(' x ')[1][:-1]} {number})" if type_.startswith("<") else str(number)


def _whole_division(w: Writer, node: Node, op: str, T: str, dtype: Any, a: str, b: str) -> str:
    """Divide whole numbers as XLA does: x/0 = -1 (all bits set), x % 0 = x, and the least number over -1 is itself."""
    mask, zero, one = w.type("bool", node.lane), _splat(T, 0), _splat(T, 1)
    none = w.value(f"icmp eq {T} {b}, {zero}")
    unsafe = none
    if dtype.kind == "i":
        least = _splat(T, int(np.iinfo(dtype).min))
        over = w.value(f"icmp eq {T} {b}, {_splat(T, -1)}")
        edge = w.value(f"icmp eq {T} {a}, {least}")
        unsafe = w.value(f"or {mask} {none}, {w.value(f'and {mask} {over}, {edge}')}")
    safe = w.value(f"select {mask} {unsafe}, {T} {one}, {T} {b}")
    quotient = w.value(f"{'s' if dtype.kind == 'i' else 'u'}{op} {T} {a}, {safe}")
    return w.value(f"select {mask} {none}, {T} {_splat(T, -1) if op == 'div' else a}, {T} {quotient}")


def _neg(w: Writer, node: Node, a: str) -> str:
    T, dtype = _types(w, node)
    return w.value(f"fneg {T} {a}") if dtype.kind == "f" else w.value(f"sub {T} {_splat(T, 0)}, {a}")


def _intrinsic(name: str) -> Callable[..., str]:
    def rule(w: Writer, node: Node, *operands: str) -> str:
        T, _ = _types(w, node)
        return w.call(f"llvm.{name}.{short(T)}", T, *((T, x) for x in operands))

    return rule


def _abs(w: Writer, node: Node, a: str) -> str:
    T, dtype = _types(w, node)
    if dtype.kind == "f":
        return w.call(f"llvm.fabs.{short(T)}", T, (T, a))
    return a if dtype.kind in "ub" else w.call(f"llvm.abs.{short(T)}", T, (T, a), ("i1", "false"))


def _extreme(word: str) -> Callable[..., str]:
    def rule(w: Writer, node: Node, a: str, b: str) -> str:
        T, dtype = _types(w, node)
        if dtype == np.bool_:
            return w.value(f"{'or' if word == 'max' else 'and'} {T} {a}, {b}")
        if w.width == 1 and word == "max" and all(map(_is_size, node.args)):
            return _largest_size(w, a, b, dtype)
        name = f"{word}imum" if dtype.kind == "f" else f"{'s' if dtype.kind == 'i' else 'u'}{word}"
        return w.call(f"llvm.{name}.{short(T)}", T, (T, a), (T, b))

    return rule


def _is_size(entry: Entry) -> bool:
    """Whether it is a real number of sign +, or NaN without a sign."""
    if not isinstance(entry, Node):
        return bool(entry.dtype.kind == "f" and entry > 0)
    return entry.op == "abs" or (entry.op == "max" and all(map(_is_size, entry.args)))


def _largest_size(w: Writer, a: str, b: str, dtype: np.dtype) -> str:
    """Print the larger of two sizes by comparing their words, in whose order NaN comes last: a GPU has no maximum that
    keeps NaN."""
    real, word = w.type(dtype), w.type(f"int{8 * dtype.itemsize}")
    left, right = (w.value(f"bitcast {real} {x} to {word}") for x in (a, b))
    above = w.value(f"icmp sgt {word} {left}, {right}")
    return w.value(f"select i1 {above}, {real} {a}, {real} {b}")


def _sign(w: Writer, node: Node, a: str) -> str:
    """±1; zeros and NaN stay as they are."""
    T, dtype = _types(w, node)
    mask = w.type("bool", node.lane)
    if dtype.kind == "f":
        one = f"0x{np.float64(1.0).view(np.uint64):016X}"
        one = f"splat ({KINDS[np.dtype(dtype)]} {one})" if T.startswith("<") else one
        unit = w.call(f"llvm.copysign.{short(T)}", T, (T, one), (T, a))
        zero = "zeroinitializer" if node.lane else "0.0"
        return w.value(f"select {mask} {w.value(f'fcmp one {T} {a}, {zero}')}, {T} {unit}, {T} {a}")
    greater = w.value(f"icmp {'sgt' if dtype.kind == 'i' else 'ugt'} {T} {a}, {_splat(T, 0)}")
    above = w.value(f"zext {mask} {greater} to {T}")
    if dtype.kind != "i":
        return above
    below = w.value(f"zext {mask} {w.value(f'icmp slt {T} {a}, {_splat(T, 0)}')} to {T}")
    return w.value(f"sub {T} {above}, {below}")


def _compare(real: str, whole: str) -> Callable[..., str]:
    def rule(w: Writer, node: Node, a: str, b: str) -> str:
        T, dtype = _types(w, node)
        if dtype.kind == "f":
            return w.value(f"fcmp {real} {T} {a}, {b}")
        signed = "" if whole in ("eq", "ne") else "s" if dtype.kind == "i" else "u"
        return w.value(f"icmp {signed}{whole} {T} {a}, {b}")

    return rule


def _not(w: Writer, node: Node, a: str) -> str:
    T, _ = _types(w, node)
    return w.value(f"xor {T} {a}, {_splat(T, -1)}")


def _select(w: Writer, node: Node, which: str, yes: str, no: str) -> str:
    T = w.type(node.dtype, node.lane)
    return w.value(f"select {w.type('bool', node.lane)} {which}, {T} {yes}, {T} {no}")


def _convert(w: Writer, node: Node, a: str) -> str:
    T, source = _types(w, node)
    R, out = w.type(node.dtype, node.lane), node.dtype
    if T == R:
        return a
    if out == np.bool_:
        zero = "zeroinitializer" if node.lane else "0.0" if source.kind == "f" else "0"
        return w.value(f"{'fcmp une' if source.kind == 'f' else 'icmp ne'} {T} {a}, {zero}")
    if out.kind == "f":
        op = "uitofp" if source.kind in "bu" else "sitofp" if source.kind == "i" else ""
        op = op or ("fpext" if out.itemsize > source.itemsize else "fptrunc")
    elif source.kind == "f":  # saturating, NaN to 0: plain conversions leave both undefined
        return w.call(f"llvm.fpto{'s' if out.kind == 'i' else 'u'}i.sat.{short(R)}.{short(T)}", R, (T, a))
    else:
        op = "trunc" if out.itemsize < source.itemsize else "zext" if source.kind in "bu" else "sext"
    return w.value(f"{op} {T} {a} to {R}")


def _bitcast(w: Writer, node: Node, a: str) -> str:
    T, _ = _types(w, node)
    R = w.type(node.dtype, node.lane)
    return a if T == R else w.value(f"bitcast {T} {a} to {R}")


def _clz(w: Writer, node: Node, a: str) -> str:
    T, _ = _types(w, node)
    return w.call(f"llvm.ctlz.{short(T)}", T, (T, a), ("i1", "false"))


OPERATIONS: dict[str, Callable[..., str]] = {
    "add": _arithmetic("fadd", "add"), "sub": _arithmetic("fsub", "sub"), "mul": _arithmetic("fmul", "mul"),
    "div": _div, "rem": _rem, "neg": _neg, "abs": _abs, "sqrt": _intrinsic("sqrt"), "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"), "round_even": _intrinsic("rint"), "round_away": _intrinsic("round"),
    "max": _extreme("max"), "min": _extreme("min"), "sign": _sign,
    "eq": _compare("oeq", "eq"), "ne": _compare("une", "ne"), "lt": _compare("olt", "lt"),
    "le": _compare("ole", "le"), "gt": _compare("ogt", "gt"), "ge": _compare("oge", "ge"),
    "and": _arithmetic("", "and"), "or": _arithmetic("", "or"), "xor": _arithmetic("", "xor"), "not": _not,
    "shl": _arithmetic("", "shl"), "lshr": _arithmetic("", "lshr"), "ashr": _arithmetic("", "ashr"),
    "select": _select, "convert": _convert, "bitcast": _bitcast,
    "population_count": _intrinsic("ctpop"), "clz": _clz,
}  # fmt: skip
