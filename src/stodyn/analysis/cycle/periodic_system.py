"""A problem as `periodic` uses it: M x' = f(t, x) with noise g and slopes J = f_x, at many points in one call.

Two kinds of unknowns of a circuit need care. The states of flicker filters are left out: without noise they rest at
zero, and their multipliers lie so near 1 that they would be mistaken for the phase. The charge that a source has
delivered wanders for ever and nothing reads it: it is set back at the end of every period.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.circuits import Circuit, points
from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.regions import region
from stodyn.numerics.rounding import Amounts
from stodyn.problems.contract import Problem
from stodyn.problems.index import Split, split
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

FEW = 10_000  # calls for which NumPy takes less time than LLVM for compiling
CONSISTENT = 1e-13  # of the largest unknown, a choice: a change by Newton at which it may end; it ends in any case


@dataclasses.dataclass(frozen=True, eq=False)
class System:
    """The equations of a problem without its filters.

    unknowns   the numbers of its unknowns among those of the problem
    wandering  those of them that are set back at the end of a period
    sources    the name of each source of white noise: an element of a circuit, or a channel
    """

    problem: Problem
    mass: np.ndarray
    unknowns: np.ndarray
    wandering: np.ndarray
    names: tuple[str, ...]
    units: dict[str, str]
    sources: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.unknowns)

    @functools.cached_property
    def split(self) -> Split:
        return split(self.mass)

    @functools.cached_property
    def _params(self) -> Any:
        return self.problem.example_params()

    def _whole(self, x: Any) -> Any:
        return x if self.n == self.problem.n else jnp.zeros(self.problem.n, x.dtype).at[self.unknowns].set(x)

    @functools.cached_property
    def _f(self) -> Callable:
        def f(t, x):
            return self.problem.f(t, self._whole(x), self._params)[self.unknowns]  # type: ignore[attr-defined]

        return f

    @functools.cached_property
    def _g(self) -> Callable:
        return lambda t, x: self.problem.g(t, self._whole(x), self._params)[self.unknowns]  # type: ignore[attr-defined]

    def f(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return f (points, n) at times (points,) and states (points, n)."""
        if self.network is not None:
            rates = points.rates(self.network, t, self._filled(x))
            return rates if self.n == self.problem.n else rates[:, self.unknowns]
        return self._programs["f"](t, x)

    def jacobian(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the slopes f_x (points, n, n) at some points."""
        if self.network is not None:
            slopes = points.slopes(self.network, self._filled(x))
            return slopes if self.n == self.problem.n else slopes[:, self.unknowns][:, :, self.unknowns]
        return self._programs["J"](t, x)

    def region(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return (points, decisions), on which smooth piece f and g are; equal rows are on the same one."""
        if self.network is not None:
            return points.decisions(self.network, t, self._filled(x))
        count = len(t)
        more = 2 ** max(count - 1, 1).bit_length() - count  # few different numbers of points: each is traced by itself
        return self._region(np.append(t, np.tile(t[:1], more)), np.append(x, np.tile(x[:1], (more, 1)), axis=0))[:count]

    def rounding(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return (points, n + sources), how much of f, and of the density Σ g² of each source, may be rounding."""
        return np.concatenate(self._rounding(t, x), axis=1)

    def largest_alike(self, size: np.ndarray) -> np.ndarray:
        """For each component, the largest of the sizes (n,) that have its unit; 0 where it has no unit."""
        units = np.array([self.units.get(name, "") for name in self.names])
        return np.array([size[units == unit].max() if unit else 0.0 for unit in units])

    def drifting(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return ∂f/∂t (points, n) at some points."""
        if not self.is_driven:
            return np.zeros_like(x)
        return self._programs["f_t"](t, x)

    def g(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the noise g (points, n, sources); in circuits a column for each element, also where several push in
        one direction."""
        if self.network is None:
            return self._programs["g"](t, x)
        members, directions = self._directions
        power = points.intensities(self.network, t, self._filled(x))[:, members]
        return directions * np.sqrt(power)[:, None, :]

    @functools.cached_property
    def _directions(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the sources of a circuit among all sources, and g (n, sources) where their densities are 1."""
        channels = self.problem.channels  # type: ignore[attr-defined]
        directions = np.zeros((self.problem.n, max(channels.total, 1)))
        directions[channels.rows, channels.columns] = channels.coefficients
        directions = directions[np.ix_(self.unknowns, channels.members)]
        return channels.sources, directions * (self._params["noise"] * np.sqrt(channels.weights))

    def _density(self, t: Any, x: Any) -> Any:
        """Σ g² (sources,) over the rows at one point."""
        if self.network is None:
            return jnp.sum(self._g(t, x) ** 2, axis=0)
        members, directions = self._directions
        power = self.network.intensity(self._whole(x), self.network.sources.values(t, jnp), jnp)[members]
        return np.sum(directions**2, axis=0) * power

    @property
    def network(self) -> Any:
        """The network of a circuit; None of other problems."""
        return self.problem.network if isinstance(self.problem, Circuit) else None

    def _filled(self, x: np.ndarray) -> np.ndarray:
        if self.n == self.problem.n:
            return x
        whole = np.zeros((len(x), self.problem.n))
        whole[:, self.unknowns] = x
        return whole

    @functools.cached_property
    def _programs(self) -> dict[str, Callable]:
        f = self._f

        def slope(t, x):
            return jax.jvp(lambda t: f(t, x), (t,), (jnp.ones_like(t),))[1]

        def flickering(t, x):
            network = self.problem.network  # type: ignore[attr-defined]
            first = [int(states[0]) for part in network.flickers for states in part.states]
            whole, directions = self._whole(x), jnp.eye(self.problem.n)[np.array(first, int)]

            def along(direction):
                rate = jax.jvp(lambda y: self.problem.f(t, y, self._params), (whole,), (direction,))[1]  # type: ignore[attr-defined]
                return rate[self.unknowns]

            return jax.vmap(along, out_axes=1)(directions)

        functions = {"f": f, "J": jax.jacfwd(f, argnums=1), "f_t": slope, "g": self._g, "b": flickering}
        return {name: AtPoints(function) for name, function in functions.items()}

    @functools.cached_property
    def _region(self) -> Callable:
        return AtPoints(region(lambda t, x: (self._f(t, x), self._g(t, x))), few=FEW)

    @functools.cached_property
    def _rounding(self) -> Callable:
        return Amounts(lambda t, x: (self._f(t, x), self._density(t, x)))

    @functools.cached_property
    def is_driven(self) -> bool:
        """Whether f or g depends on time: from the trace, or else from values at some times."""
        if self.network is not None:
            return bool(self.network.sources.moving) or self.network.sources.points is not None
        with jax.enable_x64(True):
            x = jnp.asarray(self.start)
            try:
                return any(0 in dependence(function, jnp.zeros(()), x).arguments for function in (self._f, self._g))
            except Unprintable:
                times = np.append(0.0, np.geomspace(1e-12, 1e3, 31))
                states = np.tile(self.start, (len(times), 1))
                return bool(np.ptp(self.f(times, states), axis=0).any() or np.ptp(self.g(times, states), axis=0).any())

    @functools.cached_property
    def start(self) -> np.ndarray:
        """The problem's own start, its constraints satisfied where that can be."""
        _, N, K, _ = self.split
        x = np.array(self.problem.example_start(), float)[self.unknowns]
        for _ in range(50 if len(N) else 0):
            defect, J = N @ self.f(np.zeros(1), x[None])[0], N @ self.jacobian(np.zeros(1), x[None])[0] @ K
            try:
                move = K @ np.linalg.solve(J, defect)
            except np.linalg.LinAlgError:
                break
            x = x - move
            if not np.abs(move).max() > CONSISTENT * np.abs(x).max():
                break
        return x if np.isfinite(x).all() else np.array(self.problem.example_start(), float)[self.unknowns]

    @functools.cached_property
    def explicit(self) -> np.ndarray:
        """Unknowns that are functions of the others, 0 = x_k - Q(others), read by nothing but M: stored charges."""
        if self.network is None:
            return np.zeros(0, int)
        rows = [group.rows for group in self.network.charges]
        return np.searchsorted(self.unknowns, np.concatenate([np.zeros(0, int), *rows])).astype(int)

    @functools.cached_property
    def implicit(self) -> np.ndarray:
        """The unknowns that are not explicit functions of others."""
        return np.setdiff1d(np.arange(self.n), self.explicit)

    def kicked(self, J: np.ndarray) -> np.ndarray:
        """S (points, n, r): an impulse R g dW moves the state by S R g dW, [R M; N J] S = [1; 0]."""
        rows, N, *_ = self.split
        RM = np.broadcast_to(self.mass[rows], (len(J), len(rows), self.n))
        return _solved(np.concatenate([RM, N @ J], axis=1), np.broadcast_to(np.eye(self.n, len(rows)), RM.mT.shape))

    def velocity(self, t: np.ndarray, x: np.ndarray, J: np.ndarray) -> np.ndarray:
        """x' (points, n) of a solution: R M x' = R f, N J x' = -N f_t."""
        rows, N, *_ = self.split
        RM = np.broadcast_to(self.mass[rows], (len(J), len(rows), self.n))
        right = np.concatenate([self.f(t, x)[:, rows], -self.drifting(t, x) @ N.T], axis=1)
        return _solved(np.concatenate([RM, N @ J], axis=1), right[..., None])[..., 0]

    def flickering(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """b (points, n, flickers): the rate of M x for each unit of noise of the one-sided density 1/f."""
        return self._programs["b"](t, x)

    @functools.cached_property
    def flickers(self) -> tuple[str, ...]:
        """The elements with 1/f noise: only circuits have them."""
        if not isinstance(self.problem, Circuit):
            return ()
        network = self.problem.network
        return tuple(network.groups[part.group].elements[k].name for part in network.flickers for k in part.devices)


def system_of(problem: Problem) -> System:
    """The equations of an SDE, an SDAE, a circuit, or a problem that can be written as an SDE."""
    if not isinstance(problem, SDE | SDAE):
        lowered = problem.lower(SDE) if isinstance(problem, Problem) else None
        if lowered is None:
            raise TypeError(f"problem: expected an SDE, an SDAE or a circuit, got a {type(problem).__name__}")
        problem = lowered[0]
    assert isinstance(problem, SDE | SDAE)
    mass = problem.mass_matrix
    names, units = problem.components, dict(problem.component_units or {})
    components, wandering = np.arange(problem.n), np.zeros(0, int)
    sources = tuple(f"W{k}" for k in range(problem.m))
    if isinstance(problem, Circuit):
        network = problem.network
        filters = [s for part in network.flickers for states in part.states for s in states.tolist()]
        components = np.setdiff1d(components, filters)
        wandering = np.searchsorted(components, [network.branches[name] for name in network.charged]).astype(int)
        named = {source.place: source.element.name for source in network.noises}
        sources = tuple(named[place] for place in problem.channels.sources.tolist())
    return System(
        problem,
        mass[np.ix_(components, components)],
        components,
        wandering,
        tuple(names[i] for i in components),
        units,
        sources,
    )


def _solved(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with each of the matrices (points, n, n), after its rows have been brought to one size."""
    size = np.abs(matrices).max(axis=-1, keepdims=True)
    size = np.where(size > 0.0, size, 1.0)
    return np.linalg.solve(matrices / size, right / size)


class StageEquations:
    """Σ_j D_ij M δX_j/h - J_i δX_i = r_i of the stages of many steps, J (steps, s, n, n), h (steps,).

    The explicit unknowns, δq = -r_q - J_q δu, are substituted into the other equations, whose mass at each stage is
    then M_u - M_q J_q. With two stored charges in every transistor this removes two thirds of the unknowns.
    """

    def __init__(self, system: System, J: np.ndarray, D: np.ndarray, h: np.ndarray):
        u, q = system.implicit, system.explicit
        self.system, self.D = system, D / h[:, None, None]
        self.slopes = J[:, :, q][..., u]  # of the charges
        self.stored = system.mass[np.ix_(u, q)]
        masses = system.mass[np.ix_(u, u)] - self.stored @ self.slopes
        N, s = J.shape[:2]
        masses = np.broadcast_to(masses, (N, s, len(u), len(u))).swapaxes(1, 2)
        matrix = self.D[:, :, None, :, None] * masses[:, None]
        for i in range(s):
            matrix[:, i, :, i] -= J[:, i][:, u][..., u]
        self.matrix = matrix.reshape(N, s * len(u), s * len(u))

    def solved(self, right: np.ndarray) -> np.ndarray:
        """δX (steps, s, n, columns) for r of that shape."""
        u, q = self.system.implicit, self.system.explicit
        N, s, _, columns = right.shape
        moved = right[:, :, u]
        if len(q) and right[:, :, q].any():
            moved = moved + np.einsum("Nij,Njuk->Niuk", self.D, self.stored @ right[:, :, q])
        solution = np.empty_like(right)
        solution[:, :, u] = _solved(self.matrix, moved.reshape(N, -1, columns)).reshape(N, s, len(u), columns)
        solution[:, :, q] = -right[:, :, q] - self.slopes @ solution[:, :, u]
        return solution

    def gains_at_the_end(self, w: np.ndarray) -> np.ndarray:
        """Return (steps, s, n), the effect on wᵀ times the last stage, w (steps, n), of an impulse in the rows of stage
        i."""
        u, q = self.system.implicit, self.system.explicit
        N, size, _ = self.matrix.shape
        right, gains = np.zeros((N, size, 1)), np.zeros((N, size // len(u), self.system.n))
        right[:, -len(u) :, 0] = w[:, u] - np.einsum("Nq,Nqu->Nu", w[:, q], self.slopes[:, -1])
        gains[:, :, u] = _solved(self.matrix.mT, right).reshape(N, -1, len(u))
        return gains

    def kicks_at_the_end(self) -> np.ndarray:
        """Return (steps, s, n, n), the effect on the last stage of an impulse in the rows of stage i; charges receive
        none."""
        u, q = self.system.implicit, self.system.explicit
        N, size, _ = self.matrix.shape
        s, last = size // len(u), np.zeros((N, size, len(u)))
        last[:, -len(u) :] = np.eye(len(u))
        by_rows = _solved(self.matrix.mT, last).reshape(N, s, len(u), len(u)).mT
        kicks = np.zeros((N, s, self.system.n, self.system.n))
        kicks[:, :, u[:, None], u] = by_rows
        kicks[:, :, q[:, None], u] = -self.slopes[:, -1:] @ by_rows
        return kicks
