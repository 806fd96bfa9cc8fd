"""The printed elementary functions at NumPy arrays: one compiled loop for each, width and effort of LLVM."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stodyn.numerics.printing import compiling, elementary
from stodyn.numerics.printing.vectors import REAL, kind


def evaluate(
    name: str, *arguments: ArrayLike, width: int = 4, level: int = 1, passes: int = 0, tabled: bool | None = None
) -> np.ndarray:
    """name(*arguments) entry by entry, by the function of `width` numbers.

    level, passes  LLVM's effort in generating code, and in optimising before it; neither shows in the bits
    """
    given = [np.ascontiguousarray(a, dtype=float) for a in np.broadcast_arrays(*arguments)]
    shape, size = given[0].shape, given[0].size
    padded = [np.resize(a, -(-size // width) * width) for a in given]
    out = np.empty(padded[0].size)
    run, _ = loop(name, width, level, passes, tabled)
    if size:
        run(*(a.ctypes.data for a in padded), out.ctypes.data, out.size)
    return out[:size].reshape(shape)


@compiling.once
def loop(name: str, width: int, level: int = 1, passes: int = 0, tabled: bool | None = None) -> tuple[Any, Any]:
    """(run(addresses of arguments and result, count), what has to live as long as it)."""
    machine = compiling.compiled(_text(name, width, tabled), ["run"], level=level, passes=passes)
    signature = [ctypes.c_void_p] * (elementary.arguments(name) + 1) + [ctypes.c_int64]
    return ctypes.CFUNCTYPE(None, *signature)(machine.address("run")), machine


def _text(name: str, width: int, tabled: bool | None) -> str:
    vector, count = kind(REAL, width), elementary.arguments(name)
    loads = "".join(
        f"  %p{j} = getelementptr double, ptr %a{j}, i64 %i\n  %x{j} = load {vector}, ptr %p{j}, align 8\n"
        for j in range(count)
    )
    values = ", ".join(f"{vector} %x{j}" for j in range(count))
    pointers = ", ".join(f"ptr noalias %a{j}" for j in range(count))
    return f"""{elementary.definitions({name}, width, tabled=tabled)}
define void @run({pointers}, ptr noalias %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{loads}  %y = call {vector} @{elementary.call_name(name, width)}({values})
  %p = getelementptr double, ptr %out, i64 %i
  store {vector} %y, ptr %p, align 8
  %next = add i64 %i, {width}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""
