"""stodyn: simulate physical systems with noise in them.

__init__.pyi lists the names and where each is from; a name is imported when it is first used.
"""

from importlib import metadata

from stodyn import listing

__version__ = metadata.version("stodyn")
__all__, __getattr__, __dir__ = listing.on_demand(__name__, __file__)
