"""Mechanics with coloured noise in its forces: M x'' = force + noise ξ + Γ(t, x, v) y, y = C s, ds = A s dt + B dW'."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.noise.coloured import Coloured
from stodyn.noise.coloured.delay import Delayed, beside_each_other
from stodyn.noise.from_normals import FromNormals
from stodyn.noise.source import Source, source_of
from stodyn.numerics import van_loan
from stodyn.numerics.facts.dependence import arguments_of
from stodyn.numerics.printing.points import at_one
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.problems.calling import call
from stodyn.problems.contract import AsNow, NoiseStructure, component_names, conversions, returned_shape, written_as
from stodyn.problems.driven import Driven, Places, driven, input_matrix
from stodyn.problems.linear import GaussianStart
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.stops import parted, with_stops


@dataclasses.dataclass(frozen=True, eq=False)
class DrivenMechanical(Mechanical):
    """A mechanical system with coloured noise y in its forces, made by `with_noise`.

    system    the system without coloured noise
    coloured  the noise, in coordinates whose first states are its outputs
    into      Γ: a matrix (N, outputs), or a function into(t, x, v[, params]) -> (N, outputs)
    base      ι (coordinates, outputs) where noise is the acceleration of the ground under it (`base_excited`), zero for
              its other outputs; of a modal reduction with the coordinates of the whole structure
    at_nodes  of a modal reduction: Γ in the coordinates of the whole structure, where it was given in them

    The components of a run are those of the system and then the states of the filter, the outputs first. Methods of the
    α family step it as it is, with the exact integrals of y (methods.excited), and so does RattleAlpha where it has
    constraints; all others take `lower(SDE)`, which exists only without constraints.
    """

    system: Any = None
    coloured: Any = None  # type: ignore[misc]
    into: Any = None
    base: Any = None
    at_nodes: Any = None

    def __post_init__(self):
        super().__post_init__()
        if self.joints is not None and not self.joints.mass_is_regular:
            raise ValueError(
                "problem: it has constraints and a singular mass, which cannot be combined with coloured noise; add s "
                "G'G to the mass, which changes no motion"
            )

    @property
    def joints(self):
        """The constraints of the system."""
        return self.own.joints

    @functools.cached_property
    def components(self) -> tuple[str, ...]:
        names = (*self.own.components, *self.coloured.state_names)
        return component_names(names, names)

    @property
    def component_units(self):
        return self.own.component_units

    @property
    def mass_matrix(self):
        return self.own.mass_matrix

    @property
    def facts(self):
        return self.own.facts

    @property
    def outputs(self) -> int:
        """How many numbers y has."""
        return len(self.coloured.C)

    # --- the system without y, and with y as a parameter --------------------------------------------------------------

    @functools.cached_property
    def own(self) -> Mechanical:
        """The system without coloured noise."""
        return synchronised(self)

    @property
    def motion(self):
        return self.own.motion

    @functools.cached_property
    def given_y(self) -> Mechanical:
        """The system as one whose params are {"own": its params, "noise": y}, Γ y being part of its force."""

        system, stops = parted(self.force)

        def rest(t, x, v, inner_params):
            own = call(system, t, x, v, params=inner_params["own"])
            return own + jnp.reshape(self.gamma(t, x, v, inner_params["own"]) @ inner_params["noise"], jnp.shape(own))

        inner_params = {"own": self.params, "noise": np.zeros(self.outputs)}
        force, noise, mass = with_stops(rest, stops), with_own_params(self.noise), with_own_params(self.mass)
        changed = {"force": force, "noise": noise, "mass": mass, "params": inner_params}
        if self.constraints is not None:
            changed["constraints"] = lambda t, x, inner_params: call(self.constraints, t, x, params=inner_params["own"])
        if self.own.is_linear and not self.pushes_by_state:
            changed["linear_force"] = force  # it is still linear
        return dataclasses.replace(self.own, **changed)

    def gamma(self, t, x, v, params) -> Array:
        """Γ (N, outputs) at x and v as the user's functions see them."""
        gain = call(self.into, t, x, v, params=params) if callable(self.into) else self.into
        return jnp.reshape(jnp.asarray(gain, jnp.asarray(x).dtype), (self.N, self.outputs))

    def push(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """M⁻¹ Γ (r, outputs): the change of v per unit impulse of each output, without the reactions of joints."""
        matrix, motion = self._flat_gamma(t, y, v, z, params), self.motion
        if self.joints is not None:
            return self.joints.mass_inverse(t, y, params, self.joints.jacobian(t, y, params))(matrix)
        right = matrix if motion.inertia is None else motion.inertia.with_inertia(matrix)
        return motion.solved(t, y, v, z, params, right)

    @functools.cached_property
    def has_constant_push(self) -> bool:
        """Whether M⁻¹ Γ is the same at all times and in all states, and Γ y in no equation without inertia."""
        if not self.motion.is_regular:
            return False
        if not callable(self.mass) and not callable(self.into):
            return True
        return not self._reached_by(self.push) & {0, 1, 2}

    @property
    def pushes_by_state(self) -> bool:
        """Whether Γ depends on x or v."""
        return callable(self.into) and bool(self._reached_by(self._flat_gamma) & {1, 2})

    @property
    def pushes_by_velocity(self) -> bool:
        """Whether Γ depends on v."""
        return callable(self.into) and 2 in self._reached_by(self._flat_gamma)

    def _flat_gamma(self, t, y, v, z, params):
        x, v = self.motion.in_users_form(y, v, z)
        return self.gamma(t, x, v, params)

    def _reached_by(self, function: Callable) -> set[int]:
        """Which of t (0), y (1), v (2) a function of (t, y, v, z, params) depends on; all where unknown."""
        with jax.enable_x64(True):
            try:
                coordinates = self.motion.example_coordinates()
                return arguments_of(function, np.zeros(()), *coordinates, self.example_params())
            except Unprintable:
                return {0, 1, 2}

    def integrals(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """(s, ∫y, ∫∫y) after a step h = transition s + root ξ, in law, for s at its start."""
        return self.coloured.integrals(h)

    # --- what every problem offers ------------------------------------------------------------------------------------

    @AsNow
    def noise_structure(self) -> NoiseStructure:
        """The structure of the system's white noise: a coloured force is an ordinary one."""
        structure = self.own.noise_structure
        return NoiseStructure(
            structure.kinds, f"{structure.known}; besides, the coloured force {', '.join(self.coloured.names)}"
        )

    def g(self, t, x, params):
        """The diffusion matrix of the white noise, (n, m): zero for the filter, which is drawn separately."""
        own = super().g(t, x, params)
        return jnp.concatenate([own, jnp.zeros((self.n - len(own), self.m), x.dtype)])

    def rates_and_noise(self):
        def rates(t, x, params):
            return self.given_y.f(t, x[: self.own.n], self._with_y(x, params))

        return rates, self.g

    def _with_y(self, x: Array, params: Any) -> dict[str, Any]:
        """The parameters of `given_y`: the problem's own, and the noise y that the filter's states in x give."""
        return {"own": params, "noise": jnp.asarray(self.coloured.C, x.dtype) @ x[self.own.n :]}

    def noise_rows(self, t, x, params, components):
        """The rows of the system; the states of the filter are drawn beside its channels and have none."""
        n = self.own.n
        rows = iter(self.own.noise_rows(t, x[:n], params, [i for i in components if i < n]))
        return tuple(next(rows) if i < n else None for i in components)

    def mean_rates(self, t, x, params, components):
        n, inner_params = self.own.n, self._with_y(x, params)
        rates = iter(self.given_y.mean_rates(t, x[:n], inner_params, [i for i in components if i < n]))
        return tuple(next(rates) if i < n else None for i in components)

    def multiplier(self, t, x: Array, params: Any = None) -> Array:
        """The multipliers λ of the reactions, (c,), with the coloured forces; refused beside white noise in them."""
        if self.joints is None or self.joints.noisy_reactions:
            return super().multiplier(t, x, params)
        N, inner_params = self.N, self._with_y(x, params)
        return self.given_y.joints.accelerated(t, x[:N], x[N : 2 * N], inner_params)[1]  # type: ignore[union-attr]

    @property
    def start_parts(self) -> tuple[Source, ...]:
        return *self.own.start_parts, self._filter_start

    @functools.cached_property
    def _filter_start(self) -> Source:
        return source_of(GaussianStart(np.zeros(self.coloured.states), self.coloured.state_covariance))

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        """The system's own start and, independent of it, the filter's stationary law."""
        own = self.own.draw_start(rng, paths)
        return np.concatenate([own, self._filter_start.draw(rng, paths, "start")], axis=1)

    @functools.cached_property
    def start_from_normals(self) -> FromNormals | None:
        own = self.own.start_from_normals
        return None if own is None else own.followed_by(van_loan.root(self.coloured.state_covariance))

    def flat_start(self, start: Any) -> Array:
        """x, v and where they are given the states of the filter, else zeros for them."""
        flat, k = jnp.ravel(jnp.asarray(start, float)), self.coloured.states
        bare = flat.size in (2 * self.N, self.own.n)
        own, s = (flat, jnp.zeros(k)) if bare else (flat[:-k], flat[-k:])
        return jnp.concatenate([self.own.flat_start(own), s])


def _to_driven(problem: DrivenMechanical) -> tuple[Driven, str] | None:
    """Return a system with coloured noise as an SDE of (x, v) and the filter of its noise; None with joints."""
    if problem.joints is not None:
        return None
    if isinstance(problem.coloured, Delayed):
        raise TypeError(
            "problem: its noise is delayed, and such a system is no SDE; the past of a noise is held for steps of a "
            "method of the α family, such as StochasticAlpha"
        )
    own, N, p = problem.own, problem.N, problem.outputs
    lowered = own.lower(SDE)
    if lowered is None or lowered[0].n != 2 * N:
        raise TypeError(
            "problem: has coordinates without inertia, hysteretic elements or dry friction that sticks, and with "
            "coloured noise such a system cannot be written as an SDE; take a method of the α family, such as "
            "StochasticAlpha"
        )

    def into(t, x, params):
        return jnp.concatenate([jnp.zeros((N, p), x.dtype), problem.push(t, x[:N], x[N:], x[:0], params)])

    constant = problem.has_constant_push and problem.params is None
    matrix = at_one(lambda x: into(0.0, x, None), own.example_start()[: 2 * N]) if constant else None
    sde = driven(lowered[0], problem.coloured, into if matrix is None else matrix)
    return sde, "Mechanical -> SDE of (x, v) and the filter of its coloured noise"


def _to_sdae(problem: DrivenMechanical) -> tuple[SDAE, str] | None:
    """Return the SDE of (x, v) and the filter as an SDAE."""
    sde = written_as(problem, Driven)
    lowered = None if sde is None else sde.lower(SDAE)
    return None if lowered is None else (lowered[0], f"Mechanical -> SDE of (x, v) and the filter; {lowered[1]}")


conversions.update({
    (DrivenMechanical, Driven): _to_driven,
    (DrivenMechanical, SDE): lambda problem: problem.lower(Driven),
    (DrivenMechanical, SDAE): _to_sdae,
})  # fmt: skip


def with_own_params(function: Any) -> Any:
    """Return a function of (t, x, v[, params]) of a system as one for a system whose params contain its own, "own"; an
    argument that is no function as it is."""
    if not callable(function):
        return function
    return lambda t, x, v, inner_params: call(function, t, x, v, params=inner_params["own"])


def fields_of(problem: Mechanical) -> dict[str, Any]:
    """Return the arguments of a problem that every mechanical system has."""
    return {field.name: getattr(problem, field.name) for field in dataclasses.fields(Mechanical)}


def synchronised(problem: Any) -> Any:
    """The system inside a problem, with the changes made to the problem since (by dataclasses.replace)."""
    changed = {name: value for name, value in fields_of(problem).items() if value is not getattr(problem.system, name)}
    return dataclasses.replace(problem.system, **changed) if changed else problem.system


def driven_mechanical(
    problem: Mechanical, noise: Coloured | Delayed, into: str | int | Sequence[str | int] | Any | Callable
) -> DrivenMechanical:
    """The mechanical system with coloured noise in its forces, as `with_noise` returns it."""
    if isinstance(problem, DrivenMechanical):
        return _driven_again(problem, noise, into)
    noise = noise.with_outputs_first()
    coordinates, clashes = problem.coordinates, sorted(set(problem.components) & set(noise.state_names))
    if clashes:
        raise ValueError(
            f"noise: the problem already has components called {clashes}; rename the outputs with noise.named(...)"
        )
    at_nodes = _checked_nodes(problem, noise, into)
    gain = (
        _checked_into(problem, noise, into, coordinates) if at_nodes is None else problem.reduction.shapes.T @ at_nodes
    )
    return DrivenMechanical(**fields_of(problem), system=problem, coloured=noise, into=gain, at_nodes=at_nodes)


def _driven_again(problem: DrivenMechanical, noise: Coloured | Delayed, into: Any) -> DrivenMechanical:
    """A second noise beside the first, independent of it."""
    second = driven_mechanical(problem.own, noise, into)
    both = beside_each_other(problem.coloured, second.coloured)

    def joined(t, x, v, params):
        return jnp.concatenate([problem.gamma(t, x, v, params), second.gamma(t, x, v, params)], axis=1)

    def beside(first: Any, other: Any) -> Any:
        return None if first is None or other is None else np.concatenate([first, other], axis=1)

    moves = callable(problem.into) or callable(second.into)
    twice = driven_mechanical(problem.own, both, joined if moves else beside(problem.into, second.into))
    still = None if problem.base is None else np.zeros((len(problem.base), second.outputs))
    return dataclasses.replace(
        twice, base=beside(problem.base, still), at_nodes=beside(problem.at_nodes, second.at_nodes)
    )


def _checked_nodes(problem: Any, noise: Coloured | Delayed, into: Any) -> np.ndarray | None:
    """Γ of a modal reduction where it is given in the coordinates of the whole structure, by their names or as a matrix
    with a row for each; None where it is not."""
    reduction = problem.reduction
    if reduction is None or callable(into):
        return None
    whole, places = reduction.whole, [into] if isinstance(into, str) else into
    if isinstance(places, Sequence) and places and all(isinstance(place, str) for place in places):
        at_nodes = not set(places) & set(problem.coordinates)
    else:
        at_nodes = np.shape(places)[:1] == (whole.N,) != (problem.N,)
    return _checked_into(whole, noise, into, whole.coordinates) if at_nodes else None


def _checked_into(problem: Mechanical, noise: Coloured | Delayed, into: Any, coordinates: Sequence[str]) -> Any:
    """Γ as a matrix (N, outputs) or the user's function."""
    N, p = problem.N, len(noise.names)
    if callable(into):
        start = problem.example_start()
        x, v = start[:N], start[N : 2 * N]
        arguments = (("t", 0.0), ("x", x[0] if problem.scalar else x), ("v", v[0] if problem.scalar else v))
        with jax.enable_x64(True):
            shape = returned_shape(problem, "into", into, *arguments).shape
        if shape not in [(N, p), *([(N,)] if p == 1 else []), *([()] if N == p == 1 else [])]:
            raise ValueError(
                f"into: returned shape {shape}, expected ({N}, {p}): a row for each coordinate, a column for each "
                "output of the noise"
            )
        return into
    acts = ". The noise is a force: name the coordinate on which it acts"
    rows = Places("coordinate", coordinates, acts, ". It stands in M x'' = force + into y")
    return input_matrix(into, noise, rows)
