"""Methods for mechanical systems with joints along prescribed increments, against tabulated values of another code."""

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.step.common_paths import PathRun, common_paths
from stodyn.engine.failure import PathsFailed
from stodyn.engine.traces import trace
from stodyn.methods.alpha import StochasticAlpha, StochasticAlpha20
from stodyn.methods.projected_alpha import ProjectedAlpha
from stodyn.methods.rattle import ConstrainedBAOAB, Rattle, ShiftedRattle, ShiftedRattle15
from stodyn.methods.rattle_alpha import RattleAlpha, RattleAlpha15
from stodyn.models.jointed import CRANK, FOUR_BAR, HOISTING_CRANE, JOINTED_PENDULUM, PENDULUM_CHAIN, SPHERICAL_PENDULUM
from stodyn.models.rigid_body import RIGID_BODY, body_rates
from stodyn.noise.increment import Increment
from stodyn.noise.iterated import SecondMoments, Words
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.fingerprints import holds
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.minimal import in_minimal_coordinates, placed

H = 1.0 / 32.0


def increments(n):
    """W, Z and I_(1,1,0) of step n."""
    W = 0.2 * np.cos(n)
    return W, 0.5 * H * W + 0.002 * H * np.sin(n), 0.01 * H**2 * np.cos(2 * n)


def walk(problem, method, steps=32, given=lambda state: None):
    """The state after steps with the increments above; `given` makes params of the state before each step."""

    def step(t, state, W, Z, third, params):
        noise = Increment(H, W, Z, words={(1, 1, 0): third})
        after, report = method.step(problem, t, state, noise, params)
        return after, report.ok

    with underived():
        x = problem.example_start()[None]
        params = problem.params if given(x[0]) is None else given(x[0])
        state = AtPoints(lambda x, p: method.start(problem, 0.0, x, p), (0, None))(x, params)
        stepped = AtPoints(step, (0, 0, 0, 0, 0, None))
        for n in range(steps):
            W, Z, third = (np.array([part]) for part in increments(n))
            seen = np.asarray(method.read(jax.tree.map(lambda leaf: leaf[0], state)))
            params = problem.params if given(seen) is None else given(seen)
            state, ok = stepped(np.array([n * H]), state, W[:, None], Z[:, None], third, params)
            assert ok[0]
    return np.asarray(method.read(jax.tree.map(lambda leaf: leaf[0], state)))


PAPER = ProjectedAlpha(order=1.0)
FORCE = JOINTED_PENDULUM(impulses=True)
FRICTION = FORCE(friction=0.6)
TABLE = {
    "A force": (FORCE, PAPER, "-.808046016185 -.589119373071 -.704228656655 .965931840821 12.445440608329"),
    "B force": (FORCE, RattleAlpha, "-.810065602169 -.586339253490 -.687557126013 .949904639668 12.440923634524"),
    "Rattle": (FORCE, Rattle, "-.810032619570 -.586384818385 -.687376738852 .949542967257 12.440748928397"),
    "A torque": (
        FORCE(torque=1.5), PAPER, "-.809761427742 -.586759260806 -.728590996593 1.005497356498 12.439268277467"),
    "B double": (
        PENDULUM_CHAIN(impulses=True), RattleAlpha,
        "-.167440871289 -.985882120044 -.888697992506 -1.678549547525 -1.789790918098 .303975642380 -2.596704996741 "
        "1.144194919831 34.017218237225 24.745329135227"),
    "B friction": (
        FRICTION, RattleAlpha, "-.632778648595 -.774332733314 -.664603760261 .543108990717 11.521447143996"),
    "B 1.5 friction": (
        FRICTION, RattleAlpha15, "-.632431930695 -.774615939055 -.665999220173 .543752266665 11.525092698160"),
    "A 2.0 friction": (FRICTION, ProjectedAlpha, "-.629882947585 -.776690074831 -.681478116261 .552667606417"),
}  # fmt: skip
WHOLE_TABLE = {
    "Rattle double": (
        PENDULUM_CHAIN(impulses=True), Rattle,
        "-.167398011618 -.985889398313 -.888651379233 -1.678560734304 -1.789461796848 .303839707751 -2.596635576630 "
        "1.144320288756 34.017346198989 24.745435987905"),
    "A double": (
        PENDULUM_CHAIN(impulses=True), PAPER,
        "-.164901558091 -.986310030436 -.882638030907 -1.682624869852 -1.705303168380 .285110300825 -2.600466726498 "
        "1.207812932490 34.132131445424 24.836352155889"),
    "A slider": (
        CRANK(impulses=True), PAPER,
        "-.497480766770 -.050128701297 .701471739923 0 .353248289023 -3.505660931465 .206675152304 0 -3.887950871684 "
        "-2.449873639598 -20.101187256814"),
    "B slider": (
        CRANK(impulses=True), RattleAlpha,
        "-.498167997360 -.042762675388 .701069824589 0 .302173637661 -3.520201544079 .176649547965 0 -4.197320560289 "
        "-2.399473448328 -20.114504315517"),
    "A fourbar": (
        FOUR_BAR(impulses=True), PAPER,
        "-.258324512215 -.428098640956 .450305288992 .661783831992 4.773948131756 -2.880709501254 .125213909066 "
        ".141847232939 15.674242731751 -4.761038773683 -15.444945535978"),
    "B fourbar": (
        FOUR_BAR(impulses=True), RattleAlpha,
        "-.262408374979 -.425607618284 .450207343918 .661672859414 4.835505104709 -2.981330648745 .105062283231 "
        ".119054193136 15.169653704629 -4.649104213739 -15.519596604297"),
    "A spherical": (
        SPHERICAL_PENDULUM(impulses=True), PAPER,
        "-.410784061665 -.800731710556 -.435987594310 1.923440498982 -1.553737150318 1.041332165204 16.092817101437"),
    "B spherical": (
        SPHERICAL_PENDULUM(impulses=True), RattleAlpha,
        "-.406895959947 -.804982788394 -.431785118049 1.934119541339 -1.524909383805 1.020276896966 16.095887145645"),
    "A friction": (FRICTION, PAPER, "-.630590818858 -.776115467680 -.678806767539 .551527875959"),
    "A 1.5 friction": (FRICTION, PAPER(order=1.5), "-.630311919865 -.776341988865 -.679366997335 .551577941841"),
    "A 1.5": (FORCE, PAPER(order=1.5), "-.807793912495 -.589465007389 -.704927102552 .966021417822"),
    "A 2.0": (FORCE, ProjectedAlpha, "-.807440958296 -.589948386612 -.707075212071 .967748195906"),
    "B 1.5": (FORCE, RattleAlpha15, "-.809768783364 -.586749109491 -.689080066465 .950995098306 12.444184464665"),
    "B quaternion": (RIGID_BODY, RattleAlpha, ".646928427744 .322317316614 .548951186447 -.419818712881"),
}  # fmt: skip


def test_friction_is_that_of_the_middle_of_a_step():
    """In a plane, by a friction γ = 0.4 + t: the velocity falls by the midpoint rule, by (1 - γ h/2)/(1 + γ h/2)."""
    problem = sd.Mechanical(
        lambda t, x, v: -(0.4 + t) * v, lambda t, x, v: jnp.zeros((3, 1)), (np.zeros(3), np.array([1.0, -2.0, 0.0])),
        constraints=lambda t, x: x[2:],
    )  # fmt: skip
    begin, h = 0.3, 0.5

    def stepped(x):
        still = Increment(jnp.asarray(h), jnp.zeros(1))
        return ConstrainedBAOAB().step(problem, jnp.asarray(begin), x, still, None)[0]

    found = at_one(stepped, np.concatenate([np.zeros(3), [1.0, -2.0, 0.0]]))
    middle = 0.5 * h * (0.4 + begin + 0.5 * h)
    expected = np.array([1.0, -2.0, 0.0]) * (1.0 - middle) / (1.0 + middle)
    np.testing.assert_allclose(found[3:6], expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", [*TABLE, *(WHOLE_TABLE if os.environ.get("STODYN_FULL") else ())])
def test_paths_are_those_of_a_code_without_a_line_in_common(name):
    """To the digits of a code without any line in common: x, v, impulses after 32 steps. `make test-full` asks all."""
    model, method, expected = (TABLE | WHOLE_TABLE)[name]
    expected = np.array(expected.split(), float)
    found = walk(model.problem, method)
    assert np.abs(found[: len(expected)] - expected).max() < 1.1e-12 * max(1.0, np.abs(expected).max()), found
    if name == "B quaternion":
        assert np.allclose(body_rates(found), [1.104718739234, 0.932427802622, -1.066735039410], rtol=0, atol=1e-12)


def test_torque_with_kicks_at_the_start_of_a_step():
    """The table's torque acts at the start of a step alone: noise that is a constant of the step, given as params."""
    problem = Mechanical(
        lambda t, x, v, B: jnp.array([0.0, -9.81]), lambda t, x, v, B: B[:, None],
        tuple(np.split(FORCE.problem.example_start()[:4], 2)), params=np.zeros(2), impulses=True,
        constraints=lambda t, x, B: 0.5 * (x @ x - 1.0)[None],
    )  # fmt: skip
    found = walk(problem, RattleAlpha, given=lambda x: 1.5 * np.array([-x[1], x[0]]) / np.linalg.norm(x[:2]))
    expected = [-0.811768181330, -0.583979811106, -0.712791069989, 0.990823825668, 12.435215134840]
    assert np.allclose(found, expected, rtol=0, atol=1e-11)


SPIN, INERTIA, TORQUE = np.array([0.5, 1.5, -0.7]), np.array([1.0, 2.0, 2.5]), np.array([0.6, -0.4, 0.8])


def along_directors(x):
    """Forces τ × d/2 at the directors d, the rows of x: the torque τ, constant about the axes of the body."""
    directors = x[:9].reshape(3, 3)
    return 0.5 * jnp.cross(TORQUE @ directors, directors).reshape(9)


def directors(noise, params=None):
    """A free rigid body by its three directors, each with the mass ½ tr J - J_i."""
    i, j = np.triu_indices(3)

    def unit_and_normal(t, x, *p):
        apart = x.reshape(3, 3) @ x.reshape(3, 3).T - jnp.eye(3)
        return (apart[i, j] * np.where(i == j, 0.5, 1.0))[jnp.array([0, 3, 5, 1, 2, 4])]

    start = np.eye(3).ravel(), np.cross(SPIN, np.eye(3)).ravel()
    mass = np.repeat(0.5 * INERTIA.sum() - INERTIA, 3)
    return Mechanical(lambda t, x, v, *p: 0.0 * x, noise, start, mass, params=params, constraints=unit_and_normal)


@pytest.mark.brief("B directors")
@pytest.mark.parametrize(
    ("method", "rates", "first"),
    [
        (PAPER, "1.103643625181 .933394789825 -1.066028981327", ""),
        (
            RattleAlpha,
            "1.104331488462 .932227018063 -1.066663937766",
            ".045416053249 -.189785349958 -.980774644375",
        ),
    ],
    ids=["A directors", "B directors"],
)
def test_bodies_by_directors_turn_as_in_another_code(method, rates, first):
    """The rates ω_i = d_j'·d_k about the body's axes after 32 steps, and its first director. The table of RATTLE-α has
    the kicks at the start of a step alone, given as params; that of the projected method has noise of x."""
    if method is PAPER:
        problem, given = directors(lambda t, x, v: along_directors(x)[:, None]), lambda x: None
    else:
        problem = directors(lambda t, x, v, B: B[:, None], np.zeros(9))
        given = along_directors
    found = walk(problem, method, given=given)
    at, moving = found[:9].reshape(3, 3), found[9:18].reshape(3, 3)
    spin = np.array([moving[1] @ at[2], moving[2] @ at[0], moving[0] @ at[1]])
    np.testing.assert_allclose(spin, np.array(rates.split(), float), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[:3][: len(first.split())], np.array(first.split(), float), rtol=0, atol=1e-12)


def steady(t, x, v):
    return jnp.array([[0.8], [-0.4]])


def sheared(t, x, v):
    """Noise of t, x and v."""
    return jnp.stack([0.8 * jnp.sin(v[0]) + 0.3 * jnp.cos(t), 0.5 * v[1] ** 2 - 0.4 * x[0]])[:, None]


@pytest.mark.parametrize(
    ("method", "alpha", "push"),
    [(RattleAlpha, 1.0, steady), (PAPER, 1.0, steady), (RattleAlpha15, 1.5, sheared)],
    ids=["RattleAlpha", "ProjectedAlpha", "RattleAlpha15"],
)
def test_a_linear_constraint_is_the_alpha_step_in_minimal_coordinates(method, alpha, push):
    """x = (u, c u) with a mass matrix: the same numbers as of u alone, at order 1.5 with noise that depends on v."""
    c, M = 0.7, np.array([[2.0, 0.3], [0.3, 1.5]])
    J = np.array([1.0, c])

    def force(t, x, v):
        return jnp.stack([-4.0 * jnp.sin(x[0]) - 0.5 * v[1], -(x[1] ** 3) - 0.3 * v[0]])

    held = Mechanical(force, push, (0.9 * J, 0.2 * J), M, constraints=lambda t, x: x[1:] - c * x[0])
    minimal = Mechanical(
        lambda t, u, w: (J @ force(t, u * J, w * J))[None],
        lambda t, u, w: (J @ push(t, u * J, w * J))[None],
        ([0.9], [0.2]),
        [J @ M @ J],
    )
    a, b = walk(held, method(rho=0.0)), walk(minimal, StochasticAlpha(rho=0.0, order=alpha))
    assert np.abs(a - np.concatenate([b[0] * J, b[1] * J])).max() < 1e-13


@pytest.mark.parametrize(("shifted", "alpha"), [(ShiftedRattle, RattleAlpha), (ShiftedRattle15, RattleAlpha15)])
def test_shifted_rattle_is_rattle_alpha_for_constant_forces(shifted, alpha):
    """Whatever rho is: with constant f and B the kicks of both are the same, and so are x and v."""
    a, b = walk(JOINTED_PENDULUM.problem, shifted), walk(JOINTED_PENDULUM.problem, alpha(rho=0.3))
    assert np.abs(a - b).max() < 1e-13


def langevin(friction, kT=1.0, noise=None):
    """A pendulum of length 1 and weight 1.5 in a bath: friction is Γ, a number or two."""
    Γ = np.broadcast_to(np.asarray(friction, float), (2,))
    B = np.diag(np.sqrt(2.0 * kT * Γ)) if noise is None else noise
    return Mechanical(
        lambda t, x, v: jnp.array([0.0, -1.5]) - Γ * v, lambda t, x, v: jnp.asarray(B), ([0.0, -1.0], [0.3, 0.0]),
        constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None],
    )  # fmt: skip


def test_constrained_baoab_samples_its_tabulated_law():
    """E cos θ and E ω² at a long step, computed elsewhere without sampling; exact are I1/I0(1.5) and 1. Looks are 6
    units of time apart, so that their errors are independent; within 5 of them, one false alarm in a million."""

    def seen(t, x):
        return jnp.stack([-x[1], x[2] ** 2 + x[3] ** 2])

    run = sd.simulate(
        langevin(1.0), ConstrainedBAOAB(substeps=1), t=(0.0, 150.0), dt=0.3, paths=4000, seed=5,
        collect=st.Observable(seen, every=20),
    ).isel(time=slice(2, None))  # fmt: skip
    mean = run["seen"].values.mean(axis=0)
    error = np.sqrt(np.mean(run["seen_variance"].values, axis=0) / (4000 * len(run["time"])))
    expected = np.array([0.596133238831291 - 4.3281462e-3, 1.0 - 2.02066256e-2])
    assert np.all(np.abs(mean - expected) < 5.0 * error), (mean, expected, error)


def in_a_bath(masses, weight, constraints, place, kT=1.0):
    """Masses under their weight along the last coordinate of each, with the friction 1, at rest at first."""
    M, down = np.asarray(masses, float), np.asarray(weight, float)
    strength = np.diag(np.sqrt(2.0 * kT * np.ones_like(M)))
    return Mechanical(lambda t, x, v: -M * down - v, lambda t, x, v: jnp.asarray(strength), (place, 0.0 * M), M,
                      constraints=constraints)  # fmt: skip


def of_two_rods(t, x):
    return 0.5 * jnp.stack([x[:2] @ x[:2] - 1.0, (x[2:] - x[:2]) @ (x[2:] - x[:2]) - 1.0])


def of_a_crank(t, x):
    return jnp.stack([0.5 * (x[:2] @ x[:2] - 0.25), 0.5 * ((x[2:] - x[:2]) @ (x[2:] - x[:2]) - 1.44), x[3]])


def angle_between_rods(t, x):
    cosine = x[:2] @ (x[2:4] - x[:2])
    return jnp.stack([2.0 * cosine**2 - 1.0, cosine**4])


def angle_of_crank(t, x):
    return jnp.stack([2.0 * x[1], 2.0 * x[0], 8.0 * x[0] ** 2 - 1.0])


THERMAL = {
    "double pendulum": (in_a_bath([1, 1, 2, 2], [0] * 4, of_two_rods, np.array([0.0, -1.0, 1.0, -1.0])),
                        angle_between_rods, [-0.130409740355125, 0.308713181751412], 0.2),
    "crank": (in_a_bath([1, 1, 2, 2], [0, 9.81, 0, 9.81], of_a_crank, np.array([0.0, -0.5, np.sqrt(1.44 - 0.25), 0.0]),
                        2.0), angle_of_crank, [-0.796357222077, 0.046835591307, -0.464591415166], 0.05),
    "spherical pendulum": (in_a_bath([1] * 3, [0, 0, 2], lambda t, x: (x @ x - 1.0)[None], np.array([0.6, 0.0, -0.8])),
                           lambda t, x: jnp.stack([-x[2], x[2] ** 2]), [0.537314720727548, 0.462685279272452], 0.2),
}  # fmt: skip


@pytest.mark.brief("double pendulum")
@pytest.mark.parametrize("name", THERMAL)
def test_laws_at_a_temperature_have_the_factor_of_the_mass(name):
    """exp(-V/kT) √det(J'MJ): integrals over the angles, computed elsewhere; without the root E cos 2δ of the double
    pendulum would be 0, and E sin θ of the crank -0.7597. Looks are 6 units of time apart; within 5 errors, one false
    alarm in a million, and 1e-3 for the step."""
    problem, seen, expected, h = THERMAL[name]
    every = round(6.0 / h)
    run = sd.simulate(problem, ConstrainedBAOAB, t=(0.0, 30.0), dt=h, paths=4000, seed=8,
                      collect=st.Observable(seen, name="seen", every=every)).isel(time=slice(2, None))  # fmt: skip
    mean, variance = (run[each].values.mean(axis=0) for each in ("seen", "seen_variance"))
    assert np.all(np.abs(mean - expected) < 1e-3 + 5.0 * np.sqrt(variance / (4000 * len(run["time"])))), mean


def test_constrained_baoab_keeps_the_gaussian_law_of_any_friction():
    """Friction that is not γ M: without weight v along the circle keeps its variance kT at any step, to 5 errors."""
    still = dataclasses.replace(langevin((2.0, 0.5)), force=lambda t, x, v: -np.array([2.0, 0.5]) * v)
    run = sd.simulate(
        still, ConstrainedBAOAB(substeps=2), t=(0.0, 10.0), dt=0.25, paths=4000, seed=6,
        collect=st.Observable(lambda t, x: x[2] ** 2 + x[3] ** 2, name="square", every=40),
    ).isel(time=-1)  # fmt: skip
    assert abs(run["square"] - 1.0) < 5.0 * run["square_stderr"]


def test_kicks_that_depend_on_the_position_are_exact_along_a_line():
    """On x₁ = 0, where the strength 1 + x₁ of the noise is 1: x' = x + h v + Z and v' = v + W."""
    problem = Mechanical(lambda t, x, v: 0.0 * x, lambda t, x, v: jnp.stack([1.0 + x[1], 0.0 * x[1]])[:, None],
                         ([0.2, 0.0], [0.3, 0.0]), constraints=lambda t, x: x[1:])  # fmt: skip
    h, W, Z = 0.25, 0.7, 0.11

    def step(x):
        noise = Increment(jnp.asarray(h), W=jnp.array([W]), Z=jnp.array([Z]))
        return RattleAlpha.read(
            RattleAlpha.step(problem, 0.0, RattleAlpha.start(problem, 0.0, x, None), noise, None)[0]
        )

    found = at_one(step, np.array([0.2, 0.0, 0.3, 0.0]))
    np.testing.assert_allclose(found[:4], [0.2 + h * 0.3 + Z, 0.0, 0.3 + W, 0.0], atol=1e-14)


def test_rattle_and_baoab_refuse_what_they_do_not_take():
    for method, problem, match in (
        (Rattle, JOINTED_PENDULUM(friction=0.5).problem, "with friction take RattleAlpha or ConstrainedBAOAB"),
        (Rattle, RIGID_BODY.problem, "takes a constant mass"),
        (ConstrainedBAOAB, JOINTED_PENDULUM(friction=0.5).problem, "noise and friction do not balance"),
        (ConstrainedBAOAB, HOISTING_CRANE.problem, "one depends on t"),
        (ConstrainedBAOAB, RIGID_BODY.problem, "takes a constant mass"),
        (ConstrainedBAOAB, langevin(1.0, noise=np.array([[1.0, 0.5], [0.0, 1.0]])), "do not balance"),
        (ConstrainedBAOAB, Mechanical(
            lambda t, x, v: -jnp.array([[1.0, 0.5], [-0.5, 1.0]]) @ v, lambda t, x, v: jnp.eye(2),
            ([0.0, -1.0], [0.3, 0.0]), constraints=lambda t, x: (x @ x - 1.0)[None]), "it is not symmetric"),
        (ConstrainedBAOAB, Mechanical(  # they balance at the start, where x1 = -1
            lambda t, x, v: -(x[1] ** 2) * v, lambda t, x, v: jnp.eye(2), ([0.0, -1.0], [0.3, 0.0]),
            constraints=lambda t, x: (x @ x - 1.0)[None]), "do not balance"),
        (ShiftedRattle15, Mechanical(
            lambda t, x, v: -x, lambda t, x, v: v[:, None], ([0.0, -1.0], [0.3, 0.0]),
            constraints=lambda t, x: (x @ x - 1.0)[None]), "takes noise that does not depend on v"),
    ):  # fmt: skip
        assert match in method.refusal(problem)
    with pytest.raises(ValueError, match="substeps: expected a whole number"):
        ConstrainedBAOAB(substeps=0)
    with pytest.raises(ValueError, match="correction: it belongs to shifted"):
        Rattle(correction=True)


def test_constraints_hold_to_rounding_over_many_steps():
    """|g| and |G v| at most 1e-12 (they are 1e-15) wherever they are looked at, moving joints too."""
    for model, method in ((JOINTED_PENDULUM, RattleAlpha), (HOISTING_CRANE(hoist=0.01), RattleAlpha)):
        problem = model.problem

        def off(t, x, problem=problem):
            q, v = x[: problem.N], x[problem.N :]
            joints = problem.joints
            along = joints.jacobian(t, q, None) @ v + joints.rate(t, q, None)
            return jnp.concatenate([jnp.abs(joints.value(t, q, None)), jnp.abs(along)])

        run = sd.simulate(
            problem, method, t=(0.0, 50.0), dt=0.01, paths=4, seed=3, collect=st.Observable(off, every=500)
        )
        assert run["off"].values.max() < 1e-13


def test_paths_through_a_dead_point_fail():
    """A parallelogram whose bars come to lie on a line may go on as another mechanism: no path is taken through it."""
    flat = FOUR_BAR(bars=(0.5, 1.2, 0.5), ground=1.2, angle=0.3, rate=-8.0, noise=0.3)
    with pytest.raises(PathsFailed, match="reaches a singular configuration"):
        sd.simulate(flat.problem, "RattleAlpha", t=(0.0, 0.06), dt=0.01, paths=2, seed=1)


def test_accelerations_are_those_along_the_constraints():
    """At the start of a swing from rest g sin θ along the circle, and no force of the rod."""
    problem = Mechanical(
        lambda t, x, v: jnp.array([0.0, -9.81]), None, ([0.6, -0.8], [0.0, 0.0]), accelerations=True,
        constraints=lambda t, x: x @ x - 1.0,
    )  # fmt: skip
    for method in (RattleAlpha, Rattle):
        run = sd.simulate(problem, method, t=(0.0, 0.01), dt=0.01, paths=1, seed=0)
        assert np.allclose(run["mean"].values[0, 4:], -9.81 * 0.6 * np.array([0.8, 0.6]), rtol=1e-13)


def test_a_step_longer_than_the_joint_bends_says_so():
    """On a circle of radius R no step has h |v| > R: the paths stop, and the advice names it."""
    with pytest.raises(Exception, match=r"h .v. > R on a circle of radius R"):
        sd.simulate(JOINTED_PENDULUM(rate=30.0).problem, "RattleAlpha", t=(0.0, 0.2), dt=0.05, paths=2, seed=0)


def test_steps_that_differ_keep_the_joint_and_the_order():
    """A damped pendulum by its rod, with steps that are 1 and 2 long in turn, against its angle solved to 1e-10: an
    error of order 2, the joint to rounding."""
    rod = sd.Mechanical(lambda t, x, v: jnp.array([0.0, -9.81]) - 0.3 * v, None, ([0.6, -0.8], [0.4, 0.3]),
                        constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None])  # fmt: skip
    turned = scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -9.81 * np.sin(y[0]) - 0.3 * y[1]], (0, 1), [np.arctan2(0.6, 0.8), 0.5], rtol=1e-10,
        atol=1e-12,
    )  # fmt: skip
    errors = []
    for count in (64, 256):
        lengths = np.tile([1.0, 2.0], count // 2) / (1.5 * count)
        run = sd.simulate(rod, RattleAlpha, t=(0.0, 1.0), dt=lengths, paths=1, seed=1, threads=1,
                          collect=st.Paths(1, at=[1.0]))  # fmt: skip
        x = run["path"].values[0, 0]
        assert abs(x[:2] @ x[:2] - 1.0) < 1e-14
        errors.append(abs(x[0] - np.sin(turned.y[0, -1])))
    assert errors[1] < 2e-5 and errors[0] > 12.0 * errors[1], errors


def test_a_plan_along_joints_is_made_in_minimal_coordinates():
    with pytest.raises(TypeError, match=r"sd.problems.in_minimal_coordinates\(...\), and give the"):
        sd.plan(JOINTED_PENDULUM.problem, RattleAlpha)


KICKED_TWICE = (lambda t, x, v: jnp.diag(jnp.array([12.0, 9.0]))), (1.0, 1.5, 2.0)
SHEARED = (lambda t, x, v: jnp.stack([6.0 + 3.0 * jnp.sin(v[1]), 3.0 * x[0] + jnp.cos(v[0])])[:, None]), (1.0, 1.5)


@pytest.mark.long("tests/claims measures these orders with one channel and noise that does not depend on v")
@pytest.mark.parametrize(("noise", "expected"), [KICKED_TWICE, SHEARED], ids=["two channels", "noise of x and v"])
def test_strong_orders_against_the_angle_on_the_same_paths(noise, expected):
    """A rod kicked so strongly that the errors of the noise rule at these steps."""
    rod = dataclasses.replace(JOINTED_PENDULUM.problem, noise=noise)
    embedding, steps, T = JOINTED_PENDULUM.exact["embedding"], (32, 64, 128), 0.25
    angle = in_minimal_coordinates(rod, embedding, ([1.0], [0.5]))
    methods = (RattleAlpha, RattleAlpha15, ProjectedAlpha)[: len(expected)]
    runs = [PathRun(one, tuple(512 // count for count in steps)) for one in methods]
    paths = 100 if len(expected) == 3 else 500
    ((W, (truth,)),) = common_paths(angle, [PathRun(StochasticAlpha20)], (0.0, T), 512, paths, 1)
    ((W_too, ends),) = common_paths(rod, runs, (0.0, T), 512, paths, 1)
    assert np.array_equal(W, W_too)
    right = at_points(lambda u: placed(embedding, T, u), truth[:, 0])
    rms = [np.sqrt(np.mean(np.sum((x[:, :, :4] - right[:, None]) ** 2, axis=2), axis=0)) for x in ends]
    orders = [0.5 * np.log2(errors[0] / errors[-1]) for errors in rms]
    np.testing.assert_allclose(orders, expected, atol=0.2)


@pytest.mark.parametrize(
    ("method", "error"), [(ProjectedAlpha(order=2.0), 1e-13), (ShiftedRattle, 1e-13), (RattleAlpha, 1e-4)], ids=repr
)
def test_impulses_are_what_holds_a_path_against_its_forces(method, error):
    """x0 = 0 under the force t + 1/2 and the noise 0.7 W across the joint: impulses of T²/2 + T/2 + 0.7 W. The
    acceleration along the joint is the force at the end of the step."""
    problem = Mechanical(lambda t, x, v: jnp.stack([t + 0.5, 3.0 * t - x[1]]),
                         lambda t, x, v: jnp.array([[0.7], [0.3]]), ([0.0, 1.0], [0.0, 0.5]),
                         constraints=lambda t, x: x[:1], impulses=True, accelerations=True)  # fmt: skip
    T, W = 3 * H, sum(increments(n)[0] for n in range(3))
    if isinstance(method, type(ProjectedAlpha)):
        assert method.needs == Words() and method(order=1.0).needs == SecondMoments(4)
    x0, x1, v0, _, a0, a1, Λ = walk(problem, method, steps=3)
    np.testing.assert_allclose([x0, v0, a0, a1], [0.0, 0.0, 0.0, 3.0 * T - x1], atol=1e-13)
    assert pytest.approx(0.5 * T**2 + 0.5 * T + 0.7 * W, abs=error) == Λ


def pendulums(angles, friction=0.3, spring=0.0, torque=False):
    """Masses on rods that do not touch each other, pushed by one white force or torque."""
    n = len(angles)
    on_circle = np.stack([np.sin(angles), -np.cos(angles)], axis=1)
    start = on_circle.ravel(), (0.3 * on_circle[:, ::-1] * [-1.0, 1.0]).ravel()

    def push(t, x, v):
        turned = (
            x.reshape(n, 2)[:, ::-1] * jnp.array([-1.0, 1.0]) if torque else jnp.tile(jnp.array([1.5, 0.5]), (n, 1))
        )
        return turned.reshape(2 * n, 1)

    return Mechanical(
        lambda t, x, v: jnp.tile(jnp.array([0.0, -9.81]), n) - friction * v - spring * x**3, push, start,
        constraints=lambda t, x: 0.5 * (jnp.sum(x.reshape(n, 2) ** 2, axis=1) - 1.0), impulses=True,
    )  # fmt: skip


@pytest.mark.parametrize("forces", [{"torque": True, "spring": 2.0}, {"friction": 0.0, "spring": 2.0}], ids=str)
def test_pendulums_apart_move_as_each_by_itself(forces):
    """Five have fifteen unknowns, which are eliminated as a sparse system; one has three, eliminated as a dense one."""
    together, alone = (pendulums(angles, **forces) for angles in (np.linspace(0.4, 1.2, 5), np.array([1.2])))
    traced = trace(together, RattleAlpha)
    assert traced.unprintable is None and holds(traced.step, "execute_instructions")
    parts, expected = np.split(walk(together, RattleAlpha, 2), (10, 20)), np.split(walk(alone, RattleAlpha, 2), (2, 4))
    for whole, last in zip(parts, expected, strict=True):
        np.testing.assert_allclose(whole[-len(last) :], last, rtol=1e-11)
