"""The public door to step/covariance.py."""

import sys

from stodyn.analysis.step.covariance import *

sys.modules[__name__] = sys.modules["stodyn.analysis.step.covariance"]
