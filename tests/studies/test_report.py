"""The stored results that the site shows belong to the studies there are, and its pages are made of them."""

import html
import json
import re
from pathlib import Path

import pytest

from stodyn.studies import report
from stodyn.studies.contract import Row, Size, catalogue

STORED = Path(__file__).parents[2] / "docs" / "studies"
MOST = 10_000_000  # bytes


def records():
    return {file.parent.name: json.loads(file.read_text("utf-8")) for file in sorted(STORED.glob(f"*/{report.RECORD}"))}


def test_stored_results_belong_to_the_studies_there_are():
    assert records() and set(records()) <= set(catalogue())
    for name, record in records().items():
        study, size = catalogue()[name], Size[record["size"].upper()]
        assert (record["study"], record["title"]) == (name, study.title)
        assert size is not Size.TINY and record["command"] == f"stodyn reproduce {name}{report.FLAGS[size]}"
        assert record["commit"] and "changes" not in record["commit"], name


def test_stored_rows_tell_their_runs():
    """A number with a standard error says how many paths it comes from, to which time and with which step."""
    for name, record in records().items():
        for row in (Row(**row) for row in record["rows"]):
            assert row.ours is not None or row.remark, (name, row)
            assert row.stderr is None or row.paths, (name, row)
            drawn = "sum of twelve" in row.quantity or "double well" in row.quantity  # draws; runs that end at a level
            assert not row.paths or drawn or (row.T is not None and row.h is not None), (name, row)


def test_stored_figures_are_those_of_the_records():
    for name, record in records().items():
        assert {file.stem for file in (STORED / name).glob("*.png")} == set(record["figures"])
        assert all(record["figures"].values()), name
    assert sum(file.stat().st_size for file in STORED.rglob("*") if file.is_file()) < MOST


def test_the_pages_are_made_of_the_records(tmp_path):
    """stodyn reproduce --pages --out docs/studies leaves them as they are."""
    for name in records():
        (tmp_path / name).mkdir()
        (tmp_path / name / report.RECORD).write_bytes((STORED / name / report.RECORD).read_bytes())
    for page in report.write_pages(tmp_path, catalogue().values()):
        assert page.read_text("utf-8") == (STORED / page.name).read_text("utf-8"), page.name


@pytest.mark.parametrize("text", ["a_b|c", "*x*", "[1] `y` <z> #"])
def test_markdown_shows_words_as_they_are(text):
    assert html.unescape(re.sub(r"\\(.)", r"\1", report.escaped(text))) == text
