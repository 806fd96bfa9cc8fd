"""The rules of estimates on made-up levels: no paths."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from stodyn.accuracy import report, rules
from stodyn.accuracy.levels import LevelEstimate
from stodyn.accuracy.rules import Level, Order

FREEDOM = 15.0


def known(mean, stderr=0.0, points=4096, variance=1.0, different=16, span=0.0):
    array = np.atleast_1d
    return LevelEstimate(
        points, array(float(mean)), array(stderr**2), FREEDOM, array(variance), array(3.0), array(span), different
    )


def ladder(truth, c, order, n=(4, 8, 16, 32), stderr=1e-9):
    """P_n = truth + c n^-order without an error."""
    P = [truth + c * m**-order for m in n]
    levels = [Level("base", 0, known(P[0], stderr), n[0])]
    return levels + [Level("difference", l, known(P[l] - P[l - 1], stderr), 3 * n[l] // 2) for l in range(1, len(n))]


def found(levels, claimed):
    order = Order(claimed, 2.0)
    b = rules.bias(levels[-1].known, levels[-2].known, order)
    counted = rules.weights(levels, 0, levels[-1].level, order, b.extrapolated)
    return rules.interval(levels, counted, b.bound, 0.95), b


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_the_extrapolated_value_is_exact_where_the_order_is(order):
    interval, b = found(ladder(3.0, 5.0, order), order)
    assert interval.value[0] == pytest.approx(3.0, abs=1e-7) and b.extrapolated.all()


@pytest.mark.parametrize(("claimed", "true"), [(2.0, 1.0), (1.0, 0.5), (2.0, 0.5)])
def test_orders_below_the_claim_are_covered(claimed, true):
    """Seen: nothing is extrapolated, and the bound is the rest of the geometric series of differences."""
    interval, b = found(ladder(3.0, 5.0, true), claimed)
    assert not b.extrapolated.any()
    assert abs(interval.value[0] - 3.0) <= 1.0001 * interval.half[0] < 3 * abs(interval.value[0] - 3.0)


def test_one_order_less_that_is_not_seen_is_covered_too():
    """D is then just the bias, whatever the noise hides."""
    interval, b = found(ladder(3.0, 5.0, 1.0, stderr=1.0), 2.0)
    assert b.extrapolated.all() and b.bound[0] == pytest.approx(abs(interval.value[0] - 3.0), rel=1e-6)


def test_the_bias_of_each_entry_is_its_own():
    low = Order(1.0, 1.0, is_low=True)
    entries = [(0.0032, 0.0050, 0.0070), (0.01, 0.02, 0.04), (-0.002, 0.001, 0.003), (0.3, 0.31, 0.32)]
    errors = 1e-4, 2e-3, 3e-3, 1e-5
    means = np.array(entries).T
    together = [known(0.0)._replace(mean=of_all, stderr2=np.array(errors) ** 2) for of_all in means]
    b = rules.bias_seen(together, low)
    for i, (of, error) in enumerate(zip(entries, errors, strict=True)):
        alone = rules.bias_seen([known(Y, error) for Y in of], low)
        np.testing.assert_allclose((b.bound[i], b.stderr[i]), (alone.bound[0], alone.stderr[0]), rtol=1e-12)


def test_what_plain_monte_carlo_would_cost():
    """Its bias at a level is that of all finer differences, c 2^-l in all: n V (q/(error - bias))² with the best n."""
    c, V, error = 0.08, 0.5, 0.03
    differences = {l: known(c * 0.5**l, variance=V) for l in (1, 2, 3)}
    ladder = SimpleNamespace(
        result=SimpleNamespace(interval=SimpleNamespace(value=np.zeros(1)), error=np.array([error])),
        runs={("difference", l): None for l in differences}, order=Order(1.0, 2.0), work=SimpleNamespace(level=0.95),
        known=lambda role, l: differences[l], fine=lambda l: differences[l], n=lambda l: 4 * 2**l,
    )  # fmt: skip
    q = scipy.stats.norm.ppf(0.975)
    left = {8 * 2**l: error - c * 0.5 ** (l + 1) for l in range(26)}
    costs = [(n * V * (q / rest) ** 2, n) for n, rest in left.items() if rest > 0.0]
    cost, steps = report.plain_cost(ladder, None)
    assert cost == pytest.approx(min(costs)[0], rel=1e-12) and steps == min(costs)[1]


def test_weights_of_plain_monte_carlo_and_of_levels():
    levels = ladder(3.0, 5.0, 2.0)
    yes = np.array([True])
    assert [float(w[0]) for w in rules.weights(levels, 0, 3, Order(2.0, 2.0), yes)] == pytest.approx([1, 1, 1, 4 / 3])
    assert [float(w[0]) for w in rules.weights(levels, 0, 3, Order(2.0, 2.0), ~yes)] == pytest.approx([1, 1, 1, 1])
    base = [levels[0]._replace(level=3), *levels[2:]]
    assert [float(w[0]) for w in rules.weights(base, 3, 3, Order(2.0, 2.0), yes)] == pytest.approx([1, 0, 1 / 3])


def test_differences_that_were_never_seen_are_not_zero():
    levels = [
        Level("base", 0, known(0.5, 0.01), 4),
        Level("difference", 1, known(0.01, 0.01), 12),
        Level("difference", 2, known(0.0, 0.0, variance=0.0, different=1), 24),
    ]
    safe = rules.guarded(levels, Order(1.0, 1.0), np.zeros(1))
    assert safe[2].known.stderr2[0] == pytest.approx(0.25 * 0.01**2 / 2)
    two = rules.guarded(levels[:1], Order(1.0, 1.0), np.ones(1))  # f has two values at the distance 1
    assert two[0].known.stderr2[0] == max(0.01**2, (16 / 4096) ** 2 / 64)


def test_the_cheapest_base_is_predicted_from_variances_and_costs():
    """A cheap base and differences whose variance falls by 4 make the coarsest base the best, at a cost of error^-2;
    differences that vary as f does make plain Monte Carlo the best."""
    order, n = Order(2.0, 2.0), 4
    singles = {l: (np.ones(1), n * 2**l) for l in range(3)}
    falling = {l: (np.full(1, 0.01 * 4.0**-l), 3 * n * 2 ** (l - 1)) for l in (1, 2)}
    costs = {}
    for error in (1e-3, 1e-4):
        found = rules.predicted(singles, falling, np.full(1, 1e-5), order, np.full(1, error), 0.95)
        best = min(found, key=lambda p: p.cost)
        assert best.base == 0
        costs[error] = best.cost
    assert costs[1e-4] / costs[1e-3] == pytest.approx(100, rel=0.3)
    wild = {l: (np.full(1, 2.0), 3 * n * 2 ** (l - 1)) for l in (1, 2)}
    found = rules.predicted(singles, wild, np.full(1, 1e-5), Order(2.0, 0.0), np.full(1, 1e-3), 0.95)
    assert min(found, key=lambda p: p.cost).base == 2


def test_what_plain_monte_carlo_takes():
    """Variance 1, bias 1/n: n (q/(ε - 1/n))² is least at n = 3/ε."""
    steps = {l: 2**l for l in range(12)}
    cost, n = rules.plain({l: np.ones(1) for l in steps}, {l: np.full(1, 1 / m) for l, m in steps.items()}, steps,
                          Order(1.0, 2.0), np.full(1, 3 / 256), 0.95)  # fmt: skip
    assert n == 256 and cost == pytest.approx(256 * (1.959964 / (2 / 256)) ** 2, rel=1e-6)


def test_extremes_whose_bias_bound_is_small_by_chance():
    """The levels of E max of a geometric Brownian motion (rate 0.1, volatility 0.4) at 4, 8 and 16 steps: P_16 is
    0.0057 short of the truth and E of the extrapolated value 0.0012, where D = 0.0011 in the mean. Of 4000 calls that
    end because their interval is narrow enough, 93 % cover and more; with D alone 77 % did."""
    rng, calls, stderr, error = np.random.default_rng(1), 4000, 4e-4, 3e-3
    short, Y, before = 0.0057, 0.0045, 0.0079

    def level(mean):
        noisy = mean + stderr * rng.standard_normal(calls)
        return LevelEstimate(4096, noisy, np.full(calls, stderr**2), FREEDOM, np.ones(calls), np.full(calls, 3.0),
                     np.zeros(calls), 16)  # fmt: skip

    order = Order(1.0, 2.0, has_roots=True)
    levels = [Level("base", 4, level(-short), 16), Level("difference", 3, level(before), 12)]
    levels.append(Level("difference", 4, level(Y), 24))
    b = rules.bias(levels[2].known, levels[1].known, order)
    interval = rules.interval(levels, rules.weights(levels, 4, 4, order, b.extrapolated), b.bound, 0.95)
    ends = interval.half <= error
    assert ends.sum() > 400
    assert np.mean(np.abs(interval.value) <= interval.half, where=ends) > 0.93


def test_an_interval_without_bias_is_wider_than_students():
    """Sampling ends where the standard error happens to be small: the part of the bias makes up for that, and where
    there is none 15 % more."""
    levels = ladder(3.0, 0.0, 1.0, stderr=0.01)
    interval, b = found(levels, 1.0)
    q = 2.1  # Student's quantile is more than that for 15 to 40 degrees of freedom, or less by 4 %
    assert b.bound[0] == 0.0 and interval.half[0] == pytest.approx(1.15 * q * interval.stderr[0], rel=0.04)


@pytest.mark.parametrize("above", [0, 1, 3])
def test_the_bias_of_plain_monte_carlo_is_covered_an_order_below_the_claim(above):
    """P_n = 3 + 5/n of an order claimed to be 2: the bound is the bias; of order 2 it is 3·2^k times the bias."""
    base = 1 + above
    for order, times in ((1.0, 1.0), (2.0, 3.0 * 2.0**above)):
        (_, one, *_), bias = ladder(3.0, 5.0, order), 5.0 * (4.0 * 2**base) ** -order
        bound = rules.bias_above({1: one.known}, 1, Order(2.0, 2.0), base).bound
        assert bound[0] == pytest.approx(times * bias, rel=1e-6)


def test_what_other_differences_show_beyond_doubt_counts_in_the_bias_of_plain_monte_carlo():
    seen = {1: known(0.0, 0.01), 2: known(0.5, 0.01)}
    assert rules.bias_above(seen, 1, Order(2.0, 2.0), 2).bound[0] == pytest.approx(0.48)


def test_plain_monte_carlo_is_taken_where_levels_do_not_pay():
    """Pairs that vary as f does: plain Monte Carlo is cheaper than levels, with a base above the bias it measures where
    pairs are dear; paths that are there cost nothing, and differences that grow leave no route."""
    order, error = Order(2.0, 2.0), np.full(1, 0.01)

    def cheapest(variance, paths, finer=0.0):
        seen = {1: (known(0.0, 0.05, 400, variance), 12), 2: (known(finer, 0.05, 400, variance), 24)}
        found = rules.plain_routes(np.ones(1), 4, seen, paths, order, error, 0.95)
        return min(found, key=lambda route: route.cost, default=None)

    near, far = cheapest(0.1, {}), cheapest(4.0, {})
    assert near.is_plain and (near.base, near.top) == (1, 1) and far.base > far.top == 1
    assert cheapest(0.1, {1: 10**9}).cost < near.cost
    assert cheapest(0.1, {}, finer=1.0) is None
    singles = {l: (np.ones(1), 4 * 2**l) for l in range(3)}
    levels = {l: (np.full(1, 4.0), 6 * 2**l) for l in (1, 2)}
    other = rules.predicted(singles, levels, np.zeros(1), order, error, 0.95, loses_paths=True)
    assert far.cost < min(route.cost for route in other)


ROUGH = Order(2.0, 2.0, is_rough=True)


@pytest.mark.parametrize("stderr", [1e-6, 1e-2])
def test_the_bias_of_rough_coefficients(stderr):
    """E exp(-100 r⁺) of a square-root diffusion that touches zero, with 16 to 128 steps of a method that claims order
    2, by quadrature: the differences fall by 0.7 and 0.5, and the bias at 128, 256, ... steps, which halves, is covered
    whether that is seen or hidden by noise."""
    finest = [known(Y, stderr) for Y in (0.00281, 0.00587, 0.0110)]
    for above in range(4):
        bound, bias = rules.bias_seen_above(finest, ROUGH, above).bound[0], 0.00207 * 0.5**above
        assert bias < bound and (stderr > 1e-3 or bound < 4 * bias * 1.5**above)
    b = rules.bias_seen(finest, ROUGH)
    assert b.bound[0] > 0.00207 - (0.00281 / 3 if b.extrapolated[0] else 0.0)


def test_a_difference_of_rough_coefficients_that_vanishes_by_accident():
    """Between 2, 4 and 8 steps the same differences change their sign: a small one says nothing of those after it."""
    finest = [known(Y, 1e-6) for Y in (1e-4, 0.0116, -0.0041)]
    assert rules.bias_seen_above(finest, ROUGH, 0).bound[0] > 0.004
    assert rules.bias_seen(finest, ROUGH).bound[0] > 0.004


def test_plain_routes_of_rough_coefficients_measure_their_bias_by_three_differences():
    seen = {l: (known(0.0, 0.05, 400, 4.0), 12 * 2 ** (l - 1)) for l in (1, 2)}
    routes = rules.plain_routes(np.ones(1), 4, seen, {}, ROUGH, np.full(1, 0.01), 0.95)
    assert routes and all(route.top >= 3 for route in routes)


def test_the_bias_of_differences_that_fall_as_the_root_of_the_step():
    """C (√½)^k with C = 0.0046 leaves 2.41 C = 0.011 above the finest, of which a third of it is extrapolated. By
    chance the finest may come out small: an estimate ends just then."""
    low = ROUGH._replace(is_low=True)
    for finest, stderr in (((0.0032, 0.0097, 0.0100), 0.0025), ((0.0046, 0.0065, 0.0092), 1e-6)):
        b = rules.bias_seen([known(Y, stderr) for Y in finest], low)
        extrapolated = finest[0] / 3 if b.extrapolated[0] else 0.0
        assert 0.0111 - extrapolated <= b.bound[0] * 1.002 < 0.05
    assert rules.bias_seen([known(Y, 0.0025) for Y in (0.0032, 0.0097, 0.0100)], ROUGH).bound[0] < 0.003
