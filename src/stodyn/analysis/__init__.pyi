from stodyn.analysis import check, check_problem, check_statistic, choosing, comparing
from stodyn.analysis.cycle import cyclostationary
from stodyn.analysis.cycle.periodic import periodic
from stodyn.analysis.cycle.phase_noise import phase_noise
from stodyn.analysis.step import (
    covariance,
    integrator,
    linear,
    order,
    second_order,
    small_noise,
    stability,
    stability_function,
)
from stodyn.analysis.step.stationary import stationary
from stodyn.analysis.system import conservation, ergodic, fatigue, plan, structures, tolerance, transient_noise
from stodyn.analysis.system.allan import allan
from stodyn.analysis.system.allan_models import allan_variance
from stodyn.analysis.system.sampled import sampled
from stodyn.engine.looking import evaluate

__all__ = [
    "allan",
    "allan_variance",
    "check",
    "check_problem",
    "check_statistic",
    "choosing",
    "comparing",
    "conservation",
    "covariance",
    "cyclostationary",
    "ergodic",
    "evaluate",
    "fatigue",
    "integrator",
    "linear",
    "order",
    "periodic",
    "phase_noise",
    "plan",
    "sampled",
    "second_order",
    "small_noise",
    "stability",
    "stability_function",
    "stationary",
    "structures",
    "tolerance",
    "transient_noise",
]
