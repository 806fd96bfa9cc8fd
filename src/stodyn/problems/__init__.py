"""Problems to be solved: frozen records of functions and numbers.

Only the module `contract`, for authors, is public here; the problems themselves are in `stodyn`.
"""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
