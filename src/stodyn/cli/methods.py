"""stodyn methods: the catalogue, one line for each method."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from stodyn.cli._output import AsJson, print_json
from stodyn.methods.catalogue import catalogue, with_base
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
    as_json: AsJson = False,
) -> None:
    """List the methods by the kind of problem they take, with the orders they promise and a description of each."""
    composed = {name: kind() for name, kind in with_base().items()}
    methods = chosen(catalogue() | composed, problem, noise, order)
    if as_json:
        print_json([described(*item) for item in methods.items()])
        return
    if not methods:
        typer.echo("No method fits. Ask for less: leave out --order, --noise or --for.")
    width = max(map(len, methods))
    for kind in dict.fromkeys(method.accepts.__name__ for method in methods.values()):
        typer.echo(f"{kind}\n{'':{width + 2}}strong weak")
        for name, method in methods.items():
            if method.accepts.__name__ == kind:
                typer.echo(f"{name:{width}}  {orders(method, noise)}  {method.summary}")
        typer.echo("")
    typer.echo("Each order is the highest that a method promises for some kind of noise; --json says for which.")
    for name, method in composed.items():
        if name in methods:
            typer.echo(f"The name {name} stands for {method.name}; with Heun in its place it is {name}(Heun).")


def chosen(methods: Mapping[str, Catalogued], problem: str, noise: str, order: float) -> dict[str, Catalogued]:
    """Return the methods for a kind of problem, a structure of noise and an order; refuse unknown names."""
    kinds = {method.accepts.__name__.lower(): method.accepts.__name__ for method in methods.values()}
    if problem and problem.lower() not in kinds:
        raise typer.BadParameter(f"--for: unknown kind {problem!r}; the kinds are {', '.join(kinds.values())}")
    if noise and noise not in STRUCTURES:
        raise typer.BadParameter(f"--noise: unknown structure {noise!r}; the structures are {', '.join(STRUCTURES)}")
    return {
        name: method
        for name, method in methods.items()
        if (not problem or method.accepts.__name__ == kinds[problem.lower()])
        and (not noise or takes(method, noise))
        and (not order or max(promised(method, kind, noise) for kind in ORDERS) >= order)
    }


def structure(noise: str) -> NoiseStructure:
    """Return a structure about which only its name is known."""
    return NoiseStructure(() if noise == "general" else (noise, "commutative"), "asked")


def takes(method: Catalogued, noise: str) -> bool:
    return not method.structures or any(map(structure(noise).implies, method.structures))


def promised(method: Catalogued, kind: str, noise: str) -> float:
    """Return the order that a method promises for a structure of noise, or the highest for any if none is given."""
    structures = (noise,) if noise else STRUCTURES
    return max((method.promised(kind, structure(each)) for each in structures if takes(method, each)), default=0.0)


def orders(method: Catalogued, noise: str) -> str:
    promises = (promised(method, kind, noise) for kind in ORDERS)
    return " ".join(f"{order or '-':>{len(kind)}}" for kind, order in zip(ORDERS, promises, strict=True))


def in_words(claim: Claim, method: Catalogued) -> str:
    """Describe a claim in a few words, with the noise it holds for: strong 1.5 (additive)."""
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
