"""Analyses of methods and problems."""

from stodyn import listing
from stodyn.analysis.periodic import periodic as periodic  # not on demand: their modules have the same names
from stodyn.analysis.phase_noise import phase_noise as phase_noise

__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)
