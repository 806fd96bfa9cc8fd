"""Stability of α methods: matrices read off the step against closed forms, moments without sampling, sampled truths."""

import dataclasses
import functools
import math

import jax
import numpy as np
import pytest
import scipy.linalg

from stodyn.analysis import second_order, stability
from stodyn.analysis.second_order import amplification, dissipation, largest_step, stiff_limit
from stodyn.methods.alpha import HHT, WBZ, Newmark, StochasticAlpha
from stodyn.models.oscillators import NOISY_OSCILLATOR

RHOS = (0.0, 0.5, 0.8, 1.0)
READ = functools.lru_cache(maxsize=None)(lambda ρ, eta=None: StochasticAlpha(ρ, parameters=_kind(eta), eta=eta))


@pytest.fixture(autouse=True, scope="module")
def quick_compiling():
    """Programs that run for milliseconds take seconds to compile: leave most of XLA's optimisations out."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def _kind(eta):
    return "deterministic" if eta is None else "stochastic"


# --- matrices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [StochasticAlpha(0.0), StochasticAlpha(0.5), HHT(0.7), WBZ(0.3)], ids=str)
def test_the_matrices_are_those_of_the_scheme(method):
    """A_d entry by entry; A_s = (R u_R + G u_G) row with the kicks R, G of x and v and row = (χ, η/h, 0)."""
    αm, αf, β, γ = method.coefficients(0.1)
    for Ω, h in ((0.3, 0.1), (2.0, 0.1), (30.0, 0.05)):
        η, χ = 0.7, -1.3
        step = amplification(method, Ω / h, h, η, χ)
        D = (αf - 1) * β * Ω**2 + αm - 1
        expected = np.array([
            [αf * β * Ω**2 + αm - 1, αm - 1, (αm + 2 * β - 1) / 2],
            [γ * Ω**2, (αf - 1) * β * Ω**2 + (1 - αf) * γ * Ω**2 + αm - 1,
             ((αf - 1) * (2 * β - γ) * Ω**2 + 2 * (αm + γ - 1)) / 2],
            [Ω**2, -(αf - 1) * Ω**2, ((αf - 1) * (2 * β - 1) * Ω**2 + 2 * αm) / 2],
        ]) / D  # fmt: skip
        np.testing.assert_allclose(step.deterministic, expected, rtol=1e-9, atol=1e-12)
        u_R, u_G = np.array([αm - 1, -(αf - 1) * γ * Ω**2, -(αf - 1) * Ω**2]) / D, np.array([0.0, h, 0.0])
        row = np.array([χ, η / h, 0.0])
        assert set(step.terms) == {(1,), (1, 0), (1, 1), (1, 1, 0)}
        for word, column in {(1,): u_G, (1, 0): u_R, (1, 1): η * u_G, (1, 1, 0): η * u_R}.items():
            np.testing.assert_allclose(step.terms[word], np.outer(column, row), rtol=1e-9, atol=1e-9)


def test_closed_forms_of_the_paper_corrected():
    for ρ in (0.0, 0.5, 0.8):
        for Ω in (0.3, 1.0, 7.0):
            A = second_order.closed_amplification(ρ, Ω)
            np.testing.assert_allclose(amplification(READ(ρ), Ω, 1.0).deterministic, A, atol=1e-13)
            closed, numeric = second_order.closed_eigenvalues(ρ, Ω), np.linalg.eigvals(A)
            gaps = np.abs(closed[:, None] - numeric)
            assert max(gaps.min(axis=0).max(), gaps.min(axis=1).max()) < 1e-7
    assert second_order.closed_eigenvalues(0.5, 1.0)[0].real == pytest.approx(-0.02919205789, abs=1e-11)
    for y in (1e-4, 1e-3):
        ρ = 0.02
        exact = StochasticAlpha(ρ, 1.0, "stochastic", math.sqrt(y)).coefficients(1.0)[2:]
        np.testing.assert_allclose(second_order.series_coefficients(ρ, y), exact, atol=y**2 + 8 * ρ**5)


def test_the_stiff_limit_has_the_eigenvalues_minus_rho():
    """In the mean all three, and for any noise the formula (14) for two of them."""
    h, η = 0.1, 1.0
    for ρ in (0.5, 0.8):
        step = stiff_limit(READ(ρ), h, η)
        np.testing.assert_allclose(np.poly(step.deterministic), np.poly([-ρ] * 3), atol=1e-9)
        W, Z, S, X = 0.2, 0.013, -0.03, 0.001
        A = step.deterministic + sum(
            value * step.terms[word] for word, value in {(1,): W, (1, 0): Z, (1, 1): S, (1, 1, 0): X}.items()
        )
        pair = second_order.stiff_eigenvalues(READ(ρ).coefficients(h), h, η * W, η * Z, η**2 * S, η**2 * X)
        np.testing.assert_allclose(np.poly(A), np.poly([-ρ, *pair]).real, atol=1e-9)


def test_the_stochastic_coefficients_do_what_they_were_made_for_and_no_more():
    """E θ_1 = -ρ and E(θ_2 + θ_3) = 0 hold, but the means of the two eigenvalues are not -ρ: only that of their sum."""
    ρ, h, η = 0.8, 0.1, 1.0
    for eta, expected in ((η, (-0.7388, -0.8612)), (None, (-0.7195, -0.8805))):
        step = stiff_limit(READ(ρ, eta), h, η)
        λ = np.linalg.eigvals(step.sample(100_000, seed=4))
        nearest = np.argmin(np.abs(λ + ρ), axis=1)
        others = np.array([np.delete(row, k) for row, k in zip(λ, nearest, strict=True)])
        found = np.sort(others.real, axis=1).mean(axis=0)[::-1]
        np.testing.assert_allclose(found, expected, atol=4 * 0.001)
        assert found.mean() == pytest.approx(-ρ, abs=0.004)


# --- mean square ------------------------------------------------------------------------------------------------------

# (η, χ, Ω): the radius of E[A ⊗ A] at h = 0.1 for RHOS, with stochastic and with deterministic coefficients.
RADII = {
    (0, 0, 1): ((0.821857077292, 0.978739788574, 0.998949504058, 1.0),) * 2,
    (0, 0, 10): ((0.0588235294118, 0.465845046137, 0.864512730266, 1.0),) * 2,
    (0.2, 0, 0.1): ((1.00189074906, 1.00199673635, 1.00200160595, 1.00200170286),
                    (1.00188586823, 1.00199498353, 1.00200048579, 1.00200086915)),
    (0.2, 0, 1): ((0.823573514093, 0.980473238193, 1.00075290679, 1.00180364911),
                  (0.823384105759, 0.980361272201, 1.00066741171, 1.00173680219)),
    (1, 0, 0.1): ((1.05557453571, 1.05603907432, 1.05608172469, 1.05608085103),
                  (1.05543539399, 1.05598693112, 1.0560478387, 1.05605536246)),
    (1, 0, 1): ((0.866845620688, 1.02426384522, 1.04625555313, 1.04731977387),
                (0.86185458203, 1.02132684872, 1.04399703447, 1.0455364279)),
    (1, 0, 10): ((0.125122533904, 0.491936226124, 0.882679169719, 1.02737887833),
                 (0.122270607454, 0.490571100607, 0.881962719044, 1.01886199717)),
    (1, 0, 100): ((0.109299143208, 0.395148916539, 0.732391109074, 1.02641109741),
                  (0.10903135102, 0.415972406242, 0.76847940615, 1.01838237457)),
    (0, 1, 0.1): ((1.04698318035, 1.04734235957, 1.04737852578, 1.04738282301),) * 2,
    (0, 1, 1): ((0.822254927836, 0.979152280903, 0.999379385467, 1.00043333332),) * 2,
    (1, 1, 1): ((0.867034955402, 1.02485719258, 1.04693137635, 1.04800260085),
                (0.862013505539, 1.02190244049, 1.04465954643, 1.04620907643)),
    (1, 1, 10): ((0.124963179862, 0.491841910782, 0.882657262377, 1.02737780351),
                 (0.12209939185, 0.490466874526, 0.881933244045, 1.01885668863)),
}  # fmt: skip


@pytest.mark.brief("0.0", "0.8")
@pytest.mark.parametrize("ρ", RHOS)
def test_mean_square_radii(ρ):
    k = RHOS.index(ρ)
    for (η, χ, Ω), (stochastic, plain) in RADII.items():
        for method, expected in ((READ(ρ, float(η)), stochastic), (READ(ρ), plain)):
            radius = amplification(method, Ω / 0.1, 0.1, η, χ).mean_square_radius
            assert radius == pytest.approx(expected[k], abs=2e-10 if ρ < 1 else 1e-8), (η, χ, Ω)


def test_the_mean_square_matrix_is_a_rank_one_change_for_any_number_of_channels():
    """E[A ⊗ A] = A_d ⊗ A_d + w k' with w and k from the moments of the kicks; stability by one number."""
    h, ω, η, χ = 0.1, 20.0, np.array([0.6, -0.3]), np.array([0.5, 2.0])
    step = amplification(READ(0.5), ω, h, η, χ)
    αm, αf, β, γ = READ(0.5).coefficients(h)
    Ω2, N, c2, p = (ω * h) ** 2, η @ η, χ @ χ, η @ χ
    D = (αf - 1) * β * Ω2 + αm - 1
    R, G = np.array([αm - 1, -(αf - 1) * γ * Ω2, -(αf - 1) * Ω2]) / D, np.array([0.0, h, 0.0])
    w = (h**3 / 3 + N * h**4 / 12) * np.kron(R, R) + (h + N * h**2 / 2) * np.kron(G, G)
    w = w + (h**2 / 2 + N * h**3 / 6) * (np.kron(R, G) + np.kron(G, R))
    e1, e2 = np.eye(3)[:2]
    k = c2 * np.kron(e1, e1) + p / h * (np.kron(e1, e2) + np.kron(e2, e1)) + N / h**2 * np.kron(e2, e2)
    twice = np.kron(step.deterministic, step.deterministic)
    np.testing.assert_allclose(step.mean_square, twice + np.outer(w, k), rtol=1e-9, atol=1e-10)
    number = k @ np.linalg.solve(np.eye(9) - twice, w)
    assert (number < 1) == step.is_mean_square_stable


def test_second_moments_without_sampling():
    exact = NOISY_OSCILLATOR.exact["second_moments"](1.0)
    np.testing.assert_allclose(exact, (1.086934471288, 0.576823799736, 1.032715494523), atol=1e-12)
    scheme = {
        (0.8, 10): (1.0619990290413, 0.6353398114166, 1.1845777735926),
        (0.8, 40): (1.0824964667040, 0.5810189438613, 1.0612398337511),
        (0.8, 160): (1.0859401666238, 0.5771859695684, 1.0392048216157),
        (0.0, 40): (1.0786278949091, 0.5962667189497, 1.0724080767972),
        (1.0, 40): (1.0825328258457, 0.5808071451521, 1.0610785913434),
    }
    for (ρ, N), expected in scheme.items():
        found = amplification(READ(ρ), 3.0, 1.0 / N, 0.5, 1.0).second_moments(1.0, 0.0, -9.0, N)[-1]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("order", "weak"), [(1.0, 1.0), (1.5, 2.0), (2.0, 2.0)])
def test_the_weak_order_that_second_moments_show(order, weak):
    exact = NOISY_OSCILLATOR.exact["second_moments"](1.0)
    errors = [
        np.linalg.norm(
            amplification(StochasticAlpha(0.8, order), 3.0, 1 / N, 0.5, 1.0).second_moments(1.0, 0.0, -9.0, N)[-1]
            - exact
        )
        for N in (640, 1280, 2560)
    ]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), weak, atol=0.03)


def test_the_growth_of_second_moments_tends_to_that_of_the_equation():
    """It is positive for any noise: mean-square stability at small steps is impossible."""
    for (η, χ), rate in {(0.5, 1.0): 0.18577762, (0.5, 0.0): 0.1250542770, (0.0, 1.0): 0.0555507938}.items():
        model = NOISY_OSCILLATOR(eta=η, chi=χ)
        assert model.exact["growth"]() == pytest.approx(rate, abs=5e-9)
        assert math.log(amplification(READ(0.8), 3.0, 1e-3, η, χ).mean_square_radius) / 1e-3 == pytest.approx(
            rate, rel=1e-3
        )
    for h, expected in {0.1: 0.18395782, 0.05: 0.18547775, 0.025: 0.18578024, 0.0125: 0.18581679}.items():
        radius = amplification(READ(0.8, 0.5), 3.0, h, 0.5, 1.0).mean_square_radius
        assert math.log(radius) / h == pytest.approx(expected, abs=6e-9)


# --- dissipation, norms, sampled truths -------------------------------------------------------------------------------


def test_dissipation_over_frequency():
    Ω = np.array([1e-2, 0.1, 1.0, 100.0, 1e4])
    for ρ, far in ((0.8, 0.6427), (0.5, None), (1.0, 1.0)):
        found = dissipation(READ(ρ), Ω)
        assert np.all(found.radius <= 1 + 1e-9) and np.all(np.diff(found.radius) <= 1e-9)
        if far is not None:
            assert found.radius[-1] ** 2 == pytest.approx(far, abs=1e-4)
        assert found.radius[0] == pytest.approx(1.0, abs=1e-6)
        assert found.period_elongation[0] == pytest.approx(0.0, abs=1e-4) and found.period_elongation[1] > 0
    trapezoidal = dissipation(READ(1.0), np.array([0.5]))
    assert trapezoidal.period_elongation[0] == pytest.approx(0.5 / (2 * math.atan(0.25)) - 1, rel=1e-9)
    assert trapezoidal.damping[0] == pytest.approx(0.0, abs=1e-9)


def test_norms_of_the_noise_and_what_the_lemmas_say():
    """As ω → 0 the rms is 2/√3 η√h, below the printed √(7/3) η√h; χ alone: 1.155 χ h^1.5, above the printed .577."""
    h = 1e-3
    velocity, position = amplification(READ(0.8), 1e-3, h, 1.0, 0.0), amplification(READ(0.8), 1e-3, h, 0.0, 1.0)
    assert velocity.noise_rms == pytest.approx(2 / math.sqrt(3) * math.sqrt(h), rel=1e-3)
    assert position.noise_rms == pytest.approx(2 / math.sqrt(3) * h**1.5, rel=1e-3)
    mean = position.noise_norm(100_000)
    assert abs(mean.value / h**1.5 - 0.95) < 0.01 and mean.value > h**1.5 / math.sqrt(3)
    rows = {row.name[:3]: row for row in second_order.lemmas(READ(0.8), 3.0, 0.05, 0.5, 0.0, 0.8)}
    assert rows["4.1"].holds and rows["4.3"].holds and not rows["4.5"].holds
    named = {row.name: row for row in second_order.lemmas(READ(0.8), 3.0, 0.05, 0.0, 1.0, 0.8)}
    assert not next(row for name, row in named.items() if name.startswith("4.1")).holds
    assert not next(row for name, row in named.items() if name.startswith("Theorem 4.3")).holds


def test_contractivity_in_a_stated_norm():
    step = amplification(READ(0.5), 30.0, 0.1, 0.3, 0.0)
    P = step.adapted_norm()
    quiet = amplification(READ(0.5), 30.0, 0.1)
    size = quiet.spectral_radius
    assert quiet.contracts_in_mean_square(P) < 1.0 and quiet.contracts_with_probability(P, 100).value == 1.0
    assert quiet.contracts_in_mean_square() > 1.0  # in the Euclidean norm a step without noise does not contract
    square, mean, second = step.contracts_in_mean_square(P), step.contracts_in_mean(P), step.contracts_in_mean(P, 2.0)
    assert 0.9 * square < second.value < square + 4 * second.stderr  # the worst of 400 directions
    assert size**2 <= square and mean.value**2 <= square + 6 * mean.stderr
    assert 0.0 < step.contracts_with_probability(P, 20_000).value <= 1.0


@pytest.mark.brief("0.6-0.0--0.045")
@pytest.mark.parametrize(("η", "χ", "expected"), [(0.6, 0.0, -0.045), (0.0, 1.5, 0.03125)])
def test_almost_sure_exponents(η, χ, expected):
    """Small steps against -η²/8 + χ²/(8ω²), which is right to second order in the noise: 4 standard errors and 5%."""
    found = amplification(READ(1.0), 3.0, 0.02, η, χ).lyapunov(steps=6000, paths=400)
    assert abs(found.value - expected) < 4 * found.stderr + 0.05 * abs(expected)


def test_exponents_of_many_steps_are_those_of_products_of_matrices():
    """All steps with the same integrals, a hundred of them between two sizes; the noise of the last has full rank."""
    steps = [amplification(READ(0.8), 3.0, h, 0.5, 0.2) for h in (0.01, 0.1, 1.0)]
    words = tuple(dict.fromkeys(w for step in steps for w in step.terms))
    terms = dict(zip(words, np.random.default_rng(0).standard_normal((len(words), 3, 3)), strict=True))
    steps.append(dataclasses.replace(steps[1], terms=terms))
    exponents = second_order._exponents(steps, second_order._Integrals(words, 100, 6, 1))
    for step, of_paths in zip(steps, exponents, strict=True):
        P = step.adapted_norm()
        first = np.array([1.0, 0.3 * step.dt, -((step.omega * step.dt) ** 2)])
        for path in range(6):
            states = [first]
            for number in (0, 100):
                drawn = step.sample(600, 1_000_003 + number).reshape(100, 6, 3, 3)[:, path]
                last = functools.reduce(lambda Ξ, A: A @ Ξ, drawn, states[-1])
                size = math.sqrt(last @ P @ last)
                states.append(last / size)
            assert of_paths[path] == pytest.approx(math.log(size) / (100 * step.dt), rel=1e-9, abs=1e-10)


def test_exponents_show_their_sign_at_short_steps():
    """-η²/8 + χ²/(8 ω²), found within 8 % for six seeds. Chance alone was ten times as large with the first order."""
    steps = [amplification(READ(0.8), 30.0, 1e-3 / 30.0, η, χ) for η, χ in ((0.3, 0.0), (0.3, 12.0))]
    words = tuple(dict.fromkeys(w for step in steps for w in step.terms))
    integrals = second_order._Integrals(words, **second_order.SHOWN_BY, seed=1)
    exponents = second_order._exponents(steps, integrals, without_first_order=True).mean(axis=1)
    assert exponents == pytest.approx([-(0.3**2) / 8, (0.4**2 - 0.3**2) / 8], rel=0.25)
    assert largest_step(30.0, 0.3, 0.0, 0.8).almost_surely == (0.0, math.inf)


def test_no_steps_have_no_exponents():
    words = tuple(amplification(READ(0.8), 3.0, 0.1, 0.5, 0.2).terms)
    assert second_order._exponents([], second_order._Integrals(words, 100, 6, 1)).shape == (0, 6)


def test_largest_steps_take_little_time(monkeypatch):
    """The integrals are drawn once for all calls, means that vanish are known, and names of α methods import none."""
    words = second_order._words(2)[:20]
    means = second_order._product_means(words)
    assert (means == [[second_order._product_mean(u, w) for w in words] for u in words]).all()
    monkeypatch.setattr(second_order, "named", None)
    before = largest_step(30.0, 0.3, 0.0, 0.8, method="StochasticAlpha")
    monkeypatch.setattr(second_order, "_draws", None)
    assert largest_step(30.0, 0.3, 0.0, 0.8, method="StochasticAlpha") == before
    second_order._product_mean.cache_clear()
    second_order._product_means.__wrapped__(words)
    assert second_order._product_mean.cache_info().misses < len(words) ** 2 / 5


def test_the_largest_step_is_where_stability_ends():
    found = largest_step(30.0, 0.5, 0.0, 0.8, simulate=False)
    low, high = found.mean_square
    for h, stable in ((0.99 * low, False), (1.01 * low, True), (0.99 * high, True), (1.01 * high, False)):
        assert amplification(READ(0.8), 30.0, h, 0.5).is_mean_square_stable is stable
    assert found.mean == math.inf and found.exact_growth == pytest.approx(0.125, rel=1e-3)
    assert found.exact_exponent == pytest.approx(-0.03125) and found.almost_surely is None
    assert largest_step(3.0, 0.5, 1.0, 1.0, simulate=False).mean_square is None
    assert stability.largest_step is largest_step


def test_paths_die_out_where_second_moments_do():
    """Too slowly for a simulation to show it where steps are short."""
    assert largest_step(3.0, 0.0, 0.0, 0.8).almost_surely == (0.0, math.inf)


@pytest.mark.brief("method1-3.4641016151377544", "Newmark-inf", "method4-0.0")
@pytest.mark.parametrize(
    ("method", "exact"),
    [
        (Newmark(0.0, 0.5), 2.0),  # central differences
        (Newmark(1 / 6, 0.5), math.sqrt(12.0)),  # linear acceleration
        (Newmark, math.inf),  # average acceleration: neither grows nor dies out
        ("Newmark", math.inf),
        (Newmark(0.25, 0.4), 0.0),
        (StochasticAlpha(1.0), math.inf),
    ],
)
def test_the_step_up_to_which_the_mean_does_not_grow_is_the_methods_own(method, exact):
    found = largest_step(3.0, 0.1, 0.0, 0.8, method=method, simulate=False).mean
    assert found == pytest.approx(exact / 3.0, rel=1e-3)


def test_several_channels_are_one_of_their_root_sum_of_squares():
    two = largest_step(30.0, [0.3, 0.4], [0.0, 0.0], 0.8, simulate=False)
    one = largest_step(30.0, 0.5, 0.0, 0.8, simulate=False)
    assert two == pytest.approx(one) if two.mean_square is None else two.mean_square == pytest.approx(one.mean_square)
    assert two.paper == pytest.approx(one.paper) and two.exact_growth == pytest.approx(one.exact_growth)


def test_independent_channels_of_position_and_velocity():
    """Second moments die out between the steps at which ρ(E[A ⊗ A]) is 1. One of them split in two changes no law."""
    η, χ = np.array([0.5, 0.0]), np.array([0.0, 3.0])
    two = largest_step(30.0, η, χ, 0.8, simulate=False)
    low, high = two.mean_square
    for h in (low, high):
        assert amplification(StochasticAlpha(0.8), 30.0, h, η, χ).mean_square_radius == pytest.approx(1.0, abs=1e-9)
    assert two.exact_exponent == pytest.approx(-(0.5**2) / 8 + 3.0**2 / (8 * 30.0**2), rel=1e-13)
    split = largest_step(30.0, [0.3, 0.4, 0.0], [0.0, 0.0, 3.0], 0.8, simulate=False)
    assert split.mean_square == pytest.approx(two.mean_square, rel=1e-9)
    one = largest_step(30.0, 0.5, 3.0, 0.8, simulate=False).mean_square
    assert abs(one[0] / low - 1.0) > 1e-6  # the same noise in one channel has another law


def test_what_is_no_frequency_and_no_alpha_method_is_refused():
    with pytest.raises(ValueError, match="omega: expected a frequency > 0"):
        largest_step(0, 0.5, 0.0, 0.8)
    with pytest.raises(TypeError, match=r"method: expected an α method .* got 'Heun'"):
        dissipation("Heun", 1.0)
    assert dissipation("StochasticAlpha", 1.0) == dissipation(StochasticAlpha, 1.0)


def test_the_adapted_norm_of_slow_and_fast_oscillations():
    """‖A_d Ξ‖_P <= (radius + excess) ‖Ξ‖_P, also where x, h v and h² φ are of sizes 1, 1e-3 and 1e-6. At Ω = 1e3 A_d is
    almost a Jordan block, and only a norm with some excess is well conditioned."""
    for Ω, excess in ((1e-3, 1e-6), (1.0, 1e-6), (1e3, 0.1)):
        step = amplification(READ(0.8), Ω, 1.0)
        P = step.adapted_norm()
        image = step.deterministic.T @ P @ step.deterministic
        units = 1.0 / np.sqrt(np.diagonal(P))
        worst = scipy.linalg.eigh(units[:, None] * image * units, units[:, None] * P * units, eigvals_only=True)[-1]
        assert math.sqrt(worst) <= step.spectral_radius + excess + 1e-9
