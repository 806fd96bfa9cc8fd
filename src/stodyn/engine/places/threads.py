"""Blocks on threads of this process."""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from stodyn.engine.door import on_processor
from stodyn.engine.failure import Stopped
from stodyn.engine.places.contract import Place, count_of
from stodyn.engine.record.job import Job, Tell
from stodyn.engine.record.ledger import Ledger
from stodyn.hints import Integer


class Threads(Place):
    """One worker thread per core; each enters float64 and the processor for itself: JAX's settings belong to a thread,
    and a new one would compute on the GPU that JAX finds."""

    def __init__(self, count: Integer | None = None):
        self.count = count_of(count, "threads")

    @property
    def words(self) -> str:
        return f"{self.count} threads"

    def parts(self, job: Job, ledger: Ledger | None, tell: Tell) -> Iterator[Any]:
        ending = threading.Event()

        def heard(path_steps: int) -> None:
            tell(path_steps)
            if ending.is_set():
                raise Stopped

        def one(block: int) -> Any:
            with jax.enable_x64(True):
                stored = None if ledger is None else ledger.read(block)
                if stored is not None:
                    tell(job.path_steps(block))
                    return stored
                part = job.compute(block, heard)
                if ledger is not None:
                    ledger.write(block, job.pack(block, part))
                return part

        return self.map(one, range(job.first_block, job.blocks), ending.set)

    def map(self, function: Callable[[Any], Any], blocks: Iterable[Any], stop: Callable[[], None]) -> Iterator[Any]:
        """function(block) for each block, in order; `stop` is called if the caller leaves."""
        if isinstance(blocks, range) and len(blocks) == 1:  # a thread would take longer to start than many a run
            yield function(blocks[0])
            return
        pool = concurrent.futures.ThreadPoolExecutor(self.count, thread_name_prefix="stodyn")
        try:
            pending: deque[concurrent.futures.Future[Any]] = deque()
            function = on_processor(function)
            upcoming = iter(blocks)
            for block in upcoming:
                pending.append(pool.submit(function, block))
                if len(pending) >= 2 * self.count:
                    break
            while pending:
                yield _wait(pending.popleft())
                for block in upcoming:
                    pending.append(pool.submit(function, block))
                    break
        except BaseException:
            stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _wait(future: concurrent.futures.Future[Any]) -> Any:
    """A future's result, waking often enough for Ctrl-C to be heard on every platform."""
    while True:
        try:
            return future.result(timeout=0.2)
        except concurrent.futures.TimeoutError:
            if future.done():
                return future.result()
