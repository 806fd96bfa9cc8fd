"""Ten mechanisms that textbooks solve, posed by joints: accelerations and kicks are those of the books' equations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.numerics import uncompiled

g = 9.81


@dataclasses.dataclass
class Mechanism:
    """Masses, weights, g(t, q) and noise of the coordinates q = embedding(t, u), and the book's u'' = law(t, u, u')."""

    mass: list[float]
    force: list[float]
    constraints: Callable
    noise: list[float]
    embedding: Callable
    law: Callable
    degrees: int = 1

    def problem(self, u: np.ndarray, w: np.ndarray) -> Any:
        position = uncompiled.value(lambda u: self.embedding(0.0, u), u)
        rate = uncompiled.value(lambda u, w: moved(self.embedding, 0.0, u, w)[1], u, w)
        return sd.Mechanical(
            lambda t, x, v: jnp.asarray(self.force), lambda t, x, v: jnp.asarray(self.noise)[:, None],
            (position, rate), self.mass, constraints=self.constraints,
        )  # fmt: skip


def moved(embedding, t, u, w):
    """q and its rate along u' = w."""
    return jax.jvp(embedding, (jnp.asarray(t, float), u), (jnp.ones(()), w))


def bent(embedding, t, u, w, a):
    """q'' along u'' = a."""
    return jax.jvp(lambda t, u, w: moved(embedding, t, u, w)[1], (jnp.asarray(t, float), u, w), (jnp.ones(()), w, a))[1]


def two(x, y):
    return jnp.stack([jnp.asarray(x), jnp.asarray(y)])


def on_bowl(t, u, R=1.0, r=0.3):
    return jnp.stack([(R - r) * jnp.sin(u[0]), -(R - r) * jnp.cos(u[0]), -(R - r) / r * u[0]])


def on_sphere(t, u):
    s = jnp.sin(u[0])
    return jnp.stack([s * jnp.cos(u[1]), s * jnp.sin(u[1]), -jnp.cos(u[0])])


def of_cart(t, u, u_rate, M=2.0, m=1.0, l=0.8):
    """A pendulum (θ) on a cart (x), Landau & Lifshitz §5: solved for both accelerations."""
    θ, ω = u[1], u_rate[1]
    left = jnp.stack([two(M + m, m * l * jnp.cos(θ)), two(m * l * jnp.cos(θ), m * l * l)])
    return jnp.linalg.solve(left, two(m * l * ω**2 * jnp.sin(θ), -m * g * l * jnp.sin(θ)))


α, Ω, ω0, a0, m1, m2, m3 = 0.4, 1.3, 5.0, 0.1, 3.0, 2.0, 1.5

MECHANISMS = {
    "Atwood": Mechanism(  # Goldstein, 1.6
        [m1, m2], [m1 * g, m2 * g], lambda t, q: (q[0] + q[1] - 2.0)[None], [1.0, 0.3],
        lambda t, u: two(u[0], 2.0 - u[0]), lambda t, u, w: (m1 - m2) * g / (m1 + m2) * jnp.ones(1),
    ),
    "double Atwood": Mechanism(  # Goldstein, 1: m1 over a pulley that carries m2 and m3 over another
        [m1, m2, m3], [m1 * g, m2 * g, m3 * g], lambda t, q: (2.0 * q[0] + q[1] + q[2] - 3.0)[None], [1.0, 0.0, 0.5],
        lambda t, u: jnp.stack([u[0], 1.5 - u[0] + u[1], 1.5 - u[0] - u[1]]),
        lambda t, u, w: jnp.stack([
            g * (m1 * (m2 + m3) - 4.0 * m2 * m3), 2.0 * g * m1 * (m2 - m3)
        ]) / (m1 * (m2 + m3) + 4.0 * m2 * m3), 2,
    ),
    "bead on a turning wire": Mechanism(  # Goldstein, 1.6: r'' = Ω² r, without weight
        [1.0, 1.0], [0.0, 0.0], lambda t, q: (q[0] * jnp.sin(Ω * t) - q[1] * jnp.cos(Ω * t))[None], [1.0, 0.2],
        lambda t, u: u[0] * two(jnp.cos(Ω * t), jnp.sin(Ω * t)), lambda t, u, w: Ω**2 * u,
    ),
    "bead on a parabola": Mechanism(  # (1 + 4x²) x'' = -4 x x'² - 2 g x
        [1.0, 1.0], [0.0, -g], lambda t, q: (q[1] - q[0] ** 2)[None], [1.0, 0.4],
        lambda t, u: two(u[0], u[0] ** 2), lambda t, u, w: -(4.0 * u * w**2 + 2.0 * g * u) / (1.0 + 4.0 * u**2),
    ),
    "ladder": Mechanism(  # of length 2, mass 3, against wall and floor: θ'' = (3 g/2 l) sin θ from the wall
        [3.0, 3.0, 1.0], [0.0, -3.0 * g, 0.0], lambda t, q: two(q[0] - jnp.sin(q[2]), q[1] - jnp.cos(q[2])),
        [1.0, 0.0, 0.5], lambda t, u: jnp.stack([jnp.sin(u[0]), jnp.cos(u[0]), u[0]]),
        lambda t, u, w: 0.75 * g * jnp.sin(u),
    ),
    "cylinder on a slope": Mechanism(  # s'' = (2/3) g sin α
        [2.0, 0.5 * 2.0 * 0.3**2], [2.0 * g * np.sin(α), 0.0], lambda t, q: (q[0] - 0.3 * q[1])[None], [1.0, 0.1],
        lambda t, u: two(u[0], u[0] / 0.3), lambda t, u, w: 2.0 / 3.0 * g * np.sin(α) * jnp.ones(1),
    ),
    "pendulum on a cart": Mechanism(
        [2.0, 1.0, 1.0], [0.0, 0.0, -g], lambda t, q: ((q[1] - q[0]) ** 2 + q[2] ** 2 - 0.64)[None], [1.0, 0.5, 0.2],
        lambda t, u: jnp.stack([u[0], u[0] + 0.8 * jnp.sin(u[1]), -0.8 * jnp.cos(u[1])]), of_cart, 2,
    ),
    "physical pendulum": Mechanism(  # θ'' = -m g d sin θ/(I + m d²)
        [2.0, 2.0, 0.7], [0.0, -2.0 * g, 0.0],
        lambda t, q: two(q[0] - 0.5 * jnp.sin(q[2]), q[1] + 0.5 * jnp.cos(q[2])), [1.0, 0.0, 0.3],
        lambda t, u: jnp.stack([0.5 * jnp.sin(u[0]), -0.5 * jnp.cos(u[0]), u[0]]),
        lambda t, u, w: -2.0 * g * 0.5 * jnp.sin(u) / (0.7 + 2.0 * 0.25),
    ),
    "cylinder in a bowl": Mechanism(  # (3/2) (R - r) θ'' = -g sin θ
        [2.0, 2.0, 0.5 * 2.0 * 0.09], [0.0, -2.0 * g, 0.0],
        lambda t, q: two(q[0] ** 2 + q[1] ** 2 - 0.49, 0.3 * q[2] + 0.7 * jnp.arctan2(q[0], -q[1])), [1.0, 0.2, 0.4],
        on_bowl, lambda t, u, w: -g * jnp.sin(u) / (1.5 * 0.7),
    ),
    "spherical pendulum": Mechanism(  # Landau & Lifshitz, §14
        [1.5, 1.5, 1.5], [0.0, 0.0, -1.5 * g], lambda t, q: (q @ q - 1.0)[None], [1.0, 0.0, 0.5], on_sphere,
        lambda t, u, w: two(jnp.sin(u[0]) * jnp.cos(u[0]) * w[1] ** 2 - g * jnp.sin(u[0]),
                            -2.0 * w[0] * w[1] * jnp.cos(u[0]) / jnp.sin(u[0])), 2,
    ),
    "pendulum on a shaken support": Mechanism(  # Landau & Lifshitz, §5: its weight is g - a ω² cos ωt
        [1.0, 1.0], [0.0, -g], lambda t, q: (q[0] ** 2 + (q[1] - a0 * jnp.cos(ω0 * t)) ** 2 - 0.25)[None], [1.0, 0.2],
        lambda t, u: two(0.5 * jnp.sin(u[0]), a0 * jnp.cos(ω0 * t) - 0.5 * jnp.cos(u[0])),
        lambda t, u, w: -(g - a0 * ω0**2 * jnp.cos(ω0 * t)) / 0.5 * jnp.sin(u),
    ),
}  # fmt: skip


@pytest.mark.brief("bead on a parabola", "pendulum on a shaken support")
@pytest.mark.parametrize("name", MECHANISMS)
def test_joints_give_the_equations_of_the_book(name):
    """x'' along the constraints is d²/dt² of the embedding along the book's u'', and the kick its J (J'MJ)⁻¹ J'B."""
    mechanism = MECHANISMS[name]
    rng = np.random.default_rng(8)
    states = rng.uniform(0.3, 1.0, (3, 2, mechanism.degrees))
    problem = mechanism.problem(*states[0])
    assert problem.joints.diagnose(0.0).degrees == mechanism.degrees

    def both(t, u, w):
        q, v = moved(mechanism.embedding, t, u, w)
        J, M = jax.jacfwd(lambda u: mechanism.embedding(t, u))(u), jnp.asarray(mechanism.mass)
        kick = J @ jnp.linalg.solve(J.T @ (M[:, None] * J), J.T @ jnp.asarray(mechanism.noise))
        book = bent(mechanism.embedding, t, u, w, mechanism.law(t, u, w))
        joints = problem.acceleration(t, q, v, q[:0], None)
        return jnp.stack([joints, book, problem.motion.kicks(t, q, v, q[:0], None)[:, 0], kick])

    for t, (u, w) in zip((0.0, 0.4, 1.1), states, strict=True):
        joints, book, kicked, kick = uncompiled.value(both, np.asarray(t), u, w)
        np.testing.assert_allclose(joints, book, atol=1e-12 * (1.0 + np.abs(book).max()))
        np.testing.assert_allclose(kicked, kick, atol=1e-13 * (1.0 + np.abs(kick).max()))
