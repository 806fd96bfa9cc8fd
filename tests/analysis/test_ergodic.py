"""Long-run averages: errors that know of autocorrelation, and exact stationary values to compare with."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.analysis import ergodic
from stodyn.methods.variational import Midpoint
from stodyn.models.harmonic_langevin import HARMONIC_LANGEVIN
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN
from stodyn.models.van_der_pol import VAN_DER_POL


def harmonic(z):
    return 0.5 * np.sum(z**2, axis=1)


def ar1(rho, shape, seed):
    rng = np.random.default_rng(seed)
    x = np.empty(shape)
    x[..., 0] = rng.standard_normal(shape[:-1])
    z = np.sqrt(1 - rho**2) * rng.standard_normal(shape)
    for k in range(1, shape[-1]):
        x[..., k] = rho * x[..., k - 1] + z[..., k]
    return x


def test_time_average_of_an_autoregression():
    """x' = ρ x + z has τ = (1 + ρ)/(1 - ρ); over 200 series the error is right on average and in spread."""
    rho, n = 0.9, 20000
    found = [ergodic.time_average(series) for series in ar1(rho, (200, n), 1)]
    exact = (1 + rho) / (1 - rho)
    assert np.mean([a.correlation_time for a in found]) == pytest.approx(exact, rel=0.05)
    scaled = np.array([a.mean / a.stderr for a in found])
    assert abs(np.mean(scaled**2) - 1.0) < 5 * np.sqrt(2 / 200) + 0.05
    joint = ergodic.time_average(ar1(rho, (50, 4000), 2))
    assert joint.stderr == pytest.approx(np.sqrt(exact / 200000), rel=0.1)


def test_independent_samples_have_correlation_time_one():
    assert ergodic.time_average(np.random.default_rng(0).standard_normal(100000)).correlation_time == pytest.approx(
        1.0, abs=0.05
    )


def test_the_error_of_an_ensemble_average_is_that_between_paths():
    x = ar1(0.99, (400, 500), 3)
    found = ergodic.ensemble_average(x)
    assert found.stderr == pytest.approx(x.mean(axis=1).std(ddof=1) / 20) and found.correlation_time > 10
    assert abs(found.mean) < 5 * found.stderr


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ValueError, match="too few for their autocorrelation time"):
        ergodic.time_average(np.linspace(0.0, 1.0, 100))
    with pytest.raises(ValueError, match="series: expected finite numbers"):
        ergodic.time_average([1.0, np.nan])
    with pytest.raises(ValueError, match="at least two paths"):
        ergodic.ensemble_average(np.ones(4))
    with pytest.raises(ValueError, match="skip: expected a fraction"):
        ergodic.long_run(HARMONIC_LANGEVIN.problem, Midpoint, lambda t, x, p: x[0], t=(0, 1), dt=0.1, seed=0, skip=2.0)


def test_a_constant_series_has_no_error():
    assert ergodic.time_average(np.ones(100)) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize(("paths", "end"), [(2, 8000.0), (64, 400.0)])
def test_long_run_of_the_oscillator(paths, end):
    """The midpoint rule has the exact stationary energy 1.25 at every step; 5 standard errors (6e-7)."""
    found = ergodic.long_run(HARMONIC_LANGEVIN.problem, Midpoint, lambda t, x, p: 0.5 * (x[0] ** 2 + x[1] ** 2),
                             t=(0.0, end), dt=0.25, seed=4, paths=paths, skip=0.2, every=4)  # fmt: skip
    assert abs(found.mean - 1.25) < 5 * found.stderr < 0.5


def test_stationary_density_of_a_gaussian_system_is_exact():
    found = ergodic.stationary(HARMONIC_LANGEVIN.problem, ergodic.Hermite(6), ergodic.Hermite(6))
    assert found.average(lambda z: np.ones(len(z))) == pytest.approx(1.0, abs=1e-12)
    assert found.average(harmonic) == pytest.approx(1.25, abs=1e-12)
    assert found.average(lambda z: z[:, 0] * z[:, 1]) == pytest.approx(0.0, abs=1e-12)
    assert found.average(lambda z: z[:, 0] ** 4) == pytest.approx(3 * 1.25**2, abs=1e-10)


def test_ergodic_energy_of_van_der_pol():
    """2.315958813 and the spread 1.32976; the value 2.3165 of the literature is its own sampling error off."""
    found = ergodic.stationary(VAN_DER_POL.problem, ergodic.Hermite(48, 0.9), ergodic.Hermite(48, 0.9))
    mean = found.average(harmonic)
    assert mean == pytest.approx(2.315958813, abs=1e-8)
    assert np.sqrt(found.average(lambda z: harmonic(z) ** 2) - mean**2) == pytest.approx(1.32976, abs=5e-6)


def lenard_bernstein_energy(z):
    return 0.5 * z[:, 1] ** 2 + 3 / (4 * np.pi) * np.sin(4 * np.pi * z[:, 0])


def test_periodic_system_against_its_gibbs_measure():
    found = ergodic.stationary(LENARD_BERNSTEIN.problem, ergodic.Fourier(10), ergodic.Hermite(12))
    exact = LENARD_BERNSTEIN.exact["ergodic_energy"]()
    assert found.average(lenard_bernstein_energy) == pytest.approx(exact, abs=1e-10)
    gibbs = ergodic.gibbs_average(lenard_bernstein_energy, lenard_bernstein_energy, 1.0, (0, -9), (1, 9))
    assert gibbs == pytest.approx(exact, abs=1e-12)
    x = np.linspace(0, 1, 4001)
    assert np.trapezoid(LENARD_BERNSTEIN.exact["position_density"](x), x) == pytest.approx(1.0, abs=1e-12)
    v = np.linspace(-9, 9, 4001)
    assert np.trapezoid(v**2 * LENARD_BERNSTEIN.exact["velocity_density"](v), v) == pytest.approx(1.0, abs=1e-10)
    with pytest.raises(ValueError, match="corners of a box"):
        ergodic.gibbs_average(lenard_bernstein_energy, lenard_bernstein_energy, 1.0, (0, 1), (1, 1))


def test_a_long_run_with_parameters_of_every_path():
    """dX = -k X dt + √(2k) dW has E X² = 1 whatever k is, so E k X² = E k = 1.5. 5 standard errors: once in 2e6."""
    problem = sd.SDE(
        lambda t, x, p: -p["k"] * x,
        lambda t, x, p: jnp.sqrt(2.0 * p["k"]),
        0.0,
        params={"k": scipy.stats.uniform(1, 1)},
    )
    found = ergodic.long_run(
        problem, "SRA1", lambda t, x, p: p["k"] * x[0] ** 2, t=(0, 40), dt=0.02, seed=1, paths=64, every=10
    )
    assert abs(found.mean - 1.5) < 5 * found.stderr and found.stderr < 0.1
    with pytest.raises(ValueError, match=r"long_run: the function returns shape \(1,\), expected a number"):
        ergodic.long_run(problem, "SRA1", lambda t, x, p: x, t=(0, 1), dt=0.1, seed=1)
