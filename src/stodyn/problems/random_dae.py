"""Differential-algebraic equations with random parameters: M(p) x' = f(t, x, p), and M(p) x' = A(p) x + s(t, p)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.noise.distribution import Distribution, distribution
from stodyn.noise.source import Fixed, Source, source_of
from stodyn.numerics.tracing_errors import in_words, missing_entry
from stodyn.problems import domain_index, pencil
from stodyn.problems.calling import call, check_call
from stodyn.problems.contract import (
    NoiseStructure,
    Problem,
    Recommended,
    check_params,
    derive,
    fixed_value,
    returned_shape,
)
from stodyn.problems.param_dependence import ParamDependence, as_array, square
from stodyn.problems.random_start import Jumped, start_report
from stodyn.problems.random_systems import RandomSystems


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class RandomDAE(Problem):
    """M(p) x' = f(t, x, p) with independent random parameters p; in its linear form M(p) x' = A(p) x + s(t, p).

    Interpolation decides whether M, A and s are affine or multi-affine in p (`dependence`); solvers use it.

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
    records = ("dependence",)
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
        check_params({name: value for name, value in (self.params or {}).items() if name not in self.laws})
        if (self.matrix is None) == (self.drift is None):
            raise TypeError("drift, matrix: give one of them: drift for M x' = f(t, x), matrix for M x' = A x + s(t)")
        if self.drift is not None and self.source is not None:
            raise TypeError("source: belongs to the linear form; write it into drift")
        if self.drift is not None and not callable(self.drift):
            raise TypeError(f"drift: expected a function drift(t, x, p), got {self.drift!r}. For M x' = A x: matrix=A")
        for name, leading in (("mass", ()), ("matrix", ()), ("start", ()), ("source", ("t",))):
            if callable(getattr(self, name)):
                _try_call(name, getattr(self, name), leading, self.params_at(self.center))
        if self.matrix is not None and square("matrix", self.matrix_at(self.center)).shape[0] != self.n:
            returned = np.shape(self.matrix_at(self.center))
            raise ValueError(f"matrix: expected {self.n} rows, as mass has, got shape {returned}")
        if self.start is None:
            raise ValueError(f"start: missing; give {self.n} initial values, or start(p)")
        for name, vector in (("start", self.start_at(self.center)), ("source", self.source_at(0.0, self.center))):
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
            _check_kinks(name, values, self.laws[name])
        derive(self, "component_units")

    @functools.cached_property
    def n(self) -> int:  # type: ignore[override]
        return square("mass", self.mass_at(self.center)).shape[0]

    # --- values at parameters -------------------------------------------------------------------------------------

    @functools.cached_property
    def laws(self) -> dict[str, Distribution]:
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
        return tuple(self.laws)

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """The distributions of the random parameters."""
        return tuple(self.laws.values())

    @property
    def linear(self) -> bool:
        """Whether the equations are given by a matrix."""
        return self.drift is None

    @functools.cached_property
    def center(self) -> np.ndarray:
        """The means of the parameters."""
        return np.array([law.mean for law in self.distributions])

    def params_at(self, p: np.ndarray) -> dict[str, Any] | None:
        """The params of the functions where the values of the random ones are p."""
        if self.params is None:
            return None
        return {**self.params, **{name: float(v) for name, v in zip(self.parameters, p, strict=True)}}

    def _value_at(self, p: np.ndarray, function: Any, *arguments: float) -> Any:
        """The value of a function of the parameters, or what stands in its place; those of JAX in double precision."""
        if not callable(function):
            return function
        with jax.enable_x64(True):
            return call(function, *arguments, params=self.params_at(p))

    def mass_at(self, p: np.ndarray) -> Any:
        return self._value_at(p, self.mass)

    def matrix_at(self, p: np.ndarray) -> Any:
        return self._value_at(p, self.matrix)

    def start_at(self, p: np.ndarray) -> np.ndarray:
        return fixed_value("start", self._value_at(p, self.start))

    def source_at(self, t: float, p: np.ndarray) -> np.ndarray:
        return np.zeros(self.n) if self.source is None else np.asarray(self._value_at(p, self.source, t), float)

    def drift_at(self, t, x, p):
        params = None if self.params is None else {**self.params, **p}
        return jnp.asarray(call(self.drift, t, x, params=params), float)  # type: ignore[arg-type]

    # --- what is known about them -----------------------------------------------------------------------------------

    @functools.cached_property
    def dependence(self) -> ParamDependence:
        """How its functions depend on the parameters."""
        return ParamDependence(self)

    @functools.cached_property
    def systems(self) -> RandomSystems:
        """Its equations at chosen values of the parameters."""
        return RandomSystems(self, self.dependence)

    @property
    def structure(self) -> dict[str, str]:
        """Whether each part is constant, affine, multi-affine or general in the parameters, in words."""
        if not self.linear:
            return {"drift": "nonlinear"}
        dependences = {"mass": self.dependence.mass_terms, "matrix": self.dependence.matrix_terms}
        return {name: "general" if terms is None else terms.kind for name, terms in dependences.items()}

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
        return Fixed(self.start_at(self.center))

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
            return pencil.analyse(self.mass_at(p), -as_array(self.matrix_at(p)), scaling=scaling, names=self.components)
        system = self.systems.nonlinear(p[None])
        J = system.jacobian(t, self.start_at(p)[None])[0]
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
