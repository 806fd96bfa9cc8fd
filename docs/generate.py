"""Write the pages that are computed: the start page from the README, and which method is for which problem."""

from pathlib import Path

from stodyn.cli.methods import in_words
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Catalogued
from stodyn.problems.sde import SDE, STRUCTURES

DOCS = Path(__file__).parent
WORTH = {"strong": "Paths themselves (strong order)", "weak": "Statistics (weak order)"}


def order(method: Catalogued, kind: str, structure: str) -> float:
    """The largest order a method claims for a noise structure; 0 where it claims none or refuses."""
    if method.structures and not any(structure == s or s in IMPLIED[structure] for s in method.structures):
        return 0.0
    fits = [c for c in method.claims if c.kind == kind and c.order is not None]
    reached = [c for c in fits if not c.when or structure in c.when or IMPLIED[structure] & set(c.when)]
    return max((float(c.order) for c in reached if c.order is not None), default=0.0)


IMPLIED = {s: {"commutative"} if s in ("additive", "diagonal", "scalar") else set() for s in STRUCTURES}


def which_method() -> str:
    methods = catalogue()
    lines = ["# Which method for which problem", "", "Computed from what every method claims; tests/claims measures"]
    lines += ["each claim. `problem.noise_structure` says which row is yours.", ""]
    for kind, title in WORTH.items():
        lines += [f"## {title}", "", "| noise | best order | methods |", "|---|---|---|"]
        for structure in STRUCTURES:
            orders = {name: order(m, kind, structure) for name, m in methods.items() if m.accepts is SDE}
            best = max(orders.values())
            names = ", ".join(f"`{name}`" for name, value in orders.items() if value == best)
            lines.append(f"| {structure} | {best:g} | {names} |")
        lines.append("")
    lines += ["## All methods", "", "| method | takes | calculus | claims | from |", "|---|---|---|---|---|"]
    for name, m in methods.items():
        claims = "; ".join(in_words(c, m) for c in m.claims)
        lines.append(f"| `{name}` | {m.accepts.__name__} | {m.calculus or 'either'} | {claims} | {m.citation} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    (DOCS / "generated").mkdir(exist_ok=True)
    (DOCS / "generated" / "methods.md").write_text(which_method())
    readme = (
        (DOCS.parent / "README.md")
        .read_text()
        .replace("docs/images/", "images/")
        .replace("docs/design.md", "design.md")
        .replace("docs/reference.md", "reference.md")
        .replace("[Examples](examples) · ", "")
    )
    (DOCS / "index.md").write_text(readme.replace("(CONTRIBUTING.md)", "(design.md)"))


if __name__ == "__main__":
    main()
