"""Sums of products round every product alike, so that what cancels in exact arithmetic does so in every program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.numerics.printing.nodes import STEP_LENGTH, Graph
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.walk import fusions, reachable, readers_of

LANES = 40
NUMBERS = np.random.default_rng(0).standard_normal((LANES, 6))


def twice(row):
    return jnp.stack([row, row])


CANCELLING = {
    "a commutator": lambda x: x[0] * x[1] - x[1] * x[0],
    "with a sum in it": lambda x: x[0] * (x[1] + 0.3) - (x[1] + 0.3) * x[0],
    "the negative first": lambda x: -(x[0] * x[1]) + x[1] * x[0],
    "a product with two readers": lambda x: (p := x[0] * x[1]) - x[1] * x[0] + 0.0 * p,
    "a choice of products": lambda x: jnp.where(x[2] > 0, x[0] * x[1], x[1] * x[0]) - x[1] * x[0],
    "a size": lambda x: jnp.abs(x[0] * x[1]) - jnp.abs(x[1]) * jnp.abs(x[0]),
    "a common factor": lambda x: 0.3 * x[0] - x[0] * 0.3,
    "two commutators": lambda x: x[0] * x[1] - x[1] * x[0] + x[2] * x[3] - x[3] * x[2],
    "a cross product": lambda x: jnp.cross(x[:3], -x[:3]),
    "Gram's determinant": lambda x: (x[:3] @ x[:3]) * (x[:3] @ x[:3]) - (x[:3] @ -x[:3]) ** 2,
    "a determinant": lambda x: jnp.linalg.det(twice(x[:2])),
    "a determinant by its first row": lambda x: x[:3] @ jnp.cross(x[3:], x[3:]),
    "a parallelogram over a fixed side": lambda x: 0.6 * (0.8 + 0.0 * x[0]) - 0.8 * (0.6 + 0.0 * x[0]),
}


@pytest.mark.parametrize("name", CANCELLING)
def test_what_cancels_is_zero(name):
    found = AtPoints(lambda x: jnp.asarray(CANCELLING[name](x)))(NUMBERS)
    np.testing.assert_array_equal(found, np.zeros_like(found))


def test_what_cancels_is_zero_in_loops_over_arrays(evaluated):
    x = np.random.default_rng(1).standard_normal((2, 50, 8))
    found = evaluated(lambda x: x[0] * x[1] - x[1] * x[0], x)
    np.testing.assert_array_equal(found, 0.0)


def test_flows_at_constant_rates_are_in_balance():
    """k x - l y at x = l, y = k: where one of the products is fused, its rounding is left."""
    k, l = np.random.default_rng(2).uniform(0.5, 2.0, (2, 20))
    states = np.ldexp(np.concatenate([l, k]), np.arange(-3, 5)[:, None])
    found = AtPoints(lambda x: jnp.stack([k[j] * x[j] - l[j] * x[20 + j] for j in range(20)]))(states)
    np.testing.assert_array_equal(found, np.zeros_like(found))


def is_fused(total):
    """Whether a sum takes a product with it."""
    nodes = reachable([total])
    return id(total) in fusions(nodes, readers_of(nodes, [total]))


def test_which_sums_take_a_product_with_them():
    """Those with one product, whatever its sign, and with increments, which nothing cancels; and the third of plain
    products."""
    graph = Graph()
    add, sub, times, minus = (functools.partial(graph.make, op, float) for op in ("add", "sub", "mul", "neg"))
    x, y, z, w = (graph.input(("now", k), float) for k in range(4))
    h, normal = graph.input(STEP_LENGTH, float, lane=False), graph.input(("normals", 0), float, noise=True)
    xy, zw = times(x, y), times(z, w)
    fused = [add(xy, z), sub(z, xy), sub(xy, z), add(z, minus(xy)), add(times(h, x), zw), add(xy, times(z, normal))]
    assert all(map(is_fused, [*fused, add(add(xy, zw), times(x, w))]))
    assert not any(map(is_fused, [add(xy, zw), sub(xy, zw), add(xy, minus(zw)), add(sub(xy, zw), times(x, w))]))


RODS = np.random.default_rng(2).standard_normal((16, 2))
WAYS = {
    "printed": {},
    "vmap": {"executor": "vmap"},
    "a kernel": {"device": jax.devices("cpu")},
    "a GPU": {"device": "gpu"},
}


def angle(x):
    """Of the rods x[:2] and x[2:], from -π to π."""
    return jnp.arctan2(x[0] * x[3] - x[1] * x[2], x[0] * x[2] + x[1] * x[3])


def area(x):
    """Of what two rods span in space."""
    a, b = (jnp.append(rod, rod[0]) for rod in (x[:2], x[2:]))
    return jnp.sqrt((a @ a) * (b @ b) - (a @ b) ** 2)


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize("way", WAYS)
def test_antiparallel_rods_are_at_an_angle_of_pi_by_every_executor(way):
    """Without symmetric rounding half of the angles are -π, and the root of the area fails."""
    if way == "a GPU" and not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("no GPU here")
    problem = sd.SDE(lambda t, x: 0.0 * x, None, sd.PerPath(np.hstack([RODS, -RODS])))
    run = sd.simulate(problem, "EulerMaruyama", t=(0.0, 0.2), dt=0.1, paths=len(RODS), seed=1, **WAYS[way],
                      collect=st.Observable(lambda t, x: jnp.stack([angle(x), area(x)])))  # fmt: skip
    np.testing.assert_allclose(run["observable"], np.broadcast_to([np.pi, 0.0], run["observable"].shape), rtol=1e-15)
    np.testing.assert_allclose(run["observable_variance"], 0.0, atol=1e-28)
