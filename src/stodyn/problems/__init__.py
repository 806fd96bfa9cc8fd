"""Problems, what is solved: frozen records of functions and numbers.

Of its modules only `contract`, for authors, is public; problems are found in `stodyn`.
"""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
