"""The seam to JAX: parameters that JAX renames lead to a fallback with a reason, never to a raw error."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core

import stodyn
import stodyn as sd
from stodyn.numerics import uncompiled
from stodyn.numerics.facts.axes import facts_of
from stodyn.numerics.facts.degree import is_affine
from stodyn.numerics.facts.dependence import dependence, dependence_by_arrays
from stodyn.numerics.facts.exact_zeros import exact_zeros
from stodyn.numerics.printing import operations
from stodyn.numerics.printing.unprintable import Unprintable

FUNCTIONS = {
    "scan": lambda x: lax.scan(lambda carry, row: (carry + row, carry * row), 0.0, x)[1],
    "while": lambda x: lax.while_loop(lambda y: y[0] < 3.0, lambda y: y + 1.0, x),
    "cond": lambda x: lax.cond(x[0] > 0.0, jnp.sin, jnp.cos, x),
    "gather": lambda x: x[jnp.array([2, 0, 1])],
    "scatter": lambda x: x.at[jnp.array([2, 0])].set(x[:2]),
    "scatter-add": lambda x: x.at[jnp.array([2, 0])].add(x[:2]),
    "dot_general": lambda x: jnp.outer(x, x) @ x,
    "reduce_sum": lambda x: x.sum(keepdims=True) * x,
    "transpose": lambda x: (x[:, None] * jnp.arange(3.0)).T[0],
    "cumsum": jnp.cumsum,
    "integer_pow": lambda x: x**3,
}


def only_module_that_reads(words):
    """The modules of the package in which a pattern occurs."""
    root = Path(stodyn.__file__).parent
    return {str(p.relative_to(root)) for p in root.rglob("*.py") if re.search(words, p.read_text())}


def test_one_module_reads_the_parameters_of_equations():
    assert only_module_that_reads(r"\b(equation|eqn|e)\.params\b") == {"numerics/printing/operations.py"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_renamed_parameters_are_an_unknown_operation_to_every_reader(name, monkeypatch):
    """As JAX 0.11 renamed those of scan."""

    def renamed(params, equation):
        raise KeyError("of_another_name")

    function, x = FUNCTIONS[name], np.array([0.5, 1.0, 2.0])
    trace = jax.make_jaxpr(function)(x)
    assert name in {e.primitive.name for e in operations.equations_of(trace.jaxpr)}
    monkeypatch.setitem(operations.READ, name, renamed)
    with pytest.raises(Unprintable, match=f"{name} as this version of JAX has it .KeyError"):
        dependence(function, x)
    with pytest.raises(Unprintable, match="as this version of JAX has it"):
        dependence_by_arrays(trace, (x,))
    with pytest.raises(uncompiled.Compile):
        uncompiled.run(trace, x)
    assert not is_affine(trace, [True])
    assert facts_of(trace, (x,), vector=0).on <= {0}
    np.testing.assert_allclose(core.jaxpr_as_fun(exact_zeros(trace))(x)[0], function(jnp.asarray(x)))


def test_a_run_falls_back_and_gives_the_reason(monkeypatch):
    monkeypatch.setitem(operations.READ, "gather", operations._number("of_another_name"))
    problem = sd.SDE(lambda t, x: -x[jnp.array([1, 0])], lambda t, x: 0.1 * jnp.eye(2), [1.0, 2.0])
    result = sd.simulate(problem, "EulerMaruyama", t=(0.0, 0.5), dt=0.25, paths=4, seed=1)
    record = json.loads(result.attrs["provenance"])
    assert record["executor"] == "vmap"
    assert "gather as this version of JAX has it" in record["executor_reason"]
