"""First passage against closed forms, quadrature of the steps' own kernels, and fine runs.

Sampled tests allow 5 standard errors (a false alarm in 6e-7 for each number) and have fixed seeds.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as laws
from scipy.integrate import quad
from scipy.special import erfcx
from scipy.stats import norm

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.linear import step_map
from stodyn.analysis.order import Errors
from stodyn.engine.program import executors
from stodyn.engine.program.as_scalars import Scalars
from stodyn.numerics import crossing, uncompiled
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.points import at_points
from stodyn.statistics.moments import Summary
from stodyn.statistics.passage import _mean
from stodyn.warnings import Censored, NoBridge

PATHS = 20_000
LATE = 0.5826  # -ζ(1/2)/√(2π): M. Broadie, P. Glasserman & S. Kou, Math. Finance 7 (1997)
DRIFT, SIGMA = 0.3, 0.8
BROWNIAN = sd.SDE(lambda t, x: DRIFT + 0.0 * x, lambda t, x: SIGMA, 0.0)
OU = sd.SDE(lambda t, x: -x, lambda t, x: np.sqrt(2.0), 0.0)


def survival(t, level=1.0, drift=DRIFT, sigma=SIGMA):
    """P(τ > t) of Brownian motion with drift: the reflection principle."""
    s = sigma * np.sqrt(t)
    return norm.cdf((level - drift * t) / s) - np.exp(2 * drift * level / sigma**2) * norm.cdf((-level - drift * t) / s)


def passed(problem, method, collect, **options):
    run = {"t": (0, 2), "dt": 1.0, "paths": PATHS, "seed": 5, "threads": 1} | options
    return sd.simulate(problem, method, collect=collect, **run)


def off(run, name, exact):
    """The largest distance to the exact values in standard errors."""
    error = run[f"{name}_stderr"].values
    return np.max(np.abs(run[name].values - exact)[error > 0] / error[error > 0])


@pytest.mark.filterwarnings("ignore::stodyn.statistics.passage.Censored")
def test_the_numbers_of_a_path_do_not_depend_on_how_many_are_taken_together(monkeypatch):
    """What a path carries stays in memory while no path is near the level; few paths together are asked near it."""
    collect = [st.Passage(1.0, every=5), st.Passage((-1.0, lambda t: 1.0 + t), every=5, mean=False, name="two")]
    found = []
    for registers in (1, 4):
        monkeypatch.setattr(Scalars, "width", lambda _, n=registers: n * compiling.processor().register)
        executors.forget()
        found.append(passed(OU, "SRA1", collect, dt=0.05, paths=100))
    for name in found[0].data_vars:
        np.testing.assert_array_equal(found[0][name].values, found[1][name].values)


# --- exact for Brownian motion at any step ----------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["up", "down"])
def test_brownian_motion_with_the_bridge_at_any_step(direction):
    """Steps of half the horizon: survival, restricted mean, density and hazard; S(2) = .4373, E min(τ, 2) = 1.4113."""
    sign = 1 if direction == "up" else -1
    problem = sd.SDE(lambda t, x: sign * DRIFT + 0.0 * x, lambda t, x: SIGMA, 0.0)
    run = passed(problem, "EulerMaruyama", st.Passage(sign * 1.0, "x", direction=direction, every=1, mean=False))
    exact = np.array([1.0, 0.6762188410704, 0.4373243966415])
    np.testing.assert_allclose(survival(np.array([1.0, 2.0])), exact[1:], rtol=1e-12)
    assert off(run, "passage_survival", exact) < 5
    mean = [quad(survival, 1e-12, t)[0] for t in (1.0, 2.0)]
    assert mean[1] == pytest.approx(1.4113088148605, abs=1e-10)
    assert off(run, "passage_restricted_mean", [0.0, *mean]) < 5
    assert off(run, "passage_density", -np.diff(exact)) < 5
    assert off(run, "passage_hazard", -np.diff(np.log(exact))) < 5
    np.testing.assert_array_equal(run["passage_middle"], [0.5, 1.5])


def test_looks_that_leave_the_start_out_see_the_same_intervals():
    """The first interval begins with the run, the others where the one before ended."""
    runs = [passed(BROWNIAN, "EulerMaruyama", st.Passage(1.0, mean=False, **looks), paths=64)
            for looks in ({"every": 1}, {"at": [1.0, 2.0]})]  # fmt: skip
    for name in ("middle", "density", "density_stderr", "hazard"):
        np.testing.assert_array_equal(*(run[f"passage_{name}"].values for run in runs))


@pytest.mark.parametrize("looks", [{"every": 5}, {"at": [0.0, 0.1, 0.5, 0.6, 1.5, 2.0]}])
def test_the_density_is_the_fall_of_the_survival_between_looks(looks):
    """Path by path, so that it is so in every sample."""
    run = passed(BROWNIAN, "EulerMaruyama", st.Passage(1.0, mean=False, **looks), paths=64, dt=0.05)
    fall = -np.diff(run["passage_survival"].values)
    np.testing.assert_allclose(run["passage_density"].values * np.diff(run["time"].values), fall, atol=1e-12)


def test_two_levels_and_a_level_that_moves():
    """Two-sided (-.7, 1): S(.5) = .7275542, S(1) = .4150660; W reaches 1 + t/2 before t = 1 with .1803118."""
    run = passed(BROWNIAN, "EulerMaruyama", st.Passage((-0.7, 1.0), every=1, mean=False), t=(0, 1), dt=0.5)
    assert off(run, "passage_survival", [1.0, 0.7275542025202, 0.4150659857872]) < 5
    fine = passed(BROWNIAN, "EulerMaruyama", st.Passage((-0.7, 1.0), at=[1.0], mean=False), t=(0, 1), dt=1 / 64, seed=6)
    assert off(fine, "passage_survival", 0.4150659857872) < 5
    mean = quad(lambda t: two_sided(t, -0.7, 1.0), 0, 1)[0]
    assert two_sided(0.5, -0.7, 1.0) == pytest.approx(0.7275542025202, abs=1e-12)
    assert off(fine, "passage_restricted_mean", mean) < 5
    brownian = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
    run = passed(brownian, "EulerMaruyama", st.Passage(lambda t: 1.0 + 0.5 * t, every=1, mean=False), t=(0, 1), dt=0.5)
    assert abs(1 - run["passage_survival"][-1] - 0.1803118185958) < 5 * run["passage_survival_stderr"][-1]


def two_sided(t, low, high):
    """P(Brownian motion with drift stays in the strip up to t): Fourier's series, started at 0."""
    k, width = np.arange(1, 400), high - low
    tilt = DRIFT / SIGMA**2
    waves = k * np.pi / width
    rates = 0.5 * SIGMA**2 * waves**2
    ends = waves * (np.exp(tilt * low) - (-1.0) ** k * np.exp(tilt * high)) / (tilt**2 + waves**2)
    modes = np.exp(-(rates + 0.5 * DRIFT**2 / SIGMA**2) * t)
    return 2 / width * np.sum(np.sin(-waves * low) * modes * ends)


def test_errors_are_those_of_repetitions():
    """Over 60 seeds of 400 paths: the scatter of each number is its stated error, to 5 of 1/√120; of the mean too."""
    ready = sd.prepare(BROWNIAN, "EulerMaruyama", t=(0, 10), dt=0.5, paths=400, threads=1,
                       collect=st.Passage((-2.0, 1.0), every=10))  # fmt: skip
    with pytest.warns(Censored):
        runs = [ready(seed=k) for k in range(60)]
    for name in ("survival", "restricted_mean", "density", "hazard", "mean"):
        found, error = (np.stack([r[f"passage_{name}{end}"].values for r in runs]) for end in ("", "_stderr"))
        if name == "mean":
            found, error = (x[[r["passage_mean_kind"].item() == "extrapolated" for r in runs]] for x in (found, error))
        error = np.sqrt(np.mean(error**2, axis=0))
        ratio = found.std(axis=0, ddof=1)[error > 0] / error[error > 0]
        assert np.all(np.abs(ratio - 1) < 5 / np.sqrt(2 * len(found))), name


# --- orders -----------------------------------------------------------------------------------------------------------


def kernel_errors(method, steps, exact):
    """P(τ > 1) of OU below the level 1 by the method's own step and the library's chances, by quadrature."""
    gauge = sd.Level(1.0).on(OU)
    nodes, weights = np.polynomial.legendre.leggauss(160)
    low = -6.0
    x = low + 0.5 * (1.0 - low) * (nodes + 1)
    w = 0.5 * (1.0 - low) * weights
    errors = []
    for n in steps:
        h = 1.0 / n
        step = step_map(OU, method, h)
        mean, deviation = step.M.item(), np.sqrt(step.second[0, -1, 0, -1])

        def chance(x, y, h=h):
            first, last = gauge.in_deviations(0.0, h, x, y, None, False)
            return crossing.bridge_chance(first, last)[0]

        both = jax.vmap(jax.vmap(chance, (None, 0)), (0, None))
        before = np.append(x, 0.0)[:, None]
        stays = 1.0 - uncompiled.value(both, before, x[:, None])
        kernel = norm.pdf(x, mean * before, deviation) * stays * w
        alive = np.ones(len(x))
        for _ in range(n - 1):
            alive = kernel[:-1] @ alive
        errors.append(kernel[-1] @ alive - exact)
    return np.array(errors)


def test_orders_for_additive_noise():
    """1 for EulerMaruyama, 2 for a method of weak order 2, with the errors that the rule has: no sampling. The slopes
    over the finest three are those of analysis.order."""
    exact, steps = 1.0 - 0.45338300386, np.array([4, 8, 16, 32, 64])
    euler, weak = (kernel_errors(method, steps, exact) for method in ("EulerMaruyama", "SRA1"))
    np.testing.assert_allclose(euler, [-0.0329, -0.0216, -0.0126, -0.00699, -0.00375], atol=6e-5)
    np.testing.assert_allclose(weak, [1.45e-3, 4.64e-4, 1.30e-4, 3.52e-5, 9.33e-6], atol=6e-6)
    for errors, order, within in ((euler, 1, 0.15), (weak, 2, 0.3)):
        measured = Errors(np.abs(errors), {"quadrature": np.full(5, 1e-9)}, np.zeros(5, int), coarse=2)
        assert measured.fit(1.0 / steps, 0.99)["order"] == pytest.approx(order, abs=within)


@pytest.mark.parametrize("method", ["Milstein", "EulerMaruyama"])
def test_geometric_brownian_motion_in_sixteen_steps(method):
    """P(max < 1.3), r = .05, vol .6: with γ frozen Milstein's step is off by .012; now both are right to .0016 (the
    error of Euler's rule) and 4 standard errors of 100 000 paths, .006 in all."""
    r, vol, level = 0.05, 0.6, 1.3
    problem = sd.SDE(lambda t, x: r * x, lambda t, x: vol * x, 1.0)
    exact = survival(1.0, np.log(level), r - 0.5 * vol**2, vol)
    run = passed(problem, method, st.Passage(level, at=[1.0], mean=False), t=(0, 1), dt=1 / 16, paths=100_000)
    bias = {"Milstein": 7.4e-5, "EulerMaruyama": -1.57e-3}[method]
    assert off(run, "passage_survival", exact + bias) < 4


def test_levels_of_a_curved_function():
    """Planar Brownian motion leaves the unit disc: by |x| and by |x|², whose noise varies. At T/8 they differ by less
    than .0015 (with the noise frozen by .013); S(.25) = .7539722."""
    disc = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.eye(2), [1e-9, 0.0])
    collect = [st.Passage(1.0, lambda t, x: x @ x, name="squared", at=[0.25], mean=False),
               st.Passage(1.0, lambda t, x: jnp.sqrt(x @ x), name="radius", at=[0.25], mean=False)]  # fmt: skip
    run = passed(disc, "EulerMaruyama", collect, t=(0, 0.25), dt=0.25 / 8, paths=100_000)
    assert off(run, "radius_survival", 0.7539722039946) < 5
    assert abs(run["squared_survival"] - run["radius_survival"]) < 1.5e-3


def test_without_the_bridge_passage_is_late_by_the_square_root_of_the_step():
    """The grid sees the level as if it lay LATE σ √h further, to 4 standard errors."""
    dt = 0.05
    run = passed(BROWNIAN, "EulerMaruyama", st.Passage(1.0, bridge=False, at=[2.0], mean=False), dt=dt, seed=7)
    found, stderr = run["passage_survival"].item(), run["passage_survival_stderr"].item()
    assert found - survival(2.0) > 10 * stderr
    assert abs(found - survival(2.0, 1.0 + LATE * SIGMA * np.sqrt(dt))) < 4 * stderr


# --- means ------------------------------------------------------------------------------------------------------------


def test_mean_passage_time_of_the_ornstein_uhlenbeck_process():
    """E τ = √π ∫ from 0 to a of exp(u²)(1 + erf u) du (Siegert 1951): complete, with the bridge, and without it for the
    level as the grid sees it."""
    dt = 0.02

    def exact(level):
        return np.sqrt(np.pi) * quad(lambda u: erfcx(-u), 0, level / np.sqrt(2.0))[0]

    assert exact(1.0) == pytest.approx(2.0934066496783, abs=1e-9)
    collect = [st.Passage(1.0, at=[20.0]), st.Passage(1.0, at=[20.0], bridge=False, name="grid")]
    run = passed(OU, "SRA1", collect, t=(0, 20), dt=dt, paths=10_000, seed=8)
    assert run["passage_mean_kind"].item() == run["grid_mean_kind"].item() == "complete"
    assert run["passage_survival"].item() < 2e-3
    assert off(run, "passage_mean", exact(1.0)) < 5
    assert run["grid_mean"] - exact(1.0) > 4 * run["grid_mean_stderr"]
    assert off(run, "grid_mean", exact(1.0 + LATE * np.sqrt(2.0 * dt))) < 5


def test_a_mean_is_extrapolated_where_the_hazard_is_constant():
    """OU to the level 2: E τ = 10.4284, of which a run to T = 8 has seen half."""
    with pytest.warns(Censored, match=r"of the paths had not reached .* extrapolated from the hazard") as told:
        run = passed(OU, "SRA1", st.Passage(2.0, every=16), t=(0, 8), dt=0.0625, paths=20_000)
    assert told[0].filename == __file__
    assert run["passage_mean_kind"].item() == "extrapolated"
    assert off(run, "passage_mean", 10.4284093979959) < 5
    assert run["passage_mean"] - run["passage_restricted_mean"][-1] > 4.0
    assert abs(run["passage_hazard"][-1] - 0.0972746) < 5 * run["passage_hazard_stderr"][-1]


def test_a_mean_is_a_lower_bound_where_the_hazard_still_moves():
    """Brownian motion has a hazard that falls for ever, near 1/2t, and no mean."""
    brownian = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
    with pytest.warns(Censored, match=r"that of min\(τ, 4\), a lower bound"):
        run = passed(brownian, "EulerMaruyama", st.Passage(1.0, every=4), t=(0, 4), dt=0.25)
    assert run["passage_mean_kind"].item() == "bound"
    assert run["passage_mean"] == run["passage_restricted_mean"][-1]


def test_a_level_that_no_path_reaches():
    """Never 1 ± 0 without a word: what was reached, and what is known of the survival."""
    words = r"none of 1000 paths reached .*x was -?0\.\d+ there, .* the level is 50\), .* P\(τ > 2\) > 0.997"
    with pytest.warns(Censored, match=words):
        run = passed(OU, "Heun", st.Passage(50.0, every=16), dt=0.0625, paths=1000)
    assert run["passage_mean_kind"].item() == "bound"


# --- mechanics and other problems -------------------------------------------------------------------------------------

LIGHT = np.sqrt(4 * 0.05)  # ω = 1, ζ = .05, stationary variance 1


def oscillator(**options):
    return sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: LIGHT, (0.0, 0.0), **options)


def test_positions_are_followed_by_cubics():
    """x >= 1.5 before T = 20: .635. With steps of 1/8 the grid is late by .0013(2), the cubic by .00025(9); |x| >= 3
    is seen with .0084. A velocity has a bridge."""
    collect = [st.Passage(1.5, "x", at=[20.0], mean=False),
               st.Passage(1.5, "x", at=[20.0], mean=False, bridge=False, name="grid"),
               st.Passage((-3.0, 3.0), "x", at=[20.0], mean=False, name="both"),
               st.Passage(4.0, "dx", at=[20.0], mean=False, name="velocity")]  # fmt: skip
    run = passed(oscillator(), "SRA1", collect, t=(0, 20), dt=0.125, paths=8_000)
    assert run["passage_survival"].attrs["between_steps"].startswith("cubic")
    assert run["velocity_survival"].attrs["between_steps"].startswith("bridge")
    assert abs(run["passage_survival"] - 0.635) < 5 * run["passage_survival_stderr"] + 0.002
    assert 3e-4 < run["grid_survival"] - run["passage_survival"] < 4e-3
    assert abs(1 - run["both_survival"] - 8.410e-3) < 5 * run["both_survival_stderr"] + 4e-4


def test_accelerations_of_an_integrator_have_no_bridge():
    """Rows of the noise are never indexed beyond their end: of φ the grid is looked at, and that is said."""
    problem = oscillator(accelerations=True)
    with pytest.warns(NoBridge, match=r"of='ddx'.* only at the ends of steps.*how noise reaches ddx is not known"):
        run = passed(problem, "StochasticAlpha", st.Passage(1.0, "ddx", at=[2.0], mean=False), dt=0.05, paths=500)
    grid = passed(problem, "StochasticAlpha", st.Passage(1.0, "ddx", at=[2.0], mean=False, bridge=False),
                  dt=0.05, paths=500)  # fmt: skip
    assert run["passage_survival"] == grid["passage_survival"]


def test_massless_coordinates_have_no_bridge():
    """x1 = x0/2 follows without inertia, and so does its velocity."""
    problem = sd.Mechanical(
        lambda t, x, v: jnp.stack([x[1] - x[0], x[0] - 2.0 * x[1]]),
        lambda t, x, v: jnp.array([[0.5], [0.0]]),
        ([0.0, 0.0], [0.0, 0.0]),
        mass=[1.0, 0.0],
    )
    with pytest.warns(NoBridge, match="dx1") as told:
        run = passed(problem, "StochasticAlpha", st.Passage(0.8, "dx1", at=[2.0], mean=False), dt=0.5, paths=20)
    assert told[0].filename == __file__
    assert run["passage_survival"].attrs["between_steps"].startswith("grid")


def test_differential_components_of_an_sdae():
    """OU written with a constraint y = 2x: x has a bridge, and the law of the SDE."""
    problem = sd.SDAE(np.diag([1.0, 0.0]), lambda t, x: jnp.stack([-0.5 * x[1], x[1] - 2 * x[0]]),
                      lambda t, x: jnp.array([[np.sqrt(2.0)], [0.0]]), [0.0, 0.0], names=("x", "y"))  # fmt: skip
    run = passed(problem, "Trapezoidal", st.Passage(1.0, "x", at=[1.0], mean=False), t=(0, 1), dt=1 / 32, paths=10_000)
    assert abs(1 - run["passage_survival"] - 0.45338300386) < 5 * run["passage_survival_stderr"] + 1e-3
    with pytest.warns(NoBridge, match="y"):
        passed(problem, "Trapezoidal", st.Passage(2.0, "y", at=[1.0], mean=False), t=(0, 1), dt=1 / 32, paths=20)


# --- paths with starts and parameters of their own --------------------------------------------------------------------


def test_every_path_has_its_own_level_and_start():
    """Levels 1 + p and starts of PerPath: each half of the paths has the survival that it has alone; a path that
    starts beyond has passed at time 0."""
    number = np.arange(PATHS)
    problem = sd.SDE(lambda t, x, p: DRIFT + 0.0 * x, lambda t, x, p: SIGMA, sd.PerPath(1.0 * (number % 4 == 3)),
                     {"up": sd.PerPath(-0.5 * (number % 2))})  # fmt: skip
    level = sd.Level(lambda t, p: 1.0 + p["up"])
    run = passed(problem, "EulerMaruyama", st.Passage(level, every=1, mean=False))
    # of four paths: two with (level 1, start 0), one with (level ½, start 0), one with (level ½, start 1)
    exact = np.array([0.75, *(0.5 * survival(t) + 0.25 * survival(t, 0.5) for t in (1.0, 2.0))])
    assert off(run, "passage_survival", exact) < 5
    assert run["passage_survival"][0] == 0.75


MARKED, END = (0.0, 6.0, 8.0, 9.0, 9.7), 10.0  # of a run to t = 10


def summary_of(values, covariance):
    """A Summary of numbers of paths with these means and covariances, of 400 paths."""
    stderr = np.sqrt(np.diag(covariance) / 400.0)
    return Summary(np.array([values]), stderr[None], None, None, covariance[None], None, None)


def mean_of(values, covariance):
    return _mean(summary_of(values, covariance), np.array([400.0]), END, MARKED)


def by_differences(function, values):
    return np.array([(function(values + e) - function(values - e)) / 2e-6 for e in 1e-6 * np.eye(len(values))])


def test_the_error_of_an_extrapolated_mean_is_that_of_the_delta_method():
    """E τ = R + S (t₂ - t₁)/ln(late/S): its slopes by differences, against the error that is stated."""
    S, R = 0.3, 7.0
    values = np.array([S, R, 0.01, 0.0, *(S * np.exp(0.1 * (END - np.array(MARKED[1:])))), 0.0])  # a hazard of 0.1
    root = np.random.default_rng(3).normal(size=(9, 9)) * 0.01

    def mean(v):
        return v[1] + v[0] * (END - MARKED[3]) / np.log(v[6] / v[0])

    found, slopes = mean_of(values, root @ root.T), by_differences(mean, values)
    assert (found.kind, found.value) == ("extrapolated", pytest.approx(7.0 + S / 0.1))
    assert found.stderr == pytest.approx(np.sqrt(slopes @ root @ root.T @ slopes / 400.0), rel=1e-6)
    assert found.added == pytest.approx(S / 0.1)


@pytest.mark.parametrize(("of", "limit"), [("change", 2.5), ("hazard", 2.0)])
def test_a_mean_is_extrapolated_where_the_hazard_is_known_and_constant(of, limit):
    """The hazard after the last mark differs from that before it by less than 2.5 standard errors of that, which are
    those of the hazard over all marks for the time that paths spend there; and λ of the last tenth from 0 by 2 of its
    own. Slopes by differences; the covariance is scaled so that the distance is 0.1 standard errors off the limit."""
    at, change = np.array([*MARKED[1:], END]), 0.02 if of == "change" else 0.0
    S = 0.3 * np.exp(0.1 * (END - at) + change * np.minimum(END - at, END - at[-2]))
    values = np.array([S[-1], 7.0, 0.01, 0.0, *S[:-1], 0.0])
    root = np.random.default_rng(3).normal(size=(9, 9))

    def over_all(v):
        return np.log(v[4] / v[0]) / (END - at[0])

    def of_last_tenth(v):
        return np.log(v[6] / v[0]) / (END - at[2])

    slopes = by_differences(over_all if of == "change" else of_last_tenth, values)
    parts = np.diff(at) * (S[1:] + S[:-1]) / 2
    factor = np.sqrt(parts.sum() / parts[-1] + parts.sum() / parts[:-1].sum()) if of == "change" else 1.0
    kinds = []
    for errors in (limit - 0.1, limit + 0.1):
        scale = (change or 0.1) / errors / factor / np.sqrt(np.sum((slopes @ root) ** 2) / 400.0)
        kinds.append(mean_of(values, scale**2 * root @ root.T).kind)
    assert kinds == (["extrapolated", "bound"] if of == "change" else ["bound", "extrapolated"])


def passages_of(times):
    """The mean from paths that reach the level at these times, which a run to t = 10 follows."""
    columns = [times > END, np.minimum(times, END), 0.0 * times, 0.0 * times, *(times > one for one in MARKED[1:])]
    values = np.stack([*columns, 0.0 * times]).astype(float)
    summary = summary_of(values.mean(axis=1), np.cov(values))
    return _mean(summary, np.array([float(len(times))]), END, MARKED)


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("change", [9.0, 9.5, 9.7])
def test_a_hazard_that_changes_in_the_last_tenth_is_not_extrapolated(change, factor):
    """10 000 paths with the hazard 0.1, and its multiple after `change`, for ever."""
    law = np.random.default_rng(8).exponential(size=(32, 10_000))
    before = 0.1 * change
    times = np.where(law < before, law / 0.1, change + (law - before) / (0.1 * factor))
    assert [passages_of(one).kind for one in times].count("bound") >= 26


def test_a_hazard_that_stays_is_extrapolated():
    """4000 paths with the hazard 0.1, 400 times: the mean 10 is extrapolated in 24 of 25 calls, and covered in 19 of 20
    of them, both with 5 standard errors of such counts to spare."""
    means = [passages_of(times) for times in np.random.default_rng(9).exponential(10.0, size=(400, 4000))]
    kept = [one for one in means if one.kind == "extrapolated"]
    assert len(kept) >= 0.96 * 400 - 5 * np.sqrt(400 * 0.96 * 0.04)
    covered = sum(abs(one.value - 10.0) <= 1.96 * one.stderr for one in kept)
    assert abs(covered - 0.95 * len(kept)) <= 5 * np.sqrt(0.95 * 0.05 * len(kept))


def test_a_run_says_that_its_hazard_changes_near_the_end():
    """Clocks that stop at times with the hazard 0.1, doubled after t = 9.7: a lower bound, and not 0.36/0.12 more,
    where 0.36/0.2 is right. Clocks whose hazard stays tell which changes they would not see."""
    law = np.random.default_rng(1).exponential(size=4000)
    for factor, words in ((2.0, "lower bound"), (1.0, r"after t = 9\.7, a change by less than \d\d % would not")):
        stops = np.where(law < 0.97, 10.0 * law, 9.7 + (law - 0.97) / (0.1 * factor))
        clocks = sd.SDE(lambda t, x, p: 1.0, lambda t, x, p: 0.0 * x, 0.0, {"stop": sd.PerPath(stops)})
        with pytest.warns(Censored, match=words):
            passed(clocks, "EulerMaruyama", st.Passage(sd.Level(lambda t, p: p["stop"]), at=[10.0], bridge=False),
                   t=(0, 10), dt=0.1, paths=4000)  # fmt: skip


FAILING = {
    "v": sd.PerPath(np.array([1.0, 0.5, 0.25, 0.1])),
    "wall": sd.PerPath(np.array([1.5, 0.4, 9.0, 9.0])),
}  # x = v t until x is beyond the wall, where the next step fails


@pytest.mark.parametrize(
    "way", [{"executor": "printed"}, {"executor": "vmap"}, {"device": jax.devices("cpu")}], ids=str
)
def test_a_path_that_fails_counts_with_what_it_had_reached(way, quick_compiling):
    """Of four paths the first reaches 1 at t = 1 and fails at 3, the second fails at 2, the third reaches 1 at 4."""
    problem = sd.SDE(lambda t, x, p: jnp.where(x > p["wall"], jnp.nan, p["v"]), lambda t, x, p: 0.0 * x, 0.0, FAILING)
    words = r"of 4 paths, 1 failed before .* P\(τ > 4\) would lie between 0.25 and 0.5\."
    with pytest.warns(Censored, match=words), pytest.warns(Censored, match="paths that failed never reach it"):
        run = sd.simulate(problem, "EulerMaruyama", t=(0, 4), dt=1.0, paths=4, seed=1, on_failure="record",
                          collect=st.Passage(1.0, every=1, bridge=False), **way)  # fmt: skip
    np.testing.assert_allclose(run["passage_survival"], [1.0, 0.75, 0.75, 0.75, 0.5])
    np.testing.assert_allclose(run["passage_failed"], [0.0, 0.0, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(run["passage_restricted_mean"], [0.0, 0.875, 1.625, 2.375, 3.0])
    np.testing.assert_allclose(run["passage_at_risk"], [4.0, 2.0, 2.0, 2.0])
    np.testing.assert_allclose(run["passage_hazard"], [np.log(4 / 3), 0.0, 0.0, np.log(2.0)])
    assert (run["passage_mean"].item(), run["passage_mean_kind"].item()) == (3.0, "bound")
    assert np.isfinite(run["passage_hazard_stderr"]).all()


def test_paths_that_fail_beyond_the_level_cost_nothing():
    """Half of the paths blow up once they are beyond 1: the law is that of Brownian motion, without a warning."""
    problem = sd.SDE(lambda t, x, p: DRIFT + jnp.where((x > 1.0) & (p["bad"] > 0), jnp.nan, 0.0),
                     lambda t, x, p: SIGMA, 0.0, {"bad": sd.PerPath(1.0 * (np.arange(PATHS) % 2))})  # fmt: skip
    run = passed(problem, "EulerMaruyama", st.Passage(1.0, every=1, mean=False), on_failure="record", dt=0.5)
    assert run.sizes["failure"] > 0.15 * PATHS
    assert off(run, "passage_survival", [1.0, *survival(0.5 * np.arange(1, 5))]) < 5
    assert not run["passage_failed"].any()


def test_paths_that_fail_before_the_level_leave_the_hazard_alone():
    """Half of the paths fail at once; the others have the law of Brownian motion."""
    problem = sd.SDE(lambda t, x, p: DRIFT * x**0 + jnp.where(p["bad"] > 0, jnp.nan, 0.0), lambda t, x, p: SIGMA, 0.0,
                     {"bad": sd.PerPath(1.0 * (np.arange(PATHS) % 2))})  # fmt: skip
    with pytest.warns(Censored, match=f"of {PATHS} paths, {PATHS // 2} failed before"):
        run = passed(problem, "EulerMaruyama", st.Passage(1.0, every=1, mean=False), on_failure="record")
    S = survival(np.array([1e-9, 1.0, 2.0]))
    assert off(run, "passage_survival", 0.5 + 0.5 * S) < 5
    assert off(run, "passage_hazard", -np.diff(np.log(S))) < 5
    np.testing.assert_allclose(run["passage_failed"], [0.0, 0.5, 0.5])


def test_a_function_without_a_value_does_not_count_as_passed():
    problem = sd.SDE(lambda t, x: -0.5 + 0.0 * x, lambda t, x: 0.0 * x, 0.95)
    collect = st.Passage(-5.0, lambda t, x: jnp.log(x[0]), direction="down", every=1, bridge=False, mean=False)
    with pytest.warns(Censored, match="8 failed before they had reached the level"):
        run = passed(problem, "EulerMaruyama", collect, paths=8)
    np.testing.assert_array_equal(run["passage_survival"], 1.0)
    np.testing.assert_array_equal(run["passage_failed"], [0.0, 0.0, 1.0])


def test_passages_are_counted_in_single_precision_too():
    problem = sd.SDE(lambda t, x: DRIFT + 0.0 * x, lambda t, x: SIGMA + 0.0 * x, 0.0)
    run = passed(problem, "EulerMaruyama", st.Passage(1.0, every=1, mean=False), dtype="float32", executor="printed")
    assert off(run, "passage_survival", [1.0, *survival(np.array([1.0, 2.0]))]) < 5


# --- requests ---------------------------------------------------------------------------------------------------------


def test_a_start_beyond_the_level_is_refused():
    with pytest.raises(ValueError, match=r"Passage: every path has reached it .* x is 0, above the level -1000 .*down"):
        passed(BROWNIAN, "Heun", st.Passage(-1e3, every=1), paths=8)


def test_steps_that_are_too_long_for_two_levels_are_refused():
    with pytest.raises(
        ValueError, match=r"dt: in a step of 1 noise moves x by 0.8 .* 0.4 apart.*Take steps below 0.06"
    ):
        passed(BROWNIAN, "Heun", st.Passage((-0.2, 0.2), every=1), paths=8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"of": "y"}, "Passage: of: there is no component 'y'"),
        ({"of": 3}, "Passage: of: there is no component 3; there are 1"),
        ({"direction": "left"}, "Passage: direction: .*up"),
        ({"level": "x"}, "Passage: level: expected a finite number"),
        ({"level": (1.0, -1.0)}, "Passage: level: .*low < high"),
        ({"level": sd.Level(1.0), "of": "x"}, "has its own of and direction"),
        ({"bridge": "no"}, "bridge must be True or False"),
        ({"of": lambda t, x: x}, r"Passage: of: returned shape \(1,\)"),
    ],
)
def test_levels_and_components_that_are_not_there_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        passed(BROWNIAN, "Heun", st.Passage(**{"level": 1.0} | options), paths=8)


def test_random_starts_may_lie_beyond_the_level():
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, laws.norm(0.0, 1.0))
    run = passed(problem, "EulerMaruyama", st.Passage(1.0, every=1, mean=False))
    beyond = norm.sf(1.0)
    assert abs(1 - run["passage_survival"][0] - beyond) < 5 * run["passage_survival_stderr"][0]


@pytest.mark.parametrize(
    "points",
    [np.linspace(0.0, 2.0, 9), np.array([0.0, 0.3, 0.5, 2.0]), np.cumsum(np.linspace(0.01, 0.2, 30)),
     np.array([0.5, 1.0])],
    ids=["even", "few", "many", "two"],
)  # fmt: skip
def test_intervals_between_looks_are_counted_alike_however_many_there_are(points):
    """Two times lie in one interval where as many looks are behind them."""
    passage = st.Passage(1.0)._with(observed_at=points)
    times = np.concatenate([points, points[:-1] + 0.4 * np.diff(points), [points[0] - 0.1, points[-1] + 1e-3]]) + 1e-7
    found = at_points(passage._interval, times)
    behind = np.searchsorted(points, times, side="right")
    np.testing.assert_array_equal(found[:, None] == found, behind[:, None] == behind)


def test_means_of_a_passage_are_named_after_it():
    assert st.Passage(1.0, name="late").means() == {"late_survival": slice(0, 1), "late_restricted_mean": slice(1, 2)}


def test_a_second_level_far_away_changes_nothing():
    """The survival and the times of paths with one level, which some of them pass within a step."""
    near, both = (
        passed(BROWNIAN, "EulerMaruyama", st.Passage(level, every=1, mean=False), t=(0, 1), dt=0.5, paths=64)
        for level in (1.0, (-50.0, 1.0))
    )
    for name in ("passage_survival", "passage_restricted_mean"):
        np.testing.assert_allclose(both[name], near[name], rtol=1e-6)
    assert 0.1 < near["passage_survival"][-1] < 0.95


@pytest.mark.parametrize(
    ("S", "failed", "first", "late", "kind"),
    [
        (0.0, 0.0, 0.2, 0.1, "complete"),  # all have arrived
        (1e-3, 0.0, 1.1**4 * 1e-3, 1.1e-3, "complete"),  # all but a thousandth
        (1e-3, 0.0, 1.6e-3, 1.3e-3, "complete"),  # the same, with a hazard that moves
        (2e-3, 0.0, 9e-3, 3e-3, "bound"),  # more than that, with a hazard that moves
        (1e-3, 1e-6, 2e-3, 1.5e-3, "bound"),  # some never will
        (1e-3, 0.0, 2e-3, 1e-3, "bound"),  # none in the last tenth
    ],
)
def test_when_a_mean_is_complete(S, failed, first, late, kind):
    """R and S/λ with the hazard λ = ln(late/S) of the last tenth; none is added where all have arrived. Where the
    hazard moves, what is added is as uncertain as it is large."""
    hazard = np.log(late / S) if S > 0.0 else 0.0
    values = np.array([S, 7.0, 0.01, failed, first, np.cbrt(first * late**2), late, S * np.exp(0.3 * hazard), 0.0])
    found = mean_of(values, 1e-12 * np.eye(9))
    added = S / np.log(late / S) if kind == "complete" and S > 0.0 else 0.0
    assert (found.kind, found.value, found.added) == (kind, pytest.approx(7.0 + added), pytest.approx(added))
    assert (found.stderr > added) == (late == 1.3e-3 or added == 0.0)
