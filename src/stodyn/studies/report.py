"""The report on the studies: a record of each, and a page per paper made of the records alone.

DIR/NAME/result.json, DIR/NAME/FIGURE.png    what a run of the study NAME leaves; pictures hold their captions
DIR/PAGE.md, DIR/index.md                    the pages, in Markdown
"""

from __future__ import annotations

import dataclasses
import json
import math
import platform
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import stodyn
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.papers import Paper

RECORD = "result.json"
FLAGS = {Size.TINY: " --tiny", Size.SMALL: "", Size.FULL: " --full"}
HEADS = ("quantity", "paper", "ours", "standard error", "T", "h", "paths", "remark")


# --- what a run leaves ----------------------------------------------------------------------------------------------


def save(study: Study, size: Size, result: StudyResult, seconds: float, out: Path) -> list[Path]:
    """Write the figures and the record of a run, which took `seconds` of processor time; return the files."""
    files = [out / f"{name}.png" for name in result.figures]  # each with its caption beside it
    for file, picture in zip(files, result.figures.values(), strict=True):
        picture.figure.savefig(file, dpi=110, metadata={"Description": picture.caption})
        file.with_suffix(".txt").write_text(picture.caption + "\n", encoding="utf-8")
    fields = {
        "study": study.name,
        "title": study.title,
        "size": size.name.lower(),
        "command": f"stodyn reproduce {study.name}{FLAGS[size]}",
        "version": stodyn.__version__,
        "commit": commit(),
        "machine": platform.machine(),
        "processor_seconds": round(seconds, 1),
        "rows": [plain(row) for row in result.rows],
        "figures": {name: picture.caption for name, picture in result.figures.items()},
    }
    record = out / RECORD
    record.write_text(json.dumps(fields, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return [*files, record]


def commit() -> str | None:
    """The commit of the source, marked where the source differs from it; None outside a repository."""
    folder = Path(stodyn.__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def plain(row: Row) -> dict[str, Any]:
    """A row as JSON has it: numbers that are not finite as null."""
    values = dataclasses.asdict(row)
    for key, value in values.items():
        if value is not None and not isinstance(value, str):
            values[key] = int(value) if key == "paths" else number(value)
    return values


# --- the pages ------------------------------------------------------------------------------------------------------


def write_pages(out: Path, studies: Iterable[Study]) -> list[Path]:
    """Write a page for each paper whose studies have a record in `out`, and the list of them; return the files."""
    files = {study: out / study.name / RECORD for study in studies}
    stored = [(study, json.loads(file.read_text("utf-8"))) for study, file in files.items() if file.exists()]
    if not stored:
        raise ValueError(f"{out}: it holds no results of studies; run stodyn reproduce all --out {out} first")
    papers = dict.fromkeys(study.paper for study, _ in stored)
    names = {study.name for study, _ in stored}
    pages = {"index": index(papers, list(files), names)} | {
        paper.page: page(paper, [(study, record) for study, record in stored if study.paper == paper])
        for paper in papers
    }
    for name, text in pages.items():
        (out / f"{name}.md").write_text(text, encoding="utf-8")
    return [out / f"{name}.md" for name in pages]


def index(papers: Iterable[Paper], studies: Sequence[Study], names: Collection[str]) -> str:
    """The first page: the papers and their studies, with links to those that are kept."""
    parts = [
        "# Published experiments, repeated",
        "Every table and figure of five papers is computed again by this library, along with experiments of its own. A "
        "page for each paper compares its numbers with ours and says where it is wrong. `stodyn reproduce NAME` runs "
        "one study, `stodyn reproduce all --out DIR` runs all of them and writes these pages.",
    ]
    for paper in papers:
        parts.append(f"## [{escaped(paper.short)}]({paper.page}.md)")
        parts.append(f"{escaped(paper.reference)}.")
        lines = []
        for study in (study for study in studies if study.paper == paper):
            title = heading(study.title)
            link = f"[{title}]({paper.page}.md#{study.name})" if study.name in names else f"{title} (not run here)"
            lines.append(f"- {link}: `{study.name}`")
        parts.append("\n".join(lines))
    return joined(parts)


def page(paper: Paper, stored: Sequence[tuple[Study, Mapping[str, Any]]]) -> str:
    """The page of a paper: for each study what it shows, its table and its figures."""
    parts = [f"# {escaped(paper.short)}", f"{escaped(paper.reference)}.", escaped(paper.about)]
    for study, record in stored:
        parts += [f'<a id="{study.name}"></a>', f"## {heading(study.title)}", escaped(study.finding), made_by(record)]
        parts += [figure(study.name, name, caption) for name, caption in record["figures"].items()]
        parts.append(table([Row(**row) for row in record["rows"]]))
    return joined(parts)


def made_by(record: Mapping[str, Any]) -> str:
    """A line: the command, the size, the source and the time of a run."""
    source = f"version {record['version']}" + (f", commit {record['commit']}" if record["commit"] else "")
    size = {"full": "the full size", "small": "the small size", "tiny": "the tiny size, whose numbers mean nothing"}
    time = f"{record['processor_seconds']:.0f} s of processor time on {record['machine']}"
    return f"`{record['command']}`: {size[record['size']]}; {source}; {escaped(time)}."


def figure(study: str, name: str, caption: str) -> str:
    """A figure with its caption below."""
    return f"![{escaped(name)}]({study}/{name}.png)\n\n*{escaped(caption)}*"


def table(rows: Iterable[Row]) -> str:
    """The rows as a table; a column that is empty throughout is left out."""
    cells = [cells_of(row) for row in rows]
    used = [k for k in range(len(HEADS)) if any(line[k] for line in cells)]
    lines = [[HEADS[k] for k in used], ["---:" if 0 < k < 7 else "---" for k in used]]
    lines += [[escaped(line[k]) for k in used] for line in cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells_of(row: Row) -> tuple[str, ...]:
    """A row in words, in the order of HEADS."""
    stderr = number(row.stderr)
    error = "" if stderr is None else f"{stderr:.2g}"
    setting = (printed(row.T), row.h if isinstance(row.h, str) else printed(row.h), printed(row.paths))
    return (row.quantity, printed(row.paper), printed(row.ours, row.stderr), error, *setting, row.remark)


def number(value: Any) -> float | None:
    """Return a finite float, or None."""
    return None if value is None or not math.isfinite(value) else float(value)


def printed(value: float | str | None, stderr: float | None = None) -> str:
    """Format a value to the second digit of its standard error, or to 8 digits where it has none."""
    if value is None or isinstance(value, str):
        return value or ""
    finite, error = number(value), number(stderr)
    if finite is None:
        return str(float(value))
    if not error or not finite:
        return f"{finite:.0f}" if finite.is_integer() and abs(finite) < 1e15 else f"{finite:.8g}"
    digits = math.floor(math.log10(abs(finite))) - math.floor(math.log10(error)) + 2
    return f"{finite:#.{min(max(digits, 1), 16)}g}".rstrip(".")


def heading(title: str) -> str:
    """A title with a capital at its beginning."""
    return escaped(title[:1].upper() + title[1:])


def escaped(text: str) -> str:
    """Text that Markdown leaves as it is; brackets by number, since some dialects take \\[ for a formula."""
    for bracket, number in (("<", 60), ("[", 91), ("]", 93)):
        text = text.replace(bracket, f"&\0{number};")
    return re.sub(r"([\\`*_|#])", r"\\\1", text).replace("\0", "#")


def joined(parts: Iterable[str]) -> str:
    """Blocks of Markdown with blank lines between them."""
    return "\n\n".join(parts) + "\n"
