"""From data to models: what a record says of states and parameters.

Private: names in here may change in any version; the public ones are those of `stodyn`.
"""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
