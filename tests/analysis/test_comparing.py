"""`sd.compare` against closed forms: geometric Brownian motion, whose solution and mean are known."""

import numpy as np
import pytest

import stodyn as sd

A, B = 0.5, 0.4
STEPS = (0.25, 0.125, 0.0625)


@pytest.fixture(scope="module")
def growth():
    return sd.SDE(lambda t, x, p: p["a"] * x, lambda t, x, p: p["b"] * x, 1.0, params={"a": A, "b": B})


@pytest.fixture(scope="module")
def study(growth):
    return sd.compare(growth, ["EulerMaruyama", sd.method("Milstein")], t=(0, 1), dt=STEPS, paths=2000, seed=1)


def euler_mean_square_error(h):
    """E (x_h - x)² at 1: x_h and x as products of independent factors (1 + ah + bW) and exp((a - b²/2)h + bW)."""
    n = round(1 / h)
    own = (1 + A * h) ** 2 + B**2 * h
    exact = np.exp((2 * A + B**2) * h)
    crossed = np.exp(A * h) * (1 + A * h + B**2 * h)
    return own**n - 2 * crossed**n + exact**n


def test_errors_are_those_of_the_closed_form(study):
    """|z| < 5 for three steps: a false alarm in 6e5 seeds. The reference's own error is far below."""
    for h in STEPS:
        found = study.sel(integrator="EulerMaruyama", dt=h)
        z = (float(found.error) - np.sqrt(euler_mean_square_error(h))) / float(found.error_stderr)
        assert abs(z) < 5
    assert bool(study.settled.all())
    ratio = study.error.sel(integrator="Milstein", dt=0.25) / study.error.sel(integrator="Milstein", dt=0.0625)
    assert 2.8 < float(ratio) < 5.6  # order 1: 4


def test_cost_grows_with_the_number_of_steps(study):
    cost = study.cost.sel(integrator="Milstein").values
    assert cost[0] > 0
    np.testing.assert_allclose(cost / cost[0], [1, 2, 4])
    assert study.cost.attrs["units"] == "s"


def test_the_error_of_a_mean(growth):
    """E x of Euler's method is (1 + ah)^n, that of the equation exp(a)."""
    found = sd.compare(growth, ["EulerMaruyama", "DRI1"], lambda t, x, p: x, t=(0, 1), dt=STEPS, paths=4000, seed=2)
    for h in STEPS:
        here = found.sel(integrator="EulerMaruyama", dt=h)
        exact = np.exp(A) - (1 + A * h) ** round(1 / h)
        assert abs(float(here.error) - exact) < 5 * float(here.error_stderr)
    assert bool((found.error.sel(integrator="DRI1") < found.error.sel(integrator="EulerMaruyama")).all())


def test_the_picture_names_methods_and_paths(study):
    ax = sd.plot.comparison(study)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["EulerMaruyama", "Milstein"]
    assert "2,000 paths" in ax.get_title()
    with pytest.raises(ValueError, match=r"study: expected the Dataset of sd\.compare"):
        sd.plot.comparison(study.drop_vars("cost"))


def test_bad_input_is_named(growth):
    def compare(methods=("EulerMaruyama",), quantity="paths", **options):
        return sd.compare(growth, methods, quantity, **{"t": (0, 1), "dt": STEPS, "paths": 8, "seed": 1} | options)

    with pytest.raises(TypeError, match=r"methods: expected a list of methods"):
        compare("Heun")
    with pytest.raises(ValueError, match="method: there is no 'Hein'"):
        compare(["Hein"])
    with pytest.raises(ValueError, match="named twice"):
        compare(["Heun", "Heun"])
    with pytest.raises(ValueError, match="DRI1 share moments with a Brownian path"):
        compare(["DRI1"])
    with pytest.raises(ValueError, match="dt: expected at least two steps"):
        compare(dt=[0.1])
    with pytest.raises(ValueError, match="each number must divide the largest"):
        compare(dt=[0.5, 0.3])
    with pytest.raises(TypeError, match='quantity: expected "paths" or a function'):
        compare(quantity=3)
    with pytest.raises(ValueError, match="paths: expected a whole number >= 2"):
        compare(paths=1)
