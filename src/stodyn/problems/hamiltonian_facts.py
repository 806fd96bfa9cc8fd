"""How the vectors of a Hamiltonian system depend on q and p, proved from their traces."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.numerics.facts.axes import facts_of as facts_of_trace
from stodyn.numerics.facts.degree import has_jumps
from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.unprintable import Unprintable

PARTS = ("velocity", "pull", "push")
ENTRY_BY_ENTRY = 8  # coordinates up to which each entry of the equations is followed through its trace


class Dependence(NamedTuple):
    """How a vector of the equations depends on q and p: whether it is zero, on which, and whether affinely."""

    zero: bool
    on_q: bool
    on_p: bool
    affine_q: bool
    affine_p: bool
    affine: bool  # in q and p weighted_sum

    def is_affine(self, in_q: bool, in_p: bool) -> bool:
        """Whether it is affine in those of q and p that vary, the other held fixed."""
        return self.affine if in_q and in_p else self.affine_q if in_q else self.affine_p if in_p else True


class HamiltonianFacts(NamedTuple):
    """The dependence of the velocity, pull and push of each channel, by channel and part."""

    dependences: dict[tuple[int, str], Dependence]

    def depends(self, k: int, part: str) -> Dependence:
        """Return how the velocity, pull or push of channel k depends on q and p."""
        return self.dependences[k, part]

    @property
    def separable(self) -> bool:
        """Whether every Hamiltonian is T(p) + U(q)."""
        return not any(
            depends.on_q if part == "velocity" else depends.on_p
            for (_, part), depends in self.dependences.items()
            if part != "push"
        )


def facts_of(problem: Any) -> HamiltonianFacts:
    """Return the facts of a Hamiltonian."""
    with jax.enable_x64(True):
        dependences: dict[tuple[int, str], Dependence] = {}
        for k, part in itertools.product(range(problem.m + 1), PARTS):
            is_alike = k > 1 and problem.channels.all_h is not None and part != "push"  # channels of one function
            dependences[k, part] = dependences[1, part] if is_alike else _dependence(problem, k, part)
    return HamiltonianFacts(dependences)


def _dependence(problem: Any, k: int, part: str) -> Dependence:
    channels = problem.channels
    if (channels.forces if part == "push" else channels.hamiltonians)[k] is None:
        return Dependence(True, False, False, True, True, True)
    vectors = {"velocity": problem.velocity, "pull": problem.pull, "push": problem.push}
    function: Callable = functools.partial(vectors[part], k)
    q, p = problem.split(np.asarray(problem.example_start(), float))
    arguments: tuple[Any, ...] = np.zeros(()), q, p, problem.example_params()
    if k and part != "push" and channels.all_h is not None:
        place = PARTS.index(part)

        def of_all(t, q, p, params, W):
            return problem.kick(t, q, p, params, W)[place]

        function = of_all
        arguments = (*arguments, np.ones(problem.m))
    slopes = _by_slopes(function, arguments)
    jumps_in_q, jumps_in_p = (has_jumps(function, arguments, moving=(i,)) for i in (1, 2))
    return slopes._replace(
        affine_q=slopes.affine_q and not jumps_in_q,
        affine_p=slopes.affine_p and not jumps_in_p,
        affine=slopes.affine and not (jumps_in_q or jumps_in_p),
    )


def _by_slopes(function: Callable, arguments: tuple[Any, ...]) -> Dependence:
    """Return how a function of (t, q, p, ...) depends on q and p, where its derivatives tell: affinely where the
    derivative in any direction no longer depends on the argument."""
    q, p = arguments[1:3]

    def slope(t: Any, q: Any, p: Any, *others: Any) -> Any:
        *rest, dq, dp = others
        return jax.jvp(lambda q, p: function(t, q, p, *rest), (q, p), (dq, dp))[1]

    def along_q(*point: Any) -> Any:
        return slope(*point, jnp.zeros_like(p))

    def along_p(*point: Any) -> Any:
        return slope(*point[:-1], jnp.zeros_like(q), point[-1])

    try:
        on, is_zero = _reached(function, *arguments)
        affine_q = 1 not in on or 1 not in _reached(along_q, *arguments, q)[0]
        affine_p = 2 not in on or 2 not in _reached(along_p, *arguments, p)[0]
        affine = affine_q and affine_p
        if affine and {1, 2} <= on:
            affine = not {1, 2} & _reached(slope, *arguments, q, p)[0]
    except Unprintable:
        return Dependence(False, True, True, False, False, False)
    return Dependence(is_zero, 1 in on, 2 in on, affine_q, affine_p, affine)


def _reached(function: Callable, *arguments: Any) -> tuple[set[int], bool]:
    """Return the numbers of the arguments that a function depends on, and whether it is known to be zero: entry by
    entry where there are few coordinates, else from whole arrays."""
    if np.size(arguments[1]) <= ENTRY_BY_ENTRY:
        depends = dependence(function, *arguments)
        return depends.arguments, bool(depends.zero.all())
    facts = facts_of_trace(jax.make_jaxpr(function)(*arguments), arguments, vector=1)
    return set() if facts.number is not None else set(facts.on), facts.is_all(0)
