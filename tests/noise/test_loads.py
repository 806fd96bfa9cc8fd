"""Spectra of loads on structures, against their formulas; units, sides and what has no finite variance."""

import math
import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate

from stodyn.noise import coloured as co
from stodyn.noise.coloured import fit

LN = 10.0 / math.log(10.0)


def one_sided(noise, f):
    return 2.0 * noise.spectrum(f)[:, 0, 0].real


def test_clough_penzien_is_its_formula_in_either_scale():
    ω_g, ζ_g, ω_f, ζ_f, S0 = 15.6, 0.6, 1.5, 0.7, 0.01
    ω = np.linspace(0.1, 80.0, 9)
    soil = (ω_g**4 + 4 * ζ_g**2 * ω_g**2 * ω**2) / ((ω_g**2 - ω**2) ** 2 + 4 * ζ_g**2 * ω_g**2 * ω**2)
    formula = S0 * soil * ω**4 / ((ω_f**2 - ω**2) ** 2 + 4 * ζ_f**2 * ω_f**2 * ω**2)
    noise = co.clough_penzien(ω_g, ζ_g, ω_f, ζ_f, S0=S0)
    np.testing.assert_allclose(noise.spectrum(ω / (2 * np.pi))[:, 0, 0].real / (2 * np.pi), formula, rtol=1e-11)
    np.testing.assert_allclose(co.clough_penzien(ω_g, ζ_g, ω_f, ζ_f, sigma=0.3).variance, 0.09, rtol=1e-12)
    # Without the second filter it is Kanai and Tajimi's.
    wide = co.clough_penzien(ω_g, ζ_g, 1e-3, 0.7, S0=S0).variance
    np.testing.assert_allclose(wide, co.kanai_tajimi(ω_g, ζ_g, S0=S0).variance, rtol=1e-3)


@pytest.mark.parametrize(
    ("noise", "density"),
    [
        (co.kaimal(12.0, 1.8, 340.0), co.kaimal_spectrum),
        (co.von_karman_wind(12.0, 1.8, 340.0), co.von_karman_wind_spectrum),
    ],
)
def test_wind_meets_its_spectrum(noise, density):
    """By eleven states over five decades."""
    f = np.geomspace(1e-3, 100.0, 300) * 12.0 / 340.0
    off = LN * np.log(one_sided(noise, f) / density(f, 12.0, 1.8, 340.0))
    assert np.abs(off).max() < 0.05
    np.testing.assert_allclose(noise.variance, 1.8**2, rtol=5e-3)
    assert noise.fit.error_db < 0.05 and noise.fit.variance_in_all == pytest.approx(noise.variance[0])
    assert len(noise.A) == 11


def test_kaimal_is_also_the_form_with_height_and_friction_velocity():
    z, U, u_star, f = 30.0, 15.0, 1.2, np.geomspace(1e-3, 1.0, 7)
    n = f * z / U
    formula = u_star**2 * 105.0 * n / (1.0 + 33.0 * n) ** (5.0 / 3.0) / f
    np.testing.assert_allclose(co.kaimal_spectrum(f, U, math.sqrt(105.0 / 22.0) * u_star, 5.5 * z), formula, rtol=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 3.3])
def test_waves_meet_their_spectrum(gamma):
    height, period = 8.0, 12.0
    noise = co.jonswap(height, period, gamma)
    ω = 2.0 * np.pi / period * np.linspace(0.62, 2.45, 200)
    found = one_sided(noise, ω / (2.0 * np.pi)) / (2.0 * np.pi)  # per radian
    assert np.abs(LN * np.log(found / co.jonswap_spectrum(ω, height, period, gamma))).max() < 0.5
    fine = np.linspace(1e-3, 60.0, 200_001)
    np.testing.assert_allclose(np.trapezoid(co.jonswap_spectrum(fine, height, period, gamma), fine), 4.0, rtol=1e-4)
    np.testing.assert_allclose(noise.variance, 4.0, rtol=0.05)
    if gamma == 1.0:  # Pierson and Moskowitz: (5/16) H² ω_p⁴ ω⁻⁵ exp(-1.25 (ω_p/ω)⁴)
        peak = 2.0 * np.pi / period
        formula = 5.0 / 16.0 * height**2 * peak**4 * ω**-5.0 * np.exp(-1.25 * (peak / ω) ** 4)
        np.testing.assert_allclose(co.jonswap_spectrum(ω, height, period, 1.0), formula, rtol=1e-9)
        np.testing.assert_allclose(co.pierson_moskowitz(height, period).C, noise.C)


def test_the_peak_of_jonswap():
    """γ^exp(-(u - 1)²/2σ²), u = ω/ω_p, σ = .07 below the peak and .09 above, beside the spectrum without a peak."""
    height, period, gamma = 8.0, 12.0, 3.3
    u = np.array([1.0, 0.9, 1.1, 1.3])
    ratio = np.divide(*(co.jonswap_spectrum(2 * np.pi / period * u, height, period, γ) for γ in (gamma, 1.0)))
    exact = gamma ** np.exp(-((u - 1.0) ** 2) / (2 * np.where(u <= 1.0, 0.07, 0.09) ** 2))
    np.testing.assert_allclose(ratio / ratio[0], exact / gamma, rtol=1e-9)


def test_a_road_has_the_density_of_its_class_over_length():
    U, road = 25.0, co.iso_road("C", 25.0)
    n = np.geomspace(0.05, 3.0, 9)  # cycles/m
    over_length = U * one_sided(road, U * n)
    np.testing.assert_allclose(over_length, 256e-6 * (n / 0.1) ** -2.0 / (1.0 + (0.01 / n) ** 2), rtol=1e-12)
    np.testing.assert_allclose(road.variance, np.pi * 256e-6 * 0.01 * 100.0 / 2.0, rtol=1e-12)
    np.testing.assert_allclose(co.iso_road(256e-6, 50.0).variance, road.variance)


def test_points_share_what_their_coherence_says():
    f = np.geomspace(2e-3, 0.5, 30)
    G = co.kaimal_spectrum(f, 20.0, 3.0, 150.0)
    noise = co.at_points(f, G, [0.0, 15.0, 45.0], lambda f, d: np.exp(-10.0 * f * d / 20.0))
    S = 2.0 * noise.spectrum(f).real / G[:, None, None]
    distances = np.abs(np.subtract.outer([0.0, 15.0, 45.0], [0.0, 15.0, 45.0]))
    assert np.abs(S - np.exp(-10.0 * f[:, None, None] * distances / 20.0)).max() < 0.1
    decibel = 10.0 * np.log10(S[:, 0, 0])
    assert [noise.fit.error_db, noise.fit.rms_db] == pytest.approx([abs(decibel).max(), np.sqrt(np.mean(decibel**2))])
    in_band = np.trapezoid(2.0 * noise.spectrum(f)[:, 0, 0].real, f)
    stated = [noise.fit.variance, noise.fit.variance_in_band, noise.fit.variance_in_all]
    assert stated == pytest.approx([np.trapezoid(G, f), in_band, noise.variance[0]])
    R = np.array([[1.0, 0.6], [0.6, 1.0]])
    pair = co.correlated(co.gauss_markov(2.0, 3.0, "g"), R)
    np.testing.assert_allclose(pair.spectrum(0.1), R * co.gauss_markov(2.0, 3.0).spectrum(0.1), rtol=1e-12)
    assert pair.names == ("g0", "g1")


def test_envelopes_rise_to_one_and_fade():
    t = np.linspace(0.0, 40.0, 4001)
    jennings = np.asarray(co.envelopes.jennings(3.0, 10.0, 0.2)(t))
    np.testing.assert_allclose(jennings[[150, 700, 2000]], [0.25, 1.0, math.exp(-2.0)], rtol=1e-12)
    shinozuka = np.asarray(co.envelopes.shinozuka_sato(0.1, 0.6)(t))
    formula = np.exp(-0.1 * t) - np.exp(-0.6 * t)
    np.testing.assert_allclose(shinozuka, formula / formula.max(), rtol=1e-4, atol=1e-6)
    for envelope in (co.envelopes.jennings(3.0, 10.0, 0.2), co.envelopes.shinozuka_sato(0.1, 0.6)):
        assert float(envelope(-2.0)) == float(envelope(0.0)) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: co.clough_penzien(15.0, 0.6, 1.5, 0.6), "sigma, S0: expected one of the two"),
        (lambda: co.clough_penzien(15.0, -0.6, 1.5, 0.6, sigma=1.0), "zeta: expected a number > 0"),
        (lambda: co.kaimal(0.0, 1.0, 1.0), "speed: expected a number > 0"),
        (lambda: co.jonswap(8.0, 12.0, 0.5), "gamma: expected a number from 1"),
        (lambda: co.iso_road("I", 20.0), "grade: expected one of A, B"),
        (lambda: co.iso_road("A", 20.0, math.inf), "longest: expected a number > 0"),
        (lambda: co.correlated(co.gauss_markov(1.0, 1.0), [[1.0, 2.0], [2.0, 1.0]]), "correlation: is negative"),
        (lambda: co.correlated(co.gauss_markov(1.0, 1.0), [1.0, 2.0]), "correlation: expected a finite symmetric"),
        (lambda: co.relaxing([0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]), "frequency: expected values > 0"),
        (lambda: co.at_points([0.1, 0.2, 0.3, 0.4], [1.0] * 4, [0.0, 1.0], lambda f, d: 0.5 + 0 * f * d), "coherence:"),
        (lambda: co.envelopes.jennings(3.0, 1.0, 0.1), "end: expected a time at or after rise"),
        (lambda: co.envelopes.shinozuka_sato(0.6, 0.1), "a, b: expected a < b"),
        (lambda: co.through(([1.0, 0.0, 0.0], [1.0, 1.0, 1.0])), "system: not strictly proper"),
    ],
)
def test_wrong_arguments_are_named_with_what_is_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", [co.fitted, co.relaxing])
def test_a_fit_states_what_its_filter_has(make):
    f = np.geomspace(0.01, 4.0, 60)
    G = 3.0 / (1.0 + (f / 0.3) ** 2) + 0.2 / (1.0 + (f / 2.0) ** 2)
    noise = make(f, G)
    density = one_sided(noise, f)
    off = 10.0 * np.log10(density / G)
    assert noise.fit.order == len(noise.A) and noise.fit.rms_db == pytest.approx(np.sqrt(np.mean(off**2)), abs=1e-6)
    assert np.abs(off).max() - 1e-6 <= noise.fit.error_db <= 1.2 * np.abs(off).max() + 1e-6
    assert [noise.fit.variance, noise.fit.variance_in_all] == pytest.approx([np.trapezoid(G, f), noise.variance[0]])
    in_band = scipy.integrate.quad(lambda f: one_sided(noise, [f])[0], f[0], f[-1])[0]
    assert noise.fit.variance_in_band == pytest.approx(in_band, rel=2e-3)


def test_a_coherence_that_is_not_met_says_where():
    """One that rises with the frequency, in a plane: the largest error, relative to the density, is the one stated."""
    f, places = np.geomspace(0.01, 1.0, 12), np.array([[0.0, 0.0], [3.0, 4.0]])
    G = 1.0 / (1.0 + (f / 0.1) ** 2)

    def rising(f, d):
        return np.where(d > 0.0, 0.2 + 0.7 * np.log10(f / 0.01) / 2.0, 1.0)

    with pytest.warns(co.SpectrumNotMet) as caught:
        noise = co.at_points(f, G, places, rising)
    S = 2.0 * noise.spectrum(f).real / G[:, None, None]
    off = np.stack([S[:, 0, 0] - 1.0, S[:, 0, 1] - rising(f, 5.0)], axis=1)
    i, j = np.unravel_index(np.argmax(np.abs(off)), off.shape)
    worst = np.abs(off).max()
    words = f"met to {worst:.2g} of the density only, at f = {f[i]:.3g} and the distance {[0, 5][j]:.3g}, with"
    assert words in str(caught[0].message) and noise.names == ("y0", "y1") and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.SpectrumNotMet)
        co.at_points(f, G, places, rising, tolerance=1.01 * worst)
    with pytest.warns(co.SpectrumNotMet) as caught:
        co.fitted(f, G * (1.0 + 0.5 * np.sin(9.0 * f)), highest_order=1)
    assert caught[0].filename == __file__


def test_outside_the_band_a_fit_may_have_what_continues_its_ends():
    """From a 300th of the band to 300 times it: twice the first density below, a fall as f^-1.5 above; a thousandth of
    the variance does not matter anywhere."""
    f = np.linspace(0.5, 2.0, 40)
    S = np.exp(-f)
    ω, allowed = fit._guards(f, S)
    outside = ω / (2 * np.pi)
    low, high = outside < f[0], outside > f[-1]
    assert (low.sum(), high.sum(), len(ω)) == (60, 60, 120)
    np.testing.assert_allclose([outside[0], outside[59], outside[60], outside[-1]], [0.5 / 300, 0.485, 2.06, 600.0])
    np.testing.assert_allclose(np.exp(allowed[low]), 2.0 * S[0], rtol=1e-12)
    np.testing.assert_allclose(np.exp(allowed[high]), S[-1] * (outside[high] / 2.0) ** -1.5, rtol=1e-12)
    tiny = np.where(f < 1.9, np.where(f > 0.6, S, 1e-12), 1e-12)
    little = 1e-3 * np.trapezoid(tiny, f)
    allowed = np.exp(fit._guards(f, tiny)[1])
    np.testing.assert_allclose(allowed[[0, 60]], [little / 0.5, little / 2.0 * 1.03**-1.5], rtol=1e-9)
    assert len(fit._guards(f - 0.5, S)[0]) == 60


def test_correlations_of_points_are_checked_up_to_rounding():
    noise = co.gauss_markov(2.0, 3.0, "g")
    for off, refused in ((1e-12, False), (1e-7, True)):
        for R, words in (
            ([[1.0, 0.5], [0.5 + off, 1.0]], "symmetric"),
            ([[1.0, 1.0 + off], [1.0 + off, 1.0]], "negative"),
        ):
            if refused:
                with pytest.raises(ValueError, match=words):
                    co.correlated(noise, R)
            else:
                assert co.correlated(noise, R).names == ("g0", "g1")
    for R in ([[1.0, 0.5]], [[1.0, np.nan], [np.nan, 1.0]]):
        with pytest.raises(ValueError, match="expected a finite symmetric matrix"):
            co.correlated(noise, R)
    with pytest.raises(ValueError, match="expected one output"):
        co.correlated(co.correlated(noise, np.eye(2)), np.eye(2))


def test_the_error_between_samples_is_what_exceeds_the_doubt_about_them():
    """Of samples that scatter, halfway in arsinh(f/f_1): a smooth curve through their logarithms against straight
    lines. Between them the error is larger than at them, and without the doubt it would be larger still."""
    rng = np.random.default_rng(3)
    f = np.sort(np.append(0.0, rng.uniform(0.2, 4.0, 9)))
    S = np.exp(rng.normal(size=10))
    with pytest.warns(co.SpectrumNotMet):
        noise = co.fitted(f, S, highest_order=2)
    first = f[f > 0][0]
    u = np.arcsinh(f / first)
    middle = 0.5 * (u[1:] + u[:-1])
    smooth = scipy.interpolate.PchipInterpolator(u, np.log(S))(middle)
    between = LN * np.abs(np.log(one_sided(noise, first * np.sinh(middle))) - smooth)
    doubt = LN * np.abs(smooth - np.interp(middle, u, np.log(S)))
    assert noise.fit.error_db == pytest.approx((between - doubt).max())
    assert LN * np.abs(np.log(one_sided(noise, f) / S)).max() < noise.fit.error_db < between.max() - 0.1
