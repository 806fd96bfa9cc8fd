"""Mechanisms as they are posed, in Cartesian coordinates with joints, each with coordinates that satisfy the joints.

Constraints are ½ (length² - l²), so that a multiplier is a force per unit of length; weights pull along -y (or -z).
Answers: `embedding(t, u)` -> x, and `minimal()`, the same system in the coordinates u.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.numerics import uncompiled
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.minimal import in_minimal_coordinates, placed

__dir__ = listing.names_of(__name__)


def _start(embedding, angles, rates):
    """The start (x, v) at given minimal coordinates and rates."""
    with jax.enable_x64(True):
        state = uncompiled.value(lambda u: placed(embedding, 0.0, u), np.concatenate([angles, rates], dtype=float))
    return tuple(np.split(state, 2))


def _rod(r, length):
    """Return ½ (|r|² - l²), which is 0 where a rod has its length."""
    return 0.5 * (jnp.sum(r * r) - length**2)


def _column(push):
    return jnp.asarray(np.asarray(push, float))[:, None]


# --- pendulums --------------------------------------------------------------------------------------------------------


def jointed_pendulum(
    m=1.0, L=1.0, g=9.81, friction=0.0, noise=(1.5, 0.0), torque=0.0, angle=1.0, rate=0.5, *, impulses=False
) -> Mechanical:
    """d²(x, y)/dt² of a mass on a rod, ½ (x² + y² - L²) = 0, under a white force `noise`, or a white `torque` instead.

    force = weight - friction v. A torque pushes along (-y, x)/|r| and leaves no noise in the reaction.

    Parameters
    ----------
    m, L, g, friction : float
        The mass, the length of the rod, the acceleration of gravity, and the friction.
    noise : pair of float
        The white force.
    torque : float
        The white torque; 0 for the force instead.
    angle, rate : float
        The angle from the downward vertical and its rate at the start.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.
    """

    def push(t, x, v):
        if not torque:
            return _column(noise)
        return (torque * jnp.stack([-x[1], x[0]]) / jnp.sqrt(jnp.sum(x * x)))[:, None]

    return Mechanical(
        lambda t, x, v: jnp.array([0.0, -m * g]) - friction * v if friction else jnp.array([0.0, -m * g]),
        push, _start(functools.partial(_on_circle, L=L), [angle], [rate]), [m, m], names=("x", "y"),
        constraints=lambda t, x: _rod(x, L)[None], constraint_names=("rod",), impulses=impulses,
    )  # fmt: skip


def _on_circle(t, u, *, L):
    return L * jnp.stack([jnp.sin(u[0]), -jnp.cos(u[0])])


def _angle_of_pendulum(*, m, L, g, friction, noise, torque, angle, rate):
    """The angle: m L² θ'' = -m g L sin θ - friction L² θ' + (force on the tangent) ξ."""

    def push(t, u, w):
        return (
            jnp.full((1, 1), torque * L) if torque else (L * (noise[0] * jnp.cos(u) + noise[1] * jnp.sin(u)))[:, None]
        )

    return Mechanical(
        lambda t, u, w: -m * g * L * jnp.sin(u) - friction * L**2 * w, push, ([angle], [rate]), [m * L**2], names=["th"]
    )


JOINTED_PENDULUM = Model(jointed_pendulum, {"embedding": _on_circle, "minimal": _angle_of_pendulum})


def thermal_pendulum(m=1.0, L=1.0, g=1.5, friction=1.0, kT=1.0, angle=0.5, rate=0.0, impulses=False) -> Mechanical:
    """d²(x, y)/dt² of a mass on a rod in a bath of temperature kT: friction -γ m v, and a white force on x and on y.

    Parameters
    ----------
    m, L, g, friction : float
        The mass, the length of the rod, the acceleration of gravity, and γ.
    kT : float
        The temperature of the bath, as an energy.
    angle, rate : float
        The angle from the downward vertical and its rate at the start.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.
    """
    return Mechanical(
        lambda t, x, v: jnp.array([0.0, -m * g]) - friction * m * v,
        lambda t, x, v: jnp.sqrt(2.0 * kT * friction * m) * jnp.eye(2),
        _start(functools.partial(_on_circle, L=L), [angle], [rate]), [m, m], names=("x", "y"),
        constraints=lambda t, x: _rod(x, L)[None], constraint_names=("rod",), impulses=impulses,
    )  # fmt: skip


def _angle_density(θ, *, m, L, g, kT):
    """exp(κ cos θ)/(2π I0(κ)), κ = m g L/kT."""
    κ = m * g * L / kT
    return np.exp(κ * (np.cos(np.asarray(θ, float)) - 1.0)) / (2.0 * np.pi * scipy.special.i0e(κ))


THERMAL_PENDULUM = Model(thermal_pendulum, {"embedding": _on_circle, "angle_density": _angle_density})


def pendulum_chain(
    masses=(1.0, 2.0), lengths=(1.0, 1.0), g=9.81, friction=0.0, noise=1.5, angles=(1.0, 0.5), rates=(0.5, -0.3),
    impulses=False,
) -> Mechanical:  # fmt: skip
    """d²(x1, y1, x2, y2, ...)/dt² of masses that hang one from the other, a white horizontal force on the last.

    Parameters
    ----------
    masses, lengths : sequence of float
        The masses and the lengths of the rods, from the top; one of each per mass.
    g, friction : float
        The acceleration of gravity, and the friction.
    noise : float
        The strength of the white force.
    angles, rates : sequence of float
        The angles from the downward vertical and their rates at the start.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.

    Raises
    ------
    ValueError
        If masses, lengths, angles and rates differ in number.
    """
    n = len(masses)
    if not n == len(lengths) == len(angles) == len(rates):
        raise ValueError(
            f"masses, lengths, angles, rates: expected one number for each mass, got {n}, {len(lengths)}, "
            f"{len(angles)} and {len(rates)}"
        )
    weight = np.stack([np.zeros(n), -g * np.asarray(masses, float)], axis=1).ravel()
    push = np.zeros(2 * n)
    push[-2] = noise

    def rods(t, x):
        r = x.reshape(n, 2)
        apart = r - jnp.concatenate([jnp.zeros((1, 2), x.dtype), r[:-1]])
        return 0.5 * (jnp.sum(apart * apart, axis=1) - np.asarray(lengths, float) ** 2)

    return Mechanical(
        lambda t, x, v: jnp.asarray(weight) - friction * v if friction else jnp.asarray(weight),
        lambda t, x, v: _column(push), _start(functools.partial(_on_chain, lengths=lengths), angles, rates),
        np.repeat(np.asarray(masses, float), 2), names=tuple(f"{axis}{i + 1}" for i in range(n) for axis in "xy"),
        constraints=rods, constraint_names=tuple(f"rod{i + 1}" for i in range(n)), impulses=impulses,
    )  # fmt: skip


def _on_chain(t, u, *, lengths):
    steps = np.asarray(lengths, float)[:, None] * jnp.stack([jnp.sin(u), -jnp.cos(u)], axis=1)
    return jnp.cumsum(steps, axis=0).ravel()


def _angles_of_chain(*, masses, lengths, g, friction, noise, angles, rates):
    problem = pendulum_chain(masses, lengths, g, friction, noise, angles, rates)
    return in_minimal_coordinates(problem, functools.partial(_on_chain, lengths=lengths), (list(angles), list(rates)))


PENDULUM_CHAIN = Model(pendulum_chain, {"embedding": _on_chain, "minimal": _angles_of_chain})


def spherical_pendulum(
    m=1.0, L=1.0, g=9.81, friction=0.0, noise=(1.0, 0.0, 0.5), angles=(1.2, 0.3), rates=(0.4, 2.5), impulses=False
) -> Mechanical:
    """d²(x, y, z)/dt² of a mass on a rod in space, ½ (|r|² - L²) = 0, under a white force.

    Parameters
    ----------
    m, L, g, friction : float
        The mass, the length of the rod, the acceleration of gravity, and the friction.
    noise : sequence of 3 numbers
        The white force.
    angles, rates : pair of float
        The angles from the downward vertical and around it, and their rates, at the start.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.
    """
    return Mechanical(
        lambda t, x, v: jnp.array([0.0, 0.0, -m * g]) - friction * v if friction else jnp.array([0.0, 0.0, -m * g]),
        lambda t, x, v: _column(noise), _start(functools.partial(_on_sphere, L=L), angles, rates), [m, m, m],
        names=("x", "y", "z"), constraints=lambda t, x: _rod(x, L)[None], constraint_names=("rod",), impulses=impulses,
    )  # fmt: skip


def _on_sphere(t, u, *, L):
    θ, ϕ = u[0], u[1]
    return L * jnp.stack([jnp.sin(θ) * jnp.cos(ϕ), jnp.sin(θ) * jnp.sin(ϕ), -jnp.cos(θ)])


def _angles_on_sphere(*, m, L, g, friction, noise, angles, rates):
    problem = spherical_pendulum(m, L, g, friction, noise, angles, rates)
    return in_minimal_coordinates(problem, functools.partial(_on_sphere, L=L), (list(angles), list(rates)))


SPHERICAL_PENDULUM = Model(spherical_pendulum, {"embedding": _on_sphere, "minimal": _angles_on_sphere})


# --- mechanisms -------------------------------------------------------------------------------------------------------


def crank(
    radius=0.5, rod=1.2, masses=(1.0, 2.0), g=9.81, friction=0.0, noise=1.0, angle=0.7, rate=3.0, *, impulses=False
) -> Mechanical:
    """d²(x1, y1, x2, y2)/dt² of a slider crank: masses at its pin and at the slider, a white force on the slider.

    Parameters
    ----------
    radius, rod : float
        The lengths of the crank and of the rod.
    masses : pair of float
        The masses at the pin and at the slider.
    g, friction : float
        The acceleration of gravity, and the friction.
    noise : float
        The strength of the white force.
    angle, rate : float
        The angle of the crank and its rate at the start.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.
    """
    weight = np.array([0.0, -g * masses[0], 0.0, -g * masses[1]])
    return Mechanical(
        lambda t, x, v: jnp.asarray(weight) - friction * v if friction else jnp.asarray(weight),
        lambda t, x, v: _column([0.0, 0.0, noise, 0.0]),
        _start(functools.partial(_on_crank, radius=radius, rod=rod), [angle], [rate]),
        np.repeat(np.asarray(masses, float), 2), names=("x1", "y1", "x2", "y2"),
        constraints=lambda t, x: jnp.stack([_rod(x[:2], radius), _rod(x[2:] - x[:2], rod), x[3]]),
        constraint_names=("crank", "rod", "guide"), impulses=impulses,
    )  # fmt: skip


def _on_crank(t, u, *, radius, rod):
    c, s = radius * jnp.cos(u[0]), radius * jnp.sin(u[0])
    return jnp.stack([c, s, c + jnp.sqrt(rod**2 - s**2), 0.0 * c])


def _angle_of_crank(*, radius, rod, masses, g, friction, noise, angle, rate):
    problem = crank(radius, rod, masses, g, friction, noise, angle, rate)
    return in_minimal_coordinates(problem, functools.partial(_on_crank, radius=radius, rod=rod), ([angle], [rate]))


CRANK = Model(crank, {"embedding": _on_crank, "minimal": _angle_of_crank})


def four_bar(
    bars=(0.5, 1.3, 1.0), ground=1.2, masses=(1.0, 2.0), g=9.81, friction=0.0, noise=1.0, angle=1.0, rate=3.0,
    *, impulses=False,
) -> Mechanical:  # fmt: skip
    """d²(xA, yA, xB, yB)/dt² of the pins of a four-bar linkage, with ground pins at 0 and at (ground, 0), B above.

    A white horizontal force acts on B. Masses are at the pins.

    Parameters
    ----------
    bars : sequence of 3 numbers
        The lengths of the moving bars.
    ground : float
        The distance of the ground pins.
    masses : pair of float
        The masses at the pins A and B.
    g, friction : float
        The acceleration of gravity, and the friction.
    noise : float
        The strength of the white force.
    angle, rate : float
        The angle of the first bar and its rate at the start.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.
    """
    weight = np.array([0.0, -g * masses[0], 0.0, -g * masses[1]])
    first, second, third = bars
    return Mechanical(
        lambda t, x, v: jnp.asarray(weight) - friction * v if friction else jnp.asarray(weight),
        lambda t, x, v: _column([0.0, 0.0, noise, 0.0]),
        _start(functools.partial(_on_bars, bars=bars, ground=ground), [angle], [rate]),
        np.repeat(np.asarray(masses, float), 2), names=("xA", "yA", "xB", "yB"),
        constraints=lambda t, x: jnp.stack([
            _rod(x[:2], first), _rod(x[2:] - x[:2], second), _rod(x[2:] - np.array([ground, 0.0]), third),
        ]),
        constraint_names=("crank", "coupler", "rocker"), impulses=impulses,
    )  # fmt: skip


def _on_bars(t, u, *, bars, ground):
    first, second, third = bars
    A = first * jnp.stack([jnp.cos(u[0]), jnp.sin(u[0])])
    across = np.array([ground, 0.0]) - A
    square = jnp.sum(across * across)
    along = 0.5 * (square + second**2 - third**2) / square
    up = jnp.sqrt(second**2 / square - along**2)
    return jnp.concatenate([A, A + along * across + up * jnp.stack([-across[1], across[0]])])


def _angle_of_bars(*, bars, ground, masses, g, friction, noise, angle, rate):
    problem = four_bar(bars, ground, masses, g, friction, noise, angle, rate)
    return in_minimal_coordinates(problem, functools.partial(_on_bars, bars=bars, ground=ground), ([angle], [rate]))


FOUR_BAR = Model(four_bar, {"embedding": _on_bars, "minimal": _angle_of_bars})


def hoisting_crane(
    trolley=2.0, load=1.0, rope=1.5, hoist=0.2, g=9.81, spring=20.0, friction=0.5, noise=1.0, *, place=0.0,
    angle=0.4, rates=(0.0, 0.0), impulses=False,
) -> Mechanical:  # fmt: skip
    """d²(s, x, y)/dt² of a crane: a trolley at s, a load at (x, y) on a rope whose length rope - hoist t changes.

    The trolley is held by a spring and damped; wind, a white horizontal force, acts on the load.

    Parameters
    ----------
    trolley, load : float
        The masses.
    rope, hoist : float
        The length of the rope at time 0, and the rate at which it shortens.
    g, spring, friction : float
        The acceleration of gravity, the stiffness of the spring, and the friction of the trolley.
    noise : float
        The strength of the wind.
    place, angle : float
        The place of the trolley and the angle of the rope at the start.
    rates : pair of float
        Their rates.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.
    """
    weight = np.array([0.0, 0.0, -g * load])
    return Mechanical(
        lambda t, x, v: jnp.asarray(weight) - jnp.stack([spring * x[0] + friction * v[0], 0.0 * x[1], 0.0 * x[2]]),
        lambda t, x, v: _column([0.0, noise, 0.0]),
        _start(functools.partial(_under_trolley, rope=rope, hoist=hoist), [place, angle], rates),
        [trolley, load, load], names=("s", "x", "y"),
        constraints=lambda t, x: _rod(jnp.stack([x[1] - x[0], x[2]]), rope - hoist * t)[None],
        constraint_names=("rope",), impulses=impulses,
    )  # fmt: skip


def _under_trolley(t, u, *, rope, hoist):
    length = rope - hoist * t
    return jnp.stack([u[0], u[0] + length * jnp.sin(u[1]), -length * jnp.cos(u[1])])


def _trolley_and_angle(*, trolley, load, rope, hoist, g, spring, friction, noise, place, angle, rates):
    problem = hoisting_crane(
        trolley, load, rope, hoist, g, spring, friction, noise, place=place, angle=angle, rates=rates
    )
    embedding = functools.partial(_under_trolley, rope=rope, hoist=hoist)
    return in_minimal_coordinates(problem, embedding, ([place, angle], list(rates)), ("s", "th"))


HOISTING_CRANE = Model(hoisting_crane, {"embedding": _under_trolley, "minimal": _trolley_and_angle})
