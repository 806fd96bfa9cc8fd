"""Noise sample by sample, in NumPy alone, for any number of independent instances side by side.

    y_k = C s_k + white e_k,    s_{k+1} = Φ s_k + drive w_k,    s_0 = start z

Instance p of a seed has the normals of path p of stodyn with that seed, to the last digits. This file is exported as it
stands, with the numbers of a model behind it.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

CHUNK = 256  # samples whose normals an instance draws at a time
EARLY = 1e-6  # of dt: how much before its time a sample begins, since hosts add up their times
U32, U64 = np.uint32, np.uint64


class Stepper:
    """A noise, or the readings of a sensor.

    model   its numbers: dt, t0, seed, Phi, drive, C, start, white, response, resolution, limits, streams, is_by_time
    paths   the numbers of the instances, each of which is another path
    """

    def __init__(self, model: dict[str, Any], paths: Any = (0,), seed: int | None = None):
        self.model, self.steps = model, 0
        numbers = np.atleast_1d(np.asarray(paths, object))  # as they are: NumPy makes floats of 2**63 and 1
        if not all(isinstance(p, int | np.integer) and 0 <= p < 2**64 for p in numbers):
            raise ValueError(f"paths: expected whole numbers from 0 to 2^64 - 1, got {paths!r}")
        self.paths = numbers.astype(U64)
        self.seed = model["seed"] if seed is None else seed
        self.drive = Normals(self.seed, model["streams"]["drive"], self.paths, model["drive"].shape[1])
        outputs = len(model["C"]) if model["white"].any() else 0
        self.white = Normals(self.seed, model["streams"]["sample"], self.paths, outputs)
        count = model["start"].shape[1]
        z = counted(self.seed, model["streams"]["start"], self.paths, np.zeros(len(self.paths), U64),
                    count + len(model["C"]))  # fmt: skip
        self.state = z[:, :count] @ model["start"].T
        self.noise = self._sum(self.state, z[:, count:])

    @property
    def time(self) -> float:
        """The time of the sample: t0 + k dt, without the last digit that adding in binary leaves."""
        t0, dt = self.model["t0"], self.model["dt"]
        t = t0 + self.steps * dt
        size = max(abs(t), abs(t0))
        if self.steps == 0 or not 0 < size <= 1e13:
            return t
        decimal = round(t, min(13 - math.ceil(math.log10(size)), 22))
        return decimal if abs(decimal - t) <= 2 * np.spacing(size) else t

    def outputs(self, truth: Any = 0.0) -> np.ndarray:
        """The sample as it is now, (paths, outputs); of a sensor its reading where the truth is this one."""
        return self._shown(self.noise, truth)

    def step(self, truth: Any = 0.0) -> np.ndarray:
        """Go on by dt and return the next sample."""
        self.state = self.state @ self.model["Phi"].T + self.drive.next() @ self.model["drive"].T
        self.noise = self._sum(self.state, self.white.next())
        self.steps += 1
        return self.outputs(truth)

    def at(self, t: Any, truth: Any = 0.0) -> np.ndarray:
        """The sample that is held at time t, (paths, outputs), whenever and in whatever order it is wanted.

        These samples are another path than those of the steps. For noise without memory that is held over dt.
        """
        model = self.model
        if not model["is_by_time"]:
            raise ValueError("at: these samples depend on those before them, or belong to single calls of a solver; "
                             "take step(), and snapshot() to go back")  # fmt: skip
        sample = np.int64(math.floor((t - model["t0"]) / model["dt"] + EARLY)).astype(U64)
        count = model["drive"].shape[1]
        normals = count + len(model["C"])
        with np.errstate(over="ignore"):
            first = np.full(len(self.paths), sample * U64(-(-normals // 2)), U64)
        z = counted(self.seed, model["streams"]["sample"], self.paths, first, normals)
        return self._shown(self._sum(z[:, :count] @ model["drive"].T, z[:, count:]), truth)

    def snapshot(self) -> Stepper:
        """A copy that goes on by itself, as this one will."""
        return copy.deepcopy(self)

    def _sum(self, s: np.ndarray, e: np.ndarray) -> np.ndarray:
        y = s @ self.model["C"].T
        return y + self.model["white"] * e if e.size else y

    def _shown(self, y: np.ndarray, truth: Any) -> np.ndarray:
        model = self.model
        if model["response"] is None:
            return y.copy()
        reading = np.broadcast_to(truth, y.shape) @ model["response"].T + y
        if model["resolution"]:
            reading = model["resolution"] * np.floor(reading / model["resolution"] + 0.5)
        return reading if model["limits"] is None else np.clip(reading, *model["limits"])


class Normals:
    """The normals of a stream for each of some paths: a generator for every path."""

    def __init__(self, seed: int, stream: int, paths: np.ndarray, count: int):
        words = np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(3, U64)
        self.generators = [_generator(words, path) for path in paths] if count else []
        self.count, self.place = count, CHUNK
        self.block = np.empty((CHUNK, len(paths), count))

    def next(self) -> np.ndarray:
        """The normals of the next step, (paths, count)."""
        if self.place == CHUNK:
            self.place = 0
            for p, generator in enumerate(self.generators):
                self.block[:, p] = generator.standard_normal((CHUNK, self.count))
        self.place += 1
        return self.block[self.place - 1]


def _generator(words: np.ndarray, path: np.uint64) -> np.random.Generator:
    """The generator of a path: SFC64 from its three words, which SplitMix64 mixes from those of the stream."""
    with np.errstate(over="ignore"):
        z = words + (path + U64(1)) * U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    bits = np.random.SFC64(0)
    state = np.array([*(z ^ (z >> U64(31))), 1], U64)
    bits.state = {"bit_generator": "SFC64", "state": {"state": state}, "has_uint32": 0, "uinteger": 0}
    bits.random_raw(12)
    return np.random.Generator(bits)


def counted(seed: int, stream: int, paths: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
    """Normals (paths, count) that are a function of the seed, the stream, the path and their number: Philox4x32-10."""
    key = np.random.SeedSequence(seed).generate_state(2, U32)
    pairs = range(-(-count // 2))
    with np.errstate(over="ignore"):
        halves = [half for k in pairs for half in _pair(key, stream, paths, first + U64(k))]
    return np.stack(halves, axis=1)[:, :count] if halves else np.empty((len(paths), 0))


def _pair(key: np.ndarray, stream: int, path: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two normals of each path, by Box and Muller."""
    low, k0, k1 = U64(0xFFFFFFFF), U64(key[0]), U64(key[1])
    c0, c1 = path & low, path >> U64(32) | U64(stream << 16)
    c2, c3 = number & low, number >> U64(32)
    for _ in range(10):
        a, b = c0 * U64(0xD2511F53), c2 * U64(0xCD9E8D57)
        c0, c1, c2, c3 = b >> U64(32) ^ c1 ^ k0, b & low, a >> U64(32) ^ c3 ^ k1, a & low
        k0, k1 = k0 + U64(0x9E3779B9) & low, k1 + U64(0xBB67AE85) & low
    digits = (c0 << U64(21) | c1 >> U64(11)).astype(float)
    radius = np.sqrt(-2.0 * np.log((digits + 0.25) * 2.0**-53))
    turn = (c2 << U64(20) | c3 >> U64(12)).astype(float) * 2.0**-52
    angle = (math.pi / 2) * (turn - 0.5)
    radius = np.where(c3 & U64(1), -radius, radius)
    sine, cosine, is_swapped = np.sin(angle), np.cos(angle), (c3 & U64(2)) > 0
    return radius * np.where(is_swapped, sine, cosine), radius * np.where(is_swapped, cosine, sine)
