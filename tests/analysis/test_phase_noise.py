"""Cycles, phase noise, jitter and periodic noise against closed forms and values computed to many digits elsewhere."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis import cyclostationary
from stodyn.analysis.cycle import periodic_start
from stodyn.analysis.cycle.periodic import _is_stable, periodic
from stodyn.analysis.cycle.periodic_mesh import mesh
from stodyn.analysis.cycle.periodic_system import StageEquations, system_of
from stodyn.analysis.cycle.phase_noise import jitter, phase_noise, response
from stodyn.analysis.cycle.phase_noise_line import Wander
from stodyn.circuits import examples, read
from stodyn.numerics.radau import Scheme
from stodyn.warnings import Unresolved

pytestmark = pytest.mark.usefixtures("quick_compiling")


def van_der_pol(mu, into=1):
    noise = jnp.eye(2)[:, into : into + 1]
    return sd.SDE(lambda t, x: jnp.array([x[1], mu * (1 - x[0] ** 2) * x[1] - x[0]]), lambda t, x: noise, [2.0, 0.0])


def stuart_landau(sigma, growth=1.0, omega=2.0, beta=0.5):
    def drift(t, x):
        r2 = x @ x
        return jnp.array([growth * x[0] - omega * x[1] - r2 * (x[0] - beta * x[1]),
                          growth * x[1] + omega * x[0] - r2 * (x[1] + beta * x[0])])  # fmt: skip

    return sd.SDE(drift, lambda t, x: sigma * jnp.eye(2), [1.0, 0.0])


@pytest.fixture(scope="module")
def ring():
    return phase_noise(read(examples()["ring_oscillator"]), "u1", level=2.0, offsets=np.geomspace(1.0, 1e8, 9))


@pytest.fixture(scope="module")
def rectifier():
    return periodic(read(examples()["rectifier"]))


@pytest.mark.brief("2-7.629874479674841-2.019891384667136-0.22510076652964928-1.2738493044394083e-08")
@pytest.mark.parametrize(
    ("mu", "period", "top", "c", "second"),
    [
        (0.1, 6.2871112722887268, 2.00010397987279592, 0.125429287343658616, 0.533069259209673836),
        (2, 7.6298744796748416, 2.01989138466713602, 0.225100766529649277, 1.27384930443940834e-8),
    ],
)
def test_van_der_pol(mu, period, top, c, second):
    """Values of Taylor series in 50 digits."""
    cycle = periodic(van_der_pol(mu), steps=192)
    found = response(cycle)
    assert cycle.period == pytest.approx(period, rel=1e-13)
    assert cycle.at(np.linspace(cycle.t[0], cycle.t[-1], 20001))[:, 0].max() == pytest.approx(top, rel=1e-7)
    assert found.c == pytest.approx(c, rel=1e-11)
    assert abs(cycle.others[0]) == pytest.approx(second, rel=1e-5)
    assert found.normalisation < 1e-11 and cycle.stable


def test_a_cycle_in_small_units():
    """States of 1e-20, as charges in coulombs may be: sizes are compared with those of other components only."""

    def drift(t, x):
        return jnp.array([x[1], (1 - (1e20 * x[0]) ** 2) * x[1] - x[0]])

    small = sd.SDE(drift, lambda t, x: jnp.array([[0.0], [1e-20]]), [2e-20, 0.0])
    assert periodic(small, steps=64).period == pytest.approx(6.6632868593231301, rel=1e-12)


def test_jitter_of_van_der_pol():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unit noise is not small, but all of this is linear in its density
        found = phase_noise(van_der_pol(1.0), "x0", level=0.0, steps=192)
    R = found["autocovariance"].values
    assert float(found["c"]) == pytest.approx(0.163071746801840454, rel=1e-11)
    assert R[0] == pytest.approx(1.22932836339, rel=1e-10)
    assert R[1] / R[0] == pytest.approx(-0.0580039604844, rel=1e-9)
    assert float(found["cycle_jitter"]) ** 2 == pytest.approx(2.60126855441, rel=1e-10)
    assert R[0] + 2.0 * R[1:].sum() == pytest.approx(float(found["c"] * found["period"]), rel=1e-12)


def test_phase_noise_of_the_stuart_landau_oscillator_is_the_closed_form():
    """c = σ²(1 + β²)/(λΩ²), the closed form of R_0, and the spectrum next to the exact one of Fokker and Planck."""
    cycle = periodic(stuart_landau(0.1), steps=64)
    Ω, T = 1.5, 2.0 * np.pi / 1.5
    assert cycle.period == pytest.approx(T, rel=1e-13)
    assert response(cycle).c == pytest.approx(0.01 * 1.25 / Ω**2, rel=1e-12)
    radial = np.array([-cycle.x[0][1], cycle.x[0][0]])  # a section through the origin
    R = jitter(cycle, radial).R
    assert R[0] == pytest.approx(0.01 / Ω**2 * (T + 0.25 * (T - (1.0 - np.exp(-2.0 * T)) / 2.0)), rel=1e-12)
    assert R[0] + 2.0 * R[1:].sum() == pytest.approx(0.01 * 1.25 / Ω**2 * T, rel=1e-12)
    offsets = np.array([5.625e-3, 0.1]) / (2.0 * np.pi)
    quieter = phase_noise(stuart_landau(0.03), "x0", level=0.0, offsets=offsets, steps=64)
    np.testing.assert_allclose(quieter["density"], 2.0 * np.array([8.786614814, 0.02706370570]), rtol=1.3e-3)
    assert quieter["L"][0] == pytest.approx(
        Wander(float(quieter["c"]), np.zeros(0), np.zeros(0)).line(offsets[:1], Ω)[0], rel=1e-12
    )


def test_the_ring_oscillator_has_the_reference_period_and_jitter(ring):
    """The netlist of the ring: period, c, shares, jitter at 2 V, and the foot of its line."""
    assert float(ring["period"]) == pytest.approx(3.3433892550147e-9, rel=1e-12)
    assert float(ring["c"]) == pytest.approx(1.02028966797e-17, rel=1e-10)
    shares = dict(zip(ring["source"].values, (ring["c_by_source"] / ring["c"]).values, strict=True))
    assert shares["r1"] == pytest.approx(0.16336659, abs=1e-8) and shares["m3"] == pytest.approx(0.16996674, abs=1e-8)
    assert float(ring["period_jitter"]) == pytest.approx(0.178156781e-12, rel=1e-8)
    assert float(ring["corner"]) == pytest.approx(2.8674739, rel=1e-7)
    f0, c = 1.0 / float(ring["period"]), float(ring["c"])
    np.testing.assert_allclose(ring["L"], f0**2 * c / (np.pi**2 * f0**4 * c**2 + ring["offset"] ** 2), rtol=1e-12)
    np.testing.assert_allclose(ring["allan"] ** 2, c / ring["tau"], rtol=1e-6)
    assert ring["c"].attrs["error"] < 1e-9
    assert np.all(ring["response"].sel(component="u1") != 0.0)


def test_lines_are_kubos_near_the_carrier_and_follow_the_offset_law_far_from_it():
    """Kubo's line of one pole, and the offset law far from it."""
    found = Wander(1e-4, np.array([1e-5]), np.array([30.0])).line(np.array([0.05]), 2.0 * np.pi)
    assert found[0] == pytest.approx(0.0432542, rel=2e-6)
    far = Wander(1e-4, np.array([1e-5]), np.array([30.0]))
    f = np.array([50.0])
    assert far.line(f, 2.0 * np.pi)[0] == pytest.approx(((1e-4 + far.slow_density(f)) / f**2)[0], rel=1e-5)


def test_flicker_goes_by_the_mean_gain():
    """1/f noise of a transistor adds V² /(2f) to c in L, far from the carrier; c itself stays that of white noise."""
    text = examples()["ring_oscillator"].read_text()
    loud = read(text.replace("GFLOOR=1n", "GFLOOR=1n KF=1.2e-29 AF=1"))
    found = phase_noise(loud, "u1", offsets=np.geomspace(1e4, 1e8, 5), steps=64)
    assert float(found["c"]) == pytest.approx(1.02028966797e-17, rel=1e-6)
    f, f0 = found["offset"].values, 1.0 / float(found["period"])
    slow = np.sum(found["rate_gain"].values ** 2) / (2.0 * f)
    np.testing.assert_allclose(found["L"], (f0 / f) ** 2 * (float(found["c"]) + slow), rtol=0.02)
    assert slow[0] > float(found["c"]) and found.sizes["flicker"] == 3


def test_the_driven_rectifier_has_the_reference_cycle_and_spectrum(rectifier):
    """Driven: steady state, covariance over the period, spectrum."""
    assert rectifier.period == pytest.approx(1e-6)
    x = dict(zip(rectifier.names, rectifier.x[0], strict=True))
    assert x["u2"] == pytest.approx(-0.45068277, abs=1e-8) and x["u3"] == pytest.approx(0.18574900, abs=1e-8)
    assert abs(rectifier.multipliers[0]) == pytest.approx(0.0908614042, rel=1e-8)
    K = cyclostationary.covariance(rectifier)["deviation"].sel(component="u3").values ** 2
    np.testing.assert_allclose(K[[0, 64, 128]], [3.384736000e-10, 1.8142687801e-10, 2.0836213005e-10], rtol=1e-8)
    S = cyclostationary.spectrum(rectifier, "u3", [0.3e6])["part"].values[0]
    np.testing.assert_allclose(sorted(S), 2e-6 * np.array([3.24491780e-11, 1.02519879e-10]), rtol=1e-6)


def test_a_conductance_that_varies_in_equilibrium():
    """u' = -g(t) u + √(2g) ξ has the variance 1 at every time; its spectrum, gains and samples."""

    def conductance(t):
        return 2.0 * (1.0 + 0.9 * jnp.sin(2.0 * jnp.pi * t))

    cycle = periodic(sd.SDE(lambda t, x: -conductance(t) * x, lambda t, x: jnp.sqrt(2.0 * conductance(t))[None, None],
                            [0.1]), period=1.0, steps=128)  # fmt: skip
    np.testing.assert_allclose(cyclostationary.covariance(cycle)["covariance"], 1.0, rtol=1e-10)
    found = cyclostationary.spectrum(cycle, "x0", [0.3])["density"].values[0]
    assert found == pytest.approx(2.0 * 0.5468881608376, rel=1e-11)
    samples = cyclostationary.sampled(cycle, "x0", 0.25, [0.1])
    q = np.exp(-2.0)  # over a period, whatever the phase
    np.testing.assert_allclose(samples["autocovariance"][:4], q ** np.arange(4), rtol=1e-10)
    exact = 2.0 * (1.0 - q * q) / (1.0 - 2.0 * q * np.cos(0.2 * np.pi) + q * q)
    assert samples["density"].values[0] == pytest.approx(exact, rel=1e-9)
    driven = periodic(sd.SDE(lambda t, x: -conductance(t) * x, lambda t, x: jnp.ones((1, 1)), [0.1]), period=1.0)
    gains = cyclostationary.conversion(driven, "x0", [0.37, 1.37], 1)["gain"].sel(source="W0").values
    assert gains[0, 1] == pytest.approx(0.218861042 - 0.259400379j, rel=1e-7)
    assert gains[1, 2] == pytest.approx(0.027488722 - 0.020629642j, rel=1e-6)


def test_noise_in_either_calculus_and_its_size():
    """c is the same in both calculi and grows with the square of the noise."""

    def noise(t, x):
        return 0.1 * x[:, None]

    problems = [sd.SDE(stuart_landau(1.0).drift, noise, [1.0, 0.0], calculus=c) for c in ("ito", "stratonovich")]
    c = [response(periodic(problem, steps=128)).c for problem in problems]
    assert c[0] == pytest.approx(0.25 * 0.01 / 1.5**2, rel=1e-11) and c[1] == pytest.approx(c[0], rel=1e-13)


def test_what_has_no_cycle_or_phase_is_refused_with_a_way_out(ring, rectifier):
    decaying = sd.SDE(lambda t, x: -x + jnp.array([x[1], -x[0]]), lambda t, x: jnp.eye(2), [1.0, 0.0])
    with pytest.raises(ValueError, match="no periodic solution was found"):
        periodic(decaying)
    for grows, period in ((lambda t, x: x**2, None), (lambda t, x: x**2 + jnp.cos(t), 6.28)):
        with pytest.raises(ValueError, match=r"could not be followed from t = 0 to .* Give period=, start="):
            periodic(sd.SDE(grows, lambda t, x: jnp.ones((1, 1)), [1.0]), period=period)
    with pytest.raises(ValueError, match="period: the problem depends on time"):
        periodic(sd.SDE(lambda t, x: -x + jnp.sin(t), lambda t, x: jnp.ones((1, 1)), [0.0]))
    with pytest.raises(ValueError, match="has no free phase"):
        phase_noise(rectifier)
    with pytest.raises(ValueError, match="steps: expected"):
        periodic(decaying, steps=3)
    cycle = periodic(stuart_landau(0.1), steps=64)
    with pytest.raises(ValueError, match="never rises through 5"):
        phase_noise(cycle, "x0", level=5.0)
    with pytest.raises(ValueError, match="node: there is no 'y'"):
        phase_noise(cycle, "y")
    with pytest.raises(ValueError, match="x0 has no 2-th harmonic"):
        phase_noise(cycle, "x0", harmonic=2)
    with pytest.raises(ValueError, match="The phase of an oscillator wanders"):
        cyclostationary.covariance(cycle)
    with pytest.warns(UserWarning, match="noise is not small"):
        phase_noise(periodic(stuart_landau(0.5), steps=64), "x0")


def test_pictures_show_the_numbers_of_the_analyses(ring, rectifier):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ax = sd.plot.phase_noise(ring)
    assert ax.lines[0].get_ydata()[0] == pytest.approx(10.0 * np.log10(float(ring["L"][0])))
    assert ax.get_title() == f"computed at {ring.sizes['time']:,} times of one period"
    assert "u1" in sd.plot.cycle(ring).get_ylabel()
    ends = np.cumsum(np.random.default_rng(1).normal(1.0, 0.1, (40, 6)), axis=1)
    assert len(sd.plot.jitter(ring, ends).lines) >= 2
    assert sd.plot.cyclostationary(cyclostationary.covariance(rectifier), "u3").get_xlabel() == "phase"
    pyplot.close("all")


def test_stage_equations_without_stored_charges_are_those_with_them():
    """A diode and a transistor that store charge: solved without the charges, and all at once."""
    system = system_of(read(
        "title\nV1 in 0 1\nR1 in d 1k\nD1 d 0 j\nM1 o d 0 0 n W=9u L=1u AD=9p\nR2 in o 9k\nC1 o 0 1p\n"
        ".model j D(CJO=2p)\n.model n NMOS(KP=99u VTO=0.5 CJ=0.4m)\n"))  # fmt: skip
    rng, n, D, h = np.random.default_rng(1), system.n, np.linalg.inv(Scheme(2).A), 1e-9
    assert len(system.explicit) == 2
    J = system.jacobian(np.zeros(6), 0.3 * rng.standard_normal((6, n))).reshape(3, 2, n, n)
    whole = np.einsum("ij,kl->ikjl", D, system.mass / h) - np.einsum("ij,Nikl->Nikjl", np.eye(2), J)
    stages, whole = StageEquations(system, J, D, np.full(3, h)), whole.reshape(3, 2 * n, 2 * n)
    right = rng.standard_normal((3, 2, n, 4))
    found = stages.solved(right).reshape(3, 2 * n, 4)
    np.testing.assert_allclose(whole @ found, right.reshape(3, 2 * n, 4), atol=1e-11)
    last = np.linalg.inv(whole)[:, n:].reshape(3, n, 2, n).transpose(0, 2, 1, 3)
    rows = system.implicit
    np.testing.assert_allclose(stages.kicks_at_the_end()[..., rows], last[..., rows], rtol=1e-9, atol=1e-9)


COLPITTS = """A Colpitts oscillator whose bias moves by 3 V over a thousand periods
VCC vcc 0 9
R1 vcc b 22k
R2 b 0 10k
CB b 0 100n
RE e 0 1k
Q1 c b e qn
L1 vcc c 10u
C1 c e 1n
C2 e 0 1n
.model qn NPN(IS=1e-15 BF=150 VAF=80 CJE=5p CJC=3p TF=0.3n)
.tran 5n 20u
"""


@pytest.mark.long(instead="test_a_slow_drift_is_not_waited_for")
@pytest.mark.parametrize(("celsius", "bias"), [(27, -0.558), (127, -0.653)])
def test_a_bias_that_drifts_is_solved_for(celsius, bias):
    """ngspice 39 (trapezoidal, 5 ns, after 3 ms): period 0.4442 µs and 0.4443 µs, means of v(b)."""
    cycle = periodic(read(f"{COLPITTS}.temp {celsius}\n"), steps=64)
    assert cycle.stable and cycle.period == pytest.approx(0.4442e-6, rel=3e-3)
    assert cycle.x[:-1, cycle.names.index("b")].mean() == pytest.approx(bias, abs=0.03)


def test_few_steps_do_not_make_a_cycle_unstable():
    """Van der Pol's oscillator and a slow mean of it: with 16 steps the multiplier of the phase is further from 1."""

    def drift(t, x):
        return jnp.array([x[1], 3.0 * (1.0 - x[0] ** 2) * x[1] - x[0], 0.1 * x[0] - 2e-3 * x[2]])

    cycle = periodic(sd.SDE(drift, lambda t, x: 1e-3 * jnp.eye(3), [2.0, 0.0, 0.0]), steps=64)
    few = cycle._with(mesh(16))
    assert cycle.stable and not few.stable and _is_stable(few)
    with pytest.raises(ValueError, match=r"unstable .* 16 steps are too few for its edges: give steps=64"):
        phase_noise(few, "x0")


def test_a_slow_drift_is_not_waited_for(monkeypatch):
    """Van der Pol's oscillator with b for its parameter and b' = ε (2 - x²): b comes to about 1 in 1/ε = 100 000."""
    times = []
    followed = periodic_start.followed
    monkeypatch.setattr(periodic_start, "followed", lambda s, t, x, *o: times.append(t[-1]) or followed(s, t, x, *o))

    def drift(t, x):
        return jnp.array([x[1], (x[2] - x[0] ** 2) * x[1] - x[0], 1e-5 * (2.0 - x[0] ** 2)])

    cycle = periodic(sd.SDE(drift, lambda t, x: sd.diagonal(0.1 * jnp.ones(3)), start=[0.5, 0.0, 2.0]), steps=32)
    assert max(times) < 1000.0 and cycle.stable
    assert np.trapezoid(cycle.x[:, 0] ** 2, cycle.t) / cycle.period == pytest.approx(2.0, rel=1e-4)


def test_a_circuit_at_rest_takes_the_steps_of_tran():
    assert len(read(COLPITTS).time_steps()) == 4000


@pytest.mark.parametrize(("steps", "is_known"), [(16, False), (32, True)])
def test_steps_too_long_for_edges_are_told(steps, is_known):
    """A van der Pol oscillator of μ = 3, whose c = 2.6594e-9: off by 5 % and by 1e-4."""
    oscillator = sd.SDE(lambda t, x: jnp.stack([x[1], 3.0 * (1.0 - x[0] ** 2) * x[1] - x[0]]),
                        lambda t, x: jnp.array([[0.0], [1e-4]]), [2.0, 0.0])  # fmt: skip
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always", Unresolved)
        c = phase_noise(oscillator, steps=steps)["c"]
    assert (c.attrs["error"] < 1e-3) == is_known == (not messages)
    assert abs(float(c) / 2.6594e-9 - 1.0) < 2.0 * c.attrs["error"]


COMMON_EMITTER = """Colpitts, common emitter
VCC vcc 0 12
LC vcc c 1m
R1 vcc b 47k
R2 b 0 10k
RE e 0 1k
CE e 0 100n
Q1 c b e qn
CC c t 10n
C1 t 0 1n
C2 f 0 1n
L1 t f 10u
RL t 0 20k
CF f b 10n
.model qn NPN(IS=1e-14 BF=150 VAF=80 CJE=8p CJC=4p TF=0.4n)
"""


def test_modes_are_those_of_the_circuit_on_its_constraints():
    """The pencil of this circuit has infinite eigenvalues, which rounding makes finite. One pair of modes grows."""
    circuit = read(COMMON_EMITTER)
    modes = periodic_start.modes_at(system_of(circuit), circuit.operating_point.x)
    assert sorted(np.abs(modes.rates)) == pytest.approx(sorted(np.abs(circuit.small_signal.rates)), rel=1e-6)
    assert sum(modes.rates.real > 0.0) == 2
    J, M = circuit.network.slopes(circuit.operating_point.x).toarray(), circuit.mass_matrix
    k = np.argmax(modes.rates.real)
    terms = J @ modes.shapes[:, k], modes.rates[k] * M @ modes.shapes[:, k]
    np.testing.assert_allclose(*terms, atol=1e-9 * np.abs(J @ np.diag(np.abs(modes.shapes[:, k]))).max())


def test_an_oscillation_far_slower_than_other_modes_is_found():
    """The growth of a relaxation oscillator is 1e-13 of the fastest rate, and its first windows show no motion."""

    def drift(t, x):
        return jnp.array([x[0] - x[0] ** 3 / 3.0 - x[1], 0.05 * (x[0] - 0.1 * x[1]), 1e13 * (x[0] - x[2])])

    noise = np.array([[0.1], [0.0], [0.0]])
    alone = periodic(sd.SDE(lambda t, x: drift(t, jnp.append(x, 0.0))[:2], lambda t, x: noise[:2], [0.0, 0.0]))
    beside = periodic(sd.SDE(drift, lambda t, x: noise, [0.0, 0.0, 0.0]))
    assert beside.period == pytest.approx(alone.period, rel=1e-9)


def test_an_oscillation_that_needs_a_large_start_is_found():
    """r' = -r/10 + r³ - r⁵/2 around (1, 0) dies out from r < 0.33, and has a cycle at r² = 1 + √0.8."""

    def drift(t, x):
        y = jnp.array([x[0] - 1.0, x[1]])
        r2 = y @ y
        return (-0.1 + r2 - 0.5 * r2**2) * y + jnp.array([-y[1], y[0]])

    cycle = periodic(sd.SDE(drift, lambda t, x: jnp.eye(2), [1.0, 0.0]), steps=32)
    assert cycle.period == pytest.approx(2.0 * np.pi, rel=1e-9)
    assert np.sum((cycle.x - [1.0, 0.0]) ** 2, axis=1) == pytest.approx(1.0 + np.sqrt(0.8), rel=1e-6)


def test_edges_jitter_by_the_closed_form_and_by_symmetry():
    """At level 0 the amplitude of Stuart and Landau's oscillator moves no edge, if it does not change the frequency:
    Var = c t after half a period; and x falls through a level as -x rises through minus that level."""
    model = stuart_landau(1e-3, beta=0.0)
    middle = phase_noise(model, "x0", level=0.0, steps=96)
    half = np.sqrt(0.5 * float(middle["c"] * middle["period"]))
    assert float(middle["width_jitter"]) == pytest.approx(half, rel=1e-6)
    assert float(middle["falling_period_jitter"]) == pytest.approx(half * np.sqrt(2.0), rel=1e-6)
    above, below = (phase_noise(stuart_landau(1e-3), "x0", level=level, steps=96) for level in (0.6, -0.6))
    for what in ("period_jitter", "cycle_jitter"):
        assert float(above[f"falling_{what}"]) == pytest.approx(float(below[what]), rel=1e-7)


def test_conversion_at_negative_frequencies_is_the_conjugate(rectifier):
    """H_m(-f) = H_{-m}(f)*: the equations are real."""
    f0 = 1.0 / rectifier.period
    gain = cyclostationary.conversion(rectifier, "u3", [0.3 * f0, -0.3 * f0], 3)["gain"].values
    assert np.abs(gain[1] - gain[0, ::-1].conj()).max() < 1e-9 * np.abs(gain).max()


def test_gradients_of_stuart_landau():
    """c = σ²(1 + β²)/(g Ω²) and T = 2π/Ω with Ω = ω - β g, by g, ω, β and σ."""

    def drift(t, x, p):
        r2 = x @ x
        return jnp.array([p["g"] * x[0] - p["w"] * x[1] - r2 * (x[0] - p["b"] * x[1]),
                          p["g"] * x[1] + p["w"] * x[0] - r2 * (x[1] + p["b"] * x[0])])  # fmt: skip

    g, w, b, s = 1.1, 2.0, 0.5, 0.03
    problem = sd.SDE(drift, lambda t, x, p: p["s"] * jnp.eye(2), [1.0, 0.0], {"g": g, "w": w, "b": b, "s": s})
    result = phase_noise(problem, "x0", level=0.0, steps=64, of=("g", "w", "b", "s"))
    turns = w - b * g
    c, T = s**2 * (1 + b**2) / (g * turns**2), 2 * np.pi / turns
    slopes = [-1 / g + 2 * b / turns, -2 / turns, 2 * b / (1 + b**2) + 2 * g / turns, 2 / s]
    np.testing.assert_allclose(result["c_gradient"], c * np.array(slopes), rtol=1e-6)
    np.testing.assert_allclose(result["c_by_source_gradient"].sum("source"), result["c_gradient"], rtol=1e-12)
    np.testing.assert_allclose(result["period_gradient"], T / turns * np.array([b, -1.0, g, 0.0]), rtol=1e-9, atol=1e-9)


def test_gradients_of_a_ring_by_numbers_of_its_netlist():
    """Beside differences of cycles that are searched for anew: a capacitor and a threshold."""
    circuit, names = read(examples()["ring_oscillator"]), ("c1.value", "inverter.vto")
    result = phase_noise(circuit, "u1", level=2.0, steps=256, of=names)
    for k, name in enumerate(names):
        value = circuit.network.netlist.overrides.met[name]
        sides = [periodic(circuit.valued({name: value * (1 + by)}), steps=256) for by in (1e-3, -1e-3)]
        above, below = (response(cycle) for cycle in sides)
        change = (above.c_by_source - below.c_by_source) / 2e-3
        np.testing.assert_allclose(result["c_by_source_gradient"][k] * value, change, atol=1e-5 * above.c)
        period = (sides[0].period - sides[1].period) / 2e-3
        assert float(result["period_gradient"][k]) * value == pytest.approx(period, rel=1e-5)


@pytest.mark.parametrize("of, words", [("mu", "it has none"), ("start.x0", "a cycle does not depend on the start")])
def test_gradients_by_what_a_cycle_does_not_depend_on(of, words):
    with pytest.raises(ValueError, match=words):
        phase_noise(periodic(stuart_landau(0.01), steps=64), "x0", of=of)


def test_gradients_by_unknown_numbers_of_a_netlist():
    with pytest.raises(ValueError, match="'c9value' is not a number of the netlist"):
        phase_noise(read(examples()["ring_oscillator"]), "u1", steps=64, of="c9value")
