"""The public door to step/linear.py."""

import sys

from stodyn.analysis.step.linear import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.linear"]
