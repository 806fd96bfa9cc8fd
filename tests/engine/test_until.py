"""Runs that choose the number of their paths: the rule on known laws, and the same end wherever blocks run."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import progress
from stodyn.engine.until import Quantity, Verdict, Watch, _of_counts, _of_sums
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.statistics.contract import Labels
from stodyn.statistics.moments import Sums
from stodyn.warnings import HeavyTailed, NotReached, OneValue

RUN = dict(t=(0.0, 1.0), dt=0.125, seed=1, block=1024)
END = dict(collect=st.Moments(at=1.0))


def sums(x: np.ndarray) -> Sums:
    d = x - x.mean()
    return Sums(np.full(1, float(x.size)), np.full((1, 1), x.mean()), np.full((1, 1, 1), (d**2).sum()),
                np.full((1, 1), (d**3).sum()), np.full((1, 1), (d**4).sum()))  # fmt: skip


def stopped(draw, tolerance: float) -> tuple[float, int]:
    """The mean and the number of draws at which blocks of 1024 draws end."""
    rule = sd.until(error={"value": tolerance})
    number = st.Observable(lambda t, x: x, name="value")
    watch = Watch(rule, [number], [Labels(np.ones(1), ("x",), {}, np.ones(1, int))])
    paths, goal, whole = 0, rule.first_look(1024), None
    while True:
        while paths < goal:
            part = sums(draw(1024))
            whole, paths = part if whole is None else number.merge(whole, part), paths + 1024
            watch.take([part])
        if watch.look([whole], paths).share <= 1:
            return float(whole.mean[0, 0]), paths
        goal = rule.next_look(paths, 1024, 0.0)


@pytest.mark.brief("rare event")
@pytest.mark.parametrize("law", ["exponential", "rare event"])
def test_runs_that_stop_at_an_error_cover_as_often_as_they_say(law):
    """N = 4096 draws would do, were the variance known; 200 runs, of which 95 % cover. Stopping at the first small
    standard error covers in 63 % for events of probability 1/1000. Fewer than 170: once in a million."""
    rng, p = np.random.default_rng(5), 0.001
    draw = rng.standard_exponential if law == "exponential" else lambda size: (rng.random(size) < p).astype(float)
    mean, deviation = (1.0, 1.0) if law == "exponential" else (p, np.sqrt(p * (1 - p)))
    tolerance = 1.96 * deviation / 64
    found = [stopped(draw, tolerance) for _ in range(200)]
    assert sum(abs(value - mean) <= tolerance for value, _ in found) >= 170
    assert np.mean([paths for _, paths in found]) < 2.0 * 4096


def test_blocks_that_differ_more_than_paths_do_widen_the_interval():
    """16 blocks of equal paths, whose means are 1, 4, ..., 256: the standard error is theirs, with 15 degrees of
    freedom."""
    number, means = st.Observable(lambda t, x: x, name="value"), np.arange(1.0, 17.0) ** 2
    watch = Watch(sd.until(error={"value": 1.0}), [number], [Labels(np.ones(1), ("x",), {}, np.ones(1, int))])
    parts = [sums(np.full(4, mean)) for mean in means]
    for part in parts:
        watch.take([part])
    verdict = watch.look([sums(np.repeat(means, 4))], 64)
    expected = scipy.stats.t.ppf(0.975, 15) * means.std(ddof=1) / 4.0
    np.testing.assert_allclose([verdict.half, verdict.share], expected, rtol=1e-12)


def test_the_first_look_takes_a_relative_tolerance_of_the_least_that_the_mean_may_be():
    """Of the mean less its half-width; later looks take the mean. A share above 1 is not reached."""
    number, x = st.Observable(lambda t, x: x, name="value"), np.arange(100.0)
    watch = Watch(sd.until(relative={"value": 0.1}), [number], [Labels(np.ones(1), ("x",), {}, np.ones(1, int))])
    half = scipy.stats.t.ppf(0.975, 99) * x.std(ddof=1) / 10.0
    for size in (49.5 - half, 49.5):
        verdict = watch.look([sums(x)], 100)
        np.testing.assert_allclose([verdict.half, verdict.tolerance], [half, 0.1 * size], rtol=1e-12)
    with pytest.warns(NotReached):
        assert 1 < verdict.share < 2 and not watch.report(verdict, "most")["reached"]


def test_bins_have_the_errors_of_shares_of_which_two_are_added_to_each_side():
    quantity = Quantity(("time", "component", "bin"), np.ones((1, 1, 2)), np.ones((1, 1, 2)))
    found = _of_counts(quantity, np.array([[[3, 3, 10]]]), np.array([16]), np.array([0.0, 0.5, 2.5]))
    p = np.array([2.0, 9.0]) / 20.0
    np.testing.assert_allclose(found.stderr[0, 0], np.sqrt(p * (1 - p) / 16) / [0.5, 2.0], rtol=1e-14)
    np.testing.assert_array_equal([found.ones[0, 0], found.paths[0, 0]], [[0, 7], [16, 16]])


def test_the_coverage_that_is_lost_to_an_uncertain_variance():
    """Against the mean of 2 Φ(q √(1 + e)) - 1 over normal errors e of the variance, of which it is the second order."""
    watch = Watch(sd.until(error=1.0, level=0.9), [], [])
    said = watch.report(Verdict(0.5, "mean", 0.5, 1.0, kurtosis=5.0, paths=4e4), "tolerance")
    assert said["variance_error"] == pytest.approx(0.01, rel=1e-14)
    e, weights = np.polynomial.hermite_e.hermegauss(20)
    covered = 2 * scipy.stats.norm.cdf(scipy.stats.norm.ppf(0.95) * np.sqrt(1 + 0.01 * e)) - 1
    assert said["coverage_lost"] == pytest.approx(0.9 - weights @ covered / weights.sum(), rel=1e-3)


def test_the_end_and_the_bits_are_the_same_everywhere(tmp_path):
    rule = sd.until(error={"mean": 0.01})
    runs = [sd.simulate(ornstein_uhlenbeck(), threads=n, paths=rule, **RUN, **END) for n in (1, 3)]
    first = sd.simulate(ornstein_uhlenbeck(), paths=sd.until(error={"mean": 0.02}), ledger=tmp_path, **RUN, **END)
    tightened = sd.simulate(ornstein_uhlenbeck(), paths=rule, ledger=tmp_path, **RUN, **END)
    paths = sd.provenance(runs[0])["paths"]
    assert sd.provenance(first)["paths"] < paths
    assert sd.provenance(tightened)["blocks_read"] == sd.provenance(first)["paths"] // 1024
    plain = sd.simulate(ornstein_uhlenbeck(), paths=paths, **RUN, **END)
    for run in (*runs, tightened, sd.load(tmp_path)):
        assert sd.provenance(run)["paths"] == paths
        for name in plain.data_vars:
            np.testing.assert_array_equal(run[name], plain[name])
    said = sd.provenance(tightened)["until"]
    assert said["reached"] and said["last"] == "mean of x at time 1" and said["half_width"] <= 0.01
    assert said["looks"][:2] == [4096, 6144] and 2 < said["kurtosis"] < 4


def test_the_bar_counts_path_steps(monkeypatch):
    """At first those of the 4096 paths of the first look; in the end all of them are done."""
    totals, done = [], []

    class Bar(progress.Progress):
        def __enter__(self):
            totals.append(self.total)
            return self

        def advance(self, path_steps):
            done.append(path_steps)

    monkeypatch.setattr("stodyn.engine.simulate.Progress", Bar)
    run = sd.simulate(ornstein_uhlenbeck(), paths=sd.until(error={"mean": 0.02}), **RUN, **END)
    assert totals == [4096 * 8] and sum(done) == 8 * sd.provenance(run)["paths"]


def test_what_cannot_be_reached_is_said():
    """E x = 0 has no relative accuracy; `most` paths end the run, and path-by-path values do."""
    rule = sd.until(relative={"mean": 0.01}, most=5000)
    with pytest.warns(NotReached, match="until: most = 5000 paths ended the run before the tolerance was met"):
        said = sd.provenance(sd.simulate(ornstein_uhlenbeck(start=0.0), paths=rule, **RUN, **END))["until"]
    assert not said["reached"] and said["ended_by"] == "most" and said["looks"] == [4096, 5000]
    few = ornstein_uhlenbeck(start=sd.PerPath(np.linspace(0.0, 1.0, 1500)))
    with pytest.warns(NotReached, match="and 1e-09 was asked for; about"):
        run = sd.simulate(few, paths=sd.until(error=1e-9), **RUN, **END)
    assert sd.provenance(run)["paths"] == 1500 and not sd.provenance(run)["until"]["reached"]


def test_no_event_is_not_a_standard_error_of_zero_and_heavy_tails_are_said():
    never = st.Observable(lambda t, x, p: x[0] > 30.0, name="never", at=1.0)
    with pytest.warns(OneValue, match="never had one value"):
        run = sd.simulate(ornstein_uhlenbeck(), collect=never, paths=sd.until(error={"never": 2e-4}), **RUN)
    assert sd.provenance(run)["paths"] == 19 * 1024  # q √2/n = 2e-4 at n = 13 859: looks at 13 and 19 blocks
    wild = st.Observable(lambda t, x, p: jnp.exp(6.0 * x[0]), name="wild", at=[0.0, 1.0])  # one value at the start
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        run = sd.simulate(ornstein_uhlenbeck(), collect=wild, paths=sd.until(relative={"wild": 3.0}), **RUN)
    assert any(issubclass(w.category, HeavyTailed) and "wild at time 1" in str(w.message) for w in heard)
    assert not any(issubclass(w.category, OneValue) for w in heard)
    assert "one_value" not in sd.provenance(run)["until"]


def test_only_the_named_times_count():
    looks = dict(collect=st.Moments(at=[0.125, 1.0]))
    early = sd.simulate(ornstein_uhlenbeck(start=0.0), paths=sd.until(error={"mean": 0.01}, at=0.125), **RUN, **looks)
    assert sd.provenance(early)["until"]["last"] == "mean of x at time 0.125"
    with pytest.raises(ValueError, match=r"at = 0\.5 is not a time"):
        sd.simulate(ornstein_uhlenbeck(), paths=sd.until(error=0.01, at=0.5), **RUN, **looks)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give error= or relative="),
        ({"error": 0.0}, "error must be a number > 0"),
        ({"error": {"mean": True}}, r"error\['mean'\] must be a number"),
        ({"error": {}}, "does not name a variable"),
        ({"relative": 0.1, "level": 1.0}, "level must be"),
        ({"relative": 0.1, "most": 0}, "most counts paths"),
        ({"relative": 0.1, "seconds": -1}, "seconds must be"),
    ],
)
def test_wrong_options_of_until_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        sd.until(**options)


def test_variables_that_are_not_there_are_named():
    with pytest.raises(ValueError, match="no variable 'energy' with a standard error; there are mean, variance"):
        sd.simulate(ornstein_uhlenbeck(), paths=sd.until(error={"energy": 1.0}), **RUN, **END)
    with pytest.raises(ValueError, match="paths: expected a whole number"):
        sd.prepare(ornstein_uhlenbeck(), t=(0, 1), dt=0.1, paths=sd.until(error=1.0))


def test_one_value_on_all_paths_is_said():
    """1e5·1(W > 4.26), whose mean is 1, is zero on all paths of a first look."""
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
    lottery = st.Observable(lambda t, x: 1e5 * (x[0] > 4.26489), name="prize", at=[1.0])
    with pytest.warns(OneValue, match="prize had one value on all 16384 paths"):
        run = sd.simulate(
            problem, "EulerMaruyama", t=(0, 1), dt=0.5, seed=0, paths=sd.until(error=0.1), collect=[lottery]
        )
    assert sd.provenance(run)["until"]["one_value"] == ["prize"]


def test_looks_come_later_and_later_but_not_after_the_time_allowed():
    rule = sd.until(error=1e-3, seconds=10.0, most=100_000)
    plain = sd.until(error=1e-3, most=100_000)
    first = plain.first_look(64)
    assert first % 64 == 0 and first == rule.first_look(64)
    later = plain.next_look(first, 64, 1.0)
    assert first < later <= 100_000 and later % 64 == 0
    assert rule.next_look(first, 64, 1.0) == min(later, 10 * first)
    assert rule.next_look(first, 64, 8.0) == first * 10 // 8 // 64 * 64
    assert rule.next_look(first, 64, 20.0) == first
    assert plain.next_look(99_990, 64, 1.0) == 100_000


def test_columns_of_zeros_and_ones_are_found_and_no_others():
    """From sums alone; those of zeros and ones have the error of a share, with two of each added."""
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 2, 400), rng.integers(0, 3, 400) / 2, 2 * rng.integers(0, 2, 400) - 1, rng.random(400),
               np.zeros(400), np.ones(400), np.full(400, 0.5), 3 + rng.integers(0, 2, 400)]  # fmt: skip
    x = np.array(columns, float)
    d = x - x.mean(axis=1, keepdims=True)
    sums = Sums(np.array([400.0]), x.mean(axis=1)[None], *((d**k).sum(axis=1)[None] for k in (2, 3, 4)))
    found = _of_sums(Quantity(("time", "x"), x.mean(axis=1)[None], np.full((1, 8), 0.7)), sums, slice(None))
    share = (x.sum(axis=1).clip(0, 400) + 2) / 404
    is_share = np.array([True, False, False, False, True, True, False, False])
    np.testing.assert_allclose(found.stderr[0], np.where(is_share, np.sqrt(share * (1 - share) / 400), 0.7))
    np.testing.assert_array_equal(found.ones[0], np.where(is_share, x.sum(axis=1), np.inf))
    np.testing.assert_array_equal(found.same[0], [False] * 4 + [True] * 3 + [False])
    np.testing.assert_allclose(found.kurtosis[0, :4], [scipy.stats.kurtosis(row, fisher=False) for row in x[:4]])
