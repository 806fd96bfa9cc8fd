"""Walls: reflection against the kernel's errors and exact laws, impacts against folded paths.

Sampled tests allow 5 standard errors (a false alarm in 6e-7 for each number) and have fixed seeds.
"""

import re
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as laws

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.spec import matched
from stodyn.methods import walled
from stodyn.methods.catalogue import catalogue, with_base
from stodyn.models.jointed import JOINTED_PENDULUM
from stodyn.numerics import uncompiled
from stodyn.warnings import WallsNotResolved

pytestmark = pytest.mark.filterwarnings("ignore::stodyn.problems.walls.WallsNotResolved")  # errors of long steps
FREE = sd.SDE(lambda t, x: -(x + 0.5), lambda t, x: 1.0, 0.5)
OSCILLATOR = sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 0.5, (1.0, 0.0))


def run_of(problem, method="EulerMaruyama", **options):
    run = {
        "t": (0, 1),
        "dt": 0.25,
        "paths": 100_000,
        "seed": 1,
        "threads": 1,
        "collect": st.Moments(at=[1.0]),
    } | options
    return sd.simulate(problem, method, **run)


@pytest.mark.parametrize(("draw", "errors"), [(True, (0.0196, 0.0111)), (False, (0.0789, 0.0381))])
def test_reflection_has_the_errors_of_its_rule(draw, errors):
    """dX = -(X + ½) dt + dW + dK, X >= 0, from ½: E X_1 = .4137483524; errors of 4 and 8 steps by quadrature, which
    halve with the step (order 1)."""
    problem = sd.with_walls(FREE, sd.Walls({"x": (0.0, None)}, draw=draw))
    for steps, error in zip((4, 8), errors, strict=True):
        run = run_of(problem, dt=1 / steps)
        assert abs(run["mean"] - 0.4137483524 - error) < 5 * run["mean_stderr"] + 5e-5
    assert "weak order 1 with walls" in sd.provenance(run)["lowering"][-1]


def test_reflected_brownian_motion_is_exact_at_any_step():
    """Of one step of Lépingle's rule without drift: |W|, with its mean and variance; from above alike."""
    still = sd.SDE(lambda t, x: jnp.zeros(2), lambda t, x: jnp.eye(2), [0.0, 0.0])
    run = run_of(sd.with_walls(still, {"x0": (0.0, None), 1: (None, 0.0)}), dt=1.0)
    mean = np.sqrt(2 / np.pi)
    assert np.all(np.abs(run["mean"][0] - [mean, -mean]) < 5 * run["mean_stderr"][0])
    assert np.all(np.abs(run["variance"][0] - (1 - mean**2)) < 5 * run["variance_stderr"][0])


@pytest.mark.parametrize(("draw", "drift", "step"), [
    (True, 0.0, 0.36),  # steps of .6 of the width: with .7 the variance is 2.9 % too large, with 1 4.9 %
    (True, -4.0, 0.36),
    (False, -1.0, 0.015),  # with .04 the mean is 5.3 % too large
    (False, 4.0, 0.015 / 16),
    (False, 0.0, None),  # exact at any step
])  # fmt: skip
def test_steps_that_are_long_for_walls_warn_with_the_step_needed(draw, drift, step):
    moved = sd.SDE(lambda t, x: drift + 0.0 * x, lambda t, x: 1.0, 0.5)
    box = sd.with_walls(moved, sd.Walls({"x": (0.0, 1.0)}, draw=draw))
    if step is None:
        box.check_step(None, 100.0)
        return
    box.check_step(None, 0.99 * step)
    assert 0.9 * step <= step_named(box, 1.05 * step) <= step
    with pytest.warns(WallsNotResolved, match="biases its law by more than 2 %"):
        sd.simulate(box, "EulerMaruyama", t=(0, 3 * step), dt=1.5 * step, paths=2, seed=1)


def step_named(problem, h):
    """The step that a warning names; none where there is no warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        problem.check_step(None, h)
    assert all(re.match(r"dt: steps of .* are long for the walls of x0? at \(", str(one.message)) for one in told)
    return float(re.search(r"Take steps of (\S+) or less", str(told[0].message)).group(1)) if told else None


def test_one_wall_is_never_too_near_for_lifted_steps():
    """They are exact for constant coefficients; with this drift SRA1's mean is 1.7 and 4.4 % of its deviation off."""
    still = sd.SDE(lambda t, x: 3.0 + 0.0 * x, lambda t, x: 1.0, 0.5)
    assert step_named(sd.with_walls(still, {"x": (0.0, None)}), 100.0) is None
    free = sd.with_walls(FREE, {"x": (0.0, None)})
    assert step_named(free, 0.12) is None
    assert 0.12 < step_named(free, 0.25) < 0.16


@pytest.mark.parametrize("draw", [True, False])
@pytest.mark.parametrize(
    ("noise", "drift", "step"),
    [
        (lambda x: 0.2 + 3.0 * x, lambda x: 2.0 - x, 0.002),  # mean .477 for .363 with steps of .1
        (lambda x: 2.0 - 1.5 * x, lambda x: -2.0 + 0.0 * x, 0.007),  # variance 6 % too large with steps of .02
        (lambda x: 1.0 + 0.0 * x, lambda x: 4.0 - 8.0 * x, 0.02),  # variance 40 % too large with steps of .1
    ],
    ids=["noise from a wall", "noise to a wall", "drift"],
)
def test_noise_and_drift_that_change_near_walls_warn(draw, noise, drift, step):
    """Biases are those of the stationary law, by quadrature."""
    moved = sd.SDE(lambda t, x: drift(x), lambda t, x: jnp.reshape(noise(x), (1, 1)), [0.5])
    box = sd.with_walls(moved, sd.Walls({0: (0.0, 1.0)}, draw=draw))
    assert step_named(box, 0.1) <= step
    assert step_named(box, 5e-4) is None


@pytest.mark.parametrize("draw", [True, False])
def test_a_box_is_filled_evenly_and_never_left(draw):
    """Brownian motion between 0 and 1 for a long time, in steps of a third of its width: nearly uniform (mean ½,
    variance 1/12), and every state inside."""
    still = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.2)
    box = sd.with_walls(still, sd.Walls({"x": (0.0, 1.0)}, draw=draw))
    run = run_of(box, t=(0, 2), dt=0.1, paths=20_000, collect=[st.Moments(at=[2.0]), st.Paths(50, every=1)])
    assert abs(run["mean"] - 0.5) < 5 * run["mean_stderr"]
    assert abs(run["variance"] - 1 / 12) < 5 * run["variance_stderr"] + (0.004 if draw else 0.0)
    assert run["path"].min() >= 0 and run["path"].max() <= 1


def test_an_elastic_wall_in_the_middle_folds_the_paths():
    """x'' = -x: between mirrors at 0 a path without noise is |free path|; with noise its energy has the free law."""
    quiet = sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.3))
    walls = sd.Walls({"x": (0.0, None)}, kind="impact")
    options = dict(method="RK4", t=(0, 12), dt=0.125, paths=1, collect=st.Paths(1, every=1))
    bounded, free = (run_of(problem, **options)["path"].values[0] for problem in (sd.with_walls(quiet, walls), quiet))
    np.testing.assert_allclose(bounded[:, 0], np.abs(free[:, 0]), atol=1e-12)
    np.testing.assert_allclose(bounded[:, 1], np.where(free[:, 0] < 0, -1, 1) * free[:, 1], atol=1e-12)
    energy = st.Observable(lambda t, x: x @ x, name="energy", at=[4.0])
    options = dict(method="SRA1", t=(0, 4), dt=0.125, paths=20_000, collect=energy)
    one, other = (run_of(problem, **options) for problem in (sd.with_walls(OSCILLATOR, walls), OSCILLATOR))
    assert abs(one["energy"] - other["energy"]) < 5 * np.hypot(one["energy_stderr"], other["energy_stderr"])


@pytest.mark.parametrize("method", ["SRA1", "StochasticAlpha"])
def test_impacts_lose_velocity(method):
    """e = .7, T = 4: in the limit E v²/2 = .2282(4) and E x = .5392(5); mirrored with steps of 1/20, of order 1."""
    walls = sd.Walls({"x": (0.0, None)}, kind="impact", restitution=0.7)
    kinetic = st.Observable(lambda t, x: 0.5 * x[1] ** 2, name="kinetic", at=[4.0])
    run = run_of(sd.with_walls(OSCILLATOR, walls), method, t=(0, 4), dt=0.05, paths=40_000,
                 collect=[st.Moments(at=[4.0]), kinetic])  # fmt: skip
    assert abs(run["kinetic"] - 0.2282) < 5 * run["kinetic_stderr"] + 0.0016
    assert abs(run["mean"][0, 0] - 0.5392) < 5 * run["mean_stderr"][0, 0] + 0.0012
    resting = run_of(sd.with_walls(OSCILLATOR, sd.Walls({"x": (0.0, 2.0)}, "impact", 0.0)), method, t=(0, 4), dt=0.05,
                     paths=50, collect=st.Paths(50, every=1))  # fmt: skip
    assert resting["path"][:, :, 0].min() >= 0


def test_impacts_get_a_method_that_a_wall_may_interrupt():
    """A state that is mirrored after the step fits no acceleration that a method keeps. Elastic: nothing is lost."""
    ball = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: 0.0 * x, (1.0, 0.0))
    walls = sd.Walls({"x": (0.0, None)}, kind="impact")
    run = sd.simulate(sd.with_walls(ball, walls), t=(0, np.pi), dt=np.pi / 64, paths=1, seed=0)
    assert sd.provenance(run)["method"] == "SRA1" and run["mean"][-1, 0] == pytest.approx(1.0, abs=1e-2)


def test_the_rule_of_a_wall_is_in_the_record():
    plain = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 0.5)
    rules = [
        sd.with_walls(plain, sd.Walls({"x": (0.0, None)}, draw=draw)).before_run(0.0)[-1] for draw in (True, False)
    ]
    assert [words.split(", ")[-1].split(";")[0] for words in rules] == ["lifted", "folded"]


def test_walls_go_where_runs_go():
    """Replay, sweeps, parameters and passages take a problem with walls like any other."""
    problem = sd.with_walls(
        sd.SDE(lambda t, x, p: -p["a"] * x, lambda t, x, p: p["a"], 0.5, {"a": 1.0}), {"x": (0, None)}
    )
    run = run_of(problem, paths=100, collect=[st.Paths(3, every=1), st.Passage(2.0, every=4, mean=False)])
    again = sd.replay(problem, "EulerMaruyama", run, 2)
    np.testing.assert_array_equal(again["path"].values[:, 0], run["path"].values[2, :, 0])
    swept = sd.sweep(problem, "EulerMaruyama", over={"a": [1.0, 2.0]}, t=(0, 1), dt=0.25, paths=2000, seed=1,
                     collect=st.Moments(at=[1.0]))  # fmt: skip
    assert swept["mean"].values.min() > 0 and swept.sizes["a"] == 2
    stopped = run_of(problem, paths=100, collect=st.Moments(every=4), stop=sd.Stop(sd.Level(1.0)))
    assert 0 < int(stopped["alive"][-1]) < 100


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sd.Walls({"x": (1.0, 0.0)}), ValueError, "they cross: low = 1 is not below high = 0"),
        (lambda: sd.Walls({"x": (None, None)}), ValueError, "expected .low, high."),
        (lambda: sd.Walls({"x": (np.inf, None)}), ValueError, "expected .low, high."),
        (lambda: sd.Walls({}), TypeError, "expected a mapping"),
        (lambda: sd.Walls({"x": (0, 1)}, kind="absorb"), ValueError, '"reflect" or "impact"'),
        (lambda: sd.Walls({"x": (0, 1)}, "impact", 1.5), ValueError, "from 0 .* to 1 .*got 1.5"),
        (lambda: sd.Walls({"x": (0, 1)}, "impact", -0.1), ValueError, "restitution"),
        (lambda: sd.Walls({"x": (0, 1)}, restitution=0.5), ValueError, "belongs to impacts"),
        (lambda: sd.with_walls(FREE, {"y": (0, None)}), ValueError, "walls: there is no component 'y'"),
        (lambda: sd.with_walls(FREE, {"x": (1.0, None)}), ValueError, "x = 0.5 of path 0 is outside its walls"),
        (lambda: sd.with_walls(OSCILLATOR, {"x": (0, None)}), TypeError, 'give kind="impact"'),
        (lambda: sd.with_walls(FREE, sd.Walls({"x": (0, None)}, "impact")), TypeError, "take a Mechanical"),
        (lambda: sd.with_walls(OSCILLATOR, sd.Walls({"dx": (0, None)}, "impact")), ValueError, "dx is a velocity"),
        (lambda: sd.with_walls(sd.with_walls(FREE, {"x": (0, None)}), {"x": (0, 1)}), TypeError, "all walls"),
        (lambda: sd.with_measurement(sd.with_walls(FREE, {"x": (0, None)}), [[1.0]], 1.0), TypeError, "walls"),
        (lambda: run_of(sd.with_walls(FREE, {"x": (0, None)}), "AB2", paths=4), ValueError, "keeps more"),
        (lambda: run_of(sd.with_walls(FREE, {"x": (0, None)}), "VanLoan", paths=4), ValueError, "whole paths at once"),
        (lambda: sd.with_walls(JOINTED_PENDULUM.problem, sd.Walls({"x": (0, None)}, "impact")), ValueError,
         "leave the joints"),
        (lambda: run_of(sd.with_walls(sd.SDE(lambda t, x: -x, lambda t, x: 1.0, laws.norm(0, 1)), {"x": (0, None)})),
         ValueError, "Start all paths inside"),
    ],
)  # fmt: skip
def test_walls_that_cannot_be_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_component_without_noise_is_struck_not_reflected():
    pair = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0]]), lambda t, x: jnp.array([[0.0], [1.0]]), [1.0, 0.0])
    with pytest.raises(ValueError, match="noise does not enter x0"):
        sd.with_walls(pair, {"x0": (0.0, None)})


def test_a_state_beyond_a_wall_is_mirrored():
    """e = 0.5 between 1 and 2: 0.3 beyond the upper wall becomes 0.15 below it, 0.2 beyond the lower one 0.1 above."""
    for x, v, back in ((2.3, 2.0, 1.85), (0.8, -2.0, 1.1), (1.5, 1.0, 1.5)):
        found = uncompiled.value(lambda state: walled._mirrored(state, 0, 1, 1.0, 2.0, 0.5), np.array([x, v]))
        np.testing.assert_allclose(found, [back, v if x == back else -0.5 * v], rtol=1e-14)


FLOOR = sd.Impact(sd.Level(0.0, "x", "down"))
BALL = sd.Mechanical(lambda t, x, v: -9.81 + 0.0 * x, None, (1.0, 0.0))


@pytest.mark.parametrize("problem", [
    sd.with_walls(BALL, FLOOR),
    sd.with_walls(OSCILLATOR, sd.Walls({"x": (0.0, None)}, "impact", 0.7)),
    sd.with_walls(JOINTED_PENDULUM.problem, sd.Impact(sd.Level(0.9, "x", "up"))),
    sd.with_walls(FREE, {"x": (0.0, None)}),
])  # fmt: skip
def test_every_method_says_of_a_problem_within_walls_what_a_run_says(problem):
    """The question ended in AttributeErrors, or was answered with yes where a run refuses."""
    for name, method in {**catalogue(), **{name: kind() for name, kind in with_base().items()}}.items():
        reason = method.refusal(problem)
        try:
            matched(problem, method, lambda other: False)  # suggests no other
        except (TypeError, ValueError) as error:
            assert reason is not None and reason in str(error), name
        else:
            assert reason is None, name
