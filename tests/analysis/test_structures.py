"""Structures from matrices and what is read of them, against exact laws."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.io
import scipy.linalg
import scipy.sparse

import stodyn as sd
from stodyn.analysis.system import structures
from stodyn.methods.alpha import Newmark, StochasticAlpha
from stodyn.noise import coloured as co
from stodyn.numerics import sparse_lyapunov
from stodyn.problems import known_matrices
from stodyn.problems.contract import written_as
from stodyn.warnings import Overdamped

m, k = 1e5 * np.array([1.0, 1.0, 0.8]), 1e7 * np.array([8.0, 6.5, 5.0])
K = np.diag(k + np.append(k[1:], 0.0)) - np.diag(k[1:], 1) - np.diag(k[1:], -1)
ω = np.array([12.50767218, 31.75509868, 45.38911593])
GROUND = co.kanai_tajimi(15.6, 0.6, sigma=1.0)


@functools.cache
def frame(modes=None, damping="rayleigh", ground=GROUND):
    exact = sd.structures.frequencies(sd.Mechanical.from_matrices(m, np.zeros((3, 3)), K))
    said = ("rayleigh", (exact[0], 0.05), (exact[2], 0.05)) if damping == "rayleigh" else ("modal", 0.05)
    built = sd.Mechanical.from_matrices(m, None, K, damping=said, modes=modes)
    return sd.base_excited(built, ground)


def variances(problem, rows):
    P = sd.structures.stationary_covariance(problem)[: rows.shape[1], : rows.shape[1]]
    return np.einsum("ij,jk,ik->i", rows, P, rows)


def test_the_frame_has_its_exact_stationary_law():
    problem = frame()
    np.testing.assert_allclose(sd.structures.frequencies(problem), ω, rtol=1e-9)
    read = sd.structures.responses(problem)
    drifts = [6.661555211924e-05, 6.448913604012e-05, 3.079763268434e-05]
    np.testing.assert_allclose(variances(problem, read.drifts), drifts, rtol=1e-10)
    np.testing.assert_allclose(variances(problem, read.base_shear), [4.315579631504e11], rtol=1e-10)
    accelerations = [2.615226761025, 6.750029531719, 12.09552988890]
    np.testing.assert_allclose(variances(problem, read.accelerations), accelerations, rtol=1e-10)
    P = sd.structures.stationary_covariance(problem)
    np.testing.assert_allclose(0.5 * np.trace(np.diag(m) @ P[3:6, 3:6]), 5403.347892706, rtol=1e-10)
    np.testing.assert_allclose(0.5 * np.trace(K @ P[:3, :3]), 5530.459823182, rtol=1e-10)
    np.testing.assert_allclose(np.trace(problem.own.matrices.C.toarray() @ P[3:6, 3:6]), 13739.26294459, rtol=1e-10)
    modal = [6.655560317478e-05, 6.447591411704e-05, 3.053255066322e-05]
    found = variances(frame(damping="modal"), sd.structures.responses(frame(damping="modal")).drifts)
    np.testing.assert_allclose(found, modal, rtol=1e-10)


def test_large_structures_with_little_damping_in_many_modes_are_computed_from_dense_matrices(monkeypatch):
    """Where the iteration with sparse matrices does not end; the exact law is that of the modes."""
    N, α, β = 30, 0.05, 1e-5
    K = 5e3 * (2.0 * np.eye(N) - np.eye(N, k=1) - np.eye(N, k=-1))
    chain = sd.Mechanical.from_matrices(
        np.ones(N), scipy.sparse.csr_array(α * np.eye(N) + β * K), scipy.sparse.csr_array(K), noise=np.ones(N)
    )
    k, shapes = np.linalg.eigh(K)
    c, force = α + β * k, shapes.T @ np.ones(N)
    sums, apart = c[:, None] + c, k[:, None] - k
    P = np.outer(force, force) * sums / (sums * (np.outer(c, k) + np.outer(k, c)) + apart**2)
    monkeypatch.setattr(structures, "DENSE", 10)
    monkeypatch.setattr(sparse_lyapunov, "MOST", 20)
    exact = np.einsum("ip,pq,iq->i", shapes, P, shapes)
    np.testing.assert_allclose(np.diag(sd.structures.stationary_covariance(chain))[:N], exact, rtol=1e-9)


def test_drifts_of_a_frame_with_rotations_are_those_between_its_floors():
    """Each floor also turns, apart from the rest: its drifts are those of the frame. By default they are taken between
    the coordinates that the ground moves, which is said; names choose others, as of a frame numbered from above."""
    order, names = [0, 3, 1, 4, 2, 5], ("u1", "r1", "u2", "r2", "u3", "r3")
    C = scipy.linalg.block_diag(frame().own.matrices.C.toarray(), 1e5 * np.eye(3))
    turning = scipy.linalg.block_diag(K, np.diag([3e8, 2e8, 1e8]))
    matrices = [np.diag([*m, 1e5, 1e5, 1e5]), C, turning]
    matrices = [matrix[np.ix_(order, order)] for matrix in matrices]
    built = sd.Mechanical.from_matrices(*matrices, names=names)
    shaken = sd.base_excited(built, GROUND, direction=[1.0, 0.0] * 3)
    expected = variances(frame(), sd.structures.responses(frame()).drifts)
    named = sd.structures.responses(shaken, drifts=["u1", "u2", "u3"]).drifts
    np.testing.assert_allclose(variances(shaken, named), expected, rtol=1e-10)
    with pytest.warns(UserWarning, match=r"drifts: taken between 'u1', 'u2', 'u3', the coordinates in the direction"):
        np.testing.assert_array_equal(sd.structures.responses(shaken).drifts, named)
    with pytest.warns(UserWarning, match=r"from the ground up it is \['u2', 'u3'\]"):
        down = sd.structures.responses(shaken, drifts=["u3", "u2"]).drifts
    np.testing.assert_array_equal(down[:, :6], [[0, 0, 0, 0, 1, 0], [0, 0, 1, 0, -1, 0]])
    with pytest.raises(ValueError, match=r"drifts: there is no coordinate 'u4'; there are u1, r1"):
        sd.structures.responses(shaken, drifts=["u4"])
    with pytest.raises(ValueError, match=r"drifts: 'u2' is named 2 times"):
        sd.structures.responses(shaken, drifts=["u1", "u2", "u2"])
    with pytest.raises(ValueError, match=r"drifts: 'r1' does not move with the ground as 'u1' does"):
        sd.structures.responses(shaken, drifts=["u1", "r1", "u2"])
    units = {"u1": "m", "r1": "rad", "u2": "m", "r2": "rad", "u3": "m", "r3": "rad", "time": "s"}
    alone = sd.Mechanical.from_matrices(*matrices, names=names, units=units)
    with pytest.raises(ValueError, match=r"one unit, but they have several: u1 \[m\], r1 \[rad\]"):
        sd.structures.responses(alone, drifts=["u1", "r1"])
    reduced = sd.Mechanical.from_matrices(*matrices, names=names, interface=["u1", "u2", "u3"])
    few = sd.base_excited(reduced, GROUND, direction=[1.0, 0.0] * 3)
    assert np.max(np.abs(sd.structures.reduction_error(shaken, few, drifts=["u1", "u2", "u3"]))) < 1e-8


def test_modal_reduction_says_what_it_leaves_out():
    for count, errors in ((1, [-1.36, -0.11, -5.80]), (2, [-0.25, -0.07, 0.17])):
        found = 100.0 * sd.structures.reduction_error(frame(), frame(count))
        np.testing.assert_allclose(found, errors, atol=6e-3)
    np.testing.assert_allclose(sd.structures.reduction_error(frame(), frame(3)), 0.0, atol=1e-11)
    shares = np.cumsum(sd.structures.effective_masses(frame(3).own))
    np.testing.assert_allclose(shares, [0.8813, 0.9733, 1.0], atol=5e-5)
    assert len(sd.structures.effective_masses(frame(2).own)) == 2
    np.testing.assert_allclose(sd.structures.effective_masses(frame().own), np.diff(shares, prepend=0.0), atol=1e-12)
    assert frame(2).components[:2] == ("mode1", "mode2")


def test_a_static_correction_replaces_modes_that_follow_the_load_at_once():
    found = 100.0 * sd.structures.reduction_error(frame(), frame(2), static=True)
    np.testing.assert_allclose(found, [-0.02, -0.21, 0.02], atol=6e-3)
    np.testing.assert_allclose(sd.structures.reduction_error(frame(), frame(3), static=True), 0.0, atol=1e-11)
    slow = co.kanai_tajimi(0.3, 0.6, sigma=1.0)  # ground so slow that the frame follows it
    plain, corrected = (sd.structures.reduction_error(frame(ground=slow), frame(1, ground=slow), static=flag)
                        for flag in (False, True))  # fmt: skip
    assert np.abs(corrected).max() < 0.2 * np.abs(plain).max()
    run = sd.simulate(frame(1), t=(0.0, 0.1), dt=0.02, paths=8, seed=1, collect=[
        sd.statistics.Moments(), *sd.structures.responses(frame(1), static=True).observables(at=[0.1])])  # fmt: skip
    rows = sd.structures.responses(frame(1), static=True).drifts
    np.testing.assert_allclose(run["drift"].values[-1], rows @ run["mean"].values[-1], rtol=1e-9)
    with pytest.raises(ValueError, match=r"static: the structure is not reduced.*modes=r"):
        sd.structures.responses(frame(), static=True)
    with pytest.raises(ValueError, match=r"static: it needs the load of the whole structure.*base_excited"):
        sd.structures.responses(frame(1).own, static=True)


def test_wind_at_nodes_beside_the_ground():
    """Accelerations x'' + ι a_g with both loads, in either order and of a reduction; the wind is so slow that the modes
    left out follow it at once."""
    wind, top = co.gauss_markov(1.0, 100.0, "wind"), np.array([[0.0], [0.0], [1e5]])
    own, ι = frame().own, np.array([1.0, 0.5, 0.25])
    C = own.matrices.C.toarray()
    first = sd.base_excited(sd.with_noise(own, wind, top), GROUND, direction=ι)
    second = sd.with_noise(sd.base_excited(own, GROUND, direction=ι), wind, top)
    for problem in (first, second):
        read = sd.structures.responses(problem)
        assert read.base_shear.shape == (1, 6)
        wind_alone = np.array([[name == "wind" for name in problem.coloured.state_names]], float)
        rows = np.linalg.solve(np.diag(m), np.concatenate([-K, -C, top @ wind_alone], axis=1))
        np.testing.assert_allclose(read.accelerations, rows, rtol=1e-12)
    few = frame(1).own
    blown = sd.with_noise(few, wind, "x2")
    np.testing.assert_array_equal(blown.into, few.reduction.shapes.T[:, 2:])
    whole = sd.with_noise(own, wind, "x2")
    plain, corrected = (sd.structures.reduction_error(whole, blown, static=flag) for flag in (False, True))
    assert np.abs(plain).max() > 0.3 and np.abs(corrected).max() < 0.01
    still = sd.structures.reduction_error(whole, sd.with_noise(frame(3).own, wind, "x2"), "accelerations", static=True)
    np.testing.assert_allclose(still, 0.0, atol=1e-6)
    both = (
        sd.base_excited(blown, GROUND, direction=ι),
        sd.with_noise(sd.base_excited(few, GROUND, direction=ι), wind, "x2"),
    )
    shear = [variances(problem, sd.structures.responses(problem, static=True).base_shear) for problem in both]
    np.testing.assert_allclose(*shear, rtol=1e-9)
    np.testing.assert_allclose(sd.structures.effective_masses(both[0], ι), sd.structures.effective_masses(few, ι))


def test_accelerations_say_what_rows_cannot_hold():
    pulsing = sd.with_noise(frame().own, co.gauss_markov(1.0, 1.0), lambda t, x, v: 1.0 + t + 0.0 * x)
    pushed = sd.Mechanical.from_matrices(m, np.zeros(3), K, load=np.ones(3))
    for problem, part in ((pulsing, "M⁻¹Γ y of a coloured force"), (pushed, r"M⁻¹ load\(t\)")):
        with pytest.warns(UserWarning, match=f"accelerations: without {part}"):
            sd.structures.responses(problem)
    passing = sd.base_excited(frame().own, GROUND, envelope=co.envelopes.jennings(rise=2.0, end=10.0, decay=0.4))
    np.testing.assert_array_equal(sd.structures.responses(passing).accelerations,
                                  sd.structures.responses(frame()).accelerations)  # fmt: skip


def test_peaks_of_the_first_drift():
    law = sd.structures.peaks(frame(), [1.0, 0.0, 0.0], 10.0)
    np.testing.assert_allclose(law.moments, [6.661555211924e-05, 8.084925919085e-04, 1.035074031986e-02], rtol=1e-11)
    np.testing.assert_allclose([law.bandwidth, law.crossings], [0.228050842608, 3.967783965126], rtol=1e-11)
    np.testing.assert_allclose([law.factor, law.factor_sd], [2.599696528829, 0.495923851230], rtol=1e-11)
    np.testing.assert_allclose(
        law.survival([2.5, 3.0, 3.5]), [0.450737340426, 0.801395007859, 0.953274302019], rtol=1e-11
    )
    np.testing.assert_allclose(law.survival(2.559278648993), 0.5, rtol=1e-11)


def test_a_response_spectrum_has_the_stiff_limit():
    """A stiff oscillator feels the ground's own acceleration."""
    ground = co.clough_penzien(15.6, 0.6, 1.5, 0.6, sigma=1.0)
    stiff = sd.structures.response_spectrum(ground, [0.002], 0.05, 10.0)[0]
    # The ground's acceleration itself is not differentiable; that of a stiff oscillator has its variance.
    single = sd.Mechanical.from_matrices([[1.0]], [[0.1 * np.pi / 0.001]], [[(np.pi / 0.001) ** 2]])
    σ = np.sqrt(sd.structures.stationary_covariance(sd.base_excited(single, ground))[0, 0]) * (np.pi / 0.001) ** 2
    np.testing.assert_allclose(σ, 1.0, rtol=0.02)
    assert 3.0 < stiff / σ < 6.0
    kinds = [sd.structures.response_spectrum(ground, [1.0], kind=kind)[0] for kind in ("displacement", "acceleration")]
    np.testing.assert_allclose(kinds[1] / kinds[0], (2.0 * np.pi) ** 2, rtol=1e-12)


def test_the_sign_of_the_ground_and_white_base_noise():
    """A steady ground acceleration pushes by -M ι a; white noise of the two-sided density S0 feeds in π S0 ι'Mι."""
    problem = frame()
    np.testing.assert_array_equal(problem.into[:, 0], -m)
    S0 = 0.3
    noise = np.sqrt(2.0 * np.pi * S0) * m
    white = sd.Mechanical.from_matrices(m, None, K, damping=("modal", 0.03), noise=noise)
    P = sd.structures.stationary_covariance(white)
    power = np.trace(white.matrices.C.toarray() @ P[3:, 3:])
    np.testing.assert_allclose(power, np.pi * S0 * m.sum(), rtol=1e-10)


@pytest.mark.brief("method0")
@pytest.mark.parametrize("method", [StochasticAlpha, Newmark])
def test_the_energy_balance_closes(method):
    """The residual of each path is of the order of the step, and the means are those of the exact law."""
    residuals = []
    for dt in (0.02, 0.01):
        problem = sd.structures.with_energy(frame())
        run = sd.simulate(problem, method, t=(0.0, 1.0), dt=dt, paths=64, seed=3, progress=False,
                          collect=sd.statistics.Moments(at=[1.0]))  # fmt: skip
        mean = dict(zip(run["component"].values, run["mean"].values[-1], strict=True))
        spread = dict(zip(run["component"].values, run["variance"].values[-1], strict=True))
        total = mean["kinetic"] + mean["strain"] + mean["dissipated"]
        np.testing.assert_allclose(mean["input"] - mean["residual"], total, rtol=1e-9)
        residuals.append(np.sqrt(spread["residual"] + mean["residual"] ** 2) / mean["input"])
    assert residuals[1] < 0.03 and residuals[1] < 0.6 * residuals[0], residuals


def test_white_noise_feeds_in_what_ito_says():
    """E input = ½ tr(B'M⁻¹B) t from rest, exactly in the limit; here within 5 standard errors and the step's 2 %."""
    noise = np.array([3e4, 0.0, 2e4])
    problem = sd.Mechanical.from_matrices(m, None, K, damping=("modal", 0.05), noise=noise)
    run = sd.simulate(sd.structures.with_energy(problem), t=(0.0, 0.5), dt=0.005, paths=2000, seed=4, progress=False,
                      collect=sd.statistics.Moments(at=[0.5]))  # fmt: skip
    at = list(run["component"].values).index("input")
    exact = 0.25 * (noise**2 / m).sum()
    assert abs(run["mean"][-1, at] - exact) < 5.0 * run["mean_stderr"][-1, at] + 0.02 * exact


def test_responses_are_statistics_too():
    read = sd.structures.responses(frame())
    run = sd.simulate(frame(), t=(0.0, 0.1), dt=0.02, paths=4, seed=1, progress=False, collect=read.observables())
    assert run["drift"].shape[1:] == (3,) and "base_shear" in run and "acceleration" in run


# --- files, forms and refusals ----------------------------------------------------------------------------------------


def truss():
    """A cantilever of two bays: bars of EA = 2e8 N between joints, lumped masses; coordinates (x, y) of free joints."""
    joints = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]], float)
    bars = [(0, 2), (1, 3), (2, 3), (0, 3), (2, 4), (3, 5), (4, 5), (2, 5)]
    whole = np.zeros((12, 12))
    for a, b in bars:
        along = joints[b] - joints[a]
        length = np.linalg.norm(along)
        e = along / length
        block = 2e8 / length * np.outer(e, e)
        at = [2 * a, 2 * a + 1, 2 * b, 2 * b + 1]
        whole[np.ix_(at, at)] += np.block([[block, -block], [-block, block]])
    return np.full(8, 50.0), whole[4:, 4:]


def test_a_truss_from_matrix_market_files(tmp_path):
    mass, stiffness = truss()
    scipy.io.mmwrite(tmp_path / "M.mtx", scipy.sparse.coo_array(np.diag(mass)), symmetry="symmetric")
    scipy.io.mmwrite(tmp_path / "K.mtx", scipy.sparse.coo_array(stiffness), symmetry="symmetric")
    built = sd.Mechanical.from_matrices(tmp_path / "M.mtx", None, tmp_path / "K.mtx", damping=("modal", 0.02),
                                        noise=np.eye(8)[:, [7]] * 1e3)  # fmt: skip
    np.testing.assert_allclose(built.matrices.K.toarray(), stiffness)
    Φ_K = np.linalg.eigvalsh(stiffness / 50.0)
    np.testing.assert_allclose(sd.structures.frequencies(built), np.sqrt(Φ_K), rtol=1e-10)
    # Each mode is an oscillator under white noise: var = b²/(4 ζ ω³), b = φ'B.
    values, shapes = np.linalg.eigh(stiffness / 50.0)
    shapes /= np.sqrt(50.0)
    P = sd.structures.stationary_covariance(built)
    modal = 50.0**2 * shapes.T @ P[:8, :8] @ shapes
    exact = (1e3 * shapes[7]) ** 2 / (4 * 0.02 * values**1.5)
    np.testing.assert_allclose(np.diag(modal), exact, rtol=1e-8)
    sparse = sd.Mechanical.from_matrices(
        scipy.sparse.diags_array(mass), np.zeros((8, 8)), scipy.sparse.dia_array(stiffness)
    )
    x = np.arange(8.0)
    np.testing.assert_allclose(sparse.force(0.0, x, x, {}), -stiffness @ x, rtol=1e-12)


def tall(storeys, consistent=False):
    """A shear building with equal floors; its mass lumped, or consistent: (m/6) (1, 4, 1)."""
    ones = np.ones(storeys - 1)
    stiffness = 2.5e8 * scipy.sparse.diags_array([-ones, np.append(2.0 * ones, 1.0), -ones], offsets=[-1, 0, 1])
    mass = np.full(storeys, 2e5)
    if consistent:
        mass = 2e5 / 6.0 * scipy.sparse.diags_array([ones, np.append(4.0 * ones, 2.0), ones], offsets=[-1, 0, 1])
    return sd.Mechanical.from_matrices(mass, None, stiffness, damping=("rayleigh", (0.6, 0.05), (20.0, 0.05)))


@pytest.mark.usefixtures("quick_compiling")
def test_a_large_structure_is_stepped_by_sparse_solves():
    """One step of 100 storeys is the step with dense matrices."""
    built = tall(100, consistent=True)
    assert built.motion.step_matrices is not None
    M, C, K = (matrix.toarray() for matrix in built.matrices)
    method, h, rng = StochasticAlpha.prepared(built, 0.02), 0.02, np.random.default_rng(1)
    x, v, φ = rng.standard_normal((3, 100)) * np.array([[1e-2], [0.1], [1.0]])
    noise = method.needs.increment(h, {"W": np.zeros(0), "Z": np.zeros(0)}, 0)
    step = jax.jit(lambda state: method.step(built, 0.0, state, noise, None))
    (after, φ_after), report = step((np.concatenate([x, v]), φ))
    αm, αf, β, γ = method.coefficients(h)
    known_x, known_v = x + h * v + h**2 * (0.5 - β) * φ, v + h * (1 - γ) * φ
    J = (1 - αm) * M + (1 - αf) * (β * h**2 * K + γ * h * C)
    a = np.linalg.solve(M, -K @ x - C @ v)
    right = -(1 - αf) * (K @ known_x + C @ known_v) - M @ (αm * φ - αf * a)
    exact = np.linalg.solve(J, right)
    np.testing.assert_allclose(φ_after, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())
    np.testing.assert_allclose(after[:100], known_x + β * h**2 * exact, rtol=1e-10, atol=1e-12)
    assert bool(report.ok)


def test_exact_laws_of_a_hundred_storeys():
    """Under Kanai-Tajimi ground twelve modes are enough for the first drift, and displacements grow upwards."""
    problem = sd.base_excited(tall(100), GROUND)
    P = sd.structures.stationary_covariance(problem)
    few = sd.base_excited(sd.Mechanical.from_matrices(*problem.own.matrices, modes=12), GROUND)
    np.testing.assert_allclose(sd.structures.reduction_error(problem, few)[0], 0.0, atol=0.02)
    assert P[99, 99] > P[50, 50] > P[0, 0] > 0.0


def test_equal_frequencies_beside_stiff_springs_are_equal():
    """Those of 1 rad/s beside some of 1e5 come out 1e-6 apart: rounding is relative to the largest."""
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    stiffness = turned @ np.diag([1.0, 1.0, 2.0, 3.0, 5e9, 1e10]) @ turned.T
    stiffness = 0.5 * (stiffness + stiffness.T)
    with pytest.raises(ValueError, match="modes 1 and 2 have the same frequency"):
        sd.Mechanical.from_matrices(np.eye(6), None, stiffness, damping=("modal", [0.1, 0.2, 0.1, 0.1, 0.1, 0.1]))


UNSYMMETRIC = K + np.eye(3, k=1) * 1e3


def twin(**options):
    """Three masses, two of which have the same frequency."""
    return sd.Mechanical.from_matrices(np.ones(3), None, np.array([4.0, 4.0, 9.0]), **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sd.Mechanical.from_matrices(m, None, UNSYMMETRIC, damping=("modal", 0.1)),
            r"K: is not symmetric, entry",
        ),
        (lambda: sd.Mechanical.from_matrices(-m, None, K, damping=("modal", 0.1)), "M: is negative in 3 direction"),
        (lambda: sd.Mechanical.from_matrices(m, None, -K, damping=("modal", 0.1)), "K: is negative in 3 direction"),
        (lambda: sd.Mechanical.from_matrices(m, -0.1 * K, K), "C: is negative in 3 direction"),
        (
            lambda: sd.Mechanical.from_matrices(np.ones(3), None, np.array([5.0, -1.0, -2.0]), damping=("modal", 0.1)),
            r"K: is negative in 2 direction\(s\): its lowest eigenvalue is -2, and coordinate 2 moves most",
        ),
        (
            lambda: sd.Mechanical.from_matrices(np.ones(2), None, np.array([1e6, -1e-3]), damping=("modal", 0.1)),
            r"K: is negative in 1 direction\(s\): its lowest eigenvalue is -0.001, and coordinate 1",
        ),
        (
            lambda: sd.Mechanical.from_matrices(np.ones(3), None, np.array([1e6, -2e-4, -5e5]), damping=("modal", 0.1)),
            r"K: is negative in 1 direction\(s\): its lowest eigenvalue is -5e\+05, and coordinate 2",
        ),
        (
            lambda: sd.Mechanical.from_matrices(np.ones(2), None, np.array([1e-6, -5e-7]), damping=("modal", 0.1)),
            r"K: is negative in 1 direction\(s\): its lowest eigenvalue is -5e-07",
        ),
        (lambda: sd.Mechanical.from_matrices(m[:2], None, K, damping=("modal", 0.1)), r"K: has shape \(3, 3\), but M"),
        (lambda: sd.Mechanical.from_matrices(m, K[:2, :2], K), r"C: has shape \(2, 2\), but M"),
        (lambda: sd.Mechanical.from_matrices(m, None, K), "C, damping: expected one of the two"),
        (lambda: sd.Mechanical.from_matrices(m, K, K, damping=("modal", 0.1)), "C, damping: expected one of the two"),
        (lambda: sd.Mechanical.from_matrices(m, None, K, damping=("viscous", 0.1)), "damping: expected"),
        *(
            (
                lambda d=d: sd.Mechanical.from_matrices(m, None, K, damping=d),
                r"damping: expected \('rayleigh', \(ω1, ζ1\)",
            )
            for d in (0.05, (), ("rayleigh", (10.0, 0.1)), ("modal", (1.0, 0.1), (2.0, 0.1)), ("modal",))
        ),
        *(
            (
                lambda d=d: sd.Mechanical.from_matrices(m, None, K, damping=("rayleigh", *d)),
                "damping: expected two different frequencies > 0 with ratios >= 0",
            )
            for d in (
                ((0.0, 0.1), (2.0, 0.1)),
                ((2.0, 0.1), (0.0, 0.1)),
                ((2.0, 0.1), (2.0, 0.1)),
                ((1.0, -0.1), (2.0, 0.1)),
                ((1.0, 0.1), (2.0, -0.1)),
                ((1.0, 0.1), (np.inf, 0.1)),
            )
        ),
        (lambda: sd.base_excited(frame().own, GROUND, envelope=2.0), "envelope: expected a function of t"),
        (lambda: sd.Mechanical.from_matrices(m, None, K, damping=("modal", [0.1, 0.2])), "damping: expected a ratio"),
        (
            lambda: sd.Mechanical.from_matrices(m, None, K, damping=("rayleigh", (14.0, 0.01), (16.0, 0.2))),
            "damping: the ratio at ω = 12.51, a frequency of the structure, would be -",
        ),
        (lambda: sd.Mechanical.from_matrices(m, K, K, modes=4), "modes: expected a whole number from 1 to 3"),
        (lambda: sd.Mechanical.from_matrices(m, K, K, noise=np.ones((2, 1))), r"noise: expected a finite matrix \(3"),
        (lambda: sd.Mechanical.from_matrices(m, K, K, load=np.ones(2)), "load: expected 3 finite numbers"),
        (lambda: sd.Mechanical.from_matrices("no_such.mtx", K, K), "M: there is no file"),
        (lambda: sd.base_excited(frame().own, GROUND, direction=[1.0, 1.0]), "direction: expected 3 finite numbers"),
        (lambda: sd.structures.responses(frame(), drifts=np.eye(2)), r"drifts: expected the names .* or \(drifts, 3\)"),
        (lambda: sd.structures.peaks(frame(), sd.structures.responses(frame()).drifts[0], 0.0), "duration: expected"),
        (lambda: sd.structures.response_spectrum(GROUND, [1.0], kind="jerk"), "kind: expected one of"),
        (
            lambda: sd.Mechanical.from_matrices(m, None, (1 + 0.1j) * K, damping=("modal", 0.1)),
            "K: holds complex numbers",
        ),
        (
            lambda: twin(damping=("modal", [0.1, 0.2, 0.1])),
            "modes 1 and 2 have the same frequency 2 but the ratios 0.1 and",
        ),
        (
            lambda: twin(damping=("modal", 0.1), modes=1),
            "modes: 1 separates modes 1 and 2, which have the same frequency",
        ),
        (
            lambda: sd.structures.with_energy(
                dataclasses.replace(frame().own, constraints=lambda t, x: x[:1] - 0.1 * t)
            ),
            "problem: a constraint moves with time",
        ),
        (
            lambda: sd.structures.stationary_covariance(
                dataclasses.replace(frame().own, constraints=lambda t, x: x[:1])
            ),
            "problem: has constraints, along which no exact law",
        ),
        (
            lambda: sd.structures.responses(sd.base_excited(frame(1).own, GROUND, envelope=lambda t: t), static=True),
            "static: it needs the load of the whole structure",
        ),
    ],
)
def test_matrices_that_are_no_structure_are_refused_by_name(make, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        make()


@pytest.mark.parametrize("damping", [("modal", 5), ("rayleigh", (10.0, 2.0), (30.0, 5.0))])
def test_ratios_of_damping_that_look_like_percentages_are_told(damping):
    with pytest.warns(Overdamped, match=r"the ratio 5 is 500 % of critical damping.*5 % is 0.05") as told:
        sd.Mechanical.from_matrices(m, None, K, damping=damping)
    assert told[0].filename == __file__


def test_an_envelope_is_looked_at_in_float64_in_any_session():
    """JAX would warn that numbers of 64 bits are cut, which is an error here."""
    with jax.enable_x64(False):
        passing = sd.base_excited(frame().own, GROUND, envelope=co.envelopes.jennings(2.0, 10.0, 0.4))
        assert written_as(passing, sd.SDE).n == passing.n


def test_files_of_another_kind_and_responses_without_a_rate(tmp_path):
    (tmp_path / "pattern.mtx").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 1\n1 1\n")
    (tmp_path / "skew.mtx").write_text("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 1\n2 1 4.0\n")
    (tmp_path / "wide.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 4.0\n")
    (tmp_path / "words.mtx").write_text("mass matrix of the bridge\n")
    for name, message in (("pattern", "holds a pattern matrix"), ("skew", "holds a skew-symmetric"), ("wide", "square"),
                          ("words", "is not a Matrix Market file")):  # fmt: skip
        with pytest.raises(ValueError, match=f"K: .*{name}.*{message}"):
            sd.Mechanical.from_matrices(m, np.zeros(3), tmp_path / f"{name}.mtx")
    white = sd.Mechanical.from_matrices(m, None, K, damping=("modal", 0.05), noise=m)
    with pytest.raises(ValueError, match="row: white noise reaches this response directly"):
        sd.structures.peaks(white, sd.structures.responses(white).accelerations[0], 10.0)
    with pytest.raises(TypeError, match="problem: expected a linear structure made by"):
        sd.structures.with_energy(sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.0)))
    with pytest.raises(TypeError, match="method: RK4 does not keep the account"):
        sd.simulate(sd.structures.with_energy(frame()), "RK4", t=(0, 0.1), dt=0.01, paths=2, seed=1)


@pytest.mark.parametrize("points", [((0.5, 0.0), (0.25, 0.05)), ((0.5, 0.05), (0.25, 0.0))])
def test_rayleigh_damping_has_the_ratios_at_its_frequencies(points):
    """C = 2 ζ ω M at both, of which one may have none; they need not be ordered, nor larger than 1."""
    ω, ζ = np.array(points).T
    built = sd.Mechanical.from_matrices(np.ones(2), None, ω**2, damping=("rayleigh", *points))
    np.testing.assert_allclose(built.matrices.C.toarray(), np.diag(2.0 * ζ * ω), atol=1e-15)


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_stiffness_that_is_negative_by_rounding_alone_is_taken(size):
    """An eigenvalue of -1.5e-10 of the largest entry, of two coordinates."""
    built = sd.Mechanical.from_matrices(np.ones(2), np.zeros((2, 2)), size * np.array([1.0, -1.5e-10]))
    assert built.N == 2


def test_the_elimination_of_a_step_is_ordered_for_long_and_for_short_steps(monkeypatch):
    """The samples are M + c K with c > 0: nearly M, nearly K in proportion, and between."""
    seen = []
    monkeypatch.setattr(known_matrices, "find_order", lambda pattern, samples: seen.append((pattern, samples)))
    built = tall(14, consistent=True)
    assert built.motion.step_matrices is None
    ((pattern, samples),) = seen
    M, _, K = (matrix.toarray()[pattern.rows, pattern.columns] for matrix in built.matrices)
    ratio = np.abs(M).max() / np.abs(K).max()
    np.testing.assert_allclose(samples[0], M, atol=1e-2 * np.abs(M).max())
    np.testing.assert_allclose(samples[-1], 1e3 * ratio * K, rtol=1e-2, atol=2.0 * np.abs(M).max())
    for sample in samples:
        whole = np.zeros((14, 14))
        whole[pattern.rows, pattern.columns] = sample
        assert np.linalg.eigvalsh(whole)[0] > 0.0


@pytest.mark.parametrize(("M", "C", "K"), [(1.0, 1.0, 0.0), (1.0, 0.5, 1.5), (0.0, 0.5, 0.5)])
def test_the_matrix_of_a_step_has_the_places_of_all_three(monkeypatch, M, C, K):
    """Off the diagonal the matrices have equal entries, or one is the sum of the others; on it their sum is 1."""
    patterns, off = [], np.eye(13, k=1) + np.eye(13, k=-1)
    monkeypatch.setattr(known_matrices, "find_order", lambda pattern, samples: patterns.append(pattern))
    built = sd.Mechanical.from_matrices(*(f * np.eye(13) + 0.1 * a * off for f, a in ((0.4, M), (0.3, C), (0.3, K))))
    assert built.motion.step_matrices is None
    places = np.argwhere(np.eye(13) + off)
    np.testing.assert_array_equal(np.stack([patterns[0].rows, patterns[0].columns], axis=1), places)


def test_small_structures_and_others_with_a_force_have_no_matrix_of_a_step():
    built = [tall(storeys) for storeys in (12, 13)]
    other = dataclasses.replace(built[1], force=lambda t, x, v: -(x**3))
    assert [one.motion.step_matrices is None for one in (*built, other)] == [True, False, True]


def test_a_load_feeds_in_its_work():
    """x'' + x = cos 2t from rest, x = (cos t - cos 2t)/3: the work of the load is the energy at the end."""
    problem = sd.Mechanical.from_matrices([[1.0]], [[0.0]], [[1.0]], load=lambda t: jnp.cos(2.0 * t)[None])
    run = sd.simulate(sd.structures.with_energy(problem), "Newmark", t=(0.0, 1.0), dt=2.0**-8, paths=1, seed=1)
    at = dict(zip(run["component"].values, run["mean"].values[-1], strict=True))
    x, v = (np.cos(1.0) - np.cos(2.0)) / 3, (2 * np.sin(2.0) - np.sin(1.0)) / 3
    assert at["input"] == pytest.approx(0.5 * (x * x + v * v), rel=1e-3)
    assert at["residual"] == pytest.approx(0.0, abs=1e-4)


def chain(N, **options):
    """A chain of rods with consistent masses, as a finite-element program exports it."""
    beside = np.ones(N - 1)
    M = np.diag(np.full(N, 4.0)) + np.diag(beside, 1) + np.diag(beside, -1)
    K = np.diag(np.full(N, 2.0)) - np.diag(beside, 1) - np.diag(beside, -1)
    damping = ("rayleigh", (0.3, 0.02), (1.0, 0.02))
    return sd.Mechanical.from_matrices(M / 6.0, None, K, damping=damping, **options)


@pytest.mark.parametrize("N", [4, 24])
def test_coloured_loads_on_consistent_masses_in_a_session_of_float32(N):
    """Large masses are eliminated as sparse matrices, and every load enters with all of its digits."""
    with jax.enable_x64(False):
        problem = sd.with_noise(chain(N), co.gauss_markov(1.0, 2.0), into=1)
        driven, _ = problem.lower(sd.SDE)
        A, G, _ = driven.slopes_at_the_start()
        assert sd.method("VanLoan").refusal(driven) is None
        assert StochasticAlpha.prepared(problem, 0.01) is not None
    M, C, K = (matrix.toarray() for matrix in problem.own.matrices)
    np.testing.assert_allclose(G[N:, 0], np.linalg.inv(M)[:, 1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(A[N:], -np.linalg.solve(M, np.concatenate([K, C], axis=1)), rtol=1e-12, atol=1e-13)


def test_white_noise_has_all_its_digits_in_a_session_of_float32():
    noisy = chain(3, noise=np.array([0.1, 0.2, 0.3]))
    with jax.enable_x64(False):
        covariance = sd.structures.stationary_covariance(noisy)
    np.testing.assert_array_equal(covariance, sd.structures.stationary_covariance(noisy))


@pytest.mark.parametrize("white", [False, True])
def test_a_large_structure_has_the_covariance_of_dense_matrices(monkeypatch, white):
    stiffness = 2.0 * np.eye(30) - np.eye(30, k=1) - np.eye(30, k=-1)
    own = sd.Mechanical.from_matrices(
        np.ones(30),
        None,
        stiffness,
        damping=("rayleigh", (0.1, 0.05), (1.0, 0.05)),
        noise=np.eye(30, 1) if white else None,
    )
    problem = sd.base_excited(own, co.kanai_tajimi(0.3, 0.6, sigma=1.0))
    rows = sd.structures.responses(problem).drifts
    exact = sd.structures.stationary_covariance(problem, rows)
    np.testing.assert_allclose(np.diagonal(exact), variances(problem, rows), rtol=1e-12, atol=1e-20)
    monkeypatch.setattr("stodyn.analysis.structures.DENSE", 10)
    np.testing.assert_allclose(
        np.diagonal(sd.structures.stationary_covariance(problem, rows)), np.diagonal(exact), rtol=1e-9, atol=1e-20
    )


def test_a_structure_floats_in_any_units():
    """Displacements in metres beside small angles, springs far apart, and a chain that nothing holds."""
    chain = 2.0 * np.eye(50) - np.eye(50, k=1) - np.eye(50, k=-1)
    assert not structures._floats(np.diag([1e14, 1.0])) and not structures._floats(chain)
    units = 10.0 ** np.random.default_rng(1).uniform(-9, 9, 50)
    assert not structures._floats(chain * units * units[:, None])
    chain[0, 0] = chain[-1, -1] = 1.0
    assert structures._floats(chain) and structures._floats(chain * units * units[:, None])


def test_floor_spectra_of_a_rigid_structure_are_those_of_the_ground():
    rigid = sd.base_excited(sd.Mechanical.from_matrices([1.0], [2e3], [1e6]), GROUND)
    floor = sd.structures.responses(rigid).accelerations[0]
    periods = [0.2, 0.5, 2.0]
    found = sd.structures.floor_spectrum(rigid, floor, periods, damping=0.03)
    np.testing.assert_allclose(found, sd.structures.response_spectrum(GROUND, periods, 0.03), rtol=2e-3)
    top = sd.structures.responses(frame()).accelerations[2]
    at_resonance, beside = sd.structures.floor_spectrum(frame(), top, 2 * np.pi / ω[0] * np.array([1.0, 1.5]))
    assert at_resonance > 3 * beside
    with pytest.raises(ValueError, match="periods: expected times > 0"):
        sd.structures.floor_spectrum(rigid, floor, [0.0])


def integral_of_four(B, A):
    """∫ |B0 + iω B1 - ω² B2|² / |A0 + iω A1 - ω² A2 - iω³ A3 + ω⁴|² dω (Crandall & Mark, 1963)."""
    (B0, B1, B2), (A0, A1, A2, A3) = B, A
    above = A0 * A1 * B2**2 + A0 * A3 * (B1**2 - 2.0 * B0 * B2) - B0**2 * (A1 - A2 * A3)
    return np.pi * above / (A0 * (A1 * A2 * A3 - A0 * A3**2 - A1**2))


@pytest.mark.parametrize(("period", "ζ"), [(0.3, 0.05), (2.0 * np.pi / 7.0, 0.04), (2.0, 0.02)])
def test_a_floor_spectrum_under_white_ground_is_its_closed_form(period, ζ):
    """Equipment on an oscillator, also in tune with it: λ0 and λ2 in closed form, the rest by quadrature."""
    ω0, ζ0, σ, T, ω = 7.0, 0.04, 0.8, 10.0, 2.0 * np.pi / period
    tower = sd.base_excited(sd.Mechanical.from_matrices([1.0], [2.0 * ζ0 * ω0], [ω0**2]), σ)
    density = σ**2 / (2.0 * np.pi)
    below = np.polymul([1.0, 2.0 * ζ0 * ω0, ω0**2], [1.0, 2.0 * ζ * ω, ω**2])
    carried = np.array([ω0**2, 2.0 * ζ0 * ω0, 0.0])
    λ0, λ2 = (density * integral_of_four(B, below[:0:-1]) for B in (carried, np.roll(carried, 1)))

    def first(w):
        return 2.0 * density * w * np.abs(np.polyval(carried[1::-1], 1j * w) / np.polyval(below, 1j * w)) ** 2

    places = np.sort([0.0, *(np.array([[ω0], [ω]]) * [0.8, 1.0, 1.2]).ravel(), 60.0])
    λ1 = sum(scipy.integrate.quad(first, *ends, limit=400)[0] for ends in itertools.pairwise([*places, np.inf]))
    ν, δ = np.sqrt(λ2 / λ0) / np.pi, np.sqrt(1.0 - λ1**2 / (λ0 * λ2))

    def passed(r):
        grouped = 1.0 - np.exp(-np.sqrt(np.pi / 2) * δ**1.2 * r)
        return 1.0 - (1.0 - np.exp(-(r**2) / 2)) * np.exp(-ν * T * grouped / np.expm1(r**2 / 2))

    factor = 1e-9 + sum(scipy.integrate.quad(passed, *ends)[0] for ends in itertools.pairwise([1e-9, 1, 2, 3, 5, 14]))
    row = sd.structures.responses(tower).accelerations[0]
    found = sd.structures.floor_spectrum(tower, row, [period], damping=ζ, duration=T)
    np.testing.assert_allclose(found, ω**2 * np.sqrt(λ0) * factor, rtol=1e-8)


def test_peaks_of_all_responses_at_once():
    """Drifts and the base shear of each path, followed between the steps."""
    read = sd.structures.responses(frame())
    collect = [*read.extremes(at=[0.4]), sd.statistics.Paths(6, every=1)]
    run = sd.simulate(frame(), Newmark, t=(0.0, 0.4), dt=0.02, paths=6, seed=1, collect=collect)
    z = run["path"].values[:, :, :6]
    for name, rows in (("drift", read.drifts), ("base_shear", read.base_shear), ("acceleration", read.accelerations)):
        at_steps = np.abs(z @ rows.T).max(axis=1)
        found = run[f"{name}_peak"].values.reshape(at_steps.shape)
        assert np.all(found >= at_steps * (1 - 1e-12)) and np.all(found <= 1.1 * at_steps)
        assert run[f"{name}_peak"].attrs["between_steps"].startswith("cubic")


def test_peaks_of_a_response_that_noise_does_not_move_are_refused():
    apart = sd.with_noise(sd.Mechanical.from_matrices([1.0, 1.0], [0.1, 0.1], [1.0, 2.0]),
                          co.gauss_markov(1.0, 1.0), into="x0")  # fmt: skip
    for problem, row in ((apart, [0.0, 1.0]), (frame().own, [1.0, 0.0, 0.0]), (frame(), np.zeros(6))):
        with pytest.raises(ValueError, match="row: noise does not move this response"):
            sd.structures.peaks(problem, row, 10.0)
        with pytest.raises(ValueError, match="row: noise does not move this response"):
            sd.structures.floor_spectrum(problem, row, [0.5])
    with pytest.raises(ValueError, match=r"row: expected finite numbers, got \[nan"):
        sd.structures.peaks(frame(), [np.nan, 0.0, 0.0], 10.0)


def test_laws_of_noise_say_that_a_record_or_a_load_beside_it_is_left_out():
    record = sd.structures.Accelerogram(np.sin(np.arange(0.0, 4.0, 0.01)), dt=0.01)
    row = [1.0, 0.0, 0.0]
    C = frame().own.matrices.C
    steady = sd.Mechanical.from_matrices(m, C, K, load=np.full(3, 1e5))
    for built, what in ((sd.base_excited(frame().own, record), "recorded ground"), (steady, r"load\(t\)")):
        shaken = sd.base_excited(built, GROUND)
        with pytest.warns(UserWarning, match=f"{what}, which moves its mean, is left out"):
            law = sd.structures.peaks(shaken, row, 10.0)
        np.testing.assert_allclose(law.moments, sd.structures.peaks(frame(), row, 10.0).moments, rtol=1e-12)
        with pytest.warns(UserWarning, match=f"{what}, which moves its mean, is left out"):
            sd.structures.spectral_moments(shaken, row)
        with pytest.warns(UserWarning, match=f"{what}, which moves its mean, is left out"):
            sd.structures.floor_spectrum(shaken, row, [0.5])
