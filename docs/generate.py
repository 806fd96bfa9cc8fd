"""Write the pages that are computed: the start page from the README, and which method is for which problem."""

from pathlib import Path

from stodyn.cli.methods import in_words
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Catalogued
from stodyn.problems.contract import STRUCTURES, NoiseStructure

DOCS = Path(__file__).parent
WORTH = {"strong": "paths themselves (strong order)", "weak": "statistics (weak order)"}


def order(method: Catalogued, kind: str, structure: str) -> float:
    """The highest order a method claims for a noise structure; 0 where it claims none or refuses."""
    noise = NoiseStructure(() if structure == "general" else (structure, "commutative"), "stated")
    refused = method.structures and not any(map(noise.implies, method.structures))
    return 0.0 if refused else method.promised(kind, noise)


def which_method() -> str:
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


def main() -> None:
    (DOCS / "generated").mkdir(exist_ok=True)
    (DOCS / "generated" / "methods.md").write_text(which_method())
    readme = (DOCS.parent / "README.md").read_text().replace("](docs/", "](").replace("[Examples](examples) · ", "")
    (DOCS / "index.md").write_text(readme.replace("(CONTRIBUTING.md)", "(design.md)"))


if __name__ == "__main__":
    main()
