"""The order in which coupled unknowns are computed: which follow from others, and which must be solved for at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Node = Any  # anything hashable
Needs = Mapping[Node, Iterable[Node]]  # node -> the nodes its equation y = φ(others) reads


class Block(NamedTuple):
    """Nodes that need one another: `unknowns` are solved for, `others` follow from them in this order."""

    unknowns: tuple[Node, ...]
    others: tuple[Node, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.unknowns + self.others


def blocks(needs: Needs) -> list[Block]:
    """The equations y = φ(others) in an order in which each block needs only itself and blocks before it.

    A block without unknowns is an explicit formula. Otherwise unknowns are removed until no cycle is left, one with the
    most ties first (the later one of two alike), so that as few as possible are solved for.
    """
    ordered_blocks = []
    for component in _components(needs):
        inside = {node: {other for other in needs[node] if other in component} for node in component}
        unknowns: list[Node] = []
        cyclic = [part for part in _components(inside) if _is_cycle(part, inside)]
        while cyclic:
            part = cyclic[0]
            forced = [node for node in part if node in inside[node]]
            node = forced[0] if forced else max(reversed(part), key=lambda node: _ties(node, part, inside))
            unknowns.append(node)
            inside = {a: reads - {node} for a, reads in inside.items() if a != node}
            cyclic = [part for part in _components(inside) if _is_cycle(part, inside)]
        order = {node: number for number, node in enumerate(needs)}
        unknowns.sort(key=order.__getitem__)
        ordered_blocks.append(Block(tuple(unknowns), tuple(node for part in _components(inside) for node in part)))
    return ordered_blocks


def _is_cycle(part: list[Node], needs: Needs) -> bool:
    return len(part) > 1 or part[0] in needs[part[0]]


def _ties(node: Node, part: list[Node], needs: Needs) -> int:
    return sum(other in part for other in needs[node]) * sum(node in needs[other] for other in part)


def _components(needs: Needs) -> list[list[Node]]:
    """The strongly connected components, those that are needed first (R. Tarjan, SIAM J. Comput. 1 (1972))."""
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    stack: list[Node] = []
    components: list[list[Node]] = []

    def visit(node: Node) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in needs[node]:
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            cut = stack.index(node)
            components.append(stack[cut:])
            del stack[cut:]

    for node in needs:
        if node not in number:
            visit(node)
    return components
