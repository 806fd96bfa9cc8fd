"""Run the code that the site shows: the scripts of examples/ and the Python blocks of pages.

A line such as `PATHS = 20_000  # small: 500` has two sizes: the site runs and shows the first, the tests run the one
after `small:`.

    python docs/running.py docs/tutorials/first_study.md ...

runs pages whole, or where none is named all pages with Python blocks whose optional packages are installed. The blocks
of a page share their names; what a block prints replaces the text block that follows it directly, pictures go to
`images` beside the page, and the digest of the code is written into the page's last line, so that a test can tell a
page that was changed and not run again.
"""

import ast
import contextlib
import hashlib
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pictures import large, shrink

SIZES = re.compile(r"^(?P<head>\s*[\w, ]+ = )(?P<whole>.+?)  # small: (?P<small>.+)$", re.MULTILINE)
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<then>\n*```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
OPTIONAL = ("blackjax", "control", "fmpy", "sympy")
EMPTY = re.compile(r"(?:, )?\w+=(?:\[\]|Load\(\))")  # what newer versions of Python leave out of a dump
STAMP = re.compile(r"\n*<!-- run: (\w+) -->\n*$")


def small(source: str) -> str:
    """Return the source with every size replaced by its small one."""
    return SIZES.sub(r"\g<head>\g<small>", source)


def shown(source: str) -> str:
    """Return the source as readers see it, without the small sizes."""
    return SIZES.sub(r"\g<head>\g<whole>", source)


def digest(source: str) -> str:
    """Return a short name of what the source does: its layout, comments and docstrings may change without a new run."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    program = EMPTY.sub("", ast.dump(tree)).replace("(, ", "(")
    return hashlib.sha256(program.encode()).hexdigest()[:16]


def code(page: str) -> str:
    """Return the Python blocks of a page, one after the other."""
    return "\n".join(match["code"] for match in BLOCK.finditer(page))


def lacks(page: str) -> list[str]:
    """Return the optional packages that a page imports and that are not installed."""
    return [name for name in OPTIONAL if f"import {name}" in code(page) and importlib.util.find_spec(name) is None]


def stamp(page: str) -> str | None:
    """Return the digest of the code with which a page was last run whole; None where it never was."""
    match = STAMP.search(page)
    return match[1] if match else None


def outputs(page: str, name: str, resize: Callable[[str], str]) -> Iterator[str]:
    """Run the blocks of a page in the current folder; yields what each one prints."""
    names: dict = {"__name__": "__main__"}
    for match in BLOCK.finditer(page):
        line = page.count("\n", 0, match.start("code"))
        block = "\n" * line + resize(match["code"])  # so that an error names the line of the page
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, name, "exec"), names)
        yield printed.getvalue()


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_whole(path: Path) -> None:
    """Run a page whole, and write what its blocks print, its pictures and its stamp."""
    page = STAMP.sub("\n", path.read_text())
    with tempfile.TemporaryDirectory() as folder, inside(Path(folder)):
        printed = iter(list(outputs(page, str(path), shown)))
        for picture in sorted(Path(folder).glob("*.png")):
            (path.parent / "images").mkdir(exist_ok=True)
            shutil.move(picture, path.parent / "images" / picture.name)
    for picture in large(path.parent / "images"):
        shrink(picture)

    def filled(match: re.Match) -> str:
        text = next(printed).rstrip("\n")
        return f"```python\n{match['code']}```\n" + (f"\n```text\n{text}\n```\n" if match["then"] else "")

    page = BLOCK.sub(filled, page)
    path.write_text(f"{page.rstrip()}\n\n<!-- run: {digest(code(page))} -->\n")


def pages() -> Iterator[Path]:
    """Yield the pages that have Python blocks."""
    for path in sorted(Path(__file__).parent.rglob("*.md")):
        if code(path.read_text()):
            yield path


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else pages():
        if not sys.argv[1:] and (missing := lacks(path.read_text())):
            print(f"{path}: left as it is, because {', '.join(missing)} is not installed", flush=True)
            continue
        print(f"{path} ...", flush=True)
        run_whole(path.resolve())
