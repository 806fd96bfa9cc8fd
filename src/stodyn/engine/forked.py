"""A process forked after a run: printed programs still work in it, but JAX does not, since its threads are gone.

Even tracing waits for ever in the child if a thread of JAX held a lock at the moment of the fork. JAX's threads hold
locks only while they work, so a fork waits for a moment until they rest.
"""

from __future__ import annotations

import os
import threading
import time

LONGEST_REST = 0.5  # s: a process whose own threads never rest forks all the same
LOOKS = 5  # one look sees a thread after the other: where one hands its work to the next, none may seem to work
_ran = _forked = False


def note_run() -> None:
    """Note that this process has run something, so that JAX has threads from now on."""
    global _ran
    _ran = True


def _wait_for_rest() -> None:
    """Wait until no other thread of this process is seen to work several times, where the system tells."""
    end, rested = time.monotonic() + LONGEST_REST, 0
    while _ran and rested < LOOKS and time.monotonic() < end:
        rested = 0 if others_work() else rested + 1
        time.sleep(2e-4 if rested else 1e-3)


def others_work() -> bool:
    """Whether another thread runs, is ready to or waits for a page; False where the system has no such list."""
    this = str(threading.get_native_id())
    try:
        return any(_state(thread) in "RD" for thread in os.listdir("/proc/self/task") if thread != this)
    except OSError:
        return False


def _state(thread: str) -> str:
    """The letter of Linux for what a thread does; of one that has ended meanwhile, X."""
    try:
        with open(f"/proc/self/task/{thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _remember() -> None:
    global _forked
    _forked = _ran


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_rest, after_in_child=_remember)


def require_threads() -> None:
    """Refuse to compile or to run by XLA where that would wait for ever."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one in which JAX had already run, and the threads of JAX do not survive a "
            "fork: a program compiled by JAX would wait for ever. Start processes by spawn "
            "(multiprocessing.get_context('spawn')) or run in stodyn.place.processes(n); "
            "printed programs with Moments, Observable or Passage run here too"
        )
