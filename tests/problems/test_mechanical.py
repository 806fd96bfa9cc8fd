"""Mechanical problems: masses of every kind, coordinates without inertia, lowering, what is proved, bad input."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods import alpha
from stodyn.methods.alpha import StochasticAlpha
from stodyn.noise.increment import Increment
from stodyn.noise.source import PerPath
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.problems.inertia import is_positive_definite
from stodyn.problems.known_matrices import Product, is_positive
from stodyn.problems.massless import check_mass_at_start
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.mechanical_facts import ADDITIVE_LINEAR, CONSTANT_UNDAMPED
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

M = np.array([[2.0, 0.3], [0.3, 1.0]])
K = np.array([[3.0, -1.0], [-1.0, 2.0]])
START = ((0.5, -0.2), (0.1, 0.3))


@pytest.fixture(autouse=True, scope="module")
def quick_compiling():
    """Programs that run for milliseconds take seconds to compile: leave most of XLA's optimisations out."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def spring(t, x, v):
    return -K @ x - 0.2 * v


def kick(t, x, v):
    return jnp.stack([0.3 * v, jnp.array([0.1, 0.2])], axis=1)


METHOD = StochasticAlpha(0.6, tol=1e-13)


def ends(problem, steps=8, h=0.1):
    """x and v after some steps with made-up noise."""
    rng, channels = np.random.default_rng(5), range(1, problem.m + 1)
    W, Z, II = (h**k * rng.standard_normal((steps, *(problem.m,) * n)) for k, n in ((0.5, 1), (1.5, 1), (1, 2)))
    words = {(j, k, 0): h**2 * rng.standard_normal(steps) for j in channels for k in channels}
    noise, p = Increment(np.full(steps, h), W, Z, II, words), problem.params
    step = AtPoints(lambda t, state, noise: METHOD.step(problem, t, state, noise, p))
    state = at_points(lambda x: METHOD.start(problem, 0.0, x, p), problem.example_start()[None])
    for k in range(steps):
        state, report = step(np.array([k * h]), state, jax.tree.map(lambda a, k=k: a[[k]], noise))
        assert np.all(report.ok)
    return at_points(METHOD.read, state)[0]


def test_every_way_of_giving_a_mass_is_the_same_system():
    """M x'' = f + B ξ, constant, as a function, and solved for by hand."""
    inverse = np.linalg.inv(M)
    by_hand = Mechanical(lambda t, x, v: inverse @ spring(t, x, v), lambda t, x, v: inverse @ kick(t, x, v), START)
    expected = ends(by_hand)
    for mass in (M, lambda t, x, v: jnp.asarray(M)):
        np.testing.assert_allclose(ends(Mechanical(spring, kick, START, mass=mass)), expected, rtol=1e-11)
    diagonal = Mechanical(spring, kick, START, mass=[2.0, 1.0])
    np.testing.assert_allclose(
        ends(diagonal), ends(Mechanical(spring, kick, START, mass=np.diag([2.0, 1.0]))), rtol=1e-13
    )


def test_a_mass_that_depends_on_the_state():
    """A bead on the parabola y = x²/2: (1 + x²) x'' = -x x'² - x, against the same solved for by hand."""
    given = Mechanical(
        lambda t, x, v: -x * v**2 - x, lambda t, x, v: 0.2 * v, (1.0, 0.0), mass=lambda t, x, v: 1.0 + x**2
    )
    solved = Mechanical(
        lambda t, x, v: (-x * v**2 - x) / (1.0 + x**2), lambda t, x, v: 0.2 * v / (1.0 + x**2), (1.0, 0.0)
    )
    np.testing.assert_allclose(ends(given), ends(solved), rtol=1e-11)


# --- coordinates without inertia --------------------------------------------------------------------------------------

# Two masses joined by springs through a massless node x[1]: 0 = k1 (x0 - x1) + k2 (x2 - x1).
K1, K2 = 5.0, 2.0


def three(t, x, v):
    one, two = K1 * (x[0] - x[1]), K2 * (x[2] - x[1])
    return jnp.stack([-x[0] - one - 0.1 * v[0], one + two, -two - 0.1 * v[2]])


def pushes(t, x, v):
    return jnp.stack([0.3 * v[0], jnp.zeros(()), 0.2 + 0.0 * v[2]])[:, None]


NODE = Mechanical(three, pushes, ((0.3, 0.0, -0.2), (0.0, 0.0, 0.5)), mass=[2.0, 0.0, 1.0], names=("a", "b", "c"))


def test_a_massless_node_is_eliminated_exactly():
    k = K1 * K2 / (K1 + K2)

    def force(t, x, v):
        pull = k * (x[0] - x[1])
        return jnp.stack([-x[0] - pull - 0.1 * v[0], pull - 0.1 * v[1]])

    two = Mechanical(
        force,
        lambda t, x, v: jnp.stack([0.3 * v[0], 0.2 + 0.0 * v[1]])[:, None],
        ((0.3, -0.2), (0.0, 0.5)),
        mass=[2, 1],
    )
    found, expected = ends(NODE), ends(two)
    np.testing.assert_allclose(found[[0, 2, 3, 5]], expected, rtol=1e-11)
    assert found[1] == pytest.approx((K1 * found[0] + K2 * found[2]) / (K1 + K2), rel=1e-11)
    assert NODE.motion.r == 2 and "moved: b" in NODE.before_run(0.0)[0]  # the start of the node was a guess


def test_a_singular_mass_without_a_zero_row():
    """The node's equation hidden by mixing rows and columns: x = T y with T regular gives the same motion."""
    T = np.array([[1.0, 0.5, 0.0], [0.2, 1.0, -0.3], [0.0, 0.4, 1.0]])
    mixed = Mechanical(
        lambda t, y, v: T.T @ three(t, T @ y, T @ v),
        lambda t, y, v: T.T @ pushes(t, T @ y, T @ v),
        tuple(np.linalg.solve(T, part) for part in ((0.3, 9 / 70, -0.2), (0.0, 0.0, 0.5))),
        mass=T.T @ np.diag([2.0, 0.0, 1.0]) @ T,
    )
    assert mixed.motion.r == 2
    found, expected = ends(mixed), ends(NODE)
    np.testing.assert_allclose(T @ found[:3], expected[:3], rtol=1e-9)


def test_lowered_to_an_sdae_the_node_moves_the_same():
    sdae, words = NODE.lower(SDAE)
    assert sdae.components == ("a", "b", "c", "da", "dc") and "SDAE" in words
    assert NODE.noise_structure.implies("scalar")
    state = jnp.array([0.3, 0.1, -0.2, 0.4, 0.5])
    drift = np.asarray(sdae.f(0.0, state, None))
    np.testing.assert_allclose(drift[:2], [0.4, 0.5])
    np.testing.assert_allclose(drift[2:], np.asarray(three(0.0, state[:3], jnp.array([0.4, 0.0, 0.5])))[[0, 2, 1]])


@pytest.mark.parametrize(
    ("force", "noise", "message"),
    [
        (lambda t, x, v: jnp.stack([-x[0] * x[2], -x[1] * x[2] + 1.0, x[0] ** 2 + x[1] ** 2 - 1.0]), None,
         "mass: has rank 2 of 3"),
        (lambda t, x, v: jnp.stack([-x[0], -x[1], x[2] - x[0]]), lambda t, x, v: jnp.ones((3, 1)),
         "noise channel 0 enters constraint"),
        (lambda t, x, v: jnp.stack([-x[0], -x[1], x[2] + v[2]]), None,
         "depends on the velocity of a coordinate without inertia"),
    ],
    ids=["index 3", "noise in a constraint", "damping without mass"],
)  # fmt: skip
def test_what_is_not_of_index_1_is_refused_with_the_reason(force, noise, message):
    problem = Mechanical(force, noise, ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0)), mass=[1.0, 1.0, 0.0])
    with pytest.raises(ValueError, match=message):
        problem.before_run(0.0)


# --- lowering ---------------------------------------------------------------------------------------------------------


def test_lowered_to_an_sde_it_is_the_first_order_system():
    problem = Mechanical(spring, kick, START, mass=M, names=("a", "b"), units={"a": "m", "time": "s"})
    sde, words = problem.lower(SDE)
    assert words == "Mechanical -> SDE of (x, v)" and sde.components == ("a", "b", "da", "db")
    assert sde.component_units == {"a": "m", "time": "s"}
    z = jnp.array([0.5, -0.2, 0.1, 0.3])
    inverse = np.linalg.inv(M)
    np.testing.assert_allclose(sde.f(0.0, z, None), [0.1, 0.3, *(inverse @ np.asarray(spring(0.0, z[:2], z[2:])))])
    np.testing.assert_allclose(sde.g(0.0, z, None)[2:], inverse @ np.asarray(kick(0.0, z[:2], z[2:])))
    sdae, _ = problem.lower(SDAE)
    np.testing.assert_array_equal(sdae.mass[2:, 2:], M)
    np.testing.assert_allclose(sdae.f(0.0, z, None)[2:], spring(0.0, z[:2], z[2:]))


def test_methods_for_sdes_take_it():
    problem = Mechanical(spring, None, START, mass=M)
    fine = {"t": (0, 1), "dt": 0.01, "paths": 1, "seed": 1, "collect": st.Moments(at=[1.0])}
    one = sd.simulate(problem, StochasticAlpha(1.0), **fine)["mean"].values
    np.testing.assert_allclose(sd.simulate(problem, "Heun", **fine)["mean"].values, one, atol=2e-4)


# --- what is proved ---------------------------------------------------------------------------------------------------


def test_what_functions_depend_on_is_proved():
    def of(force, noise, **options):
        problem = Mechanical(force, noise, START, **options)
        return problem.facts, problem.noise_structure

    facts, structure = of(lambda t, x, v: -x, lambda t, x, v: jnp.eye(2))
    assert facts.additive and not facts.force_on_v
    assert all(map(structure.implies, ("additive", "commutative", CONSTANT_UNDAMPED)))
    facts, structure = of(lambda t, x, v: -x - jnp.cos(x) * v, lambda t, x, v: jnp.sin(t) * jnp.eye(2))
    assert facts.noise_on_t and facts.linear_damping and structure.implies(ADDITIVE_LINEAR)
    assert not structure.implies(CONSTANT_UNDAMPED)
    facts, structure = of(lambda t, x, v: -x - v**3, lambda t, x, v: jnp.diag(v))
    assert facts.noise_on_v and not facts.linear_damping and structure.implies("commutative")
    assert of(lambda t, x, v: -x, lambda t, x, v: jnp.diag(x))[0] == (False, True, False, False, True, False)
    assert of(lambda t, x, v: -v, lambda t, x, v: t * jnp.eye(2))[0] == (True, False, False, True, True, False)
    facts, structure = of(spring, kick, mass=M)
    assert facts.noise_on_v and facts.linear_damping and structure.kind == "general"
    quiet = Mechanical(spring, None, START)
    assert quiet.m == 0 and quiet.noise_structure.implies(ADDITIVE_LINEAR)


def test_what_a_trace_does_not_show_is_taken_to_be_there():
    """A callback may read anything; without noise there is none that could depend on anything."""

    def force(t, x, v):
        return jax.pure_callback(np.negative, jax.ShapeDtypeStruct((2,), x.dtype), x, vmap_method="broadcast_all")

    assert Mechanical(force, lambda t, x, v: jnp.ones((2, 1)), START).facts == (True, True, True, True, False, False)
    assert Mechanical(force, None, START).facts == (False, False, False, True, False, False)


def test_damping_through_a_coordinate_without_inertia_is_not_linear():
    """x'' = -z x' with 0 = z - x' is x'' = -x'²; with 0 = z - x the damping is linear in x'."""
    for follows, is_linear in ((lambda x, v: v[0], False), (lambda x, v: x[0], True)):
        problem = Mechanical(
            lambda t, x, v, f=follows: jnp.stack([-x[1] * v[0], x[1] - f(x, v)]), None, ((1.0, 1.0), (1.0, 0.0)),
            mass=[1.0, 0.0],
        )  # fmt: skip
        assert problem.facts.linear_damping is is_linear


def test_random_starts_and_parameters():
    starts = PerPath(np.arange(12.0).reshape(6, 2))
    problem = Mechanical(
        lambda t, x, v, k: -k * x, lambda t, x, v, k: v[:, None], (starts, scipy.stats.norm([0.0, 1.0], 1.0)),
        params=scipy.stats.uniform(1.0, 1.0),
    )  # fmt: skip
    drawn = problem.draw_start(np.random.default_rng(1), range(6))
    np.testing.assert_array_equal(drawn[:, :2], starts.values)
    assert drawn.shape == (6, 4)
    run = sd.simulate(problem, StochasticAlpha(), t=(0, 0.2), dt=0.1, paths=6, seed=1, collect=st.Paths(6))
    np.testing.assert_array_equal(run["path"].isel(time=0).sel(component=["x0", "x1"]).values, starts.values)


def test_a_copy_keeps_its_names():
    problem = Mechanical(spring, kick, START, names=("a", "b"), accelerations=True)
    assert problem.components == ("a", "b", "da", "db", "dda", "ddb")
    assert dataclasses.replace(problem, noise=None).components == problem.components


def test_one_path_with_accelerations():
    problem = Mechanical(lambda t, x, v: -x, None, (1.0, 0.0), accelerations=True)
    lengths = np.full(10, 0.1)
    method, noise = StochasticAlpha(1.0, area=alpha.wiener.WZ), Increment(lengths, np.zeros((10, 0)), np.zeros((10, 0)))
    states, ok = at_one(lambda noise: sd.path(problem, method, 0.0, noise), noise)
    assert np.all(ok) and states.shape == (11, 3)
    np.testing.assert_allclose(states[:, 2], -states[:, 0], rtol=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            {"noise": lambda t, x, v: v},
            ValueError,
            r"noise: returned shape \(2,\), expected \(2, channels\).*\[:, None\]",
        ),
        ({"noise": lambda t, x, v: jnp.ones((3, 2))}, ValueError, r"noise: returned shape \(3, 2\), expected \(2,"),
        ({"noise": lambda t, x: x}, TypeError, r"noise: must take noise\(t, x, v\)"),
        ({"force": lambda t, x, v: x[0]}, ValueError, r"force: returned shape \(\), expected \(2,\)"),
        ({"force": 3.0}, TypeError, "force: expected a function"),
        ({"mass": np.ones((3, 3))}, ValueError, r"mass: expected 2 finite numbers \(a diagonal\)"),
        ({"mass": "heavy"}, ValueError, "mass: expected 2 finite numbers"),
        ({"mass": [np.nan, 1.0]}, ValueError, "mass: expected 2 finite numbers"),
        ({"mass": [0.0, 0.0]}, ValueError, "mass: is zero"),
        ({"mass": lambda t, x, v: x}, ValueError, r"mass: returned shape \(2,\), expected \(2, 2\)"),
        ({"start": None}, ValueError, r"start: missing; give \(x0, v0\)"),
        ({"start": (1.0, [1.0, 2.0])}, ValueError, r"start: x0 has the shape \(\) and v0 \(2,\)"),
        ({"start": (1.0, 2.0, 3.0)}, ValueError, r"start: expected \(x0, v0\), got 3 entries"),
        ({"start": ([1.0, np.inf], [0.0, 0.0])}, ValueError, "start x0: not finite"),
        ({"names": ("a",)}, ValueError, "names: expected 2 different names"),
    ],
)
def test_functions_and_starts_that_do_not_fit_are_named(change, kind, message):
    options = {"force": spring, "noise": kick, "start": START} | change
    with pytest.raises(kind, match=message):
        Mechanical(**options)


def test_scalar_noise_is_a_number():
    with pytest.raises(ValueError, match=r"noise: returned shape \(2,\) for scalar x and v.*start=\(\[x0\], \[v0\]\)"):
        Mechanical(lambda t, x, v: -x, lambda t, x, v: jnp.ones(2), (1.0, 0.0))


def test_masses_that_no_body_has_are_refused_by_their_fault():
    def body(mass, start=((1.0, 1.0), (0.0, 0.0))):
        return Mechanical(lambda t, x, v: -x, lambda t, x, v: 0.3 * jnp.ones((2, 1)), start, mass=mass)

    with pytest.raises(ValueError, match=r"mass: is negative in some direction \(its lowest eigenvalue is -100000\)"):
        body([-1e5, 1.0])
    with pytest.raises(ValueError, match=r"mass: is not symmetric, entry \(0, 1\) is 0.5 and \(1, 0\) is 0"):
        body([[1.0, 0.5], [0.0, 1.0]])
    singular = body(lambda t, x, v: jnp.outer(x, x))
    with pytest.raises(
        ValueError, match=r"mass: at the start and t = 0 it is singular, \[\[1.0, 1.0\], \[1.0, 1.0\]\]"
    ):
        sd.simulate(singular, t=(0, 1), dt=0.1, paths=4, seed=1)
    assert "become singular" in singular.failure_suspect and "singular" not in body(None).failure_advice
    for nothing in (0.0, np.nan):
        with pytest.raises(ValueError, match=r"mass: at the start and t = 2 it is singular"):
            body(lambda t, x, v: nothing * jnp.eye(2)).before_run(2.0)
    assert body(lambda t, x, v: jnp.diag(x)).before_run(0.0) == ()


def test_the_equations_of_a_massless_coordinate_are_named_as_they_were_written():
    """Three forces; as an SDAE of (x, v) the last one is row 4 of a drift that nobody has written."""
    problem = Mechanical(
        lambda t, x, v: jnp.stack([-x[0] - v[0], -x[1], -(x[0] + x[1])]),
        lambda t, x, v: jnp.array([[1.0], [0.0], [0.0]]),
        ([1.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        mass=[1.0, 1.0, 0.0],
    )
    with pytest.raises(ValueError, match=r"rank 2 of 3.* 0 = force\[2\] do not determine x2") as refused:
        problem.before_run(0.0)
    assert " f[" not in str(refused.value)


def test_a_mass_of_one_coordinate_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="mass: expected 1 finite number"):
        Mechanical(lambda t, x, v: -x, None, (1.0, 0.0), mass="heavy")


def test_without_noise_there_are_no_kicks():
    problem = Mechanical(spring, None, START)
    assert problem.motion.kicks(0.0, *problem.motion.example_coordinates(), None).shape == (2, 0)


@pytest.mark.parametrize("kind", ["full", "a band", "one long row"])
def test_products_with_matrices_in_every_form(kind):
    n = 40
    full = np.random.default_rng(1).normal(size=(n, n))
    i, j = np.indices((n, n))
    matrix = {"full": full, "a band": full * (np.abs(i - j) < 2), "one long row": full * ((i == j) | (i == 3))}[kind]
    product = Product(scipy.sparse.csr_array(matrix))
    assert (product.dense is not None, product.columns is not None) == (kind == "full", kind == "a band")
    with jax.enable_x64(True):
        np.testing.assert_allclose(product(jnp.asarray(full[0])), matrix @ full[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["StochasticAlpha", "Heun"])
@pytest.mark.parametrize(
    "mass",
    [lambda t, x, v: (0.2 - t) * jnp.eye(2), lambda t, x, v: jnp.eye(2) + t * jnp.array([[0.0, 1.0], [0.0, 0.0]]),
     lambda t, x, v: jnp.array([[1.0, 10.0 * t], [10.0 * t, 1.0]])],
    ids=["through zero", "unsymmetric", "indefinite"],
)  # fmt: skip
def test_paths_end_where_a_mass_is_no_mass(mass, method):
    """The mass is named before all that would not help."""
    moving = sd.Mechanical(lambda t, x, v: -x, None, ([1.0, 0.0], [0.0, 0.0]), mass=mass)
    words = r"First: path 0 at t = 0\.\d+, .*\. The mass, .* have become singular, negative or unsymmetric .* Try a"
    with pytest.raises(sd.PathsFailed, match=words):
        sd.simulate(moving, method, t=(0.0, 0.5), dt=0.05, paths=2, seed=1)


NO_MASS = "its mass became singular, negative or unsymmetric"


@pytest.mark.parametrize("method", ["EulerMaruyama", "Heun", "RK4", "StochasticAlpha", "ImplicitMidpoint"])
@pytest.mark.parametrize(
    "mass",
    [lambda t, x, v: (1.0 - t) * jnp.eye(2), lambda t, x, v: (0.9 - t) * jnp.eye(2),
     lambda t, x, v: jnp.eye(2) + jnp.where(t > 0.9, 0.1, 0.0) * jnp.array([[0.0, 1.0], [0.0, 0.0]])],
    ids=["zero", "negative", "unsymmetric"],
)  # fmt: skip
def test_a_mass_that_ends_in_the_last_step_fails_its_path_by_name(mass, method):
    """No step begins with the last state: it is checked by itself."""
    moving = sd.Mechanical(lambda t, x, v: -x, None, ([1.0, 0.0], [0.0, 0.0]), mass=mass)
    run = sd.simulate(moving, method, t=(0.0, 1.0), dt=0.25, paths=2, seed=1, on_failure="record")
    assert run["failed_path"].values.tolist() == [0, 1] and run["failure_time"].values.tolist() == [1.0, 1.0]
    assert all(NO_MASS in cause for cause in run["failure_cause"].values)
    assert all(cause == NO_MASS for cause in run["failure_cause"].values) or method != "EulerMaruyama"


def test_executors_and_solvers_name_a_mass_that_is_none():
    """States between steps are judged one by one: a path whose mass stays one goes on."""
    spread = (PerPath([[0.5], [2.0]]), [0.0])
    moving = sd.Mechanical(
        lambda t, x, v: 0.0 * x, lambda t, x, v: 0.0 * x[:, None], spread, mass=lambda t, x, v: (1.0 - x * t)[:, None]
    )
    run = dict(t=(0.0, 0.75), dt=0.25, paths=2, seed=1)
    ways = [("EulerMaruyama", {"executor": "vmap"}), ("EulerMaruyama", {}), ("Dyadic", {})]
    for method, options in ways:
        result = sd.simulate(moving, method, on_failure="record", **run, **options)
        assert result["failed_path"].values.tolist() == [1], method
        assert result["failure_time"].values.tolist() == [0.5] and NO_MASS in str(result["failure_cause"].values[0])
    with pytest.raises(sd.PathsFailed, match=r"\(1 whose mass became singular, negative or unsymmetric\)"):
        sd.simulate(moving, "EulerMaruyama", **run)


def test_a_mass_behind_joints_is_checked_too():
    """A bead on a circle, by the method that keeps it there."""
    bead = sd.Mechanical(
        lambda t, x, v: jnp.array([0.0, -1.0]), None, ([1.0, 0.0], [0.0, 0.0]),
        mass=lambda t, x, v: (0.9 - t) * jnp.eye(2), constraints=lambda t, x: x @ x - 1.0,
    )  # fmt: skip
    run = sd.simulate(bead, t=(0.0, 1.0), dt=0.25, paths=1, seed=1, on_failure="record")
    assert run["failure_time"].values.tolist() == [1.0] and NO_MASS in str(run["failure_cause"].values[0])


def test_a_path_that_is_stopped_needs_no_mass():
    moving = sd.Mechanical(
        lambda t, x, v: 0.0 * x, lambda t, x, v: 0.0 * x[:, None], ([0.0], [1.0]),
        mass=lambda t, x, v: (0.8 - t) * jnp.ones((1, 1)),
    )  # fmt: skip
    run = sd.simulate(moving, "EulerMaruyama", t=(0.0, 1.5), dt=0.25, paths=2, seed=1, on_failure="record",
                      stop=sd.Stop(sd.Level(0.6, of="x0")))  # fmt: skip
    assert run.sizes["failure"] == 0


@pytest.mark.parametrize(
    ("matrix", "words"),
    [([[1.0, 0.5], [0.0, 1.0]], r"at the start and t = 0 is not symmetric, entry \(0, 1\) is 0.5"),
     ([[1.0, 0.0], [0.0, -1.0]], r"at the start and t = 0 is negative in some direction")],
)  # fmt: skip
def test_a_mass_given_as_a_function_is_checked_at_the_start(matrix, words):
    moving = sd.Mechanical(lambda t, x, v: -x, None, ([1.0, 0.0], [0.0, 0.0]), mass=lambda t, x, v: jnp.array(matrix))
    with pytest.raises(ValueError, match=words):
        moving.before_run(0.0)


@pytest.mark.parametrize("n", [1, 3, 14])
def test_masses_are_positive_definite_by_their_pivots(n):
    root = np.random.default_rng(n).standard_normal((n, n))
    M = root @ root.T + 0.1 * np.eye(n)
    least = np.linalg.eigvalsh(M)[0]
    for shift, expected in ((0.0, True), (-0.99 * least, True), (-1.01 * least, False)):
        assert bool(is_positive_definite(jnp.asarray(M + shift * np.eye(n)))) is expected


def test_slow_modes_keep_their_stiffness_and_damping_beside_fast_ones():
    """Rates 3e7 apart: ω² of the slow modes are 1e-15 of the largest, and were dropped as rounding."""
    K = np.diag([1e14, 1.0, 1e7, 0.1])
    _, C, K_modes = (A.toarray() for A in Mechanical.from_matrices(np.eye(4), 1e-3 * K, K, modes=4).matrices)
    np.testing.assert_allclose(K_modes, np.diag([0.1, 1.0, 1e7, 1e14]), rtol=1e-12)
    np.testing.assert_allclose(C, 1e-3 * K_modes, rtol=1e-12)


def test_what_couples_modes_by_rounding_alone_is_zero():
    """Damping in proportion to the stiffness of a chain of random springs: the damping of modes is diagonal."""
    k = np.random.default_rng(3).uniform(0.5, 2.0, 31)
    K = np.diag(k[:-1] + k[1:]) - np.diag(k[1:-1], 1) - np.diag(k[1:-1], -1)
    _, C, _ = (A.toarray() for A in Mechanical.from_matrices(np.eye(30), 0.3 * K, K, modes=12).matrices)
    assert np.count_nonzero(C) == 12
    damped = 0.3 * K
    damped[0, 0] += 1e-9
    _, C, _ = (A.toarray() for A in Mechanical.from_matrices(np.eye(30), damped, K, modes=12).matrices)
    assert np.count_nonzero(C) > 12


@pytest.mark.parametrize("seed", [22, 34, 55])
def test_a_singular_matrix_is_not_positive(seed):
    """B B' of rank 19 of 20: Cholesky leaves a last pivot of 1e-7, which is rounding; with 1e-9 added it is not."""
    B = np.random.default_rng(seed).standard_normal((20, 19))
    assert not is_positive(scipy.sparse.csr_array(B @ B.T))
    assert is_positive(scipy.sparse.csr_array(B @ B.T), 1e-9)


def test_a_mass_that_depends_on_the_state_may_be_light():
    """1e-6 beside 1e8, in other units 1 and 1: no coordinate is without inertia."""
    problem = Mechanical(
        lambda t, x, v: -x, lambda t, x, v: jnp.ones((2, 1)), ([1.0, 1.0], [0.0, 0.0]),
        mass=lambda t, x, v: jnp.diag(jnp.array([1e8, 1e-6])) * (2.0 + jnp.sin(x[0])),
    )  # fmt: skip
    check_mass_at_start(problem.motion, 0.0)


def test_friction_that_newton_does_not_solve_names_its_element():
    def failed(force):
        with pytest.raises(sd.PathsFailed) as error:
            problem = sd.Mechanical(force, lambda t, x, v: 1.0, (0.0, 1.0))
            sd.simulate(problem, "StochasticAlpha", t=(0.0, 1.0), dt=0.01, paths=16, seed=1, progress=False)
        return str(error.value)

    assert "stodyn.elements.Coulomb" in failed(lambda t, x, v: -x - 5.0 * jnp.tanh(v / 1e-6))
    assert "stodyn.elements.Coulomb" not in failed(lambda t, x, v: -5.0 * jnp.tanh(x / 1e-9) - 1e9 * x)
