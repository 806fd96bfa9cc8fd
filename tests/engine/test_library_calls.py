"""Steps that call LAPACK end, however many threads run them."""

import subprocess
import sys

import pytest

PROGRAM = """
import jax.numpy as jnp, numpy as np, stodyn as sd
A = np.random.default_rng(0).normal(size=(6, 6)) - 3 * np.eye(6)
problem = sd.SDE(lambda t, x: jnp.linalg.solve(A + jnp.diag(x), x), lambda t, x: jnp.diag(0.1 * x), np.ones(6))
run = sd.simulate(problem, "EulerMaruyama", t=(0, 1), dt=0.1, paths=8192, seed=1, executor="vmap", progress=False)
print(sd.provenance(run)["executor"], int(run["paths_used"][-1]))
"""


@pytest.mark.usefixtures("quick_compiling_everywhere")
def test_two_threads_inside_lapack_do_not_wait_for_each_other_for_ever():
    """Two blocks at once on two cores fill XLA's pool, and each waits inside LAPACK for a free thread of it."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["vmap", "8192"]


SEVERAL = """
import jax.numpy as jnp, numpy as np, stodyn as sd
A = np.random.default_rng(0).normal(size=(200, 200)) + 30.0 * np.eye(200)
def drift(t, x):
    solved = [jnp.linalg.solve(B + jnp.diag(x), x) for B in (A, A.T, A @ A)]
    return solved[0] - solved[1] + solved[2]
problem = sd.SDE(drift, lambda t, x: 0.1 * jnp.ones((200, 1)), np.ones(200))
run = sd.simulate(problem, "EulerMaruyama", t=(0, 1), dt=0.1, paths=8, seed=1, executor="vmap", progress=False)
print(sd.provenance(run)["executor"], int(run["paths_used"][-1]))
"""


@pytest.mark.usefixtures("quick_compiling_everywhere")
def test_several_calls_to_lapack_in_one_step_do_not_wait_for_each_other_for_ever():
    """XLA computes three systems at once that do not depend on each other, in a pool of two threads."""
    done = subprocess.run([sys.executable, "-c", SEVERAL], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["vmap", "8"]
