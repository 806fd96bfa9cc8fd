"""The public door to step/stability_function.py."""

import sys

from stodyn.analysis.step.stability_function import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.stability_function"]
