"""Stiff methods: tables by exact arithmetic, values and errors of the paper's examples, and the state-space form."""

import dataclasses
import functools
import types
from fractions import Fraction as Q

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.engine.spec import matched
from stodyn.methods import stiff
from stodyn.methods.contract import Claim
from stodyn.methods.recommend import recommended
from stodyn.methods.stiff import RK1W2, RK1W4, RK1W5, StiffRungeKutta
from stodyn.methods.stiff_table import StiffTable
from stodyn.models.circuits import RC_LADDER, RECTIFIER, TWO_DIODES
from stodyn.models.differential_algebraic import LINEAR_DAE, NONCOMMUTING_DAE, NONLINEAR_DAE
from stodyn.noise.increment import Increment
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.numerics.surd import sqrt
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.studies.sdae_linear import METHODS

pytestmark = pytest.mark.usefixtures("quick_compiling")
NEW = (stiff.RK1A3, stiff.RK1A4, stiff.RK1A4L)
TABLES = {method.name: method.table for method in (*METHODS, *NEW)}

# --- the tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_the_fourteen_conditions_hold_exactly(name):
    table = TABLES[name]
    failing = {number: defect for number, defect in table.conditions().items() if defect}
    first_order = name.startswith("RK1")
    assert failing == ({} if first_order else {7: -1})
    assert table.half_order_condition() == 0
    assert table.order("strong", "scalar", 1, 1).order == (1 if first_order else Q(1, 2))  # and by rooted trees
    assert table.stiffly_accurate and table.solvable
    assert table.begins_explicitly == (name in ("ImplicitEuler", "Trapezoidal", "RK1W1", "RK1A4"))


def changed(table, **fields):
    return dataclasses.replace(table, **{"claims": ()} | fields)


def test_every_single_change_of_a_coefficient_breaks_a_condition():
    """The fourteen conditions see each nonzero coefficient of the noise, and rooted trees agree with them."""
    table = RK1W4.table
    for name in ("B1", "B2", "B3"):
        rows = getattr(table, name)
        for i, j in np.ndindex(3, 3):
            if rows[i][j]:
                other = [list(row) for row in rows]
                other[i][j] = rows[i][j] + 1
                last = {"α": (), "β1": (), "β2": (), "β3": ()}
                broken = changed(table, **{name: tuple(map(tuple, other))}, **last)
                assert any(broken.conditions().values()) == (broken.order("strong", "scalar", 1, 1).order < 1)


def test_conditions_of_means_are_expectations():
    """With z = β1 ξ + β2 (ξ² - 1)/2 + β3 and Z likewise, those of a table of any numbers are E α Z e, E z A e,
    E z (Z e)² and E z Z Z e; so is that of order 1/2, E z Z e."""
    rng = np.random.default_rng(1)
    wide = [np.tril(rng.integers(-9, 9, (4, 4)), below) for below in (0, -1, -1, -1)]
    A, *B = (tuple(tuple(Q(int(k), 4) for k in row) for row in matrix) for matrix in wide)
    α, *β = (tuple(Q(int(k), 4) for k in rng.integers(-9, 9, 4)) for _ in range(4))
    table = StiffTable(name="any", source="", claims=(), A=A, B1=B[0], B2=B[1], B3=B[2], α=α, β1=β[0], β2=β[1], β3=β[2])
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    means = np.zeros(5)
    for ξ, weight in zip(nodes, weights / np.sqrt(2 * np.pi), strict=True):
        factors = (ξ, (ξ**2 - 1) / 2, 1.0)
        z, Z = (sum(f * np.array(part, float) for f, part in zip(factors, parts, strict=True)) for parts in (β, B))
        Ze, Ae = Z.sum(axis=1), np.array(A, float).sum(axis=1)
        means += weight * np.array([np.array(α, float) @ Ze, z @ Ae, z @ Ze**2, z @ Z @ Ze, z @ Ze])
    found = [table.conditions()[k] for k in (8, 12, 13, 14)]
    np.testing.assert_allclose([*map(float, found), float(table.half_order_condition())], means, rtol=1e-12)


def test_which_conditions_see_a_change_of_rk1a4():
    """A_21 is seen by condition 12 alone, B1_21 by 6, 7, 9 and 13."""
    table, last = stiff.RK1A4.table, {"α": (), "β1": (), "β2": (), "β3": ()}

    def failing(name):
        rows = [list(row) for row in getattr(table, name)]
        rows[1][0] += Q(1, 1000)
        broken = changed(table, **{name: tuple(map(tuple, rows))}, **last)
        return {number for number, defect in broken.conditions().items() if defect}

    assert failing("A") == {12} and failing("B1") == {6, 7, 9, 13}


@pytest.mark.brief("RK1W2M")
@pytest.mark.parametrize("name", ["RK1W2M", "RK1WRM", "RK1A3M", "RK1A4M", "RK1ATM"])
def test_many_channels_have_a_table_for_one(name):
    """It satisfies the fourteen conditions, and as a table makes the steps that the method makes."""
    method = getattr(stiff, name)
    assert not any(method.table.conditions().values())
    assert name != "RK1W2M" or method.table.A == RK1W2.table.A
    many, one = (end(NONLINEAR_DAE.problem, m, FIXED) for m in (method, StiffRungeKutta(method.table)))
    np.testing.assert_allclose(many, one, atol=1e-13)


def test_rk1atm_is_the_trapezoidal_rule_for_additive_noise():
    """Whose kT/C is right at any step."""
    problem = RC_LADDER(nodes=2).problem
    W = np.array([(0.1, -0.2), (0.3, 0.05)])
    ours, rule = (end(problem, method, W, h=0.3) for method in (stiff.RK1ATM, stiff.Trapezoidal))
    np.testing.assert_allclose(ours, rule, atol=1e-15)


def test_the_scale_that_the_conditions_leave_open():
    """B2_32 = 1/B3_21: any scale gives strong order 1; RK1W2 takes that of RK1W1."""
    for z in (-1, 2, Q(1, 2)):
        table = StiffTable(
            name="scaled", A=RK1W2.table.A, B1=RK1W2.table.B1, B2=((0, 0, 0), (0, 0, 0), (-1 / Q(z), 1 / Q(z), 0)),
            B3=((0, 0, 0), (z, 0, 0), (0, 0, 0)), claims=(Claim("strong", 1.0, when=("scalar",)),), source="here",
        )  # fmt: skip
        assert not any(table.conditions().values())


def test_tables_of_ones_own():
    """A table that misses what it claims, is not triangular, or leaves a stage undetermined cannot be made or used."""
    own = {"name": "mine", "source": "here", "claims": ()}
    with pytest.raises(ValueError, match=r"mine claims strong order 1.*has order 1/2.*g1'\(g1\)"):
        StiffTable(
            **own | {"claims": (Claim("strong", 1.0, when=("scalar",)),)}, A=((0, 0), (0, 1)), B1=((0, 0), (1, 0))
        )
    with pytest.raises(ValueError, match="B1: expected a strictly lower triangular matrix"):
        StiffTable(**own, A=((1, 0), (0, 1)), B1=((0, 1), (0, 0)))
    with pytest.raises(ValueError, match="B1: expected 2 rows of 2 numbers"):
        StiffTable(**own, A=((1, 0), (0, 1)), B1=((0,),))
    with pytest.raises(ValueError, match="A: expected at least one stage"):
        StiffTable(**own, A=(), B1=())
    with pytest.raises(ValueError, match=r"A: expected rows of integers.*got 5"):
        StiffTable(**own, A=5, B1=((0,),))
    with pytest.raises(ValueError, match="β1: expected 2 numbers"):
        StiffTable(**own, A=((1, 0), (0, 1)), B1=((0, 0), (1, 0)), β1=(1,))
    for wrong in ("1/2", float("nan"), 1j):
        with pytest.raises(ValueError, match="A: expected rows of integers, fractions, surds"):
            StiffTable(**own, A=((wrong, 0), (0, 1)), B1=((0, 0), (1, 0)))
    mixed = StiffTable(**own, A=((0.5, 0), (1 - sqrt(2) / 2, sqrt(2) / 2)), B1=((0, 0), (1.0, 0)))
    assert {number for number, defect in mixed.conditions().items() if defect} == {7}
    listed = StiffTable(**own, A=np.array([[0.0, 0.0], [0.0, 1.0]]), B1=[[0, 0], [1, 0]])
    assert listed == StiffTable(**own, A=((0, 0), (0, 1)), B1=((0, 0), (1, 0))) and hash(listed)
    half = StiffTable(**own, A=((1, 0), (0, 1)), B1=((0, 0), (1, 0)), α=(Q(1, 2), Q(1, 2)))
    assert not half.stiffly_accurate
    with pytest.raises(ValueError, match="mine is not stiffly accurate"):
        StiffRungeKutta(half)
    loose = StiffTable(**own, A=((1, 0), (1, 0)), B1=((0, 0), (1, 0)))
    with pytest.raises(ValueError, match="zero on the diagonal of A"):
        StiffRungeKutta(loose)
    θ = sqrt(2) / 2
    mine = StiffRungeKutta(StiffTable(**own, A=((0, 0), (1 - θ, θ)), B1=((0, 0), (1, 0))))
    np.testing.assert_allclose(
        end(LINEAR_DAE.problem, mine, FIXED), end(LINEAR_DAE.problem, stiff.Trapezoidal, FIXED), atol=1e-3
    )


# --- fixed increments -----------------------------------------------------------------------------------------------

STEP, FIXED = 1 / 64, np.array([[0.10], [-0.05], [0.20], [0.03]])


def end(problem, method, W, II=None, h=STEP):
    """The state after steps with these increments, each of which must be reported as solved."""
    problem = matched(problem, method)[0]
    params = problem.example_params()

    def stepping(make):
        return AtPoints(lambda t, state, noise: make(problem, t, state, noise, params))

    first, later = stepping(functools.partial(method.starting_step, jnp.zeros((), int))), stepping(method.step)
    state = at_points(lambda x: method.start(problem, 0.0, x, params), problem.example_start()[None])
    for k in range(len(W)):
        noise = Increment(np.array([h]), W[k : k + 1], II=None if II is None else II[k : k + 1])
        state, report = (first if k < method.starting_steps else later)(np.array([k * h]), state, noise)
        assert np.all(report.ok)
    return at_points(method.read, state)[0]


REFERENCE = {
    "ImplicitEuler": ((0.16731465266934, 0.49895452495864, 1.41037023882711), (-1.04736487417855, -0.09766189865112)),
    "Trapezoidal": ((0.16692786435760, 0.49906081720028, 1.41042230883024), (-1.04671126386745, -0.09876527918459)),
    "RK1W1": ((0.16739938854553, 0.49890341083829, 1.41029860810817), (-1.04542357412917, -0.10094723538724)),
    "RK1W2": ((0.16783293193665, 0.49875482072705, 1.41017650247698), (-1.04518651662190, -0.10135011324918)),
    "RK1W3": ((0.16783293193665, 0.49875482072705, 1.41017650247698), (-1.04577330068079, -0.10035355519037)),
    "RK1W4": ((0.16804488824038, 0.4986844581137, 1.4101220400650), (-1.04665738203290, -0.09885636280284)),
    "RK1A3": ((0.16897002990992, 0.49838371043623, 1.40989678007405), (-1.04613953365219, -0.09973271777044)),
    "RK1A4": ((0.16924101957410, 0.49827438141012, 1.40978492741982), (-1.04586539722390, -0.10019735031708)),
    "RK1A4L": ((0.16926890787245, 0.49826483919787, 1.40977711143322), (-1.04564218507830, -0.10057603664105)),
}


@pytest.mark.brief("RK1W4", "RK1A4")
@pytest.mark.parametrize("name", REFERENCE)
def test_fixed_increments_give_the_reference_steps(name):
    """Computed independently, with stages solved for H - x in the original equations; agreement to 1e-11."""
    linear, nonlinear = REFERENCE[name]
    method = getattr(stiff, name)
    np.testing.assert_allclose(end(LINEAR_DAE.problem, method, FIXED), [*linear, -np.sin(1 / 16)], atol=1e-11)
    np.testing.assert_allclose(end(NONLINEAR_DAE.problem, method, FIXED), nonlinear, atol=1e-11)


def test_exact_solutions_of_the_models_are_the_reference_values():
    W = FIXED.sum(axis=0)
    linear = (0.169164408717213, 0.498299842697338, 1.409804670223861, -0.062459317842380)
    np.testing.assert_allclose(LINEAR_DAE.exact["solution"](1 / 16, W), linear, atol=1e-14)
    nonlinear = (-1.045827096286733, -0.100262305725193)
    np.testing.assert_allclose(NONLINEAR_DAE.exact["solution"](1 / 16, W), nonlinear, atol=1e-14)


PAIRS = np.array([(0.02, -0.03), (0.01, 0.04), (-0.05, 0.02), (0.03, -0.01)])


@pytest.mark.long(
    "test_fixed_increments_give_the_reference_steps, and tests/claims measures orders with several channels"
)
def test_fixed_increments_in_two_channels():
    def commutative(h):
        return np.array([(np.outer(w, w) - h * np.eye(2)) / 2 for w in PAIRS])

    diodes = end(TWO_DIODES(kappa=1000.0).problem, stiff.RK1W2M, PAIRS, h=0.125 / 4)
    np.testing.assert_allclose(diodes, [0.461450760779, 0.456854432191, 0.409475810327], atol=1e-11)
    areas = commutative(0.25 / 4) + 1e-3 * np.array([[0.0, 1.0], [-1.0, 0.0]])
    rectified = end(RECTIFIER(kappa=300.0).problem, stiff.RK1W2MLevy, PAIRS, areas, h=0.25 / 4)
    np.testing.assert_allclose(rectified, [1.0, 0.622779162540, 0.190924250005, -0.037722083746], atol=1e-11)
    stable = end(TWO_DIODES(kappa=1000.0).problem, stiff.RK1A4M, PAIRS, h=0.125 / 4)
    np.testing.assert_allclose(stable, [0.461455210419, 0.456880503742, 0.409479760005], atol=1e-11)
    areas = commutative(0.25) + 0.05 * np.array([[0.0, 1.0], [-1.0, 0.0]])
    for method, expected in (
        (stiff.RK1A3MLevy, (0.005774251416, 0.108026197536, 0.493738041071)),
        (stiff.RK1A4MLevy, (0.006007755447, 0.116959685781, 0.493955625452)),
    ):
        np.testing.assert_allclose(end(NONCOMMUTING_DAE.problem, method, PAIRS, areas, h=0.25), expected, atol=1e-11)


# --- the state-space form -------------------------------------------------------------------------------------------

SCALAR = ["ImplicitEuler", "Trapezoidal", "RK1W1", "RK1W2", "RK1W3", "RK1W4", "RK1W5", "RK1A3", "RK1A4", "RK1A4L"]
MANY = ["RK1W2M", "RK1WRM", "RK1A3M", "RK1A4M", "RK1ATM", "SplitStepEuler", "StiffMilstein", "BDF2Maruyama"]


CASES = [
    *((name, LINEAR_DAE, FIXED) for name in SCALAR),
    *((name, LINEAR_DAE(channels=2), PAIRS) for name in MANY),
    ("Trapezoidal", NONLINEAR_DAE, FIXED[:1]),
]


@pytest.mark.brief(  # one of each class; a nonlinear constraint
    "RK1A4M-linear_dae", "SplitStepEuler-linear_dae", "StiffMilstein-linear_dae", "BDF2Maruyama-linear_dae",
    "Trapezoidal-nonlinear_dae",
)  # fmt: skip
@pytest.mark.parametrize(("name", "model", "W"), CASES, ids=[f"{name}-{model.name}" for name, model, _ in CASES])
def test_a_step_on_an_sdae_is_the_step_on_its_state_space_form(name, model, W):
    problem, method = model.problem, getattr(stiff, name)
    whole = end(problem, method, W)
    reduced = end(problem.lower(SDE)[0], method, W)
    np.testing.assert_allclose(problem.facts.evolving @ whole, reduced, atol=1e-12)
    np.testing.assert_allclose(
        problem.constraints(problem.f(len(W) * STEP, jnp.asarray(whole), problem.params)), 0.0, atol=1e-12
    )


# --- poles ----------------------------------------------------------------------------------------------------------


def test_steps_beyond_a_pole_are_refused():
    """W4: 1 - γhλ = ±√h μ, W5: 1 - hλ/2 = √h μ or -√h μ/2. Just before a pole a step is made, beyond it it fails."""

    def step(method, k):
        problem = SDE(lambda t, x, p: -x, lambda t, x, p: p * x[:, None], (1.0,), params=0.0).lower(SDAE)[0]
        noise = Increment(1.0, np.array([0.3]))
        x, report = at_one(lambda x, k: method.step(problem, 0.0, x, noise, k), np.ones(1), k)
        return float(x[0]), bool(report.ok)

    γ = 1 - np.sqrt(2) / 2
    for method, poles in ((RK1W4, (1 + γ, -1 - γ)), (RK1W5, (1.5, -3.0))):
        for pole in poles:
            assert step(method, 0.99 * pole)[1] and not step(method, 1.01 * pole)[1]
        x, ok = step(method(guard=False), 1.01 * poles[0])
        assert ok and abs(x) > 1.0  # what the formulas give there


_W, _A = Q(5, 6) - sqrt(2) / 2, Q(29, 6) - 3 * sqrt(10) / 2
CONSTANTS = {
    "RK1W1": (Q(1, 12), Q(11, 24), Q(3, 8), Q(1, 6)),
    "RK1W2": (_W, _W, Q(3, 8), Q(1, 6)),
    "RK1W3": (_W, _W, Q(1, 16), Q(1, 6)),
    "RK1W4": (_W, _W, Q(1, 4), Q(7, 6)),
    "RK1W5": (Q(1, 12), Q(11, 24), Q(3, 8), Q(13, 24)),
    "RK1A3": (_A, _A, Q(1, 16), Q(1, 6)),
    "RK1A4": (Q(1, 12), Q(1, 12), Q(193, 9216), Q(1, 6)),
    "RK1A4L": (Q(271, 2352), Q(91, 768), Q(193, 9216), Q(1, 6)),
    "RK1A3M": (_A, _A, Q(9, 32), Q(1, 6)),
    "RK1A4M": (Q(19, 192), Q(19, 192), Q(33, 128), Q(1, 6)),
    "RK1ATM": (Q(1, 12), Q(1, 12), Q(33, 128), Q(1, 6)),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_error_constants_are_the_exact_ones(name):
    """By polynomials in ξ and the moments of the normal distribution, in rational numbers with roots of 2 and 10."""
    found = getattr(stiff, name).table.error_constants()
    np.testing.assert_allclose(list(found.values()), list(map(float, CONSTANTS[name])), rtol=1e-13)


def test_which_is_recommended():
    """One channel, noise that commutes, that does not, and that does not depend on the state."""
    expected = (
        (NONLINEAR_DAE, "RK1A4"),
        (TWO_DIODES, "RK1A4M"),
        (RC_LADDER, "RK1A4M"),
        (NONCOMMUTING_DAE, "RK1A4MLevy"),
    )
    for model, name in expected:
        assert recommended(model.problem).name == name
        assert recommended(model.problem).refusal(model.problem) is None


def test_claims_of_a_table_are_claims():
    with pytest.raises(TypeError, match=r"claims: expected a tuple of Claim\(kind, order\), .* got 'strong 1'"):
        StiffTable(name="Mine", A=((1,),), B1=((0,),), claims="strong 1", source="here")


DETERMINANTS = {  # along a step -> whether it keeps its sign and does not touch zero
    "constant": (lambda u: 0.0 * u + 1.0, True),
    "falls": (lambda u: 1.0 - 0.9 * u, True),
    "changes its sign": (lambda u: 1.0 - 1.1 * u, False),
    "touches zero early": (lambda u: (u - 0.2) ** 2, False),
    "touches zero late": (lambda u: 3.0 * (u - 0.9) ** 2, False),
    "dips below zero": (lambda u: (u - 0.4) ** 2 - 0.01, False),
    "dips": (lambda u: (u - 0.4) ** 2 + 0.02, True),
    "dips deeply": (lambda u: (u - 0.3) ** 2 + 0.002, True),
    "touches zero beyond": (lambda u: (u - 1.2) ** 2, True),
    "touches zero before": (lambda u: (u + 0.2) ** 2, True),
    "fourth power": (lambda u: (u - 0.55) ** 4, False),
    "turns back": (lambda u: 1.0 + u - u**2, True),
}


@pytest.mark.parametrize("size", [-1e-7, 1e7])
def test_constraints_stay_regular_where_their_determinant_keeps_its_sign(size):
    """For determinants of either sign and any size."""
    found = {}
    for name, (d, _) in DETERMINANTS.items():
        along = types.SimpleNamespace(_determinant_along=lambda h, z, d=d: (size * d(z), lambda u: size * d(u + z)))
        found[name] = bool(at_one(lambda z, along=along: stiff.Stepping._stays_regular(along, 0.1, z), np.zeros(())))
    assert found == {name: stays for name, (_, stays) in DETERMINANTS.items()}
