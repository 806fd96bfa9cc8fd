"""Noises and sensors by themselves, as C, as units and as NumPy; and white noise as large as the host needs it."""

import ast
import ctypes
import runpy

import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from exporting.compiled import DT, SEED, STEPS, Library, Unit, needs_compiler

import stodyn as sd
from stodyn import statistics as st
from stodyn.exporting import noises
from stodyn.methods.classical import ExplicitRungeKutta
from stodyn.noise import counter, hosts
from stodyn.numerics.printing.points import at_one

STANDARD_LIBRARY = {"__future__", "copy", "math", "typing"}
NOISES = {
    "coloured": lambda: sd.noise.coloured.gauss_markov2(1.0, 2.0, 0.3),
    "gyro": lambda: sd.noise.gyro(arw=1e-3, bias_instability=1e-3, rate_random_walk=1e-4, turn_on=0.1, resolution=1e-4,
                                  range=0.3, scale_factor=(0.01, 0.02, 0.03), band=(0.1, 1.0)),
    "white": lambda: sd.noise.white([[2.0, 0.5], [0.5, 1.0]], host="held"),
    "density": lambda: sd.density(0.1, sides=2),
    "delayed": lambda: sd.noise.coloured.delayed(sd.noise.coloured.gauss_markov2(1.0, 2.0, 0.3), [0.0, 3 * DT], DT),
}  # fmt: skip


def numpy_model(noise, folder, **options):
    (file,) = sd.export(noise, dt=DT, to=folder / "model.py", seed=SEED, **options)
    return runpy.run_path(str(file))["model"]


@needs_compiler
@pytest.mark.parametrize("name", NOISES)
def test_a_noise_in_c_has_the_bits_of_a_run_and_in_numpy_its_digits(name, tmp_path):
    source = NOISES[name]()
    noise, library = noises.noise_of(source, DT), Library(tmp_path, source, None)
    problem, count = noise.problem(), len(noise.names)
    run = sd.simulate(problem, noises.Recursive(noise), t=(0, STEPS * DT), dt=DT, paths=3, seed=SEED,
                      collect=st.Paths(3, every=1))  # fmt: skip
    paths = run["path"].transpose("number", "time", "component").values[..., :count]
    if noise.response is not None:
        paths = np.clip(1e-4 * np.floor(paths / 1e-4 + 0.5), -0.3, 0.3)
    stepper = numpy_model(source, tmp_path)(paths=[0, 2])
    in_numpy = np.stack([stepper.outputs(), *(stepper.step() for _ in range(STEPS))], axis=1)
    for place, number in enumerate((0, 2)):
        times, rows, _ = library.path(number, STEPS)
        np.testing.assert_array_equal(rows, paths[number])
        np.testing.assert_allclose(in_numpy[place], paths[number], rtol=0, atol=2e-14 * np.abs(paths).max())
        assert stepper.time == times[-1]


def test_delayed_noise_is_stationary_and_is_what_it_was_before(tmp_path):
    source = NOISES["delayed"]()
    recursion = noises.noise_of(source, DT).recursion
    P = recursion.start @ recursion.start.T
    after = recursion.Phi @ P @ recursion.Phi.T + recursion.drive @ recursion.drive.T
    np.testing.assert_allclose(after, P, rtol=0, atol=1e-12 * P.max())
    stepper = numpy_model(source, tmp_path)(paths=[1])
    y = np.array([stepper.outputs()[0], *(stepper.step()[0] for _ in range(STEPS))])
    np.testing.assert_allclose(y[3:, 1], y[:-3, 0], rtol=1e-13)
    with pytest.raises(ValueError, match=r"dt: the past of y0, y1 is held in steps of 0\.05, got steps of 0\.1"):
        sd.export(source, dt=2 * DT, to=tmp_path / "model.c")


def test_a_file_of_numpy_needs_nothing_else_goes_back_and_draws_on(tmp_path):
    stepper = numpy_model(NOISES["coloured"](), tmp_path)(paths=range(3), seed=5)
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name)
        for node in ast.walk(ast.parse((tmp_path / "model.py").read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported - STANDARD_LIBRARY == {"numpy"}
    for _ in range(255):
        stepper.step()
    copy = stepper.snapshot()
    ahead = [stepper.step() for _ in range(3)]  # over the end of the block of normals
    np.testing.assert_array_equal(ahead, [copy.step() for _ in range(3)])
    assert np.ptp(ahead, axis=0).min() > 0


def test_a_sensor_in_numpy_reads_the_truth(tmp_path):
    sensor = sd.noise.gyro(arw=1e-9, scale_factor=0.5, resolution=0.25, range=2.0)
    stepper = numpy_model(sensor, tmp_path)(paths=[0, 1])
    np.testing.assert_array_equal(stepper.step(truth=[[0.7], [9.0]]), [[1.0], [2.0]])  # 1.05 and 13.5


def of_counter(noise, key, sample):
    """The sample of path 2 from the pairs of normals that belong to it."""
    numbers = [2 * sample, 2 * sample + 1]
    halves = [counter.pair((key[0], key[1]), 7, jnp.asarray(2, np.uint64), number) for number in numbers]
    return noise.alone(jnp.stack([half for pair in halves for half in pair]))


@needs_compiler
def test_held_noise_is_a_function_of_time(tmp_path):
    """By the counter, bit by bit, in whatever order; samples begin where a host's sum of steps may fall short."""
    source = NOISES["white"]()
    noise, library = noises.noise_of(source, DT), Library(tmp_path, source, None, t0=1.0)
    stepper = numpy_model(source, tmp_path, t0=1.0)(paths=[2])
    _, _, state = library.path(2, 0)

    def at(t):
        shown = (ctypes.c_double * 2)()
        library.c.model_at(state, ctypes.c_double(t), shown)
        return list(shown)

    key = jnp.asarray(counter.key_of(SEED))
    for sample in (7, 0, 3, 7, 100_000):
        exact = at_one(lambda k: of_counter(noise, key, k), np.uint64(sample))
        time = 1.0 + sample * DT
        for t in (time, time + 0.5 * DT, np.nextafter(time, 0.0)):
            assert at(t) == exact.tolist()
        np.testing.assert_allclose(stepper.at(time)[0], exact, rtol=1e-13)
    assert at(0.9) != at(1.0) != at(1.0 + DT)
    assert np.isnan([at(np.nan), at(1e300), at(-np.inf)]).all()
    for paths in ([1.5], [-1], [2**64]):
        with pytest.raises(ValueError, match="paths: expected whole numbers from 0 to 2"):
            type(stepper)(stepper.model, paths)
    assert type(stepper)(stepper.model, [2**63, 1]).paths.tolist() == [2**63, 1]


@needs_compiler
def test_a_unit_of_white_noise_has_its_first_sample_and_takes_its_own_steps_alone(tmp_path):
    (file,) = sd.export(sd.noise.white(2.0, host="held"), dt=DT, to=tmp_path / "unit.fmu", seed=7)
    unit = Unit(file, tmp_path / "unit", 2)
    i = unit.instance()
    samples = [unit.get(i, "y")[0]]
    for _ in range(3):
        assert unit.step(i, DT) == 0
        samples.append(unit.get(i, "y")[0])
    assert len(set(samples)) == 4
    assert unit.step(i, 2 * DT) == 2
    assert "scaled for dt = 0.05" in " ".join(unit.said)


# --- what the host does with a sample ---------------------------------------------------------------------------------


TABLES = {
    "Euler": ([[]], [1]),
    "RK2": ([[], [1]], [1 / 2, 1 / 2]),
    "RK4": ([[], [1 / 2], [0, 1 / 2], [0, 0, 1]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
}


def host_step(solver, x, h, rate, noise):
    """A step of a host's own solver for x' = rate x + noise, which is called in every evaluation."""
    table, weights = TABLES[solver]
    slopes = []
    for row in table:
        slopes.append(rate * (x + h * sum(a * k for a, k in zip(row, slopes, strict=True))) + noise())
    return x + h * sum(b * k for b, k in zip(weights, slopes, strict=True))


def steady_error(solver, host, z, h=0.1, wrong=1.0):
    """By its own step, on units: the variance in the long run over that of x' = (z/h) x + w, less 1."""
    stages = len(TABLES[solver][1]) if host != "held" else 1
    calls = [iter(np.eye(stages)[k]) for k in range(stages)]
    noise = [(lambda unit=unit, k=k: next(unit) if host != "held" else 1.0) for k, unit in enumerate(calls)]
    moved = [host_step(solver, 0.0, h, z / h, one) for one in noise]
    kept = host_step(solver, 1.0, h, z / h, lambda: 0.0)
    Q = 3.0
    (size,) = sd.noise.white(Q, host=host).covariance(h)[0] * wrong
    return size * sum(m * m for m in moved) / (1.0 - kept**2) / (Q * h / (-2.0 * z)) - 1.0


@pytest.mark.parametrize(("solver", "host", "wrong", "percent"), [
    ("RK4", "held", 1.0, -0.083), ("Euler", "held", 1.0, 5.3), ("RK4", "fresh RK4", 1.0, -0.065),
    ("RK4", "fresh RK4", 5 / 18, -72.0),
])  # fmt: skip
def test_a_host_that_does_as_it_was_said_has_the_right_variance(solver, host, wrong, percent):
    assert 100.0 * steady_error(solver, host, -0.1, wrong=wrong) == pytest.approx(percent, rel=0.02)


@pytest.mark.parametrize(("solver", "host", "leading"), [
    ("RK4", "held", lambda z: -(z**2) / 12), ("RK4", "fresh RK4", lambda z: -(z**2) / 15),
    ("RK2", "fresh RK2", lambda z: -(z**3) / 8), ("Euler", "fresh Euler", lambda z: -z / 2),
])  # fmt: skip
def test_errors_have_the_order_of_the_solver(solver, host, leading):
    assert steady_error(solver, host, -0.01) == pytest.approx(leading(-0.01), rel=0.02)


@pytest.mark.parametrize(("h", "percent"), [(0.05, -2.5), (0.1, -4.8), (0.2, -9.4), (0.5, -21.2), (1.0, -36.0)])
def test_samples_joined_by_straight_lines_are_too_small_whatever_their_size(h, percent):
    """An exact solver of x' = -x + w; its state is x and the sample at the beginning of the step."""
    exact, Q = np.exp(-h), 1.0
    both = (1.0 - exact) - (later := 1.0 - (1.0 - exact) / h)
    M, N = np.array([[exact, both], [0.0, 0.0]]), np.array([[later], [1.0]])
    P = scipy.linalg.solve_discrete_lyapunov(M, N @ N.T * Q / h)
    assert 100.0 * (P[0, 0] / (Q / 2.0) - 1.0) == pytest.approx(percent, abs=0.06)
    with pytest.raises(ValueError, match=r"host: 'interpolated'; .* Let the host hold them"):
        sd.noise.white(Q, host="interpolated")


def test_fresh_samples_from_numpy_give_a_host_the_right_variance(tmp_path):
    """4000 hosts that call the exported file in every evaluation of RK4; five standard errors are 11 %."""
    (file,) = sd.export(sd.noise.white(3.0, host="fresh RK4"), dt=0.1, to=tmp_path / "model.py", seed=1)
    stepper = runpy.run_path(str(file))["model"](paths=range(4000))
    x = np.zeros((4000, 1))
    for _ in range(40):
        x = host_step("RK4", x, 0.1, -1.0, stepper.step)
    assert x.var() == pytest.approx(1.5, rel=5.0 * np.sqrt(2.0 / 4000))


@pytest.mark.parametrize("solver", hosts.WEIGHTS)
def test_solvers_of_hosts_have_the_weights_of_methods(solver):
    method = sd.method({"RK56": "RK56Butcher"}.get(solver, solver))
    assert isinstance(method, ExplicitRungeKutta)
    fresh = ExplicitRungeKutta(method.A, method.b, noise="fresh")
    assert sd.noise.white(1.0, host=f"fresh {solver}").Gamma == pytest.approx(float(fresh.Gamma), rel=1e-15)


@pytest.mark.parametrize(("change", "words"), [
    (dict(problem=lambda: sd.noise.white(1.0, host="fresh RK4"), to="m.fmu"), "to: a unit for co-simulation holds"),
    (dict(method="Heun"), "method: a noise by itself is stepped exactly"),
    (dict(outputs=["y"]), "outputs: a noise by itself shows all of its outputs"),
    (dict(inputs=["u"]), "inputs: the problem has no parameter 'u'; it has none"),
    (dict(problem=lambda: sd.per_sample("size")), "problem: the size of this noise, 'size', comes from params"),
    (dict(problem=lambda: sd.SDE(lambda t, x: -x, lambda t, x: 1.0, start=0.0), method="Heun", to="m.py"),
     "to: a file of NumPy holds a noise or a sensor by itself"),
])  # fmt: skip
def test_what_cannot_be_exported_of_noises_is_refused_in_words(change, words, tmp_path):
    options = dict(problem=NOISES["coloured"], to="m.c") | change
    with pytest.raises(ValueError, match=words):
        sd.export(options.pop("problem")(), dt=DT, **options | dict(to=tmp_path / options["to"]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("Q", "host", "words"), [
    (1.0, "fresh RK5", "host: expected one of 'held', 'fresh Euler'"),
    (-1.0, "held", "Q: expected an intensity"),
    ([[1.0, 2.0], [2.0, 1.0]], "held", "Q: expected an intensity"),
])  # fmt: skip
def test_white_noise_that_cannot_be_handed_over_is_refused(Q, host, words):
    with pytest.raises(ValueError, match=words):
        sd.noise.white(Q, host=host)


def test_white_noise_is_not_handed_over_without_saying_what_the_host_does():
    with pytest.raises(TypeError, match="host"):
        sd.noise.white(1.0)
