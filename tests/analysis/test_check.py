"""The suite passes what is right, and names what is wrong with what is not."""

import dataclasses

import jax.numpy as jnp
import pytest

from stodyn.analysis.check import SUITE, CheckFailed, ask, check_method, examples
from stodyn.methods.contract import EXPLICIT, Claim, Method, Report
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint
from stodyn.methods.srk import SRA1, SRIW1
from stodyn.models.kubo import KUBO
from stodyn.models.noise_structures import ADDITIVE_NOISE, SCALAR_NOISE
from stodyn.noise import wiener
from stodyn.problems.contract import STRUCTURES
from stodyn.problems.sde import SDE

LINEAR = [KUBO.problem]


@dataclasses.dataclass(frozen=True)
class Made(Method):
    """A method from a function of (problem, t, x, noise, params)."""

    function: object
    claims: tuple = (Claim("deterministic", 1.0),)
    structures: tuple = ()
    calculus: str = "ito"

    accepts = SDE
    name = "Made"
    needs = wiener.W
    citation = "this file"

    def step(self, problem, t, x, noise, params):
        return self.function(problem, t, x, noise, params)


def euler(problem, t, x, noise, params):
    return x + noise.h * problem.f(t, x, params) + problem.g(t, x, params) @ noise.W, EXPLICIT


def failures(method, problems=None):
    with pytest.raises(CheckFailed) as found:
        check_method(method, problems)
    assert method.name in str(found.value)
    return {result.question: result.finding for result in found.value.results if not result.ok}


def test_a_right_method_passes_every_question():
    results = check_method(EulerMaruyama)
    assert [result.question for result in results] == list(SUITE)
    assert all(result.ok for result in results)
    seen = {result.question: result.finding for result in results}
    assert all(structure in seen["executors"] for structure in STRUCTURES)
    assert seen["report"] == "explicit" and seen["table"] == "it has none"
    assert (
        "strong order 0.5 is measured by `strong`" in seen["claims"]
        and "weak order 1 is measured by `weak`" in seen["claims"]
    )
    assert "for additive noise; order" in seen["strong"] and seen["strong"].endswith("for general noise")
    assert check_method(Made(euler), LINEAR)


def test_tables_implicit_solves_and_refusals_are_seen():
    seen = {result.question: result.finding for result in check_method(SRA1, [ADDITIVE_NOISE.problem])}
    assert seen["table"] == "meets its order conditions"
    assert all(structure in seen["refusal"] for structure in ("commutative", "diagonal", "general", "scalar"))
    seen = {result.question: result.finding for result in check_method(ImplicitMidpoint, LINEAR)}
    assert seen["report"].endswith("rounds per step")


def test_examples_are_one_of_each_structure_that_a_method_takes():
    assert sorted(p.noise_structure.kind for p in examples(EulerMaruyama)) == sorted(STRUCTURES)
    assert [p.noise_structure.kind for p in examples(SRA1)] == ["additive"]
    assert all(SRIW1.refusal(p) is None for p in examples(SRIW1))


def test_a_wrong_drift_loses_the_deterministic_order():
    def half(problem, t, x, noise, params):
        return x + 0.5 * noise.h * problem.f(t, x, params) + problem.g(t, x, params) @ noise.W, EXPLICIT

    found = failures(Made(half), LINEAR)
    assert set(found) == {"quiet", "consistent"}
    assert "and 1 is claimed" in found["quiet"] and "do not tend to f and g g'" in found["consistent"]


def test_an_order_that_is_not_there_is_found():
    found = failures(Made(euler, claims=(Claim("deterministic", 2.0),)), LINEAR)
    assert set(found) == {"quiet"}
    assert "order 1.00" in found["quiet"] and "and 2 is claimed" in found["quiet"]


@pytest.mark.parametrize(("structure", "order"), [("additive", 1.5), ("", 1.0)])
def test_a_strong_order_that_is_not_there_is_found(structure, order):
    """Euler's step has 1 for additive noise and 1/2 for any."""
    when = (structure,) if structure else ()
    wrong = Made(euler, claims=(Claim("strong", order, when=when),), structures=when)
    found = failures(wrong, [ADDITIVE_NOISE.problem])
    assert set(found) == {"strong"} and f"and {order:g} is claimed" in found["strong"]


@pytest.mark.parametrize("when", [("additive",), ()])
def test_a_weak_order_that_is_not_there_is_found(when):
    """Euler's step has 1 for any noise."""
    found = ask("weak", SUITE["weak"], Made(euler, claims=(Claim("weak", 2.0, when=when),)), [])
    assert not found.ok and f"for {when[0] if when else 'general'} noise, and 2 is claimed" in found.finding
    assert ask("weak", SUITE["weak"], Made(euler, claims=(Claim("weak", 1.0, when=when),)), []).ok


def test_noise_of_the_wrong_size_is_found():
    def loud(problem, t, x, noise, params):
        return x + noise.h * problem.f(t, x, params) + 1.01 * problem.g(t, x, params) @ noise.W, EXPLICIT

    assert set(failures(Made(loud), LINEAR)) == {"driftless", "consistent"}


def test_the_wrong_calculus_is_found():
    assert set(failures(Made(lambda *a: Heun.step(*a), calculus="ito"), LINEAR)) == {"consistent"}
    assert check_method(Made(lambda *a: Heun.step(*a), calculus="stratonovich"), LINEAR)


def test_a_step_that_leaves_single_precision_is_found():
    def doubled(problem, t, x, noise, params):
        after, report = euler(problem, t, x, noise, params)
        return jnp.where(x.dtype == jnp.float32, jnp.inf, after), report

    assert set(failures(Made(doubled), LINEAR)) == {"float32"}


def test_a_structure_that_is_not_refused_is_found():
    @dataclasses.dataclass(frozen=True)
    class Careless(Made):
        def refusal(self, problem):
            return None

    found = failures(Careless(euler, structures=("additive",)), LINEAR)
    assert "refusal" in found and "and says it is for ('additive',)" in found["refusal"]


def test_a_careless_report_is_found():
    def always(problem, t, x, noise, params):
        return euler(problem, t, x, noise, params)[0], Report(jnp.asarray(True), jnp.asarray(3))

    found = failures(Made(always), LINEAR)
    assert found == {"report": "a step from NaN is reported as solved"}


def test_unlawful_claims_are_found():
    found = failures(Made(euler, claims=(Claim("strong", 1.0, when=("quiet",)),)), LINEAR)
    assert "names 'quiet', expected structures of" in found["record"]
    assert "has no order" in failures(Made(euler, claims=(Claim("weak"),)), LINEAR)["record"]


def test_whatever_a_method_raises_is_an_answer():
    def broken(problem, t, x, noise, params):
        raise KeyError("area")

    found = failures(Made(broken), [SCALAR_NOISE.problem])
    assert found["executors"] == "KeyError: 'area'"


def test_methods_are_taken_by_name():
    assert [r.question for r in check_method("EulerMaruyama", [ADDITIVE_NOISE.problem])] == list(SUITE)
    with pytest.raises(TypeError, match="method: expected a method that makes steps"):
        check_method("VanLoan")
