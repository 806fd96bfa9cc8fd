"""A run that is killed and started again ends with the same bits."""

from pathlib import Path

import jax

import stodyn as sd
from stodyn import statistics as st


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    return -x


def noise(t: jax.Array, x: jax.Array) -> jax.Array:
    return 1.0 + 0 * x


process = sd.SDE(drift, noise, start=2.0, names=("x",))
end = st.Moments(at=[1.0])
sd.simulate(process, "SRA1", t=(0, 1), dt=0.05, paths=600, seed=1, block=200, collect=end, ledger="run")
blocks = sorted(file for file in Path("run").glob("blocks/*/*") if file.is_file())
blocks[-1].unlink()  # what a process that was killed had not written yet
resumed = sd.simulate(process, "SRA1", t=(0, 1), dt=0.05, paths=1000, seed=1, block=200, collect=end, ledger="run")
whole = sd.simulate(process, "SRA1", t=(0, 1), dt=0.05, paths=1000, seed=1, block=200, collect=end)
same = bool((resumed["mean"] == whole["mean"]).all())
print(f"{sd.status('run').done} blocks; the same bits: {same}; mean {float(resumed['mean'][0, 0]):.4f}")
