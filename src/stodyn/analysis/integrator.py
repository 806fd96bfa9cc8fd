"""The public door to step/integrator.py."""

import sys

from stodyn.analysis.step.integrator import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.integrator"]
