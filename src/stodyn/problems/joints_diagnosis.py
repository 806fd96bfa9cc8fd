"""Before a run with joints: are the constraints independent, is there inertia along them, where do paths start?

With the rows of G M^(-1/2) scaled to length 1, the lowest singular value σ of all constraints tells how far they are
from depending on each other. It is computed at the start, moved onto the constraints, and in consistent states around
it: zero everywhere means that one constraint follows from others, zero at the start alone a singular configuration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.numerics.one_thread import blas_on_one_thread
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.numerics.rounding import UNITS, Amounts
from stodyn.problems.contract import differs_from_path_to_path, sample_params
from stodyn.problems.index import how_moved, is_diagonal
from stodyn.telling import tell
from stodyn.warnings import StartMoved

STATES = 9  # the start, and consistent states around it
DRAWN = 64  # starts and parameters that are checked where paths have their own
ROUNDS = 60  # of Newton onto the constraints
DEPENDENT = 1e-10  # σ below this share of the largest everywhere: a constraint follows from others; see _least
MASSLESS = 1e-10  # of the masses: an inertia below this is none, by choice far above n ε; files have ten digits
REACHED = 1e-9  # of |x|: how near to its constraints a state holds them, by choice; where g is rounded to more, that
NOISELESS = 1e-9  # of what noise does without constraints: a share below this, by choice far above n ε, is none
STEADY = 1e-3  # a pivot above this share of the largest loses no digits that Newton's next round would not find
STALLED = 1e-10  # of |q|: a round below it that is not half the last one is rounding
BRANCHING = 1e-6  # σ below this at the start alone: the motion may branch
FAR = 0.1  # a start is not moved farther than this share of |x|
NEAR = 1e-9  # share of |x| by which states on either side of a constraint are displaced from it
WARNED_OF = 1e-6  # a start that moves by more than this share of its size causes a warning


class JointValues(NamedTuple):
    """g (S, c), G (S, c, N), g_t (S, c) and M (S, N, N) at S states."""

    g: np.ndarray
    G: np.ndarray
    rate: np.ndarray
    M: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class JointsDiagnosis:
    """The diagnosis of the constraints of a mechanical problem before a run.

    reason    why it cannot be run, in words that begin with the argument; "" where it can
    names     of the constraints; degrees: how many coordinates are left to move
    sigma     the lowest singular value of G M^(-1/2), rows scaled to length 1, at the start
    noisy     the constraints whose reactions contain white noise
    start     (x, v) moved onto the constraints; moved: component -> by how much
    """

    reason: str
    names: tuple[str, ...]
    degrees: int
    sigma: float
    noisy: tuple[str, ...]
    start: np.ndarray
    moved: dict[str, float]

    def __str__(self) -> str:
        if self.reason:
            return f"cannot be run: {self.reason}"
        words = f"{len(self.names)} constraint(s) {', '.join(self.names)}, {self.degrees} degree(s) of freedom; "
        words += f"lowest singular value {self.sigma:.3g}"
        words += f"; white noise in the reaction of {', '.join(self.noisy)}" if self.noisy else ""
        return words + (f"; {self.move}" if self.move else "")

    @property
    def move(self) -> str:
        return how_moved(self.moved)


def values_at(joints: Any, params: Any, axes: Any = None) -> Callable[[np.ndarray, np.ndarray], JointValues]:
    """(times (S,), coordinates (S, N)) -> the values there, with the parameters of one path, or of S of them."""
    pattern, problem = joints.pattern, joints.problem
    constant = None
    if not callable(problem.mass):
        constant = np.eye(problem.N) if problem.mass_matrix is None else problem.mass_matrix

    def at(t, q, p):
        if pattern is None:
            G = joints.jacobian(t, q, p)
        else:
            G = pattern.jacobian(lambda q: joints.value(t, q, p), q)
        M: Any = joints.mass(t, q, p) if constant is None else jnp.zeros(0)
        return JointValues(joints.value(t, q, p), G, joints.rate(t, q, p), M)

    look = AtPoints(at, (0, 0, axes))

    def at_states(times: np.ndarray, q: np.ndarray) -> JointValues:
        with jax.enable_x64(True):
            values = JointValues(*map(np.asarray, look(times, q, params)))
        if pattern is not None:
            G = np.zeros((len(q), *pattern.shape))
            G[:, pattern.rows, pattern.columns] = values.G
            values = values._replace(G=G)
        return values if constant is None else values._replace(M=np.broadcast_to(constant, (len(q), *constant.shape)))

    return at_states


def _hold(joints: Any, looked: JointValues, times: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Whether all constraints hold in each state: to REACHED, or to the rounding of g, which near x = 0 is more."""
    distance, reached = _distance(looked), REACHED * np.abs(q).max(axis=1)
    if np.any(np.isfinite(distance) & (distance > reached)):
        reached = np.maximum(reached, rounding_of_distance(joints, looked, times, q))
    return np.isfinite(q).all(axis=1) & (distance <= reached)


def _usable(joints: Any, looked: JointValues, times: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, bool]:
    """The states that tell how the constraints depend on each other, and whether they hold at the first, the start.

    Where they do, states that Newton could not bring onto them tell nothing: constraints of a linkage that moves only
    because of its measures are independent off them.
    """
    finite, hold = np.isfinite(q).all(axis=1) & np.isfinite(looked.G).all(axis=(1, 2)), _hold(joints, looked, times, q)
    return (finite & hold if hold[0] else finite), bool(hold[0])


def rounding_of_distance(joints: Any, looked: JointValues, times: np.ndarray, q: np.ndarray) -> np.ndarray:
    """How far the rounding of g may put each state from its constraints, in the units of x."""
    params = joints.problem.example_params()
    with jax.enable_x64(True):
        (amounts,) = Amounts(lambda t, q: joints.value(t, q, params))(times, q)
    most = 2.0 * amounts.max(axis=0, where=np.isfinite(amounts), initial=0.0)
    return _distance(looked._replace(g=np.broadcast_to(most, looked.g.shape)))


@blas_on_one_thread
def diagnose(joints: Any, t: float) -> JointsDiagnosis:
    """The constraints at the start at time t and, where they cannot be run, the reason."""
    problem = joints.problem
    N, names, look = problem.N, joints.names, joints.look
    example = np.asarray(problem.start_source.example("start"), float)
    x, v = example[:N], example[N:]
    times, near = _states(t, x)
    q = _onto(look, times, near)
    start, rate = x, v

    def answer(reason: str, sigma: float = 0.0, noisy: tuple[str, ...] = ()) -> JointsDiagnosis:
        moved = np.concatenate([start - x, rate - v])
        listed = dict(zip(problem.components[: 2 * N], moved.tolist(), strict=True))
        return JointsDiagnosis(reason, names, N - joints.c, sigma, noisy, np.concatenate([start, rate]), listed)

    raw = look(times, near)
    if not all(np.isfinite(part[0]).all() for part in raw):
        return answer(f"constraints: g, its derivatives or the mass are not finite at the start and t = {t:g}")
    looked = look(times, q)
    usable, holds = _usable(joints, looked, times, q)
    if not usable[0]:
        return answer(f"start: Newton finds no state near {x.tolist()} that satisfies {_quoted(names)}; start nearer")
    flat = _flat(raw, looked, usable)
    if len(flat):
        return answer(
            f"constraints: the gradient of {_quoted(names[i] for i in flat)} vanishes where the constraint holds; "
            "write it so that it changes sign there (|r|² - l², not its square), and let it depend on x"
        )
    kinked = _kinked(look, times[usable], q[usable], JointValues(*(part[usable] for part in looked)))
    if len(kinked):
        return answer(
            f"constraints: {_quoted(names[i] for i in kinked)} has a kink where it holds: its gradient differs on "
            "either side, as that of |x - a| does; write it so that it is smooth there (x - a)"
        )
    bad = _without_inertia(looked.M[0], looked.G[0], problem.coordinates)
    if bad:
        return answer(bad)
    spectra = np.array([_spectrum(JointValues(*(part[i] for part in looked))) for i in np.flatnonzero(usable)])
    σ = float(spectra[0, -1])
    rows = _independent(looked, usable)
    if len(rows) < joints.c:
        return answer(_redundant(joints, looked, rows, holds), σ)
    if joints.c >= N:
        return answer(
            f"constraints: {joints.c} independent ones on {N} coordinates, so that nothing can move; leave one out"
        )
    if not holds:
        return answer(
            f"start: Newton finds no state near {x.tolist()} that satisfies {_quoted(names)} (it ends "
            f"{_distance(looked).max():.3g} away); start nearer, or check whether they can all hold at once"
        )
    if σ < BRANCHING and np.median(spectra[:, -1]) > 100.0 * σ:
        _, _, right = np.linalg.svd(_scaled(looked.G[0], looked.M[0]).T)
        mixed = [name for name, share in zip(names, np.abs(right[-1]), strict=True) if share > 0.1]
        return answer(
            f"start: is a singular configuration: {_quoted(mixed)} depend on each other there, and nowhere near it "
            f"(lowest singular value {σ:.2g}); the motion may branch. Start elsewhere",
            σ,
        )
    start = q[0]
    if np.linalg.norm(start - x) > FAR * np.linalg.norm(start) and _hold(joints, raw, times, near)[0]:
        start = x  # but for rounding it satisfies the constraints as it is
    rate = v + _pulled(looked.G[0], looked.M[0], -(looked.G[0] @ v + looked.rate[0]))
    far = float(np.linalg.norm(start - x))
    if far > FAR * np.linalg.norm(start):
        return answer(
            f"start: {far:.3g} away from the constraints {_quoted(names)}, more than {FAR:.0%} of |x|; give a start "
            f"that satisfies them, such as {np.round(start, 6).tolist()}"
        )
    return answer("", σ, _noisy(joints, times[usable], q[usable], v, looked.G[usable], looked.M[usable]))


def checked(joints: Any, diagnosis: JointsDiagnosis, t: float) -> tuple[str, ...]:
    """The lines of a run's record; refuses problems that cannot be run, and warns where the start is moved."""
    if diagnosis.reason:
        raise ValueError(f"{diagnosis.reason}.")
    N = joints.problem.N
    moved = np.abs(list(diagnosis.moved.values()))
    sizes = [np.abs(part).max(initial=0.0) for part in (diagnosis.start[:N], diagnosis.start[N:])]
    if any(m.max() > WARNED_OF * (size or 1.0) for m, size in zip((moved[:N], moved[N:]), sizes, strict=True)):
        tell(f"start: {diagnosis.move}", StartMoved)
    _check_drawn(joints, t)
    return (diagnosis.move,) if diagnosis.move else ()


@blas_on_one_thread
def independent_rows(joints: Any) -> tuple[int, ...]:
    """The first constraints on which all others depend, at the start and around it."""
    look = joints.look
    times, near = _states(0.0, np.asarray(joints.problem.start_source.example("start"), float)[: joints.problem.N])
    q = _onto(look, times, near)
    looked = look(times, q)
    usable, holds = _usable(joints, looked, times, q)
    rows = _independent(looked, usable)
    is_known = np.isfinite(q[0]).all() and np.isfinite(looked.g[0]).all()
    if rows and len(rows) < joints.c and is_known and not holds:
        raise ValueError(f"{_redundant(joints, looked, rows, holds)}.")
    return rows or tuple(range(joints.c))


# --- the questions ----------------------------------------------------------------------------------------------------


def _states(t: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and states: the start, and others around it."""
    rng = np.random.default_rng(5)
    offsets = 0.1 * (np.abs(x) + 0.5 * np.abs(x).max(initial=1e-3)) * rng.standard_normal((STATES, len(x)))
    offsets[0] = 0.0
    return t + np.append(0.0, 0.1 * rng.random(STATES - 1)), x + offsets


def _metric(G: np.ndarray, M: np.ndarray) -> np.ndarray:
    """R with R Rᵀ = M⁻¹, of M + s GᵀG, which is regular where there is inertia along the constraints."""
    size = np.trace(G.T @ G)
    value, vector = np.linalg.eigh(0.5 * (M + M.T) + (1e-3 * np.trace(M) / size if size else 0.0) * G.T @ G)
    return vector / np.sqrt(np.maximum(value, 1e-13 * np.abs(value).max(initial=1e-300)))


def _scaled(G: np.ndarray, M: np.ndarray) -> np.ndarray:
    """G M^(-1/2), its rows of length 1."""
    X = G @ _metric(G, M)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)


def _least(G: np.ndarray, M: np.ndarray) -> float:
    """The share of the largest singular value of _scaled(G, M) below which rows depend on each other: DEPENDENT, or the
    rounding of the rows, G by UNITS and the product by n roundings, where they cancel light coordinates."""
    R = _metric(G, M)
    cancelled = np.linalg.norm(np.abs(G) @ np.abs(R), axis=1) / np.maximum(np.linalg.norm(G @ R, axis=1), 1e-300)
    return max(DEPENDENT, (len(M) + UNITS) * np.finfo(float).eps * float(np.linalg.norm(cancelled)))


def _spectrum(looked: JointValues) -> np.ndarray:
    return np.linalg.svd(_scaled(looked.G, looked.M), compute_uv=False)


def _pulled(G: np.ndarray, M: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The smallest d in the metric of M with G d = change; dependent rows share it."""
    try:
        if is_diagonal(M) and np.diagonal(M).min() > 0.0:
            C = G.T / np.diagonal(M)[:, None]
        else:
            C = scipy.linalg.cho_solve(scipy.linalg.cho_factor(M), G.T)
        A = G @ C
        unit = 1.0 / np.sqrt(A.diagonal())
        factor = scipy.linalg.cho_factor(unit[:, None] * A * unit)
        if factor[0].diagonal().min() > STEADY:
            return C @ (unit * scipy.linalg.cho_solve(factor, unit * change))
    except (np.linalg.LinAlgError, ValueError):  # masses or constraints are missing
        pass
    R = _metric(G, M)
    return R @ (np.linalg.pinv(G @ R, rcond=DEPENDENT) @ change)


def _onto(look: Callable, times: np.ndarray, states: np.ndarray) -> np.ndarray:
    """States moved onto the constraints by Newton in the metric of M, as far as rounding allows."""
    q, done, last = np.array(states), np.zeros(len(states), bool), np.full(len(states), np.inf)
    with np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            looked = look(times, q)
            for i in np.flatnonzero(~done):
                parts = looked.g[i], looked.G[i], looked.M[i]
                if not all(np.isfinite(part).all() for part in parts):
                    q[i], done[i] = np.nan, True
                    continue
                move = _pulled(looked.G[i], looked.M[i], -looked.g[i])
                q[i] += move
                size, far = np.abs(q[i]).max() or 1.0, np.abs(move).max()
                done[i] = far <= 1e-14 * size or 0.5 * last[i] < far <= STALLED * size
                last[i] = far
            if done.all():
                break
        return q


def _distance(looked: JointValues) -> np.ndarray:
    """How far each state is from its farthest constraint, in the units of x."""
    return np.max(np.abs(looked.g) / np.maximum(np.linalg.norm(looked.G, axis=2), 1e-300), axis=1, initial=0.0)


def _flat(raw: JointValues, looked: JointValues, usable: np.ndarray) -> np.ndarray:
    """The constraints without a gradient where they hold."""
    before, after = (np.linalg.norm(part.G[usable], axis=2).max(axis=0) for part in (raw, looked))
    return np.flatnonzero(~(after > 1e-6 * before) | (before == 0.0))


def _kinked(look: Callable, times: np.ndarray, q: np.ndarray, looked: JointValues) -> np.ndarray:
    """The constraints whose gradients differ across the states in which they hold, as those of smooth ones do not."""
    lengths = np.linalg.norm(looked.G, axis=2)
    across = np.array(
        [np.linalg.pinv(G, rcond=DEPENDENT) @ length for G, length in zip(looked.G, lengths, strict=True)]
    )
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
    offset = NEAR * np.abs(q).max(axis=1, keepdims=True) * across
    before, after = (look(times, q + side * offset).G for side in (-1.0, 1.0))
    size = np.maximum(np.linalg.norm(before, axis=2), np.linalg.norm(after, axis=2))
    return np.flatnonzero(np.any(np.linalg.norm(after - before, axis=2) > 0.1 * size, axis=0))


def _without_inertia(M: np.ndarray, G: np.ndarray, names: Any) -> str:
    """Why M is not positive definite along the constraints, in words; "" where it is."""
    unit = _units_of_inertia(M, G)
    M, G = unit[:, None] * M * unit, G * unit
    _, s, right = np.linalg.svd(G / np.maximum(np.linalg.norm(G, axis=1, keepdims=True), 1e-300))
    free = right[int(np.sum(s > DEPENDENT * s[0])) :].T
    if not free.shape[1]:
        return ""
    value, vector = np.linalg.eigh(free.T @ (0.5 * (M + M.T)) @ free)
    if value[0] > MASSLESS * np.abs(M).max():
        return ""
    direction = np.abs(free @ vector[:, 0])
    held = [name for name, share in zip(names, direction, strict=True) if share > 0.1]
    if value[0] < -MASSLESS * np.abs(M).max():
        return f"mass: is negative along the constraints, in the direction of {_quoted(held)}. Give masses >= 0"
    return (
        f"mass: {_quoted(held)} can move within the constraints and have no inertia there; give them mass, or "
        "constrain them"
    )


def _units_of_inertia(M: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Units of the coordinates in which their masses are 1, and in which those without any move as far as constraints
    with the others move them: a light coordinate is not one without mass."""
    mass = np.abs(M.diagonal())
    unit = np.where(mass > 0.0, 1.0 / np.sqrt(np.where(mass > 0.0, mass, 1.0)), 0.0)
    size = np.abs(G)
    moves = np.where(size > 0.0, (size * unit).max(axis=1, keepdims=True) / np.where(size > 0.0, size, 1.0), 0.0)
    led = moves.max(axis=0, initial=0.0)
    return np.where(unit > 0.0, unit, np.where(led > 0.0, led, 1.0))


def _independent(looked: JointValues, usable: np.ndarray) -> tuple[int, ...]:
    """The first rows on which all others depend in all states."""
    scaled = [(_scaled(G, M), _least(G, M)) for G, M in zip(looked.G[usable], looked.M[usable], strict=True)]

    def are_independent(rows: list[int]) -> bool:
        tried = [(np.linalg.svd(X[rows], compute_uv=False), least) for X, least in scaled]
        return any(len(s) == len(rows) and s[-1] > least * s[0] for s, least in tried)

    every = list(range(looked.G.shape[1]))
    if are_independent(every):  # then so is each choice of them
        return tuple(every)
    rows: list[int] = []
    for row in every:
        if are_independent([*rows, row]):
            rows.append(row)
    return tuple(rows)


def _redundant(joints: Any, looked: JointValues, rows: tuple[int, ...], holds: bool) -> str:
    """Which constraint follows from which, or contradicts them where they do not all hold, in words."""
    dropped = next(i for i in range(joints.c) if i not in rows)
    X, name = _scaled(looked.G[0], looked.M[0]), joints.names[dropped]
    share = np.linalg.lstsq(X[list(rows)].T, X[dropped], rcond=None)[0]
    others = _quoted(joints.names[i] for i, s in zip(rows, share, strict=True) if abs(s) > 1e-8)
    if not holds:
        apart = float(_distance(JointValues(*(part[:1] for part in looked)))[0])
        return f"constraints: {name!r} and {others} contradict each other by {apart:.3g}: no state satisfies them all"
    return (
        f'constraints: {name!r} follows from {others}; leave it out, or give redundant="drop". The motion is the '
        "same, but single reactions of dependent constraints are not determined"
    )


def _noisy(
    joints: Any, times: np.ndarray, q: np.ndarray, v: np.ndarray, G: np.ndarray, M: np.ndarray
) -> tuple[str, ...]:
    """The constraints with white noise in their reactions: μ of [M Gᵀ; G 0] (b, μ) = (B, 0) is not zero, in units in
    which masses are 1 and the rows of G have length 1."""
    if not joints.problem.m:
        return ()
    rates = v + np.abs(v).max(initial=1.0) * np.random.default_rng(6).standard_normal((len(q), len(v)))
    B = at_points(joints.pushes, times, q, rates, joints.problem.example_params(), in_axes=(0, 0, 0, None))
    noisy = np.zeros(joints.c, bool)
    N, none = joints.problem.N, np.zeros((joints.c, joints.c))
    for G_, M_, B_ in zip(G, M, B, strict=True):
        unit = _units_of_inertia(M_, G_)
        across = G_ * unit / np.linalg.norm(G_ * unit, axis=1, keepdims=True)
        pushes = unit[:, None] * B_
        equations = np.block([[unit[:, None] * M_ * unit, across.T], [across, none]])
        μ = np.linalg.solve(equations, np.vstack([pushes, np.zeros((joints.c, pushes.shape[1]))]))[N:]
        noisy |= np.any(np.abs(μ) > NOISELESS * np.linalg.norm(pushes, axis=0), axis=1)
    return tuple(name for name, is_noisy in zip(joints.names, noisy, strict=True) if is_noisy)


@blas_on_one_thread
def _check_drawn(joints: Any, t: float) -> None:
    """Check some starts and parameters where paths have their own."""
    problem = joints.problem
    if not differs_from_path_to_path(problem):
        return
    count = int(min([DRAWN, *(source.count for source in (*problem.start_parts, *problem.param_sources))]))
    N, times = problem.N, np.full(count, t)
    start = np.asarray(problem.draw_start(np.random.default_rng(0), range(count)), float)
    x, v = start[:, :N], start[:, N : 2 * N]
    params, axes = sample_params(problem, count)
    look = values_at(joints, params, axes)
    q = _onto(look, times, x)
    there = look(times, q)
    far = np.linalg.norm(q - x, axis=1) / np.maximum(np.linalg.norm(q, axis=1), 1e-300)
    if np.any(far > WARNED_OF):
        far = np.where(_hold(joints, look(times, x), times, x), 0.0, far)
    lost = ~_hold(joints, there, times, q) | ~(far <= FAR)
    if lost.any():
        raise ValueError(
            f"start: {int(lost.sum())} of {count} drawn ones are not within {FAR:.0%} of |x| of the constraints "
            f"{_quoted(joints.names)}, the first {x[np.argmax(lost)].tolist()}; draw starts that satisfy them."
        )
    turned = [_pulled(G, M, -(G @ w + rate)) for G, M, w, rate in zip(there.G, there.M, v, there.rate, strict=True)]
    aside = np.linalg.norm(turned, axis=1) / np.maximum(np.linalg.norm(v + turned, axis=1), 1e-300)
    if far.max() > WARNED_OF or aside.max() > WARNED_OF:
        tell(
            f"start: drawn starts are moved onto the constraints, x by up to {far.max():.3g} of |x|, v by up to "
            f"{aside.max():.3g} of |v| in {count} of them",
            StartMoved,
        )


def _quoted(names: Any) -> str:
    return ", ".join(map(repr, names))
