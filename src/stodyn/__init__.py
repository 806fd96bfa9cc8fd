"""stodyn: simulate physical systems with noise in them.

__init__.pyi lists the public names and where each is from; a name is imported when it is first used.
"""

from stodyn import listing

__version__ = "0.2.0"  # the one home of the version: the wheel, the records of runs and the documents read it
__all__, __getattr__, __dir__ = listing.on_demand(
    __name__, __file__, renamed={"exactly_filtered": "ExactNoise(method), and takes problem and dt from the run,"}
)
