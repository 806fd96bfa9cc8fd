"""Every claim of every method of the catalogue, measured.

Seeds are fixed. Intervals are at the level 1 - 1e-6, so a right claim with another seed would fail once in a million
for each that is sampled; those that are computed do not depend on a seed.
"""

import dataclasses
import os
import runpy
from pathlib import Path

import numpy as np
import pytest

from stodyn.analysis.check import check_method, examples
from stodyn.analysis.order import deterministic_order, strong_order, unpacked, weak_order
from stodyn.engine.spec import matched
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.methods.dyadic import Dyadic, follows_the_path, takes_halves
from stodyn.problems.contract import STRUCTURES
from stodyn.problems.sde import SDE

pytestmark = pytest.mark.usefixtures("quick_compiling")
HERE = Path(__file__).parent
LEVEL = 1.0 - 1e-6
SLACK = 0.05  # where nothing is sampled the interval is the bend, which may vanish by accident
MANY_NORMALS = 12  # beyond which moments are not computed
FILES = [runpy.run_path(str(file)) for file in sorted(HERE.glob("problems*.py"))]
CASES = {kind: cases for file in FILES for kind, cases in file["CASES"].items()}
PROPERTIES = {key: function for file in FILES for key, function in file["PROPERTIES"].items()}
STEPPERS = {name: method for name, method in catalogue().items() if isinstance(method, Method)}
FIRST_OF_CLASS = {type(method): name for name, method in reversed(STEPPERS.items())}
FULL = bool(os.environ.get("STODYN_FULL"))
CHECKED = STEPPERS if FULL else FIRST_OF_CLASS.values()
computed_weak_order = runpy.run_path(str(HERE / "polynomials.py"))["computed_weak_order"]


def case(method, kind, structure):
    """The first problem that the method takes, and its options; without a structure, of the most general one."""
    cases = CASES[method.accepts].get(kind, {})
    for wanted in reversed(STRUCTURES) if structure is None else (structure,):
        found = cases.get(wanted, [])
        for entry in found if isinstance(found, list) else [found]:
            problem, options = entry(method) if callable(entry) else entry
            if method.refusal(unpacked(problem)[0]) is None:
                return problem, options
    raise AssertionError(f"no problem for {kind} orders with {structure or 'any'} noise that {method.name} takes")


def holds(claim, study, most, next_order=0.5):
    """The interval contains the claim, and no half order beside it unless the method claims more for the problem."""
    found = study if isinstance(study, dict) else study.attrs
    low, high = found["order_low"], found["order_high"]
    seen = f"{claim.kind} order {found['order']:.3f} in [{low:.3f}, {high:.3f}], claimed {claim.order}\n{study}"
    assert high >= claim.order - SLACK, seen
    if most <= claim.order:
        assert claim.order - next_order < low <= claim.order + SLACK and high < claim.order + next_order, seen


def strong(method, claim, structure):
    problem, options = case(method, "strong", structure)
    study = strong_order(problem, method, level=LEVEL, seed=1, **options)
    holds(claim, study, method.promised("strong", unpacked(problem)[0].noise_structure))


def weak(method, claim, structure):
    """Order 1 on linear problems, from the moments of the steps; higher orders on nonlinear ones, from expectations of
    polynomials. Sampled where a step has too many normals for that, or the kind of problem has no such cases."""
    cases = CASES[method.accepts]
    many = sum(method.needs.normals(2).values()) > MANY_NORMALS
    kinds = ["weak, nonlinear"] * (claim.order > 1) + ["weak"] * (not many) + ["weak, sampled"]
    kind = next(kind for kind in kinds if kind in cases)
    problem, options = case(method, kind, structure)
    if kind == "weak, nonlinear":
        study = computed_weak_order(method, problem, **options)
    else:
        study = weak_order(problem, method, level=LEVEL, seed=2, **options)
        assert study.attrs["how"] == ("moments" if kind == "weak" else "sampled")
    holds(claim, study, method.promised("weak", unpacked(problem)[0].noise_structure))


def deterministic(method, claim, structure):
    problem, options = case(method, "deterministic", structure)
    holds(claim, deterministic_order(problem, method, **options), most=0.0, next_order=1.0)


ORDERS = {"strong": strong, "weak": weak, "deterministic": deterministic}


def has_table(method):
    return any(hasattr(method, numbers) for numbers in ("table", "form", "A"))


def asked():
    """(method, claim, structure) of what is measured.

    Methods of one class that have a table are one formula with other numbers, which other tests prove to fulfil the
    conditions of their order. Of those that claim the same for their noise the first is measured, on the most general
    noise that the claim names; `make test-full` measures every claim of every method on all noise that it names.
    """
    seen = set()
    for method in catalogue().values():
        for claim in method.claims:
            claimed = list(claim.when) if claim.kind in ORDERS else []
            named = sorted(set(claimed) & set(STRUCTURES), key=STRUCTURES.index)
            for structure in [wanted for wanted in claimed if FULL or wanted not in named[:-1]] or [None]:
                alike = type(method) if has_table(method) and claim.kind != "deterministic" else method.name
                key = alike, claim.kind, claim.order, structure
                if FULL or key not in seen:
                    yield method, claim, structure
                seen.add(key)


@pytest.mark.parametrize(
    ("method", "claim", "structure"),
    [
        pytest.param(*case, id=f"{case[0].name}-{case[1].kind}-{float(case[1].order or 0):g}-{case[2] or 'any'}")
        for case in asked()
    ],
)
def test_claims(method, claim, structure):
    assert method.accepts in CASES, (
        f"no problems for {method.accepts.__name__}: add a problems_<kind>.py to this folder"
    )
    own = PROPERTIES.get((method.accepts, claim.kind))
    assert own or claim.kind in ORDERS, f"{claim.kind}: nothing measures it; add it to PROPERTIES of a problems*.py"
    if own:
        own(method)
    else:
        ORDERS[claim.kind](method, claim, structure)


@pytest.mark.parametrize("name", [n for n, m in STEPPERS.items() if takes_halves(m) and follows_the_path(m)])
def test_steps_halved_by_looking_at_the_noise_have_the_right_limit(name):
    """dX = X o dW is exp(W) on every path: the errors of Dyadic on a base that it takes vanish with tol."""
    base, paths = STEPPERS[name], 200
    problem = SDE(lambda t, x: 0.0 * x, lambda t, x: x, 1.0, calculus="stratonovich")
    W = np.cumsum(0.5 * np.random.default_rng(0).standard_normal((4, 1, paths)), axis=0)[-1, 0]
    errors = []
    for tol in (1e-1, 1e-4):
        streams = {name: np.random.default_rng(k) for k, name in enumerate(("W", "aux"))}
        solver = Dyadic(base=base, tol=tol)
        x = solver.solve(matched(problem, solver)[0], np.linspace(0.0, 1.0, 5), np.ones((paths, 1)), None, streams)
        errors.append(np.abs(x[-1, :, 0] / np.exp(W) - 1.0).mean())
    assert errors[1] < 0.005 and errors[1] < max(errors[0] / 4, 1e-5), errors


@pytest.mark.parametrize("name", CHECKED)
def test_every_method_passes_the_suite(name):
    """On the most general noise that it takes; the first value of a class also on diagonal noise.

    The values of a class are one formula with other numbers, and the claims of each are measured above: `make
    test-full` asks the suite of all of them.
    """
    method = STEPPERS[name]
    first = STEPPERS[FIRST_OF_CLASS[type(method)]]
    tried = sorted(examples(method), key=lambda problem: STRUCTURES.index(problem.noise_structure.kind))
    diagonal = [problem for problem in tried[:-1] if problem.noise_structure.kind == "diagonal"]
    check_method(method, tried[-1:] + (diagonal if method is first else []))


def test_areas_are_what_milstein_needs_where_channels_do_not_commute():
    """With areas order 1 (above), and exactly the same step without them (W_j W_k/2 for I_(j,k)) order 1/2."""
    problem, options = case(STEPPERS["MilsteinLevy"], "strong", "general")
    forced = dataclasses.replace(problem, structure="commutative")
    without = strong_order(forced, STEPPERS["Milstein"], level=LEVEL, seed=1, **options)
    assert without.attrs["order_low"] <= 0.5 <= without.attrs["order_high"] < 1.0, without
    assert np.all(without["used"])
