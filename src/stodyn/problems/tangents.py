"""A problem whose state holds, beside each path, its derivatives with respect to parameters and starts."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments, suggestion
from stodyn.noise.source import source_of
from stodyn.problems.contract import Problem, expect_problem, innermost
from stodyn.problems.measured import Measured
from stodyn.problems.sdae import SDAE

START = "start."  # before the name of a component: its start


class Along(NamedTuple):
    """A number on which a leaf of the params and the start depend: its value, and their slopes in it."""

    value: float
    slopes: tuple[float, ...]
    start: tuple[float, ...]


class Direction(NamedTuple):
    """A number with respect to which paths are differentiated.

    name    as users write it: "rate", "spring.rate", "rate[2]" for an entry of an array, "start.x"
    leaf    which leaf of the params it belongs to, None for a start; entry: its place there, or the component
    along   how the whole leaf and the start go with it, for a number that is not among the params itself
    """

    name: str
    leaf: int | None
    entry: int
    along: Along | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class WithTangents(Measured):
    """A problem whose state is followed by its derivatives in each direction; made by `with_tangents`."""

    directions: tuple[Direction, ...]

    made_by = "with_tangents"
    reads_all_components = False

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.problem.n * (1 + len(self.directions))

    def around(self, problem: Any) -> WithTangents:
        """The same around another form of the problem, which may have fewer components."""
        return followed(problem, self.directions, type(self))

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        x = self.problem.draw_start(rng, paths)
        return np.concatenate([x, np.tile(self.first_tangents.reshape(-1), (len(x), 1))], axis=1)

    @property
    def first_tangents(self) -> np.ndarray:
        """The derivatives of the start, (directions, n)."""
        tangents = np.zeros((len(self.directions), self.problem.n))
        for row, direction in zip(tangents, self.directions, strict=True):
            if direction.leaf is None:
                row[direction.entry] = 1.0
            if direction.along is not None:
                row[: len(direction.along.start)] = direction.along.start
        return tangents

    # --- the parameters among the directions, as one vector -----------------------------------------------------------

    @property
    def free(self) -> list[Direction]:
        """The directions that are parameters."""
        return [one for one in self.directions if one.leaf is not None]

    @property
    def value_tangents(self) -> np.ndarray:
        """The derivatives of `values` in each direction, (directions, values)."""
        return np.array([[float(one is value) for value in self.free] for one in self.directions])

    def values(self, params: Any) -> jax.Array:
        """The values of the parameters among the directions; of numbers along which params go, how far they have."""
        leaves = jax.tree.leaves(params)
        entries = [
            jnp.zeros(()) if one.along else jnp.reshape(leaves[one.leaf], -1)[one.entry]  # type: ignore[index]
            for one in self.free
        ]
        return jnp.stack(entries) if entries else jnp.zeros(0)

    def with_values(self, params: Any, values: jax.Array) -> Any:
        """The params with other values of the parameters among the directions."""
        tree: Any
        leaves, tree = jax.tree.flatten(params)
        for k, direction in enumerate(self.free):
            leaf = leaves[direction.leaf]  # type: ignore[index]
            shape = jnp.shape(leaf)
            if direction.along is not None:
                slopes = np.reshape(direction.along.slopes, shape)
                leaves[direction.leaf] = leaf + jnp.asarray(slopes, jnp.result_type(leaf)) * values[k]  # type: ignore[index]
                continue
            leaves[direction.leaf] = (  # type: ignore[index]
                jnp.reshape(jnp.ravel(jnp.asarray(leaf)).at[direction.entry].set(values[k]), shape)
                if shape
                else values[k]
            )
        return tree.unflatten(leaves)

    def moved(self, k: int, by: float) -> Any:
        """The problem with the parameter of number k among the values larger by some number."""
        params = self.problem.params
        with jax.enable_x64(True):
            values = jnp.asarray(self.values(params), float).at[k].add(by)
            params = jax.tree.map(np.asarray, self.with_values(params, values))
        return self.problem.changed(params=params)


@functools.singledispatch
def holding(problem: Any, names: Sequence[str]) -> Any:
    """A problem in a form that can be differentiated by the numbers of these names, where it has such a form."""
    return problem


@functools.singledispatch
def along(problem: Any, name: str) -> tuple[str, Along] | None:
    """The param that goes with a number that is not among the params itself, and how; None where there is none."""
    return None


@checks_arguments
def with_tangents(problem: Any, of: str | Sequence[str]) -> WithTangents:
    """Add the derivatives of every path with respect to parameters and starts to a problem, as further components.

    A run with any method that makes steps then has, for each component x and each name k, the component "dx/dk": the
    derivative of the path that the method computes, with its noise held fixed. The paths themselves are the same to the
    last bit. Statistics of derivatives are statistics of these components.

    Parameters
    ----------
    problem : Problem
        Any problem, with `params`.
    of : str or sequence of str
        Names among the params ("rate", "spring.rate", "params" where they are one number), each of a real number or of
        an array, all of whose entries are then taken, "rate[0]" and so on; "start.x" is the start of component x. Of a
        circuit also numbers of its netlist, such as "r1.value", which move the operating point that it starts at.

    Returns
    -------
    WithTangents
        The problem; its components are those of the problem, then the derivatives, name by name.

    Raises
    ------
    TypeError, ValueError
        If a name is unknown, or belongs to a whole number or to a parameter that differs from path to path.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x, p: -p["rate"] * x, lambda t, x: 0.1, 1.0, params={"rate": 2.0}, names=["x"])
    >>> sd.problems.with_tangents(decay, "rate").components
    ('x', 'dx/drate')
    """
    expect_problem(problem)
    if isinstance(problem, WithTangents):
        raise TypeError("problem: already has derivatives; give the problem itself, and all names at once")
    problem = holding(problem, names_of(of))
    return followed(problem, directions(problem, of))


def with_random_tangents(problem: Any, of: str | Sequence[str]) -> WithTangents:
    """A problem with the derivatives of every path by parameters that have a distribution, at its own values."""
    expect_problem(problem)
    names, (spelled, leaves) = names_of(of), _named_leaves(problem)
    numbers = {name: Direction(name, k, 0) for k, name in enumerate(spelled) if source_of(leaves[k]).is_random}
    for name in names:
        if name not in numbers:
            raise ValueError(f"of: {name!r} is not among the problem's random params: {', '.join(numbers) or 'none'}")
    return followed(problem, tuple(one for name, one in numbers.items() if name in names))


def followed(problem: Any, chosen: tuple[Direction, ...], kind: type[WithTangents] = WithTangents) -> WithTangents:
    """A problem with its derivatives in these directions."""
    inner = "d({})/d{}" if isinstance(problem, WithTangents) else "d{}/d{}"
    names = (*problem.components, *(inner.format(x, one.name) for one in chosen for x in problem.components))
    units = {name: unit for name, unit in (problem.component_units or {}).items() if name == "time"} or None
    none = np.zeros((0, problem.n))
    return kind(problem, none, none[:, :0], names, units, chosen)


def directions(problem: Problem, of: str | Sequence[str]) -> tuple[Direction, ...]:
    """The numbers that `of` names, one by one; errors in the user's terms."""
    spelled, leaves = _named_leaves(problem)
    chosen: list[Direction] = []
    for name in names_of(of):
        known = along(problem, name)
        if known is not None:
            chosen.append(Direction(name, spelled.index(known[0]), 0, known[1]))
        elif name in spelled:
            number = spelled.index(name)
            chosen += _of_leaf(name, number, leaves[number])
        elif name.startswith(START):
            chosen.append(_of_start(problem, name))
        else:
            chosen.append(_of_entry(name, spelled, leaves, problem))
    return tuple(chosen)


def names_of(of: str | Sequence[str]) -> tuple[str, ...]:
    """The names that `of` gives, at least one and each once."""
    names = (of,) if isinstance(of, str) else tuple(of)
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f'of: expected names of parameters, such as ("k", "c"), got {of!r}')
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"of: {twice[0]!r} is there twice")
    return names


def _named_leaves(problem: Problem) -> tuple[list[str], list[Any]]:
    """The leaves of the parameters, and the name of each."""
    places, _ = jax.tree_util.tree_flatten_with_path(problem.params)
    spelled = [jax.tree_util.keystr(place, simple=True, separator=".") or "params" for place, _ in places]
    return spelled, [leaf for _, leaf in places]


def _of_leaf(name: str, number: int, leaf: Any) -> list[Direction]:
    """The directions of a parameter: one, or one for each entry of an array."""
    _check_leaf(name, leaf)
    shape = np.shape(leaf)
    if not shape:
        return [Direction(name, number, 0)]
    entries = (", ".join(map(str, np.unravel_index(k, shape))) for k in range(math.prod(shape)))
    return [Direction(f"{name}[{entry}]", number, k) for k, entry in enumerate(entries)]


def _of_entry(name: str, spelled: Sequence[str], leaves: Sequence[Any], problem: Problem) -> Direction:
    """The direction of one entry of an array, "k[2]"; refuses names that nothing has."""
    array = name.partition("[")[0]
    if name.endswith("]") and array in spelled:
        number = spelled.index(array)
        for direction in _of_leaf(array, number, leaves[number]):
            if direction.name.replace(" ", "") == name.replace(" ", ""):
                return direction
    starts = [START + component for component in problem.components]
    have = f"they are {', '.join(spelled)}" if spelled else "it has none"
    raise ValueError(
        f"of: {name!r} is not among the problem's params; {have}. The start of a component is "
        f"{starts[0]!r}{suggestion(name, [*spelled, *starts])}"
    )


def _check_leaf(name: str, leaf: Any) -> None:
    """Refuse parameters that have no derivative, or one for each path."""
    if source_of(leaf).is_random:
        raise ValueError(
            f"of: {name} differs from path to path, so that there is no one number to differentiate with respect to. "
            "Give it as location + scale * z with a random z, and take the derivative by location or scale"
        )
    kind = np.asarray(leaf).dtype.kind
    if kind != "f":
        value = "a whole number" if kind in "iu" else "a truth value" if kind == "b" else "not a real number"
        hint = f". Write {name}={float(np.asarray(leaf).ravel()[0])!r} if it is meant to vary" if kind in "iu" else ""
        raise TypeError(f"of: {name} = {leaf!r} is {value}, which has no derivative{hint}")


def _of_start(problem: Problem, name: str) -> Direction:
    """The direction of the start of a component."""
    component = name.removeprefix(START)
    if component not in problem.components:
        raise ValueError(
            f"of: {name!r}: there is no component {component!r}; the components are {', '.join(problem.components)}"
            f"{suggestion(component, problem.components)}"
        )
    own = innermost(problem)
    if isinstance(own, SDAE) or own.joints is not None:
        raise ValueError(
            f"of: {name!r}: a start that satisfies constraints cannot be moved in one component alone; make the start "
            "a parameter of another problem, or take differences by sweep"
        )
    return Direction(name, None, problem.components.index(component))
