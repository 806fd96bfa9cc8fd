"""Steps planned from the equations of mean and covariance, and what they save."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import stodyn as sd
from stodyn.analysis import covariance
from stodyn.analysis.linear import step_map
from stodyn.analysis.plan import _Followed
from stodyn.methods import classical as c
from stodyn.methods.multistep import AB4
from stodyn.models.jointed import JOINTED_PENDULUM
from stodyn.noise import coloured
from stodyn.numerics import dormand_prince
from stodyn.problems.linear import linear

pytestmark = pytest.mark.usefixtures("quick_compiling")

# Riggs' kind of system: slow, fast around t = 1, slow again.
PULSE = linear(lambda t: -2.0 - 48.0 * jnp.exp(-(((t - 1.0) / 0.05) ** 2)), 1.0)
FRESH = c.RK4(noise="fresh")
GUSTY = sd.with_noise(sd.Mechanical(lambda t, x, v: -x, None, (0.0, 0.0)), coloured.gauss_markov(1.0, 1.0), "x")


def covariances(problem, *plans):
    """The exact covariances at the ends of the steps of each plan: followed once for all of them."""
    times = [np.cumsum(lengths) for lengths in plans]
    whole = np.unique(np.concatenate(times))
    exact = covariance.exact(problem, whole).covariance
    return [exact[np.searchsorted(whole, some)] for some in times]


def worst(method, lengths, exact):
    return np.abs(covariance.delivered(PULSE, method, lengths).covariance[1:] / exact - 1).max()


@pytest.mark.brief("0.01-fresh")  # held noise: in the tests of a narrow pulse and of runs
@pytest.mark.parametrize("method", [FRESH, c.RK4], ids=["fresh", "held"])
@pytest.mark.parametrize("tol", [1e-2, 1e-3])
def test_plan_around_a_pulse(method, tol):
    """The whole run is right to tol, and not by too many steps; as many equal ones are off by ten times as much."""
    lengths = sd.plan(PULSE, method, tol)((0.0, 2.0))
    assert lengths.sum() == pytest.approx(2.0, abs=1e-12)
    equal = np.full(len(lengths), 2.0 / len(lengths))
    planned, spaced = covariances(PULSE, lengths, equal)
    assert 0.3 * tol < worst(method, lengths, planned) <= tol
    assert worst(method, equal, spaced) > 10 * tol


SCALES = linear(np.diag([-1.0, -40.0]), np.diag([1.0, 1e-3]))


def test_every_component_is_judged_relative_to_itself():
    """A fast component of small variance: RK4 is unstable on it with the steps that the other one needs."""
    lengths = sd.plan(SCALES, c.RK4, 1e-2)((0.0, 1.0))
    exact = covariance.exact(SCALES, np.cumsum(lengths)).covariance
    found = covariance.delivered(SCALES, c.RK4, lengths).covariance[1:]
    found, exact = (np.diagonal(P, axis1=1, axis2=2)[np.cumsum(lengths) > 0.1] for P in (found, exact))
    ratio = found / exact
    assert np.abs(ratio - 1.0).max() <= 1e-2


def test_the_acceleration_that_alpha_remembers_is_planned_with():
    """A spring that stiffens around t = 1; as many equal steps are off by ten times as much."""
    spring = sd.Mechanical(
        lambda t, x, v: -(4.0 + 900.0 * jnp.exp(-(((t - 1.0) / 0.05) ** 2))) * x - 0.6 * v,
        lambda t, x, v: 1.0,
        (1.0, 0.0),
    )
    lengths = sd.plan(spring, "StochasticAlpha", 2e-2)((0.0, 1.5))

    def worst(lengths, exact):
        found = covariance.delivered(spring, "StochasticAlpha", lengths).covariance[1:]
        found, exact = (np.diagonal(P, axis1=1, axis2=2)[np.cumsum(lengths) > 0.5] for P in (found, exact))
        return np.abs(found / exact - 1.0).max()

    equal = np.full(len(lengths), 1.5 / len(lengths))
    planned, spaced = covariances(spring.lower(sd.SDE)[0], lengths, equal)
    assert 2e-3 < worst(lengths, planned) <= 2e-2
    assert worst(equal, spaced) > 0.1


def test_units_do_not_matter():
    """x in millimetres and y in kilometres: the same steps."""
    units = np.array([1e3, 1e-3])
    oscillator = np.array([[0.0, 1.0], [-9.0, -0.6]])
    plain = linear(oscillator, [[0.0], [1.0]], mean=[1.0, 0.0])
    other = linear(units[:, None] * oscillator / units, units[:, None] * [[0.0], [1.0]], mean=units * [1.0, 0.0])
    np.testing.assert_allclose(*(sd.plan(p, c.RK4, 1e-2)((0.0, 1.0)) for p in (plain, other)), rtol=1e-4)


def test_a_pulse_too_narrow_for_a_first_look_is_not_stepped_over():
    narrow = linear(lambda t: -1.0 - 500.0 * jnp.exp(-(((t - 1.0) / 0.01) ** 2)), 1.0)
    lengths = sd.plan(narrow, c.RK4, 1e-3)((0.0, 2.0))
    times = np.concatenate([[0.0], np.cumsum(lengths)])
    assert np.count_nonzero((times > 0.98) & (times < 1.02)) > 10
    P = covariance.exact(narrow, times[1:]).covariance[:, 0, 0]
    assert np.abs(covariance.delivered(narrow, c.RK4, lengths).covariance[1:, 0, 0] / P - 1).max() <= 1e-3


def test_runs_take_a_plan_for_their_steps():
    plan = sd.plan(PULSE, c.RK4, 1e-3, at=[1.0])
    run = sd.simulate(PULSE, c.RK4, t=(0.0, 2.0), dt=plan, paths=40_000, seed=9,
                      collect=sd.statistics.Moments(at=[1.0, 2.0]))  # fmt: skip
    lengths = plan((0.0, 2.0))
    assert sd.provenance(run)["dt"] == lengths.tolist()
    P = covariance.delivered(PULSE, c.RK4, lengths).covariance[:, 0, 0]
    at_one = np.argmin(abs(np.cumsum(lengths) - 1.0)) + 1
    stderr = run["variance_stderr"].values[:, 0]
    # Four standard errors at two times: a false alarm in one of eight thousand.
    assert (abs(run["variance"].values[:, 0] - P[[at_one, -1]]) <= 4 * stderr).all()
    again = sd.replay(PULSE, c.RK4, run, 3)
    assert len(again["time"]) == len(lengths) + 1


def test_nonlinear_problems_are_linearised_along_the_mean():
    """A stiff limiter: the mean starts high up, where steps must be short, and comes down."""
    problem = sd.SDE(lambda t, x: -x - 20.0 * x**3, lambda t, x: 0.1 + 0.0 * x, 3.0)
    lengths = sd.plan(problem, "Heun", 1e-3)((0.0, 2.0))
    assert lengths[:5].max() < 0.1 * lengths[-5:].max()
    run = sd.simulate(problem, "Heun", t=(0, 2), dt=lengths, paths=4000, seed=1)
    assert np.isfinite(run["variance"].values).all()


def test_noise_that_depends_on_the_state_is_planned_alike_in_both_calculi():
    """dx = -x dt + x/2 dW, Ito, with an Ito and with a Stratonovich method: the mean they step is the same one."""
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.5 * x, 1.0)
    planned = sd.plan(problem, "RK4", 1e-3)((0.0, 1.0))
    assert len(planned) < 60 and len(sd.plan(problem, "Milstein", 1e-2)((0.0, 1.0))) < 300  # its drift is Euler's
    # The variance that RK4 then delivers follows the planned steps one by one.
    m, P = np.array([1.0]), np.zeros((1, 1))
    for h in planned:
        m, P = step_map(problem, c.RK4, h, nodes=6).advance(m, P)
    assert float(P[0, 0]) == pytest.approx(np.exp(-2) * np.expm1(0.25), rel=2e-3)


def test_measurements_do_not_change_a_plan():
    measured = sd.with_measurement(PULSE, [[1.0]], 0.1)
    assert np.array_equal(sd.plan(measured, c.RK4, 1e-2)((0.0, 2.0)), sd.plan(PULSE, c.RK4, 1e-2)((0.0, 2.0)))


def test_starts_of_every_kind():
    for start in (scipy.stats.norm(1.0, 0.2), lambda rng, size: rng.normal(1.0, 0.2, size)):
        problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.1 + 0.0 * x, start)
        assert sd.plan(problem, "RK4", 1e-2)((0, 1)).sum() == pytest.approx(1.0)


@pytest.mark.brief("explosion", "saddle")
@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (sd.SDE(lambda t, x: 1.5 * x, lambda t, x: 0.1 + 0.0 * x, 1.0), "the mean is unstable, .* grown by the factor"),
        (sd.SDE(lambda t, x: x**3, lambda t, x: 0.1 + 0.0 * x, 1.0), "unstable|leaves the finite numbers"),
        (linear([[0.0, 1.0], [3.0, -0.1]], [[0.0], [1.0]]), "the mean is unstable"),
    ],
    ids=["growth", "explosion", "saddle"],
)
def test_unstable_means_are_refused(problem, message):
    with pytest.raises(ValueError, match=f"plan: .*({message})"):
        sd.plan(problem, c.RK4, 1e-3)((0.0, 2.0))


def test_a_plan_from_an_infinite_slope_is_refused_with_the_reason():
    births = sd.SDE(lambda t, x: 50 - x, lambda t, x: jnp.sqrt(50 + jnp.sqrt(jnp.maximum(x, 0.0))), 0.0)
    with pytest.raises(ValueError, match=r"plan: .* not finite at the start"):
        sd.plan(births, "EulerMaruyama", 1e-2)((0.0, 1.0))


def test_neutral_means_are_not():
    for A in ([[0.0, 1.0], [0.0, 0.0]], [[0.0, 1.0], [-1.0, 0.0]]):  # free flight, an oscillator without damping
        assert sd.plan(linear(A, [[0.0], [1.0]]), c.RK4, 1e-2)((0.0, 5.0)).sum() == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sd.plan(PULSE, AB4), "method: AB4 takes its history at equal steps"),
        (lambda: sd.plan(PULSE, "VanLoan"), "method: expected a method that makes steps"),
        (lambda: sd.plan(PULSE, c.RK4, 0.0), "tol: expected a relative error between 0 and 1"),
        (lambda: sd.plan(sd.SDE(lambda t, x, p: -p * x, lambda t, x, p: 1.0, 1.0, params=scipy.stats.uniform(1, 2)),
                         c.RK4), "params: differ from path to path"),
        (lambda: sd.plan(JOINTED_PENDULUM.problem, "RattleAlpha"), "problem: has constraints, .* minimal coordinates"),
        (lambda: sd.plan(GUSTY, "Newmark"), "method: Newmark draws coloured noise .* steps cannot differ"),
    ],
)  # fmt: skip
def test_methods_and_problems_without_a_plan_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize("tolerance", [1e-3, 1e-8], ids=["rough", "fine"])
def test_moments_are_followed_by_the_steps_of_scipy(tolerance):
    """Around a pulse, so that steps are refused; and what is read between steps is what SciPy reads there."""
    plan = sd.plan(PULSE, FRESH, tol=1e-2)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        truth = _Followed(plan, 0.0, 2.0)
        y, options = np.array([1.0, 0.0, 0.0]), {"rtol": tolerance, "atol": 1e-3 * tolerance}
        theirs = scipy.integrate.solve_ivp(plan._slope_at, (0.0, 2.0), y, dense_output=True, **options)
        ours = dormand_prince.solve(plan._slope_at, 0.0, 2.0, y, stages=plan._stages_at, **options)
        assert theirs.nfev > 6 * len(theirs.t)  # some were refused
        np.testing.assert_allclose(ours.t, theirs.t, rtol=1e-9)
        np.testing.assert_allclose(ours.y, theirs.y, rtol=1e-9)
        between = np.linspace(0.0, 2.0, 97)
        np.testing.assert_allclose(np.transpose([ours.at(t) for t in between]), theirs.sol(between), rtol=1e-9)
        for t in (0.0, 0.004, 0.97, 2.0):
            read = np.concatenate([part.ravel() for part in truth.moments(t)])
            np.testing.assert_allclose(read, truth.solution.at(t)[:2], rtol=1e-12, atol=1e-15)


def test_equations_that_cannot_be_followed_end_as_with_scipy():
    """A mean that explodes at t = 1: both solvers stop there because no step is short enough."""
    plan = sd.plan(sd.SDE(lambda t, x: x * x, lambda t, x: 0.0 * x, 1.0), "Heun", tol=1e-2)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        y = np.array([1.0, 0.0, 0.0])
        theirs = scipy.integrate.solve_ivp(plan._slope_at, (0.0, 2.0), y)
        ours = dormand_prince.solve(plan._slope_at, 0.0, 2.0, y, 1e-3, 1e-6, plan._stages_at)
    assert not theirs.success and not ours.is_complete
    assert ours.t[-1] == pytest.approx(theirs.t[-1], rel=1e-9)
