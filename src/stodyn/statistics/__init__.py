"""Statistics to collect from a run."""

from stodyn import listing

__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)
