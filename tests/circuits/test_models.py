"""The circuits of models.circuits as netlists: the same equations, and the same numbers from the same noise."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.circuits import examples, read
from stodyn.methods.stiff import RK1W2M
from stodyn.models.circuits import RECTIFIER, RING_OSCILLATOR, TWO_DIODES
from stodyn.noise.increment import Increment
from stodyn.numerics.printing.points import AtPoints, at_one

pytestmark = pytest.mark.usefixtures("quick_compiling")

# The models are in V, mA and us (rectifier, two diodes) or ns (ring), the netlists in V, A and s.
PAIRS = [
    ("rectifier", RECTIFIER, {"jV": "i(v1)"}, 1e-6),
    ("two_diodes", TWO_DIODES, {}, 1e-6),
    ("ring_oscillator", RING_OSCILLATOR, {"jV": "i(vdd)"}, 1e-9),
]


def paired(name, model, renamed, second):
    """The circuit, the model's problem, which component is which, and the size of a model's unit of each."""
    circuit, problem = read(examples()[name]), model.problem
    order = [circuit.names.index(renamed.get(n, n)) for n in problem.components]
    unit = np.array([1.0 if n.startswith("u") else 1e-3 for n in problem.components])
    return circuit, problem, order, unit


@pytest.mark.parametrize(("name", "model", "renamed", "second"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_the_same_equations(name, model, renamed, second):
    """M, f and g agree in 20 states to 1e-10 of their size, rows up to sign and unit."""
    circuit, problem, order, unit = paired(name, model, renamed, second)
    rows = [int(np.argmax(problem.mass[i])) if problem.mass[i].any() else -1 for i in range(problem.n)]
    rng = np.random.default_rng(3)
    here = AtPoints(lambda t, X: (circuit.f(t, X, {"noise": 1.0}), circuit.g(t, X, {"noise": 1.0})))
    there = AtPoints(lambda t, x: (problem.f(t, x, problem.params), problem.g(t, x, problem.params)))

    def at(both, t, x):
        return {key: found[0] for key, found in zip("fg", both(np.array([t]), x[None]), strict=True)}

    for _ in range(20):
        t, x = rng.uniform(0.0, 2.0), np.asarray(problem.example_start()) + 0.1 * rng.standard_normal(problem.n)
        X = np.zeros(circuit.n)
        X[order] = unit * x
        ours, theirs = at(here, t * second, X), at(there, t, x)
        ours["g"] = ours["g"] / np.sqrt(second)
        for i, component in enumerate(rows):
            if component < 0:
                continue  # a constraint: below
            for key in "fg":
                np.testing.assert_allclose(ours[key][order[component]], 1e-3 * np.asarray(theirs[key][i]), rtol=1e-10,
                                           atol=1e-13 * np.abs(theirs[key]).max())  # fmt: skip
            mass = circuit.mass[order[component], order[component]] / second
            assert mass == pytest.approx(1e-3 * problem.mass[i, component], rel=1e-12)
        constraints = [np.asarray(ours["f"][j]) for j in range(circuit.n) if not circuit.mass[j].any()]
        wanted = [float(theirs["f"][i]) for i in range(problem.n) if rows[i] < 0]
        sizes = sorted(abs(w) * (1e-3 if k == 0 else 1.0) for k, w in enumerate(wanted))
        np.testing.assert_allclose(sorted(np.abs(constraints)), sizes, rtol=1e-9, atol=1e-16)
        assert not np.any(ours["g"][[j for j in range(circuit.n) if not circuit.mass[j].any()]])


@pytest.mark.long("test_the_same_equations")
def test_two_diodes_with_given_increments():
    """RK1W2M in V, A and s gives the twelve digits that an independent program in V, mA and us gave."""
    circuit = dataclasses.replace(read(examples()["two_diodes"]), params={"noise": 1000.0}, structure="without areas")
    dW = 1e-3 * np.array([(0.02, -0.03), (0.01, 0.04), (-0.05, 0.02), (0.03, -0.01)])
    h = 0.125e-6 / 4

    @jax.jit
    def steps(x):
        def step(carry, w):
            k, x, ok = carry
            x, report = RK1W2M.step(circuit, k * h, x, Increment(h, w), circuit.params)
            return (k + 1.0, x, ok & report.ok), None

        return jax.lax.scan(step, (0.0, x, True), jnp.asarray(dW))[0]

    _, found, ok = steps(jnp.asarray(circuit.start))
    assert ok
    np.testing.assert_allclose(found, (0.461450760779, 0.456854432191, 0.409475810327), rtol=3e-12)


def test_starts_are_consistent_to_the_digits_printed():
    """The start of the two diodes to the digits printed, and one behind constraints that need pivoting."""
    start = dict(zip(("u1", "u2", "u3"), read(examples()["two_diodes"]).start, strict=True))
    assert start == pytest.approx({"u1": 0.4557096, "u2": 0.45699813, "u3": 0.40817382}, abs=5e-8)
    held = read(examples()["sample_and_hold"])  # four constraints with zeros on the diagonal of their Jacobian
    found = at_one(lambda x: held.consistent(0.0, x, held.params), held.start)
    np.testing.assert_allclose(found, held.start, atol=1e-12)
