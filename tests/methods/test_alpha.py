"""The stochastic α method: prescribed noise, noise-free recursions, coefficients, special cases, bad input."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.linear import step_map
from stodyn.methods import alpha
from stodyn.methods.alpha import Fields, StochasticAlpha, cheapest, largest_y, stochastic_coefficients
from stodyn.models.beam import BEAM
from stodyn.models.double_pendulum import DOUBLE_PENDULUM
from stodyn.models.spring_pendulum import SPRING_PENDULUM
from stodyn.noise import wiener
from stodyn.noise.increment import Increment
from stodyn.noise.iterated import SecondMoments, Signature, SineSeries
from stodyn.numerics import uncompiled
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.problems.mechanical import Mechanical

RHOS = (0.0, 0.5, 0.8, 1.0)
SCALAR = Mechanical(
    lambda t, x, v: -4.0 * jnp.sin(x) - v - 0.5 * jnp.sin(v), lambda t, x, v: 0.2 + 0.5 * jnp.sin(v), (1.0, 0.5)
)
QUIET_PENDULUM = SPRING_PENDULUM(noise=(0.0, 0.0)).problem
QUIET_DOUBLE = DOUBLE_PENDULUM(noise=(0.0, 0.0)).problem


pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")


def walk(problem, method, h, steps, noise):
    """x and v, φ, and the Newton iterations, along prescribed increments."""

    one = AtPoints(lambda k, state: method.step(problem, k * h, state, noise(k), problem.params))
    state = at_points(lambda x: method.start(problem, 0.0, x, problem.params), problem.example_start()[None])
    iterations = 0
    for k in range(steps):
        state, report = one(np.array([k]), state)
        assert report.ok.all()
        iterations += int(report.iterations.sum())
    shown, φ = state
    return shown[0], φ[0], iterations


# --- coefficients -----------------------------------------------------------------------------------------------------

COEFFICIENTS = {  # y = h Σ η²: (β, γ) for each of RHOS
    0.01: [(0.99937070801902, 1.49874141603804), (0.44429710488972, 0.83289131466915),
           (0.30856380206562, 0.61082968743624), (0.24994768898973, 0.49979075595890)],
    0.1: [(0.99332530455384, 1.48665060910768), (0.44290555420382, 0.82871666261145),
          (0.30782938829434, 0.60818579785961), (0.24945656794582, 0.49782627178327)],
    1.0: [(0.90021181307843, 1.30042362615686), (0.42313719851437, 0.76941159554310),
          (0.29770478999512, 0.57173724398244), (0.24269711185654, 0.47078844742617)],
    4.0: [(1 / 3, 1 / 6), (0.30115488124590, 0.40346464373769),
          (0.23537886148216, 0.34736390133576), (0.2, 0.3)],
}  # fmt: skip


@pytest.mark.parametrize("y", COEFFICIENTS)
def test_stochastic_coefficients_are_the_tabulated_ones(y):
    np.testing.assert_allclose([stochastic_coefficients(ρ, y) for ρ in RHOS], COEFFICIENTS[y], rtol=1e-13)


def test_stochastic_coefficients_tend_to_the_deterministic_ones_and_end_where_they_are_not_real():
    for ρ in np.linspace(0.0, 1.0, 11):
        plain = StochasticAlpha(rho=ρ).coefficients(0.1)
        np.testing.assert_allclose(stochastic_coefficients(ρ, 1e-14), plain[2:], rtol=1e-13)
        assert plain.is_second_order
    found = [largest_y(ρ) for ρ in (0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0)]
    np.testing.assert_allclose(found, [4.0404, 4.4055, 4.7073, 4.8295, 4.9308, 5.0676, 5.1136], atol=5e-5)
    within = StochasticAlpha(rho=0.8, parameters="stochastic", eta=(3.0, 4.0))
    assert np.all(np.isfinite(within.coefficients(5.06 / 25.0)))
    np.testing.assert_allclose(within.coefficients(0.04)[2:], COEFFICIENTS[1.0][2], rtol=1e-13)


@pytest.mark.parametrize("method", [StochasticAlpha, alpha.HHT, alpha.WBZ], ids=repr)
def test_rho_is_what_a_step_leaves_of_an_oscillation_that_is_much_too_fast(method):
    assert method(rho=0.6).coefficients(0.1).is_second_order
    stiff = Mechanical(lambda t, x, v: -1e12 * x, lambda t, x, v: 1.0, (1.0, 0.0))
    assert step_map(stiff, method(rho=0.6), 1.0).spectral_radius() == pytest.approx(0.6, abs=1e-3)


# --- prescribed noise -------------------------------------------------------------------------------------------------


def prescribed(h, size, small, smaller):
    def noise(k):
        W = size * jnp.cos(k)
        return Increment(
            h, W[None], (h * W / 2 + small * jnp.sin(k))[None], words={(1, 1, 0): smaller * jnp.cos(2 * k)}
        )

    return noise


@pytest.mark.parametrize(
    ("order", "expected"),
    [(1.0, (0.2875961503221142, -1.2128159628584414)), (1.5, (0.28687508021804675, -1.210919134626574))],
)
def test_a_scalar_problem_along_prescribed_integrals(order, expected):
    found = walk(SCALAR, StochasticAlpha(0.8, order, tol=1e-13), 1 / 16, 16, prescribed(1 / 16, 0.25, 1e-3, 1e-4))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_the_operators_of_itos_formula():
    fields, at = Fields(SCALAR, jnp.zeros(0), None, 2.0), (0.0, jnp.array([1.0]), jnp.array([0.5]))
    a, b, L0 = fields.a, fields.b, fields.L0

    def L(g):
        return fields.L(0, g)

    expected = {
        a: -4.105596708533687, b: 0.4397127693021015, L(b): 0.19294212929002436, L(a): -0.6326548985921259,
        L0(b): -1.82467394947756, L0(a): 4.849666046274967, L(L(b)): 0.038313502668017134,
        L(L(a)): -0.2312556319580415, L(L0(b)): 0.11615656379751918, L0(L(b)): -0.40689100245156573,
        L(L(L(b))): -0.08150427235331852,
    }  # fmt: skip
    found = at_one(lambda *at: [g(*at) for g in expected], *at)
    for value, number in zip(expected.values(), found, strict=True):
        np.testing.assert_allclose(np.ravel(number), value, rtol=1e-13)


@pytest.mark.parametrize(
    ("rho", "expected"),
    [
        (0.0, (1.045991631590828, 0.004561007648413, -3.361685441069189, 0.079885821374921, -122.02779672293758,
               0.573927746471796)),
        (0.8, (1.031222574138904, 0.004558340030985, -4.053839414906624, 0.079848655919859, -71.21974907210029,
               0.694898083219551)),
    ],
)  # fmt: skip
def test_the_spring_pendulum_along_prescribed_integrals(rho, expected):
    noise = prescribed(0.01, 0.1, 1e-4, 1e-5)
    shown, φ, _ = walk(SPRING_PENDULUM.problem, StochasticAlpha(rho, tol=1e-14), 0.01, 10, noise)
    np.testing.assert_allclose([*shown, *φ], expected, rtol=1e-12, atol=1e-14)


# --- without noise ----------------------------------------------------------------------------------------------------

NOISE_FREE = {
    "spring": (QUIET_PENDULUM, [0, 1, 2, 3], {
        0.0: (0.897710061900481, 0.485837992875585, -1.487876461532935, 0.273083306695605),
        0.8: (0.789260327578378, 0.434651197244147, -0.572238312203891, 0.92758514700361),
        1.0: (0.788971029897904, 0.434700546854479, -0.419297471157725, 1.011660735821408),
    }),
    "double pendulum": (QUIET_DOUBLE, [0, 1, 2, 3], {
        0.0: (-0.785456554951, -0.502542148629, -3.872206406892, -1.694562795476),
        0.8: (-0.789539818203, -0.498647780987, -3.849868908199, -1.726675697560),
        1.0: (-0.789587155885, -0.498603587028, -3.849485349222, -1.727214230902),
    }),
    "beam": (BEAM(position=0.0, velocity=0.0, additive=0.0).problem, [4, 9, 29], {
        0.0: (0.335603329463, 0.511797416873, 1.499892526571),
        0.8: (0.335639237003, 0.511754522885, 1.500643049654),
        1.0: (0.335639223671, 0.511754175608, 1.500679591253),
    }),
}  # fmt: skip


@pytest.mark.brief("spring", "double pendulum")  # tests/methods/test_large_alpha.py steps beams
@pytest.mark.parametrize("name", NOISE_FREE)
def test_without_noise_it_is_the_generalised_alpha_method(name):
    problem, shown, expected = NOISE_FREE[name]
    h, none = 0.01, jnp.zeros(problem.m)
    silent = Increment(h, none, none, words={(1, 1): 0.0 * h, (1, 1, 0): 0.0 * h})

    def with_rho(ρ):  # one compiled program for all of them
        method = copy.copy(StochasticAlpha(tol=1e-13))
        object.__setattr__(method, "rho", ρ)
        return method

    def step(ρ, k, state):
        return with_rho(ρ).step(problem, k * h, state, silent, problem.params)[0]

    rhos = np.array(list(expected))
    start = np.tile(problem.example_start(), (len(rhos), 1))
    state = at_points(lambda ρ, x: with_rho(ρ).start(problem, 0.0, x, problem.params), rhos, start)
    stepped = AtPoints(step, (0, None, 0))
    for k in range(100):
        state = stepped(rhos, np.asarray(k), state)
    np.testing.assert_allclose(state[0][:, shown], list(expected.values()), rtol=2e-12, atol=2e-12)


def test_rho_1_is_newmarks_average_acceleration():
    noise = prescribed(0.01, 0.1, 1e-4, 1e-5)
    for problem in (SPRING_PENDULUM.problem, SCALAR):
        one, two, three = (
            np.concatenate(walk(problem, method, 0.01, 50, noise)[:2])
            for method in (
                StochasticAlpha(1.0, tol=1e-14),
                alpha.Newmark(0.25, 0.5, tol=1e-14),
                alpha.General(0.0, 0.0, tol=1e-14),
            )
        )
        np.testing.assert_array_equal(two, three)
        np.testing.assert_allclose(one, two, rtol=1e-11)


def test_the_family_is_one_scheme():
    for ρ in (0.5, 0.8, 1.0):
        for method in (alpha.HHT(ρ), alpha.WBZ(ρ), StochasticAlpha(ρ)):
            assert method.is_second_order and method.promised("deterministic", SCALAR.noise_structure) == 2.0
    assert alpha.Newmark(0.3025, 0.6).promised("deterministic", SCALAR.noise_structure) == 1.0


def test_x_v_and_the_acceleration_are_shown():
    problem = Mechanical(lambda t, x, v: -x, lambda t, x, v: 0.3 * v, (1.0, 0.0), names=("x",), accelerations=True)
    run = sd.simulate(problem, StochasticAlpha(1.0), t=(0, 1), dt=0.1, paths=2, seed=1, collect=st.Paths(2))
    assert list(run.component.values) == ["x", "dx", "ddx"]
    x, φ = (run["path"].sel(component=name).values for name in ("x", "ddx"))
    np.testing.assert_allclose(φ, -x, rtol=1e-12)  # at ρ = 1 φ is the force itself


# --- noise that fits the problem --------------------------------------------------------------------------------------


def problem_of(force, noise, channels=1):
    return Mechanical(force, noise, (np.ones(2), np.full(2, 0.5)))


CASES = {
    "constant, undamped": (lambda t, x, v: -x, lambda t, x, v: jnp.ones((2, 2)), ("WZ", "WZ", "WZ")),
    "additive, linear": (lambda t, x, v: -x - v, lambda t, x, v: jnp.cos(t) * jnp.ones((2, 2)), ("WZ", "WZ", "WZ")),
    "additive, nonlinear": (lambda t, x, v: -x - v**3, lambda t, x, v: jnp.ones((2, 1)), ("WZ", "WZ", "Sine")),
    "position": (lambda t, x, v: -x, lambda t, x, v: x[:, None], ("WZ", "WZ", "Sine")),
    "velocity": (lambda t, x, v: -x, lambda t, x, v: v[:, None], ("two", "two", "Sine")),
    "diagonal": (lambda t, x, v: -x, lambda t, x, v: jnp.diag(v), ("two", "Sig", "Sig")),
    "general": (
        lambda t, x, v: -x,
        lambda t, x, v: jnp.stack([v, jnp.ones(2)], axis=1),
        ("areas", "Sig", "Sig"),
    ),
}
RECIPES = {
    "WZ": wiener.WZ, "two": SecondMoments(0), "areas": SecondMoments(4), "Sine": SineSeries(8), "Sig": Signature,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_step_asks_for_no_more_noise_than_it_needs(name):
    force, noise, recipes = CASES[name]
    problem = problem_of(force, noise)
    for order, recipe in zip(alpha.ORDERS, recipes, strict=True):
        found = cheapest(problem, order, 0.1)
        assert found == RECIPES[recipe] or type(found) is RECIPES[recipe], order
        asked = StochasticAlpha(order=order).needs  # what serves every problem holds all that is needed here
        zeros = {stream: np.zeros(count) for stream, count in asked.normals(problem.m).items()}
        method = StochasticAlpha(order=order)

        def stepped(x, normals, asked=asked, method=method):
            state = method.start(problem, 0.0, x, None)
            return method.step(problem, 0.0, state, asked.increment(0.1, normals, problem.m), None)

        jax.eval_shape(stepped, problem.example_start(), zeros)


def test_areas_are_as_fine_as_the_order_needs_at_the_step():
    """Whatever time is counted in; up to a limit, beyond which the engine warns."""
    for second in (1.0, 60.0):
        problem = Mechanical(
            lambda t, x, v, s=second: -x / s**2,
            lambda t, x, v, s=second: jnp.stack([0.8 * v, jnp.ones_like(v) / s], axis=1) / s**0.5,
            start=([1.0], [0.5 / second]),
        )
        for order, K in ((1.5, 2), (2.0, 12)):
            assert StochasticAlpha(order=order).prepared(problem, 0.01 * second).area == Signature(K)
        assert StochasticAlpha(order=2.0).prepared(problem, 1e-4 * second).area == Signature(alpha.MOST_SUBSTEPS)
        assert StochasticAlpha(order=2.0, area=Signature(5)).prepared(problem, 0.01 * second).area == Signature(5)


def test_one_seed_is_one_path_for_every_rho():
    at = np.linspace(0.0, 0.2, 21)
    runs = [
        sd.simulate(SPRING_PENDULUM(stiffness=50.0).problem, StochasticAlpha(ρ), t=(0, 0.2), dt=0.01, paths=4, seed=3,
                    collect=st.Paths(4, at=at))["path"].values
        for ρ in (0.2, 0.9)
    ]  # fmt: skip
    assert np.abs(runs[0] - runs[1]).max() < 0.02 < np.abs(runs[0][1] - runs[0][0]).max()


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": -0.1}, "rho: expected a number from 0 .* to 1 .*, got -0.1"),
        ({"rho": 1.2}, "rho: expected a number from 0 .* to 1 .*, got 1.2"),
        ({"rho": "high"}, "rho: expected a number"),
        ({"order": 3}, r"order: expected one of \(1.0, 1.5, 2.0\), got 3"),
        ({"parameters": "other"}, 'parameters: expected "deterministic" or "stochastic"'),
        ({"parameters": "stochastic"}, 'eta: belongs to parameters="stochastic"'),
        ({"eta": 1.0}, 'eta: belongs to parameters="stochastic"'),
        ({"parameters": "stochastic", "eta": np.nan}, "eta: expected finite numbers"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        StochasticAlpha(**options)


def test_coefficients_without_a_method_or_its_order_are_refused():
    with pytest.raises(ValueError, match=r"alpha_m, alpha_f: expected less than 1.*Newmark's method has 1 and 1"):
        alpha.General(1.0, 1.0)
    with pytest.raises(ValueError, match=r"order: 2.0 needs γ = 1/2 \+ αf - αm, but here γ is 0.6"):
        alpha.Newmark(0.3025, 0.6, order=2.0)
    with pytest.raises(ValueError, match=r"rho: HHT has 1/2 <= rho <= 1, got 0.2"):
        alpha.HHT(0.2)


def test_a_step_beyond_the_real_range_is_refused_with_the_limit():
    method = StochasticAlpha(0.8, parameters="stochastic", eta=5.0)
    with pytest.raises(ValueError, match=r"dt: .*y = h Σ eta² <= 5\.0676.*y = 6\.25 at h = 0\.25\. Take h <= 0\.2027"):
        sd.simulate(SCALAR, method, t=(0, 1), dt=0.25, paths=2, seed=1)


def test_high_orders_warn_where_the_system_is_stiff():
    with pytest.warns(alpha.StiffWarning, match=r"order=2\.0: .* above 2; at the start it is 4\.47\. .*order=1\.0"):
        StochasticAlpha(order=2.0).prepared(SPRING_PENDULUM.problem, 0.1)
    StochasticAlpha().prepared(SPRING_PENDULUM.problem, 0.1)
    StochasticAlpha(order=2.0).prepared(SPRING_PENDULUM.problem, 0.01)


def test_a_newton_that_diverges_is_flagged_and_counted():
    """With limit=1 the nonlinear step cannot have converged: every path is reported, none is averaged."""
    options = {"t": (0, 0.1), "dt": 0.1, "paths": 8, "seed": 1}
    with pytest.raises(sd.PathsFailed, match=r"8 of the 8 paths .*8 whose implicit equations Newton did not solve"):
        sd.simulate(SCALAR, StochasticAlpha(limit=1), **options)
    run = sd.simulate(SCALAR, StochasticAlpha(limit=1), on_failure="record", **options)
    assert run.sizes["failure"] == 8 and set(run["failure_cause"].values) == {"its equations were not solved"}


def test_a_damper_without_a_slope_at_the_start_is_refused_in_words():
    damper = Mechanical(lambda t, x, v: -x - jnp.sign(v) * jnp.abs(v) ** 0.4, lambda t, x, v: 0.3, (0.0, 0.0))
    for order in (2.0, 1.5):
        with pytest.raises(ValueError, match=f"order: {order} takes the derivative of force .* not finite"):
            sd.simulate(damper, StochasticAlpha(order=order), t=(0, 1), dt=0.1, paths=4, seed=1)


def test_order_2_takes_the_second_slopes_of_the_force_with_their_integrals():
    """dv = v² dt + dW from 0: v(h) = W + ∫W² ds + O(h^2.5) = W + 2 I_(1,1,0) + h²/2 + ..., path by path; in a first
    step, in which φ begins at a, h²/2 is γ (1 - αf)/(1 - αm) h². The rest over h² falls like √h where the step holds
    L¹L¹a (I_(1,1,0) - γ h I_(1,1)), and stays where a part of that is missing.
    """
    method = alpha.StochasticAlpha20
    c = method.coefficients(0.0)
    first = c.gamma * (1 - c.alpha_f) / (1 - c.alpha_m)
    problem = Mechanical(lambda t, x, v: v**2, lambda t, x, v: 1.0, (0.0, 0.0))
    normals = {
        name: np.random.default_rng(k).normal(size=count)
        for k, (name, count) in enumerate(method.needs.normals(1).items())
    }

    def rest(h):
        noise = method.needs.increment(h, {name: jnp.asarray(z) for name, z in normals.items()}, 1)
        start = method.start(problem, 0.0, jnp.zeros(2), None)
        after = method.read(method.step(problem, 0.0, start, noise, None)[0])
        return (after[1] - noise.W[0] - 2.0 * noise.word((1, 1, 0))) / h**2 - first

    found = np.abs(uncompiled.value(jax.vmap(rest), np.array([1e-2, 1e-4, 1e-6])))
    assert found[0] > 8.0 * found[1] > 64.0 * found[2] and found[2] < 1e-2


def test_an_affine_residual_is_solved_in_one_iteration():
    root = alpha.affine_root(lambda x: 2.0 * x - 3.0, jnp.zeros(1), lambda r: 0.5 * r)
    assert root.x[0] == 1.5 and root.iterations == 1


@pytest.mark.parametrize("name", ["HHT", "StochasticAlpha"])
def test_whether_it_takes_a_problem_within_walls_is_answered_as_without(name):
    """The question raised an AttributeError."""
    plain = sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.0))
    assert sd.method(name).refusal(sd.with_walls(plain, sd.Walls({"x": (0.0, None)}, "impact", 0.7))) is None
