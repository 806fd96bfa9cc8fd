"""Matrices as programs export them: unsymmetric, functions of time, reduced to an interface; recorded ground."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.noise import coloured as co
from stodyn.numerics import uncompiled

GROUND = co.kanai_tajimi(15.6, 0.6, sigma=1.0)
J = np.array([[0.0, 1.0], [-1.0, 0.0]])


def random_structure(seed):
    """Proportional, not proportional, gyroscopic, and gyroscopic with a circulatory part that damping outweighs."""
    rng = np.random.default_rng(seed)
    N, kind = int(rng.integers(2, 7)), seed % 4
    roots = rng.standard_normal((3, N, N))
    M, C, K = (root @ root.T / N + np.eye(N) for root in roots)
    K *= 10.0 ** rng.uniform(0, 2)
    if kind == 0:
        C = 0.1 * M + 0.02 * K
    skew = np.tril(rng.standard_normal((N, N)), -1)
    skew = skew - skew.T
    if kind >= 2:
        C = C + 3.0 * skew
    if kind == 3:
        K = K + 0.3 * skew / np.linalg.norm(skew, 2)
    return M, C, K, rng.standard_normal((N, 2))


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_random_structures_have_the_law_of_their_equations(first):
    """Slopes of the forces that a step computes, in Lyapunov's equation of SciPy, against `stationary_covariance`; all
    poles with the damping that the eigenvalues of the equations have."""
    for seed in range(first, first + 4):
        M, C, K, B = random_structure(seed)
        N = len(M)
        problem = sd.Mechanical.from_matrices(M, C, K, noise=B, symmetric=False)
        x, v = np.random.default_rng(seed).standard_normal((2, N))
        force = uncompiled.value(lambda x, v: problem.force(0.0, x, v, None), x, v)
        np.testing.assert_allclose(force, -K @ x - C @ v, rtol=1e-12, atol=1e-12)
        A = np.block([[np.zeros((N, N)), np.eye(N)], [-np.linalg.solve(M, K), -np.linalg.solve(M, C)]])
        noise = np.concatenate([np.zeros_like(B), np.linalg.solve(M, B)])
        P = scipy.linalg.solve_continuous_lyapunov(A, -noise @ noise.T)
        np.testing.assert_allclose(sd.structures.stationary_covariance(problem), P, atol=1e-11 * np.abs(P).max())
        poles = sd.structures.poles(problem)
        np.testing.assert_allclose(np.sort(np.abs(poles)), np.sort(np.abs(np.linalg.eigvals(A))), rtol=1e-9)
        assert poles.real.max() < 0.0


def test_a_rotor_steps_with_its_gyroscopic_forces():
    """M x'' + (C + G) x' + K x = σ ξ: sampled covariances within 5 errors of the exact ones, which without G differ by
    more; the plain call is refused, with the way out."""
    M, C, K, B = np.eye(2), 0.4 * np.eye(2), np.diag([1.0, 4.0]), np.array([[1.0, 0.0], [0.0, 0.1]])
    rotor = sd.Mechanical.from_matrices(M, C + 1.5 * J, K, noise=B, symmetric=False)
    run = sd.simulate(rotor, t=(0, 25), dt=0.05, paths=1000, seed=1, collect=sd.statistics.Moments(at=[25.0]))
    exact = np.diagonal(sd.structures.stationary_covariance(rotor))
    assert np.all(np.abs(run["variance"][0] - exact) < 5 * run["variance_stderr"][0] + 3e-3 * exact)
    plain = np.diagonal(sd.structures.stationary_covariance(sd.Mechanical.from_matrices(M, C, K, noise=B)))
    assert np.abs(plain / exact - 1).max() > 0.5
    with pytest.raises(ValueError, match=r"C: is not symmetric, .* gyroscopic or circulatory, give symmetric=False"):
        sd.Mechanical.from_matrices(M, C + 1.5 * J, K)


def test_what_needs_symmetry_says_so():
    shaft = sd.Mechanical.from_matrices(np.eye(2), np.eye(2), 4 * np.eye(2) + 0.3 * J, symmetric=False)
    for ask in (sd.structures.frequencies, sd.structures.effective_masses):
        with pytest.raises(ValueError, match=r"K: is not symmetric, .* take structures\.poles"):
            ask(shaft)
    with pytest.raises(ValueError, match="K is not symmetric; the work of circulatory forces"):
        sd.structures.with_energy(shaft)
    with pytest.raises(ValueError, match="interface: K is not symmetric"):
        sd.Mechanical.from_matrices(np.eye(2), np.eye(2), 4 * np.eye(2) + J, symmetric=False, interface=[0])
    falling = sd.Mechanical.from_matrices(np.eye(2), 0.1 * np.eye(2), np.eye(2) + J, symmetric=False, noise=np.eye(2))
    assert sd.structures.poles(falling).real.max() > 0
    with pytest.raises(ValueError, match=r"(?i)stationary|stable|grows"):
        sd.structures.stationary_covariance(falling)


def test_matrices_that_are_functions():
    """x'' + c x' + k(t) x of each path's own k, without noise: cos(√k t) where k does not change; a mass that grows."""
    k = np.array([1.0, 4.0, 9.0])
    random = sd.Mechanical.from_matrices(
        [1.0], [0.0], lambda t, p: p["k"] * jnp.eye(1), start=([1.0], [0.0]), params={"k": sd.PerPath(k)}
    )
    run = sd.simulate(random, "Newmark", t=(0, 1), dt=0.01, paths=3, seed=1, collect=sd.statistics.Paths(3, at=[1.0]))
    np.testing.assert_allclose(run["path"].values[:, 0, 0], np.cos(np.sqrt(k)), atol=1e-3)
    heavier = sd.Mechanical.from_matrices(
        lambda t: (1.0 + t) * jnp.eye(1), lambda t: jnp.eye(1), np.zeros((1, 1)), start=([0.0], [1.0])
    )  # (1 + t) v' = -v: v = 1/(1 + t)
    run = sd.simulate(heavier, "Newmark", t=(0, 1), dt=0.01, paths=1, seed=1, collect=sd.statistics.Paths(1, at=[1.0]))
    np.testing.assert_allclose(run["path"].values[0, 0], [np.log(2.0), 0.5], atol=1e-4)
    with pytest.raises(ValueError, match="modes: needs matrices that are known, but M, C or K is a function"):
        sd.Mechanical.from_matrices([1.0], [0.0], lambda t: jnp.eye(1), modes=1)
    with pytest.raises(ValueError, match=r"^K: has shape \(2, 2\), expected \(1, 1\)"):
        sd.Mechanical.from_matrices([1.0], [0.0], lambda t: jnp.eye(2))
    with pytest.raises(ValueError, match="C: expected a matrix or a function"):
        sd.Mechanical.from_matrices([1.0], None, lambda t: jnp.eye(1))


def chain(**options):
    N = 8
    K = 1e3 * (np.diag([2.0] * (N - 1) + [1.0]) - np.eye(N, k=1) - np.eye(N, k=-1))
    return sd.Mechanical.from_matrices(np.ones(N), 0.05 * np.eye(N) + 1e-3 * K, K, **options)


def test_craig_and_bamptons_reduction_converges_to_the_structure():
    """Held at coordinates 3 and 7; all six inner modes are no approximation, and more of them are better."""
    whole = sd.base_excited(chain(), GROUND)
    errors = []
    for count in (0, 2, 4, 6):
        few = sd.base_excited(chain(interface=["x3", 7], modes=count), GROUND)
        assert few.own.coordinates == ("x3", "x7", *(f"mode{i + 1}" for i in range(count)))
        errors.append(np.abs(sd.structures.reduction_error(whole, few)).max())
    assert errors[0] > errors[1] > errors[2] > errors[3] and errors[3] < 1e-9 < 1e-3 < errors[0]
    for rows in ("base_shear", "accelerations"):
        all_modes = sd.base_excited(chain(interface=["x3", 7], modes=6), GROUND)
        np.testing.assert_allclose(sd.structures.reduction_error(whole, all_modes, rows), 0.0, atol=1e-9)
    blown = sd.with_noise(chain(interface=["x3", 7], modes=6), co.gauss_markov(1.0, 1.0), into="x3")
    exact = sd.with_noise(chain(), co.gauss_markov(1.0, 1.0), into="x3")
    np.testing.assert_allclose(sd.structures.reduction_error(exact, blown), 0.0, atol=1e-9)


def test_interfaces_that_do_not_fit_are_told():
    with pytest.raises(ValueError, match="interface: expected names or numbers of coordinates"):
        chain(interface=["x9"])
    with pytest.raises(ValueError, match="interface: names a coordinate twice"):
        chain(interface=[3, "x3"])
    with pytest.raises(ValueError, match="modes: expected a whole number from 0 to 6, got 7"):
        chain(interface=[3, 7], modes=7)
    with pytest.raises(ValueError, match="static: a reduction with an interface"):
        sd.structures.responses(sd.base_excited(chain(interface=[3]), GROUND), static=True)
    with pytest.raises(ValueError, match="problem: is reduced to an interface"):
        sd.structures.effective_masses(chain(interface=[3]))


def test_white_ground_has_the_closed_form_of_an_oscillator():
    """σ_x² = S/(4 ζ ω³) with the density S = σ² of a_g, in any way that a system can be given."""
    ω, ζ, σ = 5.0, 0.04, 0.3
    storey = sd.Mechanical.from_matrices([2.0], [4 * ζ * ω], [2 * ω**2])
    shaken = sd.base_excited(storey, σ)
    P = sd.structures.stationary_covariance(shaken)
    np.testing.assert_allclose(np.diagonal(P), [σ**2 / (4 * ζ * ω**3), σ**2 / (4 * ζ * ω)], rtol=1e-12)
    both = sd.base_excited(sd.base_excited(storey, GROUND), σ)
    alone = sd.structures.stationary_covariance(sd.base_excited(storey, GROUND))
    np.testing.assert_allclose(sd.structures.stationary_covariance(both)[0, 0], alone[0, 0] + P[0, 0], rtol=1e-10)
    number = sd.Mechanical(lambda t, x, v: -x, None, start=(0.0, 0.0), mass=np.array([[2.0]]))
    assert float(sd.base_excited(number, σ).noise(0.0, 0.0, 0.0)) == pytest.approx(-0.6)
    vector = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: jnp.ones((1, 1)), start=([0.0], [0.0]))
    moved = sd.base_excited(vector, σ, envelope=lambda t: 2.0 * t)
    np.testing.assert_allclose(uncompiled.value(lambda x: moved.noise(0.5, x, x, None), np.zeros(1)), [[1.0, -0.3]])
    with pytest.raises(ValueError, match=r"noise.*white noise"):
        sd.base_excited(storey, -1.0)
    with pytest.raises(TypeError, match=r"a record of structures\.read_record, or σ of white noise"):
        sd.base_excited(storey, "white")


AT2 = """PEER NGA STRONG MOTION DATABASE RECORD
A VALLEY, 1/2/2003, A STATION, 90
ACCELERATION TIME SERIES IN UNITS OF G
NPTS=   7, DT=   .0100 SEC
  .0000000E+00  .1000000E+00 -.2000000E+00  .3000000E+00 -.1000000E+00
  .5000000E-01  .0000000E+00
"""


def test_records_are_read_with_care(tmp_path):
    at2, plain, table = tmp_path / "a.AT2", tmp_path / "b.at2", tmp_path / "c.csv"
    at2.write_text(AT2)
    plain.write_text(AT2.replace("NPTS=   7, DT=   .0100 SEC", "  7   0.0100  NPTS, DT"))
    values = 9.81 * np.array([0.0, 0.1, -0.2, 0.3, -0.1, 0.05, 0.0])
    for file in (at2, plain):
        record = sd.structures.read_record(file, unit=9.81)
        np.testing.assert_allclose(record.values, values, rtol=1e-12)
        assert record.dt == 0.01 and record.duration == pytest.approx(0.06)
    rows = [f"{0.5 + 0.01 * i:.2f}, {i}, {a}" for i, a in enumerate(values)]
    table.write_text("time (s); number; a\n" + "\n".join(rows))
    record = sd.structures.read_record(table, column=2)
    assert (record.start, record.dt) == (0.5, pytest.approx(0.01))
    np.testing.assert_allclose(record.values, values)
    np.testing.assert_allclose(uncompiled.value(record, np.array(0.515)), values[1:3].mean())
    np.testing.assert_array_equal(uncompiled.value(record, np.array([0.49, 0.57])), 0.0)
    with pytest.raises(ValueError, match=r"unit: a\.AT2 holds accelerations in g"):
        sd.structures.read_record(at2)
    assert sd.structures.read_record(at2, unit=1.0).values[1] == 0.1
    for text, words in (
        (AT2.replace("NPTS", "POINTS"), "line 4 should state NPTS and DT"),
        (AT2.replace("NPTS=   7", "NPTS=   9"), "states NPTS = 9 values but holds 7; its end is missing"),
        (AT2.replace(".3000000E+00", "*****"), "holds something other than numbers"),
    ):
        at2.write_text(text)
        with pytest.raises(ValueError, match=words):
            sd.structures.read_record(at2)
    table.write_text("\n".join(rows[:3] + rows[5:]))
    with pytest.raises(ValueError, match=r"has a gap: from t = 0\.52 to the next value it is 0\.03, elsewhere 0\.01"):
        sd.structures.read_record(table, column=2)
    table.write_text("t, a\n0, 1\n0.01, 2\n0.03, 3\n")
    with pytest.raises(ValueError, match=r"has a gap: from t = 0\.01 to the next value it is 0\.02, elsewhere 0\.01"):
        sd.structures.read_record(table)
    for separated in ("0;1,5\n1;2,5\n2;3,5\n", "0 1,5\n1 2,5\n2 3,5\n", "t\ta\n0\t1\n1\t2,5\n"):
        table.write_text(separated)
        with pytest.raises(ValueError, match="points in place of decimal commas"):
            sd.structures.read_record(table)
    table.write_text("a\n0,12\n-1,25\n")
    for column in (0, 1):
        with pytest.raises(ValueError, match="'0,12': one number with a decimal comma, or two columns"):
            sd.structures.read_record(table, dt=0.01, column=column)
    table.write_text("0,12\n1,25.0\n")
    np.testing.assert_array_equal(sd.structures.read_record(table, dt=0.01).values, [12.0, 25.0])
    for separated in ("0 , 1.5\n1 , 2.5\n", "0.0,1.5\n1.0,2.5\n", "0;1.5\n1;2.5\n", "0\t1.5\n1\t2.5\n"):
        table.write_text(separated)
        np.testing.assert_array_equal(sd.structures.read_record(table).values, [1.5, 2.5])
    table.write_text("\n".join([*rows[:3], "0.53, 3"]))
    with pytest.raises(ValueError, match="has no value in column 2 of line 4"):
        sd.structures.read_record(table, column=2)
    with pytest.raises(ValueError, match="there is no file"):
        sd.structures.read_record(tmp_path / "none.csv")


def test_resampling_keeps_slow_waves_and_no_fast_one_appears_as_slow():
    """Waves of 1 and 18 Hz, read at 25 Hz: every fourth value of the second would be a wave of 7 Hz."""
    t = np.arange(2000) * 0.01
    slow, fast = np.sin(2 * np.pi * t), np.sin(2 * np.pi * 18.0 * t)
    record = sd.structures.Accelerogram(slow + fast, 0.01).resampled(0.04)
    inner = slice(50, -50)
    np.testing.assert_allclose(record.values[inner], slow[::4][inner], atol=5e-3)
    finer = sd.structures.Accelerogram(slow, 0.01).resampled(0.005)
    np.testing.assert_allclose(finer.values[::2][200:-200], slow[200:-200], atol=2e-3)
    with pytest.raises(ValueError, match="dt: expected a ratio of whole numbers"):
        finer.resampled(np.pi * 1e-3)


def test_recorded_ground_moves_a_structure_beside_noise():
    """x'' + 2ζω x' + ω² x = -a(t) by SciPy, alone and beside coloured ground, whose mean effect is 0 without noise."""
    ω, ζ = 8.0, 0.05
    t = np.arange(201) * 0.01
    record = sd.structures.Accelerogram(np.sin(9.0 * t), 0.01)
    storey = sd.Mechanical.from_matrices([2.0], [4 * ζ * ω], [2 * ω**2])
    system = scipy.signal.StateSpace([[0, 1], [-(ω**2), -2 * ζ * ω]], [[0], [-1]], np.eye(2), np.zeros((2, 1)))
    exact = scipy.signal.lsim(system, record.values, t)[1][-1]
    one = sd.statistics.Paths(1, at=[2.0])
    other = sd.Mechanical(lambda t, x, v: -2 * ω**2 * x - 4 * ζ * ω * v, None, start=([0.0], [0.0]), mass=[2.0])
    still = sd.base_excited(storey, co.gauss_markov(1e-9, 1.0))
    for problem in (storey, other, still):
        moved = sd.base_excited(problem, record)
        run = sd.simulate(moved, "Newmark", t=(0, 2), dt=0.01, paths=1, seed=1, collect=one)
        np.testing.assert_allclose(run["path"].values[0, 0, :2], exact, atol=3e-3 * np.abs(exact).max() * ω)
    assert np.shape(sd.structures.responses(sd.base_excited(storey, record)).accelerations) == (1, 2)


def test_weights_take_stiffness_from_a_frame_until_it_buckles():
    """One storey keeps k - P/h, and has m² σ²/(2 c (k - P/h)); of several each buckles where P_i = k_i h_i."""
    m, c, k, h, σ = 2.0, 1.2, 50.0, 4.0, 0.3
    weight = m * 9.81
    taken = sd.structures.p_delta([weight], [h])
    np.testing.assert_allclose(taken, [[weight / h]], rtol=1e-15)
    loaded = sd.base_excited(sd.Mechanical.from_matrices([m], [c], np.array([[k]]) - taken), σ)
    left = k - weight / h
    exact = m**2 * σ**2 / (2.0 * c * left)
    assert sd.structures.stationary_covariance(loaded)[0, 0] == pytest.approx(exact, rel=1e-12)
    stiffness, weights, heights = np.array([80.0, 50.0, 30.0]), np.array([6.0, 5.0, 4.0]), np.array([4.0, 3.0, 3.0])
    d = np.eye(3) - np.eye(3, k=-1)
    K = d.T @ np.diag(stiffness) @ d
    factors = sd.structures.buckling_factors(scipy.sparse.csr_array(K), sd.structures.p_delta(weights, heights))
    np.testing.assert_allclose(factors, np.sort(stiffness * heights / np.cumsum(weights[::-1])[::-1]), rtol=1e-12)
    assert len(sd.structures.buckling_factors(K, -sd.structures.p_delta(weights, heights))) == 0
    beyond = K - 1.01 * factors[0] * sd.structures.p_delta(weights, heights)
    with pytest.raises(ValueError, match=r"K: .*the structure would buckle"):
        sd.Mechanical.from_matrices(np.ones(3), np.zeros(3), beyond)
    for arguments, words in (
        ((K, np.triu(K)), "geometric: is not symmetric"),
        ((K, np.eye(2)), r"geometric: has shape \(2, 2\), but K has \(3, 3\)"),
        ((-K, K), "K: is not positive definite"),
    ):
        with pytest.raises(ValueError, match=words):
            sd.structures.buckling_factors(*arguments)
    with pytest.raises(ValueError, match="a finite number for each floor in both"):
        sd.structures.p_delta([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="heights: expected positive numbers"):
        sd.structures.p_delta([1.0], [0.0])


def test_a_wave_passes_one_support_after_the_other():
    """The second support moves later: the sum of two responses by SciPy, the second one delayed."""
    M, C = np.array([2.0, 1.0]), np.array([[1.0, -0.3], [-0.3, 0.8]])
    K = np.array([[90.0, -40.0], [-40.0, 60.0]])
    first, second = np.array([0.7, 0.4]), np.array([0.3, 0.6])
    t = np.arange(301) * 0.01
    wave = sd.structures.Accelerogram(np.sin(np.pi * np.arange(101) * 0.01) ** 2, 0.01)
    later = wave.delayed(0.5)
    assert (later.start, later.dt, wave.start) == (0.5, 0.01, 0.0)
    bridge = sd.Mechanical.from_matrices(M, C, K)
    moved = sd.base_excited(sd.base_excited(bridge, wave, first), later, second)
    run = sd.simulate(moved, "Newmark", t=(0, 3), dt=0.002, paths=1, seed=1, collect=sd.statistics.Paths(1, at=[3.0]))
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-K / M[:, None], -C / M[:, None]]])
    B = np.concatenate([np.zeros((2, 2)), -np.stack([first, second], axis=1)])
    pushed = np.stack([uncompiled.value(record, t) for record in (wave, later)], axis=1)
    exact = scipy.signal.lsim((A, B, np.eye(4), np.zeros((4, 2))), pushed, t)[1][-1]
    np.testing.assert_allclose(run["path"].values.ravel()[:4], exact, atol=5e-4 * np.abs(exact).max())
    with pytest.raises(ValueError, match="time: expected a finite number"):
        wave.delayed(np.nan)


K = np.array([[3.0, -1.0], [-1.0, 1.0]])


def structure_of(stiffness, params, C=0.1 * K, **options):
    return sd.Mechanical.from_matrices([2.0, 1.0], C, stiffness, noise=[0.0, 1.0], params=params, **options)


def test_a_law_of_the_stiffness_that_reaches_below_zero_is_told_before_a_run():
    """P(k < 0) = Φ(-2.5) = 0.6 % of the paths make up the whole variance of the run. A lognormal law, a matrix that is
    not symmetric, and symmetric=False are not told of."""
    normal = {"k": sd.noise.Normal(1.0, 0.4)}
    with pytest.warns(sd.warnings.NegativeMatrix, match=r"^K: .* on 0\.006\d? of 4096 .*law on \(0, inf\)"):
        structure_of(lambda t, p: p["k"] * K, normal).before_run(0.0)
    with pytest.warns(sd.warnings.NegativeMatrix, match="^C: "):
        structure_of(K, {"c": sd.PerPath([0.1, -0.1])}, C=lambda t, p: p["c"] * K).before_run(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        structure_of(lambda t, p: p["k"] * K, {"k": scipy.stats.lognorm(0.4)}).before_run(0.0)
        structure_of(lambda t, p: p["k"] * K, normal, symmetric=False).before_run(0.0)
        structure_of(lambda t: -K, normal).before_run(0.0)
        structure_of(lambda t, p: p["k"] * jnp.array([[1.0, 5.0], [0.0, 1.0]]), normal).before_run(0.0)


def test_negative_stiffness_is_told_of_large_structures_too():
    """By the draws with the smallest and the largest values: of 120 coordinates nothing was said."""
    chain = 2.0 * np.eye(120) - np.eye(120, k=1) - np.eye(120, k=-1)

    def structure(law):
        return sd.Mechanical.from_matrices(
            np.ones(120), 0.1 * chain, lambda t, p: p["k"] * chain + p["ground"] * np.eye(120),
            noise=np.eye(120)[:, :1], params={"k": law, "ground": sd.noise.Uniform(0.0, 1.0)},
        )  # fmt: skip

    with pytest.warns(
        sd.warnings.NegativeMatrix, match=r"^K: is negative in some direction on some of 4096 drawn paths"
    ):
        structure(sd.noise.Normal(1.0, 0.4)).before_run(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        structure(scipy.stats.lognorm(0.4)).before_run(0.0)


def test_errors_of_functions_that_make_matrices_name_the_matrix():
    params = {"k": 1.0}
    with pytest.raises(TypeError, match=r"^K: is called as K\(t\).*write lambda t, p: "):
        structure_of(lambda p: p["k"] * K, params)
    with pytest.raises(TypeError, match=r"^K: K\(t\) could not be traced"):
        structure_of(lambda t: t["k"] * K, params)
    with pytest.raises(ValueError, match=r"^C: has shape \(2,\), expected \(2, 2\)"):
        structure_of(K, params, C=lambda t: jnp.ones(2))
