"""Mechanisms as they are posed against their minimal forms, on the same Brownian paths."""

import numpy as np
import pytest
import scipy.integrate

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.double_pendulum import force as double_pendulum_force
from stodyn.models.jointed import (
    HOISTING_CRANE,
    JOINTED_PENDULUM,
    PENDULUM_CHAIN,
    THERMAL_PENDULUM,
    hoisting_crane,
    pendulum_chain,
)
from stodyn.models.rigid_body import RIGID_BODY, rates_matrix
from stodyn.numerics import uncompiled
from stodyn.problems.minimal import in_minimal_coordinates, placed

PATHS, T = 20, 0.5


def end(problem, method, h):
    kept = st.Paths(PATHS, at=[T])
    return sd.simulate(problem, method, t=(0.0, T), dt=h, paths=PATHS, seed=7, collect=kept)["path"].values[:, -1]


@pytest.mark.brief("jointed_pendulum")
@pytest.mark.parametrize("model", [JOINTED_PENDULUM(noise=(4.0, 1.0)), HOISTING_CRANE], ids=lambda model: model.name)
def test_both_forms_have_the_same_paths(model):
    """The rms difference of x and v falls at least like h: both methods see the same W and Z for a seed."""
    problem, minimal, embedding = model.problem, model.exact["minimal"](), model.exact["embedding"]
    gaps = []
    for h in (T / 32, T / 256):
        angles = end(minimal, "StochasticAlpha", h)
        there = np.array([uncompiled.value(lambda u: placed(embedding, T, u), u) for u in angles])
        gaps.append(np.sqrt(np.mean((end(problem, "RattleAlpha", h) - there) ** 2)))
    assert gaps[1] < 0.005 and gaps[1] < gaps[0] / 6.0, gaps


def test_the_minimal_form_of_the_chain_is_the_double_pendulum():
    """Of the equations that are written by hand for two angles."""
    minimal = PENDULUM_CHAIN.exact["minimal"]()
    params = {"L1": 1.0, "L2": 1.0, "m1": 1.0, "m2": 2.0, "g": 9.81}
    u, w = np.array([1.0, 0.5]), np.array([0.5, -0.3])
    found = uncompiled.value(lambda u, w: minimal.acceleration(0.0, u, w, u[:0], None), u, w)
    assert np.allclose(found, uncompiled.value(lambda u, w: double_pendulum_force(0.0, u, w, params), u, w), atol=1e-13)
    assert np.allclose(found, [-11.513565536648361, 5.520796191088390], rtol=1e-14)


def test_the_quaternion_body_obeys_eulers_equations():
    """J ω' = (Jω) × ω, and its white torque acts as σ/J on ω."""
    q = np.array([0.5, -0.5, 0.1, 0.7])
    q, ω, J = q / np.linalg.norm(q), np.array([0.5, 1.5, -0.7]), np.array([1.0, 2.0, 2.5])
    v = 0.5 * rates_matrix(q, np).T @ ω
    problem = RIGID_BODY.problem
    a = uncompiled.value(lambda q, v: problem.acceleration(0.0, q, v, q[:0], None), q, v)
    b = uncompiled.value(lambda q, v: problem.motion.kicks(0.0, q, v, q[:0], None), q, v)
    assert np.allclose(2.0 * rates_matrix(q, np) @ a, np.cross(J * ω, ω) / J, atol=1e-13)
    assert np.allclose(2.0 * rates_matrix(q, np) @ b[:, 0], np.array([0.6, -0.4, 0.8]) / J, atol=1e-13)
    assert np.allclose(RIGID_BODY.exact["body_rates"](np.concatenate([q, v])), ω)


def test_the_torque_heats_the_body():
    """T = ½ Σ J ω² at first, and each axis takes up ½ σ²/J in a unit of time."""
    heated = RIGID_BODY.exact["energy"](np.array([0.0, 0.5, 4.0]))
    begun = 0.5 * (1.0 * 0.5**2 + 2.0 * 1.5**2 + 2.5 * 0.7**2)
    taken = 0.5 * (0.6**2 / 1.0 + 0.4**2 / 2.0 + 0.8**2 / 2.5)
    np.testing.assert_allclose(heated, begun + taken * np.array([0.0, 0.5, 4.0]), rtol=1e-14)


def test_the_load_hangs_below_the_trolley():
    problem = hoisting_crane(rope=2.0, hoist=0.1, place=0.3, angle=0.4, rates=(0.0, 0.0))
    s, x, y, *_ = problem.example_start()
    np.testing.assert_allclose([s, x, y], [0.3, 0.3 + 2.0 * np.sin(0.4), -2.0 * np.cos(0.4)], rtol=1e-14)
    there = HOISTING_CRANE.exact["embedding"](3.0, np.array([0.3, 0.4]), rope=2.0, hoist=0.1)
    np.testing.assert_allclose(there[2], -1.7 * np.cos(0.4), rtol=1e-14)


def test_densities_and_refusals():
    density = THERMAL_PENDULUM.exact["angle_density"]
    assert abs(scipy.integrate.quad(density, -np.pi, np.pi)[0] - 1.0) < 1e-12
    mean = scipy.integrate.quad(lambda θ: np.cos(θ) * density(θ), -np.pi, np.pi)[0]
    assert abs(mean - 0.596133238831291) < 1e-12
    with pytest.raises(ValueError, match="expected one number for each mass"):
        pendulum_chain(masses=(1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="it has no constraints"):
        in_minimal_coordinates(JOINTED_PENDULUM.exact["minimal"](), lambda t, u: u, ([0.0], [0.0]))
