"""Filters and smoothers of linear problems against values by the dense joint normal law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from inference.records import NILE, TIMES, VALUES, K, ornstein_uhlenbeck, oscillator, sensor

import stodyn as sd
from stodyn.inference import evaluating, stepping
from stodyn.inference.checks import checked
from stodyn.inference.question import question_of
from stodyn.numerics import linear_flow
from stodyn.numerics.uncompiled import value

TIGHT = {"rtol": 1e-10, "atol": 1e-11}


def test_missing_readings_of_a_stationary_process():
    values = VALUES.copy()
    values[4:6] = np.nan
    record = sd.Record((TIMES, values), sensor())
    result = sd.filtered(ornstein_uhlenbeck(), data=record, initial="stationary")
    np.testing.assert_allclose(result.loglik, -24.705681749939, **TIGHT)
    np.testing.assert_allclose(result["mean"][-1, 0], 0.427822694997, **TIGHT)
    np.testing.assert_allclose(result.covariance[-1, 0, 0], 0.068414924574, **TIGHT)
    smooth = sd.smoothed(ornstein_uhlenbeck(), data=record, initial="stationary")
    np.testing.assert_allclose(smooth["mean"][12, 0], -0.37365062561, **TIGHT)
    np.testing.assert_allclose(smooth.covariance[12, 0, 0], 0.059483412285, **TIGHT)
    assert smooth.attrs["by"] == "kalman" and smooth.attrs["law"] == "exact"


def test_readings_without_noise():
    result = sd.filtered(ornstein_uhlenbeck(), data=(TIMES, VALUES), sensors=sensor(noise=None), initial="stationary")
    np.testing.assert_allclose(result.loglik, -39.001101002373, **TIGHT)


def test_sensors_at_different_times():
    sensors = [sensor("position"), sensor("velocity", of="v", noise=0.5)]
    data = {"position": (TIMES, VALUES), "velocity": (TIMES[4::5], 0.8 * np.cos(K[4::5]))}
    result = sd.smoothed(oscillator(), data=data, sensors=sensors)
    np.testing.assert_allclose(result.loglik, -116.769822960182, **TIGHT)
    np.testing.assert_allclose(result["mean"][12], [0.099632216497, -0.059485188255], **TIGHT)


def test_averages_over_windows_are_not_points():
    for average, expected in ((0.4, -27.483242202391), (None, -27.240960)):
        result = sd.filtered(
            ornstein_uhlenbeck(), data=(0.5 * K, VALUES), sensors=sensor(average=average), initial="stationary"
        )
        np.testing.assert_allclose(result.loglik, expected, rtol=1e-10 if average else 1e-7)


def test_coloured_noise_is_part_of_the_state():
    ground = sd.noise.coloured.Coloured([[0, 1], [-144, -14.4]], [[0], [-0.7]], [[144, 14.4]], "ground")
    quiet = sd.SDE(lambda t, x: jnp.array([x[1], -4 * x[0] - 0.4 * x[1]]), None, start=[0.0, 0.0], names=["x", "v"])
    driven = sd.with_noise(quiet, ground, into="v")
    result = sd.filtered(driven, data=(TIMES, VALUES), sensors=sensor(noise=0.2))
    np.testing.assert_allclose(result.loglik, -110.761788397783, **TIGHT)
    np.testing.assert_allclose(result["mean"].sel(component="x")[-1], 0.175096295057, **TIGHT)


def test_algebraic_components_are_outputs():
    sdae = sd.SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x: jnp.array([-(x[0] - x[1]) / 2, (x[0] - x[1]) / 2 - x[1] / 0.5]),
        lambda t, x: jnp.array([[0.6], [0.0]]),
        start=[0.0, 0.0],
        names=["u", "w"],
    )
    result = sd.filtered(sdae, data=(TIMES, VALUES), sensors=sensor(of="w", noise=0.2), initial="stationary")
    np.testing.assert_allclose(result.loglik, -105.035312829139, **TIGHT)
    last = result.isel(time=-1)
    np.testing.assert_allclose(last["mean"], [0.69267916147, 0.69267916147 / 5], **TIGHT)
    np.testing.assert_allclose(last.covariance[1, 1], last.covariance[0, 0] / 25, rtol=1e-12)


def test_steady_state_of_regular_readings():
    times = 0.2 * np.arange(1, 201)
    result = sd.filtered(oscillator(), data=(times, np.zeros(200)), sensors=sensor(), at=[40.0, 40.2])
    S, P = result.innovation_sd.values[-1] ** 2, result.covariance.sel(time=40.2).values
    np.testing.assert_allclose(S, 0.06892192320, **TIGHT)
    np.testing.assert_allclose([P[0, 0], P[0, 1], P[1, 1]], [0.028921923201, 0.037663906417, 0.188335723573], **TIGHT)
    np.testing.assert_allclose(P[0] / S, [0.419633142226, 0.546472075474], **TIGHT)


def test_a_diffuse_start_contributes_nothing():
    level = sd.SDE(
        lambda t, x, p: 0.0 * x, lambda t, x, p: p["s"], start=0.0, params={"s": 1469.1**0.5, "r": 15099**0.5}
    )
    record = sd.Record((1871.0 + np.arange(100), NILE), sensor())
    result = sd.filtered(level, data=record, initial="diffuse", at=[1870.0, 1970.0])
    np.testing.assert_allclose(result.loglik, -632.545625, atol=5e-7)
    np.testing.assert_allclose(result["mean"][-1], 798.370293, atol=5e-7)
    np.testing.assert_allclose(result.covariance[-1, 0, 0], 4032.1579, atol=5e-5)
    assert np.isnan(result["mean"][0, 0]) and np.isinf(result.covariance[0, 0, 0])
    # the printed value is that of a prior N(0, 1e6), not counting the first reading
    vague = level.changed(start=scipy.stats.norm(0.0, 1e3))
    first, all_of_them = (sd.filtered(vague, t0=1871.0, data=(1871.0 + np.arange(n), NILE[:n]), sensors=sensor()).loglik
                          for n in (1, 100))  # fmt: skip
    np.testing.assert_allclose(all_of_them - first, -632.537695, atol=5e-7)


def dense(problem, **options):
    """Log-likelihood, and mean and covariance of all states at all rows, by the joint normal law of everything; what is
    diffuse at the start is estimated by generalised least squares."""
    question = question_of(
        problem, None, t0=None, by=None, law=None, params=None, **{"initial": None, "sensors": None} | options
    )
    model, rows = question.model, question.evaluated.rows
    parts = jax.tree.map(lambda a: a[0], question.evaluated.parts(question.values[None]))
    count, n = len(model.schedule.times), len(parts.m)
    keep = np.concatenate([np.ones((count, n - rows.keep.shape[1])), rows.keep], axis=1)
    mean, C = np.zeros((count, n)), np.zeros((count, n, count, n))
    D = model.diffuse()
    X = np.zeros((count, n, 0 if D is None else D.shape[1]))
    m, P, Z = parts.m, parts.P, np.zeros((n, 0)) if D is None else D
    for k, gap in enumerate(model.schedule.gap):
        F = (np.eye(n) + parts.law.E[gap]) * keep[k]
        for j in range(k):
            C[k, :, j] = F @ C[k - 1, :, j]
            C[j, :, k] = C[k, :, j].T
        m, P, Z = F @ m + parts.law.c[gap], F @ P @ F.T + parts.law.Q[gap], F @ Z
        mean[k], C[k, :, k], X[k] = m, P, Z
    at, columns = np.nonzero(rows.is_read)
    H = np.zeros((len(at), count, n))
    H[np.arange(len(at)), at] = parts.view.H[columns]
    H, C, X = H.reshape(len(at), -1), C.reshape(count * n, -1), X.reshape(count * n, -1)
    V = H @ C @ H.T + np.diag(parts.view.R[columns])
    e = rows.values[at, columns] - H @ mean.ravel() - parts.view.d[columns]
    gain, HX = C @ H.T @ np.linalg.inv(V), H @ X
    spread = np.linalg.inv(HX.T @ np.linalg.solve(V, HX))
    free = spread @ HX.T @ np.linalg.solve(V, e)
    rest, into = e - HX @ free, X - gain @ HX
    loglik = -0.5 * (rest @ np.linalg.solve(V, rest) + np.linalg.slogdet(2 * np.pi * V)[1])
    loglik += 0.5 * np.linalg.slogdet(2 * np.pi * spread)[1]
    covariance = (C - gain @ H @ C + into @ spread @ into.T).reshape(count, n, count, n)
    states = mean + (gain @ rest + X @ free).reshape(count, n)
    return question, loglik, states, np.stack([covariance[k, :, k] for k in range(count)])


def smoothed_states(question):
    parts, history = question.evaluated.history(question.values)
    return history, evaluating.smoothed(question.model, parts, history, question.evaluated.rows)


def test_random_systems_agree_with_the_dense_law():
    rng = np.random.default_rng(5)
    for n in (1, 2, 3, 4):
        A, B = rng.normal(size=(n, n)) - 1.5 * np.eye(n), rng.normal(size=(n, 1))
        half = rng.normal(size=(n, max(n - 1, 1)))
        problem = sd.linear(A, B, u=rng.normal(size=n), mean=rng.normal(size=n), covariance=half @ half.T)
        C = rng.normal(size=(2, n))
        sensors = [
            sensor("both", of=lambda t, x, C=C: C @ x + 0.3, noise=[0.3, 0.0]),
            sensor("window", of=0, noise=0.2, average=0.5),
            sensor("count", of=n - 1, noise=0.1, increment=True),
        ]
        times = np.cumsum(rng.uniform(0.05, 0.5, 14))
        both = rng.normal(size=(14, 2))
        both[rng.uniform(size=both.shape) < 0.3] = np.nan
        later = times[times > 0.5]
        data = {
            "both": (times, both),
            "window": (later, rng.normal(size=len(later))),
            "count": (times[::3], rng.normal(size=5)),
        }
        question, loglik, mean, covariance = dense(problem, data=data, sensors=sensors)
        history, (m, P) = smoothed_states(question)
        np.testing.assert_allclose(history.loglik.sum(), loglik, rtol=1e-9)
        np.testing.assert_allclose(m, mean, atol=1e-9)
        np.testing.assert_allclose(P, covariance, atol=1e-9)


@pytest.mark.parametrize("initial", ["diffuse", {"x": "diffuse"}])
def test_diffuse_starts_agree_with_least_squares(initial):
    sensors = [sensor("velocity", of="v"), sensor("position", noise=0.5)]
    data = {"velocity": (TIMES[:10], VALUES[:10]), "position": (TIMES[3:9:2], VALUES[3:9:2])}
    question, loglik, mean, covariance = dense(oscillator(), data=data, sensors=sensors, initial=initial)
    history, (m, P) = smoothed_states(question)
    np.testing.assert_allclose(m, mean, atol=1e-10)
    np.testing.assert_allclose(P, covariance, atol=1e-10)
    counted = history.readings.sees
    sizes = np.log(2 * np.pi * history.readings.size[counted])
    np.testing.assert_allclose(
        history.loglik.sum() - 0.5 * sizes.sum() + 0.5 * counted.sum() * np.log(2 * np.pi), loglik
    )


def test_coloured_noise_and_densities_of_sensors():
    bias = sd.noise.coloured.gauss_markov(0.4, 1.5)
    plain = sd.filtered(oscillator(), data=(0.2 * K, VALUES), sensors=sensor(noise=0.3, bias=bias)).loglik
    explicit = sd.SDE(  # the bias as a component
        lambda t, x: jnp.array([x[1], -4 * x[0] - 0.4 * x[1], -x[2] / 1.5]),
        lambda t, x: jnp.array([[0.0, 0.0], [0.7, 0.0], [0.0, 0.4 * (2 / 1.5) ** 0.5]]),
        start=scipy.stats.multivariate_normal([0, 0, 0], np.diag([0, 0, 0.16]), allow_singular=True),
    )
    of_both = sensor(of=lambda t, x: x[0] + x[2], noise=0.3)
    np.testing.assert_allclose(plain, sd.filtered(explicit, data=(0.2 * K, VALUES), sensors=of_both).loglik, rtol=1e-12)
    density = sd.Sensor("y", of="x", noise=sd.density(0.3 * 0.2**0.5, sides=2), bias=bias, every=0.2)
    np.testing.assert_allclose(
        plain, sd.filtered(oscillator(), data=(0.2 * K, VALUES), sensors=density).loglik, rtol=1e-12
    )


def test_mechanics_are_filtered_as_an_oscillator():
    mechanical = sd.Mechanical(lambda t, x, v: -4 * x - 0.4 * v, lambda t, x, v: 0.7, start=(0.0, 0.0))
    result = sd.filtered(mechanical, data=(TIMES, VALUES), sensors=sensor(of=0, noise=0.2))
    np.testing.assert_allclose(result.loglik, -112.408364917822, **TIGHT)


def test_noise_may_be_a_normal_law_of_scipy():
    for law, refused in ((scipy.stats.norm(0.0, 0.2), None), (scipy.stats.t(4, scale=0.2), "not normal")):
        read = sd.Sensor("y", of="x", noise=law)
        if refused is None:
            result = sd.filtered(oscillator(), data=(TIMES, VALUES), sensors=read)
            np.testing.assert_allclose(result.loglik, -112.408364917822, **TIGHT)
        else:
            with pytest.raises(ValueError, match=refused):
                sd.filtered(oscillator(), data=(TIMES, VALUES), sensors=read)


def test_a_delay_is_not_taken_for_one_of_the_record():
    late = sd.Sensor("y", of="x", noise=sd.per_sample("r"), delay=0.3)
    result = sd.filtered(oscillator(), data=(TIMES, VALUES), sensors=late)
    np.testing.assert_allclose(result.loglik, -112.408364917822, **TIGHT)
    assert "the times of y are those at which it reads, not 0.3 later" in result.attrs["reasons"]


def test_checks_find_a_noise_that_is_too_small():
    rng = np.random.default_rng(3)
    result = sd.filtered(ornstein_uhlenbeck(r=0.01), data=(0.5 * K, 2 * rng.normal(size=25)), sensors=sensor())
    assert result.p_value.sel(check="nis") < 1e-3 and "mean square of the innovations" in result.attrs["reasons"]
    assert float(result.nis.mean()) > 1.5


def test_checks_name_the_reading_that_is_farthest_off():
    """One wrong reading among 25: 6 standard deviations off by itself, its chance that of the largest of 25."""
    e = np.random.default_rng(3).standard_normal((25, 2))
    e[7, 1], e[8, 0] = -6.0, np.nan
    largest = next(check for check in checked(e, TIMES, ("y", "z")) if check.name == "largest")
    assert largest.statistic == 6.0 and largest.words.startswith(f"the reading of z at time {TIMES[7]:.6g} is 6.00")
    np.testing.assert_allclose(largest.p, 49 * 2 * scipy.stats.norm.sf(6.0), rtol=1e-6)


def test_steps_of_starting_methods_come_one_after_the_other():
    """Three steps from the first on: the first, the second and a usual one; more are taken by their powers."""
    laws = [linear_flow.Law(np.array([[[e]]]), np.array([[c]]), np.array([[[q]]]))
            for e, c, q in ((0.1, 1.0, 0.3), (-0.2, 0.5, 0.7), (0.4, -1.0, 0.2))]  # fmt: skip
    powers = [laws[-1], laws[-1].doubled()]
    for first, count in ((0, 1), (0, 2), (0, 4), (1, 4), (2, 3)):
        expected = laws[min(first, 2)]
        for k in range(first + 1, first + count):
            expected = expected.then(laws[min(k, 2)])
        found = stepping.SteppedModel._composed(None, first, count, laws, powers)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)


def test_a_filter_at_other_times_is_the_same_filter():
    plain = sd.filtered(oscillator(), data=(TIMES, VALUES), sensors=sensor())
    finer = sd.filtered(oscillator(), data=(TIMES, VALUES), sensors=sensor(), at=[0.1, TIMES[7], 6.0])
    np.testing.assert_allclose(finer.loglik, plain.loglik, rtol=1e-13)
    np.testing.assert_allclose(finer["mean"][1], plain["mean"][7], rtol=1e-12)
    assert list(finer.time.values) == [0.1, TIMES[7], 6.0]


@pytest.mark.parametrize(
    ("law", "variance"),
    [("exact", 0.057115419901), ("Heun", 0.057171369801), ("ImplicitMidpoint", 0.056990492063), ("AB4", 0.0580240973)],
)
def test_laws_that_methods_deliver(law, variance):
    times = 0.1 * np.arange(1, 301)
    dt = None if law == "exact" else 0.1
    result = sd.filtered(oscillator(), data=(times, np.zeros(300)), sensors=sensor(), law=law, dt=dt)
    np.testing.assert_allclose(result.innovation_sd[-1] ** 2, variance, rtol=1e-9)
    assert result.attrs["law"].startswith(law)


def test_laws_of_steps_lead_to_the_exact_law():
    sdae = sd.SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x: jnp.array([-(x[0] - x[1]) / 2, (x[0] - x[1]) / 2 - x[1] / 0.5]),
        lambda t, x: jnp.array([[0.6], [0.0]]),
        start=[1.0, 0.2],
        names=["u", "w"],
    )
    mechanical = sd.Mechanical(
        lambda t, x, v: -4 * x - 0.4 * v, lambda t, x, v: 0.7, start=(scipy.stats.norm(0.2, 0.1), 0.3)
    )
    for problem, of, law in ((sdae, "w", "ImplicitEuler"), (mechanical, 0, "StochasticAlpha")):
        options = {"data": (0.25 * K, VALUES), "sensors": sensor(of=of, noise=0.2)}
        exact = sd.filtered(problem, **options)
        near = sd.filtered(problem, law=law, dt=1 / 2048, **options)
        np.testing.assert_allclose(near.loglik, exact.loglik, rtol=1e-3)
        np.testing.assert_allclose(near["mean"], exact["mean"], atol=2e-3)


def test_wrong_laws_are_refused():
    def refused(words, **options):
        with pytest.raises(ValueError, match=words):
            sd.filtered(oscillator(), data=(0.25 * K, VALUES), **{"sensors": sensor()} | options)

    refused("expected the step of Heun", law="Heun")
    refused("not a whole number of steps", law="Heun", dt=0.1)
    refused("has no steps", dt=0.1)
    refused("averages, increments and biases", law="Heun", dt=0.05, sensors=sensor(average=0.1))


def test_forces_that_depend_on_time():
    def force(t):  # jumps at readings, where it may
        return jnp.where(t < 1.0, 0.5, jnp.sin(3.0 * t))

    pushed = sd.SDE(lambda t, x, p: -p["a"] * x + force(t), lambda t, x: 0.4, start=0.3, params={"a": 0.8})
    times = 0.25 * np.arange(1, 13)
    values = np.sin(times)
    own = sd.filtered(pushed, data=(times, values), sensors=sensor(noise=0.2))
    mean, rest, shift = 0.3, [], 0.0
    for k, t in enumerate(times):  # what the force adds to the mean is known, and the filter is that of the rest
        s = np.linspace(t - 0.25, t, 2001)
        middles = 0.5 * (s[1:] + s[:-1])
        pushes = np.where(middles < 1.0, 0.5, np.sin(3.0 * middles)) * np.exp(-0.8 * (t - middles))
        shift = shift * np.exp(-0.2) + pushes.sum() * 0.25 / 2000
        rest.append(values[k] - shift)
    free = sd.SDE(lambda t, x: -0.8 * x, lambda t, x: 0.4, start=mean)
    alone = sd.filtered(free, data=(times, np.array(rest)), sensors=sensor(noise=0.2))
    np.testing.assert_allclose(own.loglik, alone.loglik, rtol=1e-7)
    np.testing.assert_allclose(own["mean"][-1, 0], alone["mean"][-1, 0] + shift, rtol=1e-7)
    like = sd.likelihood(pushed, data=(times, values), sensors=sensor(noise=0.2))
    slope = (like([0.8 + 1e-5]) - like([0.8 - 1e-5])) / 2e-5
    np.testing.assert_allclose(like.gradient(), slope, rtol=1e-7)
    with pytest.raises(ValueError, match="no stationary one"):
        sd.filtered(pushed, data=(times, values), sensors=sensor(noise=0.2), initial="stationary")


def test_forces_that_jump_between_readings():
    times, values = 0.25 * np.arange(1, 13), np.sin(0.25 * np.arange(1, 13))
    jumps = sd.SDE(lambda t, x: -0.8 * x + jnp.where(t < 1.1, 2.0, -1.0), lambda t, x: 0.4, start=0.3)
    own = sd.filtered(jumps, data=(times, values), sensors=sensor(noise=0.2))
    shift = np.where(times < 1.1, 2.5 * (1 - np.exp(-0.8 * times)), 0.0)
    later = 2.5 * (1 - np.exp(-0.88)) * np.exp(-0.8 * (times - 1.1)) - 1.25 * (1 - np.exp(-0.8 * (times - 1.1)))
    shift += np.where(times < 1.1, 0.0, later)
    free = sd.SDE(lambda t, x: -0.8 * x, lambda t, x: 0.4, start=0.3)
    alone = sd.filtered(free, data=(times, values - shift), sensors=sensor(noise=0.2))
    np.testing.assert_allclose(own.loglik, alone.loglik, rtol=1e-9)


@pytest.mark.parametrize("copies", [1, 5])
def test_rates_that_depend_on_time_are_those_of_another_clock(copies):
    """dx = -a c(t) x dt + s √c(t) dW is a stationary process read by a clock of rate c, with a jump; copies of it are
    as many as matrices are not printed for."""

    def rate(t):
        return jnp.where(t < 1.1, 1.0 + 0.6 * jnp.cos(2.0 * t), 3.0)

    def clock(t):
        return np.where(t < 1.1, t + 0.3 * np.sin(2.0 * t), 1.1 + 0.3 * np.sin(2.2) + 3.0 * (t - 1.1))

    def process(c):
        drift, noise = lambda t, x, p: -p["a"] * c(t) * x, lambda t, x, p: p["s"] * jnp.sqrt(c(t)) * np.eye(copies)
        return sd.SDE(drift, noise, 0.3 * np.ones(copies), params={"a": 0.8, "s": 1.1})

    times, values = 0.25 * np.arange(1, 9), np.sin(1.3 * np.arange(1, 9))
    reads = sensor(of=[lambda t, x: x.sum()], noise=0.2)
    varied = sd.likelihood(process(rate), data=(times, values), sensors=reads)
    steady = sd.likelihood(process(lambda t: 1.0), data=(clock(times), values), sensors=reads)
    np.testing.assert_allclose(varied(), steady(), rtol=2e-10)
    np.testing.assert_allclose(varied.gradient(), steady.gradient(), rtol=1e-8)


def test_rates_too_fast_for_rows_between_readings_are_refused(monkeypatch):
    monkeypatch.setattr(evaluating, "MOST_BETWEEN", 100)
    fast = sd.SDE(lambda t, x: -jnp.sin(1e4 * t) * x, lambda t, x: 1.0, start=0.0)
    with pytest.raises(ValueError, match="more than 100 rows are needed between the readings"):
        sd.filtered(fast, data=([1.0, 2.0], [0.0, 1.0]), sensors=sensor(noise=1.0))


def test_matrices_that_do_not_commute_with_themselves():
    parametric = sd.SDE(
        lambda t, x, p: jnp.array([x[1], -(1.3 + p["q"] * jnp.cos(2.0 * t)) * x[0] - 0.2 * x[1] + jnp.sin(t)]),
        lambda t, x: jnp.array([[0.0], [0.7 + 0.3 * jnp.sin(t)]]),
        start=[0.1, 0.2],
        params={"q": 0.4},
        names=["x", "v"],
    )

    def rhs(t, y):
        m, P = y[:2], y[2:].reshape(2, 2)
        A = np.array([[0.0, 1.0], [-1.3 - 0.4 * np.cos(2.0 * t), -0.2]])
        own = A @ P + P @ A.T + np.diag([0.0, (0.7 + 0.3 * np.sin(t)) ** 2])
        return np.concatenate([A @ m + [0.0, np.sin(t)], own.ravel()])

    y, before, expected = np.array([0.1, 0.2, 0, 0, 0, 0]), 0.0, 0.0
    for t, reading in zip(TIMES[:6], VALUES[:6], strict=True):
        y = scipy.integrate.solve_ivp(rhs, (before, t), y, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
        m, P = y[:2], y[2:].reshape(2, 2)
        v, S = reading - m[0], P[0, 0] + 0.04
        expected -= 0.5 * (v**2 / S + np.log(2 * np.pi * S))
        y, before = np.concatenate([m + P[0] * v / S, (P - np.outer(P[0], P[0]) / S).ravel()]), t
    options = {"data": (TIMES[:6], VALUES[:6]), "sensors": sensor(noise=0.2)}
    like = sd.likelihood(parametric, **options)
    np.testing.assert_allclose(like(), expected, rtol=1e-9)
    np.testing.assert_allclose(value(like.jax, like.start), like(), rtol=1e-12)
    slope = (like([0.4 + 1e-4]) - like([0.4 - 1e-4])) / 2e-4
    np.testing.assert_allclose(like.gradient(), slope, rtol=1e-6)
    smooth = sd.smoothed(parametric, **options)
    assert smooth.attrs["exact"] == "yes" and smooth.sizes["time"] == 6


def test_a_vague_start_is_not_a_diffuse_one():
    level = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1469.1**0.5, start=scipy.stats.norm(0.0, 1e7**0.5))
    own = sensor(noise=15099**0.5)
    first, everything = (
        sd.filtered(level, t0=1871.0, data=(1871.0 + np.arange(n), NILE[:n]), sensors=own).loglik for n in (1, 100)
    )
    np.testing.assert_allclose(everything - first, -632.544212, atol=5e-7)
    exact = sd.filtered(level, data=(1871.0 + np.arange(100), NILE), sensors=own, initial="diffuse", t0=1871.0)
    # the constant that others add for the first reading is that of a reading of variance 1
    np.testing.assert_allclose(exact.loglik - 0.5 * np.log(2 * np.pi), -633.464564, atol=5e-7)


def by_density(times, reads, values, noise):
    """Log-likelihood of readings c(s) x(s) ds + d ds of x = 0.3 and dx = -0.8 x dt + 1.1 dW, by their joint law; each
    reads at nodes with weights: (nodes, weights)."""
    s, c = np.concatenate([nodes for nodes, _ in reads]), scipy.linalg.block_diag(*[own for _, own in reads])
    C = 1.21 / 1.6 * (np.exp(-0.8 * np.abs(s - s[:, None])) - np.exp(-0.8 * (s + s[:, None])))
    law = scipy.stats.multivariate_normal(c @ (0.3 * np.exp(-0.8 * s)), c @ C @ c.T + noise**2 * np.eye(len(times)))
    return law.logpdf(values)


def test_what_is_read_may_depend_on_time():
    """A sensor whose sensitivity and zero drift, read at points, and averaged over windows."""
    process = sd.SDE(lambda t, x, p: -p["a"] * x, lambda t, x: 1.1, start=0.3, params={"a": 0.8})

    def of(t, x):
        return (1 + 0.5 * jnp.sin(t)) * x[0] + jnp.cos(t)

    times, values = TIMES[:9] + 0.4, VALUES[:9]
    options = {"data": (times, values), "sensors": sensor(of=of, noise=0.2)}
    reads = [(np.array([t]), np.array([1 + 0.5 * np.sin(t)])) for t in times]
    like = sd.likelihood(process, **options)
    np.testing.assert_allclose(like(), by_density(times, reads, values - np.cos(times), 0.2), rtol=1e-11)
    np.testing.assert_allclose(value(like.jax, like.start), like(), rtol=1e-12)
    ends = [like([0.8 + h]) for h in (1e-4, -1e-4)]
    np.testing.assert_allclose(like.gradient(), (ends[0] - ends[1]) / 2e-4, rtol=1e-7)
    np.testing.assert_allclose(like.hessian(), (ends[0] + ends[1] - 2 * like()) / 1e-8, rtol=1e-5)
    smooth = sd.smoothed(process, **options)
    undone = sd.smoothed(  # the readings of x itself, whose noise is that of the sensor through its sensitivity
        process.changed(params={"a": 0.8}), data={str(k): ([t], [v]) for k, (t, v) in enumerate(zip(
            times, (values - np.cos(times)) / (1 + 0.5 * np.sin(times)), strict=True))},
        sensors=[sensor(str(k), noise=0.2 / (1 + 0.5 * np.sin(t))) for k, t in enumerate(times)],
    )  # fmt: skip
    np.testing.assert_allclose(smooth["mean"], undone["mean"], **TIGHT)
    np.testing.assert_allclose(smooth.covariance, undone.covariance, **TIGHT)
    times, rough = 0.4 + 0.2 * K[:9], []
    averaged = sd.filtered(process, data=(times, values), sensors=sensor(of=of, noise=0.2, average=0.3))
    for half in (15, 30):  # nodes at which the corners of the covariance are
        shares = np.ones(2 * half + 1) / half / 2
        shares[[0, -1]] *= 0.5
        places = [t - 0.3 + 0.3 * np.arange(2 * half + 1) / half / 2 for t in times]
        rest = values - [shares @ np.cos(s) for s in places]
        rough.append(by_density(times, [(s, shares * (1 + 0.5 * np.sin(s))) for s in places], rest, 0.2))
    np.testing.assert_allclose(averaged.loglik, rough[1] + (rough[1] - rough[0]) / 3, rtol=1e-7)


def test_what_is_read_in_time_by_the_steps_of_a_method():
    def of(t, x):
        return (1 + 0.5 * jnp.sin(t)) * x[0] + x[1]

    options = {"data": (0.25 * K, VALUES), "sensors": sensor(of=of, noise=0.2), "dt": 0.125}
    own = sd.filtered(oscillator(), law="Heun", **options)
    other = sd.filtered(oscillator(), "Heun", by="ekf", check=False, **options)
    np.testing.assert_allclose(own.loglik, other.loglik, rtol=1e-11)


def test_algebraic_components_that_depend_on_time():
    def conductance(t):
        return 2.0 + jnp.sin(3.0 * t)

    sdae = sd.SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x, p: jnp.array([-p["k"] * (x[0] - x[1]), p["k"] * (x[0] - x[1]) - conductance(t) * x[1] + t]),
        lambda t, x: jnp.array([[0.6], [0.0]]),
        start=[0.3, 0.1],
        names=["u", "w"],
        params={"k": 0.5},
    )

    def w(t, x, p):
        return (p["k"] * x[0] + t) / (p["k"] + conductance(t))

    reduced = sd.SDE(
        lambda t, x, p: -p["k"] * (x - w(t, x, p)), lambda t, x: jnp.array([[0.6]]), [0.3], params={"k": 0.5}
    )
    data = {"data": (TIMES[:9], VALUES[:9])}
    for verb in (sd.filtered, sd.smoothed):
        own = verb(sdae, sensors=sensor(of="w", noise=0.2), **data)
        other = verb(reduced, sensors=sensor(of=w, noise=0.2), **data)
        np.testing.assert_allclose(own.loglik, other.loglik, rtol=1e-10)
        np.testing.assert_allclose(own["mean"][:, 0], other["mean"][:, 0], rtol=1e-9)
        shares = 0.5 / (0.5 + conductance(own.time.values))
        shown = shares * own["mean"][:, 0] + own.time.values / (0.5 + conductance(own.time.values))
        np.testing.assert_allclose(own["mean"][:, 1], shown, rtol=1e-12)
        np.testing.assert_allclose(own.covariance[:, 1, 1], shares**2 * own.covariance[:, 0, 0], rtol=1e-12)


def test_constraints_that_become_singular_are_refused():
    leaving = sd.SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x: jnp.array([-x[0] + x[1], x[0] - (1.0 - t) * x[1]]),
        lambda t, x: jnp.array([[0.6], [0.0]]),
        start=[0.3, 0.3],
    )
    with pytest.raises(ValueError, match=r"a time from 0.5 to 1.5, where it is not of index 1. End the record before"):
        sd.filtered(leaving, data=([0.5, 1.5], [0.1, 0.2]), sensors=sensor(of=0, noise=0.2))


def test_transitions_of_a_process_that_depends_on_time_are_not_taken():
    """They are those of constant lines; a level that moves was taken for that at time 0."""
    moving = sd.SDE(lambda t, x: 1.2 + 0.5 * jnp.sin(t) - x, lambda t, x: 0.5 * jnp.sqrt(x), 1.2)
    with pytest.raises(ValueError, match="has to be additive"):
        sd.filtered(moving, data=(TIMES, 1.2 + 0.2 * np.sin(K)), sensors=sensor(noise=None))
