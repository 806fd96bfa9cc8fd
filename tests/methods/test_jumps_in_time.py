"""Loads that jump in time where a step ends: steps keep to their side and begin anew, or a run tells of it."""

import contextlib

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import stodyn as sd
from stodyn import statistics as st
from stodyn.problems.elements import BoucWen
from stodyn.warnings import JumpsInTime

JUMP = 0.5
OSCILLATOR = np.array([[0.0, 1.0], [-4.0, -0.2]])
MECHANICAL = ("Newmark", "HHT", "GeneralisedAlpha", "StochasticAlpha")


def exact_oscillator(A=OSCILLATOR):
    moved, shift = scipy.linalg.expm(0.5 * A), np.array([0.25, 0.0])  # where the load holds the oscillator
    return (shift + moved @ (moved @ [1.0, 0.0] - shift))[0]


def error(method, steps, at_the_jump, is_param=False, has_noise=True):
    """Of x at t = 1, x' = -x + load, or of an oscillator under the load; its time a number, or a parameter."""

    def load(t, p):
        time = p["T"] if is_param else JUMP
        return jnp.where(t > time, 1.0, jnp.where(t == time, at_the_jump, 0.0))

    params, noise = {"T": JUMP}, (lambda t, x: 0.0 * x) if has_noise else None
    problem: sd.SDE | sd.Mechanical = sd.SDE(lambda t, x, p: -x + load(t, p), noise, 1.0, params=params)
    exact = np.exp(-1.0) + 1.0 - np.exp(-0.5)
    if method in MECHANICAL:
        problem = sd.Mechanical(lambda t, x, v, p: -4.0 * x - 0.2 * v + load(t, p), None, ([1.0], [0.0]), params=params)
        exact = exact_oscillator()
    return abs(end_of(problem, method, 1.0 / steps) - exact)


def end_of(problem, method, dt, **options):
    options = {"t": (0.0, 1.0), "paths": 1, "seed": 1, "collect": st.Moments(at=[1.0])} | options
    return float(sd.simulate(problem, method, dt=dt, **options)["mean"].values[0, 0])


@pytest.mark.brief("RK4-4", "AB3-3", "BDF2Maruyama-2", "StochasticAlpha-2")
@pytest.mark.parametrize(
    ("method", "order"),
    [("Heun", 2), ("RK4", 4), ("DOPRI5", 5), ("SRA1", 2), ("AB2", 2), ("AB3", 3), ("AB4", 4), ("AM2", 2), ("AM4", 4),
     ("BDF2Maruyama", 2), ("Trapezoidal", 2), ("Newmark", 2), ("HHT", 2), ("GeneralisedAlpha", 2),
     ("StochasticAlpha", 2)],
)  # fmt: skip
def test_methods_keep_their_order_at_a_jump(method, order):
    """Whatever the value of the load at the jump; methods with a history and the α methods begin anew there."""
    has_noise = not method.startswith("AM")
    before, after = ([error(method, steps, value, has_noise=has_noise) for steps in (32, 64)] for value in (0.0, 1.0))
    assert before == after
    assert np.log2(before[0] / before[1]) == pytest.approx(order, abs=0.15)


def test_the_record_says_where_steps_keep_to_their_side():
    problem = sd.SDE(lambda t, x: -x + jnp.where(t >= JUMP, 1.0, 0.0), None, 1.0)
    options = {"t": (0.0, 1.0), "dt": 0.25, "paths": 1, "seed": 1}
    record = sd.provenance(sd.simulate(problem, "Heun", **options))
    assert record["lowering"][-1] == "steps keep to their side of the jumps at t = 0.5"
    assert sd.provenance(sd.simulate(problem, "Euler", **options))["lowering"] == []


@pytest.mark.parametrize("dt", [np.repeat([0.3 / 8, 0.2 / 8, 0.4 / 8, 0.1 / 8], 8), "plan"])
def test_steps_of_different_lengths_keep_to_their_side(dt):
    lengths = dt if isinstance(dt, np.ndarray) else lambda span: np.repeat([0.5 / 16, 0.5 / 8], (16, 8))
    problem = sd.SDE(lambda t, x: -x + jnp.where(t > JUMP, 1.0, 0.0), None, 1.0)
    assert end_of(problem, "RK4", lengths) == pytest.approx(np.exp(-1.0) + 1.0 - np.exp(-0.5), abs=1e-7)


def held(values):
    """x at t = 1 of x' = -x + load, x(0) = 1, where the load takes these values, each over the same time."""
    ends = np.linspace(0.0, 1.0, len(values) + 1)
    return np.exp(-1.0) + values @ -np.diff(-np.exp(ends - 1.0))


@pytest.mark.parametrize("method", ["RK4", "AB4"])
def test_a_load_that_jumps_at_every_step(method):
    """Each step lies between two jumps, and is shortened by a part in 10^11."""
    values = np.random.default_rng(1).standard_normal(16)
    problem = sd.SDE(lambda t, x: -x + jnp.asarray(values)[jnp.clip(t * 16.0, 0.0, 15.0).astype(int)], None, 1.0)
    assert end_of(problem, method, 1.0 / 16) == pytest.approx(held(values), abs=2e-7)


@pytest.mark.parametrize(("method", "steps", "most"), [("RK4", 32, 1e-8), ("AB3", 64, 1e-6), ("SRA1", 64, 1e-5)])
@pytest.mark.parametrize("executor", ["printed", "vmap"])
def test_pulses(method, steps, most, executor):
    problem = sd.SDE(lambda t, x: -x + jnp.where(t % 0.25 < 0.125, 1.0, 0.0), None, 1.0)
    exact = held(np.tile([1.0, 0.0], 4))
    assert end_of(problem, method, 1.0 / steps, executor=executor) == pytest.approx(exact, abs=most)


@pytest.mark.parametrize(
    ("load", "dt", "exact"),
    [
        (lambda t: jnp.where(t > 0.0, 1.0, 0.0), 1.0 / 16, 1.0),
        (lambda t: jnp.where(t < 1.0, 1.0, 0.0), 1.0 / 16, 1.0),
        (lambda t: jnp.where(t > 0.3333333333333, 1.0, 0.0), 1.0 / 24, np.exp(-1.0) + 1.0 - np.exp(-2.0 / 3.0)),
    ],
)
def test_jumps_at_the_ends_of_a_run_and_at_rounded_times(load, dt, exact):
    assert end_of(sd.SDE(lambda t, x: -x + load(t), None, 1.0), "RK4", dt) == pytest.approx(exact, abs=1e-8)


def test_single_precision():
    problem = sd.SDE(lambda t, x: -x + jnp.where(t >= JUMP, 1.0, 0.0), None, 1.0)
    exact = np.exp(-1.0) + 1.0 - np.exp(-0.5)
    assert end_of(problem, "RK4", 1.0 / 16, dtype="float32") == pytest.approx(exact, abs=1e-6)


@pytest.mark.brief("True-Heun", "False-AB2", "False-SRA1")
@pytest.mark.parametrize("method", ["Heun", "RK4", "SRA1", "AB2", "BDF2Maruyama", "Trapezoidal", "PlatenWeak2"])
@pytest.mark.parametrize("is_strict", [True, False])
def test_noise_that_jumps_is_that_of_its_side(method, is_strict):
    """dx = σ(t) dW, path by path: the increments of W up to the jump times one value, and then times the other, so that
    the variance is ∫ σ² dt."""

    def ends(diffusion):
        run = {"t": (0.0, 1.0), "dt": 0.125, "paths": 64, "seed": 1, "collect": st.Paths(64, at=[JUMP, 1.0])}
        return sd.simulate(sd.SDE(lambda t, x: 0.0, diffusion, 0.0), method, **run)["path"].values.reshape(64, 2)

    (middle, end), (_, jumping) = (
        ends(diffusion).T
        for diffusion in (
            lambda t, x: 1.0,
            lambda t, x: jnp.where(t > JUMP if is_strict else t >= JUMP, 1.0, 0.1),
        )
    )
    assert jumping == pytest.approx(0.1 * middle + (end - middle), abs=1e-9)


def test_noise_in_proportion_to_a_state_that_starts_at_rest():
    """g = σ(t) x is 0 at x = 0, where it jumps in nothing: it is looked at beside the start too."""
    problem = sd.SDE(lambda t, x: 0.0 * x + 1.0, lambda t, x: jnp.where(t > JUMP, 1.0, 0.1) * x, 0.0)
    run = sd.simulate(problem, "Heun", t=(0.0, 1.0), dt=0.25, paths=1, seed=1)
    assert "jumps at t = 0.5" in sd.provenance(run)["lowering"][-1]


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::stodyn.warnings.JumpsInTime")
@pytest.mark.parametrize(("method", "order"), [("Heun", 2), ("RK4", 4), ("AB2", 2), ("StochasticAlpha", 2)])
def test_the_mean_of_both_sides_keeps_the_order_where_times_are_params(method, order):
    side, mean = ([error(method, steps, value, is_param=True) for steps in (16, 32)] for value in (1.0, 0.5))
    assert np.log2(side[0] / side[1]) < 1.2
    assert np.log2(mean[0] / mean[1]) == pytest.approx(order, abs=0.3)


@pytest.mark.parametrize(
    ("method", "off"),
    [("RK4", "0.17"), ("Heun", "0.5"), ("AB2", "0.5"), ("BDF2Maruyama", "0.5"), ("StochasticAlpha", "0.5")],
)
def test_a_jump_that_lowers_the_order_is_told(method, off):
    """With how far paths are off; not where the value at the jump is the mean of both sides."""
    said = rf"(drift|force): jumps at t = 0.5, where a step ends. .* {method} is {off} of the jump times the step off"
    with pytest.warns(JumpsInTime, match=rf"{said}.* write its time as a number"):
        error(method, 16, 1.0, is_param=True)
    error(method, 16, 0.5, is_param=True)


def test_paths_are_off_by_what_is_told():
    for method, share in (("RK4", 1 / 6), ("Heun", 0.5)):
        with pytest.warns(JumpsInTime):
            off = error(method, 1024, 1.0, is_param=True)
        assert off == pytest.approx(share / 1024 * np.exp(-0.5), rel=0.01)


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
        assert error(method, 16, otherwise, is_param=True) > 1e-3
    words = {1.0: "the value after the jump there, as in jnp.where(t >= T, b, a)",
             0.0: "the value before the jump there, as in jnp.where(t > T, b, a)"}  # fmt: skip
    mixed = (
        f"a value there, as in jnp.where(t > T, b, jnp.where(t == T, {1 - at_the_jump:.4g}*a + {at_the_jump:.4g}*b, a))"
    )
    assert f"Give it {words.get(at_the_jump, mixed)}, which" in str(told[0].message)
    assert error(method, 32, at_the_jump, is_param=True) < 5e-5


@pytest.mark.parametrize("method", ["ImplicitMidpoint", "ExplicitMidpoint", "EulerMaruyama", "ImplicitEuler"])
def test_methods_that_lose_no_order_are_silent(method):
    """They read no load at the ends of their steps, or promise no more than order 1."""
    for at_the_jump in (0.0, 1.0):
        error(method, 16, at_the_jump, is_param=True)


@pytest.mark.parametrize(("method", "off"), [("Heun", "0.32"), ("SRA1", "0.373")])
def test_noise_that_jumps_at_a_parameter_is_told_with_the_error_of_its_variance(method, off):
    """Heun takes the mean of both ends, SRA1 a line between them: h (a + b)²/4 and h (a² + a b + b²)/3 for h a²."""
    problem = sd.SDE(lambda t, x: -x, lambda t, x, p: jnp.where(t >= p, 1.0, 0.2), 0.0, params=JUMP)
    said = rf"diffusion: jumps from 0.2 to 1 at t = 0.5, .* the steps of {method} deliver is \+{off} times the step"
    with pytest.warns(JumpsInTime, match=said):
        sd.simulate(problem, method, t=(0.0, 1.0), dt=0.125, paths=1, seed=1)


def test_a_history_with_noise_in_it_does_not_begin_anew():
    """AM4 would lose noise that is on its way, and take some twice."""
    problem = sd.SDE(lambda t, x: -x + jnp.where(t > JUMP, 1.0, 0.0), lambda t, x: 1.0, 0.0)
    with pytest.warns(JumpsInTime, match="drift: jumps at t = 0.5"):
        sd.simulate(problem, "AM4", t=(0.0, 1.0), dt=0.125, paths=1, seed=1)


@pytest.mark.parametrize(
    "load",
    [
        lambda t: jnp.abs(jnp.sin(2.0 * jnp.pi * t)),
        lambda t: jnp.where(t > JUMP, 100.0 * (t - JUMP), 0.0),
        lambda t: jnp.floor(t / JUMP) * (t / JUMP - 1.0) * (t / JUMP - 2.0),
        lambda t: jnp.interp(t, jnp.array([0.0, JUMP, JUMP + 1e-3, 1.0]), jnp.array([0.0, 0.0, 1.0, 1.0])),
        lambda t: jnp.where(t > JUMP + 0.01, 1.0, 0.0),
    ],
)
def test_what_does_not_jump_where_a_step_ends_changes_nothing(load):
    problem = sd.SDE(lambda t, x: -x + load(t), lambda t, x: 0.0 * x, 1.0)
    run = sd.simulate(problem, "Heun", t=(0.0, 1.0), dt=1.0 / 16, paths=1, seed=1, collect=st.Moments(at=[1.0]))
    assert not any("jumps" in change for change in sd.provenance(run)["lowering"])


def test_equations_with_constraints_keep_their_order():
    def drift(t, x):
        return jnp.array([x[1], jnp.where(t >= JUMP, 1.0, 0.0) - x[0] - x[1]])

    problem = sd.SDAE([[1.0, 0.0], [0.0, 0.0]], drift, None, [1.0, -1.0])  # x' = load - x
    errors = [abs(end_of(problem, "Trapezoidal", h) - (np.exp(-1.0) + 1.0 - np.exp(-0.5))) for h in (1 / 16, 1 / 32)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


def error_of_hamiltonian(method, steps, at_the_jump, by_force, is_param=False):
    """Of q at t = 1 of an oscillator that is pulled from the jump on, by its Hamiltonian or by a force beside it."""

    def load(t, params):
        time = params if is_param else JUMP
        return jnp.where(t > time, 1.0, jnp.where(t == time, at_the_jump, 0.0))

    def H(t, q, p, params):
        return 0.5 * p**2 + 2.0 * q**2 - (0.0 if by_force else load(t, params) * q)

    force = (lambda t, q, p, params: load(t, params)) if by_force else None
    problem = sd.Hamiltonian(H, None, force, start=(1.0, 0.0), params=JUMP)
    return abs(end_of(problem, method, 1.0 / steps) - exact_oscillator(np.array([[0.0, 1.0], [-4.0, 0.0]])))


@pytest.mark.brief("Heun-True", "BAOAB-False")
@pytest.mark.parametrize(
    ("method", "by_force"), [("Heun", False), ("ConformalVerlet", False), ("Heun", True), ("BAOAB", False)]
)
def test_hamiltonian_systems_keep_their_order_or_tell(method, by_force):
    """The slopes of H are looked at; with the mean of both sides the order is 2 too where the time is a parameter."""
    known = [error_of_hamiltonian(method, steps, 0.0, by_force) for steps in (16, 32)]
    assert np.log2(known[0] / known[1]) == pytest.approx(2.0, abs=0.1)
    name = "force" if by_force else "H"
    with pytest.warns(JumpsInTime, match=f"^{name}: jumps at t = 0.5, .* {method} is 0.5 of the jump"):
        side = [error_of_hamiltonian(method, steps, 0.0, by_force, is_param=True) for steps in (16, 32)]
    mean = [error_of_hamiltonian(method, steps, 0.5, by_force, is_param=True) for steps in (16, 32)]
    assert np.log2(side[0] / side[1]) < 1.3
    assert np.log2(mean[0] / mean[1]) == pytest.approx(2.0, abs=0.1)


def test_hamiltonian_systems_that_lose_no_order_are_not_told():
    """SRKw1 and DIRK look in the middle of steps, and what H jumps by the same for all q moves nothing."""
    for method in ("SRKw1", "DIRK"):
        errors = [error_of_hamiltonian(method, steps, 1.0, by_force=False, is_param=True) for steps in (16, 32)]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    problem = sd.Hamiltonian(lambda t, q, p: 0.5 * (p**2 + q**2) + jnp.where(t > JUMP, 1.0, 0.0), start=(1.0, 0.0))
    run = sd.simulate(problem, "Heun", t=(0.0, 1.0), dt=1.0 / 16, paths=1, seed=1, collect=st.Moments(at=[1.0]))
    assert not any("jumps" in change for change in sd.provenance(run)["lowering"])


@pytest.mark.parametrize(
    ("source", "is_told"), [("B1 in 0 V={if(time>=5u, 1, 0)}", True), ("V1 in 0 PULSE(0 1 5u)", False)]
)
def test_expressions_of_time_in_a_netlist_may_jump_and_other_sources_do_not(source, is_told):
    circuit = sd.circuits.read(f"a step\n{source}\nR1 in out 1k\nC1 out 0 1n\n.tran 1u 10u\n")
    with pytest.warns(JumpsInTime) if is_told else contextlib.nullcontext():
        sd.simulate(circuit, "Trapezoidal", t=(0.0, 1e-5), dt=2.5e-7, paths=1, seed=1, collect=st.Moments(at=[1e-5]))


@pytest.mark.brief("RattleAlpha")
@pytest.mark.parametrize("method", ["RattleAlpha", "ProjectedAlpha"])
def test_impulses_are_counted_on_over_a_jump(method):
    """A bead on a level rod holds its weight, 2, whatever pushes it along the rod."""
    problem = sd.Mechanical(
        lambda t, x, v: jnp.stack([jnp.where(t > JUMP, 1.0, 0.0), -2.0]), None, ([0.0, 0.0], [0.0, 0.0]),
        constraints=lambda t, x: x[1:], impulses=True,
    )  # fmt: skip
    run = sd.simulate(problem, method, t=(0.0, 1.0), dt=0.125, paths=1, seed=1, collect=st.Moments(at=[1.0]))
    end = run["mean"].sel(time=1.0)
    assert abs(float(end.sel(component="Λ_g0"))) == pytest.approx(2.0, abs=1e-9)
    assert float(end.sel(component="x0")) == pytest.approx(0.125, abs=1e-9)


def test_hysteretic_elements_begin_anew_too():
    spring = BoucWen(at=0, stiffness=2.0, alpha=0.3)
    load = lambda t, x, v: jnp.where(t > JUMP, 1.0, 0.0) - 0.1 * v  # noqa: E731
    problem = sd.with_elements(sd.Mechanical(load, None, ([0.5], [0.0])), spring)
    coarse, fine, finest = (end_of(problem, "StochasticAlpha", 1.0 / steps) for steps in (32, 64, 2048))
    assert np.log2((coarse - finest) / (fine - finest)) == pytest.approx(2.0, abs=0.15)
