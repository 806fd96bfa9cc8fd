"""The public door to system/conservation.py."""

import sys

from stodyn.analysis.system.conservation import *

sys.modules[__name__] = sys.modules["stodyn.analysis.system.conservation"]
