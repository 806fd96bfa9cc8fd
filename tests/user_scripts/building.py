"""The drift of a two-storey frame in an earthquake."""

import numpy as np

import stodyn as sd
from stodyn.noise import coloured

masses = np.array([1e5, 1e5])
stiffness = 1e7 * np.array([[12.0, -5.0], [-5.0, 5.0]])
frame = sd.Mechanical.from_matrices(masses, None, stiffness, damping=("modal", 0.05))
shaken = sd.base_excited(frame, coloured.kanai_tajimi(omega=15.6, zeta=0.6, sigma=1.0))
run = sd.simulate(shaken, "StochasticAlpha", t=(0, 2), dt=0.02, paths=200, seed=1)
top = float(run["variance"].isel(time=-1).sel(component="x1")) ** 0.5
print(f"rms of the top floor after 2 s: {1e3 * top:.2f} mm")
print(f"in the long run: {1e3 * float(sd.structures.stationary_covariance(shaken)[1, 1]) ** 0.5:.2f} mm")
