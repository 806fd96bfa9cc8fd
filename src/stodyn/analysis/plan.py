"""The public door to system/plan.py."""

import sys

from stodyn.analysis.system.plan import *

sys.modules[__name__] = sys.modules["stodyn.analysis.system.plan"]
