"""Ready-made systems with their equations, parameters and exact answers, one file per family."""

from stodyn import listing

__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)
