"""Loops of sensors and parts around a plant: runs beside exact covariances, times, noises, refusals."""

import dataclasses
import functools
import re
import warnings
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.program import executors
from stodyn.engine.spec import describe, matched
from stodyn.warnings import CoarseReadings, NeverArrives, NoBridge, UnstableSteps

H, R, K = 0.1, 0.01, 5.0


def integrator(**options):
    return sd.SDE(
        lambda t, x, p: p["u"] + 0 * x,
        lambda t, x: jnp.ones((1, 1)),
        start=[0.0],
        params={"u": 0.0},
        names=("x",),
        **options,
    )


def proportional(**options):
    return sd.Part(
        "law", every=H, reads="y", writes="u", update=lambda t, own, seen, p: (own, -K * seen["y"]), **options
    )


def of_the_state(law):
    return sd.Part("law", every=H, reads=sd.true("x"), writes="u", update=lambda t, own, seen, p: (own, law(seen["x"])))


def s1(sensor=(), part=()):
    return sd.with_loop(
        integrator(),
        sd.Sensor("y", of="x", every=H, noise=sd.per_sample(R**0.5), **dict(sensor)),
        proportional(**dict(part)),
    )


OSCILLATOR = sd.SDE(
    lambda t, x, p: jnp.array([x[1], -4 * x[0] - 0.4 * x[1] + p["u"]]),
    lambda t, x: jnp.array([[0.0], [0.5**0.5]]),
    start=[0.0, 0.0],
    params={"u": 0.0},
    names=("x", "v"),
)


def s2():
    def law(t, own, seen, params):
        z = own["z"] + 0.005 * seen["y"]
        return {"z": z}, -3 * seen["y"] - 1.2 * seen["r"] - 0.8 * z

    return sd.with_loop(
        OSCILLATOR,
        sd.Sensor("y", of="x", every=0.01, noise=sd.per_sample(0.02)),
        sd.Sensor("r", of=lambda t, x, p: x[1], every=0.0025, noise=sd.density(0.0025, sides=2)),
        sd.Part("law", every=0.005, delay=0.0015, reads=("y", "r"), writes="u", state={"z": 0.0}, update=law),
    )


def variance(loop, at, dt=0.01, paths=4000, seed=1, method="EulerMaruyama", name="x"):
    run = sd.simulate(
        loop, method, t=(0, at), dt=dt, paths=paths, seed=seed, progress=False, collect=[st.Moments(at=[at])]
    )
    return float(run["variance"].sel(component=name).values[-1])


@pytest.mark.parametrize(
    ("sensor", "part", "exact"),
    [
        ({}, {}, 0.1366666666667),
        ({}, {"delay": 0.05}, 0.17),
        ({"delay": 0.05}, {"phase": 0.05}, 0.17),
        ({"loss": 0.3}, {}, 0.1953333333333),
        ({}, {"delay": 0.02}, 0.1468627450980),
    ],
)
def test_variances_of_runs_are_the_closed_forms(sensor, part, exact):
    """Before a sample, as Euler's steps are exact there; within five standard errors (false alarms 6e-7)."""
    seen = variance(s1(sensor, part), 3.99, dt=0.01)
    law = sd.analysis.sampled(s1(sensor, part)).covariance(0.09)[0, 0]
    assert abs(seen / law - 1) < 5 * np.sqrt(2 / 4000) * (2 if sensor.get("loss") else 1)
    assert sd.analysis.sampled(s1(sensor, part)).covariance(0, before=True)[0, 0] == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("gain", "exact", "radius", "average"),
    [(1.0, 0.5032275132275, 0.9052343178, 0.5030231040564), (5.0, 0.126, 0.6403882032, 0.1177666666667)],
)
def test_straight_lines_between_samples_have_their_closed_form(gain, exact, radius, average):
    """Steps of Heun are exact here at samples; within five standard errors of 4000 paths (false alarms 6e-7)."""
    law = sd.Part(
        "law", every=H, reads="y", writes="u", hold="first", update=lambda t, own, seen, p: (own, -gain * seen["y"])
    )
    loop = sd.with_loop(integrator(), sd.Sensor("y", of="x", every=H, noise=sd.per_sample(R**0.5)), law)
    seen = variance(loop, 8.0 if gain == 1.0 else 4.0, dt=0.05, method="Heun")
    assert abs(seen / exact - 1) < 5 * np.sqrt(2 / 4000)
    solved = sd.analysis.sampled(loop)
    assert (solved.radius, solved.average[0, 0]) == pytest.approx((radius, average), abs=2e-11)
    assert solved.covariance(0, before=True)[0, 0] == pytest.approx(exact, abs=1e-12)
    with pytest.raises(ValueError, match="what steps make of straight lines is not analysed"):
        sd.analysis.sampled(loop, "Heun", 0.05)
    walled = sd.with_walls(integrator(), {"x": (0.0, None)})
    with pytest.raises(ValueError, match="nothing around it, got Walled"):
        sd.with_loop(walled, sd.Part("law", H, lambda t, o, s, p: (o, 0.0), writes="u", hold="first"))


def trapezoidal(A):
    """The step of the trapezoidal rule for z' = A z, over the whole argument."""
    return np.linalg.solve(np.eye(len(A)) - A / 2, np.eye(len(A)) + A / 2)


def swung_by_lines(late, end, flow):
    """x of x'' + 0.4 x' + 4 x = u from x = 1, where u goes on as the line through its last two values of -3 x, each
    used `late` after it was taken."""
    F = np.zeros((4, 4))
    F[:2, :2], F[1, 2], F[2, 3] = [[0, 1], [-4, -0.4]], 1.0, 1.0  # of (x, v, u, slope)
    z, last = np.array([1.0, 0.0, 0.0, 0.0]), 0.0
    for _ in range(round(end / H)):
        u = -3 * z[0]
        z = flow(late * F) @ z
        z[2:], last = (u, (u - last) / H), u
        z = flow((H - late) * F) @ z
    return z[0]


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.brief("SDAE")
@pytest.mark.parametrize("kind", ["Mechanical", "Hamiltonian", "SDAE"])
def test_other_kinds_of_plants_take_straight_lines(kind):
    """Of this plant the methods make the steps of the trapezoidal rule, whose error at 0.6 is 9.4e-5; held values would
    be off by 0.04."""
    u, names = {"u": 0.0}, ("x", "v")
    plant, method = {
        "Mechanical": lambda: (sd.Mechanical(lambda t, x, v, p: p["u"] - 4 * x - 0.4 * v, None, (1.0, 0.0), params=u,
                                             names=names), "Newmark"),
        "Hamiltonian": lambda: (sd.Hamiltonian(lambda t, q, p, params: p**2 / 2 + 2 * q**2 - params["u"] * q,
                                               force=lambda t, q, p: -0.4 * p, start=(1.0, 0.0), params=u, names=names),
                                None),
        "SDAE": lambda: (sd.SDAE(np.diag([1.0, 1.0, 0.0]),
                                 lambda t, x, p: jnp.array([x[1], x[2], x[2] + 4 * x[0] + 0.4 * x[1] - p["u"]]), None,
                                 start=[1.0, 0.0, -4.0], params=u, names=(*names, "a")), "Trapezoidal"),
    }[kind]()  # fmt: skip
    law = sd.Part("law", H, lambda t, own, seen, p: (own, -3 * seen["x"]), sd.true("x"), "u", delay=0.05, hold="first")
    loop, options = sd.with_loop(plant, law), {"t": (0, 0.6), "dt": H / 8, "paths": 1, "seed": 1, "progress": False}
    run = sd.simulate(loop, *([method] if method else []), collect=[st.Moments(at=[0.6])], **options)
    stepped = swung_by_lines(0.05, 0.6, lambda A: np.linalg.matrix_power(trapezoidal(A / 4), 4))
    exact = swung_by_lines(0.05, 0.6, scipy.linalg.expm)
    assert run["mean"].sel(component="x").values[-1] == pytest.approx(stepped, abs=1e-10)
    if kind != "SDAE":
        assert sd.analysis.sampled(loop).response({"x": 1.0}, 0.6)[0] == pytest.approx(exact, abs=1e-12)


def test_methods_for_the_state_space_form_of_an_sdae_are_refused_in_loops():
    """They leave out algebraic components, which sensors may read; the refusal was one of names."""
    plant = sd.SDAE(np.diag([1.0, 0.0]), lambda t, x, p: jnp.array([x[1] - x[0], x[1] - p["u"]]), None,
                    start=[0.5, 0.0], params={"u": 0.0}, names=("x", "i"))  # fmt: skip
    law = sd.Part("law", H, lambda t, own, seen, p: (own, -seen["x"]), sd.true("x"), "u")
    for problem in (sd.with_loop(plant, law), sd.with_measurement(plant, [[1.0, 0.0]], [[0.1]])):
        with pytest.raises(ValueError, match=r"method: RK4 takes the SDAE inside this .* without i; take a") as refused:
            matched(problem, sd.method("RK4"))
        assert "ImplicitEuler" in str(refused.value)
        assert ("BDF2Maruyama" in str(refused.value)) == ("Looped" not in str(refused.value))  # a loop refuses it
        assert matched(problem, sd.method("Trapezoidal"))[0] is problem
    with pytest.raises(ValueError, match=r"BDF2Maruyama keeps derivatives .* such as Trapezoidal or RK1W2"):
        sd.simulate(sd.with_loop(plant, law), "BDF2Maruyama", t=(0, 1), dt=0.05, paths=2, seed=1, progress=False)


def test_two_rates_a_delay_and_an_integral():
    exact = sd.analysis.sampled(s2())
    assert exact.radius == pytest.approx(0.99882856299039, abs=1e-11)
    before = exact.covariance(0, before=True)
    assert np.diagonal(before)[:2] == pytest.approx([0.0243652754758, 0.1712855829408], abs=1e-12)
    assert np.diagonal(exact.average)[[0, 1, 4]] == pytest.approx(
        [0.0243652752236, 0.1712838841019, 0.4543730915607], abs=1e-12
    )
    for t, of_u, of_both in ((0.0, 0.4515781747501, -0.0739950644001), (0.0025, 0.4571680083713, -0.0735569244506)):
        after = exact.covariance(t)
        assert (after[4, 4], after[0, 4]) == pytest.approx((of_u, of_both), abs=1e-12)
    assert exact.names == ("x", "v", "y", "r", "u", "law.z")
    assert exact.cost({"x": 1.0, "u": 0.1}) == pytest.approx(0.0243652752236 + 0.04543730915607, abs=1e-12)


def test_what_a_method_delivers_tends_to_the_exact_plant():
    errors = []
    for dt in (0.0005, 0.00025):
        delivered = sd.analysis.sampled(s2(), "Heun", dt).covariance(0, before=True)[0, 0]
        errors.append(abs(delivered - 0.0243652754758))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)
    with pytest.raises(ValueError, match=r"given at ticks, multiples of 0\.1.* Leave method and dt out"):
        sd.analysis.sampled(s1(), "Heun", 0.01).covariance(0.03)


def test_exact_steps_of_a_linear_plant_have_its_exact_covariances():
    """One step from sample to sample: without sampling to 1e-12, and by a run within five standard errors (6e-7)."""
    loop = s1({}, {"delay": 0.02})
    exact, delivered = sd.analysis.sampled(loop), sd.analysis.sampled(loop, "VanLoan", 0.02)
    assert delivered.law == "VanLoan, dt=0.02"
    for t in (0.0, 0.04):
        assert delivered.covariance(t) == pytest.approx(exact.covariance(t), abs=1e-13)
    assert sd.analysis.sampled(s2(), "VanLoan", 0.0005).covariance() == pytest.approx(
        sd.analysis.sampled(s2()).covariance(), rel=1e-9
    )
    seen = variance(loop, 4.0, dt=0.02, method="VanLoan")
    assert abs(seen / exact.covariance(0.0)[0, 0] - 1) < 5 * np.sqrt(2 / 4000)


def test_exact_steps_follow_the_increments_that_other_methods_have():
    """The same Brownian path as RK4 with short steps, so that the paths agree."""
    ends = []
    for method, dt in (("VanLoan", 0.01), ("RK4", 0.01)):
        run = sd.simulate(s2_of_the_state(), method, t=(0, 0.5), dt=dt, paths=3, seed=2, progress=False)
        ends.append(run["mean"].values[-1])
    assert ends[0] == pytest.approx(ends[1], abs=2e-3)


def s2_of_the_state():
    def law(t, own, seen, params):
        return own, -3 * seen["x"] - 1.2 * seen["v"]

    return sd.with_loop(OSCILLATOR, sd.Part("law", 0.05, law, (sd.true("x"), sd.true("v")), "u"))


@pytest.mark.parametrize(
    ("drift", "words"),
    [
        (lambda t, x, p: -p["u"] * x, "u multiplies the state or the noise"),
        (lambda t, x, p: jnp.sin(t) + p["u"] - x, "changes with time by itself"),
        (lambda t, x, p: p["u"] - jnp.sin(x), "made for linear systems"),
    ],
)
def test_exact_steps_of_other_plants_are_refused(drift, words):
    plant = sd.SDE(drift, lambda t, x: jnp.ones((1, 1)), start=[0.0], params={"u": 1.0}, names=("x",))
    loop = sd.with_loop(plant, of_the_state(lambda x: -x))
    with pytest.raises(ValueError, match=words):
        sd.simulate(loop, "VanLoan", t=(0, 1), dt=0.1, paths=2, seed=1, progress=False)


def test_sensor_noise_is_the_same_at_every_step():
    """With a plant that stands still the readings are their noise."""
    plant = sd.SDE(lambda t, x, p: 0 * x, lambda t, x: jnp.zeros((1, 1)), start=[0.0], params={"u": 0.0}, names=("x",))
    loop = sd.with_loop(
        plant,
        sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(1.0), bias=sd.noise.coloured.gauss_markov(1.0, 0.3)),
    )
    runs = [
        sd.simulate(
            loop, "Heun", t=(0, 1), dt=dt, paths=3, seed=4, progress=False, collect=[st.Paths(3, at=np.arange(11) / 10)]
        )
        for dt in (0.1, 0.025)
    ]
    first, second = (run["path"].sel(component="y").values for run in runs)
    assert (first == second).all() and len(np.unique(first)) == first.size


def test_results_do_not_depend_on_blocks_or_executors():
    options = {"t": (0, 1), "dt": 0.05, "paths": 40, "seed": 2, "progress": False}
    loop = s1({"loss": 0.2}, {"delay": 0.05})
    collect = [st.Moments(), st.Paths(40)]
    one = sd.simulate(loop, "Heun", block=8, collect=collect, **options)
    other = sd.simulate(loop, "Heun", block=40, threads=2, collect=collect, **options)
    assert (one["path"].values == other["path"].values).all()
    assert sd.provenance(one)["executor"] == "printed"
    by_vmap = sd.simulate(loop, "Heun", executor="vmap", **options)
    assert by_vmap["variance"].values == pytest.approx(one["variance"].values, rel=1e-9, abs=1e-15)


@pytest.mark.usefixtures("quick_compiling")
def test_a_loop_has_the_same_bits_in_a_kernel_on_replay_and_from_a_ledger(tmp_path):
    """A processor stands in for a GPU; a path of either run is replayed, and a ledger read back."""
    loop = s1({"loss": 0.2, "delay": 0.05}, {"delay": 0.02})
    options = {"t": (0, 0.5), "dt": 0.01, "paths": 6, "seed": 2, "progress": False, "collect": [st.Paths(6, every=1)]}
    for device in ("cpu", jax.devices("cpu")):
        run = sd.simulate(loop, "Heun", device=device, **options)
        assert sd.provenance(run)["executor"] == "printed"
        assert (sd.replay(loop, "Heun", run, 3)["path"].values == run["path"][3].values).all()
    first, again = (sd.simulate(loop, "Heun", ledger=tmp_path / "ledger", **options) for _ in (0, 1))
    plain = sd.simulate(loop, "Heun", **options)
    assert all((run["path"].values == plain["path"].values).all() for run in (first, again))


def test_what_a_loop_does_at_samples_is_printed_behind_the_step():
    """A step is one block and a loop of its own, as that of the plant alone: it reads whether a sample is due, which
    is computed before the steps, and what is done then is entered by all paths, so that nothing is picked."""
    spec = describe(s1(), "Heun", (0, 1), 0.01, [st.Moments()], "float64")
    text = executors.get(spec, "printed").program.code.text.split("define void @run")[1]
    name, step, rest = re.split(r"\n(step\d+):\n(?s:(.*?))\n  br ", text, maxsplit=1)[1:]
    inside, again = re.findall(r"label %(\w+)", rest.split("\n")[0])
    assert inside.startswith("left") and again == name
    assert not any(word in step for word in ("rint", "rem", "select")) and "load i8" in step
    acted = re.search(rf"\n{inside}:(?s:.*?)\nenter\d+:(?s:(.*?))\ndone", rest)
    assert acted and len(re.findall(r"select <\d+ x i1>", acted[1])) == 4  # those of Box and Muller's normals


def test_a_sensor_draws_at_its_own_ticks_alone_and_for_two_samples_at_once():
    """Of two sensors the fast one decides the ticks; the slow one is in a branch of its own, its draws in another."""
    things = [
        sd.Sensor(name, of="x", every=every, noise=sd.per_sample(1.0)) for name, every in (("a", 0.1), ("b", 0.3))
    ]
    spec = describe(sd.with_loop(integrator(), *things), "Heun", (0, 3), 0.1, None, "float64")
    text = executors.get(spec, "printed").program.code.text.split("define void @run")[1]
    assert len(re.findall(r"\nenter\d+:", text)) == 3 and len(re.findall(r"call <\d+ x double> @llvm.sqrt", text)) == 2
    radii = [place.start() for place in re.finditer(r"@llvm.sqrt.v\d+f64", text)]
    entries = [place.start() for place in re.finditer(r"\nenter\d+:", text)]
    assert entries[0] < radii[0] < entries[1] < entries[2] < radii[1]


def test_a_plant_that_a_loop_holds_does_not_make_its_steps_unstable():
    """The plant alone grows, and the loop brings it back; a step that is too long for the plant is still named."""

    def loop(rate, every, gain):
        plant = sd.SDE(
            lambda t, x, p: rate * x + p["u"], lambda t, x: jnp.ones((1, 1)), [0.1], params={"u": 0.0}, names=("x",)
        )
        law = sd.Part("law", every, lambda t, own, seen, p: (own, -gain * seen["x"]), sd.true("x"), "u")
        return sd.with_loop(plant, law)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sd.simulate(loop(2.0, 0.05, 8.0), "Heun", t=(0, 20), dt=0.01, paths=2, seed=1, progress=False)
    with pytest.warns(UnstableSteps, match="Heun makes differences grow"):
        sd.simulate(loop(-100.0, 0.2, 1.0), "Heun", t=(0, 2), dt=0.05, paths=2, seed=1, progress=False)


def test_an_alpha_method_begins_its_acceleration_anew():
    """Without noise, the error of x(2) falls by four where steps are halved, as the table of the method claims."""
    plant = sd.Mechanical(
        force=lambda t, x, v, p: -4 * x - 0.4 * v + p["u"],
        noise=lambda t, x, v, p: jnp.zeros((1, 1)),
        start=([1.0], [0.0]),
        params={"u": jnp.zeros(1)},
        names=("x", "v"),
    )
    law = sd.Part(
        "law", every=0.1, reads=sd.true("x"), writes="u", update=lambda t, own, seen, p: (own, -3 * seen["x"][None])
    )

    def end(method, dt):
        run = sd.simulate(sd.with_loop(plant, law), method, t=(0, 2), dt=dt, paths=1, seed=1, progress=False)
        return float(run["mean"].sel(component="x").values[-1])

    exact = end("Newmark", 0.1 / 256)
    errors = [abs(end("Newmark", 0.1 / n) - exact) for n in (4, 8)]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def held_oscillator(kind):
    """x'' + 0.4 x' + 4 x = u without noise, u = -3 x at every tenth of a second, as an SDE or a mechanical system."""
    if kind == "SDE":
        plant = dataclasses.replace(OSCILLATOR, diffusion=None)
    else:
        plant = sd.Mechanical(lambda t, x, v, p: -4 * x - 0.4 * v + p["u"], None, ([0.0], [0.0]), params={"u": 0.0})
    name = plant.components[0]
    return sd.with_loop(plant, sd.Part("law", H, lambda t, own, seen, p: (own, -3 * seen[name]), sd.true(name), "u"))


@pytest.mark.brief("Heun-SDE-2-2.2e-05", "StochasticAlpha-Mechanical-2-1.3e-05")
@pytest.mark.parametrize(
    ("method", "kind", "order", "error"),
    [
        ("Heun", "SDE", 2, 2.2e-5),
        ("RK4", "SDE", 4, 3.6e-11),
        ("ImplicitMidpoint", "SDE", 2, 1.1e-5),
        ("Trapezoidal", "SDE", 2, 1.1e-5),
        ("RK1W2", "SDE", 2, 5e-6),
        ("RK1A4", "SDE", 2, 1e-5),
        ("Newmark", "Mechanical", 2, 1.1e-5),
        ("GeneralisedAlpha", "Mechanical", 2, 1.1e-5),
        ("HHT", "Mechanical", 2, 2.5e-5),
        ("StochasticAlpha", "Mechanical", 2, 1.3e-5),
    ],
)
def test_methods_keep_their_order_over_jumps_of_an_input(method, kind, order, error):
    """The error of x(2), from the maps of ticks, at 16 and 32 steps to a period."""
    loop = held_oscillator(kind)
    start = {loop.components[0]: 1.0}
    exact = sd.analysis.sampled(loop).response(start, 2.0)[0]
    errors = [abs(sd.analysis.sampled(loop, method, H / k).response(start, 2.0)[0] - exact) for k in (16, 32)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1) and errors[1] < 1.1 * error


ALPHA = ["Newmark", "HHT", "StochasticAlpha"]


def swinging(*parts):
    plant = sd.Mechanical(lambda t, x, v, p: -4 * x - 0.4 * v + p["u"], None, ([1.0], [0.0]), params={"u": 0.0},
                          names=("x", "v"))  # fmt: skip
    return sd.with_loop(plant, *parts) if parts else plant


@pytest.mark.brief("HHT")
@pytest.mark.parametrize("method", ALPHA)
def test_a_sensor_that_nothing_reads_moves_no_plant(method):
    """α methods began their acceleration anew at its samples, which took the order of HHT and StochasticAlpha."""
    ends = []
    for system in (swinging(), swinging(sd.Sensor("y", of="x", every=0.02))):
        run = sd.simulate(system, method, t=(0, 2), dt=0.02, paths=1, seed=1, progress=False)
        ends.append(run["mean"].sel(component=["x", "v"]).values[-1])
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-13)


@pytest.mark.brief("HHT")
@pytest.mark.parametrize("method", ALPHA)
def test_accelerations_are_carried_over_ticks_that_move_no_input(method):
    """Exact maps of a loop with a delay, ticks of a quarter of a period, beside the path of a run."""
    law = sd.Part("law", 0.2, lambda t, own, seen, p: (own, -1.5 * seen["y"]), "y", "u", phase=0.1, delay=0.15)
    loop = swinging(sd.Sensor("y", of="x", every=0.05), law)
    for dt in (0.05, 0.025):
        run = sd.simulate(loop, method, t=(0, 3), dt=dt, paths=1, seed=1, progress=False)
        delivered = sd.analysis.sampled(loop, method, dt).response({"x": 1.0}, 3.0)
        np.testing.assert_allclose(delivered[:2], run["mean"].values[-1][:2], rtol=1e-11, atol=1e-12)


def test_responses_are_those_of_a_run_without_noise():
    loop = held_oscillator("Mechanical")
    run = sd.simulate(loop, "Newmark", t=(0, 0.5), dt=0.025, paths=1, seed=1, progress=False,
                      collect=[st.Paths(1, every=4)])  # fmt: skip
    assert (run["path"].values == 0.0).all()
    moved = dataclasses.replace(loop, problem=loop.problem.changed(start=([1.0], [0.0])))
    run = sd.simulate(moved, "Newmark", t=(0, 0.5), dt=0.025, paths=1, seed=1, progress=False,
                      collect=[st.Paths(1, every=4)])  # fmt: skip
    response = sd.analysis.sampled(loop, "Newmark", 0.025).response({"x0": 1.0}, run["time"].values)
    assert response == pytest.approx(run["path"].values[0], abs=1e-12)
    exact = sd.analysis.sampled(s1())
    assert exact.response({"x": 2.0}, [0.0, 0.05, 0.1])[:, 0] == pytest.approx([2.0, 1.5, 1.0])  # 2 (1 - K t)
    for start, t, words in (({"z": 1.0}, 0.0, "start: there is no component 'z'"), ({}, -1.0, "t: expected times")):
        with pytest.raises(ValueError, match=words):
            exact.response(start, t)


def test_other_loops_are_linearised_on_request():
    """sin x, noise of the state and limits: about a point they are the linear loop of their derivatives there."""

    def loop(drift, noise, law, limits=None):
        plant = sd.SDE(drift, noise, start=[0.0], params={"u": 0.0}, names=("x",), calculus="ito")
        sensor = sd.Sensor("y", of="x", every=H, noise=sd.per_sample(0.1), range=limits)
        part = sd.Part("law", every=H, reads="y", writes="u", update=lambda t, own, seen, p: (own, law(seen["y"])))
        return sd.with_loop(plant, sensor, part)

    curved = loop(
        lambda t, x, p: jnp.sin(x) + p["u"] + jnp.sin(t), lambda t, x: sd.diagonal(0.01 * (1 + x**2)),
        lambda y: -3 * jnp.tanh(y), (-1, 1),
    )  # fmt: skip
    at = 0.5
    slope = 3 * (1 - np.tanh(at) ** 2)
    straight = loop(
        lambda t, x, p: np.cos(at) * x + p["u"], lambda t, x: sd.diagonal([0.01 * (1 + at**2)]), lambda y: -slope * y
    )
    linearised, exact = sd.analysis.sampled(curved, at={"x": at}), sd.analysis.sampled(straight)
    assert linearised.law == "linearised, exact"
    assert linearised.average == pytest.approx(exact.average, rel=1e-12)
    both = [sd.analysis.sampled(curved, "RK4", 0.05, at={"x": at}), sd.analysis.sampled(straight, "RK4", 0.05)]
    assert both[0].law == "linearised, RK4, dt=0.05" and both[0].radius == pytest.approx(both[1].radius, rel=1e-3)
    with pytest.raises(ValueError, match="the noise of the plant is"):
        sd.analysis.sampled(loop(lambda t, x, p: p["u"] - x, lambda t, x: sd.diagonal(1 + x**2), lambda y: -y))
    with pytest.raises(ValueError, match="at: there is no component 'z'"):
        sd.analysis.sampled(curved, at={"z": 1.0})


def test_loops_whose_slopes_change_with_time_have_no_exact_answer():
    """What is added may move: setpoints and forces change the mean alone."""

    def loop(drift, law):
        plant = sd.SDE(drift, lambda t, x: sd.diagonal([1.0]), start=[0.0], params={"u": 0.0}, names=("x",))
        return sd.with_loop(
            plant, sd.Part("law", H, lambda t, own, seen, p: (own, law(t, seen["x"])), sd.true("x"), "u")
        )

    follows = loop(lambda t, x, p: p["u"] + jnp.sin(t) + 0 * x, lambda t, x: -K * (x - jnp.cos(t)))
    assert sd.analysis.sampled(follows).covariance()[0, 0] == pytest.approx(1 / (K * (2 - K * H)), abs=1e-12)
    with pytest.raises(ValueError, match="the slopes or the noise of the plant change with time"):
        sd.analysis.sampled(loop(lambda t, x, p: p["u"] - (1 + jnp.sin(t)) * x, lambda t, x: -x))
    with pytest.raises(ValueError, match=r"update \(law\): its slopes change with time"):
        sd.analysis.sampled(loop(lambda t, x, p: p["u"] + 0 * x, lambda t, x: -jnp.exp(-t) * x))


@pytest.mark.parametrize("method", ["AB2", "AM4"])
def test_methods_that_carry_derivatives_are_refused(method):
    with pytest.raises(ValueError, match=f"{method} keeps derivatives from before a jump"):
        sd.simulate(s1(), method, t=(0, 1), dt=0.05, paths=2, seed=1, progress=False)
    with pytest.raises(ValueError, match=f"{method} keeps derivatives from before a jump"):
        sd.analysis.sampled(s1(), method, 0.05)


def test_steps_that_do_not_divide_are_refused_with_those_that_do():
    with pytest.raises(ValueError, match=r"dt: 0.03 does not divide 0.0005, the tick of .*; give 0.0005 or 0.00025"):
        sd.simulate(s2(), "Heun", t=(0, 0.3), dt=0.03, paths=2, seed=1, progress=False)


@pytest.mark.parametrize(
    ("t", "dt", "words"),
    [
        ((0, 1), 0.03, "dt: 0.03 does not divide 0.1, the tick of every=0.1 (y), every=0.1 (law); give 0.025 or 0.02"),
        ((0, 0.25), 0.03, "the tick of every=0.1 (y), every=0.1 (law); give 0.025 or 0.0166666666667"),
        ((0, 0.25), 0.1, "dt: 0.1 divides 0.1, the tick of the loop, but not the interval (0, 0.25); give 0.05 or "
                         "0.025"),
        ((1, 1.5), 0.3, "give 0.1 or 0.05"),
    ],
)  # fmt: skip
def test_one_refusal_names_steps_that_fit_the_loop_and_the_run(t, dt, words):
    """A step that was named for the run alone was refused for the loop."""
    with pytest.raises(ValueError, match=re.escape(words)) as refusal:
        sd.simulate(s1(), "Heun", t=t, dt=dt, paths=2, seed=1, progress=False)
    for fitting in re.search(r"give (\S+) or (\S+)$", str(refusal.value)).groups():
        sd.simulate(s1(), "Heun", t=t, dt=float(fitting), paths=2, seed=1, progress=False)


def test_a_loop_is_solved_once_as_long_as_it_stays_the_same():
    """The answer belongs to who asked; functions that read other values by now are solved anew."""
    first = sd.analysis.sampled(s2())
    exact = first.covariance()
    first.begun[:] = 0.0
    assert (sd.analysis.sampled(s2()).covariance() == exact).all()
    gain = {"k": 3.0}
    loop = sd.with_loop(integrator(), of_the_state(lambda x: -gain["k"] * x))
    seen = []
    for gain["k"] in (3.0, 5.0):
        seen.append(sd.analysis.sampled(loop).covariance(0.0, before=True)[0, 0])
    assert seen == pytest.approx([1 / (k * (2 - k * H)) for k in (3.0, 5.0)], rel=1e-12)
    rough = sd.with_loop(integrator(), sd.Sensor("y", of="x", every=H, noise=sd.per_sample(R**0.5), resolution=0.5),
                         proportional())  # fmt: skip
    for _ in (0, 1):
        with pytest.warns(CoarseReadings, match="coarse beside the noise"):
            sd.analysis.sampled(rough)


def test_before_is_an_average_over_the_samples_of_a_period():
    """Of S2's controller at 0 and 5 ms, where the variance of v differs by 5.2e-6."""
    exact = sd.analysis.sampled(s2())
    each = [exact.covariance(t, before=True)[1, 1] for t in (0.0, 0.005)]
    assert each[0] == pytest.approx(0.1712855829408, abs=1e-12) and each[0] - each[1] > 5e-6
    assert exact.before("law")[1, 1] == pytest.approx(np.mean(each), abs=1e-15)
    assert exact.before("y")[1, 1] == each[0]


def test_readings_are_rounded_limited_averaged_and_late():
    plant = sd.SDE(
        lambda t, x, p: 1.0 + 0 * x, lambda t, x: jnp.zeros((1, 1)), start=[0.0], params={"u": 0.0}, names=("x",)
    )
    loop = sd.with_loop(
        plant,
        sd.Sensor("coarse", of="x", every=0.1, resolution=0.25, range=(0, 0.6)),
        sd.Sensor("mean", of="x", every=0.2, average=True),
        sd.Sensor("late", of="x", every=0.1, delay=0.3),
    )
    run = sd.simulate(loop, "Heun", t=(0, 1), dt=0.05, paths=1, seed=1, progress=False, collect=[st.Paths(1, every=1)])
    shown = {name: run["path"].sel(component=name).values[0] for name in ("coarse", "mean", "late")}
    t = run["time"].values
    last = np.floor(t / 0.1 + 1e-9) * 0.1
    assert shown["coarse"] == pytest.approx(np.clip(0.25 * np.floor(last / 0.25 + 0.5), 0, 0.6))
    assert shown["mean"] == pytest.approx(np.maximum(np.floor(t / 0.2 + 1e-9) * 0.2 - 0.1, 0.0))
    assert shown["late"] == pytest.approx(np.maximum(last - 0.3, 0.0))


@pytest.mark.parametrize(
    ("loop", "words"),
    [(s1({"delay": 1}), r"delay \(y\): its first reading arrives 1 after .* ends after 0.5, .* delay=0.1 for one"),
     (s1(part={"delay": 0.3, "phase": 0.3}), r"phase \(law\): its first output takes effect 0.6 after the start"),
     (s1({"delay": 0.3, "phase": 0.2}), None)],
)  # fmt: skip
def test_what_would_come_after_the_end_of_a_run_is_told(loop, words):
    """delay=1 meant as one sample is 1 s; what comes at the very end still comes."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", NeverArrives)
        describe(loop, "EulerMaruyama", (2.0, 2.5), 0.1, st.Moments(), "float64")
    assert [bool(words and re.search(words, str(one.message))) for one in told] == [True] * bool(words)


@pytest.mark.usefixtures("quick_compiling")
def test_noise_of_a_sensor_may_have_any_distribution():
    """Readings of a plant at rest are even over the width, in moments to five standard errors; the exact covariances
    and a filter know of the variance alone."""
    even = scipy.stats.uniform(-((3 * R) ** 0.5), 2 * (3 * R) ** 0.5)
    still = sd.SDE(lambda t, x: 0 * x, None, start=[0.0], names=("x",))
    loop = sd.with_loop(still, sd.Sensor("y", of="x", every=H, noise=even))
    run = sd.simulate(loop, "Heun", t=(0, 2), dt=H, paths=200, seed=1, progress=False, collect=[st.Paths(200, every=1)])
    y = run["path"].sel(component="y").values.ravel() / even.std()
    assert len(np.unique(y)) == y.size == 4200 and np.abs(y).max() <= 3**0.5
    for power, moment in ((1, 0.0), (2, 1.0), (4, 1.8)):
        assert abs((y**power).mean() - moment) < 5 * (y**power).std() / y.size**0.5
    loops = [sd.with_loop(integrator(), sd.Sensor("y", of="x", every=H, noise=noise), proportional())
             for noise in (even, sd.per_sample(R**0.5))]  # fmt: skip
    one, other = (sd.analysis.sampled(loop).covariance() for loop in loops)
    assert one == pytest.approx(other, abs=1e-12)
    one, other = (sd.parts.kalman(integrator(), loop.sensors, H).design.covariance for loop in loops)
    assert one == pytest.approx(other, abs=1e-12)


def of_the_input(law, average=None, **options):
    """x from 1 on, without noise of its own; one sensor reads the input as it acts, and `law` makes the input of x and
    of that reading."""
    plant = dataclasses.replace(integrator(), start=[1.0])
    part = sd.Part(
        "law", H, lambda t, own, seen, p: (own, law(seen["x"], seen["f"])), (sd.true("x"), "f"), "u", **options
    )
    return sd.with_loop(plant, sd.Sensor("f", of=lambda t, x, p: p["u"], every=H, average=average), part)


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.brief("options0-read0", "options4-read4")
@pytest.mark.parametrize(
    ("options", "read"),
    [({}, [0.0, -1.0, -0.9]), ({"average": True}, [0.0, -1.0, -0.9]), ({"delay": 0.05}, [0.0, -1.0, -0.95]),
     ({"delay": 0.05, "average": True}, [0.0, -0.5, -0.975]),
     ({"delay": 0.05, "average": True, "hold": "first"}, [0.0, -0.625, -1.3359375])],
)  # fmt: skip
def test_sensors_read_the_input_as_it_acts(options, read):
    """As accelerometers do: of u' = -x, by hand. They read the value that params have at the start, for ever."""
    loop = of_the_input(lambda x, f: -x, **options)
    loop = dataclasses.replace(loop, problem=dataclasses.replace(loop.problem, diffusion=None))
    run = sd.simulate(loop, "Heun", t=(0, 0.2), dt=0.05, paths=1, seed=1, progress=False,
                      collect=[st.Moments(at=[0, H, 2 * H])])  # fmt: skip
    assert run["mean"].sel(component="f").values == pytest.approx(read, abs=1e-12)


@pytest.mark.parametrize("average", [None, True])
def test_readings_of_the_input_are_in_the_exact_covariances(average):
    """A part that remembers what it wrote needs no sensor for it."""

    def remembering(t, own, seen, p):
        u = -3 * seen["x"] - 0.4 * own
        return u, u

    known = sd.with_loop(integrator(), sd.Part("law", H, remembering, sd.true("x"), "u", state=0.0))
    loop = of_the_input(lambda x, f: -3 * x - 0.4 * f, average)
    for method in ((), ("Heun", H / 2)):
        one, other = (sd.analysis.sampled(problem, *method) for problem in (loop, known))
        assert one.covariance()[0, 0] == pytest.approx(other.covariance()[0, 0], abs=1e-13)
        assert one.radius == pytest.approx(other.radius, abs=1e-12)
    with pytest.raises(ValueError, match=r"of \(f\): reads u, a straight line between samples"):
        sd.analysis.sampled(of_the_input(lambda x, f: -x, average, hold="first"))
    with pytest.raises(ValueError, match=r"of \(f\): reads the input u; a filter here"):
        sd.parts.lqg(integrator(), {"x": 1.0, "u": 1.0}, of_the_input(lambda x, f: -x).sensors, H)


def test_jitter_keeps_the_number_of_samples_and_moves_them():
    plant = sd.SDE(
        lambda t, x, p: 1.0 + 0 * x, lambda t, x: jnp.zeros((1, 1)), start=[0.0], params={"u": 0.0}, names=("x",)
    )
    together = sd.Jitter(steps=2)
    loop = sd.with_loop(plant, *(sd.Sensor(name, of="x", every=0.1, jitter=together) for name in ("a", "b")))
    run = sd.simulate(
        loop, "Heun", t=(0, 4), dt=0.01, paths=20, seed=1, progress=False, collect=[st.Paths(20, every=1)]
    )
    a, b = (run["path"].sel(component=name).values for name in ("a", "b"))
    assert (a == b).all()
    times = [np.flatnonzero(np.diff(row)) + 1 for row in a]
    late = np.concatenate([row - 10 * np.round(row / 10) for row in times]).astype(int)
    assert set(late) == {-2, -1, 0, 1, 2} and all(39 <= len(row) <= 41 for row in times)


@pytest.mark.usefixtures("quick_compiling")
def test_samples_whose_times_drift_are_counted_one_by_one():
    """Each takes the next normal of its sensor, as those at regular times do."""
    plant = sd.SDE(lambda t, x: 0 * x, lambda t, x: jnp.zeros((1, 1)), start=[0.0], names=("x",))
    sequences = []
    for jitter in (None, sd.Jitter(steps=4, drifting=True)):
        sensor = sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(1.0), jitter=jitter)
        run = sd.simulate(sd.with_loop(plant, sensor), "Heun", t=(0, 12), dt=0.01, paths=1, seed=1, progress=False,
                          collect=[st.Paths(1, every=1)])  # fmt: skip
        y = run["path"].sel(component="y").values[0]
        sequences.append(y[np.flatnonzero(np.diff(y, prepend=0.0))])
    count = min(map(len, sequences))
    assert count > 100 and (sequences[0][:count] == sequences[1][:count]).all()


def clockwork(*sensors, t=4.0, dt=0.01):
    """The readings of a plant whose one component is the time, along one path: a row for each."""
    plant = sd.SDE(lambda t, x: 1.0 + 0 * x, lambda t, x: jnp.zeros((1, 1)), start=[0.0], names=("x",))
    run = sd.simulate(sd.with_loop(plant, *sensors), "Heun", t=(0, t), dt=dt, paths=1, seed=1, progress=False,
                      collect=[st.Paths(1, every=1)])  # fmt: skip
    return {sensor.name: run["path"].sel(component=sensor.name).values[0] for sensor in sensors}


def test_values_of_jittered_sensors_arrive_their_delay_after_they_were_read():
    """They arrived at the regular time and the delay: at once, a period late, or those of the next reading instead."""
    delays = (0.01, 0.05, 0.09, 0.13, 0.29)
    about, drifting = sd.Jitter(steps=3), sd.Jitter(steps=4, drifting=True)
    sensors = [
        sd.Sensor(f"{word}{delay}", of="x", every=0.1, delay=delay, jitter=jitter)
        for word, jitter in (("about", about), ("drifting", drifting))
        for delay in delays
    ]
    for name, shown in clockwork(*sensors).items():
        arrivals = np.flatnonzero(np.diff(shown)) + 1
        assert len(arrivals) > 30, name
        assert 0.01 * arrivals - shown[arrivals] == pytest.approx(float(name.lstrip("aboutdrifng")), abs=1e-9), name


@pytest.mark.parametrize("drifting", [False, True])
def test_jittered_readings_average_over_the_time_since_the_one_before(drifting):
    """It was divided by the period, so that a constant had readings from 0.4 to 1.6 of it."""
    late = sd.Jitter(steps=3, drifting=drifting)
    shown = clockwork(
        sd.Sensor("mean", of="x", every=0.1, average=True, jitter=late),
        sd.Sensor("now", of="x", every=0.1, jitter=late),
    )
    taken = np.flatnonzero(np.diff(shown["now"])) + 1
    ends = shown["now"][taken]
    assert len(set(np.round(np.diff(ends), 6))) > 3
    assert shown["mean"][taken][1:] == pytest.approx((ends[1:] + ends[:-1]) / 2, abs=1e-12)


def test_a_lost_reading_that_would_have_been_late_leaves_the_last_that_arrived():
    """What was read at the time of the lost one was shown again, so that readings went back in time."""
    shown = clockwork(sd.Sensor("y", of="x", every=0.1, loss=0.3, delay=0.25), t=10.0, dt=0.05)["y"]
    arrivals = np.flatnonzero(np.diff(shown)) + 1
    assert 40 < len(arrivals) < 90
    assert 0.05 * arrivals - shown[arrivals] == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize(
    ("things", "words"),
    [
        ((sd.Sensor("y", of="z", every=0.1),), "there is no component 'z'"),
        ((sd.Sensor("y", of="x"),), "needs the time between its readings"),
        ((proportional(),), "there is no sensor or part 'y'"),
        ((sd.Part("law", every=0.1, reads="x", writes="u", update=lambda t, o, s, p: (o, 0.0)),), 'sd.true\\("x"\\)'),
        ((sd.Part("law", every=0.1, writes="w", update=lambda t, o, s, p: (o, jnp.zeros(()))),), "no parameter 'w'"),
        (
            (sd.Part("law", every=0.1, writes="u", update=lambda t, o, s, p: (o, jnp.zeros(2))),),
            "writes 'u' of the shape",
        ),
        ((), "at least one sensor or part"),
    ],
)
def test_what_does_not_exist_is_refused(things, words):
    with pytest.raises(ValueError, match=words):
        sd.with_loop(integrator(), *things)


TWO_INPUTS = sd.SDE(
    lambda t, x, p: -x + p["u"] + p["w"],
    lambda t, x: 0.1 * jnp.eye(2),
    start=[1.0, -1.0],
    params={"u": np.zeros(2), "w": 0.0},
    names=("a", "b"),
)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ((5.0, np.array([1.0, 2.0])), r"but its output has u \(\), w \(2,\)"),
        (np.zeros(5), r"but its output has one array of the shape \(5,\)"),
        ({"u": np.array([1.0, 2.0])}, r"but its output has u \(2,\)"),
        (np.array([1.0, 2.0, 5.0]), None),
        ((np.array([1.0, 2.0]), 5.0), None),
        ({"w": 5.0, "u": np.array([1.0, 2.0])}, None),
    ],
)
def test_several_outputs_are_those_of_their_inputs(out, words):
    """A tuple in another order was cut up, and went to the wrong inputs."""
    out = jax.tree.map(jnp.asarray, out)

    def loop():
        return sd.with_loop(TWO_INPUTS, sd.Part("law", H, lambda t, own, seen, p: (own, out), writes=("u", "w")))

    if words:
        with pytest.raises(ValueError, match=words):
            loop()
        return
    run = sd.simulate(loop(), "Heun", t=(0, H), dt=H, paths=1, seed=1, progress=False)
    assert run["mean"].sel(component=["u0", "u1", "w"]).values[-1] == pytest.approx([1.0, 2.0, 5.0])


def test_shapes_of_states_noises_and_digits_are_looked_at():
    """They ended in errors of JAX, xarray and Python."""
    with pytest.raises(ValueError, match=r"update \(law\): its own state keeps its shapes, \(\), got \(3,\)"):
        sd.with_loop(
            TWO_INPUTS,
            sd.Part("law", H, lambda t, own, seen, p: (jnp.zeros(3), jnp.zeros(2)), writes="u", state=0.0),
        )
    with pytest.raises(ValueError, match=r"noise \(y\): is of 3 readings, the sensor has 2"):
        sd.with_loop(TWO_INPUTS, sd.Sensor("y", of=("a", "b"), every=H, noise=sd.per_sample([0.1, 0.2, 0.3])))
    with pytest.raises(ValueError, match=r"resolution \(y\): expected a positive number"):
        sd.Sensor("y", of=("a", "b"), every=H, resolution=(0.1, 0.2))
    with pytest.raises(ValueError, match=r"writes 'w' of the shape \(\), but its output has a tuple"):
        sd.with_loop(TWO_INPUTS, sd.Part("law", H, lambda t, own, seen, p: (own, (5.0,)), writes="w"))


def test_a_part_that_reads_its_own_output_is_told_of_its_state():
    with pytest.raises(ValueError, match=r"reads \(a\): it reads its own output.*state="):
        sd.with_loop(integrator(), sd.Part("a", H, lambda t, own, seen, p: (own, seen["a"] + 1.0), "a"))


def test_rates_that_are_no_decimals_are_taken_as_fractions():
    """At 44.1 and 14.7 kHz the last of 30 steps is sample 30 of the one and the 10th of the other."""
    times = {"exact": (Fraction(1, 44100), Fraction(1, 14700)), "rounded": (1 / 44100, 1 / 14700)}
    sensors = {
        word: (sd.Sensor("fast", of="x", every=fast), sd.Sensor("slow", of="x", every=slow, phase=Fraction(1, 44100)))
        for word, (fast, slow) in times.items()
    }
    shown = clockwork(*sensors["exact"], t=1 / 1470, dt=1 / 44100)
    assert 44100 * np.array([shown["fast"][-1], shown["slow"][-1]]) == pytest.approx([30.0, 28.0])
    with pytest.raises(ValueError, match=r"have no tick worth the name.*fractions\.Fraction"):
        clockwork(*sensors["rounded"], t=1 / 1470, dt=1 / 44100)


def test_loops_run_in_single_precision():
    """Constants of 64 bits in the functions of a plant ended such a run in an error of JAX."""
    loop = sd.with_loop(
        integrator(),
        sd.Sensor("y", of="x", every=H, noise=sd.per_sample(0.1), loss=0.1, average=True),
        sd.Sensor("z", of="x", every=H, noise=sd.noise.coloured.gauss_markov(0.1, 1.0), delay=0.05),
        proportional(delay=0.05),
    )
    ends = [
        sd.simulate(loop, "Heun", t=(0, 1), dt=0.05, paths=4, seed=1, progress=False, dtype=dtype)["mean"].values[-1]
        for dtype in ("float32", "float64")
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-5)


def test_levels_of_what_is_held_are_crossed_at_samples_and_nothing_is_missed():
    """Printed, beside steps; the noise of a sensor with a passage did not print. Neither warns of missed crossings."""
    run = functools.partial(sd.simulate, s1(), "Heun", t=(0, 1), dt=0.05, paths=64, seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = run(executor="printed", collect=[st.Paths(64, every=1), st.Passage(0.8, of="u", mean=False)])
        run(executor="printed", collect=st.Passage(0.3, of="x", mean=False))
        stopped = run(stop=sd.Stop(sd.Level(0.8, of="u")))
    u = seen["path"].sel(component="u").values
    crossed = np.maximum.accumulate(u >= 0.8, axis=1)
    assert seen["passage_survival"].values == pytest.approx(1.0 - crossed.mean(axis=0), abs=1e-12)
    assert 0.05 < crossed[:, -1].mean() < 0.95
    assert stopped["alive"].values[-1] == np.sum(~crossed[:, -1])
    with pytest.warns(NoBridge, match="u changes at samples alone"):
        run(stop=sd.Stop(sd.Level(lambda t: 0.8 - 0.1 * t, of="u")))


def test_an_update_that_draws_is_refused():
    rng = np.random.default_rng(1)
    law = sd.Part("law", H, lambda t, own, seen, p: (own, rng.normal() * seen["x"]), sd.true("x"), "u")
    with pytest.raises(ValueError, match=r"update \(law\): traced twice, it gives two different functions"):
        sd.simulate(sd.with_loop(integrator(), law), "Heun", t=(0, 1), dt=0.1, paths=2, seed=1, progress=False)


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (lambda t, own, seen, p: -seen["y"], r"update \(law\): expected it to return \(own, out\), got a ShapeDtype"),
        (lambda t, own, seen, p: None, r"expected it to return \(own, out\), got a NoneType"),
        (
            lambda t, own, seen, p: (own, -seen["z"]),
            r"could not be traced by JAX .*'z'.*of `seen` it has y, of `params` u",
        ),
    ],
)
def test_an_update_that_is_none_is_refused_in_words(update, words):
    with pytest.raises(TypeError, match=words):
        sd.with_loop(integrator(), sd.Sensor("y", of="x", every=H), sd.Part("law", H, update, "y", "u"))


def test_parts_that_read_each_other_and_write_nothing_are_refused():
    one, other = (
        sd.Part(name, every=0.1, reads=read, update=lambda t, own, seen, p, read=read: (own, seen[read]))
        for name, read in (("a", "b"), ("b", "a"))
    )
    with pytest.raises(ValueError, match="reads: the parts a, b read each other and write nothing"):
        sd.with_loop(integrator(), one, other)


def test_a_bare_number_is_refused_as_noise():
    with pytest.raises(TypeError, match=r"sd.per_sample\(0.1\) or sd.density\(0.1"):
        sd.Sensor("y", of="x", every=0.1, noise=0.1)


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (lambda: s1({"range": (-1, 1)}), "range \\(y\\): is not affine"),
        (lambda: sd.with_loop(integrator(), of_the_state(lambda x: -jnp.tanh(x))), "not proved to be affine"),
        (lambda: sd.with_loop(integrator(), of_the_state(lambda x: -25 * x)), "unstable, its mode"),
        (lambda: s1({"loss": 0.9}, {"delay": 0.05}), "unstable in mean square, its mode with .* is that of"),
    ],
)
def test_loops_that_have_no_exact_answer_are_refused(loop, words):
    with pytest.raises(ValueError, match=words):
        sd.analysis.sampled(loop())


def test_parameters_that_differ_from_path_to_path_have_no_one_answer():
    """The answer was that of one of them, drawn somewhere."""
    plant = sd.SDE(
        lambda t, x, p: p["u"] - p["rate"] * x,
        lambda t, x: jnp.ones((1, 1)),
        start=[0.0],
        params={"u": 0.0, "rate": scipy.stats.uniform(1, 2)},
        names=("x",),
    )
    y = sd.Sensor("y", of="x", every=H, noise=sd.per_sample(0.1))
    with pytest.raises(ValueError, match="loop: its parameter rate differs from path to path"):
        sd.analysis.sampled(sd.with_loop(plant, y, proportional()))
    with pytest.raises(ValueError, match="plant: its parameter rate differs from path to path"):
        sd.parts.lqg(plant, {"x": 1.0, "u": 0.1}, y, H)
    begun = integrator().changed(params={"u": scipy.stats.uniform(1, 2)})  # the inputs are what the parts make them
    assert sd.analysis.sampled(sd.with_loop(begun, y, proportional())).stable


def test_rounding_is_a_noise_of_its_own_unless_it_is_coarser_than_the_noise():
    """With the noise R of a reading, the closed form holds for R + q²/12."""
    q = 0.15
    rounded = sd.analysis.sampled(s1({"resolution": q})).covariance(0, before=True)[0, 0]
    assert rounded == pytest.approx((1 + K**2 * H * (R + q**2 / 12)) / (K * (2 - K * H)), rel=1e-12)
    with pytest.warns(CoarseReadings, match=r"resolution \(y\): 0.25 is coarse beside the noise of a reading, 0.1"):
        sd.analysis.sampled(s1({"resolution": 0.25}))


@pytest.mark.parametrize(
    ("steps", "at_the_start", "at_samples"),
    [
        (1, 0.1339921335723, 0.1374830333683),
        (2, 0.1328547447603, 0.1391263102173),
        (4, 0.1360330424153, 0.1449975518655),
    ],
)
def test_jitter_has_its_exact_covariances(steps, at_the_start, at_samples):
    """At the first step at which a sample may fall, and just before samples, wherever they fall."""
    late = sd.Jitter(steps=steps)
    solved = sd.analysis.sampled(s1({"jitter": late}, {"jitter": late}), dt=0.01)
    start = solved.covariance(H - 0.01 * steps, before=True)[0, 0]
    assert (start, solved.before("law")[0, 0]) == pytest.approx((at_the_start, at_samples), abs=1e-12)
    with pytest.raises(ValueError, match="dt: jitter is counted in steps"):
        sd.analysis.sampled(s1({"jitter": late}, {"jitter": late}))
    with pytest.raises(ValueError, match="arrive a delay after instants that are drawn are not analysed"):
        sd.analysis.sampled(s1({"jitter": late}, {"jitter": late, "delay": 0.05}), dt=0.01)
    with pytest.raises(ValueError, match="averages over times that are drawn are not analysed"):
        sd.analysis.sampled(s1({"jitter": late, "average": True}), dt=0.01)
    with pytest.raises(ValueError, match="late independently of each other"):
        sd.analysis.sampled(s1({"jitter": late}, {"jitter": sd.Jitter(steps=1)}), dt=0.01)


def of_intervals(mean, square, k=5.0, r=0.01):
    """The variance before a sample of x' = -k (x + v) + w whose intervals have this mean and mean square."""
    return (mean + k**2 * r * square) / (2 * k * mean - k**2 * square)


def test_intervals_that_are_drawn_have_their_closed_form():
    for epsilon, exact in ((0.2, 0.1373214285714), (0.5, 0.1408571428571), (1.0, 0.155)):
        assert of_intervals(0.1, 0.01 * (1 + epsilon**2 / 3)) == pytest.approx(exact, abs=1e-12)
    for steps, dt in ((2, 0.01), (4, 0.01), (40, 0.001)):
        together = sd.Jitter(steps=steps, drifting=True)
        solved = sd.analysis.sampled(s1({"jitter": together}, {"jitter": together}), dt=dt)
        square = 0.01 + dt**2 * steps * (steps + 1) / 3
        assert solved.before("y")[0, 0] == pytest.approx(of_intervals(0.1, square), abs=1e-12)
        assert solved.radius == pytest.approx(1 - 2 * 5 * 0.1 + 25 * square, abs=1e-12)
    with pytest.raises(ValueError, match="the loop has no period"):
        solved.covariance()


@pytest.mark.usefixtures("quick_compiling")
def test_averages_over_intervals_that_are_drawn_are_those_of_regular_ones_and_of_a_run():
    """Intervals that hardly differ have nearly the average of regular ones; with losses a run has them too."""
    regular = sd.analysis.sampled(s1()).average[0, 0]
    nearly = sd.Jitter(steps=1, drifting=True)
    solved = sd.analysis.sampled(s1({"jitter": nearly}, {"jitter": nearly}), dt=0.001)
    assert solved.average[0, 0] == pytest.approx(regular, rel=1e-3)
    wide = sd.Jitter(steps=4, drifting=True)
    loop = s1({"jitter": wide, "loss": 0.2}, {"jitter": wide})
    run = sd.simulate(loop, "VanLoan", t=(0, 4), dt=0.01, paths=2000, seed=1, progress=False,
                      collect=[st.Moments(at=[4.0])])  # fmt: skip
    off = run["variance"].values[0, 0] - sd.analysis.sampled(loop, "VanLoan", 0.01).average[0, 0]
    assert abs(off) < 5 * run["variance_stderr"].values[0, 0]


def test_a_part_may_know_whether_a_reading_arrives():
    """Of a sensor that keeps its last reading, a part that leaves it out where none arrives is the same as one that
    reads zeros: exactly, and in runs with a delay. Of a slower sensor it is told at its instants alone."""

    def heeding(kept, delay=0.0):
        sensor = sd.Sensor("y", of="x", every=H, noise=sd.per_sample(0.1), loss=0.4, keep=kept, delay=delay)
        law = sd.Part(
            "law",
            every=H,
            reads=("y", sd.parts.arrived("y")),
            writes="u",
            update=lambda t, own, seen, p: (own, -K * seen["y"] * (seen["y arrived"] if kept == "last" else 1.0)),
            phase=delay,
        )
        return sd.with_loop(integrator(), sensor, law)

    last, zero = (sd.analysis.sampled(heeding(kept)).covariance(0.05)[0, 0] for kept in ("last", "zero"))
    assert last == pytest.approx(zero, rel=1e-12)
    ends = [
        sd.simulate(heeding(kept, 0.05), "Heun", t=(0, 1), dt=0.05, paths=8, seed=1, progress=False)["mean"].values[
            -1, 0
        ]
        for kept in ("last", "zero")
    ]
    assert ends[0] == ends[1]
    count = sd.Part(
        "count", H, lambda t, own, seen, p: (own + seen["slow arrived"], own), sd.parts.arrived("slow"), state=0.0
    )
    loop = sd.with_loop(integrator(), sd.Sensor("slow", of="x", every=0.3, phase=H), count)
    run = sd.simulate(loop, "Heun", t=(0, 1), dt=0.05, paths=1, seed=1, progress=False)
    assert run["mean"].sel(component="count.state").values[-1] == 4.0  # at 0.1, 0.4, 0.7 and 1
    with pytest.raises(ValueError, match=r"reads \(law\): arrived\('z'\) needs a sensor; there are y"):
        sd.with_loop(
            integrator(), sd.Sensor("y", of="x", every=H), sd.Part("law", H, lambda *a: a, sd.parts.arrived("z"))
        )
    late = sd.Sensor("y", of="x", every=H, jitter=sd.Jitter(steps=1))
    with pytest.raises(ValueError, match="leave jitter out of the sensor"):
        sd.with_loop(integrator(), late, sd.Part("law", H, lambda *a: a, sd.parts.arrived("y")))


def test_jitter_and_loss_together_are_those_of_a_run():
    """The variances of x inside the period, of 4000 paths within five standard errors (false alarms 6e-7)."""
    late = sd.Jitter(steps=3)
    loop = s1({"jitter": late, "loss": 0.3}, {"jitter": late})
    seen = variance(loop, 4.05, dt=0.01)
    assert abs(seen / sd.analysis.sampled(loop, dt=0.01).covariance(0.05)[0, 0] - 1) < 5 * 2 * np.sqrt(2 / 4000)


def test_analyses_that_a_loop_does_not_fit_refuse_it():
    with pytest.raises(ValueError, match="branches of a path would share"):
        sd.rare(s1(), event=sd.Level(3.0, of="x"), before=1.0, dt=0.05, seed=1)
    with pytest.raises(ValueError, match="'x' is a component of the plant"):
        sd.with_loop(integrator(), sd.Sensor("x", of="x", every=0.1))
    with pytest.raises(ValueError, match="name: 'u' is an input that a part writes"):
        law = sd.Part("law", 0.1, lambda t, own, seen, p: (own, -seen["u"]), "u", "u")
        sd.with_loop(integrator(), sd.Sensor("u", of="x", every=0.1), law)
    with pytest.raises(TypeError, match="with_loop\\(with_noise"):
        sd.with_noise(s1(), sd.noise.coloured.gauss_markov(1.0, 0.1), "x")
    with pytest.raises(TypeError, match="with_loop\\(with_walls"):
        sd.with_walls(s1(), {"x": (0.0, None)})


@pytest.mark.parametrize("kind", ["SDAE", "Hamiltonian", "walls"])
def test_every_kind_of_plant_takes_a_loop(kind):
    """What a part writes at the start is what the plant feels: with u = 1 in place of 0 the mean moves."""
    plants = {
        "SDAE": sd.SDAE(
            np.diag([1.0, 0.0]),
            lambda t, x, p: jnp.array([x[1] - x[0], x[1] - p["u"]]),
            lambda t, x: jnp.array([[0.1], [0.0]]),
            start=[0.5, 0.0],
            params={"u": 0.0},
        ),
        "Hamiltonian": sd.Hamiltonian(
            lambda t, q, p, params: 0.5 * p[0] ** 2 + 0.5 * q[0] ** 2 - params["u"] * q[0],
            [lambda t, q, p: 0.1 * q[0]],
            start=([0.0], [0.0]),
            params={"u": 0.0},
        ),
        "walls": sd.with_walls(
            sd.SDE(lambda t, x, p: p["u"] - x, lambda t, x: 0.1, 0.5, params={"u": 0.0}), {"x": (0, None)}
        ),
    }
    means = []
    for u in (0.0, 1.0):
        part = sd.Part("law", every=0.5, writes="u", update=lambda t, own, seen, p, u=u: (own, jnp.asarray(u)))
        run = sd.simulate(sd.with_loop(plants[kind], part), t=(0, 1), dt=0.05, paths=8, seed=1, progress=False)
        means.append(float(run["mean"].values[-1, 0]))
    assert means[1] - means[0] > 0.2


NETLIST = """RC
.param u=0.5 r=1k
V1 in 0 DC {u}
R1 in out {r}
C1 out 0 1u
"""


@pytest.mark.usefixtures("quick_compiling")
def test_a_parameter_of_a_netlist_that_gives_the_value_of_a_source_is_an_input():
    """From 0.5 V the capacitor goes to 1 - 0.5/2 V, then to 1 V less half of what it had, each for a time RC."""
    circuit = sd.circuits.read(NETLIST)

    def law(name="u"):
        return sd.Part("law", 1e-3, lambda t, own, seen, p: (own, 1 - 0.5 * seen["y"]), "y", name)

    y = sd.Sensor("y", of="out", every=1e-3)
    loop = sd.with_loop(circuit, y, law())
    assert loop.problem.params == {"noise": 1.0, "u": pytest.approx(0.5)}
    run = sd.simulate(loop, "Trapezoidal", t=(0, 2e-3), dt=1e-5, paths=2, seed=1, progress=False,
                      collect=[st.Moments(at=[0, 1e-3, 2e-3])])  # fmt: skip
    exact = [0.5]
    for _ in range(2):
        exact.append(exact[-1] * np.exp(-1) + (1 - 0.5 * exact[-1]) * (1 - np.exp(-1)))
    assert run["mean"].sel(component="out").values == pytest.approx(exact, abs=2e-6)
    with pytest.raises(ValueError, match="writes: 'r' of the netlist is no input"):
        sd.with_loop(circuit, y, law("r"))
    with pytest.raises(ValueError, match="there is no value named w"):
        sd.with_loop(circuit, y, law("w"))
    with pytest.raises(ValueError, match="its plant, a SDAE, has no form as an SDE of its own components"):
        sd.analysis.sampled(loop)


def test_readings_and_inputs_have_units_and_a_loop_is_shown_with_its_parts():
    """A sensor's own unit, else that of the component that it reads; inputs that of their parameter."""
    plant = integrator(units={"x": "rad/s", "u": "V"})
    sensors = sd.Sensor("y", of="x", every=H, noise=sd.per_sample(0.1)), sd.Sensor("z", of="x", every=H, unit="rpm")
    loop = sd.with_loop(plant, *sensors, proportional())
    assert loop.component_units == {"x": "rad/s", "y": "rad/s", "z": "rpm", "u": "V"}
    shown = str(loop)
    assert "sensor z    every 0.1" in shown and "part law    every 0.1, reads y, writes u" in shown
    assert "params      u = 0\n" in shown
    late = sd.with_loop(plant, *sensors, sd.Sensor("w", of="x", every=H, delay=0.05))
    assert loop.before_run(0.0) == ("loop: y every 0.1, z every 0.1, law every 0.1; tick 0.1",)
    assert late.before_run(0.0)[0].endswith("tick 0.05; until w has read, it shows the start without noise")
    gyro = sd.noise.gyro(arw=0.1, bias_instability=0.1, band=(0.001, 4.0))
    noisy = sd.with_loop(plant, sd.Sensor("y", of="x", every=H, noise=gyro))
    assert noisy.before_run(0.0)[1:] == ("flicker of y: from 0.001 to 4 Hz",)


@pytest.mark.parametrize("noise", [sd.per_sample(0.1), None])
def test_a_plant_without_params_can_be_read(noise):
    plant = sd.SDE(lambda t, x: -x, lambda t, x: jnp.ones((1, 1)), start=[0.0], names=["x"])
    loop = sd.with_loop(plant, sd.Sensor("y", of="x", every=0.1, noise=noise))
    run = sd.simulate(loop, "Heun", t=(0, 0.2), dt=0.05, paths=2, seed=1)
    assert run.sizes["component"] == 2
    spread = 0.5 + (0.01 if noise else 0.0)
    assert np.diagonal(sd.analysis.sampled(loop).covariance()) == pytest.approx([0.5, spread], abs=1e-12)


def test_params_without_names_are_refused():
    plant = sd.SDE(lambda t, x, rate: -rate * x, lambda t, x: jnp.ones((1, 1)), start=[0.0], params=2.0)
    with pytest.raises(TypeError, match="plant: in a loop its params are a dict of names"):
        sd.with_loop(plant, sd.Sensor("y", of=0, every=0.1))


def test_a_conversion_of_the_plant_leaves_the_shapes_of_the_loop():
    """They were determined twice in a run: user's functions are traced once for them."""
    multiplied = sd.SDE(
        lambda t, x, p: p["u"] - x, lambda t, x, p: 0.1 * x[:, None], start=[1.0], params={"u": 0.0}, names=("x",)
    )
    loop = sd.with_loop(multiplied, sd.Sensor("y", of="x", every=H), proportional())
    other, changes = matched(loop, sd.method("Heun"))
    assert changes and other.layout is loop.layout and other.n == loop.n
