"""The public door to system/ergodic.py."""

import sys

from stodyn.analysis.system.ergodic import *

sys.modules[__name__] = sys.modules["stodyn.analysis.system.ergodic"]
