"""Estimates of loops: levels that share the noise of plant and sensors, beside exact moments."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.accuracy.estimate import Estimator
from stodyn.accuracy.levels import LevelRun
from stodyn.engine.progress import Progress
from stodyn.methods.exact import step_law
from stodyn.statistics import functional

pytestmark = pytest.mark.usefixtures("quick_compiling")

A, B = np.array([[0.0, 1.0], [-4.0, -0.4]]), np.array([[0.0], [0.5**0.5]])
PERIOD, GAIN, READ = 0.1, 3.0, 0.1  # the gain and the deviation of a reading
OSCILLATOR = sd.SDE(
    lambda t, x, p: jnp.array([x[1], -4.0 * x[0] - 0.4 * x[1] + p["u"]]),
    lambda t, x: jnp.array([[0.0], [0.5**0.5]]),
    start=[0.0, 0.0],
    params={"u": 0.0},
    names=("x", "v"),
)


def loop(sensor=(), part=(), plant=OSCILLATOR, gain=GAIN):
    return sd.with_loop(
        plant,
        sd.Sensor("y", of="x", every=PERIOD, noise=sd.per_sample(READ), **dict(sensor)),
        sd.Part(
            "law",
            every=PERIOD,
            reads="y",
            writes="u",
            update=lambda t, own, seen, p: (own, -gain * seen["y"]),
            **dict(part),
        ),
    )


def square(t, x):
    return x[0] ** 2


def covariances(steps, times, law):
    """The covariances of x, v and u after each of some steps from rest; `law(h)` gives Φ, Γ and Q of a step."""
    h = PERIOD / steps
    Phi, Gamma, Q = law(h)
    F, C = np.eye(3), np.zeros((3, 3))
    F[:2, :2], F[:2, 2], C[:2, :2] = Phi, Gamma[:, 1], Q
    J, N = np.diag([1.0, 1.0, 0.0]), np.diag([0.0, 0.0, (GAIN * READ) ** 2])
    J[2, 0] = -GAIN
    after = [J @ np.zeros((3, 3)) @ J.T + N]
    before = [np.zeros((3, 3))]
    for k in range(1, times + 1):
        P = F @ after[-1] @ F.T + C
        before.append(P)
        after.append(J @ P @ J.T + N if k % steps == 0 else P)
    return np.array(before), np.array(after)


def exactly(h):
    Phi, Gamma, share, rest = step_law(A, B, h)
    return Phi, Gamma, h * share @ share.T + rest @ rest.T


def by_heun(h):
    half = np.eye(2) + 0.5 * h * A
    return np.eye(2) + h * A @ half, h * half, h * half @ B @ B.T @ half.T


def test_differences_of_levels_are_those_of_the_method():
    """Pairs of 16384 paths with 2 and 1, 4 and 2, 8 and 4 Heun steps a period: means of x v differ as the exact moments
    of the method do, within five standard errors (false alarms 6e-7 each), at weak order 2; the variances of
    differences fall as h², at strong order 1."""
    T, seen, exact = 5, [], []
    question = Estimator(loop(), lambda t, x: x[0] * x[1], (0.0, T * PERIOD), method="Heun").questions[0][1]
    moments = {k: covariances(k, k * T, by_heun)[0][-1][0, 1] for k in (1, 2, 4, 8)}
    for k in (2, 4, 8):
        run = LevelRun(question, "pair", k * T, k, "random")
        run.grow(16384, Progress(0, False))
        seen.append(run.known(slice(0, 1)))
        exact.append(moments[k] - moments[k // 2])
    for one, difference in zip(seen, exact, strict=True):
        assert abs(one.mean[0] - difference) < 5 * np.sqrt(one.stderr2[0])
    assert np.sqrt(seen[0].stderr2[0]) < 0.2 * abs(exact[0])
    assert np.log2(exact[1] / exact[2]) == pytest.approx(2.0, abs=0.1)
    decays = np.log2([seen[k].variance[0] / seen[k + 1].variance[0] for k in range(2)])
    assert decays == pytest.approx([2.0, 2.0], abs=0.4)


def test_noise_of_sensors_is_the_same_on_both_levels():
    """Of a plant without noise that Heun follows exactly, readings differ by rounding alone; lost readings too."""
    still = sd.SDE(lambda t, x, p: 0 * x + p["u"], lambda t, x: 0 * x, start=1.0, params={"u": 0.0}, names=("x",))
    for sensor in ({}, {"loss": 0.4}):
        problem = loop(sensor, plant=still)
        question = Estimator(problem, lambda t, x: x, (0.0, 1.0), method="Heun").questions[0][1]
        run = LevelRun(question, "pair", 40, 1, "random")
        run.grow(64, Progress(0, False))
        assert np.all(run.known(slice(0, 3)).variance < 1e-28) and np.all(run.known(slice(3, 6)).variance > 1e-4)


def test_estimates_of_states_inputs_and_costs_hold_their_exact_values():
    """At the end after the last sample, and the mean cost x² + u²/10, whose input is held: errors of 99.9999 %."""
    before, after = covariances(64, 64 * 10, exactly)
    P = after[-1]
    value = before[:, 0, 0] + 0.1 * before[:, 2, 2], after[:, 0, 0] + 0.1 * after[:, 2, 2]
    parts = [
        scipy.integrate.simpson(np.r_[value[1][k], value[0][k + 1 : k + 65]], dx=PERIOD / 64) for k in range(0, 640, 64)
    ]
    ends = functional.End(lambda t, x: jnp.stack([x[0] ** 2, x[0] * x[3], x[3] ** 2]))
    cost = functional.TimeAverage(lambda t, x: x[0] ** 2 + 0.1 * x[3] ** 2)
    options = {"t": (0, 1), "seed": 1, "level": 1 - 1e-6}
    found = sd.estimate(loop(), ends, error=0.03, method="Heun", **options)
    assert np.all(np.abs(found.value.values - [P[0, 0], P[0, 2], P[2, 2]]) < found.error.values)
    found = sd.estimate(loop(), cost, error=0.008, **options)
    assert abs(float(found.value) - sum(parts)) < float(found.error) and found.attrs["trusted"]
    assert "ExactSteps" in found.attrs["route"]


def test_the_coarsest_level_has_the_longest_steps_that_fall_on_the_samples():
    late = loop(part={"delay": 0.04})
    assert [late.fewest_steps((0.0, T)) for T in (1.0, 1.05, 0.98)] == [50, 105, 49]
    found = sd.estimate(late, square, t=(0, 0.2), error=0.05, seed=1)
    assert found.steps.values[0] == 10
    with pytest.raises(ValueError, match=r"steps: 15 equal steps do not fall on the samples .* a multiple of 50"):
        sd.estimate(late, square, t=(0, 1), error=0.1, seed=1, steps=15)
    with pytest.raises(ValueError, match=r"t: no equal steps from 0 to 3\.14159 fall on the samples"):
        sd.estimate(late, square, t=(0, np.pi), error=0.1, seed=1)


def test_readings_that_jump_are_not_thought_to_converge_as_smooth_ones():
    """A rounded reading or a relay leaves the order open until it is seen, over three differences."""

    def order(problem):
        return Estimator(problem, square, (0.0, 1.0), method="Heun").questions[0][0].order

    relay = sd.Part("law", PERIOD, lambda t, own, seen, p: (own, -jnp.sign(seen["y"])), "y", "u")
    y = sd.Sensor("y", of="x", every=PERIOD, noise=sd.per_sample(READ))
    smooth = order(loop())
    assert smooth.decay == 2.0 and not smooth.is_rough
    for problem in (loop({"resolution": 0.5}), sd.with_loop(OSCILLATOR, y, relay)):
        assert order(problem).decay == 1.0 and order(problem).is_rough
    assert not order(loop({"range": (-1.0, 1.0)})).is_rough


def test_an_estimate_with_rounded_readings_agrees_with_a_run():
    """Beside the exact steps of VanLoan: both within their errors of 99.9999 %."""
    rounded = loop({"resolution": 0.5})
    found = sd.estimate(rounded, square, t=(0, 1), error=0.01, seed=1, method="Heun", level=1 - 1e-6)
    run = sd.simulate(rounded, "VanLoan", t=(0, 1), dt=PERIOD, paths=20000, seed=2, progress=False)
    mean, spread = (run[name].values[-1, 0] for name in ("mean", "variance"))
    error = 5 * run["variance_stderr"].values[-1, 0]
    assert abs(float(found.value) - spread - mean**2) < float(found.error) + error


def test_gradients_of_loops_are_those_of_their_closed_form():
    """Of E x² of the integrator by its gain, (1 + k² h r)/(k (2 - k h)); derivatives on steps of several lengths."""
    plant = sd.SDE(
        lambda t, x, p: p["u"] + 0 * x,
        lambda t, x: jnp.ones((1, 1)),
        start=[0.0],
        params={"u": 0.0, "k": 5.0},
        names=("x",),
    )
    law = sd.Part("law", PERIOD, lambda t, own, seen, p: (own, -p["k"] * seen["y"]), "y", "u")
    controlled = sd.with_loop(plant, sd.Sensor("y", of="x", every=PERIOD, noise=sd.per_sample(READ)), law)

    def variance(k):
        return (1 + k**2 * PERIOD * READ**2) / (k * (2 - k * PERIOD))

    slope = scipy.differentiate.derivative(variance, 5.0).df
    found = sd.estimate(controlled, square, t=(0, 3), error=0.02, seed=1, gradient="k", level=1 - 1e-6)
    assert abs(float(found.value) - variance(5.0)) < float(found.error)
    assert abs(float(found.gradient[0]) - slope) < float(found.gradient_error[0]) < 0.02


def test_gradients_by_the_noise_of_a_sensor():
    """Of x = -2 (noise), held over the first period: E x² = (2 r h)², whose derivative was said to be 0."""
    plant = sd.SDE(lambda t, x, p: p["u"] + 0 * x, lambda t, x: 0 * x, 0.0, params={"u": 0.0, "r": 0.1}, names=("x",))
    law = sd.Part("law", PERIOD, lambda t, own, seen, p: (own, -2.0 * seen["y"]), "y", "u")
    for noise in (sd.per_sample("r"), sd.density(lambda p: p["r"] * PERIOD**0.5, sides=2)):
        controlled = sd.with_loop(plant, sd.Sensor("y", of="x", every=PERIOD, noise=noise), law)
        found = sd.sensitivity(controlled, square, of="r", t=(0, PERIOD), dt=PERIOD, paths=500, seed=1)
        assert float(found.gradient[0]) == pytest.approx(2 * float(found.value) / 0.1, rel=1e-12)
        assert float(found.value) == pytest.approx((2 * 0.1 * PERIOD) ** 2, rel=5 * (2 / 500) ** 0.5)


def test_integrals_of_what_is_held_take_it_as_held():
    """Of u = a t, held over ten periods: 0.45 a, and not the 0.475 a of trapezes over steps of half a period."""
    plant = sd.SDE(lambda t, x, p: 0 * x, lambda t, x: 1.0, start=0.0, params={"u": 0.0, "a": 2.0}, names=("x",))
    part = sd.Part("law", PERIOD, lambda t, own, seen, p: (own, p["a"] * t), writes="u")
    f = functional.Integral(lambda t, x: x[1])
    found = sd.sensitivity(sd.with_loop(plant, part), f, of="a", t=(0, 1), dt=PERIOD / 2, paths=8, seed=1)
    assert [float(found.value), *found.gradient.values] == pytest.approx([0.9, 0.45], abs=1e-12)


@pytest.mark.parametrize(
    ("problem", "f", "kind", "words"),
    [
        (lambda: loop({"jitter": sd.Jitter(steps=1)}), square, ValueError, r"jitter \(y\): it is counted in steps"),
        (loop, functional.Maximum(lambda t, x: x[0]), TypeError, "Maximum follows its function between steps"),
        (
            lambda: loop(plant=sd.with_walls(OSCILLATOR, {"v": (-1, None)})),
            square,
            TypeError,
            "got Walled, whose levels cannot be coupled",
        ),
    ],
)
def test_what_has_no_levels_is_refused_by_name(problem, f, kind, words):
    with pytest.raises(kind, match=words):
        sd.estimate(problem(), f, t=(0, 1), error=0.1, seed=1)


def test_fast_noise_that_sensors_may_read_is_not_damped_out():
    """Implicit steps take as many as show all modes that noise reaches, or are refused."""

    def stiff(noise):
        return sd.SDE(
            lambda t, x, p: jnp.array([-x[0] - x[0] ** 3 + x[1] + p["u"], -500 * x[1]]),
            lambda t, x: jnp.array([[0.3], [noise]]),
            start=[0.0, 1.0],
            params={"u": 0.0},
            names=("x", "w"),
        )

    steps = []
    for noise in (0.0, 3.0):
        questions = Estimator(loop(plant=stiff(noise)), square, (0.0, 1.0)).questions
        steps.append([c.following(0.01, False).steps for c, _ in questions if c.fast is not None])
    assert steps[0] == [10] and steps[1][0] >= 500
