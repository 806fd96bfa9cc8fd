"""Mathematics that knows nothing of dynamics."""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
