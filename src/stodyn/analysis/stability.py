"""The public door to step/stability.py."""

import sys

from stodyn.analysis.step.stability import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.stability"]
