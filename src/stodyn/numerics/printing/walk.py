"""In which order the nodes of a graph are printed, whatever the language: depth first from the requested results.

A value is printed once in every region where it can be seen: before all loops, before a loop, inside it. A product that
has one reader, an addition, is printed with it as one fused operation, unless what it is added to is a product too.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stodyn.numerics.printing.nodes import STEP_LENGTH, Entry, Loop, Node, reachable, value_of

ROUNDED = "both products of a sum of two"  # what is rounded though it could be fused, for the records of runs
SUMS = ("add", "sub")
SCALE = ("mul", "div")
PASS_ON = ("neg", "abs", "select", "max", "min")  # operations whose result is an operand, up to its sign


class Walk(ABC):
    """Prints nodes; `inputs` gives the text of an input where it is first asked for.

    results  everything that will be requested, which determines the readers of each node
    leading  those of the results that have the same bits whatever else is requested; None: all
    """

    def __init__(self, results: Sequence[Entry], inputs: Callable[[Node], str], leading: Sequence[Entry] | None = None):
        self.inputs = inputs
        self.nodes = reachable(results)
        self.readers = readers_of(self.nodes, results)
        among = {} if leading is None else _readers_among(leading)
        self.fused = fusions(self.nodes, {**self.readers, **among})
        self.scopes: list[dict[Any, str]] = [{}]

    @abstractmethod
    def operation(self, node: Node) -> str:
        """Print an operation whose operands are printed; returns the name of its value."""

    @abstractmethod
    def fusion(self, node: Node) -> str:
        """Print a·b + c in one rounding, with the signs of a subtraction."""

    @abstractmethod
    def loop(self, loop: Loop) -> None:
        """Print a loop, and name its results."""

    # --- what stands where --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A region whose values are not seen after it."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def known_as(self, key: Any) -> str | None:
        for scope in reversed(self.scopes):  # the same as first_of, but for the time of a call
            if key in scope:
                return scope[key]
        return None

    def name(self, node: Node, text: str) -> None:
        self.scopes[-1][key_of(node)] = text

    # --- printing -----------------------------------------------------------------------------------------------------

    def need(self, node: Node) -> None:
        """Print the node, and before it the nodes it needs that are not yet visible here."""
        stack = [(node, False)]
        while stack:
            node, has_operands = stack.pop()
            if self.known_as(key_of(node)) is not None:
                continue
            missing = []
            if not has_operands:
                missing = [a for a in self.operands(node) if value_of(a) is None and self.known_as(key_of(a)) is None]
            if missing:
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(missing))
            else:
                self._print(node)

    def operands(self, node: Node) -> list[Entry]:
        """The nodes that must be printed before a node."""
        if node.op == "result":
            loop = node.attr[0]
            return [loop.enters, *loop.first]
        if id(node) in self.fused:
            return list(self.fused[id(node)].operands)
        return list(node.args)

    def _print(self, node: Node) -> None:
        if node.op == "result":
            self.loop(node.attr[0])
        elif node.op == "input":
            self.name(node, self.inputs(node))
        elif id(node) in self.fused:
            self.name(node, self.fusion(node))
        else:
            self.name(node, self.operation(node))


def first_of(key: Any, scopes: Sequence[Mapping[Any, str]]) -> str | None:
    """The text under a key in the innermost of the scopes that has it."""
    for scope in reversed(scopes):
        if key in scope:
            return scope[key]
    return None


def key_of(node: Node) -> Any:
    """The key under which a node is remembered: for a result of a loop, its loop and place."""
    return (node.attr[0].number, node.attr[1]) if node.op == "result" else id(node)


class Fusion:
    """A product that is fused with a sum, ±a·b ± c."""

    __slots__ = ("minus_product", "minus_rest", "operands")

    def __init__(self, operands: tuple[Entry, Entry, Entry], minus_product: bool, minus_rest: bool):
        self.operands, self.minus_product, self.minus_rest = operands, minus_product, minus_rest


def fusions(nodes: Sequence[Node], readers: Mapping[int, int]) -> dict[int, Fusion]:
    """The additions that take a product with them: one that nobody else reads, computed in the same place.

    A sum of products takes none of them, or x y - y x would not be 0: one would be rounded, and the other not.
    """
    fused: dict[int, Fusion] = {}
    products = _products(nodes)
    for node in nodes:
        if node.op not in SUMS or node.dtype.kind != "f" or all(id(a) in products for a in node.args):
            continue
        for place, term in enumerate(node.args):
            product, is_negative = _unsigned(term, readers)
            if not (isinstance(product, Node) and product.op == "mul" and readers[id(product)] == 1):
                continue
            if (product.loops, product.moves, product.lane) != (node.loops, node.moves, node.lane):
                continue
            minus = node.op == "sub"
            rest = node.args[1 - place]
            fused[id(node)] = Fusion((*product.args, rest), (minus and place == 1) != is_negative, minus and place == 0)
            break
    return fused


def _unsigned(term: Entry, readers: Mapping[int, int]) -> tuple[Entry, bool]:
    """A term without a sign that nobody else reads, and whether it has one."""
    if isinstance(term, Node) and term.op == "neg" and readers[id(term)] == 1:
        return term.args[0], True
    return term, False


def _products(nodes: Sequence[Node]) -> set[int]:
    """The nodes, by id, that are products as sums see them: rounded ones, up to their signs, and differences of such.

    A product with the length of the step or with noise, an increment, is none: what it is added to does not have the
    same factors, and never cancels it.
    """
    products: set[int] = set()
    increments = _increments(nodes)
    for node in nodes:
        among = [id(a) in products for a in node.args]
        is_one = node.op == "mul" or (node.op in PASS_ON and any(among))
        if id(node) not in increments and (is_one or (_is_difference(node) and all(among))):
            products.add(id(node))
    return products


def _increments(nodes: Sequence[Node]) -> set[int]:
    """The nodes, by id, that have the length of the step or noise as a factor."""
    increments: set[int] = set()
    for node in nodes:
        are = [id(a) in increments for a in node.args if value_of(a) is None]
        is_scaled = any(are) if node.op in SCALE else bool(are) and all(are)
        if is_scaled or node.noise or (node.op == "input" and node.attr == STEP_LENGTH):
            increments.add(id(node))
    return increments


def _is_difference(node: Node) -> bool:
    """Whether a sum of products subtracts one. To a sum of plain ones, such as a row of a matrix times a vector, more
    are added fused, which halves its cost."""
    return node.op == "sub" or (node.op == "add" and any(isinstance(a, Node) and a.op != "mul" for a in node.args))


def _readers_among(results: Sequence[Entry]) -> dict[int, int]:
    """How often each node that the results need is read on the way to them."""
    nodes = reachable(results)
    readers = readers_of(nodes, results)
    return {id(node): readers[id(node)] for node in nodes}


def readers_of(nodes: Sequence[Node], results: Sequence[Entry]) -> Counter[int]:
    """How often each node is read, by its id: by other nodes, by loops, and as a result."""
    readers: Counter[int] = Counter(id(r) for r in results)
    loops = {node.attr[0].number: node.attr[0] for node in nodes if node.op == "result"}
    for loop in loops.values():
        readers.update(map(id, (loop.enters, *loop.first, *loop.after, loop.goes_on)))
    for node in nodes:
        if node.op != "result":
            for argument in node.args:
                readers[id(argument)] += 1
    return readers
