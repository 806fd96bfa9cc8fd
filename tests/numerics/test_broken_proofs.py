"""A proof that breaks proves nothing: whatever fails in the analysis of a trace, the run goes on, and says so."""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import kept_traces, variances
from stodyn.warnings import PrinterFault

RUN = dict(t=(0.0, 1.0), dt=0.5, paths=2, seed=1, collect=st.Moments(at=1.0))
BROKEN = [  # what printing and proofs share, and what is of proofs, digests and quick computations alone
    "printing.flat._scalar_operations", "printing.trace.literal_value", "printing.scalars._scalar",
    "printing.operations.operation_of", "printing.operations.equations_of", "facts.axes._between_entries",
    "facts.dependence._reached", "facts.degree._is_affine_in", "facts.entries.fact_about", "uncompiled.apply",
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


def break_everywhere(monkeypatch, path, error):
    """Let a function of numerics fail under every name by which a module or a table knows it."""
    module, name = path.rsplit(".", 1)
    function = getattr(importlib.import_module(f"stodyn.numerics.{module}"), name)

    def broken(*arguments, **options):
        raise error("injected")

    for module in [module for name, module in sys.modules.items() if name.startswith("stodyn")]:
        for word, value in list(vars(module).items()):
            if value is function:
                monkeypatch.setattr(module, word, broken)
            elif isinstance(value, dict):
                for key in [key for key, entry in value.items() if entry is function]:
                    monkeypatch.setitem(value, key, broken)


@pytest.mark.parametrize("path", BROKEN)
@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_a_fault_in_what_proofs_use_ends_no_run(monkeypatch, expected, path):
    kept_traces.forget()
    break_everywhere(monkeypatch, path, KeyError if len(path) % 2 else RuntimeError)
    for method, problem in problems().items():
        run = sd.simulate(problem, method, **RUN)
        np.testing.assert_allclose(run["mean"].values, expected[method], rtol=1e-12)
        record = sd.provenance(run)
        assert record["executor"] == "printed" or "injected" in record["executor_reason"]
    kept_traces.forget()


SECOND_WAYS = [  # what looks at a problem before its run, or evaluates it by a printed loop: there is another way
    ("sparse.find_pattern", "chain"), ("sparse._choose", "chain"), ("printing.rows.typed", "Heun"),
    ("lyapunov.continuous", "free"),
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
    }[which]
    expected = sd.simulate(problem, method, **RUN)["mean"].values
    kept_traces.forget()
    variances._verdicts.clear()
    break_everywhere(monkeypatch, path, RuntimeError)
    run = sd.simulate(problem, method, **RUN)
    np.testing.assert_allclose(run["mean"].values, expected, rtol=1e-9)
    kept_traces.forget()


@pytest.mark.filterwarnings("ignore::stodyn.warnings.PrinterFault")
def test_an_implicit_step_does_not_need_to_know_what_rounding_makes_of_it(monkeypatch):
    problem = sd.SDE(lambda t, x: -(x**3), lambda t, x: jnp.eye(1), [1.0])
    expected = sd.simulate(problem, "ImplicitMidpoint", **RUN)["mean"].values
    kept_traces.forget()
    break_everywhere(monkeypatch, "printing.trace.interpret", KeyError)
    run = sd.simulate(problem, "ImplicitMidpoint", **RUN)
    assert "a proof (is_rounding) failed with KeyError: 'injected'" in sd.provenance(run)["faults"]
    np.testing.assert_allclose(run["mean"].values, expected, rtol=1e-9)
    kept_traces.forget()


def test_the_fault_is_in_the_record_and_in_a_warning(monkeypatch):
    kept_traces.forget()
    break_everywhere(monkeypatch, "facts.axes._between_entries", KeyError)
    with pytest.warns(PrinterFault, match=r"a proof \(facts_of\) failed with KeyError: 'injected'. The run goes on as"):
        run = sd.simulate(problems()["Heun"], "Heun", **RUN)
    assert sd.provenance(run)["faults"] == ["a proof (facts_of) failed with KeyError: 'injected'"]
    kept_traces.forget()


def test_errors_of_the_users_functions_stay_theirs():
    """Functions are traced before anything is proved of them."""

    def drift(t, x):
        return {"no such": x}["key"]

    with pytest.raises(TypeError, match=r"drift: drift\(t, x\) could not be traced by JAX .*key"):
        sd.simulate(sd.SDE(drift, lambda t, x: jnp.eye(1), [1.0]), "Heun", **RUN)
