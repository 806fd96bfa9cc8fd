"""Randomness in parameters: orthonormal bases, grids, coupled systems, and what an expansion tells.

Private: names in here may change in any version; the public ones are those of `stodyn`.
"""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
