"""Measurements of a system with white noise on them: z = H x + v."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.problems.contract import Around, Recommended, component_names, expect_problem
from stodyn.problems.linear import intensity


@dataclasses.dataclass(frozen=True, eq=False)
class Measured(Around):
    """A problem whose state is followed by the measurements z = H x + v; made by `with_measurement`."""

    H: np.ndarray  # (p, n)
    R: np.ndarray  # (p, p)
    names: Any
    units: Any

    made_by = "with_measurement"  # the function that users called, for words
    reads_all_components = True  # whether it needs those that another form of the plant leaves out

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.problem.n + len(self.H)

    def around(self, problem: Any) -> Measured:
        """Return the same around another form of the plant."""
        return dataclasses.replace(self, problem=problem)

    def check_steps(self, method: Any, t: float, h: float | np.ndarray) -> None:
        """Check the steps of a run from t on, of length h or of these lengths, as `check_step` does a length."""
        self.check_step(method, float(np.max(h)))

    @property
    def recommended(self) -> Recommended:
        return self.problem.recommended

    @property
    def stable_methods(self) -> tuple[str, ...]:
        return self.problem.stable_methods

    @property
    def start(self) -> Any:
        return self.problem.start

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        x = self.problem.draw_start(rng, paths)
        return np.concatenate([x, x @ self.H.T], axis=1)

    def noise_rows(self, t, x, params, components):
        """The rows of the state; a measurement is drawn anew in every step and has no row."""
        return self._inner(self.problem.noise_rows, t, x, params, components)

    def mean_rates(self, t, x, params, components):
        return self._inner(self.problem.mean_rates, t, x, params, components)

    def _inner(self, rows, t, x, params, components):
        n = self.problem.n
        return tuple(rows(t, x[:n], params, (i,))[0] if i < n else None for i in components)

    def covariance(self, P: ArrayLike, dt: float) -> np.ndarray:
        """The exact covariance (..., p, p) of z where that of x is P (..., n, n): H P H' + R/dt."""
        return self.H @ np.asarray(P, float) @ self.H.T + self.R / dt


@checks_arguments
def with_measurement(problem: Any, H: ArrayLike, R: ArrayLike, names: Sequence[str] | None = None) -> Measured:
    """Add the measurements z = H x + v to a problem, v sampled anew in every step.

    The measurement is continuous: its noise follows the step. For a sensor with a rate of its own use stodyn.Sensor.

    Parameters
    ----------
    problem : Problem
        Any problem; every method for the problem can be used.
    H : array (p, n)
        The measurement matrix.
    R : array (p, p)
        The intensity of continuous white measurement noise, E v(t) v(s)' = R δ(t - s): a sample over a step dt has the
        covariance R/dt. At the start, where no step has been made, z = H x.
    names : sequence of str, optional
        The names of the measurements; "z", or "z0", "z1", ..., by default.

    Returns
    -------
    Measured
        The components of a run are those of the problem, then z; `covariance` gives the exact covariance of z.

    Raises
    ------
    TypeError, ValueError
        If the problem already has further components, or H, R or names do not fit.

    Examples
    --------
    >>> import stodyn as sd
    >>> motion = sd.linear([[0.0, 1.0], [-1.0, -0.2]], [[0.0], [1.0]], names=["x", "v"])
    >>> measured = sd.with_measurement(motion, H=[[1.0, 0.0]], R=[[0.01]], names=["z"])
    >>> measured.components
    ('x', 'v', 'z')
    """
    expect_problem(problem)
    if isinstance(problem, Measured):
        raise TypeError(
            f"problem: a {type(problem).__name__} already has measurements, energies or walls, which cannot be combined"
        )
    if callable(H):
        raise TypeError(
            "H: expected a matrix, one row per measurement, got a function. For measurements that are not linear, "
            "collect statistics.Observable"
        )
    matrix = np.atleast_2d(np.asarray(H, float))
    if matrix.ndim != 2 or matrix.shape[1] != problem.n or not np.isfinite(matrix).all():
        raise ValueError(f"H: expected a finite matrix with {problem.n} columns, one per component, got {matrix.shape}")
    try:
        noise = intensity(R, len(matrix))
    except ValueError as error:
        raise ValueError(str(error).replace("Q:", "R:", 1)) from error
    default = ("z",) if len(matrix) == 1 else tuple(f"z{i}" for i in range(len(matrix)))
    try:
        measured = component_names(names, default)
    except ValueError as error:
        raise ValueError(str(error).replace("one per component", "one per row of H", 1)) from error
    every = component_names((*problem.components, *measured), (*problem.components, *default))
    return Measured(problem, matrix, noise, every, problem.component_units)
