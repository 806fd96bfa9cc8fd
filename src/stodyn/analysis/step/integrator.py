"""One step of an integrator, shipped or the user's own, on a linear system: s' = M s + c + G ξ with standard normals ξ.

s holds x and, for multistep methods, the history. M, c and G are read off by feeding the step itself with unit vectors.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.analysis.step.linear import for_step
from stodyn.analysis.step.one_step import AFFINE, OneStep, of_values, probing_states
from stodyn.arguments import checks_arguments
from stodyn.methods.catalogue import named, stepping
from stodyn.methods.contract import Catalogued, Method
from stodyn.problems.sde import SDE

__all__ = ["BlackBox", "Diverged", "LinearStep", "Misused", "linear_step", "system_step", "system_steps"]
__dir__ = listing.names_of(__name__)

SINGLE = 1e-4  # relative defect that a step in float32 may leave


class Diverged(ValueError):
    """A step did not give finite numbers."""


class Misused(ValueError):
    """A step of the user's own does not call f and noise as it should."""


class LinearStep(NamedTuple):
    """s' = M s + c + G ξ and x = R s: M (N, N), c (N,), G (N, normals), R (n, N)."""

    M: np.ndarray
    c: np.ndarray
    G: np.ndarray
    R: np.ndarray

    def advance(self, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean and covariance of s after the step."""
        return self.M @ m + self.c, self.M @ P @ self.M.T + self.G @ self.G.T

    @property
    def radius(self) -> float:
        """The largest modulus of an eigenvalue of M."""
        return float(np.abs(np.linalg.eigvals(self.M)).max())

    @property
    def total(self) -> np.ndarray:
        """The weight of every normal in x after all steps that reuse it, for A = 0: (n, normals)."""
        _, parasitic, projection = principal(self.M, len(self.R))
        if np.any(np.abs(parasitic) > 1.0 - 1e-9):
            raise ValueError(
                f"the step has a parasitic root of modulus {np.abs(parasitic).max():.6g}: what a sample adds to x "
                "never settles, so that no scaling of the noise is right. Damp it (Asselin's filter), or take another "
                "method."
            )
        return self.R @ projection @ self.G


@checks_arguments
def principal(M: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Separate the eigenvalues of a step on n equations that hardly move: the n nearest 1, and the others.

    Parameters
    ----------
    M : array (N, N)
        The matrix of the step.
    n : int
        The number of equations.

    Returns
    -------
    own, others : arrays
        The n eigenvalues nearest 1, and the others.
    projection : array (N, N)
        Onto the invariant subspace of the first along that of the others.
    """
    eigenvalues = np.linalg.eigvals(M)
    order = np.argsort(np.abs(eigenvalues - 1.0))
    own, others = eigenvalues[order[:n]], eigenvalues[order[n:]]
    if not len(others):
        return own, others, np.eye(n)
    reach = 0.5 * (np.abs(own - 1.0).max() + np.abs(others - 1.0).min())

    def subspace(matrix: np.ndarray) -> np.ndarray:
        return scipy.linalg.schur(matrix, "complex", sort=lambda z: abs(z - 1.0) <= reach)[1][:, :n]

    right, left = subspace(M), subspace(M.conj().T)
    return own, others, (right @ np.linalg.solve(left.conj().T @ right, left.conj().T)).real


@dataclasses.dataclass(frozen=True, eq=False)
class BlackBox:
    """An integrator of the user's own in Python or NumPy: step(f, x, t, h, noise) -> the new x.

    f(x, t, w) is the derivative A x + B w; noise() draws a sample w, a new one at every call, of covariance Q/h unless
    stated otherwise: call it once and reuse the value to hold it, or at every evaluation. x is a vector (n,). An
    integrator with memory takes and returns the vector (x, ...) of `memory` + 1 pieces of n numbers, zeros at first.
    """

    step: Callable
    memory: int = 0
    name: str = "the step"
    defect: float = dataclasses.field(default=AFFINE, init=False, repr=False)  # that its rounding may leave, relative

    def once(self, derivative: Callable, s: np.ndarray, h: float, samples: np.ndarray | None) -> tuple[np.ndarray, int]:
        """The step from s at time 0 with these samples (k, m), and how many it drew; None: zeros of any number."""
        draws = 0

        def noise() -> np.ndarray:
            nonlocal draws
            draws += 1
            if samples is None:
                return np.zeros(derivative.m)  # type: ignore[attr-defined]
            if draws > len(samples):
                raise Misused(f"{self.name}: draws {len(samples)} samples in one step and more in another")
            return samples[draws - 1].copy()

        n, m = s.size // (self.memory + 1), derivative.m  # type: ignore[attr-defined]

        def f(x, t, w):
            if (np.shape(x), np.shape(t), np.size(w)) != ((n,), (), m):
                raise Misused(
                    f"{self.name}: called f with arguments of the shapes {np.shape(x)}, {np.shape(t)}, {np.shape(w)}; "
                    f"expected f(x, t, w) with x ({n},), a number t and w ({m},), a sample that noise() gave"
                )
            return derivative(np.asarray(x, float), t, np.reshape(w, m))

        try:
            new = self.step(f, s.copy(), 0.0, h, noise)
        except Misused:
            raise
        except Exception as error:
            raise ValueError(
                f"{self.name}: raised {type(error).__name__} ({error}) for x of {n} component{'s' * (n > 1)}. If it is "
                "made for others, such as a position and its velocity, give the system, A (n, n) and B (n, channels); "
                "if it keeps a history, memory="
            ) from error
        if new is None:
            raise ValueError(f"{self.name}: returned nothing; expected the new x, of shape {s.shape}")
        if np.asarray(new).dtype == np.float32:
            object.__setattr__(self, "defect", SINGLE)
        after = np.asarray(new, float)
        if after.shape != s.shape:
            raise ValueError(f"{self.name}: returned shape {after.shape} for a state of shape {s.shape}")
        return after, draws


Integrator = Method | BlackBox | str | Callable  # as users pass it; `resolved` makes one of the first two of it


@checks_arguments
def resolved(integrator: Integrator) -> Method | BlackBox:
    """Return an integrator as a Method or a BlackBox.

    Parameters
    ----------
    integrator : Method, str, BlackBox or function
        A method or its name, a BlackBox, or a function step(f, x, t, h, noise) of the user's own.

    Returns
    -------
    Method or BlackBox

    Raises
    ------
    TypeError
        If the argument is none of these, or a method that takes the whole grid at once.
    """
    method = named(integrator)
    if isinstance(method, Method | BlackBox):
        return method
    if callable(method) and not isinstance(method, Catalogued):
        return BlackBox(method)
    description = (
        f"{method.name}, which takes the whole grid at once" if isinstance(method, Catalogued) else repr(method)
    )
    raise TypeError(
        f"integrator: expected a method that makes steps (RK4) or its name, a BlackBox, or a function "
        f"step(f, x, t, h, noise), got {description}"
    )


# --- reading a step off ---------------------------------------------------------------------------------------------


@checks_arguments
def linear_step(
    problem: Any, method: Method | str, dt: float, t: float = 0.0, *, starting: int | None = None, params: Any = None
) -> LinearStep:
    """Return the step of a method on a linear problem with additive noise, as matrices.

    Parameters
    ----------
    problem, method, dt, t, params
        As in `linear.step_map`.
    starting : int, optional
        The number of a starting step of a multistep method, in place of its ordinary step.

    Returns
    -------
    LinearStep
    """
    one = OneStep(problem, for_step(problem, stepping(method), dt), starting is not None, often=False)
    return read_step(one, dt, t, problem.params if params is None else params, starting or 0)


@checks_arguments
def read_step(one: OneStep, h: float, t: float, params: Any, k: int = 0) -> LinearStep:
    """Read the matrices of a OneStep off its values.

    Parameters
    ----------
    one : OneStep
        The step.
    h, t : float
        The length of the step, and the time at which it begins.
    params : pytree
        The parameters of the problem.
    k : int
        The number of a starting step.

    Returns
    -------
    LinearStep
    """

    def evaluate(s: np.ndarray, xi: np.ndarray) -> np.ndarray:
        return one.after(t, h, params, s, xi, k)

    return LinearStep(
        *_read_off(evaluate, one.size, one.normals, f"{one.method.name} with dt = {h:g}"), one.read()[0][:, :-1]
    )


@checks_arguments
def beginning(one: OneStep, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the method's state at the start as an affine function S x + c of the start x.

    Parameters
    ----------
    one : OneStep
        The step.
    t : float
        The time of the start.

    Returns
    -------
    S, c : arrays (N, n) and (N,)
    """
    start, _ = one.start(t, one.problem.example_params())
    return start[:, :-1], start[:, -1]


def _read_off(
    evaluate: Callable, size: int, normals: int, name: str, allowed: float = AFFINE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M, c and G of evaluate(s, ξ) = M s + c + G ξ, which takes many points at once, from unit vectors."""
    points = probing_states(size + normals)
    values = evaluate(points[:, :size], points[:, size:])
    if not np.isfinite(values).all():
        raise Diverged(f"{name}: a step from numbers of size 1 did not give finite numbers")
    (matrix,), (defect,) = of_values(values[None], size + normals)
    slopes, c = matrix[:, :-1], matrix[:, -1]
    if defect > allowed:
        other = points[-1:, size:]
        alone = np.abs(evaluate(np.zeros((1, size)), other) - (c + slopes[:, size:] @ other[0])).max()
        where = "its noise" if alone > allowed * np.abs(values).max() else "state and noise together"
        raise ValueError(
            f"{name}: the step is not linear in {where} (off by {defect:.3g} of its values). The system must be "
            "x' = A x + a(t) + B(t) w, and the integrator must use its samples linearly, each drawn by noise()."
        )
    return slopes[:, :size], c, slopes[:, size:]


@functools.lru_cache(maxsize=64)
def _held(method: Method, n: int, m: int) -> OneStep:
    """The step of a method on dx = A x dt + B dW with the matrices as parameters: one trace for all of a size."""
    system = SDE(lambda t, x, p: p["A"] @ x, lambda t, x, p: p["B"] + jnp.zeros((n, m)), np.zeros(n),
                 params={"A": np.zeros((n, n)), "B": np.ones((n, m))}, structure="additive")  # fmt: skip
    return OneStep(system, method, often=False)


@checks_arguments
def system_step(integrator: Integrator, A: ArrayLike, B: ArrayLike, h: float) -> LinearStep:
    """Return the step of an integrator on x' = A x + B w, with w of intensity 1 per channel.

    Parameters
    ----------
    integrator
        As in `resolved`.
    A, B : arrays (n, n) and (n, m)
        The system.
    h : float
        The length of the step, > 0.

    Returns
    -------
    LinearStep
    """
    return system_steps(integrator, A, B, h)[0]


@checks_arguments
def system_steps(integrator: Integrator, A: ArrayLike, B: ArrayLike, *lengths: float) -> list[LinearStep]:
    """Return the steps of several lengths of an integrator on x' = A x + B w.

    Parameters
    ----------
    integrator, A, B
        As in `system_step`.
    *lengths : float
        The lengths of the steps, > 0.

    Returns
    -------
    list of LinearStep

    Raises
    ------
    ValueError
        If a length is not above 0.
    """
    A, B = square(A), np.atleast_2d(np.asarray(B, float))
    for h in lengths:
        if not (math.isfinite(h) and h > 0):
            raise ValueError(f"dt: expected a step > 0, got {h!r}")
    integrator = resolved(integrator)
    if isinstance(integrator, Method):
        held = _held(integrator, *B.shape)
        return [read_step(held, h, 0.0, {"A": A, "B": B}) for h in lengths]
    return [_box_step(integrator, A, B, h) for h in lengths]


def _box_step(integrator: BlackBox, A: np.ndarray, B: np.ndarray, h: float) -> LinearStep:
    n, m = B.shape

    def derivative(x, t, w):
        return A @ x + B @ w

    derivative.m = m  # type: ignore[attr-defined]
    size = n * (integrator.memory + 1)
    _, draws = integrator.once(derivative, np.zeros(size), h, None)

    def evaluate(s, xi):
        return np.stack([integrator.once(derivative, a, h, b.reshape(draws, m) / math.sqrt(h))[0]
                         for a, b in zip(s, xi, strict=True)])  # fmt: skip

    probes = np.random.default_rng(2).standard_normal((1, size + draws * m))
    if not np.array_equal(*(evaluate(probes[:, :size], probes[:, size:]) for _ in range(2))):
        raise ValueError(f"{integrator.name}: two calls with the same samples differ; draw all noise by noise()")
    if not draws:
        raise ValueError(f"{integrator.name}: drew no noise; call noise() for every sample and give it to f(x, t, w)")
    M, c, G = _read_off(evaluate, size, draws * m, integrator.name, integrator.defect)
    return LinearStep(M, c, G, np.eye(n, size))


@checks_arguments
def unscaled(integrator: Integrator) -> Method | BlackBox:
    """Return the same integrator with samples of covariance Q/h, whatever its Γ.

    Parameters
    ----------
    integrator
        As in `resolved`.

    Returns
    -------
    Method or BlackBox
    """
    integrator = resolved(integrator)
    if isinstance(integrator, BlackBox) or not hasattr(integrator, "gamma"):
        return integrator
    if getattr(integrator, "placement", "") == "increment":
        return integrator
    return integrator(gamma=1.0)


@checks_arguments
def square(A: ArrayLike) -> np.ndarray:
    """Return a finite square matrix; a number becomes a matrix of one entry.

    Parameters
    ----------
    A : array
        The matrix.

    Returns
    -------
    array (n, n)

    Raises
    ------
    ValueError
        If it is not square or not finite.
    """
    matrix = np.asarray(A, float)
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ValueError(f"A: expected a finite square matrix, got shape {matrix.shape}:\n{matrix}")
    return matrix
