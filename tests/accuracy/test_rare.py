"""Rare events by splitting: against the reflection principle and quadratures, bit by bit, and what is said of doubt."""

import functools
import itertools
import warnings

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from scipy.integrate import quad_vec
from scipy.stats import multivariate_normal, norm

import stodyn as sd
from stodyn.accuracy import scores, ways
from stodyn.accuracy.rare_estimate import Effort, Question
from stodyn.accuracy.splits import splitting_run
from stodyn.accuracy.splitting import Outcome, Segments, Splitting, records, run_together
from stodyn.accuracy.subset import subset
from stodyn.engine.branches import NONE, Family
from stodyn.engine.program import printed

BROWNIAN = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
LEVEL, P = 3.2905267314919, 1e-3  # the level that W passes before 1 with this probability, 2 Φ(-level)
QUICK = dict(event=sd.Level(LEVEL), before=1.0, dt=0.1, seed=3, replicas=40, runs=8, threads=1)
pytestmark = pytest.mark.filterwarnings("ignore:rare:UserWarning")  # of few replicas, which tests take for speed


def rarely(problem=BROWNIAN, **options):
    return sd.rare(problem, "EulerMaruyama", **QUICK | options)


@pytest.fixture(scope="module")
def many():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rarely(runs=32)


def test_unbiased_with_few_replicas(many):
    """40 replicas and steps of a tenth: the bridge is exact, and so is the mean. |z| < 5: one in 10⁶."""
    assert abs(many["probability"] - P) < 5 * many["probability_stderr"]
    assert many["probability_low"] < many["probability"] < many["probability_high"]
    assert "index" in sd.provenance(many)["score"]


def test_a_level_on_either_side_is_reached_twice_as_often(many):
    """P(|W| reaches the level before 1) is twice that of one side but for paths that reach both, below 10⁻⁹."""
    found = rarely(runs=32, event=sd.Level((-LEVEL, LEVEL)))
    assert abs(found["probability"] - 2 * P) < 5 * found["probability_stderr"]
    assert "index" in sd.provenance(found)["score"]


def test_random_starts_are_averaged_over():
    """From a normal law of variance 1/4: P = ∫ 2 Φ(-(level - x)) φ(2 x) 2 dx, by quadrature. |z| < 5."""
    spread = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, norm(0.0, 0.5))
    found = rarely(spread, runs=32, event=sd.Level(4.0))
    x = np.linspace(-4.0, 4.0, 4001)
    exact = np.trapezoid(np.where(x < 4.0, 2 * norm.sf(4.0 - x), 1.0) * norm.pdf(x, 0, 0.5), x)
    assert abs(found["probability"] - exact) < 5 * found["probability_stderr"]


def test_ties_cost_no_bias():
    """Scores of about 13 different values, |z| < 5. Killing one path where several tie would halve the mean."""
    found = rarely(runs=32, score=lambda t, x: jnp.floor(4.0 * (x[0] - LEVEL) / jnp.sqrt(1.05 - t)))
    assert abs(found["probability"] - P) < 5 * found["probability_stderr"]
    assert sd.provenance(found)["score"] == "given"


def test_the_same_bits_with_any_threads_and_more_runs(many, tmp_path):
    few = rarely(threads=2, ledger=tmp_path)
    assert np.array_equal(few["estimate"].values, many["estimate"].values[:8])
    more = rarely(runs=12, ledger=tmp_path)
    assert np.array_equal(more["estimate"].values, many["estimate"].values[:12])
    first = few["event_path"].values[0], more["event_path"].values[0]
    assert np.array_equal(*(path[np.isfinite(path)] for path in first))


def test_every_run_counts_once_where_runs_are_added_to_a_block_that_is_not_whole():
    few, more = rarely(runs=6, tol=0.25), rarely(runs=12)
    assert np.array_equal(few["estimate"], more["estimate"][: few.sizes["run"]]) and few.sizes["run"] > 6


def some_runs():
    """Four runs of 40 replicas, as `rare` makes them."""
    question = Question(BROWNIAN, QUICK["event"], (), t0=0.0, end=1.0, dt=0.1)
    effort = Effort(replicas=40, runs=4, kill=0.25, seed=3, tol=None)

    def score(gauge):
        return scores.index(gauge, 0.1, 10, 0.0), "index"

    return splitting_run(question, sd.method("EulerMaruyama"), score, effort)


def test_a_path_with_the_event_is_made_again_bit_by_bit(many):
    """Its segments, each from the carry that was kept and with its own noise, join where the next one began."""
    problem, times = many["event_path"].values[:, :, 0], many["event_time"].values
    for path, time in zip(problem, times, strict=True):
        last = int(np.ceil(time / 0.1 - 1e-9))
        assert path[0] == 0.0 and path[last] == pytest.approx(LEVEL, abs=1e-12)
        assert np.all(np.isnan(path[last + 1 :])) and np.all(path[:last] < LEVEL)
    run = some_runs()
    (outcome, *_) = run.compute(0, lambda steps: None).folded[0]
    begins = {int(row[0]): row[1:] for row in outcome.begins}
    numbers = np.array(list(begins), np.uint64)
    made = {int(number): [begins[int(number)]] for number in numbers}
    for lanes, seen in run.executor.calls(3, np.array(list(begins.values())), numbers):
        for lane in lanes:
            made[int(numbers[lane])] += list(seen[:, :, lane].copy())
    joined = 0
    for path in range(len(outcome.ends)):
        parts = [(segment, first) for number, segment, first in outcome.lineage if number == path]
        for (segment, first), (following, at) in itertools.pairwise(parts):
            assert np.array_equal(made[segment][at - first], begins[following])
            joined += 1
        assert np.array_equal(made[parts[-1][0]][int(outcome.ends[path, -3]) - parts[-1][1]], outcome.ends[path])
    assert joined > 0


def test_from_one_well_into_the_other():
    """P(-0.9 reaches 1 before -1) = 0.0141008826906 for dx = (x - x³) dt + dW/2, by quadrature of exp(2V/σ²). The bias
    of Euler's steps of 0.02 with bridges is 2 %, a fifth of the bound."""
    well = sd.SDE(lambda t, x: x - x**3, lambda t, x: 0.5, -0.9)
    found = rarely(well, event=sd.Level(1.0), before=sd.Level(-1.0, direction="down"), dt=0.02, replicas=32)
    assert abs(found["probability"] - 0.0141008826906) < 5 * found["probability_stderr"]
    assert found["probability_stderr"] < 0.2 * found["probability"]
    assert "distance" in sd.provenance(found)["score"]


def test_runs_sent_elsewhere_are_the_same(many):
    """As workers in other processes receive them."""
    run = cloudpickle.loads(cloudpickle.dumps(some_runs()))
    (outcomes,) = run.compute(0, lambda steps: None).folded
    assert [one.probability for one in outcomes] == many["estimate"].values[:4].tolist()


def test_paths_branch_under_vmap_too_where_a_step_cannot_be_printed(tmp_path):
    """A drift that LAPACK solves has no printed step: its runs are those of the same drift written out, but for the
    order in which XLA adds."""

    def solved(t, x):
        return jnp.linalg.solve(jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([-2.0 * x[0], -x[0]]))

    few = dict(replicas=20, runs=4, event=sd.Level(1.5, of=lambda t, x: x[0]), score="distance")
    noise = jnp.array([[1.0], [0.0]])
    compiled = rarely(sd.SDE(solved, lambda t, x: noise, [0.0, 0.0]), ledger=tmp_path, **few)
    printed = rarely(sd.SDE(lambda t, x: jnp.array([-x[0], 0.0]), lambda t, x: noise, [0.0, 0.0]), **few)
    record = sd.provenance(compiled)
    assert record["executor"] == "vmap" and "lu" in record["executor_reason"]
    for name in ("estimate", "iterations", "path_steps"):
        assert np.array_equal(compiled[name], printed[name])
    np.testing.assert_allclose(compiled["event_path"], printed["event_path"], atol=1e-12)
    with pytest.raises(ValueError, match=r"executor.*not possible for this problem"):
        rarely(sd.SDE(solved, lambda t, x: noise, [0.0, 0.0]), executor="printed", **few)


@pytest.mark.parametrize("by", ["elementary", "subset"])
def test_other_ways_are_runs_of_the_engine_too(tmp_path, by):
    """With the same bits on threads, from a ledger, and with more runs."""
    options = dict(by=by, event=sd.Level(2.0), dt=0.5, replicas=50)
    method = None if by == "elementary" else "EulerMaruyama"
    few, more = (sd.rare(BROWNIAN, method, **QUICK | options | {"runs": runs, "ledger": tmp_path}) for runs in (4, 8))
    assert np.array_equal(more["estimate"][:4], few["estimate"]) and len(np.unique(more["estimate"])) > 4
    elsewhere = sd.rare(BROWNIAN, method, **QUICK | options | {"runs": 8, "threads": 2})
    assert np.array_equal(elsewhere["estimate"], more["estimate"])
    with pytest.raises(ValueError, match="holds another run"):
        sd.rare(BROWNIAN, method, **QUICK | options | {"event": sd.Level(2.5), "ledger": tmp_path})


def test_path_steps_are_those_that_paths_have_made(many, monkeypatch):
    """However the program is called: paths that have ended and wait for others make none."""
    monkeypatch.setattr(printed, "STOPPING", 64)
    again = rarely()
    assert np.array_equal(again["path_steps"], many["path_steps"][:8])
    assert np.array_equal(again["estimate"], many["estimate"][:8])


def test_a_run_that_starts_elsewhere_does_not_continue_a_ledger(tmp_path):
    """Neither its equations nor the options tell the two apart."""
    rarely(runs=4, ledger=tmp_path)
    with pytest.raises(ValueError, match=r"collect 0 statistic was .Splits\(.*rests_on="):
        rarely(BROWNIAN.changed(start=0.5), runs=4, ledger=tmp_path)


def chain(rng, carries, paths, best):
    """Segments of a chain that goes up by one with probability 1/2 or else ends, until it gets to 6: that is the event.
    A carry holds the height and the number of steps."""
    climbs = np.minimum(rng.geometric(0.5, len(carries)) - 1, 6 - carries[:, 0]).astype(int)
    has_event = carries[:, 0] + climbs == 6
    segment = np.repeat(np.arange(len(carries)), climbs - has_event)
    up = 1 + np.arange(len(segment)) - np.searchsorted(segment, segment)
    steps = carries[segment] + up[:, None]
    last = carries + np.stack([climbs, climbs + ~has_event], axis=1)
    return Segments(segment, steps[:, 0], steps, last, np.where(has_event, np.inf, np.where(climbs, last[:, 0], best)))


def test_the_number_of_families_is_that_of_equal_ones():
    """Of 8 survivors 4, 2, 1 and 1 come from one first path each: as many as 8²/(4² + 2² + 1 + 1) equal families."""
    splitting = Splitting([0], np.zeros((1, 8, 1)), 0.25, [np.random.default_rng(0)], 1, 1)
    splitting.ancestor = np.array([5, 5, 5, 5, 2, 2, 0, 1])
    splitting._report(0, 1.0, np.arange(8))
    assert splitting.reports[0][-1][4] == 64 / 22


def test_splitting_by_itself():
    """P(the chain gets to 6) = 2^-6, from 400 runs side by side."""
    rngs = [np.random.default_rng(r) for r in range(400)]
    runs = Splitting(range(400), np.zeros((400, 10, 2)), 0.25, rngs, 1, 1)
    steps = sum(run_together(runs, functools.partial(chain, np.random.default_rng(5))))
    estimates = [one.probability for one in runs.outcomes]
    assert abs(np.mean(estimates) - 2.0**-6) < 5 * np.std(estimates) / 20
    assert steps == sum(one.steps for one in runs.outcomes)
    for one in runs.outcomes:
        begins = dict(zip(one.begins[:, 0], one.begins[:, 1:], strict=True))
        for path in range(len(one.ends)):
            segments, first_steps = one.lineage[one.lineage[:, 0] == path, 1:].T
            assert segments[0] < 10 and np.all(np.diff(segments) > 0) and np.all(np.diff(first_steps) > 0)
            assert [begins[s][1] for s in segments] == first_steps.tolist() and one.ends[path, 0] == 6


def test_runs_side_by_side_are_those_by_themselves():
    """Neither the survivors that a run draws nor the numbers of its segments depend on the runs beside it."""

    def climb(carries, paths, best):
        """The same chain, with numbers that depend on the path alone."""
        parts = [chain(np.random.default_rng(int(p)), c[None], p, b[None])
                 for c, p, b in zip(carries, paths, best, strict=True)]  # fmt: skip
        segment = np.repeat(np.arange(len(parts)), [len(part.segment) for part in parts])
        return Segments(segment, *(np.concatenate(of_all) for of_all in list(zip(*parts, strict=True))[1:]))

    def outcomes(runs):
        splitting = Splitting(runs, np.zeros((len(runs), 8, 2)), 0.25, [np.random.default_rng(r) for r in runs], 1, 1)
        list(run_together(splitting, climb))
        return splitting.outcomes

    together = outcomes(range(3, 7))
    for run, one in zip(range(3, 7), together, strict=True):
        (alone,) = outcomes(range(run, run + 1))
        assert all(np.array_equal(a, b) for a, b in zip(one, alone, strict=True))


def test_segments_are_numbered_run_by_run_and_know_their_ancestors():
    family = Family(range(5, 7), 1)
    starts = family.begin(np.array([0, 0, 1, 1]), NONE, np.zeros((4, 1)))
    first = family.begin(np.array([0, 1, 1]), starts[[1, 2, 2]], np.ones((3, 1)))
    second = family.begin(np.array([0, 1]), first[[0, 2]], np.full((2, 1), 2.0))
    assert family.numbers(np.concatenate([starts, first, second])).tolist() == [0, 1, 0, 1, 2, 2, 3, 3, 4]
    assert family.paths(second).tolist() == [5 * 2**32 + 3, 6 * 2**32 + 4]
    which, segments = family.lineage(np.array([second[1], starts[0], first[0]]))
    assert which.tolist() == [0, 0, 0, 1, 2, 2]
    assert segments.tolist() == [starts[2], first[2], second[1], starts[0], starts[1], first[0]]


def test_records_are_scores_above_all_before_them():
    scores = np.array([[1.0, 0.0], [0.5, 3.0], [2.0, 3.0]])
    which, best = records(scores, np.array([0.9, 1.0]))
    assert which.tolist() == [[True, False], [False, True], [True, False]] and best.tolist() == [2.0, 3.0]


def test_runs_are_added_until_the_error_is_small():
    found = rarely(tol=0.15, runs=4)
    assert found["probability_stderr"] <= 0.15 * found["probability"] and found.sizes["run"] > 4


WRONG = {
    "no level": (dict(event=3.0), "event: expected stodyn.Level"),
    "no time": (dict(before="soon"), "before: expected a time"),
    "the past": (dict(before=-1.0), "before: expected a time after t0 = 0"),
    "one run": (dict(runs=1), "runs: expected a whole number >= 2"),
    "kill all": (dict(kill=1.0), "kill: expected a share"),
    "a score": (dict(score="luck"), "score: expected None"),
    "no index": (dict(score="index", event=sd.Level(9.0, of=lambda t, x: x[0] ** 2)), 'score: "index" does not apply'),
    "no oscillator": (dict(score="amplitude"), 'score: "amplitude" is for the position'),
    "reached": (dict(event=sd.Level(-1.0)), "^event: every path has reached it"),
    "tol": (dict(tol=2.0), "tol: expected a relative error"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named_with_what_is_expected(case):
    options, words = WRONG[case]
    with pytest.raises((ValueError, TypeError), match=words):
        rarely(**options)


def test_a_score_that_never_grows():
    with pytest.warns(UserWarning, match="all 4 runs died out.*The best score was 0"):
        found = rarely(runs=4, score=lambda t, x: 0.0 * x[0])
    assert found["probability"] == 0 and np.isnan(found["probability_high"])


def test_few_ancestors_are_told():
    """At 10⁻³ with 8 replicas nearly all paths come from one of the first ones: a way they did not take is lost."""
    with pytest.warns(UserWarning, match="may have been missed: all paths of a run come from .* of its 8 first ones"):
        rarely(replicas=8)


def test_runs_that_went_different_ways_are_told_apart():
    """Runs whose paths are at -1 or at 1, against runs in each of which both are found; variances within are 10⁻². The
    same states where they follow the level, as the watched component does, say nothing."""

    def outcome(mean, variance, level=1.0):
        one, state = np.ones(1), np.array([[0.0, mean]])
        spread = np.array([[1.0, variance]])
        return Outcome(
            1e-4, 1, one * level, one * 1e-2, state, spread, one * 10, state[:, None], 9, 1, 0.0, *(one,) * 3
        )

    rng = np.random.default_rng(1)
    apart = ways.apart([outcome((-1) ** k, 1e-2) for k in range(8)], 1e-4)
    mixed = ways.apart([outcome(0.3 * rng.standard_normal(), 1.0) for k in range(8)], 1e-4)
    assert apart[1] > 100 and mixed[1] < ways.DIFFERENT
    watched = ways.apart([outcome((-1) ** k, 1e-2, 3.0 + 2.0 * (-1) ** k) for k in range(8)], 1e-4)
    assert watched[1] < 1e-6


def three_holes(x):
    """Two deep holes at (±1, 0), a way between them along y = 0, and another through a shallow hole at (0, 5/3): P.
    Metzner, C. Schütte & E. Vanden-Eijnden, J. Chem. Phys. 125 (2006)."""

    def bump(height, a, b):
        return height * jnp.exp(-((x[0] - a) ** 2) - (x[1] - b) ** 2)

    bumps = bump(3, 0, 1 / 3) - bump(3, 0, 5 / 3) - bump(5, 1, 0) - bump(5, -1, 0)
    return bumps + 0.2 * x[0] ** 4 + 0.2 * (x[1] - 1 / 3) ** 4


def test_a_way_that_most_runs_miss_is_told():
    """From one deep hole to the other before falling back, at β = 4, where about 65 % of the runs have no path on the
    upper way."""
    holes = sd.SDE(lambda t, x: -jax.grad(three_holes)(x), lambda t, x: np.sqrt(0.5) * jnp.eye(2), [-0.9, 0.0])
    options = dict(event=sd.Level(1.0), before=sd.Level(-1.0, direction="down"), dt=0.01, seed=4, progress=False)
    words = r"paths go two ways, with x1 near 1\.\d and near -0\.\d+, but \d+ of 16 runs have none on the first"
    with pytest.warns(UserWarning, match=words):
        sd.rare(holes, "EulerMaruyama", **options)


def test_one_way_and_ways_that_all_runs_have_found_are_not_told():
    """Normal and uniform states are one way; two groups are told where half of the runs have one only."""
    rng = np.random.default_rng(1)
    one = np.ones(1)

    def outcome(x):
        seen = np.stack([np.zeros_like(x), x], axis=-1)[None]
        return Outcome(1e-4, 1, one, one * 1e-2, seen[0], seen[0], one, seen, 9, 1, 0.0, *(one,) * 3)

    def told(draw):
        return ways.rarely_found([outcome(draw(k)) for k in range(8)], 1e-4, (0,))

    both = np.repeat([0.0, 9.0], [24, 8])
    assert told(lambda k: rng.standard_normal(32)) is None
    assert told(lambda k: rng.random(32)) is None
    assert told(lambda k: both + rng.standard_normal(32)) is None
    way = told(lambda k: (k % 2) * both + rng.standard_normal(32))
    assert (way.component, way.missing, way.share) == (1, 4, 0.125)
    assert abs(way.here - 9.0) < 1.0 and abs(way.others) < 0.5


OSCILLATOR = sd.linear([[0.0, 1.0], [-1.0, -0.1]], [[0.0], [np.sqrt(0.2)]])


def test_first_excursions_of_an_oscillator_by_elementary_events():
    """ω = 1, ζ = 0.05, unit stationary variance, from rest, T = 20 at steps of 0.1: 8.410(42)e-3 beyond 3 on both
    sides, 6.451(31)e-5 beyond 4 on one, computed by another program. |z| < 5 with both errors: one in 10⁶."""
    for event, exact, error in ((sd.Level((-3.0, 3.0)), 8.410e-3, 4.2e-5), (sd.Level(4.0), 6.451e-5, 3.1e-7)):
        found = sd.rare(OSCILLATOR, event=event, before=20.0, dt=0.1, seed=1, by="elementary", replicas=100)
        assert abs(found["probability"] - exact) < 5 * np.hypot(found["probability_stderr"], error)
        assert found["probability_stderr"] < 0.05 * found["probability"]


def test_the_index_of_many_steps():
    """The same at 400 steps by splitting with the index, whose table of times left is coarser than the steps. With few
    replicas, against 5.118(29)e-3 beyond 3. |z| < 5."""
    found = sd.rare(OSCILLATOR, "SRA1", event=sd.Level(3.0), before=20.0, dt=0.05, seed=1, replicas=32, runs=8)
    assert abs(found["probability"] - 5.118e-3) < 5 * np.hypot(found["probability_stderr"], 3e-5)
    assert found["probability_stderr"] < 0.4 * found["probability"]


def test_elementary_events_at_two_times():
    """P(W(1/2) or W(1) is beyond 3) from the bivariate normal law. |z| < 5: one in 10⁶."""
    found = sd.rare(BROWNIAN, event=sd.Level(3.0), before=1.0, dt=0.5, seed=1, by="elementary", replicas=100)
    exact = 1.0 - multivariate_normal(cov=[[0.5, 0.5], [0.5, 1.0]]).cdf([3.0, 3.0])
    assert abs(found["probability"] - exact) < 5 * found["probability_stderr"]


def test_elementary_events_of_a_coloured_load():
    """v' = F - v under a Gauss-Markov force of variance 1 and rate 2, from rest, and x' = √2 w - x from its stationary
    law: P(beyond 3 deviations at one of the times) from their normal laws. |z| < 5: one in 10⁶."""
    A, S = np.array([[-1.0, 1.0], [0.0, -2.0]]), np.diag([0.0, 4.0])
    at = lambda t: scipy.linalg.expm(A * t)  # noqa: E731
    P = [at(t) @ np.diag([0.0, 1.0]) @ at(t).T + quad_vec(lambda s: at(s) @ S @ at(s).T, 0, t)[0] for t in (0.5, 1.0)]
    force = sd.noise.coloured.gauss_markov(1.0, 0.5)
    problem = sd.with_noise(sd.SDE(lambda t, v: -v, lambda t, v: 0.0, 0.0), force, [[1.0]])
    across = (at(0.5) @ P[0])[0, 0]
    level = 3.0 * np.sqrt(P[1][0, 0])
    driven = np.array([[P[0][0, 0], across], [across, P[1][0, 0]]])
    stationary = np.exp(-0.5 * np.abs(np.subtract.outer(range(3), range(3))))
    relaxing = sd.SDE(lambda t, x: -x, lambda t, x: np.sqrt(2.0), scipy.stats.norm())
    for one, bound, covariance in zip((problem, relaxing), (level, 3.0), (driven, stationary), strict=True):
        found = sd.rare(one, event=sd.Level(bound), before=1.0, dt=0.5, seed=1, by="elementary", replicas=400)
        exact = 1.0 - multivariate_normal(cov=covariance).cdf([bound] * len(covariance))
        assert abs(found["probability"] - exact) < 5 * found["probability_stderr"] < 0.1 * exact


@pytest.mark.parametrize(("options", "words"), [
    (dict(by="luck"), 'by: expected "splitting"'),
    (dict(by="elementary", event=sd.Level(9.0, of=lambda t, x: x[0] ** 2)), "but .* is not a linear function of the s"),
    (dict(by="elementary", event=sd.Level(lambda t: 3.0 + t)), "but the level moves in time"),
    (dict(by="elementary", before=sd.Level(-1.0, direction="down")), "before: by=.elementary. takes a time"),
])  # fmt: skip
def test_what_elementary_events_do_not_serve(options, words):
    with pytest.raises(ValueError, match=words):
        sd.rare(BROWNIAN, **{**QUICK, "threads": None} | options)


def test_subset_simulation_with_a_random_parameter():
    """x(1) = a + W/10 for a rate a with the normal law: P(x is beyond 3.3 before 1) = Φ(-3.3/√1.01) but for paths that
    come back, less than 2 %. Biased by O(1/replicas): 10 % more are let through. |z| < 5: one in 10⁶."""
    problem = sd.SDE(lambda t, x, p: p["a"] + 0.0 * x, lambda t, x, p: 0.1, 0.0, params={"a": norm(0.0, 1.0)})
    found = sd.rare(problem, "EulerMaruyama", event=sd.Level(3.3), before=1.0, dt=0.25, seed=1, by="subset",
                    replicas=200, runs=8)  # fmt: skip
    exact = norm.sf(3.3 / np.sqrt(1.01))
    assert abs(found["probability"] - exact) < 5 * found["probability_stderr"] + 0.1 * exact
    split = sd.rare(problem, "EulerMaruyama", event=sd.Level(3.3), before=1.0, dt=0.25, seed=1, replicas=200, runs=16)
    assert abs(split["probability"] - exact) < 5 * split["probability_stderr"] + 0.02 * exact


def test_subset_simulation_in_the_space_of_normals():
    """A half-space: P(u_1 > 3.5), of 4 normals, from 40 runs of 200 paths. Bias below 10 %; |z| < 5."""

    def score(u):
        return np.where(u[0] > 3.5, np.inf, u[0])

    found = [subset(score, 4, 200, np.random.default_rng(k)).probability for k in range(40)]
    assert abs(np.mean(found) - norm.sf(3.5)) < 5 * np.std(found) / np.sqrt(40) + 0.1 * norm.sf(3.5)
    assert subset(lambda u: 0.0 * u[0], 2, 50, np.random.default_rng(0)).probability == 0


def test_derivatives_by_level_drift_and_intensity():
    """Of one normal number, a + s W(1), in closed form; by s differences are off by .7 % of themselves."""
    problem = sd.SDE(lambda t, x, p: p["a"], lambda t, x, p: p["s"], 0.0, {"a": -0.5, "s": 1.0})
    options = {"event": sd.Level(4.0), "before": 1.0, "dt": 1.0, "seed": 2, "runs": 4, "by": "elementary"}
    result = sd.rare(problem, of=("level", "a", "s"), **options)
    hazard = norm.pdf(4.5) / norm.sf(4.5)
    assert result["parameter"].values.tolist() == ["level", "a", "s"]
    np.testing.assert_allclose(result["log_gradient"], hazard * np.array([-1.0, 1.0, 4.5]), rtol=0.012)
    np.testing.assert_allclose(result["gradient"], result["probability"] * result["log_gradient"])


def test_derivatives_by_splitting():
    """P(max W > level) = 2 Φ(-level): the derivative of its logarithm is minus the hazard of a normal number."""
    result = rarely(of="level")
    off = result["log_gradient"] + norm.pdf(LEVEL) / norm.sf(LEVEL)
    assert np.all(np.abs(off) < 5.2 * result["log_gradient_stderr"])


@pytest.mark.filterwarnings("ignore::stodyn.warnings.NotIdentified")  # two points have no median
def test_of_a_linear_problem_from_rest_intensity_and_level_are_one():
    """p depends on level/intensity alone: level dp/dlevel = -intensity dp/dintensity, run by run."""
    problem = sd.SDE(lambda t, x: -x, lambda t, x, p: p["s"], 0.0, {"s": 0.7})
    options = {"event": sd.Level(3.0), "before": 1.0, "dt": 0.1, "seed": 1, "by": "elementary", "runs": 8}
    curve = sd.fragility(problem, over={"s": [0.7, 0.9]}, of=("level", "s"), **options)
    level, intensity = curve["log_gradient"].values.T * np.array([[3.0], [1.0]])
    np.testing.assert_allclose(level, -intensity * [0.7, 0.9], rtol=0.02)
    assert curve["gradient"].dims == ("s", "parameter")


@pytest.mark.parametrize(
    "event, of, words",
    [(sd.Level((-3.0, 3.0)), "level", "has no one level"), (sd.Level(3.0), "sigma", "not among the problem's params")],
)
def test_derivatives_by_what_is_not_a_number_are_refused(event, of, words):
    problem = sd.SDE(lambda t, x: -x, lambda t, x, p: p["s"], 0.0, {"s": 0.7})
    with pytest.raises(ValueError, match=words):
        sd.rare(problem, event=event, before=1.0, dt=0.1, seed=1, by="elementary", runs=2, of=of)
