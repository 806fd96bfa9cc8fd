"""Notebooks are made of the pages: their cells hold all code, in order, and run where nbclient is installed."""

import json

import notebooks
import pytest
from running import code, shown

LATER = pytest.mark.long("tests/test_pages.py, which runs the same code; `make notebooks` runs all notebooks")
RUN = ("gallery/escape", pytest.param("tutorials/your_own_integrator", marks=LATER))


def test_a_notebook_holds_the_code_of_its_page():
    for address in ("tutorials/first_study", "tutorials/earthquake"):
        page = (notebooks.DOCS / f"{address}.md").read_text()
        cells = notebooks.notebook(address)["cells"]
        whole = "".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code")
        assert whole.replace(";\n", "\n").split() == shown(code(page)).split()
        words = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert "```python" not in words and "](../" not in words and "<!--" not in words and "](images" not in words


def test_every_tutorial_and_every_entry_can_be_written_as_a_notebook():
    """One that ran on a GPU too: its script runs on a processor, with fewer paths."""
    scripts = {f"gallery/{path.stem}" for path in notebooks.gallery.EXAMPLES.glob("*.py")}
    pages = {f"tutorials/{path.stem}" for path in (notebooks.DOCS / "tutorials").glob("*.md")}
    assert set(notebooks.addresses()) == scripts | pages
    for address in notebooks.addresses():
        page = json.loads(notebooks.text(address))
        assert page["nbformat"] == 4 and page["cells"][0]["cell_type"] == "markdown", address
        for cell in page["cells"]:
            assert cell["cell_type"] != "code" or compile("".join(cell["source"]), address, "exec")


@pytest.mark.parametrize(
    ("cell", "end"),
    [("ax = sd.plot.band(run)\nax.set(xlim=(0, 1))", ";"), ("sd.plot.band(run)", ";"), ("run", "run"), ("x = 1", "1")],
)
def test_no_axes_stand_above_a_picture(cell, end):
    assert notebooks.quiet(cell).endswith(end)


@pytest.mark.parametrize("address", RUN)
def test_a_notebook_runs(address):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebooks.run(address)
