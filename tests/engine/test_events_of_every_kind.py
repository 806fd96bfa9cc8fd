"""One oscillator as every kind of problem: weighed, stopped and split, the same probability of reaching a level.

x'' = -x - x'/5 + 0.6 ξ from rest; 5 standard errors are allowed (a false alarm in 6e-7 for each pair), seeds are fixed.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st

KINDS = {
    "SDE": (sd.linear([[0.0, 1.0], [-1.0, -0.2]], [[0.0], [0.6]], names=("x", "v")), "SRA1"),
    "Mechanical": (sd.Mechanical(lambda t, x, v: -x - 0.2 * v, lambda t, x, v: 0.6, (0.0, 0.0)), "StochasticAlpha"),
    "Hamiltonian": (
        sd.Hamiltonian(lambda t, q, p: 0.5 * (q**2 + p**2), lambda t, q, p: -0.6 * q, lambda t, q, p: -0.2 * p,
                       start=(0.0, 0.0), names=("x", "p")), "Midpoint"),
    "SDAE": (
        sd.SDAE(np.diag([1.0, 1.0, 0.0]), lambda t, x: jnp.array([x[1], -x[2] - 0.2 * x[1], x[2] - x[0]]),
                lambda t, x: jnp.array([[0.0], [0.6], [0.0]]), [0.0, 0.0, 0.0], names=("x", "v", "force")),
        "Trapezoidal"),
    "constraints": (
        sd.Mechanical(lambda t, x, v: -x - 0.2 * v, lambda t, x, v: jnp.array([[0.6], [0.0]]),
                      ([0.0, 0.0], [0.0, 0.0]), constraints=lambda t, x: x[1:], names=("x", "y")), "RattleAlpha"),
}  # fmt: skip
LEVEL = sd.Level(1.2, of="x")
OPTIONS = dict(t=(0, 4), dt=0.05, paths=4000, seed=1, threads=1)


@pytest.fixture(scope="module")
def reference():
    """P(x reaches 1.2 before 4) and its error, from many paths of the linear problem."""
    run = sd.simulate(*KINDS["SDE"], **OPTIONS | {"paths": 10_000}, collect=st.Passage(LEVEL, at=[4.0], mean=False))
    return 1.0 - run["passage_survival"].values[-1], run["passage_survival_stderr"].values[-1]


@pytest.mark.brief("SDAE")
@pytest.mark.filterwarnings("ignore:rare:UserWarning")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "SDE"])
def test_weighed_stopped_and_split(kind, reference):
    problem, method = KINDS[kind]
    exact, error = reference
    weighed = sd.simulate(problem, method, **OPTIONS, collect=st.Passage(LEVEL, at=[4.0], mean=False))
    p, own = 1.0 - weighed["passage_survival"].values[-1], weighed["passage_survival_stderr"].values[-1]
    assert abs(p - exact) < 5 * np.hypot(own, error)
    assert weighed["passage_survival"].attrs["between_steps"].startswith("cubic")
    stopped = sd.simulate(problem, method, **OPTIONS, stop=sd.Stop(LEVEL), collect=st.Moments(at=[4.0]))
    share = 1.0 - int(stopped["alive"].values[-1]) / OPTIONS["paths"]
    assert share == pytest.approx(p, abs=1e-12)
    if kind == "Mechanical":  # split as an SDE in the tests of rare events
        return
    split = sd.rare(problem, method, event=LEVEL, before=4.0, dt=0.05, seed=1, replicas=32, runs=8, threads=1)
    assert abs(split["probability"] - exact) < 5 * np.hypot(split["probability_stderr"], error)
