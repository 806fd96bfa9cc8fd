"""Blocks as tasks on dask.distributed: a LocalCluster, a scheduler's address, or a client of any other cluster."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import time
import uuid
import weakref
from collections.abc import Iterator
from typing import Any

from stodyn import telling
from stodyn.engine.places import worker
from stodyn.engine.places.contract import Bundles, Place, parts_of
from stodyn.engine.places.worker import forget, receive
from stodyn.engine.record import identity
from stodyn.engine.record.job import Job, Tell
from stodyn.numerics.tracing_errors import first_line

try:
    import distributed
except ImportError as missing:
    raise ImportError(
        "place: dask.distributed is not installed; in a clone of stodyn: pip install '.[cluster]'"
    ) from missing

PATIENCE = 15.0  # seconds to wait for a scheduler
DEATHS = 5  # times that Dask may give up a block, each after several workers died on it
AHEAD = 2  # bundles of blocks at the cluster for each of its threads
LOOK = 2.0  # seconds between two looks at how many threads there are
ATTEMPTS = 5  # to send a run to every worker
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers for mallopt
DESERTED = 10.0  # seconds without a worker after which a run warns that it is waiting


class Dask(Place):
    """The workers of a dask.distributed cluster; each must have the versions and the kind of processor of this process.

    Workers may join and leave: blocks of a worker that dies are computed again by others, to the same bits.
    """

    def __init__(self, client: Any):
        if isinstance(client, distributed.Client):
            self.client = client
        elif isinstance(client, str) or hasattr(client, "scheduler_address"):
            try:
                self.client = distributed.Client(client, timeout=PATIENCE, set_as_default=False)
            except (OSError, TimeoutError, ValueError) as error:
                raise ConnectionError(
                    f"place: there is no Dask scheduler at {client!r} ({first_line(error)}). Start one with "
                    "`dask scheduler`, or pass a LocalCluster()."
                ) from error
            weakref.finalize(self, self.client.close)
        else:
            raise TypeError(
                "place: expected a distributed.Client, a cluster such as LocalCluster(), or a scheduler's address, got "
                f"{client!r}"
            )
        if self.client.asynchronous:
            raise TypeError("place: the client is asynchronous; make it with Client(..., asynchronous=False)")

    @property
    def words(self) -> str:
        return f"dask at {self.client.scheduler.address if self.client.scheduler else 'a closed client'}"

    @property
    def link(self) -> str | None:
        return self.client.dashboard_link or None

    def check(self) -> None:
        """Refuse workers that would not compute the same bits, naming them."""
        try:
            theirs = self.client.run(identity.software, on_error="return")
        except (OSError, RuntimeError, ValueError) as error:
            raise ConnectionError(f"place: the Dask scheduler does not answer ({first_line(error)})") from error
        refusals = []
        for address, software in theirs.items():
            if isinstance(software, OSError):
                continue  # it has left in the meantime
            if isinstance(software, Exception):
                refusals.append(f"{address} has no working stodyn ({first_line(software)})")
            else:
                others = identity.differences(identity.software(), software)
                refusals += [f"{address}: {'; '.join(others)}"] if others else []
        if refusals:
            raise worker.WorkerDiffers(
                f"place: some workers would not compute the same bits (was: here, is: there). {'. '.join(refusals)}. "
                "Give all of them the versions and the kind of processor of this process."
            )

    def parts(self, job: Job, ledger: Any, tell: Tell) -> Iterator[Any]:
        self.check()
        name, payload = f"stodyn-{uuid.uuid4().hex}", worker.packed_job(job)
        self._carry(name, payload)
        try:
            yield from self._in_order(job, ledger, tell, name)
        finally:
            if self.client.status == "running":
                with contextlib.suppress(OSError, KeyError):  # from a worker that has died, or has only just joined
                    self.client.unregister_worker_plugin(name)

    def _carry(self, name: str, payload: bytes) -> None:
        """Send a run to every worker; one that dies in the meantime interrupts this for all, so it is tried again."""
        for attempt in range(ATTEMPTS):
            try:
                self.client.register_plugin(Carrier(name, payload), name=name)
                return
            except OSError as error:
                if self.client.status != "running" or attempt == ATTEMPTS - 1:
                    raise ConnectionError(_LOST) from error
                time.sleep(0.5)

    def _threads(self) -> int:
        try:
            return sum(self.client.nthreads().values())
        except (OSError, TimeoutError) as error:
            raise ConnectionError(_LOST) from error

    def _in_order(self, job: Job, ledger: Any, tell: Tell, name: str) -> Iterator[Any]:
        """The parts of all blocks in their order; each is written to the ledger as soon as it arrives."""
        bundles = Bundles(job, ledger, workers=1)
        upcoming, arrived = enumerate(bundles), queue.SimpleQueue[tuple[int, Any]]()
        bundle_of: dict[int, list[tuple[int, Any]]] = {}  # by number: bundles that are being computed
        ready: dict[int, list[Any]] = {}
        waiting: dict[int, Any] = {}
        deaths: dict[int, int] = {}
        looked, most, following, more = float("-inf"), 1, 0, True
        manned, is_said = time.monotonic(), False

        def submit(number: int) -> None:
            blocks = [block for block, stored in bundle_of[number] if stored is None]
            key = f"{name}-{blocks[0]}-{deaths.get(number, 0)}"
            waiting[number] = self.client.submit(worker.work, name, blocks, pure=False, key=key)
            waiting[number].add_done_callback(lambda done: arrived.put((number, done)))

        try:
            while more or waiting or ready:
                if time.monotonic() - looked > LOOK:
                    threads = self._threads()
                    bundles.workers = max(threads, 1)
                    looked, most = time.monotonic(), AHEAD * bundles.workers
                    if threads:
                        manned, is_said = looked, False
                    elif looked - manned > DESERTED and not is_said:
                        is_said = True
                        telling.tell(f"place: {self.words} has had no workers for {DESERTED:g} s. {_WAITING}")
                while more and len(waiting) < most and len(waiting) + len(ready) < 2 * most:
                    number, bundle = next(upcoming, (-1, []))
                    more = number >= 0
                    if any(stored is None for _, stored in bundle):
                        bundle_of[number] = bundle
                        submit(number)
                    elif more:
                        ready[number] = parts_of(bundle, [], job, ledger, tell)
                while following in ready:
                    yield from ready.pop(following)
                    following += 1
                try:
                    number, future = arrived.get(timeout=0.2 if waiting else 0.0)  # awake for Ctrl-C and new workers
                except queue.Empty:
                    if self.client.status != "running":
                        raise ConnectionError(_LOST) from None
                    continue
                del waiting[number]
                try:
                    records, seconds = future.result()
                except distributed.scheduler.KilledWorker as error:
                    deaths[number] = deaths.get(number, 0) + 1
                    if deaths[number] == DEATHS:
                        first, last = bundle_of[number][0][0], bundle_of[number][-1][0]
                        raise worker.WorkersDied(
                            f"place: workers keep dying on blocks {first} to {last} ({first_line(error)}). "
                            "Look at their logs; give them more memory, or the run a smaller block=."
                        ) from error
                    submit(number)
                except distributed.CancelledError as error:
                    raise ConnectionError(_LOST) from error
                else:
                    bundles.took(seconds, len(records))
                    ready[number] = parts_of(bundle_of.pop(number), records, job, ledger, tell)
        finally:
            if waiting and self.client.status == "running":
                self.client.cancel(list(waiting.values()), force=True)


_LOST = "place: the Dask scheduler has gone. With a ledger= the same run continues where it stopped."
_WAITING = (
    "The run continues as soon as there are some: start them (cluster.scale(n), or `dask worker ADDRESS`), or end it "
    "with Ctrl-C; with a ledger= the same run continues where it stopped."
)


class Carrier(distributed.WorkerPlugin):
    """Sends a run to every worker of a cluster, also to those that join later."""

    def __init__(self, name: str, payload: bytes):
        self.name, self.payload = name, payload

    def setup(self, worker: Any) -> None:
        keep_memory(True)
        receive(self.name, self.payload)

    def teardown(self, worker: Any) -> None:
        forget(self.name)
        keep_memory(False)


def keep_memory(keep: bool) -> None:
    """Let glibc keep memory between the calls of a program, or give it back as Dask wants it.

    Dask's nannies set MALLOC_TRIM_THRESHOLD_, and with it every buffer of a call is new memory that the system has to
    clear: up to 20 % more time. The sizes kept are those up to which glibc goes by itself where that is not set.
    """
    threshold, libc = os.environ.get("MALLOC_TRIM_THRESHOLD_", ""), ctypes.CDLL(None)
    if threshold.isdecimal() and hasattr(libc, "mallopt"):
        libc.mallopt(M_TRIM_THRESHOLD, 64 * 2**20 if keep else int(threshold))
        libc.mallopt(M_MMAP_THRESHOLD, 32 * 2**20 if keep else 128 * 2**10)
        if not keep:
            libc.malloc_trim(0)
