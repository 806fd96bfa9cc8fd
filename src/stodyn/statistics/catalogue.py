"""The statistics, found by listing: each is a class in a file of this folder."""

from stodyn import listing, statistics
from stodyn.statistics.contract import Statistic


def catalogue() -> dict[str, type[Statistic]]:
    """Return name -> class, for every statistic in this folder that users may collect."""
    kinds = listing.classes(statistics, Statistic)
    return {name: kind for name, kind in kinds.items() if kind.collected_by_users}


def find(name: str) -> type[Statistic]:
    """Return the statistic called `name`, or raise an error that suggests similar names."""
    return listing.find(name, catalogue(), "statistic")
