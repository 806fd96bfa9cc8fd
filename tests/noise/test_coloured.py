"""Filters that give noise its spectrum, against closed forms: variance, density, autocovariance, at any step."""

import contextlib
import math
import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.signal

from stodyn.noise import coloured as co
from stodyn.noise.coloured import fit, points
from stodyn.warnings import Overdamped

STEPS = (1e-3, 0.05, 0.7, 20.0)
F = np.array([0.0, 0.003, 0.05, 0.4, 3.0])  # cycles a unit of time
OMEGA = 2 * np.pi * F


def density(noise, frequency=F, output=0):
    return noise.spectrum(frequency)[..., output, output].real


def one_sided_in_omega(noise, output=0):
    """Φ(ω) with ∫ Φ dω over ω > 0 the variance."""
    return density(noise, F, output) / np.pi


def assert_stationary_at_any_step(noise):
    P = noise.state_covariance
    size = np.sqrt(np.outer(np.diagonal(P), np.diagonal(P)))
    for h in STEPS:
        Phi, Qd = noise.discretise(h)
        np.testing.assert_allclose((Phi @ P @ Phi.T + Qd) / size, P / size, atol=1e-10)


# --- Gauss-Markov ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "tau"), [(2.0, 3.0), (0.1, 1e-4), (30.0, 5e3)])
def test_gauss_markov_noise_has_its_variance_and_density(sigma, tau):
    noise = co.gauss_markov(sigma, tau)
    assert noise.variance == pytest.approx([sigma**2], rel=1e-10)
    np.testing.assert_allclose(density(noise), 2 * sigma**2 * tau / (1 + (OMEGA * tau) ** 2), rtol=1e-10)
    lags = tau * np.array([-2.0, 0.0, 0.3, 4.0])
    np.testing.assert_allclose(noise.autocovariance(lags)[:, 0, 0], sigma**2 * np.exp(-np.abs(lags) / tau), rtol=1e-10)
    for h in tau * np.array(STEPS):
        Phi, Qd = noise.discretise(h)
        assert Phi[0, 0] == pytest.approx(math.exp(-h / tau), rel=1e-12)
        assert Qd[0, 0] == pytest.approx(-(sigma**2) * math.expm1(-2 * h / tau), rel=1e-10)


def test_first_order_at_the_printed_step():
    Phi, Qd = co.gauss_markov(2.0, 3.0).discretise(0.2)
    assert Phi[0, 0] == pytest.approx(0.935506985031618, rel=1e-14)
    assert Qd[0, 0] == pytest.approx(0.499306723828210, rel=1e-13)


@pytest.mark.parametrize(("sigma", "omega", "zeta"), [(2.0, 1.5, 0.3), (0.5, 40.0, 1.0), (1.0, 0.2, 2.5)])
def test_second_order_gauss_markov_noise_has_its_covariance_and_density(sigma, omega, zeta):
    noise = co.gauss_markov2(sigma, omega, zeta)
    np.testing.assert_allclose(
        noise.state_covariance, np.diag([sigma**2, (sigma * omega) ** 2]), rtol=1e-10, atol=1e-12
    )
    expected = 4 * sigma**2 * omega**3 * zeta / ((omega**2 - OMEGA**2) ** 2 + (2 * zeta * omega * OMEGA) ** 2)
    np.testing.assert_allclose(density(noise), expected, rtol=1e-10)
    assert_stationary_at_any_step(noise)


def test_second_order_at_the_printed_step_and_its_autocovariance():
    noise = co.gauss_markov2(2.0, 1.5, 0.3)
    Phi, Qd = noise.discretise(0.2)
    np.testing.assert_allclose(
        Phi, [[0.9578960668256485, 0.18030140217424193], [-0.40567815489204434, 0.7956248048688304]], rtol=1e-13
    )
    found = [Qd[0, 0], Qd[0, 1], Qd[1, 1]]
    assert found == pytest.approx([0.037163140005831034, 0.26331962457058156, 2.6445314674704585], rel=1e-12)
    damped = 1.5 * math.sqrt(1 - 0.3**2)
    lag = np.array([0.0, 0.7, 3.0])
    wave = np.cos(damped * lag) + 0.3 / math.sqrt(1 - 0.3**2) * np.sin(damped * lag)
    np.testing.assert_allclose(noise.autocovariance(lag)[:, 0, 0], 4 * np.exp(-0.45 * lag) * wave, atol=1e-11)


# --- gusts ----------------------------------------------------------------------------------------------------------


def test_dryden_along_and_across():
    V, sigma, L = 60.0, (2.0, 1.7, 1.1), (300.0, 280.0, 90.0)
    noise = co.dryden(V, sigma, L)
    assert noise.names == ("u_g", "v_g", "w_g")
    np.testing.assert_allclose(noise.covariance, np.diag(np.square(sigma)), rtol=1e-10, atol=1e-10)
    T = np.array(L) / V
    along = sigma[0] ** 2 * (2 * T[0] / np.pi) / (1 + (T[0] * OMEGA) ** 2)
    np.testing.assert_allclose(one_sided_in_omega(noise), along, rtol=1e-10)
    for k in (1, 2):
        x = (T[k] * OMEGA) ** 2
        across = sigma[k] ** 2 * (T[k] / np.pi) * (1 + 3 * x) / (1 + x) ** 2
        np.testing.assert_allclose(one_sided_in_omega(noise, k), across, rtol=1e-10)
    assert_stationary_at_any_step(noise)


def test_dryden_at_the_printed_step():
    Phi, Qd = co.dryden(1.0, 1.0, 5.334, components="w").discretise(0.1)
    np.testing.assert_allclose(
        Phi, [[0.9998264437640277, 0.09814269876770933], [-0.0034494668329461257, 0.9630275315901584]], rtol=1e-13
    )
    found = [Qd[0, 0], Qd[0, 1], Qd[1, 1]]
    assert found == pytest.approx([3.240986423060468e-4, 4.815994660704667e-3, 0.09633128445899768], rel=1e-11)


def test_angular_rates_of_dryden_gusts_have_their_densities():
    V, sigma, L, b = 60.0, (2.0, 1.7, 1.1), (300.0, 280.0, 90.0), 12.0
    noise = co.dryden(V, sigma, L, b, "uvwpqr", signs=(-1.0, 1.0))
    p, q, r = (one_sided_in_omega(noise, k) for k in (3, 4, 5))
    roll = sigma[2] ** 2 / (V * L[2]) * 0.8 * (np.pi * L[2] / (4 * b)) ** (1 / 3)
    np.testing.assert_allclose(p, roll / (1 + (4 * b * OMEGA / (np.pi * V)) ** 2), rtol=1e-10)
    for rate, gust, span in ((q, 2, 4), (r, 1, 3)):
        factor = (OMEGA / V) ** 2 / (1 + (span * b * OMEGA / (np.pi * V)) ** 2)
        np.testing.assert_allclose(rate, factor * one_sided_in_omega(noise, gust), rtol=1e-10, atol=1e-18)
    # q is made of w's own noise, so that they are fully coherent; u, v, w, p are independent.
    S = noise.spectrum(0.7)
    coherence = np.abs(S) ** 2 / np.outer(np.diagonal(S).real, np.diagonal(S).real)
    related = np.eye(6)
    related[2, 4] = related[4, 2] = related[1, 5] = related[5, 1] = 1
    np.testing.assert_allclose(coherence, related, atol=1e-12)
    transfer = noise.spectrum(0.7)[4, 2] / noise.spectrum(0.7)[2, 2]
    s = 2j * np.pi * 0.7
    assert transfer == pytest.approx(-(s / V) / (1 + 4 * b * s / (np.pi * V)), rel=1e-10)
    assert len(noise.A) == 1 + 3 + 3 + 1
    alone = co.dryden(V, sigma, L, b, "q", signs=(-1.0, 1.0))
    np.testing.assert_allclose(one_sided_in_omega(alone), q, rtol=1e-12, atol=1e-18)


def test_the_handbook_holds_twice_the_lengths_across():
    old = co.dryden(60.0, 1.0, (300.0, 280.0, 90.0), 12.0, "uvwpqr")
    new = co.dryden(60.0, 1.0, (300.0, 140.0, 45.0), 12.0, "uvwpqr", standard="MIL-HDBK-1797")
    np.testing.assert_allclose(new.spectrum(F), old.spectrum(F), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("make", [co.dryden, co.von_karman])
def test_gusts_in_other_units_of_time_and_length(make):
    a, b = make(60.0, 1.0, 300.0, 12.0, "uvwpqr"), make(0.06, 0.001, 0.3, 0.012, "uvwpqr")  # m, s and km, s
    units = np.array([1e-3] * 3 + [1.0] * 3)
    np.testing.assert_allclose(b.covariance, a.covariance * np.outer(units, units), rtol=1e-9, atol=1e-18)


def test_von_karman_is_reported_as_what_it_is():
    T = 5.0
    noise = co.von_karman(1.0, 1.0, T)
    assert noise.variance == pytest.approx([0.968714, 0.962336, 0.962336], abs=6e-7)
    assert_stationary_at_any_step(noise)
    bands = [(1e-3, 1.0, 0.07, 0.04), (1.0, 10.0, 0.15, 0.20), (10.0, 100.0, 2.6, 2.0), (100.0, 1000.0, 5.9, 5.3)]
    for low, high, along, across in bands:
        f = np.geomspace(low, high, 400) / T / (2 * np.pi)
        for output, component, bound in ((0, "u", along), (1, "v", across)):
            off = 10 * np.log10(density(noise, f, output) / co.von_karman_spectrum(f, 1.0, T, component))
            assert np.abs(off).max() == pytest.approx(bound, abs=0.05 if bound > 1 else 0.006)


def test_von_karman_spectrum_has_the_stated_variance():
    for component in ("u", "v"):

        def by_logarithm(x):
            return 2 * np.exp(x) * co.von_karman_spectrum(np.exp(x), 1.0, 3.0, component)

        total, _ = scipy.integrate.quad(by_logarithm, -25, 30, limit=400)
        assert total == pytest.approx(1.0, rel=2e-3)  # 1.339 is rounded


def test_turbulence_near_the_ground_has_the_standards_scales():
    h, W20 = 500.0, 30.0
    scales = co.turbulence_scales(h, wind=W20)
    shape = 0.177 + 0.000823 * h
    assert pytest.approx((h / shape**1.2, h / shape**1.2, h), rel=1e-14) == scales.L
    assert scales.sigma == pytest.approx((3.0 / shape**0.4, 3.0 / shape**0.4, 3.0), rel=1e-14)
    metric = co.turbulence_scales(h * 0.3048, wind=W20, unit="m")
    assert pytest.approx(np.array(scales.L) * 0.3048, rel=1e-12) == metric.L and metric.sigma == scales.sigma
    handbook = co.turbulence_scales(h, wind=W20, standard="MIL-HDBK-1797")
    assert pytest.approx((scales.L[0], scales.L[1] / 2, h / 2), rel=1e-14) == handbook.L
    # at 1000 ft all three lengths meet
    assert pytest.approx((1000.0, 1000.0, 1000.0), rel=1e-3) == co.turbulence_scales(1000.0, wind=1.0).L


def test_high_altitude_and_between():
    assert co.turbulence_scales(20_000, sigma=5.0) == co.Scales((1750.0,) * 3, (5.0,) * 3)
    assert co.turbulence_scales(20_000, sigma=5.0, spectrum="von_karman").L == (2500.0,) * 3
    assert co.turbulence_scales(20_000, sigma=5.0, standard="MIL-HDBK-1797").L == (1750.0, 875.0, 875.0)
    low, high = co.turbulence_scales(1000, wind=30.0), co.turbulence_scales(2000, sigma=5.0)
    middle = co.turbulence_scales(1500, wind=30.0, sigma=5.0)
    assert pytest.approx((np.array(low.L) + high.L) / 2) == middle.L and middle.sigma[2] == pytest.approx(4.0)


# --- ground motion, flicker -----------------------------------------------------------------------------------------


def test_ground_motion_has_the_density_of_kanai_and_tajimi():
    ω, ζ, S0 = 15.6, 0.6, 0.03
    noise = co.kanai_tajimi(ω, ζ, S0=S0)
    two_sided = density(noise) / (2 * np.pi)
    top, bottom = ω**4 + (2 * ζ * ω * OMEGA) ** 2, (ω**2 - OMEGA**2) ** 2 + (2 * ζ * ω * OMEGA) ** 2
    np.testing.assert_allclose(two_sided, S0 * top / bottom, rtol=1e-10)
    assert noise.variance == pytest.approx([np.pi * S0 * ω * (1 + 4 * ζ**2) / (2 * ζ)], rel=1e-10)
    assert co.kanai_tajimi(9.0, 0.3, sigma=2.0).variance == pytest.approx([4.0], rel=1e-10)
    assert_stationary_at_any_step(noise)


@pytest.mark.parametrize(("poles", "above", "below", "edge"), [(1, 0.24, -0.24, 0.45), (2, 0.002, -0.012, 0.155)])
def test_flicker_within_its_ripple(poles, above, below, edge):
    K, band = 2.5, (0.01, 100.0)
    noise = co.flicker(K, band, poles)
    inner, whole = np.geomspace(0.1, 10.0, 400), np.geomspace(*band, 400)

    def off(f):
        return 10 * np.log10(2 * density(noise, f) * f / K)

    assert off(inner).max() <= above + 0.006 and off(inner).min() >= below - 0.006
    assert np.abs(off(whole)).max() <= edge
    assert_stationary_at_any_step(noise)


@pytest.mark.parametrize(
    ("band", "poles", "most"), [((0.3, 40.0), 3, 0.16), ((0.02, 3e3), 5, 0.3), ((1.0, 2.0), 20, 0.6)]
)
def test_flicker_in_bands_of_any_width(band, poles, most):
    noise, f = co.flicker(1.0, band, poles), np.geomspace(*band, 100)
    assert np.abs(10 * np.log10(2 * density(noise, f) * f)).max() < most


# --- any filter -----------------------------------------------------------------------------------------------------

NUM, DEN = [2.0, 3.0, 4.0], [1.0, 2.5, 6.0, 3.0]


@pytest.mark.parametrize(
    "system",
    [
        (NUM, DEN),
        scipy.signal.tf2zpk(NUM, DEN),
        scipy.signal.tf2ss(NUM, DEN),
        scipy.signal.TransferFunction(NUM, DEN),
        scipy.signal.ZerosPolesGain(*scipy.signal.tf2zpk(NUM, DEN)),
        scipy.signal.StateSpace(*scipy.signal.tf2ss(NUM, DEN)),
        scipy.signal.lti(NUM, DEN),
    ],
    ids=["tf", "zpk", "ss", "TransferFunction", "ZerosPolesGain", "StateSpace", "lti"],
)
def test_any_rational_filter(system):
    s = 2j * np.pi * F
    expected = 0.7 * np.abs(np.polyval(NUM, s) / np.polyval(DEN, s)) ** 2
    np.testing.assert_allclose(density(co.through(system, 0.7)), expected, rtol=1e-10)


def test_high_orders_keep_their_digits():
    z, p, k = scipy.signal.cheby2(16, 40, [2 * np.pi * 3.0, 2 * np.pi * 9.0], "bandpass", analog=True, output="zpk")
    z = z[np.argsort(np.abs(z))][:-2]  # without the outermost pair: strictly proper
    noise = co.through((z, p, k))
    f = np.array([1.0, 3.5, 6.0, 20.0])
    _, response = scipy.signal.freqs_zpk(z, p, k, 2 * np.pi * f)
    np.testing.assert_allclose(density(noise, f), np.abs(response) ** 2, rtol=1e-9)
    assert_stationary_at_any_step(noise)


def test_odd_mixtures_of_real_and_complex_roots():
    rng = np.random.default_rng(4)
    for real_poles, pole_pairs, real_zeros, zero_pairs in [
        (3, 1, 2, 1),
        (1, 2, 0, 2),
        (4, 0, 1, 1),
        (5, 0, 0, 2),
        (1, 0, 0, 0),
    ]:

        def roots(real, pairs):
            upper = -rng.uniform(0.1, 2, pairs) + 1j * rng.uniform(0.1, 5, pairs)
            return np.concatenate([-rng.uniform(0.1, 5, real), upper, upper.conj()])

        p, z = roots(real_poles, pole_pairs), roots(real_zeros, zero_pairs)
        noise = co.through((z, p, -1.7))
        _, response = scipy.signal.freqs_zpk(z, p, -1.7, OMEGA)
        np.testing.assert_allclose(density(noise), np.abs(response) ** 2, rtol=1e-9)


# --- samples --------------------------------------------------------------------------------------------------------


def test_density_of_samples_holds_what_is_folded_back():
    noise, f = co.gauss_markov(1.0, 1.0), np.array([0.05, 0.5, 2.0, 8.0])
    folded = noise.spectrum(f, 0.05)[:, 0, 0].real
    assert folded / density(noise, f) == pytest.approx([1.0002, 1.002, 1.034, 1.746], rel=6e-4)
    images = sum(density(noise, f + k / 0.05) for k in range(-4000, 4001))
    np.testing.assert_allclose(folded, images, rtol=1e-4)


def test_samples_are_stationary_with_the_exact_autocovariance_at_any_step():
    noise = co.stacked(co.gauss_markov2(2.0, 1.5, 0.3), co.gauss_markov(1.0, 0.2, name="z"))
    lengths, paths = [0.4, 3.0, 0.01, 7.0], 40_000
    y = noise.sample(lengths, paths=paths, seed=5)
    assert y.shape == (paths, 5, 2)
    times = np.concatenate([[0.0], np.cumsum(lengths)])
    # Four standard errors of a covariance, √((R_aa R_bb + R_ab²)/N): 55 different entries, a false alarm in 3 of 1000.
    flat = y.reshape(paths, -1)
    found = flat.T @ flat / paths
    exact = np.block([[noise.autocovariance(t - s) for s in times] for t in times])
    stderr = np.sqrt((np.outer(np.diagonal(exact), np.diagonal(exact)) + exact**2) / paths)
    assert (np.abs(found - exact) <= 4 * stderr).all()


def test_sampled_spectrum_lies_in_its_confidence_band():
    noise, h = co.dryden(1.0, 1.0, 1.0, components="w"), 0.05
    y = noise.sample(h, 4096, paths=64, seed=6)[:, :-1, 0]
    f, power = scipy.signal.welch(y, 1 / h, "hann", 512, axis=-1)
    mean, stderr = power.mean(axis=0), power.std(axis=0, ddof=1) / 8
    f, mean, stderr = f[4:-1], mean[4:-1], stderr[4:-1]
    expected = 2 * noise.spectrum(f, h)[:, 0, 0].real
    # Of 252 frequencies a twentieth may lie outside two standard errors of the t-law: 20 more than 35 is one in 10⁵.
    assert np.count_nonzero(np.abs(mean - expected) > 2.0 * stderr + 0.004 * expected) < 35
    assert (np.abs(mean - expected) < 5.5 * stderr + 0.004 * expected).all()


def test_the_same_seed_gives_the_same_series():
    noise = co.gauss_markov(1.0, 1.0)
    assert np.array_equal(noise.sample(0.1, 5, seed=3), noise.sample([0.1] * 5, seed=3))
    assert not np.array_equal(noise.sample(0.1, 5, seed=3), noise.sample(0.1, 5, seed=4))


# --- outputs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [co.dryden(10.0, 2.0, 20.0, 3.0, "uvwpqr"), co.flicker(1.0, (0.01, 100.0)), co.gauss_markov2(1.0, 3.0, 0.2),
     co.von_karman(10.0, 2.0, 20.0, 3.0, "wq"), co.kanai_tajimi(15.0, 0.6, sigma=1.0),
     co.Coloured([[-1.0, 0.5], [0.0, -2.0]], np.eye(2), [[2.0, 1.0], [0.0, 3.0]], ("a", "b"))],
    ids=["dryden", "flicker", "second order", "von karman", "ground", "as many outputs as states"],
)  # fmt: skip
def test_outputs_can_be_made_states(noise):
    other = noise.with_outputs_first()
    np.testing.assert_allclose(other.C, np.eye(*noise.C.shape))
    assert other.state_names[: len(noise.names)] == noise.names
    np.testing.assert_allclose(other.spectrum(F), noise.spectrum(F), rtol=1e-8, atol=1e-14)
    assert other.covariance == pytest.approx(noise.covariance, rel=1e-9, abs=1e-12)


def test_outputs_that_depend_on_each_other_stay_as_they_are():
    noise = co.gauss_markov(1.0, 2.0).mixed([[1.0], [2.0]], ("a", "b"))
    assert noise.with_outputs_first() is noise


def test_outputs_can_be_picked_mixed_named_and_added():
    noise = co.dryden(10.0, (1.0, 2.0, 3.0), 20.0)
    assert noise["w_g", "u_g"].variance == pytest.approx([9.0, 1.0])
    assert noise.mixed([[1.0, 0.0, -1.0]]).variance == pytest.approx([10.0])
    assert noise.mixed(2.0).variance == pytest.approx([4.0, 16.0, 36.0])
    assert noise.named("a", "b", "c").names == ("a", "b", "c")
    both = co.summed(co.gauss_markov(1.0, 2.0), co.gauss_markov(2.0, 0.5))
    np.testing.assert_allclose(both.covariance, [[5.0]])
    assert co.gauss_markov(1.0, 1.0, "wind").state_names == ("wind",)
    assert co.gauss_markov2(1.0, 1.0, 1.0, "wind").state_names == ("wind", "wind.1")


# --- fits -----------------------------------------------------------------------------------------------------------


def test_a_rational_spectrum_is_found_again():
    f = np.geomspace(0.01, 20.0, 60)
    truth = co.through(([-3.0], [-0.7, -1.0 + 4j, -1.0 - 4j], 2.0))
    noise = co.fitted(f, 2 * density(truth, f), tolerance_db=0.1)
    assert noise.fit.order == 3 and noise.fit.rms_db < 1e-6
    fine = np.geomspace(0.01, 20.0, 777)
    np.testing.assert_allclose(density(noise, fine), density(truth, fine), rtol=1e-6)
    assert noise.variance == pytest.approx(truth.variance, rel=1e-6)


def test_von_karman_is_fitted_better_than_by_its_usual_filter():
    f = np.geomspace(1e-3, 30.0, 80)
    S = 2 * co.von_karman_spectrum(f, 1.0, 1.0)
    noise = co.fitted(f, S, tolerance_db=0.3)
    assert noise.fit.error_db < 0.3
    fine = np.geomspace(1e-3, 30.0, 1000)
    off = 10 * np.log10(density(noise, fine) / co.von_karman_spectrum(fine, 1.0, 1.0))
    assert np.abs(off).max() < noise.fit.error_db + 0.02
    usual = co.von_karman(1.0, 1.0, 1.0, components="u")
    assert np.abs(10 * np.log10(density(usual, fine) / co.von_karman_spectrum(fine, 1.0, 1.0))).max() > 1.0


def test_slopes_of_the_fit_are_its_derivatives():
    v, ω, h = np.random.default_rng(1).normal(size=9), np.geomspace(0.1, 10.0, 7), 1e-6

    def density_at(v):
        return fit._log_density(sections(v), ω)

    def sections(v):
        return fit._Sections(v[0], v[1:5].reshape(2, 2), v[5:6], v[6:8].reshape(1, 2), v[8:])

    differences = [(density_at(v + h * e) - density_at(v - h * e)) / (2 * h) for e in np.eye(9)]
    np.testing.assert_allclose(fit._slopes(sections(v), ω), np.stack(differences, axis=1), atol=1e-8)


def test_poles_that_follow_scatter_are_not_sought():
    f, rng = np.linspace(0.1, 10.0, 300), np.random.default_rng(2)
    S = 1.0 / (1.0 + f**2) * np.exp(0.1 * rng.standard_normal(300))  # 0.43 dB of scatter: 0.5 dB is never met
    with pytest.warns(co.SpectrumNotMet, match="Where the samples scatter"):
        noise = co.fitted(f, S)
    assert noise.fit.order <= 3 and noise.fit.rms_db == pytest.approx(0.43, rel=0.1)


def test_the_error_is_honest_on_a_spectrum_that_cannot_be_fitted():
    f = np.linspace(0.1, 10.0, 100)
    S = np.where((f > 3.0) & (f < 5.0), 1.0, 1e-4)  # a box: 40 dB within one sample
    with pytest.warns(co.SpectrumNotMet, match=r"order \d: at most .* dB off"):
        noise = co.fitted(f, S, tolerance_db=1.0, highest_order=4)
    off = 10 * np.log10(2 * density(noise, f) / S)
    assert noise.fit.error_db >= np.abs(off).max() - 1e-9 and noise.fit.error_db > 3.0
    assert noise.fit.rms_db == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-9)
    assert noise.fit.variance == pytest.approx(np.trapezoid(S, f))
    assert noise.fit.variance_in_all == pytest.approx(noise.variance[0])


def test_samples_from_zero_frequency_on():
    f = np.concatenate([[0.0], np.linspace(0.05, 5.0, 50)])
    truth = co.gauss_markov(1.5, 0.8)
    noise = co.fitted(f, 2 * density(truth, f), tolerance_db=0.1)
    assert noise.fit.order == 1 and noise.variance == pytest.approx([2.25], rel=1e-6)


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: co.gauss_markov(1.0, 0.0), "tau: expected a number > 0"),
        (lambda: co.gauss_markov2(1.0, -1.0, 0.5), "omega: expected a number > 0"),
        (lambda: co.kanai_tajimi(15.0, 0.6), "sigma, S0: expected one of the two"),
        (lambda: co.kanai_tajimi(15.0, 0.6, sigma=1.0, S0=1.0), "sigma, S0: expected one of the two"),
        (lambda: co.flicker(1.0, (10.0, 1.0)), "band: expected .* f1 < f2"),
        (lambda: co.flicker(1.0, (1.0, 10.0), 0), "poles_per_decade: expected a whole number >= 1"),
        (lambda: co.through(([1.0, 2.0], [1.0, 3.0])), "not strictly proper, 1 zeros for 1 poles"),
        (lambda: co.through(([1.0], [np.nan, 1.0])), "system: expected the finite coefficients of two polynomials"),
        (lambda: co.through(([1.0], [1.0, -1.0])), "not stable, a pole has the real part 1"),
        (lambda: co.through(([1.0], [1.0, 0.0])), "not stable, a pole has the real part 0"),
        (lambda: co.through(([], [-1.0 + 1j], 1.0)), "real or come in conjugate pairs"),
        (lambda: co.through(([[-1.0]], [[1.0]], [[1.0]], [[0.5]])), "passes white noise straight on"),
        (lambda: co.through(([[1.0]], [[1.0]], [[1.0]], [[0.0]])), "filter is not stable, a pole has the real part 1"),
        (lambda: co.through(scipy.signal.dlti([1.0], [1.0, 0.5], dt=0.1)), "is in discrete time"),
        (lambda: co.through(3.0), "expected .numerator, denominator."),
        (lambda: co.dryden(60.0, 1.0, 300.0, components="x"), "components: expected different letters"),
        (lambda: co.dryden(60.0, 1.0, 300.0, components="uq"), "b: the rates q need the span"),
        (lambda: co.dryden(0.0, 1.0, 300.0), "V: expected a speed > 0"),
        (lambda: co.dryden(np.inf, 1.0, 300.0), "V: expected a speed > 0"),
        (lambda: co.dryden(60.0, 1.0, 300.0, components=""), "components: expected different letters"),
        (lambda: co.dryden(60.0, 1.0, 300.0, components="uu"), "components: expected different letters"),
        (lambda: co.dryden(60.0, 1.0, 300.0, b=0.0, components="wp"), "b: the rates p need the span"),
        (lambda: co.dryden(60.0, 1.0, (300.0, 200.0, 0.0)), "L: expected a number > 0, or three"),
        (lambda: co.dryden(60.0, (1.0, np.inf, 1.0), 300.0), "sigma: expected a number > 0, or three"),
        (lambda: co.dryden(60.0, (1.0, 2.0), 300.0), "sigma: expected a number > 0, or three"),
        (lambda: co.dryden(60.0, 1.0, 300.0, standard="MIL"), "standard: expected one of"),
        (lambda: co.turbulence_scales(5.0, wind=1.0), "height: expected at least 10 ft"),
        (lambda: co.turbulence_scales(500.0), "wind: below 2000 ft"),
        (lambda: co.turbulence_scales(5000.0), "sigma: above 1000 ft"),
        (lambda: co.turbulence_scales(5000.0, sigma=1.0, unit="km"), "unit: expected"),
        (lambda: co.fitted([1, 2, 3, 4], [1, -1, 1, 1]), r"psd: negative at 2 \(-1\)"),
        (lambda: co.fitted([1, 2, 3, 4], [1, 0, 1, 1]), "psd: zero at 2"),
        (lambda: co.fitted([1, 2, 3, 4], [1, np.nan, 1, 1]), "psd: 1 of 4 values are missing"),
        (lambda: co.fitted([1, 2, np.inf, 4], [1, 1, 1, 1]), "frequency: 1 of 4 values are missing"),
        (lambda: co.fitted([1, 3, 2, 4], [1, 1, 1, 1]), "frequency: expected increasing"),
        (lambda: co.fitted([1, 2, 3], [1, 1, 1]), "expected two lists of one length, 4 or more"),
        (lambda: co.flicker(1e-3, 0.1, 1000.0), r"band: expected a pair .*write flicker\(K, \(f1, f2\)\)"),
        (lambda: co.gauss_markov(1.0, 1.0).sample(0.1, 2.5, seed=1), "steps: expected a whole number >= 0, got 2.5"),
        (lambda: co.gauss_markov(1.0, 1.0).sample(0.1, seed=1), "dt, steps: expected a step length and the number"),
        (lambda: co.gauss_markov(1.0, 1.0).sample([0.1, -1.0], seed=1), "dt: expected positive"),
        (lambda: co.gauss_markov(1.0, 1.0).mixed([[1.0, 2.0]]), r"matrix: expected \(outputs, 1\)"),
        (lambda: co.gauss_markov(1.0, 1.0).named("a", "b"), "names: expected 1 different names"),
        (lambda: co.gauss_markov(1.0, 1.0)["w"], "there is no output 'w'"),
        (lambda: co.summed(co.gauss_markov(1, 1, "a"), co.gauss_markov(1, 1, "b")), "expected the same outputs"),
        (lambda: co.Coloured([[-1.0]], [[1.0]], [[1.0, 2.0]]), r"A, B, C: expected shapes"),
        (lambda: co.Coloured([[-1.0, 0.0]], [[1.0]], [[1.0]]), r"A, B, C: expected shapes"),
        (lambda: co.Coloured(np.zeros((0, 0)), np.zeros((0, 1)), np.zeros((1, 0))), r"A, B, C: expected shapes"),
        (lambda: co.Coloured([[-1.0]], [1.0], [[1.0]]), r"A, B, C: expected shapes"),
        (lambda: co.Coloured([[-1.0]], [[1.0], [1.0]], [[1.0]]), r"A, B, C: expected shapes"),
        (lambda: co.Coloured([[-1.0]], [[1.0]], [1.0]), r"A, B, C: expected shapes"),
        (lambda: co.Coloured([[-1.0]], [[1.0]], [[np.inf]]), "A, B, C: expected finite numbers"),
        (lambda: co.Coloured([[0.0]], [[1.0]], [[1.0]]), "a pole has the real part 0"),
        (lambda: co.Coloured([[-1.0]], [[1.0]], [[1.0], [2.0]], ("a", "a")), "names: expected 2 different names"),
        (lambda: co.Coloured([[-np.inf]], [[1.0]], [[1.0]]), "A, B, C: expected finite"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named_with_what_is_expected(make, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.signal.BadCoefficients)
        with pytest.raises((ValueError, TypeError, KeyError), match=message):
            make()


def jonswap(f, height=3.0, peak=0.1):
    """The one-sided density of waves of a significant height, (height/4)² in all."""

    def shape(f):
        near = np.exp(-0.5 * ((f - peak) / (np.where(f <= peak, 0.07, 0.09) * peak)) ** 2)
        return f**-5.0 * np.exp(-1.25 * (peak / f) ** 4) * 3.3**near

    fine = np.linspace(1e-3, 5.0, 100_000)
    return shape(f) * (height / 4) ** 2 / np.trapezoid(shape(fine), fine)


@pytest.mark.brief("0.04")
@pytest.mark.parametrize("lowest", [0.07, 0.04])
def test_waves_have_their_height_outside_the_band_too(lowest):
    """Below 0.05 Hz the density is 100 to 200 dB down, where no filter follows it and none needs to."""
    f = np.linspace(lowest, 0.5, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", co.SpectrumNotMet)
        noise = co.fitted(f, jonswap(f))
    assert noise.fit.variance == pytest.approx(0.5625, rel=0.01)
    assert noise.fit.variance_in_band == pytest.approx(0.5625, rel=0.02)
    assert 0.55 < noise.variance[0] < 1.2 * 0.5625


def test_what_will_be_folded_back_is_warned_of():
    f = np.linspace(0.5, 50.0, 100)
    with pytest.warns(co.SpectrumNotMet, match=r"sampled at dt = 0.01, .* of its variance lies beyond 1/\(2 dt\) = 50"):
        noise = co.fitted(f, np.ones(100), dt=0.01)
    assert noise.variance[0] < 1.5 * 49.5
    with pytest.warns(
        co.SpectrumFolded, match=r"dt: .* % of the variance of y lies beyond 1/\(2 dt\) = 50 and is"
    ) as told:
        sampled = noise.sample(0.01, 40_000, seed=1)
    near = noise.spectrum(45.0, 0.01)[0, 0].real / noise.spectrum(45.0)[0, 0].real
    assert f"{near:.3g} times the density of the fit at 45" in str(told[0].message) and told[0].filename == __file__
    assert np.var(np.asarray(sampled)) < 1.6 * 49.5
    with pytest.raises(ValueError, match="dt: expected a step > 0"):
        co.fitted(f, np.ones(100), dt=0.0)


def test_a_tenth_of_the_variance_may_be_folded_back():
    """1/(1 + f²) has 1 - 2/π arctan F of its variance beyond F: 14 % of the rest with F = 5, and 7 % with F = 10."""
    for highest in (5.0, 10.0):
        f = np.linspace(0.02, highest, 60)
        with pytest.warns(co.SpectrumNotMet, match="folded back") if highest == 5.0 else contextlib.nullcontext():
            co.fitted(f, 1.0 / (1.0 + f**2), dt=0.5 / highest)


def test_a_filter_found_again_from_few_samples_is_not_doubted():
    """What lies between the samples of a narrow peak is known to the curve through them only."""
    f = np.geomspace(0.05, 5.0, 16)
    truth = co.gauss_markov2(1.0, 2 * np.pi * 0.5, 0.1)
    noise = co.fitted(f, 2 * density(truth, f), tolerance_db=0.5)
    assert noise.fit.rms_db < 1e-6 and noise.variance == pytest.approx(truth.variance, rel=1e-6)


def test_what_a_filter_may_do_outside_the_band_does_not_depend_on_units():
    """Densities c times as large may be c times as large there; in another unit of time all moves along."""
    f, S = np.array([0.5, 1.0, 2.0]), np.array([1e-5, 4.0, 2e-5])
    ω, allowed = fit._guards(f, S)
    np.testing.assert_allclose(fit._guards(f, 50.0 * S), [ω, allowed + np.log(50.0)], rtol=1e-12)
    np.testing.assert_allclose(fit._guards(60.0 * f, S / 60.0), [60.0 * ω, allowed - np.log(60.0)], rtol=1e-12)
    variance, low, high = np.trapezoid(S, f), ω < 2 * np.pi * f[0], ω > 2 * np.pi * f[-1]
    np.testing.assert_allclose(np.exp(allowed[low]) * f[0], 1e-3 * variance, rtol=1e-12)
    np.testing.assert_allclose(np.exp(allowed[high][0]) * f[-1], 1e-3 * variance * 1.03**-fit.ABOVE, rtol=1e-12)


def test_the_fit_of_a_wind_is_told_in_its_units():
    small, large = (co.kaimal(10.0, sigma, 100.0).fit for sigma in (1.0, 3.0))
    assert (large.order, large.error_db, large.rms_db) == (small.order, small.error_db, small.rms_db)
    for name in ("variance", "variance_in_band", "variance_in_all"):
        assert getattr(large, name) == pytest.approx(9.0 * getattr(small, name)) and getattr(large, name) > 4.0


def test_corners_and_lengths_know_no_units():
    """Noise at points is a sum over corners and lengths of correlation, as many per decade in every unit."""
    f, d = np.geomspace(0.02, 3.0, 30), np.array([0.0, 4.0, 10.0, 50.0])
    corners, lengths = points._corners(f, 4), points._lengths(d)
    for unit in (1e-3, 3.0, 1e4):
        np.testing.assert_allclose(points._corners(unit * f, 4), unit * corners, rtol=1e-12)
        np.testing.assert_allclose(points._lengths(unit * d), unit * lengths, rtol=1e-12)
    assert (corners[0], corners[-1], len(corners)) == (pytest.approx(0.02), pytest.approx(3.0), 10)
    assert (lengths[1], lengths[-1]) == (pytest.approx(0.4), pytest.approx(5000.0)) and lengths[0] < 0.1 * lengths[1]
    per_decade = (len(lengths) - 2) / np.log10(lengths[-1] / lengths[1])
    assert per_decade == pytest.approx(points.LENGTHS_PER_DECADE, rel=0.05)
    np.testing.assert_array_equal(points._lengths(np.zeros(1)), [1.0])


@pytest.mark.parametrize("make", [co.dryden, co.von_karman])
def test_gusts_may_have_a_strength_and_a_length_each(make):
    strengths, lengths = (1.0, 2.0, 3.0), (100.0, 250.0, 40.0)
    each = make(60.0, strengths, lengths, components="uvw")
    for k, letter in enumerate("uvw"):
        alone = make(60.0, strengths[k], lengths[k], components=letter)
        np.testing.assert_allclose(density(each, output=k), density(alone), rtol=1e-9)
        assert each.variance[k] == pytest.approx(alone.variance[0])


def test_slow_pairs_of_poles_stay_pairs_beside_a_fast_pole():
    """1/((s² + s/5 + 0.26)(1 + s/1e13)) has the variance 1/(2 · 0.2 · 0.26); with its pair taken as real it had 250."""
    through = co.through(([], [-0.1 + 0.5j, -0.1 - 0.5j, -1e13], 1e13))
    assert through.variance == pytest.approx(1 / (2 * 0.2 * 0.26), rel=1e-9)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: co.kanai_tajimi(0.6, 15.0, sigma=1.0), "zeta: .*1500 % .*15 % is 0.15.*omega is 0.6 here"),
        (lambda: co.gauss_markov2(1.0, 3.0, 60.0), "zeta: the ratio 60 is 6000 %"),
        (lambda: co.clough_penzien(15.0, 0.6, 1.5, 60.0, sigma=1.0), "zeta_f: .*The order is omega_f, zeta_f"),
    ],
)
def test_a_ratio_in_percent_or_in_the_place_of_a_frequency_is_told(make, told):
    with pytest.warns(Overdamped, match=told):
        make()
