"""White noise handed to another simulator: how large a sample is depends on what the host does with it.

White noise of the two-sided intensity Q has no samples of its own. A sample that stands for it over a step h has the
covariance Γ Q/h:

    "held"         the host holds it over its step, as in co-simulation, Simulink with a sample time, or a force per
                   step of a physics engine: Γ = 1
    "fresh RK4"    the host calls for a new one in every evaluation of its derivatives, and its solver weighs these with
                   b: Γ = 1/Σ b_i²

Samples that a host joins by straight lines are too small at all frequencies that matter, by a factor that depends on
the system they drive: that host must hold them.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments, suggestion
from stodyn.noise.readings import Recursion
from stodyn.numerics import van_loan

HELD, FRESH = "held", "fresh"
# The weights b of solvers, up to a common factor: x⁺ = x + h Σ b_i k_i / Σ b_i.
WEIGHTS: dict[str, tuple[float, ...]] = {
    "Euler": (1,),
    "RK2": (1, 1),
    "RK3": (1, 4, 1),
    "RK4": (1, 2, 2, 1),
    "ThreeEighths": (1, 3, 3, 1),
    "Gill": (1, 2 - math.sqrt(2), 2 + math.sqrt(2), 1),
    "RK56": (7, 0, 32, 12, 32, 7),
}
HOSTS = (HELD, *(f"{FRESH} {solver}" for solver in WEIGHTS))
INTERPOLATED = ("interpolated", "linear", "forced_response")
SYMMETRIC = 1e-12  # relative: asymmetry and negative eigenvalues that computed covariances may have


@dataclasses.dataclass(frozen=True, eq=False)
class White:
    """White noise for a host; made by stodyn.noise.white.

    Attributes
    ----------
    Q : array (m, m)
        The two-sided intensity, E w(t) w(s)' = Q δ(t - s).
    host : str
        What the host does with a sample.
    """

    Q: np.ndarray
    host: str

    @property
    def is_held(self) -> bool:
        """Whether the host holds a sample over its step."""
        return self.host == HELD

    @property
    def Gamma(self) -> float:
        """Γ, by which a sample is larger than one that is held."""
        return 1.0 if self.is_held else float(_gamma(WEIGHTS[self.host.removeprefix(f"{FRESH} ")]))

    @checks_arguments
    def covariance(self, dt: float) -> np.ndarray:
        """Return the covariance Γ Q/dt of a sample.

        Parameters
        ----------
        dt : float
            The step of the host.

        Returns
        -------
        array (m, m)
        """
        return self.Gamma / dt * self.Q

    def recursion(self, every: float, outputs: int | None = None) -> Recursion:
        """Return the samples at steps of this length, which have no memory."""
        m, root = len(self.Q), van_loan.root(self.covariance(every))
        return Recursion(np.zeros((m, m)), root, np.eye(m), root, lambda params: 0.0)


@checks_arguments
def white(Q: ArrayLike, *, host: str) -> White:
    """Make white noise that can be handed to another simulator.

    Parameters
    ----------
    Q : float or array (m, m)
        The two-sided intensity, E w(t) w(s)' = Q δ(t - s): the square of a root density, in units² per Hz. A one-sided
        density of a data sheet is twice as large.
    host : str
        What the host does with a sample, which decides its size. "held": it stays over the host's step, the variance is
        Q/dt. "fresh RK4", and likewise Euler, RK2 (Heun), RK3 (Kutta), ThreeEighths, Gill or RK56: a new one in every
        evaluation of the derivatives of that solver, Γ Q/dt with Γ = 18/5 for RK4.

    Returns
    -------
    White
        For `stodyn.export`.

    Raises
    ------
    ValueError
        If the host interpolates, which no size of samples can make right, or is not known; or if Q is no intensity.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.noise.white(2.0, host="held").covariance(0.1)
    array([[20.]])
    >>> sd.noise.white(2.0, host="fresh RK4").covariance(0.1).round(12)
    array([[72.]])
    """
    if host in INTERPOLATED:
        raise ValueError(
            f"host: {host!r}; where a host joins samples by straight lines, the variance of what they drive is too "
            "small by about half the step over its time constant, whatever their size. Let the host hold them, and "
            f"give host={HELD!r}; or hand over filtered noise, a Coloured"
        )
    if host not in HOSTS:
        raise ValueError(f"host: expected one of {', '.join(map(repr, HOSTS))}, got {host!r}{suggestion(host, HOSTS)}")
    return White(_intensity(Q), host)


def _intensity(Q: Any) -> np.ndarray:
    """Q as a matrix, refused unless it is a covariance."""
    matrix = np.asarray(Q, float)
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
    largest = np.abs(matrix).max(initial=0.0)
    is_square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and 0.0 < largest < math.inf
    is_symmetric = is_square and np.abs(matrix - matrix.T).max() <= SYMMETRIC * largest
    if not is_symmetric or np.linalg.eigvalsh(matrix)[0] < -SYMMETRIC * largest:
        raise ValueError(
            f"Q: expected an intensity, a number > 0 or a symmetric matrix without negative eigenvalues, got {Q!r}"
        )
    return matrix


def _gamma(weights: tuple[float, ...]) -> Any:
    """Γ = 1/Σ b_i² of weights that add up to 1."""
    exact = [Fraction(b) if isinstance(b, int) else b for b in weights]
    return sum(exact) ** 2 / sum(b * b for b in exact)
