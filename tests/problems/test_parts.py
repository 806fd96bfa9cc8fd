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


def oscillator(start=(0.5, 0.0)):
    return sd.SDE(
        lambda t, x, p: jnp.array([x[1], -4.0 * x[0] - 0.4 * x[1] + p["u"]]),
        lambda t, x: jnp.array([[0.0], [0.7]]),
        start=list(start),
        params={"u": 0.0},
        names=("x", "v"),
    )


def filtered(loss, gain, steps, form="filter", phase=0.0, paths=1, covariance=None, start=(0.5, 0.0)):
    """A run of an oscillator with two sensors, one of which loses readings, a filter and an input that it knows: all
    components at the readings."""
    plant, every = oscillator(start), 0.1
    sensors = (
        sd.Sensor("y", of="x", every=every, noise=sd.per_sample(0.1), loss=loss, phase=phase),
        sd.Sensor("r", of="v", every=every, noise=sd.noise.coloured.gauss_markov(0.2, 0.3), phase=phase),
    )
    estimate = sd.parts.kalman(
        plant, sensors, every, inputs="u", delay=0.03, gain=gain, form=form, covariance=covariance
    )
    push = sd.Part("push", every, lambda t, own, seen, p: (own, jnp.sin(3 * t)), writes="u", delay=0.03, phase=phase)
    times = phase + every * np.arange(steps)
    run = sd.simulate(
        sd.with_loop(plant, *sensors, estimate, push), "VanLoan", t=(0, float(times[-1])), dt=0.01, paths=paths, seed=3,
        progress=False, collect=[st.Paths(count=paths, at=times)],
    )  # fmt: skip
    return estimate, run["path"][0]


@pytest.mark.parametrize("gain", ["steady", "varying"])
def test_noise_of_sensors_is_estimated_from_0_on(gain):
    """The state of a part is that of the plant at the start, with 0 for the coloured noise of its sensor."""
    plant = oscillator((0.4, -0.2))
    sensors = (
        sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1)),
        sd.Sensor("r", of="v", every=0.1, noise=sd.noise.coloured.gauss_markov(0.2, 0.3)),
    )
    state = sd.parts.kalman(plant, sensors, 0.1, inputs="u", gain=gain).state
    np.testing.assert_allclose(state if gain == "steady" else state["estimate"], [0.4, -0.2, 0.0], atol=1e-15)


@pytest.mark.parametrize("form", ["filter", "predictor"])
def test_a_varying_gain_is_that_of_the_covariance_so_far(form):
    """Beside the equations of Kalman in NumPy on the readings of a run, which loses four of ten; the noise of the other
    sensor is a state of its own. What is lost shows as a reading that repeats."""
    steps = 40
    _, paths = filtered(0.4, "varying", steps, form, phase=0.04)
    value = {
        name: paths.sel(component=name).values.reshape(steps) for name in ("x", "y", "r", "u", "kalman0", "kalman1")
    }
    A, B, G = np.array([[0.0, 1.0], [-4.0, -0.4]]), np.array([[0.0], [1.0]]), np.array([[0.0], [0.7]])

    def moved(time):
        whole = scipy.linalg.expm(time * np.block([[A, B], [np.zeros((1, 3))]]))
        both = scipy.linalg.expm(time * np.block([[-A, G @ G.T], [np.zeros((2, 2)), A.T]]))
        return whole[:2, :2], whole[:2, 2], both[2:, 2:].T @ both[:2, 2:]

    F, _, Q = moved(0.04)
    decay = np.exp(-0.1 / 0.3)
    z, P = np.r_[F @ [0.5, 0.0], 0.0], scipy.linalg.block_diag(Q, 0.2**2)
    H, R = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), np.diag([0.1**2, 0.0])
    lost, seen, held = [], [], 0.0
    for k in range(steps):
        gone = value["y"][k] == (value["y"][k - 1] if k else 0.5)  # the ideal value before the first reading
        lost.append(gone)
        before = z
        rows = [1] if gone else [0, 1]
        S = H[rows] @ P @ H[rows].T + R[np.ix_(rows, rows)]
        L = np.linalg.solve(S, H[rows] @ P).T
        z = z + L @ (np.array([value["y"][k], value["r"][k]])[rows] - H[rows] @ z)
        P = P - L @ H[rows] @ P
        seen.append((z if form == "filter" else before)[:2])
        (F1, b1, Q1), (F2, b2, Q2) = moved(0.03), moved(0.07)
        now = np.sin(3 * (0.04 + 0.1 * k))
        z = np.r_[F2 @ (F1 @ z[:2] + b1 * held) + b2 * now, decay * z[2]]
        P = scipy.linalg.block_diag(F2 @ F1, decay) @ P @ scipy.linalg.block_diag(F2 @ F1, decay).T
        P = P + scipy.linalg.block_diag(F2 @ Q1 @ F2.T + Q2, 0.2**2 * (1 - decay**2))
        held = now
    assert 8 < sum(lost) < 24
    found = np.stack([value["kalman0"], value["kalman1"]], axis=1)
    assert found == pytest.approx(np.array(seen), abs=1e-9)


def test_a_varying_gain_becomes_the_steady_one():
    """Without losses, after 60 periods; what it carries is the covariance of the predictor's errors."""
    (_, steady), (_, varying) = (filtered(0.0, gain, 70) for gain in ("steady", "varying"))
    both = [paths.sel(component=["kalman0", "kalman1"]).values[..., 60:, :] for paths in (steady, varying)]
    assert both[0] == pytest.approx(both[1], abs=1e-6)
    predictor, _ = filtered(0.0, "steady", 2, "predictor")
    own = [f"kalman.covariance{k}" for k in (0, 1, 3, 4)]  # of three rows with the noise of the second sensor
    last = varying.sel(component=own).values.reshape(-1, 2, 2)[-1]
    assert last == pytest.approx(predictor.design.covariance, rel=1e-6)


def test_errors_of_a_filter_with_losses_have_the_covariance_that_it_says():
    """E eᵀ P⁻¹ e = 2 over 400 paths from a drawn start, within five standard errors (false alarms 6e-7)."""
    law = np.diag([0.3, 0.5])
    start = sd.from_normals(lambda z: jnp.array([0.3**0.5, 0.5**0.5]) * z, 2)
    plant = oscillator().changed(start=start)
    y = sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1), loss=0.5)
    with pytest.raises(ValueError, match="covariance: the start is drawn for each path"):
        sd.parts.kalman(plant, y, 0.1, gain="varying")
    estimate = sd.parts.kalman(plant, y, 0.1, gain="varying", covariance=law, form="predictor")
    loop, every_path = sd.with_loop(plant, y, estimate), st.Paths(count=400)
    run = sd.simulate(
        loop, "VanLoan", t=(0, 0.9), dt=0.1, paths=400, seed=5, progress=False, collect=every_path
    )["path"]  # fmt: skip
    rows = {str(name): run.sel(component=name).values for name in run.component.values}
    error = np.stack([rows["x"] - rows["kalman0"], rows["v"] - rows["kalman1"]], axis=-1)
    P = np.stack([rows[f"kalman.covariance{k}"] for k in range(4)], axis=-1).reshape(*error.shape, 2)
    for k in (0, 1, 9):
        said = np.broadcast_to(law, (400, 2, 2)) if k == 0 else P[:, k - 1]
        size = np.einsum("pi,pij,pj->p", error[:, k], np.linalg.inv(said), error[:, k])
        assert abs(size.mean() / 2 - 1) < 5 * np.sqrt(1 / 400)


def test_what_a_filter_cannot_be_is_refused_in_words():
    y = position(0.1)
    for options, words in (
        ({"gain": "best"}, "gain: expected 'steady' or 'varying'"),
        ({"form": "smoother"}, "form: expected 'filter' or 'predictor'"),
        ({"covariance": np.eye(2)}, 'covariance: .* gain="varying"'),
        ({"covariance": np.eye(3), "gain": "varying"}, r"covariance: expected a matrix \(2, 2\)"),
    ):
        with pytest.raises(ValueError, match=words):
            sd.parts.kalman(double_integrator(), y, 0.1, **options)
    with pytest.raises(ValueError, match=r'loss \(y\): .*kalman\(\.\.\., gain="varying"\)'):
        sd.parts.kalman(double_integrator(), position(0.1, loss=0.1), 0.1)


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
