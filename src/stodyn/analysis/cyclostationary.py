"""The public door to cycle/cyclostationary.py."""

import sys

from stodyn.analysis.cycle.cyclostationary import *

sys.modules[__name__] = sys.modules["stodyn.analysis.cycle.cyclostationary"]
