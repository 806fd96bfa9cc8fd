"""Problems to be solved: frozen records of functions and numbers.

The kinds of problems are names of `stodyn`. The names listed in __init__.pyi are exact conversions between problems,
and the contract for those who write a kind of problem of their own; all other modules are private.
"""

from stodyn import listing

__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)

from stodyn.problems import lowering as _lowering  # noqa: E402, F401  # so that every problem knows its conversions
