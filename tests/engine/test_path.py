"""One path in pure JAX: the engine's lane from the same normals, differentiable, jitted, vmapped."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import SDE, PerPath, simulate
from stodyn import statistics as st
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.methods.srk import SRA1
from stodyn.models.geometric_brownian_motion import geometric_brownian_motion
from stodyn.models.kubo import kubo
from stodyn.models.lorenz import lorenz
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.noise import path_normals, wiener
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.lowering import to_stratonovich

STEPS, H, WIDTH = 12, 0.05, 8


def engine_normals(recipe, m, seed, lane):
    """The normals the engine feeds to one path."""
    drawn = {}
    for name, count in recipe.normals(m).items():
        drawn[name] = path_normals.rows(seed, name, lane, 1, STEPS, count)[:, :, 0]
    return drawn


@pytest.mark.brief("Heun", "lowered", "midpoint", "with Z")
@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (lorenz(), EulerMaruyama),
        (kubo(), Heun),
        (to_stratonovich(lorenz()), Heun),
        (kubo(), ImplicitMidpoint),
        (lorenz(), ThetaEuler(theta=0.5)),
        (lorenz(noise="additive"), SRA1),
    ],
    ids=["Euler", "Heun", "lowered", "midpoint", "theta", "with Z"],
)
def test_it_is_the_engines_lane(problem, method):
    run = simulate(
        problem, method, t=(0.5, 0.5 + STEPS * H), dt=H, paths=WIDTH, seed=4, block=WIDTH,
        collect=st.Paths(WIDTH, every=1),
    )  # fmt: skip
    along = jax.jit(lambda noise: sd.path(problem, method, 0.5, noise))
    for lane in (0, 5):
        noise = sd.increments(
            method.needs, problem.m, jnp.full(STEPS, H), engine_normals(method.needs, problem.m, 4, lane)
        )
        states, ok = along(noise)
        assert states.shape == (STEPS + 1, problem.n)
        assert np.all(ok)
        np.testing.assert_allclose(states, run["path"][lane], rtol=1e-12, atol=1e-12)


@pytest.fixture
def noise():
    """One channel over STEPS steps."""
    return sd.increments(wiener.W, 1, jnp.full(STEPS, H), {"W": np.random.default_rng(1).standard_normal((STEPS, 1))})


def test_derivatives_in_closed_form(noise):
    """Euler on dx = μ x dt + σ x dW: x_N = x_0 Π (1 + μh + σW_k), so every derivative is a sum over the factors."""
    problem = geometric_brownian_motion(0.5, 0.4, 1.5)

    def end(params, start, noise):
        return sd.path(problem, EulerMaruyama, 0.0, noise, start=start, params=params)[0][-1, 0]

    by_params, by_start, by_noise = jax.jit(jax.grad(end, argnums=(0, 1, 2)))(problem.params, 1.5, noise)
    W = np.asarray(noise.W)[:, 0]
    factors = 1 + 0.5 * H + 0.4 * W
    x = 1.5 * factors.prod()
    np.testing.assert_allclose(by_params["growth"], x * (H / factors).sum(), rtol=1e-12)
    np.testing.assert_allclose(by_params["volatility"], x * (W / factors).sum(), rtol=1e-12)
    np.testing.assert_allclose(by_start, x / 1.5, rtol=1e-12)
    np.testing.assert_allclose(by_noise.W[:, 0], x * 0.4 / factors, rtol=1e-12)
    np.testing.assert_allclose(by_noise.h, x * 0.5 / factors, rtol=1e-12)


@pytest.mark.brief("problem0-method0")
@pytest.mark.parametrize(("problem", "method"), [(kubo(), ImplicitMidpoint), (lorenz(), ThetaEuler)])
def test_derivatives_through_newton(problem, method):
    """Against central differences of order 2: error 1e-6² + 1e-10/1e-6 of Newton's tolerance."""
    noise = sd.increments(
        wiener.W, problem.m, jnp.full(STEPS, H), {"W": np.random.default_rng(2).standard_normal((STEPS, problem.m))}
    )

    @jax.jit
    def end(params):
        return jnp.sum(sd.path(problem, method(tol=1e-14), 0.0, noise, params=params)[0][-1])

    gradient = jax.jit(jax.grad(end))(problem.params)
    for name, value in problem.params.items():
        step = 1e-5 * (1 + abs(value))
        ahead, behind = (end(problem.params | {name: value + s}) for s in (step, -step))
        np.testing.assert_allclose(gradient[name], (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


def test_derivatives_through_the_making_of_the_problem(noise):
    def end(rate):
        problem = SDE(lambda t, x: -rate * x, lambda t, x: 0.0, 2.0)
        return sd.path(problem, EulerMaruyama, 0.0, noise)[0][-1, 0]

    np.testing.assert_allclose(jax.jit(jax.grad(end))(0.7), -STEPS * H * 2.0 * (1 - 0.7 * H) ** (STEPS - 1), rtol=1e-12)


def test_a_vmapped_ensemble():
    """x(1) of Ornstein-Uhlenbeck from jax.random keys: mean and variance of Euler's own recursion, to 6 errors."""
    problem, paths = ornstein_uhlenbeck(1.0, 0.5, 1.0), 4000

    @jax.jit
    @jax.vmap
    def ends(key):
        return sd.path(problem, EulerMaruyama, 0.0, sd.draw_increments(key, wiener.W, 1, jnp.full(20, H)))[0][-1, 0]

    x = np.asarray(ends(jax.random.split(jax.random.key(3), paths)))
    a = 1 - H
    variance = 0.25 * H * (1 - a**40) / (1 - a * a)
    assert abs(x.mean() - a**20) < 6 * np.sqrt(variance / paths)
    assert abs(x.var(ddof=1) - variance) < 6 * np.sqrt(2 / paths) * variance


def test_it_follows_the_callers_precision():
    problem = ornstein_uhlenbeck()
    for wide, dtype in ((True, np.float64), (False, np.float32)):
        with jax.enable_x64(wide):

            def states():
                noise = sd.draw_increments(jax.random.key(0), wiener.W, 1, jnp.full(3, H))
                return sd.path(problem, EulerMaruyama, 0.0, noise)[0]

            assert jax.jit(states)().dtype == dtype


def test_a_step_that_is_not_solved_is_told(noise):
    problem = SDE(lambda t, x: x**2 + 1.0, lambda t, x: 0.0, 10.0)
    _, ok = sd.path(problem, ThetaEuler, 0.0, noise)
    assert not ok[0]


def test_the_wrong_calculus_is_refused(noise):
    words = r"method: Heun takes stratonovich problems, but this one is ito\. .*lowering\.to_stratonovich\(problem\)"
    with pytest.raises(ValueError, match=words):
        sd.path(geometric_brownian_motion(), Heun, 0.0, noise)


SPINS = np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])


@pytest.mark.brief("BAOAB", "ConformalVerlet", "Milstein", "RK1W4", "SRA1", "StoermerVerlet")
@pytest.mark.parametrize("name", list(catalogue()))
def test_what_a_method_refuses_is_refused_here_too(name):
    """Two channels that do not commute, one, and multiplicative noise on a Hamiltonian system: the method's word."""
    method = catalogue()[name]
    if not isinstance(method, Method):
        return

    def draw():
        return sd.draw_increments(jax.random.key(0), method.needs, 2, jnp.full(2, 0.1))

    spins = SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.einsum("kij,j->ik", SPINS, x), (1.0, 0.5),
                calculus=method.calculus or "ito")  # fmt: skip
    moving = Hamiltonian(
        lambda t, q, p: 0.5 * p**2, [lambda t, q, p: 0.3 * q**2, lambda t, q, p: 0.2 * p**2], start=(1.0, 0.0)
    )
    for problem in (spins, moving):
        taken = problem if isinstance(problem, method.accepts) else (problem.lower(method.accepts) or (None,))[0]
        reason = None if taken is None else method.refusal(taken)
        if reason is not None:
            made = jax.eval_shape(draw)
            with pytest.raises(ValueError, match=re.escape(reason)):
                sd.path(problem, method, 0.0, made)


def test_a_refusal_is_asked_of_problems_that_are_made_while_traced(noise):
    """Of values that are being traced nothing can be asked: the derivative is that of the step."""

    def end(rate):
        return sd.path(SDE(lambda t, x: -rate * x, lambda t, x: rate, 2.0), SRA1, 0.0, drawn)[0][-1, 0]

    drawn = jax.jit(lambda: sd.draw_increments(jax.random.key(0), SRA1.needs, 1, jnp.full(5, 0.1)))()
    assert np.isfinite(jax.jit(jax.grad(end))(0.7))


def test_problems_that_differ_from_path_to_path_need_values(noise):
    drawn = ornstein_uhlenbeck(rate=scipy.stats.norm(1, 1), start=PerPath([1.0, 2.0]))
    with pytest.raises(
        ValueError,
        match=r"start: differs from path to path in this problem; give that of one path, path\(\.\.\., start=",
    ):
        sd.path(drawn, EulerMaruyama, 0.0, noise)
    with pytest.raises(ValueError, match="params: differs from path to path"):
        sd.path(drawn, EulerMaruyama, 0.0, noise, start=1.0)
    states, _ = sd.path(drawn, EulerMaruyama, 0.0, noise, start=1.0, params={"rate": 0.0, "sigma": 1.0})
    np.testing.assert_allclose(states[-1, 0], 1.0 + np.sum(noise.W), rtol=1e-12)


def test_noise_that_is_not_the_paths_is_refused_in_words():
    problem = lorenz(noise="additive")
    key, lengths = jax.random.key(1), jnp.full(4, 0.01)
    with pytest.raises(TypeError, match="recipe: expected the recipe of a method"):
        sd.draw_increments(key, SRA1, problem.m, lengths)
    with pytest.raises(TypeError, match="recipe: expected the recipe of a method"):
        sd.increments("SRA1", problem.m, lengths, {})
    with pytest.raises(ValueError, match="channels: expected a whole number >= 1"):
        sd.draw_increments(key, SRA1.needs, 0, lengths)
    with pytest.raises(ValueError, match=r"dt: expected the length of every step.*jnp\.full"):
        sd.draw_increments(key, SRA1.needs, problem.m, 0.01)
    with pytest.raises(TypeError, match="noise: expected the increments of every step"):
        sd.path(problem, SRA1, 0.0, lengths)
    with pytest.raises(ValueError, match=r"W of shape \(steps, 3\), one column per channel.*got \(4,\) and \(4, 1\)"):
        sd.path(problem, SRA1, 0.0, sd.draw_increments(key, SRA1.needs, 1, lengths))
    with pytest.raises(ValueError, match="SRA1 needs Z besides W, but it holds none"):
        sd.path(problem, SRA1, 0.0, sd.draw_increments(key, wiener.W, problem.m, lengths))
