"""What a run is: everything its numbers depend on, in words and digests that can be compared."""

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

from stodyn.methods.contract import Method
from stodyn.noise import stream
from stodyn.noise.distribution import PerPath, draw
from stodyn.numerics import lanes
from stodyn.problems.contract import is_drawn
from stodyn.statistics.contract import Statistic

PACKAGES = ("stodyn", "jax", "jaxlib", "numpy", "numba", "scipy")
SHORT = 16  # numbers that are written out; more are told by a digest
NOT_COMPARED = ("paths", "given", "executor_reason", "fingerprint")  # of a run's record: free, or told otherwise


@functools.cache
def software() -> dict[str, str]:
    """The versions of what computes, and the processor: XLA makes other instructions for another one."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "none"
    return {**found, "processor": _processor()}


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part"))]
    return " ".join([platform.machine(), *(named or [platform.processor()])[:1]]).strip()


def of_ensemble(ensemble: Any) -> dict[str, Any]:
    """The identity of an Ensemble; the number of paths is no part of it, since more paths are further blocks."""
    found = {name: value for name, value in ensemble.record().items() if name not in NOT_COMPARED}
    return {
        "problem": type(ensemble.problem).__name__,
        "equations": _equations(ensemble),
        "start": _start(ensemble),
        "params": _params(ensemble),
        "method": ensemble.method.spelling,
        **found,
        "dt": told(np.asarray(found["dt"])),
        "collect": [_collected(ensemble, statistic) for statistic in ensemble.statistics],
        "software": software(),
    }


def _equations(ensemble: Any) -> str:
    """The traces of a step; of a Solver, which makes its paths on the host, what is seen of the first path."""
    if not isinstance(ensemble.method, Method):
        alone = dataclasses.replace(ensemble, paths=1, block=1)
        return digest(*jax.tree.leaves(alone.observe_block(0)))
    traced = ensemble.traced
    for trace in (traced.step, traced.start, traced.read, traced.starting):
        if trace is not None and _calls_host(trace):
            raise ValueError(
                "problem: its functions call back to Python (jax.pure_callback), and what is called there cannot be "
                "told from another: such a run has no ledger and stays in its process. Write it with jax.numpy."
            )
    return digest(*traced.fingerprints)


def _calls_host(trace: core.ClosedJaxpr) -> bool:
    return any("callback" in equation.primitive.name for equation in trace.jaxpr.eqns) or any(
        map(_calls_host, lanes.inner_traces(trace.jaxpr))
    )


def _start(ensemble: Any) -> Any:
    """The starts of block 0 were it full; with values given path by path, that of the first path."""
    leaves = jax.tree.leaves(getattr(ensemble.problem, "start", None), is_leaf=is_drawn)
    count = 1 if any(isinstance(leaf, PerPath) for leaf in leaves) else ensemble.width
    starts = ensemble.problem.draw_start(stream.generator(ensemble.seed, 0, "start"), range(count))
    return told(starts[0]) if np.all(starts == starts[0]) else f"drawn: {digest(starts)}"


def _params(ensemble: Any) -> dict[str, Any]:
    def one(leaf: Any) -> Any:
        if isinstance(leaf, PerPath):
            return "one value a path"
        if is_drawn(leaf):
            return f"drawn: {digest(draw(leaf, np.random.default_rng(0), range(SHORT), 'params'))}"
        return told(np.asarray(leaf))

    places = jax.tree_util.tree_flatten_with_path(ensemble.problem.params, is_leaf=is_drawn)[0]
    return {jax.tree_util.keystr(place): one(leaf) for place, leaf in places}


def _collected(ensemble: Any, statistic: Statistic) -> dict[str, str]:
    """A statistic in words, and digests of what it computes and of a `fold` that is not ours."""
    fields = [(f.name, getattr(statistic, f.name)) for f in dataclasses.fields(statistic) if f.repr]
    shown = ", ".join(f"{name}={value!r}" for name, value in fields if not callable(value) and value is not None)
    shown = re.sub(r" at 0x[0-9a-f]+", "", shown)  # where an object lies is nothing that it says
    found = {"statistic": f"{type(statistic).__name__}({shown if len(shown) < 200 else digest(shown)})"}
    if isinstance(ensemble.method, Method):
        found["trace"] = digest(ensemble.program.says(statistic, ensemble.members(0)))
    fold = type(statistic).fold
    if not fold.__module__.startswith("stodyn."):
        found["fold"] = digest(*_code(fold.__code__))
    return found


def _code(code: CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(constant)


def told(values: np.ndarray) -> Any:
    """Few numbers as they are, many by a digest."""
    return values.tolist() if values.size <= SHORT else f"{values.size} numbers: {digest(values)}"


def digest(*parts: Any) -> str:
    """A digest of words and arrays."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            found.update(part.encode())
        else:
            array = np.asarray(part)
            found.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
        found.update(b"\0")
    return found.hexdigest()[:32]


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """What differs between two identities, a few words each: 'seed was 1 and is 2'."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in dict.fromkeys((*old, *new)):
            found += differences(old.get(key), new.get(key), f"{name} {key}".strip())
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and len(old) <= SHORT:
        return [said for k, pair in enumerate(zip(old, new, strict=True)) for said in differences(*pair, f"{name} {k}")]
    if old == new:
        return []
    if name == "equations":
        return ["the equations are others (their trace or its constants)"]
    return [f"{name} was {old!r} and is {new!r}"]
