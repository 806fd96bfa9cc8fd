"""Differential-algebraic equations with random parameters: M(p) x' = f(t, x, p), and M(p) x' = A(p) x + s(t, p)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.noise.distribution import Distribution, distribution
from stodyn.noise.source import Fixed, Source, source_of
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.radau import Forcing, Linear, Nonlinear
from stodyn.numerics.sparse import MOST_FULL, Pattern, find_pattern
from stodyn.numerics.tracing_errors import in_words, missing_entry
from stodyn.problems import domain_index, multiaffine, pencil
from stodyn.problems.calling import call, check_call
from stodyn.problems.contract import (
    NoiseStructure,
    Problem,
    Recommended,
    check_params,
    fixed_value,
    returned_shape,
)
from stodyn.problems.multiaffine import MultiAffine
from stodyn.problems.random_start import Jumped, start_report

TESTS = 6  # points at which an interpolant is compared with the function
SOURCE_TIMES = 8  # times of a run at which the dependence of a source on the parameters is tested at first
DENSE_LIMIT = 64  # components up to which the nodes are solved as one dense batch


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class RandomDAE(Problem):
    """M(p) x' = f(t, x, p) with independent random parameters p; in its linear form M(p) x' = A(p) x + s(t, p).

    Interpolation decides whether M, A and s are affine or multi-affine in p (mass_terms, matrix_terms); solvers use it.

    Parameters
    ----------
    mass : array (n, n) or function
        M: an array, a scipy.sparse matrix, or a function mass(p) that returns one. It may be singular.
    drift : function drift(t, x, p) -> (n,), optional
        f(t, x, p), written with jax.numpy. Leave it out for the linear form.
    start : array (n,) or function start(p) -> (n,)
        The initial value.
    params : mapping
        Name -> value, as for SDE. Entries that are distributions (those of stodyn.noise such as Uniform, or a frozen
        continuous one of scipy.stats) are the random parameters, which are independent; the others are fixed. Functions
        receive p, a mapping with a value for every name; a function that does not need p may leave the argument out.
    names, units : optional
        As for SDE.
    matrix : array (n, n) or function, optional
        A of the linear form, given like `mass`.
    source : array (n,) or function source(t, p) -> (n,), optional
        s of the linear form; zero by default.
    kinks : mapping, optional
        Name -> values of that random parameter at which the functions are not smooth. Quadrature and Galerkin split
        their integrals there; Collocation and Sampling take none, and warn.

    Examples
    --------
    A capacitor that charges through a resistor of uncertain value, R C u' = 1 - u:

    >>> import stodyn as sd
    >>> rc = sd.RandomDAE(lambda p: [[p["R"] * p["C"]]], matrix=[[-1.0]], source=[1.0], start=[0.0],
    ...                   params={"R": sd.noise.Uniform(0.9, 1.1), "C": 2.0})
    >>> rc.parameters
    ('R',)
    """

    mass: Any
    drift: Callable | None = None
    start: Any = None
    params: Any = None
    names: Sequence[str] | None = None
    units: Sequence[str] | Mapping[str, str] | None = None
    _: dataclasses.KW_ONLY
    matrix: Any = None
    source: Any = None
    kinks: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)

    m = 0
    calculus = "ito"
    call_form = "RandomDAE(mass, drift, start, params), or RandomDAE(mass, matrix=..., start=..., params=...)"

    def __post_init__(self):
        if self.params is not None and not isinstance(self.params, Mapping):
            raise TypeError(f"params: expected a mapping name -> distribution or number, got {self.params!r}")
        for name in self.params or ():
            if not isinstance(name, str):
                raise TypeError(
                    f"params: {name!r} is not the name of a single parameter. Random parameters are independent, with "
                    "one name and one distribution each; write dependent ones as functions of independent ones."
                )
        check_params({name: value for name, value in (self.params or {}).items() if name not in self._laws})
        if (self.matrix is None) == (self.drift is None):
            raise TypeError("drift, matrix: give one of them: drift for M x' = f(t, x), matrix for M x' = A x + s(t)")
        if self.drift is not None and self.source is not None:
            raise TypeError("source: belongs to the linear form; write it into drift")
        if self.drift is not None and not callable(self.drift):
            raise TypeError(f"drift: expected a function drift(t, x, p), got {self.drift!r}. For M x' = A x: matrix=A")
        for name, leading in (("mass", ()), ("matrix", ()), ("start", ()), ("source", ("t",))):
            if callable(getattr(self, name)):
                _try_call(name, getattr(self, name), leading, self._params_at(self.center))
        if self.matrix is not None and _square("matrix", self._matrix_at(self.center)).shape[0] != self.n:
            returned = np.shape(self._matrix_at(self.center))
            raise ValueError(f"matrix: expected {self.n} rows, as mass has, got shape {returned}")
        if self.start is None:
            raise ValueError(f"start: missing; give {self.n} initial values, or start(p)")
        for name, vector in (("start", self._start_at(self.center)), ("source", self._source_at(0.0, self.center))):
            if vector.shape != (self.n,):
                raise ValueError(f"{name}: expected {self.n} numbers, one per component, got shape {vector.shape}")
        if self.drift is not None:
            with jax.enable_x64(True):
                returned = returned_shape(self, "drift", self.drift, ("t", 0.0), ("x", np.zeros(self.n)))
            if returned.shape != (self.n,):
                raise ValueError(
                    f"drift: returned shape {returned.shape}, expected {(self.n,)}, one number per row of mass"
                )
        unknown = sorted(set(self.kinks) - set(self.parameters))
        if unknown:
            raise ValueError(f"kinks: {unknown[0]!r} is not a random parameter; they are {list(self.parameters)}")
        for name, values in self.kinks.items():
            _check_kinks(name, values, self._laws[name])
        self.derive("component_units")

    @functools.cached_property
    def n(self) -> int:  # type: ignore[override]
        return _square("mass", self._mass_at(self.center)).shape[0]

    # --- values at parameters -------------------------------------------------------------------------------------

    @functools.cached_property
    def _laws(self) -> dict[str, Distribution]:
        """Name -> distribution of the random parameters."""
        laws = {}
        for name, value in (self.params or {}).items():
            if source_of(value).is_listed:
                raise TypeError(
                    f"params[{name!r}]: got PerPath values, but the parameters of a RandomDAE have distributions. "
                    "Give a distribution such as Uniform(0.9, 1.1), or sweep over fixed values."
                )
            if source_of(value).is_random:
                laws[name] = distribution(value, f"params[{name!r}]")
        return laws

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the random parameters."""
        return tuple(self._laws)

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """The distributions of the random parameters."""
        return tuple(self._laws.values())

    @property
    def linear(self) -> bool:
        """Whether the equations are given by a matrix."""
        return self.drift is None

    @functools.cached_property
    def center(self) -> np.ndarray:
        """The means of the parameters."""
        return np.array([law.mean for law in self.distributions])

    def _params_at(self, p: np.ndarray) -> dict[str, Any] | None:
        """The params of the functions where the values of the random ones are p."""
        if self.params is None:
            return None
        return {**self.params, **{name: float(v) for name, v in zip(self.parameters, p, strict=True)}}

    def _value_at(self, p: np.ndarray, function: Any, *arguments: float) -> Any:
        """The value of a function of the parameters, or what stands in its place; those of JAX in double precision."""
        if not callable(function):
            return function
        with jax.enable_x64(True):
            return call(function, *arguments, params=self._params_at(p))

    def _mass_at(self, p: np.ndarray) -> Any:
        return self._value_at(p, self.mass)

    def _matrix_at(self, p: np.ndarray) -> Any:
        return self._value_at(p, self.matrix)

    def _start_at(self, p: np.ndarray) -> np.ndarray:
        return fixed_value("start", self._value_at(p, self.start))

    def _source_at(self, t: float, p: np.ndarray) -> np.ndarray:
        return np.zeros(self.n) if self.source is None else np.asarray(self._value_at(p, self.source, t), float)

    def _sources_at(self, times: np.ndarray, p: np.ndarray) -> np.ndarray:
        return np.stack([self._source_at(t, p) for t in times])

    def masses(self, nodes: np.ndarray) -> np.ndarray:
        """M at the nodes (K, Q), (K, n, n)."""
        return self._stacked(self.mass_terms, self._mass_at, nodes)

    def matrices(self, nodes: np.ndarray) -> np.ndarray:
        """A at the nodes, (K, n, n)."""
        return self._stacked(self.matrix_terms, self._matrix_at, nodes)

    def starts(self, nodes: np.ndarray) -> np.ndarray:
        """The initial values at the nodes, (K, n)."""
        if not callable(self.start):
            return np.tile(self._start_at(self.center), (len(nodes), 1))
        return np.stack([self._start_at(p) for p in nodes])

    def _stacked(self, terms: MultiAffine | None, at: Callable, nodes: np.ndarray) -> np.ndarray:
        if terms is not None:
            return terms.values(nodes)
        return np.stack([pencil.dense("mass, matrix", at(p)) for p in nodes])

    # --- how they depend on the parameters --------------------------------------------------------------------------

    @functools.cached_property
    def _tests(self) -> np.ndarray:
        u = np.random.default_rng(20).uniform(0.02, 0.98, (TESTS, len(self.distributions)))
        if not u.size:
            return u
        anywhere = np.stack([law.ppf(u[:, i]) for i, law in enumerate(self.distributions)], axis=1)
        return np.vstack([anywhere, self.between_kinks])

    @functools.cached_property
    def between_kinks(self) -> np.ndarray:
        """The medians of the pieces between kinks, the other parameters at their means, (pieces, Q)."""
        places = []
        for i, name in enumerate(self.parameters):
            for piece in self._laws[name].split(self.kinks[name]) if name in self.kinks else ():
                places.append(self.center.copy())
                places[-1][i] = piece.law.ppf(0.5)
        return np.array(places).reshape(-1, len(self.parameters))

    @functools.cached_property
    def _spread(self) -> np.ndarray:
        """Steps from the means that stay inside the supports."""
        return np.array([law.ppf(0.75) - law.mean or law.ppf(0.9) - law.mean for law in self.distributions])

    def _find(self, at: Callable[[np.ndarray], Any]) -> MultiAffine | None:
        return multiaffine.find(at, self.center, self._spread, self._tests)

    @functools.cached_property
    def mass_terms(self) -> MultiAffine | None:
        """The mass as a multi-affine function of the parameters, with sparse coefficients; None where it is not one."""
        return self._find(lambda p: scipy.sparse.csr_array(_square("mass", self._mass_at(p))))

    @functools.cached_property
    def matrix_terms(self) -> MultiAffine | None:
        """The same for the matrix A."""
        return self._find(lambda p: scipy.sparse.csr_array(_square("matrix", self._matrix_at(p))))

    @functools.cached_property
    def start_terms(self) -> MultiAffine | None:
        """The same for the start."""
        return self._find(self._start_at)

    def source_terms(self, times: np.ndarray) -> list[tuple[int, ...]] | None:
        """The sets of parameters whose products combine to the source at all times; None where there are none."""
        if not callable(self.source):
            return [()]
        key = np.asarray(times, float).tobytes()
        if key not in self._sets_of_source:
            self._sets_of_source[key] = self._find_source_terms(np.asarray(times, float))
        return self._sets_of_source[key]

    @functools.cached_property
    def _sets_of_source(self) -> dict[bytes, list[tuple[int, ...]] | None]:
        return {}

    def _find_source_terms(self, times: np.ndarray) -> list[tuple[int, ...]] | None:
        """From some of the times, and then from those where another parameter shows that terms are missing: a pulse."""
        sample_times = times[np.unique(np.linspace(0, len(times) - 1, SOURCE_TIMES).astype(int))]
        while True:
            terms = self._find(functools.partial(self._sources_at, sample_times))
            if terms is None:
                return None
            sets = list(terms.terms)
            missed = np.setdiff1d(self._unlike(times, sets), sample_times)
            if not len(missed):
                return sets
            sample_times = np.append(sample_times, missed[:: -(-len(missed) // SOURCE_TIMES)])

    def _unlike(self, times: np.ndarray, sets: list[tuple[int, ...]]) -> np.ndarray:
        """The times at which the combination of the sets differs from the source at a test point."""
        if not self.parameters:
            return times[:0]
        p = self._tests[0]
        products = MultiAffine(self.center, dict.fromkeys(sets)).monomials(p[None])[0]
        parts = products[:, None] * self.source_parts(times, sets)
        values = self._sources_at(times, p)
        size = np.maximum(np.abs(parts).sum(axis=1), np.abs(values)).max(axis=0)
        return times[(np.abs(values - parts.sum(axis=1)) > multiaffine.EXACT * size).any(axis=1)]

    @property
    def structure(self) -> dict[str, str]:
        """In words: constant, affine, multi-affine or general."""
        if not self.linear:
            return {"drift": "nonlinear"}
        dependences = {"mass": self.mass_terms, "matrix": self.matrix_terms}
        return {name: "general" if terms is None else terms.kind for name, terms in dependences.items()}

    def source_parts(self, times: np.ndarray, sets: list[tuple[int, ...]]) -> np.ndarray:
        """The coefficients of the source for each set, (times, sets, n)."""
        if sets == [()] and callable(self.source):
            return np.array([self._source_at(t, self.center) for t in times.tolist()])[:, None]
        rows = []
        for t in times:
            parts = multiaffine.interpolated(functools.partial(self._source_at, t), self.center, self._spread, sets)
            rows.append([parts[S] for S in sets])
        return np.array(rows)

    # --- systems to integrate ------------------------------------------------------------------------------------

    def system(self, nodes: np.ndarray, times: np.ndarray) -> Linear | Nonlinear:
        """The systems at the nodes (K, Q) as one batch."""
        if not self.linear:
            return self._nonlinear(nodes)
        return Linear(self.masses(nodes), -self.matrices(nodes), self.forcing(nodes, times))

    @property
    def is_sparse(self) -> bool:
        """Whether the nodes are solved one after another with sparse matrices."""
        return self.n > DENSE_LIMIT and (self.linear or self._drift_pattern is not None)

    def sparse_system(self, p: np.ndarray, times: np.ndarray) -> Linear | Nonlinear:
        """The system at one parameter with sparse matrices."""
        M = scipy.sparse.csr_array(self._mass_at(p))
        if self.linear:
            return Linear(M, -scipy.sparse.csr_array(self._matrix_at(p)), self.forcing(p[None], times))
        pattern: Any = self._drift_pattern
        params = {name: p[i : i + 1] for i, name in enumerate(self.parameters)}

        def jacobian(t, x):
            with jax.enable_x64(True):
                return pattern.csr(np.asarray(self._sparse_slopes(t, x, params))[0])

        return Nonlinear(M, self._rates(params), jacobian)

    def forcing(self, nodes: np.ndarray, times: np.ndarray) -> Forcing:
        """s(t, p) at the nodes; a source that does not depend on p is evaluated once for all of them."""
        sets, columns = self.source_terms(times), np.arange(self.n)
        if sets is None:
            return Forcing(lambda t: np.array([[self._source_at(s, p) for p in nodes] for s in t]), columns)
        if sets == [()]:
            return Forcing(lambda t: self.source_parts(t, sets)[:, 0], columns)
        products = MultiAffine(self.center, dict.fromkeys(sets)).monomials(nodes)
        return Forcing(lambda t: np.einsum("ks,tsn->tkn", products, self.source_parts(t, sets)), columns)

    def _nonlinear(self, nodes: np.ndarray) -> Nonlinear:
        params = {name: nodes[:, i] for i, name in enumerate(self.parameters)}

        def jacobian(t, x):
            with jax.enable_x64(True):
                return np.asarray(self._slopes(t, x, params))

        return Nonlinear(self.masses(nodes), self._rates(params), jacobian)

    def _drift_of_one(self, t, x, p):
        params = None if self.params is None else {**self.params, **p}
        return jnp.asarray(call(self.drift, t, x, params=params), float)  # type: ignore[arg-type]

    def _rates(self, params: Mapping[str, np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """f (stages, members, n) at these parameters."""

        def f(t, x):
            with jax.enable_x64(True):
                return np.asarray(self._batched_drift(t, x, params))

        return f

    @functools.cached_property
    def _batched_drift(self) -> Callable:
        """f (stages, members, n), compiled once per shape."""
        return jax.jit(jax.vmap(jax.vmap(self._drift_of_one, (None, 0, 0)), (0, 0, None)))

    @functools.cached_property
    def _slopes(self) -> Callable:
        """The Jacobian (members, n, n), compiled once per shape."""
        return jax.jit(jax.vmap(jax.jacfwd(self._drift_of_one, 1), (None, 0, 0)))

    @functools.cached_property
    def _drift_pattern(self) -> Pattern | None:
        """Where the Jacobian of the drift may differ from zero; None where it is full or cannot be followed."""
        with jax.enable_x64(True):
            p = {name: jnp.asarray(value) for name, value in zip(self.parameters, self.center, strict=True)}
            start = np.asarray(self._start_at(self.center), float)
            try:
                pattern = find_pattern(lambda x, t: self._drift_of_one(t, x, p), start, np.zeros(()))
            except Unprintable:
                return None
        return pattern if len(pattern.rows) <= MOST_FULL * self.n**2 else None

    @functools.cached_property
    def _sparse_slopes(self) -> Callable:
        """The entries (members, nnz) of the Jacobian at the places of its pattern, compiled once per shape."""
        pattern: Any = self._drift_pattern

        def slopes(t, x, p):
            return pattern.jacobian(lambda x: self._drift_of_one(t, x, p), x)

        return jax.jit(jax.vmap(slopes, (None, 0, 0)))

    # --- as a problem of the engine -------------------------------------------------------------------------------

    @property
    def recommended(self) -> Recommended:
        if not self.parameters:
            return Recommended("Radau5", "nothing is random: an implicit method of order 5 with error control")
        if self.linear:
            return Recommended("Galerkin", "the equations are linear: one coupled system gives all coefficients")
        if len(self.parameters) <= 4:
            return Recommended("Quadrature", "up to four random parameters: the grid is small")
        return Recommended("Sampling", "a grid over more than four parameters is too large", {"fit": "regression"})

    @property
    def noise_structure(self) -> NoiseStructure:
        return NoiseStructure(("additive", "commutative"), "there is none")

    @functools.cached_property
    def start_source(self) -> Source:
        """The start at the mean parameters: the solver of a path, which knows its parameters, computes its own."""
        return Fixed(self._start_at(self.center))

    # --- index and start ------------------------------------------------------------------------------------------

    def pencil_at(self, p: np.ndarray | None = None, t: float = 0.0, scaling: Any = None) -> pencil.Pencil:
        """Analyse the pencil at one parameter; that of a nonlinear system is linearised at its start.

        Parameters
        ----------
        p : array (Q,), optional
            The parameter; by default the means.
        t : float
            The time at which a nonlinear system is linearised.
        scaling : pencil.Scaling, optional
            The scaling of rows, columns and time; by default it is computed.

        Returns
        -------
        pencil.Pencil
        """
        p = self.center if p is None else np.asarray(p, float)
        if self.linear:
            return pencil.analyse(self._mass_at(p), -_array(self._matrix_at(p)), scaling=scaling, names=self.components)
        system = self._nonlinear(p[None])
        J = system.jacobian(t, self._start_at(p)[None])[0]
        return pencil.analyse(system.mass[0], -J, scaling=scaling, names=self.components)

    @functools.cached_property
    def domain_index(self) -> domain_index.DomainIndex:
        """The index over the domain of the parameters."""
        return domain_index.over_domain(self)

    def consistent(self, t: float, dt: float) -> RandomDAE:
        """The same system from the consistent start that an inconsistent one jumps to, at every parameter.

        Parameters
        ----------
        t
            The time of the start.
        dt
            A time over which the source is smooth: its derivatives are taken over four of them.
        """
        start = start_report(self, self.center, t, dt).x if self.params is None else Jumped(self, t, dt)
        return dataclasses.replace(self, start=start)


def _try_call(name: str, function: Callable, words: tuple[str, ...], params: dict[str, Any] | None) -> None:
    """An error in the user's terms where a function of the parameters cannot be called at their means, time 0."""
    check_call(name, function, words, params)
    try:
        with jax.enable_x64(True):
            call(function, *[0.0] * len(words), params=params)
    except ArithmeticError as error:
        where = ", ".join(f"{key} = {value!r}" for key, value in (params or {}).items())
        raise ValueError(
            f"{name}: {in_words(error)} at the mean parameters {where}. Take other distributions, or functions "
            "that are defined there."
        ) from error
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        wanted = f"{name}({', '.join([*words, 'p'] if params else words)})"
        hint = missing_entry(error, params) if params else ""
        holds = f"p is a mapping with the entries {', '.join(map(repr, params))}." if params else ""
        raise TypeError(
            f"{name}: {wanted} failed at the mean parameters ({in_words(error)}). {hint or holds}".rstrip()
        ) from error


def _check_kinks(name: str, values: Any, law: Distribution) -> None:
    kinks = np.asarray(values, float)
    if kinks.ndim != 1:
        raise TypeError(f"kinks[{name!r}]: expected a list of numbers, got {values!r}")
    outside = kinks[~((kinks >= law.low) & (kinks <= law.high))]
    if len(outside):
        raise ValueError(
            f"kinks[{name!r}]: {outside[0]:g} lies outside the values of {name}, from {law.low:g} to {law.high:g}"
        )
    try:
        law.split(kinks.tolist())
    except ValueError as error:
        raise ValueError(
            f"kinks[{name!r}]: {name} has no probability between some neighbours of {kinks.tolist()}. Of kinks that "
            "are nearly the same name only one."
        ) from error


def _square(name: str, matrix: Any) -> Any:
    """A finite square matrix, sparse or dense."""
    array = _array(matrix)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise ValueError(f"{name}: expected a square matrix, got shape {array.shape}")
    if not np.all(np.isfinite(array.data if scipy.sparse.issparse(array) else array)):
        raise ValueError(f"{name}: has entries that are not finite")
    return array


def _array(matrix: Any) -> Any:
    """A sparse matrix as it is, anything else as a dense array."""
    return matrix if scipy.sparse.issparse(matrix) else np.asarray(matrix, float)
