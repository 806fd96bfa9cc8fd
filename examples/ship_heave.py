"""How far does a ship heave in a storm? A sea from its spectrum

Waves of 4 m have the JONSWAP spectrum, to which `coloured.jonswap` fits a filter of white
noise. The ship heaves as an oscillator, x'' + 2 ζ ω x' + ω² x = ω² η, with a period of 8
s. The picture shows the densities of waves and heave: the formulas, the filter, and
simulated heave. The first exact value is that for the filter (Lyapunov's equation). The
second is an integral over the JONSWAP formula itself, so the error of the fit counts too;
0.2 % is allowed for it.

Domain: vehicles and structures
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.noise import coloured

PATHS = 500  # small: 40
# m, s: significant wave height, period at the peak of the spectrum
HEIGHT, PEAK = 4.0, 10.0
ω, ζ = 2 * np.pi / 8.0, 0.2

sea = coloured.jonswap(HEIGHT, PEAK)
print(f"the filter: {sea.fit}")
ship = sd.Mechanical.from_matrices(
    [1.0], [[2 * ζ * ω]], [[ω**2]], names=("heave",), units=("m", "m/s")
)
ship = sd.with_noise(ship, sea, into=[ω**2])
# so far apart that they are nearly independent
times = [200.0, 300.0, 400.0, 500.0, 600.0]
collect = [st.Moments(at=times), st.Spectrum(segment=256, paths=PATHS, after=100.0)]
run = sd.simulate(
    ship, "VanLoan", t=(0, 600), dt=0.5, paths=PATHS, seed=1, collect=collect
).sel(component="heave")


def gain(f):
    """|heave/waves|² at frequencies in Hz."""
    s = 2j * np.pi * f
    return np.abs(ω**2 / (s**2 + 2 * ζ * ω * s + ω**2)) ** 2


f = np.geomspace(0.03, 0.6, 2000)
# one-sided, per Hz
formula = 2 * np.pi * coloured.jonswap_spectrum(2 * np.pi * f, HEIGHT, PEAK)
filtered = 2 * sea.spectrum(f)[:, 0, 0].real
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.semilogy(f, formula, "k", lw=1, label="waves: JONSWAP")
ax.semilogy(f, filtered, "C1--", lw=1.2, label="waves: the filter")
ax.semilogy(f, gain(f) * formula, "0.5", lw=1, label="heave: JONSWAP times the gain")
ax.semilogy(
    run["frequency"], 2 * run["spectrum"], "C0.", ms=3, label=f"heave: {PATHS} paths"
)
ax.set(
    xlabel="frequency [Hz]", ylabel="density [m²/Hz]", xlim=(0.04, 0.4), ylim=(1e-3, 1e4)
)
ax.legend(frameon=False, fontsize="small", ncols=2, loc="upper center")
sd.plot.save(ax, "ship_heave.png")

variance = float(run["variance"].mean())
ours, error = (
    np.sqrt(variance),
    float(run["variance_stderr"].mean()) / np.sqrt(len(times)) / (2 * np.sqrt(variance)),
)
exact = np.sqrt(sd.structures.stationary_covariance(ship)[0, 0])
print(
    f"truth: rms heave in m, for the filter is {exact:.4f}, ours {ours:.4f} ± {error:.4f}"
)
exact = np.sqrt(np.trapezoid(gain(f) * formula, f))
print(
    f"truth: rms heave in m, for JONSWAP is {exact:.4f}, ours {ours:.4f} ± "
    f"{error + 0.002 * ours:.4f}"
)
