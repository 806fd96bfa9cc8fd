"""Twenty scripts as users write them, for the fields of the README and for eight tasks of newcomers.

They are typed for `mypy --strict` and run as they stand. Each runs in a session as users have it: float64 is not
switched on beforehand.
"""

import re
import runpy
from pathlib import Path

import generate
import jax
import pytest
import uses

SCRIPTS = sorted((Path(__file__).parent / "user_scripts").glob("*.py"))


def test_there_are_twenty():
    assert len(SCRIPTS) == 20


PAGES = "".join(page.read_text() for page in (*generate.DOCS.rglob("*.md"), *(generate.ROOT / "examples").glob("*.py")))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_its_words_stand_on_the_pages(script):
    """Its names are public; they, its keywords and what it takes out of results stand on a page or in the gallery."""
    text = script.read_text()
    names = {name.split(".")[-1] for name in uses.used_names(text)}
    keywords = {f"{word}=" for word in re.findall(r"[(,]\s*(\w+)=", text)}
    words = names | keywords | set(re.findall(r'\["(\w+)"\]', text))
    assert {word for word in words if not re.search(rf"\b{word}", PAGES)} | uses.private_names(text) == set()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_users_script_prints_its_answer(script, tmp_path, monkeypatch, capsys):
    """It prints its answer; a warning would be an error here."""
    monkeypatch.chdir(tmp_path)
    with jax.enable_x64(False):
        runpy.run_path(str(script))
    said = capsys.readouterr().out
    assert said and "nan" not in said
