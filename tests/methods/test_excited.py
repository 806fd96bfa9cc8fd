"""α methods on structures with coloured noise: exact integrals of the noise, strong order 2, stationary laws."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import stodyn as sd
from stodyn.analysis.step.one_step import OneStep
from stodyn.methods import excited
from stodyn.methods.alpha import HHT, Newmark, StochasticAlpha
from stodyn.noise import coloured as co
from stodyn.numerics import lyapunov, van_loan
from stodyn.problems.driven import response_in_words
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.structure import is_autonomous
from stodyn.warnings import ResponseNotDelivered

# A frame of three storeys, SI units: Rayleigh damping of 5 % at the first and the third mode, Kanai-Tajimi ground.
m, k = 1e5 * np.array([1.0, 1.0, 0.8]), 1e7 * np.array([8.0, 6.5, 5.0])
K = np.diag(k + np.append(k[1:], 0.0)) - np.diag(k[1:], 1) - np.diag(k[1:], -1)
ω = np.sqrt(scipy.linalg.eigh(K, np.diag(m), eigvals_only=True))
a_M, a_K = np.linalg.solve([[0.5 / w, 0.5 * w] for w in ω[[0, 2]]], [0.05, 0.05])
C = a_M * np.diag(m) + a_K * K
GROUND = co.kanai_tajimi(15.6, 0.6, sigma=1.0)
DRIFTS = np.eye(3) - np.eye(3, k=-1)
OWN = sd.Mechanical(lambda t, x, v: -K @ x - C @ v, None, (np.zeros(3), np.zeros(3)), m)
FRAME = sd.with_noise(OWN, GROUND, -m)
EXACT = StochasticAlpha(tol=1e-13)


def exact_system():
    """A and B of (x, v, s)."""
    A = np.zeros((8, 8))
    A[:3, 3:6], A[3:6, :3], A[3:6, 3:6] = np.eye(3), -K / m[:, None], -C / m[:, None]
    A[3:6, 6:], A[6:, 6:] = -FRAME.coloured.C, FRAME.coloured.A
    return A, np.concatenate([np.zeros((6, 1)), FRAME.coloured.B])


@functools.cache
def one_step(h, method=EXACT, direct=True):
    """The method as it steps the frame, and M, G, S, R with state' = M state + G ξ, state = S start, seen = R state."""
    method = method.prepared(FRAME, h)
    method.__dict__["is_direct"] = direct
    one = OneStep(FRAME, method, often=False)
    points = np.eye(one.size + one.normals)
    after = one.after(0.0, h, None, points[:, : one.size], points[:, one.size :]).T
    start, read = one.start(0.0, None)[0][:, :-1], one.reading[0][:, :-1]
    return method, after[:, : one.size], after[:, one.size :], start, read


def stationary(M, G, read):
    """The covariance Σ Mⁱ G G' Mⁱ' of what is read, by doubling: a sum in which nothing cancels."""
    P = G @ G.T
    for _ in range(20):
        P, M = P + M @ P @ M.T, M @ M
    return read @ P @ read.T


@pytest.mark.parametrize(
    ("h", "drifts", "kinetic", "strain"),
    [
        (0.01, [6.671657225334e-05, 6.459172038879e-05, 3.089335362084e-05], 5413.835203440, 5540.227643290),
        (0.02, [6.700976048299e-05, 6.488955713496e-05, 3.117439122946e-05], None, None),
    ],
)
def test_the_stationary_law_of_a_frame_under_kanai_tajimi_ground(h, drifts, kinetic, strain):
    _, M, G, _, read = one_step(h)
    P = stationary(M, G, read)
    np.testing.assert_allclose(np.diag(DRIFTS @ P[:3, :3] @ DRIFTS.T), drifts, rtol=3e-9)
    if kinetic is not None:
        np.testing.assert_allclose(0.5 * np.trace(np.diag(m) @ P[3:6, 3:6]), kinetic, rtol=3e-9)
        np.testing.assert_allclose(0.5 * np.trace(K @ P[:3, :3]), strain, rtol=3e-9)
    # The noise itself is exact at any step.
    np.testing.assert_allclose(P[6:, 6:], FRAME.coloured.state_covariance, rtol=1e-10, atol=1e-12)


def rms_errors(h, T=2.0):
    """Root mean square of |x - exact| and |v - exact| at T from rest, on one path of the ground: no sampling."""
    method, M, G, start, read = one_step(h)
    A, B = exact_system()
    k, n = len(M), len(A)
    joint = np.zeros((n + 2, n + 2))  # (x, v, s) with the integrals of y and of its integral over the step
    joint[:n, :n], joint[n, 6:n], joint[n + 1, n] = A, FRAME.coloured.C, 1.0
    Phi, Q = van_loan.discretise(joint, np.concatenate([B, np.zeros((2, 1))]), np.eye(1), h)
    seen = [6, 7, n, n + 1]
    to_ξ = np.linalg.inv(method.law[1])  # ξ of the noise in (s, ∫y, ∫∫y)
    to_ξ = to_ξ @ np.eye(n + 2)[seen]
    step = scipy.linalg.block_diag(Phi[:n, :n], M)
    fresh = np.concatenate([np.eye(n, n + 2), G @ to_ξ])
    first = np.concatenate([np.eye(n), start])
    P = first[:, 6:] @ FRAME.coloured.state_covariance @ first[:, 6:].T
    for _ in range(round(T / h)):
        P = step @ P @ step.T + fresh @ Q @ fresh.T
    off = np.concatenate([np.eye(n), -read], axis=1)[:, : n + k]
    E = off @ P @ off.T
    return np.sqrt(np.trace(E[:3, :3])), np.sqrt(np.trace(E[3:6, 3:6]))


def test_the_strong_order_is_two_on_one_path_of_the_ground():
    np.testing.assert_allclose(rms_errors(0.02), [1.622351688544e-3, 2.901701735708e-2], rtol=1e-7)
    slopes = np.log2(np.divide(rms_errors(0.01), rms_errors(0.005)))
    assert (np.abs(slopes - 2.0) < 0.1).all(), slopes


def test_a_constant_force_needs_no_recursion_of_its_own():
    """Both forms of the step are one where M⁻¹Γ is constant."""
    _, M, G, _, read = one_step(0.02)
    _, M_whole, G_whole, _, read_whole = one_step(0.02, direct=False)
    np.testing.assert_allclose(stationary(M_whole, G_whole, read_whole), stationary(M, G, read), rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("method", [Newmark, HHT(order=1.5)])
def test_other_members_of_the_family_take_it(method):
    """With the variance of a step of 5 ms, which is of second order."""
    _, M, G, _, read = one_step(0.005, method)
    A, B = exact_system()
    np.testing.assert_allclose(np.diag(stationary(M, G, read)), np.diag(lyapunov.continuous(A, B @ B.T)), rtol=8e-3)


def test_noise_that_multiplies_the_state_keeps_order_two():
    """x'' = -x³ - 0.4 v + (1 + 0.5 sin x + 0.3 v) y on one path of y, 64 paths."""
    own = sd.Mechanical(lambda t, x, v: -(x**3) - 0.4 * v, None, (1.0, 0.0))
    problem = sd.with_noise(own, co.gauss_markov(1.0, 0.5), lambda t, x, v: 1.0 + 0.5 * jnp.sin(x) + 0.3 * v)
    assert not problem.has_constant_push
    fine, paths, T = 256, 64, 1.0
    rng = np.random.default_rng(7)
    transition, root = problem.integrals(T / fine)
    s = np.empty((fine + 1, paths, 1))
    s[0] = rng.standard_normal((paths, 1))
    Y1, Y2 = np.empty((2, fine, paths, 1))
    for i in range(fine):
        drawn = s[i] @ transition.T + rng.standard_normal((paths, 3)) @ root.T
        s[i + 1], Y1[i], Y2[i] = drawn[:, :1], drawn[:, 1:2], drawn[:, 2:]

    def end(steps):
        h, join = T / steps, fine // steps
        method = StochasticAlpha.prepared(problem, h)
        one = OneStep(problem, method)
        law, back = method.law[0], np.linalg.inv(method.law[1])
        z = np.tile([1.0, 0.0], (paths, 1))
        y0, a0 = s[0], -1.0 + (1.0 + 0.5 * np.sin(1.0)) * s[0]
        state = np.concatenate([z, a0, s[0], y0], axis=1)
        for i in range(0, fine, join):
            passed = np.cumsum(Y1[i : i + join], axis=0)
            both = passed[-1], Y2[i : i + join].sum(0) + (T / fine) * passed[:-1].sum(0)
            target = np.concatenate([s[i + join], *both], axis=1)
            ξ = (target - s[i] @ law.T) @ back.T
            state = one.after(i * T / fine, h, None, state, ξ)
        return state[:, :2]

    reference = end(fine)
    errors = np.array([np.sqrt(((end(steps) - reference) ** 2).mean(0)) for steps in (8, 16, 32)])
    slopes = np.log2(errors[:-1] / errors[1:])
    assert (slopes > 1.7).all(), slopes


def test_two_noises_and_an_envelope_in_time():
    pushed = sd.with_noise(FRAME, co.gauss_markov(2e4, 1.0, "wind"), "x2")
    assert isinstance(pushed, DrivenMechanical) and pushed.coloured.names == ("ground", "wind")
    np.testing.assert_allclose(pushed.into, np.stack([-m, [0.0, 0.0, 1.0]], axis=1))
    assert pushed.lower(sd.SDE)[0].components == pushed.components
    fading = sd.with_noise(OWN, GROUND, lambda t, x, v: -m * jnp.exp(-t))
    assert not fading.has_constant_push
    run = sd.simulate(fading, t=(0.0, 0.2), dt=0.02, paths=16, seed=5, progress=False)
    assert '"executor": "printed"' in run.attrs["provenance"]


def test_a_level_of_a_driven_coordinate_is_passed_smoothly():
    """Nothing white reaches the roof, and its rate holds the ground."""
    x = jnp.arange(1.0, 9.0)
    rows, rates = (f(0.0, x, None, (2, 5, 6)) for f in (FRAME.noise_rows, FRAME.mean_rates))
    assert rows[0].size == 0 and rows[2] is None and rates[2] is None
    np.testing.assert_allclose(rates[:2], [6.0, -(K[2] @ x[:3] + C[2] @ x[3:6]) / m[2] - 7.0], rtol=1e-12)
    passed = sd.statistics.Passage(1e-6, "x2", mean=False)
    run = sd.simulate(FRAME, t=(0.0, 0.1), dt=0.01, paths=4, seed=1, progress=False, collect=passed)
    assert 0.0 <= float(run["passage_survival"][-1]) < 1.0


def test_accelerations_that_are_shown_hold_the_coloured_force():
    shown = sd.with_noise(sd.Mechanical(OWN.force, None, OWN.start, m, accelerations=True), GROUND, -m)
    run = sd.simulate(shown, Newmark, t=(0.0, 0.1), dt=0.01, paths=2, seed=1, progress=False,
                      collect=sd.statistics.Paths())  # fmt: skip
    names = shown.components
    parts = (names[:3], names[3:6], names[6:9], names[9:10])
    x, v, a, y = (run["path"].sel(component=list(part)).values for part in parts)
    np.testing.assert_allclose(a, -(x @ K.T + v @ C.T) / m - y, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sd.with_noise(OWN, GROUND, "dx0"), "into: there is no coordinate 'dx0'; the coordinates are x0"),
        (lambda: sd.with_noise(OWN, GROUND, 3), "into: there is no coordinate 3; there are 3"),
        (lambda: sd.with_noise(OWN, GROUND, np.zeros(6)), r"into: expected a finite matrix of shape \(3, 1\)"),
        (lambda: sd.with_noise(OWN, GROUND, ["x0", "x1"]), r"into: 2 coordinate\(s\) for the 1 output"),
        (lambda: sd.with_noise(OWN, GROUND, lambda t, x, v: x[:2]), r"into: returned shape \(2,\), expected \(3, 1\)"),
        (lambda: sd.with_noise(OWN, GROUND.named("x1"), "x0"), r"already has components called \['x1'\]"),
        (
            lambda: sd.simulate(FRAME, sd.ExactNoise("Newmark"), t=(0.0, 0.2), dt=0.1, paths=2, seed=1),
            "methods of the α family keep the noise of a mechanical system exact by themselves",
        ),
        (
            lambda: sd.simulate(FRAME, t=(0.0, 0.03), dt=[0.01, 0.02], paths=2, seed=1),
            "dt: StochasticAlpha draws coloured noise from its law over one length of step",
        ),
    ],
)
def test_noise_into_what_is_not_there_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_other_methods_take_the_same_system_as_an_sde():
    for method in ("RK4", sd.ExactNoise("RK4")):
        run = sd.simulate(FRAME, method, t=(0.0, 0.02), dt=0.002, paths=8, seed=1, progress=False)
        assert tuple(run["component"].values) == FRAME.components


def test_an_envelope_makes_the_equations_depend_on_time():
    """Also one that is 0 where the equations are first looked at; splitting would take its index from a dead load."""
    structure = sd.Mechanical.from_matrices(np.ones(1), 0.4 * np.eye(1), 40.0 * np.eye(1))
    ground = co.kanai_tajimi(15.0, 0.6, sigma=1.0)
    assert is_autonomous(sd.base_excited(structure, ground))
    assert not is_autonomous(sd.base_excited(structure, ground, envelope=co.envelopes.jennings(2.0, 6.0, 0.3)))


@pytest.mark.parametrize("name", ["StochasticAlpha", "GeneralisedAlpha", "Newmark"])
def test_steps_that_distort_the_response_are_told_with_its_size(name):
    """x'' = -400 x - 2 x' + y: the predicted variances are those of a run, |z| < 4.5; what a warning names is right."""
    problem = sd.with_noise(sd.Mechanical(lambda t, x, v: -400.0 * x - 2.0 * v, None, (0.0, 0.0)),
                            co.gauss_markov(1.0, 0.2), "x")  # fmt: skip
    driven, method = problem.lower(sd.SDE)[0], sd.method(name)
    A, G, _ = driven.slopes_at_the_start()
    exact = driven.about_the_start().stationary_variance()[:2]
    step, kick = excited.linear_step(method, problem, 0.1, A[1:], G[1:], np.zeros((1, 0)))
    predicted = np.diagonal(lyapunov.discrete(step, kick @ kick.T))[:2]
    with pytest.warns(ResponseNotDelivered) as told:
        run = sd.simulate(problem, name, t=(0, 10), dt=0.1, paths=4000, seed=1, collect=sd.statistics.Moments(at=[10]))
    z = (run["variance"].values[-1, :2] - predicted) / run["variance_stderr"].values[-1, :2]
    assert np.abs(z).max() < 4.5
    assert f"{100.0 * (predicted / exact - 1.0).max():.3g} % too large" in str(told[0].message)
    sd.simulate(problem, name, t=(0, 0.1), dt=0.01, paths=2, seed=1)  # without a warning


def test_a_coordinate_that_does_not_move_is_not_compared():
    """Coupled to the one that noise drives by rounding alone, it has a variance of 1e-33."""
    stiffness = np.array([[100.0, 1e-13], [1e-13, 1e6]])
    frame = sd.Mechanical(lambda t, x, v: -stiffness @ x - 2.0 * v, None, (np.zeros(2), np.zeros(2)))
    StochasticAlpha.prepared(sd.with_noise(frame, co.gauss_markov(1.0, 0.2), "x0"), 0.02)
    assert response_in_words(np.array([1.01, 0.0]), np.array([1.0, 7e-31]), ("x0", "x1")) is None
    assert response_in_words(np.array([1.01, 0.0]), np.array([1.0, 7e-13]), ("x0", "x1")) is not None
