"""SDAEs: the split of M, the diagnosis before a run, consistent starts, the noise and the state-space form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn
from stodyn.analysis.linear import exact_moments
from stodyn.methods.stiff import Stepping
from stodyn.models.circuits import RC_LADDER, RECTIFIER, RING_OSCILLATOR, TWO_DIODES
from stodyn.models.differential_algebraic import (
    AMPLIFIED_NOISE,
    CONSTRAINED_PENDULUM,
    LINEAR_DAE,
    NONCOMMUTING_DAE,
    NONLINEAR_DAE,
    B,
    L,
    M,
    V,
)
from stodyn.numerics import uncompiled
from stodyn.numerics.newton import underived
from stodyn.numerics.printing import scalars
from stodyn.numerics.printing.flat import flattened
from stodyn.numerics.printing.nodes import Graph, reachable
from stodyn.numerics.printing.points import at_one, at_points
from stodyn.problems.contract import written_as
from stodyn.problems.index import independent_rows, rank_of, split
from stodyn.problems.lowering import to_stratonovich
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

pytestmark = pytest.mark.usefixtures("quick_compiling")

ONE = np.diag([1.0, 0.0])


def quiet(t, x):
    return jnp.zeros((x.size, 1)).at[0, 0].set(1.0)


def simulated(problem, **options):
    return stodyn.simulate(problem, "ImplicitEuler", t=(0.0, 0.1), dt=0.05, paths=4, seed=0, **options)


# --- the split ------------------------------------------------------------------------------------------------------

CASES = {
    "zero row": ONE,
    "regular": np.array([[2.0, 1.0], [0.0, 1e-9]]),
    "dependent rows": np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 1e-12]]),
    "example 1": M,
    "example 2": NONLINEAR_DAE.problem.mass,
    "units far apart": np.diag([1e-12, 1e6, 0.0, 1e-15]),
}
RANKS = {"zero row": 1, "regular": 2, "dependent rows": 2, "example 1": 3, "example 2": 1, "units far apart": 3}


@pytest.mark.parametrize("name", CASES)
def test_the_split_cancels_the_mass_from_both_sides(name):
    mass, parts = CASES[name], split(CASES[name])
    assert len(parts.rows) == len(parts.columns) == RANKS[name]
    assert parts.N.shape == parts.K.T.shape == (len(mass) - RANKS[name], len(mass))
    size = np.abs(mass).max()
    np.testing.assert_allclose(parts.N @ mass, 0.0, atol=1e-15 * size)
    np.testing.assert_allclose(mass @ parts.K, 0.0, atol=1e-15 * size)
    assert np.linalg.matrix_rank(mass[parts.rows][:, parts.columns] / size, tol=1e-30) == RANKS[name]


def test_example_1_is_what_the_paper_says():
    """V⁻¹ B⁻¹ M V = diag(L, 0)."""
    block = np.linalg.solve(V, np.linalg.solve(B, M @ V))
    np.testing.assert_allclose(block, np.pad(L, (0, 1)), atol=1e-14)


# --- the diagnosis --------------------------------------------------------------------------------------------------


def test_circuits_are_of_index_1_and_say_how():
    found = RECTIFIER.problem.diagnose()
    assert (found.index, found.rank, found.reason, found.noisy) == (1, 2, "", ())
    assert found.constraints == ("0 = f[2]", "0 = f[3]")
    assert found.differential == ("u2", "u3") and found.algebraic == ("u1", "jV")
    assert 1.0 <= found.condition < 2.0 and not found.move
    ring = RING_OSCILLATOR.problem.diagnose()
    assert ring.algebraic == ("us", "jV") and ring.differential == ("u1", "u2", "u3", "udd")
    assert "index 1" in str(ring) and "jV" in str(ring)
    pendulum = CONSTRAINED_PENDULUM.problem.diagnose()
    assert pendulum.algebraic == ("tension",) and pendulum.index == 1


def test_constraints_without_a_zero_row_are_found():
    found = NONLINEAR_DAE.problem.diagnose()
    assert found.index == 1 and len(found.constraints) == 1 and "f[0]" in found.constraints[0]
    floating = SDAE(  # a capacitor between two nodes without any to ground: its two rows cancel
        [[1.0, -1.0], [-1.0, 1.0]],
        lambda t, x: jnp.stack([1.0 - x[0], -x[1]]),
        lambda t, x: jnp.array([[1.0], [-1.0]]),
        (0.0, 1.0),
    )
    found = floating.diagnose()
    assert found.constraints == ("0 = f[0] + f[1]",) and found.index == 1
    assert found.algebraic == ("x0 + x1",) and found.differential == ("x0 - x1",)
    np.testing.assert_allclose(found.start, [0.0, 1.0], atol=1e-12)


def test_a_component_that_is_all_but_zero_at_the_start_is_seen():
    """0 = x - 0.2 - z with z = 3e-21 at the start, as the current of a source may be that a capacitor blocks."""

    def drift(t, x):
        return jnp.stack([-x[0], x[0] - 0.2 - x[1]])

    found = SDAE(ONE, drift, lambda t, x: jnp.array([[0.1], [0.0]]), (0.2, 3e-21)).diagnose()
    assert found.index == 1, found


@pytest.mark.parametrize("unit", [1e-14, 1.0, 1e14])
def test_the_unit_of_a_component_does_not_change_the_index(unit):
    """0 = x - unit z: whatever z is counted in, it is determined."""

    def drift(t, x):
        return jnp.stack([-x[0], x[0] - unit * x[1]])

    found = SDAE(ONE, drift, lambda t, x: jnp.array([[0.1], [0.0]]), (1.0, 1.0 / unit)).diagnose()
    assert found.index == 1 and found.condition == 1.0


def test_a_regular_mass_is_index_0():
    assert SDE(lambda t, x: -x, lambda t, x: jnp.eye(2), (1.0, 2.0)).lower(SDAE)[0].diagnose().index == 0


def test_an_inconsistent_start_is_repaired_and_reported():
    """The differential part u2, u3 is kept: jV follows from it, and u1 from the source."""
    wrong = SDAE(**(vars_of(RECTIFIER.problem) | {"start": (0.5, 0.3, 0.1, 7.0)}))
    found = wrong.diagnose(0.25)
    np.testing.assert_allclose(found.start, [1.0, 0.3, 0.1, -0.07], atol=1e-14)
    np.testing.assert_allclose([found.moved[n] for n in wrong.components], [0.5, 0.0, 0.0, -7.07], atol=1e-14)
    assert "u1 by +0.5" in found.move and "jV by -7.07" in found.move and "u2" not in found.move
    with pytest.warns(stodyn.warnings.StartMoved, match=r"jV by -7\.07"):
        run = stodyn.simulate(wrong, "ImplicitEuler", t=(0.25, 0.26), dt=0.01, paths=4, seed=1)
    np.testing.assert_allclose(run["mean"][0], found.start, atol=1e-12)
    assert any("moved" in change for change in stodyn.provenance(run)["lowering"])


def test_a_start_far_up_an_exponential_is_repaired():
    """Newton comes down a diode's characteristic by one thermal voltage a round: 5 V take 175."""
    diode = SDAE(
        ONE, lambda t, x: jnp.stack([-x[0], (x[0] - x[1]) / 10.0 - 1e-9 * jnp.expm1(x[1] / 0.0259)]), quiet, (1.0, 5.0)
    )
    w = diode.diagnose().start[1]
    assert (1.0 - w) / 10.0 == pytest.approx(1e-9 * np.expm1(w / 0.0259), rel=1e-9)


def test_rows_are_ordered_for_constraints_with_zero_diagonals_that_begin_to_hold_after_t_0():
    """At t = 0 the first constraint is empty; from t = 1 on the start is computed in an order found later."""

    def drift(t, x):
        u, a, b, c, d = x
        return jnp.stack([-u, t * (b + b**3) - u, a - b, d - a, c + d])

    late = SDAE(np.diag([1.0, 0.0, 0.0, 0.0, 0.0]), drift, None, (2.0, 0.0, 0.0, 0.0, 0.0))
    x = at_one(lambda x: late.consistent(1.0, x, None), late.example_start())
    np.testing.assert_allclose(x, [2.0, 1.0, 1.0, -1.0, 1.0], atol=1e-12)
    np.testing.assert_array_equal(late.g(1.0, x, None), np.zeros((5, 1)))  # diffusion=None


def test_many_constraints_are_solved_by_the_order_of_the_steps():
    """y_k³ + y_k = x y_{k-1}, 13 of them: the library's LU, which is not printed, sent such circuits to vmap."""

    def drift(t, x):
        return jnp.concatenate([-x[:1], x[1:] ** 3 + x[1:] - x[0] * x[:-1]])

    chain = SDAE(np.diag([1.0] + 13 * [0.0]), drift, None, 2.0 * np.ones(14))
    assert "lu[" not in str(jax.make_jaxpr(lambda x: chain.consistent(0.0, x, None))(chain.example_start()))
    x = uncompiled.value(lambda x: chain.consistent(0.0, x, None), chain.example_start())
    wanted = [2.0]
    for _ in range(13):
        wanted.append(next(r.real for r in np.roots([1.0, 0.0, 1.0, -2.0 * wanted[-1]]) if abs(r.imag) < 1e-12))
    np.testing.assert_allclose(x, wanted, rtol=1e-12)


def vars_of(problem):
    return {name: getattr(problem, name) for name in ("mass", "drift", "diffusion", "start", "params", "names")}


REFUSED = {
    "index 2, a constraint without algebraic components": (
        SDAE(ONE, lambda t, x: jnp.stack([x[1], x[0] - jnp.sin(t)]), quiet, (0.0, 1.0)),
        r"index is 2 or higher.*0 = f\[1\].*no algebraic component stands in 0 = f\[1\].*rank 0 of 1|"
        r"index is 2 or higher: the 1 constraint\(s\) 0 = f\[1\] do not determine x1 \(.*rank 0 of 1\).*0 = f\[1\]",
    ),
    "undetermined combination": (
        SDAE(
            np.diag([1.0, 0.0, 0.0]),
            lambda t, x: jnp.stack([-x[0], x[1] + x[2] - x[0], 2.0 * (x[1] + x[2]) - x[0]]),
            quiet,
            (0.0, 0.0, 0.0),
        ),
        "rank 1 of 2.*x1, x2 can move together",
    ),
    "noise in a constraint": (
        SDAE(
            np.diag([1.0, 1.0, 0.0]),
            lambda t, x: jnp.stack([-x[0], -x[1], x[2] - x[0]]),
            lambda t, x: jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]]),
            (0.0, 0.0, 0.0),
        ),
        r"noise channel 1 enters constraint 0, 0 = f\[2\].*give that component a mass",
    ),
    "noise in a constraint, of the size of thermal noise in SI units": (
        SDAE(
            ONE,
            lambda t, x: jnp.stack([-x[0], x[1] - x[0]]),
            lambda t, x: jnp.array([[1.0], [9.1e-13]]),
            (0.0, 0.0),
        ),
        r"noise channel 0 enters constraint 0",
    ),
    "noise in a constraint, later and far from the start": (
        SDAE(
            ONE,
            lambda t, x: jnp.stack([-x[0], x[1] - x[0]]),
            lambda t, x: jnp.stack([jnp.cos(t), jnp.sin(t) * jnp.maximum(x[0] - 3.0, 0.0)])[:, None],
            (0.0, 0.0),
        ),
        r"noise channel 0 enters constraint 0",
    ),
    "no consistent start": (
        SDAE(ONE, lambda t, x: jnp.stack([-x[0], x[1] ** 2 + 1.0 + x[0] ** 2]), quiet, (0.0, 1.0)),
        r"start \[0.0, 1.0\] does not satisfy.*Newton found no values of x1.*nearer",
    ),
    "index lost at the start alone": (
        SDAE(ONE, lambda t, x: jnp.stack([-x[0], x[1] ** 2 - x[0]]), quiet, (0.0, 0.0)),
        "singular at the start.*Near the start it is regular",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_of_index_1_is_refused_in_plain_words(name):
    problem, words = REFUSED[name]
    assert problem.diagnose().index is None
    with pytest.raises(ValueError, match=f"(?s)this SDAE cannot be run: .*{words}"):
        simulated(problem)


def test_noise_that_cancels_in_a_constraint_is_none():
    """Example 2: both rows of g are noisy, and N g = 0 only to rounding."""
    assert NONLINEAR_DAE.problem.diagnose().noisy == ()


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        (
            {"mass": np.eye(3)},
            ValueError,
            r"mass: expected shape \(2, 2\), as start has 2 components, got shape \(3, 3\)",
        ),
        ({"mass": lambda t: ONE}, TypeError, r"mass: expected a constant matrix, got a function.*charge"),
        ({"mass": "heavy"}, TypeError, "mass: expected a matrix of numbers"),
        ({"mass": [[1.0, np.nan], [0.0, 0.0]]}, ValueError, "mass: expected finite numbers"),
        ({"mass": np.zeros((2, 2))}, ValueError, "mass: is zero"),
        ({"start": 1.0}, ValueError, r"start: expected a vector per path, got shape \(\)"),
        ({"drift": lambda t, x: x[:1]}, ValueError, r"drift: returned shape \(1,\), expected \(2,\)"),
        ({"diffusion": lambda t, x: x}, ValueError, r"diffusion: returned shape \(2,\), expected \(2, channels\)"),
        ({"structure": "calm"}, ValueError, "structure: expected one of"),
        ({"structure": "diagonal", "diffusion": lambda t, x: jnp.zeros((2, 2))}, ValueError, "is impossible"),
        ({"structure": "scalar", "diffusion": lambda t, x: jnp.zeros((2, 2))}, ValueError, "is impossible"),
    ],
)
def test_arguments_that_do_not_fit_are_named(changed, error, words):
    given = {
        "mass": ONE,
        "drift": lambda t, x: jnp.stack([-x[0], x[1] - x[0]]),
        "diffusion": quiet,
        "start": (0.0, 0.0),
    }
    with pytest.raises(error, match=words):
        SDAE(**(given | changed))


# --- the noise, and the state-space form ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "kind"),
    [(RC_LADDER, "additive"), (TWO_DIODES, "diagonal"), (LINEAR_DAE, "scalar"), (LINEAR_DAE(channels=2), "commutative"),
     (RECTIFIER, "general"), (NONCOMMUTING_DAE, "general")],
    ids=lambda value: getattr(value, "name", value),
)  # fmt: skip
def test_the_noise_is_that_of_the_state_space_form(model, kind):
    assert model.problem.noise_structure.kind == kind


def test_noise_that_depends_on_given_components_alone_is_additive():
    """g depends on u1, and u1 = sin t: additive in the state-space form, seen in the states."""
    fed = SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x: jnp.stack([-x[0], x[1] - jnp.sin(t)]),
        lambda t, x: jnp.array([[1.0, 0.0], [0.0, 0.0]]) * (1.0 + x[1] ** 2),
        (0.0, 0.0),
    )
    assert fed.noise_structure.implies("additive")


def test_the_state_space_form_knows_the_noise_of_the_sdae():
    """All that is true of it, but that a mass which mixes components leaves no noise diagonal."""
    for noise, kinds in ((lambda t, x: jnp.eye(2), {"additive", "commutative"}), (lambda t, x: jnp.diag(x), set())):
        mixing = SDAE(np.array([[2.0, 1.0], [1.0, 2.0]]), lambda t, x: -x, noise, (1.0, 1.0))
        assert kinds <= set(written_as(mixing, stodyn.SDE).noise_structure.kinds) <= {"additive", "commutative"}


def test_slopes_of_additive_noise_are_never_computed(monkeypatch):
    """In a circuit of 200 nodes they would be 4 GB of zeros."""
    monkeypatch.setattr("stodyn.problems.state_space.noise_slopes", None)
    problem = RC_LADDER(nodes=2).problem
    assert problem.diagnose().index == 1 and problem.noise_structure.implies("additive")


def test_the_state_space_form_has_the_drift_and_noise_of_the_sdae():
    """y = evolving x, x = state(y): a round trip, and M (dx/dy) dy = f dt + g dW on the equations with a derivative."""
    for problem in (NONLINEAR_DAE.problem, RECTIFIER.problem):
        sde, words = problem.lower(SDE)
        y, p = problem.facts.evolving @ problem.diagnose(0.1).start + 0.01, problem.params

        def both(y):
            x = problem.state_space.state(0.1, y, p)
            return x, problem.f(0.1, x, p), problem.g(0.1, x, p), sde.f(0.1, y, p), sde.g(0.1, y, p)

        x, f, g, drift, noise = at_one(both, y)
        np.testing.assert_allclose(problem.facts.evolving @ x, y, atol=1e-13)
        np.testing.assert_allclose(problem.constraints(f), 0.0, atol=1e-12)
        RM = problem.mass[problem.facts.split.rows][:, problem.facts.split.columns]
        np.testing.assert_allclose(RM @ drift, problem.matrices.equations(f), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(RM @ noise, problem.matrices.equations(g), rtol=1e-11, atol=1e-13)
        assert "differential components" in words
    assert RECTIFIER.problem.lower(SDE)[0].components == ("u2", "u3")


def test_moments_of_a_linear_sdae():
    """The exact answers of the model against the moment equations of its state-space form."""
    model = AMPLIFIED_NOISE(offset=0.7, start=(0.3, -0.4))
    mean, covariance = exact_moments(model.problem, [0.5, 2.0], model.problem.example_start()[:2], np.zeros((2, 2)))
    np.testing.assert_allclose(mean, model.exact["mean"]([0.5, 2.0])[:, :2], rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(covariance, 0, 1, 2), model.exact["variance"]([0.5, 2.0])[:, :2], rtol=1e-12)


def test_explicit_methods_run_the_state_space_form():
    run = stodyn.simulate(AMPLIFIED_NOISE.problem, "EulerMaruyama", t=(0.0, 0.5), dt=0.1, paths=8, seed=3)
    assert list(run["component"].values) == ["x1", "x2"]
    assert "SDAE -> SDE of its differential components x1, x2" in stodyn.provenance(run)["lowering"]


def test_constraints_are_solved_once_for_drift_noise_and_their_derivatives():
    """0 = z + z³ - y has one root, z' = 1/(1 + 3z²): dY = -z dt + .3z dW is dY = -z - ½ .09 z z' dt + .3z ∘dW."""
    problem = SDAE(
        ONE,
        lambda t, x: jnp.array([-x[1], x[1] + x[1] ** 3 - x[0]]),
        lambda t, x: jnp.array([[0.3 * x[1]], [0.0]]),
        [2.0, 1.0],
    )
    sde = to_stratonovich(written_as(problem, SDE))

    def change(y):
        with underived():  # as steps are traced
            return 0.1 * sde.f(0.0, y, None) + sde.push(0.0, y, None, jnp.array([0.7]))

    assert loops_of(change) == loops_of(lambda y: problem.state_space.state(0.0, y, None))
    z = np.linspace(-1.5, 2.0, 5)
    expected = 0.1 * (-z - 0.045 * z / (1.0 + 3.0 * z**2)) + 0.7 * 0.3 * z
    np.testing.assert_allclose(at_points(change, (z + z**3)[:, None])[:, 0], expected, rtol=1e-12)


def test_noise_of_differential_components_solves_for_no_others():
    """With the constraint 0 = z + z³ - y; noise through z cannot do without it, whatever has no effect besides."""
    for through, loops in ((0.0, 0), (0.3, 2)):
        problem = SDAE(
            ONE,
            lambda t, x: jnp.array([-x[1], x[1] + x[1] ** 3 - x[0]]),
            lambda t, x, share=through: jnp.array([[0.1 * x[0] ** 2 + share * x[1]], [0.0]]),
            [2.0, 1.0],
        )
        sde = written_as(problem, SDE)
        assert loops_of(lambda y: sde.g(0.0, y, None)[0])[0] == loops
        z = np.linspace(-1.5, 2.0, 5)
        y = (z + z**3)[:, None]
        expected = 0.1 * y[:, 0] ** 2 + through * z
        np.testing.assert_allclose(at_points(lambda y: sde.g(0.0, y, None)[0], y)[:, 0], expected, rtol=1e-12)


def loops_of(function):
    """How many loops a function of y has, as arrays and as scalars."""
    trace, graph = jax.make_jaxpr(function)(np.zeros(1)), Graph()
    (result,) = scalars.scalarised(trace, [scalars.inputs_of(graph, "y", (1,), float)], graph)
    of_scalars = {node.attr[0].number for node in reachable(result.tolist()) if node.op == "result"}
    return [equation.name for equation in flattened(trace)[1]].count("while"), len(of_scalars)


def test_a_path_that_leaves_its_branch_of_the_constraint_is_reported():
    """0 = v² - u - 1 with du = -6 dt ends at u = -1, where the two branches of v meet and the index is lost."""
    falling = SDAE(
        ONE,
        lambda t, x: jnp.stack([-6.0 + 0.0 * x[0], x[1] ** 2 - x[0] - 1.0]),
        lambda t, x: 1e-3 * quiet(t, x),
        (0.0, 1.0),
    )
    with pytest.raises(stodyn.PathsFailed) as failed:
        stodyn.simulate(falling, "ImplicitEuler", t=(0.0, 1.0), dt=0.05, paths=4, seed=0)
    assert np.all((failed.value.times > 0.1) & (failed.value.times < 0.3))
    assert "became singular, so that the index is not 1 there" in str(failed.value)
    assert jax.numpy.sign(falling.matrices.orientation(0.0, jnp.array([0.0, 1.0]), None))[0, 0] == 1.0


@pytest.mark.parametrize("copies", [1, 60])
def test_slopes_outside_the_determinant_leave_it_constant(copies):
    """A supply u(t) = v, and its current i = x² v + v³: i acts on nothing. Where i acts on v, the determinant moves."""

    def problem(feedback, varying=0.0):
        def drift(t, x):
            x, v, i = x.reshape(3, copies)
            return jnp.concatenate([v - x, v - 1.0 - feedback * i, i * (1.0 + varying * x**2) - x**2 * v - v**3])

        mass = np.diag(np.repeat([1.0, 0.0, 0.0], copies))
        push = np.concatenate([np.eye(copies)[:, :1], np.zeros((2 * copies, 1))])
        return SDAE(mass, drift, lambda t, x: push + 0.0 * x[0], np.repeat([0.0, 1.0, 1.0], copies))

    assert problem(0.0).facts.has_constant_orientation
    assert not problem(0.1).facts.has_constant_orientation
    assert not problem(0.0, 1.0).facts.has_constant_orientation


def _vanishing(of_time, copies=1):
    """0 = of_time(t) z - x, so many times: singular where of_time vanishes, at t = .51."""

    def drift(t, x):
        return jnp.concatenate([-x[:1], of_time(t) * x[1:] - x[0]])

    start = np.append(1.0, np.full(copies, 1.0 / of_time(0.0)))
    push = np.append(0.1, np.zeros(copies))[:, None]
    return SDAE(np.diag(np.append(1.0, np.zeros(copies))), drift, lambda t, x: jnp.asarray(push), start)


POLES = {
    "a double root": (_vanishing(lambda t: (t - 0.51) ** 2), 0.1),
    "a double root, short steps": (_vanishing(lambda t: (t - 0.51) ** 2), 0.02),
    "a root of order 4": (_vanishing(lambda t: (t - 0.51) ** 4), 0.1),
    "two constraints together": (_vanishing(lambda t: t - 0.51, copies=2), 0.1),
    "four constraints together": (_vanishing(lambda t: t - 0.51, copies=4), 0.1),
}


@pytest.mark.brief("a double root, short steps", "a root of order 4", "four constraints together")
@pytest.mark.parametrize("name", POLES)
def test_a_pole_without_a_change_of_sign_is_not_run_through(name):
    problem, dt = POLES[name]
    with pytest.raises(stodyn.PathsFailed, match="became singular, so that the index is not 1 there") as failed:
        stodyn.simulate(problem, "ImplicitEuler", t=(0.0, 1.0), dt=dt, paths=4, seed=1)
    np.testing.assert_allclose(failed.value.times, 0.51, atol=dt)


def test_constraints_that_come_near_to_zero_and_stay_regular_are_run():
    """Four at once, whose determinant falls to 1e-8 of what it is at the ends of a step."""
    near = _vanishing(lambda t: (t - 0.51) ** 2 + 1e-4, copies=4)
    run = stodyn.simulate(near, "ImplicitEuler", t=(0.0, 1.0), dt=0.1, paths=4, seed=1)
    assert np.isfinite(run["mean"]).all()


def test_what_is_taken_for_rounding_is_told():
    """0 = x0 - 1e-14 x1 with both of size 1: x1 is there, and too small beside x0 to be solved for."""
    problem = stodyn.SDAE(np.diag([1.0, 0.0]), lambda t, x: jnp.stack([-x[0], x[0] - 1e-14 * x[1]]), None, [1e-14, 1.0])
    assert "no constraint contains x1, but for 1e-14 x1, which beside the other terms" in problem.diagnose().reason


def test_poles_of_large_systems_are_seen():
    """Fourteen constraints, whose matrices are sparse: (t - .51)² + p, singular for p = 0 alone."""
    count = 14

    def drift(t, x, p):
        return jnp.concatenate([-x[:1], ((t - 0.51) ** 2 + p) * x[1:] - x[0]])

    mass, push = np.diag(np.append(1.0, np.zeros(count))), np.append(0.1, np.zeros(count))[:, None]
    large = SDAE(mass, drift, lambda t, x, p: jnp.asarray(push), np.append(1.0, np.full(count, 3.7)), params=0.01)
    assert large.facts.sparsity is not None
    x = np.append(1.0, np.full(count, 3.7))

    def is_regular(p, Z):
        return Stepping(stodyn.method("ImplicitEuler"), large, 0.5, jnp.asarray(x), p)._stays_regular(0.1, Z)

    trace = jax.make_jaxpr(is_regular)(0.01, 0.1 * x)
    assert [bool(uncompiled.run(trace, p, 0.1 * x)[0]) for p in (0.0, 1e-4, 0.01)] == [False, True, True]


def test_a_jacobian_that_is_not_finite_has_no_rank():
    parts = split(np.diag([1.0, 0.0]))
    assert rank_of(parts, np.array([[0.0, 0.0], [1.0, np.nan]]), np.ones(2)) == (0, np.inf)
    assert rank_of(parts, np.array([[0.0, 0.0], [1.0, 2.0]]), np.ones(2)) == (1, 1.0)


@pytest.mark.parametrize("rank", [0, 1, 3, 4, 6])
def test_rows_that_span_the_others_whatever_their_units(rank):
    rng = np.random.default_rng(rank)
    matrix = rng.normal(size=(6, rank)) @ rng.normal(size=(rank, 5 if rank < 6 else 6))
    matrix *= 10.0 ** rng.integers(-6, 7, (6, 1))
    rows, vanishing = independent_rows(matrix)
    assert len(rows) == rank and vanishing.shape == (6 - rank, 6)
    size = np.abs(matrix).max(axis=1)
    assert np.linalg.matrix_rank(matrix[rows] / size[rows, None], tol=1e-9) == rank
    np.testing.assert_allclose(vanishing @ matrix, 0.0, atol=1e-9 * (np.abs(vanishing) @ size).max(initial=0.0))
    np.testing.assert_allclose(np.abs(vanishing).max(axis=1), 1.0)
    assert np.linalg.matrix_rank(vanishing) == 6 - rank


def test_the_rank_that_is_told_is_the_one_at_the_start():
    """0 = y² twice: nothing at y = 0, one combination beside it."""
    problem = SDAE(
        np.diag([1.0, 0.0, 0.0]),
        lambda t, x: jnp.stack([-x[0], x[1] ** 2, x[1] ** 2]),
        lambda t, x: jnp.array([[1.0], [0.0], [0.0]]),
        [1.0, 0.0, 0.0],
    )
    found = problem.diagnose()
    assert found.index is None and found.rank == 0 and "has rank 0 of 2" in found.reason
    assert "no algebraic component stands in 0 = f[1], 0 = f[2]; no constraint contains x1, x2" in found.reason


def test_a_start_that_moves_far_is_told_and_one_that_was_left_at_0_is_not():
    def divider(start):
        drift, noise = lambda t, x: jnp.array([-x[0], x[1] - x[0]]), jnp.array([[0.1], [0.0]])
        return SDAE(np.diag([1.0, 0.0]), drift, lambda t, x: noise, start, names=("u", "v"))

    with pytest.warns(stodyn.warnings.StartMoved, match="start: the start did not satisfy .*: v by -499"):
        divider([1.0, 500.0]).before_run(0.0)
    assert divider([1.0, 1.05]).before_run(0.0) == (
        "the start did not satisfy the constraints and was moved: v by -0.05",
    )
    divider([1.0, 0.0]).before_run(0.0)


def test_a_netlist_with_uic_states_charges_so_that_its_nodes_may_move_without_a_word():
    """4 V across the capacitor stay, as in SPICE: nodes at 5 and 1 V beside equal resistors move to 2 and -2."""
    text = "two\nC1 a b 1n\nR1 a 0 1k\nR2 b 0 1k\n.ic v(a)=5 v(b)=1\n.tran 10n 1u uic\n.end\n"
    assert stodyn.circuits.read(text).before_run(0.0)[0].endswith("was moved: a by -3, b by -3")


def test_a_diagonal_mass_is_split_as_one_that_is_eliminated():
    diagonal = np.diag([2.0, 0.0, 1e-12, 5.0])
    turned = diagonal[[1, 0, 2, 3]]  # the same equations in another order, which is not diagonal
    (rows, N), (others, M) = independent_rows(diagonal), independent_rows(turned)
    np.testing.assert_array_equal(rows, [0, 2, 3])
    np.testing.assert_array_equal(N, [[0.0, 1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(others, [1, 2, 3])
    np.testing.assert_array_equal(M[:, [1, 0, 2, 3]], N)
