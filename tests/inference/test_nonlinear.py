"""Filters that take a law for a normal one, against values by moment equations, closed forms and sinc grids."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from inference.records import TIMES, VALUES, K, oscillator, sensor

import stodyn as sd
from stodyn.inference import moments
from stodyn.inference.predictive import simulated
from stodyn.inference.question import question_of
from stodyn.numerics.uncompiled import value
from stodyn.warnings import NotGaussian

COUNT = np.arange(1, 21)
SWITCH = np.where(COUNT <= 8, -1 + 0.3 * np.sin(1.3 * COUNT), 1 + 0.3 * np.cos(0.7 * COUNT**2))


def duffing(start=(1.0, 0.0), **params):
    return sd.SDE(
        lambda t, x, p: jnp.array([x[1], -p["c"] * x[1] - x[0] - x[0] ** 3]),
        lambda t, x, p: jnp.array([[0.0], [p["q"]]]),
        start=start,
        params={"c": 0.2, "q": 0.5, "r": 0.3} | params,
        names=["x", "v"],
    )


def double_well():
    return sd.SDE(lambda t, x: x - x**3, lambda t, x: 0.7, start=-1.0)


def benes(start):
    return sd.SDE(lambda t, x: jnp.tanh(x), lambda t, x: 1.0, start=start)


@pytest.mark.parametrize("options", [{}, {"law": "Heun", "dt": 0.1}, {"by": "ekf"}, {"by": "statistical", "dt": 0.1}])
def test_what_is_put_around_a_problem_is_refused_in_words(options):
    spring = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: jnp.array([[0.5]]), ([1.0], [0.0]), names=["x"])
    plane = sd.SDE(lambda t, x: -x, lambda t, x: jnp.eye(1), [0.5], names=["x"])
    bouncing = sd.Impact(sd.Level(0.0, of="x", direction="down"), sd.Restitution(0.8))
    for problem, words in (
        (sd.with_walls(plane, sd.Walls({"x": (0.0, None)})), "without walls and impacts"),
        (sd.with_walls(spring, bouncing), "without walls and impacts"),
        (sd.with_loop(spring, sd.Sensor("gauge", "x", every=0.1)), "plant alone"),
        (sd.with_measurement(plane, [[1.0]], [[0.1]]), "kept beside its state"),
    ):
        with pytest.raises(TypeError, match=words):
            sd.filtered(problem, data=(TIMES, VALUES), sensors=sensor(), **options)


@pytest.mark.parametrize("options", [{"law": "Heun"}, {"by": "ekf", "method": "Heun"}])
def test_methods_that_leave_algebraic_components_out_are_refused(options):
    sdae = sd.SDAE(
        np.diag([1.0, 0.0]), lambda t, x: jnp.array([-x[0] + x[1], x[0] - 2 * x[1]]),
        lambda t, x: jnp.array([[0.6], [0.0]]), start=[0.0, 0.0], names=["x", "w"],
    )  # fmt: skip
    with pytest.raises(ValueError, match="does not step the components that constraints determine; take a method for"):
        sd.filtered(sdae, data=(0.1 * COUNT, 0.1 * SWITCH), sensors=sensor(of="w"), dt=0.1, **options)


def test_readings_that_no_square_root_process_has_are_told_of():
    root = sd.SDE(lambda t, x: 1.2 - x, lambda t, x: 0.5 * jnp.sqrt(x), start=1.0)
    for values in (0.1 * SWITCH, np.ones(len(COUNT))):  # some are negative, all are the same
        with pytest.raises(ValueError, match="square-root process the transitions are taken where a single sensor"):
            sd.filtered(root, data=(1.0 * COUNT, values), sensors=sensor(noise=None))


def test_what_is_not_linear_is_refused_and_both_filters_are_named():
    with pytest.raises(ValueError, match=r"by='ekf'.*straight.*by='statistical'.*averages"):
        sd.filtered(duffing(), data=(TIMES, VALUES), sensors=sensor())
    with pytest.raises(ValueError, match="expected 'kalman', 'ekf', 'statistical', got 'ukf'"):
        sd.filtered(duffing(), data=(TIMES, VALUES), sensors=sensor(), by="ukf")

    def refused(words, **options):
        with pytest.raises(ValueError, match=words):
            sd.filtered(duffing(), data=(TIMES, VALUES), **{"sensors": sensor(), "by": "ekf"} | options)

    refused("law of its method's steps", law="exact")
    refused("takes the start of the problem", initial="diffuse")
    refused("needs the steps before it", method="AB4")
    refused("expected a positive step", dt=-1.0)


@pytest.mark.parametrize("steps", [10, 20])
def test_tangents_of_the_step_have_its_order(steps):
    start = scipy.stats.multivariate_normal([1.0, 0.0], 0.05 * np.eye(2))
    data = [1.0, 2.0], [np.nan, 0.0]
    last = sd.filtered(duffing(start), "Heun", data=data, sensors=sensor(), by="ekf", dt=1 / steps, check=False)
    m, P = last["mean"][0].values, last.covariance[0].values
    expected = np.array([[0.06106781, 0.06802105], [0.06802105, 0.24295297]])
    np.testing.assert_allclose(np.abs(m - [0.28130652, -1.08126175]).max(), 5.48e-3 * (10 / steps) ** 2, rtol=2e-2)
    np.testing.assert_allclose(np.abs(P - expected).max(), 1.68e-3 * (10 / steps) ** 2, rtol=2e-2)


@pytest.mark.parametrize("by", ["ekf", "statistical"])
@pytest.mark.parametrize("method", ["Heun", "Milstein"])
def test_noise_that_depends_on_the_state_adds_to_the_covariance(by, method):
    growth = sd.SDE(lambda t, x: 0.1 * x, lambda t, x: 0.5 * x, start=scipy.stats.norm(1.0, 0.2))
    data = [2.0, 3.0], [np.nan, 1.0]
    result = sd.filtered(growth, method, data=data, sensors=sensor(noise=0.5), by=by, dt=0.005, check=False)
    np.testing.assert_allclose(result["mean"][0, 0], np.exp(0.2), rtol=1e-4)
    np.testing.assert_allclose(result.covariance[0, 0, 0], 1.066163, rtol=3e-3)  # .805585 without the term


@pytest.mark.parametrize(
    ("by", "noise", "error"),
    [("ekf", 1.0, -7.5614), ("ekf", 0.5, -3.4786), ("ekf", 0.2, -10.6562),
     ("statistical", 1.0, -0.7848), ("statistical", 0.5, -3.2510), ("statistical", 0.2, -9.8851)],
)  # fmt: skip
def test_filters_that_agree_and_are_wrong_are_found_out(by, noise, error):
    exact = {1.0: -23.97852569, 0.5: -15.58272990, 0.2: -10.61211708}[noise]
    options = {"data": (1.0 * COUNT, SWITCH), "sensors": sensor(noise=noise), "by": by}
    result = sd.filtered(double_well(), dt=0.005, check=False, **options)
    np.testing.assert_allclose(float(result.loglik) - exact, error, rtol=1e-2)
    if abs(error) < 2:
        result = sd.filtered(double_well(), dt=0.05, **options)
    else:
        with pytest.warns(NotGaussian, match="on a grid"):
            result = sd.filtered(double_well(), dt=0.05, **options)
        assert "on a grid" in result.attrs["reasons"]
    np.testing.assert_allclose(result.loglik_grid, exact, atol=0.03)
    assert result.attrs["exact"] == "no" and result.attrs["by"] == by


@pytest.mark.parametrize(("noise", "discretised"), [(0.5, -15.546597), (0.1, -9.66082)])
def test_a_grid_has_the_likelihood_of_the_steps(noise, discretised):
    """Of Heun's steps of 0.1, by splines and Gauss and Hermite's rule."""
    with pytest.warns(NotGaussian):
        result = sd.filtered(double_well(), data=(1.0 * COUNT, SWITCH), sensors=sensor(noise=noise), by="ekf", dt=0.1)
    np.testing.assert_allclose(result.loglik_grid, discretised, atol=6e-3)  # what the grid is good for


@pytest.mark.parametrize(("by", "error", "ambiguous"), [("ekf", 0.13552, -2.39001), ("statistical", 0.15566, 2.24926)])
def test_benes(by, error, ambiguous):
    times = 0.5 * COUNT
    data = times, 0.5 + 0.3 * times + 0.6 * np.sin(1.3 * COUNT)
    result = sd.filtered(benes(0.5), data=data, sensors=sensor(noise=0.5), by=by, dt=0.01)
    np.testing.assert_allclose(result.loglik, -23.222965364923 + error, atol=0.01 * abs(error))
    np.testing.assert_allclose(result.loglik_grid, -23.222965364923, atol=1e-3)
    np.testing.assert_allclose(result["mean"][-1, 0], 3.8837647551, atol=0.015)
    data = times, 0.2 * np.sin(1.3 * COUNT)
    with pytest.warns(NotGaussian):
        result = sd.filtered(benes(0.0), data=data, sensors=sensor(noise=2.0), by=by, dt=0.01)
    np.testing.assert_allclose(result.loglik, -39.946743840668 + ambiguous, atol=0.01 * abs(ambiguous))


def duffing_record(noise):
    x, v, readings = 0.0, 0.0, []
    for j in range(1, 201):  # Heun's steps
        kick = 0.5 * np.sqrt(2 * 0.05) * np.sin(j**2)
        force = -0.2 * v - x - x**3
        px, pv = x + 0.05 * v, v + 0.05 * force + kick
        x, v = x + 0.025 * (v + pv), v + 0.025 * (force - 0.2 * pv - px - px**3) + kick
        if j % 10 == 0:
            readings.append(x)
    return 0.5 * COUNT, np.array(readings) + noise * np.sqrt(2) * np.cos(1.7 * COUNT**2)


def test_a_grid_of_two_components():
    noise = 0.3
    problem = duffing((0.0, 0.0), r=noise)
    result = sd.filtered(problem, data=duffing_record(noise), sensors=sensor(), by="statistical", dt=0.05)
    np.testing.assert_allclose(result.loglik_grid, -9.14, atol=0.03)  # by particles
    np.testing.assert_allclose(result.loglik, -8.945, atol=1e-3)


def test_more_components_are_not_checked_and_the_result_says_so():
    three = sd.SDE(
        lambda t, x: jnp.array([x[1], -(x[0] ** 3), x[0] - x[2]]),
        lambda t, x: jnp.array([[0.0], [0.5], [0.0]]),
        start=np.zeros(3),
        names=["x", "v", "z"],
    )
    result = sd.filtered(three, data=(0.5 * K, 0.1 * VALUES), sensors=sensor(of="z", noise=0.1), by="ekf", dt=0.25)
    assert "not checked: 3 components" in result.attrs["reasons"] and "loglik_grid" not in result


@pytest.mark.parametrize("by", ["ekf", "statistical"])
def test_of_a_linear_problem_both_are_the_filter_of_the_step(by):
    options = {"data": (0.25 * K, VALUES), "sensors": [sensor("a"), sensor("b", of="v", noise=0.4)]}
    options["data"] = {"a": options["data"], "b": (0.5 * K[:9], VALUES[3:12])}
    own = {"by": by, "method": "Heun", "dt": 0.125, "check": False}
    for verb in (sd.filtered, sd.smoothed):
        exact, result = verb(oscillator(), law="Heun", dt=0.125, **options), verb(oscillator(), **own, **options)
        np.testing.assert_allclose(result.loglik, exact.loglik, rtol=1e-9)
        np.testing.assert_allclose(result["mean"], exact["mean"], atol=1e-9)
        np.testing.assert_allclose(result.covariance, exact.covariance, atol=1e-9)
        np.testing.assert_allclose(result.nis, exact.nis, rtol=1e-8)


WINDOWS = [
    sensor("mean", noise=0.1, average=0.4),
    sensor("count", of="v", noise=0.05, increment=True),
    sd.Sensor("angle", of=lambda t, x: x[0] + 0.1, noise=sd.density(0.05, sides=2), increment=True),
    sensor("point"),
]
WINDOWED = {  # the means overlap
    "mean": (0.5 + 0.25 * K[:8], 0.1 * VALUES[:8]),
    "count": (0.5 * K[:5], 0.1 * VALUES[8:13]),
    "angle": (0.75 * K[:3], 0.1 * VALUES[:3]),
    "point": (0.25 * K[:8], 0.1 * VALUES[:8]),
}


@pytest.mark.parametrize("by", ["ekf", "statistical"])
def test_averages_and_increments_are_of_second_order(by):
    """Of a linear problem, whose law between readings is known."""
    for verb in (sd.filtered, sd.smoothed):
        exact = verb(oscillator(), data=WINDOWED, sensors=WINDOWS)
        coarse, fine = (verb(oscillator(), data=WINDOWED, sensors=WINDOWS, by=by, dt=dt) for dt in (0.05, 0.025))
        for word in ("loglik", "mean", "covariance"):
            far, near = (float(abs(own[word] - exact[word]).max()) for own in (coarse, fine))
            assert 3.5 < far / near < 4.5 and near < 0.02
        assert "not checked: readings over windows" in fine.attrs["reasons"]


def test_coloured_noise_of_sensors_is_that_of_the_exact_filter():
    """Of a level that a step takes exactly, with all that has a memory, and averages."""
    level = sd.SDE(
        lambda t, x, p: 0.0 * x, lambda t, x, p: p["s"], scipy.stats.norm(0.2, 0.3), params={"s": 0.5, "r": 0.2}
    )
    slow = {"every": 0.1, "noise": sd.density(0.1, sides=2, bandwidth=1.0)}
    gyro = sd.Sensor("gyro", of=lambda t, x: -x, every=0.2, noise=sd.noise.gyro(arw=0.1, rate_random_walk=0.3))
    both = sd.Sensor("both", of=["x", lambda t, x: 2 * x], **slow)
    two = np.stack([VALUES[:8], VALUES[8:16]], axis=1)
    for verb, by, own in (
        (sd.filtered, "statistical", [sensor("bias", bias=sd.noise.coloured.gauss_markov(0.4, 1.5))]),
        (sd.smoothed, "ekf", [gyro, both]),
    ):
        series = {"bias": (TIMES, VALUES), "gyro": (0.5 * K[:8], VALUES[:8]), "both": (0.3 * K[:8], two)}
        options = {"data": {one.name: series[one.name] for one in own}, "sensors": own}
        exact, own = verb(level, **options), verb(level, by=by, dt=0.5, **options)
        for word in ("loglik", "mean", "covariance", "innovation", "innovation_sd"):
            np.testing.assert_allclose(own[word], exact[word], rtol=1e-10, atol=1e-10)
    assert "has a memory, which a grid does not take" in own.attrs["reasons"]
    averages = sensor(average=0.4, bias=sd.noise.coloured.gauss_markov(0.4, 1.5))
    like, other = (sd.likelihood(level, data=(0.5 + 0.25 * K, VALUES), sensors=averages, by=by, dt=by and 0.05)
                   for by in (None, "ekf"))  # fmt: skip
    np.testing.assert_allclose(other(), like(), rtol=2e-3)
    np.testing.assert_allclose(value(other.jax, other.start), other(), rtol=1e-12)
    spread, expected = (np.std(simulated(own.question, own.question.values, 20_000, np.random.default_rng(1))[:, -1])
                        for own in (other, like))  # fmt: skip
    np.testing.assert_allclose(spread, expected, rtol=0.05)


def test_a_coloured_bias_of_a_nonlinear_problem_is_a_component_of_it():
    """And close to the truth where the law is nearly normal: a grid of both components."""
    bias = sd.noise.coloured.gauss_markov(0.4, 1.5)
    cubic = sd.SDE(lambda t, x: -(x**3), lambda t, x: 0.7, start=0.5)
    both = sd.SDE(
        lambda t, x: jnp.array([-(x[0] ** 3), -x[1] / 1.5]),
        lambda t, x: jnp.array([[0.7, 0.0], [0.0, 0.4 * (2 / 1.5) ** 0.5]]),
        start=scipy.stats.multivariate_normal([0.5, 0.0], np.diag([0.0, 0.16]), allow_singular=True),
    )
    options = {"data": (0.25 * K[:6], 0.5 * VALUES[:6]), "by": "statistical", "dt": 0.0625}
    own = sd.filtered(cubic, sensors=sensor(noise=0.3, bias=bias), **options)
    other = sd.filtered(both, sensors=sensor(of=lambda t, x: x[0] + x[1], noise=0.3), **options)
    np.testing.assert_allclose(own.loglik, other.loglik, atol=1e-3)
    np.testing.assert_allclose(own["mean"][:, 0], other["mean"][:, 0], atol=1e-3)
    np.testing.assert_allclose(own.loglik, other.loglik_grid, atol=0.1)


def test_coloured_noise_of_a_nonlinear_plant():
    noise = sd.noise.coloured.Coloured([[0, 1], [-9, -3]], [[0], [3.0]], [[3.0, 0.0]], "push")
    quiet = sd.Mechanical(lambda t, x, v: -4 * x - 0.4 * v, None, start=(0.1, 0.0))
    options = {"data": (0.25 * K[:10], 0.3 * VALUES[:10]), "sensors": sensor(of=0, noise=0.2), "check": False}
    driven = sd.with_noise(quiet, noise, into=0)
    exact = sd.filtered(driven, **options)
    off = []
    for dt in (0.05, 0.025):
        own = sd.filtered(driven, by="ekf", dt=dt, **options)
        np.testing.assert_allclose(own.loglik, sd.filtered(driven, law="Heun", dt=dt, **options).loglik, rtol=1e-10)
        off.append(abs(float(own.loglik - exact.loglik)))
    assert 3.5 < off[0] / off[1] < 4.5 and off[1] < 0.02
    with pytest.raises(ValueError, match=r"for steps of one length.*take method='Heun'"):
        sd.filtered(driven, "StochasticAlpha", by="ekf", dt=0.05, **options)
    held = sd.Mechanical(
        lambda t, x, v: 0.0 * x, None, ([1.0, 0.0], [0.0, 0.0]), constraints=lambda t, x: jnp.sum(x * x)[None] - 1.0
    )
    with pytest.raises(ValueError, match="in_minimal_coordinates"):
        sd.filtered(sd.with_noise(held, noise, into=0), by="ekf", **options)


def test_fits_to_averages_of_a_nonlinear_problem():
    options = {"data": WINDOWED, "sensors": WINDOWS, "by": "ekf", "dt": 0.125}
    like = sd.likelihood(duffing(), free=["q", "r"], **options)
    slope = (like([0.5 + 1e-5, 0.1]) - like([0.5 - 1e-5, 0.1])) / 2e-5
    np.testing.assert_allclose(like.gradient([0.5, 0.1])[0], slope, rtol=1e-6)


def test_simulated_averages_have_the_spread_of_those_of_the_exact_law():
    spreads = []
    for own in ({}, {"by": "ekf", "dt": 0.025}):
        question = sd.likelihood(oscillator(), data=WINDOWED, sensors=WINDOWS, **own).question
        draws = simulated(question, question.values, 10_000, np.random.default_rng(1))
        rows, columns = np.nonzero(question.evaluated.rows.is_read)
        spreads.append(draws[:, rows, columns].std(axis=0))
    assert len(spreads[0]) == 24 and spreads[0].min() > 0
    np.testing.assert_allclose(*spreads, rtol=0.05)  # five standard errors


@pytest.mark.parametrize("by", ["ekf", "statistical"])
def test_derivatives_agree_with_differences_and_with_jax(by):
    data = 0.25 * K[:8], 0.3 * VALUES[:8]
    like = sd.likelihood(duffing(), data=data, sensors=sensor(), by=by, dt=0.125)
    h, gradient, hessian = 1e-5, like.gradient(), like.hessian()
    for k, name in enumerate(like.names):
        ends = [{name: like.start[k] + sign * h} for sign in (-1, 1)]
        np.testing.assert_allclose(gradient[k], (like(ends[1]) - like(ends[0])) / (2 * h), rtol=1e-6, atol=1e-6)
        slopes = (like.gradient(ends[1]) - like.gradient(ends[0])) / (2 * h)
        np.testing.assert_allclose(hessian[k], slopes, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(value(like.jax, like.start), like(), rtol=1e-10)
    np.testing.assert_allclose(value(jax.jacfwd(like.jax), like.start), gradient, rtol=1e-9)


def test_steps_are_chosen_by_halving():
    options = {"data": (0.5 * K[:12], 0.3 * VALUES[:12]), "sensors": sensor(), "by": "ekf"}
    own = sd.likelihood(duffing(), **options)
    dt = own.question.model.dt
    finer = sd.likelihood(duffing(), dt=dt / 2, **options)
    assert abs(own() - finer()) < 0.05
    assert abs(sd.likelihood(duffing(), dt=2 * dt, **options)() - own()) > 0.05


def test_times_that_coefficients_depend_on():
    pushed = sd.SDE(lambda t, x: jnp.sin(t) - 0.0 * x, lambda t, x: 0.3, start=0.0)
    data = [1.0, 3.0], [np.nan, 0.5]
    result = sd.filtered(pushed, data=data, sensors=sensor(noise=0.2), by="ekf", dt=0.02, check=False)
    np.testing.assert_allclose(result["mean"][0, 0], 1 - np.cos(1.0), rtol=1e-4)


def test_covariances_stay_semidefinite_where_runge_kutta_on_them_does_not():
    rng = np.random.default_rng(1)
    for _ in range(20):
        A = 2.0 * rng.normal(size=(2, 2))
        half = rng.normal(size=(2, 1))
        P = half @ half.T

        def step(s, ξ, A=A):
            return s + 0.25 * A @ (s + 0.125 * A @ s) + 0.1 * ξ

        state = moments.State(np.zeros(2), P, None, None)
        after = moments.WAYS["ekf"].step(step, state, 2, True)
        assert np.linalg.eigvalsh(np.asarray(after.covariance))[0] > 0


def test_a_mean_stays_on_its_joints():
    params = {"g": 9.81, "c": 0.3, "q": 0.5}
    jointed = sd.Mechanical(
        lambda t, x, v, p: jnp.array([0.0, -p["g"]]) - p["c"] * v,
        lambda t, x, v, p: (p["q"] * jnp.stack([-x[1], x[0]]))[:, None],
        ([np.sin(0.5), -np.cos(0.5)], [0.0, 0.0]),
        [1.0, 1.0],
        params=params,
        names=("x", "y"),
        constraints=lambda t, x: 0.5 * (jnp.sum(x * x) - 1.0)[None],
    )
    options = {"data": ([0.1], [0.4]), "sensors": sensor(noise=0.05), "t0": 0.0, "law": None, "params": None}
    model = question_of(jointed, "Heun", by="ekf", initial=None, dt=0.1, **options).model
    x, y, dx, dy = value(lambda s: model.functions.settled(params, 0.0, s), np.array([0.5, -0.9, 0.3, 0.1]))
    np.testing.assert_allclose(x**2 + y**2, 1.0, rtol=1e-12)
    np.testing.assert_allclose(x * dx + y * dy, 0.0, atol=1e-12)
