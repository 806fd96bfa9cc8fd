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
    PerPath,
    Truncated,
    Uniform,
)

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
    "coloured",
    "discrete",
    "iterated",
    "rejection",
    "stages",
    "wiener",
]
