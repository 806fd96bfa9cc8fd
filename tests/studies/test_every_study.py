"""Every study there is runs at its tiny size, from its command to its figures, compiled as its users have it."""

import json
import math

import pytest
from typer.testing import CliRunner

from stodyn.cli import application, reproduce
from stodyn.studies.contract import catalogue


@pytest.mark.parametrize("name", catalogue())
def test_it_runs(name, tmp_path, monkeypatch):
    """Each row has a finite value and error, or words in place of them; each figure has something drawn in it."""
    save_figures, results = reproduce.save_figures, []

    def watched(result, out):
        results.append(result)
        return save_figures(result, out)

    monkeypatch.setattr(reproduce, "save_figures", watched)
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
        assert row.stderr is None or row.stderr >= 0.0, row
    assert [path.removesuffix(".png") for path in written["files"]] == [str(folder / name) for name in result.figures]
    for name, figure in result.figures.items():
        assert any(ax.has_data() for ax in figure.axes), name
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
