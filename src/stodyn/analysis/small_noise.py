"""The public door to step/small_noise.py."""

import sys

from stodyn.analysis.step.small_noise import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.small_noise"]
