"""Numbers of paths, samples or points may be floats with a whole value, such as 1e3; other values are refused."""

import numpy as np
import pytest

import stodyn as sd
from stodyn import analysis, circuits, hints
from stodyn import statistics as st
from stodyn.noise import coloured

DECAY = sd.SDE(lambda t, x: -x, lambda t, x: 0.5 * x, 1.0)
FALL = sd.SDE(lambda t, x: -x, lambda t, x: 0.5, 1.0)
DIVIDER = circuits.read("title\nV1 in 0 1\nR1 in out {gauss(1k,0.1)}\nC1 out 0 1n\n")
RUN = {"t": (0.0, 1.0), "seed": 1}


@pytest.mark.parametrize("value", [1, np.int32(7), 1e5, np.float32(4.0)])
def test_whole_numbers_are_counts(value):
    assert hints.whole("paths", value) == int(value) and isinstance(hints.whole("paths", value), int)


@pytest.mark.parametrize("value", [0, -3, 2.5, np.nan, np.inf, True, "8", None, np.array([1, 2])])
def test_other_values_are_refused_by_the_name_of_the_argument(value):
    with pytest.raises(ValueError, match="paths: expected a whole number >= 1, got"):
        hints.whole("paths", value)


@pytest.mark.parametrize(
    ("as_float", "as_int"),
    [
        (st.Paths(5.0), st.Paths(5)),
        (st.Spectrum(paths=1e3, segment=64), st.Spectrum(paths=1000, segment=64)),
        (st.Autocorrelation(paths=1e3, lags=20), st.Autocorrelation(paths=1000, lags=20)),
        (sd.until(relative=0.1, most=1e6), sd.until(relative=0.1, most=1_000_000)),
    ],
)
def test_records_hold_counts_as_integers(as_float, as_int):
    assert as_float == as_int and repr(as_float) == repr(as_int)


CALLS = {
    "compare": lambda n: sd.compare(DECAY, ["EulerMaruyama"], dt=[0.5, 0.25], paths=n, **RUN)["error"],
    "strong_order": lambda n: analysis.order.strong_order(DECAY, "EulerMaruyama", steps=(2, 4, 8), paths=n, **RUN)[
        "error"
    ],
    "long_run": lambda n: analysis.ergodic.long_run(DECAY, "Heun", lambda t, x: x[0], dt=0.1, paths=n, **RUN).mean,
    "sample": lambda n: coloured.gauss_markov(1.0, 1.0).sample(0.1, n, paths=n, seed=1),
    "sampled_values": lambda n: DIVIDER.sampled_values(n, 1)["gauss(r1.value)"],
    "sampled": lambda n: DIVIDER.sampled(n, 1).start.values,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_with_a_whole_float_and_with_the_integer_agree(name):
    np.testing.assert_array_equal(CALLS[name](64.0), CALLS[name](64))
    with pytest.raises(ValueError, match=r"expected .*2\.5"):
        CALLS[name](2.5)


def test_sobol_points_take_a_whole_float():
    options = {"dt": 0.5, "points": "sobol", "collect": st.Moments(), **RUN}
    as_float, as_int = (sd.simulate(FALL, "Heun", paths=paths, **options) for paths in (1024.0, 1024))
    np.testing.assert_array_equal(as_float["mean"], as_int["mean"])
