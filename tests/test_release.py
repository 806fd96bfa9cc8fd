"""What keeps a tree from being released is listed, and the site draws its logo and its chart from what stands in it."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import drawings
import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
assert SPEC is not None and SPEC.loader is not None
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src/stodyn").mkdir(parents=True)
    (tmp_path / "changes").mkdir()
    (tmp_path / "src/stodyn/__init__.py").write_text('"""."""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("title: t\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.0\n\n- a\n")
    (tmp_path / "changes/renamed.md").write_text("")
    return tmp_path


def test_a_tree_whose_parts_agree_is_released(tree):
    assert release.faults(tree, ["v1.2.0"], []) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("CITATION.cff", "version: 1.1.0\n", "CITATION.cff: its version is not 1.2.0"),
        ("CHANGELOG.md", "# Changes\n", "has no part '## 1.2.0'"),
        ("changes/mine.md", "a", "the first mine.md"),
    ],
)
def test_parts_that_do_not_agree_are_named(tree, file, text, fault):
    (tree / file).write_text(text)
    (words,) = release.faults(tree, ["v1.2.0"], [])
    assert fault in words
    assert any("git tag v1.2.0" in words for words in release.faults(tree, [], []))
    assert "tree: 1 files are not committed, the first M a.py" in release.faults(tree, ["v1.2.0"], ["M a.py"])


def test_a_python_that_does_not_run_is_named_with_a_way_out(tmp_path):
    """One that is found may not run: a version manager leaves pointers to versions that are not chosen."""
    pointer = tmp_path / "python"
    pointer.write_text("#!/bin/sh\nexit 127\n")
    pointer.chmod(0o755)
    assert release.missing([sys.executable]) == []
    for name in ("python9.99", str(pointer)):
        (words,) = release.missing([sys.executable, name])
        assert words.startswith(f"{name}: does not run here") and "--python PATH" in words


def test_the_pythons_tried_begin_where_the_package_does():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["requires-python"] == f">={release.PYTHONS[0].removeprefix('python')}"


def test_the_chart_has_a_bar_for_each_row_of_the_table_of_the_page_on_performance():
    chart = drawings.bars("# P\n\n<!-- bars -->\n\n| tool | ns |\n|---|---|\n| stodyn | 2 |\n| other | 8.5 |\n\nmore")
    assert 'class="ours" x="0" y="17" width="101"' in chart and 'class="peer" x="0" y="51" width="430"' in chart
    assert ">8.5<" in chart and 'aria-label="ns: stodyn 2; other 8.5"' in chart
    assert "stodyn 3.41" in drawings.bars((ROOT / "docs/performance.md").read_text())
    assert drawings.logo().count("<polyline") == 4 and drawings.logo() == drawings.logo()


def test_the_chart_of_costs_has_a_line_for_each_tool_through_its_numbers_of_paths():
    """From 1 to 100 ms and from 0.01 to 1 the middle of a field is 10 ms and 0.1."""
    head = "\n\n| tool | ± | ms |\n|---|---|---|\n"
    few = f"## E x, 20 paths{head}| stodyn | 0.1 | 10 |\n| other | 1 | 100 |\n"
    chart = drawings.costs(
        f"# P\n\n{few}\n## E x, 2,000 paths{head}| stodyn | 0.01 | 1 |\n\n## noise{head}| a | 1 | 1 |\n"
    )
    ends = f"{drawings.LEFT:.1f},{20 + drawings.HEIGHT:.1f} {drawings.LEFT + drawings.WIDTH / 2:.1f},115.0"
    assert f'<polyline class="ours" points="{ends}"/>' in chart and chart.count("<circle") == 3
    assert "stodyn 0.0016 in 29.8 ms" in drawings.costs((ROOT / "docs/peers.md").read_text())


def test_the_page_on_peers_marks_what_is_wrong_and_names_what_is_not_there(monkeypatch):
    """A distance of 4.5 standard errors is marked, and one of 3.5 is not."""
    spec = importlib.util.spec_from_file_location("peers", ROOT / "benchmarks" / "peers.py")
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    monkeypatch.setattr(peers, "has", lambda tool: tool != "torchsde")
    rows = [peers.Answer("E x, 20 paths", "stodyn", 1.0 + 0.1 * z, 0.1, 1.0, 0.01) for z in (4.5, 3.5)]
    wrong, right = (line for line in peers.page(rows, []).splitlines() if line.startswith("| ") and "stodyn" in line)
    assert '<span class="wrong">+4.5</span>' in wrong and "wrong" not in right
    text = peers.page(rows, ["chaospy 4 (TypeError: no)"])
    assert text.count("torchsde") == 1 and "\nNot run, since not installed: torchsde" in text
    assert "\nNot run, for an error: chaospy 4 (TypeError: no)." in text
