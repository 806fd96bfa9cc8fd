"""Energies that steps give or take, before a run: told where E v² is off by a fifth, beside measured truths."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine import energies
from stodyn.methods.energy_account import Account, bodies_of
from stodyn.warnings import EnergyNotKept, StopsNotResolved


def moved(rates, strength=1.0):
    """An SDE of (x, v), driven in v."""
    return sd.SDE(lambda t, z: jnp.stack(rates(t, *z)), lambda t, z: jnp.array([[0.0], [strength]]), np.zeros(2))


def forced(force):
    return sd.Mechanical(force, lambda t, x, v: 1.0, (0.0, 0.0))


def stops(x):
    return -1e4 * (jnp.maximum(x - 0.1, 0.0) - jnp.maximum(-x - 0.1, 0.0))


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
    "a spring that changes": (forced(lambda t, x, v: -100.0 * (1.0 + 0.2 * jnp.sin(t)) * x - 0.1 * v),
                              "StochasticAlpha", 0.3, 39.9, 0.46),
    "a spring that changes, as an SDE": (
        moved(lambda t, x, v: [v, -100.0 * (1.0 + 0.2 * jnp.sin(t)) * x - 0.1 * v]), "ImplicitEuler", 0.01, 20.0, 0.17),
    "a stronger and stronger spring": (forced(lambda t, x, v: -(1.0 + 1e3 * t) * x - 0.1 * v), "StochasticAlpha", 0.05,
                                       10.0, 0.06),
    "drag": (moved(lambda t, x, v: [v, -x - 50.0 * v * jnp.abs(v)]), "Heun", 0.05, 8.0, 0.61),
}  # fmt: skip


@pytest.mark.parametrize("name", OFF)
def test_energies_without_steep_forces_are_told_too(name):
    problem, method, h, end, measured = OFF[name]
    words = told(problem, method, h, end)
    assert f"{method} makes the energy of bodies" in words
    assert (" too large" in words) == (measured > 1.0)
    assert words.endswith(", or another method.")


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
    """E v² is a quarter of what it should be: ImplicitEuler with h √(k/m) = 0.1 takes 27 % at a contact."""
    words = told(WRITTEN[name], "ImplicitEuler", 1e-3, 8.0)
    assert words.startswith("refused: dt: with steps of 0.001 ImplicitEuler makes the energy of bodies far too small")


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
