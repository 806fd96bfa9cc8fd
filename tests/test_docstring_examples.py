"""The examples in docstrings run as a reader would copy them, and print what they say."""

import doctest
import importlib
import importlib.util
import inspect
from pathlib import Path

import pytest

import stodyn

HOME = Path(stodyn.__file__).parent
MODULES = sorted(
    ".".join(("stodyn", *file.relative_to(HOME).with_suffix("").parts))
    for file in HOME.rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)
NEEDS = {"stodyn.problems.mechanical.Mechanical.from_lagrangian": "sympy"}


class Finder(doctest.DocTestFinder):
    """A finder that looks behind decorators, whose functions have the names of another module."""

    def _from_module(self, module, found):
        return super()._from_module(module, inspect.unwrap(found) if inspect.isfunction(found) else found)


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    runner = doctest.DocTestRunner(verbose=False)
    for test in Finder(exclude_empty=True).find(importlib.import_module(name), globs={}):
        if test.name not in NEEDS or importlib.util.find_spec(NEEDS[test.name]):
            runner.run(test)
    if runner.failures:
        pytest.fail(f"{runner.failures} of {runner.tries} examples failed; their output is above")


def test_there_are_examples():
    assert len(MODULES) > 50
