"""Docstrings of public functions and classes follow the NumPy convention, and name the parameters that there are."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import docstrings
import pytest
import reference

import stodyn

AS_ELSEWHERE = ("As in ", "As for ")


def public() -> dict[str, Any]:
    """Dotted name -> function or class, of everything that the reference lists, and of the contracts for authors."""
    names = {dotted: reference.resolved(dotted) for dotted in reference.addresses()}
    for module in reference.CONTRACTS.values():
        names |= {f"{module.__name__}.{name}": getattr(module, name) for name in reference.public_functions(module)}
    return {dotted: value for dotted, value in names.items() if inspect.isfunction(value) or inspect.isclass(value)}


PUBLIC = public()
FUNCTIONS = {dotted: value for dotted, value in PUBLIC.items() if inspect.isfunction(value)}
CLASSES = {dotted: value for dotted, value in PUBLIC.items() if inspect.isclass(value)}


def parameters(function: Callable) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def described(sections: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, type and description of each parameter that a docstring describes."""
    for names, kind, words in docstrings.entries(sections["Parameters"]):
        yield from ((name.strip().lstrip("*"), kind, words) for name in names.split(","))


def raises(function: Callable) -> bool:
    """Whether the text of a function raises an error of its own."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def faults(function: Callable) -> Iterator[str]:
    """Yield what the docstring of a function lacks, in words."""
    sections = dict(docstrings.sections(inspect.getdoc(function) or ""))
    names = parameters(function)
    if names and "Parameters" not in sections:
        yield f"no section Parameters for {names}"
    elif names:
        entries = list(described(sections))
        yield from (f"{name} is not described" for name in names if name not in {entry[0] for entry in entries})
        if inspect.Parameter.VAR_KEYWORD not in {p.kind for p in inspect.signature(function).parameters.values()}:
            yield from (f"{name} is not a parameter" for name, *_ in entries if name not in names)
        yield from (f"{name} has no description" for name, _, words in entries if not words)
        yield from (
            f"{name} has no type" for name, kind, words in entries if not kind and not words.startswith(AS_ELSEWHERE)
        )
    returned = inspect.signature(function).return_annotation
    if returned not in (None, "None") and not {"Returns", "Yields"} & set(sections):
        yield "no section Returns"
    if raises(function) and "Raises" not in sections:
        yield "no section Raises"


@pytest.mark.parametrize("dotted", FUNCTIONS)
def test_public_functions_are_documented_by_the_convention(dotted):
    assert list(faults(FUNCTIONS[dotted])) == []


@pytest.mark.parametrize("dotted", CLASSES)
def test_public_classes_describe_the_parameters_that_they_take(dotted):
    """Records that only functions make may describe their fields in columns instead."""
    kind = CLASSES[dotted]
    sections = dict(docstrings.sections(inspect.getdoc(kind) or ""))
    assert sections[""], "no summary"
    if "Parameters" in sections:
        entries, names = list(described(sections)), set(parameters(kind))
        fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
        assert {entry[0] for entry in entries} <= names | fields
        assert all(words for _, _, words in entries)
        assert all(word or words.startswith(AS_ELSEWHERE) for _, word, words in entries)


@pytest.mark.parametrize("dotted", CLASSES)
def test_methods_with_a_section_of_parameters_describe_all_of_them(dotted):
    for name, member in vars(CLASSES[dotted]).items():
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue  # what it inherits is described where it is from
        sections = dict(docstrings.sections(inspect.getdoc(function) or ""))
        if "Parameters" in sections:
            takes_more = "options" in parameters(function)
            assert takes_more or {entry[0] for entry in described(sections)} == set(parameters(function)), name


def test_names_that_users_construct_have_parameters():
    """Of the names of `stodyn`, classes are made by users, unless they are raised."""
    for name in stodyn.__all__:
        value = getattr(stodyn, name)
        if inspect.isclass(value) and not issubclass(value, Exception) and parameters(value):
            assert "Parameters" in dict(docstrings.sections(inspect.getdoc(value) or "")), name
