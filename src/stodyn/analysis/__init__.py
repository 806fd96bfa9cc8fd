"""Questions about methods and problems."""

from stodyn.analysis.periodic import periodic
from stodyn.analysis.phase_noise import phase_noise

__all__ = ["periodic", "phase_noise"]
