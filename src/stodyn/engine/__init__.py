"""Who runs where."""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
