"""Ready parts of loops: their equations, and designs whose cost is that of the loop they make."""

import types

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn import statistics as st
from stodyn.numerics import quadratic_cost

COST = {"x": 1.0, "u": 0.1}


def double_integrator(**options):
    return sd.SDE(
        lambda t, x, p: jnp.array([x[1], p["u"]]),
        lambda t, x: jnp.array([[0.0], [1.0]]),
        start=[0.0, 0.0],
        params={"u": 0.0},
        names=("x", "v"),
        **options,
    )


def unstable():
    return sd.SDE(
        lambda t, x, p: x + p["u"], lambda t, x: jnp.ones((1, 1)), start=[0.0], params={"u": 0.0}, names=("x",)
    )


def position(every, noise=None, **options):
    return sd.Sensor("y", of="x", every=every, noise=noise or sd.per_sample(0.1), **options)


def average(loop, cost):
    return sd.analysis.sampled(loop).cost(cost)


# --- designs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "J"),
    [
        (0.01, 0.3583601140633),
        (0.05, 0.4277658514166),
        (0.1, 0.4771808208075),
        (0.2, 0.5576954693637),
        (0.5, 0.8485023478864),
        (1.0, 1.8628108897435),
    ],
)
def test_the_cost_by_separation_is_that_of_the_loop(every, J):
    y = position(every)
    law = sd.parts.lqg(double_integrator(), COST, y, every)
    assert abs(law.design.J - J) < 1e-10
    assert average(sd.with_loop(double_integrator(), y, law), COST) == pytest.approx(J, abs=1e-10)


@pytest.mark.parametrize(
    ("every", "J"),
    [
        (0.001, 0.4687917038750),
        (0.01, 0.4688736583795),
        (0.05, 0.4708672201267),
        (0.1, 0.4771808208075),
        (0.2, 0.5036761262911),
        (0.5, 0.7295393051498),
    ],
)
def test_the_cost_of_a_density_tends_to_that_of_continuous_time(every, J):
    y = position(every, sd.density(0.001**0.5, sides=2))
    law = sd.parts.lqg(double_integrator(), COST, y, every)
    assert abs(law.design.J - J) < 1e-10
    assert average(sd.with_loop(double_integrator(), y, law), COST) == pytest.approx(J, abs=1e-10)


@pytest.mark.parametrize(
    ("every", "J"),
    [
        (0.01, 0.1166962824641),
        (0.1, 0.1813969661176),
        (0.5, 0.7192854897353),
        (1.0, 2.4109886627623),
        (2.0, 19.3829133323),
    ],
)
def test_an_unstable_plant_whose_state_is_known(every, J):
    cost = {"x": 1.0, "u": 0.01}
    law = sd.parts.lqr(unstable(), cost, every)
    assert abs(law.design.J - J) < 1e-10
    assert average(sd.with_loop(unstable(), law), cost) == pytest.approx(law.design.J, rel=1e-12)


@pytest.mark.parametrize(("every", "J"), [(0.05, 0.2685302009), (0.2, 0.3391131536), (0.5, 0.7110755377)])
def test_the_gain_of_continuous_time_held(every, J):
    assert average(held(every), COST) == pytest.approx(J, abs=1e-10)


def held(every):
    A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
    K = B.T @ scipy.linalg.solve_continuous_are(A, B, np.diag([1.0, 0.0]), np.array([[0.1]])) / 0.1
    reads = sd.true("x"), sd.true("v")
    return sd.with_loop(double_integrator(), sd.parts.linear("law", None, D=-K, every=every, reads=reads, writes="u"))


def test_a_period_too_long_for_the_gain_of_continuous_time():
    with pytest.raises(ValueError, match=r"unstable, its mode with the factor 1\.0237878"):
        sd.analysis.sampled(held(0.8))


@pytest.mark.parametrize(
    ("every", "delay", "J"), [(0.1, 0.02, 0.5006667053724), (0.1, 0.05, 0.5413871256703), (0.5, 0.25, 2.75)]
)
def test_a_design_without_its_delay_costs_more_than_one_with_it(every, delay, J):
    y = position(every)
    law = sd.parts.lqg(double_integrator(), COST, y, every)
    late = sd.Part(law.name, every, law.update, law.reads, law.writes, state=law.state, delay=delay)
    assert average(sd.with_loop(double_integrator(), y, late), COST) == pytest.approx(
        J, abs=1e-10 if every < 0.5 else 5e-3
    )
    aware = sd.parts.lqg(double_integrator(), COST, y, every, delay=delay)
    assert average(sd.with_loop(double_integrator(), y, aware), COST) == pytest.approx(aware.design.J, rel=1e-11)
    assert law.design.J < aware.design.J < J


@pytest.mark.parametrize("delay", [0.1, 0.25, 0.4])
def test_delays_beyond_a_period_are_designed_for(delay):
    law = sd.parts.lqr(double_integrator(), COST, 0.1, delay=delay)
    loop = sd.with_loop(double_integrator(), law)
    assert average(loop, COST) == pytest.approx(law.design.J, rel=1e-10)
    assert sd.analysis.sampled(loop).radius == pytest.approx(np.abs(law.design.poles).max(), rel=1e-9)


@pytest.mark.parametrize("delay", [0.0, 0.04, 0.1, 0.13])
def test_a_filter_and_a_regulator_in_two_parts_are_the_one_part_of_both(delay):
    plant, y = double_integrator(), position(0.1)
    estimate = sd.parts.kalman(plant, y, 0.1, inputs="u", delay=delay)
    law = sd.parts.lqr(plant, COST, 0.1, delay=delay, reads="kalman")
    together = sd.parts.lqg(plant, COST, y, 0.1, delay=delay)
    loop = sd.with_loop(plant, y, estimate, law)
    assert average(loop, COST) == pytest.approx(together.design.J, rel=1e-11)
    exact = sd.analysis.sampled(loop)
    error = np.zeros((2, len(exact.names)))
    for k, name in enumerate(("x", "v")):
        error[k, [exact.names.index(name), exact.names.index(f"kalman{k}")]] = 1.0, -1.0
    assert error @ exact.after("kalman") @ error.T == pytest.approx(together.design.covariance, abs=1e-12)


def test_noise_that_remembers_and_rounding_are_in_the_design():
    coloured = sd.noise.coloured.gauss_markov(0.1, 0.3)
    y = sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.02), bias=coloured)
    law = sd.parts.lqg(double_integrator(), COST, y, 0.1)
    assert average(sd.with_loop(double_integrator(), y, law), COST) == pytest.approx(law.design.J, rel=1e-10)
    rounded = sd.parts.lqg(double_integrator(), COST, position(0.1, resolution=0.12), 0.1)
    noisier = sd.parts.lqg(double_integrator(), COST, position(0.1, sd.per_sample((0.01 + 0.0012) ** 0.5)), 0.1)
    assert abs(rounded.design.J / noisier.design.J - 1) < 1e-12


def test_several_inputs_and_mechanical_plants():
    plant = sd.Mechanical(
        force=lambda t, x, v, p: -4 * x - 0.4 * v + p["u"],
        noise=lambda t, x, v, p: jnp.eye(2),
        start=([0.0, 0.0], [0.0, 0.0]),
        params={"u": jnp.zeros(2)},
        names=("a", "b", "va", "vb"),
    )
    cost = {"a": 1.0, "b": 2.0, "u": [0.1, 0.3]}
    sensors = (
        sd.Sensor("y", of=("a", "b"), every=0.1, noise=sd.per_sample([0.1, 0.2])),
        sd.Sensor("rate", of="va", every=0.1, noise=sd.per_sample(0.1)),
    )
    law = sd.parts.lqg(plant, cost, sensors, 0.1)
    average = sd.analysis.sampled(sd.with_loop(plant, *sensors, law)).cost({"a": 1.0, "b": 2.0, "u0": 0.1, "u1": 0.3})
    assert average == pytest.approx(law.design.J, rel=1e-11)


def test_the_delay_at_which_a_loop_becomes_unstable():
    y = position(0.1)
    law = sd.parts.lqg(double_integrator(), COST, y, 0.1)
    longest = round(law.design.longest_delay, 3)
    radius = []
    for delay in (longest - 0.002, longest + 0.002):
        part = sd.Part("law", 0.1, law.update, law.reads, law.writes, state=law.state, delay=round(delay, 3))
        try:
            radius.append(sd.analysis.sampled(sd.with_loop(double_integrator(), y, part)).radius)
        except ValueError as refusal:
            radius.append(str(refusal))
    assert 0.98 < radius[0] < 1 and "unstable" in radius[1]


def test_a_run_has_the_variance_that_its_design_says():
    """Within five standard errors (false alarms 6e-7)."""
    plant, y = double_integrator(), position(0.2)
    loop = sd.with_loop(plant, y, sd.parts.lqg(plant, COST, y, 0.2))
    run = sd.simulate(
        loop, "Heun", t=(0, 8), dt=0.1, paths=2000, seed=1, progress=False, collect=[st.Moments(at=[8.0])]
    )
    variance = run["variance"].sel(component="x").values[-1]
    delivered = sd.analysis.sampled(loop, "Heun", 0.1).covariance()[0, 0]
    assert abs(variance / delivered - 1) < 5 * np.sqrt(2 / 2000)


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.3, 40.0])
def test_quadratic_costs_have_their_closed_forms(h):
    """Of x' = a x: V = w (e^{2ah} - 1)/(2a), and its integral."""
    a, w = -0.7, 3.0
    Phi, V, total = quadratic_cost.accumulated([[a]], [[w]], h)
    grown = np.expm1(2 * a * h) / (2 * a)
    assert (Phi[0, 0], V[0, 0]) == pytest.approx((np.exp(a * h), w * grown), rel=1e-14)
    assert total[0, 0] == pytest.approx(w * (grown - h) / (2 * a), rel=1e-13)


# --- linear and PID ---------------------------------------------------------------------------------------------------


def outputs(part, values, params=None):
    """What a part makes of readings, one after the other."""
    own, out = part.state, []
    for value in values:
        own, u = part.update(0.0, own, {"y": jnp.asarray(value, float)}, params or {"u": 0.0})
        out.append(float(u))
    return out


def test_a_linear_part_gives_its_output_and_then_moves():
    part = sd.parts.linear("law", 0.5, 1.0, 2.0, 3.0, every=0.1, reads="y", writes="u", state=[1.0])
    x, expected = 1.0, []
    for y in (1.0, -2.0, 0.5):
        expected.append(2.0 * x + 3.0 * y)
        x = 0.5 * x + y
    assert outputs(part, (1.0, -2.0, 0.5)) == pytest.approx(expected, rel=1e-6)


def test_systems_of_other_libraries_are_linear_parts():
    signal = pytest.importorskip("scipy.signal")
    system = signal.dlti([0.3, 0.1], [1.0, -0.6], dt=0.1)
    response = signal.dlsim(system, np.array([1.0, 2.0, -1.0]))[1][:, 0]
    for known in (system, system.to_ss()):
        part = sd.parts.linear("law", known, every=0.1, reads="y", writes="u")
        assert outputs(part, (1.0, 2.0, -1.0)) == pytest.approx(response, rel=1e-6)
    with pytest.raises(ValueError, match=r"every \(law\): 0.2, but the system was discretised with dt=0.1"):
        sd.parts.linear("law", system, every=0.2, reads="y")
    with pytest.raises(ValueError, match="the system is continuous in time"):
        sd.parts.linear("law", signal.lti([1.0], [1.0, 1.0]), every=0.1, reads="y")
    with pytest.raises(ValueError, match=r"continuous in time \(dt=0\)"):
        sd.parts.linear("law", types.SimpleNamespace(A=1, B=1, C=1, D=0, dt=0), every=0.1, reads="y")
    with pytest.raises(TypeError, match=r"control.ss\(system\)"):
        sd.parts.linear("law", types.SimpleNamespace(num=1, den=1, dt=0.1), every=0.1, reads="y")


def test_a_pid_controller_is_the_linear_system_of_its_equation():
    kp, ki, kd, h = 3.0, 0.8, 0.1, 0.05
    by_matrices = sd.parts.linear(
        "law", [[1.0, 0.0], [0.0, 0.0]], [[-ki * h], [1.0]], [[1.0, kd / h]], [[-kp - kd / h]],
        every=h, reads="y", writes="u",
    )  # fmt: skip
    ready = sd.parts.pid("law", kp, ki, kd, every=h, reads="y", writes="u")
    values = (0.3, -1.0, 2.0, 0.4)
    assert outputs(ready, values) == pytest.approx(outputs(by_matrices, values), rel=1e-6)
    costs = [average(sd.with_loop(unstable(), position(h), part), COST) for part in (ready, by_matrices)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_the_integral_of_a_limited_controller_does_not_wind_up():
    """Against a reference that is out of reach, u - v tends to where the integral stands still: tracking ki e."""
    part = sd.parts.pid(
        "law", 1.0, 2.0, every=0.1, reads="y", writes="u", reference="goal", limits=(-1, 1), tracking=0.5
    )
    params = {"u": 0.0, "goal": 10.0}
    own = part.state
    for _ in range(200):
        own, u = part.update(0.0, own, {"y": jnp.zeros(())}, params)
    assert float(u) == 1.0
    assert float(own["integral"]) == pytest.approx(1.0 - 10.0 + 0.5 * 2.0 * 10.0, rel=1e-5)
    own, u = part.update(0.0, own, {"y": jnp.asarray(12.0)}, params)
    assert float(u) < 1.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sd.parts.linear("law", 0.5, [[1.0, 2.0]], 1.0, 1.0, every=0.1, reads="y"), "B: expected a finite"),
        (lambda: sd.parts.linear("law", 0.5, 1.0, every=0.1, reads="y"), "C, D: expected at least one"),
        (lambda: sd.parts.linear("law", 0.5, 1.0, 1.0, every=0.1, reads="y", state=[1, 2]), "state: expected 1"),
        (
            lambda: sd.with_loop(
                double_integrator(),
                position(0.1),
                sd.parts.linear("law", None, D=[[1.0, 1.0]], every=0.1, reads="y", writes="u"),
            ),
            r"reads \(law\): 1 numbers are read, the system takes 2",
        ),
        (lambda: sd.parts.pid("law", np.nan, every=0.1, reads="y"), "kp: expected a finite number"),
        (lambda: sd.parts.pid("law", 1.0, every=0.1, reads="y", limits=(1, 0)), "limits: expected"),
        (lambda: sd.parts.pid("law", 1.0, every=0.1, reads="y", tracking=1.0), "tracking: is for outputs with limits"),
        (
            lambda: sd.parts.pid("law", 1.0, every=0.1, reads="y", limits=(0, 1), tracking=0.01),
            "tracking: expected a time of at least every=0.1",
        ),
        (lambda: sd.parts.lqr(double_integrator(), {"x": 1.0}, 0.1), "cost: it names no input"),
        (lambda: sd.parts.lqr(double_integrator(), {"x": 1.0, "w": 1.0}, 0.1), "no parameter 'w'"),
        (lambda: sd.parts.lqr(double_integrator(), {"x": 1.0, "u": 0.0}, 0.1), r"cost \(u\): expected a weight"),
        (lambda: sd.parts.lqr(double_integrator(), {"x": -1.0, "u": 1.0}, 0.1), r"cost \(x\): expected a weight of 0"),
        (lambda: sd.parts.lqr(double_integrator(), {"v": 1.0, "u": 1.0}, 0.1), "cost: no regulator"),
        (lambda: sd.parts.kalman(double_integrator(), position(0.2), 0.1), r"every \(y\): reads every 0.2"),
        (lambda: sd.parts.kalman(double_integrator(), position(0.1, loss=0.1), 0.1), r"loss \(y\): a steady filter"),
        (lambda: sd.parts.kalman(double_integrator(), (), 0.1), "sensors: expected at least one"),
        (
            lambda: sd.parts.kalman(
                double_integrator(), sd.Sensor("r", of="v", every=0.1, noise=sd.per_sample(1.0)), 0.1
            ),
            "sensors: no filter has bounded errors",
        ),
        (
            lambda: sd.parts.kalman(
                double_integrator(), sd.Sensor("r", of=lambda t, x: jnp.sin(x[0]), every=0.1), 0.1
            ),
            r"of \(r\): the reading is not proved to be linear",
        ),
        (
            lambda: sd.parts.lqr(
                sd.SDE(lambda t, x, p: -(x**3) + p["u"], lambda t, x: jnp.ones((1, 1)), [0.0], params={"u": 0.0},
                       names=("x",)), {"x": 1.0, "u": 1.0}, 0.1,
            ),
            "plant: it is not proved to be linear",
        ),
        (
            lambda: sd.parts.lqr(
                sd.SDE(lambda t, x, p: 1 - x + p["u"], lambda t, x: jnp.ones((1, 1)), [0.0], params={"u": 0.0},
                       names=("x",)), {"x": 1.0, "u": 1.0}, 0.1,
            ),
            "write it in deviations",
        ),
        (
            lambda: sd.parts.lqr(
                sd.SDE(lambda t, x, p: x * jnp.sin(t) + p["u"], lambda t, x: jnp.ones((1, 1)), [0.0],
                       params={"u": 0.0}, names=("x",)), {"x": 1.0, "u": 1.0}, 0.1,
            ),
            "depends on time or state",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
