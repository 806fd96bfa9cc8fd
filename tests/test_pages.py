"""The Python blocks of every page run in their small sizes, and what a page shows of their output is of this code."""

from pathlib import Path

import pytest
from running import code, digest, inside, lacks, outputs, pages, shown, small, stamp

ROOT = Path(__file__).parents[1]
PAGES = {str(path.relative_to(ROOT)): path for path in pages()}
PAGE = "# T\n\n```python\nN = 5  # small: 2\nprint(N)\n```\n\n```text\n5\n```\n\nand\n\n```python\nM = 2 * N\n```\n"


@pytest.mark.usefixtures("quick_compiling", "coarse_pictures")
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(name, tmp_path):
    page = PAGES[name].read_text()
    if lacks(page):
        pytest.skip(f"needs {lacks(page)}")
    with inside(tmp_path):
        list(outputs(page, name, small))


@pytest.mark.usefixtures("quick_compiling", "coarse_pictures")
def test_the_readme_runs(tmp_path):
    readme = (ROOT / "README.md").read_text()
    with inside(tmp_path):
        list(outputs(readme, "README.md", lambda block: block.replace("100_000", "500")))


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_shows_is_of_its_code(name):
    """If not: python docs/running.py NAME."""
    page = PAGES[name].read_text()
    assert stamp(page) == digest(code(page))


@pytest.mark.parametrize("name", [*PAGES, "README.md"])
def test_code_in_pages_is_at_most_90_columns_wide(name):
    for line in shown(code((ROOT / name).read_text())).splitlines():
        assert len(line) <= 90, line


def test_a_digest_is_that_of_the_program_not_of_its_layout():
    one = 'def f(x):\n    """One."""\n    return g(x, [])  # a comment\n'
    assert digest(one) == digest("def f(x):\n    return g(\n        x,\n        [],\n    )\n")
    assert digest(one) != digest(one.replace("x, []", "x, [1]"))


def test_pages_run_small_in_tests_and_whole_on_the_site():
    assert list(outputs(PAGE, "page", small)) == ["2\n", ""]
    assert list(outputs(PAGE, "page", shown)) == ["5\n", ""]
    assert "small" not in shown(PAGE) and "N = 2\n" in small(PAGE)
