from stodyn.noise import (
    coloured,
    discrete,
    iterated,
    rejection,
    stages,
    wiener,
)
from stodyn.noise.distribution import (
    Beta,
    Density,
    Distribution,
    Exponential,
    Gamma,
    LogNormal,
    Normal,
    Truncated,
    Uniform,
)
from stodyn.noise.hosts import white
from stodyn.noise.inertial import accelerometer, gyro, imu
from stodyn.noise.source import PerPath

__all__ = [
    "Beta",
    "Density",
    "Distribution",
    "Exponential",
    "Gamma",
    "LogNormal",
    "Normal",
    "PerPath",
    "Truncated",
    "Uniform",
    "accelerometer",
    "coloured",
    "discrete",
    "gyro",
    "imu",
    "iterated",
    "rejection",
    "stages",
    "white",
    "wiener",
]
