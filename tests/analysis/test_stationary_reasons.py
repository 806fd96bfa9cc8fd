"""Why a circuit has no stationary deviations, in the words of the reason that was met, and what a run says of them."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray

from stodyn.analysis import transient_noise
from stodyn.circuits import read

SLOWLY_GROWING = """a negative resistance of 1 Ω at 1 F, beside a rate of 1e12
C1 a 0 1
G1 0 a a 0 1
R2 a b 1
C2 b 0 1p
"""


def test_a_covariance_that_digits_do_not_determine_is_not_reported_as_a_loose_charge():
    def covariance():
        raise ValueError("A: the stationary covariance is not determined by numbers of 16 digits")

    circuit = SimpleNamespace(n=2, small_signal=SimpleNamespace(covariance=covariance))
    deviations, reason = transient_noise.stationary(circuit)
    assert deviations is None
    assert "not determined by numbers of 16 digits" in reason
    assert "charge" not in reason


def test_a_mode_that_grows_slowly_beside_fast_ones_is_no_loose_charge():
    """Its rate is 1e-12 of the fastest, and 2000 times what rounding makes of it."""
    assert transient_noise.stationary(read(SLOWLY_GROWING))[1].endswith(
        "the circuit is not stable at the operating point"
    )


def test_the_noise_of_a_run_is_that_at_its_end():
    """Mean and deviation at the last time, the largest deviation when it was, and 0 where only rounding is left."""
    circuit = read("title\nV1 in 0 1\nR1 in out 1k\nC1 out 0 1n\n.tran 1u 3u\n")
    names = list(circuit.names)
    mean, variance = np.zeros((3, len(names))), np.full((3, len(names)), 1e-30)
    mean[:, 1], variance[:, 1] = [0.2, 0.5, 0.9], [4e-12, 9e-12, 1e-12]
    by = ("time", "component")
    run = xarray.Dataset(
        {"mean": (by, mean), "variance": (by, variance), "mean_stderr": (by, 0.01 + 0.0 * mean),
         "variance_stderr": (by, 0.1 * variance)},
        coords={"time": [0.0, 1e-6, 3e-6], "component": names},
    )  # fmt: skip
    assert circuit.network.names[1] == names[1]
    (out,) = transient_noise.component_noise(circuit, run, None, [names[1]])
    assert (out.mean, out.deviation, out.largest, out.largest_time) == (0.9, 1e-6, 3e-6, 1e-6)
    assert (out.mean_stderr, out.deviation_stderr) == (0.01, pytest.approx(0.05e-6))
