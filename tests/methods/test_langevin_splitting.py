"""Chains in baths: noise of all coordinates from one function; BAOAB and OBABO on them (claims: tests/claims)."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.methods import langevin
from stodyn.methods.langevin_splitting import BAOAB, OBABO, damping
from stodyn.noise.increment import Increment
from stodyn.numerics import uncompiled
from stodyn.numerics.printing.points import at_one

N, GAMMA, KT = 12, 0.8, 0.6


def energy(t, q, p, c):
    stretch = jnp.diff(jnp.concatenate([jnp.zeros(1), q, jnp.zeros(1)]))
    return 0.5 * jnp.sum(p**2) + jnp.sum(0.5 * stretch**2 + 0.25 * c["beta"] * stretch**4)


def kinetic(t, q, p):
    return 0.5 * jnp.sum(p**2)


def channels(t, q, p):
    return -q


def chain(size=N, h=None, beta=1.0, friction=GAMMA):
    h = h or (lambda t, q, p, c: -c["sigma"] * q)
    params = {"beta": beta, "gamma": friction, "sigma": np.sqrt(2 * np.asarray(friction) * KT)}
    return sd.Hamiltonian(energy, h, lambda t, q, p, c: -c["gamma"] * p, start=(np.zeros(size), np.zeros(size)),
                          params=params)  # fmt: skip


def test_a_function_of_all_channels_is_as_many_functions():
    one = chain(3)
    other = chain(3, [lambda t, q, p, c, r=r: -c["sigma"] * q[r] for r in range(3)])
    assert one.m == other.m == dataclasses.replace(one, periodic=None).m == 3
    assert pickle.loads(pickle.dumps(sd.Hamiltonian(kinetic, channels, start=([0.0] * 3, [0.0] * 3)))).m == 3
    assert one.noise_structure.kinds == other.noise_structure.kinds
    x, params, W = np.arange(6.0), one.params, np.array([1.0, -2.0, 0.5])
    matrices = [at_one(lambda x: problem.g(0.0, x, params), x) for problem in (one, other)]
    np.testing.assert_allclose(*matrices, rtol=1e-15)
    for problem in (one, other):
        moved = at_one(lambda x: jnp.concatenate(problem.kick(0.0, *problem.split(x), params, W)), x)
        np.testing.assert_allclose(moved, matrices[1] @ W, rtol=1e-15)
    runs = [
        sd.simulate(problem, "BAOAB", t=(0, 0.3), dt=0.1, paths=8, seed=2, collect=sd.statistics.Paths(4))
        for problem in (one, other)
    ]
    np.testing.assert_allclose(runs[0].path, runs[1].path, rtol=1e-13)


def test_what_is_known_of_long_chains_is_known_from_whole_arrays():
    short, long = chain(4), chain(40)
    for k in (0, 1, 2):
        for part in ("velocity", "pull", "push"):
            assert short.facts.depends(k, part) == long.facts.depends(k, part), (k, part)
    assert long.separable
    with jax.enable_x64(True):
        γ = damping(long, 0.0, jnp.zeros(40), long.params)
    np.testing.assert_allclose(γ, GAMMA)


@pytest.mark.parametrize("method", [BAOAB, OBABO])
def test_a_chain_has_the_temperature_of_its_bath(method):
    """Kinetic <p²> and configurational <q_i U_i>, both kT, to a bias of order h² and five standard errors."""
    steps, h = 150, 0.1

    def both(t, x, c):
        q, p = x[:N], x[N:]
        return jnp.array([jnp.mean(p**2), jnp.mean(q * jax.grad(lambda q: energy(t, q, 0.0 * p, c))(q))])

    seen = sd.statistics.Observable(both, at=[h * steps])
    run = sd.simulate(chain(), method, t=(0, h * steps), dt=h, paths=1600, seed=6, collect=seen)
    found, error = run["both"].values[0], run["both_stderr"].values[0]
    assert np.all(np.abs(found - KT) < 5 * error + 0.5 * h**2 * KT), (found, error)  # false alarm below 1e-6
    assert np.all(error < 0.01)


def test_frictions_may_differ_where_the_noise_does_not_mix_them():
    different = np.linspace(0.5, 1.5, N)
    assert BAOAB.refusal(chain(friction=different)) is None
    mixed = chain(friction=different, h=lambda t, q, p, c: jnp.array([jnp.sum(q), q[0]]))
    assert "noise of its own" in BAOAB.refusal(mixed)
    assert BAOAB.refusal(chain(h=lambda t, q, p, c: jnp.array([jnp.sum(q), q[0]]))) is None
    for share, refused in ((0.0, False), (1e-6, True)):  # of noise that is small in its units
        pair = sd.Hamiltonian(
            lambda t, q, p: 0.5 * p @ p, lambda t, q, p, c: 1e-8 * jnp.stack([q[0] + c * q[1], q[1]]),
            lambda t, q, p: -jnp.array([0.5, 1.5]) * p, start=([0.5, 0.1], [0.2, 0.3]), params=share,
        )  # fmt: skip
        assert (BAOAB.refusal(pair) is not None) == refused


def test_other_systems_are_refused():
    def system(H=lambda t, q, p: 0.5 * p**2, h=lambda t, q, p: -q, force=lambda t, q, p: -p):
        return sd.Hamiltonian(H, h, force, start=(0.5, 0.5))

    assert "separable" in BAOAB.refusal(system(H=lambda t, q, p: 0.5 * p**2 * (1 + q**2)))
    assert "momenta alone" in BAOAB.refusal(system(h=lambda t, q, p: p))
    assert "additive" in BAOAB.refusal(system(h=lambda t, q, p: q**2))
    assert "friction" in OBABO.refusal(system(force=lambda t, q, p: -(p**3)))
    with pytest.raises(ValueError, match=r"h: returned shape \(2, 2\), expected one number, or a vector"):
        system(h=lambda t, q, p: jnp.ones((2, 2)) * q)


def test_the_exact_spread_is_claimed_of_baoab_alone():
    exact = [any("harmonic" in claim.kind for claim in method.claims) for method in (BAOAB, OBABO)]
    assert exact == [True, False]


def test_the_two_increments_of_a_step_are_independent_and_add_up():
    """W and Z have the covariance [[h, h²/2], [h²/2, h³/3]]; each of the two has the variance h/2."""
    h = 0.3
    (first, second), (third, fourth) = (
        OBABO._increments(Increment(h, W=np.array([w]), Z=np.array([z]))) for w, z in ((1.0, 0.0), (0.0, 1.0))
    )
    C = np.array([[first[0], third[0]], [second[0], fourth[0]]])
    np.testing.assert_allclose(C @ [[h, h**2 / 2], [h**2 / 2, h**3 / 3]] @ C.T, 0.5 * h * np.eye(2), atol=1e-15)
    np.testing.assert_allclose(C.sum(axis=0), [1.0, 0.0], atol=1e-15)


def test_integrals_of_noise_that_is_linear_in_time_are_exact():
    """σ(t) = 2 + 3 t on the momentum: ∫ σ dW = σ(t + h) W - 3 Z, by parts; a constant σ keeps W and Z."""
    noise = Increment(0.5, W=np.array([0.7]), Z=np.array([0.2]))
    for slope in (3.0, 0.0):
        problem = sd.Hamiltonian(
            lambda t, q, p: 0.5 * (p**2 + q**2), h=lambda t, q, p, s=slope: -(2.0 + s * t) * q, start=(0.3, -0.1)
        )

        def both(x, problem=problem):
            return jnp.concatenate(langevin.integrals(problem, 1.0, x, noise, None))

        found = uncompiled.value(both, np.array([0.3, -0.1]))
        once, twice = (2.0 + 1.5 * slope) * 0.7 - slope * 0.2, (2.0 + 1.25 * slope) * 0.2
        np.testing.assert_allclose(found, [0.0, once, 0.0, twice], rtol=1e-14)
