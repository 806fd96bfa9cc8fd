"""The order checker against what is known: counts of trees, moments, and the orders of classical schemes."""

import dataclasses
import itertools
import math
from fractions import Fraction as Q

import pytest

from stodyn.methods import trees
from stodyn.methods.signature import Random, homogeneous, integral, integrate, mean, variable
from stodyn.methods.tableau import RSTable
from stodyn.methods.trees import Scheme, deterministic_order, strong_order, weak_order
from stodyn.numerics.surd import sqrt

HALF = Q(1, 2)


def row_sums(A):
    return tuple(sum(row, start=Q(0)) for row in A)


def runge_kutta(A, b, calculus, m, draws=None):
    """The scheme with one tableau for drift and noise: h and the draws (the Wiener increments) take the same part."""
    draws = draws or [integral(k) for k in range(1, m + 1)]
    steps = list(enumerate([1, *draws]))

    def row(a):
        return {(c, j): a[j] * step for c, step in steps for j in range(len(b)) if a[j]}

    clock = dict(enumerate(row_sums(A)))
    return Scheme(calculus, tuple(range(m + 1)), {i: row(a) for i, a in enumerate(A)}, row(b), clock)


def euler(m):
    return runge_kutta([[0]], [1], "ito", m)


def heun(m):
    return runge_kutta([[0, 0], [1, 0]], [HALF, HALF], "stratonovich", m)


def midpoint(m):
    return runge_kutta([[HALF]], [1], "stratonovich", m)


RK4 = ([[0, 0, 0, 0], [HALF, 0, 0, 0], [0, HALF, 0, 0], [0, 0, 1, 0]], [Q(1, 6), Q(1, 3), Q(1, 3), Q(1, 6)])
GAUSS2 = (
    [[Q(1, 4), Q(1, 4) - sqrt(3) / 6], [Q(1, 4) + sqrt(3) / 6, Q(1, 4)]],
    [HALF, HALF],
)


# --- words and trees ------------------------------------------------------------------------------------------------


def test_the_trees_are_counted_right():
    # Rooted trees with 1, ..., 6 nodes: 1, 1, 2, 4, 9, 20.
    assert [len(trees.trees(2 * n, (0,))) for n in range(1, 7)] == [1, 1, 2, 4, 9, 20]
    # With two colours of one weight: 2, 4, 14, 52, 214.
    assert [len(trees.trees(n, (1, 2))) for n in range(1, 6)] == [2, 4, 14, 52, 214]
    assert all(len(set(found)) == len(found) for found in (trees.trees(5, (0, 1, 2)), trees.forests(5, (0, 1, 2))))


def test_symmetries_count_the_labelled_trees():
    # The n^(n-1) labelled rooted trees fall into classes of n!/σ.
    for n in range(1, 7):
        assert sum(math.factorial(n) // trees.symmetry((t,)) for t in trees.trees(2 * n, (0,))) == n ** (n - 1)


def test_moments_of_iterated_integrals():
    W, V, Z, A = integral(1), integral(2), integral(1, 0), integral(1, 2)
    assert mean(W * W) == 1
    assert mean(W * W * W * W) == 3
    assert mean(W * W * W * W * W * W) == 15
    assert mean(W * Z) == HALF
    assert mean(Z * Z) == Q(1, 3)
    assert mean(A * A) == HALF
    assert mean(A * integral(2, 1)) == 0
    assert mean(A * W * V) == HALF
    assert mean(integral(1, 1, 0) * W * W) == Q(1, 3)


def test_integrals_of_one_channel_are_hermite_polynomials():
    W = integral(1)
    assert not homogeneous(2 * integral(1, 1) - (W * W - 1))
    assert not homogeneous(6 * integral(1, 1, 1) - (W * W * W - 3 * W))
    assert not homogeneous(integral(0, 1) + integral(1, 0) - W)
    assert homogeneous(integral(0, 1) - integral(1, 0))
    assert homogeneous(W - 1)


def test_stratonovich_integrals_obey_the_ordinary_chain_rule():
    power: Random | int = 1
    for n in range(1, 6):
        power = integrate(power, 1, "stratonovich")
        assert not homogeneous(power * math.factorial(n) - math.prod([integral(1)] * n))
    # E J_1122 = (1/2)²/2!
    word: Random | int = 1
    for letter in (1, 1, 2, 2):
        word = integrate(word, letter, "stratonovich")
    assert mean(word) == Q(1, 8)


@pytest.mark.parametrize(
    ("law", "outcomes"),
    [
        ("two", [(1, HALF), (-1, HALF)]),
        ("three", [(sqrt(3), Q(1, 6)), (0, Q(2, 3)), (-sqrt(3), Q(1, 6))]),
    ],
)
def test_moments_of_discrete_variables_by_enumeration(law, outcomes):
    v = variable(law, "v")
    for n in range(7):
        exact = sum((p * math.prod([x] * n) for x, p in outcomes), start=Q(0))
        assert mean(math.prod([v] * n)) == exact


def test_moments_of_normals():
    v = variable("normal", "v")
    assert [mean(math.prod([v] * n)) for n in range(7)] == [1, 0, 1, 0, 3, 0, 15]
    assert mean(v * variable("normal", "u")) == 0


# --- deterministic schemes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tableau", "order"),
    [
        (([[0]], [1]), 1),
        (([[HALF]], [1]), 2),
        (([[0, 0], [1, 0]], [HALF, HALF]), 2),
        (([[0, 0, 0], [HALF, 0, 0], [-1, 2, 0]], [Q(1, 6), Q(2, 3), Q(1, 6)]), 3),
        (RK4, 4),
        (GAUSS2, 4),
    ],
)
def test_deterministic_orders_of_tableaus_are_the_known_ones(tableau, order):
    assert deterministic_order(runge_kutta(*tableau, "ito", 1), limit=5).order == order


def test_a_clock_that_is_not_the_row_sum_has_its_own_conditions():
    scheme = runge_kutta(*RK4, "ito", 1)
    assert scheme.fields("general") == (0, 1)
    late = dataclasses.replace(scheme, clock={0: 0, 1: HALF, 2: HALF, 3: HALF})
    order, violated = deterministic_order(late, limit=5)
    assert late.fields("general") == (0, 1, None)
    assert order == 1
    assert [v.differential for v in violated] == ["f'(t)"]


# --- classical stochastic schemes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize(
    ("scheme", "structure", "strong", "weak"),
    [
        (euler, "general", HALF, 1),
        (euler, "commutative", HALF, 1),
        (euler, "diagonal", HALF, 1),
        (euler, "additive", 1, 1),
        (heun, "commutative", 1, 1),
        (heun, "diagonal", 1, 1),
        (heun, "additive", 1, 2),
        (midpoint, "commutative", 1, 1),
    ],
)
def test_euler_heun_and_midpoint(scheme, structure, strong, weak, m):
    assert strong_order(scheme(m), structure, 2).order == strong
    assert weak_order(scheme(m), structure, 2).order == weak


@pytest.mark.parametrize("scheme", [heun, midpoint])
def test_noise_that_does_not_commute_costs_half_an_order(scheme):
    order, violated = strong_order(scheme(2))
    assert order == HALF
    assert {v.differential for v in violated} == {"g1'(g2)", "g2'(g1)"}
    assert strong_order(scheme(1)).order == 1


def test_heun_read_as_ito_converges_to_another_equation():
    order, violated = strong_order(dataclasses.replace(heun(1), calculus="ito"))
    assert order == 0
    assert [str(v) for v in violated] == ["mean of g1'(g1) (order 1): exact 0, scheme 1/2"]


def milstein(m, pairs):
    """Derivative-free Milstein: Hl = x + √h g^l(x), x' = Euler + Σ pairs[l, k]/√h (g^k(Hl) - g^k(x))."""
    channels = range(1, m + 1)
    rows = {0: {}} | {l: {(l, 0): 1} for l in channels}
    last = {(0, 0): 1} | {(k, 0): integral(k) - sum((pairs(l, k) for l in channels), start=0) for k in channels}
    last |= {(k, l): pairs(l, k) for l in channels for k in channels}
    return Scheme("ito", tuple(range(m + 1)), rows, last)


def test_milstein_needs_areas_where_noise_does_not_commute():
    def without_areas(l, k):
        return (integral(l) * integral(k) - (l == k)) / 2

    assert strong_order(milstein(1, integral)).order == 1
    assert strong_order(milstein(2, integral)).order == 1
    assert strong_order(milstein(2, without_areas)).order == HALF
    assert strong_order(milstein(2, without_areas), "commutative").order == 1
    assert strong_order(milstein(2, lambda l, k: integral(k, l))).order == HALF


def test_e1_matches_every_path_through_order_three_halves_but_not_the_means_of_order_two():
    # K. Burrage and P. M. Burrage (2000), with J1 = W and J10/h.
    A = [[0] * 4, [Q(2, 3), 0, 0, 0], [Q(3, 2), Q(-1, 3), 0, 0], [Q(7, 6), 0, 0, 0]]
    B1 = [[0] * 4, [Q(2, 3), 0, 0, 0], [HALF, Q(1, 6), 0, 0], [-HALF, 0, HALF, 0]]
    B2 = [[0] * 4, [0] * 4, [Q(-2, 3), 0, 0, 0], [Q(1, 6), HALF, 0, 0]]
    weights = [Q(1, 4), Q(3, 4), Q(-3, 4), Q(3, 4)], [-HALF, Q(3, 2), Q(-3, 4), Q(3, 4)], [Q(3, 2), Q(-3, 2), 0, 0]

    def row(a, b1, b2):
        noise = {(1, j): b1[j] * integral(1) + b2[j] * integral(1, 0) for j in range(4)}
        return {(0, j): a[j] for j in range(4)} | noise

    scheme = Scheme("stratonovich", (0, 1), {i: row(A[i], B1[i], B2[i]) for i in range(4)}, row(*weights))
    strong, violated = strong_order(scheme, limit=2)
    assert strong == 1
    assert all(v.kind == "mean" and v.order == 2 for v in violated)
    found = {v.differential: (v.exact, v.scheme) for v in violated}
    assert found["f''(g1, g1)"] == (HALF, Q(1, 3))
    assert found["f'(g1'(g1))"] == (Q(1, 4), Q(1, 6))
    assert found["g1'(g1'(f))"] == (Q(1, 4), Q(23, 48))
    assert weak_order(scheme).order == 1
    assert deterministic_order(scheme).order == 3


def test_a_partitioned_scheme():
    """Störmer-Verlet with noise in both parts of (q, p): colours f_q, f_p, g_q, g_p of one channel or two."""

    def verlet(m):
        drives = tuple(d for d in range(m + 1) for _ in "qp")
        rows: dict = {0: {}, 1: {}}
        last = {}
        for colour, driver in enumerate(drives):
            step = integral(driver) if driver else 1
            A = [[0, 0], [HALF, HALF]] if colour % 2 == 0 else [[HALF, 0], [HALF, 0]]
            for i, j in itertools.product(range(2), repeat=2):
                if A[i][j]:
                    rows[i][colour, j] = A[i][j] * step
            last |= {(colour, j): HALF * step for j in range(2)}
        return Scheme("stratonovich", drives, rows, last)

    assert deterministic_order(verlet(1)).order == 2
    assert strong_order(verlet(1)).order == 1
    assert strong_order(verlet(2)).order == HALF
    assert strong_order(verlet(2), "commutative").order == 1
    assert weak_order(verlet(2), limit=1).order == 1


# --- weak schemes with discrete draws -------------------------------------------------------------------------------


def weak_table(A0, A1, B0, B1, B3, α, β):
    """A scheme of the class of RS without its pair variables."""
    zero = tuple((0,) * len(α) for _ in α)
    return RSTable(
        name="", claims=(), source="", c0=row_sums(A0), c1=row_sums(A1), α=α, β1=β, β2=zero[0], B2=zero,
        A0=A0, A1=A1, B0=B0, B1=B1, B3=B3,
    )  # fmt: skip


def srkw1(λ):
    half = ((HALF,),)
    return weak_table(half, ((1 - λ,),), ((λ,),), half, half, (1,), (1,))


def srkw2(B3=None):
    s, q = sqrt(3), Q(1, 4)
    B1 = ((q, q - s / 6, 0, 0), (q + s / 6, q, 0, 0), (0, 0, 0, 0), (0, -HALF, 0, 0))
    return weak_table(
        A0=((q / 2, 0, 0, 0), (q, q / 2, 0, 0), (q, q, q / 2, 0), (q, q, q, q / 2)),
        A1=((Q(-1, 6) + s / 6, Q(1, 3) - s / 6, 0, Q(1, 3)), (HALF, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)),
        B0=(
            (Q(5, 6) - s / 3, -HALF, 0, 0),
            (Q(-1, 6) + s / 3, HALF, 0, 0),
            (HALF, HALF, 0, 0),
            (Q(-1, 6), HALF, 0, 0),
        ),
        B1=B1,
        B3=((0,) * 4,) * 4 if B3 is None else B1,
        α=(q, q, q, q),
        β=(HALF, HALF, 0, 0),
    )


@pytest.mark.parametrize(
    ("table", "m", "structure", "order"),
    [(srkw1(λ), m, structure, 1) for λ in (0, HALF, 1) for m, structure in ((1, "general"), (2, "general"))]
    + [
        (srkw1(0), 2, "additive", 1),
        (srkw2(), 1, "general", 2),
        (srkw2(), 2, "general", 1),
        (srkw2(), 2, "additive", 2),
        (srkw2("B1"), 1, "general", 2),
        (srkw2("B1"), 2, "general", 1),
        (srkw2("B1"), 2, "commutative", 2),
        (srkw2("B1"), 2, "additive", 2),
    ],
)
def test_the_weak_schemes_of_kraus_and_tyranowski(table, m, structure, order):
    # M. Kraus and T. M. Tyranowski (2021): SRKw1, SRKw2, and SRKw2 with B3 = B1.
    assert table.order("weak", structure, m).order == order


def test_draws_with_too_few_moments_lose_the_weak_order():
    # With two-point draws the fourth moment is 1, not 3: enough for order 1 only, even for additive noise.
    two = [variable("two", f"v{k}") for k in (1, 2)]
    three = [variable("three", f"v{k}") for k in (1, 2)]
    tableau = [[0, 0], [1, 0]], [HALF, HALF]
    assert weak_order(runge_kutta(*tableau, "stratonovich", 2, three), "additive").order == 2
    order, violated = weak_order(runge_kutta(*tableau, "stratonovich", 2, two), "additive")
    assert order == 1
    assert ("g1 · g1 · g1 · g1", 3, 1) in {(v.differential, v.exact, v.scheme) for v in violated}
    assert strong_order(runge_kutta(*tableau, "stratonovich", 1, three[:1])).order == 0


# --- the fourteen conditions of strong order 1 ----------------------------------------------------------------------

# D. Küpper, A. Kværnø and A. Rößler (2010): A, B1, B2, B3; the last stage is the result; noise I1, I11/√h and √h.
O3 = ((0, 0, 0),) * 3
γ = 1 - sqrt(2) / 2
STIFF = {
    "IEu": (((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 0),) * 2, ((0, 0),) * 2),
    "Trapez": (((0, 0), (HALF, HALF)), ((0, 0), (1, 0)), ((0, 0),) * 2, ((0, 0),) * 2),
    "RK1W1": (
        ((0, 0, 0), (0, HALF, 0), (HALF, 0, HALF)),
        (*O3[:2], (1, 0, 0)),
        (*O3[:2], (-1, 1, 0)),
        (O3[0], (1, 0, 0), O3[0]),
    ),
    "RK1W2": (
        ((γ, 0, 0), (0, γ, 0), (sqrt(2) / 2, 0, γ)),
        (*O3[:2], (1, 0, 0)),
        (*O3[:2], (-1, 1, 0)),
        (O3[0], (1, 0, 0), O3[0]),
    ),
    "RK1W3": (
        ((γ, 0, 0), (0, γ, 0), (sqrt(2) / 2, 0, γ)),
        (O3[0], (HALF, 0, 0), (0, 1, 0)),
        O3,
        (O3[0], (-HALF, 0, 0), (-1, 1, 0)),
    ),
    "RK1W4": (
        ((γ, 0, 0), (0, γ, 0), (sqrt(2) / 4, sqrt(2) / 4, γ)),
        (*O3[:2], (HALF, HALF, 0)),
        (*O3[:2], (HALF, -HALF, 0)),
        ((1, 0, 0), (0, -1, 0), O3[0]),
    ),
    "RK1W5": (
        ((HALF, 0, 0), (HALF, HALF, 0), (0, HALF, HALF)),
        (*O3[:2], (0, 1, 0)),
        (*O3[:2], (1, -1, 0)),
        ((1, 0, 0), (HALF, -HALF, 0), O3[0]),
    ),
}


def stiff_scheme(A, B1, B2, B3):
    def row(i):
        drift = {(0, j): A[i][j] for j in range(len(A))}
        return drift | {(1, j): B1[i][j] * integral(1) + B2[i][j] * integral(1, 1) + B3[i][j] for j in range(len(A))}

    return Scheme("ito", (0, 1), {i: row(i) for i in range(len(A))}, row(len(A) - 1), dict(enumerate(row_sums(A))))


def fourteen(A, B1, B2, B3):
    """The numbers of the violated conditions, 1 to 14; 5, 6 and 7 ask for one λ."""
    e = (1,) * len(A)

    def on(M, v):
        return tuple(sum((a * b for a, b in zip(row, v, strict=True)), start=Q(0)) for row in M)

    def dot(b, *vectors):
        return sum((math.prod(entries) for entries in zip(b, *vectors, strict=True)), start=Q(0))

    α, b1, b2, b3 = A[-1], B1[-1], B2[-1], B3[-1]
    u1, u2, u3 = on(B1, e), on(B2, e), on(B3, e)
    λ = 2 * dot(b1, u1)
    defects = [
        dot(α, e) - 1, dot(b1, e) - 1, dot(b2, e), dot(b3, e), 0, dot(b3, u3) + λ / 2,
        dot(b2, u3) + dot(b3, u2) - 1 + λ, dot(α, u3), dot(b1, u3) + dot(b3, u1), dot(b2, u2),
        dot(b1, u2) + dot(b2, u1), dot(b3, on(A, e)),
        2 * dot(b1, u1, u2) + 2 * dot(b1, u1, u3) + dot(b2, u1, u1) + dot(b2, u2, u2) + dot(b2, u2, u3)
        + dot(b3, u1, u1) + dot(b3, u2, u2) / 2 + dot(b3, u3, u3),
        dot(b1, on(B1, u2)) + dot(b1, on(B2, u1)) + dot(b1, on(B1, u3)) + dot(b1, on(B3, u1)) + dot(b2, on(B1, u1))
        + dot(b2, on(B2, u2)) + dot(b2, on(B2, u3)) / 2 + dot(b2, on(B3, u2)) / 2 + dot(b3, on(B1, u1))
        + dot(b3, on(B2, u2)) / 2 + dot(b3, on(B3, u3)),
    ]  # fmt: skip
    return {number for number, defect in enumerate(defects, start=1) if defect}


@pytest.mark.parametrize("name", STIFF)
def test_strong_order_of_the_stiff_tables(name):
    order, violated = strong_order(stiff_scheme(*STIFF[name]), limit=1)
    if name in ("IEu", "Trapez"):
        assert order == HALF
        assert [v.differential for v in violated] == ["g1'(g1)"]
        assert fourteen(*STIFF[name]) == {7}
    else:
        assert order == 1
        assert fourteen(*STIFF[name]) == set()


@pytest.mark.parametrize("name", ["RK1W1", "RK1W3", "RK1W4", "RK1W5"])
def test_the_checker_says_what_the_fourteen_conditions_say(name):
    """Every entry of every matrix changed in turn: both find the same tables wrong."""
    for matrix, i, j in itertools.product(range(4), range(3), range(3)):
        table = [[list(row) for row in M] for M in STIFF[name]]
        table[matrix][i][j] += Q(1, 7)
        meets = not fourteen(*table)
        assert (strong_order(stiff_scheme(*table), limit=1).order == 1) == meets


# --- bad input ------------------------------------------------------------------------------------------------------


def test_bad_schemes_are_refused():
    with pytest.raises(ValueError, match="calculus"):
        Scheme("Ito", (0, 1), {0: {}}, {})
    with pytest.raises(ValueError, match="colour 2 at stage 0"):
        Scheme("ito", (0, 1), {0: {}}, {(2, 0): 1})
    with pytest.raises(ValueError, match="stage 'H'"):
        Scheme("ito", (0, 1), {0: {}}, {(1, "H"): 1})
    with pytest.raises(ValueError, match="clock"):
        Scheme("ito", (0, 1), {0: {}}, {}, clock={})
    with pytest.raises(ValueError, match="scalar"):
        strong_order(heun(2), "scalar")
    with pytest.raises(ValueError, match="diagnoal"):
        strong_order(heun(2), "diagnoal")
    with pytest.raises(ValueError, match="law"):
        variable("cauchy", "v")
