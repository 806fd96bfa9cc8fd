"""Whether bodies cross the room between two stops too often in a step of a method that keeps the energy of stops.

Such a step is cut into parts of a length τ where it meets a stop (methods.alpha). In the part in which a body turns
round, damping acts on a mean of velocities that cancel each other: of the time π/ω + width/speed from one stop to the
next, ω = √(k/m), it is lost for

    π/ω sin²(ωτ/2) ≈ τ π/4 ωτ     where the parts resolve the contact,
    0.9 τ                         where they do not.

The second was measured: E v² of a body between two stops, with ω h of 40 and 300 and h speed/width of 0.5, 1, 2, 4
and 8, is by 3, 5, 11 to 14, 21 and 45 % too large, as it is with so much less damping (± 1 %). The speed is that at the
end of a run by the equations without stops, linearised about their start.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from stodyn.arguments import stacklevel_of_user
from stodyn.methods.alpha import MOST_PARTS, SHORT
from stodyn.methods.contacts import keeps_stops
from stodyn.numerics import uncompiled, van_loan
from stodyn.problems.driven import longest_step
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.stops import pushes_of
from stodyn.warnings import StopsNotResolved

LOST = 0.9  # parts of a step in which damping is lost at a contact that they do not resolve
NOTABLE = 0.02  # relative error of the mean square of a speed above which a run warns
REFUSED = 1.0  # above which it is refused
ROUNDS = 4  # of a speed between stops, which settles in them
MOST_STATES = 200  # of a structure and its filter, whose covariance is computed before a run


class Room(NamedTuple):
    """The room between two stops.

    width  how long it is
    rate   √(k/m) of the stiffer one
    row    ∂d/∂x (N,) of the stretch
    push   M⁻¹ ∂d/∂x (N,)
    """

    width: float
    rate: float
    row: np.ndarray
    push: np.ndarray

    def time(self, speed: float) -> float:
        """From one stop to the next."""
        return math.pi / self.rate + self.width / speed

    def lost(self, h: float) -> float:
        """Of this time, that in which steps of a length h lose the damping."""
        part = h / min(max(math.ceil(h * self.rate / SHORT), 1), MOST_PARTS)
        return part * min(LOST, 0.25 * math.pi * self.rate * part)

    def most_lost(self, h: float) -> float:
        """The share of the time in which steps of a length h would lose the damping of an infinitely fast body."""
        return self.lost(h) * self.rate / math.pi


class _Linear(NamedTuple):
    """d(x, v, s) = A (x, v, s) dt + B dW with the covariance P at the start."""

    A: np.ndarray
    B: np.ndarray
    P: np.ndarray

    def speed(self, room: Room, T: float) -> float:
        """The root of the variance of the speed across a room at a time T."""
        row = np.pad(room.row, (len(room.row), len(self.A) - 2 * len(room.row)))
        covariance = van_loan.discretise(self.A, self.B, np.eye(self.B.shape[1]), T).of(self.P)
        return math.sqrt(max(row @ covariance @ row, 0.0))

    def less_damped(self, room: Room, share: float) -> _Linear:
        """The system without a share of what damping takes from the motion across a room."""
        N, A = len(room.row), self.A.copy()
        along = A[N : 2 * N, N : 2 * N] @ room.push / (room.row @ room.push)
        A[N : 2 * N, N : 2 * N] -= share * np.outer(along, room.row)
        return self._replace(A=A)

    def sprung(self, room: Room, rate: float) -> _Linear:
        """The system with a spring across a room, of the rate √(k/m)."""
        N, A = len(room.row), self.A.copy()
        A[N : 2 * N, :N] -= rate**2 * np.outer(room.push, room.row) / (room.row @ room.push)
        return self._replace(A=A)


def check_crossings(method: Any, problem: Any, h: float, T: float) -> None:
    """Warn where steps of a run of length T are so long that bodies lose too little energy between stops, and refuse
    where that doubles it. Methods that do not keep the energy of stops are checked by `contacts`."""
    has_stops = isinstance(problem, Mechanical) and bool(problem.motion.stops) and keeps_stops(method, problem)
    rooms = rooms_of(problem) if has_stops else []
    rooms = [room for room in rooms if room.most_lost(h) > NOTABLE / (1.0 + NOTABLE)]
    linear = _without_stops(problem) if rooms else None
    if linear is None:
        return
    excess = max((_excess(linear, room, T) for room in rooms), key=lambda excess: excess(h))
    if not excess(h) > NOTABLE:
        return
    longest = longest_step(lambda shorter: excess(shorter) > NOTABLE, h)
    words = (
        f"dt: with steps of {h:g} {method.name} makes E v² of a body between two stops (Gap) {_in_words(excess(h))}, "
        "by the equations linearised about their start: it crosses the room between them so fast that damping is lost "
        f"where it turns round. Take {'smaller steps' if longest is None else f'steps of {longest:g} or less'}."
    )
    if excess(h) > REFUSED:
        raise ValueError(words)
    warnings.warn(words, StopsNotResolved, stacklevel=stacklevel_of_user())


def _in_words(excess: float) -> str:
    return f"about {100.0 * excess:.2g} % too large" if excess < REFUSED else "more than twice as large as it is"


def _excess(linear: _Linear, room: Room, T: float) -> Callable[[float], float]:
    """The relative error of the mean square of the speed across a room, as a function of the step.

    A body between stops goes to and fro as on a spring with the same period: loads that are slow beside that give it
    less speed than they would without stops.
    """
    speed = linear.speed(room, T)
    sprung = linear
    for _ in range(ROUNDS if speed > 0.0 else 0):
        sprung = linear.sprung(room, math.pi / room.time(min(speed, sprung.speed(room, T))))
    speed = sprung.speed(room, T)

    def excess(h: float) -> float:
        delivered = speed
        for _ in range(2 if speed > 0.0 else 0):  # the second time at the speed that is too large
            share = min(room.lost(h) / room.time(delivered), 1.0)
            delivered = sprung.less_damped(room, share).speed(room, T)
        return (delivered / speed) ** 2 - 1.0 if speed > 0.0 else 0.0

    return excess


def rooms_of(problem: Mechanical) -> list[Room]:
    """The rooms between stops that face each other."""
    motion = problem.motion
    with jax.enable_x64(True):
        y, v, _ = motion.example_coordinates()
        pushes = np.asarray(pushes_of(motion, 0.0, y, v, motion.params)).T
    sides = [
        (stop, sign * stop.row(motion.N), sign * push)
        for stop, push in zip(motion.stops, pushes, strict=True)
        for sign in ((1.0, -1.0) if stop.both else (1.0,))
    ]
    rooms = []
    for (near, row, push), (far, opposite, _) in itertools.combinations(sides, 2):
        if np.array_equal(row, -opposite) and near.gap + far.gap > 0.0:
            rate = math.sqrt(max(near.stiffness, far.stiffness) * row @ push)
            rooms.append(Room(near.gap + far.gap, rate, row, push))
    return rooms


def _without_stops(problem: Any) -> _Linear | None:
    """The equations without stops, linearised about their start; None where they are not known, or large."""
    motion, noise, N = problem.motion.without_stops, problem.coloured, problem.N
    k = 0 if noise is None else len(noise.A)
    if problem.own.hysteresis or not problem.m + k or 2 * N + k > MOST_STATES:
        return None
    y, v, z = motion.example_coordinates()
    start, params = np.concatenate([y, v]), motion.params
    with jax.enable_x64(True):
        slopes, white = (
            uncompiled.value(function, start)
            for function in (
                jax.jacfwd(lambda s: motion.acceleration(0.0, s[:N], s[N:], z, params)),
                lambda s: motion.kicks(0.0, s[:N], s[N:], z, params),
            )
        )
    A = np.concatenate([np.eye(N, 2 * N, k=N), slopes])
    B = np.concatenate([np.zeros_like(white), white])
    if noise is None:
        return _Linear(A, B, np.zeros_like(A))
    with jax.enable_x64(True):
        push = uncompiled.value(lambda s: problem.push(0.0, s[:N], s[N:], z, params), start)
    into = np.concatenate([np.zeros_like(push), push]) @ noise.C
    A = np.block([[A, into], [np.zeros((k, 2 * N)), noise.A]])
    return _Linear(
        A,
        scipy.linalg.block_diag(B, noise.B),
        scipy.linalg.block_diag(np.zeros((2 * N, 2 * N)), noise.state_covariance),
    )
