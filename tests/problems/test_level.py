"""Levels, and how a problem says that noise reaches its components."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as laws

import stodyn as sd
from stodyn.noise.coloured import gauss_markov
from stodyn.numerics.uncompiled import value
from stodyn.problems.level import BRIDGE, CUBIC, GRID

OU = sd.SDE(lambda t, x: -x, lambda t, x: 0.7, 0.5)
X = np.array([0.3, -0.4, 1.1])
PUSH = np.array([[0.5, 0.0], [0.2, -1.0], [0.0, 0.0]])


def computed(function, *arguments):
    """function of arrays, without compiling anything."""
    return value(function, *(np.asarray(a, float) for a in arguments))


def entries(function, problem, x):
    """One number or row for each component, None where there is none."""

    def one(i):
        def look(t, x):
            found.append(function(t, x, problem.example_params(), (i,))[0])
            return jnp.zeros(()) if found[-1] is None else found[-1]

        found = []
        number = computed(look, 0.0, x)
        return None if found[0] is None else number

    return [one(i) for i in range(problem.n)]


def rows(problem, x):
    return entries(problem.noise_rows, problem, x)


def rates(problem, x):
    return entries(problem.mean_rates, problem, x)


def plane(noise):
    return sd.SDE(lambda t, x: -x * jnp.array([1.0, 2.0, 3.0]), noise, np.ones(3))


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        lambda t, x: jnp.asarray(PUSH) * x[0],
        lambda t, x: sd.sparse([0, 1, 1], [0, 0, 1], jnp.array([0.5, 0.2, -1.0]) * x[0], (3, 2)),
        lambda t, x: sd.product(lambda w: jnp.asarray(PUSH) @ w * x[0], 2),
    ],
    ids=["matrix", "sparse", "product"],
)
def test_an_sde_has_the_rows_of_its_diffusion(noise):
    """Zeros may be left out of a row; a function of the state gets them whole."""
    problem = plane(noise)
    for found, row in zip(rows(problem, X), 0.3 * PUSH, strict=True):
        np.testing.assert_allclose(np.sum(found**2), np.sum(row**2), atol=1e-15)
    weights, w = np.array([1.0, -2.0, 0.5]), np.array([0.4, 0.9])
    along = computed(lambda x, weights: problem.noise_along(0.0, x, None, weights, range(3)), X, weights)
    np.testing.assert_allclose(along, 0.3 * weights @ PUSH, atol=1e-15)
    pushed = computed(lambda x, w: problem.noise_push(0.0, x, None, w), X, w)
    np.testing.assert_allclose(pushed, 0.3 * PUSH @ w, atol=1e-15)
    np.testing.assert_allclose(rates(problem, X), -X * [1, 2, 3])


def test_a_hamiltonian_has_rows_for_q_and_p():
    problem = sd.Hamiltonian(lambda t, q, p: 0.5 * p**2 + 0.5 * q**2, [lambda t, q, p: -0.6 * q, lambda t, q, p: q * p],
                             start=(0.2, 0.1))  # fmt: skip
    np.testing.assert_allclose(rows(problem, [0.3, -0.4]), [[0.0, 0.3], [0.6, 0.4]], atol=1e-15)
    np.testing.assert_allclose(rates(problem, [0.3, -0.4]), [-0.4, -0.3])


def test_mechanics_has_no_rows_for_accelerations():
    """The mass stands between a force and what it does: positions get nothing, velocities M⁻¹ noise."""
    mass = np.array([[2.0, 0.5], [0.5, 1.0]])
    problem = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: jnp.eye(2) * (1.0 + x[0]), ([0.2, 0.1], [0.0, 0.0]),
                            mass=mass, accelerations=True)  # fmt: skip
    found = rows(problem, [0.3, -0.4, 1.0, 2.0, 9.0, 9.0])
    np.testing.assert_allclose(found[:2], np.zeros((2, 2)))
    np.testing.assert_allclose(found[2:4], 1.3 * np.linalg.inv(mass))
    assert found[4:] == [None, None]
    moved = rates(problem, [0.3, -0.4, 1.0, 2.0, 9.0, 9.0])
    np.testing.assert_allclose(moved[:4], [1.0, 2.0, *np.linalg.solve(mass, [-0.3, 0.4])])
    assert moved[4:] == [None, None]


def test_mechanics_without_mass_somewhere():
    """x1 follows x0 by a spring and has no inertia: it and its velocity have no row, x0 and its velocity have."""
    problem = sd.Mechanical(
        lambda t, x, v: jnp.stack([x[1] - x[0], x[0] - 2.0 * x[1]]),
        lambda t, x, v: jnp.array([[0.8], [0.0]]),
        ([0.0, 0.0], [0.0, 0.0]),
        mass=[2.0, 0.0],
    )
    found = rows(problem, [0.3, 0.15, 1.0, 0.5])
    np.testing.assert_allclose([found[0], found[2]], [[0.0], [0.4]])
    assert found[1] is None and found[3] is None
    moved = rates(problem, [0.3, 0.15, 1.0, 0.5])
    np.testing.assert_allclose([moved[0], moved[2]], [1.0, -0.075])


def test_an_sdae_has_rows_for_its_differential_components():
    mass = np.array([[2.0, 0.0], [0.0, 0.0]])
    problem = sd.SDAE(
        mass, lambda t, x: jnp.stack([-x[1], x[1] - x[0]]), lambda t, x: jnp.array([[0.6], [0.0]]), [1, 1]
    )
    found = rows(problem, [0.5, 0.5])
    np.testing.assert_allclose(found[0], [0.3])
    assert found[1] is None
    assert rates(problem, [0.5, 0.5])[0] == -0.25


def test_coloured_noise_reaches_a_component_through_its_filter():
    problem = sd.with_noise(sd.SDE(lambda t, x: -x, None, 0.0), gauss_markov(2.0, 0.5), into="x")
    found = rows(problem, [0.2, 0.7])
    np.testing.assert_allclose(np.sum(found[0] ** 2), 0.0)
    assert np.sum(found[1] ** 2) > 0
    assert sd.Level(1.0, of="x").on(problem).known[0] == CUBIC
    assert sd.Level(1.0, of=1).on(problem).known[0] == BRIDGE


def test_a_measurement_has_no_row():
    problem = sd.with_measurement(OU, [[2.0]], [[0.1]])
    assert rows(problem, [0.3, 0.6])[1] is None
    assert sd.Level(1.0, of="z").on(problem).known[0] == GRID


# --- levels -----------------------------------------------------------------------------------------------------------


def test_distances_are_positive_on_this_side():
    for level, expected in {
        sd.Level(1.0): [0.75],
        sd.Level(1.0, direction="down"): [-0.75],
        sd.Level((-1.0, 1.0)): [1.25, 0.75],
        sd.Level(lambda t: 1.0 + 0.5 * t, of=lambda t, x: 2.0 * x[0] + t): [1.0 + 1.0 - 0.5 - 2.0],
    }.items():
        gauge = level.on(OU)
        np.testing.assert_allclose(computed(lambda t, x: gauge.distances(t, x, None), 2.0, [0.25]), expected)


def test_parameters_reach_functions_and_levels():
    problem = sd.SDE(lambda t, x, p: -p["a"] * x, lambda t, x, p: p["a"], 0.0, {"a": 2.0})
    gauge = sd.Level(lambda t, p: p["a"] * t, of=lambda t, x, p: p["a"] * x[0]).on(problem)
    assert computed(lambda t, x: gauge.distances(t, x, {"a": 2.0}), 3.0, [0.5]) == pytest.approx(5.0)
    assert computed(lambda t, x: gauge.variance_rate(t, x, {"a": 2.0}), 3.0, [0.5]) == pytest.approx(16.0)


def test_which_way_is_taken():
    """Noise enters f = |x|², which varies with x; a position only by its rate, and so does the distance of two."""
    disc = sd.SDE(lambda t, x: -x, lambda t, x: jnp.eye(2), [0.0, 0.0])
    squared = sd.Level(1.0, of=lambda t, x: x @ x).on(disc)
    assert squared.known[0] == BRIDGE and not squared.has_constant_rate and sd.Level(1.0).on(disc).has_constant_rate
    x = np.array([0.3, 0.4])
    assert computed(lambda x: squared.variance_rate(0.0, x, None), x) == pytest.approx(1.0)
    at_level = computed(lambda x: squared.at_the_level(0.0, x, None, squared.distances(0.0, x, None)[0], 1.0), x)
    np.testing.assert_allclose(at_level, x * (1 + 0.75 / 0.5))  # x + a ∇f/|∇f|², a = 1 - |x|²
    masses = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: jnp.eye(2), ([0.0, 0.0], [1.0, 0.0]), accelerations=True)
    drift = sd.Level(lambda t: 1.0 - t, of=lambda t, x: (x[1] - x[0]) ** 2).on(masses)
    assert drift.known[0] == CUBIC
    rate = computed(lambda t, x: drift.distance_rates(t, x, None), 0.0, [0.5, 0.2, 1.0, -1.0, 9.0, 9.0])
    assert rate == pytest.approx(-1.0 - 2 * (-0.3) * (-2.0))
    assert sd.Level(1.0, of="dx0").on(masses).known[0] == BRIDGE
    assert sd.Level(1.0, of="ddx0").on(masses).known[0] == GRID
    mixed = sd.Level(1.0, of=lambda t, x: x[0] + x[4]).on(masses)
    assert mixed.known[0] == GRID and "ddx0" in mixed.known[1]


def test_both_ends_of_a_step_are_taken_at_their_times():
    """Noise (a, b) of two components and the level grow in time; a path reaches the level at x + d (1, b/a)."""
    t, h, x, y = 0.5, 0.25, np.array([0.3, 0.4]), np.array([0.7, -0.2])

    def numbers(function):
        return computed(lambda x, y: jnp.concatenate([jnp.ravel(a) for a in jax.tree.leaves(function(x, y))]), x, y)

    def found(a, frozen):
        problem = sd.SDE(lambda t, x: -x, lambda t, x: jnp.stack([a(t, x), 3.0 * (1.0 + t)])[:, None], [0.0, 0.0])
        gauge = sd.Level(lambda t: 2.0 + t).on(problem)
        ends = numbers(lambda x, y: gauge.ends_and_deviations(t, h, x, y, None, frozen))
        shares = numbers(lambda x, y: gauge.in_deviations(t, h, x, y, None, frozen))
        np.testing.assert_allclose(shares, ends[:2] / ends[2:], rtol=1e-14)
        np.testing.assert_allclose(ends[:2], [2.5 - 0.3, 2.75 - 0.7], rtol=1e-14)
        return ends[2:] / np.sqrt(h)

    def varying(t, x):
        return (1.0 + t) * (1.0 + x[0] ** 2 + x[1] ** 2)

    def with_the_level(t, x, distance):
        there = x + distance * np.array([1.0, 3.0 * (1.0 + t) / varying(t, x)])
        return np.sqrt(varying(t, x) * varying(t, there))

    np.testing.assert_allclose(found(lambda t, x: 1.0 + t, frozen=False), [1.5, 1.75], rtol=1e-13)
    np.testing.assert_allclose(found(varying, frozen=True), [varying(t, x)] * 2, rtol=1e-13)
    expected = [with_the_level(t, x, 2.2), with_the_level(t + h, y, 2.05)]
    np.testing.assert_allclose(found(varying, frozen=False), expected, rtol=1e-13)
    mass = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: 1.0, (0.0, 0.0))
    gauge = sd.Level((-3.0, lambda t: 2.0 + t**2)).on(mass)
    ends_and_slopes = numbers(lambda x, y: gauge.ends_and_slopes(t, h, x, y, None)).reshape(2, 2, 2)
    np.testing.assert_allclose(ends_and_slopes[0], [[3.3, 2.25 - 0.3], [3.7, 2.5625 - 0.7]], rtol=1e-14)
    np.testing.assert_allclose(ends_and_slopes[1], [[h * 0.4, h * 0.6], [h * -0.2, h * 1.7]], rtol=1e-13)


def test_where_noise_does_not_reach_the_function_nothing_moves_it():
    still = sd.Level(1.0).on(sd.SDE(lambda t, x: -x, lambda t, x: x, 0.5))
    assert [computed(lambda x: still.toward(0.0, x, None), [x]) for x in (0.0, 0.5)] == [0.0, 1.0]
    deviations = computed(lambda x: still.in_deviations(0.0, 0.1, x, x, None, True)[0], [0.0])
    assert np.isfinite(deviations) and deviations > 1e20


def test_a_step_with_an_impact_in_it_has_the_slope_of_its_chord():
    """The counter of impacts shows it; a velocity that noise enters then reaches no level between the ends."""
    ball = sd.Mechanical(lambda t, x, v: -9.81, lambda t, x, v: 1.0, (1.0, 0.0))
    struck = sd.with_walls(ball, sd.Impact(sd.Level(0.0, of="x", direction="down"), sd.Restitution(0.8)))
    height, speed = (sd.Level(2.0, of=of).on(struck) for of in ("x", "dx"))
    before, h = np.array([0.3, -1.0, 0.0, 0.0]), 0.25
    for hits, slopes, deviation in ((0.0, [h, -0.5 * h], np.sqrt(h)), (1.0, [-0.1, -0.1], None)):
        after = np.array([0.4, 0.5, hits, 0.0])
        found = computed(lambda x, y: jnp.stack(height.ends_and_slopes(0.0, h, x, y, None)[1]), before, after)
        np.testing.assert_allclose(found[:, 0], slopes, rtol=1e-13)
        ends = computed(lambda x, y: jnp.stack(speed.in_deviations(0.0, h, x, y, None, False)), before, after)
        if deviation is None:
            assert np.all(ends > 1e20)
        else:
            np.testing.assert_allclose(ends[:, 0], np.array([3.0, 1.5]) / deviation, rtol=1e-13)


def test_a_coordinate_that_is_wrapped_jumps():
    pendulum = sd.Hamiltonian(lambda t, q, p: 0.5 * p**2 - jnp.cos(q), lambda t, q, p: -q, start=(0.0, 0.0),
                              periodic=2 * np.pi)  # fmt: skip
    assert sd.Level(1.0, of="q").on(pendulum).known[0] == GRID
    assert sd.Level(0.9, of=lambda t, x: jnp.sin(x[0])).on(pendulum).known[0] == CUBIC


def test_a_level_reached_at_the_start_is_said():
    said = sd.Level(0.2).on(OU).reached_at_start(0.0)
    assert "x is 0.5, above the level 0.2" in said and 'direction="down"' in said
    assert sd.Level(0.2, direction="down").on(OU).reached_at_start(0.0) is None
    assert "at the level 0.5" in sd.Level(0.5).on(OU).reached_at_start(0.0)
    assert "below the level 1" in sd.Level((1.0, 2.0)).on(OU).reached_at_start(0.0)
    assert "above the level -3" in sd.Level(lambda t: -3.0 * t).on(OU, 1.0).reached_at_start(1.0)
    random = sd.SDE(lambda t, x: -x, lambda t, x: 0.7, laws.norm(3.0, 1.0))
    assert sd.Level(0.2).on(random).reached_at_start(0.0) is None


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sd.Level("high"), ValueError, "level: expected a finite number"),
        (lambda: sd.Level(np.inf), ValueError, "level: expected a finite number"),
        (lambda: sd.Level(True), ValueError, "level: expected a finite number"),
        (lambda: sd.Level((1.0, 2.0, 3.0)), ValueError, "a pair"),
        (lambda: sd.Level((2.0, 1.0)), ValueError, "low < high"),
        (lambda: sd.Level((1.0, 2.0), direction="up"), ValueError, "Leave it out"),
        (lambda: sd.Level(1.0, direction="left"), ValueError, '"up" or "down"'),
        (lambda: sd.Level(1.0, of=1.5), TypeError, "of: expected a component"),
        (lambda: sd.Level(1.0, of="y").on(OU), ValueError, "no component 'y'; the components are x"),
        (lambda: sd.Level(1.0, of=1).on(OU), ValueError, "there are 1, counted from 0"),
        (lambda: sd.Level(1.0, of=-1).on(OU), ValueError, "there are 1, counted from 0"),
        (lambda: sd.Level(1.0, of=lambda t, x: x).on(OU), ValueError, r"of: returned shape \(1,\)"),
        (lambda: sd.Level(1.0, of=lambda t, x: x[3]).on(OU), IndexError, "of: "),
        (lambda: sd.Level(1.0, of=lambda t, x, p: p["a"]).on(OU), TypeError, "of: .*The problem has no params"),
        (lambda: sd.Level(lambda: 1.0).on(OU), TypeError, r"level: must take level\(t\) or level\(t, params\), got"),
        (lambda: sd.Level(lambda t: jnp.ones(2)).on(OU), ValueError, r"level: returned shape \(2,\)"),
        (lambda: sd.Level((lambda t: t, 1.0)).on(OU, 2.0), ValueError, r"at t = 2 the pair \(low, high\) is \(2, 1\)"),
    ],
)  # fmt: skip
def test_what_is_no_level_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_level_is_written_as_it_is_given():
    """As records and warnings name it; leaving a strip has no direction."""
    assert repr(sd.Level(2.0)) == "Level(2.0, of=0, direction='up')"
    assert repr(sd.Level((-1.0, 1.0), of="x")) == "Level((-1.0, 1.0), of='x')"
