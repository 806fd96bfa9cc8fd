"""Stationary noise with a spectrum: white noise through a linear filter, exact at any step."""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.hints import Count, Integer, whole
from stodyn.noise import stream
from stodyn.numerics import lyapunov, systems, van_loan
from stodyn.telling import tell
from stodyn.warnings import SpectrumFolded

NOTABLY_FOLDED = 0.1  # of a variance


@dataclasses.dataclass(frozen=True, eq=False)
class Coloured:
    """Stationary Gaussian noise y = C s of p outputs from the filter ds = A s dt + B dW with k states.

    W has independent channels of unit intensity, and s starts in its stationary law N(0, P), A P + P A' + B B' = 0.
    Nothing is approximated at a step h: s(t + h) = Phi s(t) + w, Phi = exp(A h), w ~ N(0, Qd) by Van Loan's formula.

    Parameters
    ----------
    A : array (k, k)
        All its eigenvalues have a negative real part.
    B : array (k, channels)
        How the channels enter the states.
    C : array (p, k)
        How the outputs are made of the states.
    names : sequence of str
        The names of the outputs.
    fit : Fit, optional
        How well the filter meets the spectrum to which it was fitted, if it was.

    Raises
    ------
    ValueError
        If shapes do not fit, or the filter is not stable.

    Examples
    --------
    >>> import stodyn as sd
    >>> noise = sd.noise.coloured.Coloured([[-0.5]], [[1.0]], [[1.0]])
    >>> noise.variance.round(12)
    array([1.])
    """

    A: Any
    B: Any
    C: Any
    names: Any = ("y",)
    fit: Any = None

    def __post_init__(self):
        fill = object.__setattr__
        A, B, C = (np.asarray(value, float) for value in (self.A, self.B, self.C))
        k = len(A) if A.ndim else 0
        if A.shape != (k, k) or k == 0 or B.ndim != 2 or len(B) != k or C.ndim != 2 or C.shape[1] != k:
            raise ValueError(
                f"A, B, C: expected shapes (k, k), (k, channels) and (outputs, k), got {A.shape}, {B.shape}, {C.shape}"
            )
        if not all(np.isfinite(value).all() for value in (A, B, C)):
            raise ValueError("A, B, C: expected finite numbers")
        worst = np.linalg.eigvals(A).real.max()
        if worst >= 0:
            raise ValueError(
                f"A: the filter is not stable, a pole has the real part {worst:.6g}; expected all below 0. "
                "A pole at 0 integrates white noise, which has no stationary law: give it a long time constant."
            )
        names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        if len(names) != len(C) or len(set(names)) != len(names):
            raise ValueError(f"names: expected {len(C)} different names, one per output, got {names}")
        for name, value in (("A", A), ("B", B), ("C", C), ("names", names)):
            fill(self, name, value)

    @property
    def states(self) -> int:
        """How many states the filter has."""
        return len(self.A)

    @functools.cached_property
    def state_covariance(self) -> np.ndarray:
        """P (k, k), the covariance of the filter's state."""
        return lyapunov.continuous(self.A, self.B @ self.B.T)

    @functools.cached_property
    def covariance(self) -> np.ndarray:
        """C P C' (p, p), the covariance of the outputs."""
        return lyapunov.continuous(self.A, self.B @ self.B.T, self.C)

    @property
    def variance(self) -> np.ndarray:
        """The variances (p,) of the outputs."""
        return np.diagonal(self.covariance).copy()

    @checks_arguments
    def autocovariance(self, lag: ArrayLike) -> np.ndarray:
        """Return E y(t + lag) y(t)': C exp(A lag) P C' for lag >= 0, and its transpose at -lag for lag < 0.

        Parameters
        ----------
        lag : float or array (...)
            The lags, in units of time.

        Returns
        -------
        array (..., p, p)
        """
        lags = np.asarray(lag, float)
        covariances = np.empty((*lags.shape, len(self.C), len(self.C)))
        for index, τ in np.ndenumerate(lags):
            one = self.C @ scipy.linalg.expm(self.A * abs(τ)) @ self.state_covariance @ self.C.T
            covariances[index] = one if τ >= 0 else one.T
        return covariances

    @checks_arguments
    def spectrum(self, frequency: ArrayLike, dt: float | None = None) -> np.ndarray:
        """Return the two-sided density S(f) = H H*, H = C (2πi f - A)^-1 B, whose integral over f is the covariance.

        One-sided densities are twice this; in radians per unit of time, 1/π times this at ω/2π.

        Parameters
        ----------
        frequency : float or array (...)
            Frequencies in cycles per unit of time.
        dt : float, optional
            Gives the density of samples that are dt apart, which includes everything that is folded back from beyond
            1/(2 dt).

        Returns
        -------
        array (..., p, p)
        """
        f = np.asarray(frequency, float)[..., None, None]
        one = np.eye(len(self.A))
        if dt is None:
            H = self.C @ np.linalg.solve(2j * np.pi * f * one - self.A, self.B.astype(complex))
            return H @ np.conj(np.swapaxes(H, -1, -2))
        Phi, Qd = self.discretise(dt)
        H = self.C @ np.linalg.inv(np.exp(2j * np.pi * f * dt) * one - Phi)
        return dt * H @ Qd @ np.conj(np.swapaxes(H, -1, -2))

    @checks_arguments
    def discretise(self, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Return Phi and Qd of s(t + dt) = Phi s(t) + w, w ~ N(0, Qd), which are exact for any dt.

        Parameters
        ----------
        dt : float
            The time between two samples.

        Returns
        -------
        tuple of two arrays (k, k)
        """
        return van_loan.discretise(self.A, self.B, np.eye(self.B.shape[1]), dt)

    def integrals(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Return transition and root of (s, ∫y, ∫∫y) after a step h = transition s + root ξ, ξ normal, s at its start.

        Van Loan on the system of all three. (∫y = C A⁻¹(s' - s - B W) would cancel as |A| h goes to 0.)
        """
        A, B, C = self.A, self.B, self.C
        k, p = len(A), len(C)
        joint = np.zeros((k + 2 * p, k + 2 * p))
        joint[:k, :k], joint[k : k + p, :k], joint[k + p :, k : k + p] = A, C, np.eye(p)
        # In units of h for time the entries are of one size, and ∫∫y keeps its digits.
        unit = np.concatenate([np.ones(k), np.full(p, h), np.full(p, h * h)])
        scaled = h * joint * unit / unit[:, None]
        noise = np.sqrt(h) * np.concatenate([B, np.zeros((2 * p, B.shape[1]))]) / unit[:, None]
        Phi, Qd = van_loan.discretise(scaled, noise, np.eye(B.shape[1]), 1.0)
        return (unit[:, None] * Phi)[:, :k], unit[:, None] * van_loan.root(Qd)

    def advanced(self, law: tuple[Any, Any], s: Any, ξ: Any) -> tuple[Any, Any, Any]:
        """Return the states after a step, and ∫y and ∫∫y over it, from `integrals` and normals ξ."""
        transition, root = law
        joint, (p, k) = transition @ s + root @ ξ, self.C.shape
        return joint[:k], joint[k : k + p], joint[k + p :]

    @checks_arguments
    def sample(self, dt: ArrayLike, steps: Count | None = None, *, paths: Count = 1, seed: Integer) -> np.ndarray:
        """Draw time series of the noise at 0, dt, 2 dt, ...: stationary, and exact in law at any dt.

        Parameters
        ----------
        dt : float or array (steps,)
            One step length, used `steps` times, or the lengths of all steps.
        steps : int, optional
            The number of steps, where dt is a number.
        paths : int
            The number of independent time series.
        seed : int
            The seed of the random numbers.

        Returns
        -------
        array (paths, steps + 1, p)
            At a cost of k² operations per sample.

        Warns
        -----
        SpectrumFolded
            If the noise was fitted to a spectrum, and more than a tenth of its variance lies beyond 1/(2 dt). It is
            folded back: these samples have the spectrum `spectrum(f, dt)`, which is not the one of the fit.
        """
        if (np.ndim(dt) == 0) == (steps is None):
            raise ValueError(
                "dt, steps: expected a step length and the number of steps, or the lengths of all steps, got "
                f"{dt!r}, {steps!r}"
            )
        paths = whole("paths", paths)
        lengths = np.full(whole("steps", steps, 0), dt, float) if steps is not None else np.asarray(dt, float)
        if lengths.ndim != 1 or not (np.isfinite(lengths).all() and (lengths > 0).all()):
            raise ValueError(f"dt: expected positive step lengths, got {dt!r}")
        if self.fit is not None and len(lengths):
            self._check_folding(float(lengths.max()))
        rng = stream.generator(int(seed), 0, "coloured")
        k = len(self.A)
        s = rng.standard_normal((paths, k)) @ van_loan.root(self.state_covariance).T
        series = np.empty((paths, len(lengths) + 1, len(self.C)))
        series[:, 0] = s @ self.C.T
        discretised: dict[float, tuple[np.ndarray, np.ndarray]] = {}
        for n, h in enumerate(lengths):
            if h not in discretised:
                Phi, Qd = self.discretise(h)
                discretised[h] = Phi.T, van_loan.root(Qd).T
            Phi_t, root_t = discretised[h]
            s = s @ Phi_t + rng.standard_normal((paths, k)) @ root_t
            series[:, n + 1] = s @ self.C.T
        return series

    @checks_arguments
    def to_control(self, dt: float | None = None) -> systems.Matrices:
        """Return the noise as a system for other libraries, whose input is white noise: control.ss(*matrices).

        Parameters
        ----------
        dt : float, optional
            Gives the system from sample to sample, exact at any dt, whose input is a standard normal number for each
            of its channels at every sample. By default the filter itself, whose input is white noise of the intensity
            1.

        Returns
        -------
        Matrices
            (A, B, C, D, dt), with dt = 0 in continuous time.

        Examples
        --------
        >>> import stodyn as sd
        >>> noise = sd.noise.coloured.gauss_markov(sigma=2.0, tau=0.5)
        >>> noise.to_control().A
        array([[-2.]])
        """
        if dt is None:
            return systems.Matrices(self.A, self.B, self.C, np.zeros((len(self.C), self.B.shape[1])))
        Phi, Qd = self.discretise(dt)
        return systems.Matrices(Phi, van_loan.root(Qd), self.C, np.zeros(self.C.shape), float(dt))

    def folded_variance(self, dt: float) -> np.ndarray:
        """The part of the variance of each output (p,) beyond 1/(2 dt), which samples dt apart fold back."""
        f = np.linspace(0.0, 0.5 / dt, 20_001)
        density = 2.0 * np.diagonal(self.spectrum(f), axis1=1, axis2=2).real
        return self.variance - np.trapezoid(density, f, axis=0)

    def _check_folding(self, dt: float) -> None:
        share = self.folded_variance(dt) / self.variance
        worst = int(np.argmax(share))
        if share[worst] <= NOTABLY_FOLDED:
            return
        end = 0.5 / dt
        near = 0.9 * end
        density, folded = (self.spectrum(near, step)[worst, worst].real for step in (None, dt))
        tell(
            f"dt: {100.0 * share[worst]:.3g} % of the variance of {self.names[worst]} lies beyond 1/(2 dt) = {end:g} "
            f"and is folded back: samples {dt:g} apart have {folded / density:.3g} times the density of the fit at "
            f"{near:g}. "
            "Take a shorter dt, and where samples further apart are needed filter these before leaving any out.",
            SpectrumFolded,
        )

    # --- other outputs of the same filter -----------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """The outputs with their deviations and correlation times, as a notebook shows them."""
        times = -1.0 / np.linalg.eigvals(self.A).real
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(name)}</td><td>{deviation:.4g}</td></tr>"
            for name, deviation in zip(self.names, np.sqrt(self.variance), strict=True)
        )
        memory = (
            f"{times.min():.3g}" if np.ptp(times) < 1e-9 * times.max() else f"{times.min():.3g} to {times.max():.3g}"
        )
        return (
            f"<b>Coloured noise of {len(self.A)} states, with memories of {memory}</b>"
            f"<table><tr><th>output</th><th>standard deviation</th></tr>{rows}</table>"
        )

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the filter's states: an output's own where a state is one, else the first output's with a number."""
        named = {
            int(np.argmax(row)): name
            for row, name in zip(self.C, self.names, strict=True)
            if np.count_nonzero(row) == 1 and row.max() == 1.0
        }
        return tuple(named.get(i, f"{self.names[0]}.{i}") for i in range(len(self.A)))

    def with_outputs_first(self) -> Coloured:
        """The same noise in coordinates whose first states are the outputs; unchanged where those are dependent."""
        p, k = self.C.shape
        scale = np.sqrt(np.diagonal(self.state_covariance))
        scaled = self.C * np.where(scale > 0, scale, 1.0)
        if p > k or np.linalg.matrix_rank(scaled) < p:
            return self
        order = scipy.linalg.qr(scaled, mode="r", pivoting=True)[
            1
        ]  # the outputs hold most of the first p of these states
        T = np.concatenate([self.C, np.eye(k)[np.sort(order[p:])]])
        back = np.linalg.inv(T)
        return dataclasses.replace(self, A=T @ self.A @ back, B=T @ self.B, C=np.eye(p, k))

    @checks_arguments
    def mixed(self, matrix: ArrayLike, names: Sequence[str] | None = None) -> Coloured:
        """Return the noise K y: sums, differences and multiples of the outputs.

        Parameters
        ----------
        matrix : float or array (outputs, p)
            K; a number multiplies all outputs.
        names : sequence of str, optional
            Names of the new outputs; by default the old ones where there are as many, else y0, y1, ...

        Returns
        -------
        Coloured

        Raises
        ------
        ValueError
            If the matrix does not have one column for each output.
        """
        K = np.asarray(matrix, float)
        if K.ndim == 0:
            return dataclasses.replace(self, C=K * self.C)
        if K.ndim != 2 or K.shape[1] != len(self.C):
            raise ValueError(
                f"matrix: expected (outputs, {len(self.C)}), one column for each of {self.names}, got {K.shape}"
            )
        default = self.names if len(K) == len(self.names) else tuple(f"y{i}" for i in range(len(K)))
        return dataclasses.replace(self, C=K @ self.C, names=default if names is None else names)

    @checks_arguments
    def named(self, *names: str) -> Coloured:
        """Return the same noise with other names of its outputs.

        Parameters
        ----------
        *names : str
            One for each output.

        Returns
        -------
        Coloured
        """
        return dataclasses.replace(self, names=names)

    def __getitem__(self, names: str | tuple[str, ...]) -> Coloured:
        """Only the outputs of these names: noise["w_g"], noise["u_g", "w_g"]."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        for name in wanted:
            if name not in self.names:
                raise KeyError(f"there is no output {name!r}; the outputs are {', '.join(self.names)}")
        return dataclasses.replace(self, C=self.C[[self.names.index(name) for name in wanted]], names=wanted)


@checks_arguments
def stacked(*noises: Coloured) -> Coloured:
    """Put independent noises side by side as one noise.

    Parameters
    ----------
    *noises : Coloured
        Their outputs follow each other.

    Returns
    -------
    Coloured

    Examples
    --------
    >>> import stodyn as sd
    >>> slow, fast = sd.noise.coloured.gauss_markov(1.0, 10.0, "slow"), sd.noise.coloured.gauss_markov(1.0, 0.1, "fast")
    >>> sd.noise.coloured.stacked(slow, fast).names
    ('slow', 'fast')
    """
    C = scipy.linalg.block_diag(*(noise.C for noise in noises))
    return Coloured(*_side_by_side(noises), C, tuple(name for noise in noises for name in noise.names))


@checks_arguments
def summed(*noises: Coloured) -> Coloured:
    """Add up independent noises with the same outputs.

    Parameters
    ----------
    *noises : Coloured
        Noises whose outputs have the same names.

    Returns
    -------
    Coloured

    Raises
    ------
    ValueError
        If the outputs have different names.

    Examples
    --------
    >>> import stodyn as sd
    >>> slow, fast = sd.noise.coloured.gauss_markov(1.0, 10.0), sd.noise.coloured.gauss_markov(1.0, 0.1)
    >>> sd.noise.coloured.summed(slow, fast).variance.round(12)
    array([2.])
    """
    if len({noise.names for noise in noises}) != 1:
        raise ValueError(f"noises: expected the same outputs, got {[noise.names for noise in noises]}")
    return Coloured(*_side_by_side(noises), np.concatenate([noise.C for noise in noises], axis=1), noises[0].names)


def _side_by_side(noises: Sequence[Coloured]) -> tuple[np.ndarray, np.ndarray]:
    """A and B of independent filters."""
    return tuple(scipy.linalg.block_diag(*matrices) for matrices in zip(*((n.A, n.B) for n in noises), strict=True))
