"""Times: dt divides the interval, looks lie on the grid, and whatever does not is refused with the two nearest."""

import numpy as np
import pytest

from stodyn import provenance, simulate
from stodyn import statistics as st
from stodyn.engine.grid import save_steps, step_times
from stodyn.methods.explicit import EulerMaruyama
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck


@pytest.mark.parametrize("start", [0.0, 0.1, -3.7, 1e3])
@pytest.mark.parametrize("steps", [1, 3, 7, 10, 100, 1000])
def test_the_grid_ends_where_it_was_asked_to(start, steps):
    for span in (0.3, 0.9, 1.9, 2.0):
        end = start + span
        times, lengths = step_times((start, end), span / steps)
        assert (len(times), len(lengths)) == (steps + 1, steps)
        assert (times[0], times[-1]) == (start, end)
        np.testing.assert_allclose(np.diff(times), lengths, rtol=1e-13, atol=5 * np.spacing(abs(start) + span))
        again, same = step_times((float(times[0]), float(times[-1])), float(lengths[0]))
        np.testing.assert_array_equal(again, times)  # a replay walks the same grid to the last bit
        np.testing.assert_array_equal(same, lengths)


def test_times_are_the_decimals_one_would_type():
    times, _ = step_times((0, 1), 0.1)
    np.testing.assert_array_equal(times, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    times, _ = step_times((1e6, 1e6 + 1), 0.1)
    assert times[3] == 1000000.3
    times, _ = step_times((0, 1e-15), 1e-16)
    np.testing.assert_array_equal(times, [float(f"{k}e-16") for k in range(11)])
    times, _ = step_times((0, 5e-9), 1e-12)
    np.testing.assert_array_equal(times, [float(f"{k}e-12") for k in range(5001)])
    times, lengths = step_times((1e6, 1e6 + 1), 1 / 700)  # no decimals: nothing is moved
    np.testing.assert_allclose(np.diff(times), lengths, atol=5 * np.spacing(1e6))
    times, _ = step_times((0, 1 / 3), 1 / 30)
    assert times[-1] == 1 / 3


def test_dt_within_a_billionth():
    assert len(step_times((0, 1), 0.1 * (1 + 5e-10))[1]) == 10
    with pytest.raises(ValueError, match="does not divide"):
        step_times((0, 1), 0.1 * (1 + 5e-9))


def test_steps_of_given_lengths():
    times, lengths = step_times((1.0, 2.0), [0.5, 0.25, 0.25])
    np.testing.assert_array_equal(times, [1.0, 1.5, 1.75, 2.0])
    np.testing.assert_array_equal(lengths, [0.5, 0.25, 0.25])
    run = simulate(ornstein_uhlenbeck(), EulerMaruyama, t=(1.0, 2.0), dt=[0.5, 0.25, 0.25], paths=2, seed=1)
    np.testing.assert_array_equal(run["time"], times)
    assert provenance(run)["dt"] == [0.5, 0.25, 0.25]


REFUSED = {
    "zero": ((0, 1), 0.0, r"dt: expected a positive step length \(or a list of them\), got 0.0"),
    "negative": ((0, 1), -0.1, "dt: expected a positive step length .* got -0.1"),
    "NaN": ((0, 1), np.nan, "dt: expected a positive step length .* got nan"),
    "infinite": ((0, 1), np.inf, "dt: expected a positive step length .* got inf"),
    "word": ((0, 1), "small", "dt: expected a positive step length .* got 'small'"),
    "a number in quotes": ((0, 1), "0.25", "dt: expected a positive step length .* got '0.25'"),
    "true": ((0, 1), True, "dt: expected a positive step length .* got True"),
    "true among numbers": ((0, 2), [True, 1.0], "dt: expected a positive step length"),
    "very short": ((0, 1), 1e-300, r"dt: 1e-300 cuts the interval \(0, 1\) into 1e\+300 steps"),
    "shorter than there is memory for": ((0, 1), 1e-12, r"into 1e\+12 steps, but a run may have at most 1e\+08"),
    "nothing": ((0, 1), None, "dt: expected a positive step length .* got None"),
    "matrix": ((0, 1), [[0.5, 0.5]], "dt: expected a positive step length"),
    "one negative": ((0, 1), [1.5, -0.5], "dt: expected a positive step length"),
    "not dividing": (
        (0, 1),
        0.3,
        r"dt: 0.3 does not divide the interval \(0.0, 1.0\); the nearest that do are 0.25 \(4 steps\) and "
        r"0.333333333333 \(3 steps\)",
    ),
    "too long": ((0, 1), 1.7, r"the nearest that do are 0.5 \(2 steps\) and 1 \(1 step\)"),
    "wrong sum": ((0, 1), [0.5, 0.25], "dt: the steps add up to 0.75, but the interval is 1.0 long"),
    "no steps": ((0, 1), [], "dt: the steps add up to 0.0, but the interval is 1.0 long"),
    "t backwards": ((1, 0), 0.1, r"t: expected a finite interval \(start, end\) with start < end, got \(1, 0\)"),
    "t empty": ((1, 1), 0.1, "t: expected a finite interval"),
    "t infinite": ((0, np.inf), 0.1, "t: expected a finite interval"),
    "t a number": (1.0, 0.1, r"t: expected \(start, end\), such as t=\(0, 8\), got 1.0"),
    "t of three": ((0, 1, 2), 0.1, r"t: expected \(start, end\), such as t=\(0, 8\), got \(0, 1, 2\)"),
    "t in quotes": ("01", 0.1, r"t: expected \(start, end\), such as t=\(0, 8\), got '01'"),
    "t of truths": ((False, True), 0.1, r"t: expected \(start, end\)"),
    "t beyond the numbers": ((1e16, 1e16 + 2), 0.5, "t: between 1e.16 and 1e.16 .* 2 apart, too far for steps of 0.5"),
    "t of words": (("a", "b"), 0.1, r"t: expected \(start, end\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_intervals_and_steps_that_are_refused(name):
    t, dt, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        simulate(ornstein_uhlenbeck(), EulerMaruyama, t=t, dt=dt, paths=2, seed=1)


TIMES = np.linspace(0.0, 1.0, 11)


def test_every_counts_steps_and_ends_at_the_end():
    np.testing.assert_array_equal(save_steps(st.Moments(every=5), TIMES, None), [0, 5, 10])
    np.testing.assert_array_equal(save_steps(st.Moments(every=4), TIMES, None), [0, 4, 8, 10])
    np.testing.assert_array_equal(save_steps(st.Moments(every=10), TIMES, None), [0, 10])
    np.testing.assert_array_equal(save_steps(st.Moments(), TIMES, None), np.arange(11))
    assert len(save_steps(st.Moments(), np.linspace(0, 1, 100001), None)) == 101


def test_at_gives_times():
    np.testing.assert_array_equal(save_steps(st.Moments(at=[0.0, 0.3, 1.0 + 5e-10]), TIMES, None), [0, 3, 10])
    np.testing.assert_array_equal(save_steps(st.Moments(at=0.7), TIMES, None), [7])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(at=[0.25]), r"Moments: at=0.25 is not a time of the grid; the two nearest are 0.2 and 0.3\. Nothing is"),
        (dict(at=[0.3, 0.7001]), "at=0.7001 is not a time of the grid; the two nearest are 0.7 and 0.8"),
        (dict(at=[0.04]), "at=0.04 is not a time of the grid; the two nearest are 0 and 0.1"),
        (dict(at=[0.96]), "at=0.96 is not a time of the grid; the two nearest are 0.9 and 1"),
        (dict(at=[-0.1]), r"at=-0.1 is outside the run, which goes from 0 to 1\. Give times inside it"),
        (dict(at=[1.1]), "at=1.1 is outside the run, which goes from 0 to 1"),
        (dict(at=[]), "Moments: at= is empty"),
        (dict(at=[0.5, 0.2]), "Moments: at= must be increasing times"),
        (dict(at=[0.2, 0.2]), "Moments: at= must be increasing times"),
        (dict(every=11), "Moments: every=11 steps, but the run has only 10"),
    ],
)
def test_looks_that_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        simulate(ornstein_uhlenbeck(), EulerMaruyama, t=(0, 1), dt=0.1, paths=2, seed=1, collect=st.Moments(**options))
