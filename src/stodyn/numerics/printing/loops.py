"""Loops over the entries of arrays as LLVM text: one counter for each long axis, a vector of paths innermost.

Values that do not depend on a counter are computed before its loop. Only values with a reader are stored.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stodyn.numerics.printing.arrays import Arrays, Buffer, Executed, Fold, Item, Loop, Total, Turns
from stodyn.numerics.printing.llvm import Printer, Writer, short
from stodyn.numerics.printing.nodes import Entry, Node, reachable
from stodyn.numerics.printing.rows import Function

WIDTH = 8  # paths taken together: a line of the cache, and enough independent chains for every processor
SKIPPED = ("literal", "carried", "counter")  # nodes that are not printed
EXECUTED = 20  # operations that the text of executed instructions counts for


class Program:
    """The items of a function of arrays that are needed for its stores outside the scratch, and for `results`.

    fixed       those that are the same in all steps; items: the others
    loops       how many there are; operations: nodes of all bodies
    scratch     numbers of a vector of paths that are used of it
    """

    def __init__(self, arrays: Arrays, results: Sequence[Entry] = ()):
        self.results = list(results)
        needed = _needed(arrays.items, _loaded(self.results))[0]
        self.fixed, self.items = [], []  # type: ignore[var-annotated]
        for item in needed:
            for part in _by_moving(item):
                (self.items if _moves(part) else self.fixed).append(part)
        self.items = [rest for item in self.items for rest in self._without_fixed(item)]
        self.scratch = 0
        placed: set[int] = set()
        for buffer in stored(needed):
            if buffer.name == "scratch" and id(buffer) not in placed:
                placed.add(id(buffer))
                buffer.first, self.scratch = (
                    self.scratch,
                    self.scratch + (buffer.size if buffer.lane else -(-buffer.size // WIDTH)),
                )
        self.loops = sum(isinstance(item, Loop) for item in _all(needed))
        self.wanted = [*self.results, *_entries(needed)]
        self.operations = len(reachable(self.wanted)) + EXECUTED * sum(isinstance(i, Executed) for i in _all(needed))

    def _without_fixed(self, item: Item) -> list[Item]:
        """An item without the instructions in its turns that are the same in all steps, which are executed before."""
        if not isinstance(item, Turns):
            return [item]
        before, turns = _executed_before(item)
        self.fixed += before
        return [turns]


def _executed_before(turns: Turns) -> tuple[list[Item], Turns]:
    """The instructions of turns that are the same in all steps and turns, such as the elimination of a matrix that
    never changes, behind the stores that they read; and the turns without them."""
    parts = [part for item in turns.body for part in _single_stores(item)]
    fixed = [part for part in parts if not (isinstance(part, Turns) or _moves(part) or _turns_with(turns, part))]
    while True:
        others = {id(b) for b in stored([dataclasses.replace(turns, body=[p for p in parts if p not in fixed])])}
        left = [part for part in fixed if not others & (_read(part) | _stored_in(part))]
        if len(left) == len(fixed):
            break
        fixed = left
    wanted: set[int] = set()
    before: list[Item] = []
    for part in reversed(fixed):
        if isinstance(part, Executed) or wanted & _stored_in(part):
            wanted |= _read(part)
            before.insert(0, part)
    gone = {id(store) for part in before if isinstance(part, Loop) for store in part.stores}
    body: list[Item] = []
    for item in turns.body:
        if isinstance(item, Loop):
            item = Loop(item.shape, item.counters, [store for store in item.stores if id(store) not in gone])
        if item not in before and not (isinstance(item, Loop) and not item.stores):
            body.append(item)
    return before, dataclasses.replace(turns, body=body)


def _single_stores(item: Item) -> list[Item]:
    return [Loop(item.shape, item.counters, [s]) for s in item.stores] if isinstance(item, Loop) else [item]


def _turns_with(turns: Turns, item: Item) -> bool:
    """Whether an item in turns depends on which turn it is, or on which paths make it."""
    return any(isinstance(entry, Node) and turns.number in entry.loops for entry in _entries([item]))


def _stored_in(item: Item) -> set[int]:
    return {id(buffer) for buffer in stored([item])}


def _read(item: Item) -> set[int]:
    """The buffers that a loop or instructions read."""
    return {id(item.state), id(item.fixed)} if isinstance(item, Executed) else _loaded(list(_entries([item])))


def _needed(items: Sequence[Item], read: set[int]) -> tuple[list[Item], set[int]]:
    """The items with only those stores that are read or belong to the caller; and the values read before them."""
    needed: list[Item] = []
    read = set(read)
    for item in reversed(items):
        if isinstance(item, Loop):
            stores = [s for s in item.stores if s[0].name != "scratch" or id(s[0].whole) in read]
            read |= _loaded([e for _, place, entry in stores for e in (place, entry)])
            if stores:
                needed.append(Loop(item.shape, item.counters, stores))
        elif isinstance(item, Executed):
            if id(item.state) in read:
                read.add(id(item.fixed))
                needed.append(item)
        elif any(buffer.name != "scratch" or id(buffer) in read for buffer in stored([item])):
            needed_turns, read = _needed_turns(item, read)
            needed.append(needed_turns)
    return needed[::-1], read


def _needed_turns(turns: Turns, read: set[int]) -> tuple[Turns, set[int]]:
    """The parts of turns that are needed: a value that is handed on is also needed where a later turn reads it."""
    while True:
        before = read
        copies, read = _needed(turns.copies, read)
        body, read = _needed(turns.body, read)
        condition, read = _needed(turns.condition, read | _loaded([turns.goes_on]))
        if read == before:
            return dataclasses.replace(turns, condition=condition, body=body, copies=copies), read


def _loaded(entries: Sequence[Any]) -> set[int]:
    return {id(node.attr.whole) for node in reachable(entries) if node.op == "load"}


def _all(items: Sequence[Item]) -> Iterator[Item]:
    """The items and those inside them."""
    for item in items:
        yield item
        if isinstance(item, Turns):
            yield from _all([*item.condition, *item.body, *item.copies])


def stored(items: Sequence[Item]) -> Iterator[Buffer]:
    """The buffers that items store to, in order."""
    for item in _all(items):
        if isinstance(item, Executed):
            yield item.state
        elif isinstance(item, Loop):
            for buffer, _, _ in item.stores:
                yield buffer.whole


def _entries(items: Sequence[Item]) -> Iterator[Entry]:
    """All entries that items need."""
    for item in _all(items):
        if isinstance(item, Loop):
            for _, *pair in item.stores:
                yield from pair
        elif isinstance(item, Turns) and item.goes_on is not None:
            yield item.goes_on


def has_loops_alone(program: Program) -> bool:
    """Whether a program has neither turns nor instructions that are executed."""
    return all(isinstance(item, Loop) for item in [*program.fixed, *program.items])


def _moves(item: Item) -> bool:
    """Whether what an item stores may change from step to step, or belongs to the caller."""
    if any(buffer.name != "scratch" or buffer.moves for buffer in stored([item])):
        return True
    return any(isinstance(entry, Node) and entry.moves for entry in _entries([item]))


def _by_moving(item: Item) -> list[Item]:
    """A loop as two: the stores that are the same in all steps, and the rest."""
    if not isinstance(item, Loop):
        return [item]
    parts = [Loop(item.shape, item.counters, [s for s in item.stores if _moves(Loop((), [], [s])) == moves])
             for moves in (False, True)]  # fmt: skip
    return [part for part in parts if part.stores]


class LoopPrinter(Printer):
    """Prints loops, turns and folds over the entries of buffers in a memory."""

    def __init__(
        self,
        writer: Writer,
        program: Program,
        inputs: Callable[[Node], str],
        memory: Memory,
    ):
        super().__init__(writer, program.wanted, inputs)
        self.program, self.load, self.gather, self.store = program, memory.load, memory.gather, memory.store
        self._present = {id(node) for node in self.nodes}
        self._opened: set[int] = set()

    def before_steps(self) -> None:
        """Print the items that are the same in all steps."""
        self._print_before(self.nodes, [*self.program.fixed, *self.program.items], moves=False)
        self.write(self.program.fixed)

    def step(self) -> None:
        """Print a step."""
        self._print_before(self.nodes, self.program.items)
        self.write(self.program.items)

    def _print_before(self, nodes: Sequence[Node], items: Sequence[Item], moves: bool = True) -> None:
        """Print the nodes that depend only on open loops and on nothing that the items store."""
        stored_ids = {id(buffer) for buffer in stored(items)}
        later: set[int] = set()
        folds: set[int] = set()  # with a total that comes later: all of a fold's are printed together
        while True:
            before = len(later)
            for node in nodes:
                is_later = (node.op == "load" and id(node.attr.whole) in stored_ids) or any(
                    id(a) in later for a in node.args
                )
                if is_later or (node.op == "folded" and id(node.attr) in folds):
                    later.add(id(node))
                    if node.op == "folded":
                        folds.add(id(node.attr))
            if len(later) == before:
                break
        for node in nodes:
            is_asked = node.op not in SKIPPED and node.loops <= self._opened and (moves or not node.moves)
            if is_asked and id(node) not in later:
                self.need(node)

    def write(self, items: Sequence[Item]) -> None:
        """Print items one after another."""
        for item in items:
            if isinstance(item, Loop):
                self._loop(item)
            elif isinstance(item, Turns):
                self._turns(item)
            else:
                self._execute(item)

    def _loop(self, loop: Loop) -> None:
        nodes = reachable([e for _, *pair in loop.stores for e in pair])
        with contextlib.ExitStack() as stack:
            for number, counter, length in loop.counters:
                self._hoist(nodes)
                stack.enter_context(self._counting(number, counter, length))
            for buffer, place, entry in loop.stores:
                self.store(buffer, self.read(place, False), self.read(entry, buffer.lane))

    def _turns(self, turns: Turns) -> None:
        """A counted number of turns, or turns while any path goes on; where none does, nothing is computed."""
        inside = [*turns.body, *turns.copies]
        nodes = reachable(list(_entries(inside)))
        if turns.length is not None:
            self._print_before(nodes, inside)
            with self._counting(turns.number, turns.counter, turns.length):
                self.write(inside)
            return
        w, lane = self.w, turns.active.lane
        enter, turn, end = w.fresh("enter"), w.fresh("turn"), w.fresh("ended")
        first = self._branch_where_needed(turns, enter, end)
        w.open(enter)
        with self.scope():
            self._print_before(nodes, [turns])
            before = w.block
            w.jump(turn)
            w.open(turn)
            place, active = len(w.lines), f"%{w.fresh('active')}"
            w.lines.append("")
            with self.scope():
                self.name(turns.active, active)
                self._opened.add(turns.number)
                self.write(inside)
                self._opened.remove(turns.number)
            goes_on = self._branch_where_needed(turns, turn, end)
            w.lines[place] = (
                f"  {active} = phi {w.type('bool', lane)} [ {first}, %{before} ], [ {goes_on}, %{w.block} ]"
            )
        w.open(end)

    def _branch_where_needed(self, turns: Turns, yes: str, no: str) -> str:
        """Whether paths go on, and the branch to where they do."""
        lane = turns.active.lane
        with self.scope():
            self._print_before(reachable(list(_entries(turns.condition))), turns.condition)
            self.write(turns.condition)
            goes_on = self.read(turns.goes_on, lane)
        self.w.branch(self.any(goes_on) if lane else goes_on, yes, no)
        return goes_on

    def _execute(self, item: Executed) -> None:
        """z = (base - Σ left right)/divisor for one instruction after another."""
        w, state, fixed = self.w, item.state, item.fixed
        number = w.type("float64", state.lane)

        def halves(word: str) -> tuple[str, str]:
            return w.value(f"and i64 {word}, 4294967295"), w.whole("lshr", word, 32)

        def factor(place: str) -> str:
            x = self.load(fixed, place)
            return w.spread(x, "float64") if state.lane and not fixed.lane else x

        with w.counted(0, item.count) as k:
            base, divisor = halves(self.load(item.words, k))
            first, last = self.load(item.ends, k), self.load(item.ends, w.whole("add", k, 1))
            begin = self.load(state, base)
            before, head, body, added = w.block, w.fresh("sum"), w.fresh("product"), w.fresh("added")
            p, z = f"%{w.fresh('p')}", f"%{w.fresh('z')}"
            w.jump(head)
            w.open(head)
            place = len(w.lines)
            w.lines += ["", ""]
            w.branch(w.value(f"icmp slt i64 {p}, {last}"), body, added)
            w.open(body)
            left, right = halves(self.load(item.products, p))
            minus = w.value(f"fneg {number} {factor(left)}")
            less = w.call(f"llvm.fma.{short(number)}", number, (number, minus), (number, self.load(state, right)),
                          (number, z))  # fmt: skip
            following = w.whole("add", p, 1)
            w.jump(head)
            w.lines[place] = f"  {p} = phi i64 [ {first}, %{before} ], [ {following}, %{body} ]"
            w.lines[place + 1] = f"  {z} = phi {number} [ {begin}, %{before} ], [ {less}, %{body} ]"
            w.open(added)
            dividing, done = w.fresh("divide"), w.fresh("made")
            w.branch(w.value(f"icmp eq i64 {divisor}, {item.one}"), done, dividing)
            w.open(dividing)
            quotient = w.value(f"fdiv {number} {z}, {factor(divisor)}")
            w.jump(done)
            w.open(done)
            result = w.value(f"phi {number} [ {z}, %{added} ], [ {quotient}, %{dividing} ]")
            self.store(state, w.whole("add", k, item.first), result)

    @contextlib.contextmanager
    def _counting(self, number: int, counter: Node, length: int) -> Iterator[None]:
        with self.w.counted(0, length) as i, self.scope():
            self.name(counter, i)
            self._opened.add(number)
            yield
            self._opened.remove(number)

    def _hoist(self, nodes: Sequence[Node]) -> None:
        """Print nodes that depend only on the counters of outer loops; numbers common to all paths as vectors too."""
        spread = {id(a) for node in nodes if node.lane for a in node.args if isinstance(a, Node) and not a.lane}
        for node in nodes:
            if node.op not in SKIPPED and node.loops <= self._opened:
                self.read(node, id(node) in spread and node.dtype.kind == "f")

    # --- nodes --------------------------------------------------------------------------------------------------------

    def operands(self, node: Node) -> list[Entry]:
        if node.op != "folded":
            return super().operands(node)
        fold: Fold = node.attr
        totals = self._totals(fold)
        return [fold.first, fold.last, *(t.start for t in totals), *self._outside(totals)]

    def _totals(self, fold: Fold) -> list[Total]:
        return [total for total in fold.totals if id(total.result) in self._present]

    def _outside(self, totals: Sequence[Total]) -> list[Node]:
        """The nodes that the turns of a fold take from outside: those that depend only on the loops around it."""
        outside: dict[int, Node] = {}
        visited: set[int] = set()
        stack: list[Any] = [total.after for total in totals]
        while stack:
            node = stack.pop()
            if not isinstance(node, Node) or id(node) in visited or node.op in SKIPPED:
                continue
            visited.add(id(node))
            if node.loops <= self._opened:
                outside[id(node)] = node
            else:
                stack += node.args
        return list(outside.values())

    def _print(self, node: Node) -> None:
        if node.op == "load":
            place = node.args[0]
            lane = isinstance(place, Node) and place.lane
            self.name(node, (self.gather if lane else self.load)(node.attr, self.read(place, lane)))
        elif node.op == "folded":
            self._fold(node.attr)
        else:
            super()._print(node)

    def _fold(self, fold: Fold) -> None:
        w, totals = self.w, self._totals(fold)
        first, last = self.read(fold.first, False), self.read(fold.last, False)
        starts = [self.read(t.start, t.carried.lane) for t in totals]
        types = [w.type(t.carried.dtype, t.carried.lane) for t in totals]
        before, head, body, end = w.block, w.fresh("fold"), w.fresh("term"), w.fresh("folded")
        i, names = f"%{w.fresh('k')}", [f"%{w.fresh('sum')}" for _ in totals]
        w.jump(head)
        w.open(head)
        place = len(w.lines)
        w.lines += [""] * (1 + len(totals))
        w.branch(w.value(f"icmp slt i64 {i}, {last}"), body, end)
        w.open(body)
        with self.scope():
            self.name(fold.counter, i)
            for total, name in zip(totals, names, strict=True):
                self.name(total.carried, name)
            self._opened.add(fold.number)
            after = [self.read(t.after, t.carried.lane) for t in totals]
            self._opened.remove(fold.number)
            following = w.value(f"add nsw i64 {i}, 1")
        phis = zip((i, *names), ("i64", *types), (first, *starts), (following, *after), strict=True)
        w.carry(place, before, phis)
        w.jump(head)
        w.open(end)
        for total, name in zip(totals, names, strict=True):
            self.name(total.result, name)


class Memory:
    """Where the buffers of a function stand: those `at_rows` [entry][lanes], the others [entry][eight paths].

    bases  of each kind of memory its address, where that is not a word of the frame
    lane   the first path of the vector
    """

    def __init__(self, w: Function, at_rows: Sequence[str], bases: dict[str, str], lane: str):
        self.w, self.at_rows, self.bases, self.lane = w, set(at_rows), bases, lane
        self.stride = w.whole("mul", w.count("stride"), 8)
        self.gathered = ""

    def address(self, buffer: Buffer, place: str) -> str:
        """The address of an entry: of its numbers for the vector of paths, or of its one number."""
        w, name = self.w, buffer.name
        base = self.bases[name] if name in self.bases else w.address("tables" if name == "table" else name)
        if buffer.lane and name in self.at_rows:
            return w.at(w.at(base, w.whole("mul", self.stride, plus(w, place, buffer.begin))), self.lane, 8)
        if buffer.lane:
            return w.value(f"getelementptr [{WIDTH} x double], ptr {base}, i64 {plus(w, place, buffer.begin)}")
        first = buffer.begin
        if name == "scratch":  # entries close together, from where a vector of paths would stand
            first += (WIDTH - 1) * buffer.whole.first
        return w.value(f"getelementptr double, ptr {base}, i64 {plus(w, place, first)}")

    def load(self, buffer: Buffer, place: str) -> str:
        return self.w.load_row(self.address(buffer, place), buffer.dtype, buffer.lane)

    def gather(self, buffer: Buffer, places: str) -> str:
        """The entry that each path asks for."""
        w, word = self.w, self.w.type("int64")
        if not self.gathered:
            self.gathered = f"%{w.fresh('gathered')}"
            w.head.append(f"  {self.gathered} = alloca {word}, align 64")
        for lane in range(WIDTH):
            place = w.value(f"extractelement {word} {places}, i32 {lane}")
            address = self.address(buffer, place)
            number = w.load(w.at(address, lane, 8) if buffer.lane else address, "i64")
            w.store(number, w.at(self.gathered, lane, 8), "i64")
        return w.load_row(self.gathered, buffer.dtype)

    def store(self, buffer: Buffer, place: str, x: str) -> None:
        self.w.store_row(x, self.address(buffer, place), buffer.dtype, buffer.lane)


def plus(w: Function, place: str, first: int) -> str:
    """The number of an entry from where others begin."""
    return place if not first else str(int(place) + first) if place.isdigit() else w.whole("add", place, first)


def mapped(name: str, program: Program, frame: Sequence[str], at_rows: Sequence[str]) -> Function:
    """The function that runs a program for all vectors of paths: for (lane = first_lane; lane < last_lane; ...).

    Inputs that are numbers are words of the frame: addresses of one number each.
    """
    w = Function(name, WIDTH, frame)

    def input_value(node: Node) -> str:
        return w.load_row(w.address(node.attr[0]), node.dtype, False)

    w.operations = program.operations
    with w.counted(w.count("first_lane"), w.count("last_lane"), WIDTH) as lane:
        printer = LoopPrinter(w, program, input_value, Memory(w, at_rows, {}, lane))
        printer.before_steps()
        printer.step()
    return w
