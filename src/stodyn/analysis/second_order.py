"""The public door to step/second_order.py."""

import sys

from stodyn.analysis.step.second_order import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.second_order"]
