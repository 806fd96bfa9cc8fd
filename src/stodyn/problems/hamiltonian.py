"""Forced stochastic Hamiltonian systems (Stratonovich), from their Hamiltonians and forces alone."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.noise.from_normals import FromNormals
from stodyn.problems.calling import call
from stodyn.problems.contract import (
    AsNow,
    NoiseStructure,
    Recommended,
    check_params,
    conversions,
    derive,
    kind_named,
    sample_params,
)
from stodyn.problems.hamiltonian_channels import Channels, channels_of, check_channels
from stodyn.problems.hamiltonian_facts import HamiltonianFacts, facts_of
from stodyn.problems.operators import Operator, product
from stodyn.problems.paired_start import Paired, pair_names
from stodyn.problems.structure import CHECKED_STATES, find_structure, find_structure_of_operator

if TYPE_CHECKING:
    from stodyn.problems.sde import SDE


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Hamiltonian(Paired):
    """dq = H_p dt + Σ_r h_r,p ∘ dW_r,   dp = (-H_q + F) dt + Σ_r (-h_r,q + f_r) ∘ dW_r, subscripts being derivatives.

    The derivatives are taken by jax.grad. What each of them depends on, and how, is proved from the trace and used by
    the variational methods: separable Hamiltonians and linear friction make steps explicit or linear.

    Parameters
    ----------
    H : function H(t, q, p[, params]) -> number
        The Hamiltonian.
    h : function, sequence of functions or None
        The noise Hamiltonians h_r: one function per channel, or one function that returns all of them, (m,). For
        example, h = -σ * q is a bath on each coordinate. None or () where there is only a force.
    force : function F(t, q, p[, params]), optional
        Forces without noise that do not come from H, such as friction, in the shape of q.
    noise : function, sequence of functions or None
        Forces f_r(t, q, p[, params]), in the shape of q, that white noise multiplies and that do not come from h: one
        function per channel, None where a channel has none.
    start : (q0, p0)
        Two numbers make q and p numbers, two vectors make them vectors. Either may be random (a frozen scipy.stats
        distribution, PerPath, draw(rng, size)). A single sampler of whole states, start(rng, size) -> (size, 2N) with q
        first, such as noise.rejection.Rejection, serves as well; q and p are then numbers if N = 1.
    params : pytree, optional
        Passed to the functions that have an argument for it after the others; as for SDE.
    names : sequence of str, optional
        One per coordinate, in the order of start; the momenta are then called "p_" + name. Or 2N names, one per
        component.
    periodic : number or sequence, optional
        The period of each coordinate q_i, None for one without a period: q is wrapped to [0, period) after every step.
        All functions must have these periods.
    units : sequence or mapping, optional
        One per component, or component -> unit.

    Raises
    ------
    ValueError
        If a Hamiltonian is not a number, or a force does not have the shape of q.

    Examples
    --------
    >>> import stodyn as sd
    >>> oscillator = sd.Hamiltonian(lambda t, q, p: 0.5 * (p**2 + q**2), lambda t, q, p: -0.1 * q, start=(1.0, 0.0))
    >>> oscillator.components, oscillator.separable
    (('q', 'p'), True)
    """

    H: Callable
    h: Sequence[Callable | None] | Callable | None = ()
    force: Callable | None = None
    noise: Sequence[Callable | None] | Callable | None = None
    start: Any = None
    params: Any = None
    names: Sequence[str] | None = None
    periodic: Sequence[float | None] | float | None = None
    units: Sequence[str] | Mapping[str, str] | None = None

    letters = "qp"
    calculus = "stratonovich"
    call_form = "Hamiltonian(H, h, start=(q0, p0))"

    def __post_init__(self):
        check_params(self.params)
        if self.H is None:
            raise TypeError("H: expected a function H(t, q, p[, params]) -> number, got None")
        check_channels(self, self.channels)
        derive(self, "component_units", "periods")

    @property
    def n(self) -> int:  # type: ignore[override]
        return 2 * self.example_pair[0].size

    @property
    def m(self) -> int:  # type: ignore[override]
        return len(self.channels.hamiltonians) - 1

    @property
    def default_names(self) -> Sequence[str]:
        return ("q", "p") if self.scalar else [f"{word}{i}" for word in "qp" for i in range(self.n // 2)]

    @functools.cached_property
    def components(self) -> tuple[str, ...]:
        return pair_names(self.names, self.default_names, "p_")

    @functools.cached_property
    def periods(self) -> tuple[float | None, ...] | None:
        """The period of each coordinate; None where none has one."""
        return _periods(self.periodic, self.n // 2)

    @functools.cached_property
    def channels(self) -> Channels:
        """Its functions, channel by channel."""
        return channels_of(self)

    def __getstate__(self):
        """The state that is pickled: without functions made here, which pickle cannot find by their names."""
        return {name: value for name, value in super().__getstate__().items() if name != "channels"}

    # --- the vectors of the equations: channel 0 is time, r = 1, ..., m the noise -------------------------------------

    def energy(self, k: int, t, q: Array, p: Array, params) -> Array:
        """H (k = 0) or h_k of q and p (N,), a number."""
        function = self.channels.hamiltonians[k]
        if function is None:
            return jnp.zeros((), q.dtype)
        return jnp.asarray(call(function, t, *self._in_users_form(q, p), params=params))

    def velocity(self, k: int, t, q: Array, p: Array, params) -> Array:
        """∂H/∂p or ∂h_k/∂p, (N,)."""
        if self.channels.hamiltonians[k] is None:
            return jnp.zeros_like(p)
        return jax.grad(lambda p: self.energy(k, t, q, p, params))(p)

    def pull(self, k: int, t, q: Array, p: Array, params) -> Array:
        """-∂H/∂q or -∂h_k/∂q, (N,)."""
        if self.channels.hamiltonians[k] is None:
            return jnp.zeros_like(q)
        return -jax.grad(lambda q: self.energy(k, t, q, p, params))(q)

    def push(self, k: int, t, q: Array, p: Array, params) -> Array:
        """The force F, or f_k of channel k, (N,)."""
        function = self.channels.forces[k]
        if function is None:
            return jnp.zeros_like(p)
        return jnp.reshape(jnp.asarray(call(function, t, *self._in_users_form(q, p), params=params), p.dtype), p.shape)

    def kick(self, t, q: Array, p: Array, params, W: Array) -> tuple[Array, Array]:
        """The change of q and p by an increment of the noise: Σ_r h_r,p W_r and Σ_r (-h_r,q + f_r) W_r."""
        all_h = self.channels.all_h
        if all_h is None or any(force is not None for force in self.channels.forces[1:]):
            terms = [(self.velocity(r, t, q, p, params), self.pull(r, t, q, p, params) + self.push(r, t, q, p, params))
                     for r in range(1, self.m + 1)]  # fmt: skip
            moved = [sum((W[r] * term[k] for r, term in enumerate(terms)), jnp.zeros_like(q)) for k in (0, 1)]
            return moved[0], moved[1]

        def weighted_sum(q, p):
            return W @ call(all_h, t, *self._in_users_form(q, p), params=params)

        by_q, by_p = jax.grad(weighted_sum, argnums=(0, 1))(q, p)
        return by_p, -by_q

    def _in_users_form(self, q: Array, p: Array) -> tuple[Array, Array]:
        return (q[0], p[0]) if self.scalar else (q, p)

    def split(self, x: Any) -> tuple[Any, Any]:
        """q and p of a state (2N,)."""
        return x[: self.n // 2], x[self.n // 2 :]

    def wrap(self, x: Array) -> Array:
        """The state with its periodic coordinates in [0, period)."""
        if self.periods is None:
            return x
        entries = [
            x[i] - period * jnp.floor(x[i] / period) if period else x[i]
            for i, period in enumerate((*self.periods, *(None,) * (self.n // 2)))
        ]
        return jnp.stack(entries)

    def vector(self, k: int, t, x: Array, params) -> Array:
        """The whole vector field of channel k, (2N,)."""
        z = *self.split(x), params
        return jnp.concatenate([self.velocity(k, t, *z), self.pull(k, t, *z) + self.push(k, t, *z)])

    def f(self, t, x: Array, params) -> Array:
        """The Stratonovich drift, (2N,)."""
        return self.vector(0, t, x, params)

    def g(self, t, x: Array, params) -> Array:
        """The diffusion, (2N, m)."""
        if self.m == 0:
            return jnp.zeros((self.n, 0), x.dtype)
        if self.channels.all_h is not None:
            return self.operator(t, x, params).dense().astype(x.dtype)
        return jnp.stack([self.vector(r, t, x, params) for r in range(1, self.m + 1)], axis=1)

    def operator(self, t, x: Array, params) -> Operator:
        """The diffusion by its products: the vector field of the Hamiltonian Σ_r W_r h_r."""
        return product(lambda W: jnp.concatenate(self.kick(t, *self.split(x), params, W)), self.m)

    def noise_rows(self, t, x, params, components):
        noise = self.g(t, x, params)
        return tuple(noise[i] for i in components)

    def mean_rates(self, t, x, params, components):
        rates = self.f(t, x, params)
        return tuple(rates[i] for i in components)

    # --- what is known about them --------------------------------------------------------------------------------

    @property
    def recommended(self) -> Recommended:
        return Recommended("Midpoint", "symplectic and implicit, of strong order 1 where noise commutes")

    @property
    def stable_methods(self) -> tuple[str, ...]:
        return ("Midpoint",)

    def without_noise(self, calculus: str | None = None) -> Hamiltonian:
        return dataclasses.replace(self, h=(), noise=())

    @AsNow
    def noise_structure(self) -> NoiseStructure:
        """Commutative where Γ_ij = Γ_ji and Λ_ij = Λ_ji, the brackets of the channels' vector fields."""
        with jax.enable_x64(True):
            if self.m == 0:
                return NoiseStructure(("additive", "commutative"), "there is none")
            start, sampled = np.asarray(self.example_start(), float), sample_params(self, CHECKED_STATES)
            if self.channels.all_h is not None:
                return find_structure_of_operator(self.operator, start, self.example_params(), sampled)
            return find_structure(self.g, start, self.example_params(), sampled)

    @functools.cached_property
    def facts(self) -> HamiltonianFacts:
        """How each vector of the equations depends on q and p."""
        return facts_of(self)

    @property
    def separable(self) -> bool:
        """Whether every Hamiltonian is T(p) + U(q)."""
        return self.facts.separable

    # --- as an SDE -----------------------------------------------------------------------------------------------

    def to_sde(self, calculus: str = "stratonovich") -> SDE:
        """Return the same system as a plain SDE of x = (q, p), Stratonovich or Ito.

        The Ito drift of p is -H_q + F + ½ Σ_r [(h_r,qp - f_r,p)(h_r,q - f_r) - (h_r,qq - f_r,q) h_r,p].
        An SDE has no periods: its q is not wrapped. A system without noise gets a channel of zeros.

        Parameters
        ----------
        calculus : "stratonovich" or "ito"
            The calculus of the SDE.

        Returns
        -------
        SDE

        Raises
        ------
        ValueError
            If the calculus is unknown.
        """
        convert: Any = conversions[Hamiltonian, kind_named("SDE")]
        return convert(self, calculus)[0]

    @property
    def start_from_normals(self) -> FromNormals | None:
        return self.start if isinstance(self.start, FromNormals) else None


def _periods(periodic: Any, N: int) -> tuple[float | None, ...] | None:
    if periodic is None:
        return None
    periods = (periodic,) * N if np.ndim(periodic) == 0 else tuple(periodic)
    if len(periods) != N or not all(p is None or (np.isfinite(p) and p > 0) for p in periods):
        raise ValueError(f"periodic: expected {N} periods > 0 (None for a coordinate that has none), got {periodic!r}")
    return tuple(None if p is None else float(p) for p in periods)
