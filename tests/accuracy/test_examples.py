"""The examples of docs/accuracy.md at loose errors, against what they print as the truth: never three errors away."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("name", "options", "within"), [("plasma_energy", (0.5, 4.0), 1.6)])
def test_the_truth_of_an_example(name, options, within, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    value, truth = example.main(*options)
    assert abs(value - truth) < within
    assert (tmp_path / f"{name}.png").exists()
