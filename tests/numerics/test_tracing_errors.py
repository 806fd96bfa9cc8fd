"""The user's line where JAX cannot trace it: in functions that others call, over several lines, and without source."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics.tracing_errors import in_words, missing_entry, way_out


def helper(y):
    return "é" and np.tanh(y)


def over_lines(x):
    return jnp.array([
        x[1],
        np.sin(
            x[0]
        ),
    ])  # fmt: skip


def failure(function, *arguments):
    with pytest.raises(Exception) as raised:
        jax.make_jaxpr(function)(*arguments)
    return raised.value


@pytest.mark.parametrize(
    ("function", "expression", "hint"),
    [
        (lambda x: 2.0 * helper(x), "`np.tanh(y)`", "jnp.tanh for np.tanh"),
        (over_lines, "`np.sin( x[0] )`", "jnp.sin for np.sin"),
        (jax.jit(lambda x: np.cos(x)), "`np.cos(x)`", "jnp.cos for np.cos"),
        (functools.partial(lambda k, x: k * np.cos(x), 2.0), "`np.cos(x)`", "jnp.cos for np.cos"),
        (lambda x: jax.vmap(lambda y: y if y > 0 else -y)(x), "`y > 0`", "jnp.where or lax.cond"),
    ],
    ids=["helper", "several lines", "jit", "partial", "vmap"],
)
def test_the_users_line_is_found(function, expression, hint):
    error = failure(function, np.ones(2))
    assert f"in {expression}, line" in in_words(error) and in_words(error).endswith("of test_tracing_errors.py")
    assert hint in way_out(error)


def test_without_source_the_line_has_a_number_and_advice_is_general():
    names = {"np": np}
    exec(compile("def f(x):\n    return np.sin(x)\n\ndef g(p):\n    return p['rat']\n", "<typed>", "exec"), names)
    error = failure(names["f"], np.ones(2))
    assert in_words(error).endswith("in line 2 of <typed>")
    assert "jnp in place of np and math" in way_out(error)
    params = {"rate": 1.0}
    assert missing_entry(failure(names["g"], params), params).endswith("It has 'rate'; did you mean 'rate'?")


def test_other_errors_get_no_rules_of_tracing():
    error = failure(lambda x: jnp.eye(3) @ x, np.ones(2))
    assert way_out(error) == missing_entry(error, {}) == ""
