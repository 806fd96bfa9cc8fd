"""Rainflow counts of ASTM's example, and damage rates of Gaussian stresses against closed forms and integrals."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.analysis import fatigue
from stodyn.noise import coloured as co
from stodyn.numerics.fatigue import between_steps

CURVES = [
    fatigue.SNCurve(1e3, 3.0),
    fatigue.SNCurve(1e3, 3.0, knee=1.2, below=5.0),
    fatigue.SNCurve(1e3, 3.5, knee=1.2, below=math.inf, per="range"),
]


def counts(cycles, series=0):
    total = Counter()
    for size, count in zip(cycles.range[cycles.series == series], cycles.counts[cycles.series == series], strict=True):
        total[float(size)] += float(count)
    return dict(total)


def by_three_points(record):
    """ASTM E1049-85, 5.4.4, step by step."""
    total, stack = Counter(), []
    for point in record:
        stack.append(point)
        while len(stack) >= 3 and abs(stack[-1] - stack[-2]) >= (size := abs(stack[-2] - stack[-3])):
            if len(stack) == 3:
                total[size] += 0.5
                del stack[0]
            else:
                total[size] += 1.0
                del stack[-3:-1]
    for a, b in itertools.pairwise(stack):
        total[abs(b - a)] += 0.5
    return dict(total)


def test_the_example_of_astm():
    cycles = fatigue.rainflow([-2, 1, -3, 5, -1, 3, -4, 4, -2])
    assert counts(cycles) == {3.0: 0.5, 4.0: 1.5, 6.0: 0.5, 8.0: 1.0, 9.0: 0.5}
    full = cycles.counts == 1.0
    assert cycles.mean[full].tolist() == [1.0]
    assert fatigue.damage(cycles, (8.0, 1.0)) == pytest.approx((1.5 + 6 + 3 + 8 + 4.5) / 2 / 8)


def test_the_rule_of_four_points_counts_as_that_of_three():
    record = np.random.default_rng(1).integers(-9, 10, (60, 20)).astype(float)
    record += np.cumsum(np.ones_like(record), axis=0) * 1e-3 * (np.arange(60) % 2)[:, None]
    cycles = fatigue.rainflow(record)
    for k, column in enumerate(record.T):
        rising = np.diff(column) > 0
        turns = column[np.concatenate([[True], rising[1:] != rising[:-1], [True]])]
        assert counts(cycles, k) == pytest.approx(by_three_points(turns.tolist()))


def by_rychliks_definition(peak_to_peak):
    """Ranges of a record that begins and ends at its largest value: each maximum, less the higher of the lowest values
    on the ways left and right to where the record is as high again."""
    v, ranges = peak_to_peak, [peak_to_peak.max() - peak_to_peak.min()]
    for i in range(1, len(v) - 1):
        if v[i - 1] < v[i] > v[i + 1]:
            left, right = np.flatnonzero(v[:i] >= v[i])[-1], i + 1 + np.flatnonzero(v[i + 1 :] >= v[i])[0]
            ranges.append(v[i] - max(v[left:i].min(), v[i : right + 1].min()))
    return np.sort(ranges)


@pytest.mark.parametrize("seed", range(5))
def test_cycles_are_those_of_rychliks_definition(seed):
    """Which names each cycle by itself, in place of reading the record once (Int. J. Fatigue 9, 1987)."""
    record = np.random.default_rng(seed).standard_normal(400)
    closed = np.append(np.roll(record, -record.argmax()), record.max())
    expected, cycles = by_rychliks_definition(closed), fatigue.rainflow(closed)
    halves = np.sort(np.repeat(cycles.range, (2 * cycles.counts).astype(int)))
    np.testing.assert_allclose(halves[::2], expected, rtol=1e-14)
    np.testing.assert_allclose(halves[1::2], expected, rtol=1e-14)
    assert fatigue.damage(closed, (7.0, 3.5))[0] == pytest.approx(((expected / 2) ** 3.5).sum() / 7.0, rel=1e-13)


@pytest.mark.parametrize("record", [[1.0], [2.0, 2.0], [0.0, 1.0, 2.0, 2.0, 3.0]])
def test_records_without_a_turn(record):
    cycles = fatigue.rainflow(record)
    assert counts(cycles) == ({3.0: 0.5} if len(record) > 2 else {})


def test_records_without_a_cycle_have_no_damage():
    curve = (1e6, 3.0)
    assert fatigue.damage(np.ones(5), curve).tolist() == [0.0]
    records = np.stack([np.ones(5), [0.0, 1.0, 0.0, 1.0, 0.0], np.ones(5)], axis=1)
    assert fatigue.damage(records, curve).tolist() == [0.0, 2.0 * 0.5**3 / 1e6, 0.0]


def test_turning_points_between_steps_are_those_of_the_cubic():
    """u³ - 3u²/2 + u/2 + 1 turns twice within [0, 1]; a straight line does not."""
    u = (3 - np.sqrt(3) * np.array([1, -1])) / 6
    turns = u**3 - 1.5 * u**2 + 0.5 * u + 1
    points = between_steps(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[[0.5, 1.0]], [[0.5, 1.0]]]))
    np.testing.assert_allclose(points, [[1, 0], [turns[0], 0], [turns[1], 0], [1, 1]], atol=1e-15)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("shape", [1.0, 2.0])
def test_mean_damage_is_the_integral_over_amplitudes(curve, shape):
    def density(a):
        return shape / 0.8 * (a / 0.8) ** (shape - 1) * np.exp(-((a / 0.8) ** shape)) * curve.damage(2 * a)

    points = [1.2 if curve.per == "amplitude" else 0.6, 1.2, 8.0]
    exact = sum(scipy.integrate.quad(density, *ends)[0] for ends in zip([0.0, *points], [*points, 60.0], strict=True))
    assert curve.mean_damage(0.8, shape) == pytest.approx(exact, rel=1e-8)


def test_narrow_band_is_its_closed_form():
    σ, ω = 1.7, 3.0
    rate = fatigue.narrow_band((σ**2, σ**2 * ω, σ**2 * ω**2), (1e6, 3.5))
    assert rate == pytest.approx(ω / (2 * np.pi) / 1e6 * (np.sqrt(2) * σ) ** 3.5 * math.gamma(2.75), rel=1e-12)
    assert fatigue.dirlik((σ**2, σ**2 * ω, σ**2 * ω**2, σ**2 * ω**4), (1e6, 3.5)) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_damage_rates_are_integrals_of_the_published_densities(seed):
    """Dirlik's p(Z), Z = range/2√λ0, and Rayleigh's, of spectra of some boxes, for N = 1e3 S^-m."""
    rng = np.random.default_rng(seed)
    ends, heights, m = np.sort(rng.uniform(0.1, 10.0, 6)).reshape(3, 2), rng.uniform(0.1, 5.0, 3), rng.uniform(2, 8)
    λ0, λ1, λ2, λ4 = (heights @ np.diff(ends ** (n + 1))[:, 0] / (n + 1) for n in (0, 1, 2, 4))
    γ, x = λ2 / np.sqrt(λ0 * λ4), λ1 / λ0 * np.sqrt(λ2 / λ4)
    D1 = 2 * (x - γ**2) / (1 + γ**2)
    R = (γ - x - D1**2) / (1 - γ - D1 + D1**2)
    D2 = (1 - γ - D1 + D1**2) / (1 - R)
    D3 = 1 - D1 - D2
    Q = 1.25 * (γ - D3 - D2 * R) / D1

    def dirlik(Z):
        return D1 / Q * np.exp(-Z / Q) + D2 * Z / R**2 * np.exp(-((Z / R) ** 2) / 2) + D3 * Z * np.exp(-(Z**2) / 2)

    def mean(density):
        pieces = itertools.pairwise([0.0, 0.01, 0.3, 1.0, 3.0, 6.0, 12.0, 60.0])
        return sum(scipy.integrate.quad(lambda Z: density(Z) * (Z * np.sqrt(λ0)) ** m / 1e3, *piece, epsabs=0,
                                        limit=200)[0] for piece in pieces)  # fmt: skip

    moments, curve = (λ0, λ1, λ2, λ4), (1e3, m)
    assert fatigue.dirlik(moments, curve) == pytest.approx(np.sqrt(λ4 / λ2) / (2 * np.pi) * mean(dirlik), rel=1e-8)
    rayleigh = np.sqrt(λ2 / λ0) / (2 * np.pi) * mean(lambda Z: Z * np.exp(-(Z**2) / 2))
    assert fatigue.narrow_band(moments, curve) == pytest.approx(rayleigh, rel=1e-8)


def test_dirliks_law_is_a_density_and_agrees_with_counted_cycles():
    """Of a flat spectrum up to ω = 1, λn = 1/(n + 1), as a record of 10 000 random waves, whose rainflow damage
    scatters by some 2 %."""
    moments = 1.0, 1 / 2, 1 / 3, 1 / 5
    peaks = np.sqrt(moments[3] / moments[2]) / (2 * np.pi)
    assert fatigue.dirlik(moments, (1.0, 1e-12)) == pytest.approx(peaks, rel=1e-9)
    assert fatigue.dirlik(moments, (1.0, 3.0)) < fatigue.narrow_band(moments, (1.0, 3.0))
    waves, length = 10_000, 2**17
    amplitudes = np.random.default_rng(3).standard_normal((waves, 2)) @ [1, 1j] / np.sqrt(waves)
    record = np.real(np.fft.fft(np.append(0, amplitudes), length))
    time = length * 2 * np.pi * waves / length  # of the record in which the highest frequency is 1
    assert fatigue.damage(record, (1.0, 3.0))[0] / time == pytest.approx(fatigue.dirlik(moments, (1.0, 3.0)), rel=0.05)


def test_moments_of_a_mast_in_coloured_wind_are_integrals_of_its_spectrum():
    mast = sd.Mechanical.from_matrices([1.0], [0.2], [4.0])
    blown = sd.with_noise(mast, co.gauss_markov(1.0, 1.0), into="x0")

    def density(ω, n):
        return ω**n * 2 / np.pi / (1 + ω**2) / ((4 - ω**2) ** 2 + (0.2 * ω) ** 2)

    found = fatigue.spectral_moments(blown, [1.0])
    for n, λ in zip((0, 1, 2, 4), found, strict=True):
        ends = (
            scipy.integrate.quad(density, 0, 10, (n,), points=[2], limit=200),
            scipy.integrate.quad(density, 10, np.inf, (n,)),
        )
        assert λ == pytest.approx(ends[0][0] + ends[1][0], rel=1e-9)


@pytest.mark.parametrize("ζ", [0.01, 0.3, 1.0, 1.5])
def test_the_first_moment_under_white_noise_is_its_closed_form(ζ):
    """λ1 = (2/π) λ0 ω arccos(ζ)/√(1 - ζ²), also of two real poles, and (2/π) λ0 ω of a double one; λ0 = 1/(4 ζ ω³)."""
    ω = 3.0
    swaying = sd.Mechanical.from_matrices([1.0], [2.0 * ζ * ω], [ω**2], noise=[1.0])
    ratio = 1.0 if ζ == 1.0 else abs(np.emath.arccos(ζ) / np.emath.sqrt(1.0 - ζ**2))
    found = fatigue.spectral_moments(swaying, [1.0])
    assert found[:3] == pytest.approx(np.array([1.0, 2.0 / np.pi * ratio * ω, ω**2]) / (4.0 * ζ * ω**3), rel=1e-13)


def test_moments_that_do_not_exist_are_told():
    shaken = sd.Mechanical.from_matrices([1.0], [0.2], [4.0], noise=[1.0])
    moments = fatigue.spectral_moments(shaken, [1.0])
    assert moments.λ4 == math.inf and moments.λ0 == pytest.approx(1 / (2 * 0.2 * 4))
    assert fatigue.narrow_band(moments, (1e3, 3.0)) > 0
    with pytest.raises(ValueError, match="dirlik needs a finite λ4 > 0, got inf; white noise enters the second"):
        fatigue.dirlik(moments, (1e3, 3.0))
    with pytest.raises(ValueError, match="white noise reaches this response directly"):
        fatigue.spectral_moments(shaken, [0.0, 1.0])


def test_wrong_arguments_are_told():
    with pytest.raises(ValueError, match="knee, below: expected both or neither"):
        fatigue.SNCurve(1e3, 3.0, knee=1.0)
    with pytest.raises(ValueError, match='per: expected "amplitude" or "range"'):
        fatigue.SNCurve(1e3, 3.0, per="peak")
    with pytest.raises(ValueError, match="record: expected finite numbers"):
        fatigue.rainflow([1.0, np.nan])
    with pytest.raises(ValueError, match="moments: expected λ0, λ1, λ2, λ4, got 3 numbers"):
        fatigue.dirlik((1.0, 1.0, 1.0), (1e3, 3.0))
    with pytest.raises(ValueError, match=r"no spectrum has them.*in this order"):
        fatigue.dirlik((1.0, 4.0, 20.0, 2.0), (1e3, 3.0))


def test_records_of_a_run_are_counted_along_time():
    """run["path"] has the paths first."""
    blown = sd.with_noise(sd.Mechanical.from_matrices([1.0], [0.2], [4.0]), co.gauss_markov(1.0, 1.0), into="x0")
    run = sd.simulate(blown, t=(0, 8), dt=0.1, paths=3, seed=1, collect=sd.statistics.Paths(3, every=1))
    paths = run["path"].sel(component="x0")
    assert paths.dims == ("number", "time")
    expected = [fatigue.damage(one.values, (10.0, 3.0))[0] for one in paths]
    np.testing.assert_array_equal(fatigue.damage(paths, (10.0, 3.0)), expected)
    assert fatigue.rainflow(paths).series.max() == 2


@pytest.mark.parametrize("curve", CURVES)
def test_damage_of_what_is_no_range(curve):
    """NaN stays NaN, also with a knee; numbers below 0 are refused."""
    assert np.isnan(curve.damage([np.nan, 2.0])).tolist() == [True, False]
    with pytest.raises(ValueError, match=r"ranges: expected numbers >= 0, got -2"):
        curve.damage([-2.0, 2.0])
    with pytest.raises(ValueError, match=r"S: expected numbers >= 0, got -1"):
        curve.cycles_to_failure(-1.0)


def test_complex_records_are_refused():
    with pytest.raises(TypeError, match="record: expected real numbers, got complex ones"):
        fatigue.rainflow(np.array([1.0 + 1.0j, 2.0]))
