"""Expectations to a stated error: levels of steps, points, and how many of each.

Private: names in here may change in any version; the public ones are those of `stodyn`.
"""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
