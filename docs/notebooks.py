"""Notebooks of the tutorials and of the gallery, made of the same source as their pages.

    python docs/notebooks.py NAME ...     run these notebooks at their small size (nbclient); without names all of them

NAME is the address of a page without its ending, such as tutorials/first_study or gallery/escape. The site has the
notebooks at their whole size, without outputs; none is stored.
"""

import ast
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gallery
from running import BLOCK, STAMP, shown, small

DOCS = Path(__file__).parent
FRONT = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"^!\[[^\]]*\]\(images/[^)]*\)\n+", re.MULTILINE)  # which the cell before it shows
INSIDE = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")  # links to other pages, which a notebook alone does not have
DRAWING = re.compile(r"^(ax|axes|figure|fig|plt|sd\.plot|upper|lower|left|right)\b")


def cells(address: str, resize: Callable[[str], str] = shown) -> list[tuple[str, str]]:
    """Return the cells of a page, each its kind ("markdown" or "code") and its source."""
    folder, _, name = address.partition("/")
    if folder == "gallery":
        entry = next(entry for entry in gallery.entries() if entry.name == name)
        source = re.sub(r'^""".*?"""\n+', "", resize(entry.source), count=1, flags=re.DOTALL)
        imports, _, rest = source.partition("\n\n")
        words = "\n\n".join([f"# {entry.title}", entry.text])
        return [("markdown", words), ("code", imports), ("code", quiet(rest.strip("\n")))]
    page = STAMP.sub("\n", FRONT.sub("", (DOCS / f"{address}.md").read_text()))
    parts, end = [], 0
    for match in BLOCK.finditer(page):
        parts += [("markdown", page[end : match.start()]), ("code", quiet(resize(match["code"]).rstrip("\n")))]
        end = match.end()
    parts.append(("markdown", page[end:]))
    plain = [(kind, INSIDE.sub(r"\1", PICTURE.sub("", text)).strip("\n") if kind == "markdown" else text)
             for kind, text in parts]  # fmt: skip
    return [(kind, text) for kind, text in plain if text]


def quiet(source: str) -> str:
    """Return a cell that ends such that no repr of Axes stands above its picture."""
    last = ast.parse(source).body[-1]
    words = ast.get_source_segment(source, last) or ""
    return f"{source};" if isinstance(last, ast.Expr) and DRAWING.match(words) else source


def notebook(address: str, resize: Callable[[str], str] = shown) -> dict[str, Any]:
    """Return a page as a notebook of format 4.5."""
    entries = []
    for k, (kind, text) in enumerate(cells(address, resize)):
        entry = {"cell_type": kind, "id": f"cell-{k}", "metadata": {}, "source": text.splitlines(keepends=True)}
        entries.append(entry | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": entries, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def addresses() -> Iterator[str]:
    """Yield the addresses of all notebooks."""
    for path in sorted((DOCS / "tutorials").glob("*.md")):
        yield f"tutorials/{path.stem}"
    for entry in gallery.entries():
        if entry.stored:
            yield f"gallery/{entry.name}"


def text(address: str) -> str:
    """Return the file of a notebook."""
    return json.dumps(notebook(address), indent=1, ensure_ascii=False) + "\n"


def run(address: str) -> None:
    """Run a notebook at its small size; raises the error of the first cell that fails."""
    import nbclient
    import nbformat

    with tempfile.TemporaryDirectory() as folder:
        made = nbformat.reads(json.dumps(notebook(address, small)), as_version=4)
        done = nbclient.NotebookClient(made, timeout=600, resources={"metadata": {"path": folder}}).execute()
    nbformat.validate(done)
    shows = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    reprs = [output for output in shows if re.match(r"<?Axes\b", str(output.get("data", {}).get("text/plain", "")))]
    if reprs:
        raise RuntimeError(f"{address}: a cell shows {reprs[0]['data']['text/plain']}")


if __name__ == "__main__":
    for name in sys.argv[1:] or addresses():
        run(name)
        print(name, flush=True)
