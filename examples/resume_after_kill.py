"""A run that survives kill -9, to the same bits

With ledger="folder" a run writes every finished block of paths to that folder. Here a
second process begins a run and is killed in the middle, as by a crash or a power cut. The
same call, made again, reads the finished blocks and computes the rest: the result equals
that of an uninterrupted run bit for bit. The picture shows when each block was finished.

Domain: running
"""

import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd

KILL_AFTER = 40  # small: 3
CALL = """
PATHS = 400_000  # small: 40_000
decay = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, start=2.0)
run = sd.simulate(
    decay, "SRA1", t=(0, 2), dt=0.01, paths=PATHS, seed=1, block=4096, ledger=LEDGER
)
"""


def call(ledger):
    names = {"sd": sd, "LEDGER": ledger}
    exec(CALL, names)
    return names["run"]


def blocks(ledger):
    return [
        file for file in Path(ledger).glob("blocks/*/*") if "unfinished" not in file.name
    ]


script = f"import stodyn as sd\nLEDGER = 'ledger'\n{CALL}"
child = subprocess.Popen([sys.executable, "-c", script])
while child.poll() is None and len(blocks("ledger")) < KILL_AFTER:
    time.sleep(0.001)
child.kill()  # SIGKILL: the process cannot react
child.wait()
killed = time.time()
print("the first process", "was killed" if child.returncode < 0 else "had already ended")

resumed, whole = call("ledger"), call(None)
differing = sum(
    int((resumed[name].values != whole[name].values).sum()) for name in whole.data_vars
)
read = sd.provenance(resumed)["blocks_read"]

finished = np.sort([file.stat().st_mtime for file in blocks("ledger")])
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.step(
    finished - finished[0], np.arange(1, len(finished) + 1), where="post",
    color=sd.plot.BLUE, label="blocks finished",
)
ax.axvline(
    killed - finished[0], color=sd.plot.ORANGE, ls="--", label="the process is killed"
)
ax.set(
    xlabel="time since the first block [s]",
    ylabel="blocks in the ledger",
    title=f"{read} of {len(finished)} blocks read back",
)
ax.legend(frameon=False)
sd.plot.save(fig, "resume_after_kill.png")

print(f"truth: number of values that the kill changed is 0, ours {differing} ± 0")
mean, error = float(resumed["mean"][-1, 0]), float(resumed["mean_stderr"][-1, 0])
print(f"truth: mean is {2 * np.exp(-2.0):.5f}, ours {mean:.5f} ± {error:.5f}")
