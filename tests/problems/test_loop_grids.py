"""Loops on steps of different lengths: every instant of a sensor or a part is the end of a step.

The reference is a loop over the steps in NumPy, which moves the plant by the method's own linear step and lets things
act at the times that they were given, in whole ticks.
"""

import itertools
import re
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.differentiate

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.grid import step_times
from stodyn.numerics.running_sums import running_sums

A, B, G = np.array([[0.0, 1.0], [-4.0, -0.4]]), np.array([0.0, 1.0]), np.array([0.0, 0.5**0.5])
TICK = Fraction(1, 200)  # of all loops here


def oscillator(noise=True, start=(0.0, 0.0)):
    return sd.SDE(
        lambda t, x, p: A @ x + B * p["u"],
        (lambda t, x: G[:, None]) if noise else None,
        start=list(start),
        params={"u": 0.0},
        names=("x", "v"),
    )


def watched(noise=True, hold="zero", **options):
    """Two rates, a phase, a delayed sensor, an average, a delayed part with a sum of its own."""

    def law(t, own, seen, params):
        total = own["sum"] + 0.1 * seen["late"]
        return {"sum": total}, -3.0 * seen["y"] - 1.5 * seen["mean"] - 0.8 * total

    sd_of = {"y": 0.05, "mean": 0.02, "late": 0.03}
    noises = {name: sd.per_sample(s) if noise else None for name, s in sd_of.items()}
    return sd.with_loop(
        oscillator(noise, **options),
        sd.Sensor("y", of="x", every=0.05, noise=noises["y"]),
        sd.Sensor("mean", of="v", every=0.1, phase=0.05, average=True, noise=noises["mean"]),
        sd.Sensor("late", of="x", every=0.1, delay=0.025, noise=noises["late"]),
        sd.Part("law", every=0.1, phase=0.05, delay=0.03, reads=("y", "mean", "late"), writes="u",
                state={"sum": 0.0}, update=law, hold=hold),
    )  # fmt: skip


def refined(loop, end, most=4, seed=1, start=0.0):
    """Steps that end at all instants and, between two of them, at up to `most` - 1 places that are drawn."""
    rng = np.random.default_rng(seed)
    times = np.unique(np.concatenate([[start, end], loop.times((start, end))]))
    inside = [a + (b - a) * rng.uniform(0.1, 0.9, rng.integers(0, most)) for a, b in itertools.pairwise(times)]
    return np.diff(np.unique(np.concatenate([times, *inside])))


def step_of(method, x, u, h, dw):
    """A step of a method for x' = A x + B u + G w."""

    def f(x):
        return A @ x + B * u

    if method == "EulerMaruyama":
        return x + h * f(x) + G * dw
    if method == "Heun":
        return x + 0.5 * h * (f(x) + f(x + h * f(x) + G * dw)) + G * dw
    return np.linalg.solve(np.eye(2) - 0.5 * h * A, x + 0.5 * h * A @ x + h * B * u + G * dw)


def by_hand(method, lengths, start, draw):
    """The states, readings, input and sum of `watched` after every step; draw(name) gives one normal after another."""
    x, u, total, integral = np.array(start, float), 0.0, 0.0, 0.0
    seen, coming, rows = {"y": x[0], "mean": x[1], "late": x[0]}, [], []
    ticks = running_sums(lengths) / float(TICK)
    for k in range(len(lengths) + 1):
        if k:
            h, before = lengths[k - 1], x[1]
            x = step_of(method, x, u, h, np.sqrt(h) * draw("W"))
            integral += 0.5 * h * (before + x[1])
        tick = round(ticks[k])
        if abs(ticks[k] - tick) < 1e-6:
            for _, name, value in [one for one in coming if one[0] == tick]:
                u, seen = (value, seen) if name == "u" else (u, {**seen, name: value})
            if tick % 10 == 0:
                seen["y"] = x[0] + 0.05 * draw("y")
            if tick % 20 == 10:
                seen["mean"] = (x[1] if tick == 10 else integral / 0.1) + 0.02 * draw("mean")
                integral = 0.0
            if tick % 20 == 0:
                coming.append((tick + 5, "late", x[0] + 0.03 * draw("late")))
            if tick % 20 == 10:
                total += 0.1 * seen["late"]
                coming.append((tick + 6, "u", -3.0 * seen["y"] - 1.5 * seen["mean"] - 0.8 * total))
        rows.append([*x, seen["y"], seen["mean"], seen["late"], u, total])
    return np.array(rows)


@pytest.mark.parametrize("method", ["EulerMaruyama", "Heun", "ImplicitMidpoint"])
def test_things_act_at_their_times_on_steps_of_different_lengths(method):
    loop = watched(noise=False, start=(1.0, 0.3))
    lengths = refined(loop, 2.03)
    assert lengths.max() > 20 * lengths.min()
    run = sd.simulate(loop, method, t=(0, 2.03), dt=lengths, paths=1, seed=1, progress=False,
                      collect=[st.Paths(1, every=1)])  # fmt: skip
    path = run["path"].values[0]
    assert path == pytest.approx(by_hand(method, lengths, (1.0, 0.3), lambda name: 0.0), abs=1e-11)


def test_straight_lines_between_samples_run_on_over_steps_of_different_lengths():
    """Heun is exact where the force on the velocity is a straight line of time and nothing else."""
    plant = sd.SDE(lambda t, x, p: p["u"] + 0 * x, None, start=[1.0], params={"u": 0.0}, names=("x",))
    law = sd.Part("law", 0.1, lambda t, own, seen, p: (own, -2.0 * seen["x"]), sd.true("x"), "u", hold="first")
    loop = sd.with_loop(plant, law)
    ends = []
    for dt in (0.1, refined(loop, 1.5)):
        run = sd.simulate(loop, "Heun", t=(0, 1.5), dt=dt, paths=1, seed=1, progress=False)
        ends.append(run["mean"].values[-1])
    assert ends[1] == pytest.approx(ends[0], abs=1e-13)


@pytest.mark.parametrize("method", ["EulerMaruyama", "Heun", "ImplicitMidpoint"])
def test_covariances_are_those_of_the_steps_that_were_taken(method):
    """By feeding every normal by itself; runs within five standard errors (42 numbers, false alarms 2e-5)."""
    loop, end, paths = watched(), 0.5, 4000
    lengths = refined(loop, end, most=3)
    asked = []
    by_hand(method, lengths, (0.0, 0.0), lambda name: asked.append(name) or 0.0)
    ends = []
    for place in range(len(asked)):
        normals = iter(np.eye(len(asked))[place])
        ends.append(by_hand(method, lengths, (0.0, 0.0), lambda name, normals=normals: next(normals))[-1])
    exact = np.array(ends).T @ np.array(ends)
    run = sd.simulate(loop, method, t=(0, end), dt=lengths, paths=paths, seed=2, progress=False,
                      collect=[st.Moments(at=[end], covariance=True)])  # fmt: skip
    delivered = run["covariance"].values[-1]
    variances = np.diagonal(exact)
    errors = np.sqrt((np.outer(variances, variances) + exact**2) / paths)
    assert np.all(np.abs(delivered - exact) < 5 * errors)


@pytest.mark.parametrize(
    ("sensor", "part", "exact"), [({}, {}, 0.1366666666667), ({}, {"delay": 0.02}, 0.1468627450980),
                                  ({"delay": 0.05}, {"phase": 0.05}, 0.17)]
)  # fmt: skip
def test_closed_forms_hold_on_grids_refined_between_samples(sensor, part, exact):
    """Steps of Euler are exact for a plant that only sums; before a sample, within five standard errors (6e-7)."""
    plant = sd.SDE(lambda t, x, p: p["u"] + 0 * x, lambda t, x: jnp.ones((1, 1)), [0.0], params={"u": 0.0}, names=["x"])
    loop = sd.with_loop(
        plant,
        sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1), **sensor),
        sd.Part("law", 0.1, lambda t, own, seen, p: (own, -5.0 * seen["y"]), "y", "u", **part),
    )
    lengths = np.append(refined(loop, 4.0)[:-1], 0.0)
    before = 4.0 - 1e-6  # the last step ends just before the sample
    lengths[-1] = before - running_sums(lengths)[-1]
    run = sd.simulate(loop, "EulerMaruyama", t=(0, before), dt=lengths, paths=4000, seed=1, progress=False,
                      collect=[st.Moments(at=[before])])  # fmt: skip
    seen = float(run["variance"].sel(component="x").values[-1])
    assert abs(seen / exact - 1) < 5 * np.sqrt(2 / 4000)


@pytest.mark.parametrize(("method", "order"), [("Heun", 2), ("RK4", 4), ("Newmark", 2), ("StochasticAlpha", 2)])
def test_methods_keep_their_order_where_the_steps_differ(method, order):
    """α methods begin their acceleration anew where something acts. Without noise; every step is halved."""
    if order == 4 or method == "Heun":
        plant = oscillator(noise=False, start=(1.0, 0.0))
    else:
        plant = sd.Mechanical(
            lambda t, x, v, p: -4 * x - 0.4 * v + p["u"], None, ([1.0], [0.0]), params={"u": 0.0}, names=("x", "v")
        )
    law = sd.Part("law", 0.1, lambda t, own, seen, p: (own, -3.0 * seen["x"]), sd.true("x"), "u")
    loop, ends = sd.with_loop(plant, law), []
    uneven = np.tile([0.02, 0.01, 0.03, 0.025, 0.015], 20)
    for halvings in (0, 1, 4):
        run = sd.simulate(loop, method, t=(0, 2), dt=np.repeat(uneven / 2**halvings, 2**halvings), paths=1, seed=1,
                          progress=False)  # fmt: skip
        ends.append(float(run["mean"].sel(component="x").values[-1]))
    errors = np.abs(np.array(ends[:2]) - ends[2])
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)


def test_a_list_of_equal_steps_is_one_number():
    options = {"t": (0, 1), "paths": 12, "seed": 3, "progress": False, "collect": [st.Paths(12, every=1)]}
    one, listed = (sd.simulate(watched(), "Heun", dt=dt, **options) for dt in (0.005, np.full(200, 0.005)))
    assert (one["path"].values == listed["path"].values).all()


def test_lists_of_equal_steps_need_only_meet_the_instants():
    """The tick is 0.01, which no step of 0.03 divides; samples and runs lie at 0.03 and 0.06."""
    plant = sd.SDE(lambda t, x, p: -x + p["u"], None, start=[0.5], params={"u": 0.0}, names=("x",))
    sensor = sd.Sensor("y", of="x", every=0.1, phase=0.03)
    part = sd.Part("law", every=0.1, phase=0.06, reads="y", writes="u", update=lambda t, own, y, p: (own, -2 * y["y"]))
    loop = sd.with_loop(plant, sensor, part)

    def path(lengths):
        run = sd.simulate(loop, "Heun", t=(0, 0.12), dt=lengths, paths=2, seed=1, collect=st.Paths(1, every=1))
        return run["path"].values[0, :4, 0]

    np.testing.assert_allclose(path([0.03] * 4), path([0.03] * 3 + [0.02, 0.01]), rtol=1e-14)
    with pytest.raises(ValueError, match=r"0\.03 does not divide 0\.01"):
        path(0.03)
    with pytest.raises(ValueError, match="nearest"):
        path([0.04] * 3)


def test_sensor_noise_does_not_depend_on_the_steps():
    plant = sd.SDE(lambda t, x: 0 * x, None, start=[0.0], names=("x",))
    bias = sd.noise.coloured.gauss_markov(1.0, 0.3)
    loop = sd.with_loop(plant, sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(1.0), bias=bias, loss=0.3))
    at = np.arange(11) / 10
    runs = [
        sd.simulate(loop, "Heun", t=(0, 1), dt=dt, paths=3, seed=4, progress=False, collect=[st.Paths(3, at=at)])
        for dt in (0.1, refined(loop, 1.0))
    ]
    first, second = (run["path"].sel(component="y").values for run in runs)
    assert (first == second).all() and len(np.unique(first)) > 15


@pytest.mark.usefixtures("quick_compiling")
def test_bits_on_grids_are_those_of_blocks_threads_replay_and_ledger(tmp_path):
    loop = watched()
    lengths = refined(loop, 0.5)
    options = {"t": (0, 0.5), "dt": lengths, "paths": 24, "seed": 2, "progress": False}
    collect = [st.Paths(24, every=1)]
    one = sd.simulate(loop, "Heun", block=8, collect=collect, **options)
    other = sd.simulate(loop, "Heun", block=24, threads=2, collect=collect, **options)
    assert sd.provenance(one)["executor"] == "printed"
    assert (one["path"].values == other["path"].values).all()
    first, again = (
        sd.simulate(loop, "Heun", block=8, ledger=tmp_path / "ledger", collect=collect, **options) for _ in (0, 1)
    )
    assert all((run["path"].values == one["path"].values).all() for run in (first, again))
    by_vmap = sd.simulate(loop, "Heun", executor="vmap", collect=collect, **options)
    assert by_vmap["path"].values == pytest.approx(one["path"].values, abs=1e-12)
    for device in ("cpu", jax.devices("cpu")):
        run = sd.simulate(loop, "Heun", device=device, collect=collect, **options)
        assert (sd.replay(loop, "Heun", run, 3)["path"].values == run["path"][3].values).all()
    single = sd.simulate(loop, "Heun", dtype="float32", collect=collect, **options)
    assert single["path"].values == pytest.approx(one["path"].values, abs=2e-5)


@pytest.mark.parametrize(("start", "size"), [(0.0, 1e-12), (1e6, 1.0), (-3.7, 1.0)])
def test_instants_count_from_the_start_of_the_run(start, size):
    """Far from 0, and of picoseconds; beside a run on equal steps of the same plant, whose steps are exact."""
    every, end = 0.1 * size, start + 1.2 * size
    plant = sd.SDE(lambda t, x, p: p["u"] / size + 0 * x, None, start=[1.0], params={"u": 0.0}, names=("x",))
    law = sd.Part("law", every, lambda t, own, seen, p: (own, -4.0 * seen["x"]), sd.true("x"), "u", delay=0.3 * every)
    loop, ends = sd.with_loop(plant, law), []
    for dt in (0.1 * every, refined(loop, end, start=start)):
        run = sd.simulate(loop, "Heun", t=(start, end), dt=dt, paths=1, seed=1, progress=False)
        ends.append(run["mean"].values[-1])
    assert ends[1] == pytest.approx(ends[0], rel=1e-8)


def test_the_times_of_a_loop_are_its_instants():
    loop = watched()
    expected = {Fraction(k, 20) for k in range(7)} | {Fraction(k, 10) + Fraction(1, 40) for k in range(3)}
    expected |= {Fraction(k, 10) + Fraction(8, 100) for k in range(3)}
    assert loop.times((0, 0.3)).tolist() == [float(time) for time in sorted(expected) if time <= Fraction(3, 10)]
    assert loop.times((2, 2.3)) == pytest.approx(2 + loop.times((0, 0.3)), abs=1e-15)
    for wrong in ((0.3, 0), 3, ("a", "b"), (0, np.nan)):
        with pytest.raises(ValueError, match=r"t: expected \(start, end\)"):
            loop.times(wrong)


def test_a_plan_does_not_call_a_stable_loop_unstable():
    """x' = x + u with u = -2 x every tenth: the plant grows, the loop decays. It is refused for its plant."""
    plant = sd.SDE(lambda t, x, p: x + p["u"], lambda t, x: 0.1, 1.0, {"u": 0.0}, names=("x",))
    law = sd.Part("law", 0.1, lambda t, own, seen, p: (own, -2.0 * seen["x"]), reads=sd.true("x"), writes="u")
    loop = sd.with_loop(plant, law)
    assert sd.analysis.sampled(loop).radius < 1
    with pytest.raises(ValueError, match=r"plan: the plant by itself is unstable.*says nothing of the loop") as refused:
        sd.plan(loop, "RK4", 1e-3)((0, 2))
    assert "Dyadic" not in str(refused.value)
    sd.simulate(loop, "RK4", t=(0, 2), dt=0.1, paths=2, seed=1, progress=False)


def test_plans_meet_the_instants_of_a_loop():
    loop = watched()
    options = {"t": (0, 0.4), "paths": 2, "seed": 1, "progress": False}
    for plan in (sd.plan(loop, "RK4", 1e-4), sd.plan(oscillator(), "RK4", 1e-4, at=loop.times)):
        times = step_times((0, 0.4), plan)[0]
        assert all(np.abs(times - instant).min() < 1e-15 for instant in loop.times((0, 0.4)))
        sd.simulate(loop, "RK4", dt=plan, **options)
    with pytest.raises(ValueError, match=r"dt: .* where no step ends"):
        sd.simulate(loop, "RK4", dt=sd.plan(oscillator(), "RK4", 1e-4, at=[0.11]), **options)


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([0.025, 0.025, 0.03, 0.02, 0.02, 0.03], "dt: arrival 1 of late falls on t = 0.125, where no step ends; the "
                                                 "nearest end of a step is 0.12. "),
        ([0.025, 0.03, 0.025, 0.02, 0.025, 0.025], "dt: sample 1 of y falls on t = 0.05, where no step ends; the "
                                                   "nearest end of a step is 0.055. "),
        ([0.025, 0.025, 0.05, 0.025, 0.025], "dt: arrival 0 of law falls on t = 0.08"),
        ([0.025, 0.025 + 3e-11, 0.03 - 3e-11, 0.02, 0.025, 0.025], "dt: sample 1 of y falls on t = 0.05"),
    ],
)  # fmt: skip
def test_steps_that_miss_an_instant_are_refused_with_the_first(lengths, words):
    end = float(np.sum(lengths))
    with pytest.raises(ValueError, match=re.escape(words)) as refusal:
        sd.simulate(watched(), "Heun", t=(0, end), dt=lengths, paths=2, seed=1, progress=False)
    assert str(refusal.value).endswith("or give one number that divides 0.005")


def test_steps_within_rounding_of_the_instants_are_taken():
    """A thousandth of what is refused, and a million times that of the differences of times."""
    lengths = np.array([0.025, 0.025 + 2e-12, 0.03 - 2e-12, 0.02, 0.025, 0.025])
    run = sd.simulate(watched(), "Heun", t=(0, 0.15), dt=lengths, paths=2, seed=1, progress=False,
                      collect=[st.Paths(2, every=1)])  # fmt: skip
    assert (run["path"].sel(component="y").values[:, 2] != run["path"].sel(component="y").values[:, 1]).all()


def test_what_counts_equal_steps_is_refused_by_name():
    plant = sd.SDE(lambda t, x: -x, lambda t, x: jnp.ones((1, 1)), start=[0.0], names=("x",))
    options = {"t": (0, 0.4), "dt": [0.1, 0.05, 0.05, 0.2], "paths": 2, "seed": 1, "progress": False}
    jittered = sd.with_loop(plant, sd.Sensor("y", of="x", every=0.1, jitter=sd.Jitter(steps=1)))
    with pytest.raises(
        ValueError, match=r"dt: jitter is counted in equal steps, .* leave jitter out of y, or give one"
    ):
        sd.simulate(jittered, "Heun", **options)
    with pytest.raises(ValueError, match=r"times: .* instants that are drawn for each path"):
        jittered.times((0, 1))
    loop = sd.with_loop(plant, sd.Sensor("y", of="x", every=0.2))
    with pytest.raises(ValueError, match=r"dt: VanLoan has the matrices of one length of step.* Give one number\.$"):
        sd.simulate(loop, "VanLoan", **options)
    with pytest.raises(ValueError, match="AB4 keeps derivatives from before a jump"):
        sd.simulate(loop, "AB4", **options)


def test_gradients_of_loops_take_steps_of_different_lengths():
    """Beside central differences along the same paths."""
    plant = sd.SDE(lambda t, x, p: p["a"] * x + p["u"], lambda t, x: jnp.ones((1, 1)), [1.0],
                   params={"a": -0.5, "u": 0.0}, names=("x",))  # fmt: skip
    law = sd.Part("law", 0.1, lambda t, own, seen, p: (own, -2.0 * seen["x"]), sd.true("x"), "u", delay=0.03)
    options = {"t": (0, 0.5), "dt": refined(sd.with_loop(plant, law), 0.5), "paths": 500, "seed": 1}
    result = sd.sensitivity(sd.with_loop(plant, law), lambda t, x, p: x[0] ** 2, of="a", method="Heun",
                            progress=False, **options)  # fmt: skip
    values = []
    for a in (-0.5 + 1e-5, -0.5 - 1e-5):
        loop = sd.with_loop(plant.changed(params={"a": a, "u": 0.0}), law)
        run = sd.simulate(loop, "Heun", progress=False, collect=[st.Paths(500, at=[0.5])], **options)
        values.append((run["path"].sel(component="x").values ** 2).mean())
    assert float(np.ravel(result["gradient"].values)[0]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("by", ["tangent", "difference"])
def test_gradients_of_loops_take_equal_steps_that_only_meet_the_instants(by):
    """The tick is 0.01, which no step of 0.03 divides: x' = a x + u, with u = -x(0.03) from 0.06 on, by Heun."""
    plant = sd.SDE(lambda t, x, p: p["a"] * x + p["u"], None, [1.0], params={"a": -0.5, "u": 0.0}, names=("x",))
    law = sd.Part("law", 0.1, lambda t, own, seen, p: (own, -seen["y"]), "y", "u", phase=0.06)
    loop = sd.with_loop(plant, sd.Sensor("y", of="x", every=0.1, phase=0.03), law)
    result = sd.sensitivity(loop, lambda t, x, p: x[0], of="a", method="Heun", t=(0, 0.12), dt=[0.03] * 4, seed=1,
                            paths=2, by=by, progress=False)  # fmt: skip

    def end(a):
        growth, held = 1 + 0.03 * a + (0.03 * a) ** 2 / 2, 0.03 * (1 + 0.015 * a)
        return growth**4 - growth * (growth + 1) * held

    assert float(result["gradient"].item()) == pytest.approx(scipy.differentiate.derivative(end, -0.5).df, rel=1e-8)


def test_running_sums_are_rounded_once():
    numbers = 10.0 ** np.random.default_rng(1).uniform(-9, 3, 20_000)
    exact, total = [0.0], Fraction(0)
    for number in numbers:
        total += Fraction(float(number))
        exact.append(float(total))
    assert np.abs(running_sums(numbers) - exact).max() <= np.spacing(exact[-1])
    assert np.abs(np.cumsum(numbers) - exact[1:]).max() > 10 * np.spacing(exact[-1])


def by_sums(every, delay, end):
    """The end of x' = u, u = -2 times the last reading, which arrives late; times are fractions."""
    x, u, seen, now, coming, k = 1.0, 0.0, 1.0, Fraction(0), [], 0
    while k * every <= end:
        for when, value in [one for one in coming if one[0] <= k * every]:
            x, now, seen = x + u * float(when - now), when, value
        x, now = x + u * float(k * every - now), k * every
        coming, u, k = [(now + delay, x)], -2.0 * seen, k + 1
    return x + u * float(end - now)


@pytest.mark.parametrize("delay", ["0.0123456789", "0.01234567891"])
def test_ticks_may_be_far_more_than_steps(delay):
    """Beyond 2^31 ticks in a run and, of the second, in a period."""
    plant = sd.SDE(lambda t, x, p: p["u"] + 0 * x, None, start=[1.0], params={"u": 0.0}, names=("x",))
    law = sd.Part("law", 0.5, lambda t, own, seen, p: (own, -2.0 * seen["y"]), "y", "u")
    loop = sd.with_loop(plant, sd.Sensor("y", of="x", every=0.5, delay=Fraction(delay)), law)
    lengths = np.diff(np.append(loop.times((0, 2.2)), 2.2))
    assert 2.2 / loop.tick > 2**31
    run = sd.simulate(loop, "Heun", t=(0, 2.2), dt=lengths, paths=1, seed=1, progress=False)
    exact = by_sums(Fraction(1, 2), Fraction(delay), Fraction(22, 10))
    assert float(run["mean"].sel(component="x").values[-1]) == pytest.approx(exact, rel=1e-12)


def test_a_step_that_ends_some_ticks_beside_an_instant_is_refused():
    loop = sd.with_loop(oscillator(), sd.Sensor("y", of="x", every=3, delay=Fraction("1.0000000001")))
    times = np.append(loop.times((0, 5)), 5.0)
    times[2] += 6e-10  # less than 1e-9 of the steps beside it, but six ticks
    with pytest.raises(ValueError, match="dt: sample 1 of y falls on t = 3, where no step ends"):
        sd.simulate(loop, "Heun", t=(0, 5), dt=np.diff(times), paths=1, seed=1, progress=False)


def test_ticks_that_times_of_steps_cannot_tell_apart_are_refused():
    loop = sd.with_loop(oscillator(), sd.Sensor("y", of="x", every=1 / 3, phase=0.1))
    lengths = np.diff(np.append(np.append(0.0, loop.times((0, 2))), 2.0))
    with pytest.raises(ValueError, match=r"no tick worth the name, 1e-16; give times .*Fraction\(1, 3\)"):
        sd.simulate(loop, "Heun", t=(0, 2), dt=lengths, paths=1, seed=1, progress=False)


@pytest.mark.parametrize("dt", [1e-5, [1e-5] * 300 + [7e-5] * 100])
def test_times_that_single_precision_cannot_tell_apart_are_refused(dt):
    """Nothing acted, without a word."""
    loop = sd.with_loop(oscillator(), sd.Sensor("y", of="x", every=0.01))
    options = {"t": (1000, 1000.01), "dt": dt, "paths": 1, "seed": 1, "progress": False}
    with pytest.raises(ValueError, match=r'dtype: between 1000 and 1000\.01 numbers of "float32" are 6\.1e-05'):
        sd.simulate(loop, "Heun", dtype="float32", **options)


@pytest.mark.parametrize("dt", [[0.01, 0.02], lambda t: np.full(10, 0.1)])
def test_what_takes_one_step_alone_refuses_lists_and_plans(dt, tmp_path):
    loop = watched()
    with pytest.raises(TypeError, match="dt: expected one step; steps that differ are not analysed"):
        sd.analysis.sampled(loop, "Heun", dt)
    with pytest.raises(ValueError, match="dt: expected a step > 0, got"):
        sd.export(loop, "Heun", dt=dt, to=tmp_path / "loop.c")


@pytest.mark.parametrize("start", [0.0, 2.0])
def test_times_in_place_of_steps_are_refused_with_the_way_out(start):
    loop, options = watched(), {"t": (start, start + 0.5), "paths": 1, "seed": 1, "progress": False}
    with pytest.raises(
        ValueError, match=r"dt: expected lengths of steps, got times from .*; their differences, np\.diff"
    ):
        sd.simulate(loop, "Heun", dt=loop.times, **options)
    sd.simulate(loop, "Heun", dt=lambda t: np.diff(loop.times(t)), **options)
