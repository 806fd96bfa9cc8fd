"""Random numbers, distributions and noise processes; nothing here depends on problems."""

from stodyn import listing

__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)
