"""Normals drawn inside a compiled program, by the thread that uses them: the inlined ziggurat as a foreign function.

Filled on the host, a slab of normals crosses from one thread's cache to another's, and every slab is a call; drawn in
the program, a whole window of steps is one call (Kubo oscillator, Heun, two cores: 2.2 ns a path and step against 6).
XLA calls a foreign function with a frame of pointers, laid out as in xla/ffi/api/c_api.h, which comes with jaxlib.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.noise.normals import TABLE, compiled_for_c, fill_normals, numba

TARGET = "stodyn_normals"
WORDS = 4  # of an SFC64 state

# Places in the frame and what it points to, in words of 8 bytes.
EXTENSION, API, ARGUMENTS, RESULTS = 1, 2, 9, 14  # of the frame
API_VERSION = 4  # of the interface: two numbers of 4 bytes, major and minor
KIND, METADATA = 1, 3  # of an extension
VERSION, TRAITS = 3, 4  # of the metadata
DATA = 3  # of a buffer
METADATA_EXTENSION = 1  # the kind
TABLE_SIZE = TABLE.size


def fill(state: Array, count: Array | int, shape: Sequence[int]) -> tuple[Array, Array]:
    """(the SFC64 state after it, an array of `shape` whose first `count` numbers are the stream's next normals).

    The numbers are those of normals.Normals from the same state. The rest of the array holds anything.
    """
    call = jax.ffi.ffi_call(
        TARGET, (jax.ShapeDtypeStruct((WORDS,), np.uint64), jax.ShapeDtypeStruct(tuple(shape), np.float64))
    )
    after, normals = call(state, jnp.full(1, count, np.uint64), TABLE)
    return after, normals


@functools.cache
def available() -> bool:
    """Whether programs on this machine can draw their own normals: tried once, against the host's."""
    if numba is None:
        return False
    try:
        _register()
        state, drawn = np.random.SFC64(1).state["state"]["state"].copy(), np.empty(1000)
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            after, inside = jax.jit(lambda state: fill(state, 1000, (1000,)))(state)
        fill_normals(drawn, state, TABLE)
        return bool(np.array_equal(inside, drawn) and np.array_equal(after, state))
    except Exception:  # another layout or version of the interface, in whatever way it shows: the host fills instead
        return False


def _register() -> None:
    """Tell XLA of the handler."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    jax.ffi.register_ffi_target(TARGET, capsule(handler.address, None, None), platform="cpu")


if numba is not None:
    from numba import carray, types
    from numba.extending import intrinsic

    WORD, REAL = types.CPointer(types.int64), types.CPointer(types.float64)

    def _taken_for(kind):
        def build(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return kind(types.int64), build

    # An address, which is a number, as a pointer to words or to real numbers.
    at: Any = intrinsic(lambda context, address: _taken_for(WORD))
    reals: Any = intrinsic(lambda context, address: _taken_for(REAL))

    @compiled_for_c(types.int64(WORD))
    def handler(frame):
        """What XLA calls: with an extension once, to be told the version of the interface, then to fill."""
        extension = frame[EXTENSION]
        if extension != 0 and (at(extension)[KIND] & 0xFFFFFFFF) == METADATA_EXTENSION:
            metadata = at(at(extension)[METADATA])
            metadata[VERSION] = at(frame[API])[API_VERSION]
            metadata[TRAITS] = 0
            return 0
        given, made = at(frame[ARGUMENTS]), at(frame[RESULTS])
        before, state = carray(at(at(given[0])[DATA]), WORDS), carray(at(at(made[0])[DATA]), WORDS).view(np.uint64)
        for k in range(WORDS):
            state[k] = np.uint64(before[k])
        count = at(at(given[1])[DATA])[0]
        table = carray(reals(at(given[2])[DATA]), TABLE_SIZE)
        fill_normals(carray(reals(at(made[1])[DATA]), count), state, table)
        return 0
