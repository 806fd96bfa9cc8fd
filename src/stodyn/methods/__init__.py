"""Methods: one value in one file describes a step and its claims.

Of its modules only `contract`, for authors, is public; `sd.method(name)` finds a method.
"""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
