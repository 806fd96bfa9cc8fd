"""A noise without a plant as a stepping model: coloured noise, the readings of a sensor, white noise for a host.

Its recursion at steps of dt, y_k = C s_k + white e_k and s_{k+1} = Φ s_k + drive w_k, is the problem and the method:
the state of a path is (y, s). Path p has the same numbers in C, in a unit, in NumPy and in a run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.methods.contract import EXPLICIT, Method
from stodyn.noise import readings
from stodyn.noise.coloured import Coloured
from stodyn.noise.coloured.delay import Delayed
from stodyn.noise.from_normals import FromNormals
from stodyn.noise.hosts import White
from stodyn.noise.increment import Increment, Recipe
from stodyn.noise.inertial import Imu, Inertial
from stodyn.noise.readings import Density, PerSample, Recursion
from stodyn.numerics import van_loan
from stodyn.problems.sde import SDE

KINDS = (Coloured, Delayed, Inertial, Imu, PerSample, Density, White)
DRIVE, SAMPLE = "coloured", "measurement"  # the streams of w and e
TRUTH, READING = "truth", "reading"


@dataclasses.dataclass(frozen=True, eq=False)
class Noise:
    """A noise at steps of a given length.

    white     the standard deviations of e, one for each output
    response  what a sensor shows of the truth; None for a noise that is no sensor
    is_held   whether it is white noise whose size is that of one step of the host, over which it is held
    """

    text: str
    names: tuple[str, ...]
    recursion: Recursion
    white: np.ndarray
    response: np.ndarray | None = None
    resolution: float | None = None
    range: tuple[float, float] | None = None
    is_held: bool = False
    is_fresh: bool = False

    @property
    def has_memory(self) -> bool:
        """Whether a sample depends on those before it."""
        return bool(self.recursion.Phi.any()) or bool((self.recursion.start != self.recursion.drive).any())

    def shown(self, y: Any, truth: Any) -> Any:
        """What a sensor shows where the truth is this one and its noise y."""
        assert self.response is not None
        return readings.shown(self.response @ truth + y, self.resolution, self.range)

    def begun(self, z: Array) -> Array:
        """The state of a path from standard normals: those of s, and those of e."""
        count = self.recursion.start.shape[1]
        return self._state(_product(self.recursion.start, z[:count]), z[count:])

    def moved(self, state: Array, w: Array, e: Array) -> Array:
        """The state a step later."""
        s = state[len(self.names) :]
        return self._state(_product(self.recursion.Phi, s) + _product(self.recursion.drive, w), e)

    def _state(self, s: Array, e: Array) -> Array:
        return jnp.concatenate([_product(self.recursion.C, s) + self.white * e, s])

    @property
    def normals(self) -> int:
        """How many normals a sample takes, w and e."""
        return self.recursion.drive.shape[1] + len(self.names)

    def alone(self, z: Array) -> Array:
        """A sample without those before it, from its normals."""
        count = self.recursion.drive.shape[1]
        return self._state(_product(self.recursion.drive, z[:count]), z[count:])[: len(self.names)]

    def problem(self) -> SDE:
        """The noise as a problem, whose equations only its own method knows."""
        n, normals = len(self.names) + self.recursion.states, self.recursion.start.shape[1] + len(self.names)
        start = FromNormals(self.begun, normals)
        states = tuple(f"s{k}" for k in range(self.recursion.states))
        params = None if self.response is None else {TRUTH: np.zeros(len(self.response))}
        return SDE(lambda t, x: jnp.zeros(n), lambda t, x: jnp.zeros((n, 1)), start, params,
                   names=(*self.names, *states), structure="additive")  # fmt: skip

    def outputs(self) -> Sequence[str] | Mapping[str, Callable[..., Any]]:
        """What a host sees: the noise, or the readings of the sensor."""
        if self.response is None:
            return self.names
        count = len(self.names)
        if count == 1:
            return {READING: lambda t, x, p: self.shown(x[:1], p[TRUTH])[0]}
        return {READING: lambda t, x, p: self.shown(x[:count], p[TRUTH])}


def _product(matrix: np.ndarray, vector: Array) -> Array:
    """matrix @ vector without its zeros: an IMU has hundreds of states, most of which know only themselves."""
    most = int((matrix != 0).sum(axis=1).max(initial=0))
    if not most:
        return jnp.zeros(len(matrix))
    places = np.argsort(matrix == 0, axis=1, kind="stable")[:, :most]
    return (np.take_along_axis(matrix, places, axis=1) * vector[places]).sum(axis=1)


@dataclasses.dataclass(frozen=True)
class _Normals(Recipe):
    """The normals of w and of e."""

    drive: int
    white: int

    def normals(self, m):
        counts = {DRIVE: self.drive, SAMPLE: self.white}
        return {stream: count for stream, count in counts.items() if count}

    def increment(self, h, normals, m):
        aux = {stream: normals.get(stream, jnp.zeros(0)) for stream in (DRIVE, SAMPLE)}
        return Increment(h, jnp.zeros(m), aux=aux)


@dataclasses.dataclass(frozen=True, eq=False)
class Recursive(Method):
    """The exact steps of a noise."""

    noise: Noise = dataclasses.field(repr=False)

    accepts = SDE
    calculus = None
    name = "exact recursion"
    citation = "C. Van Loan, IEEE Trans. Automat. Control 23 (1978)"
    claims = ()
    takes_equal_steps = "has the matrices of one length of step"

    @property
    def needs(self):
        return _Normals(self.noise.recursion.drive.shape[1], len(self.noise.names) if self.noise.white.any() else 0)

    def step(self, problem, t, state, noise, params):
        e = noise.aux[SAMPLE] if self.noise.white.any() else jnp.zeros(len(self.noise.names))
        return self.noise.moved(state, noise.aux[DRIVE], e), EXPLICIT


def is_noise(problem: Any) -> bool:
    """Whether this is a noise, and no problem with equations."""
    return isinstance(problem, KINDS)


def method_of(noise: Noise, method: Any) -> Recursive:
    """The method of a noise; refuses any other."""
    if method is not None:
        raise ValueError(f"method: a noise by itself is stepped exactly, by its own recursion, got {method!r}; leave "
                         "method out")  # fmt: skip
    return Recursive(noise)


def noise_of(source: Any, dt: float) -> Noise:
    """The noise at steps of dt."""
    if isinstance(source, Inertial | Imu):
        axes = len(source.response)
        recursion = source.recursion(dt, axes)
        shown: dict[str, Any] = (
            {} if isinstance(source, Imu) else {"resolution": source.resolution, "range": source.range}
        )
        names = tuple(f"noise{k}" for k in range(axes)) if axes > 1 else ("noise",)
        kind = "imu" if isinstance(source, Imu) else source.kind
        return Noise(f"noise of a {kind}", names, recursion, _white(recursion, axes), source.response, **shown)
    names = source.names if isinstance(source, Coloured | Delayed) else _numbered(_outputs(source))
    recursion = _late(source, dt) if isinstance(source, Delayed) else readings.recursion(source, dt, len(names))
    text = f"white noise, {source.host}" if isinstance(source, White) else f"{type(source).__name__} noise"
    is_held = isinstance(source, White) and source.is_held
    is_fresh = isinstance(source, White) and not source.is_held
    return Noise(text, names, recursion, _white(recursion, len(names)), is_held=is_held, is_fresh=is_fresh)


def _late(source: Delayed, dt: float) -> Recursion:
    """Noise that arrives late, whose state is that of its filter and, of each output, as many samples as are held."""
    source.integrals(dt)  # refuses steps of another length
    own = readings.recursion(source.noise, dt, len(source.noise.C))
    held = [(output, steps) for output, count in enumerate(source.held) for steps in range(1, count + 1)]
    k, places = own.states, {past: own.states + j for j, past in enumerate(held)}
    Phi, C = np.zeros((k + len(held), k + len(held))), np.zeros((len(source.late), k + len(held)))
    Phi[:k, :k] = own.Phi
    for (output, steps), j in places.items():
        if steps == 1:
            Phi[j, :k] = own.C[output]
        else:
            Phi[j, j - 1] = 1.0
    for row, (output, steps) in zip(C, source.late, strict=True):
        if steps:
            row[places[output, steps]] = 1.0
        else:
            row[:k] = own.C[output]
    drive = np.concatenate([own.drive, np.zeros((len(held), own.drive.shape[1]))])
    states = [*range(k), *(source.place(*past) for past in held)]
    start = van_loan.root(source.state_covariance[np.ix_(states, states)])
    return Recursion(Phi, drive, C, start, own.white)


def _outputs(source: PerSample | Density | White) -> int:
    """How many outputs there are: as many as the sizes."""
    if isinstance(source, White):
        return len(source.Q)
    size = source.size if isinstance(source, PerSample) else source.root
    if callable(size) or isinstance(size, str):
        raise ValueError(f"problem: the size of this noise, {size!r}, comes from params, which a noise by itself does "
                         "not have; give numbers")  # fmt: skip
    return int(np.size(size))


def _numbered(count: int) -> tuple[str, ...]:
    return ("y",) if count == 1 else tuple(f"y{k}" for k in range(count))


def _white(recursion: Recursion, outputs: int) -> np.ndarray:
    return np.array(np.broadcast_to(np.asarray(recursion.white(None), float), (outputs,)))
