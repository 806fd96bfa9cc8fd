"""Forced stochastic Hamiltonian systems (Stratonovich), from their Hamiltonians and forces alone."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.noise.from_normals import FromNormals
from stodyn.noise.source import Source
from stodyn.numerics.affine import has_jumps
from stodyn.numerics.dependence import dependence
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.whole_arrays import Facts, facts_of
from stodyn.problems import paired_start
from stodyn.problems.calculus import to_ito
from stodyn.problems.calling import call
from stodyn.problems.contract import (
    CALCULI,
    NoiseStructure,
    Problem,
    Recommended,
    check_params,
    returned_shape,
)
from stodyn.problems.operators import Operator, product
from stodyn.problems.sde import SDE
from stodyn.problems.structure import CHECKED_STATES, find_structure, find_structure_of_operator

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


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Hamiltonian(Problem):
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

    calculus = "stratonovich"
    call_form = "Hamiltonian(H, h, start=(q0, p0))"

    def __post_init__(self):
        check_params(self.params)
        if self.H is None:
            raise TypeError("H: expected a function H(t, q, p[, params]) -> number, got None")
        self.derive("all_h")
        h, forces = self._given_hamiltonians, _channels("noise", self.noise)
        if h and forces and len(h) != len(forces):
            raise ValueError(
                f"noise: {len(forces)} functions were given, but h has {len(h)}: both need one per noise channel. "
                "Write None for a channel that has no force, or no Hamiltonian."
            )
        arguments = self._arguments
        with jax.enable_x64(True):
            energies = {"H": self.H} | ({} if callable(self.h) else {f"h[{r}]": f for r, f in enumerate(h)})
            for name, function in energies.items():
                returned = () if function is None else returned_shape(self, name, function, *arguments).shape
                if returned != ():
                    raise ValueError(
                        f"{name}: returned shape {returned}, expected one number: a Hamiltonian is scalar. "
                        "Sum over the components, e.g. 0.5 * jnp.sum(p**2)."
                    )
            single = callable(self.noise)
            pushes = {"noise" if single else f"noise[{r}]": f for r, f in enumerate(forces)}
            for name, function in {"force": self.force, **pushes}.items():
                shape = self._example[0].shape
                returned = shape if function is None else returned_shape(self, name, function, *arguments).shape
                if returned != shape:
                    raise ValueError(f"{name}: returned shape {returned}, expected {shape}, the shape of q")
        self.derive("component_units", "periods")

    @functools.cached_property
    def _example(self) -> tuple[np.ndarray, np.ndarray]:
        return paired_start.example(self.start, "qp")

    @property
    def _arguments(self) -> tuple[tuple[str, Any], ...]:
        q, p = self._example
        return ("t", 0.0), ("q", q), ("p", p)

    @property
    def scalar(self) -> bool:
        """Whether q and p are numbers."""
        return self._example[0].ndim == 0

    @property
    def n(self) -> int:  # type: ignore[override]
        return 2 * self._example[0].size

    @property
    def m(self) -> int:  # type: ignore[override]
        return len(self._hamiltonians) - 1

    @property
    def default_names(self) -> Sequence[str]:
        return ("q", "p") if self.scalar else [f"{word}{i}" for word in "qp" for i in range(self.n // 2)]

    @functools.cached_property
    def components(self) -> tuple[str, ...]:
        return paired_start.pair_names(self.names, self.default_names, "p_")

    @functools.cached_property
    def periods(self) -> tuple[float | None, ...] | None:
        """The period of each coordinate; None where none has one."""
        return _periods(self.periodic, self.n // 2)

    @functools.cached_property
    def all_h(self) -> Callable | None:
        """h where it is one function that returns those of all channels, (m,)."""
        return self.h if self._all_channels else None  # type: ignore[return-value]

    @functools.cached_property
    def _all_channels(self) -> int:
        """How many channels one function h returns; 0 where it returns a number, or there is one function each."""
        if not callable(self.h):
            return 0
        with jax.enable_x64(True):
            shape = returned_shape(self, "h", self.h, *self._arguments).shape
        if len(shape) > 1 or shape == (0,):
            raise ValueError(f"h: returned shape {shape}, expected one number, or a vector of one number per channel")
        return shape[0] if shape else 0

    def __getstate__(self):
        """The state that is pickled: without functions made here, which pickle cannot find by their names."""
        return {name: value for name, value in super().__getstate__().items() if name != "_given_hamiltonians"}

    @functools.cached_property
    def _given_hamiltonians(self) -> tuple[Callable | None, ...]:
        """One function per channel; where one function returns all of them, its entries."""
        if self.all_h is None:
            return _channels("h", self.h)
        return tuple(_entry(self.all_h, r) for r in range(self._all_channels))

    # --- the vectors of the equations: channel 0 is time, r = 1, ..., m the noise -------------------------------------

    def energy(self, k: int, t, q: Array, p: Array, params) -> Array:
        """H (k = 0) or h_k of q and p (N,), a number."""
        function = self._hamiltonians[k]
        if function is None:
            return jnp.zeros((), q.dtype)
        return jnp.asarray(call(function, t, *self._in_users_form(q, p), params=params))

    def velocity(self, k: int, t, q: Array, p: Array, params) -> Array:
        """∂H/∂p or ∂h_k/∂p, (N,)."""
        if self._hamiltonians[k] is None:
            return jnp.zeros_like(p)
        return jax.grad(lambda p: self.energy(k, t, q, p, params))(p)

    def pull(self, k: int, t, q: Array, p: Array, params) -> Array:
        """-∂H/∂q or -∂h_k/∂q, (N,)."""
        if self._hamiltonians[k] is None:
            return jnp.zeros_like(q)
        return -jax.grad(lambda q: self.energy(k, t, q, p, params))(q)

    def push(self, k: int, t, q: Array, p: Array, params) -> Array:
        """F or f_k, (N,)."""
        function = self._forces[k]
        if function is None:
            return jnp.zeros_like(p)
        return jnp.reshape(jnp.asarray(call(function, t, *self._in_users_form(q, p), params=params), p.dtype), p.shape)

    def kick(self, t, q: Array, p: Array, params, W: Array) -> tuple[Array, Array]:
        """The change of q and p by an increment of the noise: Σ_r h_r,p W_r and Σ_r (-h_r,q + f_r) W_r."""
        if self.all_h is None or any(force is not None for force in self._forces[1:]):
            terms = [(self.velocity(r, t, q, p, params), self.pull(r, t, q, p, params) + self.push(r, t, q, p, params))
                     for r in range(1, self.m + 1)]  # fmt: skip
            moved = [sum((W[r] * term[k] for r, term in enumerate(terms)), jnp.zeros_like(q)) for k in (0, 1)]
            return moved[0], moved[1]

        all_h = self.all_h

        def weighted_sum(q, p):
            return W @ call(all_h, t, *self._in_users_form(q, p), params=params)

        by_q, by_p = jax.grad(weighted_sum, argnums=(0, 1))(q, p)
        return by_p, -by_q

    @functools.cached_property
    def _hamiltonians(self) -> tuple[Callable | None, ...]:
        functions = self._given_hamiltonians or (None,) * len(_channels("noise", self.noise))
        return (self.H, *functions)

    @functools.cached_property
    def _forces(self) -> tuple[Callable | None, ...]:
        return (self.force, *(_channels("noise", self.noise) or (None,) * self.m))

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
        if self.all_h is not None:
            return self._operator(t, x, params).dense().astype(x.dtype)
        return jnp.stack([self.vector(r, t, x, params) for r in range(1, self.m + 1)], axis=1)

    def _operator(self, t, x: Array, params) -> Operator:
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

    @functools.cached_property
    def noise_structure(self) -> NoiseStructure:
        """Commutative where Γ_ij = Γ_ji and Λ_ij = Λ_ji, the brackets of the channels' vector fields."""
        with jax.enable_x64(True):
            if self.m == 0:
                return NoiseStructure(("additive", "commutative"), "there is none")
            start, sampled = np.asarray(self.example_start(), float), self.sample_params(CHECKED_STATES)
            if self.all_h is not None:
                return find_structure_of_operator(self._operator, start, self.example_params(), sampled)
            return find_structure(self.g, start, self.example_params(), sampled)

    def depends(self, k: int, part: str) -> Dependence:
        """How the velocity, pull or push of channel k depends on q and p, proved from the trace."""
        return self._dependences[k, part]

    @functools.cached_property
    def _dependences(self) -> dict[tuple[int, str], Dependence]:
        with jax.enable_x64(True):
            dependences: dict[tuple[int, str], Dependence] = {}
            for k, part in itertools.product(range(self.m + 1), PARTS):
                is_alike = k > 1 and self.all_h is not None and part != "push"  # channels of one function
                dependences[k, part] = dependences[1, part] if is_alike else self._dependence(k, part)
            return dependences

    def _dependence(self, k: int, part: str) -> Dependence:
        functions = self._forces if part == "push" else self._hamiltonians
        if functions[k] is None:
            return Dependence(True, False, False, True, True, True)
        function: Callable = functools.partial(getattr(self, part), k)
        q, p = self.split(np.asarray(self.example_start(), float))
        arguments: tuple[Any, ...] = np.zeros(()), q, p, self.example_params()
        if k and part != "push" and self.all_h is not None:
            place = PARTS.index(part)

            def of_all(t, q, p, params, W):
                return self.kick(t, q, p, params, W)[place]

            function = of_all
            arguments = (*arguments, np.ones(self.m))
        slopes = self._by_slopes(function, arguments)
        jumps_in_q, jumps_in_p = (has_jumps(function, arguments, moving=(i,)) for i in (1, 2))
        return slopes._replace(
            affine_q=slopes.affine_q and not jumps_in_q,
            affine_p=slopes.affine_p and not jumps_in_p,
            affine=slopes.affine and not (jumps_in_q or jumps_in_p),
        )

    @staticmethod
    def _by_slopes(function: Callable, arguments: tuple[Any, ...]) -> Dependence:
        """How a function depends on q and p, where its derivatives tell."""
        if np.size(arguments[1]) > ENTRY_BY_ENTRY:
            return _dependence_of_wholes(function, arguments)

        def reached(function) -> tuple[set[int], bool]:
            """Which of q (1) and p (2) the result depends on, and whether it is known to be zero."""
            (entries,) = dependence(function, *arguments)
            labels = {a for e in entries.ravel() if isinstance(e, frozenset) for a, _ in e}
            return labels & {1, 2}, all(not isinstance(e, frozenset) and e == 0 for e in entries.ravel())

        try:
            on, zero = reached(function)
            by_q, by_p = (reached(jax.jacfwd(function, argnums=i))[0] for i in (1, 2))
        except Unprintable:
            return Dependence(False, True, True, False, False, False)
        return Dependence(zero, 1 in on, 2 in on, 1 not in by_q, 2 not in by_p, not by_q | by_p)

    @property
    def separable(self) -> bool:
        """Whether every Hamiltonian is T(p) + U(q)."""
        return not any(self.depends(k, "velocity").on_q or self.depends(k, "pull").on_p for k in range(self.m + 1))

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
        if calculus not in CALCULI:
            raise ValueError(f"calculus: expected one of {CALCULI}, got {calculus!r}")

        diffusion: Callable = self.g if self.m else lambda t, x: jnp.zeros((self.n, 1), x.dtype)
        if self.all_h is not None:
            diffusion = self._operator
        start = self.start_source.argument
        sde = SDE(self.f, diffusion, start, self.params, "stratonovich", self.components, self.component_units)
        return to_ito(sde) if calculus == "ito" else sde

    def lower(self, kind: type) -> tuple[Problem, str] | None:
        return (self._as_sde, "Hamiltonian -> Stratonovich SDE of (q, p)") if kind is SDE else None

    @functools.cached_property
    def _as_sde(self) -> SDE:
        return self.to_sde()

    @property
    def start_from_normals(self) -> FromNormals | None:
        return self.start if isinstance(self.start, FromNormals) else None

    @functools.cached_property
    def start_source(self) -> Source:
        return paired_start.source(self.start, "qp")


def _entry(function: Callable, r: int) -> Callable:
    return functools.wraps(function)(lambda *arguments: function(*arguments)[r])


def _dependence_of_wholes(function: Callable, arguments: tuple[Any, ...]) -> Dependence:
    """The same from whole arrays: affine where the derivative in any direction no longer depends on the argument."""
    numbers = [number for number, argument in enumerate(arguments) for _ in jax.tree.leaves(argument)]
    q, p = arguments[1:3]

    def facts(function: Callable, *more: Any) -> Facts:
        trace = jax.make_jaxpr(function)(*arguments, *more)
        return facts_of(trace, [*numbers, *range(10, 10 + len(more))], vector=1)[0]

    def slope(t: Any, q: Any, p: Any, *others: Any) -> Any:
        *rest, dq, dp = others
        return jax.jvp(lambda q, p: function(t, q, p, *rest), (q, p), (dq, dp))[1]

    def along_q(*point: Any) -> Any:
        return slope(*point, jnp.zeros_like(p))

    def along_p(*point: Any) -> Any:
        return slope(*point[:-1], jnp.zeros_like(q), point[-1])

    here = facts(function)
    on = frozenset() if here.number is not None else here.on
    affine_q = 1 not in on or 1 not in facts(along_q, q).on
    affine_p = 2 not in on or 2 not in facts(along_p, p).on
    affine = affine_q and affine_p
    if affine and {1, 2} <= on:
        affine = not {1, 2} & facts(slope, q, p).on
    is_zero = here.number is not None and bool(here.number == 0)
    return Dependence(is_zero, 1 in on, 2 in on, affine_q, affine_p, affine)


def _channels(name: str, value: Any) -> tuple[Callable | None, ...]:
    if not (value is None or callable(value) or isinstance(value, Sequence)):
        raise TypeError(
            f"{name}: expected a function of (t, q, p[, params]) or a tuple of one per channel, got {value!r}"
        )
    functions = () if value is None else (value,) if callable(value) else tuple(value)
    for r, function in enumerate(functions):
        if function is not None and not callable(function):
            raise TypeError(f"{name}[{r}]: expected a function of (t, q, p[, params]) or None, got {function!r}")
    return functions


def _periods(periodic: Any, N: int) -> tuple[float | None, ...] | None:
    if periodic is None:
        return None
    periods = (periodic,) * N if np.ndim(periodic) == 0 else tuple(periodic)
    if len(periods) != N or not all(p is None or (np.isfinite(p) and p > 0) for p in periods):
        raise ValueError(f"periodic: expected {N} periods > 0 (None for a coordinate that has none), got {periodic!r}")
    return tuple(None if p is None else float(p) for p in periods)
