"""Why a circuit has no stationary deviations, in the words of the reason that was met."""

from types import SimpleNamespace

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
