"""The kernels of GPUs, printed for the processor, and what a run says and does where there is no GPU."""

import math
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import ready as readied
from stodyn.engine import self_test
from stodyn.engine import simulate as front
from stodyn.engine.program import cards, executors, kernel, on_card, wide_sums
from stodyn.engine.program.as_scalars import Scalars
from stodyn.engine.program.card import card_of
from stodyn.engine.program.cards import block_width
from stodyn.engine.program.watching import watched
from stodyn.engine.spec import describe, matched
from stodyn.methods.catalogue import catalogue
from stodyn.models import catalogue as models
from stodyn.noise import counter
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.fingerprints import fingerprint
from stodyn.numerics.printing.rows import Frame
from stodyn.warnings import BlockHalved

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


def on_a_card(problem, method, **options):
    """A run by kernels, for which a processor stands in where there is no GPU."""
    return sd.simulate(problem, method, **RUN | dict(device=jax.devices("cpu"), paths=200) | options)


def paths_of(problem, method, **options):
    """The first five paths at every step, and the record."""
    run = on_a_card(problem, method, **dict(collect=st.Paths(5, every=1)) | options)
    return run["path"].values, sd.provenance(run)


@pytest.mark.brief("ImplicitMidpoint", "DRI1")
@pytest.mark.parametrize("method", ["Heun", "SRIW1", "AB3", "ImplicitMidpoint", "DRI1"])
def test_the_kernel_takes_the_steps_that_programs_of_processors_and_vmap_take(method):
    """One, two and more normals a step; a history; Newton's loop; discrete draws. From the processor's programs, with
    the same normals, the same bits; from vmap the same numbers but for rounding."""
    collect = [st.Paths(5, every=1), st.Iterations()]
    run, plain = (on_a_card(oscillator(), method, collect=collect, executor=way) for way in ("auto", "vmap"))
    record = sd.provenance(run)
    assert record["executor"] == "printed" and record["normals"].startswith("Philox")
    record = sd.provenance(plain)
    assert (record["executor"], record["executor_reason"]) == ("vmap", "asked for")
    np.testing.assert_allclose(plain["path"], run["path"], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(plain["iterations"], run["iterations"], rtol=1e-12)
    np.testing.assert_array_equal(sd.replay(oscillator(), method, run, 3)["path"], run["path"][3])


@pytest.mark.brief("3", "17")
@pytest.mark.parametrize("channels", [1, 2, 3, 17, 20])
def test_normals_are_numbered_along_each_path_whatever_a_step_takes_and_wherever_a_call_begins(channels, monkeypatch):
    """Sums of normals: odd streams leave one over for the next step, long ones are drawn in a loop."""
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.ones((1, channels)), [0.0])
    whole, _ = paths_of(problem, "EulerMaruyama")
    monkeypatch.setattr("stodyn.engine.program.cards.OPERATIONS", 1.0)  # a step a call, until its speed is known
    monkeypatch.setattr("stodyn.engine.program.cards.SECONDS", 0.0)
    cut, _ = paths_of(problem, "EulerMaruyama")
    np.testing.assert_array_equal(whole, cut)
    key = tuple(jnp.asarray(counter.key_of(4)))
    with jax.enable_x64(True):
        z = jax.jit(lambda: counter.normals(key, "W", jnp.arange(5, dtype=np.uint64), 0, STEPS * channels))()
    expected = np.cumsum(np.asarray(z).reshape(STEPS, channels, 5).sum(axis=1), axis=0) * np.sqrt(H)
    np.testing.assert_allclose(whole[:, 1:, 0], expected.T, rtol=1e-12, atol=1e-12)


def test_a_history_is_begun_by_a_kernel_of_its_own():
    """Without noise the steps are those of a processor, bit for bit."""
    problem = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0] - 0.1 * x[1] ** 3]), None, [1.0, 0.0])
    found, record = paths_of(problem, "AB3")
    alone = sd.simulate(problem, "AB3", paths=1, collect=st.Paths(1, every=1), **RUN)
    assert record["executor"] == "printed"
    np.testing.assert_array_equal(found[:1], alone["path"])


def test_kernels_of_many_sums_share_room_for_all_of_a_tile():
    """Two halves, each of 8 x 8 sums of 256/32 warps."""
    texts = []
    card = types.SimpleNamespace(joining=kernel.JOINING, loaded=lambda text, names: texts.append(text))
    wide_sums.loaded.__wrapped__(card)
    assert f"[{2 * 64 * 8} x double]" in texts[0]


def test_an_odd_number_of_steps_between_saves_and_windows_changes_nothing():
    every, _ = paths_of(oscillator(), "Heun")
    third, _ = paths_of(oscillator(), "Heun", collect=st.Paths(5, every=3))
    np.testing.assert_allclose(third, every[:, ::3], rtol=1e-12)


def test_blocks_are_cut_anywhere():
    """Paths are a function of their number: starts, parameters and normals alike."""
    problem = oscillator(start=lambda rng, size: rng.normal(size=(size, 2)), params=scipy.stats.uniform(0.2, 0.5))
    options = dict(paths=300, collect=[st.Paths(300, every=STEPS), st.Moments(every=STEPS)])
    whole = on_a_card(problem, "Heun", **options)
    cut = on_a_card(problem, "Heun", block=128, **options)
    assert [sd.provenance(run)["block"] for run in (whole, cut)] == [384, 128]
    np.testing.assert_array_equal(whole["path"], cut["path"])
    np.testing.assert_allclose(whole["variance"], cut["variance"], rtol=1e-12)
    np.testing.assert_allclose(whole["variance"][-1], np.var(whole["path"][:, -1], axis=0, ddof=1), rtol=1e-12)
    again = sd.replay(problem, "Heun", whole, 299)
    np.testing.assert_allclose(again["path"][-1], whole["path"][299, -1], rtol=1e-12)


def test_the_law_is_the_processors():
    """Exact moments of Euler's steps for dx = -x dt + dW: 4.5 standard errors, another seed fails once in 1e5."""
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 1.0)
    run = on_a_card(problem, "EulerMaruyama", paths=20_000, collect=st.Moments(every=4))
    for k, step in enumerate(range(0, STEPS + 1, 4)):
        mean, variance = (1 - H) ** step, H * sum((1 - H) ** (2 * i) for i in range(step))
        assert abs(run["mean"][k, 0] - mean) <= 4.5 * run["mean_stderr"][k, 0]
        assert abs(run["variance"][k, 0] - variance) <= 4.5 * run["variance_stderr"][k, 0]


@pytest.mark.brief("Heun")
@pytest.mark.parametrize("method", ["Heun", "ImplicitMidpoint"])
def test_every_kind_of_statistic(method):
    edges, square = np.linspace(-3, 3, 13), st.Observable(lambda t, x, p: x[0] ** 2)
    collect = [st.Moments(), st.Histogram(edges), st.Paths(3), square, st.Passage(1.2, 0, mean=False)]
    run, plain = (on_a_card(oscillator(), method, collect=collect, executor=way) for way in ("auto", "vmap"))
    for name in run.data_vars:
        np.testing.assert_allclose(run[name], plain[name], rtol=1e-8, atol=1e-10, err_msg=name)


def test_the_sums_of_a_kernel_are_those_of_its_paths():
    """Two skewed components: sums of threads are joined to those of blocks, and these to those of the run."""
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.array([[1.5, 0.0], [0.5, -1.0]]) * x[:, None], [1.0, 2.0])
    run = on_a_card(
        problem, "EulerMaruyama", collect=[st.Moments(every=6), st.Paths(600, every=6)], paths=600, block=384
    )
    assert_moments_are_those_of_the_paths(run)


def central(x):
    """The sums of rows of draws (n, size) as a kernel leaves them: count, means, second, third and fourth powers."""
    mean = x.mean(axis=1) if x.size else np.zeros(len(x))
    d = x - mean[:, None]
    return np.concatenate([[x.shape[1]], mean, (d @ d.T)[np.tril_indices(len(x))], (d**3).sum(1), (d**4).sum(1)])


def test_sums_of_blocks_of_many_paths_are_joined():
    """As on a GPU, where a block has 128 threads: two saves, five blocks, one of them without paths, a number ahead."""
    draws = np.random.default_rng(1).exponential(size=(2, 3, 60))
    parts = [np.split(x, [10, 13, 13, 40], axis=1) for x in draws]
    results = types.SimpleNamespace(summed={4: np.arange(3)}, places={4: 1}, values=1 + kernel.sums_of(3), most=19)
    partials = np.array([[[0.0] * 5, *np.transpose([central(part) for part in save])] for save in parts])
    totals, frame = np.zeros((2, results.values)), Frame(kernel.FRAME)
    frame.set(partials=partials.ctypes.data, totals=totals.ctypes.data, blocks=5)
    text = kernel.module([kernel.joined("join4", results, 4, kernel.ALONE)], results.most)
    card_of(jax.devices("cpu")[0]).loaded(text, ["join4"])("join4", 2, 1, frame)
    np.testing.assert_allclose(totals[:, 1:], [central(x) for x in draws], rtol=1e-12)


def assert_moments_are_those_of_the_paths(run):
    """Means, covariances and the standard errors of variances, from which all sums up to the fourth can be seen."""
    x = run["path"].values
    paths = len(x)
    np.testing.assert_allclose(run["mean"], x.mean(axis=0), rtol=1e-12)
    for k in range(1, x.shape[1]):
        np.testing.assert_allclose(run["covariance"][k], np.cov(x[:, k].T), rtol=1e-10, atol=1e-14)
        fourth = scipy.stats.kstat(x[:, k] - x[:, k].mean(axis=0), 4, axis=0)
        spread = (2 * np.var(x[:, k], axis=0, ddof=1) ** 2 + (paths - 1) / paths * fourth) / (paths + 1)
        np.testing.assert_allclose(run["variance_stderr"][k], np.sqrt(spread), rtol=1e-10)


def test_a_statistic_that_jax_observes_is_traced_once_for_all_blocks(monkeypatch):
    traced = []
    monkeypatch.setattr(cards, "fingerprint", lambda trace: traced.append(trace) or fingerprint(trace))
    on_a_card(oscillator(), "Heun", collect=st.Paths(512, every=STEPS), paths=512, block=64)
    assert 1 <= len(traced) <= 2  # two where two threads begin at once


def test_the_sums_of_more_numbers_than_a_kernel_adds_up():
    """Of twenty components, which are summed apart from the steps; the first is the same as alone."""
    n = 20
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.3 * jnp.eye(n), np.linspace(1.0, 2.0, n))
    run = on_a_card(problem, "Heun", collect=[st.Moments(every=6), st.Paths(200, every=6)])
    assert_moments_are_those_of_the_paths(run)


def test_what_cannot_be_printed_goes_to_vmap_with_the_reason():
    problem = sd.SDE(lambda t, x: -jnp.sort(x), lambda t, x: 0.1 * jnp.ones((2, 1)), [1.0, 0.0])
    _, record = paths_of(problem, "Heun")
    assert record["executor"] == "vmap" and "sort" in record["executor_reason"]
    with pytest.raises(ValueError, match=r'executor="printed" is not possible .* method: .*sort'):
        paths_of(problem, "Heun", executor="printed")


def test_failures_are_found_at_their_step():
    problem = sd.SDE(
        lambda t, x: x**3, lambda t, x: 0.0 * x, lambda rng, size: np.where(np.arange(size) == 7, 1e60, 0.1)
    )
    run = on_a_card(problem, "EulerMaruyama", paths=20, on_failure="record")
    assert run["failed_path"].values.tolist() == [7] and run["failure_time"].values.tolist() == [2 * H]
    assert run["paths_used"].values[-1] == 19


def test_a_kernel_in_single_precision_has_the_paths_to_single_precision():
    single, record = paths_of(oscillator(), "Heun", dtype="float32")
    double, _ = paths_of(oscillator(), "Heun")
    assert record["dtype"] == "float32" and single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5)


def test_sums_of_float32_are_taken_in_float64():
    collect = [st.Moments(every=6), st.Paths(200, every=6)]
    run = on_a_card(oscillator(), "EulerMaruyama", dtype="float32", collect=collect)
    np.testing.assert_allclose(run["mean"], run["path"].values.astype(float).mean(axis=0), rtol=1e-12, atol=1e-15)


def test_want_of_memory_halves_the_blocks(monkeypatch):
    merged = front.merged

    def small_device(run, *arguments):
        if run.layout.width > 128:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes.")
        return merged(run, *arguments)

    monkeypatch.setattr(front, "merged", small_device)
    monkeypatch.setattr(readied, "merged", small_device)
    said = "a block of 256 paths does not fit into the device's memory: continuing with 128"
    with pytest.warns(BlockHalved, match=said):
        run = on_a_card(oscillator(), "Heun")
    assert sd.provenance(run)["block"] == 128
    plan = {name: RUN[name] for name in ("t", "dt")}
    ready = sd.prepare(oscillator(), "Heun", paths=200, device=jax.devices("cpu"), **plan)
    with pytest.warns(BlockHalved, match=said) as warned:
        held = ready(seed=4)
    assert warned[0].filename == __file__
    assert ready(seed=4).drop_attrs().identical(held.drop_attrs())  # begins with them, and warns no more
    assert held.drop_attrs().identical(run.drop_attrs())
    with pytest.raises(jax.errors.JaxRuntimeError):
        sd.simulate(oscillator(), "Heun", paths=500, **RUN)


REFUSED = {
    "no GPU": (dict(device="gpu"), "device: JAX finds no GPU here"),
    "a word": (
        dict(device="tpu"),
        'device: expected "cpu", "gpu", "auto" or a list from jax.devices\\(\\), got \'tpu\'',
    ),
    "no devices": (dict(device=[]), "device: expected"),
    "a solver": (dict(device=jax.devices("cpu"), method="VanLoan"), "device: VanLoan is host code"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_card_cannot_do_is_refused_with_the_reason(case):
    if case == "no GPU" and any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("there is one")
    options, words = REFUSED[case]
    problem = sd.linear(-1.0, 1.0, Bu=1.0, u=jnp.sin) if case == "a solver" else oscillator()
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


def test_more_blocks_run_together_where_a_step_leaves_registers():
    """As measured: Kubo's oscillator, α, 40 components, two diodes, 100 components."""
    steps = (38, 2), (466, 7), (804, 40), (2036, 4), (2004, 100)
    assert [on_card.blocks_together(*step) for step in steps] == [8, 6, 4, 4, 2]


def written(name):
    """The kernels of a method on the smallest model that it takes, as PTX."""
    method = catalogue()[name]
    for model in sorted(models.catalogue().values(), key=lambda model: model.problem.n):
        try:
            matched(model.problem, method)
            break
        except (TypeError, ValueError):
            continue
    spec = describe(model.problem, method, (0.0, 0.4), 0.05, st.Moments(every=4), "float64")
    source = Scalars(spec, watched(spec))
    return compiling.ptx(on_card.text(source, kernel.LaunchResults(source, spec.statistics)))


@pytest.mark.brief("AB2", "DRI1", "MilsteinLevy", "StochasticAlpha20")
@pytest.mark.parametrize("name", ["AB2", "DIRK", "DRI1", "Heun", "MilsteinLevy", "RK1W2M", "StochasticAlpha20"])
def test_a_method_of_each_kind_is_written_for_cuda(name):
    """LLVM needs no GPU: every operation is one that it knows for one, and no product is left to be fused or not."""
    ptx = written(name)
    assert {".entry begin(", ".entry run(", ".entry join0("} <= set(re.findall(r"\.entry \w+\(", ptx))
    assert (".entry starting(" in ptx) == (name == "AB2")
    assert not re.findall(r"\b(?:add|sub|mul)\.f64", ptx) and "fma.rn.f64" in ptx
    assert "mul.wide.u32" in ptx  # Philox in words of 32 bits
    numbers = [low for _, low in compiling.NUMBER.findall("".join(re.findall(r"(?:fma|add|sub|mul)\.rn\.f64.*", ptx)))]
    assert set(numbers) <= {"00000000"}  # those with more digits stand in constant memory
    (memory,) = re.findall(r"\.const .* numbers\[(\d+)\] = \{(.*)\};", ptx)
    assert int(memory[0]) == len(set(memory[1].split(", ")))
    assert max(int(place) for place in re.findall(r"\[numbers\+(\d+)\]", ptx)) == 8 * int(memory[0]) - 8


def test_a_device_that_computes_wrongly_is_refused_by_name(monkeypatch):
    device = jax.devices("cpu")[0]
    assert self_test.faults(device, 20_000) == []
    monkeypatch.setitem(self_test.KNOWN, "sqrt", (lambda x: 0.0 * x, math.sqrt(512.0 * self_test.X)))
    said = self_test.faults(device, 20_000)
    assert [words.startswith(("sqrt gives 0.0 for", "JAX gives 0.0 for sqrt")) or words for words in said] == [True] * 2
    monkeypatch.setattr(self_test, "faults", lambda device: ["sqrt gives 0.0 for 18.9"])
    with pytest.raises(self_test.WrongDevice, match=rf"device: {device.device_kind} .* gives wrong numbers: sqrt"):
        self_test.check((device,))


def test_a_generator_that_is_off_is_seen(monkeypatch):
    """Normals with a standard deviation of 1.05."""
    pair = counter.pair
    monkeypatch.setattr(counter, "pair", lambda *given: tuple(1.05 * z for z in pair(*given)))
    counter._trace.cache_clear()
    executors.forget()
    try:
        (said,) = self_test.faults(jax.devices("cpu")[0], 40_000)
        assert said.startswith("the variance of 40000 paths is")
    finally:
        monkeypatch.undo()
        counter._trace.cache_clear()
        executors.forget()
