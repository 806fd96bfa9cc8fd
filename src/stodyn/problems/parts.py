"""Ready parts of loops: linear systems, PID controllers, regulators and estimators designed for their plant.

    linear          x⁺ = A x + B y, u = C x + D y
    pid             proportional, integral and derivative action, with limits
    lqr             the feedback of the state that costs least
    kalman          the state estimated from readings
    lqg             both in one part
    arrived         no part, but what a part may read: whether a reading arrives

Each returns a part for with_loop; the last three carry their design: part.design has gains, J, poles and longest_delay.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.noise import readings as words_of_noise
from stodyn.numerics import systems, van_loan
from stodyn.problems import sampled_design
from stodyn.problems.linear_plant import Plant, linear_plant, linear_readings
from stodyn.problems.looped import Part, True_, arrived, true
from stodyn.problems.sampled_design import Design, System
from stodyn.problems.sensor import Sensor, exact

__all__ = ["arrived", "kalman", "linear", "lqg", "lqr", "pid"]
__dir__ = listing.names_of(__name__)

GAINS, FORMS = ("steady", "varying"), ("filter", "predictor")
LEAST = 1e-300  # variance of a reading: of what is known exactly nothing is learnt


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Designed(Part):
    """A part that was designed for its plant, with the design."""

    design: Design

    def __init__(self, design: Design, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        object.__setattr__(self, "design", design)


# --- linear systems ---------------------------------------------------------------------------------------------------


@checks_arguments
def linear(
    name: str,
    A: Any,
    B: ArrayLike | None = None,
    C: ArrayLike | None = None,
    D: ArrayLike | None = None,
    *,
    every: float,
    reads: Any,
    writes: Any = (),
    state: ArrayLike | None = None,
    phase: float = 0,
    delay: float = 0,
) -> Part:
    """Make a part of a discrete linear system: u = C x + D y, and then x⁺ = A x + B y.

    Parameters
    ----------
    name : str
        The name of the part.
    A : array (n, n), or a discrete system
        The matrix of its state; or a whole system of python-control or scipy.signal, whose dt must be `every`.
    B, C, D : arrays (n, readings), (outputs, n), (outputs, readings), optional
        The other matrices; they are 0 where left out.
    every : float
        The time between its runs.
    reads, writes : optional
        As for Part. What is read, one after the other, makes the vector y; what is written, the vector u.
    state : array (n,), optional
        Its state at the start; 0 by default.
    phase, delay : float
        As for Part.

    Returns
    -------
    Part

    Raises
    ------
    TypeError, ValueError
        If the system is continuous or of another period, or shapes do not fit.

    Examples
    --------
    >>> import stodyn as sd
    >>> smooth = sd.parts.linear("smooth", 0.9, 0.1, 1.0, every=0.01, reads="y")
    """
    system = _checked(_system(name, A, every) if systems.is_system(A) else _of_matrices(A, B, C, D))
    update, start = _update(name, system, reads, writes), _start(system, state)
    return Part(name, every, update, reads, writes, state=start, phase=phase, delay=delay)


def _system(name: str, system: Any, every: float) -> System:
    """The matrices of a system of python-control or scipy.signal."""
    if not systems.time_step(system):
        raise ValueError(
            f"A ({name}): the system is continuous in time (dt={system.dt!r}); discretise it with dt={every!r} first, "
            f"as system.to_discrete({every!r}) in scipy.signal or control.c2d(system, {every!r})"
        )
    if system.dt is not True and not math.isclose(float(system.dt), float(every), rel_tol=1e-12):
        raise ValueError(f"every ({name}): {every!r}, but the system was discretised with dt={system.dt!r}")
    return _of_matrices(*systems.matrices(f"A ({name})", system)[:4])


def _of_matrices(A: Any, B: Any, C: Any, D: Any) -> System:
    """Four matrices, where those that are left out are 0."""
    A, B, C, D = (None if value is None else np.atleast_2d(np.asarray(value, float)) for value in (A, B, C, D))
    inputs = next((m.shape[1] for m in (B, D) if m is not None), 0)
    outputs = next((len(m) for m in (C, D) if m is not None), 0)
    n = 0 if A is None else len(A)
    A, B, C, D = (
        np.zeros(shape) if value is None or not value.size else value
        for value, shape in ((A, (n, n)), (B, (n, inputs)), (C, (outputs, n)), (D, (outputs, inputs)))
    )
    return System(A, B, C, D)


def _checked(system: System) -> System:
    n, (outputs, inputs) = len(system.A), system.D.shape
    for word, wanted in zip("ABCD", ((n, n), (n, inputs), (outputs, n), (outputs, inputs)), strict=True):
        matrix = getattr(system, word)
        if matrix.shape != wanted or not np.isfinite(matrix).all():
            raise ValueError(f"{word}: expected a finite matrix of shape {wanted}, got shape {matrix.shape}:\n{matrix}")
    if not outputs:
        raise ValueError("C, D: expected at least one of them with a row for each output")
    return system


def _start(system: System, state: Any) -> np.ndarray | None:
    if not len(system.A):
        return None
    start = np.zeros(len(system.A)) if state is None else np.ravel(np.asarray(state, float))
    if start.shape != (len(system.A),):
        raise ValueError(f"state: expected {len(system.A)} numbers, got {start.size}")
    return start


def _update(name: str, system: System, reads: Any, writes: Any) -> Callable:
    """The update of a linear part, for outputs of the shape that is written."""
    words = (reads,) if isinstance(reads, str | True_) else tuple(reads)
    names = [word.name if isinstance(word, True_) else word for word in words]
    single = writes if isinstance(writes, str) else writes[0] if len(writes) == 1 else None

    def update(t: Any, own: Any, readings: Any, params: Any) -> tuple[Any, Any]:
        y = jnp.concatenate([jnp.ravel(readings[word]) for word in names]) if names else jnp.zeros(0)
        if len(y) != system.D.shape[1]:
            raise ValueError(f"reads ({name}): {len(y)} numbers are read, the system takes {system.D.shape[1]}")
        out = system.D @ y if own is None else system.C @ own + system.D @ y
        shape = jnp.shape(params[single]) if single is not None else () if len(out) == 1 else out.shape
        if math.prod(shape) == len(out):
            out = out.reshape(shape)
        return None if own is None else system.A @ own + system.B @ y, out

    return update


# --- PID --------------------------------------------------------------------------------------------------------------


@checks_arguments
def pid(
    name: str,
    kp: float,
    ki: float = 0.0,
    kd: float = 0.0,
    *,
    every: float,
    reads: str | True_,
    writes: Any = (),
    reference: float | str | Callable = 0.0,
    limits: tuple[float, float] | None = None,
    tracking: float | None = None,
    before: float = 0.0,
    phase: float = 0,
    delay: float = 0,
) -> Part:
    """Make a PID controller of one reading, with limits that its integral respects.

    Parameters
    ----------
    name : str
        The name of the part.
    kp, ki, kd : float
        The gains: of the error, of its integral, and of the rate of the reading.
    every : float
        The time between its runs.
    reads : str or true(...)
        The reading that is to follow the reference.
    writes : str, optional
        The input that it sets.
    reference : float, str or callable
        What the reading is to be: a number, a name in params, or a function reference(t, params).
    limits : (low, high), optional
        The limits of the output.
    tracking : float, optional
        The time in which the integral follows an output at its limit; by default √(kd/ki), or kp/ki without a rate, and
        at least `every`.
    before : float
        The reading before the first one, from which the first rate is computed.
    phase, delay : float
        As for Part.

    Returns
    -------
    Part
        With its integral as "name.integral", and with `kd` the last reading as "name.before".

    Raises
    ------
    ValueError
        If an argument cannot be used.

    Notes
    -----
    With the error e = reference - y, at every run
        v = kp e + I - kd (y - y₋)/every,   u = v within the limits,   I⁺ = I + every (ki e + (u - v)/tracking).
    The rate is that of the reading and not of the error, so that a step of the reference does not kick. Without limits
    the part is affine, and analysis.sampled takes it.

    Examples
    --------
    >>> import stodyn as sd
    >>> law = sd.parts.pid("law", 3.0, 0.8, 1.2, every=0.005, reads="y", writes="u", limits=(-5, 5))
    """
    _check_pid(kp, ki, kd, limits)
    word = reads.name if isinstance(reads, True_) else reads
    time = float(exact(f"every ({name})", every, least=0.0))
    following = _tracking(time, (kp, ki, kd), limits, tracking)

    def update(t: Any, own: Any, readings: Any, params: Any) -> tuple[Any, Any]:
        y = jnp.reshape(readings[word], ())
        error = _reference(reference, t, params) - y
        v = kp * error + own["integral"] - (kd * (y - own["before"]) / time if kd else 0.0)
        u = v if limits is None else jnp.clip(v, *limits)
        wound = 0.0 if limits is None else (u - v) / following
        after = {"integral": own["integral"] + time * (ki * error + wound)}
        return after | ({"before": y} if kd else {}), _shaped(u, writes, params)

    state = {"integral": 0.0} | ({"before": float(before)} if kd else {})
    return Part(name, every, update, reads, writes, state=state, phase=phase, delay=delay)


def _check_pid(kp: float, ki: float, kd: float, limits: Any) -> None:
    for word, gain in (("kp", kp), ("ki", ki), ("kd", kd)):
        if not (isinstance(gain, int | float | np.number) and math.isfinite(gain)):
            raise ValueError(f"{word}: expected a finite number, got {gain!r}")
    if limits is not None and not (np.shape(limits) == (2,) and limits[0] < limits[1]):
        raise ValueError(f"limits: expected (low, high) with low < high, got {limits!r}")


def _tracking(every: float, gains: tuple[float, float, float], limits: Any, tracking: float | None) -> float:
    """The time in which the integral follows an output at its limit."""
    kp, ki, kd = gains
    if tracking is None:
        usual = 0.0 if not ki else math.sqrt(abs(kd / ki)) if kd else abs(kp / ki)
        return max(usual, every)
    if limits is None:
        raise ValueError("tracking: is for outputs with limits; give limits=(low, high), or leave it out")
    if not (math.isfinite(tracking) and tracking >= every):
        raise ValueError(f"tracking: expected a time of at least every={every:g}, got {tracking!r}")
    return tracking


def _reference(reference: Any, t: Any, params: Any) -> Any:
    if callable(reference):
        return reference(t, params)
    return words_of_noise.resolved(reference, params)


def _shaped(u: Any, writes: Any, params: Any) -> Any:
    """One number in the shape of the input that it sets."""
    words = (writes,) if isinstance(writes, str) else tuple(writes)
    return jnp.reshape(u, jnp.shape(params[words[0]])) if len(words) == 1 else u


# --- designs ----------------------------------------------------------------------------------------------------------


@checks_arguments
def lqr(
    plant: Any, cost: Mapping[str, Any], every: float, *, delay: float = 0, reads: Any = None, name: str = "lqr"
) -> Designed:
    """Design the feedback of the state that costs least: the average of Σ w c² over components and inputs.

    Parameters
    ----------
    plant : Problem
        A linear plant, proved from its functions, with additive noise and constant coefficients.
    cost : mapping
        Component or input -> its weight, such as {"x": 1.0, "u": 0.1}. The inputs are the params that are named, each
        with a weight above 0; those of several numbers may have one for each.
    every : float
        The time between its runs.
    delay : float
        How late its output takes effect; the design knows.
    reads : optional
        What gives it the state, as the name of an estimator; by default the components themselves.
    name : str
        The name of the part.

    Returns
    -------
    Designed
        A part with `design`: gains, J, poles, longest_delay.

    Raises
    ------
    ValueError
        If the plant is not linear, the cost names what does not exist, or no regulator is stable.

    Notes
    -----
    The cost is that of continuous time, also between samples: its weights from sample to sample come from a block
    exponential, with cross terms. J holds where the state is known.

    Examples
    --------
    >>> import stodyn as sd
    >>> plant = sd.SDE(
    ...     lambda t, x, p: x + p["u"], lambda t, x: sd.diagonal([1.0]), start=[0.0], params={"u": 0.0}, names=["x"]
    ... )
    >>> law = sd.parts.lqr(plant, {"x": 1.0, "u": 0.01}, every=0.1)
    >>> round(law.design.J, 10)
    0.1813969661
    """
    times = exact("every", every, least=0.0), exact("delay", delay)
    model, W, rho = _weighed(plant, cost)
    n = len(model.A)
    period = sampled_design.sampled_plant(model, *times, W, rho)
    best = sampled_design.regulator(period)
    C, D = -best.K[:, n:], -best.K[:, :n]
    A, B = _past(period, n, np.hstack([C, D]))
    design = Design(
        {"control": best.K}, _average(best, period, times[0]), np.linalg.eigvals(period.A - period.B @ best.K), None,
        System(A, B, C, D), model, np.eye(n), *times,
    )  # fmt: skip
    reads = tuple(true(component) for component in plant.components) if reads is None else reads
    return _designed(design, name, every, reads, _held(model, len(A)), delay)


@checks_arguments
def kalman(
    plant: Any,
    sensors: Sensor | Sequence[Sensor],
    every: float,
    *,
    inputs: str | Sequence[str] = (),
    delay: float = 0,
    gain: str = "steady",
    form: str = "filter",
    covariance: ArrayLike | None = None,
    name: str = "kalman",
) -> Designed:
    """Design the Kalman filter of a plant: the state estimated from readings.

    Parameters
    ----------
    plant : Problem
        A linear plant, proved from its functions, with additive noise and constant coefficients.
    sensors : Sensor or sequence of Sensor
        What is read, with its noise as it is: of white noise the variance of a reading, of a Coloured its filter, of
        rounding 1/12 of the resolution squared. All of them read every `every`, at one phase.
    every : float
        The time between its runs.
    inputs : str or sequence of str
        The params of the plant that other parts of the loop write, which the filter then knows; list it before them.
    delay : float
        How late the inputs take effect: the delay of the part that writes them.
    gain : "steady" or "varying"
        The gain of the long run, or at every run that of the covariance so far, which the part carries along: best from
        the start on, and with sensors that lose readings, whose update is skipped.
    form : "filter" or "predictor"
        Whether the estimate takes in the readings of its instant, or only those before.
    covariance : array (n, n), optional
        With a varying gain the covariance of the state at the start, 0 where that is fixed.
    name : str
        The name of the part.

    Returns
    -------
    Designed
        A part whose output is the estimate of the state, with `design`: gains, covariance, poles, those of the long run
        without losses.

    Raises
    ------
    ValueError
        If the plant is not linear, a sensor has another period, or no filter has bounded errors.

    Examples
    --------
    >>> import stodyn as sd
    >>> plant = sd.SDE(lambda t, x: -x, lambda t, x: sd.diagonal([1.0]), start=[0.0], names=["x"])
    >>> y = sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1))
    >>> estimate = sd.parts.kalman(plant, y, every=0.1)
    >>> loop = sd.with_loop(plant, y, estimate)
    >>> lossy = sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1), loss=0.3)
    >>> loop = sd.with_loop(plant, lossy, sd.parts.kalman(plant, lossy, every=0.1, gain="varying"))
    """
    for word, value, known in (("gain", gain, GAINS), ("form", form, FORMS)):
        if value not in known:
            raise ValueError(f"{word}: expected {' or '.join(map(repr, known))}, got {value!r}")
    if covariance is not None and gain == "steady":
        raise ValueError('covariance: a steady gain does not depend on it; give gain="varying" too, or leave it out')
    times = exact("every", every, least=0.0), exact("delay", delay)
    inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    model, sensors = linear_plant(plant, inputs), _sensors(sensors, times[0], may_lose=gain == "varying")
    n, p = model.B.shape
    period = sampled_design.sampled_plant(model, *times)
    readings = linear_readings(model, sensors)
    law = sampled_design.estimator(period, readings, n)
    Phi, Q, H = sampled_design.with_readings(period, readings, n)
    early, late = (np.concatenate([part, np.zeros((len(readings.Phi), p))]) for part in _in_two(period, n, p, times))
    keep = np.eye(len(H.T)) - law.L @ H
    C, D = keep, np.hstack([law.L, keep @ late])
    A, B = Phi @ C, Phi @ D + np.hstack([np.zeros_like(law.L), early])
    if form == "predictor":
        C, D = np.eye(len(C)), np.hstack([np.zeros_like(law.L), late])
    errors = law.filtered if form == "filter" else law.predicted
    design = Design({"filter": law.L[:n]}, None, np.linalg.eigvals(A), errors[:n, :n],
                    System(A, B, C[:n], D[:n]), model, readings.H, *times)  # fmt: skip
    names, phase = tuple(sensor.name for sensor in sensors), sensors[0].phase
    if gain == "steady":
        state = np.concatenate([model.start, np.zeros(len(readings.Phi))]) - late @ model.held
        return _designed(design, name, every, (*names, *inputs), state, 0, writes=(), phase=phase)
    mean, spread = _at_first_reading(model, covariance, float(sensors[0].times.phase))
    filtering = _Varying(
        Phi, Q, H, np.diag(readings.R), early, late, names, tuple(_rows(model, sensors)), inputs, n, form
    )
    state = {
        "estimate": np.concatenate([mean, np.zeros(len(readings.Phi))]) - late @ model.held,
        "covariance": scipy.linalg.block_diag(spread, readings.start),
    }
    reads = (*names, *map(arrived, names), *inputs)
    return Designed(design, name, every, filtering.update, reads, state=state, phase=phase)


@dataclasses.dataclass(frozen=True, eq=False)
class _Varying:
    """A Kalman filter that carries its covariance along, and takes in one reading after the other, if it arrives.

    z = (x, s) moves by Φ with noise of the covariance Q, and is read by the rows of H with white noise of the variances
    R; the inputs as they are at an instant move it by `late` before the readings and by `early` after them. `rows` says
    of which sensor a row is.
    """

    Phi: np.ndarray
    Q: np.ndarray
    H: np.ndarray
    R: np.ndarray
    early: np.ndarray
    late: np.ndarray
    sensors: tuple[str, ...]
    rows: tuple[str, ...]
    inputs: tuple[str, ...]
    n: int
    form: str

    def update(self, t: Any, own: Any, readings: Any, params: Any) -> tuple[Any, Any]:
        """The update of a part."""
        y = jnp.concatenate([jnp.ravel(readings[name]) for name in self.sensors])
        u = jnp.concatenate([jnp.ravel(readings[name]) for name in self.inputs]) if self.inputs else jnp.zeros(0)
        z, P = own["estimate"] + self.late @ u, own["covariance"]
        before = z
        for k, sensor in enumerate(self.rows):
            known = P @ self.H[k]
            spread = self.H[k] @ known + self.R[k]
            L = readings[arrived(sensor).key] * known / jnp.maximum(spread, LEAST)
            z, P = z + L * (y[k] - self.H[k] @ z), P - jnp.outer(L, known)
        after = {"estimate": self.Phi @ z + self.early @ u, "covariance": self.Phi @ P @ self.Phi.T + self.Q}
        return after, (z if self.form == "filter" else before)[: self.n]


def _rows(model: Plant, sensors: Sequence[Sensor]) -> list[str]:
    """The sensor of each reading."""
    return [sensor.name for sensor in sensors for _ in linear_readings(model, (sensor,)).H]


def _at_first_reading(model: Plant, covariance: ArrayLike | None, phase: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the state at the first reading, inputs held as they are at the start."""
    n, p = model.B.shape
    if covariance is None:
        if model.problem.start_source.is_random:
            raise ValueError("covariance: the start is drawn for each path; give the covariance of its law")
        covariance = np.zeros((n, n))
    spread = np.asarray(covariance, float)
    if spread.shape != (n, n) or not np.allclose(spread, spread.T) or np.linalg.eigvalsh(spread)[0] < -1e-12:
        raise ValueError(f"covariance: expected a matrix ({n}, {n}), symmetric and not negative, got {covariance!r}")
    moved = scipy.linalg.expm(phase * np.block([[model.A, model.B], [np.zeros((p, n + p))]]))[:n]
    Q = van_loan.discretise(model.A, model.G, np.eye(model.G.shape[1]), phase)[1] if phase else 0.0 * spread
    return moved @ np.concatenate([model.start, model.held]), moved[:, :n] @ spread @ moved[:, :n].T + Q


@checks_arguments
def lqg(
    plant: Any,
    cost: Mapping[str, Any],
    sensors: Sensor | Sequence[Sensor],
    every: float,
    *,
    delay: float = 0,
    name: str = "lqg",
) -> Designed:
    """Design the controller of noisy readings that costs least: a Kalman filter and the regulator of its estimate.

    Parameters
    ----------
    plant, cost
        As for lqr.
    sensors
        As for kalman.
    every : float
        The time between its runs.
    delay : float
        How late its output takes effect; the design knows.
    name : str
        The name of the part.

    Returns
    -------
    Designed
        A part with `design`: gains, J, poles, covariance, longest_delay.

    Raises
    ------
    ValueError
        If the plant is not linear, the cost or the sensors do not fit it, or no controller is stable.

    Examples
    --------
    >>> import stodyn as sd
    >>> plant = sd.SDE(
    ...     lambda t, x, p: p["u"] + 0 * x, lambda t, x: sd.diagonal([1.0]), start=[0.0], params={"u": 0.0}, names=["x"]
    ... )
    >>> y = sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1))
    >>> law = sd.parts.lqg(plant, {"x": 1.0, "u": 0.01}, y, every=0.1)
    >>> loop = sd.with_loop(plant, y, law)
    >>> abs(law.design.J - sd.analysis.sampled(loop).cost({"x": 1.0, "u": 0.01})) < 1e-12
    True
    """
    times = exact("every", every, least=0.0), exact("delay", delay)
    model, W, rho = _weighed(plant, cost)
    sensors = _sensors(sensors, times[0])
    n = len(model.A)
    period = sampled_design.sampled_plant(model, *times, W, rho)
    readings = linear_readings(model, sensors)
    best, law = sampled_design.regulator(period), sampled_design.estimator(period, readings, n)
    system, poles = _joined(period, readings, best.K, law.L)
    gains = {"control": best.K, "filter": law.L[:n]}
    filtered = law.filtered[:n, :n]
    J = _average(best, period, times[0], filtered)
    design = Design(gains, J, poles, filtered, system, model, readings.H, *times)
    state = np.concatenate([model.start, _held(model, len(period.A) - n), np.zeros(len(readings.Phi))])
    reads = tuple(sensor.name for sensor in sensors)
    return _designed(design, name, every, reads, state, delay, phase=sensors[0].phase)


def _weighed(problem: Any, cost: Mapping[str, Any]) -> tuple[Plant, np.ndarray, np.ndarray]:
    """A plant with the inputs that a cost names, and the weights of its state and of these."""
    components = problem.components
    inputs = [name for name in cost if name not in components]
    model = linear_plant(problem, inputs)
    if not inputs:
        raise ValueError(f"cost: it names no input; weigh the params that are to be set, beside {', '.join(cost)}")
    params = problem.example_params()
    W = np.diag([_weight(name, cost.get(name, 0.0), least=0.0) for name in components])
    weights = [np.broadcast_to(_weight(name, cost[name]), np.size(params[name])) for name in inputs]
    return model, W, np.diag(np.concatenate(weights))


def _weight(name: str, weight: Any, least: float = 1e-300) -> Any:
    numbers = np.asarray(weight, float)
    if not (np.isfinite(numbers).all() and (numbers >= least).all()):
        kind = "a weight of 0 or more" if least == 0.0 else "a weight above 0, as it is an input"
        raise ValueError(f"cost ({name}): expected {kind}, got {weight!r}")
    return float(numbers) if numbers.ndim == 0 else np.ravel(numbers)


def _sensors(sensors: Any, every: Fraction, may_lose: bool = False) -> tuple[Sensor, ...]:
    """Sensors that a filter can take, which may lose readings where its gain varies."""
    listed = (sensors,) if isinstance(sensors, Sensor) else tuple(sensors)
    if not listed:
        raise ValueError("sensors: expected at least one")
    for sensor in listed:
        if sensor.times.every != every:
            raise ValueError(f"every ({sensor.name}): reads every {sensor.every!r}, the filter runs every "
                             f"{float(every):g}; a filter needs one period")  # fmt: skip
        if sensor.times.phase != listed[0].times.phase:
            raise ValueError(f"phase ({sensor.name}): a filter needs readings at one instant; give all one phase")
        for word in ("delay", "average", "jitter"):
            if getattr(sensor, word):
                raise ValueError(f"{word} ({sensor.name}): a filter takes whole readings of the instant; leave {word} "
                                 "out of the sensor that it is designed for")  # fmt: skip
        if sensor.loss and not may_lose:
            raise ValueError(f"loss ({sensor.name}): a steady filter takes every reading; leave loss out of the sensor "
                             'that it is designed for, or take kalman(..., gain="varying")')  # fmt: skip
    return listed


def _average(best: Any, period: Any, every: Fraction, filtered: np.ndarray | None = None) -> float:
    """The average cost, by the separation of control and estimation."""
    total = float(np.sum(best.X * period.Q)) + period.of_noise
    if filtered is not None:
        K = best.K[:, : len(filtered)]
        total += float(np.sum((K.T @ best.weight @ K) * filtered))
    return total / float(every)


def _past(period: Any, n: int, law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and B of the inputs that are on their way, for the law u of (those, x)."""
    slots = len(period.A) - n
    moved = np.hstack([period.A[n:, n:], period.A[n:, :n]]) + period.B[n:] @ law
    return moved[:, :slots], moved[:, slots:]


def _joined(period: Any, readings: Any, K: np.ndarray, L: np.ndarray) -> tuple[System, np.ndarray]:
    """The controller whose state is the prediction of (x, inputs on their way, noise of sensors), and all poles."""
    n, total, remembered = readings.H.shape[1], len(period.A), len(readings.Phi)
    A = _with_noise(period.A, readings.Phi)
    B = np.concatenate([period.B, np.zeros((remembered, period.B.shape[1]))])
    H = np.hstack([readings.H, np.zeros((len(readings.H), total - n)), readings.C])
    gain = np.concatenate([L[:n], np.zeros((total - n, L.shape[1])), L[n:]])
    keep = np.eye(len(A)) - gain @ H
    K = np.hstack([K, np.zeros((len(K), remembered))])
    loop = A - B @ K
    known = np.r_[0:n, total : len(A)]
    of_filter = (A @ keep)[np.ix_(known, known)]
    poles = np.concatenate([np.linalg.eigvals(period.A - period.B @ K[:, :total]), np.linalg.eigvals(of_filter)])
    return System(loop @ keep, loop @ gain, -K @ keep, -K @ gain), poles


def _with_noise(A: np.ndarray, Phi: np.ndarray) -> np.ndarray:
    zero = np.zeros((len(A), len(Phi)))
    return np.block([[A, zero], [zero.T, Phi]])


def _in_two(period: Any, n: int, p: int, times: tuple[Fraction, Fraction]) -> tuple[np.ndarray, np.ndarray]:
    """What the inputs held at the beginning and at the end of a period, as a filter sees them, do to the state."""
    whole, rest = divmod(times[1], times[0])
    columns = np.hstack([period.B[:n], period.A[:n, n:]])  # u now, one ago, ...
    place = int(whole) * p
    late = columns[:, place : place + p]
    if rest:
        return columns[:, place + p : place + 2 * p], late
    zero = np.zeros((n, p))
    return (late, zero) if whole else (zero, late)


def _held(model: Plant, size: int) -> np.ndarray:
    """The inputs on their way at the start: those in params."""
    return np.tile(model.held, size // max(len(model.held), 1))


def _designed(
    design: Design, name: str, every: float, reads: Any, state: Any, delay: float, **options: Any
) -> Designed:
    writes = options.pop("writes", design.plant.inputs)
    update = _update(name, design.system, reads, writes)
    start = _start(design.system, state)
    return Designed(design, name, every, update, reads, writes, state=start, delay=delay, **options)
