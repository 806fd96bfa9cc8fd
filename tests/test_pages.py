"""The Python blocks of every page run in their small sizes, and what a page shows of their output is of this code."""

from pathlib import Path

import pytest
from running import code, digest, inside, outputs, shown, small, stamp

DOCS = Path(__file__).parents[1] / "docs"
FOLDERS = ("tutorials", "howto", "theory", "coming_from")
PAGES = {str(path.relative_to(DOCS)): path for folder in FOLDERS for path in sorted((DOCS / folder).glob("*.md"))}
PAGE = "# T\n\n```python\nN = 5  # small: 2\nprint(N)\n```\n\n```text\n5\n```\n\nand\n\n```python\nM = 2 * N\n```\n"


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(name, tmp_path):
    with inside(tmp_path):
        list(outputs(PAGES[name].read_text(), f"docs/{name}", small))


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_shows_is_of_its_code(name):
    """If not: python docs/running.py docs/NAME."""
    page = PAGES[name].read_text()
    assert not code(page) or stamp(page) == digest(code(page))


def test_sizes():
    assert list(outputs(PAGE, "page", small)) == ["2\n", ""]
    assert list(outputs(PAGE, "page", shown)) == ["5\n", ""]
    assert "small" not in shown(PAGE) and "N = 2\n" in small(PAGE)
