"""No function has more than eight parameters; what a user calls with more takes the further ones by name."""

import ast
from pathlib import Path

import stodyn

PACKAGE = Path(stodyn.__file__).parent
MOST = 8
OPTIONS_BY_NAME = {
    "accuracy/estimate.py": {"estimate"},
    "accuracy/rare.py": {"rare"},
    "analysis/ergodic.py": {"long_run"},
    "analysis/order.py": {"strong_order", "weak_order"},
    "analysis/phase_noise.py": {"phase_noise"},
    "analysis/tolerance.py": {"split_variance"},
    "cli/circuit.py": {"command"},
    "cli/order.py": {"command"},
    "engine/ready.py": {"prepare"},
    "engine/simulate.py": {"simulate"},
    "engine/sweep.py": {"sweep"},
    "models/jointed.py": {"jointed_pendulum", "crank", "four_bar", "hoisting_crane", "_trolley_and_angle"},
    "models/miller_integrator.py": {"miller_integrator"},
    "problems/lagrangian.py": {"from_energies"},
    "problems/linear.py": {"linear"},
    "problems/structural.py": {"structure"},
}


def parameters(function):
    """The numbers of parameters: those that may be given by place, and all."""
    by_place = [a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg not in ("self", "cls")]
    return len(by_place), len(by_place) + len(function.args.kwonlyargs)


def test_functions_have_few_parameters():
    crowded, by_name = [], {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                by_place, count = parameters(node)
                if count > MOST and node.name in OPTIONS_BY_NAME.get(file, ()):
                    by_name.setdefault(file, set()).add(node.name)
                    count = by_place
                if count > MOST:
                    crowded.append(f"{file}: {node.name} has {count}")
    assert not crowded
    assert by_name == OPTIONS_BY_NAME
