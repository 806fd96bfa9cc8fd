"""Which public names the code of the site uses, so that the reference can point to it."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import gallery
from reference import by_value, is_public, resolved
from running import code

from stodyn.methods.catalogue import catalogue

DOCS = Path(__file__).parent


def imported(tree: ast.AST) -> dict[str, str]:
    """Return name in the code -> dotted name of stodyn, for everything that the code imports from it."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "stodyn":
                    found[alias.asname or "stodyn"] = alias.name if alias.asname else "stodyn"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "stodyn":
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def chains(node: ast.AST, names: dict[str, str]) -> str | None:
    """Return the dotted name that an expression such as sd.noise.coloured stands for; None for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        head = chains(node.value, names)
        return None if head is None else f"{head}.{node.attr}"
    return None


def used_names(source: str) -> set[str]:
    """Return the public names that code uses, by their first dotted names, and the methods it names as strings."""
    tree = ast.parse(source)
    names, methods, found = imported(tree), catalogue(), set()
    dotted = set(names.values()) | {chain for node in ast.walk(tree) if (chain := chains(node, names))}
    for name in dotted:
        value = resolved(name)
        if value is not None and id(value) in by_value():
            found.add(by_value()[id(value)])
        elif value is not None and getattr(value, "name", None) in methods:
            found.add(value.name)
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return found | (strings & set(methods))


def private_names(source: str) -> set[str]:
    """Return the dotted names of stodyn that code uses although they are not public."""
    tree = ast.parse(source)
    names = imported(tree)
    dotted = set(names.values()) | {chain for node in ast.walk(tree) if (chain := chains(node, names))}
    return {name for name in dotted if not is_public(name)}


def private_mentions(page: str) -> set[str]:
    """Return the private names of stodyn that the sentences of a page mention."""
    mentioned = re.findall(r"`((?:stodyn|sd)\.[A-Za-z_][\w.]*)", page)
    return {name for name in mentioned if not is_public(name.rstrip(".").replace("sd.", "stodyn.", 1))}


def title(page: str) -> str:
    """Return the first heading of a page."""
    return next(line.removeprefix("# ") for line in page.splitlines() if line.startswith("# "))


def sources() -> Iterator[tuple[str, str, str]]:
    """Yield title, address and code of every entry of the gallery and every page with Python blocks."""
    for entry in gallery.entries():
        if entry.stored:
            yield entry.title, f"gallery/{entry.name}.md", entry.source
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text()
        if code(page):
            yield title(page), str(path.relative_to(DOCS)), code(page)


@functools.cache
def users() -> dict[str, list[tuple[str, str]]]:
    """Return name -> title and address of the entries and pages whose code uses it; functions count for modules."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, address, source in sources():
        for used in used_names(source):
            head = used.rpartition(".")[0]
            for each in {used, head} if head.count(".") > 1 else {used}:
                found.setdefault(each, []).append((name, address))
    return found
