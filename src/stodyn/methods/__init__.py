"""One step of it: every method is one value in one file."""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
