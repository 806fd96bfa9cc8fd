"""Randomness in parameters: orthonormal bases, grids, coupled systems, and what an expansion tells."""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
