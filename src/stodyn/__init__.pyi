from stodyn import analysis, circuits, hints, methods, models, noise, plot, problems, statistics, warnings
from stodyn.accuracy.estimate import estimate
from stodyn.accuracy.fragility import fragility
from stodyn.accuracy.rare import rare
from stodyn.accuracy.sensitivity import sensitivity
from stodyn.analysis.choosing import recommend
from stodyn.analysis.comparing import compare
from stodyn.analysis.system import structures
from stodyn.analysis.system.plan import plan
from stodyn.engine import place
from stodyn.engine.failure import PathsFailed
from stodyn.engine.path import draw_increments, increments, path
from stodyn.engine.ready import prepare
from stodyn.engine.record.ledger import load, status
from stodyn.engine.simulate import replay, simulate
from stodyn.engine.sweep import difference, sweep
from stodyn.engine.until import until
from stodyn.exporting.export import export
from stodyn.inference.filtering import filtered, smoothed
from stodyn.inference.fitting import fit, fitted
from stodyn.inference.likelihood import likelihood
from stodyn.inference.record import Record
from stodyn.methods.catalogue import find as method
from stodyn.methods.filtered import ExactNoise
from stodyn.methods.stopping import Stop
from stodyn.noise.from_normals import from_normals
from stodyn.noise.readings import density, per_sample
from stodyn.noise.source import PerPath
from stodyn.problems import bodies, elements, parts
from stodyn.problems.elements import with_elements
from stodyn.problems.excitation import with_noise
from stodyn.problems.ground import base_excited
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.impact import Impact, Restitution
from stodyn.problems.level import Level
from stodyn.problems.linear import linear
from stodyn.problems.looped import Part, true, with_loop
from stodyn.problems.measured import with_measurement
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.operators import diagonal, product, sparse
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Jitter, Sensor
from stodyn.problems.walls import Walls, with_walls
from stodyn.results import interval, provenance, quantile, save

__all__ = [
    "SDAE",
    "SDE",
    "ExactNoise",
    "Hamiltonian",
    "Impact",
    "Jitter",
    "Level",
    "Mechanical",
    "Part",
    "PathsFailed",
    "PerPath",
    "RandomDAE",
    "Record",
    "Restitution",
    "Sensor",
    "Stop",
    "Walls",
    "analysis",
    "base_excited",
    "bodies",
    "circuits",
    "compare",
    "density",
    "diagonal",
    "difference",
    "draw_increments",
    "elements",
    "estimate",
    "export",
    "filtered",
    "fit",
    "fitted",
    "fragility",
    "from_normals",
    "hints",
    "increments",
    "interval",
    "likelihood",
    "linear",
    "load",
    "method",
    "methods",
    "models",
    "noise",
    "parts",
    "path",
    "per_sample",
    "place",
    "plan",
    "plot",
    "prepare",
    "problems",
    "product",
    "provenance",
    "quantile",
    "rare",
    "recommend",
    "replay",
    "save",
    "sensitivity",
    "simulate",
    "smoothed",
    "sparse",
    "statistics",
    "status",
    "structures",
    "sweep",
    "true",
    "until",
    "warnings",
    "with_elements",
    "with_loop",
    "with_measurement",
    "with_noise",
    "with_walls",
]
__version__: str
