"""The public door to system/tolerance.py."""

import sys

from stodyn.analysis.system.tolerance import *

sys.modules[__name__] = sys.modules["stodyn.analysis.system.tolerance"]
