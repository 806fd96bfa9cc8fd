"""One million paths on a GPU

A million particles move in a quartic well in a heat bath, dq = p dt, dp = (-q - q³ - p/2)
dt + √T dW, for 400 steps each. The call is the same on a processor and on a GPU, where
the whole step becomes one kernel: device="auto" uses a GPU where there is one. Without
one, this script runs fewer paths and says so. The picture shows the density of q at the
end and the Gibbs density, whose mean square is the exact answer.

Domain: running
"""

import time

import jax
import numpy as np

import stodyn as sd
from stodyn import statistics as st

ON_GPU = jax.default_backend() == "gpu"
PATHS = 1_000_000 if ON_GPU else 50_000  # small: 2000
FRICTION, TEMPERATURE = 0.5, 1.0

particle = sd.Hamiltonian(
    lambda t, q, p: p**2 / 2 + q**2 / 2 + q**4 / 4,
    h=lambda t, q, p: -np.sqrt(2 * FRICTION * TEMPERATURE) * q,
    force=lambda t, q, p: -FRICTION * p,
    start=(0.0, 0.0),
)
collect = [st.Moments(at=[20.0]), st.Histogram(np.linspace(-3, 3, 61), at=[20.0])]
ready = sd.prepare(
    particle, "BAOAB", t=(0, 20), dt=0.05, paths=PATHS, collect=collect, device="auto"
)
ready(seed=1)  # compiles
began = time.perf_counter()
run = ready(seed=2)
seconds = time.perf_counter() - began
where = (
    f"GPU ({jax.devices()[0].device_kind})"
    if ON_GPU
    else "processor, because this machine has no GPU"
)
print(f"{PATHS:,} paths of 400 steps in {seconds:.2g} s on the {where}")


def gibbs(q):
    return np.exp(-(q**2 / 2 + q**4 / 4) / TEMPERATURE)


q = np.linspace(-6, 6, 6001)
norm = np.trapezoid(gibbs(q), q)
sd.plot.save(
    sd.plot.histogram(run, "q", exact=lambda q: gibbs(q) / norm), "million_paths.png"
)
exact = np.trapezoid(q**2 * gibbs(q), q) / norm
ours, error = (
    float(run[name].sel(component="q")[-1]) for name in ("variance", "variance_stderr")
)
print(f"truth: mean square of q is {exact:.5f}, ours {ours:.5f} ± {error:.5f}")
