"""The result of a block as plain bytes: numbers and arrays with a description of their structure, and a checksum.

A record is   magic · length of the header · header (JSON) · the arrays, one after the other · SHA-256 of all before.
Nothing in it is ever executed: it names no module and no class that is not already at hand.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

MAGIC = b"stodyn record 1\n"
DIGEST = hashlib.sha256().digest_size
KINDS = "biufcSU"  # NumPy's kinds of numbers and words, which hold no objects
DTYPE = re.compile(rf"[<>|=][{KINDS}][1-9]\d{{0,8}}")
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)


class Damaged(ValueError):
    """Bytes that are not a whole record: they were cut short, altered, or never one."""


class UnknownTuple(TypeError):
    """A record holds a named tuple that is not at hand."""


class Record(NamedTuple):
    """A value and its description."""

    about: dict[str, Any]
    value: Any


def packed(value: Any, about: Mapping[str, Any], what: str = "value") -> bytes:
    """A record of arrays, numbers, words and None in lists, tuples, named tuples and dicts with words as keys."""
    arrays: list[np.ndarray] = []
    structure = _described(value, arrays, what)
    header = {"about": dict(about), "structure": structure, "arrays": [[a.dtype.str, a.shape] for a in arrays]}
    text = json.dumps(header, separators=(",", ":")).encode()
    body = b"".join([MAGIC, len(text).to_bytes(8, "little"), text, *(a.tobytes() for a in arrays)])
    return body + hashlib.sha256(body).digest()


def unpacked(data: bytes, classes: Mapping[str, type] | None = None) -> Record:
    """The record; `classes` are the named tuples that may occur in it (`named_tuples`). Raises Damaged."""
    header, place = _header(data)
    try:
        arrays = _arrays(header["arrays"], data, place)
        return Record(header["about"], _built(header["structure"], arrays, classes or {}))
    except UnknownTuple:
        raise
    except FAULTS as error:  # the checksum is right, so that somebody has made it so
        raise Damaged("a record whose header does not describe what follows it") from error


def _arrays(described: list[Any], data: bytes, place: int) -> list[np.ndarray]:
    """The arrays that follow a header, no larger together than the record."""
    arrays = []
    for name, shape in described:
        if not DTYPE.fullmatch(name) or not all(type(length) is int and length >= 0 for length in shape):
            raise Damaged(f"an array of {name!r} and shape {shape!r}")
        dtype = np.dtype(name)
        size = math.prod(shape) * dtype.itemsize
        arrays.append(np.frombuffer(data[place : place + size], dtype).reshape(shape).copy())
        place += size
    return arrays


def about(data: bytes) -> dict[str, Any]:
    """The description in a record. Raises Damaged."""
    return _header(data)[0]["about"]


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header of a whole record, and where its arrays begin."""
    body, digest = memoryview(data)[:-DIGEST], data[-DIGEST:]
    if not data.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        raise Damaged("not a whole record: cut short or altered")
    begin = len(MAGIC) + 8
    end = begin + int.from_bytes(body[len(MAGIC) : begin], "little")
    try:
        header = json.loads(bytes(body[begin:end]))
    except (ValueError, RecursionError) as error:
        raise Damaged("a record without a header") from error
    if not isinstance(header, dict) or not isinstance(header.get("about"), dict):
        raise Damaged("a record without a description")
    return header, end


def _described(value: Any, arrays: list[np.ndarray], what: str) -> Any:
    """The structure of a value; its arrays are appended to `arrays`."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value, order="C")
        if array.dtype.kind not in KINDS:
            raise TypeError(f"{what}: holds an array of {array.dtype}; expected numbers or words")
        arrays.append(array)
        return {"scalar" if isinstance(value, np.generic) else "array": len(arrays) - 1}
    if value is None or isinstance(value, (bool, int, str)):
        return {"plain": value}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _described(entry, arrays, what) for key, entry in value.items()}}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"named": _label(type(value)), "entries": [_described(entry, arrays, what) for entry in value]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_described(entry, arrays, what) for entry in value]}
    raise TypeError(
        f"{what}: holds a {type(value).__name__}; expected arrays, numbers, words and None in lists, tuples, named "
        "tuples and dicts"
    )


def _built(structure: dict[str, Any], arrays: list[np.ndarray], classes: Mapping[str, type]) -> Any:
    """The value with this structure."""
    kind, content = next(iter(structure.items()))
    if kind == "plain":
        return content
    if kind == "float":
        return float.fromhex(content)
    if kind == "array":
        return arrays[content]
    if kind == "scalar":
        return arrays[content][()]
    if kind == "dict":
        return {key: _built(entry, arrays, classes) for key, entry in content.items()}
    if kind == "named":
        if content not in classes:
            raise UnknownTuple(
                f"collect: a statistic keeps a named tuple {content}, which does not exist in the module of the "
                "statistic's class; define it there, at the top, or import it"
            )
        return classes[content](*(_built(entry, arrays, classes) for entry in structure["entries"]))
    entries = [_built(entry, arrays, classes) for entry in content]
    return tuple(entries) if kind == "tuple" else entries


def named_tuples(owners: Iterable[type]) -> dict[str, type]:
    """The named tuples at hand beside our statistics, and in the modules of these classes and of their bases."""
    ours = [name for name in list(sys.modules) if name.startswith("stodyn.statistics.")]
    modules = dict.fromkeys((*ours, *(c.__module__ for owner in owners for c in owner.__mro__)))
    at_hand = [value for module in modules for value in list(vars(sys.modules.get(module, object)).values())]
    tuples = (value for value in at_hand if isinstance(value, type) and issubclass(value, tuple))
    return {_label(value): value for value in tuples if hasattr(value, "_fields")}


def _label(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
