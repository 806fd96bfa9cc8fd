from stodyn.statistics import contract, functional
from stodyn.statistics.change import Change
from stodyn.statistics.extreme import Extreme
from stodyn.statistics.histogram import Histogram
from stodyn.statistics.iterations import Iterations
from stodyn.statistics.moments import Averaged, Moments, summarise
from stodyn.statistics.observable import Observable
from stodyn.statistics.passage import Passage
from stodyn.statistics.paths import Paths
from stodyn.statistics.rainflow import Rainflow
from stodyn.statistics.reaction import Reaction
from stodyn.statistics.sensed import Sensed
from stodyn.statistics.series import Allan, Autocorrelation, Spectrum
from stodyn.statistics.surrogate import Surrogate

__all__ = [
    "Allan",
    "Autocorrelation",
    "Averaged",
    "Change",
    "Extreme",
    "Histogram",
    "Iterations",
    "Moments",
    "Observable",
    "Passage",
    "Paths",
    "Rainflow",
    "Reaction",
    "Sensed",
    "Spectrum",
    "Surrogate",
    "contract",
    "functional",
    "summarise",
]
