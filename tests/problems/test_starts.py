"""The start of a path is its own: of its number and the seed, whatever the problem is made of or written as."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.noise import coloured

PATHS = 2000  # more than are drawn together
LISTED = np.linspace(0.1, 1.0, PATHS)
GRID = dict(t=(0.0, 0.01), dt=0.01)
NOISE = coloured.gauss_markov(1.5, 2.0)


def oscillator(start, **options):
    return sd.Mechanical(lambda t, x, v: -x - 0.2 * v, lambda t, x, v: 0.1, start, **options)


def plain(start):
    return sd.SDE(lambda t, x: -x, lambda t, x: jnp.eye(2), start)


def starts(problem, method, seed):
    collect = st.Paths(PATHS, at=[0.0])
    return sd.simulate(problem, method, **GRID, paths=PATHS, seed=seed, collect=collect).path.isel(time=0)


DRIVEN = {
    "Mechanical": (sd.with_noise(oscillator((0.0, 0.0)), NOISE, "x"), "StochasticAlpha"),
    "Mechanical as an SDE": (sd.with_noise(oscillator((0.0, 0.0)), NOISE, "x"), "Heun"),
    "measured": (sd.with_measurement(sd.with_noise(oscillator((0.0, 0.0)), NOISE, "x"), [[1, 0, 1]], 1.0), None),
    "SDE": (sd.with_noise(plain([0.0, 0.0]), NOISE, 0), "EulerMaruyama"),
    "SDE with listed starts": (sd.with_noise(plain(sd.PerPath(np.ones((PATHS, 2)))), NOISE, 0), "EulerMaruyama"),
}


@pytest.mark.brief("Mechanical as an SDE", "measured")
@pytest.mark.parametrize("name", DRIVEN)
def test_coloured_noise_starts_in_its_stationary_law(name):
    """Every path has its own draw of N(0, σ²): mean and variance of 2000 within 5.3 standard errors (1e-7 each)."""
    problem, method = DRIVEN[name]
    first, second = (starts(problem, method, seed).sel(component="y").values for seed in (1, 2))
    assert len(np.unique(np.concatenate([first, second]))) == 2 * PATHS
    for y in (first, second):
        assert abs(y.mean()) < 5.3 * 1.5 / np.sqrt(PATHS)
        assert abs(y.var() / 1.5**2 - 1.0) < 5.3 * np.sqrt(2.0 / PATHS)


def hysteretic(start):
    return sd.with_elements(oscillator(start), sd.elements.BoucWen(at=0, stiffness=1.0, alpha=0.5))


MIXED = (sd.PerPath(LISTED), scipy.stats.norm())
WRITTEN = {
    "Mechanical": (oscillator(MIXED), "StochasticAlpha"),
    "as an SDE": (oscillator(MIXED), "EulerMaruyama"),
    "as an SDAE": (oscillator(MIXED), "ImplicitEuler"),
    "Hamiltonian": (sd.Hamiltonian(lambda t, q, p: (q**2 + p**2) / 2, lambda t, q, p: -q, start=MIXED), "Heun"),
    "hysteretic": (hysteretic(MIXED), "EulerMaruyama"),
    "driven": (sd.with_noise(oscillator(MIXED), NOISE, "x"), "Heun"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_listed_and_drawn_parts_of_a_start(name):
    """Positions are those of the list, path by path; velocities are drawn anew for every seed and path."""
    problem, method = WRITTEN[name]
    first, second = (starts(problem, method, seed).values for seed in (1, 2))
    for found in (first, second):
        np.testing.assert_array_equal(found[:, 0], LISTED)
    assert len(np.unique(np.concatenate([first[:, 1], second[:, 1]]))) == 2 * PATHS


def test_there_are_as_many_paths_as_values():
    problem, method = WRITTEN["hysteretic"]
    with pytest.raises(ValueError, match="PerPath holds values for 2000 paths"):
        sd.simulate(problem, method, **GRID, paths=PATHS + 1, seed=1)


def test_one_path_needs_the_state_of_its_filter():
    problem, method = DRIVEN["Mechanical"]
    with pytest.raises(ValueError, match="differs from path to path"):
        sd.path(problem, method, 0.0, None)


def test_a_subset_has_one_start():
    with pytest.raises(ValueError, match="one start for all paths"):
        sd.rare(DRIVEN["Mechanical"][0], event=sd.Level(3.0, "x"), before=1.0, dt=0.1, by="subset", seed=1)


def test_a_start_at_a_wall_is_on_this_side_of_it():
    """Just beyond it is refused by the path's number."""
    ball = sd.Mechanical(lambda t, x, v: -9.81 + 0.0 * x, None, (1.0, 0.0))
    walled = sd.with_walls(
        ball, sd.Impact(sd.Level(0.0, of="x", direction="down")), sd.Impact(sd.Level(3.0, of="x", direction="up"))
    )
    for height, beyond in ((0.0, -1e-9), (3.0, 3.0 + 1e-9)):
        drawn = walled.changed(start=(height, 0.0)).draw_start(np.random.default_rng(1), range(1))
        np.testing.assert_array_equal(drawn[0, :2], [height, 0.0])
        with pytest.raises(ValueError, match=r"start: x = .* of path 1 is beyond the wall"):
            walled.changed(start=(sd.PerPath([height, beyond]), 0.0)).draw_start(np.random.default_rng(1), range(2))
