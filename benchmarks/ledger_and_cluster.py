"""What a ledger, processes and Dask cost on a run of a good size, and a soak.

    python benchmarks/ledger_and_cluster.py overhead [SECONDS]   the same run at every place, SECONDS each (default 20)
    python benchmarks/ledger_and_cluster.py soak [SECONDS]       one run with a ledger, 1e10 path-steps or SECONDS

The run is the damped Kubo oscillator by Heun, 1000 steps, moments at 101 times, blocks of 4096 paths. All places are
warm: Python has started and the program is compiled. `soak` prints memory and open files twenty times.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.kubo import kubo

STEPS, WIDTH = 1000, 4096
RUN = dict(t=(0, 10), dt=10 / STEPS, seed=1, block=WIDTH, collect=st.Moments(every=10))


def run(paths: int, **options) -> tuple[float, bytes]:
    """Seconds, and the bits of the mean."""
    began = time.perf_counter()
    found = sd.simulate(kubo(), "Heun", paths=paths, **RUN | options)
    return time.perf_counter() - began, found["mean"].values.tobytes()


def overhead(seconds: float) -> None:
    import distributed

    run(2 * WIDTH)
    blocks = 2 * round(seconds / run(32 * WIDTH)[0] * 16)
    paths = blocks * WIDTH
    print(f"{blocks} blocks, {paths * STEPS:.2e} path-steps")
    with (
        tempfile.TemporaryDirectory(dir=".") as folder,
        sd.place.processes(2) as two,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        places = {
            "2 threads": {},
            "2 threads and a ledger": dict(ledger=Path(folder) / "threads"),
            "2 processes": dict(place=two),
            "Dask, 2 workers": dict(place=sd.place.dask(client)),
            "Dask, 2 workers and a ledger": dict(place=sd.place.dask(client), ledger=Path(folder) / "dask"),
        }
        for options in list(places.values())[2:4]:
            run(4 * WIDTH, **options)
        first = None
        for name, options in [*places.items(), ("2 threads again", {})]:
            took, bits = run(paths, **options)
            first = first or (took, bits)
            same = "the same bits" if bits == first[1] else "DIFFERENT BITS"
            print(f"{name:32s}{took:8.2f} s  {100 * (took / first[0] - 1):+6.1f} %  {same}", flush=True)
        again, _ = run(paths, ledger=Path(folder) / "threads")
        size = sum(file.stat().st_size for file in (Path(folder) / "threads").rglob("*") if file.is_file())
        print(f"read from the ledger: {again:.2f} s; a block: {1e3 * again / blocks:.2f} ms, {size / blocks:.0f} B")


def soak(seconds: float) -> None:
    run(2 * WIDTH)
    blocks = 2 * round(seconds / run(32 * WIDTH)[0] * 16)
    blocks = min(blocks, round(1e10 / STEPS / WIDTH))
    folder = Path(tempfile.mkdtemp(dir="."))
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(seconds / 20):
            done = sum(1 for _ in folder.glob("run/blocks/*/[0-9]*"))
            lines = Path("/proc/self/status").read_text().splitlines()
            memory = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
            print(f"{done * WIDTH * STEPS:.3e} path-steps, {memory:.1f} MB, {len(os.listdir('/proc/self/fd'))} files, "
                  f"{len(os.listdir('/proc/self/task'))} threads", flush=True)  # fmt: skip

    watcher = threading.Thread(target=watch)
    watcher.start()
    took, _ = run(blocks * WIDTH, ledger=folder / "run")
    ended.set()
    watcher.join()
    shutil.rmtree(folder)
    print(f"{blocks * WIDTH * STEPS:.3e} path-steps in {took:.0f} s")


if __name__ == "__main__":
    {"overhead": overhead, "soak": soak}[sys.argv[1]](float(sys.argv[2]) if len(sys.argv) > 2 else 20.0)
