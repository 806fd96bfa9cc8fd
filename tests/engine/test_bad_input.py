"""What simulate refuses: each error names the argument, what was found, what is expected, and what to do."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, PerPath, provenance, simulate
from stodyn import statistics as st
from stodyn.engine import spec
from stodyn.engine.spec import describe
from stodyn.methods.contract import EXPLICIT
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.methods.recommend import advice, recommended
from stodyn.methods.srk import SRA1, SRIW1
from stodyn.models.kubo import kubo
from stodyn.models.noise_structures import ADDITIVE_NOISE, GENERAL_NOISE
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.numerics.printing import compiling
from stodyn.problems import operators

RUN = dict(method=EulerMaruyama, t=(0.0, 1.0), dt=0.1, paths=4, seed=1)

REFUSED = {
    "paths zero": (dict(paths=0), ValueError, "paths: expected a whole number >= 1, got 0"),
    "paths negative": (dict(paths=-1), ValueError, "paths: expected a whole number >= 1, got -1"),
    "paths half": (dict(paths=1.5), ValueError, "paths: expected a whole number >= 1, got 1.5"),
    "paths infinite": (dict(paths=np.inf), ValueError, "paths: expected a whole number >= 1, got inf"),
    "paths beyond counting": (dict(paths=10**33), ValueError, r"paths: .* up to 4.61e\+18, got 1e\+33; take fewer"),
    "paths true": (dict(paths=True), ValueError, "paths: expected a whole number >= 1, got True"),
    "seed negative": (dict(seed=-1), ValueError, "seed: expected a whole number >= 0, such as seed=1, got -1"),
    "seed float": (dict(seed=1.0), ValueError, "seed: expected a whole number >= 0, such as seed=1, got 1.0"),
    "seed none": (dict(seed=None), TypeError, r"simulate\(\) needs seed; call it as simulate\(problem, t=\.\.\., dt"),
    "on_failure": (dict(on_failure="ignore"), ValueError, 'on_failure: expected "raise" or "record", got \'ignore\''),
    "dtype": (dict(dtype="float16"), ValueError, 'dtype: expected "float64" or "float32", got \'float16\''),
    "dtype a class": (dict(dtype=float), ValueError, 'dtype: expected "float64" or "float32", got <class'),
    "executor": (dict(executor="gpu"), ValueError, "executor: expected one of 'auto', 'printed', .*, got 'gpu'"),
    "block zero": (dict(block=0), ValueError, "block: expected a whole number of paths >= 1, got 0"),
    "block half": (dict(block=8.5), ValueError, "block: expected a whole number of paths >= 1, got 8.5"),
    "block beyond memory": (
        dict(block=10**12, paths=10**12),
        MemoryError,
        "block: 1000000000000 paths at a time need at least .* GB",
    ),
    "block true": (dict(block=True), ValueError, "block: expected a whole number of paths >= 1, got True"),
    "threads zero": (dict(threads=0), ValueError, "threads: expected a whole number >= 1, got 0"),
    "threads float": (dict(threads=2.0), ValueError, "threads: expected a whole number >= 1, got 2.0"),
    "threads true": (dict(threads=True), ValueError, "threads: expected a whole number >= 1, got True"),
    "nothing to collect": (dict(collect=[]), ValueError, "collect: nothing to collect; leave it out for Moments"),
    "a class to collect": (
        dict(collect=st.Moments),
        TypeError,
        r"collect: expected statistics such as .*Moments\(every",
    ),
    "a word to collect": (dict(collect="mean"), TypeError, "collect: expected statistics .* got 'mean'"),
    "a number among them": (dict(collect=[st.Moments(), 3]), TypeError, "collect: expected statistics .* got 3"),
    "unknown option": (dict(bogus=1), TypeError, "unexpected keyword argument 'bogus'"),
    "method unknown": (
        dict(method="eulr-maruyama"),
        ValueError,
        "method: there is no 'eulr-maruyama'. .*EulerMaruyama",
    ),
    "method a class": (dict(method=type(Heun)), TypeError, "method: expected a method such as .*Heun, got <class"),
    "method a number": (dict(method=3), TypeError, "method: expected a method such as .*Heun, got 3"),
    "no problem": (dict(problem=3), TypeError, "problem: expected a problem such as stodyn.SDE, got 3"),
    "no problem, no method": (dict(problem="ou", method=None), TypeError, "problem: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_arguments_are_named_with_what_is_expected(name):
    options, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        simulate(**(dict(problem=ornstein_uhlenbeck()) | RUN | options))


@pytest.mark.parametrize(
    "options",
    [
        dict(paths=np.int64(3)),
        dict(paths=1e1),
        dict(seed=2**80),
        dict(threads=np.int32(1)),
        dict(block=np.int64(2)),
        dict(block=8.0),
        dict(block=10**9),
    ],
)
def test_whole_numbers_however_they_are_written_and_large_seeds_are_taken(options):
    found = simulate(ornstein_uhlenbeck(), **RUN | options)
    assert provenance(found)["paths"] == options.get("paths", RUN["paths"])


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        (ThetaEuler, dict(thta=0.5), "ThetaEuler has no option 'thta'; it has theta, tol, limit"),
        (Heun, dict(tol=1e-3), "Heun has no option 'tol'; it has no options"),
        (ImplicitMidpoint, dict(theta=1.0), "ImplicitMidpoint has no option 'theta'; it has tol, limit"),
    ],
)
def test_unknown_options_of_a_method_are_refused(method, options, words):
    with pytest.raises(TypeError, match=words):
        method(**options)
    with pytest.raises(TypeError, match=f"{method.name} takes at most . options"):
        method(1, 2, 3, 4)


def test_a_method_that_does_not_fit_is_refused_with_those_that_do():
    gate = SDE(lambda t, x: -x, lambda t, x: jnp.array([[1.0, 0.0], [0.0, x[0]]]), [1.0, 1.0])
    with pytest.raises(ValueError, match="SRA1 is made for additive noise, but this problem's noise is general") as no:
        simulate(gate, **RUN | dict(method=SRA1))
    few = "EulerMaruyama (recommended); MilsteinLevy (strong 1); DRI1, PlatenWeak2Pairs, RS1 (weak 2)"
    assert str(no.value).endswith(f"Those that fit best: {few}. `stodyn methods` lists all.")
    with pytest.raises(ValueError, match=r"SRIW1 is made for .*scalar.* noise, but this problem's noise is general"):
        simulate(gate, **RUN | dict(method=SRIW1))


def test_a_method_of_another_kind_of_problem_is_refused():
    class Elsewhere:
        """A kind of problem that no SDE can be turned into."""

    @dataclasses.dataclass(frozen=True)
    class Other(type(EulerMaruyama)):
        accepts = Elsewhere
        name = "Other"

    with pytest.raises(
        TypeError,
        match=r"method: Other takes Elsewhere problems, but the problem is of type SDE. Those that fit best: SRA1 ",
    ):
        simulate(ornstein_uhlenbeck(), **RUN | dict(method=Other()))


def test_the_recommended_method_is_said():
    from stodyn import provenance

    run = simulate(kubo(), t=(0, 1), dt=0.1, paths=4, seed=1)
    assert provenance(run)["method"] == "Heun"
    better = "higher orders for scalar noise: SRIW1 (strong 1.5); DRI1, PlatenWeak2, PlatenWeak2Pairs (weak 2)"
    assert provenance(run)["advice"] == better


def test_what_has_a_higher_order_than_the_recommended_method_is_said():
    assert advice(GENERAL_NOISE.problem, recommended(GENERAL_NOISE.problem)) == (
        "higher orders for general noise: MilsteinLevy (strong 1); DRI1, PlatenWeak2Pairs, RS1 (weak 2)"
    )
    assert advice(ADDITIVE_NOISE.problem, recommended(ADDITIVE_NOISE.problem)) == ""


@pytest.mark.parametrize("block", [1, 4, None])
@pytest.mark.parametrize(
    "problem",
    [ornstein_uhlenbeck(start=PerPath(np.ones(9))), ornstein_uhlenbeck(rate=PerPath(np.ones(9)))],
    ids=["start", "params"],
)
def test_values_for_too_few_paths_are_refused_before_the_run(problem, block, monkeypatch):
    monkeypatch.setattr(compiling, "compiled", lambda *arguments, **options: pytest.fail("something was compiled"))
    words = r"(start|params): PerPath holds values for 9 paths, but .*\. Give one value per path"
    with pytest.raises(ValueError, match=words):
        simulate(problem, **RUN | dict(paths=10), block=block)


def test_one_value_for_all_paths_is_not_perpath():
    with pytest.raises(ValueError, match="PerPath: values is a single number; give one value per path"):
        PerPath(3.0)


def test_prints_that_cannot_be_are_refused_with_the_reason():
    problem = SDE(lambda t, x: -jnp.linalg.solve(jnp.eye(2) + jnp.outer(x, x), x), lambda t, x: jnp.eye(2), [1.0, 2.0])
    with pytest.raises(ValueError, match='executor="printed" is not possible for this problem and method: primitive'):
        simulate(problem, **RUN | dict(executor="printed"))


def test_equations_that_jax_cannot_differentiate_are_refused_by_methods_that_need_it():
    problem = SDE(lambda t, x: -x.at[0].apply(jnp.sin), lambda t, x: 0.1 * jnp.eye(2), [1.0, 2.0])
    with pytest.raises(
        ValueError, match=r"method: ThetaEuler takes derivatives .* x.at\[k\].apply\(f\), or take .* Heun"
    ):
        simulate(problem, **RUN | dict(method="ThetaEuler"))


def five_paths():
    return describe(kubo(), EulerMaruyama, (0.0, 1.0), 0.1, st.Paths(5, every=5), "float64")


# name -> (the bytes needed, the module that looks the memory up, the check, its words)
LIMITS = {
    "paths kept": (8 * 3 * 5 * 2, spec, lambda: spec.check_paths(five_paths(), 7), "Paths: would keep"),
    "a block": (8 * 7 * (3 * 2 + 1 + 4), spec, lambda: spec.check_block(five_paths(), 7), "block: 7 paths at a time"),
    "a matrix of noise": (8 * 3 * 4, operators, lambda: operators.check_memory(3, 4), r"its matrix \(3, 4\) takes"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_last_byte_of_memory_may_be_taken(name, monkeypatch):
    needed, module, check, said = LIMITS[name]
    monkeypatch.setattr(module, "machine_memory", lambda: needed / module.MEMORY_SHARE)
    check()
    monkeypatch.setattr(module, "machine_memory", lambda: (needed - 1) / module.MEMORY_SHARE)
    with pytest.raises(MemoryError, match=said):
        check()


STEPS_OF_ONES_OWN = {
    "no report": (lambda x: x, r"method: Mine\.step must return \(state, Report\(\.\.\.\)\), but returns \w*Tracer"),
    "a list": (lambda x: [x, EXPLICIT], r"method: Mine\.step must return .* but returns list"),
    "two states": (lambda x: (x, x), r"method: Mine\.step must return \(state, Report"),
    "another shape": (lambda x: (x[:1], EXPLICIT), r"method: Mine\.start .* of shape \(2,\), but step one of \(1,\)"),
}


@pytest.mark.parametrize("name", STEPS_OF_ONES_OWN)
def test_a_step_of_ones_own_that_returns_something_else(name):
    returned, message = STEPS_OF_ONES_OWN[name]

    @dataclasses.dataclass(frozen=True)
    class Mine(type(EulerMaruyama)):
        name = "Mine"

        def step(self, problem, t, x, noise, params):
            return returned(x)

    problem = SDE(lambda t, x: -x, lambda t, x: jnp.eye(2), np.ones(2))
    with pytest.raises((TypeError, ValueError), match=message):
        simulate(problem, Mine(), t=(0.0, 1.0), dt=0.5, paths=1, seed=1)


def on_the_host(x):
    """-x, computed by Python, of which JAX has no derivative."""
    return jax.pure_callback(lambda x: -x, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="broadcast_all")


@pytest.mark.parametrize(
    ("drift", "diffusion", "method"),
    [
        (lambda t, x: on_the_host(x), lambda t, x: jnp.ones((2, 1)), "SRA1"),
        (lambda t, x: -x, lambda t, x: jnp.diag(on_the_host(x)), "EulerMaruyama"),
        (lambda t, x: -x, lambda t, x: on_the_host(x)[:, None], "SRIW1"),
    ],
)
def test_a_method_is_chosen_for_functions_without_derivatives(drift, diffusion, method):
    """JAX's error about them was passed on to the user."""
    assert recommended(SDE(drift, diffusion, [1.0, 2.0])).name == method
    advice(SDE(drift, diffusion, [1.0, 2.0]), recommended(SDE(drift, diffusion, [1.0, 2.0])))


def test_a_method_that_needs_derivatives_of_a_call_to_the_host_is_refused_in_words():
    problem = SDE(lambda t, x: on_the_host(x), lambda t, x: jnp.ones((2, 1)), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"method: ImplicitMidpoint takes derivatives .*such as Heun"):
        simulate(problem, "ImplicitMidpoint", t=(0.0, 1.0), dt=0.5, paths=2, seed=1)


def test_what_jax_would_have_to_compile_is_refused_where_it_must_not():
    problem = SDE(lambda t, x: -x, lambda t, x: 1.0, 1.0)
    with jax.disable_jit(), pytest.raises(ValueError, match=r"executor: .*jax.disable_jit\(\) forbids"):
        simulate(problem, "EulerMaruyama", t=(0.0, 1.0), dt=0.5, paths=2, seed=1, executor="vmap")
