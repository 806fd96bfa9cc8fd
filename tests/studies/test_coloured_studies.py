"""The studies of coloured noise and variable steps, at a reduced size."""

import math

import numpy as np
import pytest

from stodyn.analysis.covariance import spectrum, steady
from stodyn.methods.classical import RK4, RKF45
from stodyn.models.gust_response import GUST_RESPONSE, MOTION
from stodyn.models.shear_building import SHEAR_BUILDING, matrices
from stodyn.studies import ground_motion, gusts, riggs_bandwidth, riggs_variable_step
from stodyn.studies.contract import Size, catalogue


def quiet(words):
    pass


def test_all_four_are_found():
    assert {"riggs-variable-step", "riggs-bandwidth", "gusts", "ground-motion"} <= set(catalogue())


# --- variable steps -------------------------------------------------------------------------------------------------


def test_collatz_criterion_measures_the_noise():
    assert riggs_variable_step.acceptance() == pytest.approx(0.00551, abs=6e-6)
    for h, mean in ((0.005, 0.01499), (0.0005, 0.004739)):
        left, accepted = riggs_variable_step.collatz(h, 200_000)
        # Four standard errors, twice: a false alarm in one of 4000.
        assert left.mean() == pytest.approx(mean, abs=4 * left.std() / math.sqrt(len(left)) + 6e-6)
        assert accepted == pytest.approx(0.00551, abs=4 * math.sqrt(0.00551 / len(left)) + 2e-4)
        times, along = riggs_variable_step.along_a_path(h, 400)
        assert len(times) == len(along) == 400 and np.mean(along > 0) > 0.97


def test_the_embedded_estimate_with_fresh_and_with_held_samples():
    fresh, held = (
        [riggs_variable_step.estimate_rms(RKF45, noise, h) for h in (0.1, 0.05)] for noise in ("fresh", "held")
    )
    assert fresh == pytest.approx([2.4e-3, 1.67e-3], rel=0.03)
    assert held == pytest.approx([7.3e-8, 3.0e-9], rel=0.03)


def test_drawing_rejected_steps_again_shrinks_the_variance():
    for tol, known, seed in ((2e-3, 0.71, 1), (1e-3, 0.57, 2), (5e-4, 0.56, 3)):
        ratio, stderr, rejected = riggs_variable_step.reject_and_redraw(tol, 4000, seed)
        # Both numbers have an error, that of the known one is 0.016; four of the joint one, three times: one in 5000.
        assert ratio == pytest.approx(known, abs=4 * math.hypot(stderr, 0.016))
        assert 0.17 < rejected < 0.4
        assert 1 - ratio > 10 * stderr


@pytest.mark.long("tests/methods/test_dyadic.py asks the same of the same equation")
def test_dyadic_refinement_leaves_it_alone():
    ratio, stderr = riggs_variable_step.dyadic(4000, seed=76)
    assert ratio == pytest.approx(1.0, abs=4 * stderr)  # a false alarm in one of 16 000


# --- bandwidths -----------------------------------------------------------------------------------------------------


def test_error_of_band_limited_noise():
    for ratio in (1.0, 10.0, 300.0):
        exact = riggs_bandwidth.variance_error(riggs_bandwidth.first_order(ratio))
        assert exact == pytest.approx(riggs_bandwidth.first_order_error(ratio), rel=1e-9)
    # A filter of order 8 is nearly a sharp cut-off: 2/π arctan(ratio) - 1.
    for ratio in (3.0, 30.0):
        exact = riggs_bandwidth.variance_error(riggs_bandwidth.flat(ratio))
        assert exact == pytest.approx(riggs_bandwidth.cut_off_error(ratio), rel=0.03)


@pytest.mark.long("test_every_study.py runs it at its tiny size")
def test_the_bandwidth_study_has_the_exact_variances(tmp_path, monkeypatch):
    result = riggs_bandwidth.run(Size.SMALL, tmp_path, quiet)
    for row in result.rows:
        if row.stderr is not None:
            exact = float(row.remark.removeprefix("exact "))
            assert row.ours == pytest.approx(exact, abs=4 * row.stderr + 1e-3 * abs(exact))
    assert list(result.figures) == ["figure-1-bandwidths"]


# --- gusts ----------------------------------------------------------------------------------------------------------


def test_modes_of_the_airliner():
    """Phugoid and short period as Etkin and Reid print them."""
    found = np.linalg.eigvals(MOTION)
    found = found[found.imag > 0][np.argsort(found[found.imag > 0].imag)]
    assert found[0] == pytest.approx(-0.003289 + 0.06723j, abs=6e-6)
    assert found[1] == pytest.approx(-0.3719 + 0.8875j, abs=6e-5)


def test_response_within_one_percent_at_the_advised_step():
    A, B = GUST_RESPONSE.exact["system"]()
    exact = np.diagonal(GUST_RESPONSE.exact["stationary_covariance"]())
    h = gusts.advised_step(A, B)
    delivered = np.diagonal(steady(RK4, A, B, h))
    assert np.abs(delivered / exact - 1).max() <= 0.01
    assert np.abs(np.diagonal(steady(RK4, A, B, 1.3 * h)) / exact - 1).max() > 0.01
    run, expected = gusts.response(h, 20.0, 100_000)
    variance, stderr = (run[name].values[-1] for name in ("variance", "variance_stderr"))
    # Four standard errors of eight variances: a false alarm in one of 2000.
    assert (np.abs(variance - np.diagonal(expected)) <= 4 * stderr).all()
    assert (np.abs(np.diagonal(expected) / exact - 1) <= 0.01).all()
    assert (np.abs(variance / exact - 1) <= 0.01 + 4 * stderr / exact).all()


def test_spectra_of_the_runs_lie_in_their_bands_about_those_of_the_step():
    A, B = GUST_RESPONSE.exact["system"]()
    h = gusts.advised_step(A, B)
    series = gusts.spectra(h, 400.0, 32, 1024)
    f = series["frequency"].values
    seen = (f > 0.3) & (f < 3.0)  # below, the window smooths over the phugoid
    made = spectrum(RK4, A, B, h, f[seen])
    outside = []
    for i, name in enumerate(("u", "w", "q", "theta")):
        low, high = (series[word].sel(component=name).values[seen] for word in ("spectrum_low", "spectrum_high"))
        outside.append((made[:, i, i].real < low) | (made[:, i, i].real > high))
    # Bands of 95 % at 230 frequencies, neighbours and components related: 15 % outside would be ten standard errors.
    assert np.mean(outside[1:3]) < 0.15


def test_spectrum_of_the_response_integrates_to_its_covariance():
    f = np.concatenate([[0.0], np.geomspace(1e-5, 1e3, 40_001)])
    S = np.diagonal(GUST_RESPONSE.exact["spectrum"](f), axis1=1, axis2=2).real
    exact = np.diagonal(GUST_RESPONSE.exact["stationary_covariance"]())
    np.testing.assert_allclose(2 * np.trapezoid(S, f, axis=0)[:4], exact[:4], rtol=2e-3)


# --- ground motion --------------------------------------------------------------------------------------------------


def test_building_has_the_modes_of_a_uniform_shear_frame():
    parameters = {name: SHEAR_BUILDING.parameters[name] for name in ("storeys", "mass", "stiffness", "damping")}
    K, D = matrices(**parameters)
    found = np.sqrt(np.sort(np.linalg.eigvals(K).real))
    j = np.arange(1, 6)
    k, m = parameters["stiffness"], parameters["mass"]
    exact = 2 * np.sqrt(k / m) * np.sin(np.pi * (2 * j - 1) / (2 * 11))
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    # d'' + D d' + K d = 0 in the first mode: damping ratio 0.05
    assert np.sort(np.linalg.eigvals(D).real)[0] / (2 * found[0]) == pytest.approx(0.05, rel=1e-10)


def test_floors_and_passages():
    run = ground_motion.shaken(4000, end=8.0)
    P = np.diagonal(SHEAR_BUILDING.exact["stationary_covariance"]())[:10]
    variance, stderr = (run[name].values[-1][:10] for name in ("variance", "variance_stderr"))
    # After 8 s the first mode, ζω = 0.5/s, has 1 - exp(-8) of its variance; the step's own error is below 0.2 %.
    assert (np.abs(variance - P) <= 4 * stderr + 0.004 * P).all()  # ten variances: a false alarm in one of 1500
    found = run["acceleration_variance"].values[-1]
    spread = run["acceleration_variance_stderr"].values[-1]
    exact = ground_motion.exact_acceleration_variance()
    assert (np.abs(found - exact) <= 4 * spread + 0.004 * exact).all()
    survival = run["limit_25_survival"].values
    assert (np.diff(survival) <= 0).all() and survival[0] == 1.0
    # Crossings come in clumps, so that Rice's independent ones pass the limit earlier than the paths do.
    assert survival[-1] > ground_motion.poisson_survival(2.5, 8.0)
