"""An NVIDIA GPU as programs need it: kernels compiled and launched, numbers moved; its memory is allocated by JAX.

A kernel takes one argument, a frame of words: addresses and counts (numerics.printing.rows.Frame). Every thread of the
host has a stream of the card to itself, the driver's per-thread one. A processor can stand in for a card, so that
programs of GPUs can be tried without one.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.engine.program.kernel import ALONE, GROUP, JOINING
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.rows import Frame

try:
    from cuda.bindings import driver  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    driver = None

Launch = Callable[[str, int, int, Frame], None]  # launch(name, blocks, threads, frame)

PER_THREAD = 2  # CU_STREAM_PER_THREAD


def unavailable() -> str | None:
    """Why kernels cannot be launched here, in words; None where they can."""
    return "cuda-bindings is not installed; in a clone of stodyn: pip install '.[cuda]'" if driver is None else None


def _checked(result: tuple[Any, ...]) -> Any:
    """The result of a call of the driver; raises its error."""
    error, *rest = result
    if error != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(error)
        _, message = driver.cuGetErrorString(error)
        raise RuntimeError(f"the CUDA driver says {name.decode()}: {message.decode()}")
    return rest[0] if len(rest) == 1 else rest


class Card(ABC):
    """A device that computes blocks; inside `with card` the calls of this thread go to it.

    group, joining  threads of a block of paths, and of a block that joins sums
    """

    group: int
    joining: int

    def __init__(self, device: Any):
        self.device = device
        self._own = threading.local()

    def memory(self, name: str, *shape: int) -> Memory:
        """Memory that the thread keeps from block to block and from run to run, under a name."""
        own: dict[str, Memory] = self._own.__dict__
        if name not in own or own[name].shape != shape:
            own.pop(name, None)
            own[name] = self.allocated(shape)
        return own[name]

    @abstractmethod
    def allocated(self, shape: tuple[int, ...]) -> Memory: ...

    @abstractmethod
    def loaded(self, text: str, names: Sequence[str]) -> Launch:
        """The kernels of a module, as launch(name, blocks, threads, frame)."""

    @abstractmethod
    def __enter__(self) -> Card: ...

    @abstractmethod
    def __exit__(self, *error: Any) -> None: ...


class Memory(ABC):
    """Numbers of eight bytes on a card: `array` is an array for JAX, and `address` where it lies."""

    shape: tuple[int, ...]
    array: Any
    address: int

    def at(self, index: int) -> int:
        """The address of number `index`, counted through all of them."""
        return self.address + 8 * index

    @abstractmethod
    def put(self, values: np.ndarray) -> None:
        """Copy numbers of eight bytes to the card."""

    @abstractmethod
    def got(self, count: int, index: int = 0, dtype: Any = float) -> np.ndarray:
        """`count` numbers from number `index` on, once everything launched before is done."""

    @abstractmethod
    def clear(self, count: int) -> None:
        """Write zeros to the first numbers."""


# --- GPUs -------------------------------------------------------------------------------------------------------------


class GPUMemory(Memory):
    """An array of JAX's that kernels write to.

    It is read back by the driver alone, since JAX keeps a copy on the host of whatever it has read once.
    """

    def __init__(self, device: Any, shape: tuple[int, ...]):
        self.shape = shape
        self.array = jax.block_until_ready(jnp.empty(shape, float, device=device))
        self.address = self.array.unsafe_buffer_pointer()

    def put(self, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values)
        _checked(driver.cuMemcpyHtoDAsync(self.address, values.ctypes.data, values.nbytes, PER_THREAD))
        _checked(driver.cuStreamSynchronize(PER_THREAD))  # `values` may go

    def got(self, count: int, index: int = 0, dtype: Any = float) -> np.ndarray:
        values = np.empty(count, dtype)
        _checked(driver.cuMemcpyDtoHAsync(values.ctypes.data, self.at(index), values.nbytes, PER_THREAD))
        _checked(driver.cuStreamSynchronize(PER_THREAD))
        return values

    def clear(self, count: int) -> None:
        _checked(driver.cuMemsetD8Async(self.address, 0, 8 * count, PER_THREAD))


class GPU(Card):
    group, joining = GROUP, JOINING

    def __init__(self, device: Any):
        super().__init__(device)
        reason = unavailable()
        if reason is not None:
            raise RuntimeError(reason)
        _checked(driver.cuInit(0))
        number = _checked(driver.cuDeviceGet(device.local_hardware_id))
        self._context = _checked(driver.cuDevicePrimaryCtxRetain(number))

    def allocated(self, shape: tuple[int, ...]) -> Memory:
        with jax.enable_x64(True):
            return GPUMemory(self.device, shape)

    def loaded(self, text: str, names: Sequence[str]) -> Launch:
        with self:
            module = _checked(driver.cuModuleLoadData(compiling.ptx(text).encode() + b"\0"))
            kernels = {name: _checked(driver.cuModuleGetFunction(module, name.encode())) for name in names}

        def launch(name: str, blocks: int, threads: int, frame: Frame) -> None:
            """Start a kernel, which runs when everything this thread launched before is done."""
            arguments = (ctypes.c_void_p * 1)(frame.address)
            where = ctypes.addressof(arguments)
            _checked(driver.cuLaunchKernel(kernels[name], blocks, 1, 1, threads, 1, 1, 0, PER_THREAD, where, 0))

        return launch

    def __enter__(self) -> Card:
        _checked(driver.cuCtxPushCurrent(self._context))
        return self

    def __exit__(self, *error: Any) -> None:
        _checked(driver.cuCtxPopCurrent())


# --- a processor in its place -----------------------------------------------------------------------------------------


class HostMemory(Memory):
    def __init__(self, shape: tuple[int, ...]):
        self.shape, self.array = shape, np.empty(shape)
        self.address = self.array.ctypes.data

    def put(self, values: np.ndarray) -> None:
        self.array.reshape(-1)[: values.size] = values.reshape(-1).view(float)

    def got(self, count: int, index: int = 0, dtype: Any = float) -> np.ndarray:
        return self.array.reshape(-1)[index : index + count].view(dtype).copy()

    def clear(self, count: int) -> None:
        self.array.reshape(-1)[:count] = 0.0


class Host(Card):
    group = joining = ALONE

    def allocated(self, shape: tuple[int, ...]) -> Memory:
        return HostMemory(shape)

    def loaded(self, text: str, names: Sequence[str]) -> Launch:
        machine = compiling.compiled(text, names, level=1)

        def launch(name: str, blocks: int, threads: int, frame: Frame) -> None:
            frame.set(grid=blocks)
            machine[name](frame.address)

        return launch

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


@functools.cache
def card_of(device: Any) -> Card:
    """The card behind a device of JAX's."""
    return Host(device) if device.platform == "cpu" else GPU(device)
