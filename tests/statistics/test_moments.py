"""Moments are NumPy's moments of all the paths at once, however the paths are cut into blocks."""

import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from stodyn import SDE, PerPath, interval, simulate
from stodyn import statistics as st
from stodyn.engine.program.sums import central_sums as printed_sums
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.models.kubo import kubo
from stodyn.statistics.intervals import limits
from stodyn.statistics.moments import WIDE, Sums, central_sums, covariance_errors, merge_sums, summarise
from stodyn.statistics.randomised import Randomised

RUN = dict(t=(0.0, 1.0), dt=0.05, seed=11)


def sums_of(x):
    """Central sums of x (times, n, paths), all sound, by NumPy."""
    mean = x.mean(axis=-1)
    d = x - mean[..., None]
    second = np.einsum("tip,tjp->tij", d, d)
    return Sums(np.full(len(x), float(x.shape[-1])), mean, second, (d**3).sum(axis=-1), (d**4).sum(axis=-1))


def unbiased_error_of_variance(x):
    """The root of the unbiased estimate of Var s² = κ₄/N + 2σ⁴/(N - 1) over the first axis, by SciPy's k-statistics."""
    N, s2 = len(x), x.var(axis=0, ddof=1)
    return np.sqrt((2 * s2**2 + (N - 1) / N * scipy.stats.kstat(x - x.mean(axis=0), 4, axis=0)) / (N + 1))


def test_run_gives_numpys_moments():
    """300 paths in blocks of 64, the last one partial: 44 paths and 20 lanes that are none."""
    run = simulate(kubo(), Heun, paths=300, block=64, collect=[st.Moments(every=5), st.Paths(300, every=5)], **RUN)
    x = run["path"].values  # (path, time, component)
    assert x.shape == (300, 5, 2)
    close = dict(rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(run["mean"], x.mean(axis=0), **close)
    np.testing.assert_allclose(run["variance"], x.var(axis=0, ddof=1), **close)
    np.testing.assert_allclose(run["mean_stderr"], x.std(axis=0, ddof=1) / np.sqrt(300), **close)
    for k in range(5):
        np.testing.assert_allclose(run["covariance"][k], np.cov(x[:, k].T), **close)
    np.testing.assert_allclose(run["variance_stderr"], unbiased_error_of_variance(x), **close)
    np.testing.assert_allclose(run["std"], x.std(axis=0, ddof=1), **close)
    np.testing.assert_array_equal(run["paths_used"], 300)
    assert run["covariance"].dims == ("time", "component", "other")
    assert run["mean"].sel(component="p").dims == ("time",)


def test_the_error_of_a_standard_deviation_heeds_heavy_tails():
    """Var s ≈ σ²/(2N) + κ₄/(4Nσ²) of 1000 Laplace numbers, σ² = 2 and κ₄ = 12: 2.5/N, 2.5 times the normal
    one; the scatter of 2000 of them knows their variance to 3 %."""
    x = np.random.default_rng(5).laplace(size=(2000, 1, 1000))
    s = summarise(sums_of(x))
    assert np.mean(s.std_stderr**2) == pytest.approx(s.std.var(), rel=0.18)
    assert np.mean(s.std_stderr**2) == pytest.approx(1.25 * 2.0 / 1000, rel=0.1)
    assert summarise(sums_of(np.ones((1, 1, 3)))).std_stderr == 0.0


def test_sums_are_float64_where_states_are_float32():
    """About 1e6 a float32 has steps of 1/16, and a mean rounded to it would be off by up to half of that."""
    problem = SDE(lambda t, x: 0.03 + 0.0 * x, lambda t, x: 1.0, 1e6)
    collect = [st.Moments(), st.Paths(300), st.Observable(lambda t, x: x, name="seen")]
    run = simulate(problem, EulerMaruyama, paths=300, block=64, dtype="float32", collect=collect, **RUN)
    x = run["path"].values[:, -1, 0]
    assert x.dtype == np.float32 and np.any(x % 1.0)
    for mean, variance in (("mean", "variance"), ("seen", "seen_variance")):
        assert run[mean].values.ravel()[-1] == pytest.approx(x.mean(dtype=float), rel=1e-14)
        assert run[variance].values.ravel()[-1] == pytest.approx(x.astype(float).var(ddof=1), rel=1e-9)


STARTS = np.random.default_rng(4).standard_normal((300, 2)) * [1.0, 1e-3] + [1e3, 0.0]


@pytest.mark.parametrize("block", [7, 64, 512])
def test_blocks_do_not_matter(block):
    """Without noise the paths are the same in every partition, and so must the moments be, to 1e-12."""
    still = SDE(lambda t, x: -0.1 * x, lambda t, x: jnp.zeros((2, 1)), PerPath(STARTS))
    run = simulate(still, EulerMaruyama, paths=300, block=block, collect=st.Moments(at=[1.0]), **RUN)
    x = STARTS * (1 - 0.005) ** 20
    np.testing.assert_allclose(run["mean"][0], x.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(run["covariance"][0], np.cov(x.T), rtol=1e-11)
    np.testing.assert_allclose(run["variance_stderr"][0], unbiased_error_of_variance(x), rtol=1e-10)


def test_merging_keeps_what_cancellation_would_lose():
    """Values around 1e8 with a spread of 1: 16 digits would leave none to sums of raw fourth powers."""
    rng = np.random.default_rng(1)
    x = 1e8 + rng.standard_normal((3, 2, 1000))
    whole = summarise(sums_of(x))
    for cuts in ([500], [1, 2, 3, 999], [37, 74, 500, 501]):
        merged, *rest = [sums_of(part) for part in np.split(x, cuts, axis=-1)]
        for part in rest:
            merged = merge_sums(merged, part)
        for one, other in zip(summarise(merged), whole, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)
    d = x - 1e8  # exact: both are multiples of 2^-26
    np.testing.assert_allclose(whole.variance, d.var(axis=-1, ddof=1), rtol=1e-7)
    np.testing.assert_allclose(whole.mean - 1e8, d.mean(axis=-1), atol=2e-7)


def pairs_of(x):
    """The same with the higher sums of pairs."""
    d = x - x.mean(axis=-1)[..., None]
    third, fourth = (np.einsum("tip,tjp->tij", d**2, d**k) for k in (1, 2))
    return sums_of(x)._replace(third=third, fourth=fourth)


def error_of_covariance(x):
    """The root of the unbiased estimate of Var c of x (N, n): c² less the mean of h h' over disjoint pairs of paths, of
    which each has an h = ½ (x - x')(y - y') with the mean Cov."""
    N, c = len(x), np.cov(x.T)
    first, second = np.triu_indices(N, 1)
    halves = 0.5 * np.einsum("ki,kj->kij", *[x[first] - x[second]] * 2)
    total, squares = halves.sum(axis=0), (halves**2).sum(axis=0)
    of_each = np.array([halves[(first == k) | (second == k)].sum(axis=0) for k in range(N)])
    disjoint = total**2 - (of_each**2).sum(axis=0) + squares  # of ordered pairs without a common path
    return np.sqrt(c**2 - disjoint / (N * (N - 1) * (N - 2) * (N - 3) / 4))


RUN_OF_PAIRS = dict(t=(0.0, 0.5), dt=0.05, seed=11, paths=100, block=64)


@pytest.mark.parametrize("way", [{"executor": "printed"}, {"executor": "vmap"}, {"device": jax.devices("cpu")}])
def test_a_covariance_that_is_asked_for_has_its_error(way):
    """By every executor, in blocks that are merged."""
    collect = [st.Moments(every=5, covariance=True), st.Paths(100, every=5)]
    run = simulate(kubo(), Heun, collect=collect, **RUN_OF_PAIRS, **way)
    x = run["path"].values
    for k in (1, 2):
        np.testing.assert_allclose(run["covariance_stderr"][k], error_of_covariance(x[:, k]), rtol=1e-9)
    diagonal = np.diagonal(run["covariance_stderr"], axis1=1, axis2=2)
    np.testing.assert_allclose(diagonal, run["variance_stderr"], rtol=1e-12, atol=1e-15)
    plain = simulate(kubo(), Heun, collect=st.Moments(every=5), **RUN_OF_PAIRS, **way)
    np.testing.assert_allclose(plain["variance_stderr"], run["variance_stderr"], rtol=1e-12, atol=1e-15)
    low, high = (interval(run, "covariance")[name].values for name in ("low", "high"))
    assert np.all((low <= run["covariance"]) & (run["covariance"] <= high))
    of_variance = interval(run, "variance")
    np.testing.assert_allclose(np.diagonal(low[1:], axis1=1, axis2=2), of_variance["low"][1:], rtol=1e-9)
    with pytest.raises(ValueError, match=r"'covariance' has no interval.*Moments\(covariance=True\) stores it"):
        interval(plain, "covariance")
    with pytest.raises(ValueError, match="Take the interval of the whole run"):
        interval(run.isel(component=[0]), "covariance")


def test_the_error_of_a_covariance_of_normal_numbers_is_the_exact_one():
    """Var c = (σ₁²σ₂² + c²)/(N - 1), and its estimate is unbiased; intervals cover: 4000 samples of 8 and of 60."""
    rng, root = np.random.default_rng(3), np.array([[2.0, 0.0], [0.9, 0.3]])
    true = root @ root.T
    for N in (8, 60):
        x = root @ rng.standard_normal((4000, 2, N))
        sums = pairs_of(x)
        c, error = summarise(sums).covariance, covariance_errors(sums)
        exact = (np.outer(np.diag(true), np.diag(true)) + true**2) / (N - 1)
        np.testing.assert_allclose(np.mean(error**2, axis=0), exact, rtol=0.12)
        low, high = limits(c, error, {"interval": "covariance", "paths": N})
        covered = np.mean((low <= true) & (true <= high), axis=0)
        assert np.all((covered > 0.93) & (covered < 0.985))


def test_pairs_merge_as_if_they_had_never_been_apart():
    """Values around 1e8 with a spread of 1, in blocks of 1 to 900 paths, and with nobody."""
    x = 1e8 + np.random.default_rng(1).standard_normal((2, 3, 1000))
    whole = covariance_errors(pairs_of(x))
    merged, *rest = [pairs_of(part) for part in np.split(x, [1, 2, 100], axis=-1)]
    for part in (*rest, Sums(*(np.zeros_like(part) for part in merged))):
        merged = merge_sums(merged, part)
    np.testing.assert_allclose(covariance_errors(merged), whole, rtol=1e-7)


def test_merging_with_nothing_changes_nothing():
    x = np.random.default_rng(2).standard_normal((2, 3, 20))
    some = sums_of(x)
    nobody = Sums(*(np.zeros_like(part) for part in some))
    for merged in (merge_sums(some, nobody), merge_sums(nobody, some)):
        for one, other in zip(merged, some, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)
    assert np.all(np.isnan(summarise(merge_sums(nobody, nobody)).mean))


def test_lanes_that_are_not_sound_leave_no_trace():
    x = jnp.array([[1.0, jnp.nan, 3.0, jnp.inf, 8.0]])
    found = central_sums(x, jnp.array([True, False, True, False, True]), jnp.ones(5))
    assert [float(np.squeeze(part)) for part in found] == [3.0, 4.0, 26.0, 36.0, 338.0]


def test_standard_error_of_the_variance_of_normal_numbers():
    """sqrt(2/(N-1)) σ² for normal x; the N quantiles of the normal law have its moments to 2 %."""
    N = 4001
    x = 3.0 * scipy.stats.norm.ppf((np.arange(N) + 0.5) / N)
    s = summarise(sums_of(x[None, None]))
    np.testing.assert_allclose(s.variance_stderr[0, 0], np.sqrt(2 / (N - 1)) * 9.0, rtol=0.02)
    np.testing.assert_allclose(s.mean_stderr[0, 0], 3.0 / np.sqrt(N), rtol=0.01)


def test_standard_errors_tell_the_scatter_of_the_estimates():
    """Skewed numbers (exponential): over 2000 samples of 200 the scatter of mean and variance is what one sample says.

    The scatter of 2000 estimates is known to 1/sqrt(4000) = 1.6 % (the variance's, heavy-tailed, to about 5 %), so
    bounds of 8 % and 25 % are beyond five standard errors.
    """
    s = summarise(sums_of(np.random.default_rng(3).exponential(size=(2000, 1, 200))))
    np.testing.assert_allclose(np.sqrt((s.mean_stderr**2).mean()), s.mean.std(), rtol=0.08)
    np.testing.assert_allclose(np.sqrt((s.variance_stderr**2).mean()), s.variance.std(), rtol=0.25)


@pytest.mark.parametrize("N", [2, 3, 8])
def test_the_error_of_a_variance_is_right_for_few_paths_too(N):
    """Var s² = 2/(N-1) for normal numbers, on average over 20 000 samples of N; five standard errors."""
    s = summarise(sums_of(np.random.default_rng(N).normal(size=(20_000, 1, N))))
    squares = s.variance_stderr[:, 0] ** 2
    assert abs(squares.mean() - 2 / (N - 1)) < 5 * squares.std() / np.sqrt(len(squares))


def test_equal_numbers_have_no_variance_and_are_their_mean():
    """However many there are, and in whichever way they are summed up."""
    start = np.array([0.1, 1e9 / 3.0])
    still = SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.zeros((2, 1)), start)
    run = simulate(still, "EulerMaruyama", t=(0.0, 1.0), dt=0.5, paths=1001, seed=1, block=400)
    assert np.all(run["mean"].values == start) and np.all(run["variance"].values == 0.0)
    sums = jax.jit(central_sums)(jnp.asarray(np.tile(start[:, None], 1001)), jnp.arange(1001) != 0, jnp.ones(1001))
    by_jax = jax.jit(central_sums)(jnp.asarray(np.tile(start[:, None], 1001)), jnp.ones(1001, bool), jnp.ones(1001))
    np.testing.assert_allclose(sums.mean, start, rtol=1e-15 * 100)  # about zero where the first lane is not sound
    assert np.all(np.asarray(by_jax.mean) == start) and not np.any(by_jax.second)


def test_one_path_has_a_mean_and_no_variance():
    run = simulate(kubo(), Heun, paths=1, collect=st.Moments(at=[1.0]), **RUN)
    assert np.all(np.isfinite(run["mean"]))
    for name in ("mean_stderr", "variance", "variance_stderr", "covariance"):
        assert np.all(np.isnan(run[name]))


def test_states_whose_fourth_powers_overflow():
    """1e90 is a number: its mean and variance are given, the error of the variance is not known, nothing is warned."""
    far = SDE(lambda t, x: 0.0 * x, lambda t, x: 0.0, PerPath([1e90, 2e90, 3e90, 4e90]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = simulate(far, EulerMaruyama, paths=4, block=2, collect=st.Moments(at=[1.0]), **RUN)
    np.testing.assert_allclose(run["mean"], 2.5e90, rtol=1e-14)
    np.testing.assert_allclose(run["variance"], 5 / 3 * 1e180, rtol=1e-14)
    assert not np.any(np.isfinite(run["variance_stderr"]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(every=0), "Moments: every counts steps and must be a whole number >= 1, got 0"),
        (dict(every=2.0), "Moments: every counts steps and must be a whole number >= 1, got 2.0"),
        (dict(every=True), "every counts steps and must be a whole number >= 1, got True"),
        (dict(every=2, at=[1.0]), "Moments: give either every= .* or at= .*, not both"),
        (dict(at=[0.1, np.nan]), r"Moments: at must be a list of finite times, got \[0.1, nan\]"),
        (dict(at=[[0.1, 0.2]]), "Moments: at must be a list of finite times"),
        (dict(at="end"), "Moments: at must be a list of finite times, got 'end'"),
    ],
)
def test_wrong_options_are_named_with_what_is_expected(options, words):
    with pytest.raises(ValueError, match=words):
        st.Moments(**options)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'evry'"):
        st.Moments(evry=2)


def test_wide_blocks_give_the_same_sums():
    """Blocks as wide as a GPU's are summed component by component."""
    rng = np.random.default_rng(2)
    x, sound = rng.normal(size=(3, WIDE)) + 1.0, rng.random(WIDE) < 0.9
    weight = np.where(sound, rng.random(WIDE), np.nan)
    wide = jax.jit(central_sums)(jnp.asarray(np.where(sound, x, np.nan)), jnp.asarray(sound), jnp.asarray(weight))
    w, kept = weight[sound], x[:, sound]
    mean = kept @ w / w.sum()
    d = kept - mean[:, None]
    expected = (w.sum(), mean, (w * d) @ d.T, d**3 @ w, d**4 @ w)
    for found, true in zip(wide, expected, strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("products", [True, False])
def test_sums_without_weights_are_those_with_weights_of_one(products):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 3, 200)) * rng.choice([1e-3, 1.0, 1e9], (4, 3, 1)) + 5.0
    x[1], x[2, 0] = 7.25, -0.0
    rows, look = np.array([0, 2]), np.array([0, 1, 2])
    weighted = printed_sums(x, rows, np.ones((4, 200)), look, products)
    for found, expected in zip(printed_sums(x, rows, None, look, products), weighted, strict=True):
        np.testing.assert_array_equal(found.view(np.uint64), expected.view(np.uint64))


def test_a_path_that_fails_in_another_component_is_left_out():
    """The sums of one component over paths of which some have failed in the other."""
    problem = SDE(lambda t, x: jnp.stack([-x[0], x[1] ** 3]), lambda t, x: jnp.eye(2), [1.0, 0.0])
    collect = st.Observable(lambda t, x: x[0], name="first", every=2)
    run = simulate(
        problem, EulerMaruyama, t=(0, 8), dt=0.25, paths=64, seed=1, on_failure="record",
        collect=[collect, st.Paths(64, every=2)],
    )  # fmt: skip
    paths = run["path"].values
    assert 0 < np.sum(~np.isfinite(paths[:, -1]).all(axis=1)) < 64
    sound = np.isfinite(paths).all(axis=2)
    expected = [np.mean(paths[sound[:, k], k, 0]) for k in range(paths.shape[1])]
    np.testing.assert_allclose(run["first"].values.ravel(), expected, rtol=1e-12)


@pytest.mark.parametrize("covariance", [True, False])
def test_sums_of_each_randomisation_are_those_of_its_sound_paths(covariance):
    """Path p belongs to randomisation p % 16; at the second time some paths have failed, of one randomisation all."""
    rng = np.random.default_rng(1)
    x, sound = rng.normal(3.0, 1.0, (2, 2, 64)), np.ones((2, 64), bool)
    sound[1, [3, 5, 21, 40]] = sound[1, 7::16] = False
    x[1][:, ~sound[1]] = np.nan
    for failed in (sound, np.ones_like(sound)):
        values = np.where(failed[:, None], np.nan_to_num(x), np.nan)
        sums = Randomised(st.Moments(covariance=covariance)).fold((values, failed), SimpleNamespace(paths=64))
        for r, t in np.ndindex(16, 2):
            own = values[t][:, r::16][:, failed[t, r::16]]
            d = own - (own.mean(axis=1, keepdims=True) if own.size else 0.0)
            k = 2 * r + t
            assert sums.weight[k] == own.shape[1]
            np.testing.assert_allclose(sums.mean[k], own.mean(axis=1) if own.size else 0.0, rtol=1e-12)
            second = d @ d.T if covariance else (d**2).sum(axis=1)
            higher = [(d**2) @ (d**k).T if covariance else (d ** (k + 2)).sum(axis=1) for k in (1, 2)]
            for found, expected in zip((sums.second[k], sums.third[k], sums.fourth[k]), (second, *higher), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
