"""Write the pages that are computed.

They are the start page from the README, which method is for which problem, every public name with its summary, and the
changes. `python docs/generate.py --changelog` writes the latter as CHANGELOG.md.
"""

import inspect
import sys
from pathlib import Path
from types import ModuleType

import stodyn
from stodyn import analysis, circuits, models, noise, plot, statistics
from stodyn.cli.methods import in_words
from stodyn.engine import place
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Catalogued
from stodyn.problems.contract import STRUCTURES, NoiseStructure

DOCS = Path(__file__).parent
WORTH = {"strong": "paths themselves (strong order)", "weak": "statistics (weak order)"}


def order(method: Catalogued, kind: str, structure: str) -> float:
    """Return the highest order a method claims for a noise structure; 0 where it claims none or refuses."""
    noise = NoiseStructure(() if structure == "general" else (structure, "commutative"), "stated")
    refused = method.structures and not any(map(noise.implies, method.structures))
    return 0.0 if refused else method.promised(kind, noise)


def which_method() -> str:
    """Tabulate which methods are best for which problem and noise, and all methods."""
    methods = catalogue()
    lines = ["# Which method for which problem", "", "Computed from what every method claims; tests/claims measures"]
    lines += ["each claim. `problem.noise_structure` says which row is yours.", ""]
    for accepted in dict.fromkeys(m.accepts for m in methods.values()):
        own = {name: method for name, method in methods.items() if method.accepts is accepted}
        for kind, title in WORTH.items():
            if not any(claim.kind == kind for method in own.values() for claim in method.claims):
                continue
            lines += [f"## {accepted.__name__}: {title}", "", "| noise | best order | methods |", "|---|---|---|"]
            for structure in STRUCTURES:
                orders = {name: order(method, kind, structure) for name, method in own.items()}
                best = max(orders.values())
                names = ", ".join(f"`{name}`" for name, value in orders.items() if value == best > 0) or "none"
                lines.append(f"| {structure} | {best:g} | {names} |")
            lines.append("")
    heads = ("method", "takes", "calculus", "what it is", "claims", "from")
    lines += ["## All methods", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, m in methods.items():
        claims = "; ".join(in_words(c, m) for c in m.claims)
        calculus = m.calculus or "either"
        lines.append(f"| `{name}` | {m.accepts.__name__} | {calculus} | {m.summary} | {claims} | {m.citation} |")
    return "\n".join(lines) + "\n"


PUBLIC = """# Every public name

Public is what this page lists: the names of `stodyn` (conventionally `import stodyn as sd`), of its packages
`analysis`, `circuits`, `models`, `noise` and `statistics`, of the modules `plot` and `place`, and the names without a
leading underscore inside of the modules listed here. For authors of methods, problems and statistics
`stodyn.methods.contract`, `stodyn.problems.contract` and `stodyn.statistics.contract` are public too, and so is the
command line.

Everything else is private and may change in any version: names and modules that begin with an underscore, the
packages `numerics`, `engine`, `accuracy`, `chaos`, `cli`, `tour` and `studies`, and the modules of `methods` and
`problems`: a method is found by `sd.method("...")`, a problem in `sd`.

**What changes when.** Until version 1.0 a minor version (0.2, 0.3, ...) may rename public things; [the
changes](changes.md) then begin with one table of what was and what is, and an old keyword is refused with the new
one. A patch version (0.2.1) renames nothing. From 1.0 on a public name goes in two steps: for at least one minor
version the old name works and gives a `DeprecationWarning` that says the new one; it is gone in the next major
version.
"""


def summary(value: object) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split()).replace("|", "\\|")


def functions(module: ModuleType) -> list[str]:
    """Return the public functions and classes that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def public_names() -> str:
    """List every public name with its summary."""
    lines = [PUBLIC]
    packages: dict[str, tuple[ModuleType, list[str]]] = {
        "stodyn": (stodyn, stodyn.__all__),
        "stodyn.statistics": (statistics, statistics.__all__),
        "stodyn.plot": (plot, functions(plot)),
        "stodyn.analysis": (analysis, analysis.__all__),
        "stodyn.noise": (noise, noise.__all__),
        "stodyn.models": (models, models.__all__),
        "stodyn.circuits": (circuits, circuits.__all__),
        "stodyn.place": (place, ["threads", "processes", "dask"]),
    }
    for title, (package, names) in packages.items():
        lines += [f"## {title}", "", "| name | |", "|---|---|"]
        for name in names:
            value = getattr(package, name)
            lines.append(f"| `{name}` | {summary(value)} |")
            if title == "stodyn.analysis" and inspect.ismodule(value) and functions(value):
                inside = ", ".join(f"`{inner}`" for inner in functions(value))
                lines.append(f"| | {inside} |")
        lines.append("")
    return "\n".join(lines)


def changes() -> str:
    """Collect the fragments of changes/, the table of renamed things first."""
    fragments = DOCS.parent / "changes"
    renamed = fragments / "renamed.md"
    lines = ["# Changes", "", f"## {stodyn.__version__}", ""]
    if renamed.exists():
        lines += [renamed.read_text().replace("# What was, what is", "### What was, what is").rstrip(), ""]
    for fragment in sorted(fragments.glob("*.md")):
        if fragment != renamed:
            title = fragment.stem.replace("-", " ").replace("_", " ").capitalize()
            lines += [f"### {title}", "", fragment.read_text().rstrip(), ""]
    return "\n".join(lines)


def main() -> None:
    """Write the pages, or CHANGELOG.md alone."""
    if "--changelog" in sys.argv:
        (DOCS.parent / "CHANGELOG.md").write_text(changes())
        return
    (DOCS / "generated").mkdir(exist_ok=True)
    (DOCS / "generated" / "methods.md").write_text(which_method())
    (DOCS / "generated" / "public.md").write_text(public_names())
    (DOCS / "generated" / "changes.md").write_text(changes())
    readme = (
        (DOCS.parent / "README.md")
        .read_text()
        .replace("](docs/", "](")
        .replace("[Examples](examples) · ", "")
        .replace("(CHANGELOG.md)", "(generated/changes.md)")
    )
    (DOCS / "index.md").write_text(readme.replace("(CONTRIBUTING.md)", "(design.md)"))


if __name__ == "__main__":
    main()
