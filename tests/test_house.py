"""The house is in order: no module imports itself by way of others, not even for types, and no class knows it all."""

import graphlib
import re
from pathlib import Path

import stodyn as sd
from stodyn.problems.contract import Problem

SOURCE = Path(__file__).parents[1] / "src"
IMPORT = re.compile(r"^ *from (stodyn[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
CLASS = re.compile(r"^class (\w+).*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
METHOD = re.compile(r"^    (?:async )?def ", re.MULTILINE)
ASKED = re.compile(r"""(?:get|has)attr\((?:\w+\.)*(?:problem|own|converted|stepped), "([a-z]\w*)\"""")
MOST_METHODS = 35


def texts(source: Path = SOURCE) -> dict[str, str]:
    """Return module -> text."""
    files = {".".join(file.relative_to(source).with_suffix("").parts): file for file in source.rglob("*.py")}
    return {name.removesuffix(".__init__"): file.read_text() for name, file in files.items()}


def imports(text: str, modules: set[str]) -> set[str]:
    """Return the modules that a module imports anywhere: at its head, in functions, and for types alone."""
    names = ((home, name) for home, several in IMPORT.findall(text) for name in re.findall(r"\w+", several))
    return {f"{home}.{name}" if f"{home}.{name}" in modules else home for home, name in names}


def test_no_module_imports_itself_by_way_of_others():
    modules = texts()
    graph = {name: imports(text, set(modules)) - {name} for name, text in modules.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_no_class_has_more_methods_than_a_reader_can_keep_in_mind():
    large = [
        f"{module}.{match[1]}: {count} methods"
        for module, text in texts().items()
        for match in CLASS.finditer(text)
        if (count := len(METHOD.findall(match[0]))) > MOST_METHODS
    ]
    assert not large, large


TEXT_FILE = re.compile(r"""^ *[^'" ].*\.(?:read_text|write_text)\((?!.*utf-8).*$""", re.MULTILINE)


def test_files_of_text_are_read_and_written_in_utf_8():
    """Their names and units have Greek letters, which Windows would take for others; files of Linux are left aside."""
    of_linux = {"stodyn.engine.door", "stodyn.engine.record.identity", "stodyn.problems.contract"}
    found = {module: TEXT_FILE.findall(text) for module, text in texts().items() if module not in of_linux}
    assert {module: lines for module, lines in found.items() if lines} == {}
    assert TEXT_FILE.findall("file.read_text()\nfile.write_text(text, encoding='utf-8')\n") == ["file.read_text()"]


def test_imports_of_every_form_are_seen():
    text = "from stodyn.a import (\n    b,\n    c,\n)\n\ndef f():\n    from stodyn import d as e\n"
    assert imports(text, {"stodyn.a.b", "stodyn.d", "stodyn.a"}) >= {"stodyn.a.b", "stodyn.a", "stodyn.d"}


def kinds(kind: type = Problem) -> set[type]:
    """Return a class of problems and all that are made of it."""
    return {kind}.union(*map(kinds, kind.__subclasses__()))


def test_names_that_problems_are_asked_for_are_those_that_some_kind_has():
    """A name that has moved elsewhere would be answered by None, without a word."""
    assert sd.circuits.read("RC\nR1 a 0 1k\nC1 a 0 1p\n").n == 1  # circuits are problems too
    known = {name for kind in kinds() for name in (*dir(kind), *kind.__annotations__)}
    known.add("accepts")  # by which a method in the place of the problem is recognised
    asked = {(module, name) for module, text in texts().items() for name in ASKED.findall(text)}
    assert len(asked) > 3 and {name for _, name in asked} <= known, sorted(asked)
