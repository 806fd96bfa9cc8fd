"""Why a circuit has no stationary deviations, in the words of the reason that was met."""

from types import SimpleNamespace

from stodyn.analysis import transient_noise


def test_a_covariance_that_digits_do_not_determine_is_not_reported_as_a_loose_charge():
    def covariance():
        raise ValueError("A: the stationary covariance is not determined by numbers of 16 digits")

    circuit = SimpleNamespace(n=2, small_signal=SimpleNamespace(covariance=covariance))
    deviations, reason = transient_noise.stationary(circuit)
    assert deviations is None
    assert "not determined by numbers of 16 digits" in reason
    assert "charge" not in reason
