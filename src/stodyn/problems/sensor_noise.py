"""The noise of a sensor's readings at whatever times they are taken, and the windows over which they are averaged."""

from __future__ import annotations

from typing import Any

from stodyn.noise.distribution import Distribution
from stodyn.noise.inertial import Inertial
from stodyn.noise.readings import Density, PerSample, resolved
from stodyn.problems.sensor import Sensor


def window(sensor: Sensor) -> float | None:
    """Return the length over which a sensor averages; None where it reads points or increments."""
    if not sensor.average or sensor.increment:
        return None
    if sensor.average is True:
        if sensor.every is None:
            raise ValueError(
                f"average ({sensor.name}): True means `every`, which the sensor does not have; give the time"
            )
        return float(sensor.every)
    if not sensor.average > 0:
        raise ValueError(f"average ({sensor.name}): expected a positive time, got {sensor.average!r}")
    return float(sensor.average)


def interval(sensor: Sensor) -> float:
    """Return the time that a reading takes."""
    length = sensor.every if sensor.every is not None else window(sensor)
    if length is None:
        raise ValueError(
            f"noise ({sensor.name}): a density needs the time that a reading takes: give every= or average=, or "
            "sd.per_sample(...)"
        )
    return float(length)


def independent(sensor: Sensor, params: Any) -> Any:
    """Return the variance of the independent noise of a reading that is normal; of increments, that which does not grow
    with time."""
    noise = sensor.noise
    if isinstance(noise, PerSample):
        return resolved(noise.size, params) ** 2
    if isinstance(noise, Density | Inertial) and not sensor.increment:
        return root(sensor, params) ** 2 / interval(sensor)
    return 0.0


def root(sensor: Sensor, params: Any) -> Any:
    """Return the root of the two-sided density of white noise; 0 where there is none, or a bandwidth colours it."""
    noise = sensor.noise
    if isinstance(noise, Inertial):
        return noise.N
    return noise.two_sided(params) if isinstance(noise, Density) and noise.bandwidth is None else 0.0


def is_drawn_alone(sensor: Sensor) -> bool:
    """Return whether the noise of a reading is a draw of a distribution."""
    return isinstance(sensor.noise, Distribution)
