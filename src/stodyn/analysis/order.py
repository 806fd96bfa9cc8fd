"""The public door to step/order.py."""

import sys

from stodyn.analysis.step.order import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.order"]
