"""Scalar operations as a graph: the computation of a program for one path, each value once.

An entry of the graph is one of

    a number (np.generic)  known from the structure of the trace: a zero of a Jacobian or of a sparse matrix is exact,
                           so that 0·x = 0 whatever x is
    a literal node         a number written in a function, with the arithmetic of IEEE 754: 0·∞ is NaN
    a node                 an operation, an input, or a result of a loop

Nodes are made by `make` alone, which folds known numbers and gives one node to equal operations.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

Entry = Any  # a Node or a np.generic
STEP_LENGTH = ("h", 0)  # the name of the input that is the length of a step


class Node:
    """One scalar operation.

    lane   whether it may differ from path to path; otherwise one number serves all paths
    moves  whether it may change from step to step
    loops  the numbers of the loops on whose turns it depends
    noise  whether it differs from path to path by normals alone
    """

    __slots__ = ("args", "attr", "dtype", "lane", "loops", "moves", "noise", "op")

    def __init__(self, op: str, dtype: np.dtype, args: tuple[Entry, ...], attr: Any, lane: bool, moves: bool,
                 loops: frozenset[int], noise: bool = False):  # fmt: skip
        self.op, self.dtype, self.args, self.attr = op, dtype, args, attr
        self.lane, self.moves, self.loops, self.noise = lane, moves, loops, noise

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(a.op if isinstance(a, Node) else str(a) for a in self.args)})"


NOWHERE: frozenset[int] = frozenset()
SIGNED_PRODUCTS = ("mul", "neg")
BOOL, INT32 = np.dtype(bool), np.dtype(np.int32)


def is_known(entry: Entry) -> bool:
    """Whether an entry is a number known from the structure of the trace."""
    return isinstance(entry, np.generic)


def identity_of(entry: Entry) -> Any:
    """What two entries have in common where they are the same node, or the same known number."""
    return (entry.dtype.num, entry.tobytes()) if is_known(entry) else id(entry)


def value_of(entry: Entry) -> np.generic | None:
    """The number, where it is known or a literal."""
    if isinstance(entry, np.generic):
        return entry
    return entry.attr if entry.op == "literal" else None


@dataclasses.dataclass(frozen=True, eq=False)
class Loop:
    """while any path is active: turn; a path that is done keeps its values.

    first, after  of each carried entry its start, and its value after a turn (that of a done path is the old one)
    carried       the nodes that stand for the carried entries inside a turn
    active        the node that stands for "this path goes on" inside a turn; `enters` and `goes_on` are its
                  values before the first turn and after each
    outside       the nodes that the turns take from outside the loop
    """

    number: int
    first: list[Entry]
    after: list[Entry]
    carried: list[Node]
    active: Node
    enters: Entry
    goes_on: Entry
    outside: list[Node]

    @property
    def is_branch(self) -> bool:
        """Whether it turns once, for the paths that need it."""
        goes_on = value_of(self.goes_on)
        return goes_on is not None and not goes_on and value_of(self.enters) is None

    @property
    def is_for_all(self) -> bool:
        """Whether all paths enter it together, or none."""
        return isinstance(self.enters, Node) and not self.enters.lane


class Graph:
    """The nodes of one program, made once each."""

    def __init__(self) -> None:
        self._cache: dict[Any, Node] = {}
        self._numbers = itertools.count()

    # --- leaves -------------------------------------------------------------------------------------------------------

    def input(self, name: Any, dtype: Any, lane: bool = True, moves: bool = True, noise: bool = False) -> Node:
        """An input of the program: one node for each name."""
        key = ("input", name)
        if key not in self._cache:
            self._cache[key] = Node("input", np.dtype(dtype), (), name, lane, moves, NOWHERE, noise)
        return self._cache[key]

    def literal(self, number: Any) -> Node:
        """A number as it is written in a function."""
        key = ("literal", number.dtype.num, number.tobytes())
        if key not in self._cache:
            self._cache[key] = Node("literal", number.dtype, (), number, False, False, NOWHERE)
        return self._cache[key]

    # --- operations ---------------------------------------------------------------------------------------------------

    def make(self, op: str, dtype: Any, *args: Entry, attr: Any = None) -> Entry:
        """The result of an operation: simplified or known where that follows from the arguments."""
        dtype = np.dtype(dtype)
        simpler = SIMPLER.get(op)
        if simpler is not None:
            simplified = simpler(self, dtype, *args)
            if simplified is not None:
                return simplified
        if op in FOLDS and not any(value_of(a) is None for a in args):
            with np.errstate(all="ignore"):
                number = as_number(FOLDS[op](*map(value_of, args)), dtype)
            return number if all(map(is_known, args)) else self.literal(number)
        return self.intern(op, dtype, args, attr)

    def intern(self, op: str, dtype: np.dtype, args: tuple[Entry, ...], attr: Any = None) -> Node:
        names = [id(a) if isinstance(a, Node) else (a.dtype.num, a.tobytes()) for a in args]
        key = (op, dtype.num, *names, attr)
        node = self._cache.get(key)
        if node is None:
            lane, moves, loops, noise = False, False, NOWHERE, True
            for a in args:
                if isinstance(a, Node):
                    lane, moves, noise = lane or a.lane, moves or a.moves, noise and a.noise >= a.lane
                    if a.loops is not loops and a.loops:
                        loops = loops | a.loops if loops else a.loops
            node = self._cache[key] = Node(op, dtype, args, attr, lane, moves, loops, lane and noise)
        return node

    def convert(self, entry: Entry, dtype: Any) -> Entry:
        """The number in another type; integers from reals saturate, and NaN gives 0, as in XLA."""
        dtype = np.dtype(dtype)
        if entry.dtype == dtype:
            return entry
        value = value_of(entry)
        if value is None:
            return self.intern("convert", dtype, (entry,))
        number = converted(value, dtype)
        return number if is_known(entry) else self.literal(number)

    def product(self, dtype: Any, factors: Sequence[Entry]) -> Entry:
        return functools.reduce(lambda a, b: self.make("mul", dtype, a, b), factors)

    def select(self, which: Entry, yes: Entry, no: Entry, dtype: Any) -> Entry:
        return self.make("select", dtype, which, yes, no)

    def loop(
        self,
        first: Sequence[Entry],
        dtypes: Sequence[Any],
        turn: Callable[[list[Entry]], list[Entry]],
        goes_on: Callable[[list[Entry]], Entry],
        guess: Sequence[bool],
    ) -> list[Entry]:
        """The carried entries when no path goes on any more: turn(entries) -> entries, goes_on(entries) -> bool.

        Entries that no turn changes are not carried. Which ones a turn changes is guessed at first, and the turn is
        traced again where the guess proves wrong: loops inside it are traced as often as it is, so a good guess saves
        much. A known entry that is wrongly guessed to change is no longer known in the turn.
        """
        enters = goes_on(list(first))
        if value_of(enters) is not None and not value_of(enters):
            return list(first)
        moving = list(guess)
        stay = [False] * len(first)  # those that were guessed to move but did not
        while True:
            number = next(self._numbers)
            inside = frozenset([number])
            entries = [
                Node("carried", np.dtype(dtype), (), (number, k), True, True, inside) if moves else entry
                for k, (entry, dtype, moves) in enumerate(zip(first, dtypes, moving, strict=True))
            ]
            after = turn(entries)
            changed = [not _same(old, new) for old, new in zip(entries, after, strict=True)]
            idle = [
                moves and not was and (not moved or _same(begun, new))
                for begun, new, moves, moved, was in zip(first, after, moving, changed, stay, strict=True)
            ]
            now = [(m or c) and not i for m, c, i in zip(moving, changed, idle, strict=True)]
            if now == moving:
                break
            moving, stay = now, [was or i for was, i in zip(stay, idle, strict=True)]
        active = Node("carried", BOOL, (), (number, -1), True, True, inside)
        masked = [
            self.select(active, new, old, dtype) if moves else old
            for old, new, dtype, moves in zip(entries, after, dtypes, moving, strict=True)
        ]
        if isinstance(enters, Node) and not enters.lane and _is_no(goes_on(after)):
            masked = after  # all paths take the one turn, or none
        goes_on_for_any = self.make("and", BOOL, active, goes_on(masked))
        begun, left, carried = (list(itertools.compress(all_of, moving)) for all_of in (first, masked, entries))
        loop = Loop(
            number, begun, left, carried, active, enters, goes_on_for_any, _outside([*left, goes_on_for_any], number)
        )
        used = tuple(a for a in (enters, *begun, *loop.outside) if isinstance(a, Node))
        loops = frozenset().union(*(a.loops for a in used)) - inside
        moves = any(a.moves for a in used)
        kinds = itertools.compress(dtypes, moving)
        results = iter(
            [Node("result", np.dtype(d), used, (loop, place), True, moves, loops) for place, d in enumerate(kinds)]
        )
        return [next(results) if moves else entry for moves, entry in zip(moving, first, strict=True)]


def _is_no(entry: Entry) -> bool:
    """Whether a truth value is known to be false."""
    value = value_of(entry)
    return value is not None and not value


def _same(a: Entry, b: Entry) -> bool:
    return a is b or (is_known(a) and is_known(b) and a.dtype == b.dtype and a.tobytes() == b.tobytes())


def _outside(results: Sequence[Entry], number: int) -> list[Node]:
    """The nodes outside loop `number` that are used by nodes depending on its turns, or are results of them."""
    outside: dict[int, Node] = {}
    visited: set[int] = set()
    stack = [r for r in results if isinstance(r, Node)]
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if number not in node.loops:
            if node.op != "literal":
                outside[id(node)] = node
        else:
            stack += [a for a in node.args if isinstance(a, Node)]
    return list(outside.values())


def reachable(results: Sequence[Entry], rare: bool = True) -> list[Node]:
    """Every node that the results need, turns of loops included; arguments come before what uses them.

    Without `rare` ones, loops that a path may pass by are left out, with what they alone need: fall-backs, which few
    paths enter.
    """
    order: list[Node] = []
    begun: set[Node] = set()
    ended: set[Node] = set()
    stack: list[Node] = [r for r in results if isinstance(r, Node)]
    while stack:
        node = stack[-1]
        if node in begun:
            stack.pop()
            if node not in ended:
                ended.add(node)
                order.append(node)
            continue
        begun.add(node)
        needed = node.args
        if node.op == "result":
            loop = node.attr[0]
            if rare or value_of(loop.enters) is not None:
                needed = (*needed, *loop.after, loop.goes_on)
            else:
                needed = (loop.enters, *loop.first)
        stack += [a for a in needed if isinstance(a, Node) and a not in begun]
    return order


# --- what is simpler than an operation: None means "compute it" -------------------------------------------------------


def _is(entry: Entry, number: float) -> bool:
    """Whether an entry is that number by structure."""
    return isinstance(entry, np.generic) and bool(entry == number)


def _is_number(entry: Entry, number: float) -> bool:
    """Whether an entry is that number by structure or as a literal, the sign of zero included."""
    value = value_of(entry)
    return value is not None and bool(value == number) and bool(np.signbit(value) == np.signbit(number))


def _zero(dtype: np.dtype) -> np.generic:
    return dtype.type(0)


def _add(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    if _is(a, 0) or (dtype.kind != "f" and _is_number(a, 0)):
        return b
    if _is(b, 0) or (dtype.kind != "f" and _is_number(b, 0)):
        return a
    return _with_noise_as_factor(graph, dtype, a, b) if dtype.kind == "f" else None


def _sub(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    if _is(b, 0) or _is_number(b, 0.0):
        return a
    return graph.make("neg", dtype, b) if _is(a, 0) and dtype.kind == "f" else None


def _with_noise_as_factor(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    """h s + W (β s) as s (h + β W): a drift and a noise with a common factor s, as a fluctuating rate gives them. The
    sum of step and noise then serves all components and stages. A sign of such terms goes to what they are added to."""
    if _is_lane(a) and _is_lane(b) and a.op in SIGNED_PRODUCTS and b.op in SIGNED_PRODUCTS:
        one, other = _noisy_term(a), _noisy_term(b)
        if one is not None and other is not None and one.factor is other.factor and (one.noise or other.noise):
            return _product_with_noise(graph, dtype, *sorted((one, other), key=lambda term: len(term.noise)))
    if not _is_negative_noise(b):
        return graph.make("sub", dtype, b, a.args[0]) if _is_negative_noise(a) else None
    if not _is_negative_noise(a):
        return graph.make("sub", dtype, a, b.args[0])
    return graph.make("neg", dtype, graph.make("add", dtype, a.args[0], b.args[0]))


def _product_with_noise(graph: Graph, dtype: np.dtype, one: _NoisyTerm, other: _NoisyTerm) -> Entry:
    sums = "add" if one.is_negative == other.is_negative else "sub"
    total = graph.make(sums, dtype, *(graph.product(dtype, [*term.uniform, *term.noise]) for term in (one, other)))
    product = graph.make("mul", dtype, total, one.factor)
    return graph.make("neg", dtype, product) if one.is_negative else product


def _is_negative_noise(entry: Entry) -> bool:
    """Whether an entry is the negative of a sum of products with noise."""
    if not (isinstance(entry, Node) and entry.op == "neg"):
        return False
    term = entry.args[0]
    while isinstance(term, Node) and term.op == "add":
        term = term.args[0]
    return _is_lane(term) and term.op == "mul" and _is_lane(term.args[0]) and term.args[0].noise


class _NoisyTerm(NamedTuple):
    """A product of one factor that depends on the state, numbers that all paths share, and noise."""

    factor: Node
    uniform: list[Entry]
    noise: list[Entry]
    is_negative: bool


def _noisy_term(entry: Node) -> _NoisyTerm | None:
    uniform, noise, others, negative, stack = list[Entry](), list[Entry](), list[Node](), False, [entry]
    while stack:
        part = stack.pop()
        if isinstance(part, Node) and part.op == "neg":
            negative = not negative
            stack.append(part.args[0])
        elif not _is_lane(part):
            uniform.append(part)
        elif part.op == "mul":
            stack += part.args[::-1]
        elif part.noise:
            noise.append(part)
        elif others:
            return None
        else:
            others.append(part)
    return _NoisyTerm(others[0], uniform, noise, negative) if others and (uniform or noise) else None


def _mul(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    if _is(a, 0) or _is(b, 0):
        return _zero(dtype)
    if _is_number(a, 1):
        return b
    if _is_number(b, 1):
        return a
    if dtype.kind != "f":
        return None
    for one, other in ((a, b), (b, a)):
        if _is_number(one, -1):
            return graph.make("neg", dtype, other)
        if not _is_lane(one) and _is_lane(other) and other.op == "neg":  # the sign goes where all paths share it
            return graph.make("mul", dtype, graph.make("neg", dtype, one), other.args[0])
    return None


def _is_lane(entry: Entry) -> bool:
    return isinstance(entry, Node) and entry.lane


def _div(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    if _is_number(b, 1):
        return a
    if dtype.kind != "f":
        return None
    if _is(a, 0) and not is_known(b):
        return _zero(dtype)
    if isinstance(b, Node) and b.op == "select":  # the derivatives of max and min are divided by 1, or by 2 at a tie
        inverses = [_exact_inverse(entry, dtype) for entry in b.args[1:]]
        if None not in inverses:
            return graph.make("mul", dtype, a, graph.make("select", dtype, b.args[0], *inverses))
    return None


def _exact_inverse(entry: Entry, dtype: np.dtype) -> np.generic | None:
    """1/x of a literal power of two, by which multiplying gives the bits of dividing by x; None of any other entry."""
    value = value_of(entry)
    if value is None or not np.isfinite(value) or abs(np.frexp(value)[0]) != 0.5:
        return None
    inverse = dtype.type(1) / value
    limits = np.finfo(dtype)
    return inverse if limits.smallest_normal <= abs(inverse) <= limits.max else None


def _neg(graph: Graph, dtype: np.dtype, a: Entry) -> Entry | None:
    return a.args[0] if isinstance(a, Node) and a.op == "neg" else None


def _select(graph: Graph, dtype: np.dtype, which: Entry, yes: Entry, no: Entry) -> Entry | None:
    value = value_of(which)
    if value is not None:
        return yes if value else no
    if _same(yes, no):
        return yes
    if dtype == BOOL:
        if _is_number(yes, True) and _is_number(no, False):
            return which
        if _is_number(yes, False) and _is_number(no, True):
            return graph.make("not", BOOL, which)
        if no is which:
            return graph.make("and", BOOL, which, yes)
    return None


def _and(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    if dtype != BOOL:
        return None
    if _is_number(a, True) or a is b:
        return b
    if _is_number(b, True):
        return a
    if isinstance(b, Node) and b.op == "select" and b.args[0] is a:
        return graph.make("and", BOOL, a, b.args[1])
    return np.False_ if _is_number(a, False) or _is_number(b, False) else None


def _or(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    if dtype != BOOL:
        return None
    if _is_number(a, False) or a is b:
        return b
    if _is_number(b, False):
        return a
    return np.True_ if _is_number(a, True) or _is_number(b, True) else None


def _gt(graph: Graph, dtype: np.dtype, a: Entry, b: Entry) -> Entry | None:
    """A truth value as a number that is compared with 0 is the truth value."""
    is_truth = isinstance(a, Node) and a.op == "convert" and a.args[0].dtype == BOOL
    return a.args[0] if is_truth and value_of(b) == 0 else None


def _not(graph: Graph, dtype: np.dtype, a: Entry) -> Entry | None:
    return a.args[0] if isinstance(a, Node) and a.op == "not" else None


SIMPLER: dict[str, Callable[..., Entry | None]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "neg": _neg, "select": _select, "and": _and, "or": _or,
    "not": _not, "gt": _gt,
}  # fmt: skip


def _whole_div(a: Any, b: Any) -> Any:
    """Divide integers as XLA does: towards zero, x/0 = -1."""
    if a.dtype.kind == "f":
        return a / b
    if b == 0:
        return a.dtype.type(-1) if a.dtype.kind == "i" else ~a.dtype.type(0)
    if a.dtype.kind == "i" and b == -1:
        return np.subtract(a.dtype.type(0), a)
    return a.dtype.type(int(abs(int(a)) // abs(int(b))) * (1 if (int(a) < 0) == (int(b) < 0) else -1))


def _rem(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return a if b == 0 else a.dtype.type(abs(int(a)) % abs(int(b)) * (-1 if int(a) < 0 else 1))


def _max(a: Any, b: Any) -> Any:
    """The maximum of two numbers, in which NaN wins, and +0 wins over -0."""
    return a + b if a.dtype.kind == "f" and a == 0 and b == 0 else np.maximum(a, b)


def _min(a: Any, b: Any) -> Any:
    return -_max(-a, -b) if a.dtype.kind == "f" else np.minimum(a, b)


def _round_away(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x) if np.isfinite(x) and whole != x else x


def _sign(x: Any) -> Any:
    return np.sign(x) if x.dtype.kind != "f" else (x if x == 0 or x != x else np.copysign(x.dtype.type(1), x))


def converted(value: Any, dtype: np.dtype) -> Any:
    """A number in another type, as XLA converts it."""
    if value.dtype.kind == "f" and dtype.kind in "iu":
        limits, number = np.iinfo(dtype), float(value)
        if not math.isfinite(number):
            return dtype.type(0 if math.isnan(number) else limits.max if number > 0 else limits.min)
        return dtype.type(min(max(int(number), int(limits.min)), int(limits.max)))
    with np.errstate(all="ignore"):
        return as_number(np.asarray(value).astype(dtype), dtype)


def as_number(x: Any, dtype: Any) -> np.generic:
    """One number in a type of NumPy's."""
    return cast(np.generic, np.asarray(x, dtype)[()])


# Operations that NumPy computes as every processor does. Elementary functions are not folded: a program has its own.
FOLDS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _whole_div, "rem": _rem, "neg": np.negative,
    "abs": np.abs, "sqrt": np.sqrt, "max": _max, "min": _min, "floor": np.floor, "ceil": np.ceil,
    "round_even": np.rint, "round_away": _round_away, "sign": _sign, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "select": lambda which, yes, no: yes if which else no,
}  # fmt: skip
