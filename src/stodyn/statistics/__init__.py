"""What to keep of a run."""

from stodyn.statistics.histogram import Histogram
from stodyn.statistics.iterations import Iterations
from stodyn.statistics.moments import Moments
from stodyn.statistics.observable import Observable
from stodyn.statistics.paths import Paths

__all__ = ["Histogram", "Iterations", "Moments", "Observable", "Paths"]
