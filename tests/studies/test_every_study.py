"""Every study there is runs at its tiny size, from its command to its figures, its printed programs compiled as users
have them."""

import json
import math

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from stodyn.cli import application
from stodyn.studies import report
from stodyn.studies.contract import catalogue
from stodyn.studies.papers import RAJAN_RAHA

# Tracing and printing its step takes eight seconds.
SLIDER_CRANK = pytest.mark.long(
    "tests/models/test_mechanics.py asks its equations, test_mechanics_studies.py its numbers; the study of the beam "
    "has its methods, runs and figure"
)

# These run at a larger size there; of their kind tolerance-or-noise is run from its command here.
CHAOS = pytest.mark.long("tests/studies/test_chaos_studies.py asks their numbers")
JOINTS = pytest.mark.long(
    "tests/methods/test_constrained.py asks its orders and lengths, test_mechanics_studies.py its crank; the study of "
    "the orders of α methods has its runs and figure"
)
LONG = {
    "slider-crank": SLIDER_CRANK,
    "joints": JOINTS,
    "miller": CHAOS,
    "index-counterexample": CHAOS,
    "chaos-equivalence": CHAOS,
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG[name]) if name in LONG else name for name in catalogue()]
)
def test_every_study_runs_at_its_tiny_size(name, tmp_path, monkeypatch):
    """Each row has a finite value and error, or words in place of them, and tells the run behind it; each figure has
    something drawn in it, names on its axes and a caption."""
    save, results, savefig = report.save, [], Figure.savefig

    def watched(study, size, result, seconds, out):
        results.append(result)
        return save(study, size, result, seconds, out)

    def coarsely(figure, file, dpi, metadata):
        """Nobody looks at it: few dots, and texts where they come to lie."""
        figure.set_layout_engine("none")
        savefig(figure, file, dpi=dpi / 5, metadata=metadata)

    monkeypatch.setattr(report, "save", watched)
    monkeypatch.setattr(Figure, "savefig", coarsely)
    folder = tmp_path / "figures"
    ended = CliRunner().invoke(application(), ["reproduce", name, "--tiny", "--out", str(folder), "--json"])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    assert ended.exit_code == 0, ended.output

    result, written = results[0], json.loads(ended.stdout)
    assert result.rows and len(written["rows"]) == len(result.rows)
    assert len({row.quantity for row in result.rows}) == len(result.rows)
    for row in result.rows:
        assert row.quantity and (row.ours is not None or row.remark), row
        for value in (row.ours, row.stderr):
            assert value is None or isinstance(value, str) or math.isfinite(value), row
        assert row.stderr is None or (row.stderr >= 0.0 and row.paths), row
        endless = "double well" in row.quantity  # it runs until it has passed a level
        assert not row.paths or endless or (row.T is None) == (row.h is None), row
    assert written["files"] == [*(str(folder / f"{name}.png") for name in result.figures), str(folder / report.RECORD)]
    paper = catalogue()[name].paper
    for name, picture in result.figures.items():
        assert any(ax.has_data() for ax in picture.figure.axes), name
        for ax in picture.figure.axes:
            shared = ax.get_subplotspec() is not None and not ax.get_subplotspec().is_first_col()
            assert ax.get_ylabel() or shared, name
        assert picture.caption.endswith("."), name
        if paper is RAJAN_RAHA:  # of mechanics: the setting stands in the picture
            assert "paths" in picture.figure.get_suptitle(), name
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.txt").read_text(encoding="utf-8").strip() == result.figures[name].caption.strip()
