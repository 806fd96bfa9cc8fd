"""Rounding of functions: how large it is, and that verdicts on a problem do not depend on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.cycle.periodic import periodic
from stodyn.analysis.cycle.phase_noise import phase_noise
from stodyn.models.catalogue import find
from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.numerics.regions import region
from stodyn.numerics.rounding import UNITS, Amounts, otherwise_rounded
from stodyn.problems.index import independent_rows

EPS = 2.0**-52
SEEDS = (1, 2)


def test_amounts_of_rounding_are_those_of_the_largest_term():
    """In cosh x - 1 it is that of 1, in x - 3 that of 3 or x, and in a number that is read none."""
    x = np.full(64, 1e-3)
    cosh, difference, read = Amounts(lambda x: (jnp.cosh(x) - 1.0, x - 3.0, jnp.ones(())))(x)
    assert 0.5 * UNITS * EPS < cosh.max() < 1.1 * UNITS * EPS
    assert UNITS * EPS < difference.max() < 3.1 * UNITS * EPS
    assert not read.any()


def test_amounts_of_what_only_jax_computes():
    (amount,) = Amounts(lambda x: jax.lax.lgamma(x) + jax.lax.digamma(x))(np.linspace(3.0, 4.0, 16))
    assert 0.1 * EPS < amount.max() < 40.0 * EPS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_function_rounded_otherwise(seed):
    """Printed and by NumPy: a few units in the last place away, the same function, slopes, pieces and dependences."""

    def f(x):
        return jnp.array([x[1], jnp.exp(x[0]) * x[1], 3.0 * x[0]])

    other, x = otherwise_rounded(f, seed), np.random.default_rng(5).uniform(1.0, 2.0, (1000, 2))
    plain = at_points(f, x)
    for moved in (at_points(other, x), AtPoints(other, few=1)(x)):
        units = (moved - plain) / np.spacing(plain)
        assert not units[:, 0].any() and 4 <= np.abs(units[:, 1]).max() <= 26 and np.abs(units[:, 2]).max() <= 9
        assert len(np.unique(units[:, 2])) >= 7
    slopes, others = (at_points(jax.jacfwd(function), x) for function in (f, other))
    np.testing.assert_allclose(others, slopes, rtol=16 * EPS, atol=0.0)
    with jax.enable_x64(True):
        assert np.array_equal(*(dependence(function, x[0]).rows.toarray() for function in (f, other)))
        assert region(other)(x[0]).size == 0


def cycle_of(force, seed):
    """Van der Pol's oscillator with one more force."""

    def drift(t, x):
        return jnp.array([x[1], (1.0 - x[0] ** 2) * x[1] - x[0] + force(x[0])])

    return sd.SDE(otherwise_rounded(drift, seed), lambda t, x: jnp.array([[0.0], [0.1]]), [2.0, 0.0])


@pytest.mark.parametrize(
    ("force", "corners"),
    [
        (lambda x: -0.1 * jnp.abs(x), 2),
        (lambda x: 1e-3 * jnp.maximum(x - 1.0, 0.0) ** 3, 2),
        (lambda x: 0.1 * (jnp.maximum(x, 0.0) - jnp.maximum(-x, 0.0)), 0),
    ],
    ids=["slope", "third derivative", "none"],
)
def test_corners_are_told_from_rounding(force, corners):
    assert periodic(cycle_of(force, 1), steps=48).mesh.at_corner.sum() == corners


def test_cycles_of_equations_that_jump_are_refused():
    """Equations that jump where the state crosses a threshold."""
    with pytest.raises(ValueError, match="its equations jump"):
        phase_noise(cycle_of(lambda x: jnp.where(x > 0.1, 0.2, -0.2), 1), steps=48)


NOISES = {
    "additive": lambda t, x: jnp.array([[0.1, 0.2], [0.3, 0.1]]),
    "diagonal": lambda t, x: jnp.diag(0.3 * x),
    "commutative": lambda t, x: jnp.stack([0.1 * x, 0.7 * x], axis=1),
    "general": lambda t, x: jnp.array([[0.1 * x[0], 0.2], [0.3, 0.1 * x[1]]]),
}


@pytest.mark.parametrize("kind", NOISES)
def test_structures_of_noise(kind):
    drift = otherwise_rounded(lambda t, x: -x)
    for seed in SEEDS:
        assert sd.SDE(drift, otherwise_rounded(NOISES[kind], seed), [1.0, 0.5]).noise_structure.kind == kind


def test_the_noise_of_an_algebraic_equation():
    """That of two diode nodes is diagonal in the nodes' charges, whatever an elimination leaves of its zeros."""
    model = find("two_diodes").problem
    f, g = (otherwise_rounded(lambda t, x, p, own=own: own(t, x, p)) for own in (model.drift, model.diffusion))
    assert model.changed(drift=f, diffusion=g).noise_structure.kind == "diagonal"


CONSTRAINTS = {
    "1": (lambda x: x[2] - x[0] * jnp.cos(x[1]), 0.0),
    "2": (lambda x: 0.1 * x[0] + 0.7 * x[1] + 1e-3 * x[0] * x[1], 0.0),
    "noise": (lambda x: x[2] - x[0], 0.1),
    "cancelling far above": (lambda x: 1e4 * (0.3 * x[2]) - 3e3 * x[2] + x[0], 0.0),
    "cancelling": (lambda x: 0.1 * (x[2] + x[0]) - 0.3 * x[2] / 3.0 - 0.2 * x[1], 0.0),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_index_does_not_depend_on_rounding(name):
    """Index 1; 2; noise in a constraint; a component that stands in a constraint but for rounding does not."""
    constraint, noise = CONSTRAINTS[name]

    def drift(t, x):
        return jnp.array([-x[0] + x[2], -0.3 * x[1] + x[2], constraint(x)])

    def diagnosed(f):
        g = jnp.array([[0.1], [0.2], [noise]])
        problem = sd.SDAE(np.diag([1.0, 1.0, 0.0]), f, lambda t, x: g, [0.0, 0.0, 0.0])
        found = problem.facts.diagnosed()
        return found.index, found.rank, found.noisy, found.constraints

    plain = diagnosed(drift)
    assert plain[0] == (1 if name == "1" else None)
    for seed in SEEDS:
        assert diagnosed(otherwise_rounded(drift, seed)) == plain


def test_components_of_an_ill_conditioned_mass():
    """Its third column is the first, and its third row the second, whatever an elimination of a matrix of the
    condition 1e7 leaves of the zeros."""
    for a, b, c in 0.3 + np.random.default_rng(1).random((4, 3)):
        mass = np.array([[a, b, a], [c, c * b / a * (1.0 + 1e-7), c], [c, c * b / a * (1.0 + 1e-7), c]])
        rows, N = independent_rows(mass)
        assert len(rows) == 2 and np.count_nonzero(N) == 2
        problem = sd.SDAE(mass, lambda t, x: -x, lambda t, x: jnp.zeros((3, 1)), [0.0, 0.0, 0.0])
        assert np.count_nonzero(problem.facts.evolving) == 3
