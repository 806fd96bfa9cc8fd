"""What is said of whole arrays is true of every entry, and is said where users write additive or diagonal noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics.facts.axes import facts_of
from stodyn.numerics.facts.dependence import dependence_of

N = 4
MATRIX = np.arange(1.0, 17.0).reshape(N, N)
DIAGONAL = np.diag([1.0, 2.0, 3.0, 4.0])

# name -> (g(t, x), whether it is proved additive, whether diagonal)
DIFFUSIONS = {
    "identity": (lambda t, x: 0.5 * jnp.eye(N), True, True),
    "constant diagonal": (lambda t, x: jnp.diag(0.1 * jnp.ones(N)), True, True),
    "captured diagonal": (lambda t, x: DIAGONAL * jnp.sin(t), True, True),
    "captured matrix": (lambda t, x: MATRIX * t, True, False),
    "times zero": (lambda t, x: MATRIX + 0.0 * jnp.outer(x, x), True, False),
    "product of constants": (lambda t, x: DIAGONAL @ jnp.eye(N), True, True),
    "diag": (lambda t, x: jnp.diag(jnp.sqrt(1 + x**2)), False, True),
    "diag of zeros": (lambda t, x: jnp.diag(0.0 * x), True, True),
    "identity times row": (lambda t, x: jnp.eye(N) * x, False, True),
    "identity times column": (lambda t, x: jnp.eye(N) * x[:, None], False, True),
    "captured times row": (lambda t, x: DIAGONAL * jnp.tanh(x), False, True),
    "where": (lambda t, x: jnp.where(jnp.eye(N, dtype=bool), x[:, None], 0.0), False, True),
    "transposed": (lambda t, x: jnp.diag(x).T, False, True),
    "diagonal of a diagonal": (lambda t, x: jnp.diag(jnp.diag(x) @ jnp.ones(N)), False, True),
    "product of diagonals": (lambda t, x: jnp.diag(x) @ (0.3 * jnp.eye(N)), False, True),
    "sum of diagonals": (lambda t, x: jnp.diag(x) - t * jnp.eye(N), False, True),
    "root of a diagonal": (lambda t, x: jnp.diag(x * x) ** 0.5, False, True),
    "quotient": (lambda t, x: jnp.diag(x) / (2.0 + t), False, True),
    "under jit": (lambda t, x: jax.jit(jnp.diag)(x), False, True),
    "sum over rows": (lambda t, x: jnp.diag((jnp.eye(N) * x).sum(0)), False, True),
    "a choice between equals": (lambda t, x: jnp.diag(jax.lax.cond(t > 0, lambda: x, lambda: x)), False, True),
    "some of more rows": (lambda t, x: jnp.eye(N) * jnp.broadcast_to(x, (2 * N, N))[:N], False, True),
    "largest": (lambda t, x: jnp.maximum(jnp.diag(x), 0.0), False, True),
    "foreign diagonal": (lambda t, x: jnp.diag(x[::-1]), False, False),
    "rolled": (lambda t, x: jnp.diag(jnp.roll(x, 1)), False, False),
    "of all": (lambda t, x: jnp.diag(x * x.sum()), False, False),
    "largest with one": (lambda t, x: jnp.maximum(jnp.diag(x), 1.0), False, False),
    "cosine of a diagonal": (lambda t, x: jnp.cos(jnp.diag(x)), False, False),
    "to the power 0": (lambda t, x: jnp.diag(x) ** 0.0, False, False),
    "shifted": (lambda t, x: jnp.eye(N, k=1) * x, False, False),
    "zero over zero": (lambda t, x: jnp.diag(x) / DIAGONAL, False, False),
    "where, else": (lambda t, x: jnp.where(jnp.eye(N, dtype=bool), 0.0, x[:, None]), False, False),
    "a state decides": (lambda t, x: jnp.where(x[0] > 0, jnp.diag(x), 2 * jnp.diag(x)), False, False),
    "full times diagonal": (lambda t, x: MATRIX @ jnp.diag(x), False, False),
    "outer": (lambda t, x: jnp.outer(x, x), False, False),
    "cond": (lambda t, x: jax.lax.cond(t > 0, lambda: jnp.diag(x), lambda: jnp.eye(N)), False, False),
    "reshaped": (lambda t, x: jnp.diag(x).reshape(2, 2 * N).reshape(N, N), False, False),
}  # fmt: skip


def facts(g, n=N):
    trace = jax.make_jaxpr(g)(0.0, np.ones(n))
    return facts_of(trace, (0.0, np.ones(n)), vector=1), trace


@pytest.mark.parametrize("name", DIFFUSIONS)
def test_additive_and_diagonal_noise_is_seen(name):
    g, is_additive, is_diagonal = DIFFUSIONS[name]
    found, _ = facts(g)
    assert (1 not in found.on) == is_additive
    assert (found.is_zero((0, 1)) and found.takes_along(1, 0)) == is_diagonal


@pytest.mark.parametrize("name", DIFFUSIONS)
def test_whatever_is_said_is_true_of_every_entry(name):
    found, trace = facts(DIFFUSIONS[name][0])
    entries = dependence_of(trace, (0.0, np.ones(N)))
    assert entries.arguments <= found.on
    if found.is_zero((0, 1)):
        assert entries.zero[~np.eye(N, dtype=bool)].all()
    place, number = entries.on(1).nonzero()
    for axis in (0, 1):
        if found.takes_along(1, axis):
            assert np.array_equal(np.unravel_index(place, (N, N))[axis], number)


def test_the_proof_forms_no_matrix():
    """With 10¹² entries, of which none is ever made."""
    found, _ = facts(lambda t, x: jnp.diag(0.1 * x) @ (0.5 * jnp.eye(10**6)), 10**6)
    assert found.is_zero((0, 1)) and found.takes_along(1, 0)
