"""Constraints of mechanical systems: the fields along them, equal to minimal coordinates; what is refused, and how."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.program import executors
from stodyn.methods.projected_alpha import ProjectedAlpha
from stodyn.methods.recommend import recommended
from stodyn.models.jointed import (
    CRANK,
    FOUR_BAR,
    HOISTING_CRANE,
    JOINTED_PENDULUM,
    PENDULUM_CHAIN,
    SPHERICAL_PENDULUM,
    four_bar,
)
from stodyn.models.rigid_body import RIGID_BODY, rigid_body
from stodyn.noise import coloured
from stodyn.noise.source import PerPath
from stodyn.numerics import uncompiled
from stodyn.numerics.banded import Band
from stodyn.numerics.facts.dependence import arguments_of
from stodyn.numerics.printing.points import at_one
from stodyn.problems.as_first_order import mechanical_to_sde
from stodyn.problems.joints import Frame, factorised
from stodyn.problems.joints_diagnosis import JointsDiagnosis, diagnose
from stodyn.problems.mechanical import Mechanical
from stodyn.warnings import Drifting, StartMoved

θ = 1.0
ON, ALONG = np.array([np.sin(θ), -np.cos(θ)]), 0.5 * np.array([np.cos(θ), np.sin(θ)])


def pendulum(
    constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None], start=(ON, ALONG), mass=None, noise=(1.5, 0.0), **more
):
    return Mechanical(
        lambda t, x, v, *p: jnp.concatenate([jnp.array([0.0, -9.81]), jnp.zeros(len(x) - 2)]),
        lambda t, x, v, *p: jnp.concatenate([jnp.asarray(noise), jnp.zeros(len(x) - 2)])[:, None],
        start, mass, constraints=constraints, **more,
    )  # fmt: skip


def refused(match, problem, **options):
    with pytest.raises((ValueError, TypeError), match=match):
        sd.simulate(problem, t=(0.0, 0.02), dt=0.01, paths=2, seed=0, **options)


# --- the equations ----------------------------------------------------------------------------------------------------


@pytest.mark.brief("pendulum_chain", "four_bar", "hoisting_crane", "rigid_body")
@pytest.mark.parametrize(
    "model", [JOINTED_PENDULUM, PENDULUM_CHAIN, SPHERICAL_PENDULUM, CRANK, FOUR_BAR, HOISTING_CRANE, RIGID_BODY],
    ids=lambda model: model.name,
)  # fmt: skip
def test_accelerations_and_kicks_are_those_of_minimal_coordinates(model):
    """a = J a_u + κ and b = J b_u at a state of the constraints: moving joints too."""
    problem, minimal, embedding = model.problem, model.exact["minimal"](), model.exact["embedding"]
    t, u, w = 0.3, np.array([0.4, 0.5, -0.3]), np.array([0.7, -1.1, 0.4])
    u, w = u[: minimal.N], w[: minimal.N]

    def both(u, w):
        def place(s):
            return embedding(t + s, u + s * w + 0.5 * s**2 * minimal.acceleration(t, u, w, u[:0], None))

        def slope(s):
            return jax.jvp(place, (s,), (jnp.ones(()),))[1]

        (v, a), q = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),)), embedding(t, u)
        J = jax.jacfwd(lambda u: embedding(t, u))(u)
        found = problem.acceleration(t, q, v, q[:0], None), problem.motion.kicks(t, q, v, q[:0], None)
        rate = problem.joints.jacobian(t, q, None) @ v + problem.joints.rate(t, q, None)
        return jnp.concatenate(
            [a - found[0], jnp.ravel(J @ minimal.motion.kicks(t, u, w, u[:0], None) - found[1]), rate]
        )

    assert np.abs(uncompiled.value(both, u, w)).max() < 2e-13


def test_a_singular_mass_has_the_same_motion_and_multiplier():
    """M of rank 3 for the quaternion body, whose parts along q do no work; λ differs from that of M + c G'G by c γ."""
    state = np.array([0.6, 0.3, -0.5, 0.2]), np.array([0.1, 0.5, 0.4, 0.3])
    q = state[0] / np.linalg.norm(state[0])
    v = state[1] - (state[1] @ q) * q
    found = []
    for c in (0.0, 3.0):
        joints = rigid_body(stiffening=c).joints
        found.append(
            uncompiled.value(lambda q, v, joints=joints: jnp.concatenate(joints.accelerated(0.0, q, v, None)), q, v)
        )
    singular, regular = found
    assert np.allclose(singular[:4], regular[:4], rtol=0, atol=1e-12)
    assert not rigid_body(stiffening=0.0).joints.mass_is_regular
    assert abs(singular[4] - (regular[4] + 3.0 * (v @ v - v @ v))) < 1e-11


def test_noise_in_reactions_is_told_and_the_multiplier_refused():
    force, torque = JOINTED_PENDULUM.problem, JOINTED_PENDULUM(torque=1.5).problem
    assert force.diagnose().noisy == ("rod",) and torque.diagnose().noisy == ()
    x = force.example_start()
    with pytest.raises(ValueError, match=r"multiplier: the reaction of 'rod' contains white noise.*impulses=True"):
        force.multiplier(0.0, x)
    λ = float(torque.multiplier(0.0, jnp.asarray(x))[0])
    assert abs(λ - (0.25 + 9.81 * np.cos(1.0))) < 1e-12  # m (θ'² + g cos θ)/L


# --- starts -----------------------------------------------------------------------------------------------------------


def test_a_start_off_the_constraints_is_moved_and_said():
    """Along the rod in the metric of M, and the velocity onto the tangent."""
    problem = pendulum(start=(1.001 * ON, ALONG + 0.2 * ON))
    with pytest.warns(StartMoved, match="was moved: x0 by -0.000841471, x1 by .0.000540302, dx0 by -0.168294") as told:
        run = sd.simulate(problem, t=(0.0, 0.01), dt=0.01, paths=2, seed=0)
    assert told[0].filename == __file__
    first = run["mean"].values[0]
    assert np.allclose(first, np.concatenate([ON, ALONG]), rtol=0, atol=1e-14)
    assert "was moved" in run.attrs["provenance"]


def test_starts_far_away_are_refused_fixed_or_drawn():
    refused(r"start: 0.3 away from the constraints 'g0', more than 10%", pendulum(start=(1.3 * ON, ALONG)))
    drawn = PerPath(np.stack([ON, 1.3 * ON])), PerPath(np.stack([ALONG, ALONG]))
    refused(r"start: 1 of 2 drawn ones are not within 10%", pendulum(start=drawn))


def test_drawn_velocities_off_the_tangent_are_said():
    drawn = PerPath(np.tile(ON, (4, 1))), PerPath(np.stack([ALONG, ALONG, ALONG, ALONG + ON]))
    with pytest.warns(StartMoved, match=r"v by up to 2 of \|v\| in 4 of them"):
        pendulum(start=drawn).before_run(0.0)


def test_drawn_starts_and_parameters_have_their_own_constraints():
    """Rods of different lengths, one for each path."""
    lengths = np.array([0.9, 1.0, 1.1])
    problem = pendulum(
        lambda t, x, p: 0.5 * (x @ x - p["L"] ** 2)[None], params={"L": PerPath(lengths)},
        start=(PerPath(lengths[:, None] * ON), PerPath(np.tile(ALONG, (3, 1)))),
    )  # fmt: skip
    run = sd.simulate(problem, t=(0.0, 0.5), dt=0.01, paths=3, seed=0, collect=st.Paths(3, every=50))
    last = run["path"].isel(time=-1).values
    assert np.allclose(np.linalg.norm(last[:, :2], axis=1), lengths, rtol=0, atol=1e-14)


# --- bad input --------------------------------------------------------------------------------------------------------

REFUSED = {
    "follows": (lambda t, x: jnp.stack([x @ x - 1.0, 3.0 * (x @ x) - 3.0]), "constraints: 'g1' follows from 'g0'"),
    "contradicts": (lambda t, x: jnp.stack([x @ x - 1.0, x @ x - 1.1]), "'g1' and 'g0' contradict each other by 0.0"),
    "nothing moves": (lambda t, x: jnp.stack([x[0] - ON[0], x[1] - ON[1]]), "so that nothing can move"),
    "square": (lambda t, x: ((x @ x - 1.0) ** 2)[None], "the gradient of 'g0' vanishes where the constraint holds"),
    "constant": (lambda t, x: jnp.zeros(1), "the gradient of 'g0' vanishes"),
    "kink": (lambda t, x: jnp.abs(x[:1] - ON[0]), "constraints: 'g0' has a kink where it holds"),
    "one-sided": (lambda t, x: jnp.maximum(x[:1] - ON[0], 0.0), "constraints: 'g0' has a kink where it holds"),
    "impossible": (lambda t, x: (x @ x + 1.0)[None], "constraints|start"),
    "not finite": (lambda t, x: jnp.sqrt(x[0] - 2.0)[None], "not finite at the start"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_constraints_that_cannot_be_are_refused(name):
    constraints, match = REFUSED[name]
    refused(match, pendulum(constraints))


def test_wrong_shapes_names_and_options_are_refused_at_once():
    for match, options in {
        "constraints: must take": {"constraints": lambda x: x @ x},
        "constraints: returned shape": {"constraints": lambda t, x: jnp.eye(2)},
        "constraint_names: expected 1": {"constraint_names": ("a", "b")},
        'redundant: expected "refuse" or "drop"': {"redundant": "keep"},
        "mass: depends on v": {"mass": lambda t, x, v: (1.0 + v @ v) * jnp.eye(2)},
        "impulses: belongs to constraints=": {"constraints": None, "impulses": True},
    }.items():
        with pytest.raises((ValueError, TypeError), match=match):
            pendulum(**options)
    with pytest.raises(ValueError, match=r"multiplier: without constraints"):
        pendulum(constraints=None).multiplier(0.0, jnp.zeros(4))


@pytest.mark.parametrize(
    "blade",
    [
        lambda t, x, v: (v[0] * x[1] - v[1] * x[0])[None],
        lambda t, x, dx, params: dx[:1],
        types.SimpleNamespace(held=lambda t, x, Velocity: Velocity[:1]).held,
    ],
)
@pytest.mark.parametrize("params", [None, np.ones(2)])
def test_constraints_of_velocities_are_refused_by_name(blade, params):
    """As of a blade; one whose third argument is params, by any name that is no velocity's, is taken."""
    with pytest.raises(TypeError, match=r"constraints: '(v|dx|Velocity)' is a velocity by its name.*not offered"):
        pendulum(blade, params=params)
    assert pendulum(lambda t, x, size, v=1.0: 0.5 * (x @ x - v)[None], params=np.ones(2)).joints is not None


def test_a_coordinate_without_inertia_or_constraint_is_named():
    start = np.append(ON, 0.2), np.append(ALONG, 0.0)
    refused("mass: 'x2' can move within the constraints and have no inertia",
            pendulum(start=start, mass=[1.0, 1.0, 0.0], constraints=lambda t, x: (x[:2] @ x[:2] - 1.0)[None]),
            method="ProjectedAlpha")  # fmt: skip
    held = pendulum(
        start=start, mass=[1.0, 1.0, 0.0],
        constraints=lambda t, x: jnp.stack([x[:2] @ x[:2] - 1.0, x[2] - 0.2]),
    )  # fmt: skip
    assert held.diagnose().reason == ""
    refused("RattleAlpha solves with the mass, which is singular here", held, method="RattleAlpha")


def test_a_parallelogram_is_refused_where_it_may_branch():
    """a = c, b = d: σ falls with the angle, and at 0 the bars lie on a line."""
    bars = {"bars": (0.5, 1.2, 0.5), "ground": 1.2, "masses": (1.0, 2.0)}
    σ = [four_bar(**bars, angle=angle).diagnose().sigma for angle in (0.1, 0.01)]
    assert 9.5 < σ[0] / σ[1] < 10.5
    flat = dataclasses.replace(four_bar(**bars, angle=0.5), start=(np.array([0.5, 0.0, 1.7, 0.0]), np.zeros(4)))
    refused("start: is a singular configuration: 'crank', 'coupler', 'rocker' depend on each other there", flat)


def test_dropped_constraints_leave_the_motion_alone():
    def twice(t, x):
        return jnp.stack([0.5 * (x @ x - 1.0), x @ x - 1.0])

    dropped = pendulum(twice, redundant="drop", constraint_names=("rod", "again"), impulses=True)
    assert dropped.components[-1] == "Λ_rod" and dropped.n == 5
    runs = [
        sd.simulate(problem, t=(0.0, 0.1), dt=0.01, paths=3, seed=0)["mean"].values[-1]
        for problem in (dropped, pendulum(impulses=True))
    ]
    assert np.array_equal(*runs)
    with pytest.raises(ValueError, match=r"'g1' and 'g0' contradict each other by 0.0"):
        pendulum(lambda t, x: jnp.stack([x @ x - 1.0, x @ x - 1.05]), redundant="drop")


def test_constraints_that_contradict_each_other_do_so_at_any_size():
    """Rods of 0.1 mm that differ by 0.1 nm, 1e-6 of their length: each of them is half of that away."""
    short = 1e-4
    with pytest.raises(ValueError, match=r"constraints: 'g1' and 'g0' contradict each other by 5e-11: no state"):
        pendulum(
            lambda t, x: jnp.stack([x @ x - short**2, x @ x - short**2 * (1.0 + 2e-6)]), (short * ON, ALONG),
            redundant="drop",
        )  # fmt: skip


def test_a_constraint_that_never_holds_is_not_one_to_drop():
    problem = pendulum(lambda t, x: (x @ x + 1.0)[None], redundant="drop")
    refused("start: Newton finds no state near", problem)


def test_as_an_sde_a_problem_without_noise_has_an_idle_channel():
    sde, _ = mechanical_to_sde(dataclasses.replace(pendulum(), noise=None))
    np.testing.assert_array_equal(sde.g(0.0, np.concatenate([ON, ALONG]), None), np.zeros((4, 1)))


def test_a_singular_mass_gets_the_method_that_takes_it():
    assert recommended(rigid_body(stiffening=0.0)) is ProjectedAlpha
    plate = sd.bodies.mechanism([sd.bodies.Body(name="plate", mass=1.0, inertia=(0.1, 0.2, 0.3))])
    assert recommended(plate) == ProjectedAlpha(order=1.0)
    assert recommended(RIGID_BODY.problem).name == "RattleAlpha"


@pytest.mark.parametrize(
    ("force", "torque"),
    [("x0", lambda t, x, v: jnp.cos(x)), (lambda t, x, v: jnp.stack([-x[1], x[0]]), 1.0)],
    ids=["force", "torque"],
)
def test_coloured_noise_beside_constraints_is_that_of_the_angle(force, torque):
    """Rod and angle see the same noise, and both methods have order 2: half the step, a quarter of the difference. The
    multiplier exists, and its mean is that of m |v|² + x · force."""
    noise = coloured.gauss_markov(3.0, 0.3)
    rod = sd.with_noise(dataclasses.replace(pendulum(), noise=None), noise, force)
    angle = sd.with_noise(Mechanical(lambda t, x, v: -9.81 * jnp.sin(x), None, (θ, 0.5)), noise, torque)
    off = []
    for dt in (0.04, 0.02):
        ends = [
            sd.simulate(problem, t=(0.0, 1.0), dt=dt, paths=100, seed=3, collect=[st.Paths(100, at=[1.0]), *more])
            for problem, more in ((rod, [st.Observable(rod.multiplier, at=[1.0])]), (angle, []))
        ]
        x, y, vx, vy, c = (ends[0]["path"].sel(component=name).values for name in ("x0", "x1", "dx0", "dx1", "y"))
        assert np.array_equal(c, ends[1]["path"].sel(component="y").values)
        off.append(np.sqrt(np.mean((x - np.sin(ends[1]["path"].sel(component="x").values)) ** 2)))
        λ = vx**2 + vy**2 - 9.81 * y + (x * c if force == "x0" else 0.0)
        np.testing.assert_allclose(ends[0]["multiplier"].values.ravel(), λ.mean(), rtol=1e-10)
    assert off[0] < 3e-3 and off[0] / off[1] == pytest.approx(4.0, abs=0.2)


@pytest.mark.brief("Rattle", "ConstrainedBAOAB", "ProjectedAlpha")
@pytest.mark.parametrize(
    "method", ["RattleAlpha15", "Rattle", "ShiftedRattle", "ShiftedRattle15", "ConstrainedBAOAB", "ProjectedAlpha"]
)
def test_coloured_noise_enters_the_steps_of_all_joint_methods(method):
    """Position and velocity differ from those of RattleAlpha by errors of order 2, on the same noise, and impulses by
    errors of order 1.5 at least."""
    noise = coloured.gauss_markov(3.0, 0.3)
    for into in ("x0", lambda t, x, v: jnp.stack([-x[1], x[0]])):
        rod = sd.with_noise(dataclasses.replace(pendulum(), noise=None, impulses=True), noise, into)
        off = []
        for dt in (0.04, 0.01):
            ends = [
                sd.simulate(rod, name, t=(0.0, 1.0), dt=dt, paths=60, seed=3, collect=st.Paths(60, at=[1.0]))
                for name in (method, "RattleAlpha")
            ]
            apart = ends[0]["path"] - ends[1]["path"]
            off.append([float(np.sqrt((apart.sel(component=name) ** 2).mean())) for name in ("x0", "dx0", "Λ_g0")])
        coarse, fine = np.array(off)
        assert (coarse < [0.02, 0.03, 0.1]).all() and (fine <= coarse / [11.0, 11.0, 6.0] + 1e-12).all(), off


def test_coloured_noise_beside_constraints_is_refused_where_no_step_takes_it():
    driven = sd.with_noise(pendulum(), coloured.gauss_markov(1.0, 0.5), into=lambda t, x, v: jnp.stack([v[0], v[1]]))
    refused("Rattle takes coloured noise that does not depend on v", driven, method="Rattle")
    refused("ConstrainedBAOAB takes coloured noise that does not depend on v", driven, method="ConstrainedBAOAB")
    driven = sd.with_noise(pendulum(), coloured.gauss_markov(1.0, 0.5), into="x0")
    refused("Heun takes SDE problems", driven, method="Heun")
    with pytest.raises(ValueError, match="constraints and a singular mass, which cannot be combined with coloured"):
        sd.with_noise(rigid_body(stiffening=0.0), coloured.gauss_markov(1.0, 0.5), into=0)
    with pytest.raises(ValueError, match="multiplier: the reaction of 'g0' contains white noise"):
        driven.multiplier(0.0, jnp.ones(5))


def test_methods_that_know_no_constraints_refuse_them_or_warn():
    refused("StochasticAlpha takes no constraints.*RattleAlpha", pendulum(), method="StochasticAlpha")
    with pytest.warns(Drifting, match="positions drift off them"):
        run = sd.simulate(pendulum(), "EulerMaruyama", t=(0.0, 0.02), dt=0.01, paths=2, seed=0)
    assert "positions drift off" in run.attrs["provenance"]
    refused("RattleAlpha is made for constraints", pendulum(constraints=None), method="RattleAlpha")


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("masses", [None, [1.0, 1e6, 3.0]])
def test_constraints_are_independent_whatever_their_units_until_they_are_parallel(scale, masses):
    """Two planes through the origin, of which the second is turned by an angle and written in another unit."""

    def is_regular(angle):
        def planes(t, x):
            return jnp.stack([x[0], scale * (jnp.cos(angle) * x[0] + jnp.sin(angle) * x[2])])

        system = sd.Mechanical(lambda t, x, v: -x, None, (np.zeros(3), np.zeros(3)), mass=masses, constraints=planes)
        return bool(Frame(system.joints, 0.0, jnp.zeros(3), None).is_regular)

    with jax.enable_x64(True):
        assert is_regular(1e-4) and is_regular(1.0)
        assert not is_regular(1e-8)


def test_a_diagnosis_in_words():
    given = dict(reason="", names=("a", "b"), degrees=3, sigma=0.25, noisy=(), start=np.zeros(2), moved={"x": 0.0})
    assert str(JointsDiagnosis(**given)) == "2 constraint(s) a, b, 3 degree(s) of freedom; lowest singular value 0.25"
    moved = str(JointsDiagnosis(**given | {"noisy": ("b",), "moved": {"x": 0.5}}))
    assert moved.endswith(
        "0.25; white noise in the reaction of b; the start did not satisfy the constraints and was moved: x by +0.5"
    )
    assert (
        str(JointsDiagnosis(**given | {"reason": "constraints: two are one"}))
        == "cannot be run: constraints: two are one"
    )


def test_a_force_that_cannot_be_taken_apart_may_depend_on_everything():
    def pendulum(force):
        start = ([0.6, -0.8], [0.0, 0.0])
        return sd.Mechanical(force, None, start, constraints=lambda t, x: x @ x - 1.0).joints

    weight = jnp.array([0.0, -9.81])
    assert pendulum(lambda t, x, v: weight).force_is_free_of_state
    assert not pendulum(lambda t, x, v: weight - 0.1 * v).force_is_free_of_state
    opaque = pendulum(lambda t, x, v: jnp.linalg.solve((1.0 + t) * jnp.eye(2), weight))
    assert not opaque.force_is_free_of_state
    assert opaque.reached(lambda t, q, v, p: jnp.linalg.solve((1.0 + t) * jnp.eye(2), weight)) == {0, 1, 2, 3}
    assert opaque.reached(lambda t, q, v, p: q * t) == {0, 1}


def test_many_constraints_of_a_chain_are_solved_in_its_band():
    """G M⁻¹ Gᵀ of 14 rods joins each with the next; of 12 it is written out."""
    bend = np.linspace(0.2, 1.0, 14)
    chain = PENDULUM_CHAIN(masses=(1.0,) * 14, lengths=(1.0,) * 14, angles=bend, rates=0.0 * bend).problem.joints
    A = np.diag(np.arange(3.0, 17.0)) + np.diag(np.linspace(-1.0, 1.0, 13), 1) + np.diag(np.linspace(0.5, 1.0, 13), -1)
    right = np.linspace(1.0, 2.0, 14)
    solved = uncompiled.value(lambda A, right: factorised(chain, A)(right), A, right)
    np.testing.assert_allclose(solved, np.linalg.solve(A, right), rtol=1e-12)
    newton = uncompiled.value(lambda u: chain.solver["solve"](lambda u: A @ u, u, jnp.asarray(right)), right)
    np.testing.assert_allclose(newton, solved, rtol=1e-12)
    short = PENDULUM_CHAIN(masses=(1.0,) * 12, lengths=(1.0,) * 12, angles=bend[:12], rates=0.0 * bend[:12])
    assert isinstance(chain.order, Band) and short.problem.joints.order is None and short.problem.joints.solver == {}


def test_a_singular_mass_is_stiffened_by_constraints_of_its_size():
    """s = tr M / tr GᵀG: 2/10 for masses 2 and 0 joined by x1 = 3 x0; 0 for a regular mass."""
    for mass, expected in (([2.0, 0.0], 0.2), ([2.0, 1.0], 0.0)):
        problem = sd.Mechanical(lambda t, x, v: -x, None, ([1.0, 3.0], [0.0, 0.0]), mass=mass,
                                constraints=lambda t, x: x[1] - 3.0 * x[0])  # fmt: skip
        assert problem.joints.stiffening == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_a_start_at_zero_satisfies_a_constraint_but_for_rounding(size):
    """A bead at (1, 1.1) size + x on a circle through x = 0: a distance of 2 ε size is rounding, however small x is."""
    radius = np.hypot(size, 1.1 * size) * (1.0 + np.finfo(float).eps)
    place, nowhere = lambda x: jnp.hypot(size + x[0], 1.1 * size + x[1]), ([0.0, 0.0], [0.0, 0.0])
    problem = pendulum(lambda t, x: (place(x) - radius)[None], nowhere)
    diagnosis = diagnose(problem.joints, 0.0)
    assert diagnosis.reason == "" and diagnosis.start.tolist() == [0.0, 0.0, 0.0, 0.0]
    q, _ = at_one(lambda q, v: problem.joints.consistent(0.0, q, v, ()), np.zeros(2), np.zeros(2))
    assert np.abs(q).max() < 1e-15 * size
    away = pendulum(lambda t, x: (place(x) - 1.01 * radius)[None], nowhere)
    assert "away from the constraints" in diagnose(away.joints, 0.0).reason


def test_a_light_coordinate_has_inertia():
    """1e-6 beside 1e6: the units of the coordinates decide, and none of them is massless; 0 is, unless it is led."""
    together = lambda t, x: (x[0] - x[1])[None]  # noqa: E731
    start = ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    light = pendulum(together, start, np.diag([1e6, 1e6, 1e-6]))
    assert diagnose(light.joints, 0.0).reason == ""
    led = pendulum(together, start, np.diag([1e-12, 0.0, 1e6]))
    assert diagnose(led.joints, 0.0).reason == ""
    none = pendulum(together, start, np.diag([1e6, 1e6, 0.0]))
    assert "have no inertia there" in diagnose(none.joints, 0.0).reason
    less = pendulum(together, start, np.diag([1e6, 1e6, -1e-6]))
    assert "is negative along the constraints" in diagnose(less.joints, 0.0).reason


# --- what is known of many joints before a run ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraints", "force", "noise"),
    [
        (lambda t, x: 0.5 * (x @ x - 1.0)[None], lambda t, x, v: -0.3 * v, lambda t, x, v: jnp.ones((2, 2))),
        (lambda t, x: 0.5 * (x @ x - 1.0 - jnp.sin(t))[None], lambda t, x, v: -x, lambda t, x, v: jnp.ones((2, 1))),
        (lambda t, x: 0.5 * (x @ x / (1.0 + t) ** 2 - 1.0)[None], lambda t, x, v: -x, None),
        (lambda t, x: (x[0] - 2.0 * x[1])[None], lambda t, x, v: -x, lambda t, x, v: jnp.eye(2)),
        (lambda t, x: (x[0] - 2.0 * x[1])[None], lambda t, x, v: -(v**3), lambda t, x, v: v[:, None]),
        (lambda t, x: (x[0] - (2.0 + t) * x[1])[None], lambda t, x, v: -x, lambda t, x, v: x[:, None]),
    ],
    ids=["rod", "pulled rod", "growing rod", "guide", "guide and friction", "turning guide"],
)
def test_facts_come_from_the_free_motion_and_the_slopes(constraints, force, noise):
    """As the traces of the motion along the constraints tell them, which are long for many joints."""
    problem = sd.Mechanical(force, noise, start=([0.6, 0.3], [0.0, 0.0]), constraints=constraints)
    motion, arguments = problem.motion, (0.0, np.ones(2), np.ones(2), np.ones(0), problem.example_params())
    kicked, pulled = (arguments_of(f, *arguments) for f in (motion.kicks, motion.acceleration))
    facts = problem.facts
    assert (facts.noise_on_t, facts.noise_on_x, facts.noise_on_v) == tuple(k in kicked for k in range(3))
    assert facts.force_on_v == (2 in pulled)


def test_noise_of_joints_is_known_without_sampling():
    """It acts on v and depends on x alone, so that its channels commute, however many joints there are."""
    rods = sd.Mechanical(
        lambda t, x, v: -0.3 * v, lambda t, x, v: jnp.eye(4), start=([0.6, -0.8, 0.8, 0.6], [0.0] * 4),
        constraints=lambda t, x: 0.5 * (jnp.sum(x.reshape(2, 2) ** 2, axis=1) - 1.0),
    )  # fmt: skip
    assert str(rods.noise_structure) == "commutative (proved from the trace)"


@pytest.mark.parametrize(
    ("operations", "mostly_zeros", "route"),
    [(50_000, False, "scalars"), (200_000, False, "loops"), (450_000, True, "scalars")],
)
def test_steps_of_many_joints_are_not_written_as_scalars_first(operations, mostly_zeros, route, monkeypatch):
    """A chain of 50 with friction took 10 s longer: its scalars were written and then given up as too many. Of bodies
    they are few."""
    problem = types.SimpleNamespace(n=200, joints=object(), writes_out=False, mostly_zeros=mostly_zeros)
    spec = types.SimpleNamespace(problem=problem, traced=types.SimpleNamespace(operations=operations))
    monkeypatch.setattr(executors, "scalar_source", lambda *arguments: "scalars")
    monkeypatch.setattr(executors, "Loops", lambda *arguments: "loops")
    assert executors.source_of(spec, None, executors.LOOPED) == route
