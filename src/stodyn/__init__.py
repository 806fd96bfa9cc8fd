"""stodyn: simulate physical systems with noise in them.

__init__.pyi lists the public names and where each is from; a name is imported when it is first used.
"""

from stodyn import listing

__version__ = "0.3.0"  # the one home of the version: the wheel, the records of runs and the documents read it


def _elsewhere(name: str) -> str:
    """Return how a name of another part of the library is written; "" where there is no such name."""
    if not name[:1].isupper():
        return ""
    from stodyn.methods.catalogue import catalogue

    return listing.below(__file__, name) or (f"stodyn.method({name!r})" if name in catalogue() else "")


__all__, __getattr__, __dir__ = listing.on_demand(
    __name__,
    __file__,
    renamed={"exactly_filtered": "ExactNoise(method), and takes problem and dt from the run,"},
    elsewhere=_elsewhere,
)
