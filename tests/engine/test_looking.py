"""What users see of their own functions: values at a state, where they are no numbers, and their prints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd

RUN = {"t": (0, 0.4), "dt": 0.1, "paths": 1, "seed": 1}


def still(t, x):
    return 0.1 + 0.0 * x


def test_functions_are_evaluated_at_a_state():
    pendulum = sd.SDE(
        lambda t, x, p: jnp.array([x[1], -p["g"] * jnp.sin(x[0])]), lambda t, x: jnp.array([[0.0], [0.3 * x[1]]]),
        start=[1.0, 2.0], params={"g": 9.81}, names=("angle", "rate"),
    )  # fmt: skip
    here = sd.analysis.evaluate(pendulum)
    np.testing.assert_allclose(here["drift"].sel(component="rate"), -9.81 * np.sin(1.0), rtol=1e-15)
    np.testing.assert_allclose(here["diffusion"], [[0.0], [0.6]])
    there = sd.analysis.evaluate(pendulum, [0.5, 1.0], params={"g": 1.0})
    np.testing.assert_allclose(there["drift"], [1.0, -np.sin(0.5)], rtol=1e-15)
    spring = sd.Mechanical(lambda t, x, v: -4.0 * x - v, lambda t, x, v: jnp.array([[2.0]]), ([1.0], [3.0]))
    assert sd.analysis.evaluate(spring)["force"].values.tolist() == [-7.0]
    ground = sd.noise.coloured.gauss_markov(1.0, 1.0)
    frame = sd.base_excited(sd.Mechanical.from_matrices([1.0], [0.1], [[4.0]]), ground)
    assert sd.analysis.evaluate(frame, [0.5, 1.0])["force"].values.tolist() == [-2.1]
    with pytest.raises(ValueError, match="x: expected 2 numbers, for angle, rate; got 3"):
        sd.analysis.evaluate(pendulum, [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("drift", "start", "words"),
    [
        (lambda t, x: 1.0 / x, 0.0, r"^start: the drift is infinite at t = 0, x = 0, so that every path would fail"),
        (
            lambda t, x: jnp.array([x[1], jnp.log(-x[0])]), [1.0, 2.0],
            r"the drift is NaN in entry \[1\] at t = 0, q = 1, p = 2.*takes a logarithm",
        ),
    ],
)  # fmt: skip
def test_a_start_at_which_a_function_is_no_number_is_refused_before_the_run(drift, start, words):
    noise = still if np.ndim(start) == 0 else lambda t, x: jnp.array([[0.0], [0.1]])
    problem = sd.SDE(drift, noise, start, names=None if np.ndim(start) == 0 else ("q", "p"))
    with pytest.raises(ValueError, match=words):
        sd.simulate(problem, "EulerMaruyama", **RUN)
    left = sd.simulate(problem, "EulerMaruyama", **RUN, on_failure="record")
    assert left["failed_path"].values.tolist() == [0]


def test_a_path_that_fails_names_the_function_the_time_the_state_and_the_entry():
    """The root of a decaying state: noise takes it below 0, and NaN follows one step later."""
    root = sd.SDE(lambda t, x: -x, lambda t, x: jnp.diag(jnp.sqrt(x)), [0.1, 0.1], names=("a", "b"))
    with pytest.raises(sd.PathsFailed) as raised:
        sd.simulate(root, "EulerMaruyama", t=(0, 10), dt=0.1, paths=8, seed=1)
    error = raised.value
    path, time = int(error.paths[0]), float(error.times[0])
    run = sd.simulate(root, "EulerMaruyama", t=(0, 10), dt=0.1, paths=8, seed=1, on_failure="record")
    last = sd.replay(root, "EulerMaruyama", run, path)["path"].sel(time=time - 0.1, method="nearest")
    bad = int(np.flatnonzero(last.values < 0.0)[0])
    told = f"Before path {path} failed, the diffusion is NaN in entry [{bad}, {bad}] at t = {time - 0.1:.6g}, a = "
    assert told in str(error) and f"a = {float(last[0]):.6g}, b = {float(last[1]):.6g}" in str(error)
    assert "jnp.maximum" in str(error) and "smaller dt" not in str(error)


def test_a_step_that_fails_is_looked_for_where_the_noise_of_a_step_leads():
    """Heun asks at x + W, which may be beyond the edge of a root that is 0.9 √h away."""
    edge = 0.9 * np.sqrt(0.1)
    near = sd.SDE(lambda t, x: 0.0 * jnp.sqrt(edge - x), lambda t, x: 1.0, 0.0)
    with pytest.raises(sd.PathsFailed, match=r"its last state was .*x = 0.*, and near it the drift is NaN"):
        sd.simulate(near, "Heun", t=(0, 0.1), dt=0.1, paths=50, seed=1)


def test_only_the_steps_of_a_run_print(capsys):
    """Heun asks the drift twice in each of four steps; nothing else that looks at it is seen."""

    def loud(t, x):
        jax.debug.print("at {} {}", t, x)
        return -x

    problem = sd.SDE(loud, still, 1.0)
    sd.simulate(problem, "Heun", **RUN)
    jax.effects_barrier()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and lines[0] == "at 0.0 1.0"
    sd.analysis.evaluate(problem, 3.0, t=2.0)
    jax.effects_barrier()
    assert capsys.readouterr().out == "at 2.0 3.0\n"
