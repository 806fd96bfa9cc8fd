"""A problem, a method or a model as a person reads it: lines of (what, words), as text and as a table of HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stodyn.noise.source import PerPath

Lines = Iterable[tuple[str, str]]
OWN = "~"  # begins the names of params that a loop has for itself
MOST = 8  # components or parameters that are named


def as_text(title: str, lines: Lines) -> str:
    lines = list(lines)
    width = max((len(what) for what, _ in lines), default=0)
    return "\n".join([title, *(f"  {what:{width}}  {words}" for what, words in lines)])


def as_html(title: str, lines: Lines) -> str:
    rows = "".join(
        f"<tr><td style='text-align:left;color:#777'>{html.escape(what)}</td>"
        f"<td style='text-align:left'>{html.escape(words)}</td></tr>"
        for what, words in lines
    )
    return f"<b>{html.escape(title)}</b><table>{rows}</table>"


def of_problem(problem: Any) -> tuple[str, Lines]:
    """The lines of a problem: components, channels, structure of its noise, start, parameters, method."""
    white = f"{problem.m} channel{'s' * (problem.m != 1)} of noise" if problem.m else ""
    coloured = getattr(problem, "coloured", None)
    coloured = () if coloured is None else coloured.names
    noise = " and ".join([*([white] if white else []), *(["coloured noise"] if coloured else [])]) or "no noise"
    title = f"{type(problem).__name__} with {problem.n} component{'s' * (problem.n != 1)} and {noise}"
    lines = [("components", listed(map(str, problem.components)))]
    if problem.m:
        try:
            lines.append(("noise", f"{problem.noise_structure}, {problem.calculus}"))
        except ValueError as error:  # such as that of a circuit whose noise has no place in time
            lines.append(("noise", f"refused: {error}"))
    elif coloured:
        lines.append(("noise", f"coloured: {listed(coloured)}"))
    if hasattr(problem, "start"):
        lines.append(("start", short(problem.start)))
    if isinstance(problem.params, Mapping):
        named = {name: value for name, value in problem.params.items() if not str(name).startswith(OWN)}
        lines += [("params", listed(f"{name} = {short(value)}" for name, value in named.items()))] if named else []
    elif problem.params is not None:
        lines.append(("params", short(problem.params)))
    lines += problem.further_lines
    try:
        name, reason, _ = problem.recommended
    except TypeError:
        return title, lines
    return title, [*lines, ("method", f"{name} unless another is named: {reason}")]


def listed(words: Iterable[str], most: int = MOST) -> str:
    """Return words with commas between them; where they are many, the first of them and how many there are."""
    items = list(words)
    return ", ".join(items[:most]) + (f", ... ({len(items)} in all)" if len(items) > most else "")


def distribution(law: Any) -> str:
    """A frozen distribution of scipy.stats with its parameters by name: norm(loc=0, scale=1)."""
    family = law.dist
    names = [*(family.shapes or "").replace(",", " ").split(), "loc", *(["scale"] if hasattr(family, "pdf") else [])]
    values = {"loc": 0, "scale": 1} | dict(zip(names, law.args, strict=False)) | law.kwds
    return f"{family.name}({', '.join(f'{name}={short(values[name])}' for name in names if name in values)})"


def short(value: Any) -> str:
    """A value in a few words: never the address of an object, nor a long array."""
    if hasattr(value, "dist") and hasattr(value, "kwds"):
        return distribution(value)
    if callable(value) and hasattr(value, "__name__"):
        return f"drawn by {value.__name__}"
    if isinstance(value, tuple):
        return f"({', '.join(map(short, value))})"
    if isinstance(value, (list, np.ndarray)) or hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.size > MOST:
            return f"array of shape {array.shape}"
        return np.array2string(array, precision=6, separator=", ", max_line_width=1000)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, PerPath):
        return f"PerPath({short(value.values)})"
    has_words = type(value).__repr__ is not object.__repr__
    return str(value) if has_words else type(value).__name__.removesuffix("_frozen")
