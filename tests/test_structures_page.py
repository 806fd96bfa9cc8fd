"""The examples of docs/structures.md, run as they stand."""

import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "structures.md"


@pytest.mark.usefixtures("quick_compiling")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)):
        if "import sympy" in block and importlib.util.find_spec("sympy") is None:
            continue
        exec(compile(block, f"structures.md, example {number + 1}", "exec"), names)
