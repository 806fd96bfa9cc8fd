"""The examples in the docstrings of problems and noise run, and print what they say."""

import doctest
import importlib
import importlib.util
import pkgutil

import pytest

from stodyn import noise, problems
from stodyn.noise import coloured

NEEDS = {"stodyn.problems.mechanical.Mechanical.from_lagrangian": "sympy"}


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [
        importlib.import_module(found.name)
        for package in (problems, noise, coloured)
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if not found.ispkg
    ]
    return [test for module in modules for test in finder.find(module) if test.examples]


def test_examples_print_what_they_say():
    runner = doctest.DocTestRunner(verbose=False)
    found = examples()
    assert len(found) >= 40
    for test in found:
        if test.name not in NEEDS or importlib.util.find_spec(NEEDS[test.name]):
            runner.run(test)
    if runner.failures:
        pytest.fail(f"{runner.failures} of {runner.tries} examples failed; their output is above")
