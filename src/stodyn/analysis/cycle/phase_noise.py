"""Phase noise and jitter of an oscillator, from its cycle alone: nothing is sampled.

The phase response v(t) is the periodic solution of Mᵀ v' + Jᵀ v = 0 with vᵀ M x' = 1; noise g dW moves the phase, a
time shift α, by dα = vᵀ g dW, so that
    Var α = c t,   c = (1/T) ∫ |vᵀ g|² dt,   L(f) = f0² c / (π² f0⁴ c² + f²)   for white noise,
in either calculus. w = Mᵀ v comes backwards, w_n = A_nᵀ w_{n+1}, from the left null vector of Φ - 1; forwards it would
lose a digit for every decade of the other multipliers. 1/f noise moves the phase by the mean V of vᵀ b over the period
and makes the line of phase_noise_line.

A threshold crossing also feels the amplitude. With the section n·x = level, s = n·x', Π = 1 - x' nᵀ/s, ℓ = -n/s and the
covariance Q that a period adds,
    z' = Π(Φ z + ξ),  period = T + ℓᵀ(Φ z + ξ),  Z = ΠΦ Z ΦᵀΠᵀ + ΠQΠᵀ,
    R_0 = ℓᵀ(ΦZΦᵀ + Q)ℓ,   R_j = ℓᵀ Φ (ΠΦ)^{j-1} Π (ΦZΦᵀ + Q) ℓ,   R_0 + 2 Σ R_j = cT.

A. Demir, A. Mehrotra & J. Roychowdhury, Phase noise in oscillators, IEEE Trans. Circuits Syst. I 47 (2000); A. Demir,
Phase noise and timing jitter in oscillators with colored-noise sources, ibid. 49 (2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn.analysis.cycle import cyclostationary
from stodyn.analysis.cycle.cycle_gradient import gradient
from stodyn.analysis.cycle.cyclostationary import component
from stodyn.analysis.cycle.periodic import ONE, Cycle, periodic
from stodyn.analysis.cycle.periodic_start import NoOscillation
from stodyn.analysis.cycle.phase_noise_line import Wander
from stodyn.arguments import checks_arguments
from stodyn.circuits import Circuit
from stodyn.noise import coloured
from stodyn.numerics.lyapunov import symmetric
from stodyn.numerics.one_thread import blas_on_one_thread
from stodyn.numerics.van_loan import Stretch
from stodyn.problems.contract import Problem
from stodyn.telling import tell
from stodyn.warnings import Unresolved

WANTED = 1e-9  # relative error of c at which steps are fine enough
WANTED_UNEVEN = 5e-7  # change of c from half as many steps at which they are; the error is far smaller
SLOWLY = 8.0  # where twice the steps do not divide the error by it, they are doubled no more
ENOUGH, CORNERS = 1e-3, 24.0  # below this error they have to divide it by that, as they do where devices are smooth
FIRST_STEPS = 256, 1024, 4096  # with which cycles are searched for
MANY = 4000  # steps up to which they are doubled whatever comes of it while the error is larger than that
MOST_NUMBERS = 40_000_000  # in the stage equations of all steps, or in their derivatives: no finer steps beyond it
JUMP = 1e-3  # by which no multiplier may differ from 1 where f is continuous
ROUNDED = 1e-13  # of the variances: eigenvalues of a covariance that are so little below 0 need no care
FLAT = 0.01  # of the mean of its slopes: crossings that are flatter are not counted by
LAGS = 64  # periods over which jitter is followed
SLOW = 0.99  # a multiplier above it makes amplitude noise that lasts for hundreds of periods
LOUD = 0.05  # deviation across the cycle, relative to its range, from which small noise is not small


class Response(NamedTuple):
    """v (N, n) at the nodes, vᵀ g (N, sources), the mean of its square, and by how much wᵀ x' differs from 1."""

    v: np.ndarray
    kick: np.ndarray
    c_by_source: np.ndarray
    normalisation: float

    @property
    def c(self) -> float:
        return float(self.c_by_source.sum())


def response(cycle: Cycle) -> Response:
    """The phase response of a cycle, and the effect of each source of white noise on the phase."""
    system = cycle.system
    size = np.where(np.ptp(cycle.x, axis=0) > 0.0, np.ptp(cycle.x, axis=0), 1.0)
    left = np.linalg.svd(cycle.Phi * size / size[:, None] - np.eye(system.n))[0][:, -1] / size
    left[system.wandering] = 0.0
    w = np.empty((cycle.steps + 1, system.n))
    w[-1] = left
    for k in range(cycle.steps - 1, -1, -1):
        w[k] = w[k + 1] @ cycle.A[k]
    w /= w[0] @ cycle.velocity[0]
    w, after = w[:-1], w[1:]
    rows, N, K, _ = system.split
    J = cycle.jacobians
    a = np.einsum("pn,pnr->pr", w, cycle.impulses)
    v = np.zeros((cycle.steps, system.n))
    v[:, rows] = a
    if len(N):
        pulled = np.einsum("pr,prn->pn", a, J[:, rows]) @ K
        v += np.linalg.solve((N @ J @ K).mT, -pulled[..., None])[..., 0] @ N
    kick = np.einsum("pr,prk->pk", a, cycle.noise[:, rows])
    squares = np.mean(kick**2, axis=0) if cycle.mesh.is_even else cyclostationary.squared_gains(cycle, after)
    return Response(v, kick, squares, float(np.abs(np.einsum("pn,pn->p", w, cycle.velocity) - 1.0).max()))


class Jitter(NamedTuple):
    """R_0 … R_lags of the periods counted at a level, the covariance Z there, and the slope."""

    R: np.ndarray
    Z: np.ndarray
    slope: float

    @property
    def accumulated(self) -> np.ndarray:
        """Var(t_k - t_0), the variance of the time that k periods take, for k = 1, 2, ..."""
        k = np.arange(1, len(self.R) + 1)
        lags = np.maximum(k[:, None] - np.arange(1, len(self.R)), 0)
        return k * self.R[0] + 2.0 * lags @ self.R[1:]


def jitter(cycle: Cycle, section: np.ndarray, lags: int = LAGS) -> Jitter:
    """The jitter of the periods counted at x_0 of the cycle, on the plane through it with the normal `section`."""
    whole = Stretch(cycle.Phi, cyclostationary.after_a_period(cycle))
    return _jitter_of(cycle, whole, cycle.velocity[0], section, lags)


class Edges(NamedTuple):
    """The jitter of periods counted where the component falls through the level, and the variance of the time from a
    rise to the next fall."""

    falling: Jitter
    width: float


def edges(cycle: Cycle, section: np.ndarray, fall: float, at_rise: np.ndarray, lags: int = LAGS) -> Edges:
    """The jitter at a fall, and from the rise at x_0, where the covariance is `at_rise`, to it: a deviation z at the
    rise comes to Φ z + ξ at the time of the fall, and moves the fall by ℓᵀ of that.
    """
    cycle = cycle.with_node_at(fall)
    k = int(np.argmin(np.abs(cycle.t - fall)))
    steps = list(map(Stretch, cycle.A, cyclostationary.added(cycle)))
    high, low = (_joined(cycle, some) for some in (steps[:k], steps[k:]))
    falling = _jitter_of(cycle, low.then(high), cycle.velocity[k], section, lags)
    ahead = -section / falling.slope
    return Edges(falling, float(ahead @ high.of(at_rise) @ ahead))


def _joined(cycle: Cycle, steps: list[Stretch]) -> Stretch:
    n = cycle.system.n
    total = Stretch(np.eye(n), np.zeros((n, n)))
    for step in steps:
        total = total.then(step)
    total.Q[cycle.system.wandering] = 0.0
    total.Q[:, cycle.system.wandering] = 0.0
    return total


def _jitter_of(cycle: Cycle, whole: Stretch, speed: np.ndarray, section: np.ndarray, lags: int) -> Jitter:
    (Phi, Q), slope = whole, float(section @ speed)
    projected = np.eye(len(Phi)) - np.outer(speed, section) / slope
    ahead = -section / slope
    F = projected @ Phi
    Z = cyclostationary.stationary(cycle, F, _felt(projected, Q))
    column = whole.of(Z) @ ahead
    R = [ahead @ column]
    column = projected @ column
    for _ in range(lags):
        R.append(ahead @ Phi @ column)
        column = F @ column
    return Jitter(np.array(R), Z, slope)


def _felt(projected: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Π Q Πᵀ, a covariance also where Q is that of the phase on a steep edge and little but rounding is left of it."""
    felt, sizes = projected @ Q @ projected.T, np.abs(projected) @ np.abs(Q) @ np.abs(projected).T
    nothing = np.diagonal(felt) <= len(Q) * np.finfo(float).eps * np.diagonal(sizes)
    felt[nothing] = 0.0
    felt[:, nothing] = 0.0
    unit = np.where(nothing, 1.0, np.sqrt(np.abs(np.diagonal(felt))))
    values, vectors = np.linalg.eigh(symmetric(felt / np.outer(unit, unit)))
    if values[0] >= -ROUNDED and np.abs(felt - felt.T).max() <= ROUNDED * np.abs(felt).max():
        return felt
    half = unit[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return half @ half.T


@checks_arguments
@blas_on_one_thread
def phase_noise(
    problem: Problem | Cycle,
    node: str | None = None,
    *,
    offsets: ArrayLike | None = None,
    harmonic: int = 1,
    level: float | None = None,
    period: float | None = None,
    start: Any = None,
    steps: int | None = None,
    f_lo: float | None = None,
    of: str | Sequence[str] = (),
) -> xr.Dataset:
    """Compute phase noise, jitter and Allan deviation of an oscillator.

    Parameters
    ----------
    problem : Problem or Cycle
        An oscillator (SDE, SDAE, circuit), or its `Cycle`.
    node : str, optional
        The component whose spectrum and threshold crossings are computed; by default the first that moves.
    offsets : array, optional
        Distances from the carrier in cycles per unit of time; by default eight decades below the frequency of the
        oscillator, ten points in each.
    harmonic : int
        The number of the line in the spectrum.
    level : float, optional
        The threshold at which periods are counted; by default the middle of the range.
    period, start, steps
        As for `periodic`. By default steps are doubled until c is right to 1e-9, or until that no longer helps; where
        devices have corners, until c changes by less than 5e-7.
    f_lo : float, optional
        The lowest frequency of 1/f noise; by default .options flo, or the lowest offset.
    of : str or sequence of str
        Names among the params, as for `sensitivity`, or of numbers of a netlist, as for `Circuit.valued`, with respect
        to which c and the period are differentiated.

    Returns
    -------
    xarray.Dataset
        c and c_by_source (time), period, corner (half-width of the line), L and S_phi over `offset`, density over
        `frequency` (one-sided, of the node), response v over `time`, kick = vᵀg, period_jitter, cycle_jitter (standard
        deviations, of periods counted where the node rises through the level), the same at its steepest fall through
        the level as falling_period_jitter and falling_cycle_jitter, width_jitter (of the time from the rise to that
        fall), accumulated over `periods` (variance), allan over `tau` (deviation), rate_gain of 1/f sources,
        x over `time`, multiplier. `c.attrs["error"]` is the relative error of c, from its change with twice as many
        steps, or, where devices have corners, its change from half as many steps: corners not found do not show in it.
        `period.attrs["error"]` is at least that of the period. With `of` also c_gradient and period_gradient over
        `parameter`, and c_by_source_gradient (parameter, source), right to about 1e-7.

    Raises
    ------
    ValueError
        If the problem depends on time, the node lacks the harmonic, or a name in `of` is unknown.
    """
    if isinstance(problem, Cycle):
        cycle, phase, error, period_error = _resolved(problem, False)
    else:
        cycle, phase, error, period_error = _cycle_of(problem, period, start, steps)
    _check(cycle, error)
    if error > ENOUGH:
        tell(
            f"c is not known well: with {cycle.steps} steps per period it differs by {error:.2g} of itself from that "
            f"of half or twice as many. Edges are too steep for these steps; give steps={4 * cycle.steps} or more.",
            Unresolved,
        )
    i = _observed(cycle, node)
    f0 = 1.0 / cycle.period
    f = f0 * np.geomspace(1e-8, 1.0, 81) if offsets is None else np.atleast_1d(np.asarray(offsets, float))
    if f.ndim != 1 or not (np.isfinite(f).all() and (f > 0.0).all()):
        raise ValueError(f"offsets: expected frequencies above 0, got {offsets!r}")
    line = float(abs(cycle.harmonics(np.array([harmonic]))[0, i]))
    if not line > 1e-9 * np.ptp(cycle.x[:, i]):
        raise ValueError(f"node: {cycle.names[i]} has no {harmonic}-th harmonic (|X| = {line:.2g}); "
                         "take another node or harmonic")  # fmt: skip
    wander, gains, lowest = _wander(cycle, phase, f, f_lo)
    white = Wander(phase.c, np.zeros(0), np.zeros(0))
    angular = 2.0 * np.pi * f0 * harmonic
    L = wander.line(f, angular)
    S_phi = 2.0 * (harmonic * f0 / f) ** 2 * (phase.c + wander.slow_density(f))
    density = _composite(cycle, i, harmonic * f0 + f, phase.c)
    if len(wander.times):
        density = density + 2.0 * line**2 * (L - white.line(f, angular))
    counted = _at_level(cycle, i, level)
    section = np.eye(cycle.system.n)[i]
    jit = jitter(counted, section)
    both = edges(counted, section, _fall(counted, i), jit.Z)
    reach = np.ptp(cycle.x, axis=0)
    ρ = float(np.sqrt(np.max(np.diagonal(jit.Z)[reach > 0.0] / reach[reach > 0.0] ** 2)))
    if ρ > LOUD:
        tell(f"noise is not small: σ/range = {ρ:.2g} across the cycle; c is off by about {4 * ρ * ρ:.1%}")  # fmt: skip
    tau = cycle.period * np.geomspace(1.0, 1e8, 81)
    D, D2 = wander.variance(tau), wander.variance(2.0 * tau)
    unit = cycle.system.units.get("time", "")
    result = xr.Dataset(
        {
            "c": ((), phase.c), "c_by_source": (("source",), phase.c_by_source),
            "period": ((), cycle.period), "frequency0": ((), f0), "corner": ((), np.pi * f0**2 * phase.c),
            "L": (("offset",), L), "S_phi": (("offset",), S_phi), "density": (("offset",), density),
            "response": (("time", "component"), phase.v), "kick": (("time", "source"), phase.kick),
            "x": (("time", "component"), cycle.x[:-1]), "multiplier": (("mode",), np.abs(cycle.multipliers)),
            "period_jitter": ((), np.sqrt(jit.R[0])), "cycle_jitter": ((), np.sqrt(2.0 * (jit.R[0] - jit.R[1]))),
            "falling_period_jitter": ((), np.sqrt(both.falling.R[0])), "width_jitter": ((), np.sqrt(both.width)),
            "falling_cycle_jitter": ((), np.sqrt(2.0 * (both.falling.R[0] - both.falling.R[1]))),
            "autocovariance": (("lag",), jit.R), "accumulated": (("periods",), jit.accumulated),
            "allan": (("tau",), np.sqrt((4.0 * D - D2) / (2.0 * tau**2))), "rate_gain": (("flicker",), gains),
        },
        {
            "source": list(cycle.system.sources), "component": list(cycle.names), "time": cycle.t[:-1] - cycle.t[0],
            "offset": f, "frequency": ("offset", harmonic * f0 + f), "lag": np.arange(len(jit.R)),
            "periods": np.arange(1, len(jit.R) + 1), "tau": tau,
            "flicker": list(cycle.system.flickers),
        },
        {
            "node": cycle.names[i], "harmonic": harmonic, "level": float(counted.x[0, i]), "steps": cycle.steps,
            "corners": int(cycle.mesh.at_corner.sum()), "order": cycle.order, "normalisation": phase.normalisation,
            "residual": cycle.residual, "across": ρ, "time_unit": unit, "level_slope": jit.slope,
        },
    )  # fmt: skip
    if lowest is not None:
        result.attrs["f_lo"] = lowest
    result["c"].attrs["error"] = error
    result["period"].attrs["error"] = period_error
    return result.assign(_gradients(cycle, of)) if of else result


def _gradients(cycle: Cycle, of: str | Sequence[str]) -> dict[str, Any]:
    """The derivatives of c, its shares and the period."""
    names, period, by_source = gradient(cycle, lambda other: response(other).c_by_source, of)
    by, shares = {"parameter": list(names)}, ("parameter", "source")
    coords = {**by, "source": list(cycle.system.sources)}
    return {
        "c_gradient": xr.DataArray(by_source.sum(axis=1), by, "parameter"),
        "c_by_source_gradient": xr.DataArray(by_source, coords, shares),
        "period_gradient": xr.DataArray(period, by, "parameter"),
    }


Resolved = tuple[Cycle, Response, float, float]


def _cycle_of(problem: Problem, period: Any, start: Any, steps: int | None) -> Resolved:
    """The cycle of an oscillator as `_resolved` gives it, searched for with more steps where edges are too steep for
    few: then Newton finds no cycle with other steps beside the first. Where equal steps are too many, others are taken.
    """
    failure: Exception | None = None
    resolved: Resolved | None = None
    for count in FIRST_STEPS if steps is None else (steps,):
        cycle = periodic(problem, period=period, start=start, steps=count)
        try:
            resolved = _resolved(cycle, steps is None)
            break
        except NoOscillation as error:
            failure = error
    if steps is None and (resolved is None or resolved[2] > ENOUGH):
        resolved = _with_a_pace(cycle) or resolved
    if resolved is not None:
        return resolved
    raise NoOscillation(
        f"problem: a cycle was found with {count} steps per period, but none with other steps beside it ({failure}). "
        f"Its edges are too steep for these steps; give steps={4 * count} or more"
    ) from failure


def _with_a_pace(cycle: Cycle) -> Resolved | None:
    """The cycle with steps that are short where it is fast, if c is known by them."""
    try:
        paced = cycle.paced if cycle.mesh.pace is None else None
        resolved = paced and _resolved(paced, True)
    except NoOscillation:
        return None
    return resolved if resolved and resolved[2] <= ENOUGH else None


def _resolved(cycle: Cycle, finer: bool) -> Resolved:
    """The cycle with steps that are fine enough for c, where finer ones are allowed; its response, and the relative
    errors of c and of the period."""
    if cycle.driven:
        raise ValueError("problem: depends on time, and a driven system has no free phase; ask "
                         "cyclostationary.spectrum for its noise")  # fmt: skip
    is_even = cycle.mesh.is_even  # otherwise c is of the steps' high order, and half as many tell the error
    coarse, fine = (cycle, cycle.refined) if is_even else (cycle.coarsened, cycle)
    before, one, two = np.inf, response(coarse), response(fine)
    error = _change(one.c, two.c)
    wanted = WANTED if is_even else WANTED_UNEVEN
    while (
        finer
        and error > wanted
        and ((error > ENOUGH and fine.steps < MANY) or error < before / (SLOWLY if error > ENOUGH else CORNERS))
    ):
        stages, n, u = fine.stages.shape[1], fine.system.n, len(fine.system.implicit)
        if (2 - is_even) * fine.steps * stages * max(stages * u**2, n**2) > MOST_NUMBERS:
            break
        left = error * error / before if before < np.inf else error  # where it goes on falling as it did
        if left <= WANTED and is_even:
            return fine, two, left, _change(coarse.period, fine.period)
        coarse, fine, one, before = fine, fine.refined, two, error
        two = response(fine)
        error = _change(one.c, two.c)
    cycle, phase = (coarse, one) if is_even else (fine, two)
    return cycle, phase, error, _change(coarse.period, fine.period)


def _change(one: float, two: float) -> float:
    return abs(two / one - 1.0) if one else 0.0


def _check(cycle: Cycle, error: float) -> None:
    """Refuse a cycle that has no phase noise, its c known to `error`; warn where its amplitude noise lasts."""
    cycles = (cycle.coarsened, cycle) if cycle.mesh.at_corner.any() else ()
    misses = [np.abs(one.multipliers - 1.0).min() for one in cycles]
    if misses and misses[1] > max(JUMP, 0.5 * misses[0]):
        raise ValueError("problem: no multiplier of its cycle is 1, since its equations jump: a function in them, such "
                         "as sign(x) or where(x > 0, 1, 0), is not continuous. Make it steep instead, as tanh(x/width) "
                         "is")  # fmt: skip
    largest = float(np.abs(cycle.others[:1]).max(initial=0.0))
    if largest > 1.0 + ONE:
        advice = "give a start= near the stable one"
        if error > ENOUGH:
            advice = f"or {cycle.steps} steps are too few for its edges: give steps={4 * cycle.steps} or more"
        raise ValueError(f"problem: the cycle that was found is unstable (a multiplier of {largest:.6g}); {advice}")
    if largest > 1.0 - ONE:
        raise ValueError(f"problem: another multiplier lies within {ONE:g} of 1: {cycle.multipliers[:3]}. Phase noise "
                         "is defined for one; are there two oscillators, or a charge that nothing holds?")  # fmt: skip
    if largest > SLOW:
        tell(f"amplitude noise lasts {1.0 / (1.0 - largest):.0f} periods: jitter over fewer is not c t")  # fmt: skip


def _observed(cycle: Cycle, node: str | None) -> int:
    if node is not None:
        return component(cycle, node)
    reach = np.ptp(cycle.x, axis=0) / (np.abs(cycle.x).max(axis=0) + 1e-300)
    reach[cycle.system.wandering] = 0.0
    return int(np.flatnonzero(reach > 1e-3)[0])


def _at_level(cycle: Cycle, i: int, level: float | None) -> Cycle:
    """The cycle with x_0 where component i rises through the level most steeply."""
    values, slopes = cycle.x[:, i], cycle.velocity[:, i]
    aim = 0.5 * (values.min() + values.max()) if level is None else float(level)
    up = np.flatnonzero((values[:-1] < aim) & (values[1:] >= aim))
    if not len(up):
        raise ValueError(f"level: {cycle.names[i]} never rises through {aim:g}; it lies between {values.min():.6g} and "
                         f"{values.max():.6g}")  # fmt: skip
    k = int(up[np.argmax(slopes[up])])
    low, high = cycle.t[k], cycle.t[k + 1]
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cycle.at(middle)[i] < aim else (low, middle)
    shifted, mean = cycle.shifted(low), 2.0 * np.ptp(values) / cycle.period
    slope = float(shifted.velocity[0, i])
    if slope < FLAT * mean:
        best = float(values[np.argmax(slopes)])
        raise ValueError(f"level: {cycle.names[i]} crosses {aim:g} with a slope of {slope:.3g}, less than 1 % of "
                         f"the mean of its slopes, {mean:.3g}; take {best:.6g}")  # fmt: skip
    return shifted


def _fall(cycle: Cycle, i: int) -> float:
    """The time at which component i falls most steeply through its value at the beginning of the cycle."""
    values, slopes, aim = cycle.x[:, i], cycle.velocity[:, i], cycle.x[0, i]
    down = np.flatnonzero((values[:-1] > aim) & (values[1:] <= aim))
    k = int(down[np.argmin(slopes[down])])
    low, high = cycle.t[k], cycle.t[k + 1]
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cycle.at(middle)[i] > aim else (low, middle)
    return low


def _wander(
    cycle: Cycle, result: Response, f: np.ndarray, f_lo: float | None
) -> tuple[Wander, np.ndarray, float | None]:
    """Return how the phase wanders, the mean gains of the 1/f sources, and the lowest frequency that these have."""
    if not cycle.system.flickers:
        return Wander(result.c, np.zeros(0), np.zeros(0)), np.zeros(0), None
    slopes = cycle.system.flickering(cycle.t[:-1], cycle.x[:-1])
    gains = np.einsum("p,pn,pnk->k", cycle.weights, result.v, slopes)
    problem = cycle.problem
    assert isinstance(problem, Circuit)
    lowest = f_lo or problem.network.netlist.flicker_band[0] or 0.1 * float(f.min())
    poles = coloured.flicker(1.0, (lowest, 10.0 * max(float(f.max()), 10.0 * lowest)))
    variances = np.diagonal(poles.state_covariance)
    return Wander(result.c, variances * np.sum(gains**2), -1.0 / np.diagonal(poles.A)), gains, lowest


def _composite(cycle: Cycle, i: int, f: np.ndarray, c: float) -> np.ndarray:
    """One-sided: the spectrum of the linear periodic system times Δ²/(Δ² + a²), the line alone next to the carrier."""
    f0 = 1.0 / cycle.period
    k = np.rint(f / f0)
    Δ, a = 2.0 * np.pi * (f - k * f0), 0.5 * (2.0 * np.pi * k * f0) ** 2 * c
    far = np.abs(f - k * f0) > 1e-9 * f0
    orders, which = np.unique(np.abs(k).astype(int), return_inverse=True)
    power = np.where(orders < cycle.steps // 2, np.abs(cycle.harmonics(orders)[:, i]) ** 2, 0.0)[which]
    result = power * 2.0 * a / np.where(a > 0.0, a * a + Δ * Δ, 1.0)
    if far.any():
        S = cyclostationary.averaged_densities(cycle, i, f[far]).sum(axis=1)
        result[far] = S * np.where(k[far] == 0.0, 1.0, Δ[far] ** 2 / (Δ[far] ** 2 + a[far] ** 2))
    return 2.0 * result
