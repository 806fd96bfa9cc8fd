"""Traces of steps, kept under a digest of everything that they are made of.

A step is a function of its method and of the problem, which are told by value; the functions of the problem are told by
traces of today. Where something cannot be told (a method that is not ours, a function that was not looked at, one with
derivatives of its own or a call to the host), the step is traced anew.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import jax
import numpy as np

from stodyn.engine.traces import Traced
from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.printing.telling import fingerprint, says_all
from stodyn.problems.contract import Problem
from stodyn.problems.sde import SDE

KEPT = 128
OURS = "stodyn."
CONFIGURED = ("jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion")

_traces: dict[str, Traced] = {}
_changing = threading.Lock()


class Untold(Exception):
    """Something that cannot be told by value."""


def kept(problem: Problem, seen: Mapping[str, Any], method: Any, make: Callable[[], Traced]) -> Traced:
    """The traces of a method's step on a problem; `seen`: those of its functions as they are now (traces.looks)."""
    try:
        words = _problem(problem, seen), _value(method), [getattr(jax.config, name) for name in CONFIGURED]
    except Untold:
        return make()
    key = hashlib.sha256(repr(words).encode()).hexdigest()
    found = _traces.get(key)
    if found is None:
        found = make()
        with _changing:
            while len(_traces) >= KEPT:
                del _traces[next(iter(_traces))]
            _traces[key] = found
    return found


def forget() -> None:
    """Keep no trace."""
    with _changing:
        _traces.clear()


def _problem(problem: Problem, seen: Mapping[str, Any], path: str = "") -> list[Any]:
    """All that a problem was given; starts and parameters of small SDEs by shape, since their steps know no values."""
    if not _is_ours(problem):
        raise Untold(type(problem))
    if problem.has_random_params:
        raise Untold("parameters that are drawn")
    values = [np.asarray(x) for x in (problem.example_start(), *jax.tree.leaves(problem.params))]
    if type(problem) is SDE and problem.n <= WRITTEN_OUT:
        told: list[Any] = [(x.shape, x.dtype.str) for x in values]
    else:
        told = [*map(_array, values)]
    told += [type(problem).__module__, type(problem).__qualname__, problem.n, problem.m, problem.noise_structure]
    told.append(jax.tree.structure(problem.params))
    for field in dataclasses.fields(problem):  # type: ignore[arg-type]
        value = getattr(problem, field.name)
        if not field.init or field.name in ("start", "params"):
            continue
        told.append(field.name)
        if isinstance(value, Problem):
            told.append(_problem(value, seen, f"{path}{field.name}."))
        elif callable(value):
            told.append(_function(seen, path + field.name))
        elif isinstance(value, tuple | list):
            names = (f"{path}{field.name}[{k}]" for k in range(len(value)))
            told += [_function(seen, n) if callable(v) else _value(v) for n, v in zip(names, value, strict=True)]
        else:
            told.append(_value(value))
    return told


def _function(seen: Mapping[str, Any], name: str) -> str:
    if name not in seen or not says_all(seen[name]):
        raise Untold(name)
    return fingerprint(seen[name])


def _is_ours(value: Any) -> bool:
    kind = type(value)
    return dataclasses.is_dataclass(value) and kind.__module__.startswith(OURS) and "<locals>" not in kind.__qualname__


def _array(value: np.ndarray) -> tuple:
    return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()


def _value(value: Any) -> Any:
    """A value in words that no other value has."""
    if value is None or isinstance(value, bool | int | float | complex | str | Fraction | np.generic):
        return type(value).__name__, value
    if isinstance(value, np.ndarray | jax.Array) and not isinstance(value, jax.core.Tracer):
        return _array(np.asarray(value))
    if isinstance(value, tuple | list):
        return [type(value).__qualname__, *map(_value, value)]
    if isinstance(value, Mapping):
        return [(_value(key), _value(entry)) for key, entry in value.items()]
    if _is_ours(value) and not isinstance(value, Problem):
        fields = [(f.name, _value(getattr(value, f.name))) for f in dataclasses.fields(value)]
        return [type(value).__module__, type(value).__qualname__, *fields]
    raise Untold(type(value))
