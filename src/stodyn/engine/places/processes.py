"""Blocks on processes of this machine, each with a Python of its own."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stodyn.engine.failure import Stopped
from stodyn.engine.places import worker
from stodyn.engine.places.contract import Bundles, Place, count_of, parts_of
from stodyn.engine.places.threads import Threads
from stodyn.engine.record.job import Job, Tell
from stodyn.hints import Integer

# -P: a numbers.py or queue.py in the working folder must not replace Python's own during the imports.
PROGRAM = "import sys; sys.path.append(sys.argv[1]); from stodyn.engine.places import worker; worker.main()"
HOME = str(Path(__file__).parents[3])
DEATHS = 3  # of processes that compute one block, before the run is given up


class Processes(Place):
    """`count` processes, started when they are first needed and kept for later runs until `close`.

    They are started afresh, not forked, since a fork of a process with JAX's threads may hang; and without importing
    the caller's program again, so that a script needs no `if __name__ == "__main__"`. The run travels by cloudpickle.
    A process that dies is replaced, and its block is computed again.
    """

    def __init__(self, count: Integer | None = None):
        self.count = count_of(count, "processes")
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._changing = threading.Lock()
        weakref.finalize(self, _end, self._all)

    @property
    def words(self) -> str:
        return f"{self.count} processes"

    def parts(self, job: Job, ledger: Any, tell: Tell) -> Iterator[Any]:
        name, payload, ending = uuid.uuid4().hex, worker.packed_job(job), threading.Event()
        bundles = Bundles(job, ledger, self.count)

        def one(bundle: list[tuple[int, Any]]) -> list[Any]:
            missing = [block for block, part in bundle if part is None]
            records, seconds = compute(missing) if missing else ([], 0.0)
            if missing:
                bundles.took(seconds, len(missing))
            return parts_of(bundle, records, job, ledger, tell)

        def compute(blocks: list[int]) -> tuple[list[bytes], float]:
            for deaths in itertools.count(1):
                if ending.is_set():
                    raise Stopped
                child = self._take()
                try:
                    return child.work(name, payload, blocks)
                except (EOFError, BrokenPipeError):
                    self._drop(child)
                    if deaths == DEATHS and not ending.is_set():
                        raise worker.WorkersDied(
                            f"place: {DEATHS} processes in a row died on blocks {blocks[0]} to {blocks[-1]}; the last "
                            f"ended with status {child.process.wait()}. -9 often means too little memory: try "
                            "fewer processes, or a smaller block=. Other reasons are on the standard error."
                        ) from None
                finally:
                    self._give_back(child)
            raise AssertionError

        def stop() -> None:
            ending.set()
            self.close()

        with contextlib.closing(Threads(self.count).map(one, bundles, stop)) as lists:  # type: ignore[type-var]
            for parts in lists:
                yield from parts

    def close(self) -> None:
        """End the processes."""
        with self._changing:
            self._idle.clear()
            _end(self._all)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _take(self) -> _Child:
        with self._changing:
            if self._idle:
                return self._idle.pop()
            child = _Child()
            self._all.add(child)
            return child

    def _give_back(self, child: _Child) -> None:
        with self._changing:
            if child in self._all:
                self._idle.append(child)

    def _drop(self, child: _Child) -> None:
        with self._changing:
            self._all.discard(child)
        child.end()


class _Child:
    """One process, and the name of the run it has received."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, HOME], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.received: str | None = None
        with contextlib.suppress(BrokenPipeError):  # a dead process is noticed when it is next asked
            worker.send(self._requests, sys.path)

    @property
    def _requests(self) -> Any:
        return self.process.stdin

    def work(self, name: str, payload: bytes, blocks: list[int]) -> tuple[list[bytes], float]:
        if self.received != name:
            if self.received is not None:
                self._ask("forget", self.received)
            self._ask("receive", name, payload)
            self.received = name
        return self._ask("work", name, blocks)

    def _ask(self, *request: Any) -> Any:
        worker.send(self._requests, request)
        answers: Any = self.process.stdout
        how, what = worker.receive_message(answers)
        if how == "failed":
            raise what
        return what

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _end(children: set[_Child]) -> None:
    while children:
        children.pop().end()
