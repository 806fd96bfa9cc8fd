"""Methods: one value in one file describes a step and its claims.

`sd.method(name)` finds a method. The names listed in __init__.pyi are for those who write methods of their own; all
other modules are private.
"""

from stodyn import listing

__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)
