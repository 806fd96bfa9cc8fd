"""Which steps are printed and which run under vmap, and that both compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine.program import executors, printed
from stodyn.engine.program.as_scalars import Scalars
from stodyn.engine.program.source import Step
from stodyn.engine.spec import describe
from stodyn.methods.implicit import ImplicitMidpoint
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.nodes import Graph
from stodyn.statistics import Moments, Observable, Paths
from stodyn.warnings import PrinterFault

A = -2.0 * np.eye(10) + 0.1 * np.ones((10, 10))
RUN = dict(t=(0, 0.5), dt=0.1, paths=16, seed=1)


def coupled(n):
    """dx = (A x - x³) dt + 0.1 dW, A full: Newton eliminates a full matrix of n unknowns."""
    return sd.SDE(lambda t, x: A[:n, :n] @ x - x**3, lambda t, x: 0.1 * jnp.eye(n), np.ones(n), calculus="stratonovich")


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.brief("3")  # rows are exchanged; in a fixed order in tests/numerics/test_elimination.py
@pytest.mark.parametrize("n", [3, 5, 10])
def test_elimination_gives_under_vmap_what_it_gives_in_print(n):
    runs = [sd.simulate(coupled(n), ImplicitMidpoint, executor=executor, **RUN) for executor in ("printed", "vmap")]
    assert [sd.provenance(run)["executor"] for run in runs] == ["printed", "vmap"]
    np.testing.assert_allclose(runs[0]["mean"], runs[1]["mean"], rtol=1e-13)


UNPRINTED = {
    "a solve by LAPACK": (lambda t, x: -jnp.linalg.solve(jnp.eye(2) + jnp.outer(x, x), x), "primitive lu"),
    "sorting": (lambda t, x: -jnp.sort(x), "primitive sort"),
    "complex numbers": (lambda t, x: -jnp.real(jnp.exp(1j * x)), "complex"),
    "a function of the host": (
        lambda t, x: -jax.pure_callback(np.sin, jax.ShapeDtypeStruct((2,), x.dtype), x, vmap_method="broadcast_all"),
        "pure_callback",
    ),
}


def way_of(problem):
    return executors.get(describe(problem, sd.method("EulerMaruyama"), RUN["t"], RUN["dt"], None, "float64"))


@pytest.mark.parametrize("name", UNPRINTED)
def test_what_cannot_be_printed_goes_to_vmap_and_says_why(name):
    drift, words = UNPRINTED[name]
    way = way_of(sd.SDE(drift, lambda t, x: jnp.eye(2), [1.0, 2.0]))
    assert way.name == "vmap" and words in way.reason


@pytest.mark.usefixtures("quick_compiling")
def test_what_cannot_be_printed_runs_under_vmap():
    """Complex numbers; other tests run a solve by LAPACK, sorting and functions of the host."""
    drift, words = UNPRINTED["complex numbers"]
    run = sd.simulate(sd.SDE(drift, lambda t, x: jnp.eye(2), [1.0, 2.0]), "EulerMaruyama", **RUN)
    record = sd.provenance(run)
    assert record["executor"] == "vmap" and words in record["executor_reason"]
    assert np.all(np.isfinite(run["mean"]))


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize("n", [5, 400])
def test_a_function_of_an_observable_that_cannot_be_printed_leaves_the_step_printed(n):
    """Those of complex numbers, spectra and medians go through XLA at the saves, with the numbers that vmap gives."""

    def seen(t, x, p):
        return jnp.stack([jnp.abs(jnp.mean(jnp.exp(1j * p * x))), jnp.abs(jnp.fft.rfft(x))[1], jnp.median(x)])

    ring = sd.SDE(lambda t, x, p: p * (jnp.roll(x, 1) - x**3 + jnp.tanh(x) * jnp.cos(x)),
                  lambda t, x: sd.diagonal(0.1 * x), np.linspace(-1.0, 1.0, n),
                  sd.PerPath(np.linspace(0.5, 1.0, 9)))  # fmt: skip
    collect = [sd.statistics.Moments(every=2), sd.statistics.Observable(seen, every=3),
               sd.statistics.Observable(lambda t, x: x @ x, name="energy", every=2)]  # fmt: skip
    run, other = (
        sd.simulate(ring, "Heun", t=(0, 0.6), dt=0.1, paths=9, seed=1, block=8, executor=e, collect=collect)
        for e in ("auto", "vmap")
    )
    record = sd.provenance(run)
    assert record["executor"] == "printed"
    assert record["executor_reason"].endswith("; functions of Observables by XLA: convert_element_type " + (
        "gives numbers of type complex128" if n == 5 else "of numbers of type complex128"))  # fmt: skip
    for name in run.data_vars:
        np.testing.assert_allclose(run[name], other[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_very_long_steps_run_under_vmap(monkeypatch):
    monkeypatch.setattr(executors, "MOST_OPERATIONS", 10)
    way = way_of(coupled(3))
    assert way.name == "vmap" and "scalar operations per step, more than 10" in way.reason


@pytest.mark.usefixtures("quick_compiling")
def test_without_a_compiler_everything_runs_under_vmap_with_the_same_noise(monkeypatch):
    collect = [Moments(every=1), Paths(16, every=1)]
    printed = sd.simulate(coupled(3), "Heun", collect=collect, **RUN)
    monkeypatch.setattr(executors.compiling, "unavailable", lambda: "nothing to compile with")
    other = sd.simulate(coupled(3), "Heun", collect=collect, **RUN)
    assert sd.provenance(other)["executor_reason"] == "nothing to compile with"
    np.testing.assert_allclose(other["path"], printed["path"], rtol=1e-12)


@pytest.mark.usefixtures("quick_compiling")
def test_statistics_see_parameters_under_vmap():
    """x = p t exactly, p common to all paths or of each path by itself."""
    seen = Observable(lambda t, x, p: x[0] - p["common"] * p["own"] * t + p["own"], name="seen", every=5)
    params = {"common": 2.0, "own": sd.PerPath(np.arange(4.0))}
    problem = sd.SDE(lambda t, x, p: p["common"] * p["own"] + 0.0 * x, lambda t, x, p: 0.0 * x, 0.0, params)
    run = sd.simulate(problem, "EulerMaruyama", executor="vmap", collect=seen, **RUN | {"paths": 4})
    np.testing.assert_allclose(run["seen"], 1.5, rtol=1e-14)


def summed(chains, length):
    """A step of additions: so many chains side by side, each of so many one after the other."""
    graph, source = Graph(), object.__new__(Scalars)
    stepped = [graph.input(("now", k), np.float64) for k in range(chains)]
    for k in range(length):
        one = graph.input(("now", chains + k), np.float64)
        stepped = [graph.make("add", np.float64, x, one) for x in stepped]
    source.stepped = Step(stepped, np.True_, np.True_)
    return source


@pytest.mark.parametrize(
    ("chains", "length", "registers"),
    [(59, 1, 4), (60, 1, 1), (1, 60, 4), (1, 149, 4), (1, 150, 2), (4, 30, 4), (5, 20, 2), (8, 9, 2), (9, 8, 1)],
)
def test_steps_that_wait_or_are_small_take_more_paths_together(chains, length, registers):
    source = summed(chains, length)
    assert source._size == (chains * length, length + 1) and source.operations() == chains * length
    assert source.width() == registers * compiling.processor().register


def test_a_fault_of_the_printer_is_reported_and_the_run_goes_on(monkeypatch):
    """Whatever error ends the printing becomes the reason for vmap, and a warning names it."""

    class Unforeseen(Exception):
        pass

    def broken(*arguments):
        raise Unforeseen("no such entry")

    problem = sd.SDE(lambda t, x: -3.25 * x, lambda t, x: jnp.eye(1), [1.0])
    expected = sd.simulate(problem, "EulerMaruyama", executor="vmap", **RUN)["mean"]
    monkeypatch.setattr(executors, "scalar_source", broken)
    with pytest.warns(PrinterFault, match="the printer failed with Unforeseen: no such entry") as given:
        run = sd.simulate(problem, "EulerMaruyama", **RUN)
    assert given[0].filename == __file__
    assert sd.provenance(run)["executor"] == "vmap" and "Unforeseen" in sd.provenance(run)["executor_reason"]
    np.testing.assert_array_equal(run["mean"], expected)
    with (
        pytest.warns(PrinterFault),
        pytest.raises(ValueError, match=r'executor="printed" is not possible .* Unforeseen'),
    ):
        sd.simulate(problem, "EulerMaruyama", executor="printed", **RUN)


def test_loops_that_fail_are_printed_as_scalars(monkeypatch):
    def broken(self):
        raise KeyError("num_consts")

    monkeypatch.setattr(executors, "LOOPED", 0)
    monkeypatch.setattr(executors.Loops, "_begun", broken)
    problem = sd.SDE(lambda t, x: -x * jnp.roll(x, 1), lambda t, x: jnp.eye(20), np.ones(20))
    with pytest.warns(PrinterFault, match="KeyError: 'num_consts'"):
        run = sd.simulate(problem, "EulerMaruyama", **RUN)
    assert "scalar operations" in sd.provenance(run)["executor_reason"]


def test_normals_of_two_streams_lie_apart_in_long_runs(monkeypatch):
    """Those of W and Z are drawn for a slab of steps together: how many that are changes no number of a run."""
    problem = sd.SDE(lambda t, x: -x, lambda t, x: jnp.array([[0.3], [0.1]]), np.array([0.5, -0.2]))
    ends = []
    for size in (printed.SLAB_BYTES, 10**7):
        monkeypatch.setattr(printed, "SLAB_BYTES", size)
        run = sd.simulate(problem, "SRA1", t=(0.0, 1.0), dt=1 / 128, paths=64, seed=5, executor="printed", threads=1,
                          collect=Paths(64, at=[1.0]))  # fmt: skip
        ends.append(run["path"].values)
    assert np.array_equal(*ends)
