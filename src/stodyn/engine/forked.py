"""A process forked after a run: printed programs still work in it, but JAX does not, since its threads are gone."""

from __future__ import annotations

import os

_ran = _forked = False


def note_run() -> None:
    """Note that this process has run something, so that JAX has threads from now on."""
    global _ran
    _ran = True


def _remember() -> None:
    global _forked
    _forked = _ran


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remember)


def require_threads() -> None:
    """Refuse to compile or to run by XLA where that would wait for ever."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one in which JAX had already run, and the threads of JAX do not survive a "
            "fork: a program compiled by JAX would wait for ever. Start processes by spawn "
            "(multiprocessing.get_context('spawn')) or run in stodyn.place.processes(n); "
            "printed programs with Moments, Observable or Passage run here too"
        )
