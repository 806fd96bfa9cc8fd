"""Adams methods with noise: exact covariances with their starting steps, orders, the engine's starting steps."""

import dataclasses
from fractions import Fraction as Q

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import stodyn as sd
from stodyn.analysis import covariance
from stodyn.engine.program import executors
from stodyn.engine.spec import describe
from stodyn.methods.multistep import AB2, AB3, AB4, AM2, AM3, AM4, AM5, BASHFORTH, MOULTON
from stodyn.noise import path_normals
from stodyn.problems.linear import linear

pytestmark = pytest.mark.usefixtures("quick_compiling")

EXAMPLE = linear(-2.0, 1.0, 0.01)  # Riggs' (89)
HISTORY = AB4(placement="history", starter="adams")
VARIANTS = [AB2, AB3, AB4, AB4(starter="adams"), HISTORY, AB4(placement="history"), AB3(placement="history"),
            AB4(placement="history", starter="rk4-resampled"), AM2, AM3, AM4, AM5, AM4(noise="held"), AM4(mode="PEC"),
            AM4(corrections=3), AM4(predictor="rk4"), AM4(noise="held", corrections="converged"),
            AM4(predictor="rk4", mode="PEC"), AM4(gamma=1.8)]  # fmt: skip


# --- formulas -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", BASHFORTH)
def test_explicit_formulas_integrate_polynomials_exactly(order):
    for k in range(order):  # ∫ s^k over 0..1 from the values at 0, -1, -2, ...
        assert sum(b * Q(-j) ** k for j, b in enumerate(BASHFORTH[order])) == Q(1, k + 1)


@pytest.mark.parametrize("order", MOULTON)
def test_implicit_formulas_integrate_polynomials_exactly(order):
    for k in range(order):
        assert sum(a * Q(1 - j) ** k for j, a in enumerate(MOULTON[order])) == Q(1, k + 1)


@pytest.mark.parametrize(
    ("method", "gamma"),
    [(AM2, 2), (AM3, Q(72, 37)), (AM4, Q(32, 17)), (AM5, Q(259200, 141481)), (AM4(corrections=4), Q(32, 17)),
     (AM4(predictor="rk4"), Q(32, 17)), (AM4(mode="PEC"), 1), (AM4(noise="held"), 1),
     (AM4(mode="PEC", predictor="rk4"), 1),
     (AB4(placement="history"), 1), (AB2(placement="history"), 1)],
)  # fmt: skip
def test_factors_are_exact_and_those_of_the_shipped_step(method, gamma):
    assert method.Gamma == gamma
    assert covariance.gamma(method) == pytest.approx(float(gamma), abs=1e-12)


@pytest.mark.parametrize(
    ("method", "kappa"),
    [(AM4, 0), (AM4(mode="PEC", noise="held"), 0), (AM4(noise="held"), Q(15, 64)),
     (AM4(noise="held", corrections=2), Q(3, 8)), (AM4(noise="held", corrections=4), Q(3, 8)),
     (AM4(noise="held", corrections="converged"), Q(3, 8)), (AM4(noise="held", mode="PEC", corrections=2), Q(3, 8)),
     (AM4(noise="held", predictor="rk4"), Q(39, 64)), (AM4(noise="held", predictor="rk4", mode="PEC"), 1),
     (AM2(noise="held"), Q(1, 4)), (HISTORY, 0), (AB4, 0)],
)  # fmt: skip
def test_which_equation_they_solve(method, kappa):
    assert method.kappa == kappa
    assert covariance.kappa(method) == pytest.approx(float(kappa), abs=1e-9)


# --- starting -------------------------------------------------------------------------------------------------------

TIMES = [1, 2, 3, 4, 5, 8, 12, 20, 40, 100, 200]
# Q_D by Riggs' (71), with the exact coefficients of N U in place of his rounded ones, hA = -0.01.
BY_71 = 1 / (1 + 913 / 144 * 0.01 + 16399 / 864 * 1e-4 + 841435 / 13824 * 1e-6)
STARTS = {
    "rk4, (71)": (
        AB4(placement="history", starter="rk4", gamma=BY_71),
        [1.000, 1.000, 1.000, 9.658, 3.243, 2.830, 2.173, 1.651, 1.267, 1.059, 1.016],
    ),
    "rk4 resampled, (71)": (
        AB4(placement="history", starter="rk4-resampled", gamma=BY_71),
        [1.000, 1.000, 1.000, 4.113, 2.060, 1.866, 1.557, 1.312, 1.131, 1.033, 1.013],
    ),
    "adams, (71)": (
        AB4(placement="history", starter="adams", gamma=BY_71),
        [0.948, 1.190, 1.455, 2.146, 1.624, 1.421, 1.273, 1.155, 1.068, 1.021, 1.011],
    ),
    "adams, Q/h": (HISTORY, [1.010, 1.268, 1.550, 2.286, 1.730, 1.514, 1.356, 1.230, 1.138, 1.088, 1.078]),
    "increment": (AB4(starter="adams"), [1.010, 1.005, 1.003, 1.003, 1.002, 1.001, 1.001, 1.000, 1.000, 1.000, 1.000]),
}


@pytest.mark.parametrize("name", STARTS)
def test_exact_variance_after_the_start(name):
    method, expected = STARTS[name]
    found = covariance.delivered(EXAMPLE, method, 0.005, 200).covariance[TIMES, 0, 0]
    exact = 0.0025 * -np.expm1(-4 * 0.005 * np.array(TIMES))
    np.testing.assert_allclose(found / exact, expected, atol=6e-4)


def test_no_spike_with_the_increment_outside_the_history():
    found = covariance.delivered(EXAMPLE, AB4, 0.005, 200).covariance[1:, 0, 0]
    error = found / (0.0025 * -np.expm1(-4 * 0.005 * np.arange(1, 201))) - 1
    assert np.abs(error).max() < 0.0101 and abs(error[-1]) < 3e-5


def test_what_the_starting_steps_leave_for_small_steps():
    """P/(hQ) is what the first three steps leave for good, one a later step, and the jitter 2402/576 of the history."""
    for starter, left in (("rk4", 13.8125), ("adams", 2.4618)):
        method = AB4(placement="history", starter=starter)
        P = covariance.delivered(linear(-1.0, 1.0), method, 1e-9, 40).covariance[:, 0, 0] / 1e-9
        assert P[40] == pytest.approx(left + 37 + 2402 / 576, abs=6e-5)
        if starter == "rk4":
            assert P[4] == pytest.approx(37.5205, abs=1e-4)


def test_paths_of_the_engine_are_those_of_plain_jax():
    for method in (AB4, HISTORY, AM4(noise="held")):
        h, steps = 0.1, 9
        run = sd.simulate(
            EXAMPLE, method, t=(0, h * steps), dt=h, paths=3, seed=5, collect=sd.statistics.Paths(3, every=1)
        )
        noise = path_normals.rows(5, "W", 0, sd.provenance(run)["paths"], steps, 1)
        for i in range(3):
            increments = sd.increments(method.needs, 1, jnp.full(steps, h), {"W": jnp.asarray(noise[:, :, i])})
            x, ok = sd.path(EXAMPLE, method, 0.0, increments)
            assert bool(jnp.all(ok))
            np.testing.assert_allclose(run["path"].values[i], x, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_runs_shorter_than_the_history(steps):
    run = sd.simulate(EXAMPLE, AB4, t=(0, 0.1 * steps), dt=0.1, paths=2, seed=1, collect=sd.statistics.Moments(every=1))
    assert np.isfinite(run["mean"].values).all() and len(run["time"]) == steps + 1


@pytest.mark.brief("corrected until it converges")  # a loop in the step, and a history
@pytest.mark.parametrize(
    "method", [AB4(placement="history"), AM4, AM4(noise="held", corrections="converged")],
    ids=["its noise in the history", "corrected once", "corrected until it converges"],
)  # fmt: skip
def test_lanes_and_vmap_agree_also_across_slabs(method):
    options = {"t": (0, 3), "dt": 0.01, "paths": 64, "seed": 2, "collect": sd.statistics.Moments(every=7)}
    a, b = (sd.simulate(EXAMPLE, method, executor=e, **options) for e in ("printed", "vmap"))
    np.testing.assert_allclose(a["variance"], b["variance"], rtol=1e-11)


@pytest.mark.parametrize("method", VARIANTS, ids=lambda m: m.spelling)
def test_steps_are_printed(method):
    problem = linear([[0, 1], [-1, -0.4]], [[0], [1]])
    spec = describe(problem, method, (0.0, 1.0), 0.25, None, "float64")
    assert executors.get(spec).name == "printed"


def test_unequal_steps_are_refused():
    with pytest.raises(ValueError, match="dt: AB4 takes its history at equal steps"):
        sd.simulate(EXAMPLE, AB4, t=(0, 1), dt=[0.2, 0.3, 0.5], paths=2, seed=1)


# --- orders ---------------------------------------------------------------------------------------------------------


@pytest.mark.brief("AB4 from Adams", "AM4 PEC", "AM4 after RK4", "AM4 converged")  # tests/claims measures the others
@pytest.mark.parametrize(
    ("method", "order"),
    [(AB2, 2), (AB3, 3), (AB4, 4), (AB4(starter="adams"), 2), (AM2, 2), (AM3, 3), (AM4, 4), (AM5, 5),
     (AM4(mode="PEC"), 4),
     (AM4(predictor="rk4"), 4), (AM4(noise="held", corrections="converged"), 4)],
    ids=["AB2", "AB3", "AB4", "AB4 from Adams", "AM2", "AM3", "AM4", "AM5", "AM4 PEC", "AM4 after RK4",
         "AM4 converged"],
)  # fmt: skip
def test_orders_without_noise(method, order):
    problem = sd.SDE(lambda t, x: jnp.cos(t) - jnp.sin(x), lambda t, x: 0.0 * x, 0.4, structure="additive")

    counts = method.needs.normals(1)
    quiet = {name: jnp.zeros((80, count)) for name, count in counts.items()}

    @jax.jit
    def path(lengths):
        return sd.path(problem, method, 0.0, sd.increments(method.needs, 1, lengths, quiet))[0]

    def end(steps):  # the same program for both: the longer steps go on beyond t = 1
        return float(path(jnp.full(80, 1.0 / steps))[steps, 0])

    right = solve_ivp(lambda t, x: np.cos(t) - np.sin(x), (0, 1), [0.4], "DOP853", rtol=1e-13, atol=1e-14).y[0, -1]
    errors = [abs(end(steps) - right) for steps in (40, 80)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_reused_samples_are_refused_for_noise_that_depends_on_the_state():
    problem = sd.SDE(lambda t, x: -0.3 * x, lambda t, x: 0.6 * x, 1.0)
    with pytest.raises(ValueError, match=r"neither the Ito nor the Stratonovich .*κ = 15/64.*compensate=True"):
        sd.simulate(problem, AM4(noise="held"), t=(0, 1), dt=0.1, paths=8, seed=1)
    run = sd.simulate(problem, AM4(noise="held", compensate=True), t=(0, 1), dt=0.01, paths=20_000, seed=1,
                      collect=sd.statistics.Moments(at=[1.0]))  # fmt: skip
    # False alarms below 1e-6: five standard errors, and a bias of order h.
    assert float(run["mean"][0, 0]) == pytest.approx(np.exp(-0.3), abs=5 * float(run["mean_stderr"][0, 0]) + 2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AB4(placement="inside"), "placement: expected one of"),
        (lambda: AB4(starter="rk4-resampled"), "starter: expected one of"),
        (lambda: AB4(gamma=0.5), "gamma: an increment outside the history needs no factor"),
        (lambda: HISTORY(gamma=-1.0), "gamma: expected a factor > 0"),
        (lambda: AM4(corrections=0), "corrections: expected a whole number >= 1"),
        (lambda: AM4(corrections="converged"), "they do not converge; take noise='held'"),
        (lambda: AM4(mode="PECEC"), "mode: expected one of"),
        (lambda: AM4(predictor="euler"), "predictor: expected one of"),
    ],
)
def test_options_that_cannot_be_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_corrections_that_do_not_converge_are_reported():
    stiff = linear(-400.0, 1.0)
    method = AM4(noise="held", corrections="converged", limit=5)
    with pytest.raises(sd.PathsFailed, match="did not solve"):
        sd.simulate(dataclasses.replace(stiff, start=[1.0]), method, t=(0, 1), dt=0.05, paths=4, seed=1)
