"""float64 whatever the session's precision is, float32 on request, and constants that were rounded are named."""

import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, RandomDAE, simulate
from stodyn import statistics as st
from stodyn.analysis import covariance, linear
from stodyn.analysis.cycle.periodic import periodic
from stodyn.analysis.small_noise import small_noise
from stodyn.engine.program import printed
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ThetaEuler
from stodyn.models.double_well import double_well
from stodyn.models.kubo import kubo
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.noise.distribution import Uniform
from stodyn.results import provenance
from stodyn.warnings import SinglePrecisionConstant

RUN = dict(t=(0.0, 1.0), dt=0.05, paths=8, seed=2)

CHILD = """
    import jax, jax.numpy as jnp, numpy as np
    import stodyn as sd
    from stodyn.methods.implicit import ThetaEuler
    from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

    assert not jax.config.jax_enable_x64
    problem, collect = ornstein_uhlenbeck(0.3, 0.0, 0.1), [sd.statistics.Paths(2, at=[1.0]), sd.statistics.Moments()]
    run = sd.simulate(problem, ThetaEuler, t=(0, 1), dt=0.01, paths=2, seed=1, collect=collect)
    assert run["path"].dtype == run["mean"].dtype == np.float64
    np.testing.assert_allclose(run["path"].values.ravel(), 0.1 / 1.003**100, rtol=1e-13)
    assert not jax.config.jax_enable_x64
    assert jnp.zeros(1).dtype == np.float32
    print("done")
"""


def test_a_plain_session_gets_float64_and_keeps_its_own_precision(forked, tmp_path):
    """JAX's default is 32 bits; relative 1e-13 after 100 steps cannot come from it."""
    forked(textwrap.dedent(CHILD), tmp_path / "printed").wait()
    assert (tmp_path / "printed").read_text() == "done\n"


@pytest.mark.parametrize("wide", [True, False])
def test_the_callers_setting_is_left_alone(wide):
    with jax.enable_x64(wide):
        simulate(ornstein_uhlenbeck(), EulerMaruyama, **RUN)
        assert jax.config.jax_enable_x64 == wide
        with pytest.raises(ValueError, match="dt"):
            simulate(ornstein_uhlenbeck(), EulerMaruyama, **RUN | dict(dt=0.3))
        assert jnp.zeros(1).dtype == (np.float64 if wide else np.float32)


def test_numbers_of_a_users_function_keep_a_float32_run_printed():
    """0.5 is a number of no precision of its own: it becomes one of the run's."""
    problem = SDE(lambda t, x: -x, lambda t, x: 0.5, 1.0)
    single, double = (simulate(problem, Heun, dtype=dtype, **RUN) for dtype in ("float32", "float64"))
    assert provenance(single)["executor"] == "printed"
    np.testing.assert_allclose(single["variance"], double["variance"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "statistic", [st.Paths(8), st.Spectrum(segment=8), st.Moments()], ids=["Paths", "Spectrum", "Moments"]
)
def test_lanes_that_are_not_paths_may_hold_any_bits(statistic, monkeypatch):
    """Memory that is used again may hold signalling NaNs there, whose conversion to float32 is invalid: a warning is an
    error in these tests."""
    monkeypatch.setattr(printed, "_memory", lambda name, *shape: np.full(shape, 0x7FF0000000000001).view(float))
    run = simulate(ornstein_uhlenbeck(), Heun, dtype="float32", collect=statistic, **RUN)
    assert provenance(run)["executor"] == "printed"
    assert all(np.isfinite(run[name]).all() for name in run if run[name].dtype.kind == "f")


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize(
    ("problem", "method", "executor"),
    [(kubo(), Heun, "printed"), (kubo(), EulerMaruyama, "vmap"), (double_well(), ThetaEuler, "printed")],
)
def test_float32_runs_have_the_same_paths_to_single_precision(problem, method, executor):
    """The same paths to single precision, in single precision; what is averaged over them is float64."""
    collect = [st.Paths(8, every=5), st.Moments()]
    wide, narrow = (
        simulate(problem, method, collect=collect, executor=executor, dtype=dtype, **RUN)
        for dtype in ("float64", "float32")
    )
    assert (narrow["path"].dtype, wide["path"].dtype) == (np.float32, np.float64)
    assert narrow["mean"].dtype == np.float64
    np.testing.assert_allclose(narrow["path"], wide["path"], rtol=1e-4, atol=1e-5)
    assert np.abs(narrow["path"] - wide["path"]).max() > 1e-9
    np.testing.assert_allclose(narrow["mean"], wide["mean"], rtol=1e-4, atol=1e-5)


def rounded(values):
    with jax.enable_x64(False):
        return jnp.asarray(values)


SHARED = rounded([0.6, 0.1])


def pulled(constant):
    return SDE(lambda t, x: -constant * x, lambda t, x: jnp.eye(2), [1.0, 2.0])


@pytest.mark.parametrize(
    ("problem", "named"),
    [
        (pulled(rounded([0.1, 0.25])), r"constant in drift = \[0\.1 +0\.25\]"),
        (pulled(rounded(0.3)), r"constant in drift = 0\.3\d*"),
        (pulled(np.float32([0.7, 0.5])), r"drift = \[-0\.7 -0\.5\]"),
        (
            SDE(jax.jit(lambda t, x: -SHARED * x), lambda t, x: jnp.eye(2), [1.0, 2.0]),
            r"SHARED in drift = \[0\.6 +0\.1\]",
        ),
        (ornstein_uhlenbeck(rate=rounded(0.1)), r"params\['rate'\] = 0\.1\d*"),
        (SDE(lambda t, x: -x, lambda t, x: jnp.eye(2), rounded([0.1, 0.2])), r"start = \[0\.1 0\.2\]"),
    ],
    ids=["array", "number", "numpy", "inside jit", "parameter", "start"],
)
def test_constants_rounded_to_float32_are_named(problem, named):
    words = rf"float64 run uses float32 numbers: {named}\. They were made by jax\.numpy .* make them with numpy"
    with pytest.raises(SinglePrecisionConstant, match=words):  # warnings are errors here: nothing is compiled for it
        simulate(problem, EulerMaruyama, **RUN)


def test_the_warning_points_at_the_call():
    with pytest.warns(SinglePrecisionConstant) as told:
        simulate(ornstein_uhlenbeck(rate=rounded(0.1)), EulerMaruyama, **RUN)
    assert [w.filename for w in told] == [__file__]


def test_constants_that_lost_nothing_are_not_named():
    """0, 1, 0.5, -1024 are exact in any precision; in a float32 run nothing is lost that was not given up."""
    simulate(pulled(rounded([0.5, -1.0])), EulerMaruyama, **RUN)
    simulate(pulled(rounded([0.1, 0.2])), EulerMaruyama, dtype="float32", **RUN)


ANALYSES = {
    "one step": lambda problem: linear.step_map(problem, "EulerMaruyama", 0.1),
    "moments": lambda problem: covariance.exact(problem, [0.0, 1.0]),
    "small noise": lambda problem: small_noise(problem, [0.0, 1.0]),
    "cycles": lambda problem: periodic(problem),
}


@pytest.mark.parametrize("analyse", ANALYSES.values(), ids=ANALYSES.keys())
def test_constants_rounded_to_float32_are_named_by_analyses(analyse):
    with pytest.raises(SinglePrecisionConstant, match=r"in float64 uses float32 numbers: constant in drift = \[0\.1"):
        analyse(pulled(rounded([0.1, 0.25])))


def test_constants_rounded_to_float32_are_named_where_no_step_is_traced():
    """An expansion has no steps, but its problem has functions."""
    gain = rounded(0.1)
    problem = RandomDAE([[1.0]], lambda t, x, p: p["g"] - gain * x, [0.0], {"g": Uniform(0.5, 1.5)})
    with pytest.raises(SinglePrecisionConstant, match=r"gain in drift = 0\.1"):
        simulate(problem, "Collocation", t=(0.0, 1.0), dt=0.5)


WATCHING = {
    "Moments": st.Moments(every=5),
    "Histogram": st.Histogram(np.linspace(-3.0, 3.0, 7), every=5),
    "Paths": st.Paths(3, every=5),
    "Observable": st.Observable(lambda t, x, p: x[0] ** 2 + p["beta"], every=5),
    "Passage": st.Passage(2.05, 0, every=5, mean=False),
    "Iterations": st.Iterations(every=5),
    "Autocorrelation": st.Autocorrelation(lags=3, every=1),
    "Spectrum": st.Spectrum(segment=16, every=1),
}


@pytest.mark.brief(*(f"Heun-{name}" for name in WATCHING), "ImplicitMidpoint-Iterations")
@pytest.mark.parametrize("name", WATCHING)
@pytest.mark.parametrize("method", ["Heun", "ImplicitMidpoint"])
def test_what_is_seen_does_not_depend_on_the_sessions_precision(name, method):
    """All other tests run in a session of float64, which would hide what is traced in the session's precision."""
    runs = []
    for is_double in (True, False):
        with jax.enable_x64(is_double):
            runs.append(simulate(kubo(), method, collect=WATCHING[name], **RUN))
    assert runs[0].drop_attrs().identical(runs[1].drop_attrs())


def test_functions_are_looked_at_in_float64_alone():
    """Corners of a drift were looked for in float32, where a branch with a table of float64 cannot be traced."""
    table, seen = np.array([[0.0, 1.0], [-1.0, -0.3]]), set()

    def drift(t, x):
        seen.add(x.dtype)
        return jax.lax.cond(x[0] > 0, lambda: jnp.asarray(table) @ x, lambda: -0.5 * x)

    problem = SDE(drift, lambda t, x: 0.1 * jnp.eye(2), [1.0, 0.0])
    simulate(problem, EulerMaruyama, t=(0.0, 0.2), dt=0.1, paths=2, seed=1)
    assert seen == {np.dtype(float)}
