"""Rigid bodies with joints, against minimal coordinates and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods.rattle_alpha import RattleAlpha
from stodyn.noise.increment import Increment
from stodyn.numerics import elimination
from stodyn.numerics.printing.points import AtPoints, at_one
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.problems.bodies import (
    Body,
    Cylindrical,
    Fixed,
    Force,
    Prismatic,
    Revolute,
    Rod,
    Spherical,
    Spring,
    Torque,
    Universal,
    mechanism,
)
from stodyn.problems.minimal import placed

WEIGHT = (0.0, 0.0, -9.81)
J = (0.1, 0.12, 0.05)


def links(t, u):
    """Centres and directors of bodies of length 1 that hang one from the other, turned by u about y."""
    place, poses = jnp.zeros(3), []
    for a in u:
        c, s = jnp.cos(a), jnp.sin(a)
        D = jnp.stack([jnp.stack([c, 0 * c, s]), jnp.stack([0 * c, 1 + 0 * c, 0 * c]), jnp.stack([-s, 0 * c, c])])
        poses.append(jnp.concatenate([place - 0.5 * D[2], D.ravel()]))
        place = place - D[2]
    return jnp.concatenate(poses)


def test_a_double_pendulum_with_springs_is_that_of_lagrange():
    """Hinges with springs, dampers and noise, a spring to the ground, gravity: the accelerations of Lagrange's
    equations in two angles, and kicks along the joints."""
    u, w = np.array([1.0, 0.5]), np.array([0.5, -0.3])
    q, v = np.split(np.asarray(at_one(lambda s: placed(links, 0.0, s), np.concatenate([u, w]))), 2)
    masses, inertias = (1.0, 2.0), ((0.1, 0.1, 0.05), (0.3, 0.2, 0.15))
    bodies = []
    for k, name in enumerate(("upper", "lower")):
        own, moved = q[12 * k : 12 * k + 12], v[12 * k : 12 * k + 12]
        D, W = own[3:].reshape(3, 3), moved[3:].reshape(3, 3)
        rates = 0.5 * np.cross(D, W).sum(axis=0)
        bodies.append(Body(name=name, mass=masses[k], inertia=inertias[k], at=own[:3], turned=D.T, velocity=moved[:3],
                           rates=rates))  # fmt: skip
    problem = mechanism(
        bodies,
        [Revolute(None, "upper", axis=(0, 1, 0), damping=0.2, stiffness=0.7),
         Revolute("upper", "lower", at=2.0 * q[:3], axis=(0, 1, 0), damping=0.3, stiffness=0.4, noise=0.6),
         Spring(None, "lower", at=((1, 0, 0), q[12:15]), stiffness=3.0, damping=0.1, length=0.2),
         Spring("upper", "lower", at=(q[:3], q[12:15]), stiffness=2.0, damping=0.5, length=0.1)],
        gravity=WEIGHT,
    )  # fmt: skip

    def kinetic(u, w):
        v = jnp.split(placed(links, 0.0, jnp.concatenate([u, w])), 2)[1]
        return 0.5 * v @ (jnp.asarray(problem.mass_matrix) @ v)

    def length(u):
        d = links(0.0, u)[12:15] - jnp.array([1.0, 0.0, 0.0])
        return jnp.sqrt(d @ d)

    def between(u):
        d = links(0.0, u)[12:15] - links(0.0, u)[:3]
        return jnp.sqrt(d @ d)

    def potential(u):
        x = links(0.0, u)
        hinges = 0.7 * (u[0] - 1.0) ** 2 + 0.4 * (u[1] - u[0] + 0.5) ** 2 + 3.0 * (length(u) - 0.2) ** 2
        return 9.81 * (x[2] + 2.0 * x[14]) + 0.5 * hinges + (between(u) - 0.1) ** 2

    def off(u, w):
        turned = jax.jacfwd(jax.grad(kinetic, 1), 0)(u, w) @ w
        along, apart = jax.grad(length)(u), jax.grad(between)(u)
        drag = jnp.stack([0.2 * w[0] - 0.3 * (w[1] - w[0]), 0.3 * (w[1] - w[0])])
        drag = drag + 0.1 * along * (along @ w) + 0.5 * apart * (apart @ w)
        M = jax.hessian(kinetic, 1)(u, w)
        a = elimination.solve(M, jax.grad(kinetic)(u, w) - turned - jax.grad(potential)(u) - drag)
        b = elimination.solve(M, 0.6 * jnp.array([1.0, -1.0]))  # u turns about -y

        def slope(u):
            return jax.jvp(lambda u: links(0.0, u), (u,), (w,))[1]

        bent, jacobian = jax.jvp(slope, (u,), (w,))[1], jax.jacfwd(lambda u: links(0.0, u))(u)
        x = jnp.concatenate([links(0.0, u), slope(u)])
        found, pushed = problem.f(0.0, x, None)[24:], problem.g(0.0, x, None)[24:, 0]
        energies = problem.energy(0.0, x) - kinetic(u, w) - potential(u)
        return jnp.concatenate([found - jacobian @ a - bent, pushed - jacobian @ b, energies[None]])

    assert problem.diagnose().degrees == 2
    assert np.abs(at_one(off, u, w)).max() < 1e-12


@pytest.mark.brief("Prismatic-1", "Fixed-6")
@pytest.mark.parametrize(
    ("joint", "degrees"),
    [
        (Spherical(None, "b"), 3), (Revolute(None, "b", axis=(1, 2, 3)), 1), (Prismatic(None, "b", axis=(1, 1, 0)), 1),
        (Cylindrical(None, "b", axis=(0, 1, 1)), 2), (Universal(None, "b"), 2), (Fixed("a", "b"), 6),
        (Rod("a", "b", at=((0, 0, 0), (1, 0, 0))), 11), (Spring("a", "b", at=((0, 0, 0), (1, 0, 0)), stiffness=1), 12),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)  # fmt: skip
def test_joints_leave_their_degrees_of_freedom(joint, degrees):
    bodies = [
        Body(name=name, mass=2.0, inertia=J, at=(x, 0, 0), turned=(0.1, 0.3, -0.2))
        for name, x in (("a", 0.2), ("b", 1.0))
    ]
    used = bodies if joint.a == "a" else bodies[1:]
    diagnosis = mechanism(used, [joint]).diagnose()
    assert diagnosis.degrees == degrees and not diagnosis.reason and not diagnosis.move


def test_a_closed_loop_of_parallel_hinges_drops_what_follows():
    """A four-bar linkage: one degree of freedom, where counting gives 18 - 20 = -2."""
    places = [np.array(p) for p in ((0, 0, 0), (0.27, 0.42, 0), (1.4, 1.0, 0), (1.2, 0, 0))]
    bodies = []
    for k, name in enumerate(("crank", "rod", "rocker")):
        p, q = places[k], places[k + 1]
        turn = np.arctan2(*(q - p)[1::-1])
        bodies.append(Body(name=name, mass=1.0, inertia=(0.01, 0.1, 0.1), at=0.5 * (p + q), turned=(0, 0, turn)))
    ends = [(None, "crank"), ("crank", "rod"), ("rod", "rocker"), ("rocker", None)]
    hinges = [Revolute(a, b, at=place) for (a, b), place in zip(ends, places, strict=True)]
    problem = mechanism(bodies, hinges, gravity=(0, -9.81, 0))
    assert problem.diagnose().degrees == 1 and len(problem.dropped) == 3
    with pytest.raises(ValueError, match="follow"):
        sd.simulate(mechanism(bodies, hinges, redundant="refuse"), t=(0, 1), dt=0.01, paths=1, seed=1)


TWISTS, BARS = (0.6, 1.1), (np.sin(0.6), np.sin(1.1))  # of Bennett's linkage: as long as the sine of its twist


def bennett(t, u):
    """Origins and axes of the three moving bars at the angle u of the first: tan(θ1/2) tan(θ2/2) is constant."""
    α, β = TWISTS
    other = 2.0 * jnp.arctan(np.sin(0.5 * (β + α)) / np.sin(0.5 * (β - α)) / jnp.tan(0.5 * u[0]))
    return open_chain((u[0], other, -u[0]), BARS * 2, TWISTS * 2)


def bricard(t, u):
    """Likewise of the five moving bars of Bricard's linkage of right angles: the angles of its hinges are θ and φ in
    turn, with cos θ + cos φ + cos θ cos φ = 0."""
    other = jnp.arccos(-jnp.cos(u[0]) / (1.0 + jnp.cos(u[0])))
    return open_chain((u[0], other) * 2 + (u[0],), (1.0,) * 5, (0.5 * np.pi, -0.5 * np.pi) * 3)


def open_chain(angles, lengths, twists):
    """Origins and axes at the ends of bars, each turned against the one before by an angle about the axis there and
    by its twist along itself (J. Denavit & R. Hartenberg, J. Appl. Mech. 22 (1955))."""
    place, axes, poses = jnp.zeros(3), jnp.eye(3), []
    for angle, length, twist in zip(angles, lengths, twists, strict=False):
        c, s = jnp.cos(angle), jnp.sin(angle)
        axes = axes @ (jnp.eye(3).at[:2, :2].set(jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])))
        place = place + length * axes[:, 0]
        c, s = np.cos(twist), np.sin(twist)
        axes = axes @ np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
        poses.append(jnp.concatenate([place, axes.T.ravel()]))
    return jnp.concatenate(poses)


def test_bennetts_linkage_moves_in_space():
    """Four bars with hinges in space, which counting holds fast (18 - 20), move where each is as long as the sine of
    its twist (G. Bennett, Engineering 76 (1903)): the accelerations of Lagrange's equation in one angle."""
    u, w = np.array([1.2]), np.array([0.7])
    x = np.asarray(at_one(lambda u: bennett(0.0, u), u))
    bodies = [Body(name=str(k), mass=1.0 + k, inertia=J, at=x[12 * k : 12 * k + 3],
                   turned=x[12 * k + 3 : 12 * k + 12].reshape(3, 3).T) for k in range(3)]  # fmt: skip
    ends = [((0, 0, 0), (0, 0, 1)), *((body.at, body.start.D[2]) for body in bodies)]
    pairs = [(None, "0"), ("0", "1"), ("1", "2"), ("2", None)]
    hinges = [Revolute(a, b, at=at, axis=axis) for (a, b), (at, axis) in zip(pairs, ends, strict=True)]
    problem = mechanism(bodies, hinges, gravity=WEIGHT)
    assert problem.diagnose().degrees == 1 and len(problem.dropped) == 3

    def energies(u, w):
        x, v = jnp.split(placed(bennett, 0.0, jnp.concatenate([u, w])), 2)
        return 0.5 * v @ (jnp.asarray(problem.mass_matrix) @ v), 9.81 * (x[2] + 2.0 * x[14] + 3.0 * x[26])

    def off(u, w):
        def lagrangian(u, w):
            kinetic, potential = energies(u, w)
            return kinetic - potential

        turned = jax.jacfwd(jax.grad(lagrangian, 1), 0)(u, w) @ w
        a = (jax.grad(lagrangian)(u, w) - turned) / jax.hessian(lagrangian, 1)(u, w)[0]
        bent = jax.jvp(lambda u: jax.jvp(lambda u: bennett(0.0, u), (u,), (w,))[1], (u,), (w,))[1]
        q, v = jnp.split(placed(bennett, 0.0, jnp.concatenate([u, w])), 2)
        along = jax.jacfwd(lambda u: bennett(0.0, u))(u) @ a
        accelerations = problem.f(0.0, jnp.concatenate([q, v]), None)[36:] - along - bent
        return jnp.concatenate([accelerations, problem.constraints(0.0, q)])

    off_at = Uncompiled(off)
    for angle in (1.2, 2.0):
        assert np.abs(off_at(np.array([angle]), w)).max() < 1e-11


def test_bricards_linkage_moves_in_space():
    """Six bars with hinges in space, which counting holds fast (30 - 30), move where the twists are right angles in
    turn (R. Bricard, 1927; Y. Chen, Z. You & T. Tarnai, Int. J. Solids Struct. 42 (2005)): the closed form keeps the
    constraints, and the accelerations are those of the equation along it, Jᵀ (M a - f) = 0."""
    u, w = np.array([1.1]), np.array([0.7])
    at_angle = Uncompiled(lambda u: bricard(0.0, u))
    x = np.asarray(at_angle(u))
    bodies = [Body(name=str(k), mass=1.0 + k, inertia=J, at=x[12 * k : 12 * k + 3],
                   turned=x[12 * k + 3 : 12 * k + 12].reshape(3, 3).T) for k in range(5)]  # fmt: skip
    ends = [((0, 0, 0), (0, 0, 1)), *((body.at, body.start.D[2]) for body in bodies)]
    pairs = [(None, "0"), *((str(k), str(k + 1)) for k in range(4)), ("4", None)]
    hinges = [Revolute(a, b, at=at, axis=axis) for (a, b), (at, axis) in zip(pairs, ends, strict=True)]
    problem = mechanism(bodies, hinges, gravity=WEIGHT)
    assert problem.diagnose().degrees == 1 and len(problem.dropped) == 1
    held = Uncompiled(lambda q: problem.constraints(0.0, q))
    assert max(np.abs(held(np.asarray(at_angle(np.array([θ]))))).max() for θ in (0.5, 1.1, 1.6)) < 1e-13

    def motion(u):
        along = jax.jvp(lambda u: bricard(0.0, u), (u,), (w,))[1]
        bent = jax.jvp(lambda u: jax.jvp(lambda u: bricard(0.0, u), (u,), (w,))[1], (u,), (w,))[1]
        return along, bent

    v, bent = map(np.asarray, Uncompiled(motion)(u))
    M, f = problem.mass_matrix, np.asarray(Uncompiled(lambda x: problem.force(0.0, x[:60], x[60:]))(np.append(x, v)))
    a = bent + v * (v @ (f - M @ bent)) / (v @ M @ v)
    found = np.asarray(Uncompiled(lambda x: problem.f(0.0, x, None))(np.append(x, v)))[60:]
    assert np.abs(found - a).max() < 1e-11 * np.abs(a).max()


def test_a_top_precesses_and_spins_under_noise():
    """Steady precession at the rate Ω with the spin that it needs; a white torque about its own axis makes the spin a
    Brownian motion of the variance σ² t/J3², which no weight can change."""
    m, l, J1, J3, g, tilt, Ω = 1.0, 0.5, 0.05, 0.02, 9.81, 0.8, 2.0
    spin = (m * g * l + (J1 + m * l**2) * Ω**2 * np.cos(tilt)) / (J3 * Ω)
    axis = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    rates = np.array([0.0, 0.0, Ω])
    turn = rates
    rates = rates + (spin - rates @ axis) * axis
    top = Body(name="top", mass=m, inertia=(J1, J1, J3), at=l * axis, turned=(0, tilt, 0), rates=rates,
               velocity=np.cross(rates, l * axis))  # fmt: skip
    noise = Torque("top", noise=0.3 * axis, follows=True)
    problem = mechanism([top], [Spherical(None, "top")], [noise], gravity=(0, 0, -g))

    start = np.asarray(problem.example_start(), float)
    vectors = np.concatenate([start[None, :3], start[3:12].reshape(3, 3)])  # fixed in the top, whose rates turn with Ω
    bent = np.cross(np.cross(turn, rates), vectors) + np.cross(rates, np.cross(rates, vectors))
    found = at_one(lambda x: problem.f(0.0, x, None), start)[12:]
    assert np.abs(found - bent.ravel()).max() < 1e-12 * np.abs(bent).max()

    square = st.Observable(lambda t, x: (problem.rates("top")(t, x)[2] - spin) ** 2, name="square", at=[0.1])
    run = sd.simulate(problem, t=(0, 0.1), dt=0.002, paths=2000, seed=1, collect=square, progress=False)
    expected = 0.3**2 * 0.1 / J3**2
    assert abs(run["square"].values[0] - expected) < 5 * run["square_stderr"].values[0] < 0.2 * expected


def test_a_step_with_dampers_between_bodies_is_that_of_the_accelerations():
    """A step of RattleAlpha, which solves for the forces of links among its unknowns, from the accelerations along the
    joints, which the test before compares with those of Lagrange: its error is of the third order."""
    upper = Body(name="a", mass=1.0, inertia=J, at=(0, 0, -0.5), rates=(1, 2, 0), velocity=(-1, 0.5, 0))
    lower = Body(name="b", mass=2.0, inertia=J, at=(0, 0, -1.5), rates=(1, 0, 3), velocity=(-2, 1.5, 0))
    places = ((0.3, 0, -0.3), (0.4, 0.1, -1.5))
    joints = [
        Spherical(None, "a"), Spherical("a", "b", at=(0, 0, -1)),
        Spring("a", "b", at=places, stiffness=300.0, damping=20.0, length=0.5),
    ]  # fmt: skip
    problem = mechanism([upper, lower], joints, gravity=WEIGHT)
    x = np.asarray(problem.example_start(), float)
    free, rates = problem.joints.free.motion, AtPoints(lambda x: problem.f(0.0, x, None))

    def f(x):
        return rates(x[None])[0]

    def step(x, h):
        φ = free.acceleration(0.0, x[:24], x[24:], x[:0], None)
        (after, _), report = RattleAlpha(rho=1.0).step(problem, 0.0, (x, φ), Increment(h=h, W=x[:0], Z=x[:0]), None)
        return jnp.append(after, report.ok)

    stepped = Uncompiled(step)

    def error(h):
        k1 = f(x)
        k2 = f(x + 0.5 * h * k1)
        k3 = f(x + 0.5 * h * k2)
        exact = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + f(x + h * k3))
        *after, ok = stepped(x, h)
        assert ok
        return np.abs(after - exact).max()

    assert error(1e-3) < 1e-4 and error(5e-4) < 0.15 * error(1e-3)


def test_products_of_inertia_of_many_bodies_are_solved_with_as_they_are():
    """Beyond twelve coordinates the mass went to LAPACK, and with it every step to XLA."""
    tensor = [[0.1, 0.01, 0.0], [0.01, 0.12, 0.02], [0.0, 0.02, 0.08]]
    problem = mechanism([Body(name=name, mass=2.0, inertia=tensor) for name in "abc"])
    inertia, right = problem.joints.inertia, np.random.default_rng(2).standard_normal(36)
    trace = str(jax.make_jaxpr(inertia.solve)(right))
    assert "triangular_solve" not in trace and "lu" not in trace
    assert np.abs(inertia.M @ at_one(inertia.solve, right) - right).max() < 1e-14


def test_the_order_of_elimination_holds_however_bodies_are_turned():
    """Bodies whose axes are those of space at the start have zeros in G there that no other state has."""
    bodies = [Body(name=name, mass=1.0, inertia=J, at=(0, 0, z)) for name, z in (("a", -0.5), ("b", -1.5))]
    joints = mechanism(bodies, [Spherical(None, "a"), Spherical("a", "b", at=(0, 0, -1))]).joints
    assert joints.order is not None
    rng = np.random.default_rng(3)
    q, w = joints.problem.example_start()[:24] + 0.3 * rng.standard_normal(24), rng.standard_normal(24)

    def across(q, w):
        frame = joints.frame(0.0, q, None)
        return frame.across(frame.held(w)[0])

    assert np.abs(at_one(across, q, w)).max() < 1e-12


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Body(name="a", mass=-1.0, inertia=J), "Body 'a': mass: expected a number > 0"),
        (lambda: Body(name="a", mass=1.0, inertia=(1, 1, 5)), "Body 'a': inertia: no body has it"),
        (
            lambda: Body(name="a", mass=1.0, inertia=J, turned=np.diag([1, 1, -1])),
            "Body 'a': turned: expected a rotation",
        ),
        (lambda: mechanism([]), "bodies: expected one or more"),
        (lambda: mechanism([ARM], [Revolute(None, "arn")]), "Revolute: b: there is no body 'arn'.*arm"),
        (lambda: mechanism([ARM], [Revolute("arm", "arm")]), "Revolute: a, b: both are 'arm'"),
        (lambda: mechanism([ARM], [Revolute(None, "arm", axis=(0, 0, 0))]), "Revolute: axis: expected a direction"),
        (
            lambda: mechanism([ARM], [Universal(None, "arm", axes=((1, 0, 0), (1, 1, 0)))]),
            "Universal: axes: expected two",
        ),
        (lambda: mechanism([ARM], [Rod(None, "arm")]), "Rod: at: expected two places apart"),
        (lambda: mechanism([ARM], [], [Force("hand")]), "Force: there is no body 'hand'"),
    ],
)
def test_what_cannot_be_put_together_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


ARM = Body(name="arm", mass=1.0, inertia=J)
