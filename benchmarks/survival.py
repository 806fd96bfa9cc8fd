"""Runs that are killed, workers that die, files that rot: every result is compared with the unbroken run, bit by bit.

    python benchmarks/survival.py kills 100      kill -9 at random moments of a run of 64 blocks, then go on with it
    python benchmarks/survival.py pairs 100      two processes on one ledger, one of them killed at a random moment
    python benchmarks/survival.py rot 100        cut or alter files of the ledger at random, then go on with it
    python benchmarks/survival.py workers 100    kill -9 a Dask worker at a random moment of every run

A run of 64 blocks takes about a second. Prints one line a trial and, at the end, how many came out the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import xarray

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.kubo import kubo

BLOCKS, WIDTH = 64, 256
RUN = dict(t=(0, 1), dt=1 / 4096, paths=BLOCKS * WIDTH - 100, seed=7, block=WIDTH, threads=1,
           collect=[st.Moments(every=512), st.Paths(4), st.Histogram(np.linspace(-2, 2, 9))])  # fmt: skip


def run(**options) -> xarray.Dataset:
    return sd.simulate(kubo(), "Heun", **RUN | options)


def same(a: xarray.Dataset, b: xarray.Dataset) -> bool:
    return set(a.variables) == set(b.variables) and all(
        a[name].dtype == b[name].dtype and a[name].values.tobytes() == b[name].values.tobytes() for name in a.variables
    )


def done(folder: Path) -> int:
    return sum(1 for _ in folder.glob("blocks/*/[0-9]*"))


def kills(trials: int, folder: Path, unbroken: xarray.Dataset, rng: np.random.Generator) -> int:
    """The moments are spread over the run, from before its first block to after its last."""
    right = 0
    for trial, ledger, (process,) in begun(trials, folder, unbroken, rng, 1):
        os.kill(process, signal.SIGKILL)
        before = done(ledger)
        resumed = run(ledger=ledger)
        ok = same(resumed, unbroken) and same(sd.load(ledger), unbroken)
        right += ok
        print(f"{trial}: killed with {before} blocks, {sd.provenance(resumed)['blocks_read']} read again: "
              f"{'the same bits' if ok else 'DIFFERENT'}", flush=True)  # fmt: skip
    return right


def pairs(trials: int, folder: Path, unbroken: xarray.Dataset, rng: np.random.Generator) -> int:
    """Two processes begin the same run at once; one is killed, the other must end it."""
    right = 0
    for trial, ledger, processes in begun(trials, folder, unbroken, rng, 2):
        victim = int(rng.integers(2))
        os.kill(processes[victim], signal.SIGKILL)
        before, deadline = done(ledger), time.perf_counter() + 60
        while not (ledger / "result.record").exists() and time.perf_counter() < deadline:
            time.sleep(0.01)
        found = sd.load(ledger)
        os.kill(processes[1 - victim], signal.SIGKILL)
        ok = same(found, unbroken) and done(ledger) == BLOCKS
        right += ok
        read = sd.provenance(found)["blocks_read"]
        print(f"{trial}: one of two killed with {before} blocks, the other read {read} and computed the rest: "
              f"{'the same bits' if ok else 'DIFFERENT'}", flush=True)  # fmt: skip
    return right


def begun(
    trials: int, folder: Path, unbroken: xarray.Dataset, rng: np.random.Generator, count: int
) -> Iterator[tuple[int, Path, list[int]]]:
    """For each trial its ledger and the `count` processes that run on it, at a random moment; then the ledger goes."""
    whole = sd.provenance(unbroken)["seconds"]
    with forks() as start:
        for trial in range(trials):
            ledger = folder / f"run{trial}"
            processes = start(ledger, count)
            time.sleep(rng.uniform(0.0, 1.3 * whole))
            yield trial, ledger, processes
            shutil.rmtree(ledger, ignore_errors=True)


@contextlib.contextmanager
def forks() -> Iterator[Callable[[Path, int], list[int]]]:
    """Begins a run in some processes of their own, and gives their numbers."""
    forker = subprocess.Popen(
        [sys.executable, __file__, "forker", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def start(ledger: Path, count: int) -> list[int]:
        print(f"{ledger}\n" * count, end="", file=forker.stdin, flush=True)
        return [int(forker.stdout.readline()) for _ in range(count)]  # they are about to begin

    yield start
    forker.stdin.close()
    forker.wait()


def forker() -> None:
    """Imports are made once: a fork for each ledger on the standard input, before JAX has started anything.

    The fork warms up, says its number, then runs: what is killed is a run and not the start of Python.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            run(paths=WIDTH)
            print(os.getpid(), flush=True)
            run(ledger=Path(line.strip()))
            time.sleep(60)
            os._exit(0)


def rot(trials: int, folder: Path, unbroken: xarray.Dataset, rng: np.random.Generator) -> int:
    ledger = folder / "run"
    run(ledger=ledger)
    right = 0
    for trial in range(trials):
        files = sorted(file for file in ledger.rglob("*") if file.is_file())
        for file in rng.choice(np.array(files, object), rng.integers(1, 6), replace=False):
            data = bytearray(file.read_bytes())
            if rng.random() < 0.5:
                del data[int(rng.integers(len(data))) :]
            else:
                data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            file.write_bytes(data)
        resumed = run(ledger=ledger)
        ok = same(resumed, unbroken) and same(sd.load(ledger), unbroken)
        right += ok
        print(f"{trial}: {sd.provenance(resumed)['blocks_read']} of {BLOCKS} blocks read: "
              f"{'the same bits' if ok else 'DIFFERENT'}", flush=True)  # fmt: skip
    return right


def workers(trials: int, folder: Path, unbroken: xarray.Dataset, rng: np.random.Generator) -> int:
    """Each trial is a run on two workers, one of which is killed at a random moment; its nanny starts another.

    A LocalCluster closes a nanny whose worker is not there 15 s after any of its deaths, however often it has come
    back meanwhile: with a death every few seconds that is soon, so here it waits for longer.
    """
    import dask
    import distributed

    right = trial = 0
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        there = sd.place.dask(client)
        run(place=there, threads=None)
        began = time.perf_counter()
        run(place=there, threads=None)
        whole = time.perf_counter() - began
        while trial < trials:
            client.wait_for_workers(2, timeout=120)
            processes = list(client.run(os.getpid).values())
            killed: list[float] = []

            def kill(process: int = int(rng.choice(processes)), after: float = rng.uniform(0.0, whole)) -> None:
                time.sleep(after)
                killed.append(time.perf_counter())
                os.kill(process, signal.SIGKILL)

            killer = threading.Thread(target=kill)
            ledger = folder / f"run{trial}"
            began = time.perf_counter()
            killer.start()
            found = run(place=there, threads=None, ledger=ledger)
            ended = time.perf_counter()
            killer.join()
            ok = same(found, unbroken) and same(sd.load(ledger), unbroken)
            shutil.rmtree(ledger)
            if ok and killed[0] > ended:
                continue  # it was done before: no trial
            right += ok
            print(f"{trial}: a worker killed after {killed[0] - began:.2f} s of {ended - began:.2f}: "
                  f"{'the same bits' if ok else 'DIFFERENT'}", flush=True)  # fmt: skip
            trial += 1
    return right


def main() -> None:
    what, given = sys.argv[1:3]
    if what == "forker":
        forker()
        return
    trials = {"kills": kills, "pairs": pairs, "rot": rot, "workers": workers}[what]
    run(paths=WIDTH)
    unbroken = run()
    print(f"the unbroken run takes {sd.provenance(unbroken)['seconds']} s", flush=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        right = trials(int(given), Path(folder), unbroken, np.random.default_rng(int(time.time())))
    print(f"{what}: {right} of {given} the same bits, {time.perf_counter() - began:.0f} s")
    sys.exit(right != int(given))


if __name__ == "__main__":
    main()
