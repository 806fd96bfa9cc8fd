"""Differential-algebraic equations with random parameters: M(p) x' = f(t, x, p), and M(p) x' = A(p) x + s(t, p)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.noise.distribution import Distribution, distribution
from stodyn.noise.source import Fixed, Source, source_of
from stodyn.numerics.radau import Forcing, Linear, Nonlinear
from stodyn.problems import multiaffine, pencil
from stodyn.problems.calling import call, check_call
from stodyn.problems.contract import (
    NoiseStructure,
    Problem,
    Recommended,
    check_params,
    first_line,
    fixed_value,
    returned_shape,
)
from stodyn.problems.multiaffine import MultiAffine

TESTS = 6  # points at which an interpolant is compared with the function
SOURCE_TIMES = 8  # times of a run at which the dependence of a source on the parameters is tested at first
DENSE_LIMIT = 64  # components up to which the nodes are solved as one dense batch
STARTS, LOOKS = 2, 40  # starts of the search for the least clear place, and evaluations per parameter
INDEX_LIMIT = 400  # components up to which an index is computed
DOMAIN_POINTS = 32


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
        Name -> values of that random parameter at which the functions are not smooth; integrals are split there.

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
            found = np.shape(self._matrix_at(self.center))
            raise ValueError(f"matrix: expected {self.n} rows, as mass has, got shape {found}")
        if self.start is None:
            raise ValueError(f"start: missing; give {self.n} initial values, or start(p)")
        for name, vector in (("start", self._start_at(self.center)), ("source", self._source_at(0.0, self.center))):
            if vector.shape != (self.n,):
                raise ValueError(f"{name}: expected {self.n} numbers, one per component, got shape {vector.shape}")
        if self.drift is not None:
            with jax.enable_x64(True):
                found = returned_shape(self, "drift", self.drift, ("t", 0.0), ("x", np.zeros(self.n)))
            if found.shape != (self.n,):
                raise ValueError(
                    f"drift: returned shape {found.shape}, expected {(self.n,)}, one number per row of mass"
                )
        unknown = sorted(set(self.kinks) - set(self.parameters))
        if unknown:
            raise ValueError(f"kinks: {unknown[0]!r} is not a random parameter; they are {list(self.parameters)}")
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

    def _mass_at(self, p: np.ndarray) -> Any:
        return call(self.mass, params=self._params_at(p)) if callable(self.mass) else self.mass

    def _matrix_at(self, p: np.ndarray) -> Any:
        return call(self.matrix, params=self._params_at(p)) if callable(self.matrix) else self.matrix

    def _start_at(self, p: np.ndarray) -> np.ndarray:
        start = call(self.start, params=self._params_at(p)) if callable(self.start) else self.start
        return fixed_value("start", start)

    def _source_at(self, t: float, p: np.ndarray) -> np.ndarray:
        if self.source is None:
            return np.zeros(self.n)
        source = call(self.source, t, params=self._params_at(p)) if callable(self.source) else self.source
        return np.asarray(source, float)

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
        return np.stack([law.ppf(u[:, i]) for i, law in enumerate(self.distributions)], axis=1) if u.size else u

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
        seen = times[np.unique(np.linspace(0, len(times) - 1, SOURCE_TIMES).astype(int))]
        while True:
            terms = self._find(functools.partial(self._sources_at, seen))
            if terms is None:
                return None
            sets = list(terms.terms)
            missed = np.setdiff1d(self._unlike(times, sets), seen)
            if not len(missed):
                return sets
            seen = np.append(seen, missed[:: -(-len(missed) // SOURCE_TIMES)])

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
        found = {"mass": self.mass_terms, "matrix": self.matrix_terms}
        return {name: "general" if terms is None else terms.kind for name, terms in found.items()}

    def source_parts(self, times: np.ndarray, sets: list[tuple[int, ...]]) -> np.ndarray:
        """The coefficients of the source for each set, (times, sets, n)."""
        if sets == [()] and callable(self.source):
            params = self._params_at(self.center)
            return np.array([call(self.source, t, params=params) for t in times.tolist()], float)[:, None]
        rows = []
        for t in times:
            found = multiaffine.interpolated(functools.partial(self._source_at, t), self.center, self._spread, sets)
            rows.append([found[S] for S in sets])
        return np.array(rows)

    # --- systems to integrate ------------------------------------------------------------------------------------

    def system(self, nodes: np.ndarray, times: np.ndarray) -> Linear | Nonlinear:
        """The systems at the nodes (K, Q) as one batch."""
        if not self.linear:
            return self._nonlinear(nodes)
        return Linear(self.masses(nodes), -self.matrices(nodes), self.forcing(nodes, times))

    def sparse_system(self, p: np.ndarray, times: np.ndarray) -> Linear:
        """The linear system at one parameter with sparse matrices."""
        M, A = scipy.sparse.csr_array(self._mass_at(p)), scipy.sparse.csr_array(self._matrix_at(p))
        return Linear(M, -A, self.forcing(p[None], times))

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
        given = {name: jnp.asarray(nodes[:, i]) for i, name in enumerate(self.parameters)}

        def f(t, x):
            with jax.enable_x64(True):
                return np.asarray(self._batched[0](t, x, given))

        def jacobian(t, x):
            with jax.enable_x64(True):
                return np.asarray(self._batched[1](t, x, given))

        return Nonlinear(self.masses(nodes), f, jacobian)

    @functools.cached_property
    def _batched(self) -> tuple[Callable, Callable]:
        """f (stages, members, n) and its Jacobian (members, n, n), compiled once per shape."""
        drift, params = self.drift, self.params
        assert drift is not None

        def one(t, x, p):
            return jnp.asarray(call(drift, t, x, params=None if params is None else {**params, **p}), float)

        over_members = jax.vmap(one, (None, 0, 0))
        return (
            jax.jit(jax.vmap(over_members, (0, 0, None))),
            jax.jit(jax.vmap(jax.jacfwd(one, 1), (None, 0, 0))),
        )

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
        """The pencil at one parameter (the means unless given); of a nonlinear system, linearised at its start."""
        p = self.center if p is None else np.asarray(p, float)
        if self.linear:
            return pencil.analyse(self._mass_at(p), -_array(self._matrix_at(p)), scaling=scaling, names=self.components)
        system = self._nonlinear(p[None])
        J = system.jacobian(t, self._start_at(p)[None])[0]
        return pencil.analyse(system.mass[0], -J, scaling=scaling, names=self.components)

    @functools.cached_property
    def domain_index(self) -> DomainIndex:
        """The index over the domain of the parameters."""
        return over_domain(self)

    def consistent(self, t: float, dt: float) -> RandomDAE:
        """The same system from the consistent start that an inconsistent one jumps to, at every parameter.

        Parameters
        ----------
        t
            The time of the start.
        dt
            A time over which the source is smooth: its derivatives are taken over four of them.
        """
        start = start_report(self, self.center, t, dt).x if self.params is None else _Jumped(self, t, dt)
        return dataclasses.replace(self, start=start)


def _try_call(name: str, function: Callable, words: tuple[str, ...], params: dict[str, Any] | None) -> None:
    """An error in the user's terms where a function of the parameters cannot be called at their means, time 0."""
    check_call(name, function, words, params)
    try:
        call(function, *[0.0] * len(words), params=params)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        wanted = f"{name}({', '.join([*words, 'p'] if params else words)})"
        holds = f" p is a mapping with the entries {', '.join(map(repr, params))}." if params else ""
        raise TypeError(f"{name}: {wanted} failed at the mean parameters ({first_line(error)}).{holds}") from error


class _Jumped:
    """start(p): where the solution jumps to."""

    def __init__(self, problem: RandomDAE, t: float, dt: float):
        self.problem, self.t, self.dt = problem, t, dt

    def __call__(self, p: Mapping[str, float]) -> np.ndarray:
        random = np.array([p[name] for name in self.problem.parameters])
        return start_report(self.problem, random, self.t, self.dt).x


def start_report(problem: RandomDAE, p: np.ndarray, t: float, dt: float) -> pencil.Start:
    """What the start of a linear system does at one parameter: consistent value, jump and impulses."""
    found = problem.pencil_at(p)
    sources = derivatives(lambda s: problem._source_at(s, p), t, 4.0 * dt, found.index)
    return found.start(problem._start_at(p), sources)


def check_start(problem: RandomDAE, t: float, dt: float) -> str:
    """In words how the start fits the constraints at the mean parameters; refuses one that would cause an impulse."""
    if problem.n > INDEX_LIMIT:
        return f"not checked: {problem.n} components are too many"
    if not problem.linear:
        return _check_nonlinear_start(problem, t)
    report = start_report(problem, problem.center, t, dt)
    found = problem.pencil_at()
    c, names = found.scaling.columns, problem.components
    bad = np.flatnonzero(report.moved)
    if not len(bad):
        return "consistent"
    jumps = ", ".join(f"{names[i]} by {report.jump[i]:.4g}" for i in bad.tolist())
    if report.harmless:
        return f"the first step moves {jumps}; nothing else changes"
    impulses = [
        f"{names[i]}: {row[i]:.4g} δ{chr(39) * j}(t)"
        for j, row in enumerate(report.impulses)
        for i in np.flatnonzero(np.abs(row / c) > 1e-9 * np.abs(row / c).max(initial=1e-300)).tolist()
    ]
    raise ValueError(
        f"start: does not satisfy the constraints. The solution would jump ({jumps})"
        + (f" and show impulses ({'; '.join(impulses)})" if impulses else "")
        + f". Give a start with {', '.join(w.in_words(names) for w in found.constraints)}, or take "
        "problem.consistent(t, dt), the value it jumps to."
    )


def _check_nonlinear_start(problem: RandomDAE, t: float) -> str:
    system = problem._nonlinear(problem.center[None])
    U, S, _ = np.linalg.svd(system.mass[0])
    zero = U[:, np.count_nonzero(1e-12 * max(S[0], 1e-300) < S) :]
    if not zero.shape[1]:
        return "consistent"
    x = problem._start_at(problem.center)
    residual = np.abs(zero.T @ system.f(np.array([t]), x[None, None])[0, 0])
    size = np.abs(zero.T) @ (np.abs(system.jacobian(t, x[None])[0]) @ (np.abs(x) + 1e-3 * np.abs(x).max(initial=1.0)))
    if np.any(residual > 1e-6 * np.maximum(size, 1e-300)):
        raise ValueError(
            f"start: the algebraic equations have the residuals {np.array2string(residual, precision=3)} there, "
            "expected 0. Solve them for the algebraic components first."
        )
    return "consistent with the algebraic equations"


def derivatives(function: Callable[[float], np.ndarray], t: float, span: float, count: int) -> np.ndarray:
    """function and its derivatives at t, (count, n), from its polynomial of degree 10 over [t, t + span]."""
    degree = 10
    places = 0.5 * (1.0 - np.cos(np.pi * np.arange(degree + 1) / degree))
    values = np.stack([function(t + span * place) for place in places])
    fit = np.polynomial.Chebyshev.fit
    rows = []
    for column in values.T:
        polynomial = fit(places, column, degree, domain=[0.0, 1.0])
        rows.append([polynomial.deriv(j)(0.0) / span**j if j else column[0] for j in range(max(count, 1))])
    return np.array(rows).T


# --- the index over the domain ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class DomainIndex:
    """The index at sampled parameters: `index` where it is the same at all of them, else None.

    places    parameters (points, Q) and the index at each, -1 where they leave the pencil singular; `where` is the
              parameter nearest to a change, or at one
    margin    the smallest singular value kept in a decision about a rank: 0 would be a change of index
    said      the same in words
    """

    index: int | None
    places: np.ndarray
    indices: np.ndarray
    where: dict[str, float]
    margin: float
    said: str


def over_domain(problem: RandomDAE, points: int = DOMAIN_POINTS) -> DomainIndex:
    """The index at the means, at the ends of the parameters and at points of a Sobol sequence; where the leading
    coefficient of det(λM - A) has another sign at one of them, also at the surface on the way there; and where the
    margin is least, found by minimising it: an index may change without a change of sign.
    """
    places = _domain(problem, points)
    scaling = problem.pencil_at().scaling
    found = [_asked(problem, p, scaling) for p in places]

    def alike() -> bool:
        return len({one.index for one in found}) == 1

    unlike = np.flatnonzero([one.leading != found[0].leading for one in found])
    if len(unlike) and alike():
        surface = _surface(problem, scaling, places[0], places[unlike[0]], found[0].leading)
        places, found = np.vstack([places, surface]), [*found, _asked(problem, surface, scaling)]
    for start in np.argsort([one.margin for one in found])[:STARTS] if problem.parameters else ():
        if alike():
            place = _least_clear(problem, scaling, places[start], found[start])
            places, found = np.vstack([places, place]), [*found, _asked(problem, place, scaling)]
    indices = np.array([one.index for one in found])
    same = bool(np.all(indices == indices[0]) and all(one.agree for one in found))
    worst = int(np.argmin([one.margin for one in found])) if same else int(np.argmax(indices != indices[0]))
    where = dict(zip(problem.parameters, places[worst].tolist(), strict=True))
    at = ", ".join(f"{name} = {value:.6g}" for name, value in where.items())
    if same:
        said = f"index {indices[0]} at {len(places)} parameters; least clear at {at} ({found[worst]})"
    else:
        said = f"index {indices[0]} at the means but {found[worst]} at {at}"
    return DomainIndex(int(indices[0]) if same else None, places, indices, where, found[worst].margin, said)


@dataclasses.dataclass(frozen=True)
class _Singular:
    """Parameters at which the equations do not determine the solution at all: no index."""

    index = -1
    leading = 0.0
    margin = 0.0
    agree = False

    def __str__(self) -> str:
        return "none, the pencil being singular,"


def _asked(problem: RandomDAE, p: np.ndarray, scaling: Any) -> Any:
    """The pencil at parameters, or _Singular."""
    try:
        return problem.pencil_at(p, scaling=scaling)
    except pencil.SingularPencil:
        return _Singular()


def _domain(problem: RandomDAE, points: int) -> np.ndarray:
    """The means first; ends of infinite supports are taken at probability 1e-3."""
    laws = problem.distributions
    if not laws:
        return problem.center[None]
    u = scipy.stats.qmc.Sobol(len(laws), scramble=False).random(points)[1:]
    inner = np.stack([law.ppf(u[:, i]) for i, law in enumerate(laws)], axis=1)
    ends = np.array([_ends(law) for law in laws])
    if len(laws) <= 4:
        corners = np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, len(laws))
    else:
        corners = np.tile(problem.center, (2 * len(laws), 1))
        for i, pair in enumerate(ends):
            corners[2 * i : 2 * i + 2, i] = pair
    return np.vstack([problem.center, corners, inner])


def _ends(law: Any) -> np.ndarray:
    """The ends of a support; infinite ones at probability 1e-3."""
    return np.asarray(law.ppf([1e-3 * np.isinf(law.low), 1.0 - 1e-3 * np.isinf(law.high)]), float)


def _least_clear(problem: RandomDAE, scaling, start: np.ndarray, found: Any) -> np.ndarray:
    """Where the margin is least between the ends of the parameters, downhill from a place, or the index changes."""
    low, high = np.array([_ends(law) for law in problem.distributions]).T
    width = np.where(high > low, high - low, 1.0)
    best = [found.margin, start]

    def height(u: np.ndarray) -> float:
        place = low + np.clip(u, 0.0, 1.0) * width
        here = _asked(problem, place, scaling)
        if here.index != found.index:
            best[:] = [-1.0, place]
            raise StopIteration
        if here.margin < 0.99 * best[0]:
            best[:] = [here.margin, place]
        return math.log(max(here.margin, 1e-300))

    with contextlib.suppress(StopIteration):
        scipy.optimize.minimize(
            height, (start - low) / width, method="Nelder-Mead", bounds=[(0.0, 1.0)] * len(low),
            options={"maxfev": LOOKS * (len(low) + 1), "xatol": 1e-12, "fatol": 1e-6},
        )  # fmt: skip
    return best[1]


def _surface(problem: RandomDAE, scaling, a: np.ndarray, b: np.ndarray, leading: float) -> np.ndarray:
    """The point between a and b where the leading coefficient passes 0, by bisection until the index shows it."""
    index, low, high = None, 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = _asked(problem, a + middle * (b - a), scaling)
        index = found.index if index is None else index
        if found.index != index:
            break
        low, high = (middle, high) if found.leading == leading else (low, middle)
    return a + middle * (b - a)


def _square(name: str, matrix: Any) -> Any:
    """A finite square matrix, sparse or dense."""
    found = _array(matrix)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or found.shape[0] == 0:
        raise ValueError(f"{name}: expected a square matrix, got shape {found.shape}")
    if not np.all(np.isfinite(found.data if scipy.sparse.issparse(found) else found)):
        raise ValueError(f"{name}: has entries that are not finite")
    return found


def _array(matrix: Any) -> Any:
    """A sparse matrix as it is, anything else as a dense array."""
    return matrix if scipy.sparse.issparse(matrix) else np.asarray(matrix, float)
