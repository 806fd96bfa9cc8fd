"""Lagrange-d'Alembert integrators: reference steps, tables in exact arithmetic, solves, moments without sampling."""

import dataclasses
import functools
from fractions import Fraction as Q

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import stodyn as sd
from stodyn.analysis.linear import step_map
from stodyn.engine.program import executors
from stodyn.engine.spec import describe
from stodyn.methods import burrage, explicit, langevin, srk, variational
from stodyn.methods.partitioned import Stages, Sums
from stodyn.methods.recommend import recommended
from stodyn.methods.variational import DIRK, Midpoint, SRKw1, SRKw2, SRKw2Coupled, StoermerVerlet
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.models.harmonic_langevin import HARMONIC_LANGEVIN
from stodyn.models.van_der_pol import VAN_DER_POL
from stodyn.noise.increment import Increment
from stodyn.numerics.printing.points import AtPoints, at_one
from stodyn.problems.hamiltonian import Hamiltonian

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
SQUARE = (Midpoint, StoermerVerlet, DIRK)
WEAK = (SRKw1, SRKw2, SRKw2Coupled)
named = functools.partial(pytest.mark.parametrize, ids=lambda value: getattr(value, "name", None))


@functools.cache
def pendulum(strength=0.3):
    return Hamiltonian(
        lambda t, q, p: 0.5 * p**2 - jnp.cos(q),
        lambda t, q, p: strength * jnp.sin(q) * p,
        lambda t, q, p: -0.2 * p,
        lambda t, q, p: -0.1 * p,
        start=(1.0, 0.5),
    )


@functools.cache
def two_channels():
    return Hamiltonian(
        lambda t, q, p: 0.5 * (p**2 + q**2),
        (lambda t, q, p: 0.25 * q**2, lambda t, q, p: 0.25 * p**2),
        lambda t, q, p: -0.1 * p,
        start=(1.0, 0.2),
    )


@functools.cache
def crossed():
    """One coordinate, two channels that do not commute, nothing separable, all forces nonlinear."""
    return Hamiltonian(
        lambda t, q, p: 0.5 * p**2 - jnp.cos(q) + 0.1 * q * p**2,
        (lambda t, q, p: 0.3 * jnp.sin(q) * p, lambda t, q, p: 0.2 * jnp.cos(p) * q),
        lambda t, q, p: -0.2 * p * q**2,
        (lambda t, q, p: -0.1 * p, lambda t, q, p: 0.1 * jnp.sin(q + p)),
        start=(1.0, 0.5),
    )


def noise(method, m=1, h=0.1, seed=3):
    z = np.random.default_rng(seed).standard_normal(m)
    if method in WEAK or method.name in ("RS1", "RS2"):
        signs = np.where(z < 0, -1.0, 1.0)
        return Increment(h, jnp.asarray(np.sqrt(3 * h) * signs), aux={"two": jnp.asarray(np.sqrt(h) * signs)})
    return Increment(h, jnp.asarray(np.sqrt(h) * z), Z=jnp.asarray(0.5 * h**1.5 * (z + 0.3)))


@functools.cache
def compiled(method, problem):
    """(x, noise, t) -> (x', report) of one step, the problem lowered as in a run."""
    stepped = problem if isinstance(problem, method.accepts) else problem.to_sde()

    many = AtPoints(lambda x, noise, t: method.step(stepped, t, x, noise, stepped.params))

    def step(x, noise, t=0.0):
        point = jax.tree.map(lambda a: np.asarray(a, float)[None], (np.asarray(x), noise, t))
        return jax.tree.map(lambda a: a[0], many(*point))

    return step


# --- reference steps ------------------------------------------------------------------------------------------------

STEPS = {
    "Midpoint": (1.09611161320459, 0.38248720912015),
    "StoermerVerlet": (1.09611982487264, 0.38255477861095),
    "DIRK": (1.09607765195592, 0.38248934424157),
    "Heun": (1.09596918294892, 0.38249641067913),
    "R2": (1.09601311473473, 0.38251763533046),
    "E1": (1.09585240675443, 0.38153716514621),
    "SRKw1": (1.19312418633144, 0.35734683912330),
    "SRKw2": (1.18835748846165, 0.34769600777640),
    "RS1": (1.18821015032497, 0.34779160239814),
}


@pytest.mark.brief("StoermerVerlet", "E1", "SRKw2", "RS1")  # below, with two channels, also the others
@named("method", [*SQUARE, explicit.Heun, burrage.R2, burrage.E1, SRKw1, SRKw2, srk.RS1])
def test_one_step_of_the_pendulum(method):
    given = Increment(0.1, jnp.array([0.2]), Z=jnp.array([0.012]))
    if method.name in ("SRKw1", "SRKw2", "RS1"):
        given = Increment(0.1, jnp.sqrt(jnp.array([0.3])), aux={"two": jnp.sqrt(jnp.array([0.1]))})
    x, report = compiled(method, pendulum())([1.0, 0.5], given)
    np.testing.assert_allclose(x, STEPS[method.name], rtol=0, atol=2e-14)
    assert bool(report.ok)


@named(
    ("method", "expected"),
    [
        (Midpoint, (1.00496277915633, -0.00148883374690)),
        (StoermerVerlet, (1.00497512437811, -0.00149253731343)),
        (DIRK, (1.00495647363671, -0.00161295018488)),
        (explicit.Heun, (1.00495, -0.00199)),
        (burrage.R2, (1.00495, -0.00199)),
        (SRKw1, (1.02638773685802, -0.18174648862147)),
    ],
)
def test_one_step_with_two_channels(method, expected):
    W = [0.2, -0.1] if method is not SRKw1 else [0.3**0.5, -(0.3**0.5)]
    x, _ = compiled(method, two_channels())([1.0, 0.2], Increment(0.1, jnp.array(W)))
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-14)


@pytest.mark.brief("0.3")
@pytest.mark.parametrize("lam", [0.5, 0.3, Q(5, 4)])
def test_dirk_is_two_midpoint_steps(lam):
    x, W, half = jnp.array([1.0, 0.5]), jnp.array([0.2, -0.35]), compiled(Midpoint, crossed())
    once, _ = compiled(DIRK(lam), crossed())(x, Increment(0.1, W))
    for part in (float(lam), 1.0 - float(lam)):
        x, _ = half(x, Increment(part * 0.1, part * W))
    np.testing.assert_allclose(once, x, rtol=0, atol=1e-14)


def test_weak_midpoint_is_the_midpoint_with_weak_draws():
    x, given = jnp.array([1.0, 0.5]), Increment(0.1, jnp.array([0.3**0.5, 0.0]))
    weak, strong = (compiled(method, crossed())(x, given)[0] for method in (SRKw1(Q(1, 2)), Midpoint))
    np.testing.assert_allclose(weak, strong, rtol=0, atol=1e-15)


def test_time_is_kept_by_the_stages():
    """H = p²/2 - q a(t) has q'' = a(t): Verlet takes a at both ends, the midpoint rule in the middle."""
    problem = Hamiltonian(lambda t, q, p: 0.5 * p**2 - q * jnp.cos(t), (lambda t, q, p: 0.0 * q,), start=(0.0, 0.0))
    given = Increment(0.2, jnp.zeros(1))
    ends, middle = (compiled(method, problem)(jnp.zeros(2), given, 1.0)[0] for method in (StoermerVerlet, Midpoint))
    assert ends[1] == pytest.approx(0.1 * (np.cos(1.0) + np.cos(1.2)), abs=1e-15)
    assert middle[1] == pytest.approx(0.2 * np.cos(1.1), abs=1e-15)


# --- structure that is used -----------------------------------------------------------------------------------------


def iterations(method, problem):
    """How many rounds one step takes, an int where that is known while tracing."""

    def step(x):
        _, report = method.step(problem, 0.0, x, noise(method, problem.m), problem.params)
        known.append(report.iterations)
        return jnp.asarray(report.iterations)

    known = []
    count = at_one(step, np.asarray(problem.example_start(), float))
    return known[0] if isinstance(known[0], int) else int(count)


def test_explicit_and_linear_steps():
    free = Hamiltonian(lambda t, q, p: 0.5 * p**2 + q**4, (lambda t, q, p: jnp.sin(q),), start=(1.0, 0.5))
    assert isinstance(iterations(StoermerVerlet, free), int) and iterations(StoermerVerlet, free) == 0  # explicit
    assert iterations(StoermerVerlet, VAN_DER_POL.problem) == 1  # linear friction: one linear solve
    assert iterations(Midpoint, DAMPED_KUBO.problem) == 1
    assert iterations(DIRK, DAMPED_KUBO.problem) == 2
    assert iterations(SRKw2, DAMPED_KUBO.problem) == 1
    assert iterations(Midpoint, pendulum()) > 1


def test_separable_systems_are_solved_for_the_momenta_alone():
    """Half of the unknowns: the traced solve has N x N matrices in place of 2N x 2N ones."""
    problem = Hamiltonian(lambda t, q, p: 0.5 * p @ p + jnp.sum(jnp.cos(q)), (lambda t, q, p: jnp.sum(jnp.sin(q)),),
                          start=([1.0, 0.5], [0.2, 0.1]))  # fmt: skip
    stages = Midpoint.table.stages(1)
    unknown = []

    def solve(x):
        solved = Midpoint.solve(stages, problem, 0.0, x, noise(Midpoint), None)
        unknown.append(len(solved.values))
        return solved.result()

    jax.eval_shape(solve, jnp.zeros(4))
    assert unknown == [2]
    trace = str(jax.make_jaxpr(lambda x: Midpoint.step(problem, 0.0, x, noise(Midpoint), None)[0])(jnp.zeros(4)))
    assert "f64[4,4]" not in trace and "f64[2,2]" in trace


def test_dead_stages_of_srkw2_are_not_computed():
    assert set(SRKw2.table.stages(1).rows) == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)}


@named("method", [*SQUARE, SRKw1, *(m for m in vars(langevin).values() if isinstance(m, variational.Method))])
def test_steps_are_printed(method):
    problem = HARMONIC_LANGEVIN.problem
    spec = describe(problem, method, (0.0, 1.0), 0.25, None, "float64")
    assert executors.get(spec).name == "printed"


# --- tables ---------------------------------------------------------------------------------------------------------


@named("method", [*SQUARE, DIRK(0.3), SRKw1(0.7), *WEAK])
def test_tables_meet_their_conditions_exactly(method):
    assert method.table.symplecticity(m=1) == ()
    if method in SQUARE:
        assert method.table.order_conditions() == ()
    assert method.table.missed(channels=(1, 2)) == ()


def test_srkw2_is_symplectic_for_one_channel_only():
    assert all(words.startswith("(3.43d)") for words in SRKw2.table.symplecticity(2)) and SRKw2.table.symplecticity(2)
    assert SRKw2Coupled.table.symplecticity(2) == ()


@named(
    ("method", "structure", "m", "order"),
    [
        (SRKw1, "scalar", 1, 1), (SRKw1(Q(1, 2)), "general", 2, 1), (SRKw1(Q(1)), "additive", 2, 1),
        (SRKw2, "scalar", 1, 2), (SRKw2, "general", 2, 1), (SRKw2, "additive", 2, 2),
        (SRKw2Coupled, "scalar", 1, 2), (SRKw2Coupled, "general", 2, 1), (SRKw2Coupled, "commutative", 2, 2),
        (SRKw2Coupled, "additive", 2, 2), (srk.RS1, "general", 2, 2), (srk.RS2, "general", 2, 2),
    ],
)  # fmt: skip
def test_weak_orders_by_coloured_trees(method, structure, m, order):
    """SRKw2 with B3 = B1 having order 2 for commuting noise is proved here."""
    assert method.table.order("weak", structure, m, limit=2).order == order


@named("method", SQUARE)
def test_strong_orders_by_coloured_trees(method):
    assert method.table.order("strong", "general", 2, limit=1).order == Q(1, 2)
    assert method.table.order("strong", "commutative", 2, limit=1).order == 1
    assert method.table.order("strong", "scalar", 1, limit=1.5).order == 1


def test_orders_of_comparison_methods():
    assert burrage.R2.table.order("strong", "general", 2, limit=1.5).order == Q(1, 2)
    found = burrage.E1.table.order("strong", "scalar", 1, limit=1.5)
    assert found.order == 1 and all(c.kind == "mean" and c.order == 2 for c in found.violated)
    means = {c.differential: (c.exact, c.scheme) for c in found.violated}
    assert means["f''(g1, g1)"] == (Q(1, 2), Q(1, 3)) and means["g1'(g1'(f))"] == (Q(1, 4), Q(23, 48))
    assert langevin.AdditiveDIRK.table.order("strong", "additive", 2, limit=2).order == Q(3, 2)


def test_a_table_of_the_users_own():
    """Each block with its own weight also meets all conditions: more than the family (3.40)."""

    def block(w):
        return ((w / 2, Q(0)), (w, (1 - w) / 2))

    α, α_hat, β = Q(1, 3), Q(2, 5), Q(3, 4)
    both = DIRK.table
    table = dataclasses.replace(
        both, name="Mine", claims=both.claims[:3],
        a=block(α), a_bar=block(α), a_hat=block(α_hat), b=block(β), b_bar=block(β), b_hat=block(β),
        α=(α, 1 - α), α_hat=(α_hat, 1 - α_hat), β=(β, 1 - β), β_hat=(β, 1 - β),
    )  # fmt: skip
    assert table.symplecticity() == () and table.order_conditions() == ()
    mine, problem = variational.FromTable(table), crossed()
    x, given = jnp.array([1.0, 0.5]), noise(mine, 2)
    after, _ = compiled(mine, problem)(x, given)
    d = variational.discrete(problem, mine)
    q_next, p = at_one(lambda q, p: d.map(0.0, q, p, given, None), x[:1], after[1:])
    np.testing.assert_allclose(np.concatenate([q_next, p]), [after[0], x[1]], atol=1e-11)
    with pytest.raises(ValueError, match=r"Bad claims strong order 0\.5 for general noise but has order 0"):
        dataclasses.replace(both, name="Bad", b=((Q(0), Q(0)), (Q(0), Q(0))))


# --- refusals and truncation ----------------------------------------------------------------------------------------


def test_srkw2_is_refused_for_several_multiplicative_channels():
    with pytest.raises(ValueError, match=r"SRKw2 is made for scalar or additive noise.* best: SRKw2Coupled \(as SRKw2"):
        sd.simulate(two_channels(), SRKw2, t=(0, 1), dt=0.1, paths=4, seed=0)


def test_increments_are_cut_at_their_bound_and_nowhere_else():
    """W is cut at √(2 k |ln h| h); in the middle nothing changes; h >= 1 is refused."""
    h, k = 0.25, 2.0
    bound = np.sqrt(2 * k * abs(np.log(h)) * h)
    problem, x, cut = pendulum(), [1.0, 0.5], Midpoint(truncation=k)
    step = compiled(cut, problem)
    beyond, at, inside = (step(x, Increment(h, jnp.array([W])))[0] for W in (5 * bound, bound, 0.9 * bound))
    np.testing.assert_array_equal(beyond, at)
    whole = compiled(Midpoint, problem)(x, Increment(h, jnp.array([0.9 * bound])))[0]
    np.testing.assert_allclose(inside, whole, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match=r"truncation=2 cuts W at .* which is 0 at h = 1"):
        sd.simulate(problem, cut, t=(0, 2), dt=1.0, paths=4, seed=0)
    for k, h, share in ((1e-9, 0.1, "100"), (0.0, 0.1, "100"), (-1.0, 0.1, "100"), (2.0, 0.9, "51.6")):
        assert f"would cut {share} % of the draws" in Midpoint(truncation=k).step_refusal(h)
    assert Midpoint(truncation=2.0).step_refusal(0.5) is None
    with pytest.raises(ValueError, match=r"truncation: SRKw2 draws three-point increments, none beyond √\(3h\)"):
        SRKw2(truncation=2.0)


@pytest.mark.brief("1.0-0.5-4.6-82")  # the one with failures
@pytest.mark.parametrize(
    ("strength", "h", "mean", "failed"), [(0.3, 0.5, 4.1, 0), (1.0, 0.5, 4.6, 82), (1.0, 0.2, 4.3, 0)]
)
def test_newton_takes_the_reference_number_of_rounds(strength, h, mean, failed):
    """One midpoint step of the free pendulum for 200 000 draws, to 1e-12: rounds in the mean, and how many fail.

    The failures are draws without a solution in reach, found within 4 standard deviations of a Poisson number; with
    truncation k = 2 there are none.
    """
    free = dataclasses.replace(pendulum(strength), force=None, noise=None)
    W = np.sqrt(h) * np.random.default_rng(2).standard_normal((200_000, 1))
    method, x = Midpoint(tol=1e-12), jnp.array([1.0, 0.5])
    rounds = AtPoints(lambda W: method.step(free, 0.0, x, Increment(h, W), None)[1])
    report = rounds(W)
    assert mean - 0.2 < np.mean(report.iterations) < mean + 0.05
    assert abs(np.sum(~np.asarray(report.ok)) - failed) <= 4 * np.sqrt(2 * max(failed, 1))
    assert np.all(rounds(variational.truncated(W, h, 2.0)).ok)


def test_the_midpoint_rule_is_what_a_hamiltonian_system_gets():
    assert recommended(pendulum()) is Midpoint


def test_paths_that_newton_cannot_solve_are_flagged_and_counted():
    """At dt = 1 with h = sin(q) p some midpoint equations have no solution near z_k."""
    problem = Hamiltonian(lambda t, q, p: 0.5 * p**2 - jnp.cos(q), lambda t, q, p: jnp.sin(q) * p, start=(1.0, 0.5))
    run = sd.simulate(problem, Midpoint, t=(0, 8), dt=1.0, paths=512, seed=1, on_failure="record")
    failed = run.sizes["failure"]
    assert 0 < failed < 256 and int(run["paths_used"][-1]) == 512 - failed
    assert set(run["failure_cause"].values) == {"its equations were not solved"}
    with pytest.raises(sd.PathsFailed, match="whose implicit equations Newton did not solve"):
        sd.simulate(problem, Midpoint, t=(0, 8), dt=1.0, paths=512, seed=1)


def test_refusals_of_the_special_steps():
    cubic = Hamiltonian(lambda t, q, p: 0.5 * p**2, lambda t, q, p: -q, lambda t, q, p: -(p**3), start=(1.0, 0.5))
    assert "AdditiveDIRK" in langevin.ShiftedVerlet.refusal(cubic)
    assert langevin.AdditiveDIRK.refusal(cubic) is None
    assert "some h_r depends on p" in langevin.ShiftedVerlet.refusal(
        Hamiltonian(lambda t, q, p: 0.5 * p**2, lambda t, q, p: p - q, start=(1.0, 0.5))
    )
    assert "separable" in langevin.ConformalVerlet.refusal(pendulum())
    assert "constant matrices" in langevin.ConformalVerlet.refusal(VAN_DER_POL.problem)
    for force in (lambda t, q, p: -q * p, lambda t, q, p: -jnp.sin(p), lambda t, q, p: 1.0 - p):
        problem = Hamiltonian(lambda t, q, p: 0.5 * p**2 + q**4, lambda t, q, p: -q, force, start=(1.0, 0.5))
        assert "that of channel 0 is not one" in langevin.ConformalVerlet.refusal(problem)
    damped = Hamiltonian(lambda t, q, p: 0.5 * p**2, lambda t, q, p: -q, lambda t, q, p: -3.0 * p, start=(1.0, 0.5))
    assert langevin.ConformalVerlet.refusal(damped) is None
    assert "additive" in langevin.ShiftedVerlet.refusal(two_channels())
    with pytest.raises(ValueError, match="lam: expected a number"):
        DIRK(float("nan"))


# --- moments without sampling ---------------------------------------------------------------------------------------

KUBO = {  # dt -> E(H)(1000), E(H)(5000)
    "Midpoint": {0.5: (0.83557173, 0.025456475), 0.25: (0.77892611, 0.017920944), 0.1: (0.75111418, 0.014942022)},
    "StoermerVerlet": {0.5: (5884.4457, None), 0.25: (1.8205345, 1.4160148), 0.1: (0.78050261, 0.018887201)},
    "DIRK": {0.5: (0.76346771, 0.016211864), 0.25: (0.74714827, 0.014551694), 0.1: (0.73973527, 0.013843988)},
    "SRKw1": {0.5: (0.78041881, 0.018093318), 0.25: (0.74725118, 0.014561718), 0.1: (0.73768501, 0.013653197)},
    "SRKw2": {0.5: (0.72934635, 0.012898781), 0.25: (0.73492253, 0.013399463), 0.1: (0.73577137, 0.013477024)},
    "Heun": {0.05: (19.799685, None), 0.02: (2.1707709, 3.012656), 0.01: (1.2164979, 0.16650853)},
    "R2": {0.02: (2.1707709, 3.012656)},
    "E1": {0.05: (0.21478508, 2.857e-5), 0.02: (0.60503328, 0.0050672916), 0.01: (0.70144855, 0.010613501)},
    "RS1": {0.05: (1.0363086, 0.074700755), 0.02: (0.77459404, 0.017428112), 0.01: (0.74513562, 0.014356753)},
    "RS2": {0.05: (0.99552294, 0.061113329), 0.02: (0.77269078, 0.017215048), 0.01: (0.74492483, 0.014336457)},
}
ALL = {m.name: m for m in (*SQUARE, SRKw1, SRKw2, explicit.Heun, burrage.R2, burrage.E1, srk.RS1, srk.RS2)}


def second_moment(step, x0, steps):
    """E x x' after many steps of a linear map without offset, by squaring E[M ⊗ M]."""
    return (np.linalg.matrix_power(step.MM, steps) @ np.outer(x0, x0).ravel()).reshape(2, 2)


@pytest.mark.brief("Midpoint", "RS1")
@pytest.mark.parametrize("name", KUBO)
def test_kubo_energy_without_sampling(name):
    problem = DAMPED_KUBO.problem
    for h, values in KUBO[name].items():
        nodes = 40 if name in ("Midpoint", "StoermerVerlet", "DIRK") else 8
        step = step_map(problem, ALL[name], h, nodes=nodes)
        for T, expected in zip((1000, 5000), values, strict=True):
            if expected is not None:
                energy = 0.5 * np.trace(second_moment(step, (2.0, 0.0), round(T / h)))
                digits = 5e-4 if expected == 2.857e-5 else 5e-8
                assert energy == pytest.approx(expected, rel=digits), (h, T)


LANGEVIN = {
    "Midpoint": (1.25, 1.25, 1.25),
    "StoermerVerlet": (1.210937, 1.240234, 1.247559),
    "DIRK": (1.230672, 1.245112, 1.248774),
    "SRKw1": (1.359766, 1.285254, 1.262720),
    "Heun": (1.647618, 1.279930, 1.251216),
    "R2": (1.647618, 1.279930, 1.251216),
    "RS1": (1.647618, 1.279930, 1.251216),
    "E1": (1.135748, 1.233921, 1.247965),
    "RS2": (1.207034, 1.253307, 1.252841),
}


@pytest.mark.brief("Midpoint", "RS1")
@pytest.mark.parametrize("name", LANGEVIN)
def test_stationary_energy_of_the_oscillator(name):
    for h, expected in zip((0.5, 0.25, 0.125), LANGEVIN[name], strict=True):
        covariance = step_map(HARMONIC_LANGEVIN.problem, ALL[name], h, nodes=6).stationary().covariance
        assert 0.5 * np.trace(covariance) == pytest.approx(expected, abs=1e-6)
        if name == "Midpoint":
            np.testing.assert_allclose(covariance, 1.25 * np.eye(2), atol=1e-10)
        if name == "StoermerVerlet":
            assert covariance[0, 0] == pytest.approx(1.25, abs=1e-10)


def test_stages_backward_reproduce_the_step():
    one = Sums({(0, 0): Q(1, 2)}, {(0, 0): Q(1, 2)}, {})
    last = Sums({(0, 0): Q(1)}, {(0, 0): Q(1)}, {})
    assert Stages({0: one}, last, {0: Q(1, 2)}).backward().rows[0].pull == {(0, 0): Q(-1, 2)}


def test_conformal_verlet_takes_the_forces_at_the_times_of_its_parts():
    """H = p²/2 - t q: p' = p + h (t + (t + h))/2 exactly, and q' = q + h (p + h t/2)."""
    problem = Hamiltonian(lambda t, q, p: 0.5 * p**2 - t * q, h=lambda t, q, p: 0.0 * q, start=(0.3, 0.7))
    t, h = 2.0, 0.25

    def step(t, x):
        return langevin.ConformalVerlet.step(problem, t, x, Increment(h=h, W=np.zeros(1)), None)[0]

    after = at_one(step, t, np.array([0.3, 0.7]))
    np.testing.assert_allclose(after, [0.3 + h * (0.7 + 0.5 * h * t), 0.7 + h * (t + 0.5 * h)], rtol=1e-14)


def test_conformal_verlet_takes_frictions_that_mix_momenta():
    """H = p·p/2 with the force -Γ p, Γ full: p' = exp(-Γ h) p and q' = q + h exp(-Γ h/2) p."""
    Γ, h = np.array([[1.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 0.5]]), 0.25
    p = np.array([1.0, -2.0, 0.5])
    problem = Hamiltonian(lambda t, q, p: 0.5 * p @ p, h=lambda t, q, p: 0.0 * q[0], start=(np.zeros(3), p),
                          force=lambda t, q, p: -Γ @ p)  # fmt: skip

    def step(x):
        return langevin.ConformalVerlet.step(problem, 0.0, x, Increment(h=jnp.asarray(h), W=jnp.zeros(1)), None)[0]

    after = at_one(step, np.concatenate([np.zeros(3), p]))
    half = scipy.linalg.expm(-0.5 * h * Γ)
    np.testing.assert_allclose(after, [*(h * half @ p), *(half @ half @ p)], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("friction", [0.3, 3.0, 100.0])
def test_conformal_verlet_takes_full_matrices_of_friction(friction):
    """Γ_0 and Γ_1 without zeros, neither of which commutes with the other, against SciPy's exponential."""
    N, h, W, rng = 6, 0.25, 0.4, np.random.default_rng(3)
    A, B = rng.standard_normal((2, N, N))
    drag, noisy_drag = friction * A @ A.T / N, 0.2 * B @ B.T / N
    q, p = np.ones(N), np.linspace(-1.0, 1.0, N)
    problem = Hamiltonian(
        lambda t, q, p: 0.5 * jnp.sum(p**2) + 0.25 * jnp.sum(q**4), lambda t, q, p: -0.5 * jnp.sum(q),
        lambda t, q, p: -drag @ p, lambda t, q, p: -noisy_drag @ p, start=(q, p),
    )  # fmt: skip
    assert langevin.ConformalVerlet.refusal(problem) is None

    def step(x, h, W):
        return langevin.ConformalVerlet.step(problem, 0.0, x, Increment(h=h, W=W), None)[0]

    after = at_one(step, np.concatenate([q, p]), h, np.array([W]))
    decay = scipy.linalg.expm(-0.5 * (h * drag + W * noisy_drag))
    middle = decay @ (p + 0.5 * (0.5 * W - h * q**3))
    q_next = q + h * middle
    p_next = decay @ middle + 0.5 * (0.5 * W - h * q_next**3)
    np.testing.assert_allclose(after, np.concatenate([q_next, p_next]), rtol=1e-11, atol=1e-12)


def test_a_friction_too_large_for_its_exponential_is_not_computed_wrong():
    """Of -γ/2 = -1e4 in both directions the series would give large numbers: NaN fails the path instead."""
    with jax.enable_x64(True):
        assert np.isnan(langevin._exponential(-1e4 * jnp.array([[1.0, 0.5], [0.5, 1.0]]))).all()


def test_conformal_verlet_takes_a_friction_for_each_momentum():
    """Free particles with the forces -γ_i p_i and noisy ones -σ_i p_i: p' = exp(-γ h - σ W) p."""
    γ, σ, h, W, p = np.array([1.0, 30.0, 0.2]), np.array([0.5, 0.0, 0.1]), 0.25, -0.4, np.array([1.0, -2.0, 0.5])
    problem = Hamiltonian(lambda t, q, p: 0.5 * p @ p, lambda t, q, p: 0.0 * q[0], lambda t, q, p: -γ * p,
                          lambda t, q, p: -σ * p, start=(np.zeros(3), p))  # fmt: skip

    def step(x):
        return langevin.ConformalVerlet.step(problem, 0.0, x, Increment(h=jnp.asarray(h), W=jnp.array([W])), None)[0]

    half = np.exp(-0.5 * (γ * h + σ * W))
    np.testing.assert_allclose(
        at_one(step, np.concatenate([np.zeros(3), p])), [*(h * half * p), *(half**2 * p)], rtol=1e-13
    )
