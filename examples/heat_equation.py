"""The stochastic heat equation between cold ends, by the trapezoidal rule: its variance beside the closed form.

du = u'' dt + dW(t, x),  u(0) = u(1) = 0:    Var u(x) = x (1 - x)/2 in the stationary state
"""

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods.implicit import ThetaEuler

N = 100
SPACING = 1.0 / (N + 1)


def drift(t, u):
    edged = jnp.pad(u, 1)
    return (edged[2:] - 2 * u + edged[:-2]) / SPACING**2


rod = sd.SDE(drift, lambda t, u: sd.diagonal(jnp.full(N, SPACING**-0.5)), start=np.zeros(N))
run = sd.simulate(rod, ThetaEuler(theta=0.5), t=(0, 1), dt=0.004, paths=128, seed=1, collect=st.Moments(at=[1.0]))
x = SPACING * np.arange(1, N + 1)
for k in range(N // 10, N, N // 5):
    found, error = float(run.variance[0, k]), float(run.variance_stderr[0, k])
    print(f"x = {x[k]:.3f}: variance {found:.4f} ± {error:.4f}, exact {0.5 * x[k] * (1 - x[k]):.4f}")
