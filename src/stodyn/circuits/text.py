"""Netlist text: lines with their positions, continuation, comments, and includes from the netlist's own folder."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 20_000_000  # of a netlist with all it includes
DEEPEST = 20  # includes within includes, subcircuits within subcircuits
INCLUDE = re.compile(r"\.inc(?:lude)?\b\s*(.*)", re.IGNORECASE)
UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f]")
COMMENT = re.compile(r";|(?<!\S)\$(?!\S)")
LONG_WORD, SHOWN, MOST_SHOWN = re.compile(r"\S{200,}"), 60, 3000  # characters of words and messages that are shown


class Position(NamedTuple):
    """Where something stands; `file` is "" in a netlist given as text."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.file else f"line {self.line}"


class NetlistError(ValueError):
    """What is wrong with a netlist, in the designer's terms; `at` is where, None where no one line is to blame."""

    def __init__(self, message: str, at: Position | None = None):
        message = LONG_WORD.sub(lambda word: f"{word[0][:SHOWN]}… ({len(word[0]):,} characters)", message)
        message = message if len(message) <= MOST_SHOWN else f"{message[:MOST_SHOWN]}…"
        super().__init__(message if at is None else f"{at}: {message}")
        self.at = at


class Line(NamedTuple):
    """A line with its continuations, free of comments."""

    at: Position
    text: str


class Text(NamedTuple):
    """A netlist as lines: its first line, which is the title, the others, and what was left out, in words."""

    title: Line
    lines: list[Line]
    notes: list[str]


def read_text(source: str | Path) -> Text:
    """The lines of a netlist: a path, or the text itself, which has more than one line.

    As in SPICE the first line is the title and .end the end; `*` begins a comment line, `;` or a lone `$` a comment at
    the end of one; `+` continues the line before; what stands between .control and .endc is left out. Included files
    must lie in the netlist's folder or below it, links followed; a netlist given as text has no folder. Files are in
    UTF-8, UTF-16 with its mark, or Latin-1, in which older programs write µ.
    """
    if isinstance(source, str) and "\n" in source:
        if len(source) > MOST_BYTES:
            raise NetlistError(f"the netlist has {len(source):,} characters, expected at most {MOST_BYTES:,}")
        return _Reader(None).read(source)
    if not isinstance(source, str | Path):
        raise TypeError(f"netlist: expected a path, or text of several lines, got {type(source).__name__}")
    path = Path(source)
    try:
        exists = path.is_file()
    except (OSError, ValueError):  # a name too long, or with a zero byte in it
        exists = False
    if not exists:
        raise NetlistError(
            f"netlist: there is no file {str(source)[:200]!r} (a netlist given as text has several lines)"
        )
    reader = _Reader(path.parent.resolve())
    return reader.read(reader.opened(path.resolve(), None), path.name, path.resolve())


def _uncommented(text: str) -> str:
    """A line without the comment at its end."""
    found = COMMENT.search(text)
    return text if found is None else text[: found.start()].rstrip()


class _Reader:
    """Collects the lines of a netlist and of what it includes from `root` and below."""

    def __init__(self, root: Path | None):
        self.root, self.bytes = root, 0
        self.lines: list[Line] = []
        self.notes: list[str] = []
        self.within: list[Path] = []

    def read(self, text: str, name: str = "", path: Path | None = None) -> Text:
        rows = text.splitlines()
        title = Line(Position(name, 1), rows[0].strip() if rows else "")
        if path is not None:
            self.within.append(path)
        self.collect(rows[1:], name, 2)
        return Text(title, self.lines, self.notes)

    def collect(self, rows: list[str], name: str, first: int) -> None:
        skipping: Position | None = None
        for number, row in enumerate(rows, first):
            at, text = Position(name, number), row.strip()
            word = text[:9].lower()
            if skipping is not None:
                skipping = None if word.startswith(".endc") else skipping
            elif word.startswith(".control"):
                skipping = at
                self.notes.append(f"{at}: left out the commands between .control and .endc")
            elif not text or text[0] == "*":
                continue
            elif word.split()[0] == ".end":
                break
            elif text[0] == "+":
                if not self.lines or self.lines[-1].at.file != name:
                    raise NetlistError("a line that begins with + continues the one before, and there is none", at)
                before = self.lines[-1]
                self.lines[-1] = before._replace(text=f"{before.text} {_uncommented(text[1:])}")
            elif word.startswith(".inc"):
                self.include(_uncommented(text), at)
            elif text := _uncommented(text):
                self.lines.append(Line(at, text))
        if skipping is not None:
            raise NetlistError(".control without .endc", skipping)

    def include(self, text: str, at: Position) -> None:
        found = INCLUDE.fullmatch(text)
        name = found[1].strip().strip("\"'") if found else ""
        if not name:
            raise NetlistError(f"{text.split(maxsplit=1)[0]}: expected .include FILE", at)
        if self.root is None:
            raise NetlistError(
                f".include {name}: a netlist given as text has no folder to include from; read it from a file", at
            )
        try:
            path = (self.within[-1].parent / name).resolve()
            inside, exists = path.is_relative_to(self.root), path.is_file()
        except (OSError, ValueError, RuntimeError):
            inside = exists = False
        if not inside:
            raise NetlistError(f".include {name}: lies outside the netlist's own folder; copy it there", at)
        if not exists:
            raise NetlistError(f".include {name}: there is no such file", at)
        if path in self.within:
            raise NetlistError(f".include {name}: includes itself, by way of {self.within[-1].name}", at)
        if len(self.within) > DEEPEST:
            raise NetlistError(f".include {name}: includes nested deeper than {DEEPEST}", at)
        self.within.append(path)
        self.collect(self.opened(path, at).splitlines(), str(path.relative_to(self.root)), 1)
        self.within.pop()

    def opened(self, path: Path, at: Position | None) -> str:
        self.bytes += path.stat().st_size
        if self.bytes > MOST_BYTES:
            raise NetlistError(f"{path.name}: more than {MOST_BYTES:,} bytes in the netlist and what it includes", at)
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise NetlistError(f"{path.name}: could not be read ({error.strerror})", at) from None
        utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        try:
            text = raw.decode("utf-16" if utf16 else "utf-8-sig")
        except UnicodeDecodeError as error:
            if utf16:
                raise NetlistError(f"{path.name}: not text ({error.reason})", at) from None
            text = raw.decode("latin-1")
            self.notes.append(f"{path.name}: is not UTF-8, and is read as Latin-1")
        strange = UNPRINTABLE.search(text)
        if strange is not None:
            line = text.count("\n", 0, strange.start()) + 1
            raise NetlistError(
                f"{path.name}: not text: character {ord(strange[0])} in line {line}; save it as UTF-8", at
            )
        return text
