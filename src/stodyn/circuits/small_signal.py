"""Noise of a circuit linearised at its operating point: spectra at a node and the stationary covariance."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.circuits.assembly import Network, as_named, by_name
from stodyn.circuits.devices import flicker_size
from stodyn.numerics import direct, lyapunov

STANDARD = 290.0  # K: the temperature of the source in a noise figure


class Spectrum(NamedTuple):
    """One-sided densities (V²/Hz, for currents A²/Hz) at frequencies (Hz): of the whole circuit and of each element.

    gain    |H|² from a source to the output, if a source was named
    kelvin  the temperature of the circuit
    """

    frequency: np.ndarray
    density: np.ndarray
    parts: dict[str, np.ndarray]
    kelvin: float
    gain: np.ndarray | None = None

    @property
    def input_density(self) -> np.ndarray:
        """The density of noise at the input source that would give the same output: V²/Hz at a V, A²/Hz at an I."""
        if self.gain is None:
            raise ValueError("input_density: no source was named; give source=, or write .noise v(OUT) SOURCE ...")
        with np.errstate(divide="ignore"):
            return self.density / self.gain

    def noise_figure(self, resistor: str) -> np.ndarray:
        """Return the noise figure 10 log10(1 + (S - S_R)/S_R₀), dB.

        S is the output noise, S_R the part of it that comes from the resistor of the signal source, and S_R₀ that part
        with the resistor at 290 K.

        Parameters
        ----------
        resistor : str
            The name of the resistor of the signal source.

        Returns
        -------
        numpy.ndarray
            The noise figure in dB at each frequency.

        Raises
        ------
        ValueError
            If the resistor contributes no noise to the output.
        """
        name = resistor.lower()
        if name not in self.parts or not self.parts[name].any():
            loud = ", ".join(part for part, density in self.parts.items() if density.any())
            raise ValueError(f"resistor: {resistor} makes no noise at the output; expected one of {loud}")
        own = self.parts[name]
        return 10.0 * np.log10(1.0 + (self.density - own) / (own * STANDARD / self.kelvin))


class Response(NamedTuple):
    """The result of .ac: complex amplitudes of the unknowns at frequencies (Hz); response["out"] for the node out."""

    frequency: np.ndarray
    amplitudes: np.ndarray
    names: tuple[str, ...]

    def __getitem__(self, name: Any) -> Any:
        return by_name(self, self.amplitudes, self.names, name)


@dataclasses.dataclass(frozen=True, eq=False)
class SmallSignal:
    """The linearised circuit M x' = f_x x + noise around a state x, for the analyses of SPICE's .noise and more.

    spectrum(node)  S(f) = Σ_k |e' (2πi f M - f_x)⁻¹ b_k|² S_k(f), one sparse solve per frequency
    covariance()    the stationary covariance of all unknowns, from the Lyapunov equation; dense, O(n³)
    rates           λ of the modes exp(λ t): a step h resolves those with h |λ| < 1; dense, O(n³)
    """

    network: Network
    problem: Any
    x: np.ndarray

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            has = ", ".join(key for key in dir(type(self)) if not key.startswith("_"))
            raise AttributeError(f"a small-signal analysis has no {name!r}; it has {has}")

    @checks_arguments
    def spectrum(self, node: str, frequency: ArrayLike, reference: str = "0", source: str | None = None) -> Spectrum:
        """Compute the noise of v(node) - v(reference): flicker noise as exactly 1/f, white noise at all frequencies.

        Parameters
        ----------
        node, reference : str
            The names of the nodes.
        frequency : array_like
            Frequencies in Hz.
        source : str, optional
            A V or I source to which the noise is referred in `input_density` of the spectrum.

        Returns
        -------
        Spectrum

        Raises
        ------
        ValueError
            If a node or the source does not exist, or a frequency is not above 0.
        """
        network, n = self.network, self.network.n
        f = np.atleast_1d(np.asarray(frequency, float))
        if f.ndim != 1 or not (np.isfinite(f).all() and (f > 0.0).all()):
            raise ValueError(f"frequency: expected frequencies above 0 in Hz, got {frequency!r}")
        output = np.zeros(n, complex)
        for name, sign in ((node, 1.0), (reference, -1.0)):
            if name != "0":
                output[self.component(name)] += sign
        M, J = map(direct.handy, network.small_signal(self.x))
        white = 2.0 * network.intensity(self.x, network.sources.at_rest(), np)
        flicker = self.flicker()
        transfers = np.empty((len(f), n + 1), complex)
        for k, frequency_k in enumerate(f):
            transfers[k, :n] = direct.solved(network.at_frequency(M, J, frequency_k).T, output)
        transfers[:, n] = 0.0
        parts: dict[str, np.ndarray] = {}
        for loud in network.noises:
            size = np.abs(transfers[:, loud.a] - transfers[:, loud.b]) ** 2
            parts[loud.element.name] = size * white[loud.place]
        for name, a, b, strength in flicker:
            parts[f"{name} (flicker)"] = np.abs(transfers[:, a] - transfers[:, b]) ** 2 * strength / f
        gain = None if source is None else np.abs(transfers @ self.pushed(source)) ** 2
        return Spectrum(f, np.sum([*parts.values(), np.zeros(len(f))], axis=0), parts, network.netlist.kelvin, gain)

    def pushed(self, source: str) -> np.ndarray:
        """The contribution (n + 1,) of a source of size 1 to the equations."""
        network = self.network
        if source not in network.sources_of:
            raise ValueError(f"source: there is no {source!r}; there are {', '.join(network.sources_of)}")
        mine = network.source_columns == network.sources_of.index(source)
        push = np.zeros(network.n + 1)
        np.add.at(push, network.source_rows[mine], network.source_signs[mine])
        return push

    @checks_arguments
    def response(self, frequency: ArrayLike) -> np.ndarray:
        """Compute the complex amplitudes of all unknowns for the AC amplitudes of the sources, as in .ac.

        Parameters
        ----------
        frequency : float or array
            Frequencies in Hz.

        Returns
        -------
        array (frequencies, n)

        Raises
        ------
        ValueError
            If a frequency is negative or not finite.
        """
        network, n = self.network, self.network.n
        f = np.atleast_1d(np.asarray(frequency, float))
        if f.ndim != 1 or not (np.isfinite(f).all() and (f >= 0.0).all()):
            raise ValueError(f"frequency: expected frequencies from 0 in Hz, got {frequency!r}")
        M, J = map(direct.handy, network.small_signal(self.x))
        right = np.zeros(n + 1, complex)
        np.add.at(
            right, network.source_rows, network.source_signs * network.sources.small_signal[network.source_columns]
        )
        return np.stack([direct.solved(network.at_frequency(M, J, f_k), right[:n]) for f_k in f])

    def flicker(self) -> list[tuple[str, int, int, float]]:
        """Return of every element with flicker noise its name, its two nodes, and KF |i|^AF."""
        y, sources = np.append(self.x, 0.0), []
        for part in self.network.flickers:
            group = self.network.groups[part.group]
            size = flicker_size(group.value(y, np), group.numbers, np) ** 2
            sources += [(group.elements[d].name, int(group.out[0][d]), int(group.out[1][d]), float(size[d]))
                      for d in part.devices]  # fmt: skip
        return sources

    def component(self, name: str) -> int:
        if as_named(name) not in self.network.names:
            raise ValueError(f"node: there is no {name!r}; there are {', '.join(self.network.names[:20])}")
        return self.network.names.index(as_named(name))

    @property
    def wandering(self) -> list[int]:
        """The charges delivered by sources, on which no equation depends."""
        return [self.network.branches[name] for name in self.network.charged]

    @functools.cached_property
    def state_space(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, T, W of dz = A z dt + W'R g dW, x = T z + unbounded charges: z = W'R M x, A = W'R f_x T.

        W is orthogonal to the directions V of the charges of sources in R M x, along which nothing moves.
        """
        problem, n = self.problem, self.network.n
        if self.network.lines:
            raise ValueError(
                f"{self.network.lines[0].name}: a line has infinitely many modes; .ac and .noise have them"
            )
        rows, N, *_ = problem.facts.split
        J, M = self.network.slopes(self.x).toarray(), problem.mass_matrix
        T = direct.solved(np.concatenate([M[rows], N @ J]), np.eye(n, len(rows)))
        memories = self.network.memories
        V = M[np.ix_(rows, [*self.wandering, *(() if memories is None else memories.rows)])]
        W = np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :]
        return W.T @ J[rows] @ T @ W, T @ W, W

    @functools.cached_property
    def rates(self) -> np.ndarray:
        """λ (1/s) of the modes exp(λ t), the fastest first."""
        eigenvalues = np.linalg.eigvals(self.state_space[0])
        return eigenvalues[np.argsort(-np.abs(eigenvalues))]

    @checks_arguments
    def covariance(self) -> np.ndarray:
        """The covariance (n, n), T P T' with A P + P A' + W'R g g'R'W = 0.

        For algebraic unknowns it leaves out the white part that was removed from them. The charge delivered by a source
        is a random walk, whose variance is infinite.
        """
        A, T, W = self.state_space
        g = W.T @ self.problem.noise_matrix(self.x)[self.problem.facts.split.rows]
        covariance, wandering = lyapunov.continuous(A, g @ g.T, T), self.wandering
        covariance[wandering], covariance[:, wandering] = np.nan, np.nan
        covariance[wandering, wandering] = np.inf
        return covariance
