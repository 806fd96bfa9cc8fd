"""Analyses of methods and problems: of a step, of a cycle, of a whole system.

The public names are at this door (`stodyn.analysis.covariance`), whichever of the three rooms they live in.
"""

from stodyn import listing

__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)
