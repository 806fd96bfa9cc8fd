"""The other end of a place: takes a run, checks that it is the same run here, and computes blocks of it.

A run travels as cloudpickle writes it, so that lambdas and closures travel too; the answers are plain records.
As a program (`main`) it reads requests from its standard input and answers on its output.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import cloudpickle
import jax

from stodyn.engine.door import on_processor
from stodyn.engine.record import identity
from stodyn.engine.record.job import Job


class WorkerDiffers(RuntimeError):
    """A worker would not compute the same bits: other versions, another processor, other functions."""


class WorkersDied(RuntimeError):
    """Every worker that was given a block has died on it."""


_payloads: dict[str, bytes] = {}
_jobs: dict[str, Job] = {}
_receiving = threading.Lock()


def packed_job(job: Job) -> bytes:
    """A run as it travels to a worker."""
    try:
        return cloudpickle.dumps((job, job.identity))
    except Exception as error:  # any object in a closure may refuse, each in its own way
        raise TypeError(
            f"place: the run cannot be sent to another process ({type(error).__name__}: {error}). Its functions must "
            "not hold open files, locks, clients or the like."
        ) from error


def receive(name: str, payload: bytes) -> None:
    _payloads[name] = payload


def forget(name: str) -> None:
    _payloads.pop(name, None)
    _jobs.pop(name, None)


@on_processor
def work(name: str, blocks: Sequence[int]) -> tuple[list[bytes], float]:
    """Blocks of a run that was received before, as records, and the seconds they took."""
    with jax.enable_x64(True):
        with _receiving:
            if name not in _jobs:
                _jobs[name] = _opened(_payloads[name])
        job, began = _jobs[name], time.perf_counter()
        return [job.pack(b, job.compute(b, lambda path_steps: None)) for b in blocks], time.perf_counter() - began


def _opened(payload: bytes) -> Job:
    job, expected = cloudpickle.loads(payload)
    differences = identity.differences(expected, job.identity)
    if differences:
        raise WorkerDiffers(f"place: a worker ({platform.node()}, process {os.getpid()}) differs from the sender "
                            f"(was: there, is: here): {'; '.join(differences)}")  # fmt: skip
    return job


# --- over pipes -------------------------------------------------------------------------------------------------------


def send(pipe: BinaryIO, message: Any) -> None:
    data = cloudpickle.dumps(message)
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def receive_message(pipe: BinaryIO) -> Any:
    """The next message; EOFError where the other end is gone."""
    head = pipe.read(8)
    length = int.from_bytes(head, "little")
    data = pipe.read(length) if len(head) == 8 else b""
    if len(head) < 8 or len(data) < length:
        raise EOFError
    return pickle.loads(data)


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "done", function(*arguments)
    except Exception as error:
        try:
            return "failed", pickle.loads(cloudpickle.dumps(error))
        except Exception:  # an error that cannot be pickled is sent as its words
            return "failed", RuntimeError("".join(traceback.format_exception(error)))


def main() -> None:
    """Answer requests until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the process that asks
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of the user's functions must not come between the answers
    functions: dict[str, Callable[..., Any]] = {"receive": receive, "forget": forget, "work": work}
    try:
        sys.path[:] = receive_message(requests)
        while True:
            name, *arguments = receive_message(requests)
            send(answers, _answer(functions[name], tuple(arguments)))
    except (EOFError, BrokenPipeError):
        pass
