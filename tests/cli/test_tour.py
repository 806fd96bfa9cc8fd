"""The tour: five fields, answers within their errors of the truth, and one page with everything (CI runs it whole)."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from stodyn.analysis.conservation import energy_of
from stodyn.cli import application
from stodyn.cli import tour as cli_tour
from stodyn.tour import plasma
from stodyn.tour.plasma import PLASMA


def test_one_stop_of_every_field():
    names = [stop.name for stop in cli_tour.all_stops()]
    assert names == ["building", "wing", "plasma", "amplifier", "tolerances"]


def test_the_page_has_question_answer_picture_and_code(tmp_path, monkeypatch):
    """|z| < 5: a false alarm in two million seeds."""
    monkeypatch.setattr(cli_tour, "all_stops", lambda: [PLASMA])
    result = CliRunner().invoke(application(), ["tour", "--out", str(tmp_path), "--paths", "640"])
    assert result.exit_code == 0, result.output
    assert abs(float(re.search(r"z = ([-+][\d.]+)", result.output).group(1))) < 5
    page = (tmp_path / "index.html").read_text()
    assert PLASMA.question in page and "plasma.png" in page and "def visit(paths" in page
    assert (tmp_path / "plasma.png").stat().st_size > 5000


def test_the_energy_of_the_plasma_is_that_of_its_equations(monkeypatch):
    class Asked(Exception):
        pass

    def ask(problem, method, *, collect, **options):
        raise Asked(problem, collect[0].function)

    monkeypatch.setattr(plasma.sd, "simulate", ask)
    with pytest.raises(Asked) as asked:
        plasma.visit(10, 1)
    problem, energy = asked.value.args
    x, exact = np.array([0.137, -0.8]), energy_of(problem)
    assert float(energy(0.0, x, problem.params)) == pytest.approx(float(exact(0.0, x, problem.params)), rel=1e-6)
