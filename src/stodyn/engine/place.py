"""Where blocks run: ways to map a function over the blocks of a run, results in the order of the blocks."""

from __future__ import annotations

import concurrent.futures
import functools
import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np


def available_cores() -> int:
    """Cores this process may use: its affinity, and the cgroup's quota where there is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        pass  # no cgroup v2 here: the affinity alone counts
    return max(cores, 1)


def on_processor(function: Callable) -> Callable:
    """`function` with the processor as JAX's device, where a GPU would be: tracing on one waits at every number."""

    @functools.wraps(function)
    def placed(*arguments, **options):
        with jax.default_device(jax.devices("cpu")[0]):
            return function(*arguments, **options)

    return placed


def find_devices(device: Any) -> tuple[tuple[Any, ...], str]:
    """The devices that run the blocks, none for the processor, and why these: "cpu", "gpu", "auto" or a list."""
    if isinstance(device, str) and device in ("cpu", "gpu", "auto"):
        if device == "cpu":
            return (), "asked for"
        try:
            return tuple(jax.devices("gpu")), "asked for" if device == "gpu" else "found"
        except RuntimeError as error:
            if device == "auto":
                return (), "no GPU that JAX can use"
            raise ValueError(
                'device: JAX finds no GPU here. Install a JAX with CUDA (pip install "jax[cuda13]"), or use '
                'device="auto" to run on the processor where there is none.'
            ) from error
    devices = tuple(device) if isinstance(device, (list, tuple)) else (device,)
    if not devices or not all(isinstance(one, jax.Device) for one in devices):
        raise ValueError(f'device: expected "cpu", "gpu", "auto" or a list from jax.devices(), got {device!r}')
    return devices, "asked for"


class Threads:
    """One worker thread a core; each enters float64 for itself, since JAX's setting belongs to a thread."""

    def __init__(self, count: int | None = None):
        if count is not None and (isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1):
            raise ValueError(f"threads: expected a whole number >= 1, got {count!r}")
        self.count = available_cores() if count is None else int(count)

    def map(self, function: Callable[[int], Any], blocks: int, stop: Callable[[], None]) -> Iterator[Any]:
        """function(0), function(1), ... in order; `stop` is called when the caller leaves before the end."""

        def one(block: int) -> Any:
            with jax.enable_x64(True):
                return function(block)

        if blocks == 1:  # a thread of its own would take longer to start than many a run
            yield one(0)
            return
        pool = concurrent.futures.ThreadPoolExecutor(self.count, thread_name_prefix="stodyn")
        try:
            pending: deque = deque()
            upcoming = iter(range(blocks))
            for block in upcoming:
                pending.append(pool.submit(one, block))
                if len(pending) >= 2 * self.count:
                    break
            while pending:
                yield _wait(pending.popleft())
                for block in upcoming:
                    pending.append(pool.submit(one, block))
                    break
        except BaseException:
            stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _wait(future: concurrent.futures.Future) -> Any:
    """A future's result, waking often enough for Ctrl-C to be heard on every platform."""
    while True:
        try:
            return future.result(timeout=0.2)
        except concurrent.futures.TimeoutError:
            if future.done():
                return future.result()
