"""Methods for mechanical systems with joints along prescribed increments, against tabulated values of another code."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.methods.alpha import StochasticAlpha
from stodyn.methods.projected_alpha import ProjectedAlpha
from stodyn.methods.rattle_alpha import RattleAlpha, RattleAlpha15
from stodyn.models.jointed import CRANK, FOUR_BAR, HOISTING_CRANE, JOINTED_PENDULUM, PENDULUM_CHAIN, SPHERICAL_PENDULUM
from stodyn.models.rigid_body import RIGID_BODY, body_rates
from stodyn.noise.increment import Increment
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.mechanical import Mechanical

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


PAPER = ProjectedAlpha(order="paper")
FORCE = JOINTED_PENDULUM(impulses=True)
FRICTION = FORCE(friction=0.6)
TABLE = {
    "A force": (FORCE, PAPER, "-.808046016185 -.589119373071 -.704228656655 .965931840821 12.445440608329"),
    "B force": (FORCE, RattleAlpha, "-.810065602169 -.586339253490 -.687557126013 .949904639668 12.440923634524"),
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


@pytest.mark.parametrize("name", [*TABLE, *(WHOLE_TABLE if os.environ.get("STODYN_FULL") else ())])
def test_tabulated_paths(name):
    """To the digits of a code without any line in common: x, v and impulses after 32 steps. STODYN_FULL=1 asks all."""
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


@pytest.mark.parametrize("method", [RattleAlpha(rho=0.0), PAPER(rho=0.0)], ids=lambda method: method.name)
def test_a_linear_constraint_is_the_alpha_step_in_minimal_coordinates(method):
    """x = (u, c u) with a mass matrix: the same numbers as of u alone."""
    c, M = 0.7, np.array([[2.0, 0.3], [0.3, 1.5]])
    J = np.array([1.0, c])

    def force(t, x, v):
        return jnp.stack([-4.0 * jnp.sin(x[0]) - 0.5 * v[1], -(x[1] ** 3) - 0.3 * v[0]])

    push = np.array([0.8, -0.4])
    held = Mechanical(
        force,
        lambda t, x, v: jnp.asarray(push)[:, None],
        (0.9 * J, 0.2 * J),
        M,
        constraints=lambda t, x: x[1:] - c * x[0],
    )
    minimal = Mechanical(
        lambda t, u, w: (J @ force(t, u * J, w * J))[None], lambda t, u, w: jnp.full((1, 1), J @ push), ([0.9], [0.2]),
        [J @ M @ J],
    )  # fmt: skip
    a, b = walk(held, method), walk(minimal, StochasticAlpha(rho=0.0))
    assert np.abs(a - np.concatenate([b[0] * J, b[1] * J])).max() < 1e-13


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
            problem, method, t=(0.0, 50.0), dt=0.01, paths=4, seed=3, collect=sd.statistics.Observable(off, every=500)
        )
        assert run["off"].values.max() < 1e-13


def test_a_step_longer_than_the_joint_bends_says_so():
    """On a circle of radius R no step has h |v| > R: the paths stop, and the advice names it."""
    with pytest.raises(Exception, match=r"h .v. > R on a circle of radius R"):
        sd.simulate(JOINTED_PENDULUM(rate=30.0).problem, "RattleAlpha", t=(0.0, 0.2), dt=0.05, paths=2, seed=0)


def test_the_page_runs():
    """The program of docs/constrained_mechanics.md."""
    page = (Path(__file__).parents[2] / "docs" / "constrained_mechanics.md").read_text()
    seen: dict = {}
    exec(page.split("```python\n")[1].split("```")[0].replace("paths=1000", "paths=4"), seen)
    assert seen["run"]["reaction"].shape[1] == 1 and np.isfinite(seen["run"]["reaction"].values[-1]).all()
