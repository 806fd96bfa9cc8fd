"""Netlist text: lines with their positions, continuation, comments, includes and sections of libraries.

.include FILE     all lines of a file                 .lib FILE SECTION   those of a file between .lib SECTION and .endl
.lib FILE         the same as .include
Files lie in the netlist's own folder, in one of the `libraries` that the caller names, or below. A .lib that cannot be
read is left out with a note: LTspice names libraries of its own in every netlist, used or not. Only an error about
something that is not defined tells of it as well.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 20_000_000  # of a netlist with all it includes
DEEPEST = 20  # includes within includes, subcircuits within subcircuits
INCLUDE = re.compile(r"(\.inc(?:lude)?|\.lib)\b\s*(.*)", re.IGNORECASE)
FILE = re.compile(r"""("[^"]*+"|'[^']*+'|[^\s"']++)\s*+(\S++)?""")
WITH_BLANKS = re.compile(r"""[^"'\s][^"']*\.\w+""")  # a path with blanks in it and no quotes around it
DRIVE = re.compile(r"[A-Za-z]:[\\/]")
LEFT_OUT_LIBRARY = "; it is left out"
UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f]")
COMMENT = re.compile(r";|(?<!\S)\$(?!\S)|(?<!\S)//")
LONG_WORD, SHOWN, MOST_SHOWN = re.compile(r"\S{200,}"), 60, 3000  # characters of words and messages that are shown


class Position(NamedTuple):
    """A position in a file; `file` is "" for a netlist given as text."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.file else f"line {self.line}"


class NetlistError(ValueError):
    """An error in a netlist, in the designer's terms; `at` is its position, None where no single line is to blame."""

    def __init__(self, message: str, at: Position | None = None):
        message = LONG_WORD.sub(lambda word: f"{word[0][:SHOWN]}… ({len(word[0]):,} characters)", message)
        message = message if len(message) <= MOST_SHOWN else f"{message[:MOST_SHOWN]}…"
        super().__init__(message if at is None else f"{at}: {message}")
        self.at = at


class _NotFound(NetlistError):
    """A file to include that cannot be read from here."""


class Line(NamedTuple):
    """A line with its continuations, free of comments."""

    at: Position
    text: str


class Text(NamedTuple):
    """A netlist as lines: its first line, which is the title, the others, and notes on the parts left out."""

    title: Line
    lines: list[Line]
    notes: list[str]


def read_text(source: str | Path, libraries: Sequence[str | Path] = ()) -> Text:
    """The lines of a netlist: a path, or the text itself, which has more than one line.

    As in SPICE the first line is the title and .end the end; `*` begins a comment line, `;`, a lone `$` or `//` a
    comment at the end of one; `+` continues the line before; the lines between .control and .endc are left out.
    Included files must lie in the netlist's folder, in one of the folders `libraries`, or below, links followed; a
    netlist given as text has no folder of its own. Files are in UTF-8, UTF-16 with its mark, or Latin-1, in which older
    programs write µ.
    """
    folders = [_folder(library) for library in libraries]
    if isinstance(source, str) and "\n" in source:
        if len(source) > MOST_BYTES:
            raise NetlistError(f"the netlist has {len(source):,} characters, expected at most {MOST_BYTES:,}")
        return _Reader(folders).read(source)
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
    reader = _Reader([path.parent.resolve(), *folders])
    return reader.read(reader.opened(path.resolve(), None), path.name, path.resolve())


def _folder(library: str | Path) -> Path:
    path = Path(library)
    if not path.is_dir():
        raise NetlistError(f"libraries: there is no folder {str(library)[:200]!r}")
    return path.resolve()


def uncommented(text: str) -> str:
    """A line without the comment at its end."""
    match = COMMENT.search(text)
    return text if match is None else text[: match.start()].rstrip()


class _Reader:
    """Collects the lines of a netlist and of the files it includes from `roots` and below."""

    def __init__(self, roots: list[Path]):
        self.roots, self.bytes = roots, 0
        self.lines: list[Line] = []
        self.notes: list[str] = []
        self.within: list[tuple[Path, str]] = []  # files and their sections, "" for all of it

    def read(self, text: str, name: str = "", path: Path | None = None) -> Text:
        rows = text.splitlines()
        title = Line(Position(name, 1), rows[0].strip() if rows else "")
        if path is not None:
            self.within.append((path, ""))
        self.collect(rows[1:], name, 2)
        return Text(title, self.lines, self.notes)

    def collect(self, rows: list[str], name: str, first: int, section: str = "") -> None:
        """Add the rows of a file, or those of one of its sections."""
        skipping: Position | None = None
        opened: str | None = None  # the section of a library that the row stands in
        sections = _sections(rows)
        begun, parts = len(self.lines), [""]
        for number, row in enumerate(rows, first):
            at, text = Position(name, number), row.strip()
            word = text[:9].lower()
            if word.startswith(".endl"):
                if opened is None:
                    raise NetlistError(".endl without .lib SECTION", at)
                opened = None
            elif number - first in sections:
                opened = sections[number - first]
            elif (opened is not None and opened != section) or (section and opened is None):
                continue
            elif skipping is not None:
                skipping = None if word.startswith(".endc") else skipping
            elif word.startswith(".control"):
                skipping = at
                self.notes.append(f"{at}: left out the commands between .control and .endc")
            elif not text or text[0] == "*":
                continue
            elif word.split()[0] == ".end":
                break
            elif text[0] == "+" or text == ")":  # a parenthesis alone closes the .model before
                if len(self.lines) == begun:
                    title = "; the first line is the title" if number == first == 2 else ""
                    raise NetlistError(
                        f"a line that begins with + continues the one before, but there is none{title}", at
                    )
                parts.append(uncommented(text.removeprefix("+")))
            elif text := uncommented(text):
                self._continued(begun, parts)
                if word.startswith((".inc", ".lib")):
                    self.include(text, at)
                    begun = len(self.lines)
                else:
                    self.lines.append(Line(at, text))
        self._continued(begun, parts)

    def _continued(self, begun: int, parts: list[str]) -> None:
        """Join the last line with its continuations, all at once, so that many of them cost no more than one."""
        if len(parts) > 1:
            before = self.lines[-1]
            parts[0] = before.text
            self.lines[-1] = before._replace(text=" ".join(parts))
            del parts[1:]

    def include(self, text: str, at: Position) -> None:
        word = text.split(maxsplit=1)[0].lower()
        try:
            path, section = self.named(text, word, at)
        except _NotFound as error:
            if word != ".lib":  # an .include may hold elements
                raise
            self.notes.append(f"{error}{LEFT_OUT_LIBRARY}")
            return
        name = path.name
        if (path, section) in self.within:
            raise NetlistError(f"{word} {name}: includes itself, by way of {self.within[-1][0].name}", at)
        if len(self.within) > DEEPEST:
            raise NetlistError(f"{word} {name}: includes nested deeper than {DEEPEST}", at)
        rows = self.opened(path, at).splitlines()
        if section and section not in _sections(rows).values():
            there = ", ".join(dict.fromkeys(_sections(rows).values())) or "none"
            raise NetlistError(f".lib {name} {section}: there is no such section; there are {there}", at)
        root = next(root for root in self.roots if path.is_relative_to(root))
        self.within.append((path, section))
        self.collect(rows, str(path.relative_to(root)), 1, section)
        self.within.pop()

    def named(self, text: str, word: str, at: Position) -> tuple[Path, str]:
        """The file that a line names, and the section of it; a path with blanks needs no quotes."""
        match = INCLUDE.fullmatch(text)
        rest = match[2].strip() if match else ""
        file = FILE.fullmatch(rest)
        name, section = (file[1].strip("\"'"), (file[2] or "").lower()) if file else ("", "")
        if WITH_BLANKS.fullmatch(rest) and " " in rest and not (word == ".lib" and self.exists(name)):
            name, section = rest, ""
        if not name or (section and word != ".lib"):
            raise NetlistError(f"{word}: expected {'.lib FILE [SECTION]' if word == '.lib' else '.include FILE'}", at)
        if not self.roots:
            raise _NotFound(
                f"{word} {name}: a netlist given as text has no folder to include from; read it from a file, or name "
                "folders of libraries", at)  # fmt: skip
        return self.located(name, word, at), section

    def exists(self, name: str) -> bool:
        try:
            self.located(name, "", Position("", 0))
        except _NotFound:
            return False
        return True

    def located(self, name: str, word: str, at: Position) -> Path:
        """The file of that name: beside the one that includes it, or in a library."""
        beside = [self.within[-1][0].parent] if self.within else []
        inside = False
        spellings = [name, name.replace("\\", "/")] if "\\" in name else [name]
        if DRIVE.match(name):  # a file of another machine, which may have come along with the netlist
            spellings.append(spellings[-1].rsplit("/", 1)[-1])
        for folder, spelling in itertools.product((*beside, *self.roots), spellings):
            try:
                path = (folder / spelling).resolve()
                allowed, exists = any(path.is_relative_to(root) for root in self.roots), path.is_file()
            except (OSError, ValueError, RuntimeError):
                continue
            if allowed and exists:
                return path
            inside |= allowed
        if not inside:
            raise _NotFound(
                f"{word} {name}: lies outside the netlist's own folder; copy it there, or name its folder among the "
                "libraries", at)  # fmt: skip
        raise _NotFound(
            f"{word} {name}: there is no such file; copy it beside the netlist, or name its folder among the libraries",
            at)  # fmt: skip

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
            self.notes.append(f"{path.name}: is not UTF-8; it is read as Latin-1")
        text = text.removesuffix("\n").removesuffix("\x1a")  # the end of a file of DOS
        strange = UNPRINTABLE.search(text)
        if strange is not None:
            line = text.count("\n", 0, strange.start()) + 1
            raise NetlistError(
                f"{path.name}: not text: character {ord(strange[0])} in line {line}; save it as UTF-8", at
            )
        return text


def _sections(rows: list[str]) -> dict[int, str]:
    """The rows that open a section of a library, .lib SECTION: those that an .endl closes."""
    names: dict[int, str] = {}
    last: tuple[int, str] | None = None
    for k, row in enumerate(rows):
        word = row.lstrip()[:5].lower()
        if word == ".lib" or (word.startswith(".lib") and word[4:].isspace()):
            words = uncommented(row).split()
            if len(words) == 2:
                last = k, words[1].lower()
        elif word == ".endl" and last is not None:
            names[last[0]] = last[1]
            last = None
    return names
