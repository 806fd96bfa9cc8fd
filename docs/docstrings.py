"""Docstrings as Markdown: the sections of the NumPy convention, and columns that are aligned by blanks.

Markdown runs the lines of a paragraph together. Here

    name    lines that begin with a word, and what it means from the same column on,
            with more of it below

become a table, and formulas and other indented lines keep their lines.
"""

import inspect
import re
from collections.abc import Iterator

TABLES = ("Parameters", "Other Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
HEAD = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
ROW = re.compile(r"(?P<key>\S+(?: \S+)*) {2,}(?=\S)")
ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def sections(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the sections of a docstring as title and text; what stands before the first has the title ""."""
    title, start = "", 0
    for match in HEAD.finditer(docstring):
        yield title, docstring[start : match.start()].strip("\n")
        title, start = match["title"], match.end()
    yield title, docstring[start:].strip("\n")


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and description of the entries of a section such as Parameters."""
    for block in re.split(r"\n(?=\S)", text.strip("\n")):
        head, _, description = block.partition("\n")
        name, _, kind = head.partition(" : ")
        yield name.strip(), kind.strip(), inspect.cleandoc(description) if description.strip() else ""


def summary(value: object) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def cell(text: str) -> str:
    """Return Markdown that fits into a cell of a table."""
    return re.sub(r"\s*\n\n\s*", "<br><br>", escaped(text)).replace("\n", " ").replace("|", "\\|")


def escaped(text: str) -> str:
    """Return text whose < and stars are not taken for HTML and emphasis, code in backticks aside."""
    parts = re.split(r"(`+[^`]+`+)", text)
    parts[::2] = (re.sub(r"<(?=[A-Za-z/!])", "&lt;", part).replace("*", "\\*") for part in parts[::2])
    return "".join(parts)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table without the columns that are empty in every row."""
    kept = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    lines = [[heads[column] for column in kept], ["---"] * len(kept)]
    lines += [[row[column] for column in kept] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def columns(lines: list[str]) -> list[list[str]] | None:
    """Return the rows of lines in two aligned columns; None where they are something else."""
    rows: list[list[str]] = []
    starts = set()
    for line in lines:
        match = ROW.match(line)
        if match:
            starts.add(match.end())
            rows.append([match["key"], line[match.end() :]])
        elif rows and line[: min(starts)].isspace():
            rows[-1][1] += f" {line.strip()}"
        else:
            return None
    return rows if len(rows) > 1 and len(starts) == 1 else None


def prose(text: str) -> str:
    """Return the paragraphs of a text as Markdown."""
    blocks = []
    for paragraph in re.split(r"\n[ \t]*\n", text.strip("\n")):
        lines = paragraph.splitlines()
        rows = columns(lines)
        if rows:
            blocks.append(table(["", "meaning"], [[f"`{key}`", cell(value)] for key, value in rows]))
        elif sum(bool(ROW.match(line)) for line in lines) > 1:
            blocks.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
        elif paragraph.lstrip().startswith(">>>"):
            blocks.append(f"```pycon\n{inspect.cleandoc(paragraph)}\n```")
        else:
            blocks += _kept_lines(lines)
    return "\n\n".join(blocks)


def _kept_lines(lines: list[str]) -> Iterator[str]:
    """Yield runs of plain lines, list items and indented lines as blocks of their own."""
    kind, run = "", [""]
    for line in lines:
        now = "item" if ITEM.match(line) else "code" if line.startswith("    ") and kind != "item" else "text"
        if kind == "item" and now == "text" and line.startswith(" "):
            now = "item"
        if now != kind:
            yield from _block(kind, run)
            kind, run = now, []
        run.append(line)
    yield from _block(kind, run)


def _block(kind: str, lines: list[str]) -> Iterator[str]:
    if kind == "code":
        yield "```text\n" + inspect.cleandoc("\n".join(lines)) + "\n```"
    elif kind == "item":
        yield "\n".join(f"- {escaped(ITEM.sub('', line, 1))}" if ITEM.match(line) else escaped(line) for line in lines)
    elif kind:
        yield escaped("\n".join(lines))


def markdown(value: object, defaults: dict[str, str] | None = None, level: int = 2) -> str:
    """Return the docstring of a value as Markdown, its parameters in a table with their defaults."""
    blocks = []
    for title, text in sections(inspect.getdoc(value) or ""):
        if title:
            blocks.append(f"{'#' * level} {title}")
        if title in TABLES:
            blocks.append(
                table(["name" if title != "Returns" else "", "type", "meaning"], _rows(title, text, defaults))
            )
        elif text:
            blocks.append(prose(text))
    return "\n\n".join(blocks)


def _rows(title: str, text: str, defaults: dict[str, str] | None) -> list[list[str]]:
    rows = []
    for name, kind, description in entries(text):
        known = (defaults or {}).get(name) if "Parameters" in title else None
        default = "optional" if known == "None" else f"default `{known}`" if known else ""
        words = "; ".join(word for word in (cell(kind.removesuffix(", optional")), default) if word)
        rows.append(
            [f"`{name}`" if title in TABLES[:3] or title in TABLES[5:] else cell(name), words, cell(description)]
        )
    return rows
