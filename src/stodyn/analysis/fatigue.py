"""The public door to system/fatigue.py."""

import sys

from stodyn.analysis.system.fatigue import *

sys.modules[__name__] = sys.modules["stodyn.analysis.system.fatigue"]
