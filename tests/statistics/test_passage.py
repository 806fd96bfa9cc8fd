"""First passage of Brownian motion and of the Ornstein-Uhlenbeck process against closed forms."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfcx
from scipy.stats import norm

import stodyn as sd
from stodyn import statistics as st
from stodyn.statistics.passage import share_after_crossing

PATHS = 40_000
LATE = 0.5826  # -ζ(1/2)/√(2π): M. Broadie, P. Glasserman & S. Kou, Math. Finance 7 (1997)


def brownian(drift=0.3, sigma=0.8):
    return sd.SDE(lambda t, x: drift + 0.0 * x, lambda t, x: sigma, 0.0), drift, sigma


def survival(t, level, drift, sigma):
    """P(τ > t) of Brownian motion with drift: the reflection principle."""
    s = sigma * np.sqrt(t)
    return norm.cdf((level - drift * t) / s) - np.exp(2 * drift * level / sigma**2) * norm.cdf((-level - drift * t) / s)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_brownian_motion_with_the_bridge_at_any_step(direction):
    """The bridge is exact for Brownian motion: a step of half the horizon will do. 4 standard errors at two times and
    for the mean: false alarm 2e-4; the seed is fixed, so the verdict is."""
    problem, drift, sigma = brownian()
    sign = 1 if direction == "up" else -1
    collect = st.Passage(sign * 1.0, "x", direction=direction, every=1)
    run = sd.simulate(problem, "EulerMaruyama", t=(0, 2), dt=1.0, paths=PATHS, seed=5, collect=collect)
    exact = survival(run["time"].values[1:], 1.0, sign * drift, sigma)
    z = (run["passage_survival"].values[1:] - exact) / run["passage_survival_stderr"].values[1:]
    assert np.max(np.abs(z)) < 4
    mean = quad(lambda t: survival(t, 1.0, sign * drift, sigma), 1e-12, 2.0)[0]
    assert abs(run["passage_time"].values[-1] - mean) < 4 * run["passage_time_stderr"].values[-1]


def test_the_time_left_after_a_crossing():
    """Against its definition, with the density a/√(2πu³) exp(-a²/2u) of the first passage of a level at a."""
    for a, b in ((0.3, 0.2), (1.5, 0.01), (0.05, 3.0), (12.0, 2.0)):

        def crossing(u, a=a, b=b):
            first = a / u**1.5 * np.exp(-(a**2) / (2 * u))
            return first * np.exp(-(b**2) / (2 * (1 - u)) + 0.5 * (a + b) ** 2) / np.sqrt(2 * np.pi * (1 - u))

        exact = quad(lambda u, f=crossing: (1 - u) * f(u), 0, 1, epsabs=1e-12)[0]
        for scale in (1.0, 0.1):
            assert share_after_crossing(a * scale, b * scale, scale**2) == pytest.approx(exact, rel=1e-7)


def test_mean_passage_time_of_brownian_motion():
    problem, drift, sigma = brownian()
    run = sd.simulate(
        problem, "EulerMaruyama", t=(0, 4), dt=0.02, paths=PATHS, seed=6, collect=st.Passage(1.0, at=[4.0])
    )
    exact = quad(lambda t: survival(t, 1.0, drift, sigma), 1e-12, 4.0)[0]
    assert abs(run["passage_time"].item() - exact) < 4 * run["passage_time_stderr"].item()


def test_without_the_bridge_passage_is_late_by_the_square_root_of_the_step():
    """The grid sees the level as if it lay LATE σ √h further, to 4 standard errors."""
    problem, drift, sigma = brownian()
    dt = 0.05
    collect = st.Passage(1.0, bridge=False, at=[2.0])
    run = sd.simulate(problem, "EulerMaruyama", t=(0, 2), dt=dt, paths=PATHS, seed=7, collect=collect)
    found, stderr = run["passage_survival"].item(), run["passage_survival_stderr"].item()
    assert found - survival(2.0, 1.0, drift, sigma) > 10 * stderr
    assert abs(found - survival(2.0, 1.0 + LATE * sigma * np.sqrt(dt), drift, sigma)) < 4 * stderr


def test_mean_passage_time_of_the_ornstein_uhlenbeck_process():
    """E τ = (√π/rate) ∫ from 0 to a of exp(u²)(1 + erf u) du, a = level √rate/σ, started at 0 (Siegert 1951): with the
    bridge, and without it for the level as the grid sees it, both to 4 standard errors."""
    rate, sigma, level, dt = 1.0, 1.0, 1.0, 0.02

    def exact(level):
        return np.sqrt(np.pi) / rate * quad(lambda u: erfcx(-u), 0, level * np.sqrt(rate) / sigma)[0]

    problem = sd.SDE(lambda t, x: -rate * x, lambda t, x: sigma, 0.0)
    horizon = 40.0  # P(τ > 40) is below 1e-6
    collect = [st.Passage(level, at=[horizon]), st.Passage(level, at=[horizon], bridge=False, name="grid")]
    run = sd.simulate(problem, "SRA1", t=(0, horizon), dt=dt, paths=20_000, seed=8, collect=collect)
    assert run["passage_survival"].item() < 1e-4
    assert abs(run["passage_time"].item() - exact(level)) < 4 * run["passage_time_stderr"].item()
    late, stderr = run["grid_time"].item(), run["grid_time_stderr"].item()
    assert late - exact(level) > 4 * stderr
    assert abs(late - exact(level + LATE * sigma * np.sqrt(dt))) < 4 * stderr


def test_a_start_beyond_the_level_has_passed():
    problem, _, _ = brownian()
    run = sd.simulate(problem, "Heun", t=(0, 1), dt=0.5, paths=8, seed=0, collect=st.Passage(-1e3, every=1))
    np.testing.assert_array_equal(run["passage_survival"], 0.0)
    np.testing.assert_array_equal(run["passage_time"], 0.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"component": "y"}, "no component 'y'"),
        ({"component": 3}, "expected 0 to 0"),
        ({"direction": "left"}, "up"),
        ({"level": "x"}, r"level must be a number, got 'x'; write Passage\(level, component\)"),
    ],
)
def test_bad_requests(options, words):
    problem, _, _ = brownian()
    with pytest.raises(ValueError, match=words):
        sd.simulate(problem, "Heun", t=(0, 1), dt=0.5, paths=8, seed=0, collect=st.Passage(**{"level": 1.0} | options))
