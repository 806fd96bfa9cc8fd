"""The identity of a run: everything its numbers depend on, in words and digests that can be compared."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import platform
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

import jax
import numpy as np
from jax.extend import core

import stodyn
from stodyn.engine.traces import function_traces
from stodyn.noise.source import PerPath, source_of
from stodyn.numerics.printing.fingerprints import calls_host, fingerprint
from stodyn.numerics.printing.walk import ROUNDED
from stodyn.problems.contract import has_listed_start
from stodyn.statistics.contract import Move, Snapshot, Statistic, parted

PACKAGES = ("jax", "jaxlib", "numpy", "llvmlite", "scipy")
WATCHED = 64  # lanes of the block on which a statistic is traced
SHORT = 16  # numbers that are written out; more are replaced by a digest
NOT_COMPARED = ("paths", "given", "executor_reason", "fingerprint")  # of a run's record: free, or compared elsewhere


def versions() -> dict[str, str]:
    """The versions that a result's record names."""
    return {name: software()[name] for name in ("stodyn", "jax", "numpy")}


@functools.cache
def software() -> dict[str, str]:
    """The versions of the software, the rounding of printed programs, and the processor: XLA makes other instructions
    for another one."""
    versions = {"python": ".".join(platform.python_version_tuple()[:2]), "stodyn": stodyn.__version__}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "none"
    return {**versions, "rounded": ROUNDED, "processor": _processor()}


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part"))]
    return " ".join([platform.machine(), *(named or [platform.processor()])[:1]]).strip()


def of_run(run: Any) -> dict[str, Any]:
    """The identity of a Run; the number of paths is not part of it, since more paths are further blocks."""
    spec = run.spec
    record = {name: value for name, value in run.record().items() if name not in NOT_COMPARED}
    return {
        "problem": type(spec.problem).__name__,
        "equations": _equations(spec),
        "start": _start(run.layout),
        "params": _params(spec),
        "method": spec.method.spelling,
        **record,
        "dt": in_brief(np.asarray(record["dt"])),
        "collect": [_collected(spec, statistic) for statistic in spec.statistics],
        "software": software(),
    }


def _equations(spec: Any) -> str:
    """The traces of a step; of a Solver, which makes its paths on the host, those of the problem's functions."""
    if spec.traced is None:
        traces_found = [trace for _, trace in function_traces(spec.problem)]
    else:
        traced = spec.traced
        traces_found = [
            trace for trace in (traced.step, traced.start, traced.read, traced.starting) if trace is not None
        ]
    if any(map(calls_host, traces_found)):
        raise ValueError(
            "problem: its functions call back to Python (jax.pure_callback), and one such function cannot be "
            "told from another: such a run can have no ledger and must stay in its process. Write it with jax.numpy."
        )
    return digest(*map(fingerprint, traces_found))


def members_in_brief(layout: Any) -> str:
    """A digest of the starts and parameters: those of the first paths, and all values listed path by path."""
    first = layout.members_from(0, 1, 1)
    problem = layout.spec.problem
    sources = (*problem.start_parts, *problem.param_sources)
    return digest(first.start, *first.params, *(one.values for one in sources if isinstance(one, PerPath)))


def _start(layout: Any) -> Any:
    """The start of all paths, or those of the first few; with values listed path by path, that of the first."""
    starts = layout.draw(0, 1 if has_listed_start(layout.spec.problem) else SHORT)[0]
    return in_brief(starts[0]) if len(starts) == 1 else f"drawn: {digest(starts)}"


def _params(spec: Any) -> dict[str, Any]:
    def one(leaf: Any) -> Any:
        source = source_of(leaf)
        if source.is_listed:
            return "one value per path"
        if source.is_random:
            return f"drawn: {digest(source.draw(np.random.default_rng(0), range(SHORT), 'params'))}"
        return in_brief(np.asarray(leaf))

    places = jax.tree_util.tree_flatten_with_path(spec.problem.params)[0]
    return {jax.tree_util.keystr(place): one(leaf) for place, leaf in places}


def _collected(spec: Any, statistic: Statistic) -> dict[str, str]:
    """A statistic in words, and digests of its trace and of a `fold` that is not ours."""
    fields = [(f.name, getattr(statistic, f.name)) for f in dataclasses.fields(statistic) if f.repr]
    shown = ", ".join(f"{name}={value!r}" for name, value in fields if not callable(value) and value is not None)
    shown = re.sub(r" at 0x[0-9a-f]+", "", shown)  # the address of an object says nothing about it
    described = {"statistic": f"{type(statistic).__name__}({shown if len(shown) < 200 else digest(shown)})"}
    if spec.traced is not None:
        described["trace"] = digest(fingerprint(_watching(spec, statistic)))
    fold = type(statistic).fold
    if not fold.__module__.startswith("stodyn."):
        described["fold"] = digest(*_code(fold.__code__))
    return described


def _watching(spec: Any, statistic: Statistic) -> core.ClosedJaxpr:
    """Everything that a statistic computes from a block, as a trace."""

    def watch(t: Any, h: Any, x: Any, sound: Any, weight: Any, iterations: Any, flat_params: Any) -> Any:
        params = jax.tree.unflatten(spec.params_tree, flat_params)
        x, stops = parted(x, spec.problem.n, spec.levels)
        begun = statistic.track_start(t, x, params)
        track = statistic.track(begun, Move(t, h, x, x, params, spec.axes))
        observation = statistic.observe(Snapshot(t, x, sound, weight, params, spec.axes, iterations, track, stops))
        return begun, track, observation

    def lanes(*shape: int, dtype: Any = spec.dtype) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    params = [
        lanes(*e.shape, *([WATCHED] if v else []), dtype=e.dtype)
        for e, v in zip(spec.examples, spec.varies, strict=True)
    ]
    with jax.enable_x64(True):
        return jax.make_jaxpr(watch)(
            lanes(), lanes(), lanes(*spec.traced.read.out_avals[0].shape, WATCHED), lanes(WATCHED, dtype=bool),
            lanes(WATCHED), lanes(WATCHED, dtype=np.int32), params,
        )  # fmt: skip


def _code(code: CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(constant)


def in_brief(values: np.ndarray) -> Any:
    """Few numbers as they are, many by a digest."""
    return values.tolist() if values.size <= SHORT else f"{values.size} numbers: {digest(values)}"


def digest(*parts: Any) -> str:
    """A digest of words and arrays."""
    hashed = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            hashed.update(part.encode())
        else:
            array = np.asarray(part)
            hashed.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
        hashed.update(b"\0")
    return hashed.hexdigest()[:32]


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """The differences between two identities, a few words each: 'seed was 1 and is 2'."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in dict.fromkeys((*old, *new)):
            lines += differences(old.get(key), new.get(key), f"{name} {key}".strip())
        return lines
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and len(old) <= SHORT:
        return [line for k, pair in enumerate(zip(old, new, strict=True)) for line in differences(*pair, f"{name} {k}")]
    if old == new:
        return []
    if name == "equations":
        return ["the equations differ (their trace or its constants)"]
    return [f"{name} was {old!r} and is {new!r}"]
