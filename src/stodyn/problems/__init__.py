"""What is solved: frozen records of functions and numbers."""

from stodyn import listing

__getattr__ = listing.modules_on_demand(__name__)
