"""Every claim of every method of the catalogue, measured.

Seeds are fixed. Intervals are at the level 1 - 1e-6, so a right claim with another seed would fail once in a million
for each that is sampled; those that are computed do not depend on a seed.
"""

import dataclasses
import functools
import os
import runpy
from pathlib import Path

import numpy as np
import pytest

from stodyn.analysis import linear, order
from stodyn.analysis.check import SUITE, check_method, examples
from stodyn.analysis.order import deterministic_order, strong_order, unpacked, weak_order
from stodyn.analysis.step import expectation, one_step
from stodyn.engine.spec import matched
from stodyn.methods.alpha import GeneralisedAlpha
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.methods.dyadic import Dyadic, follows_the_path, takes_halves
from stodyn.methods.langevin import Shifted
from stodyn.methods.langevin_splitting import Splitting
from stodyn.methods.milstein import Milstein
from stodyn.methods.multistep import AdamsBashforth, AdamsMoulton
from stodyn.methods.platen import PlatenWeak2
from stodyn.methods.stiff import StiffMilstein
from stodyn.methods.tableau import Table
from stodyn.problems.contract import STRUCTURES
from stodyn.problems.mechanical import Mechanical
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
FULL = bool(os.environ.get("STODYN_FULL"))
# All four coefficients, the longest history, implicit with forces, most terms of the noise, areas.
MOST_GENERAL = (
    "StochasticAlpha",
    "AB4",
    "AM5",
    "ShiftedDIRK",
    "RattleAlpha15",
    "ShiftedRattle15",
    "RK1A3MLevy",
    "StiffMilsteinLevy",
)
exact_moments = functools.cache(expectation._exact_moments)
computed_weak_order = runpy.run_path(str(HERE / "polynomials.py"))["computed_weak_order"]


@pytest.fixture(autouse=True)
def facts_are_found_once(monkeypatch):
    """The problems of this folder read nothing that changes: what was found of one for a method holds for the next."""
    for module in (order, linear, one_step):
        monkeypatch.setattr(module, "as_it_is_now", lambda problem: problem)
    monkeypatch.setattr(expectation, "_exact_moments", exact_moments)


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


# Classes whose values are one formula with other numbers or other noise -> the claims for which one speaks for all. The
# shifts of Shifted are translations, which leave everything but the strong order to the base, which is measured
# itself; the numbers of Adams' formulas are measured without noise, where those of Milstein's do not differ.
SPEAKS_FOR_ALL = {
    Shifted: ("weak", "deterministic", "symplectic"),
    AdamsBashforth: ("strong", "weak"),
    AdamsMoulton: ("weak",),
    Splitting: ("strong", "symplectic"),
    type(Milstein): ("deterministic",),
    type(StiffMilstein): ("deterministic",),
    type(PlatenWeak2): ("deterministic",),
}


def formula(method, kind=None):
    """What methods have in common of which one is measured for all that claim the same.

    The conditions that tables fulfil are proved by other tests, for the deterministic order where they are a Table.
    The values of a class for mechanical systems differ in their terms of the noise, those of GeneralisedAlpha in four
    coefficients as well, which are measured without noise.
    """
    if isinstance(method, GeneralisedAlpha):
        return type(method) if kind == "deterministic" else GeneralisedAlpha
    has_table = any(hasattr(method, numbers) for numbers in ("table", "form", "A"))
    has_proof = has_table and (kind != "deterministic" or isinstance(getattr(method, "table", None), Table))
    one = has_proof or method.accepts is Mechanical or kind in SPEAKS_FOR_ALL.get(type(method), ())
    return type(method) if one else method.name


def first_of_each(key):
    """The names of the methods that step, or of those with the same key only the first; the most general ones first."""
    found = {}
    for name, method in sorted(STEPPERS.items(), key=lambda item: item[0] not in MOST_GENERAL):
        found.setdefault(name if FULL else key(method), name)
    return found.values()


def asked():
    """(method, claim, structure) of what is measured.

    Of the methods that are one formula and claim the same for their noise the first is measured, on the most general
    noise that the claim names; `make test-full` measures every claim of every method on all noise that it names.
    """
    seen = set()
    for method in sorted(catalogue().values(), key=lambda method: method.name not in MOST_GENERAL):
        for claim in method.claims:
            claimed = list(claim.when) if claim.kind in ORDERS else []
            named = sorted(set(claimed) & set(STRUCTURES), key=STRUCTURES.index)
            for structure in [wanted for wanted in claimed if FULL or wanted not in named[:-1]] or [None]:
                key = formula(method, claim.kind), claim.kind, claim.order, structure
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
def test_a_method_has_the_order_or_property_that_it_claims(method, claim, structure):
    assert method.accepts in CASES, (
        f"no problems for {method.accepts.__name__}: add a problems_<kind>.py to this folder"
    )
    own = PROPERTIES.get((method.accepts, claim.kind))
    assert own or claim.kind in ORDERS, f"{claim.kind}: nothing measures it; add it to PROPERTIES of a problems*.py"
    if own:
        own(method)
    else:
        ORDERS[claim.kind](method, claim, structure)


HALVED = [name for name in first_of_each(formula) if takes_halves(STEPPERS[name]) and follows_the_path(STEPPERS[name])]


@pytest.mark.parametrize("name", HALVED)
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


def of_one_class(method):
    return GeneralisedAlpha if isinstance(method, GeneralisedAlpha) else type(method)


# Other tests hold their paths to tabulated digits, and the suite is asked of RattleAlpha15 and ConstrainedBAOAB.
TABULATED = () if FULL else ("ProjectedAlpha", "ShiftedRattle15")


@pytest.mark.parametrize("name", [name for name in first_of_each(of_one_class) if name not in TABULATED])
def test_every_method_passes_the_suite(name, monkeypatch):
    """On the most general noise that it takes, and where that is not all noise, on diagonal noise as well. Strong
    and weak orders have been measured above.

    The values of a class are one formula with other numbers, and the claims of each are measured above: `make
    test-full` asks the suite of all of them.
    """
    if not FULL:
        for question in ("strong", "weak"):
            monkeypatch.delitem(SUITE, question)
    method = STEPPERS[name]
    tried = sorted(examples(method), key=lambda problem: STRUCTURES.index(problem.noise_structure.kind))
    diagonal = [problem for problem in tried[:-1] if problem.noise_structure.kind == "diagonal"]
    check_method(method, tried[-1:] + diagonal * (FULL or tried[-1].noise_structure.kind != "general"))


def test_areas_are_what_milstein_needs_where_channels_do_not_commute():
    """With areas order 1 (above), and exactly the same step without them (W_j W_k/2 for I_(j,k)) order 1/2."""
    problem, options = case(STEPPERS["MilsteinLevy"], "strong", "general")
    forced = dataclasses.replace(problem, structure="without areas")
    without = strong_order(forced, STEPPERS["Milstein"], level=LEVEL, seed=1, **options)
    assert without.attrs["order_low"] <= 0.5 <= without.attrs["order_high"] < 1.0, without
    assert np.all(without["used"])
