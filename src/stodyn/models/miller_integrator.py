"""The Miller integrator: an amplifier with a capacitor across it, of index 2, and of index 3 where a = 1 + C1/C2."""

import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.noise.distribution import Uniform
from stodyn.problems.random_dae import RandomDAE

__dir__ = listing.names_of(__name__)


def miller_integrator(
    a=2.0, C1=1e-10, C2=5e-11, R1=1e3, period=1e-6, tolerance=0.1, sections=0, *, R_line=1e3, C_line=1e-11
) -> RandomDAE:
    """M x' = A x + s: the Miller integrator with uniform tolerances of its gain and its capacitors.

    x = (u1, u2, u3, j1, j2): the voltages of input, amplifier input and output, and the currents of the two sources. It
    is driven by sin(2πt / period). R. Pulch (2012); M. Günther, U. Feldmann & J. ter Maten, Modelling and
    discretization of circuit problems (2005).

    Parameters
    ----------
    a : float
        The gain of the amplifier.
    C1, C2, R1 : float
        The capacitances in F, and the resistance in Ohm.
    period : float
        The period of the input, in s.
    tolerance : float
        The relative half-width of the uniform distributions.
    sections : int
        If positive, the signal comes through an RC ladder of that many sections, with uncertain capacitors too.
    R_line, C_line : float
        The resistance and the capacitance of a section.

    Returns
    -------
    RandomDAE
        The problem.
    """
    n = 5 + sections
    G, GL, w = 1.0 / R1, 1.0 / R_line, 2.0 * np.pi / period
    u2, u3, j1, j2 = (sections + k for k in (1, 2, 3, 4))

    def mass(p):
        M = np.zeros((n, n))
        M[u2, u2], M[u2, u3], M[u3, u2], M[u3, u3] = p["C1"] + p["C2"], -p["C2"], -p["C2"], p["C2"]
        for k in range(sections):
            M[k + 1, k + 1] = p[f"C_line{k + 1}"]
        return M

    def matrix(p):
        A = np.zeros((n, n))
        for k in range(sections + 1):
            g = G if k == sections else GL
            A[k, k] -= g
            A[k + 1, k + 1] -= g
            A[k, k + 1] += g
            A[k + 1, k] += g
        A[0, j1] = A[u3, j2] = A[j1, 0] = A[j2, u3] = -1.0
        A[j2, u2] = p["a"]
        return A

    def source(t, p):
        s = np.zeros(n)
        s[j1] = np.sin(w * t)
        return s

    nominal = {"a": a, "C1": C1, "C2": C2} | {f"C_line{k + 1}": C_line for k in range(sections)}
    params = {name: Uniform(v * (1.0 - tolerance), v * (1.0 + tolerance)) for name, v in nominal.items()}
    nodes = ["u1", *(f"v{k + 1}" for k in range(sections)), "u2", "u3"]
    units = ["V"] * len(nodes) + ["A", "A"]
    names = (*nodes, "j1", "j2")
    return RandomDAE(mass, matrix=matrix, source=source, start=np.zeros(n), params=params, names=names, units=units)


def states(t, nodes, *, R1, period):
    """x at the times (T,) for parameters (a, C1, C2) of shape (K, 3), from u2(0) = 0: (T, K, 5), without a ladder.

    u1 = u_in, tau u2' = u_in - u2 with tau = R1 (C1 + C2 (1 - a)), u3 = a u2, j1 = (u2 - u1)/R1, j2 = C2 (1 - a) u2'.
    """
    a, C1, C2 = np.asarray(nodes, float).T
    w, t = 2.0 * np.pi / period, np.asarray(t, float)[:, None]
    tau = R1 * (C1 + C2 * (1.0 - a))
    u1 = np.sin(w * t) + 0.0 * tau
    u2 = (np.sin(w * t) - w * tau * np.cos(w * t) + w * tau * np.exp(-t / tau)) / (1.0 + (w * tau) ** 2)
    return np.stack([u1, u2, a * u2, (u2 - u1) / R1, C2 * (1.0 - a) * (u1 - u2) / tau], axis=-1)


MILLER_INTEGRATOR = Model(miller_integrator, {"states": states})
