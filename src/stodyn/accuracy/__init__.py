"""Expectations to a stated error: levels of steps, points, and how many of each."""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
