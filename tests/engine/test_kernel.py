"""The GPU's kernel, interpreted on the processor, and what a run says and does where there is no GPU."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import block
from stodyn.engine import simulate as front
from stodyn.engine.counted import BlockHalved, block_width
from stodyn.engine.kernel import CountedProgram
from stodyn.engine.layout import Layout
from stodyn.engine.spec import describe, matched
from stodyn.methods.catalogue import catalogue
from stodyn.models import catalogue as models

pytestmark = pytest.mark.usefixtures("quick_compiling")
STEPS, H = 12, 0.05
RUN = dict(t=(0.0, STEPS * H), dt=H, seed=4)


def oscillator(**options):
    """A noisy oscillator, the strength of its noise a parameter."""

    def drift(t, x, strength):
        return jnp.stack([x[1], -x[0] - 0.1 * x[1] ** 3])

    def diffusion(t, x, strength):
        return jnp.stack([0.0 * x[0], strength * (1.0 + 0.1 * x[0])])[:, None]

    return sd.SDE(drift, diffusion, **dict(start=[1.0, 0.0], params=0.5) | options)


def paths_of(problem, method, executor="kernel", **options):
    """The first five paths at every step, and the record."""
    run = sd.simulate(
        problem, method, executor=executor, **RUN | dict(paths=200, collect=st.Paths(5, every=1)) | options
    )
    return run["path"].values, sd.provenance(run)


def on_cpu_devices(problem, method, **options):
    return paths_of(problem, method, **dict(executor="auto", device=jax.devices("cpu")) | options)


@pytest.mark.parametrize("method", ["Heun", "SRIW1", "AB3", "ImplicitMidpoint", "DRI1"])
def test_the_kernel_takes_the_steps_that_lanes_and_vmap_take(method):
    """One, two and more normals a step; a history; Newton's loop; discrete draws. The same numbers but for rounding."""
    kernel, record = paths_of(oscillator(), method)
    assert record["executor"] == "kernel" and record["normals"].startswith("Philox")
    for executor in ("lanes", "vmap"):
        found, record = on_cpu_devices(oscillator(), method, executor=executor)
        assert (record["executor"], record["executor_reason"]) == (executor, "asked for")
        np.testing.assert_allclose(found, kernel, rtol=1e-9, atol=1e-11)


def test_an_odd_number_of_steps_between_saves_and_windows_changes_nothing():
    every, _ = paths_of(oscillator(), "Heun")
    third, _ = paths_of(oscillator(), "Heun", collect=st.Paths(5, every=3))
    np.testing.assert_allclose(third, every[:, ::3], rtol=1e-12)


def test_blocks_are_cut_anywhere():
    """Paths are a function of their number: starts, parameters and normals alike."""
    problem = oscillator(start=lambda rng, size: rng.normal(size=(size, 2)), params=scipy.stats.uniform(0.2, 0.5))
    options = dict(paths=300, collect=[st.Paths(300, every=STEPS), st.Moments(every=STEPS)])
    whole = sd.simulate(problem, "Heun", executor="kernel", **RUN | options)
    cut = sd.simulate(problem, "Heun", executor="kernel", block=128, **RUN | options)
    assert [sd.provenance(run)["block"] for run in (whole, cut)] == [384, 128]
    np.testing.assert_array_equal(whole["path"], cut["path"])
    np.testing.assert_allclose(whole["variance"], cut["variance"], rtol=1e-12)
    np.testing.assert_allclose(whole["variance"][-1], np.var(whole["path"][:, -1], axis=0, ddof=1), rtol=1e-12)
    again = sd.replay(problem, "Heun", whole, 299)
    np.testing.assert_allclose(again["path"][-1], whole["path"][299, -1], rtol=1e-12)


def test_the_law_is_the_processors():
    """Exact moments of Euler's steps for dx = -x dt + dW: 4.5 standard errors, another seed fails once in 1e5."""
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 1.0)
    run = sd.simulate(problem, "EulerMaruyama", executor="kernel", paths=20_000, collect=st.Moments(every=4), **RUN)
    for k, step in enumerate(range(0, STEPS + 1, 4)):
        mean, variance = (1 - H) ** step, H * sum((1 - H) ** (2 * i) for i in range(step))
        assert abs(run["mean"][k, 0] - mean) <= 4.5 * run["mean_stderr"][k, 0]
        assert abs(run["variance"][k, 0] - variance) <= 4.5 * run["variance_stderr"][k, 0]


def test_every_kind_of_statistic():
    edges, square = np.linspace(-3, 3, 13), st.Observable(lambda t, x, p: x[0] ** 2)
    collect = [st.Moments(), st.Histogram(edges), st.Paths(3), square, st.Iterations()]
    run = sd.simulate(oscillator(), "ImplicitMidpoint", executor="kernel", paths=200, collect=collect, **RUN)
    plain = sd.simulate(oscillator(), "ImplicitMidpoint", device=jax.devices("cpu"), executor="lanes", paths=200,
                        collect=collect, **RUN)  # fmt: skip
    for name in run.data_vars:
        np.testing.assert_allclose(run[name], plain[name], rtol=1e-8, atol=1e-10, err_msg=name)


def test_a_statistic_that_looks_at_every_step_is_run_in_lanes():
    _, record = on_cpu_devices(oscillator(), "Heun", collect=[st.Passage(1.2, component=0), st.Paths(5, every=1)])
    assert (record["executor"], record["executor_reason"]) == ("lanes", "Passage looks at every step")


def test_what_lanes_cannot_do_goes_to_vmap_with_the_reason():
    problem = sd.SDE(lambda t, x: -jnp.sort(x), lambda t, x: 0.1 * jnp.ones((2, 1)), [1.0, 0.0])
    _, record = on_cpu_devices(problem, "Heun")
    assert record["executor"] == "vmap" and "sort" in record["executor_reason"]
    with pytest.raises(ValueError, match=r'executor="kernel" is not possible .* method: .*sort'):
        paths_of(problem, "Heun")


def test_a_kernel_that_does_not_compile_falls_back_with_the_reason(monkeypatch):
    def refuse(self, *arguments):
        raise NotImplementedError("Unimplemented primitive in Pallas GPU lowering: erf")

    monkeypatch.setattr(CountedProgram, "_launch", refuse)
    monkeypatch.setattr(block, "_compiled", {})
    _, record = on_cpu_devices(oscillator(), "Heun")
    assert (
        record["executor"] == "lanes" and "no kernel: NotImplementedError: Unimplemented" in record["executor_reason"]
    )


def test_failures_are_found_at_their_step():
    problem = sd.SDE(
        lambda t, x: x**3, lambda t, x: 0.0 * x, lambda rng, size: np.where(np.arange(size) == 7, 1e60, 0.1)
    )
    run = sd.simulate(problem, "EulerMaruyama", executor="kernel", paths=20, on_failure="record", **RUN)
    assert run["failed_path"].values.tolist() == [7] and run["failure_time"].values.tolist() == [2 * H]
    assert run["sound"].values[-1] == 19


def test_float32():
    single, record = paths_of(oscillator(), "Heun", dtype="float32")
    double, _ = paths_of(oscillator(), "Heun")
    assert record["dtype"] == "float32" and single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5)


def test_want_of_memory_halves_the_blocks(monkeypatch):
    merged = front.merged

    def small_device(run, *arguments):
        if run.layout.width > 128:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes.")
        return merged(run, *arguments)

    monkeypatch.setattr(front, "merged", small_device)
    with pytest.warns(BlockHalved, match="a block of 256 paths does not fit the device's memory: going on with 128"):
        run = sd.simulate(oscillator(), "Heun", executor="kernel", paths=200, **RUN)
    assert sd.provenance(run)["block"] == 128
    with pytest.raises(jax.errors.JaxRuntimeError):
        sd.simulate(oscillator(), "Heun", paths=500, **RUN)


REFUSED = {
    "no GPU": (dict(device="gpu"), "device: JAX finds no GPU here"),
    "a word": (
        dict(device="tpu"),
        'device: expected "cpu", "gpu", "auto" or a list from jax.devices\\(\\), got \'tpu\'',
    ),
    "no devices": (dict(device=[]), "device: expected"),
    "block": (
        dict(executor="kernel", block=100),
        "block: a kernel takes groups of 128 paths; expected a multiple, got 100",
    ),
    "a solver": (dict(executor="kernel", method="VanLoan"), "device: VanLoan is host code"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    if case == "no GPU" and any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("there is one")
    options, words = REFUSED[case]
    problem = models.catalogue()["ornstein_uhlenbeck"].problem if case == "a solver" else oscillator()
    with pytest.raises(ValueError, match=words):
        sd.simulate(problem, **RUN | dict(paths=10, method="Heun") | options)


def test_auto_says_what_it_found():
    run = sd.simulate(oscillator(), "Heun", device="auto", paths=10, **RUN)
    found = sd.provenance(run)["device"]
    assert found in ("processor: no GPU that JAX can use", "GPU: found")


def test_blocks_fill_a_gpu():
    widths = {paths: block_width(paths, 4) for paths in (1, 128, 129, 100_000, 131_072, 2**23, 10**7)}
    assert widths == {1: 128, 128: 128, 129: 256, 100_000: 102_400, 131_072: 131_072, 2**23: 2**23, 10**7: 5_242_880}
    assert 8 * 1000 * block_width(10**7, 1000) <= 2**30


LOWERED = ["AB2", "AdditiveDIRK", "DIRK", "DRI1", "Heun", "Midpoint", "MilsteinLevy", "RK1W2M", "RK4", "SRIW1",
           "SplitStepEuler", "StochasticAlpha", "StochasticAlpha20"]  # fmt: skip


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="JAX 0.11 lowers for a GPU only where there is one")
@pytest.mark.parametrize("name", LOWERED)
def test_a_method_of_each_kind_is_a_kernel_for_cuda(name):
    """Lowering to Triton needs no GPU: every operation of the step has to be one that Triton knows."""
    method = catalogue()[name]
    for model in sorted(models.catalogue().values(), key=lambda model: model.problem.n):
        try:
            matched(model.problem, method)
            break
        except (TypeError, ValueError):
            continue
    spec = describe(model.problem, method, (0.0, 0.4), 0.05, st.Moments(every=4), "float64")
    with jax.enable_x64(True):
        way = front.run_of(spec, 256, 1, "auto", tuple(jax.devices("cpu"))).way
        program = dataclasses.replace(way.runners[0].program, kernel="gpu")
        members, generators = way.members(Layout(spec, 256, 1, 256), 0), program.generators(0, 0)
        state = jax.eval_shape(program.begin, spec.times[0], members, generators)[0]
        window = way.windows.window(0, 0, np.float64)
        lowered = jax.jit(program.advance).trace(state, [], window, members).lower(lowering_platforms=("cuda",))
    assert "xla.gpu.triton" in lowered.as_text()


def test_a_program_is_told_apart_by_how_it_runs():
    spec = describe(oscillator(), "Heun", (0.0, 1.0), 0.25, st.Moments(every=4), "float64")
    way = front.run_of(spec, 200, 1, "kernel").way
    (runner,) = way.runners
    other = dataclasses.replace(runner.program, kernel=None)
    assert other.key(4, way.members(Layout(spec, 200, 1, 256), 0)) != runner.key
