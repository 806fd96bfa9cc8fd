"""Loads that jump in time where a step ends: what the page on the choice of steps says of their orders."""

import contextlib

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import stodyn as sd
from stodyn import statistics as st
from stodyn.warnings import JumpsInTime

JUMP = 0.5


def error(method, steps, at_the_jump):
    """Of x at t = 1, x' = -x + load, or of an oscillator under the load."""

    def load(t):
        return jnp.where(t > JUMP, 1.0, jnp.where(t == JUMP, at_the_jump, 0.0))

    problem: sd.SDE | sd.Mechanical = sd.SDE(lambda t, x: -x + load(t), lambda t, x: 0.0 * x, 1.0)
    exact = np.exp(-1.0) + 1.0 - np.exp(-0.5)
    if method == "StochasticAlpha":
        problem = sd.Mechanical(lambda t, x, v: -4.0 * x - 0.2 * v + load(t), None, ([1.0], [0.0]))
        moved = scipy.linalg.expm(0.5 * np.array([[0.0, 1.0], [-4.0, -0.2]]))
        shift = np.array([0.25, 0.0])  # where the load holds the oscillator
        exact = (shift + moved @ (moved @ [1.0, 0.0] - shift))[0]
    run = sd.simulate(problem, method, t=(0.0, 1.0), dt=1.0 / steps, paths=1, seed=1, collect=st.Moments(at=[1.0]))
    return abs(float(run["mean"].values[0, 0]) - exact)


@pytest.mark.filterwarnings("ignore::stodyn.warnings.JumpsInTime")
@pytest.mark.parametrize(("method", "order"), [("Heun", 2), ("RK4", 4), ("AB2", 2), ("StochasticAlpha", 2)])
def test_the_mean_of_both_sides_keeps_the_order(method, order):
    side, mean = ([error(method, steps, value) for steps in (16, 32)] for value in (1.0, 0.5))
    assert np.log2(side[0] / side[1]) < 1.2
    assert np.log2(mean[0] / mean[1]) == pytest.approx(order, abs=0.3)


@pytest.mark.parametrize(
    ("method", "off"),
    [("RK4", "0.17"), ("Heun", "0.5"), ("AB2", "0.5"), ("BDF2Maruyama", "0.5"), ("StochasticAlpha", "0.5")],
)
def test_a_jump_that_lowers_the_order_is_told(method, off):
    """With how far paths are off; not where the value at the jump is the mean of both sides."""
    said = rf"(drift|force): jumps at t = 0.5, where a step ends. .* {method} is {off} of the jump times the step off"
    with pytest.warns(JumpsInTime, match=said):
        error(method, 16, 1.0)
    error(method, 16, 0.5)


def test_paths_are_off_by_what_is_told():
    for method, share in (("RK4", 1 / 6), ("Heun", 0.5)):
        with pytest.warns(JumpsInTime):
            assert error(method, 1024, 1.0) == pytest.approx(share / 1024 * np.exp(-0.5), rel=0.01)


@pytest.mark.parametrize(
    ("method", "at_the_jump", "otherwise"),
    [
        ("SRA1", 1.0, 0.0),
        ("Ralston", 1.0, 0.0),
        ("RK1A4L", 0.0, 1.0),
        ("DOPRI5", 0.41039, 1.0),
        ("RKF45", -1.3737, 1.0),
    ],
)
def test_the_value_that_a_method_needs_is_told(method, at_the_jump, otherwise):
    """It is neither the mean nor one side where the first and the last evaluation of a step weigh differently."""
    with pytest.warns(JumpsInTime) as told:
        assert error(method, 16, otherwise) > 1e-3
    words = {1.0: "the value after the jump there, as in jnp.where(t >= T, b, a)",
             0.0: "the value before the jump there, as in jnp.where(t > T, b, a)"}  # fmt: skip
    mixed = (
        f"a value there, as in jnp.where(t > T, b, jnp.where(t == T, {1 - at_the_jump:.4g}*a + {at_the_jump:.4g}*b, a))"
    )
    assert f"Give it {words.get(at_the_jump, mixed)}, which" in str(told[0].message)
    assert error(method, 32, at_the_jump) < 5e-5


@pytest.mark.parametrize("method", ["ImplicitMidpoint", "ExplicitMidpoint", "EulerMaruyama", "ImplicitEuler"])
def test_methods_that_lose_no_order_are_silent(method):
    """They read no load at the ends of their steps, or promise no more than order 1."""
    for at_the_jump in (0.0, 1.0):
        error(method, 16, at_the_jump)


@pytest.mark.parametrize(
    "load",
    [
        lambda t: jnp.abs(jnp.sin(2.0 * jnp.pi * t)),
        lambda t: jnp.where(t > JUMP, 100.0 * (t - JUMP), 0.0),
        lambda t: jnp.floor(t / JUMP) * (t / JUMP - 1.0) * (t / JUMP - 2.0),
        lambda t: jnp.interp(t, jnp.array([0.0, JUMP, JUMP + 1e-3, 1.0]), jnp.array([0.0, 0.0, 1.0, 1.0])),
        lambda t: jnp.where(t > JUMP + 0.01, 1.0, 0.0),
        lambda t: jnp.where(t > JUMP, 1.0, jnp.where(t == JUMP, 0.5, 0.0)),
    ],
)
def test_what_does_not_jump_where_a_step_ends_is_not_told(load):
    problem = sd.SDE(lambda t, x: -x + load(t), lambda t, x: 0.0 * x, 1.0)
    sd.simulate(problem, "Heun", t=(0.0, 1.0), dt=1.0 / 16, paths=1, seed=1, collect=st.Moments(at=[1.0]))


def test_a_jump_of_every_period_is_told():
    problem = sd.SDE(lambda t, x: -x + jnp.where(t % 0.25 < 0.03, t % 0.25, 0.03), lambda t, x: 0.0 * x, 1.0)
    with pytest.warns(JumpsInTime, match="jumps at t = 0.25"):
        sd.simulate(problem, "Heun", t=(0.0, 1.0), dt=1.0 / 16, paths=1, seed=1, collect=st.Moments(at=[1.0]))


def test_jumps_of_equations_with_constraints_are_told():
    def drift(t, x):
        return jnp.array([x[1], jnp.where(t >= JUMP, 1.0, 0.0) - x[0] - x[1]])

    problem = sd.SDAE([[1.0, 0.0], [0.0, 0.0]], drift, None, [0.0, 0.0])
    run = {"t": (0.0, 1.0), "dt": 1 / 16, "paths": 1, "seed": 1, "collect": st.Moments(at=[1.0])}
    with pytest.warns(JumpsInTime, match="drift: jumps at t = 0.5, .* Trapezoidal is 0.5 of"):
        sd.simulate(problem, "Trapezoidal", **run)
    sd.simulate(problem, "ImplicitEuler", **run)


def error_of_hamiltonian(method, steps, at_the_jump, by_force):
    """Of q at t = 1 of an oscillator that is pulled from the jump on, by its Hamiltonian or by a force beside it."""

    def load(t):
        return jnp.where(t > JUMP, 1.0, jnp.where(t == JUMP, at_the_jump, 0.0))

    def H(t, q, p):
        return 0.5 * p**2 + 2.0 * q**2 - (0.0 if by_force else load(t) * q)

    problem = sd.Hamiltonian(H, None, (lambda t, q, p: load(t)) if by_force else None, start=(1.0, 0.0))
    moved = scipy.linalg.expm(0.5 * np.array([[0.0, 1.0], [-4.0, 0.0]]))
    shift = np.array([0.25, 0.0])
    exact = (shift + moved @ (moved @ [1.0, 0.0] - shift))[0]
    run = sd.simulate(problem, method, t=(0.0, 1.0), dt=1.0 / steps, paths=1, seed=1, collect=st.Moments(at=[1.0]))
    return abs(float(run["mean"].values[0, 0]) - exact)


@pytest.mark.parametrize(
    ("method", "by_force"), [("Heun", False), ("ConformalVerlet", False), ("Heun", True), ("BAOAB", False)]
)
def test_jumps_of_hamiltonian_systems_are_told(method, by_force):
    """The slopes of H are looked at; with the mean of both sides the order is 2, as without a jump."""
    name = "force" if by_force else "H"
    with pytest.warns(JumpsInTime, match=f"^{name}: jumps at t = 0.5, .* {method} is 0.5 of the jump"):
        side = [error_of_hamiltonian(method, steps, 0.0, by_force) for steps in (16, 32)]
    mean = [error_of_hamiltonian(method, steps, 0.5, by_force) for steps in (16, 32)]
    assert np.log2(side[0] / side[1]) < 1.3
    assert np.log2(mean[0] / mean[1]) == pytest.approx(2.0, abs=0.1)


def test_hamiltonian_systems_that_lose_no_order_are_not_told():
    """SRKw1 and DIRK look in the middle of steps, and what H jumps by the same for all q moves nothing."""
    for method in ("SRKw1", "DIRK"):
        errors = [error_of_hamiltonian(method, steps, 1.0, by_force=False) for steps in (16, 32)]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    problem = sd.Hamiltonian(lambda t, q, p: 0.5 * (p**2 + q**2) + jnp.where(t > JUMP, 1.0, 0.0), start=(1.0, 0.0))
    sd.simulate(problem, "Heun", t=(0.0, 1.0), dt=1.0 / 16, paths=1, seed=1, collect=st.Moments(at=[1.0]))


@pytest.mark.parametrize(
    ("source", "is_told"), [("B1 in 0 V={if(time>=5u, 1, 0)}", True), ("V1 in 0 PULSE(0 1 5u)", False)]
)
def test_expressions_of_time_in_a_netlist_may_jump_and_other_sources_do_not(source, is_told):
    circuit = sd.circuits.read(f"a step\n{source}\nR1 in out 1k\nC1 out 0 1n\n.tran 1u 10u\n")
    with pytest.warns(JumpsInTime) if is_told else contextlib.nullcontext():
        sd.simulate(circuit, "Trapezoidal", t=(0.0, 1e-5), dt=2.5e-7, paths=1, seed=1, collect=st.Moments(at=[1e-5]))
