"""kT/C, 4kTR, 2qI and flicker: by linear analysis to rounding, and sampled within 4 standard errors."""

import numpy as np
import pytest
import scipy.linalg
import scipy.signal

import stodyn
from stodyn import statistics as st
from stodyn.circuits import channels, examples, read
from stodyn.circuits.devices import BOLTZMANN, CHARGE, Numbers, flicker_size, flicker_slope
from stodyn.methods.stiff import Trapezoidal
from stodyn.noise.increment import Increment
from stodyn.numerics import direct
from stodyn.numerics.printing.points import AtPoints
from stodyn.studies.circuit_noise import cases, linear

KT = BOLTZMANN * 300.15
RC = "title\nV1 in 0 1\nR1 in out 10k\nC1 out 0 100p\n.tran 50n 20u\n"
RLC = "title\nV1 in 0 1\nR1 in m 50\nL1 m out 1u\nC1 out 0 1n\n"
SHOT = "title\nI1 0 d 10u\nD1 d 0 j\nC2 d 0 100p\n.model j D(IS=1e-15)\n"


def sizes(circuit):
    return dict(zip(circuit.names, np.diagonal(circuit.small_signal.covariance()), strict=True))


def test_capacitors_hold_kT_by_C_and_inductors_kT_by_L():
    """kT/C on a capacitor and kT/L in an inductor, whatever the rest; and temperature counts."""
    assert sizes(read(RC))["out"] == pytest.approx(KT / 100e-12, rel=1e-10)
    found = sizes(read(RLC))
    assert found["out"] == pytest.approx(KT / 1e-9, rel=1e-10)
    assert found["i(l1)"] == pytest.approx(KT / 1e-6, rel=1e-10)
    assert sizes(read(RC + ".temp 127\n"))["out"] == pytest.approx(BOLTZMANN * 400.15 / 100e-12, rel=1e-10)
    mesh = read(
        "title\nR1 a 0 1k\nR2 a b 2k\nR3 b c 3k\nR4 c a 5k\nC1 a 0 1p\nC2 b 0 2p\nC3 c 0 3p\nC4 a c 4p\nR5 a c 1k\n"
    )
    np.testing.assert_allclose(mesh.small_signal.covariance(), KT * np.linalg.inv(mesh.mass), rtol=1e-9, atol=1e-20)


def test_the_spectrum_of_a_resistor_is_the_closed_form():
    """4kTR/(1 + (ωRC)²) to 1e-10, split by elements, and between two nodes."""
    f = np.geomspace(1.0, 1e9, 30)
    found = read(RC).noise_spectrum("out", f)
    np.testing.assert_allclose(found.density, 4 * KT * 1e4 / (1 + (2 * np.pi * f * 1e-6) ** 2), rtol=1e-10)
    divider = read("title\nV1 in 0 1\nR1 in a 1k\nR2 a 0 3k\nC1 a 0 1f\n").noise_spectrum("a", [1.0])
    assert divider.density[0] == pytest.approx(4 * KT * 750.0, rel=1e-9)
    assert divider.parts["r1"][0] == pytest.approx(4 * KT / 1e3 * 750.0**2, rel=1e-9)
    across = read(RC).small_signal.spectrum("in", [1.0], reference="out").density
    assert across[0] == pytest.approx(4 * KT * 1e4, rel=1e-6)
    asked = read(RC + ".noise v(out) V1 dec 5 1k 1meg\n").noise_spectrum()
    np.testing.assert_allclose(asked.frequency, np.geomspace(1e3, 1e6, 16))


def test_a_small_circuit_is_solved_as_arrays_at_each_frequency(monkeypatch):
    """With sparse matrices of two nodes most of a spectrum's time went into SciPy's bookkeeping."""
    kinds, solved = [], direct.solved
    monkeypatch.setattr(direct, "solved", lambda a, b: kinds.append(type(a)) or solved(a, b))
    circuit = read("kT/C\nV1 in 0 0 AC 1\nR1 in out 1k\nC1 out 0 1n\n.end\n")
    circuit.noise_spectrum("out", [1e3, 1e6])
    response = circuit.response([1e3, 1e6])["out"]
    np.testing.assert_allclose(response, 1.0 / (1.0 + 2j * np.pi * 1e-6 * np.array([1e3, 1e6])), rtol=1e-12)
    assert kinds[-4:] == [np.ndarray] * 4


def test_currents_have_the_noise_of_their_charges():
    """2qI in a diode and in a photocurrent; the node of a diode with its capacitor has kT/2C."""
    circuit = read(SHOT)
    conductance = 1e-5 / (KT / CHARGE)
    density = circuit.noise_spectrum("d", [1e-3]).density[0] * conductance**2
    assert density == pytest.approx(2 * CHARGE * 1e-5, rel=1e-6)
    assert sizes(circuit)["d"] == pytest.approx(KT / (2 * 100e-12), rel=1e-6)
    light = read("title\nIPH 0 x 3u noise=on\nR1 x 0 1k noise=off\nC1 x 0 1p\n").noise_spectrum("x", [1.0])
    assert light.density[0] == pytest.approx(2 * CHARGE * 3e-6 * 1e6, rel=1e-9)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_examples_of_the_study_in_closed_form(case):
    """Low-pass, resonator, sample and hold, integrator, transimpedance amplifier: linear analysis to 1e-6."""
    assert linear(read(examples()[case.name]), case) == pytest.approx(case.exact, rel=1e-6)


@pytest.mark.usefixtures("quick_compiling")
def test_a_switch_that_opens_within_a_step():
    """The trapezoidal rule takes the noise of a step from its beginning: kT/C becomes (1 + h/2τ)² kT/C, exactly if one
    step sees the whole edge. The steps of sample_and_hold keep this below 1 %."""
    h, tau = 4e-9, 1e-12 / (20e-6 * 3.0)
    text = examples()["sample_and_hold"].read_text().replace("300n 5n 5n 295n 600n", f"0 {h} 5n 295n 600n")
    circuit = read(text)
    made = AtPoints(lambda x, w: Trapezoidal.step(circuit, 0.0, x, Increment(h, w), circuit.params)[0])
    start, hold, size, still = np.asarray(circuit.start), circuit.names.index("hold"), 1e-4, np.zeros(1)

    def step(x, w):
        return made(x[None], w[None])[0]

    rest = step(start, still)[hold]
    kept = (step(start + size * (np.arange(circuit.n) == hold), still)[hold] - rest) / size
    added = (step(start, still + size * np.sqrt(h))[hold] - rest) / size
    assert kept**2 + added**2 / (KT / 1e-12) == pytest.approx((1.0 + h / (2.0 * tau)) ** 2, rel=1e-4)
    example = read(examples()["sample_and_hold"])
    assert -1.0 / example.small_signal.rates[0].real == pytest.approx(tau)
    assert (1.0 + example.step / (2.0 * tau)) ** 2 < 1.01


def test_switching_noise_off():
    """One element, or all; elements that push alike are one channel; noise that a source takes up is none."""
    assert read(RC.replace("10k", "10k noise=off")).noise_matrix(np.zeros(3)).any() == 0
    quiet = read(RC + ".options noise=off\n")
    assert quiet.m == 1 and not quiet.noise_matrix(np.zeros(3)).any()
    pair = read(RC + "R2 out 0 10k\nR3 out 0 5k\nR4 in 0 1\n")
    assert pair.channels.labels == (("r1", "r2", "r3"),)
    assert pair.noise_matrix(np.zeros(3))[1, 0] == pytest.approx(np.sqrt(2 * KT * (2e-4 + 2e-4)), rel=1e-12)
    mixed = read(SHOT + "R1 d 0 1k\n")
    x = mixed.operating_point.x
    current = 1e-5 - x[0] / 1e3
    strength = mixed.noise_matrix(x)[0, 0] ** 2
    assert mixed.m == 1 and strength == pytest.approx(2 * KT / 1e3 + CHARGE * (current + 2e-15), rel=1e-9)


def test_flicker_in_closed_form():
    """KF I^AF/f through the diode's own impedance; each pole of the filter adds r² σ² τ_k/(τ_k + τ) to the variance."""
    circuit = read(SHOT.replace("1e-15)", "1e-15 KF=1e-13 AF=1.2)") + ".options flo=1k fhi=1meg\n")
    f = np.geomspace(1e3, 1e6, 7)
    g, C, size = 1e-5 / (KT / CHARGE), 100e-12, 1e-13 * (1e-5) ** 1.2
    parts = circuit.noise_spectrum("d", f).parts
    np.testing.assert_allclose(parts["d1 (flicker)"], size / f / (g**2 + (2 * np.pi * f * C) ** 2), rtol=1e-6)
    filters = circuit.network.filters
    np.testing.assert_allclose(filters.spectrum(f[1:-1])[:, 0, 0] * 2, 1 / f[1:-1], rtol=0.02)
    tau, own = C / g, -1 / np.diagonal(filters.A)
    variances = np.diagonal(filters.state_covariance)
    wanted = KT / (2 * C) + np.sum(size * variances / g**2 * own / (own + tau))
    assert sizes(circuit)["d"] == pytest.approx(wanted, rel=1e-6)


def expected_periodogram(correlation, L):
    """E of Welch's estimate of one segment (Hann, mean removed), two-sided, times the sampling rate."""
    window = scipy.signal.get_window("hann", L)
    k = np.arange(L // 2 + 1)
    a = np.exp(-2j * np.pi * np.outer(k, np.arange(L)) / L) * window
    a = a - a.mean(axis=1, keepdims=True)
    return np.einsum("kn,nm,km->k", a, scipy.linalg.toeplitz(correlation), a.conj()).real / np.sum(window**2)


@pytest.mark.usefixtures("quick_compiling")
def test_sampled_noise_has_the_variance_and_spectrum_of_the_equations():
    """Variances and spectra of a resistor's and a diode's noise from one run, at 4 standard errors: right ones fail at
    one seed in 200. The trapezoidal rule has the variance of the equations, and the correlation ρ^k between steps."""
    circuit = read(RC + SHOT.replace("title\n", ""))
    spectrum = st.Spectrum(every=1, segment=32, after=10e-6, confidence=1 - 6.334e-5, paths=4096, mean="segment")
    run = stodyn.simulate(circuit, "Trapezoidal", t=circuit.span, dt=circuit.step, paths=4096, seed=2,
                          collect=[st.Moments(at=[20e-6]), spectrum])  # fmt: skip
    h = circuit.step
    for node, variance, tau in (("out", KT / 100e-12, 1e-6), ("d", KT / 200e-12, 100e-12 * (KT / CHARGE) / 1e-5)):
        at = run.sel(component=node)
        assert abs(float(at["variance"][-1]) - variance) <= 4.0 * float(at["variance_stderr"][-1])
        rho = (1 - h / (2 * tau)) / (1 + h / (2 * tau))
        wanted = h * variance * expected_periodogram(rho ** np.arange(32), 32)
        assert np.all(at["spectrum_low"] <= wanted) and np.all(wanted <= at["spectrum_high"])
        one_sided = 4 * KT * 1e4 if node == "out" else 2 * CHARGE * 1e-5 / (1e-5 / (KT / CHARGE)) ** 2
        f = float(run["frequency"][2])
        assert 2 * wanted[2] == pytest.approx(
            one_sided / (1 + (2 * np.pi * f * tau) ** 2), rel=0.2
        )  # what it estimates


@pytest.mark.usefixtures("quick_compiling")
def test_sampled_flicker_noise_has_its_variance():
    """Shot and flicker noise together, the filter started in its stationary law: 4 standard errors, one in 15 000."""
    circuit = read(SHOT.replace("1e-15)", "1e-15 KF=1e-13)") + ".options flo=200k fhi=300k\n.tran 50n 2u\n")
    run = stodyn.simulate(circuit, "Trapezoidal", t=circuit.span, dt=circuit.step, paths=4096, seed=3,
                          collect=st.Moments(at=[2e-6]))  # fmt: skip
    at = run.sel(component="d").isel(time=-1)
    assert abs(float(at["variance"]) - sizes(circuit)["d"]) <= 4.0 * float(at["variance_stderr"])
    assert sizes(circuit)["d"] > 1.5 * KT / 200e-12


def test_flicker_noise_of_transistors_that_switch():
    """Transistors that are on and carry no current: noise that went as √|i| there had an infinite slope."""
    circuit = read("inverter\nVDD vdd 0 2.5\nVIN a 0 PULSE(0 2.5 1n 0.2n 0.2n 4n 10n)\nMN b a 0 0 nm W=2u L=0.5u\n"
                   "MP b a vdd vdd pm W=5u L=0.5u\nC1 b 0 50f\n.model nm NMOS(KP=100u VTO=0.6 KF=1e-29)\n"
                   ".model pm PMOS(KP=40u VTO=-0.6 KF=1e-29)\n.tran 20p 4n\n")  # fmt: skip
    run = stodyn.simulate(circuit, t=circuit.span, dt=circuit.time_steps(), paths=8, seed=1, progress=False)
    assert np.isfinite(run["mean"].values).all()
    p = Numbers({"kf": np.array([1e-10]), "af": np.array([1.0])}, 300.0)
    i = np.array([-1e-3, -3e-8, 0.0, 1e-9, 3e-8, 1e-6])
    d = 1e-4 * np.abs(i) + 1e-14
    by_difference = (flicker_size(i + d, p, np) - flicker_size(i - d, p, np)) / (2.0 * d)
    np.testing.assert_allclose(flicker_slope(i, p, np), by_difference, rtol=1e-6)
    assert flicker_slope(i, p, np).max() <= 0.1 + 1e-12 and flicker_size(i, p, np)[2] == 0.0
    np.testing.assert_allclose(flicker_size(i[[0, -1]], p, np), [-np.sqrt(1e-13), np.sqrt(1e-16)], rtol=1e-4)


def test_noise_that_reaches_a_node_by_different_small_shares_keeps_its_channels():
    """R1 and R4 push p and q alike, and s by 1e-10 and 2e-10 of that."""
    bridges = "R1 p a 1\nR2 a q 1\nR3 a s 1e10\nR4 p b 1\nR5 b q 1\nR6 b s 5e9\n"
    held = "".join(f"C{k} {node} 0 1n\nRG{k} {node} 0 1k\n" for k, node in enumerate("pqs"))
    labels = read(f"Two bridges\n{bridges}{held}.tran 1u 1m\n").channels.labels
    assert not any({"r1", "r4"} <= set(together) for together in labels)


@pytest.mark.parametrize(("large", "small"), [("1k", "1k"), ("1meg", "1m"), ("1k", "1u")])
def test_noise_moves_out_of_constraints_beside_resistors_of_any_size(large, small):
    """Nodes a and b have no capacitor, so that the noise of all resistors flows into c, by the rules of dividers."""
    text = f"Dividers\nV1 in 0 1\nR1 in a {large}\nR2 a b {small}\nR3 b c {large}\nC1 c 0 1n\n.tran 1u 1m\n"
    network = read(text).network
    columns, moved, refused = channels.resolved(network)
    assert not refused and [network.names[i] for i in moved] == ["a", "b", "i(v1)"]
    R = [source.element.value for source in network.noises]
    assert [rows.tolist() for rows, _ in columns] == [[network.nodes["c"]]] * 3
    np.testing.assert_allclose([abs(values[0]) for _, values in columns], np.array(R) / sum(R), rtol=1e-6)
