"""Hamiltonian problems: the equations they stand for, what is proved about them, and what they refuse."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.methods import variational
from stodyn.models.catalogue import catalogue
from stodyn.models.lenard_bernstein import lenard_bernstein
from stodyn.noise.rejection import Rejection
from stodyn.numerics.printing.points import at_one, at_points
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.hamiltonian_facts import Dependence, _by_slopes
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE


def pendulum(**changes):
    given = dict(
        H=lambda t, q, p: 0.5 * p**2 - jnp.cos(q),
        h=lambda t, q, p: 0.3 * jnp.sin(q) * p,
        force=lambda t, q, p: -0.2 * p,
        noise=lambda t, q, p: -0.1 * p,
        start=(1.0, 0.5),
    )
    return Hamiltonian(**(given | changes))


def coupled():
    """Two coordinates, two channels, nothing separable, all forces nonlinear."""
    return Hamiltonian(
        lambda t, q, p, c: 0.5 * p @ p + q[0] ** 2 * q[1] + c["k"] * jnp.sin(q[1]) * p[0],
        (lambda t, q, p, c: q[0] * p[1] + 0.1 * p[0] ** 3, lambda t, q, p, c: jnp.cos(q[0]) * p[1] ** 2),
        lambda t, q, p, c: -c["k"] * (q @ p) * q,
        (lambda t, q, p, c: jnp.stack([p[1] * q[0], p[0] ** 2]), lambda t, q, p, c: -0.3 * p),
        start=([0.4, -0.2], [0.7, 0.3]),
        params={"k": 0.7},
    )


def test_the_equations_of_a_pendulum():
    problem = pendulum()
    f, g = at_one(lambda x: (problem.f(0.0, x, None), problem.g(0.0, x, None)), np.array([1.0, 0.5]))
    np.testing.assert_allclose(f, [0.5, -np.sin(1.0) - 0.1], rtol=1e-15)
    np.testing.assert_allclose(g[:, 0], [0.3 * np.sin(1), -0.15 * np.cos(1) - 0.05], rtol=1e-14)
    assert (problem.n, problem.m, problem.components, problem.calculus) == (2, 1, ("q", "p"), "stratonovich")


def test_ito_drift_is_the_corrected_formula():
    """A_p = -H_q + F + ½ Σ [(h_qp - f_p)(h_q - f) - (h_qq - f_q) h_p], A_q = H_p + ½ Σ [h_pq h_p + h_pp (f - h_q)]."""
    problem, c = coupled(), {"k": 0.7}
    q, p = np.array([0.3, -0.8]), np.array([0.5, 1.1])
    expected = at_one(lambda q, p: written_out_ito_drift(problem, q, p, c), q, p)
    sde = problem.to_sde("ito")
    found = at_one(lambda x: sde.f(0.0, x, c), np.concatenate([q, p]))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert sde.calculus == "ito" and problem.lower(SDE)[0].calculus == "stratonovich" and problem.lower(int) is None


def written_out_ito_drift(problem, q, p, c):
    drift_q = jax.grad(lambda p: problem.H(0.0, q, p, c))(p)
    drift_p = -jax.grad(lambda q: problem.H(0.0, q, p, c))(q) + problem.force(0.0, q, p, c)
    for h, f in zip(problem.h, problem.noise, strict=True):
        h_q, h_p = (jax.grad(h, argnums=i)(0.0, q, p, c) for i in (1, 2))
        (h_qq, h_qp), (h_pq, h_pp) = (
            [jax.jacfwd(jax.grad(h, argnums=i), argnums=j)(0.0, q, p, c) for j in (1, 2)] for i in (1, 2)
        )
        f_q, f_p, force = (*(jax.jacfwd(f, argnums=i)(0.0, q, p, c) for i in (1, 2)), f(0.0, q, p, c))
        drift_q += 0.5 * (h_pq @ h_p + h_pp @ (force - h_q))
        drift_p += 0.5 * ((h_qp - f_p) @ (h_q - force) - (h_qq - f_q) @ h_p)
    return jnp.concatenate([drift_q, drift_p])


def test_dependence_is_proved_from_the_trace():
    problem = pendulum()
    assert not problem.separable and pendulum(h=lambda t, q, p: 0.3 * jnp.sin(q) + p**4).separable
    assert problem.facts.depends(0, "velocity").affine and not problem.facts.depends(0, "velocity").on_q
    assert problem.facts.depends(0, "pull").on_q and not problem.facts.depends(0, "pull").affine_q
    assert problem.facts.depends(1, "pull").is_affine(in_q=False, in_p=True)
    assert not problem.facts.depends(1, "pull").is_affine(in_q=True, in_p=True)
    nothing = Dependence(zero=True, on_q=False, on_p=False, affine_q=True, affine_p=True, affine=True)
    assert pendulum(force=None).facts.depends(0, "push") == pendulum(h=(None,)).facts.depends(1, "pull") == nothing
    assert pendulum(force=lambda t, q, p: (1 - q**2) * p).facts.depends(0, "push").affine_p
    assert not pendulum(force=lambda t, q, p: -(p**3)).facts.depends(0, "push").affine_p


def test_what_a_trace_cannot_show_is_taken_as_general():
    problem = pendulum(force=lambda t, q, p: -jnp.linalg.inv(jnp.array([[1.0 + q * q]]))[0, 0] * p)
    assert problem.facts.depends(0, "push").on_q and not problem.facts.depends(0, "push").affine


def test_channels_of_one_function_are_those_of_as_many_functions_and_one_program():
    """Also where forces stand beside them; the program does not grow with the number of channels."""

    def alike(m, forces=()):
        def h(t, q, p):
            return jnp.sin(jnp.arange(1.0, m + 1) * q[0]) * p[1] + q[1] * p[0] ** 2

        def energy(t, q, p):
            return 0.5 * p @ p

        split = tuple(lambda t, q, p, r=r: h(t, q, p)[r] for r in range(m))
        return (Hamiltonian(energy, one, noise=forces, start=([0.4, -0.2], [0.7, 0.3])) for one in (h, split))

    x = np.array([0.3, -0.8, 0.5, 1.1])
    for forces in ((), (None, lambda t, q, p: q * p[0], lambda t, q, p: -p)):
        whole, split = (at_one(lambda x: one.g(0.0, x, None), x) for one in alike(3, forces))
        np.testing.assert_allclose(whole, split, rtol=1e-13, atol=1e-15)
    few, many = (len(jax.make_jaxpr(lambda x: next(alike(m)).g(0.0, x, None))(x).eqns) for m in (3, 40))
    assert many == few


def brackets(problem, x):
    """Γ_ij and Λ_ij of (3.29), written out, as one vector for each (i, j)."""
    q, p = problem.split(x)
    m = problem.m

    def force(r, q, p):
        return problem.push(r + 1, 0.0, q, p, None)

    def h(r):
        return lambda q, p: problem.energy(r + 1, 0.0, q, p, None)

    result = {}
    for i in range(m):
        for j in range(m):
            hi_q, hi_p = (jax.grad(h(i), argnums=k)(q, p) for k in (0, 1))
            fi = force(i, q, p)
            H = [[jax.jacfwd(jax.grad(h(j), argnums=a), argnums=b)(q, p) for b in (0, 1)] for a in (0, 1)]
            fj_q, fj_p = (jax.jacfwd(lambda q, p: force(j, q, p), argnums=k)(q, p) for k in (0, 1))
            gamma = H[1][0] @ hi_p - H[1][1] @ hi_q + H[1][1] @ fi
            lam = -H[0][0] @ hi_p + H[0][1] @ hi_q + fj_q @ hi_p - fj_p @ hi_q - H[0][1] @ fi + fj_p @ fi
            result[i, j] = jnp.concatenate([gamma, lam])
    return result


@pytest.mark.parametrize(
    ("h", "forces", "kind"),
    [
        ((lambda t, q, p: 0.5 * jnp.sin(q), lambda t, q, p: 0.4 * jnp.cos(q)), None, "additive or commutative"),
        ((lambda t, q, p: 0.25 * q**2, lambda t, q, p: 0.25 * p**2), None, "general"),
        ((lambda t, q, p: q * p, None), (None, lambda t, q, p: -p), "commutative"),
        ((lambda t, q, p: q * p, None), (None, lambda t, q, p: -q), "general"),
        ((lambda t, q, p: q * p, lambda t, q, p: 2.0 * q * p), None, "commutative"),
    ],
)
def test_noise_structure_is_that_of_the_brackets(h, forces, kind):
    problem = Hamiltonian(lambda t, q, p: 0.5 * p**2, h, noise=forces, start=(0.3, -0.4))
    x = np.array([0.7, 0.6])
    table = at_one(lambda x: brackets(problem, x), x)
    commutes = np.allclose(table[0, 1], table[1, 0], atol=1e-12)
    assert commutes == problem.noise_structure.implies("commutative")
    assert problem.noise_structure.kind in kind


def test_periodic_coordinates_are_wrapped():
    rotor = Hamiltonian(lambda t, q, p: 0.5 * p @ p, start=([0.1, 5.0], [3.0, -2.0]), periodic=(1.0, None),
                        h=(lambda t, q, p: 0.0 * q[0],))  # fmt: skip
    run = sd.simulate(rotor, variational.StoermerVerlet, t=(0, 1), dt=0.25, paths=2, seed=0,
                      collect=sd.statistics.Paths(1))  # fmt: skip
    q = run["path"].values[0, :, :2]
    np.testing.assert_allclose(q[:, 0], [0.1, 0.85, 0.6, 0.35, 0.1], atol=1e-12)
    np.testing.assert_allclose(q[:, 1], 5.0 - 0.5 * np.arange(5), atol=1e-12)


def test_a_system_without_noise_runs():
    free = Hamiltonian(lambda t, q, p: 0.5 * (p**2 + q**2), start=(1.0, 0.0))
    assert free.m == 0 and free.noise_structure.implies("additive")
    for method in ("StoermerVerlet", "Heun"):
        run = sd.simulate(free, method, t=(0, 1), dt=0.01, paths=1, seed=0)
        np.testing.assert_allclose(run["mean"].values[-1], [np.cos(1.0), -np.sin(1.0)], atol=1e-4)


def test_random_starts_have_their_law_and_shape():
    rng = np.random.default_rng(1)
    normal = scipy.stats.norm(2.0, 0.5)
    problem = pendulum(start=(normal, 0.5))
    z = problem.draw_start(rng, range(20000))
    assert z.shape == (20000, 2) and np.all(z[:, 1] == 0.5)
    assert abs(z[:, 0].mean() - 2.0) < 5 * 0.5 / np.sqrt(20000)
    np.testing.assert_array_equal(
        problem.to_sde().draw_start(np.random.default_rng(3), range(7)),
        problem.draw_start(np.random.default_rng(3), range(7)),
    )
    paired = pendulum(start=(sd.PerPath([1.0, 2.0, 3.0]), sd.PerPath([4.0, 5.0, 6.0])))
    np.testing.assert_array_equal(paired.to_sde().draw_start(rng, range(1, 3)), [[2.0, 5.0], [3.0, 6.0]])


def test_rejection_draws_from_the_density():
    """The density 6x(1-x) on [0, 1] times a normal: mean 1/2, variance 1/20; 5 standard errors (6e-7)."""
    draw = Rejection(lambda z: z[:, 0] * (1 - z[:, 0]) * np.exp(-0.5 * z[:, 1] ** 2), (0, -6), (1, 6), 0.25)
    z, size = draw(np.random.default_rng(0), 40000), 40000
    assert z.shape == (size, 2)
    assert abs(z[:, 0].mean() - 0.5) < 5 * np.sqrt(1 / 20 / size)
    assert abs(z[:, 1].var() - 1.0) < 5 * np.sqrt(2 / size)
    assert scipy.stats.kstest(z[:, 0], scipy.stats.beta(2, 2).cdf).pvalue > 1e-6
    with pytest.raises(ValueError, match=r"density: found 0\.1.*expected values from 0 to bound = 0\.1"):
        Rejection(draw.density, (0, -6), (1, 6), 0.1)(np.random.default_rng(0), 100)
    with pytest.raises(ValueError, match="corners of a finite box"):
        Rejection(draw.density, (0, 1), (1, 1), 0.1)


def test_names_count_coordinates_or_components():
    """As in Mechanical; a copy keeps them."""
    named = pendulum(names=("angle",))
    assert named.components == dataclasses.replace(named, start=(1.0, 0.0)).components == ("angle", "p_angle")
    assert pendulum(names=("angle", "momentum")).components == ("angle", "momentum")
    mass = Mechanical(lambda t, x, v: -x, None, (0.0, 1.0), names="x", accelerations=True)
    assert mass.components == dataclasses.replace(mass, start=(1.0, 0.0)).components == ("x", "dx", "ddx")
    assert Mechanical(lambda t, x, v: -x, None, (0.0, 1.0), names=("x", "v")).components == ("x", "v")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"H": lambda t, q, p: jnp.stack([q, p])}, ValueError, r"H: returned shape \(2,\), expected one number"),
        ({"h": (lambda t, q, p: jnp.ones(3) * q,)}, ValueError, r"h\[0\]: returned shape \(3,\), expected one number"),
        ({"noise": (lambda t, q, p: q, None)}, ValueError, "noise: 2 functions were given, but h has 1"),
        ({"noise": lambda t, q, p: jnp.ones(2)}, ValueError, r"^noise: returned shape \(2,\), expected \(\)"),
        ({"noise": (lambda t, q, p: jnp.ones(2),)}, ValueError, r"^noise\[0\]: returned shape \(2,\), expected \(\)"),
        ({"force": lambda t, q, p: jnp.ones(2)}, ValueError, r"force: returned shape \(2,\), expected \(\)"),
        (
            {"h": (), "noise": lambda t, q, p: sd.diagonal(jnp.ones(1))},
            TypeError,
            r"return an array here\. A Ham.* h=lambda",
        ),
        ({"start": (1.0, [0.5, 0.2])}, ValueError, "two numbers or two vectors of one length"),
        ({"start": None}, ValueError, "start: missing"),
        ({"start": (1.0, 2.0, 3.0)}, ValueError, r"expected \(q0, p0\), got 3 entries"),
        ({"H": lambda q, p: q * p}, TypeError, r"H: must take H\(t, q, p\)"),
        ({"h": (3.0,)}, TypeError, r"h\[0\]: expected a function"),
        ({"h": 3.0}, TypeError, r"h: expected a function of .* or a tuple of one per channel, got 3\.0"),
        ({"periodic": (1.0, 2.0)}, ValueError, "periodic: expected 1 periods"),
        ({"periodic": -1.0}, ValueError, "periodic: expected 1 periods > 0"),
        (
            {"names": ("a", "b", "c")},
            ValueError,
            "names: expected 1 different names, one per coordinate, or 2",
        ),
    ],
)
def test_functions_of_wrong_shape_are_named(changes, error, words):
    with pytest.raises(error, match=words):
        pendulum(**changes)


def test_hamiltonian_models_are_in_the_catalogue():
    wanted = {"damped_kubo", "van_der_pol", "lenard_bernstein", "lorentz_collisions", "harmonic_langevin"}
    assert wanted <= set(catalogue())
    kubo, plain = catalogue()["damped_kubo"].problem, catalogue()["kubo"].problem
    x = jnp.array([0.3, -0.7])
    np.testing.assert_allclose(kubo.f(0.0, x, kubo.params), plain.f(0.0, x, plain.params), rtol=1e-15)
    np.testing.assert_allclose(kubo.g(0.0, x, kubo.params), plain.g(0.0, x, plain.params), rtol=1e-15)


def test_exact_values_of_the_models():
    vdp, lb = catalogue()["van_der_pol"].exact, catalogue()["lenard_bernstein"].exact
    found = vdp["averaged_energy"](np.array([0.0, 500, 1000, 2000, 2500, 4000, 5000, 10000]))
    np.testing.assert_allclose(found, [1.0, 1.6715, 1.9985, 2.2328, 2.2728, 2.3099, 2.3143, 2.31596], atol=6e-5)
    assert vdp["averaging_limit"]() == pytest.approx(2.31595745816, abs=1e-11)
    E = np.linspace(0, 14, 20001)
    assert np.trapezoid(vdp["averaged_density"](E), E) == pytest.approx(1.0, abs=1e-7)
    assert lb["ergodic_energy"]() == pytest.approx(0.4717045212157638, abs=1e-15)
    assert lb["initial_energy"]() == pytest.approx(3.0416667, abs=5e-8)
    assert catalogue()["lorentz_collisions"].exact["mean_energy"]() == 1.0


def test_lorentz_noise_and_drift_keep_the_energy():
    """dH = ∇H · (f dt + g ∘ dW) = 0 in every state: the corrected force of (4.16)."""
    problem = catalogue()["lorentz_collisions"].problem

    def rates(x):
        slope = jax.grad(lambda x: problem.energy(0, 0.0, *problem.split(x), problem.params))(x)
        return slope @ problem.f(0.0, x, problem.params), slope @ problem.g(0.0, x, problem.params)[:, 0]

    by_drift, by_noise = at_points(rates, np.random.default_rng(0).standard_normal((5, 4)))
    assert np.abs(by_drift).max() < 1e-13 and np.abs(by_noise).max() < 1e-14


def test_lenard_bernstein_starts_from_its_density():
    problem = catalogue()["lenard_bernstein"].problem
    z = problem.draw_start(np.random.default_rng(5), range(40000))
    H = 0.5 * z[:, 1] ** 2 + 3 / (4 * np.pi) * np.sin(4 * np.pi * z[:, 0])
    assert abs(H.mean() - 3.0416667) < 5 * H.std() / 200


def test_the_starts_of_the_plasma_have_their_density():
    """Averages over 200 000 draws within 4.5 standard errors of integrals: another seed fails with probability 3e-5."""
    x, v = lenard_bernstein(eps=0.8, a=0.5, v0=4.0, width=0.5).start(np.random.default_rng(7), 200_000).T
    assert x.min() >= 0.0 and x.max() < 1.0
    bump = 0.5 / 1.5
    exact = {
        "cos": (np.cos(2 * np.pi * x), 0.8 / 2),
        "sin": (np.sin(2 * np.pi * x), 0.0),
        "second harmonic": (np.cos(4 * np.pi * x), 0.0),
        "v": (v, bump * 4.0),
        "v²": (v**2, 1 - bump + bump * (16.0 + 0.25)),
        "tail": (v > 3.0, (1 - bump) * scipy.stats.norm.sf(3.0) + bump * scipy.stats.norm.sf(-2.0)),
        "together": (np.cos(2 * np.pi * x) * v, 0.4 * bump * 4.0),
    }
    for name, (values, expected) in exact.items():
        assert abs(values.mean() - expected) < 4.5 * values.std() / np.sqrt(len(x)), name


def test_a_system_without_noise_is_an_sde_with_one_channel_of_zeros():
    still = Hamiltonian(lambda t, q, p: 0.5 * (p @ p + q @ q), start=([1.0], [0.0])).to_sde("ito")
    assert still.m == 1 and np.array_equal(still.g(0.0, jnp.array([1.0, 0.0]), None), np.zeros((2, 1)))


def test_products_of_positions_and_momenta_are_affine_in_each_alone():
    """Found entry by entry for few coordinates, from whole arrays for many."""
    for n in (3, 9):
        arguments = (0.0, np.ones(n), np.ones(n))
        product = _by_slopes(lambda t, q, p: q * p + p, arguments)
        assert product.affine_q and product.affine_p and not product.affine
        assert _by_slopes(lambda t, q, p: q - 2.0 * p, arguments).affine


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda t, q, p: q**2, (False, True, False, False, True, False)),
        (lambda t, q, p: jnp.sin(p), (False, False, True, True, False, False)),
        (lambda t, q, p: 2.0 * q + t, (False, True, False, True, True, True)),
        (lambda t, q, p: 0.0 * q, (True, False, False, True, True, True)),
        (lambda t, q, p: jnp.full_like(q, 2.0), (False, False, False, True, True, True)),
        (lambda t, q, p: p * q**2, (False, True, True, False, True, False)),
    ],
)
def test_dependence_of_few_and_many_coordinates(function, expected):
    """Zero, on q, on p, affine in q, in p, in both."""
    for n in (3, 9):
        assert tuple(_by_slopes(function, (0.0, np.ones(n), np.ones(n)))) == expected
