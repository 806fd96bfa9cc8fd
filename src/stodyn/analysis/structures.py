"""The public door to system/structures.py."""

import sys

from stodyn.analysis.system.structures import *

sys.modules[__name__] = sys.modules["stodyn.analysis.system.structures"]
