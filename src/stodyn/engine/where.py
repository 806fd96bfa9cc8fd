"""Where and how a run is computed: the options that decide about time and memory, documented in `simulate`."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import jax

from stodyn.engine.places.contract import Place
from stodyn.engine.places.threads import Threads
from stodyn.engine.program import executors
from stodyn.hints import Count, Integer, is_whole


@dataclasses.dataclass(frozen=True)
class Where:
    """The options of `simulate` that say where a run is computed, once they are checked (`where_of`).

    devices  those that run the blocks, none for the processor; reason: why these
    """

    place: Place
    devices: tuple[Any, ...] = ()
    reason: str = "asked for"
    executor: str = "auto"
    block: int | None = None
    ledger: str | os.PathLike[str] | None = None
    progress: bool | None = None

    @property
    def record(self) -> dict[str, Any]:
        """Its description in the record of a run."""
        kind = "GPU" if self.devices else "processor"
        device = {} if self.reason == "asked for" else {"device": f"{kind}: {self.reason}"}
        return {**device, "place": self.place.words}


def where_of(
    *,
    threads: Integer | None = None,
    place: Place | None = None,
    device: Any = "cpu",
    executor: str = "auto",
    block: Count | None = None,
    ledger: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Where:
    """The options of where a run is computed, checked."""
    if executor not in executors.EXECUTORS:
        expected = ", ".join(map(repr, executors.EXECUTORS))
        raise ValueError(f"executor: expected one of {expected}, got {executor!r}")
    if block is not None and not is_whole(block):
        raise ValueError(f"block: expected a whole number of paths >= 1, got {block!r}")
    chosen, (devices, reason) = _chosen_place(place, threads), _find_devices(device)
    if devices and not isinstance(chosen, Threads):
        raise ValueError("place: workers elsewhere run on their processors; leave device out, or place")
    if devices and place is None and threads is None:
        chosen = Threads(2 * len(devices))  # one to feed a device while another waits for it
    return Where(chosen, devices, reason, executor, None if block is None else int(block), ledger, progress)


def refuse_blocks(method: Any, **options: Any) -> None:
    """Refuse options that are about the blocks of paths, which an expansion in random parameters has not."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: {method.name} makes no paths, so there are no blocks; leave it out")


def _chosen_place(place: Place | None, threads: Integer | None) -> Place:
    """The place of a run; `threads` is short for place.threads."""
    if place is None:
        return Threads(threads)
    if not isinstance(place, Place):
        raise TypeError(f"place: expected stodyn.place.threads(n), processes(n) or dask(client), got {place!r}")
    if threads is not None:
        raise ValueError("threads: give either threads= or place=, not both")
    return place


def _find_devices(device: Any) -> tuple[tuple[Any, ...], str]:
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
                "device: JAX finds no GPU here. Install the support for GPUs (in a clone of stodyn: pip install "
                '".[cuda]"), or use device="auto" to run on the processor where there is no GPU.'
            ) from error
    devices = tuple(device) if isinstance(device, (list, tuple)) else (device,)
    if not devices or not all(isinstance(one, jax.Device) for one in devices):
        raise ValueError(f'device: expected "cpu", "gpu", "auto" or a list from jax.devices(), got {device!r}')
    return devices, "asked for"
