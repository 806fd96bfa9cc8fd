"""Orders are what theory says, intervals cover what they should, and spoilt points are recognised."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn
from stodyn import plot
from stodyn.analysis.order import (
    Errors,
    best_reference,
    deterministic_order,
    first_and_second,
    strong_order,
    weak_order,
)
from stodyn.analysis.step.common_paths import PathRun, common_paths, composes, follows_path, shared_recipe
from stodyn.analysis.step.expectation import enumerated, integrated, linear_moments
from stodyn.engine.path import path
from stodyn.methods.contract import Claim, Method
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint
from stodyn.methods.milstein import Milstein, MilsteinLevy
from stodyn.methods.multistep import AB2
from stodyn.methods.srk import DRI1, RS1, SRA1, SRA3, SRIW1
from stodyn.methods.stiff import ImplicitEuler
from stodyn.models.differential_algebraic import CONSTRAINED_PENDULUM, LINEAR_DAE
from stodyn.models.geometric_brownian_motion import GEOMETRIC_BROWNIAN_MOTION as GBM
from stodyn.models.kubo import KUBO
from stodyn.models.noise_structures import ADDITIVE_NOISE, GENERAL_NOISE, SCALAR_NOISE
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from stodyn.noise import discrete, iterated, wiener
from stodyn.numerics.printing.points import at_one
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

SURE = 1.0 - 1e-6  # the false-alarm rate of every sampled interval below is 1e-6


def inside(study, order):
    return study.attrs["order_low"] <= order <= study.attrs["order_high"]


# --- the fit ----------------------------------------------------------------------------------------------------------

H = 2.0 ** -np.arange(3, 8)


def no_doubt(points):
    return {"rounding": np.zeros(points)}


def test_a_power_law_is_found_exactly():
    found = Errors(0.3 * H**1.5, no_doubt(5), np.zeros(5)).fit(H, 0.99)
    assert found["order"] == pytest.approx(1.5, abs=1e-12)
    assert found["order_bend"] == pytest.approx(0.0, abs=1e-12)
    assert found["order_stderr"] == found["order_doubt"] == 0.0


@pytest.mark.parametrize("points", [3, 4, 5, 6])
@pytest.mark.parametrize("D", [-1.5, 0.5, 3.0])
def test_the_interval_reaches_the_order_behind_the_next_term(points, D):
    h = 2.0 ** -np.arange(3, 3 + points)
    found = Errors(h**2 * (1.0 + D * h), no_doubt(points), np.zeros(points)).fit(h, 0.99)
    assert abs(found["order"] - 2.0) > 1e-3
    assert found["order_low"] <= 2.0 <= found["order_high"]


def test_the_standard_error_knows_that_points_share_paths():
    """Errors of 400 independent ensembles of normals, common to all h: the slope varies as order_stderr says, to 5σ."""
    rng = np.random.default_rng(5)
    slopes, claimed = [], []
    for _ in range(400):
        common, own = rng.standard_normal((300, 1)), rng.standard_normal((300, 5))
        squares = H * (0.9 * common + 0.44 * own) ** 2
        mean = squares.mean(axis=0)
        found = Errors(np.sqrt(mean), no_doubt(5), np.zeros(5), 0.5 * (squares / mean - 1.0)).fit(H, 0.99)
        slopes.append(found["order"])
        claimed.append(found["order_stderr"])
    spread = np.std(slopes)
    assert np.mean(claimed) == pytest.approx(spread, rel=5.0 / np.sqrt(2 * 400) + 0.02)
    assert np.mean(slopes) == pytest.approx(0.5, abs=5.0 * spread / np.sqrt(400))


def test_a_doubt_of_one_percent_widens_the_interval():
    doubts = {"reference": np.array([0.0, 0.0, 0.0, 0.0, 0.01 * H[-1]])}
    found = Errors(H, doubts, np.zeros(5)).fit(H, 0.99)
    nudged = Errors(H * np.array([1, 1, 1, 1, 1.01]), no_doubt(5), np.zeros(5)).fit(H, 0.99)
    assert found["order_doubt"] == pytest.approx(abs(nudged["order"] - 1.0), rel=0.01)


# --- strong orders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "order"), [(EulerMaruyama, 0.5), (Milstein, 1.0), (SRIW1, 1.5)])
def test_strong_orders_against_an_exact_solution(method, order):
    study = strong_order(GBM, method, steps=(16, 32, 64, 128), paths=2000, level=SURE)
    assert inside(study, order) and not inside(study, order + 0.5)
    assert study.attrs["reference"] == "exact solution"
    assert study.sizes == {"step": 4}
    np.testing.assert_allclose(study["step"], [1 / 16, 1 / 32, 1 / 64, 1 / 128])


def test_the_rms_error_is_that_of_plain_paths():
    """The error and its standard error from W drawn by ourselves, the coarse path stepped by a loop."""
    study = strong_order(GBM, EulerMaruyama, steps=(2, 4, 8), paths=500, seed=3)
    ((W_end, (ends,)),) = common_paths(GBM.problem, [PathRun(EulerMaruyama, (4, 2, 1))], (0.0, 1.0), 8, 500, 3)
    exact = GBM.exact["solution"](1.0, W_end)
    error = np.sqrt(np.mean((ends[:, :, 0] - exact) ** 2, axis=0))
    np.testing.assert_allclose(study["error"], error, rtol=1e-12)
    square = (ends[:, :, 0] - exact) ** 2
    by_hand = square.std(axis=0) / np.sqrt(500) / (2.0 * error)
    np.testing.assert_allclose(study["error_stderr"], by_hand, rtol=1e-12)


def test_one_path_serves_every_step_size():
    """States at factor 1, 2, 4 are those of `path` through increments composed by hand, areas included."""
    problem, seen = GENERAL_NOISE.problem, {}

    def spy(t, noise):
        jax.debug.callback(lambda W, II: seen.update(W=np.array(W), II=np.array(II)), noise.W, noise.II)
        return jnp.zeros(problem.n)

    spy.needs = iterated.MrongowiusRoessler(1)
    runs = [PathRun(MilsteinLevy, (1, 2, 4)), PathRun(spy)]
    ((_, (ends, _)),) = common_paths(problem, runs, (0.0, 1.0), 4, 1, 7)
    W, II = (seen[name].reshape(4, *shape) for name, shape in (("W", (2,)), ("II", (2, 2))))
    for k, factor in enumerate((1, 2, 4)):
        pieces = [slice(i, i + factor) for i in range(0, 4, factor)]
        whole_W = np.stack([W[p].sum(axis=0) for p in pieces])
        before = [np.cumsum(W[p], axis=0) - W[p] for p in pieces]
        whole_II = np.stack(
            [(II[p] + b[:, :, None] * W[p][:, None, :]).sum(axis=0) for p, b in zip(pieces, before, strict=True)]
        )
        h = jnp.full(4 // factor, factor / 4)
        noise = stodyn.increments(wiener.W, 2, h, {"W": jnp.asarray(whole_W) / jnp.sqrt(h)[:, None]})
        noise = dataclasses.replace(noise, Z=jnp.zeros_like(noise.W), II=jnp.asarray(whole_II))  # Z is not used
        states, ok = at_one(lambda noise: path(problem, MilsteinLevy, 0.0, noise), noise)
        assert ok.all()
        np.testing.assert_allclose(ends[0, k], states[-1], rtol=1e-12)


def test_references_agree_with_the_exact_solution():
    """Against SRIW1 sixteen times finer the errors are those against the solution, and the doubt covers the gap."""
    exact = strong_order(SCALAR_NOISE, Heun, paths=200, seed=1)
    fine = strong_order(SCALAR_NOISE.problem, Heun, paths=200, seed=1, reference=SRIW1, refine=16)
    assert fine.attrs["reference"] == "SRIW1, h = 0.0004883"
    assert abs(fine.attrs["order"] - exact.attrs["order"]) < 5.0 * exact.attrs["order_stderr"] + 0.05
    assert 0.0 < fine.attrs["order_doubt"] < 0.05


def test_the_best_method_is_the_reference():
    assert best_reference(ADDITIVE_NOISE.problem, SRA3) == SRA1
    assert best_reference(SCALAR_NOISE.problem, EulerMaruyama) == SRIW1
    assert best_reference(GENERAL_NOISE.problem, MilsteinLevy) == MilsteinLevy


def test_random_starts_and_parameters():
    """dx = -r x dt + σ dW with r and x(0) of each path its own: Euler has order 1 on additive noise."""
    problem = SDE(
        lambda t, x, p: -p["r"] * jnp.sin(2.0 * x),
        lambda t, x, p: p["s"],
        scipy.stats.norm(1.0, 0.3),
        params={"r": scipy.stats.uniform(0.5, 1.0), "s": 0.5},
    )
    study = strong_order(problem, EulerMaruyama, steps=(16, 32, 64), paths=1600, level=SURE)
    assert inside(study, 1.0) and not inside(study, 0.5) and not inside(study, 1.5)
    with pytest.raises(ValueError, match="exact: the start or the parameters differ from path to path"):
        strong_order(problem, EulerMaruyama, exact=lambda t, W: W)


def test_multistep_methods_make_their_history():
    study = strong_order(ADDITIVE_NOISE, AB2, steps=(32, 64, 128), paths=300, reference=SRA3, refine=2, level=SURE)
    assert inside(study, 1.0) and not inside(study, 0.5) and not inside(study, 1.5)


# --- wrong methods show it --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class HeunAsIto(Method):
    """Heun's step sold as a method for Ito equations: it converges to the solution of another equation."""

    accepts = SDE
    calculus = "ito"
    name = "HeunAsIto"
    needs = wiener.W
    claims = (Claim("strong", 1.0),)
    citation = "nowhere"

    def step(self, problem, t, x, noise, params):
        return Heun.step(problem, t, x, noise, params)


def test_a_wrong_calculus_does_not_converge():
    strong = strong_order(GBM(volatility=0.8), HeunAsIto(), steps=(16, 32, 64, 128), level=SURE)
    assert inside(strong, 0.0) and strong.attrs["order_high"] < 0.5
    weak = weak_order(GBM(volatility=0.8), HeunAsIto())
    assert weak.attrs["how"] == "moments" and abs(weak.attrs["order"]) < 0.2


# --- weak orders ------------------------------------------------------------------------------------------------------


def test_weak_errors_of_linear_problems_are_the_exact_ones():
    """Euler on dx = -x dt + σ dW: E x = (1-h)^N and Var x = σ² h Σ (1-h)^2k in closed form."""
    study = weak_order(ORNSTEIN_UHLENBECK(sigma=0.7), EulerMaruyama, steps=(4, 8, 16))
    h = study["step"].values
    N = np.round(1.0 / h)
    mean, variance = (1 - h) ** N, 0.49 * h * (1 - (1 - h) ** (2 * N)) / (1 - (1 - h) ** 2)
    exact = np.exp(-1.0), 0.49 * (1 - np.exp(-2.0)) / 2
    error = np.hypot(mean - exact[0], mean**2 + variance - exact[0] ** 2 - exact[1])
    np.testing.assert_allclose(study["error"], error, rtol=1e-9)
    assert study.attrs["how"] == "moments" and study.attrs["order_stderr"] == 0.0
    assert inside(study, 1.0)


def test_sampled_weak_errors_agree_with_computed_ones():
    """Euler on geometric Brownian motion: each sampled error within 5 standard errors of the computed one."""
    computed = weak_order(GBM, EulerMaruyama, steps=(4, 8, 16))
    solution = GBM.exact["solution"]
    sampled = weak_order(GBM.problem, EulerMaruyama, steps=(4, 8, 16), exact=solution, paths=20_000, level=SURE)
    assert sampled.attrs["how"] == "sampled"
    assert np.all(np.abs(sampled["error"] - computed["error"]) <= 5.0 * sampled["error_stderr"])
    assert inside(sampled, 1.0)


def test_weak_draws_are_gone_through_one_by_one():
    """DRI1 on a nonlinear problem: the enumerated expectation is that of 400 000 draws within 5 standard errors."""
    study = weak_order(SCALAR_NOISE, DRI1, steps=(1, 2, 4), t=(0.0, 0.25))
    assert study.attrs["how"] == "enumerated" and inside(study, 2.0) and not inside(study, 1.5)
    problem, φ = SCALAR_NOISE.problem, jax.vmap(first_and_second)
    values = enumerated(problem, DRI1, (0.0, 0.5), (2,), φ)[0]
    run = stodyn.simulate(problem, DRI1, t=(0.0, 0.5), dt=0.25, paths=400_000, seed=4).isel(time=-1, component=0)
    assert abs(values[0] - run["mean"]) <= 5.0 * run["mean_stderr"]
    assert abs(values[1] - values[0] ** 2 - run["variance"]) <= 5.0 * run["variance_stderr"]
    assert enumerated(problem, EulerMaruyama, (0.0, 1.0), (2,), φ) is None
    assert enumerated(problem, DRI1, (0.0, 1.0), (64,), φ) is None


def test_expectations_of_exact_solutions():
    """E x and E x² of geometric Brownian motion from its solution."""
    φ = jax.vmap(first_and_second)
    found = integrated(GBM.exact["solution"], (0.0, 2.0), 1, φ)
    mean, variance = GBM.exact["mean"](2.0)[0], GBM.exact["variance"](2.0)[0]
    np.testing.assert_allclose(found, [mean, variance + mean**2], rtol=1e-12)
    assert integrated(GBM.exact["solution"], (0.0, 2.0), 3, φ) is None


def test_moments_of_methods_with_a_history_are_computed():
    """AB2 on dx = -x dt + σ dW: x' = (1 - 3h/2) x + h/2 x_before + σ W after a first step by the classical method."""
    h, σ, steps = 0.125, 0.7, 8
    values, _, doubt = linear_moments(ORNSTEIN_UHLENBECK(sigma=σ).problem, AB2, (0.0, 1.0), (steps,))
    mean = np.array([1.0 - h + h**2 / 2 - h**3 / 6 + h**4 / 24, 1.0])
    covariance, M = np.diag([σ**2 * h, 0.0]), np.array([[1.0 - 1.5 * h, 0.5 * h], [1.0, 0.0]])
    for _ in range(steps - 1):
        mean, covariance = M @ mean, M @ covariance @ M.T + np.diag([σ**2 * h, 0.0])
    np.testing.assert_allclose(values[0], [mean[0], mean[0] ** 2 + covariance[0, 0]], rtol=1e-12)
    assert doubt[0] < 1e-12


def test_what_cannot_be_computed_is_sampled():
    assert linear_moments(SCALAR_NOISE.problem, EulerMaruyama, (0.0, 1.0), (4,)) is None  # not linear
    assert linear_moments(GENERAL_NOISE.problem, MilsteinLevy, (0.0, 1.0), (4,)) is None  # too many normals
    study = weak_order(SCALAR_NOISE, RS1, steps=(1, 2, 4, 16), paths=50_000, function=lambda x: x**2)
    assert study.attrs["how"] == "sampled"  # 16 steps have too many outcomes


# --- spoilt points ----------------------------------------------------------------------------------------------------


def test_the_rounding_plateau_is_recognised():
    """RK of order 3 down to h = 2^-15: the last points are rounding, and the slope is that of the others."""
    steps = tuple(2**k for k in range(2, 16))
    study = deterministic_order(ADDITIVE_NOISE, SRA3, steps=steps)
    plateau = study["reason"].values == "rounding"
    assert plateau.any() and not plateau[:8].any()
    assert not study["used"].values[plateau].any() and study["used"].values.sum() == 3
    assert np.all(study["error"].values[plateau] < 1e-9)
    assert inside(study, 3.0) and not inside(study, 4.0)
    plot.order(study)


def test_the_sampling_plateau_is_recognised():
    solution = GBM.exact["solution"]
    study = weak_order(GBM.problem, EulerMaruyama, exact=solution, steps=(4, 8, 16, 32, 64, 128, 256), paths=2000)
    assert "sampling" in study["reason"].values
    assert np.all(study["reason"].values[study["used"].values] == "")
    assert np.all(study["used"].values[:3]) and not study["used"].values[-1]


def test_a_reference_that_is_too_coarse_is_recognised():
    with pytest.raises(
        ValueError, match=r"steps: 0 of 3 errors can be used.*the reference's own error.*finer reference"
    ):
        strong_order(ADDITIVE_NOISE, SRA1, steps=(16, 32, 64), paths=50, reference=EulerMaruyama, refine=1)


def test_failed_paths_spoil_their_point():
    """dx = x² dt ∘ ...: the implicit midpoint rule has no solution for the longest steps."""
    stiff = SDE(lambda t, x: 3.0 * (1.0 + x**2), lambda t, x: 0.05 * x, 0.0, calculus="stratonovich")
    study = strong_order(
        stiff, ImplicitMidpoint, t=(0.0, 0.45), steps=(1, 8, 16, 32), paths=50, reference=Heun, refine=64
    )
    assert study["reason"].values[0] == "50 path(s) failed"
    assert inside(study, 1.0) or study.attrs["order"] > 1.0


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": DRI1}, ValueError, r"the draws of DRI1, WeakPairs\(\), have moments of W.*Ask for weak_order"),
        ({"method": "VanLoan"}, TypeError, "method: expected a method that makes steps"),
        ({"method": SRA1}, ValueError, "SRA1 is made for additive noise"),
        ({"steps": (8, 16)}, ValueError, "steps: expected at least 3 different numbers of steps"),
        ({"steps": (8, 16, 0)}, ValueError, "steps: expected at least 3 different numbers of steps"),
        ({"steps": (8, 12, 16)}, ValueError, "steps: 12 does not divide 16"),
        ({"paths": 0}, ValueError, "paths: expected a whole number >= 1, got 0"),
        ({"seed": -1}, ValueError, "seed: expected a whole number >= 0, such as seed=1, got -1"),
        ({"refine": 0}, ValueError, "refine: expected a whole number >= 1, got 0"),
        ({"level": 99}, ValueError, "level: expected a probability between 0 and 1, got 99"),
        ({"t": (1.0, 0.0)}, ValueError, "t: expected a finite interval"),
        ({"exact": lambda t, W: W, "reference": Heun}, ValueError, "exact, reference: expected one of the two"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments_are_named_with_what_is_expected(change, error, message):
    options = {"method": Heun, "problem": KUBO, "steps": (2, 4, 8), "paths": 10} | change
    with pytest.raises(error, match=message):
        strong_order(options.pop("problem"), options.pop("method"), **options)


def test_methods_for_sdes_are_measured_on_the_state_space_form_of_an_sdae():
    """Its exact solution and references are seen in the same components; another form is refused."""
    study = strong_order(LINEAR_DAE, EulerMaruyama, t=(0.0, 0.25), steps=(8, 16, 32), paths=200, level=SURE)
    assert inside(study, 0.5) or 0.5 < study.attrs["order"] < 1.0
    pendulum = CONSTRAINED_PENDULUM.problem
    assert best_reference(pendulum, Heun).accepts is SDE and best_reference(pendulum, ImplicitEuler).accepts is SDAE
    with pytest.raises(ValueError, match="reference: SRIW1 shows 4 components of this problem and ImplicitEuler 5"):
        strong_order(pendulum, ImplicitEuler, reference=SRIW1)


def test_deterministic_orders_need_three_points():
    with pytest.raises(ValueError, match="finest: expected at least 3 points"):
        deterministic_order(KUBO, Heun, finest=2)


# --- recipes ----------------------------------------------------------------------------------------------------------


def test_the_fine_path_holds_what_all_need():
    assert shared_recipe([wiener.W, wiener.W], 2) == wiener.W
    assert shared_recipe([wiener.W, wiener.WZ], 2) == wiener.WZ
    assert shared_recipe([wiener.W, iterated.Fourier(7)], 2) == iterated.MrongowiusRoessler(1)
    assert shared_recipe([wiener.WZ, iterated.Substeps(9)], 2) == iterated.Substeps(1)
    assert shared_recipe([iterated.SineSeries(5), iterated.Fourier(7)], 1) == iterated.Substeps(1)
    assert shared_recipe([iterated.Signature(4)], 2) == iterated.Signature(1)
    assert shared_recipe([discrete.WeakPairs(), wiener.W], 2) == wiener.W


def test_which_noise_is_a_piece_of_the_path():
    assert composes(wiener.WZ, 2) and not composes(discrete.ThreePoint(), 2)
    assert follows_path(wiener.WZ, 2) and follows_path(iterated.Fourier(2), 3)
    assert not follows_path(discrete.ThreePoint(), 2) and not follows_path(discrete.WeakPairs(), 1)
