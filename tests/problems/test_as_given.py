"""Problems keep their arguments as they were given, so that a copy may have other ones."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn.problems.contract import param_units


def test_a_copy_may_have_another_size():
    """Names that were not given are those of the new size."""
    sde = sd.SDE(lambda t, x: -x, None, [1.0, 2.0])
    longer = dataclasses.replace(sde, start=[1.0, 2.0, 3.0])
    assert (sde.components, longer.components) == (("x0", "x1"), ("x0", "x1", "x2"))
    assert (sde.names, sde.units, sde.diffusion) == (None, None, None)
    spring = sd.Mechanical(lambda t, x, v: -x, None, ([1.0, 2.0], [0.0, 0.0]), names=("a", "b"), mass=2.0 * np.eye(2))
    assert dataclasses.replace(spring, start=(1.0, 0.0), names=None, mass=2.0).components == ("x", "dx")
    oscillator = sd.Hamiltonian(lambda t, q, p: 0.5 * (q @ q + p @ p), None, start=([1.0], [0.0]), periodic=3.0)
    assert dataclasses.replace(oscillator, start=([1.0, 2.0], [0.0, 0.0])).periods == (3.0, 3.0)


def test_what_a_run_shows_may_be_changed():
    masses = [1.0, 2.0]
    spring = sd.Mechanical(lambda t, x, v: -x, None, ([1.0, 2.0], [0.0, 0.0]), mass=masses, names=("a", "b"))
    assert spring.mass is masses and spring.names == ("a", "b")
    np.testing.assert_array_equal(spring.mass_matrix, np.diag(masses))
    shown = dataclasses.replace(spring, accelerations=True)
    assert shown.components == ("a", "b", "da", "db", "dda", "ddb") and shown.n == 6
    assert dataclasses.replace(shown, accelerations=False).components == spring.components
    wheel = sd.Mechanical(lambda t, x, v: -jnp.array([0.0, 9.81]), None, ([1.0, 0.0], [0.0, 0.0]),
                          constraints=lambda t, x: x @ x - 1.0, impulses=True)  # fmt: skip
    assert wheel.components[-1] == "Λ_g0" and wheel.n == 5
    assert dataclasses.replace(wheel, constraint_names=("rod",)).components[-1] == "Λ_rod"
    assert dataclasses.replace(wheel, constraints=None, impulses=False).n == 4


def test_systems_inside_follow_the_problem_around_them():
    """Noise, hysteresis and elements are kept where the start, the names or the force change."""
    spring = sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.0), units=("m", "m/s"))
    driven = sd.with_noise(spring, sd.noise.coloured.gauss_markov(1.0, 2.0), "x")
    other = dataclasses.replace(driven, names=("u",), units=None, force=lambda t, x, v: -4.0 * x)
    assert driven.component_units == {"x": "m", "dx": "m/s"}
    assert other.components == ("u", "du", "y") and other.component_units is None
    assert float(other.own.force(0.0, 1.0, 0.0)) == -4.0 and driven.own is spring
    yielding = sd.with_elements(spring, sd.elements.BoucWen(at="x", stiffness=1.0, alpha=0.5))
    assert dataclasses.replace(yielding, names=("u",)).components == ("u", "du", "z")


def test_units_of_parameters_stay_with_noise():
    """Of every kind that noise is added to: as an SDE, and as a mechanical system."""
    gust, units = sd.noise.coloured.gauss_markov(1.0, 2.0), {"x": "m", "k": "N/m"}
    decay = sd.SDE(lambda t, x, p: -p["k"] * x, None, 1.0, {"k": 2.0}, names=["x"], units=units)
    spring = sd.Mechanical(
        lambda t, x, v, p: -p["k"] * x, None, (1.0, 0.0), params={"k": 2.0}, names=["x"], units=units
    )
    for problem in (decay, spring):
        driven = sd.with_noise(problem, gust, "x")
        assert param_units(driven) == {"k": "N/m"} and driven.component_units == {"x": "m"}
