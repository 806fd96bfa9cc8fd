"""A plant as matrices, x' = A x + B u + G w, and the readings of sensors as matrices: proved from their traces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.interpreters import partial_eval

from stodyn.noise.distribution import Distribution
from stodyn.noise.source import source_of
from stodyn.numerics import uncompiled
from stodyn.numerics.facts import degree
from stodyn.problems.contract import expect_problem, written_as
from stodyn.problems.looped import Looped, expect_inputs
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Sensor
from stodyn.problems.structure import is_autonomous

PROVED = "write its linear part as a plant of its own"  # the way out where a proof failed


class Plant(NamedTuple):
    """x' = A x + B u + G w, where u holds the entries of the inputs one after the other."""

    problem: Any
    A: np.ndarray
    B: np.ndarray
    G: np.ndarray
    inputs: tuple[str, ...]
    start: np.ndarray
    held: np.ndarray


class Rates(NamedTuple):
    """x' = A x + B u + rest + G w."""

    A: np.ndarray
    B: np.ndarray
    G: np.ndarray
    rest: np.ndarray


class Readings(NamedTuple):
    """y = H x + C s + v, s⁺ = Φ s + w: what sensors read, the covariances of w, v and of s at the first reading."""

    H: np.ndarray
    Phi: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    start: np.ndarray


def linear_plant(problem: Any, inputs: Sequence[str]) -> Plant:
    """Return the matrices of a plant that is proved to be linear, constant in time, with additive noise."""
    expect_problem(problem)
    if isinstance(problem, Looped):
        raise TypeError("plant: expected the plant alone, without the loop around it")
    sde = written_as(problem, SDE)
    if sde is None or sde.n != problem.n:
        raise ValueError(f"plant: a {type(problem).__name__} has no form as an SDE of its own components")
    if not (sde.noise_structure.implies("additive") and is_autonomous(sde)):
        raise ValueError("plant: expected constant coefficients and additive noise; this one depends on time or state")
    refuse_random_params("plant", problem, inputs)
    with jax.enable_x64(True):
        params = jax.tree.map(lambda v: np.asarray(v, float), sde.example_params())
        expect_inputs("plant", params, inputs)
        return _matrices(problem, sde, params, tuple(inputs))


def refuse_random_params(words: str, problem: Any, inputs: Iterable[str] = ()) -> None:
    """Refuse a problem whose parameters, the inputs apart, are drawn for each path; `words` begin the refusal."""
    for place, leaf in jax.tree_util.tree_flatten_with_path(problem.params)[0]:
        name = jax.tree_util.keystr(place, simple=True, separator=".")
        if source_of(leaf).is_random and name not in inputs:
            raise ValueError(
                f"{words}: its parameter {name} differs from path to path, and so would the answer; give it a number, "
                "one after the other if need be, or simulate"
            )


def _matrices(problem: Any, sde: Any, params: Any, inputs: tuple[str, ...]) -> Plant:
    rates = affine_rates("plant: it is", sde, params, inputs)
    _refuse_rest("plant: it is", rates.rest)
    start = np.zeros(sde.n) if problem.start_source.is_random else np.asarray(problem.example_start(), float)
    held = np.concatenate([np.ravel(params[name]) for name in inputs]) if inputs else np.zeros(0)
    return Plant(problem, rates.A, rates.B, rates.G, inputs, start, held)


def affine_rates(
    words: str, sde: Any, params: Any, inputs: Sequence[str], about: np.ndarray | None = None, way_out: str = PROVED
) -> Rates:
    """Return the matrices of an SDE that is proved to be affine in its state and inputs; `words` begin a refusal, and
    `way_out` ends it. About a state, and the inputs in params, they are those of its derivatives there."""
    shapes = [np.shape(params[name]) for name in inputs]
    ends = np.cumsum([math.prod(shape) for shape in shapes])

    def rate(both: Any) -> Any:
        pieces = jnp.split(both[sde.n :], ends[:-1]) if inputs else []
        own = {name: piece.reshape(shape) for name, piece, shape in zip(inputs, pieces, shapes, strict=True)}
        return sde.f(0.0, both[: sde.n], {**params, **own} if inputs else params)

    if about is None:
        F, rest = affine(words, rate, np.zeros(sde.n + (int(ends[-1]) if inputs else 0)), way_out)
    else:
        both = np.concatenate([about, *(np.ravel(params[name]) for name in inputs)])
        F, rest = derivative(rate, both), np.asarray(uncompiled.value(rate, both), float)
    G = uncompiled.value(lambda x: sde.g(0.0, x, params), np.zeros(sde.n) if about is None else about)
    return Rates(F[:, : sde.n], F[:, sde.n :], np.asarray(G, float), rest)


def affine(words: str, function: Callable, zero: np.ndarray, way_out: str = PROVED) -> tuple[np.ndarray, np.ndarray]:
    """The matrix of an affine function and its value at 0, after its proof."""
    if not degree.is_proved_affine(function, (zero,), 0):
        raise ValueError(f"{words} not proved to be linear; {way_out}")
    return derivative(function, zero), np.asarray(uncompiled.value(function, zero), float)


def derivative(function: Callable, about: np.ndarray) -> np.ndarray:
    """The matrix of a function's derivatives at a point."""
    return np.asarray(uncompiled.value(jax.jacfwd(function), about), float)


def _refuse_rest(words: str, rest: np.ndarray) -> None:
    if np.any(rest != 0.0):
        raise ValueError(f"{words} affine, with {rest} at 0; write it in deviations from where it rests")


def inputs_read(sensor: Sensor, problem: Any, params: Any, inputs: Sequence[str]) -> list[str]:
    """Return those of the inputs that move what a sensor reads, as an accelerometer does the force on it."""
    if not inputs:
        return []
    names, x = sorted(inputs), jnp.zeros(problem.n)
    held = {name: jnp.asarray(params[name], float) for name in names}
    jaxpr: Any = jax.make_jaxpr(lambda x, held: sensor.value(problem, 0.0, x, {**params, **held}))(x, held).jaxpr
    used = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1]
    return [name for name, is_used in zip(names, used[1:], strict=True) if is_used]


def linear_readings(plant: Plant, sensors: Sequence[Sensor]) -> Readings:
    """Return what the sensors read, as matrices, with their noise as it is: white, of a filter, and of rounding."""
    with jax.enable_x64(True):
        parts = [_reading(plant, sensor) for sensor in sensors]
    H = np.concatenate([part.H for part in parts])
    return Readings(H, *(scipy.linalg.block_diag(*(part[k] for part in parts)) for k in range(1, 6)))


def _reading(plant: Plant, sensor: Sensor) -> Readings:
    params = jax.tree.map(lambda v: np.asarray(v, float), plant.problem.example_params())
    zero = np.zeros(len(plant.A))
    if felt := inputs_read(sensor, plant.problem, params, plant.inputs):
        raise ValueError(
            f"of ({sensor.name}): reads the input {felt[0]}; a filter here takes readings of the state alone. Write "
            "the estimator as a Part, or read the state"
        )
    words = f"of ({sensor.name}): the reading is"
    H, rest = affine(words, lambda x: sensor.value(plant.problem, 0.0, x, params), zero)
    _refuse_rest(words, rest)
    law = sensor.recursion(len(H))
    white = np.broadcast_to(np.asarray(law.white(params), float), len(H)) ** 2
    if isinstance(sensor.noise, Distribution):
        if abs(sensor.noise.mean) > 1e-9 * sensor.noise.variance**0.5:
            raise ValueError(f"noise ({sensor.name}): its mean is {sensor.noise.mean:g}, expected 0")
        white = white + sensor.noise.variance
    rounding = 0.0 if sensor.resolution is None else sensor.resolution**2 / 12.0
    return Readings(H, law.Phi, law.C, law.drive @ law.drive.T, np.diag(white + rounding), law.start @ law.start.T)
