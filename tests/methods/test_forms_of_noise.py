"""Every method takes the same step whether its noise is a matrix, sd.diagonal, sd.sparse or sd.product, or refuses all
of these forms in the same words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine.spec import describe
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.numerics import uncompiled
from stodyn.problems.sdae import SDAE

N, H = 3, 0.1
START = np.array([0.7, -0.4, 1.3])
OWN, FIRST = np.arange(N), np.zeros(N, int)
SHARED = np.array([0, 1, 1])
DIAGONAL = {
    "matrix": jnp.diag,
    "diagonal": sd.diagonal,
    "sparse": lambda v: sd.sparse(OWN, OWN, v, (N, N)),
    "product": lambda v: sd.product(lambda w: v * w, N),
}
ONE_CHANNEL = {
    "matrix": lambda v: v[:, None],
    "sparse": lambda v: sd.sparse(OWN, FIRST, v, (N, 1)),
    "product": lambda v: sd.product(lambda w: v * w[0], 1),
}
TWO_CHANNELS = {
    "matrix": lambda v: jnp.zeros((N, 2)).at[OWN, SHARED].set(v),
    "sparse": lambda v: sd.sparse(OWN, SHARED, v, (N, 2)),
    "product": lambda v: sd.product(lambda w: v * w[SHARED], 2),
}
STRENGTHS = {"multiplied": lambda t, x: 0.3 * x + 0.1 * jnp.sin(x), "added": lambda t, x: jnp.array([0.3, 0.1, 0.2])}
NOISES = {
    f"{channels}, {strength}": {name: (lambda t, x, f=f, v=v: f(v(t, x))) for name, f in forms.items()}
    for channels, forms in {"diagonal": DIAGONAL, "one channel": ONE_CHANNEL, "two channels": TWO_CHANNELS}.items()
    for strength, v in STRENGTHS.items()
}
NAMES = [name for name, m in catalogue().items() if isinstance(m, Method) and m.accepts in (sd.SDE, SDAE)]


@functools.cache
def problem(noise, form):
    return sd.SDE(lambda t, x: jnp.roll(x, 1) - x, NOISES[noise][form], START)


def stepped(noise, form, name):
    """The state after a step with fixed normals, computed by NumPy; the words of a refusal."""
    try:
        traced = describe(problem(noise, form), name, (0.0, H), H, None, "float64").traced
    except (TypeError, ValueError) as error:
        return str(error)
    normals = [np.cos(1.0 + np.arange(count)) for _, count in traced.streams]
    state = uncompiled.run(traced.start, 0.0, START)
    given = (0.0, H, *state, *normals)
    try:
        return uncompiled.run(traced.step, *given)[: len(state)]
    except uncompiled.Compile:
        return jax.jit(jax.extend.core.jaxpr_as_fun(traced.step))(*given)[: len(state)]


def test_the_structure_is_that_of_the_matrix():
    for noise, forms in NOISES.items():
        for form in forms:
            assert problem(noise, form).noise_structure.kinds == problem(noise, "matrix").noise_structure.kinds, noise


def test_what_is_refused_is_refused_in_the_same_words():
    for noise, forms in NOISES.items():
        of_matrix, *others = (
            {
                name: catalogue()[name].refusal(problem(noise, form))
                for name in NAMES
                if catalogue()[name].accepts is sd.SDE
            }
            for form in forms
        )
        for found in others:
            assert found == of_matrix, noise


@pytest.mark.brief("Milstein", "SRIW1")
@pytest.mark.parametrize("name", NAMES)
def test_the_step_is_that_of_the_matrix(name):
    with jax.enable_x64(True):
        for noise, forms in NOISES.items():
            expected = stepped(noise, "matrix", name)
            for form in list(forms)[1:]:
                found = stepped(noise, form, name)
                if isinstance(expected, str):
                    assert found == expected, (noise, form)
                    continue
                assert not isinstance(found, str), (noise, form, found)
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=f"{noise}, {form}")
