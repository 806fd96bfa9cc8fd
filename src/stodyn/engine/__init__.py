"""Running ensembles: the spec of a run, how and where its blocks are computed, and how results are merged.

Private: names in here may change in any version; the public ones are those of `stodyn`.
"""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
