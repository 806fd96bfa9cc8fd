"""A control from the linearised problem: f on a Gaussian path y beside x, along the same noise, whose E f is known.

    dx = f(t, x) dt + g(t) dW        m' = E f(t, y),   P' = A P + P Aᵀ + g gᵀ,   A = E ∂f/∂x (t, y),   y ~ N(m, P)
    dy = (A(t) y + b(t)) dt + g(t) dW,   b = E f(t, y) - A m

(statistical linearisation, consistent with its own Gaussian law). A and b are replaced by polynomials in t, and y has
the law of these polynomials, so that E f(y) is exact however coarse they are.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from numpy.polynomial import chebyshev

from stodyn.numerics import gauss, orthogonal
from stodyn.numerics.facts.degree import corners
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.van_loan import rough_root
from stodyn.problems.calling import call
from stodyn.problems.contract import differs_from_path_to_path, written_as
from stodyn.problems.sde import SDE
from stodyn.statistics.functional import End, Functional, Integral, TimeAverage

MOST = 4  # components
COARSE = {1: 15, 2: 9, 3: 7, 4: 5}  # Gauss points per component for the linearisation, by the number of components
FINE = {1: (48, 64), 2: (28, 36), 3: (16, 20), 4: (10, 12)}  # the same for E f, by two rules that must agree
DEGREES = (8, 16, 32, 48)  # of the polynomials tried for A and b
ROUGH = 1e-3  # error of these polynomials, relative to the largest coefficient
LEFT_OUT = 1e-9  # their coefficients below this share of the largest: the expectation is that of what is left
INSTANTS = 24, 32  # Gauss points in time for an integral
AGREE = 1e-3  # largest difference of the two rules, relative to the error asked for
TOLERANCE = dict(method="DOP853", rtol=1e-11, atol=1e-13)


class NoControl(ValueError):
    """Raised where the linearised problem gives no control; the message says why."""


class Linearised(NamedTuple):
    """The problem of x and y beside each other, f as a functional of x and of y, and the expectation E f(y)."""

    problem: SDE
    functional: Functional
    control: Functional
    known: float


def linearised(problem: Any, functional: Functional, t: tuple[float, float], error: float) -> Linearised:
    """Linearise a problem along its own Gaussian law, and compute E f of the result; raises NoControl."""
    sde = _checked(problem, functional)
    n, params = sde.n, sde.example_params()
    evaluated = _Evaluated(sde, params)
    A, b = _coefficients(sde, evaluated, t)
    law = scipy.integrate.solve_ivp(
        lambda s, y: _rates(y, A(s), b(s), evaluated.covariance(s)), t, _packed(sde), dense_output=True, **TOLERANCE
    )
    _check_smooth(functional, sde, params)
    known = [_expectation(functional, params, law.sol, t, n, rule) for rule in (0, 1)]
    if not abs(known[1] - known[0]) <= AGREE * error:
        raise NoControl(
            f"control: E f of the linearised problem is {known[0]:.9g} by one quadrature rule and {known[1]:.9g} by "
            "another, which is not accurate enough: is f smooth?"
        )
    return Linearised(_beside(sde, A, b), _of(functional, slice(0, n)), _of(functional, slice(n, 2 * n)), known[1])


def _checked(problem: Any, functional: Functional) -> SDE:
    """The problem as an SDE that can be linearised; raises NoControl for any other."""
    sde = written_as(problem, SDE)
    if sde is None:
        raise NoControl(f"control: a {type(problem).__name__} cannot be linearised; it must be an SDE, or lower to one")
    if not sde.noise_structure.implies("additive"):
        raise NoControl("control: the noise depends on the state, so that the linearised problem would not be Gaussian")
    if differs_from_path_to_path(sde):
        raise NoControl("control: start or params are random, so that the linearised problem is not Gaussian")
    if sde.n > MOST:
        raise NoControl(f"control: {sde.n} components are too many for quadrature; at most {MOST} are possible")
    if type(functional) not in (End, Integral, TimeAverage):
        name = type(functional).__name__
        raise NoControl(f"control: E of {name} is not known for the linearised problem; End, Integral, TimeAverage are")
    return sde


class _Evaluated:
    """Drift, its slope and the noise's covariance rate of a problem, as functions of NumPy arrays."""

    def __init__(self, sde: SDE, params: Any):
        self.n = sde.n
        both = AtPoints(lambda x, s: (sde.f(s, x, params), jax.jacfwd(lambda y: sde.f(s, y, params))(x)), (0, None))
        self._drift: Callable = both
        self._noise = AtPoints(lambda s: sde.g(s, jnp.zeros(sde.n), params))
        nodes, weights = gauss.rule(*orthogonal.hermite(COARSE[sde.n]))
        self.z, self.weights = _tensor(nodes, weights, sde.n)

    def moments(self, s: float, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The expectations of the drift and of its Jacobian for a state with the normal law N(m, P)."""
        f, slope = self._drift(m + self.z @ _root(P).T, np.float64(s))
        return self.weights @ f, np.einsum("k,kij->ij", self.weights, slope)

    def covariance(self, s: float) -> np.ndarray:
        """The rate g gᵀ at which noise adds to the covariance."""
        g = self._noise(np.array([s]))[0]
        return g @ g.T


def _coefficients(sde: SDE, evaluated: _Evaluated, t: tuple[float, float]) -> tuple[_Polynomials, _Polynomials]:
    """A(t) and b(t) of the linearised problem, as polynomials of the lowest degree that suffices."""
    n = sde.n

    def closed(s: float, y: np.ndarray) -> np.ndarray:
        f, A = evaluated.moments(s, y[:n], y[n:].reshape(n, n))
        return _rates(y, A, f - A @ y[:n], evaluated.covariance(s))

    path = scipy.integrate.solve_ivp(closed, t, _packed(sde), dense_output=True, method="RK45", rtol=1e-6, atol=1e-9)
    if not path.success:
        raise NoControl(
            f"control: the moments of the linearised problem could not be followed to the end ({path.message})"
        )
    for degree in DEGREES:
        s = chebyshev.chebpts1(degree + 1)
        times = 0.5 * (t[0] + t[1]) + 0.5 * (t[1] - t[0]) * np.append(s, 0.5 * (s[1:] + s[:-1]))
        values = []
        for instant in times:
            y = path.sol(instant)
            f, A = evaluated.moments(instant, y[:n], y[n:].reshape(n, n))
            values.append(np.concatenate([A.ravel(), f - A @ y[:n]]))
        both = _Polynomials(np.array(values[: degree + 1]), t)
        off = np.abs(np.array([both(instant) for instant in times[degree + 1 :]]) - values[degree + 1 :]).max()
        if off <= ROUGH * np.abs(values).max():
            break
    c = both.coefficients
    return _Polynomials.of(c[:, : n * n], (n, n), t), _Polynomials.of(c[:, n * n :], (n,), t)


class _Polynomials:
    """Arrays of polynomials over an interval, from their values at Chebyshev's points."""

    def __init__(self, values: np.ndarray, t: tuple[float, float]):
        s = chebyshev.chebpts1(len(values))
        coefficients = np.linalg.solve(chebyshev.chebvander(s, len(values) - 1), values)
        coefficients[np.abs(coefficients) < LEFT_OUT * np.abs(values).max()] = 0.0
        self.coefficients, self.shape, self.t = coefficients, values.shape[1:], t

    @classmethod
    def of(cls, coefficients: np.ndarray, shape: tuple[int, ...], t: tuple[float, float]) -> _Polynomials:
        """Polynomials from their Chebyshev coefficients."""
        polynomials = cls.__new__(cls)
        polynomials.coefficients, polynomials.shape, polynomials.t = coefficients, shape, t
        return polynomials

    def __call__(self, s: float) -> np.ndarray:
        return chebyshev.chebval(self._at(s), self.coefficients).reshape(self.shape)

    def _at(self, s: Any) -> Any:
        """A time as a place between -1 and 1."""
        return (2.0 * s - self.t[0] - self.t[1]) / (self.t[1] - self.t[0])

    def traced(self, s: Any) -> Any:
        """Evaluate the polynomials at a time that JAX traces; constant entries cost nothing."""
        at, entries = self._at(s), []
        powers = [jnp.ones_like(at), at]
        for _ in self.coefficients[2:]:
            powers.append(2.0 * at * powers[-1] - powers[-2])
        for column in self.coefficients.T:
            entries.append(sum((c * power for c, power in zip(column, powers, strict=False) if c), 0.0 * at))
        return jnp.stack(entries).reshape(self.shape)


def _packed(sde: SDE) -> np.ndarray:
    """The mean and the covariance at the start, as one vector."""
    return np.concatenate([np.asarray(sde.example_start(), float), np.zeros(sde.n**2)])


def _rates(y: np.ndarray, A: np.ndarray, b: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The rates of change of the mean and the covariance of dy = (A y + b) dt + g dW, packed as they are."""
    n = len(b)
    AP = A @ y[n:].reshape(n, n)
    return np.concatenate([A @ y[:n] + b, (AP + AP.T + covariance).ravel()])


def _root(P: np.ndarray) -> np.ndarray:
    """A root R of a covariance, R Rᵀ = P, which may be singular, and symmetric but for rounding."""
    return rough_root(0.5 * (P + P.T))


def _tensor(nodes: np.ndarray, weights: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The tensor product of a Gauss rule in n dimensions: its nodes and weights."""
    z = np.array(list(itertools.product(nodes, repeat=n)))
    return z, np.array([np.prod(w) for w in itertools.product(weights, repeat=n)])


def _check_smooth(functional: Functional, sde: SDE, params: Any) -> None:
    """Refuse functions that quadrature may get wrong without any sign."""
    with jax.enable_x64(True):
        rough = corners(lambda x: functional.value(sde, 0.0, x, params), (jnp.zeros(sde.n),), 0)
    if rough:
        raise NoControl(f"control: f has corners or jumps ({', '.join(rough)}), and its expectation is not exact")


def _expectation(f: Functional, params: Any, law: Callable, t: tuple[float, float], n: int, rule: int) -> float:
    """E f of the Gaussian path, by the coarser or the finer rule."""
    z, weights = _tensor(*gauss.rule(*orthogonal.hermite(FINE[n][rule])), n)
    function = AtPoints(lambda x, s: f.value(None, s, x, params), (0, None))

    def at(s: float) -> float:
        y = law(s)
        values = function(y[:n] + z @ _root(y[n:].reshape(n, n)).T, np.float64(s))
        if values.shape[1] != 1:
            raise NoControl(f"control: f has {values.shape[1]} entries; ask for one of them at a time")
        return float(weights @ values[:, 0])

    if type(f) is End:
        return at(t[1])
    instants, shares = gauss.legendre(INSTANTS[rule])
    half, middle = 0.5 * (t[1] - t[0]), 0.5 * (t[0] + t[1])
    mean = sum(share * at(middle + half * s) for s, share in zip(instants, shares, strict=True)) / sum(shares)
    return mean if type(f) is TimeAverage else mean * (t[1] - t[0])


def _beside(sde: SDE, A: _Polynomials, b: _Polynomials) -> SDE:
    """The problem of x and the linearised y beside each other, along the same noise."""
    n = sde.n

    def drift(t, z, params):
        own = sde.f(t, z[:n], params)
        return jnp.concatenate([own, A.traced(t) @ z[n:] + b.traced(t)])

    def diffusion(t, z, params):
        g = sde.g(t, z[:n], params)
        return jnp.concatenate([g, g])

    start = np.tile(np.asarray(sde.example_start(), float), 2)
    return SDE(drift, diffusion, start, sde.params, structure="additive")


def _of(functional: Functional, part: slice) -> Functional:
    """The functional of some components of a state."""
    f = functional.function
    return dataclasses.replace(functional, function=lambda t, z, params: call(f, t, z[part], params=params))
