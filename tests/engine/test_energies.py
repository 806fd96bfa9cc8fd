"""Energies that steps give or take, before a run: told where E v² is off by a fifth, beside measured truths."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine import energies
from stodyn.methods.energy_account import Account, bodies_of
from stodyn.noise import coloured as co
from stodyn.warnings import EnergyNotKept, StopsNotResolved


def moved(rates, strength=1.0, start=(0.0, 0.0)):
    """An SDE of (x, v), driven in v."""
    return sd.SDE(lambda t, z: jnp.stack(rates(t, *z)), lambda t, z: jnp.array([[0.0], [strength]]), np.array(start))


def forced(force, strength=1.0):
    return sd.Mechanical(force, lambda t, x, v: strength, (0.0, 0.0))


def stops(x, k=1e4, L=0.1):
    return -k * (jnp.maximum(x - L, 0.0) - jnp.maximum(-x - L, 0.0))


def bent(x):
    """Hardly so, but springs that change in time are not linear then: of these the moments are known."""
    return x + 1e-4 * jnp.sin(x)


def told(problem, method, dt, end):
    """The words of a refusal, or of the warnings about energies."""
    with warnings.catch_warnings(record=True) as all_told:
        warnings.simplefilter("always")
        try:
            sd.prepare(problem, method, t=(0.0, end), dt=dt, paths=1)
        except ValueError as refused:
            return f"refused: {refused}"
    return "".join(str(one.message) for one in all_told if one.category in (EnergyNotKept, StopsNotResolved))


PENDULUM = moved(lambda t, x, v: [v, -jnp.sin(x) - 0.1 * v], 0.3)
OFF = {  # E v² at h, divided by that at h/16, by 4000 paths (± 4 %)
    "a pendulum": (PENDULUM, "ImplicitEuler", 0.05, 40.0, 0.77),
    "a weak power": (moved(lambda t, x, v: [v, -x - 0.01 * x**3 - 0.1 * v]), "EulerMaruyama", 0.02, 40.0, 1.20),
    "a spring that changes": (forced(lambda t, x, v: -100.0 * (1.0 + 0.2 * jnp.sin(t)) * bent(x) - 0.1 * v),
                              "StochasticAlpha", 0.3, 39.9, 0.46),
    "a spring that changes, as an SDE": (
        moved(lambda t, x, v: [v, -100.0 * (1.0 + 0.2 * jnp.sin(t)) * bent(x) - 0.1 * v]), "ImplicitEuler", 0.01,
        20.0, 0.17),
    "a spring that changes, by fewer steps": (
        forced(lambda t, x, v: -100.0 * (1.0 + 0.2 * jnp.sin(t)) * bent(x) - 0.1 * v), "StochasticAlpha", 0.16,
        40.0, 0.79),
    "a pendulum with little damping": (forced(lambda t, x, v: -jnp.sin(x) - 0.02 * v, 0.3), "ImplicitEuler", 0.1,
                                       100.0, 0.32),
    "a Hamiltonian": (
        sd.Hamiltonian(lambda t, q, p: 0.5 * p**2 - jnp.cos(q), lambda t, q, p: -0.3 * q, lambda t, q, p: -0.1 * p,
                       start=(0.0, 0.0)), "EulerMaruyama", 0.05, 40.0, 1.37),
    "a free body": (moved(lambda t, x, v: [v, -50.0 * v * jnp.abs(v)]), "Heun", 0.05, 8.0, 0.62),
    "drag": (moved(lambda t, x, v: [v, -x - 50.0 * v * jnp.abs(v)]), "Heun", 0.05, 8.0, 0.61),
}  # fmt: skip


@pytest.mark.parametrize("name", OFF)
def test_energies_without_steep_forces_are_told_too(name):
    problem, method, h, end, measured = OFF[name]
    words = told(problem, method, h, end)
    assert f"{method} makes the energy of bodies" in words
    assert (" too large" in words) == (measured > 1.0)
    assert words.endswith(", or another method.")


STEEP = {  # E v² at h, divided by that at h/16, by 16 000 paths (± 2 %), or by 4000 (± 4 %)
    "an oscillator that seldom touches its stops": (
        forced(lambda t, x, v: -x - 0.1 * v + stops(x, L=1.0)), 0.0158, 1.16),  # h √(k/m) = 1.58
    "stops that change": (
        forced(lambda t, x, v: -x - 0.1 * v + (1.0 + 0.2 * jnp.sin(t)) * stops(x, 1e5)), 3e-3, 1.17),
    "soft edges": (
        forced(lambda t, x, v: -x - 0.1 * v - 10.0 * (jax.nn.softplus(1e4 * (x - 0.1))
                                                      - jax.nn.softplus(-1e4 * (x + 0.1)))), 3e-3, 1.35),
}  # fmt: skip


@pytest.mark.parametrize("name", STEEP)
def test_small_errors_between_stops_are_told(name):
    """The account of single steps says -5 % of those that change: a few contacts make the error, and a comparison of
    many paths sees it."""
    problem, h, measured = STEEP[name]
    words = told(problem, "StochasticAlpha", h, round(8.0 / h) * h)
    assert words.startswith(f"dt: with steps of {h:g} StochasticAlpha makes the energy of bodies about ")
    assert (" too large" in words) == (measured > 1.0)
    assert told(problem, "StochasticAlpha", h / 8.0, round(8.0 / h) * h) == ""


def test_springs_that_pump_are_compared():
    """Near parametric resonance energy comes as much as there is, by the phase of the spring. By the exact moments E v²
    of ImplicitEuler is .36 of what it should be at the end; the account of single steps said 17 %, as if loads gave
    it."""
    pumped = moved(lambda t, x, v: [v, -(1.0 + 0.6 * jnp.cos(2.0 * t)) * bent(x) - 0.2 * v], 0.3, (1.0, 0.0))
    words = told(pumped, "ImplicitEuler", 0.05, 25.0)
    assert words.startswith("dt: with steps of 0.05 ImplicitEuler makes the energy of bodies about ")
    assert " too small" in words and words.endswith("Take smaller steps, or another method.")
    assert told(pumped, "Heun", 0.1, 25.0) == ""


def test_paths_that_steps_throw_out_are_refused():
    """With h √(k/m) = 1.2 at stops Heun's steps threw paths out, to E x² = 7e75: few of them had nearly all the energy,
    and nothing was said."""
    stopped = moved(lambda t, x, v: [v, -x - 399.0 * jnp.sign(x) * jnp.maximum(jnp.abs(x) - 0.5, 0.0) - 0.2 * v],
                    0.2**0.5)  # fmt: skip
    assert told(stopped, "Heun", 0.06, 30.0).startswith("refused: dt: with steps of 0.06 Heun makes the energy of ")


def test_few_paths_far_out_are_not_told():
    """Five in 512 may be so by chance, as of a law with a heavy tail; a hundred not, unless others fail beside."""
    finer = np.random.default_rng(1).exponential(size=(65, 512))
    for thrown, failed, is_told in ((5, 0, False), (100, 0, True), (100, 5, False)):
        coarse, beside = finer[:, ::-1].copy(), finer.copy()
        coarse[:, :thrown] *= np.logspace(20.0, 60.0, thrown)
        beside[:, :failed] = np.nan
        assert energies._ratio(coarse, beside).is_beyond(energies.NOTABLE) == is_told


def test_long_runs_are_compared_after_their_first_steps(monkeypatch):
    """E v² is half of what it should be; a comparison of all steps would take long, and nothing was said."""
    monkeypatch.setattr(energies, "COMPARED", 5e8)
    pendulum = moved(lambda t, x, v: [v, -jnp.sin(x) - 0.11 * v], 0.3)
    assert " too small" in told(pendulum, "ImplicitEuler", 0.1, 1000.0)
    assert told(pendulum, "Heun", 0.1, 1000.0) == ""


@pytest.mark.parametrize("method", ["StoermerVerlet", "BAOAB"])
def test_positions_that_are_too_far_apart_are_told(method):
    """H = p²/2 + exp q - q - 1 at kT = 0.8: with steps of 1 E q² is 2.2 times what Gibbs' density makes it, where E p²
    is right to 5 %; with steps of 0.5 it is right to 4 %."""
    toda = sd.Hamiltonian(lambda t, q, p: 0.5 * p**2 + jnp.exp(q) - q - 1.0, h=lambda t, q, p: -0.8 * q,
                          force=lambda t, q, p: -0.4 * p, start=(0.0, 0.0))  # fmt: skip
    words = told(toda, method, 1.0, 30.0)
    assert words.startswith(f"dt: with steps of 1 {method} makes the variance of positions about ")
    assert told(toda, method, 0.5, 30.0) == ""


def test_a_comparison_that_fails_is_made_once(monkeypatch):
    made = []
    monkeypatch.setattr(energies, "_ratio", lambda *both: made.append(both) or energies.UNKNOWN)
    drag = moved(lambda t, x, v: [v, -40.0 * v * jnp.abs(v)])
    assert told(drag, "Heun", 0.05, 8.0) == "" and len(made) == 1


GUST = co.gauss_markov(1.0, 0.5)


@pytest.mark.parametrize("noise", [None, lambda t, z: jnp.array([[0.0, 0.0], [0.3, 0.2]])], ids=["alone", "beside"])
def test_exact_noise_is_not_judged(noise):
    """The steps take the white noise of the equations alone: of other noise than the problem has."""
    own = sd.SDE(lambda t, z: jnp.stack([z[1], -jnp.sin(z[0]) - 0.1 * z[1]]), noise, [0.0, 0.0], names=("x", "v"))
    assert told(sd.with_noise(own, GUST, "v"), sd.ExactNoise("Heun"), 0.05, 40.0) == ""


def test_loads_of_an_sde_move_as_those_of_its_steps_do(monkeypatch):
    """Their own white noise is in these moves already: δ is 0.4 ± 0.1 % of the energy, and was uncertain by 2 %."""
    verdicts, verdict_on = [], energies.verdict_on
    monkeypatch.setattr(energies, "verdict_on", lambda *own: verdicts.append(verdict_on(*own)) or verdicts[-1])
    stiffening = sd.Mechanical(lambda t, x, v: -x - 10.0 * x**3 - 0.1 * v, None, (0.0, 0.0))
    assert told(sd.with_noise(stiffening, GUST, 0), "Heun", 0.025, 40.0) == ""
    assert abs(verdicts[0].error) < 0.01 and verdicts[0].uncertainty < 0.005


def test_what_coloured_noise_drives_is_told_once():
    """Its variance is compared when the method is prepared."""
    stiff = sd.Mechanical(lambda t, x, v: -400.0 * x - 2.0 * v, None, (0.0, 0.0))
    assert told(sd.with_noise(stiff, co.gauss_markov(1.0, 0.2), "x"), "Newmark", 0.1, 10.0) == ""


def test_what_bodies_print_is_that_of_their_steps_alone(capsys):
    def loud(t, z):
        jax.debug.print("at {}", t)
        return jnp.stack([z[1], -jnp.sin(z[0]) - 0.1 * z[1] + jnp.sin(t)])

    sd.simulate(sd.SDE(loud, lambda t, z: jnp.array([[0.0], [0.3]]), [0.0, 0.0]), "Heun", t=(0, 1), dt=0.05, paths=1,
                seed=1, progress=False)  # fmt: skip
    jax.effects_barrier()
    assert len(capsys.readouterr().out.splitlines()) == 40


@pytest.mark.parametrize(
    ("problem", "method", "h", "end"),
    [
        (PENDULUM, "Heun", 0.05, 40.0),
        (PENDULUM, "ImplicitEuler", 0.003, 9.0),
        (moved(lambda t, x, v: [v, -x - x**3 - 0.1 * v]), "ImplicitMidpoint", 0.3, 39.9),
        (moved(lambda t, x, v: [v, (1.0 - x**2) * v - x], 0.1), "EulerMaruyama", 0.01, 100.0),
    ],
    ids=["Heun", "short steps", "the midpoint rule", "a limit cycle"],
)
def test_energies_that_are_right_are_not_told(problem, method, h, end):
    """On a limit cycle the account of Euler's method adds up to 100 %, but that holds its energy by itself."""
    assert told(problem, method, h, end) == ""


WRITTEN = {
    "backwards": moved(lambda t, x, v: [-v, x - 0.1 * v - stops(x)]),
    "a mass that changes": moved(lambda t, x, v: [v / (1.0 + 0.1 * jnp.sin(t)), -x - 0.1 * v + stops(x)]),
    "a speed that saturates": moved(lambda t, x, v: [v / jnp.sqrt(1.0 + v**2 / 9.0), -x - 0.1 * v + stops(x)]),
    "as seen from a train": moved(lambda t, x, v: [v + 0.1, -x - 0.1 * v + stops(x)]),
    "an SDAE": sd.SDAE(np.diag([1.0, 2.0]),
                       lambda t, z: jnp.stack([z[1], -2.0 * z[0] - 0.2 * z[1] + 2.0 * stops(z[0])]),
                       lambda t, z: jnp.array([[0.0], [2.0]]), start=[0.0, 0.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_bodies_are_found_however_they_are_written(name):
    """E v² is a quarter of what it should be: ImplicitEuler with h √(k/m) = 0.1 takes 27 % at a contact, and so much
    with a quarter of the step that beside it a half is missing."""
    words = told(WRITTEN[name], "ImplicitEuler", 1e-3, 8.0).removeprefix("refused: ")
    assert words.startswith("dt: with steps of 0.001 ImplicitEuler makes the energy of bodies ")
    assert words.split(",")[0].endswith(("far too small", "about 50 % too small"))


def test_positions_are_those_whose_rates_depend_on_one_other_component():
    """Constants times velocities come first: of a spring alone either could be the position."""
    for rates, q, v, sign in (
        (lambda t, x, v: [v, -x], 0, 1, 1.0),
        (lambda t, x, v: [-2.0 * v, x - v], 0, 1, -1.0),
        (lambda t, x, v: [x - v, jnp.sinh(x)], 1, 0, 1.0),
    ):
        bodies = bodies_of(moved(rates))
        assert (*bodies.q, *bodies.v, *bodies.signs) == (q, v, sign)
    assert bodies_of(moved(lambda t, x, v: [v - x, v * x])) is None
    assert bodies_of(moved(lambda t, x, v: [jnp.sin(3.0 * v), -v])) is None


@pytest.mark.parametrize("size", [1.0, 0.02], ids=["long", "short"])
def test_steps_of_several_lengths_are_judged(size):
    """E v² is 0.27 and 0.41 of what it should be with long ones."""
    stopped = moved(lambda t, x, v: [v, -x - 0.1 * v + stops(x)])
    spring = moved(lambda t, x, v: [v, -x - 0.1 * v])
    for problem, method, lengths, end in (
        (stopped, "ImplicitEuler" if size == 1.0 else "Heun", [1e-3, 5e-4], 4.0 * size),
        (spring, "ImplicitEuler", [0.1 * size, 0.2 * size], 40.0 * size),
    ):
        dt = np.tile(lengths, round(end / sum(lengths)))
        words = told(problem, method, dt, float(dt.sum()))
        assert (" too small" in words) == bool(words) == (size == 1.0), words


def test_what_loads_give_counts_as_power():
    """x'' under a load and next to no noise: δ/h against the power that damping takes, E = 3/2 K."""
    δ, h, K, D, T = 3e-4, 0.01, 2.0, 0.3, 40.0
    shape = (8, 128, 64)
    account = Account(*(np.full(shape, value) for value in (δ, K, D + δ / h, 1e-9)))
    begins, durations = np.linspace(0.0, T, 9)[:-1], np.full(8, 128 * h)
    E = 1.5 * K
    loaded, free = (energies._verdict(begins, durations, account, T, loads) for loads in (True, False))
    np.testing.assert_allclose(loaded.error, δ / h / D * -np.expm1(-D / E * T), rtol=1e-9)
    np.testing.assert_allclose(free.error, T * δ / h / E, rtol=1e-6)


def test_a_run_again_takes_what_is_known(monkeypatch):
    first = told(PENDULUM, "ImplicitEuler", 0.05, 40.0)
    monkeypatch.setattr(energies, "_answer", None)
    assert told(PENDULUM, "ImplicitEuler", 0.05, 40.0) == first != ""


def test_linear_systems_are_judged_by_their_variances_alone(monkeypatch):
    monkeypatch.setattr(energies, "_answer", None)
    assert told(moved(lambda t, x, v: [v, -x - 0.1 * v]), "Heun", 0.05, 40.0) == ""
    assert told(forced(lambda t, x, v: -x - 0.1 * v), "StochasticAlpha", 0.05, 40.0) == ""


def capsizing(s):
    return sd.Mechanical(lambda t, x, v: -x + x**3 - 0.1 * v, lambda t, x, v: s, (0.0, 0.0))


@pytest.mark.parametrize("s, T, h", [(0.14, 20.0, 0.1), (0.2, 20.0, 0.05), (0.16, 20.0, 0.1)])
def test_paths_that_run_away_say_nothing_of_the_others(s, T, h):
    """Few have nearly all energy; of those that capsize the steps keep 99 % of Var v, and were refused."""
    assert told(capsizing(s), "StochasticAlpha", h, T) == ""
    steps = dict(t=(0, T), dt=h, paths=256, seed=3)
    sd.simulate(capsizing(s), stop=sd.Stop(sd.Level((-1.0, 1.0))), **steps)


def cycle(mu, s=0.05):
    return moved(lambda t, x, v: [v, mu * (1 - x**2) * v - x], s, (2.0, 0.0))


@pytest.mark.parametrize("mu, s, h, T", [(0.4, 0.05, 0.2, 200.0), (0.5, 0.05, 0.1, 200.0), (0.5, 0.05, 0.1, 201.0),
                                         (1.0, 0.3, 0.05, 2000.0)])  # fmt: skip
def test_limit_cycles_hold_their_energy(mu, s, h, T):
    """E v² is .98 to 1.00 of what it should be. Swings of all paths together were met at one phase, and counted as
    errors of up to a factor of two; what damping gives and takes holds the energy whatever the account of steps."""
    assert told(cycle(mu, s), "SRA1", h, T) == ""


@pytest.mark.parametrize("mu, h, T", [(2.0, 0.05, 2000.0), (1.0, 0.1, 500.0)])
def test_limit_cycles_without_noise_hold_their_energy(mu, h, T):
    problem = sd.Mechanical(lambda t, x, v: mu * (1 - x**2) * v - x, None, (2.0, 0.0))
    assert told(problem, "StochasticAlpha", h, T) == ""


@pytest.mark.parametrize("fall", [lambda x, v: -jnp.tanh(x) - 2 * v, lambda x, v: -jnp.sin(x) - v], ids=["far", "near"])
def test_energies_without_a_sign_are_not_judged(fall):
    """½ v (v - 1) overflowed, and was told of where E v² is right to 1 %."""
    assert told(moved(lambda t, x, v: [v - 1.0, fall(x, v)], 0.05), "SRA1", 0.05, 40.0) == ""


@pytest.mark.parametrize("method", ["StoermerVerlet", "BAOAB"])
def test_energies_that_are_shared_wrongly_are_told(method):
    """Verlet's steps keep an energy of their own, ½ p² / (1 - ω²h²/4) + ½ ω² q²: at ωh = 1, E p² is a quarter too
    small beside the right E q², and the account adds up to nothing."""
    stiff = sd.Hamiltonian(lambda t, q, p: 0.5 * p**2 + 50.0 * q**2 + 0.1 * q**4, h=lambda t, q, p: -0.8 * q,
                           force=lambda t, q, p: -0.4 * p, start=(0.0, 0.0))  # fmt: skip
    assert "0 % too small" in told(stiff, method, 0.11, 44.0)
    assert told(stiff, method, 0.05, 20.0) == ""
