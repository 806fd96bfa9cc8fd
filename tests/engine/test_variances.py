"""Variances that the steps of a run deliver, against exact ones: warnings that tell the truth, and none beside them."""

import re
import types
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from scipy.linalg import solve_continuous_lyapunov

import stodyn as sd
from stodyn.analysis.linear import exact_moments, step_map
from stodyn.engine import laws, laws_of_sdes, laws_of_structures, variances
from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.run import Run
from stodyn.engine.spec import describe
from stodyn.engine.traces import Traced
from stodyn.methods.alpha import Newmark, StochasticAlpha
from stodyn.noise import coloured as co
from stodyn.noise import wiener
from stodyn.problems.elements import Gap
from stodyn.problems.linear import GaussianStart
from stodyn.problems.mechanical_facts import has_constant_slopes
from stodyn.warnings import ResponseNotDelivered

MODE = sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 1.0, (0.0, 0.0))  # its variances are 5


def test_components_that_noise_does_not_move_make_no_verdict_the_worst():
    """Their variances are rounding, whose ratio says nothing."""
    verdict = variances.Verdict(np.array([1.1, 1e-20]), np.array([1.0, 1e-30]), None)
    assert verdict.error == pytest.approx(0.1)


def test_states_are_moved_by_a_small_part_of_the_deviations(monkeypatch):
    """Of the smallest one, and never by more than of 1: near the start the force is then as good as linear."""
    hardening = sd.Mechanical(lambda t, x, v: -x - x**3 - 0.1 * v, lambda t, x, v: 1e-3, (0.0, 0.0))
    run = types.SimpleNamespace(spec=types.SimpleNamespace(times=np.linspace(0.0, 1.0, 11), levels=()))
    for deviations, part in (([1e-3, 2e-2], 1e-3), ([50.0, 20.0], 1.0)):
        monkeypatch.setattr(laws_of_structures, "deviations_where_nearly_linear", lambda *_, d=deviations: np.array(d))
        assert laws_of_structures._shift(run, hardening) == laws_of_structures.SMALL_SHIFT * part


def told(problem, method, dt, end, begin=0.0, **options):
    """The warnings of a run of two paths about its variances."""
    with warnings.catch_warnings(record=True) as all_told:
        warnings.simplefilter("always")
        sd.simulate(problem, method, t=(begin, end), dt=dt, paths=2, seed=1, on_failure="record", **options)
    return [str(w.message) for w in all_told if w.category is ResponseNotDelivered]


def exact_ratios(method, h, mode=MODE, exact=5.0):
    """Stationary variances of x and v, from the step map, over those that they have."""
    return np.diagonal(step_map(mode, method, h).stationary().covariance)[:2] / exact


@pytest.mark.parametrize(
    "method",
    ["ThetaEuler", "ImplicitEuler", "BDF2Maruyama", "Heun", "SRA1", "EulerMaruyama", "RK4"],
)
def test_every_method_is_told_with_the_size_of_its_error_and_a_step_without_it(method):
    h = {"Heun": 0.5, "SRA1": 0.5, "EulerMaruyama": 0.05, "RK4": 1.6}.get(method, 1.0)
    ratios = exact_ratios(method, h)
    worst = ratios[np.argmax(np.abs(ratios - 1.0))]
    (words,) = told(MODE, method, h, 400.0)
    share = f"{100.0 * abs(worst - 1.0):.3g} % too {'large' if worst > 1 else 'small'}"
    assert f"at t = 400 {share}" in words
    step = float(re.search(r"Take steps of (\S+) or less", words)[1])
    errors = [np.abs(exact_ratios(method, factor * step) - 1.0).max() for factor in (1.0, 1.25)]
    assert errors[0] <= 0.05 < errors[1]


def test_steps_that_come_to_the_right_law_too_late_are_told():
    """At ω h = 5 the midpoint rule has the right law in the long run, but damps with 2/29 of the rate."""
    mode = sd.Mechanical(lambda t, x, v: -16.0 * x - 0.4 * v, lambda t, x, v: 1.0, (0.0, 0.0))
    (words,) = told(mode, "ImplicitMidpoint", 1.25, 30.0)
    assert "too small" in words
    assert not told(mode, "ImplicitMidpoint", 1.25, 120.0)
    assert not told(mode, "ImplicitMidpoint", 1.25, 2.5)


@pytest.mark.parametrize("method", [StochasticAlpha, StochasticAlpha(rho=0.3, order=1.5), Newmark(order=2.0)])
def test_alpha_methods_are_told_likewise(method):
    for h in (0.5, 2.0, 5.0):
        ratios = exact_ratios(method(area=wiener.WZ), h)
        worst = ratios[np.argmax(np.abs(ratios - 1.0))]
        words = f"{100.0 * abs(worst - 1.0):.3g} % too {'large' if worst > 1 else 'small'}"
        found = told(MODE, method, h, 2000.0)
        assert [words in one for one in found] == [True] * int(abs(worst - 1.0) > 0.05), (h, ratios, found)


def test_a_nearly_linear_system_is_told_as_a_linear_one():
    """Its spring is stiffer by up to a twenty-fifth where the noise takes it, about another place than its start."""
    bent = sd.Mechanical(lambda t, x, v: 2.0 - x - 3e-4 * x**3 - 0.1 * v, lambda t, x, v: 1.0, (0.5, 0.0))
    (words,) = told(bent, Newmark, 2.0, 400.0)
    (exactly,) = told(MODE, Newmark, 2.0, 400.0)
    assert "linearised about their start" in words
    shares = [float(re.search(r"(\S+) % too large", one)[1]) for one in (words, exactly)]
    assert abs(shares[0] / shares[1] - 1.0) < 0.05
    assert told(bent, Newmark, 0.2, 400.0) == []


def sprung(k=1.0, c=0.1, noise=lambda t: 1.0, **options):
    def force(t, x, v, p=None):
        return -(k if p is None else p) * x - c * v

    return sd.Mechanical(force if "params" not in options else lambda t, x, v, p: force(t, x, v, p),
                         lambda t, x, v: noise(t), (0.0, 0.0), **options)  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (sprung(noise=lambda t: jnp.minimum(t, 1.0)), {}),
        (sprung(noise=lambda t: 0.01 + jnp.exp(-(((t - 200.0) / 100.0) ** 2))), {}),
        (sprung(params=sd.noise.Uniform(0.999, 1.001)), {}),
        (sprung(params=sd.PerPath(np.linspace(0.999, 1.001, 2))), {}),
        (sprung(), {"dtype": "float32"}),
        (sprung(noise=lambda t: jnp.minimum(t, 1.0), params=sd.noise.Uniform(0.999, 1.001)), {"dtype": "float32"}),
    ],
    ids=["an envelope", "a pulse", "a law", "listed values", "float32", "all together"],
)
def test_noise_and_parameters_that_vary_and_single_precision_are_told_likewise(problem, options):
    ratio = exact_ratios(Newmark, 5.0)[0]
    (words,) = told(problem, Newmark, 5.0, 2000.0, **options)
    share = float(re.search(r"(\S+) % too large", words)[1])
    assert abs(share / (100.0 * (ratio - 1.0)) - 1.0) < 0.03, (words, ratio)
    assert ("VanLoan" in words) == (not problem.has_random_params and problem.facts.is_constant_noise)
    assert told(problem, Newmark, 0.2, 100.0, **options) == []


def test_parameters_are_those_of_slow_and_of_fast_paths():
    """Of x, which slow paths have most of, the error is smaller than of v."""
    spread = sprung(params=sd.noise.Uniform(0.01, 17.0), c=0.4)
    (words,) = told(spread, "StochasticAlpha", 0.5, 100.0)
    assert "of dx at" in words and "in the mean over 5 paths from low frequencies to high ones" in words
    nodes, weights = np.polynomial.legendre.leggauss(3)
    modes = [sprung(8.505 + 8.495 * node, 0.4) for node in nodes]
    ratios = [exact_ratios(StochasticAlpha(area=wiener.WZ), 0.5, mode, 1.25)[1] for mode in modes]
    delivered = 0.5 * weights @ ratios
    share = float(re.search(r"(\S+) % too large", words)[1])
    assert abs(share - 100.0 * (delivered - 1.0)) < 2.0


def test_a_short_burst_of_noise_is_told():
    """Of 12 in 2000 steps, between which noise was looked at in 64."""
    burst = ou(lambda t: jnp.where((t > 992.0) & (t < 998.0), 1.0, 0.0))
    (words,) = told(burst, "EulerMaruyama", 0.5, 1000.0)
    assert "by the noise as it is at t = 992.5: 0.667, but it is 0.5." in words


def test_noise_that_turns_to_another_mode_is_told_where_it_is_worst():
    """At first it drives the slow mode alone, at last the fast one."""
    pair = sd.Mechanical(lambda t, x, v: -np.array([1.0, 16.0]) * x - 0.4 * v,
                         lambda t, x, v: jnp.stack([jnp.cos(t / 50.0), jnp.sin(t / 50.0)])[:, None],
                         (np.zeros(2), np.zeros(2)))  # fmt: skip
    (words,) = told(pair, None, 1.25, 78.75)
    share = 100.0 * (exact_ratios(StochasticAlpha(area=wiener.WZ), 1.25, sprung(16.0, 0.4), [1 / 12.8, 1.25])[0] - 1.0)
    assert f"of x1 at t = 78.75 {share:.3g} % too large, by the noise as it is at t = " in words


@pytest.mark.parametrize(
    ("problem", "method", "dt", "end"),
    [
        (sd.Mechanical(lambda t, x, v: -x - x**3 - 0.1 * v, lambda t, x, v: 1.0, (0.0, 0.0)), None, 2.0, 20.0),
        (
            sd.Mechanical(lambda t, x, v: -x * (2.0 + jnp.sin(t)) - 0.1 * v, lambda t, x, v: 1.0, (0.0, 0.0)),
            None, 2.0, 20.0,
        ),
        (sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: jnp.exp(-t), (0.0, 0.0)), None, 2.0, 20.0),
        (sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: 1.0, (0.0, 0.0)), None, 2.0, 20.0),
        (sd.Mechanical(lambda t, x, v: -x - 0.1 * v, None, (1.0, 0.0)), None, 2.0, 20.0),
        (MODE, "EulerMaruyama", 0.002, 0.004),
        (sd.Mechanical(lambda t, x, v: -x - 2e-4 * v, lambda t, x, v: 1.0, (0.0, 0.0)), "Heun", 0.1, 20.0),
        (
            sd.Mechanical(
                lambda t, x, v: -np.array([1.0, 1e6]) * x - 0.1 * v, lambda t, x, v: np.array([[1.0], [0.0]]),
                (np.zeros(2), np.zeros(2)),
            ),
            StochasticAlpha(rho=0.3), 0.1, 20.0,
        ),
    ],
    ids=["a cubic spring", "a spring that changes", "noise that fades", "no damping", "no noise", "the first steps",
         "a run that is short beside its damping", "a fast coordinate that does not move"],
)  # fmt: skip
def test_nothing_is_told(problem, method, dt, end):
    assert told(problem, method, dt, end) == []


def oscillator(k=1.0, c=0.1, start=(0.0, 0.0)):
    """x'' = -k x - c x' + ξ, written as an SDE; both variances are 5 in the long run."""
    return sd.SDE(
        lambda t, s, k: jnp.stack([s[1], -k * s[0] - c * s[1]]), lambda t, s: jnp.array([[0.0], [1.0]]),
        start, k, names=("x", "v"),
    )  # fmt: skip


def ou(noise=lambda t: 1.0, **options):
    return sd.SDE(lambda t, x: -x, lambda t, x: noise(t), **({"start": 0.0} | options))


@pytest.mark.parametrize(
    ("method", "h"), [("ImplicitEuler", 0.1), ("ThetaEuler", 0.1), ("EulerMaruyama", 0.05), ("Heun", 0.5), ("RK4", 1.6)]
)
def test_an_sde_is_told_with_both_variances_a_step_and_a_method_that_are_right(method, h):
    def variances_of(length):
        return np.diagonal(step_map(oscillator(), method, length).stationary().covariance)

    worst = int(np.argmax(np.abs(variances_of(h) / 5.0 - 1.0)))
    found = variances_of(h)[worst]
    (words,) = told(oscillator(), method, h, 400.0)
    share = f"{100.0 * abs(found / 5.0 - 1.0):.3g} % too {'large' if found > 5 else 'small'}"
    assert f"of {'xv'[worst]} at t = 400 {share}: {found:.3g}, but it is 5. " in words
    assert words.endswith("all are right to 5 %, or VanLoan, which is exact.")
    step = float(re.search(r"Take steps of (\S+) or less", words)[1])
    errors = [np.abs(variances_of(length) / 5.0 - 1.0).max() for length in (step, 1.25 * step)]
    assert errors[0] <= 0.05 < errors[1]


@pytest.mark.parametrize(("spread", "end"), [(0.0, 200.0), (40.0, 100.0)])
def test_the_end_of_a_run_counts_from_its_start(spread, end):
    """The midpoint rule at ω h = 5 has the right law in the long run, but comes to it with 2/29 of the rate, from no
    spread as from a large one."""
    start = GaussianStart(np.zeros(2), spread * np.eye(2)) if spread else (0.0, 0.0)
    problem, P = oscillator(c=0.05, start=start), spread * np.eye(2)
    moments = step_map(problem, "ImplicitMidpoint", 5.0).moments(np.zeros(2), P, round(end / 5.0))
    found = np.diagonal(moments.covariance[-1])
    exact = np.diagonal(exact_moments(problem, end, np.zeros(2), P).covariance)
    worst = int(np.argmax(np.abs(found / exact - 1.0)))
    (words,) = told(problem, "ImplicitMidpoint", 5.0, end)
    assert f"of {'xv'[worst]} at t = {end:g} " in words
    assert f": {found[worst]:.3g}, but it is {exact[worst]:.3g}. Take" in words


def test_variances_that_grow_without_end_are_told_too():
    """Undamped, the implicit Euler method damps all the same."""
    problem = oscillator(c=0.0)
    moments = step_map(problem, "ImplicitEuler", 0.1).moments(np.zeros(2), np.zeros((2, 2)), 400)
    exact = exact_moments(problem, 40.0, np.zeros(2), np.zeros((2, 2))).covariance[0, 0]
    (words,) = told(problem, "ImplicitEuler", 0.1, 40.0)
    assert f": {moments.covariance[-1, 0, 0]:.3g}, but it is {exact:.3g}." in words


@pytest.mark.parametrize(
    ("problem", "options", "found", "exact"),
    [
        (ou(lambda t: 1.0 + jnp.minimum(t, 1.0)), {}, 8 / 3, 2.0),
        (sd.SDE(lambda t, x, p: -p * x, lambda t, x: 1.0, 0.0, sd.noise.Uniform(0.999, 1.001)), {}, 2 / 3, 0.5),
        (sd.SDE(lambda t, x, p: -p * x, lambda t, x: 1.0, 0.0, sd.PerPath(np.array([0.9999, 1.0001]))), {}, 2 / 3, 0.5),
        (ou(), {"dtype": "float32"}, 2 / 3, 0.5),
        (sd.SDE(lambda t, x: jnp.sin(t) - x, lambda t, x: 1.0, 3.0), {}, 2 / 3, 0.5),
        (
            sd.SDE(lambda t, x: -x, lambda t, x: 1.0, sd.noise.Exponential(2.0**0.5)),
            {},
            2 / 3,
            0.5,
        ),
    ],
    ids=["an envelope", "a law", "listed values", "float32", "a driven mean", "a start that is not normal"],
)
def test_noise_parameters_and_starts_of_an_sde_may_vary(problem, options, found, exact):
    """Euler's method at λ h = 1/2 makes the variance a third too large."""
    (words,) = told(problem, "EulerMaruyama", 0.5, 30.0, **options)
    assert f": {found:.3g}, but it is {exact:.3g}. Take steps of 0.09" in words
    is_taken = not problem.has_random_params and "noise as it is" not in words
    assert ("VanLoan" in words) == is_taken
    assert told(problem, "EulerMaruyama", 0.2, 30.0, **options) == []


@pytest.mark.parametrize(
    ("problem", "method", "dt", "end"),
    [
        (ou(), "EulerMaruyama", 0.3, 30.0),
        (ou(), "TamedEuler", 0.5, 30.0),
        (ou(), "PlatenWeak2", 0.2, 30.0),
        (ou(), "EulerMaruyama", 0.5, 5.5),
        (oscillator(c=0.05), "ImplicitMidpoint", 1.0, 20.0),
        (sd.SDE(lambda t, x: -x + 0.01 * x**3, lambda t, x: 1.0, 0.0), "EulerMaruyama", 0.5, 30.0),
        (sd.SDE(lambda t, x: -x, lambda t, x: 0.1 * x, 1.0), "EulerMaruyama", 0.5, 30.0),
        (sd.SDE(lambda t, x: np.array([-1.0, -5.0]) * x, lambda t, x: jnp.array([[1.0], [0.0]]), (0.0, 1.0)),
         "ImplicitEuler", 0.2, 30.0),
        (sd.SDE(lambda t, x: jnp.stack([x[1], 0.0 * x[0]]), lambda t, x: jnp.array([[0.0], [1.0]]), (0.0, 0.0)),
         "EulerMaruyama", 0.1, 1.2),
    ],
    ids=["a fifth", "a step that is not linear", "three values for normals", "a few steps", "half of what settles",
         "a cubic drift", "noise times x that has died out", "a component that does not move",
         "first steps of what grows"],
)  # fmt: skip
def test_nothing_is_told_of_an_sde(problem, method, dt, end):
    assert told(problem, method, dt, end) == []


RELAXING = sd.SDE(lambda t, x: 1.0 - 20.0 * x, lambda t, x: 2.0 * x, 0.0)
KICKED = {
    calculus: sd.SDE(
        lambda t, x, s=shift: jnp.stack([x[1], -x[0] - (0.2 + s) * x[1]]),
        lambda t, x: jnp.stack([jnp.zeros(2), jnp.stack([0.4 * x[1], 0.2 + 0.0 * x[1]])]), [1.0, 0.0],
        calculus=calculus)
    for calculus, shift in (("ito", 0.0), ("stratonovich", 0.08))
}  # fmt: skip  # one equation in both calculi
NOISES = sd.SDE(lambda t, x: -2.0 * x, lambda t, x: 0.4 * jnp.diag(x) + 0.2 * jnp.eye(6), np.ones(6))


@pytest.mark.parametrize(
    ("problem", "method", "h", "steps"),
    [
        *[(RELAXING, name, 0.08, 100) for name in ("EulerMaruyama", "Milstein", "SRIW1", "ThetaEuler", "PlatenWeak2")],
        (KICKED["ito"], "EulerMaruyama", 0.05, 400),
        (KICKED["stratonovich"], "EulerMaruyama", 0.05, 400),
        (KICKED["stratonovich"], "ImplicitEuler", 0.1, 300),
        (NOISES, "EulerMaruyama", 0.25, 40),
    ],
)  # fmt: skip
def test_noise_that_depends_on_the_state_is_told_too(problem, method, h, steps):
    """Of dx = (1 - 20 x) dt + 2 x dW, the steps of Milstein's method made twelve times the variance, without a word."""
    covariance = np.zeros((problem.n, problem.n))
    by_steps = step_map(problem, method, h, nodes=12 if problem.n < 6 else 3).moments(
        problem.example_start(), covariance, steps
    )
    exact = exact_moments(problem, h * steps, problem.example_start(), covariance)
    found, true = np.diagonal(by_steps.covariance[-1]), np.diagonal(exact.covariance)
    worst = int(np.argmax(np.abs(found / true - 1.0)))
    (words,) = told(problem, method, h, h * steps)
    assert f" at t = {h * steps:g} " in words
    assert f": {found[worst]:.3g}, but it is {true[worst]:.3g}. Take " in words
    step = float(re.search(r"Take steps of (\S+) or less", words)[1])
    assert told(problem, method, h * steps / np.ceil(h * steps / step), h * steps) == []


def heuns(A, b, h, steps, start):
    """The mean and the covariance of Heun's steps on dx = A(t) x dt + b dW, and those of steps so short that they are
    exact."""
    for length in (h, h / 64.0):
        m, P = np.array(start), np.zeros((2, 2))
        for t in length * np.arange(round(h * steps / length)):
            now, then = A(t), A(t + length)
            M = np.eye(2) + 0.5 * length * (now + then @ (np.eye(2) + length * now))
            kick = (np.eye(2) + 0.5 * length * then) @ b * np.sqrt(length)
            m, P = M @ m, M @ P @ M.T + kick @ kick.T
        yield m, np.diagonal(P)


@pytest.mark.parametrize(("start", "kind"), [(0.0, "variance"), (9.0, "mean")])
def test_slopes_that_change_in_time_are_told(start, kind):
    """A spring that pumps: at ωh = .4 the mean and the variance of Heun's method are a half too large."""

    def A(t, xp=np):
        return xp.array([[0.0, 1.0], [-1.0 - 0.6 * xp.sin(2.0 * t), -0.2]])

    b = np.array([[0.0], [0.3]])
    of_bodies = sd.Mechanical(lambda t, x, v: -(1.0 + 0.6 * jnp.sin(2.0 * t)) * x - 0.2 * v, lambda t, x, v: 0.3,
                              (start, 0.0))  # fmt: skip
    (m, P), (mean, variance) = heuns(A, b, 0.4, 50, (start, 0.0))
    of = {"mean": (m, mean, np.sqrt(mean**2 + variance)), "variance": (P, variance, variance)}
    errors = {name: np.abs(found - true) / size for name, (found, true, size) in of.items()}
    worst = max(errors, key=lambda name: errors[name].max())
    k = int(np.argmax(errors[worst]))
    for problem in (sd.SDE(lambda t, x: A(t, jnp) @ x, lambda t, x: b, [start, 0.0], names=("x", "dx")), of_bodies):
        (words,) = told(problem, "Heun", 0.4, 20.0)
        assert f"makes the {worst} of {problem.components[k]} at t = 20 " in words
        assert f"{of[worst][0][k]:.3g}, but it is {of[worst][1][k]:.3g}. Take " in words
        assert told(problem, "Heun", 0.1, 20.0) == []


def test_a_hamiltonian_is_told_as_its_sde():
    system = sd.Hamiltonian(lambda t, q, p: 0.5 * p @ p + 0.5 * q @ q, lambda t, q, p: -q[0], lambda t, q, p: -0.1 * p,
                            start=([0.0], [0.0]))  # fmt: skip
    moments = step_map(system, "Midpoint", 5.0).moments(np.zeros(2), np.zeros((2, 2)), 12)
    exact = np.diagonal(exact_moments(system, 60.0, np.zeros(2), np.zeros((2, 2))).covariance)
    (words,) = told(system, "Midpoint", 5.0, 60.0)
    found = np.diagonal(moments.covariance[-1])
    worst = int(np.argmax(np.abs(found / exact - 1.0)))
    assert f": {found[worst]:.3g}, but it is {exact[worst]:.3g}." in words


@pytest.mark.parametrize(
    ("problem", "method", "h", "end"),
    [
        (sd.Mechanical(lambda t, x, v: -5.0 * v, lambda t, x, v: 1.0, (0.0, 0.0)), "Newmark", 1.0, 40.0),
        (sd.Mechanical(lambda t, x, v: -25.0 * x, lambda t, x, v: 1.0, (0.0, 0.0)), "HHT", 0.2, 40.0),
        (sd.Mechanical(lambda t, x, v: x - 0.1 * v, lambda t, x, v: 1.0, (0.0, 0.0)), "Newmark", 0.5, 6.0),
    ],
    ids=["a free body", "no damping", "what falls over"],
)
def test_structures_without_a_law_in_the_long_run_are_judged_at_the_end(problem, method, h, end):
    moments = step_map(problem, method, h).moments(np.zeros(2), np.zeros((2, 2)), round(end / h))
    found = np.diagonal(moments.covariance[-1])
    exact = np.diagonal(exact_moments(problem, end, np.zeros(2), np.zeros((2, 2))).covariance)
    worst = int(np.argmax(np.abs(found / exact - 1.0)))
    (words,) = told(problem, method, h, end)
    assert f": {found[worst]:.3g}, but it is {exact[worst]:.3g}." in words
    assert told(problem, method, 0.1 * h, 0.2 * end) == []


@pytest.mark.parametrize("strength", [1.0, 0.02])
@pytest.mark.parametrize(("method", "h"), [("Newmark", 1.0), ("StochasticAlpha", 0.5), ("Heun", 0.05)])
def test_starts_of_a_structure_that_differ_between_paths_count(strength, method, h):
    """α methods begin with an acceleration, or its mean, that goes with the start."""
    P = np.diag([0.09, 1.0])
    problem = sd.Mechanical(lambda t, x, v: -25.0 * x - 0.2 * v, lambda t, x, v: strength,
                            (sd.noise.Normal(0.0, 0.3), sd.noise.Normal(0.0, 1.0)))  # fmt: skip
    moments = step_map(problem, method, h).moments(np.zeros(2), P, round(20.0 / h))
    found = np.diagonal(moments.covariance[-1])
    exact = np.diagonal(exact_moments(problem, 20.0, np.zeros(2), P).covariance)
    worst = int(np.argmax(np.abs(found / exact - 1.0)))
    words = told(problem, method, h, 20.0)
    assert len(words) == int(abs(found[worst] / exact[worst] - 1.0) > 0.05)
    assert not words or f": {found[worst]:.3g}, but it is {exact[worst]:.3g}." in words[0]


def test_starts_that_are_listed_for_some_components_count():
    """As many as are listed, beside drawn ones: their variance is 1/4."""
    start = sd.PerPath(np.tile([-0.5, 0.5], 20)), sd.noise.Normal(0.0, 0.5)
    problem = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: 1.0, start)
    (words,) = told(problem, "ImplicitEuler", 0.5, 10.0)
    P = laws_of_sdes.covariance_of_starts(problem)
    assert P[0, 0] == pytest.approx(0.25, rel=1e-12) and 0.1 < P[1, 1] < 0.5
    free = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: 1.0, (0.0, 0.0))
    exact = np.diagonal(exact_moments(free, 10.0, np.zeros(2), P).covariance)
    assert any(f", but it is {value:.3g}." in words for value in exact)


def test_scalars_of_a_state_are_its_arrays():
    """Also those of one path, and arrays without axes."""
    own = types.SimpleNamespace(state_shapes=((), (2,), (2, 1)), state_dtypes=(float, float, int))
    for rest in ((), (3,)):
        scalars = np.arange(5.0 * np.prod(rest, dtype=int)).reshape(5, *rest)
        leaves = Traced.leaves(own, scalars)
        assert [leaf.shape for leaf in leaves] == [rest, (2, *rest), (2, 1, *rest)]
        np.testing.assert_array_equal(np.concatenate([leaf.reshape(-1, *rest) for leaf in leaves]), scalars)


def test_paths_that_levels_stop_are_not_judged():
    """Their variances are not those of the linear equation."""
    assert told(ou(), "EulerMaruyama", 0.5, 30.0, stop=sd.Stop(sd.Level(0.1))) == []


def chain(N, damping):
    """N masses on springs, with noise on the first."""
    K = 100.0 * (2.0 * np.eye(N) - np.eye(N, k=1) - np.eye(N, k=-1))
    return sd.Mechanical.from_matrices(
        np.linspace(1.0, 2.0, N), damping(K), K, noise=np.eye(N)[:, :1], start=(np.zeros(N), np.zeros(N))
    )


def law(problem, method, h, kind):
    spec = describe(problem, sd.method(method), (0.0, 40 * h), h, None, "float64")
    executor = executors.get(spec)
    run = Run(spec, Layout(spec, 1, 0, executor.width), executor)
    equations = laws_of_structures._equations(problem)
    if kind is laws.Whole:
        return kind(run, *equations.of_first_order(), 1.0, 0.0)
    return kind(run, equations, laws_of_structures._modes(equations), 1.0)


@pytest.mark.parametrize("method", ["StochasticAlpha", "Heun"])
def test_a_structure_has_the_same_law_by_its_modes(method):
    """Exact and delivered, at a time and in the long run, to rounding."""
    problem, h = chain(4, lambda K: 0.01 * K), 0.02
    whole, by_modes = (law(problem, method, h, kind) for kind in (laws.Whole, laws_of_structures._ByModes))
    for T in (40 * h, np.inf):
        np.testing.assert_allclose(by_modes.exact(T), whole.exact(T), rtol=1e-9)
        np.testing.assert_allclose(by_modes.delivered(h, T), whole.delivered(h, T), rtol=1e-9)


def test_large_structures_are_told():
    """The modes of 70 masses are steps of ω h up to 4 long; with a tenth of it nothing is told."""
    large = chain(70, lambda K: 0.002 * K)
    (words,) = told(large, None, 0.2, 40.0)
    assert "makes the variance of dx0 at t = 40" in words
    assert told(large, None, 0.02, 4.0) == []


@pytest.mark.parametrize("method", ["ImplicitEuler", "BDF2Maruyama"])
def test_methods_for_sdaes_are_told_of_coloured_loads(method):
    problem = sd.with_noise(sd.Mechanical(lambda t, x, v: -400.0 * x - 2.0 * v, None, (0.0, 0.0)),
                            co.gauss_markov(1.0, 5.0), "x")  # fmt: skip
    (words,) = told(problem, method, 0.05, 0.1)
    step = float(re.search(r"Take steps of (\S+) or less", words)[1])
    assert step < 0.05 and told(problem, method, step, 2 * step) == []


def test_a_run_again_takes_what_is_known(monkeypatch):
    first, of_sde = (told(problem, "ThetaEuler", 0.5, 400.0) for problem in (MODE, oscillator()))
    monkeypatch.setattr(variances, "_verdict", None)
    assert told(MODE, "ThetaEuler", 0.5, 400.0) == first != []
    assert told(oscillator(), "ThetaEuler", 0.5, 400.0) == of_sde != []


def test_a_run_at_another_time_is_judged_anew():
    """The noise of what its steps do not resolve has gone by then."""

    def noise(t, x):
        return jnp.stack([0.5 - 0.5 * jnp.tanh(t - 500.0), 1.0 + 0.0 * t])[:, None]

    problem = sd.SDE(lambda t, x: -np.array([1.0, 0.01]) * x, noise, np.zeros(2))
    assert told(problem, "EulerMaruyama", 0.5, 30.0) != []
    assert told(problem, "EulerMaruyama", 0.5, 1030.0, begin=1000.0) == []


def test_no_modes_where_forces_of_small_coordinates_are_not_symmetric():
    """Beside a stiff spring the asymmetry of two soft coordinates looked like rounding."""
    K = np.diag([1e12, 1.0, 2.0])
    damped = laws_of_structures._Equations(np.eye(3), 0.1 * np.eye(3), K, np.ones((3, 1)))
    assert laws_of_structures._modes(damped) is not None
    K = K + np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.3], [0.0, -0.3, 0.0]])
    assert laws_of_structures._modes(damped._replace(K=K)) is None
    K[1:, 1:] = [[1.0, 0.3], [0.3 * (1.0 + 1e-14), 2.0]]
    assert laws_of_structures._modes(damped._replace(K=K)) is not None


def test_forces_of_differences_are_seen_to_be_nonlinear():
    """Whether the slopes are constant is asked in all directions: in that of equal displacements no spring is bent."""
    ends = np.array([-1.0, 1.0])
    frame = sd.Mechanical.from_matrices(np.eye(2), 0.4 * np.eye(2), 3 * np.eye(2), noise=np.eye(2))
    cubic = sd.Mechanical(
        lambda t, x, v: ends * (x[0] - x[1]) ** 3 - x - v, lambda t, x, v: jnp.eye(2), [np.zeros(2)] * 2
    )
    assert not has_constant_slopes(cubic)
    assert not told(sd.with_elements(frame, Gap(at=0, to=1, stiffness=3e3, gap=0.2, both=True)), None, 0.001, 3.0)


def test_noise_that_hardly_depends_on_the_state_is_held_as_it_is_at_the_start():
    """The share is that of constant noise; of noise that differs by more than 5 % where it takes x the moments are
    followed."""

    def shaken(depends):
        return sd.Mechanical(lambda t, x, v: -16.0 * x - 0.4 * v, lambda t, x, v: 1.0 + depends * x, (0.0, 0.0))

    (words,) = told(shaken(1e-3), None, 1.25, 100.0)
    share = 100.0 * (exact_ratios(StochasticAlpha(area=wiener.WZ), 1.25, sprung(16.0, 0.4), [1 / 12.8, 1.25])[0] - 1.0)
    assert f"{share:.3g} % too large, by the noise as it is at t = 0 where paths start" in words
    (words,) = told(shaken(1.0), None, 1.25, 100.0)
    exact = exact_moments(shaken(1.0), 100.0, np.zeros(2), np.zeros((2, 2))).covariance[0, 0]
    assert f", but it is {exact:.3g}. Take" in words
    assert told(shaken(1e-3), None, 0.05, 100.0) == [] == told(shaken(1.0), None, 0.1, 100.0)


def heun_beside_exact_noise(rates, a, h, end):
    """Variances at the end of (x, v), driven by dy = -a y dt + √(2a) dW from y ~ N(0, 1), as they are, and as Heun's
    steps deliver them with the exact mean of y over each step."""
    A, n = np.asarray(rates), round(end / h)
    F = np.exp(-a * h)
    own, push = np.eye(2) + h * A + h**2 / 2 * A @ A, (h * np.eye(2) + h**2 / 2 * A) @ [0.0, 1.0]
    of_mean = 2.0 / (a * h**2) * (h - 2 * (1 - F) / a + (1 - F**2) / (2 * a))
    of_both = 2.0 / h * ((1 - F) / a - (1 - F**2) / (2 * a))
    M = np.block([[own, push[:, None] * (1 - F) / (a * h)], [np.zeros((1, 2)), F]])
    Q = np.block([[np.outer(push, push) * of_mean, push[:, None] * of_both], [push * of_both, 1 - F**2]])
    P = np.diag([0.0, 0.0, 1.0])
    for _ in range(n):
        P = M @ P @ M.T + Q
    whole = np.block([[A, np.array([[0.0], [1.0]])], [np.zeros((1, 2)), -a]])
    Phi, settled = scipy.linalg.expm(whole * end), solve_continuous_lyapunov(whole, np.diag([0.0, 0.0, -2 * a]))
    exact = settled + Phi @ (np.diag([0.0, 0.0, 1.0]) - settled) @ Phi.T
    return np.diagonal(P)[:2], np.diagonal(exact)[:2]


@pytest.mark.parametrize("kind", ["SDE", "Mechanical"])
def test_steps_beside_exact_noise_that_grow_slowly_are_told(kind):
    """Heun's steps of .1 let x'' = -25 x - .02 x' grow by .7 % each, where the equations decay by .1 %; over 21 s that
    is too little to be called unstable. In the long run there is no variance to compare."""
    rates = [[0.0, 1.0], [-25.0, -0.02]]
    own = {
        "SDE": sd.SDE(lambda t, x: jnp.stack([x[1], -25.0 * x[0] - 0.02 * x[1]]), None, (0.0, 0.0), names=("x", "dx")),
        "Mechanical": sd.Mechanical(lambda t, x, v: -25.0 * x - 0.02 * v, None, (0.0, 0.0)),
    }[kind]
    gust = sd.with_noise(own, co.gauss_markov(1.0, 2.0, "y"), "dx" if kind == "SDE" else "x")
    (words,) = told(gust, sd.ExactNoise("Heun"), 0.1, 21.0)
    delivered, exact = heun_beside_exact_noise(rates, 0.5, 0.1, 21.0)
    assert f"of dx at t = 21 {100 * (delivered[1] / exact[1] - 1):.3g} % too large" in words
    longest = float(re.search(r"Take steps of (\S+) or less", words)[1])
    for share, is_right in ((1.0, True), (1.25, False)):
        steps = np.ceil(21.0 / (share * longest)) if is_right else np.floor(21.0 / (share * longest))
        delivered, exact = heun_beside_exact_noise(rates, 0.5, 21.0 / steps, 21.0)
        assert (np.abs(delivered / exact - 1.0).max() <= 0.05) == is_right
    assert not told(gust, sd.ExactNoise("Heun"), 0.01, 21.0)


LOW_PASS = "low pass\nR1 x 0 1k\nC1 x 0 10p\n.tran 1n 1u\n"
FILTER = "filter\nV1 a 0 1\nR1 a b 10\nL1 b c 1u\nC1 c 0 1n\nR2 c z 1k\nC2 z 0 10p\n.tran 1n 2u\n"
KT = 1.380649e-23 * 300.15


def test_a_circuit_without_constraints_is_told_as_an_sdae():
    """kT/C, of which implicit Euler's steps h leave 1/(1 + h/2RC)."""
    circuit = sd.circuits.read(LOW_PASS)
    (words,) = told(circuit, "ImplicitEuler", 2e-8, 2e-6)
    assert "of x at t = 2e-06 50 % too small" in words and f"but it is {KT / 1e-11:.3g}" in words
    longest = float(re.search(r"Take steps of (\S+) or less", words)[1])
    shares = [1.0 / (1.0 + factor * longest / 2e-8) for factor in (1.0, 1.25)]
    assert 1.0 - shares[0] <= 0.05 < 1.0 - shares[1]
    assert not told(circuit, "Trapezoidal", 2e-8, 2e-6)


def test_a_circuit_with_constraints_is_told_by_the_variances_of_all_its_unknowns():
    """The inductor's current is the worst, as are i(v1) = -i and v(b) = 1 - 10 i: by implicit Euler on (c, z, i)."""
    M = np.diag([1e-9, 1e-11, 1e-6])
    f_x = np.array([[-1e-3, 1e-3, 1.0], [1e-3, -1e-3, 0.0], [-1.0, 0.0, -10.0]])
    g = np.array([[0.0, (2 * KT / 1e3) ** 0.5], [0.0, -((2 * KT / 1e3) ** 0.5)], [(2 * KT * 10.0) ** 0.5, 0.0]])
    h, steps = 2e-8, 100
    step = np.linalg.inv(M - h * f_x)
    P = np.zeros((3, 3))
    for _ in range(steps):
        P = step @ (M @ P @ M + h * g @ g.T) @ step.T
    (words,) = told(sd.circuits.read(FILTER), "ImplicitEuler", h, steps * h)
    share = P[2, 2] / (KT / 1e-6)
    worst = {"i(l1)": 1.0, "i(v1)": 1.0, "b": 100.0}
    name, error, by_steps, exact = re.search(
        r"of (\S+) at t = 2e-06 (\S+) % too small: (\S+), but it is (\S+)\.", words
    ).groups()
    assert error == f"{100 * (1 - share):.3g}"
    assert by_steps == f"{worst[name] * P[2, 2]:.3g}" and exact == f"{worst[name] * KT / 1e-6:.3g}"


ORDINARY = {
    "low pass": LOW_PASS,
    "filter": FILTER,
    "driven": "driven\nV1 a 0 SIN(0 1 1meg)\nR1 a x 1k\nC1 x 0 100p\n.tran 1n 5u\n",
    "ladder": "ladder\nV1 a 0 PULSE(0 1 0 1n 1n 1u 2u)\nR0 a n1 50\nL1 n1 n2 250n\nC1 n2 0 100p\nL2 n2 n3 250n\n"
    "C2 n3 0 100p\nRL n3 0 50\n.tran 1n 4u\n",
    "amplifier": "amplifier\nV1 in 0 1\nR1 in m 1k\nR2 m out 10k\nC2 m out 1n\nE1 out 0 0 m 1e5\nC3 m 0 1p\n"
    ".tran 100n 200u\n",
    "bridge": "bridge\nV1 a 0 5\nR1 a p 1k\nR2 p 0 1k\nR3 a q 1k\nR4 q 0 1.01k\nC1 p q 1n\nC2 p 0 10p\n.tran 10n 20u\n",
    "tank": "tank\nL1 x 0 1u\nC1 x 0 1n\nR1 x 0 100k\n.tran 5n 20u\n",
}


@pytest.mark.parametrize("name", ORDINARY)
def test_nothing_is_told_of_ordinary_circuits_by_the_default(name):
    circuit = sd.circuits.read(ORDINARY[name])
    assert not told(circuit, None, circuit.step, circuit.span[1])


def test_circuits_that_are_not_linear_are_left_alone():
    diode = LOW_PASS.replace(".tran", "D1 x 0 dio\n.model dio D(IS=1e-14)\n.tran")
    assert not told(sd.circuits.read(diode), "ImplicitEuler", 2e-8, 2e-6)


def test_exact_steps_beside_a_coloured_load_are_taken_without_a_word():
    """Their matrices are made for the problem as a whole: they cannot be asked for its linear part."""
    ship = sd.Mechanical.from_matrices([1.0], [[0.3]], [[0.6]])
    loaded = sd.with_noise(ship, co.gauss_markov(1.0, 2.0), into=[1.0])
    sd.simulate(loaded, "VanLoan", t=(0, 20), dt=0.5, paths=4, seed=1)


def test_starts_that_are_very_far_away_have_their_spread():
    """A start 1 further on was the same number, so that the variance of the steps was taken for 0."""
    far = sd.SDE(lambda t, x: -x, lambda t, x: jnp.ones((1, 1)), lambda rng, size: 1e90 * rng.normal(size=(size, 1)))
    sd.simulate(far, "Heun", t=(0, 1), dt=0.05, paths=4, seed=1)


def test_a_stop_hides_no_wrong_variance():
    mast = sd.Mechanical(lambda t, x, v: -2500.0 * x - v, lambda t, x, v: 3.0, (0.0, 0.0))
    with pytest.warns(ResponseNotDelivered, match=r"dx at t = 2 52\.5 % too small"):
        sd.simulate(mast, "StochasticAlpha", t=(0, 2), dt=0.1, paths=8, seed=1, stop=sd.Stop(sd.Level(0.01)))
