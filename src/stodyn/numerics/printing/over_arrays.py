"""Printed functions at NumPy arrays: functions of one path over many, and the elementary ones entry by entry."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from stodyn.numerics.printing import compiling, elementary, rows, scalars
from stodyn.numerics.printing.nodes import Graph
from stodyn.numerics.printing.vectors import REAL, kind

WORDS = ("first_lane", "last_lane", "stride", "results")


class Printed:
    """Functions of one path, printed for many; called with arrays whose last axis is the path, or common ones.

    functions  name -> function
    examples   of each argument an array of its shape and dtype for one path
    common     the numbers of the arguments that all paths share
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        examples: Sequence[Any],
        common: Sequence[int] = (),
        width: int = 4,
        level: int = 1,
        passes: int = 0,
    ):
        self.width, self.common = width, common
        self.frame = [*WORDS, *(f"given{k}" for k in range(len(examples)))]
        self.outputs: dict[str, tuple[str, list[Any], int]] = {}
        printed: list[rows.Function] = []
        for name, function in functions.items():
            with jax.enable_x64(True):
                closed: Any = jax.make_jaxpr(function)(*examples)
            graph = Graph()
            inputs = [scalars.inputs_of(graph, f"given{k}", np.shape(x), np.asarray(x).dtype, lane=k not in common)
                      for k, x in enumerate(examples)]  # fmt: skip
            results = scalars.scalarised(closed, inputs, graph)
            kinds = [(r.shape, v.aval.dtype) for r, v in zip(results, closed.jaxpr.outvars, strict=True)]
            flat = [entry for r in results for entry in r.reshape(-1)]
            dtypes = [dtype for r, (_, dtype) in zip(results, kinds, strict=True) for _ in range(r.size)]
            self.outputs[name] = (f"f{len(printed)}", kinds, len(flat))
            printed.append(rows.mapped(f"f{len(printed)}", width, flat, dtypes, self.frame))
        names = [symbol for symbol, _, _ in self.outputs.values()]
        self.machine = compiling.compiled(rows.module(printed), names, level, passes)

    def __call__(self, name: str, *arrays: Any) -> list[np.ndarray]:
        symbol, kinds, count = self.outputs[name]
        paths = next(np.shape(x)[-1] for k, x in enumerate(arrays) if k not in self.common)
        padded = -(-paths // self.width) * self.width
        held = []
        for k, x in enumerate(arrays):
            x = rows.words(np.asarray(x)).reshape(-1, 1 if k in self.common else paths)
            held.append(x if k in self.common else np.ascontiguousarray(x[:, np.arange(padded) % paths]))
        out, frame = np.zeros((count, padded)), rows.Frame(self.frame)
        frame.set(first_lane=0, last_lane=padded, stride=padded, results=out)
        frame.set(**{f"given{k}": x for k, x in enumerate(held)})
        self.machine[symbol](frame.address)
        outputs, used = [], 0
        for shape, dtype in kinds:
            size = int(np.prod(shape))
            part = out[used : used + size, :paths]
            used += size
            part = part if dtype.kind == "f" else part.view(np.int64) if size else part
            outputs.append(part.astype(dtype).reshape(*shape, paths))
        return outputs


def evaluate(
    name: str, *arguments: ArrayLike, width: int = 4, level: int = 1, passes: int = 0, tabled: bool | None = None
) -> np.ndarray:
    """name(*arguments) entry by entry, by the function of `width` numbers.

    level, passes  LLVM's effort in generating code, and in optimising before it; neither shows in the bits
    """
    arrays = [np.ascontiguousarray(a, dtype=float) for a in np.broadcast_arrays(*arguments)]
    shape, size = arrays[0].shape, arrays[0].size
    padded = [np.resize(a, -(-size // width) * width) for a in arrays]
    out = np.empty(padded[0].size)
    function, _ = loop(name, width, level, passes, tabled)
    if size:
        function(*(a.ctypes.data for a in padded), out.ctypes.data, out.size)
    return out[:size].reshape(shape)


@compiling.once
def loop(name: str, width: int, level: int = 1, passes: int = 0, tabled: bool | None = None) -> tuple[Any, Any]:
    """(run(addresses of arguments and result, count), the objects that must live as long as it)."""
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
