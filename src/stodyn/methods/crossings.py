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
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.methods.alpha import MOST_PARTS, SHORT
from stodyn.methods.contacts import keeps_stops
from stodyn.methods.linear_law import LinearLaw, law_without_stops
from stodyn.problems.driven import longest_step
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.stops import pushes_of
from stodyn.telling import tell
from stodyn.warnings import StopsNotResolved

LOST = 0.9  # parts of a step in which damping is lost at a contact that they do not resolve
NOTABLE = 0.02  # relative error of the mean square of a speed above which a run warns
REFUSED = 1.0  # above which it is refused
ROUNDS = 4  # of a speed between stops, which settles in them


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
        """The time from meeting one stop to meeting the next, at a speed."""
        return math.pi / self.rate + self.width / speed

    def lost(self, h: float) -> float:
        """The time, of that from one stop to the next, during which steps of length h lose the damping."""
        part = h / min(max(math.ceil(h * self.rate / SHORT), 1), MOST_PARTS)
        return part * min(LOST, 0.25 * math.pi * self.rate * part)

    def most_lost(self, h: float) -> float:
        """The share of the time in which steps of a length h would lose the damping of an infinitely fast body."""
        return self.lost(h) * self.rate / math.pi


def _speed(law: LinearLaw, room: Room, T: float) -> float:
    """The root of the variance of the speed across a room at a time T."""
    N = law.N
    return math.sqrt(max(room.row @ law.second_moments(T)[N : 2 * N, N : 2 * N] @ room.row, 0.0))


def _less_damped(law: LinearLaw, room: Room, share: float) -> LinearLaw:
    """The law without a share of what damping takes from the motion across a room."""
    N, A = law.N, law.A.copy()
    along = A[N : 2 * N, N : 2 * N] @ room.push / (room.row @ room.push)
    A[N : 2 * N, N : 2 * N] -= share * np.outer(along, room.row)
    return law._replace(A=A)


def _sprung(law: LinearLaw, room: Room, rate: float) -> LinearLaw:
    """The law with a spring across a room, of the rate √(k/m)."""
    N, A = law.N, law.A.copy()
    A[N : 2 * N, :N] -= rate**2 * np.outer(room.push, room.row) / (room.row @ room.push)
    return law._replace(A=A)


def check_crossings(method: Any, problem: Any, h: float, T: float) -> None:
    """Warn where steps of a run of length T are so long that bodies lose too little energy between stops, and refuse
    where that doubles it. Methods that do not keep the energy of stops are checked by `contacts`."""
    has_stops = isinstance(problem, Mechanical) and bool(problem.motion.stops) and keeps_stops(method, problem)
    rooms = rooms_of(problem) if has_stops else []
    rooms = [room for room in rooms if room.most_lost(h) > NOTABLE / (1.0 + NOTABLE)]
    law = law_without_stops(problem) if rooms else None
    if law is None:
        return
    excess = max((_excess(law, room, T) for room in rooms), key=lambda excess: excess(h))
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
    tell(words, StopsNotResolved)


def _in_words(excess: float) -> str:
    return f"about {100.0 * excess:.2g} % too large" if excess < REFUSED else "more than twice as large as it is"


def _excess(law: LinearLaw, room: Room, T: float) -> Callable[[float], float]:
    """The relative error of the mean square of the speed across a room, as a function of the step.

    A body between stops goes to and fro as on a spring with the same period: loads that are slow beside that give it
    less speed than they would without stops.
    """
    sprung, speed = law, _speed(law, room, T)
    for _ in range(ROUNDS if speed > 0.0 else 0):
        sprung = _sprung(law, room, math.pi / room.time(min(speed, _speed(sprung, room, T))))
    speed = _speed(sprung, room, T)

    def excess(h: float) -> float:
        delivered = speed
        for _ in range(2 if speed > 0.0 else 0):  # the second time at the speed that is too large
            share = min(room.lost(h) / room.time(delivered), 1.0)
            delivered = _speed(_less_damped(sprung, room, share), room, T)
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
