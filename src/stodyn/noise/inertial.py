"""Gyros and accelerometers from their data sheets.

The rate that a sensor reports is M ω + b + n: white noise n of the two-sided root density N (angle or velocity random
walk), and a bias b of flicker (bias instability B), a random walk K, Gauss-Markov terms (s, T_c) and a constant that is
drawn at turn-on. M holds scale factors and misalignment. A walk has no stationary law: it begins at turn-on.

What other tools call the same numbers:
    kalibr, OpenVINS, GTSAM, LIO-SAM   noise density N (two-sided), random walk K
    rotors, PX4 classic                N; a Gauss-Markov bias of walk K and time τ, standard deviation K √(τ/2)
    gz-sensors                         stddev N/√T per sample; dynamic_bias_stddev K with a correlation time
    AirSim                             N in deg/√h or mg/√Hz; K = bias_stability/√τ
(rotors, AirSim: as their sources read; the others: as their documents say, from memory.)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.hints import Count, Integer, check_seed, whole
from stodyn.noise import readings, stream, units
from stodyn.noise.coloured import Coloured, flicker, gauss_markov, summed
from stodyn.noise.readings import Density, Recursion

ENDLESS = 1000.0  # correlation time, in s, that stands for a random walk in tools that want one
FASTEST, POLES = 0.3, 3  # of the processes that flicker is made of: the shortest correlation time, in readings, and how
# many there are in a decade
FITTED = 10  # processes whose variances are fitted to a flat Allan variance
LOWEST = 1e6  # readings within which flicker without a band goes on to lower frequencies: 1/(20 LOWEST every)


def flicker_of_readings(B: float, every: float, lowest: float) -> Coloured:
    """Return flicker noise of the bias instability B down to a frequency, as readings this far apart are to show it.

    It is a sum of first-order processes, as `flicker` is. Readings see processes that are faster than they are as white
    noise, which would come on top of N: there are none, and the fastest have such variances that the Allan variance of
    the readings is (2 ln 2/π) B² to 1.1 % from the shortest averaging time on.
    """
    decades = math.log10(10.0 / (2.0 * math.pi * lowest * FASTEST * every))
    times = FASTEST * 10.0 ** (np.arange(max(math.ceil(POLES * decades) + 1, FITTED)) / POLES)
    stretches = 2 ** np.arange(FITTED + 3)
    columns = np.stack([_sampled_allan_variances(time, stretches) for time in times], axis=1)
    unit, flat = B**2 * math.log(10.0) / (POLES * math.pi), 2.0 * math.log(2.0) / math.pi * B**2
    slow = unit * columns[:, FITTED:].sum(axis=1)
    fast, _ = scipy.optimize.nnls(columns[:, :FITTED], flat - slow)
    variances = np.concatenate([fast, np.full(len(times) - FITTED, unit)])
    return summed(*(gauss_markov(math.sqrt(v), time * every) for v, time in zip(variances, times, strict=True) if v))


def _sampled_allan_variances(time: float, stretches: np.ndarray) -> np.ndarray:
    """Return those of a first-order process of variance 1 whose correlation time is counted in readings."""

    def of(m: int) -> float:
        lags = np.arange(1 - m, m)
        missing = -np.expm1(-(m + lags) / time) + np.expm1(-np.abs(lags) / time)
        return float((m - np.abs(lags)) @ missing) / m**2

    return np.array([of(int(m)) for m in stretches])


@dataclasses.dataclass(frozen=True, eq=False)
class Inertial:
    """The noise of a gyro or an accelerometer, in rad, m and s; made by stodyn.noise.gyro and accelerometer.

    Attributes
    ----------
    kind : "gyro" or "accelerometer"
    N, B, K : float
        Random walk (root of the two-sided density), bias instability, random walk of the rate.
    gauss_markov : tuple of (s, T_c)
        Standard deviations and correlation times of further biases.
    turn_on : float
        Standard deviation of the constant bias.
    resolution, range : float, (low, high), optional
        One digit of the reading, and its limits.
    response : array (axes, axes)
        What the reading is of the true rate: scale factors and misalignment.
    band : (f1, f2), optional
        The frequencies between which flicker is flicker.
    every : float, optional
        The time between readings.
    """

    kind: str
    N: float
    B: float
    K: float
    gauss_markov: tuple[tuple[float, float], ...]
    turn_on: float
    resolution: float | None
    range: tuple[float, float] | None
    response: np.ndarray
    band: tuple[float, float] | None
    every: float | None

    @property
    def reading_unit(self) -> units.Unit:
        """The unit of a reading."""
        return units.parsed(UNITS[self.kind]["rate"])

    def biases(self, every: float, duration: float | None = None) -> list[Coloured]:
        """Return the stationary parts of the bias, as readings this far apart see them."""
        terms = [gauss_markov(s, time) for s, time in self.gauss_markov]
        if self.B and self.band is None:
            terms.append(flicker_of_readings(self.B, every, self.flicker_band(every, duration)[0]))
        elif self.B:
            terms.append(flicker(self.B**2 / math.pi, self.flicker_band(every, duration)))
        return terms

    def flicker_band(self, every: float, duration: float | None = None) -> tuple[float, float]:
        """Return the frequencies between which flicker is flicker, by default 1/(20 duration) and 1/(2 every)."""
        if self.band is not None:
            return self.band
        return 1.0 / (20.0 * (duration if duration is not None else LOWEST * every)), 0.5 / every

    def recursion(self, every: float, outputs: int = 1, duration: float | None = None) -> Recursion:
        """Return the noise at readings this far apart, the same on every axis."""
        parts = [readings.memoryless(outputs, lambda params: self.N / math.sqrt(every))]
        parts += [readings.of_coloured(bias, every, outputs) for bias in self.biases(every, duration)]
        if self.K or self.turn_on:
            one = np.eye(outputs)
            drive, start = self.K * math.sqrt(every) * one, self.turn_on * one
            parts.append(Recursion(one, drive, one, start, lambda params: 0.0))
        return readings.stacked(parts)

    @checks_arguments
    def sample(
        self, steps: Count, *, every: float | None = None, paths: Count = 1, seed: Integer, truth: Any = 0.0
    ) -> np.ndarray:
        """Draw readings, one after each period.

        Parameters
        ----------
        steps : int
            The number of readings.
        every : float, optional
            The time between them; by default that of the sensor.
        paths : int
            The number of independent sensors.
        seed : int
            The seed of the random numbers.
        truth : array broadcastable to (paths, steps, axes)
            The true rates; by default the sensor is at rest.

        Returns
        -------
        array (paths, steps, axes)

        Examples
        --------
        >>> import stodyn as sd
        >>> sd.noise.gyro(arw="0.3 deg/sqrt(h)", every=0.01).sample(1000, seed=1).shape
        (1, 1000, 1)
        """
        period = self._period(every)
        check_seed(seed)
        steps, paths, axes = whole("steps", steps), whole("paths", paths), len(self.response)
        noise = self.recursion(period, axes, steps * period)
        rng = stream.generator(int(seed), 0, "sensor")
        values = noise.draws(rng, paths, steps)
        values = np.broadcast_to(truth, values.shape) @ self.response.T + values
        return readings.shown(values, self.resolution, self.range)

    def _period(self, every: float | None) -> float:
        period = self.every if every is None else every
        if period is None or not (math.isfinite(period) and period > 0):
            raise ValueError(f"every: expected the time between readings, such as every=0.01, got {period!r}")
        return float(period)

    # --- the same sensor in the words of other tools ------------------------------------------------------------------

    def as_kalibr(self) -> str:
        """Return the lines of kalibr's imu.yaml: roots of two-sided densities, at any rate."""
        word = KALIBR[self.kind][0]
        rate = f"\nupdate_rate: {1.0 / self.every:.10g}" if self.every else ""
        return f"{word}_noise_density: {self.N:.10g}\n{word}_random_walk: {self.K:.10g}{rate}"

    @checks_arguments
    def as_gazebo(self, rate: float) -> str:
        """Return the noise element of gz-sensors, whose stddev belongs to a sample: N √rate.

        A random walk of the bias becomes a dynamic bias with a correlation time of 1000 s; flicker is left out.

        Parameters
        ----------
        rate : float
            Readings per second.
        """
        period = 1.0 / rate
        lines = ['<noise type="gaussian">', "  <mean>0</mean>", f"  <stddev>{self.N / math.sqrt(period):.10g}</stddev>",
                 f"  <bias_mean>0</bias_mean>\n  <bias_stddev>{self.turn_on:.10g}</bias_stddev>"]  # fmt: skip
        walk, time = self._driven
        if walk:
            lines += [f"  <dynamic_bias_stddev>{walk:.10g}</dynamic_bias_stddev>",
                      f"  <dynamic_bias_correlation_time>{time:.10g}</dynamic_bias_correlation_time>"]  # fmt: skip
        return "\n".join([*lines, "</noise>"])

    @property
    def _driven(self) -> tuple[float, float]:
        """The walk and the time of the one bias that these tools have."""
        count = bool(self.K) + len(self.gauss_markov)
        if count > 1:
            raise ValueError(
                f"gauss_markov, rate_random_walk: this tool has one bias that moves, the sensor has {count}; leave out "
                "all but one of them"
            )
        if not self.gauss_markov:
            return self.K, ENDLESS
        size, time = self.gauss_markov[0]
        return size * math.sqrt(2.0 / time), time

    def as_airsim(self) -> str:
        """Return AirSim's settings in its units; its bias is a walk of stability/√τ, with τ = 1 s."""
        names, sizes = AIRSIM[self.kind]
        walk = math.hypot(self.K, *(s * math.sqrt(2.0 / time) for s, time in self.gauss_markov))
        values = (self.N / sizes[0], walk / sizes[1], 1.0)
        return ",\n".join(f'"{name}": {value:.10g}' for name, value in zip(names, values, strict=True))

    def as_px4(self) -> str:
        """Return the lines of PX4's and rotors' classic plugin: N, the walk of a Gauss-Markov bias, and its time."""
        word = KALIBR[self.kind][0]
        walk, time = self._driven
        return "\n".join(f"<{word}{name}>{value:.10g}</{word}{name}>" for name, value in (
            ("NoiseDensity", self.N), ("RandomWalk", walk), ("BiasCorrelationTime", time),
            ("TurnOnBiasSigma", self.turn_on)))  # fmt: skip


AIRSIM = {  # names of settings, and the units of the first two of them
    "gyro": (
        ("AngularRandomWalk", "GyroBiasStability", "GyroBiasStabilityTau"),
        (units.parsed("deg/sqrt(h)").size, units.parsed("deg/h").size),
    ),
    "accelerometer": (
        ("VelocityRandomWalk", "AccelBiasStability", "AccelBiasStabilityTau"),
        (units.parsed("mg/sqrt(Hz)").size, units.parsed("ug").size),
    ),
}
KALIBR = {"gyro": ("gyroscope", "arw"), "accelerometer": ("accelerometer", "vrw")}  # names there and here
UNITS = {
    "gyro": {"N": "rad/sqrt(s)", "B": "rad/s", "K": "rad/s/sqrt(s)", "rate": "rad/s"},
    "accelerometer": {"N": "m/s/sqrt(s)", "B": "m/s^2", "K": "m/s^2/sqrt(s)", "rate": "m/s^2"},
}


@checks_arguments
def gyro(
    *,
    arw: Any = 0.0,
    bias_instability: Any = 0.0,
    rate_random_walk: Any = 0.0,
    gauss_markov: Sequence[Any] = (),
    turn_on: Any = 0.0,
    resolution: Any = None,
    range: Any = None,
    scale_factor: Any = 0.0,
    misalignment: Any = 0.0,
    every: float | None = None,
    band: tuple[float, float] | None = None,
) -> Inertial:
    """Describe a gyro by its data sheet. Numbers are in rad and s, or in words with a unit: "0.34 deg/sqrt(h)".

    Parameters
    ----------
    arw : float, str or Density
        Angle random walk, Allan's N: the root of the two-sided density of white rate noise. A rate noise density of a
        data sheet, which counts positive frequencies alone, is sd.density("0.008 deg/s/sqrt(Hz)", sides=1); in a unit
        per √Hz without sides= it is refused.
    bias_instability : float or str
        B of flicker noise S(f) = B²/(2πf). The flat part of an Allan deviation is 0.664 B; the smallest value of a
        curve lies above it where random walks still count.
    rate_random_walk : float, str or Density
        K of a walk of the bias: its variance grows by K² per unit of time.
    gauss_markov : (s, T_c) or sequence of them
        Standard deviations and correlation times of stationary biases.
    turn_on : float or str
        Standard deviation of a constant bias, drawn at the start.
    resolution, range : float or str, (low, high), optional
        One digit of a reading, and its limits; a single limit is taken on both sides.
    scale_factor : float or sequence
        Relative errors of scale, one for each axis.
    misalignment : float, or array (3, 3) or (3,)
        Small angles by which the axes are turned; a matrix is added to the response as it is.
    every : float, optional
        The time between readings; a Sensor or `sample(every=)` may give it instead.
    band : (f1, f2), optional
        Frequencies in Hz between which flicker is flicker; by default up to half the rate, with a flat Allan variance
        of the readings, and down to a period of twenty times the record. What a band holds above half the rate is seen
        by readings as white noise on top of N.

    Returns
    -------
    Inertial
        As `noise=` of a Sensor, or drawn by `sample`.

    Raises
    ------
    ValueError
        If a number is negative or not finite, or a unit is not one of the quantity.

    Notes
    -----
    From the words of other tools, for gyro and accelerometer alike:
        gyro.from_kalibr(text)                        the lines of an imu.yaml, or its pathlib.Path
        gyro.from_gazebo(stddev, rate)                also bias_stddev=, dynamic_bias_stddev=,
                                                      dynamic_bias_correlation_time=
        gyro.from_px4(noise_density, random_walk, bias_correlation_time, turn_on_bias_sigma)
        gyro.from_airsim(N, bias_stability, tau)      numbers as in AirSim's settings: in deg/√h and deg/h, those of
                                                      accelerometers in mg/√Hz and µg

    Examples
    --------
    >>> import stodyn as sd
    >>> g = sd.noise.gyro(arw="0.34 deg/sqrt(h)", bias_instability="8 deg/h", every=0.005)
    >>> f"{g.N:.4g} {g.B:.4g}"
    '9.89e-05 3.879e-05'
    """
    return _inertial("gyro", "arw", locals())


@checks_arguments
def accelerometer(
    *,
    vrw: Any = 0.0,
    bias_instability: Any = 0.0,
    rate_random_walk: Any = 0.0,
    gauss_markov: Sequence[Any] = (),
    turn_on: Any = 0.0,
    resolution: Any = None,
    range: Any = None,
    scale_factor: Any = 0.0,
    misalignment: Any = 0.0,
    every: float | None = None,
    band: tuple[float, float] | None = None,
) -> Inertial:
    """Describe an accelerometer by its data sheet; numbers are in m and s, or with a unit: "0.06 m/s/sqrt(h)".

    Parameters
    ----------
    vrw : float, str or Density
        Velocity random walk, Allan's N: the root of the two-sided density of the white noise. A noise density of a
        data sheet is sd.density("100 ug/sqrt(Hz)", sides=1).
    bias_instability, rate_random_walk : float or str
        B of flicker and K of a walk of the bias.
    gauss_markov : (s, T_c) or sequence of them
        Standard deviations and correlation times of stationary biases.
    turn_on : float or str
        Standard deviation of a constant bias, drawn at the start.
    resolution, range : float or str, (low, high), optional
        One digit of a reading, and its limits; a single limit is taken on both sides.
    scale_factor, misalignment : float, sequence or array
        As of `gyro`.
    every, band : float, (f1, f2), optional
        As of `gyro`.

    Returns
    -------
    Inertial

    Raises
    ------
    ValueError
        If a number is negative or not finite, or a unit is not one of the quantity.

    Examples
    --------
    >>> import stodyn as sd
    >>> f'{sd.noise.accelerometer(vrw=sd.density("100 ug/sqrt(Hz)", sides=1)).N:.4g}'
    '0.0006934'
    """
    return _inertial("accelerometer", "vrw", locals())


def _inertial(kind: str, walk: str, sheet: Mapping[str, Any]) -> Inertial:
    """Return the sensor of a data sheet: the arguments of gyro or accelerometer by their names."""
    like = UNITS[kind]
    sizes = {
        walk: _two_sided(walk, sheet[walk], like["N"]),
        "bias_instability": units.number("bias_instability", sheet["bias_instability"], like["B"]),
        "rate_random_walk": _two_sided("rate_random_walk", sheet["rate_random_walk"], like["K"]),
        "turn_on": units.number("turn_on", sheet["turn_on"], like["rate"]),
    }
    for name, size in sizes.items():
        if not (math.isfinite(size) and size >= 0):
            raise ValueError(f"{name}: expected a number >= 0, got {size!r}")
    digit = sheet["resolution"]
    return Inertial(
        kind=kind,
        N=sizes[walk],
        B=sizes["bias_instability"],
        K=sizes["rate_random_walk"],
        gauss_markov=_markov_terms(sheet["gauss_markov"], like["rate"]),
        turn_on=sizes["turn_on"],
        resolution=None if digit is None else units.number("resolution", digit, like["rate"]),
        range=_limits(sheet["range"], like["rate"]),
        response=_response(sheet["scale_factor"], sheet["misalignment"]),
        band=sheet["band"],
        every=sheet["every"],
    )


def _markov_terms(terms: Sequence[Any], like: str) -> tuple[tuple[float, float], ...]:
    pairs = [terms] if len(terms) == 2 and np.ndim(terms[0]) == 0 else terms
    return tuple((units.number("gauss_markov", s, like), units.number("gauss_markov", t, "s")) for s, t in pairs)


def _limits(limits: Any, like: str) -> tuple[float, float] | None:
    if limits is None:
        return None
    if np.ndim(limits) == 0:
        most = units.number("range", limits, like)
        return -most, most
    low, high = (units.number("range", end, like) for end in limits)
    return low, high


def _two_sided(name: str, walk: Any, like: str) -> float:
    if isinstance(walk, Density):
        root = units.number(name, walk.root, like)
        return root if walk.sides == 2 else root / math.sqrt(2.0)
    size = units.number(name, walk, like)
    if units.is_density(walk):
        raise ValueError(
            f"{name}: the frequencies of {walk!r} may be counted in two ways: {readings.both_counts(walk)}; write "
            f"sd.density({walk!r}, sides=1) or sides=2"
        )
    return size


def _response(scale: Any, misalignment: Any) -> np.ndarray:
    """Return 1 + scale factors + misalignment: a vector of small angles turns, a matrix is taken as it is."""
    angles = np.asarray(misalignment, float)
    axes = max(np.size(scale), 3 if angles.size > 1 else 1)
    if angles.shape == (3,):
        x, y, z = angles
        angles = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    if angles.ndim == 0 and float(angles):
        raise ValueError(f"misalignment: expected three angles or a matrix (3, 3), got {misalignment!r}")
    return np.eye(axes) + np.diag(np.broadcast_to(np.asarray(scale, float), (axes,))) + angles


@dataclasses.dataclass(frozen=True, eq=False)
class Imu:
    """Three gyros and three accelerometers: six channels of independent noise."""

    gyro: Inertial
    accelerometer: Inertial

    @property
    def every(self) -> float | None:
        """The time between readings, where both sensors have the same."""
        return self.gyro.every if self.gyro.every == self.accelerometer.every else None

    def as_kalibr(self) -> str:
        """Return the lines of kalibr's imu.yaml, of both sensors."""
        lines = "\n".join(dataclasses.replace(one, every=None).as_kalibr() for one in (self.gyro, self.accelerometer))
        return lines + (f"\nupdate_rate: {1.0 / self.every:.10g}" if self.every else "")

    @property
    def response(self) -> np.ndarray:
        """What the six readings are of true rates and accelerations."""
        return scipy.linalg.block_diag(_three_axes(self.gyro).response, _three_axes(self.accelerometer).response)

    def recursion(self, every: float, outputs: int = 6, duration: float | None = None) -> Recursion:
        """Return the noise of the six readings: rates first, then accelerations."""
        if outputs != 6:
            raise ValueError(f"noise: an IMU has six readings, three rates and three accelerations, got {outputs}")
        if any(half.resolution or half.range for half in (self.gyro, self.accelerometer)):
            raise ValueError("noise: rates and accelerations are not rounded and limited alike; give the gyro and the "
                             "accelerometer a Sensor each, or leave out resolution and range")  # fmt: skip
        halves = [half.recursion(every, 3, duration) for half in (self.gyro, self.accelerometer)]
        padded = [
            dataclasses.replace(half, C=np.concatenate([half.C, 0.0 * half.C][:: 1 - 2 * k]),
                                white=_placed(half.white, k))
            for k, half in enumerate(halves)
        ]  # fmt: skip
        return readings.stacked(padded)

    @checks_arguments
    def sample(
        self, steps: Count, *, every: float | None = None, paths: Count = 1, seed: Integer, truth: Any = 0.0
    ) -> np.ndarray:
        """Draw readings of the six channels.

        Parameters
        ----------
        steps, every, paths, seed
            As of the sensors.
        truth : array broadcastable to (paths, steps, 6)
            True rates and accelerations.

        Returns
        -------
        array (paths, steps, 6)
        """
        check_seed(seed)
        truth = np.broadcast_to(np.asarray(truth, float), (whole("paths", paths), whole("steps", steps), 6))
        halves = []
        for k, half in enumerate((self.gyro, self.accelerometer)):
            part = truth[..., 3 * k : 3 * k + 3]
            halves.append(_three_axes(half).sample(steps, every=every, paths=paths, seed=2 * int(seed) + k, truth=part))
        return np.concatenate(halves, axis=-1)


def _three_axes(sensor: Inertial) -> Inertial:
    wide = sensor.response if len(sensor.response) == 3 else sensor.response[0, 0] * np.eye(3)
    return dataclasses.replace(sensor, response=wide)


def _placed(white: Any, half: int) -> Any:
    """White noise of three readings as that of six, the others without noise."""

    def placed(params: Any) -> np.ndarray:
        sizes = np.zeros(6)
        sizes[3 * half : 3 * half + 3] = white(params)
        return sizes

    return placed


@checks_arguments
def imu(gyro: Inertial, accelerometer: Inertial) -> Imu:
    """Put three equal gyros and three equal accelerometers side by side.

    Parameters
    ----------
    gyro, accelerometer : Inertial
        From stodyn.noise.gyro and stodyn.noise.accelerometer.

    Returns
    -------
    Imu

    Raises
    ------
    TypeError
        If one is not the sensor that its name says.

    Examples
    --------
    >>> import stodyn as sd
    >>> both = sd.noise.imu(sd.noise.gyro(arw=1e-4), sd.noise.accelerometer(vrw=1e-3))
    >>> both.sample(3, every=0.01, seed=1).shape
    (1, 3, 6)
    """
    for name, part in (("gyro", gyro), ("accelerometer", accelerometer)):
        if getattr(part, "kind", None) != name:
            raise TypeError(f"{name}: expected noise.{name}(...), got {part!r}")
    return Imu(gyro, accelerometer)


# --- sensors from the words of other tools ----------------------------------------------------------------------------


@checks_arguments
def from_kalibr(text: str | PurePath | Mapping[str, Any]) -> Imu:
    """Read the noise of an imu.yaml of kalibr: roots of two-sided densities, and random walks.

    Parameters
    ----------
    text : str, path or mapping
        The lines of the file, the file as a pathlib.Path, or its entries. Of gyro.from_kalibr only those of a gyro.

    Returns
    -------
    Imu

    Raises
    ------
    ValueError
        If a noise density is missing or not a number.

    Examples
    --------
    >>> import stodyn as sd
    >>> lines = "gyroscope_noise_density: 1e-4\\naccelerometer_noise_density: 2e-3\\nupdate_rate: 200"
    >>> sd.noise.gyro.from_kalibr(lines).N
    0.0001
    """
    entries = _entries(text)
    return imu(*(_of_kalibr(make, entries) for make in (gyro, accelerometer)))


def _of_kalibr(make: Any, text: Any) -> Inertial:
    """Read the gyro or the accelerometer of an imu.yaml."""
    entries, (word, walk) = _entries(text), KALIBR[make.__name__]
    if f"{word}_noise_density" not in entries:
        raise ValueError(
            f"text: there is no {word}_noise_density in it; expected the lines of an imu.yaml, such as "
            'pathlib.Path("imu.yaml").read_text()'
        )

    def entry(name: str) -> float:
        value = entries.get(name, 0.0)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(f"text: expected a number as {name}, got {value!r}") from None

    rate = entry("update_rate")
    noise = {walk: entry(f"{word}_noise_density"), "rate_random_walk": entry(f"{word}_random_walk")}
    return make(**noise, every=1.0 / rate if rate else None)


def _entries(text: Any) -> Mapping[str, Any]:
    if isinstance(text, Mapping):
        return text
    if isinstance(text, PurePath):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"text: {text} cannot be read ({error}); expected the lines of an imu.yaml") from error
    lines = (line.split("#")[0].split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in lines}


def _from_gazebo(
    make: Any, stddev: float, rate: float, *, bias_stddev: float = 0.0, dynamic_bias_stddev: float = 0.0,
    dynamic_bias_correlation_time: float = 0.0,
) -> Inertial:  # fmt: skip
    """Read the noise element of gz-sensors: stddev belongs to a sample, N = stddev/√rate."""
    time = dynamic_bias_correlation_time
    terms = (dynamic_bias_stddev * math.sqrt(time / 2.0), time) if dynamic_bias_stddev else ()
    return make(stddev / math.sqrt(rate), terms, bias_stddev, 1.0 / rate)


def _from_px4(
    make: Any, noise_density: float, random_walk: float, bias_correlation_time: float, turn_on_bias_sigma: float = 0.0,
    *, every: float | None = None,
) -> Inertial:  # fmt: skip
    """Read the numbers of PX4's and rotors' classic plugin: a Gauss-Markov bias of standard deviation K √(τ/2)."""
    terms = (random_walk * math.sqrt(bias_correlation_time / 2.0), bias_correlation_time)
    return make(noise_density, terms if random_walk else (), turn_on_bias_sigma, every)


def _gyro_of(N: float, terms: Any, turn_on: float, every: float | None) -> Inertial:
    return gyro(arw=N, gauss_markov=terms, turn_on=turn_on, every=every)


def _accelerometer_of(N: float, terms: Any, turn_on: float, every: float | None) -> Inertial:
    return accelerometer(vrw=N, gauss_markov=terms, turn_on=turn_on, every=every)


def _from_airsim(
    make: Any, walk: str, N: float | str, bias_stability: float | str, tau: float, turn_on_bias: float = 0.0
) -> Inertial:
    """Read AirSim's settings, numbers in its units: its bias is a walk with K = bias_stability/√τ."""
    kind = make.__name__
    sizes, like = AIRSIM[kind][1], UNITS[kind]
    root = N if isinstance(N, str) else N * sizes[0]
    if isinstance(bias_stability, str):
        bias = units.number("bias_stability", bias_stability, like["B"])
    else:
        bias = bias_stability * sizes[1]
    return make(**{walk: root}, rate_random_walk=bias / math.sqrt(tau), turn_on=turn_on_bias)


for _make, _of, _walk in ((gyro, _gyro_of, "arw"), (accelerometer, _accelerometer_of, "vrw")):
    _words: Any = _make
    _words.from_gazebo, _words.from_px4 = functools.partial(_from_gazebo, _of), functools.partial(_from_px4, _of)
    _words.from_airsim = functools.partial(_from_airsim, _make, _walk)
    _words.from_kalibr = functools.partial(_of_kalibr, _make)
