"""Variances that the steps of a run deliver, against exact ones: warnings that tell the truth, and none beside them."""

import re
import types
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.linear import step_map
from stodyn.engine import variances
from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.run import Run
from stodyn.engine.spec import describe
from stodyn.methods.alpha import Newmark, StochasticAlpha
from stodyn.noise import coloured as co
from stodyn.noise import wiener
from stodyn.problems.elements import Gap
from stodyn.problems.mechanical_facts import has_constant_slopes
from stodyn.warnings import ResponseNotDelivered

MODE = sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 1.0, (0.0, 0.0))  # its variances are 5


def test_states_are_moved_by_a_small_part_of_the_deviations(monkeypatch):
    """Of the smallest one, and never by more than of 1: near the start the force is then as good as linear."""
    hardening = sd.Mechanical(lambda t, x, v: -x - x**3 - 0.1 * v, lambda t, x, v: 1e-3, (0.0, 0.0))
    run = types.SimpleNamespace(spec=types.SimpleNamespace(times=np.linspace(0.0, 1.0, 11), levels=()))
    for deviations, part in (([1e-3, 2e-2], 1e-3), ([50.0, 20.0], 1.0)):
        monkeypatch.setattr(variances, "deviations_where_nearly_linear", lambda *_, d=deviations: np.array(d))
        assert variances._shift(run, hardening) == variances.SMALL_SHIFT * part


def told(problem, method, dt, end, **options):
    """The warnings of a run of two paths about its variances."""
    with warnings.catch_warnings(record=True) as all_told:
        warnings.simplefilter("always")
        sd.simulate(problem, method, t=(0.0, end), dt=dt, paths=2, seed=1, on_failure="record", **options)
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
    equations = variances._equations(problem)
    return kind(run, equations, *((variances._modes(equations),) if kind is variances._ByModes else ()), 1.0)


@pytest.mark.parametrize("method", ["StochasticAlpha", "Heun"])
def test_a_structure_has_the_same_law_by_its_modes(method):
    """Exact and delivered, at a time and in the long run, to rounding."""
    problem, h = chain(4, lambda K: 0.01 * K), 0.02
    whole, by_modes = (law(problem, method, h, kind) for kind in (variances._Whole, variances._ByModes))
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
    first = told(MODE, "ThetaEuler", 0.5, 400.0)
    monkeypatch.setattr(variances, "_verdict", None)
    assert told(MODE, "ThetaEuler", 0.5, 400.0) == first != []


def test_no_modes_where_forces_of_small_coordinates_are_not_symmetric():
    """Beside a stiff spring the asymmetry of two soft coordinates looked like rounding."""
    K = np.diag([1e12, 1.0, 2.0])
    damped = variances._Equations(np.eye(3), 0.1 * np.eye(3), K, np.ones((3, 1)))
    assert variances._modes(damped) is not None
    K = K + np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.3], [0.0, -0.3, 0.0]])
    assert variances._modes(damped._replace(K=K)) is None
    K[1:, 1:] = [[1.0, 0.3], [0.3 * (1.0 + 1e-14), 2.0]]
    assert variances._modes(damped._replace(K=K)) is not None


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
    """The share is that of constant noise; noise that differs by more than 5 % where it takes x is not judged."""

    def shaken(depends):
        return sd.Mechanical(lambda t, x, v: -16.0 * x - 0.4 * v, lambda t, x, v: 1.0 + depends * x, (0.0, 0.0))

    (words,) = told(shaken(1e-3), None, 1.25, 100.0)
    share = 100.0 * (exact_ratios(StochasticAlpha(area=wiener.WZ), 1.25, sprung(16.0, 0.4), [1 / 12.8, 1.25])[0] - 1.0)
    assert f"{share:.3g} % too large, by the noise as it is at t = 0 where paths start" in words
    assert told(shaken(1e-3), None, 0.05, 100.0) == [] == told(shaken(1.0), None, 1.25, 100.0)
