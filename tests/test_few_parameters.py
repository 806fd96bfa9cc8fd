"""No function has more than eight parameters; what users call with more takes the further ones by name."""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import stodyn

PACKAGE = Path(stodyn.__file__).parent
MOST = 8
OPTIONS_BY_NAME = {
    "accuracy/estimate.py": {"estimate", "__init__"},
    "accuracy/rare.py": {"rare"},
    "accuracy/sensitivity.py": {"sensitivity"},
    "analysis/cycle/phase_noise.py": {"phase_noise"},
    "analysis/step/order.py": {"strong_order", "weak_order"},
    "analysis/system/ergodic.py": {"long_run"},
    "analysis/system/tolerance.py": {"split_variance"},
    "cli/circuit.py": {"command"},
    "cli/export.py": {"command"},
    "cli/order.py": {"command"},
    "engine/ready.py": {"prepare"},
    "engine/simulate.py": {"simulate"},
    "engine/sweep.py": {"sweep"},
    "inference/filtering.py": {"filtered", "smoothed"},
    "inference/fitting.py": {"fit"},
    "inference/likelihood.py": {"likelihood"},
    "inference/question.py": {"question_of"},
    "exporting/export.py": {"export"},
    "models/jointed.py": {"jointed_pendulum", "crank", "four_bar", "hoisting_crane", "_trolley_and_angle"},
    "models/miller_integrator.py": {"miller_integrator"},
    "noise/inertial.py": {"accelerometer", "gyro"},
    "problems/lagrangian.py": {"from_energies"},
    "problems/linear.py": {"linear"},
    "problems/looped.py": {"__init__"},
    "problems/parts.py": {"kalman", "linear", "pid"},
    "problems/sensor.py": {"__init__"},
    "problems/structural.py": {"structure"},
}


def with_inner(code):
    """The code of a module, and of all functions and classes in it; bytecode that is stored is not made again."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from with_inner(constant)


def parameters(code):
    """The numbers of parameters: those that may be given by place, and all."""
    by_place = code.co_argcount - (code.co_varnames[:1] in (("self",), ("cls",)))
    return by_place, by_place + code.co_kwonlyargcount


def test_functions_have_few_parameters():
    crowded, by_name = [], {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        for code in with_inner(SourceFileLoader(path.stem, str(path)).get_code(path.stem)):
            by_place, count = parameters(code)
            if count > MOST and code.co_name in OPTIONS_BY_NAME.get(file, ()):
                by_name.setdefault(file, set()).add(code.co_name)
                count = by_place
            if count > MOST:
                crowded.append(f"{file}: {code.co_name} has {count}")
    assert not crowded
    assert by_name == OPTIONS_BY_NAME
