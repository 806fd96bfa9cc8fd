"""Noisy circuits as index-1 SDAEs by modified nodal analysis: thermal noise of resistors, shot noise of diodes."""

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn import listing
from stodyn.circuits.devices import BOLTZMANN, CHARGE
from stodyn.models.catalogue import Model
from stodyn.problems.sdae import SDAE

__dir__ = listing.names_of(__name__)

KELVIN = 300.0
THERMAL_VOLTAGE = BOLTZMANN * KELVIN / CHARGE  # V
NANO, PICO = 1e-9, 1e-12  # a unit of energy V² nF (with mA, kOhm, us) or V² pF (with mA, kOhm, ns) in joules
# Charge: mA us = nC and mA ns = pC, the same factors.


def _diode(v, saturation):
    """i = I_S (exp(v/V_T) - 1)."""
    return saturation * jnp.expm1(v / THERMAL_VOLTAGE)


def _shot(v, saturation):
    """√(q (i + 2 I_S)): both currents of the junction, q I_S (e^(v/V_T) + 1); at v = 0 the thermal noise 2kT i'(0)."""
    return jnp.sqrt(CHARGE / NANO * saturation * (jnp.exp(v / THERMAL_VOLTAGE) + 1.0))


def rectifier(source=10.0, load=100.0, c1=0.01, c2=0.01, saturation=1e-9, kappa=1.0) -> SDAE:
    """d(C u) of a diode rectifier fed by sin 2πt, with shot noise of the diode and thermal noise of the load.

    Units V, mA, kOhm, nF, us. Source resistor (noise-free) to node 2 with c1, diode to node 3 with c2 and the load; jV
    is the current of the source:
        c1 u2' = (u1 - u2)/source - i(u2 - u3) - κ s₁ dW₁,   c2 u3' = i(u2 - u3) - u3/load + κ s₁ dW₁ + κ s₂ dW₂,
        0 = jV + (u1 - u2)/source,   0 = u1 - sin 2πt;   s₁ = √(q (i + 2 I_S)),   s₂ = √(2kT/load).
    The two channels do not commute. κ amplifies the noise.

    Parameters
    ----------
    source, load : float
        The resistance of the source and of the load, in kOhm.
    c1, c2 : float
        The capacitances, in nF.
    saturation : float
        The saturation current I_S of the diode, in mA.
    kappa : float
        A factor that amplifies the noise.

    Returns
    -------
    SDAE
        The problem.
    """
    thermal = np.sqrt(2.0 * BOLTZMANN * KELVIN / NANO / load)

    def drift(t, x, p):
        u1, u2, u3, j = x
        into, through = (u1 - u2) / source, _diode(u2 - u3, saturation)
        return jnp.stack([into - through, through - u3 / load, j + into, u1 - jnp.sin(2.0 * jnp.pi * t)])

    def diffusion(t, x, p):
        shot, zero = _shot(x[1] - x[2], saturation), jnp.zeros_like(x[0])
        rows = [jnp.stack([-shot, zero]), jnp.stack([shot, thermal + zero]), jnp.stack([zero, zero])]
        return p["kappa"] * jnp.stack([*rows, rows[-1]])

    mass = np.zeros((4, 4))
    mass[0, 1], mass[1, 2] = c1, c2
    names, units = ("u1", "u2", "u3", "jV"), ("V", "V", "V", "mA")
    return SDAE(mass, drift, diffusion, np.zeros(4), {"kappa": kappa}, names, units)


def two_diodes(r1=10.0, r2=20.0, capacitance=0.1, saturation=1e-9, bias=0.05, kappa=1.0) -> SDAE:
    """d(C u) of two diode nodes with shot noise, joined through a node without a capacitor: a nonlinear constraint.

    Units V, mA, kOhm, nF, us:
        C u1' = bias (1 + sin(2πt)/2) - i(u1) - (u1 - u3)/r1 + κ s(u1) dW₁,   C u2' = bias - i(u2) - (u2 - u3)/r2
        + κ s(u2) dW₂,   0 = (u1 - u3)/r1 + (u2 - u3)/r2 - i(u3),   s(u) = √(q (i(u) + 2 I_S)).
    The start is the operating point of the constant bias. The noise is diagonal. κ amplifies it.

    Parameters
    ----------
    r1, r2 : float
        The resistances, in kOhm.
    capacitance : float
        The capacitance C of both nodes, in nF.
    saturation : float
        The saturation current I_S of the diodes, in mA.
    bias : float
        The bias current, in mA.
    kappa : float
        A factor that amplifies the noise.

    Returns
    -------
    SDAE
        The problem.
    """

    def drift(t, x, p):
        u1, u2, u3 = x
        left, right = (u1 - u3) / r1, (u2 - u3) / r2
        feed = bias * (1.0 + 0.5 * jnp.sin(2.0 * jnp.pi * t))
        return jnp.stack([
            feed - _diode(u1, saturation) - left,
            bias - _diode(u2, saturation) - right,
            left + right - _diode(u3, saturation),
        ])  # fmt: skip

    def diffusion(t, x, p):
        zero = jnp.zeros_like(x[0])
        shots = jnp.stack([_shot(x[0], saturation), zero]), jnp.stack([zero, _shot(x[1], saturation)])
        return p["kappa"] * jnp.stack([*shots, jnp.stack([zero, zero])])

    def balance(u):
        left, right, through = (u[0] - u[2]) / r1, (u[1] - u[2]) / r2, saturation * np.expm1(u / THERMAL_VOLTAGE)
        return np.array([bias - left, bias - right, left + right]) - through

    junction = THERMAL_VOLTAGE * np.log1p(bias / saturation)
    start = scipy.optimize.root(balance, (junction, junction, 0.9 * junction), tol=1e-15).x
    mass = np.diag([capacitance, capacitance, 0.0])
    return SDAE(mass, drift, diffusion, start, {"kappa": kappa}, ("u1", "u2", "u3"), ("V", "V", "V"))


def ring_oscillator(capacitance=0.2, supply=5.0, load=5.0, kappa=1.0, start=(1.5, 2.5, 3.0, 4.9, 5.0, -2.0)) -> SDAE:
    """d(C u) of a ring of three NMOS inverters with thermal noise of their loads and channels: an oscillator.

    Units V, mA, kOhm, pF, ns. Stage i: C ui' = (udd - ui)/load - Id(u_(i-1), ui) + κ s dW_i - κ s_i dW_(3+i); supply
    node 5 pF udd' = (us - udd)/0.05 - Σ (udd - ui)/load - κ s Σ dW_i; 0 = jV + (us - udd)/0.05; 0 = us - supply.
        Id(ug, ud) = (0.4/2) s(ug - 1)² tanh(2 ud), s(v) = 0.05 log(1 + e^(v/0.05)); s = √(2kT/load);
        s_i = √(2kT (2/3)(gm + 1e-6)), gm = 0.4 s s' |tanh(2 ud)|. Noise-free period 3.343389 ns.

    Parameters
    ----------
    capacitance : float
        The capacitance C of a stage, in pF.
    supply : float
        The supply voltage, in V.
    load : float
        The load resistance of a stage, in kOhm.
    kappa : float
        A factor that amplifies the noise.
    start : sequence of 6 numbers
        The voltages u1, u2, u3, udd, us in V, and the current jV in mA, at the start.

    Returns
    -------
    SDAE
        The problem.
    """
    buffer, series, gain, threshold, smooth = 5.0, 0.05, 0.4, 1.0, 0.05
    energy = BOLTZMANN * KELVIN / PICO
    thermal = np.sqrt(2.0 * energy / load)

    def overdrive(v):
        return jnp.maximum(v, 0.0) + smooth * jnp.log1p(jnp.exp(-jnp.abs(v) / smooth))

    def drift(t, x, p):
        u, udd, us, j = x[:3], x[3], x[4], x[5]
        current = 0.5 * gain * overdrive(jnp.roll(u, 1) - threshold) ** 2 * jnp.tanh(2.0 * u)
        loads, feed = (udd - u) / load, (us - udd) / series
        rest = jnp.stack([feed - jnp.sum(loads), j + feed, us - p["supply"]])
        return jnp.concatenate([loads - current, rest])

    def diffusion(t, x, p):
        u, gate = x[:3], jnp.roll(x[:3], 1) - threshold
        slope = overdrive(gate) * jnp.reciprocal(1.0 + jnp.exp(-gate / smooth))
        gm = gain * slope * jnp.abs(jnp.tanh(2.0 * u))
        channel = jnp.sqrt(2.0 * energy * (2.0 / 3.0) * (gm + 1e-6))
        stages = jnp.concatenate([thermal * jnp.eye(3, dtype=x.dtype), -jnp.diag(channel)], axis=1)
        supply_node = jnp.concatenate([jnp.full(3, -thermal, x.dtype), jnp.zeros(3, x.dtype)])
        return p["kappa"] * jnp.concatenate([stages, supply_node[None], jnp.zeros((2, 6), x.dtype)])

    mass = np.diag([capacitance] * 3 + [buffer, 0.0, 0.0])
    names, units = ("u1", "u2", "u3", "udd", "us", "jV"), ("V", "V", "V", "V", "V", "mA")
    return SDAE(mass, drift, diffusion, start, {"kappa": kappa, "supply": supply}, names, units)


def rc_ladder(nodes=3, resistance=10.0, capacitance=0.01, coupling=0.002, gain=1.0, kelvin=300.0) -> SDAE:
    """d(C u) of a ladder of noisy resistors with capacitors to ground and between neighbours, and an amplifier.

    Units V, mA, kOhm, nF, us. C u' = -G u + Σ_k e_k √(2kT/R) dW_k, e_k = +1, -1 at the two ends of resistor k; the
    first resistor ends at ground, and the amplifier without noise reads the last node: 0 = out - gain u_n. The
    stationary covariance of the nodes is kT C⁻¹, whatever the resistors.

    Parameters
    ----------
    nodes : int
        The number of nodes of the ladder.
    resistance : float
        The resistance R of every resistor, in kOhm.
    capacitance, coupling : float
        The capacitances to ground and between neighbours, in nF.
    gain : float
        The gain of the amplifier.
    kelvin : float
        The temperature.

    Returns
    -------
    SDAE
        The problem.
    """
    ends, C = _ladder(nodes, capacitance, coupling)
    G = ends @ ends.T / resistance
    noise = np.zeros((nodes + 1, nodes))
    noise[:nodes] = np.sqrt(2.0 * BOLTZMANN * kelvin / NANO / resistance) * ends
    conductance = np.zeros((nodes + 1, nodes + 1))
    conductance[:nodes, :nodes] = -G
    conductance[nodes, nodes - 1 :] = -gain, 1.0
    mass = np.zeros((nodes + 1, nodes + 1))
    mass[:nodes, :nodes] = C

    def drift(t, x):
        return jnp.asarray(conductance, x.dtype) @ x

    def diffusion(t, x):
        return jnp.asarray(noise, x.dtype)

    names = (*(f"u{i + 1}" for i in range(nodes)), "out")
    return SDAE(mass, drift, diffusion, np.zeros(nodes + 1), names=names, units=("V",) * (nodes + 1))


def _ladder(nodes, capacitance, coupling):
    """The incidence matrix of the resistors (node, resistor) and the capacitance matrix."""
    if nodes < 1:
        raise ValueError(f"nodes: expected at least 1, got {nodes!r}")
    ends = np.eye(nodes) - np.eye(nodes, k=1)
    between = ends[:, 1:]
    return ends, capacitance * np.eye(nodes) + coupling * between @ between.T


def equilibrium(*, nodes, capacitance, coupling, gain, kelvin):
    """The stationary covariance (n, n): kT C⁻¹ for the nodes, with the amplifier following the last node."""
    _, C = _ladder(nodes, capacitance, coupling)
    outputs = np.concatenate([np.eye(nodes), gain * np.eye(nodes)[-1:]])
    return BOLTZMANN * kelvin / NANO * outputs @ np.linalg.inv(C) @ outputs.T


RECTIFIER = Model(rectifier)
TWO_DIODES = Model(two_diodes)
RING_OSCILLATOR = Model(ring_oscillator)
RC_LADDER = Model(rc_ladder, {"equilibrium": equilibrium})
