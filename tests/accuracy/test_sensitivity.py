"""Gradients of expectations: the right values with the right errors, and wrong routes refused in words."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, norm

import stodyn as sd
from stodyn.engine.failure import PathsFailed
from stodyn.models.lorenz import lorenz
from stodyn.statistics import functional
from stodyn.warnings import Chaotic, JumpsInTime

CERTAIN = 5.2  # standard errors, which a normal number exceeds twice in ten million


def growth(mu=0.1, sigma=0.3):
    return sd.SDE(lambda t, x, p: p["mu"] * x, lambda t, x, p: p["sigma"] * x, 1.0, {"mu": mu, "sigma": sigma})


def above(t, x):
    return x[0] > 1.1


def gradients(problem, f, of, **options):
    return sd.sensitivity(problem, f, of=of, **{"t": (0, 1), "dt": 1 / 16, "paths": 20_000, "seed": 3} | options)


def assert_near(result, exact):
    off = (result["gradient"].values - exact) / result["gradient_stderr"].values
    assert np.all(np.abs(off) < CERTAIN), off


def digital(mu, sigma, level=1.1):
    """P(x(1) > level), and its derivatives by mu and sigma."""
    d = (mu - sigma**2 / 2 - np.log(level)) / sigma
    return norm.cdf(d), norm.pdf(d) * np.array([1 / sigma, -(mu - np.log(level)) / sigma**2 - 0.5])


@pytest.mark.parametrize("mu, sigma", [(0.1, 0.3), (-0.2, 0.5)])
def test_moments_by_tangents_weights_and_differences(mu, sigma):
    exact = np.array([2.0, 2 * sigma]) * np.exp(2 * mu + sigma**2)
    problem, square = growth(mu, sigma), lambda t, x: x[0] ** 2
    result = gradients(problem, square, ("mu", "sigma"))
    assert result["route"].values.tolist() == ["tangent", "tangent"]
    assert_near(result, exact)
    assert abs(result["value"] - np.exp(2 * mu + sigma**2)) < CERTAIN * result["value_stderr"]
    differences = gradients(problem, square, ("mu", "sigma"), by="difference")
    np.testing.assert_allclose(differences["gradient"], result["gradient"], rtol=1e-5)
    assert_near(gradients(problem, square, "mu", by="weight"), exact[:1])


@pytest.mark.parametrize("mu, sigma", [(0.1, 0.3), (0.2, 0.4)])
def test_probabilities_by_the_law_of_the_last_step_and_by_weights(mu, sigma):
    value, exact = digital(mu, sigma)
    result = gradients(growth(mu, sigma), above, ("mu", "sigma"))
    assert result["route"].values.tolist() == ["conditional", "conditional"]
    assert_near(result, exact)
    assert abs(result["value"] - value) < CERTAIN * result["value_stderr"]
    assert_near(gradients(growth(mu, sigma), above, "mu", by="weight"), exact[:1])
    assert_near(gradients(growth(mu, sigma), above, "sigma", by="difference"), exact[1:])


def square(t, x):
    return x[0] ** 2


def option(t, x):
    return jnp.maximum(x[0] - 1.1, 0.0)


@pytest.mark.parametrize(
    "f, of, by, more, exact, deviation",
    [
        (square, "mu", "tangent", {}, 2.672855, 1.75),
        (square, "mu", "weight", {}, 2.672855, 5.06),  # 7.89 without the regression on the score
        (square, "sigma", "tangent", {}, 0.801856, 4.2),
        (above, "mu", "weight", {"dt": 1 / 4}, 1.317857, 1.02),  # 1.95 without it
        (above, "mu", "weight", {"dt": 1 / 64}, 1.317857, 1.02),  # the same for any number of steps
        (above, "sigma", "conditional", {}, -0.218280, 0.30),
        (above, "sigma", "conditional", {"dt": 1 / 64}, -0.218280, 0.48),
        (above, "sigma", "difference", {"spacing": 0.1}, -0.218280, 1.90),
        (above, "sigma", "difference", {"spacing": 0.01}, -0.218280, 6.2),
        (option, "sigma", "tangent", {}, 0.434867, 0.92),
    ],
)
def test_each_route_is_right_and_scatters_as_theory_says(f, of, by, more, exact, deviation):
    """Derivatives for geometric Brownian motion, and the deviation of one path; spacings are shares of sigma = .3."""
    result = gradients(growth(), f, of, by=by, **more)
    assert_near(result, np.array([exact]))
    np.testing.assert_allclose(result["gradient_stderr"] * 20_000**0.5, deviation, rtol=0.1)


def test_errors_over_seeds_are_as_large_as_their_standard_errors():
    """By the sum of their squares; benchmarks/gradient_speed.py --coverage counts intervals of all kinds and routes."""
    results = [gradients(growth(), above, "sigma", paths=1000, dt=1 / 8, seed=seed) for seed in range(12)]
    errors = np.array([(one["gradient"][0] - digital(0.1, 0.3)[1][1]) / one["gradient_stderr"][0] for one in results])
    assert chi2.ppf(1e-6, 12) < np.sum(errors**2) < chi2.isf(1e-6, 12)


@pytest.mark.parametrize(
    "f, of, by, second, words",
    [
        (above, "mu", "tangent", False, "its derivative along a path is 0"),
        (above, "sigma", "tangent", False, "its derivative along a path is 0"),
        (above, "sigma", "weight", False, "the score of a noise intensity grows"),
        (square, "sigma", "weight", False, "the score of a noise intensity grows"),
        (option, "sigma", None, True, "second: f has kinks"),
    ],
)
def test_the_routes_that_would_be_wrong_are_refused(f, of, by, second, words):
    with pytest.raises(ValueError, match=words):
        gradients(growth(), f, of, by=by, second=second, paths=100)


def drifting(level=1.0):
    return sd.SDE(lambda t, x, p: p["mu"], lambda t, x, p: p["sigma"], 0.0, {"mu": 0.3, "sigma": 0.8, "level": level})


STOP = sd.Stop(sd.Level(1.0))


def test_the_time_of_a_stop_by_scores_up_to_it_and_by_differences():
    """By the reflection principle: E min(τ, 2) = 1.4113088, its derivatives -.71945432 and -.80205925."""
    options = {"t": (0, 2), "dt": 1 / 4, "stop": STOP}
    result = gradients(drifting(), lambda t, x: t, ("mu", "sigma"), **options)
    assert result["route"].values.tolist() == ["weight", "difference"]
    assert_near(result, [-0.71945432, -0.80205925])
    assert abs(result["value"] - 1.4113088148605) < CERTAIN * result["value_stderr"]
    place = gradients(drifting(), lambda t, x: x[0], "mu", **options)  # E x = mu E min(τ, 2), by Wald's identity
    assert_near(place, [1.4113088148605 - 0.3 * 0.71945432])


@pytest.mark.brief("stopped")
@pytest.mark.parametrize("case", ["stopped", "smooth"])
def test_kernels_carry_derivatives_and_stops(case):
    """On a GPU where there is one, and else by a processor that stands in for it."""
    cards = [device for device in jax.devices() if device.platform == "gpu"] or jax.devices("cpu")
    if case == "stopped":
        of = {"mu": "weight", "sigma": "difference"}
        options = {"t": (0, 2), "dt": 1 / 2, "stop": STOP, "by": of, "device": cards}
        assert_near(gradients(drifting(), lambda t, x: t, tuple(of), **options), [-0.71945432, -0.80205925])
    else:
        result = gradients(growth(), lambda t, x: x[0] ** 2, ("mu", "sigma"), by="tangent", device=cards)
        assert_near(result, [2.6729, 0.8019])


@pytest.mark.parametrize(
    "f, of, by, stop, words",
    [
        (lambda t, x: t, "mu", "tangent", STOP, "a level stops the paths"),
        (lambda t, x: x[0] > 0, "mu", "conditional", STOP, "a level stops the paths"),
        (lambda t, x: t, "sigma", "weight", STOP, "the score of a noise intensity grows"),
        (
            lambda t, x: t,
            "level",
            "weight",
            sd.Stop(sd.Level(lambda t, p: p["level"])),
            "the level of the stop depends",
        ),
        (functional.TimeAverage(lambda t, x: x[0]), "mu", None, STOP, "f: TimeAverage with stop="),
        (lambda t, x: t, "mu", None, sd.Stop(sd.Level(1.0), stopped="alive"), "leaves stopped paths out"),
    ],
)
def test_what_is_wrong_for_paths_that_stop_is_refused(f, of, by, stop, words):
    with pytest.raises(ValueError, match=words):
        gradients(drifting(), f, of, by=by, t=(0, 2), dt=1 / 4, paths=100, stop=stop)


def test_a_level_that_is_a_parameter_is_moved_by_differences():
    stop = sd.Stop(sd.Level(lambda t, p: p["level"]))
    result = gradients(drifting(), lambda t, x: t, "level", t=(0, 2), dt=1 / 4, stop=stop)
    ε = 1e-4
    exact = (restricted_mean(1 + ε) - restricted_mean(1 - ε)) / (2 * ε)
    assert result["route"].values.tolist() == ["difference"]
    assert_near(result, [exact])


def survival(mu, sigma, level, t):
    spread = sigma * np.sqrt(t)
    image = np.exp(2 * mu * level / sigma**2) * norm.cdf((-level - mu * t) / spread)
    return norm.cdf((level - mu * t) / spread) - image


def restricted_mean(level):
    """E min(τ, 2) = ∫ survival dt, by Gauss' rule in √t: the integrand is flat at 0."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    t = (0.5 * (nodes + 1) * np.sqrt(2.0)) ** 2
    return float(np.sum(weights * survival(0.3, 0.8, level, t) * np.sqrt(t)) * np.sqrt(2.0))


def test_survival_has_tangents_by_drift_noise_and_level():
    """Between the steps by the law of a bridge, which is exact for Brownian motion with steps of any length."""
    staying = functional.Survival(lambda t, x, p: p["level"] - x[0])
    result = gradients(drifting(), staying, ("mu", "sigma", "level"), t=(0, 2), dt=1 / 2)
    values, ε = np.array([0.3, 0.8, 1.0]), 1e-6
    exact = [(survival(*(values + ε * d), 2) - survival(*(values - ε * d), 2)) / (2 * ε) for d in np.eye(3)]
    assert result["route"].values.tolist() == ["tangent"] * 3
    assert_near(result, exact)
    assert abs(result["value"] - survival(*values, 2)) < CERTAIN * result["value_stderr"]


def test_survival_is_refused_where_it_has_no_bridge_and_its_second_derivatives_where_it_has_kinks():
    pushed = sd.SDE(
        lambda t, x, p: jnp.stack([x[1], -p["k"] * x[0]]),
        lambda t, x: jnp.array([[0.0], [1.0]]),
        [0.0, 0.0],
        {"k": 1.0},
    )
    with pytest.raises(ValueError, match="f: Survival needs a function on which noise acts directly"):
        gradients(pushed, functional.Survival(lambda t, x: 1.0 - x[0]), "k", paths=100)
    with pytest.raises(ValueError, match="second: f has kinks"):
        gradients(drifting(), functional.Survival(lambda t, x: 1.0 - x[0]), "mu", second=True, paths=100)


def test_survival_that_is_decided_within_single_steps_is_warned_of_as_such():
    staying = functional.Survival(lambda t, x, p: p["level"] - x[0])
    with pytest.warns(Chaotic, match="decided within single steps.*Take longer steps or more paths"):
        gradients(drifting(level=3.0), staying, "level", t=(0, 2), dt=1 / 64, paths=1000)


def test_an_option_has_kinks_and_tangents():
    d = (0.1 + 0.045 - np.log(1.1)) / 0.3
    result = gradients(growth(), lambda t, x: jnp.maximum(x[0] - 1.1, 0.0), "sigma")
    assert result["reason"].values.tolist() == ["f is continuous, with kinks"]
    assert_near(result, np.array([np.exp(0.1) * norm.pdf(d)]))


def test_the_double_well_by_the_factor_of_its_drift_and_by_its_noise():
    """By a spectral method: P(x(3) > 0) = .1875742037, its derivatives -.06194895 and .66428610."""
    well = sd.SDE(lambda t, x, p: p["a"] * (x - x**3), lambda t, x, p: p["s"], -1.0, {"a": 1.0, "s": 0.7})
    options = {"t": (0, 3), "dt": 1 / 32, "paths": 10_000}
    assert_near(gradients(well, lambda t, x: x[0] > 0, ("a", "s"), **options), [-0.06194895, 0.66428610])
    assert_near(gradients(well, lambda t, x: x[0] > 0, "a", by="weight", **options), [-0.06194895])


def test_value_and_gradient_belong_to_the_same_smooth_function():
    """With one seed, the gradient is the derivative of the value to rounding: by an entry of an array and a start."""
    spring = sd.Mechanical(
        lambda t, x, v, p: -p["k"][0] * x - p["k"][1] * x**3 - 0.2 * v, lambda t, x, v: jnp.eye(1), ([0.5], [0.0]),
        params={"k": np.array([1.0, 0.3])},
    )  # fmt: skip
    mean_square = functional.TimeAverage(lambda t, x: jnp.stack([x[0] ** 2, x[1] ** 2]))
    options = {"paths": 200, "method": "Newmark"}
    result = gradients(spring, mean_square, ("k[1]", f"start.{spring.components[0]}"), **options)
    assert result["gradient"].dims == ("parameter", "entry")

    def value(k=0.3, x=0.5):
        moved = spring.changed(params={"k": np.array([1.0, k])}, start=([x], [0.0]))
        return gradients(moved, mean_square, "k[1]", **options)["value"].values

    ε = 1e-5
    differences = [value(k=0.3 + ε) - value(k=0.3 - ε), value(x=0.5 + ε) - value(x=0.5 - ε)]
    np.testing.assert_allclose(result["gradient"], np.array(differences) / (2 * ε), rtol=1e-6)


@pytest.mark.parametrize(
    "f, of, by, words",
    [
        (above, "mu", "tangent", "f jumps: its derivative along a path is 0"),
        (above, "sigma", "weight", "the score of a noise intensity grows"),
        (lambda t, x: x[0] ** 2, "mu", "conditional", "f is not the indicator of one smooth function"),
        (lambda t, x, p: p["mu"] * x[0], "mu", "weight", "f itself depends on mu"),
        (above, "start.x0", "weight", "does not have a score for its start"),
        (above, "mu", "malliavin", "expected one of 'tangent', 'conditional', 'weight', 'difference'"),
        (above, "mu", {"sigma": "tangent"}, "'sigma' is not in of"),
    ],
)
def test_wrong_routes_are_refused_in_words(f, of, by, words):
    problem = growth()
    of = of.replace("x0", problem.components[0])
    with pytest.raises(ValueError, match=words):
        gradients(problem, f, of, by=by, paths=100)


def test_paths_that_jump_have_no_tangents():
    dry = sd.SDE(lambda t, x, p: -p["friction"] * jnp.sign(x), lambda t, x: 0.3, 1.0, {"friction": 1.0})
    result = gradients(dry, lambda t, x: x[0] ** 2, "friction", paths=100)
    assert result["route"].values.tolist() == ["weight"]
    assert "drift jumps" in str(result["reason"].values[0])
    with pytest.raises(ValueError, match="drift jumps"):
        gradients(dry, lambda t, x: x[0] ** 2, "friction", by="tangent", paths=100)


def test_a_parameter_where_no_noise_acts_has_no_score():
    motion = sd.SDE(
        lambda t, x, p: jnp.stack([p["a"] * x[1], -x[0]]),
        lambda t, x: jnp.array([[0.0], [0.5]]),
        [1.0, 0.0],
        {"a": 1.0},
    )
    with pytest.raises(ValueError, match="no noise acts where a changes the drift"):
        gradients(motion, lambda t, x: x[0], "a", by="weight", paths=100)
    result = gradients(motion, lambda t, x: x[0] > 0.5, "a", paths=100)
    assert result["route"].values.tolist() == ["difference"]  # nor does noise act on x[0] in the last step


def test_parameters_that_nothing_depends_on_and_host_callbacks_are_refused():
    problem = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 0.1, 1.0, {"k": 1.0, "c": 1.0})
    with pytest.raises(ValueError, match="nothing depends on c"):
        gradients(problem, lambda t, x: x[0], "c", paths=100)

    def on_host(t, x):
        return jax.pure_callback(lambda x: np.asarray(x)[0], jax.ShapeDtypeStruct((), x.dtype), x)

    with pytest.raises(TypeError, match="f: calls the host"):
        gradients(problem, on_host, "k", paths=100)


def test_joints_are_kept_by_default():
    """With a warning that positions drift off their joints, gradients would be those of another system."""
    pendulum = sd.Mechanical(
        lambda t, x, v, p: jnp.stack([0.0, -p["g"]]) - 0.2 * v, lambda t, x, v: 0.3 * jnp.eye(2),
        (np.array([1.0, 0.0]), np.zeros(2)), params={"g": 1.3}, constraints=lambda t, q: q @ q - 1.0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = gradients(pendulum, lambda t, x: x[1], "g", paths=100)
    assert "Rattle" in result.attrs["provenance"]


def pushed(k=0.4):
    """x(1) is normal with the mean .3 + k and the deviation .5."""
    return sd.SDE(lambda t, x, p: p["k"] + 0.0 * x, lambda t, x: jnp.array([[0.3, 0.4]]), [0.3], {"k": k})


def test_places_in_a_sorted_list_jump_and_so_does_the_angle_of_a_vector():
    """The derivative of P(x > .7), and for the angle 2π times that less E 1/(1 + (x - .7)²); two channels act alike."""
    density = norm.pdf(0.7, 0.7, 0.5)
    for f in (lambda t, x: jnp.argsort(jnp.stack([x[0], 0.7]))[0], lambda t, x: jax.lax.top_k(x - 0.7, 1)[0][0] > 0):
        result = gradients(pushed(), f, "k")
        assert result["route"].values.tolist() != ["tangent"]
        assert_near(result, [density])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    smooth = weights @ (1 / (1 + (0.5 * nodes) ** 2)) / weights.sum()
    result = gradients(pushed(), lambda t, x: jnp.arctan2(x[0] - 0.7, -1.0), "k")
    assert_near(result, [2 * np.pi * density - smooth])


def test_scores_have_the_order_of_the_method():
    """Of the Ornstein-Uhlenbeck process by its rate: with the scores of Euler's method 8 standard errors would fail."""
    k, s, ε = 2.0, 0.5, 1e-5

    def probability(k):
        return norm.sf(0.2, 0.6 * np.exp(-k), s * np.sqrt((1 - np.exp(-2 * k)) / (2 * k)))

    process = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: s, 0.6, {"k": k})
    result = gradients(process, lambda t, x: x[0] > 0.2, "k", by="weight", dt=1 / 8, paths=40_000)
    assert_near(result, [(probability(k + ε) - probability(k - ε)) / (2 * ε)])


def test_a_place_at_which_the_drift_jumps_has_no_score():
    """x' = sign(a - x) + noise: a shift of a shifts x, so that E x(1) depends on a - x(0) alone."""
    switched = sd.SDE(lambda t, x, p: jnp.where(x > p["a"], -1.0, 1.0), lambda t, x: 0.5, 0.2, {"a": 0.2})
    result = gradients(switched, lambda t, x: x[0], ("a", "start.x"), spacing=0.5)
    assert result["route"].values.tolist() == ["difference"] * 2
    error = np.hypot(*result["gradient_stderr"].values)
    assert abs(result["gradient"].sum() - 1.0) < CERTAIN * error
    with pytest.raises(ValueError, match="drift jumps where a says"):
        gradients(switched, lambda t, x: x[0], "a", by="weight", paths=100)


def test_a_time_at_which_the_drift_jumps_is_met_by_whole_steps():
    def switched_on(load):
        return sd.SDE(lambda t, x, p: load(t - p["t0"]), lambda t, x: 0.5, 0.3, {"t0": 0.45})

    with pytest.warns(JumpsInTime, match="drift jumps at a time that t0 says. With steps of 0.0625"):
        gradients(switched_on(lambda t: jnp.where(t > 0, 1.0, 0.0)), lambda t, x: x[0], "t0", paths=100)
    result = gradients(switched_on(lambda t: jax.nn.sigmoid(t / 0.05)), lambda t, x: x[0], "t0", paths=100)
    np.testing.assert_allclose(result["gradient"], [-1.0], rtol=1e-3)


@pytest.mark.parametrize(
    "row, push, words",
    [
        (lambda t, x, p: p["a"] * jnp.sin(t), 0.5, "no noise acts where a changes the drift"),
        (lambda t, x, p: p["a"] * jnp.maximum(x[0] - 1.7, 0.0), 0.5, "of the paths came to where a changes the drift"),
    ],
)
def test_scores_are_refused_where_noise_does_not_reach_later(row, push, words):
    motion = sd.SDE(
        lambda t, x, p: jnp.stack([x[1] + row(t, x, p), -0.1 * x[0]]), lambda t, x: jnp.array([[0.0], [push]]),
        [1.0, 1.0], {"a": 1.0},
    )  # fmt: skip
    with pytest.raises(ValueError, match=words):
        gradients(motion, lambda t, x: (x[0] > 0.5) & (x[0] < 1.5), "a", by="weight", paths=1000)


def test_derivatives_of_roots_that_fail_are_told_from_paths_that_do():
    process = sd.SDE(
        lambda t, x, p: p["k"] * (0.2 - x), lambda t, x: 0.8 * jnp.sqrt(jnp.maximum(x, 0.0)), 0.05, {"k": 1.4}
    )
    options = {"method": "EulerMaruyama", "paths": 200}
    with pytest.raises(PathsFailed, match="It may be their derivatives alone that failed"):
        gradients(process, lambda t, x: x[0], "k", **options)
    result = gradients(process, lambda t, x: x[0], "k", by="difference", **options)
    assert np.isfinite(result["gradient"]).all()


@pytest.mark.parametrize("resolution, route", [(None, "tangent"), (0.25, "difference")])
def test_the_gain_of_a_sampled_controller(resolution, route):
    """Which only the controller reads. With one seed, tangents are the differences of values to rounding."""
    plant = sd.SDE(
        lambda t, x, p: p["u"] - 0.7 * x, lambda t, x: sd.diagonal([0.4]), start=[0.3], params={"u": 0.0, "μ": 2.0},
        names=["x"],
    )  # fmt: skip
    loop = sd.with_loop(
        plant,
        sd.Sensor("y", of="x", every=0.25, noise=sd.per_sample(0.1), resolution=resolution),
        sd.Part("law", every=0.25, reads="y", writes="u", update=lambda t, own, seen, p: (own, -p["μ"] * seen["y"])),
    )
    result = gradients(loop, lambda t, x: x[0] ** 2, "μ", paths=200)
    assert result["route"].values.tolist() == [route]
    if route == "tangent":
        differences = gradients(loop, lambda t, x: x[0] ** 2, "μ", paths=200, by="difference")
        np.testing.assert_allclose(result["gradient"], differences["gradient"], rtol=1e-6)


def test_chaos_is_warned_of():
    with pytest.warns(Chaotic, match="paths that begin close together part"):
        gradients(lorenz(), lambda t, x: x[2], "rayleigh", t=(0, 20), dt=0.02, paths=32, method="Heun")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradients(lorenz(), lambda t, x: x[2], "rayleigh", t=(0, 0.2), dt=0.02, paths=32, method="Heun")


def test_second_derivatives_of_a_moment_and_a_probability():
    mu, sigma, options = 0.1, 0.3, {"second": True, "method": "Milstein", "dt": 1 / 64, "paths": 10_000}
    result = gradients(growth(), lambda t, x: x[0] ** 2, ("mu", "sigma"), **options)
    exact = np.exp(2 * mu + sigma**2) * np.array([[4.0, 4 * sigma], [4 * sigma, 2 + 4 * sigma**2]])
    assert np.all(np.abs(result["second"] - exact) < CERTAIN * result["second_stderr"])
    ε = 1e-4
    slope = (digital(mu, sigma + ε)[1] - digital(mu, sigma - ε)[1])[1] / (2 * ε)
    result = gradients(growth(), above, "sigma", **options)
    assert np.all(np.abs(result["second"] - slope) < CERTAIN * result["second_stderr"])


def test_second_derivatives_of_an_implicit_step_are_those_of_its_gradient():
    """With one seed they are the derivatives of the gradient to rounding."""
    spring = sd.Mechanical(
        lambda t, x, v, p: -p["k"] * x - p["a"] * x**3 - 0.2 * v, lambda t, x, v: jnp.eye(1), ([0.5], [0.0]),
        params={"k": 1.0, "a": 0.3},
    )  # fmt: skip

    def result(a, **more):
        moved = spring.changed(params={"k": 1.0, "a": a})
        return gradients(moved, lambda t, x: x[0] ** 2, "a", paths=20, method="Newmark", **more)

    ε = 1e-5
    difference = (result(0.3 + ε)["gradient"] - result(0.3 - ε)["gradient"]) / (2 * ε)
    np.testing.assert_allclose(result(0.3, second=True)["second"][:, 0], difference, rtol=1e-6)


@pytest.mark.parametrize(
    "drift, f, words",
    [
        (lambda t, x, p: -p["k"] * x, lambda t, x: jnp.maximum(x[0], 0.0), "second: f has kinks"),
        (lambda t, x, p: -p["k"] * jnp.abs(x), lambda t, x: x[0] ** 2, "second: drift has kinks"),
        (lambda t, x, p: -p["k"] * x, lambda t, x: jnp.where(x[0] > 1, x[0], 0.0), 'k has the route "weight"'),
        (lambda t, x, p: jnp.maximum(t - p["k"], 0.0), lambda t, x: x[0], "second: drift has kinks"),
        (lambda t, x, p: -p["k"] * x, lambda t, x: jnp.arcsin(jnp.sin(x[0])), "second: f has kinks"),
        (lambda t, x, p: -p["k"] * x, lambda t, x: jnp.abs(x[0]) > 0.5, "second: f has kinks"),
    ],
)
def test_second_derivatives_that_paths_do_not_tell_are_refused(drift, f, words):
    problem = sd.SDE(drift, lambda t, x: 0.3, 1.0, {"k": 1.0})
    with pytest.raises(ValueError, match=words):
        gradients(problem, f, "k", second=True, paths=100)
