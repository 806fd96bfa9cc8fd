"""Names in the package say what a thing is, not how it came about: the participles below stood for anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "stodyn"
FORBIDDEN = {
    "found", "kept", "given", "drawn", "written", "seen", "told", "said", "judged", "together", "again", "way",
    "looks", "grows", "made", "taken", "asked",
}  # fmt: skip


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that a module binds, with its line: variables, parameters, attributes, functions, classes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str()) | ast.ExceptHandler(name=str()):
                yield node.asname if isinstance(node, ast.alias) else node.name, node.lineno


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"))
def test_no_name_says_only_how_a_thing_came_about(room):
    files = sorted((PACKAGE / room).rglob("*.py")) if (PACKAGE / room).is_dir() else [PACKAGE / room]
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line}: {name}"
        for file in files
        if file.suffix == ".py"
        for name, line in bound_names(ast.parse(file.read_text()))
        if name.strip("_") in FORBIDDEN
    ]
    assert not wrong, wrong


def test_every_kind_of_binding_is_looked_at():
    text = "def made(taken, asked): ...\n"
    text += "import a as seen\ndef given(found, *kept, **told):\n    self.drawn = (said := [again for again in way])\n"
    text += "for looks, grows in ():\n    pass\ntry:\n    pass\nexcept E as judged:\n    pass\nclass _Written_: ...\n"
    names = {name.strip("_").lower() for name, _ in bound_names(ast.parse(text))}
    assert names == (FORBIDDEN - {"together", "way"})
