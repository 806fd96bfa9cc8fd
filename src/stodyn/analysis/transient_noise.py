"""The public door to system/transient_noise.py."""

import sys

from stodyn.analysis.system.transient_noise import *

sys.modules[__name__] = sys.modules["stodyn.analysis.system.transient_noise"]
