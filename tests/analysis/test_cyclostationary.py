"""Noise of systems whose equations jump in time, against closed forms, and the errors that the results state."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis import cyclostationary
from stodyn.analysis.cycle.periodic import periodic
from stodyn.circuits import read
from stodyn.warnings import Unresolved

pytestmark = pytest.mark.usefixtures("quick_compiling")

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def exact(a, b, cut, f, m):
    """Of x' = -a(t) x + b(t) ξ, where a and b have one value up to `cut` and another up to 1: the variances at 0 and at
    `cut`, the one-sided density at f, and the gains of the sidebands m."""
    lengths = np.array([cut, 1.0 - cut])
    left = np.exp(-2.0 * a * lengths)
    added = b**2 * (1.0 - left) / (2.0 * a)
    first = (left[1] * added[0] + added[1]) / (1.0 - left[0] * left[1])
    rate = a + 2j * np.pi * f
    turned = np.exp(-rate * lengths)
    λ = np.empty(2, complex)  # ∫ e^{-rate} over the future, at 0 and at the cut
    λ[0] = ((1.0 - turned[0]) / rate[0] + turned[0] * (1.0 - turned[1]) / rate[1]) / (1.0 - turned[0] * turned[1])
    λ[1] = (1.0 - turned[1]) / rate[1] + turned[1] * λ[0]
    density, gains = 0.0, np.zeros(len(m), complex)
    for k in range(2):
        ahead, weights = lengths[k] * (0.5 + 0.5 * NODES), 0.5 * lengths[k] * WEIGHTS
        there = (1.0 - np.exp(-rate[k] * ahead)) / rate[k] + np.exp(-rate[k] * ahead) * λ[1 - k]
        density += 2.0 * b[k] ** 2 * weights @ np.abs(there) ** 2
        gains += np.exp(-2j * np.pi * np.outer(m, lengths[: k + 1].sum() - ahead)) @ (b[k] * weights * there)
    return np.array([first, left[0] * first + added[0]]), density, gains


def switched(a, b, is_first):
    return sd.SDE(lambda t, x: 0.5 - jnp.where(is_first(t), a[0], a[1]) * x,
                  lambda t, x: jnp.where(is_first(t), b[0], b[1]) * jnp.ones((1, 1)), [0.1])  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "cut", "is_first"),
    [
        pytest.param([1.0, 5.0], [1.0, 3.0], 0.4, lambda t: t % 1.0 < 0.4, id="both"),
        pytest.param([300.0, 5.0], [30.0, 0.1], 0.002, lambda t: t % 1.0 < 0.002, id="pulse"),
        pytest.param([2.0, 1.0], [0.0, 1.0], 0.5, lambda t: jnp.sin(2.0 * jnp.pi * t) > 0.0, id="sine"),
    ],
)
def test_equations_that_jump_in_time(a, b, cut, is_first):
    """With 128 steps: variances, densities and gains to 1e-8, and the stated errors are no smaller than the true."""
    cycle = periodic(switched(a, b, is_first), period=1.0, steps=128)
    m = np.arange(-2, 3)
    variances, density, gains = exact(np.array(a), np.array(b), cut, 0.3, m)
    np.testing.assert_allclose(cycle.mesh.corners, [cut, 1.0], atol=1e-11)
    found = cyclostationary.covariance(cycle)
    at = [0, np.argmin(np.abs(cycle.mesh.shares - cut))]
    np.testing.assert_allclose(found["covariance"].values[at, 0, 0], variances, rtol=1e-10)
    spectrum = cyclostationary.spectrum(cycle, "x0", [0.3])
    assert spectrum["density"].values[0] == pytest.approx(density, rel=1e-8)
    conversion = cyclostationary.conversion(cycle, "x0", [0.3], 2)
    np.testing.assert_allclose(conversion["gain"].values[0, :, 0], gains, atol=1e-8 * np.abs(gains).max())
    q = np.exp(-np.array(a) @ [cut, 1.0 - cut])
    samples = cyclostationary.sampled(cycle, "x0", cut, [0.1], lags=2)  # few lags do not cut the density off
    np.testing.assert_allclose(samples["autocovariance"], variances[1] * q ** np.arange(3), rtol=1e-9)
    of_all_lags = 2.0 * variances[1] * (1.0 - q * q) / (1.0 - 2.0 * q * np.cos(0.2 * np.pi) + q * q)
    assert samples["density"].values[0] == pytest.approx(of_all_lags, rel=1e-9)
    assert abs(spectrum["density"].values[0] / density - 1.0) < spectrum.attrs["error"] + 1e-10
    assert max(result.attrs["error"] for result in (found, spectrum, conversion, samples)) < 1e-3


def test_edges_too_steep_for_the_steps_show_in_the_error():
    """Of a width of 1e-6 where steps are of 0.03: errors of the first order, which the results state."""

    def decay(t):
        return 3.0 + 2.0 * jnp.tanh(1e6 * (jnp.cos(2.0 * jnp.pi * (t - 0.2)) - np.cos(0.4 * np.pi)))

    cycle = periodic(sd.SDE(lambda t, x: -decay(t) * x, lambda t, x: jnp.ones((1, 1)), [0.1]), period=1.0, steps=32)
    variances, density, gains = exact(np.array([5.0, 1.0]), np.ones(2), 0.4, 0.3, np.arange(-1, 2))
    assert not cycle.mesh.at_corner.any()
    with pytest.warns(Unresolved, match="with 32 steps per period it differs by 0.0.* steps=128 or more"):
        found = cyclostationary.covariance(cycle)
    assert 1e-3 < abs(found["covariance"].values[0, 0, 0] / variances[0] - 1.0) < 2.0 * found.attrs["error"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Unresolved)
        spectrum = cyclostationary.spectrum(cycle, "x0", [0.3])
        conversion = cyclostationary.conversion(cycle, "x0", [0.3], 1)
        sampled = cyclostationary.sampled(cycle, "x0", 0.0)
    assert abs(spectrum["density"].values[0] / density - 1.0) < 2.0 * spectrum.attrs["error"]
    off = np.abs(conversion["gain"].values[0, :, 0] - gains).max() / np.abs(gains).max()
    assert off < 2.0 * conversion.attrs["error"]
    assert abs(sampled["autocovariance"].values[0] / variances[0] - 1.0) < 2.0 * sampled.attrs["error"]


def test_samples_where_the_charge_of_a_source_wanders():
    """kT/C, and e^-1 of it after each period."""
    text = "low-pass\nV1 in 0 SIN(0 1 1meg)\nC0 in 0 1n\nR1 in out 1k\nC1 out 0 1n\n.tran 10n 3u\n"
    samples = cyclostationary.sampled(periodic(read(text), steps=16), "out", 0.0, lags=3)["autocovariance"]
    np.testing.assert_allclose(samples, 1.380649e-23 * 300.15 / 1e-9 * np.exp(-np.arange(4)), rtol=1e-9)


def test_jumps_that_noise_moves_are_refused():
    """The multiplier would be that of -x alone; slopes that jump with the state are no obstacle, nor jumps of g."""

    def driven(more, noise):
        return periodic(sd.SDE(lambda t, x: -x + more(x) + 6.0 * jnp.sin(2.0 * jnp.pi * t), noise, [0.0]), period=1.0,
                        steps=32)  # fmt: skip

    relay = driven(lambda x: jnp.where(x > 0.1, -0.5, 0.0), lambda t, x: jnp.ones((1, 1)))
    with pytest.raises(ValueError, match="cycle: its equations jump where the state crosses a threshold"):
        cyclostationary.covariance(relay)
    bent = driven(lambda x: -jnp.maximum(x - 0.1, 0.0), lambda t, x: jnp.where(x > 0.1, 2.0, 1.0)[:, None])
    assert len(bent.mesh.corners) == 2 and cyclostationary.spectrum(bent, "x0", [0.3]).attrs["error"] < 1e-3
