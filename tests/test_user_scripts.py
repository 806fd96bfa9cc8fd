"""Twenty scripts as users write them, for the fields of the README and for eight tasks of newcomers.

They are typed for `mypy --strict` and run as they stand. Each runs in a session as users have it: float64 is not
switched on beforehand.
"""

import runpy
from pathlib import Path

import jax
import pytest

SCRIPTS = sorted((Path(__file__).parent / "user_scripts").glob("*.py"))


def test_there_are_twenty():
    assert len(SCRIPTS) == 20


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_users_script_prints_its_answer(script, tmp_path, monkeypatch, capsys):
    """It prints its answer; a warning would be an error here."""
    monkeypatch.chdir(tmp_path)
    with jax.enable_x64(False):
        runpy.run_path(str(script))
    said = capsys.readouterr().out
    assert said and "nan" not in said
