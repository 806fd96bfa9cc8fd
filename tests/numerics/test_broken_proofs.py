"""A proof that breaks proves nothing: whatever fails in the analysis of a trace, the run goes on, and says so.

Where a run needs what fails, it ends in words: the function, and a way out.
"""

import importlib
import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import kept_traces, variances
from stodyn.engine.failure import StodynFault
from stodyn.engine.program import executors
from stodyn.numerics import uncompiled
from stodyn.numerics.elimination import row_order
from stodyn.numerics.printing.trace import literal_value
from stodyn.numerics.printing.unprintable import fault_in
from stodyn.problems import structure
from stodyn.warnings import PrinterFault

RUN = dict(t=(0.0, 1.0), dt=0.5, paths=2, seed=1, collect=st.Moments(at=1.0))
BROKEN = [  # what printing and proofs share, and what is of proofs, digests and quick computations alone
    "numerics.printing.flat._scalar_operations", "numerics.printing.trace.literal_value",
    "numerics.printing.scalars._scalar", "numerics.printing.operations.operation_of",
    "numerics.printing.operations.equations_of", "numerics.facts.axes._between_entries",
    "numerics.facts.dependence._reached", "numerics.printing.table.row_of", "numerics.facts.entries.fact_about",
    "numerics.uncompiled.apply",
]  # fmt: skip


def problems():
    return {
        "Heun": sd.SDE(lambda t, x: -1.5 * jnp.sin(x), lambda t, x: 0.1 * x[:, None] * jnp.ones((1, 2)), [1.0]),
        "EulerMaruyama": sd.Mechanical(
            lambda t, x, v: -2.0 * x, lambda t, x, v: 0.3 * jnp.eye(2), ([1.0, 0.0], [0.0, 0.0]), mass=[2.0, 1.0]
        ),
    }


@pytest.fixture(autouse=True, scope="module")
def quick_compiling():
    """Programs that run for milliseconds take seconds to compile: leave most of XLA's optimisations out."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def expected():
    return {method: sd.simulate(problem, method, **RUN)["mean"].values for method, problem in problems().items()}


def break_everywhere(monkeypatch, path):
    """Let the body of a function fail, by an operation, inside of what decorates it."""
    module, name = path.rsplit(".", 1)
    inner = inspect.unwrap(getattr(importlib.import_module(f"stodyn.{module}"), name))

    def broken(*arguments, **options):
        return {}["injected"]

    code = inner.__code__
    swapped = broken.__code__.replace(co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname)
    monkeypatch.setattr(inner, "__code__", swapped)


@pytest.mark.parametrize("path", BROKEN)
@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_a_fault_in_what_proofs_use_ends_no_run(monkeypatch, expected, path):
    kept_traces.forget()
    break_everywhere(monkeypatch, path)
    for method, problem in problems().items():
        run = sd.simulate(problem, method, **RUN)
        np.testing.assert_allclose(run["mean"].values, expected[method], rtol=1e-12)
        record = sd.provenance(run)
        assert record["executor"] == "printed" or "injected" in record["executor_reason"]
    kept_traces.forget()


SECOND_WAYS = [  # what looks at a problem before its run, or evaluates it by a printed loop: there is another way
    ("numerics.sparse.find_pattern", "chain"), ("numerics.sparse._choose", "chain"),
    ("numerics.printing.rows.typed", "Heun"), ("numerics.lyapunov.continuous", "free"),
    ("engine.jumps.at_jumps", "free"), ("engine.stability._nodes", "Heun"),
    ("engine.variances.warn_of_wrong_variances", "free"), ("methods.written_stops.check_written_stops", "bent"),
    ("engine.energies.check_energy", "bent"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "which"), SECOND_WAYS)
@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_a_fault_in_what_looks_at_a_problem_ends_no_run(monkeypatch, path, which):
    def chain(t, x):
        return jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)

    problem, method = {
        "chain": (sd.SDE(chain, lambda t, x: 0.1 * jnp.eye(40)[:, :2], np.arange(40.0)), "ThetaEuler"),
        "Heun": (problems()["Heun"], "Heun"),
        "free": (problems()["EulerMaruyama"], "Newmark"),
        "bent": (sd.SDE(lambda t, x: -jnp.sin(x), lambda t, x: 0.1 * jnp.eye(2), [1.0, 2.0]), "Heun"),
    }[which]
    expected = sd.simulate(problem, method, **RUN)["mean"].values
    kept_traces.forget()
    variances._verdicts.clear()
    break_everywhere(monkeypatch, path)
    run = sd.simulate(problem, method, **RUN)
    np.testing.assert_allclose(run["mean"].values, expected, rtol=1e-9)
    if not path.startswith("numerics."):
        name = path.rsplit(".", 1)[-1]
        assert any(name in fault and "injected" in fault for fault in sd.provenance(run)["faults"])
    kept_traces.forget()


@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_a_program_that_cannot_be_compiled_gives_way_to_vmap(monkeypatch):
    problem = sd.SDE(lambda t, x: -0.7 * x, lambda t, x: jnp.eye(1), [1.0])
    expected = sd.simulate(problem, "Heun", executor="vmap", **RUN)["mean"].values
    kept_traces.forget()
    executors.forget()
    break_everywhere(monkeypatch, "numerics.printing.compiling.compiled")
    run = sd.simulate(problem, "Heun", **RUN)
    record = sd.provenance(run)
    assert record["executor"] == "vmap"
    assert record["executor_reason"] in record["faults"]
    assert "compiled" in record["executor_reason"]
    assert np.array_equal(run["mean"].values, expected)
    with pytest.raises(StodynFault, match="compiled failed with KeyError: 'injected'"):
        sd.simulate(problem, "Heun", executor="printed", **RUN)
    executors.forget()


NEEDED = [  # without which there are no steps
    ("problems.structure.find_structure", 'structure="general"'), ("problems.structure._sampled_noise", "structure="),
    ("numerics.sparse.eliminated", "executor=\"vmap\", which prints nothing, or another method"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "way_out"), NEEDED)
@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_a_fault_in_what_a_run_needs_is_told_with_a_way_out(monkeypatch, path, way_out):
    noise = {"eliminated": lambda t, x: 0.1 * jnp.eye(40)[:, :2]}
    size = 40 if path.endswith("eliminated") else 1
    noise = noise.get(path.rsplit(".", 1)[-1], lambda t, x: jnp.stack([jnp.cos(x), x**2], axis=1))
    problem = sd.SDE(lambda t, x: jnp.roll(x, 1) - 2 * x, noise, np.ones(size))
    kept_traces.forget()
    break_everywhere(monkeypatch, path)
    with pytest.raises(StodynFault) as fault:
        sd.simulate(problem, "ThetaEuler", **RUN)
    assert f"stodyn.{path} failed with KeyError: 'injected'" in str(fault.value)
    assert "please report it" in str(fault.value)
    assert way_out in str(fault.value)
    assert str(pickle.loads(pickle.dumps(fault.value))) == str(fault.value)


def test_errors_of_users_while_a_run_is_examined_stay_theirs():
    calls, last = [], [0]

    def start(rng, size):
        calls.append(size)
        if len(calls) == last[0]:
            raise KeyError("mine")
        return np.ones((size, 1))

    def run():
        calls.clear()
        sd.simulate(sd.SDE(lambda t, x: -x, lambda t, x: jnp.eye(1), start), "Heun", **RUN)

    run()
    for last[0] in range(1, len(calls) + 1):
        with pytest.raises(KeyError, match="mine"):
            run()


@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_an_implicit_step_does_not_need_to_know_what_rounding_makes_of_it(monkeypatch):
    problem = sd.SDE(lambda t, x: -(x**3), lambda t, x: jnp.eye(1), [1.0])
    expected = sd.simulate(problem, "ImplicitMidpoint", **RUN)["mean"].values
    kept_traces.forget()
    break_everywhere(monkeypatch, "numerics.printing.trace.interpret")
    run = sd.simulate(problem, "ImplicitMidpoint", **RUN)
    assert "a proof (is_rounding) failed with KeyError: 'injected'" in sd.provenance(run)["faults"]
    np.testing.assert_allclose(run["mean"].values, expected, rtol=1e-9)
    kept_traces.forget()


def test_the_fault_is_in_the_record_and_in_a_warning(monkeypatch):
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.0625 * x[:, None] * jnp.ones((1, 2)), [1.0])  # proved by no other
    break_everywhere(monkeypatch, "numerics.facts.axes._between_entries")
    with pytest.warns(PrinterFault, match=r"a proof \(facts_of\) failed with KeyError: 'injected'. The run goes on as"):
        run = sd.simulate(problem, "Heun", **RUN)
    assert sd.provenance(run)["faults"] == ["a proof (facts_of) failed with KeyError: 'injected'"]
    kept_traces.forget()


@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
@pytest.mark.parametrize("path", ["numerics.facts.axes._between_entries", "numerics.printing.operations.operation_of"])
def test_each_run_tells_of_a_fault(monkeypatch, path):
    """Of the same problem, of an equal one, and of another whose noise is the same: what a broken proof has left open
    is kept, in one place or another."""

    def made(rate, scale):
        return sd.SDE(lambda t, x: -rate * x, lambda t, x: scale * x[:, None] * jnp.ones((1, 2)), [1.0])

    kept_traces.forget()
    structure._proved.clear()
    break_everywhere(monkeypatch, path)
    problem = made(1.0, 0.03125)
    first, *others = (
        sd.provenance(sd.simulate(p, "Heun", **RUN))["faults"] for p in (problem, problem, made(1.0, 0.03125))
    )
    assert any("injected" in fault for fault in first)
    assert all(set(faults) == set(first) for faults in others)
    told = [fault for fault in first if "facts_of" in fault]
    assert set(told) <= set(sd.provenance(sd.simulate(made(2.0, 0.03125), "Heun", **RUN))["faults"])
    with pytest.warns(PrinterFault, match="injected"):
        sd.simulate(problem, "Heun", **RUN)
    kept_traces.forget()


def test_errors_of_the_users_functions_stay_theirs():
    """Functions are traced before anything is proved of them."""

    def drift(t, x):
        return {"no such": x}["key"]

    with pytest.raises(TypeError, match=r"drift: drift\(t, x\) could not be traced by JAX .*key"):
        sd.simulate(sd.SDE(drift, lambda t, x: jnp.eye(1), [1.0]), "Heun", **RUN)


@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_what_is_raised_in_words_is_no_fault():
    """Errors of an operation are, and those that are raised for callers inside stodyn alone."""

    def fault(function, *arguments):
        try:
            function(*arguments)
        except Exception as error:
            return fault_in(error)

    assert fault(row_order, np.zeros((2, 2))) is None  # refused: it is not regular
    assert fault(literal_value, None) == "stodyn.numerics.printing.trace.literal_value"
    assert fault(uncompiled.run, None) == "stodyn.numerics.uncompiled.run"
