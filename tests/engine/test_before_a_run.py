"""What is said before a run: of unstable steps, in the mean and in mean square; of coarse areas; of swapped arguments.

The limits asked for are exact: |R(hλ)| = 1 for the stability function R of a method, (1 + hλ)² + hμ² = 1 for Euler's
second moment of dx = λ x dt + μ x dW.
"""

import dataclasses
import itertools
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import (
    SDE,
    ExactNoise,
    Hamiltonian,
    Impact,
    Level,
    Mechanical,
    Part,
    PathsFailed,
    PerPath,
    Sensor,
    Stop,
    diagonal,
    prepare,
    provenance,
    simulate,
    with_loop,
    with_measurement,
    with_noise,
    with_walls,
)
from stodyn.engine import stability
from stodyn.engine.spec import describe
from stodyn.methods.explicit import Heun
from stodyn.methods.milstein import MilsteinLevy
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from stodyn.noise import Normal
from stodyn.noise.coloured import gauss_markov
from stodyn.noise.iterated import MrongowiusRoessler
from stodyn.statistics import Moments
from stodyn.warnings import AnotherOrder, ResolutionWarning, UnstableSteps


def one(t, x):
    return jnp.ones_like(x)


STIFF = SDE(lambda t, x: -30.0 * x, one, start=1.0)
TURNING = SDE(lambda t, x: jnp.stack([x[1], -x[0]]), lambda t, x: jnp.array([[0.0], [0.1]]), [1.0, 0.0])
MULTIPLICATIVE = SDE(lambda t, x: -10.0 * x, lambda t, x: 4.0 * x, start=1.0)
LORENZ = SDE(
    lambda t, x: jnp.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]),
    lambda t, x: jnp.eye(3),
    [1.0, 1.0, 20.0],
)

# name -> (problem, method, t, dt, the longest stable step)
UNSTABLE = {
    "SRA1": (STIFF, None, 10.0, 0.1, 2 / 30),
    "by vmap": (STIFF, None, 10.0, 0.1, 2 / 30),
    "a history": (STIFF, "AB2", 10.0, 0.05, 1 / 30),  # |ζ| = 1 at hλ = -1
    "RK4": (STIFF, "RK4", 10.0, 0.1, 2.785293563405282 / 30),
    "in mean square": (MULTIPLICATIVE, "EulerMaruyama", 10.0, 0.1, 4 / 100),
}


def warned(call, *arguments, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        drawn = dict(seed=1) if call is simulate else {}
        call(*arguments, **dict(paths=40, on_failure="record") | drawn | options)
    return [str(w.message) for w in found if isinstance(w.message, UnstableSteps)]


def test_the_growth_of_the_equations_is_that_of_steps_which_two_halvings_do_not_change():
    """The first two agree by chance; the growth in mean square settles a halving later than that in the mean."""
    asked, rates = [], iter([(9.0, 5.0), (9.0, 5.0), (1.0, 3.0), (1.05, 2.0), (1.06, 2.1), (1.0, 2.05), (0.0, 0.0)])

    def look(h):
        asked.append(h)
        return stability.Growth(*next(rates))

    assert stability._own_growth(look, 1.0, 10.0) == (1.0, 2.05)
    assert asked == [2.0**-k for k in range(4, 10)]
    assert stability._own_growth(lambda h: None, 1.0, 10.0) is None
    doubled = itertools.count()
    assert stability._own_growth(lambda h: stability.Growth(*[2.0 ** next(doubled)] * 2), 1.0, 10.0) is None


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize("name", UNSTABLE)
def test_an_unstable_step_is_warned_of_with_one_that_would_do(name):
    problem, method, end, dt, limit = UNSTABLE[name]
    (message,) = warned(
        simulate, problem, method, t=(0.0, end), dt=dt, executor="vmap" if name == "by vmap" else "auto"
    )
    longest = float(re.search(r"Take steps of ([0-9.e-]+) or less", message).group(1))
    assert 0.9 * limit < longest <= 1.12 * limit  # growth by less than 10 over the whole run is left alone
    assert ("in mean square" in message) == (name == "in mean square")
    assert "ImplicitMidpoint, which is stable" in message
    assert not warned(simulate, problem, method, t=(0.0, end), dt=end / np.ceil(end / (0.9 * limit)))


def test_a_method_that_turns_too_wide_is_warned_of_where_it_matters():
    """|1 + ih| = √(1 + h²): Euler's energy grows e¹⁰-fold over 1000 steps of .1, and by 1.05 over five."""
    assert warned(simulate, TURNING, "EulerMaruyama", t=(0.0, 100.0), dt=0.1)
    assert not warned(simulate, TURNING, "EulerMaruyama", t=(0.0, 0.5), dt=0.1)
    assert not warned(simulate, TURNING, "Heun", t=(0.0, 100.0), dt=0.1)


def test_equations_that_grow_themselves_are_left_alone():
    growing = SDE(lambda t, x: x, lambda t, x: 0.5 * x, start=1.0)
    assert not warned(simulate, growing, "EulerMaruyama", t=(0.0, 10.0), dt=0.05)
    assert not warned(simulate, LORENZ, None, t=(0.0, 5.0), dt=0.01)


def test_a_large_field_that_grows_slowly_itself_is_left_alone_and_an_unstable_one_is_not():
    """u' = Δu + u - u³ on a ring of 500 nodes: rates from 1 down to 1 - 16 = -15 about u = 0."""

    def drift(t, u):
        return 4.0 * (jnp.roll(u, 1) - 2.0 * u + jnp.roll(u, -1)) + u - u**3

    field = SDE(drift, lambda t, u: diagonal(jnp.full(500, 0.1)), np.zeros(500))
    options = dict(paths=2, collect=Moments(at=[10.0]))
    assert not warned(simulate, field, "EulerMaruyama", t=(0.0, 10.0), dt=0.02, **options)
    (message,) = warned(simulate, field, "EulerMaruyama", t=(0.0, 10.0), dt=0.2, **options)
    longest = float(re.search(r"Take steps of ([0-9.e-]+) or less", message).group(1))
    assert 0.9 * 2 / 15 < longest <= 1.12 * 2 / 15


@pytest.mark.parametrize("n", [20, 60])
def test_many_components_that_grow_themselves_are_left_alone_and_unstable_ones_are_not(n):
    """Lorenz's 96 model with a noise of its own on each component grows by rates up to 8 about x = 8; of pure decay
    with such noise, E x² grows by (1 - 30 h)² + .01 h per step of Euler's."""
    growing = SDE(
        lambda t, x: (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 8.0,
        lambda t, x: diagonal(0.1 * x),
        8.0 + 0.1 * (np.arange(n) % 3),
        calculus="stratonovich",
    )
    decaying = SDE(lambda t, x: -30.0 * x, lambda t, x: diagonal(0.1 * x), np.ones(n))
    options = dict(paths=2, collect=Moments(at=[2.0]))
    assert not warned(simulate, growing, "Heun", t=(0.0, 2.0), dt=0.002, **options)
    (message,) = warned(simulate, decaying, "EulerMaruyama", t=(0.0, 2.0), dt=0.1, **options)
    longest = float(re.search(r"Take steps of ([0-9.e-]+) or less", message).group(1))
    assert 0.9 * 2 / 30 < longest <= 1.15 * 2 / 30  # growth by less than 10 over twenty steps is left alone


def test_a_step_that_becomes_unstable_on_the_way_is_seen_at_the_first_saves():
    """x' = 300 - x³: harmless at x = 0, stiff where the path is soon, about x = 6.7 (a rate of 134)."""
    rising = SDE(lambda t, x: -(x**3) + 300.0, lambda t, x: 0.1, start=0.0)
    (message,) = warned(simulate, rising, "EulerMaruyama", t=(0.0, 4.0), dt=0.02, paths=2000)
    assert "about the state at t = 0 " not in message


def test_a_run_of_one_step_is_looked_at_too():
    """x' = -100 x, which a step of 1 multiplies by -99. Of 16 and of 32 steps in its place the rates nearly agree,
    16 ln 5.25 = 26.5 and 32 ln 2.125 = 24.1, although both are unstable."""
    decaying = SDE(lambda t, x: -100.0 * x, one, 1.0)
    (message,) = warned(simulate, decaying, "EulerMaruyama", t=(0.0, 1.0), dt=1.0, paths=4)
    assert "steps of 1 are unstable" in message


def test_a_kink_is_no_instability():
    friction = SDE(lambda t, x: -jnp.sign(x), one, start=0.0)
    assert not warned(simulate, friction, "EulerMaruyama", t=(0.0, 10.0), dt=0.01)


def test_problems_in_other_forms_and_runs_made_ready():
    spring = Mechanical(lambda t, x, v: -1e4 * x, lambda t, x, v: 1.0, start=(1.0, 0.0))
    assert warned(simulate, spring, "EulerMaruyama", t=(0.0, 1.0), dt=0.01)
    assert not warned(simulate, spring, None, t=(0.0, 1.0), dt=0.01)
    pendulum = Hamiltonian(lambda t, q, p: 0.5 * p**2 + 50.0 * q**2, h=lambda t, q, p: 0.1 * q, start=(1.0, 0.0))
    (message,) = warned(simulate, pendulum, "StoermerVerlet", t=(0.0, 30.0), dt=0.25)
    assert "Midpoint, which is stable" in message
    with pytest.warns(UnstableSteps, match="steps of 0.1 are unstable"):
        prepare(STIFF, t=(0.0, 10.0), dt=0.1, paths=8)


@pytest.mark.parametrize("second", [1.0, 1e3, 1e-6])
def test_the_unit_of_time_makes_no_difference_to_the_warning_of_coarse_areas(second):
    rate = 1.0 / second

    def diffusion(t, x):
        return np.sqrt(rate) * jnp.array([[x[0], x[1]], [x[1], -x[0]]])

    problem = SDE(lambda t, x: -rate * x, diffusion, [1.0, 1.0])
    for fraction, terms, is_fine in ((0.1, 2, True), (0.001, 1, False)):
        method = MilsteinLevy(area=MrongowiusRoessler(terms))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            describe(problem, method, (0.0, second), fraction * second, None, "float64")
        assert [type(w.message) for w in found] == ([] if is_fine else [ResolutionWarning])


@pytest.mark.parametrize(
    "make",
    [
        lambda: SDE(lambda x, t: -x, one, 1.0),
        lambda: SDE(lambda t, x: -x, lambda state, time: 1.0, 1.0),
        lambda: SDE(lambda t, params, x: -x, lambda t, x, p: 1.0, 1.0, params=2.0),
        lambda: SDE(lambda t, params, s: -s, lambda t, x, p: 1.0, 1.0, params=2.0),
        lambda: SDE(lambda t, x, v: -x, lambda t, x, p: 1.0, 1.0, params=2.0),
        lambda: Mechanical(lambda t, v, x: -x, None, start=(1.0, 0.0)),
        lambda: Hamiltonian(lambda t, p, q: 0.5 * p**2, h=lambda t, q, p: q, start=(1.0, 0.0)),
    ],
)
def test_arguments_in_another_order_are_warned_of(make):
    with pytest.warns(AnotherOrder, match=r"it is called as .*, but its arguments are named \("):
        make()


def test_another_order_is_warned_of_once_for_each_function():
    """Copies of the problem, and the forms that methods take, hold the same functions."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        problem = SDE(lambda x, t: -x, lambda x, t: 0.1, 1.0)
        describe(dataclasses.replace(problem, start=2.0), Heun, (0.0, 1.0), 0.5, None, "float64")
    assert [str(w.message).partition(":")[0] for w in given] == ["drift", "diffusion"]


def test_params_of_any_name_behind_t_and_x_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SDE(lambda t, x, q: -q * x, lambda time, y, z: z, 1.0, params=2.0)


QUICK = dict(t=(0.0, 1.0), dt=0.25, paths=8, seed=1)


RINGING = SDE(lambda t, x: jnp.stack([x[1], -25.0 * x[0] - 0.2 * x[1]]), None, (0.0, 0.0), names=("x", "v"))
STEERED = SDE(
    lambda t, x, p: jnp.stack([x[1], p["u"] - 25.0 * x[0] - 0.2 * x[1]]), None, (0.0, 0.0), {"u": 0.0}, names=("x", "v")
)
GUST = gauss_markov(1.0, 2.0, "y")


def steered(plant):
    law = Part("law", every=0.3, reads="s", writes="u", update=lambda t, own, seen, p: (own, -0.01 * seen["s"]))
    return with_loop(plant, Sensor("s", of="x", every=0.3), law)


WRAPPED = {
    "exact noise": lambda: (with_noise(RINGING, GUST, "v"), ExactNoise("Heun")),
    "exact noise in a mechanical system": lambda: (
        with_noise(Mechanical(lambda t, x, v: -25.0 * x - 0.2 * v, None, (0.0, 0.0)), GUST, "x"),
        ExactNoise("Heun"),
    ),
    "exact noise in another calculus": lambda: (
        with_noise(
            SDE(RINGING.drift, lambda t, x: jnp.stack([0.0 * x[0], 0.1 * x[0]])[:, None], (0.1, 0.0), names=("x", "v")),
            GUST,
            "v",
        ),
        ExactNoise("Heun"),
    ),
    "measurements": lambda: (with_measurement(with_noise(RINGING, GUST, "v"), [[1.0, 0.0, 0.0]], [[0.1]]), "Heun"),
    "measurements beside exact noise": lambda: (
        with_measurement(with_noise(RINGING, GUST, "v"), [[1.0, 0.0, 0.0]], [[0.1]]),
        ExactNoise("Heun"),
    ),
    "a loop": lambda: (steered(STEERED), "Heun"),
    "a loop around exact noise": lambda: (steered(with_noise(STEERED, GUST, "v")), ExactNoise("Heun")),
    "impacts": lambda: (
        with_walls(Mechanical(lambda t, x, v: -25.0 * x - 0.2 * v, None, (0.1, 0.0)), Impact(Level(1e3, "x"))),
        "Heun",
    ),
}


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize("name", WRAPPED)
def test_unstable_steps_are_told_whatever_is_around_the_method(name):
    """Growth by |R(hλ)| per step, R(z) = 1 + z + z²/2, and by less than 10 over the whole run, is left alone."""
    problem, method = WRAPPED[name]()
    (message,) = warned(prepare, problem, method, t=(0.0, 21.0), dt=0.3, paths=8)
    longest = float(re.search(r"Take steps of ([0-9.e-]+) or less", message).group(1))
    rate = np.linalg.eigvals([[0.0, 1.0], [-25.0, -0.2]])[0]
    h = np.linspace(0.05, 0.3, 2501)
    limit = h[21.0 / h * np.log(np.abs(1.0 + h * rate + (h * rate) ** 2 / 2.0)) <= np.log(10.0)].max()
    assert 0.9 * limit < longest <= limit and "grow by 1.463 per step" in message
    assert not warned(prepare, problem, method, t=(0.0, 21.0), dt=0.1, paths=8)


def test_a_runs_stop_hides_no_unstable_steps():
    stop = Stop(Level(1e3, "x"))
    assert warned(prepare, with_noise(RINGING, GUST, "v"), ExactNoise("Heun"), t=(0, 21), dt=0.3, paths=8, stop=stop)


def test_runs_inside_jaxs_transformations_are_refused_with_the_way_out():
    """Under jit the numbers of a run would be frozen; grad would reach them as raw tracers."""
    decaying = SDE(lambda t, x: -x, one, start=1.0)

    def of(rate):
        return simulate(SDE(lambda t, x: -rate * x, one, start=1.0), **QUICK)["mean"].values[-1, 0]

    for call in (
        lambda: jax.jit(lambda a: a * simulate(decaying, **QUICK)["mean"].values[-1, 0])(1.0),
        lambda: jax.jit(lambda a: a + len(prepare(decaying, t=(0, 1), dt=0.5, paths=8).options))(1.0),
        lambda: jax.grad(of)(1.0),
    ):
        with pytest.raises(TypeError, match=r"outside jit, vmap and grad\. stodyn\.path"):
            call()


def test_options_by_another_name_are_refused_with_the_nearest():
    with pytest.raises(TypeError, match="unexpected keyword argument 'npaths'; did you mean 'paths'"):
        simulate(STIFF, t=(0, 1), dt=0.1, npaths=8, seed=1)


def test_a_model_is_run_as_its_problem():
    found = simulate(ORNSTEIN_UHLENBECK, "EulerMaruyama", **QUICK)
    np.testing.assert_array_equal(found["mean"], simulate(ORNSTEIN_UHLENBECK.problem, "EulerMaruyama", **QUICK)["mean"])


def test_failures_name_implicit_methods_of_the_problems_own_kind():
    stiff = Mechanical(lambda t, x, v: -1e9 * x**3, lambda t, x, v: 1.0, start=(1.0, 0.0))
    with (
        warnings.catch_warnings(),
        pytest.raises(PathsFailed, match=r"an implicit method \(StochasticAlpha\)"),
    ):
        warnings.simplefilter("ignore", UnstableSteps)
        simulate(stiff, "EulerMaruyama", t=(0.0, 1.0), dt=0.1, paths=4, seed=1)


def test_names_that_say_nothing_of_the_order_are_taken():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SDE(lambda _, y: -y, lambda *given: 1.0, 1.0)
        SDE(lambda time, state: -state, lambda s, w: 1.0, 1.0)
        SDE(lambda t, x, p: -p * x, lambda t, x, theta: 1.0, 1.0, params=2.0)
        Mechanical(lambda t, q, qdot: -q, None, start=(1.0, 0.0))


@pytest.mark.usefixtures("quick_compiling")
def test_steps_are_examined_with_the_parameters_of_the_first_path():
    """The others are so slow that no step is unstable for them; by both executors the same."""
    problem = SDE(lambda t, x, rate: -rate * x, lambda t, x, rate: jnp.ones_like(x), 1.0, PerPath([30.0, *[0.1] * 39]))
    heard = [warned(simulate, problem, "Heun", t=(0, 10), dt=0.1, executor=way) for way in ("printed", "vmap")]
    assert len(heard[0]) == 1 and heard[0] == heard[1] and "grow by 2.5 per step" in heard[0][0]


@pytest.mark.parametrize(
    ("stated", "diffusion"),
    [
        ("additive", lambda t, x: jnp.diag(1.0 + 0.1 * jnp.sin(x))),
        ("diagonal", lambda t, x: jnp.diag(1.0 + 0.1 * x[::-1])),
        ("commutative", lambda t, x: jnp.stack([jnp.cos(x), 0.3 * x[::-1]])),
    ],
)
def test_a_structure_that_is_stated_and_false_is_refused(stated, diffusion):
    problem = SDE(lambda t, x: -x, diffusion, [1.0, 2.0], structure=stated)
    with pytest.raises(ValueError, match=f"structure: '{stated}' is stated, but the noise is not {stated}"):
        simulate(problem, "EulerMaruyama", t=(0.0, 1.0), dt=0.5, paths=2, seed=1)


def test_a_structure_that_is_false_where_paths_come_to_is_refused():
    """It holds about the start, up to x = 60, which the paths reach after half of the run."""

    def diffusion(t, x, p):
        return jnp.stack([1.0 + 0.0 * x, p * jnp.maximum(x[::-1] - 60.0, 0.0)])

    drawn = Normal(0.1, 0.01)
    problem = SDE(lambda t, x, p: 100.0 + 0.0 * x, diffusion, [1.0, 2.0], params=drawn, structure="commutative")
    options = dict(paths=40, seed=1, dt=0.05)
    with pytest.raises(ValueError, match=r"on the first 4 paths the noise is not commutative at t = 1, "):
        simulate(problem, "EulerMaruyama", t=(0.0, 1.0), **options)
    simulate(problem, "EulerMaruyama", t=(0.0, 0.3), **options)


def test_areas_are_left_out_by_a_word_of_its_own():
    """Noise that does not commute runs by a method for noise that does, and the record says so."""

    def diffusion(t, x):
        return jnp.stack([jnp.cos(x), 0.3 * x[::-1]])

    options = dict(t=(0.0, 1.0), dt=0.5, paths=2, seed=1)
    problem = SDE(lambda t, x: -x, diffusion, [1.0, 2.0], structure="commutative")
    with pytest.raises(ValueError, match=r"on purpose, .* state structure='without areas'"):
        simulate(problem, "Milstein", **options)
    run = simulate(dataclasses.replace(problem, structure="without areas"), "Milstein", **options)
    assert provenance(run)["noise"] == "commutative (taken so: its areas are left out)"
    with pytest.raises(ValueError, match="Milstein"):
        simulate(dataclasses.replace(problem, structure=None), "Milstein", **options)
