"""A line of a netlist as words and name=value pairs, and names in a message."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stodyn.circuits.expressions import BadValue, number
from stodyn.circuits.text import Line, NetlistError

TOKEN = re.compile(r"""\{[^{}]*\}|\[[^\[\]]*\]|'[^']*'|"[^"]*"|[=(),]|[^\s=(),{}'"]+|\S""")
ASSIGNED = re.compile(r"(?<![^\s=,(])([^\s=,(]++)\s*+(\([^)]*+\)\s*+)?=(?!=)")  # without backtracking: linear time
NAME = re.compile(r"[a-z_]\w*")
BRACES = re.compile(r"\{[^{}]*\}|'[^']*'")
SWITCH = {"on": True, "off": False, "1": True, "0": False, "yes": True, "no": False}


def fields(line: Line, repeats: list[str] | None = None) -> tuple[list[str], dict[str, str]]:
    """The words of a line in lower case and its name=value pairs; commas separate, parentheses are words. A name that
    is given twice is an error, or is added to `repeats`, and its last value counts."""
    words: list[str] = []
    pairs: dict[str, str] = {}
    tokens = TOKEN.findall(line.text.lower())
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token in ("{", "}", "'", '"'):
            raise NetlistError(f"{tokens[0]}: {token} without its partner", line.at)
        if i + 1 < len(tokens) and tokens[i + 1] == "=":
            if i + 2 >= len(tokens) or tokens[i + 2] in ("=", "(", ")", ","):
                raise NetlistError(f"{tokens[0]}: {token}= has no value", line.at)
            if token in pairs and repeats is None:
                raise NetlistError(f"{tokens[0]}: {token}= is given twice", line.at)
            if token in pairs:
                repeats.append(token)  # type: ignore[union-attr]
            pairs[token] = tokens[i + 2]
            i += 3
            continue
        if token == "=":
            raise NetlistError(f"{tokens[0]}: = without a name before it", line.at)
        if token != ",":
            words.append(token)
        i += 1
    return words, pairs


def assignments(line: Line) -> list[tuple[str, str | None, str]]:
    """name[(arguments)] = expression: the parts of .param, whose expressions may hold spaces."""
    text = line.text.lower().split(None, 1)
    body = text[1] if len(text) > 1 else ""
    hidden = BRACES.sub(lambda inside: "_" * len(inside[0]), body)  # a = inside braces gives nothing a name
    matches = list(ASSIGNED.finditer(hidden))
    if not matches or body[: matches[0].start()].strip():
        raise NetlistError(".param: expected .param NAME=VALUE ...", line.at)
    pairs = []
    for this, then in zip(matches, [*matches[1:], None], strict=True):
        name, value = this[1], body[this.end() : then.start() if then else None].strip().rstrip(",")
        if not NAME.fullmatch(name):
            raise NetlistError(f".param {name}: a name has letters, digits and _, a letter first", line.at)
        if not value:
            raise NetlistError(f".param {name}= has no value", line.at)
        pairs.append((name, this[2], value))
    return pairs


def unbraced(text: str) -> str:
    """An expression without the braces or quotes around it."""
    return text[1:-1] if text[:1] in "{'\"" and len(text) > 1 else text


def is_number(word: str) -> bool:
    """Whether a word is written as a number; one that is too large or too small counts, and is refused where used."""
    try:
        return number(word) is not None
    except BadValue:
        return True


def several(names: Iterable[str], most: int = 8) -> str:
    """Names in a message, the first ones where there are many."""
    items = list(names)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
