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

import psutil

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.kubo import kubo

STEPS, WIDTH, TURNS = 1000, 4096, 4
RUN = dict(t=(0, 10), dt=10 / STEPS, seed=1, block=WIDTH, collect=st.Moments(every=10))


def run(paths: int, **options) -> tuple[float, bytes]:
    """Seconds, and the bits of the mean."""
    began = time.perf_counter()
    found = sd.simulate(kubo(), "Heun", paths=paths, **RUN | options)
    return time.perf_counter() - began, found["mean"].values.tobytes()


def processor_seconds() -> float:
    """Of this process and of those it has started."""
    here = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in [here, *here.children(recursive=True)])


def overhead(seconds: float) -> None:
    """In TURNS, each a run of its own, so that a machine whose speed changes meanwhile serves all places alike."""
    import distributed

    run(2 * WIDTH)
    blocks = 2 * round(seconds / TURNS / run(64 * WIDTH)[0] * 32)
    paths = blocks * WIDTH
    print(f"{TURNS} turns of {blocks} blocks, {TURNS * paths * STEPS:.2e} path-steps in all", flush=True)
    with (
        tempfile.TemporaryDirectory(dir=".") as folder,
        sd.place.processes(2) as two,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        places = {
            "2 threads": {},
            "Dask, 2 workers": dict(place=sd.place.dask(client)),
            "2 threads and a ledger": dict(ledger=Path(folder) / "threads"),
            "Dask, 2 workers and a ledger": dict(place=sd.place.dask(client), ledger=Path(folder) / "dask"),
            "2 processes": dict(place=two),
        }
        for name in ("Dask, 2 workers", "2 processes"):
            run(4 * WIDTH, **places[name])
        clock, processor, bits = ({name: [] for name in places} for _ in range(3))
        for turn in range(TURNS):
            for name, options in places.items():
                fresh = options | {"ledger": f"{options['ledger']}{turn}"} if "ledger" in options else options
                before = processor_seconds()
                took, found = run(paths, **fresh)
                clock[name].append(took)
                processor[name].append(processor_seconds() - before)
                bits[name].append(found)
            for what, times in (("clock", clock), ("processor", processor)):
                print(f"turn {turn}, {what}: {', '.join(f'{taken[-1]:.2f}' for taken in times.values())} s", flush=True)
        alone = "2 threads"
        for name in places:
            more = [
                f"{100 * (sum(times[name]) / sum(times[alone]) - 1):+.1f} % (turns: "
                f"{', '.join(f'{100 * (a / b - 1):+.0f}' for a, b in zip(times[name], times[alone], strict=True))})"
                for times in (clock, processor)
            ]
            same = "the same bits" if set(bits[name]) == set(bits[alone]) else "DIFFERENT BITS"
            print(f"{name:30s}{sum(clock[name]):7.2f} s {more[0]}; processor time {more[1]}; {same}")
        began = time.perf_counter()
        run(paths, ledger=Path(folder) / "threads0")
        size = sum(file.stat().st_size for file in (Path(folder) / "threads0").rglob("*") if file.is_file())
        each = 1e3 * (time.perf_counter() - began) / blocks
        print(f"read from a ledger: {each:.2f} ms per block of {size / blocks:.0f} B")


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
