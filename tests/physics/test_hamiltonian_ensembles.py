"""Sampled energies of Hamiltonian systems against exact ones and reference values, seeds fixed, 4 standard errors.

A right program fails one such comparison in 16 000 with another seed.
"""

import contextlib

import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.conservation import energy_drift, energy_of
from stodyn.analysis.ergodic import long_run
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN
from stodyn.models.lorentz_collisions import LORENTZ_COLLISIONS, lorentz_collisions
from stodyn.models.van_der_pol import VAN_DER_POL
from stodyn.statistics.observable import Observable
from stodyn.studies import kubo
from stodyn.warnings import EnergyNotKept


def agree(found, stderr, expected, its_stderr=0.0):
    error = np.hypot(stderr, its_stderr)
    assert abs(found - expected) <= 4 * error, f"{found} ± {error}, expected {expected}"


# --- Kubo: every method and step whose fourth moments a sample holds ------------------------------------------------


@pytest.mark.brief("Midpoint", "RS1")
@pytest.mark.parametrize("name", kubo.STEPS)
def test_kubo_against_the_exact_moments_of_the_scheme(name):
    """The energy of the scheme itself, not of the system, within 4 of its exact standard errors (fourth moments)."""
    problem, end, paths = DAMPED_KUBO.problem, 100.0, 512
    for h in kubo.STEPS[name]:
        if name == "StoermerVerlet" and h >= 0.25:
            continue  # test_what_a_sample_of_verlet_cannot_hold
        run = sd.simulate(problem, name, t=(0.0, end), dt=h, paths=paths, seed=41, progress=False,
                          collect=Observable(energy_of(problem), name="energy", at=[end]))  # fmt: skip
        mean, deviation = kubo.energy_moments(name, h, end)
        agree(float(run["energy"][-1]), deviation / np.sqrt(paths), mean)
        assert float(run["energy_variance"][-1]) == pytest.approx(deviation**2, rel=0.5)


def test_what_a_sample_of_verlet_cannot_hold():
    """At dt = .25 second moments still decay (6.3e-5 a unit of time) while fourth ones grow; at .5 both grow.

    So the energy at dt = .25 comes to rest on paths ever more rare: the standard error of 50 000 paths is 5 % of
    E(H)(5000), at .1 it is .3 %; at .5 it is more than E(H)(1000) itself.
    """
    growth = {h: [kubo.moment_growth(h, power) for power in (2, 4)] for h in (0.5, 0.25, 0.1)}
    assert growth[0.25][0] == pytest.approx(-6.28e-5, rel=0.01)
    assert growth[0.5][0] > 0 and growth[0.5][1] > 0 > growth[0.25][0] and growth[0.25][1] > 0 > growth[0.1][1]

    def relative(h, t):
        mean, deviation = kubo.energy_moments("StoermerVerlet", h, t)
        return deviation / np.sqrt(50_000) / mean

    assert relative(0.5, 1000.0) > 1 and relative(0.25, 5000.0) == pytest.approx(0.048, abs=1e-3)
    assert relative(0.1, 5000.0) == pytest.approx(0.0029, abs=1e-4)


# --- van der Pol -----------------------------------------------------------------------------------------------------

VAN_DER_POL_RUNS = {  # at dt = .2: E(H)(5000) of 4000 paths, ± .021; DIRK of 20 000, ± .0094
    "DIRK": (2.319, 0.0094),
    "Midpoint": (2.380, 0.021),
    "SRKw2": (2.328, 0.021),
    "Heun": (5.77, 0.05),
}


@pytest.mark.brief("Midpoint", "Heun")
@pytest.mark.parametrize("name", VAN_DER_POL_RUNS)
def test_van_der_pol(name):
    """Structure-preserving steps also within 4 standard errors of the averaged equation, 2.3143; explicit ones not, of
    which the run is told."""
    problem, times = VAN_DER_POL.problem, [1000.0, 2500.0, 4000.0, 5000.0]
    with pytest.warns(EnergyNotKept, match="far too large") if name == "Heun" else contextlib.nullcontext():
        run = sd.simulate(problem, name, t=(0.0, 5000.0), dt=0.2, paths=512, seed=43, progress=False,
                          collect=Observable(energy_of(problem), name="energy", at=times))  # fmt: skip
    mean, stderr = run["energy"].values, run["energy_stderr"].values
    agree(mean[-1], stderr[-1], *VAN_DER_POL_RUNS[name])
    off = (mean - VAN_DER_POL.exact["averaged_energy"](np.array(times))) / stderr
    assert np.all(np.abs(off) < 4) if name != "Heun" else abs(off[-1]) > 4


# --- Lenard-Bernstein ------------------------------------------------------------------------------------------------

LENARD_BERNSTEIN_RUNS = {  # the mean of E(H) over T/2..T = 1000, ± .004 (DIRK ± .002)
    "DIRK": {0.15: 0.470},
    "Midpoint": {0.15: 0.647, 0.05: 0.475},
    "StoermerVerlet": {0.15: 0.762, 0.05: 0.474},
    "Heun": {0.02: 0.553},
}
SMALL_ENOUGH = {("DIRK", 0.15), ("Midpoint", 0.05), ("StoermerVerlet", 0.05)}


@pytest.mark.brief("DIRK")
@pytest.mark.parametrize("name", LENARD_BERNSTEIN_RUNS)
def test_lenard_bernstein_particles_have_the_reference_energies(name):
    """Also within 4 standard errors of the Gibbs measure's .4717 where the step is small enough; the others are not."""
    problem, limit = LENARD_BERNSTEIN.problem, LENARD_BERNSTEIN.exact["ergodic_energy"]()
    for h, expected in LENARD_BERNSTEIN_RUNS[name].items():
        steps = 20 * round(50.0 / h)
        found = long_run(problem, name, energy_of(problem), t=(0.0, steps * h), dt=h, seed=47, skip=0.5,
                         paths=256 if (name, h) in SMALL_ENOUGH else 1024,
                         every=steps // 20)  # fmt: skip
        agree(found.mean, found.stderr, expected, 0.002 if name == "DIRK" else 0.004)
        if (name, h) in SMALL_ENOUGH:
            agree(found.mean, found.stderr, limit)
        elif h >= 0.15 and name in ("Midpoint", "StoermerVerlet"):
            assert found.mean - limit > 4 * found.stderr  # particles trapped at |v| = 1/(2 dt)


# --- Lorentz ---------------------------------------------------------------------------------------------------------


def test_the_density_wave_of_lorentz_fills_the_torus():
    """(1 + eps cos 2πx)(1 + eps cos 2πy) on one period of both, by draws of which one in (1 + eps)² is taken."""
    place = lorentz_collisions(eps=0.5).start[0]
    assert (place.lower, place.upper) == ((0.0, 0.0), (1.0, 1.0)) and place.bound == 2.25
    np.testing.assert_allclose(place.density(np.array([[0.0, 0.0], [0.5, 0.5], [0.25, 0.0]])), [2.25, 0.25, 1.5])


LORENTZ_RUNS = {"StoermerVerlet": (0.05, 2.2e-2), "DIRK": (0.05, 3.0e-3)}


@pytest.mark.brief("StoermerVerlet")
@pytest.mark.parametrize("name", LORENTZ_RUNS)
def test_lorentz_keeps_the_energy(name):
    """The rms of H(100) - H(0) over 400 paths is that of the reference, and its mean is zero, within 4 errors."""
    h, rms = LORENTZ_RUNS[name]
    last = energy_drift(LORENTZ_COLLISIONS.problem, name, t=(0.0, 100.0), dt=h, paths=400, seed=9, saves=2).isel(
        time=-1
    )
    found, error = float(last["drift_rms"]), float(last["drift_rms_stderr"])
    agree(found, error, rms, error)
    agree(float(last["drift"]), float(last["drift_stderr"]), 0.0)


def test_lorentz_heats_up_with_heun():
    last = energy_drift(LORENTZ_COLLISIONS.problem, "Heun", t=(0.0, 100.0), dt=0.01, paths=400, seed=9, saves=2)
    found, error = float(last["drift"][-1]), float(last["drift_stderr"][-1])
    agree(found, error, 3.7e-2, 4.9e-2 / 20)
    assert found > 4 * error
