"""stodyn methods: what is in the catalogue."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Catalogued, Claim, Expansion, Solver


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the catalogue as JSON instead of a table.")] = False,
) -> None:
    """List every method: what it takes, in which calculus, what it promises and what it is."""
    methods = catalogue()
    if as_json:
        typer.echo(json.dumps([described(*item) for item in methods.items()], indent=2, allow_nan=False))
        return
    table = Table(
        "method", "takes, in which calculus; claims; what it is", box=None, header_style="bold", padding=(0, 2, 0, 0)
    )
    table.columns[0].no_wrap = True
    for name, method in methods.items():
        claims = "; ".join(in_words(claim, method) for claim in method.claims)
        takes = f"{method.accepts.__name__}, {method.calculus or 'either'}"
        table.add_row(name, Text("\n".join(line for line in (takes, claims, method.summary) if line)))
    Console().print(table)


def in_words(claim: Claim, method: Catalogued) -> str:
    """A claim in a few words, with the noise it holds for: strong 1.5 (additive)."""
    order = "" if claim.order is None else f" {float(claim.order):g}"
    noise = claim.when or (() if claim.kind == "deterministic" else method.structures)
    when = f" ({', '.join(noise)})" if noise else ""
    return f"{claim.kind}{order}{when}"


def described(name: str, method: Catalogued) -> dict[str, Any]:
    return {
        "name": name,
        "summary": method.summary,
        "kind": "solver" if isinstance(method, Solver) else "expansion" if isinstance(method, Expansion) else "step",
        "takes": method.accepts.__name__,
        "calculus": method.calculus,
        "structures": list(method.structures),
        "claims": [
            {
                "kind": claim.kind,
                "order": None if claim.order is None else float(claim.order),
                "when": list(claim.when),
                "source": claim.source,
            }
            for claim in method.claims
        ],
        "citation": method.citation,
    }
