"""One step of an integrator, shipped or the user's own, on a linear system: s' = M s + c + G ξ with standard normals ξ.

s holds x and, for multistep methods, the history. M, c and G are read off by feeding the step itself with unit vectors.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stodyn import deprecation, listing
from stodyn.analysis.step.linear import Diverged, StepMap, added_noise, for_step, read_map
from stodyn.analysis.step.one_step import AFFINE, OneStep
from stodyn.arguments import check_positive, checks_arguments
from stodyn.methods.catalogue import named, stepping
from stodyn.methods.contract import Catalogued, Method
from stodyn.problems.sde import SDE

__all__ = ["BlackBox", "Diverged", "Misused", "StepMap", "linear_step", "system_step", "system_steps"]
__dir__ = listing.names_of(__name__)
__getattr__ = deprecation.old_names(__name__, {"LinearStep": ("StepMap", "0.3")})

SINGLE = 1e-4  # relative defect that a step in float32 may leave


class Misused(ValueError):
    """A step of the user's own does not call f and noise as it should."""


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


def resolved(integrator: Integrator) -> Method | BlackBox:
    """Return an integrator as a Method or a BlackBox; refuse what is neither, nor a name nor a function."""
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
) -> StepMap:
    """Return the step of a method on a linear problem with additive noise, as matrices.

    Parameters
    ----------
    problem, method, dt, t, params
        As in `linear.step_map`.
    starting : int, optional
        The number of a starting step of a multistep method, in place of its ordinary step.

    Returns
    -------
    StepMap
    """
    one = OneStep(problem, for_step(problem, stepping(method), dt), starting is not None, often=False)
    return read_map(one, dt, t, problem.params if params is None else params, None, starting or 0)


@functools.lru_cache(maxsize=64)
def _held(method: Method, n: int, m: int) -> OneStep:
    """The step of a method on dx = A x dt + B dW with the matrices as parameters: one trace for all of a size."""
    system = SDE(lambda t, x, p: p["A"] @ x, lambda t, x, p: p["B"] + jnp.zeros((n, m)), np.zeros(n),
                 params={"A": np.zeros((n, n)), "B": np.ones((n, m))}, structure="additive")  # fmt: skip
    return OneStep(system, method, often=False)


@checks_arguments
def system_step(integrator: Integrator, A: ArrayLike, B: ArrayLike, h: float) -> StepMap:
    """Return the step of an integrator on x' = A x + B w, with w of intensity 1 per channel.

    Parameters
    ----------
    integrator : Method, str, BlackBox or function
        A method or its name, a BlackBox, or a function step(f, x, t, h, noise) of your own.
    A, B : arrays (n, n) and (n, m)
        The system.
    h : float
        The length of the step, > 0.

    Returns
    -------
    StepMap
    """
    return system_steps(integrator, A, B, h)[0]


@checks_arguments
def system_steps(integrator: Integrator, A: ArrayLike, B: ArrayLike, *lengths: float) -> list[StepMap]:
    """Return the steps of several lengths of an integrator on x' = A x + B w.

    Parameters
    ----------
    integrator, A, B
        As in `system_step`.
    *lengths : float
        The lengths of the steps, > 0.

    Returns
    -------
    list of StepMap

    Raises
    ------
    ValueError
        If a length is not above 0.
    """
    A, B = square(A), np.atleast_2d(np.asarray(B, float))
    for h in lengths:
        check_positive("a step", dt=h)
    integrator = resolved(integrator)
    if isinstance(integrator, Method):
        held = _held(integrator, *B.shape)
        return [read_map(held, h, 0.0, {"A": A, "B": B}, None) for h in lengths]
    return [_box_step(integrator, A, B, h) for h in lengths]


def _box_step(integrator: BlackBox, A: np.ndarray, B: np.ndarray, h: float) -> StepMap:
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
    first, G = added_noise(evaluate, size, draws * m, integrator.name, integrator.defect)
    start = np.pad(np.eye(size, n), ((0, 0), (0, 1)))  # s = (x, 0, ...)
    return StepMap(integrator.name, first, G, start, np.eye(n, size + 1), 0.0, True)


def unscaled(integrator: Integrator) -> Method | BlackBox:
    """Return the same integrator with samples of covariance Q/h, whatever its Γ."""
    integrator = resolved(integrator)
    if isinstance(integrator, BlackBox) or not hasattr(integrator, "gamma"):
        return integrator
    if getattr(integrator, "placement", "") == "increment":
        return integrator
    return integrator(gamma=1.0)


def square(A: ArrayLike) -> np.ndarray:
    """Return a finite square matrix, of one entry for a number; refuse any other."""
    matrix = np.asarray(A, float)
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ValueError(f"A: expected a finite square matrix, got shape {matrix.shape}:\n{matrix}")
    return matrix
