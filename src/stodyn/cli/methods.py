"""stodyn methods: what is in the catalogue, one line for each method."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Catalogued, Claim, Expansion, Solver
from stodyn.problems.contract import STRUCTURES, NoiseStructure

ORDERS = ("strong", "weak")


def command(
    problem: Annotated[
        str, typer.Option("--for", metavar="KIND", help="Methods for one kind of problem: SDE, SDAE, Hamiltonian, ...")
    ] = "",
    noise: Annotated[
        str, typer.Option(metavar="STRUCTURE", help=f"Methods that take such noise: {', '.join(STRUCTURES)}.")
    ] = "",
    order: Annotated[
        float, typer.Option(metavar="P", help="Methods of at least this strong or weak order for that noise.", min=0.0)
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the catalogue as JSON instead of a table.")] = False,
) -> None:
    """List the methods by the kind of problem they take: the orders they promise, and what they are."""
    methods = chosen(catalogue(), problem, noise, order)
    if as_json:
        typer.echo(json.dumps([described(*item) for item in methods.items()], indent=2, allow_nan=False))
        return
    if not methods:
        typer.echo("No method is like that. Ask for less: leave out --order, --noise or --for.")
    width = max(map(len, methods), default=0)
    for kind in dict.fromkeys(method.accepts.__name__ for method in methods.values()):
        typer.echo(f"{kind}\n{'':{width + 2}}strong weak")
        for name, method in methods.items():
            if method.accepts.__name__ == kind:
                typer.echo(f"{name:{width}}  {orders(method, noise)}  {method.summary}")
        typer.echo("")
    if methods:
        typer.echo("Orders are the highest a method promises for some noise; --json tells for which.")


def chosen(methods: Mapping[str, Catalogued], problem: str, noise: str, order: float) -> dict[str, Catalogued]:
    """The methods for a kind of problem and noise, of an order; names that are not known are refused."""
    kinds = {method.accepts.__name__.lower(): method.accepts.__name__ for method in methods.values()}
    if problem and problem.lower() not in kinds:
        raise typer.BadParameter(f"--for: there is no {problem!r}; the kinds are {', '.join(kinds.values())}")
    if noise and noise not in STRUCTURES:
        raise typer.BadParameter(f"--noise: there is no {noise!r}; the structures are {', '.join(STRUCTURES)}")
    return {
        name: method
        for name, method in methods.items()
        if (not problem or method.accepts.__name__ == kinds[problem.lower()])
        and (not noise or takes(method, noise))
        and (not order or max(promised(method, kind, noise) for kind in ORDERS) >= order)
    }


def structure(noise: str) -> NoiseStructure:
    """A noise of which no more is known than its name says."""
    return NoiseStructure(() if noise == "general" else (noise, "commutative"), "asked")


def takes(method: Catalogued, noise: str) -> bool:
    return not method.structures or any(map(structure(noise).implies, method.structures))


def promised(method: Catalogued, kind: str, noise: str) -> float:
    """The order of a kind that a method promises for a noise; the highest for any where none is asked for."""
    asked = (noise,) if noise else STRUCTURES
    return max((method.promised(kind, structure(each)) for each in asked if takes(method, each)), default=0.0)


def orders(method: Catalogued, noise: str) -> str:
    found = (promised(method, kind, noise) for kind in ORDERS)
    return " ".join(f"{order or '-':>{len(kind)}}" for kind, order in zip(ORDERS, found, strict=True))


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
