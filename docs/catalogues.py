"""Pages that are read off catalogues: methods from their claims, models, commands, and which method to take."""

import dataclasses
import importlib
import inspect
import math
import re
from typing import Any

import docstrings
import jax.numpy as jnp
import numpy as np
from docstrings import cell, summary, table
from reference import addresses, signature
from typer.main import get_command

import stodyn as sd
from stodyn import statistics
from stodyn.circuits.kinds import TYPES as netlist_elements
from stodyn.cli import EXIT_CODES, application
from stodyn.cli.methods import in_words
from stodyn.methods.catalogue import catalogue, with_base
from stodyn.methods.contract import Catalogued
from stodyn.models.catalogue import catalogue as models
from stodyn.noise.distribution import Uniform
from stodyn.problems.contract import STRUCTURES, NoiseStructure

TITLES = {"srk": "Stochastic Runge-Kutta", "rattle": "RATTLE", "rattle_alpha": "RATTLE and α"}  # of families
WORTH = {"strong": "paths themselves (strong order)", "weak": "statistics (weak order)"}


def order(method: Catalogued, kind: str, structure: str) -> float:
    """Return the highest order a method claims for a noise structure; 0 where it claims none or refuses."""
    noise = NoiseStructure(() if structure == "general" else (structure, "commutative"), "stated")
    refused = method.structures and not any(map(noise.implies, method.structures))
    return 0.0 if refused else method.promised(kind, noise)


def family(method: Catalogued) -> str:
    """Return the module in which methods like this one are defined."""
    return type(method).__module__


def families() -> dict[str, list[str]]:
    """Return module -> names of its methods."""
    found: dict[str, list[str]] = {}
    for name, method in catalogue().items():
        found.setdefault(family(method), []).append(name)
    return dict(sorted(found.items()))


def family_address(module: str) -> str:
    return f"reference/methods_{module.rpartition('.')[2]}.md"


def method_address(name: str) -> str:
    """Return the page and anchor of a method."""
    return f"{family_address(family(catalogue()[name]))}#{name}"


def linked(name: str) -> str:
    return f"[`{name}`]({method_address(name).removeprefix('reference/')})"


def claims_in_words(method: Catalogued) -> str:
    return "; ".join(in_words(claim, method) for claim in method.claims)


def methods_page() -> str:
    """Tabulate which methods have the highest orders for which problem and noise, and all methods."""
    methods = catalogue()
    lines = ["# All methods", "", "This page is computed from the claims of all methods; the tests measure each claim."]
    lines += [
        "`problem.noise_structure` says which row is yours, and",
        "`sd.recommend(problem)` ranks the methods for it.",
    ]
    for accepted in dict.fromkeys(m.accepts for m in methods.values()):
        own = {name: method for name, method in methods.items() if method.accepts is accepted}
        for kind, title in WORTH.items():
            if not any(claim.kind == kind for method in own.values() for claim in method.claims):
                continue
            rows = []
            for structure in STRUCTURES:
                orders = {name: order(method, kind, structure) for name, method in own.items()}
                best = max(orders.values())
                names = ", ".join(linked(name) for name, value in orders.items() if value == best > 0) or "none"
                rows.append([structure, f"{best:g}", names])
            lines += ["", f"## {accepted.__name__}: {title}", "", table(["noise", "best order", "methods"], rows)]
    heads = ["method", "takes", "calculus", "description", "claims"]
    rows = [
        [linked(name), m.accepts.__name__, m.calculus or "either", cell(m.summary), cell(claims_in_words(m))]
        for name, m in methods.items()
    ]
    for name, kind in with_base().items():
        address = addresses()[f"stodyn.{name}"].removeprefix("reference/")
        m = kind()
        claims = f"exact noise at any step; otherwise as `{m.base}`"
        rows.append([f"[`{m.name}`]({address})", "SDE with coloured noise", "either", cell(m.summary), claims])
    return "\n".join([*lines, "", "## The list", "", table(heads, rows)]) + "\n"


def statistics_page() -> str:
    """Tabulate all statistics with the variables that each one adds to a result, from their docstrings."""
    rows = []
    for name in statistics.__all__:
        text = inspect.getdoc(getattr(statistics, name)) or ""
        paragraph = re.search(r"^Variables?\b.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
        if paragraph:
            address = addresses()[f"stodyn.statistics.{name}"].removeprefix("reference/")
            words = " ".join(paragraph[0].split()).removeprefix("Variables").removeprefix("Variable").lstrip(":, ")
            rows.append([f"[`{name}`]({address})", cell(summary(getattr(statistics, name))), cell(words)])
    heads = ["statistic", "what it computes", "variables of the result, and their dimensions"]
    lines = [
        "# All statistics",
        "",
        "`collect=` of a run takes one of these or a list; without it a run collects `Moments`.",
    ]
    lines += [
        "`print(run)` lists the variables that a run has. `sd.interval` gives confidence limits of those with errors."
    ]
    return "\n".join([*lines, "", table(heads, rows)]) + "\n"


def family_title(module: str) -> str:
    name = module.rpartition(".")[2]
    return TITLES.get(name, name.replace("_", " ").capitalize())


def family_page(module: str, names: list[str], used: Any) -> str:
    """Return the page of the methods of one module, classes with several methods once."""
    methods = {name: catalogue()[name] for name in names}
    blocks = [f"# Methods: {family_title(module)}", docstrings.markdown(importlib.import_module(module))]
    for kind in dict.fromkeys(map(type, methods.values())):
        own = {name: method for name, method in methods.items() if type(method) is kind}
        several = len(own) > 1
        if several:
            blocks += [f"## {kind.__name__.lstrip('_')} {{#{kind.__name__}}}"]
        else:
            blocks += [f"## {next(iter(own))} {{#{next(iter(own))}}}"]
        blocks.append(docstrings.markdown(kind, _options(next(iter(own.values()))), 3))
        for name, method in own.items():
            if several:
                blocks += [f"### {name} {{#{name}}}", cell(method.summary) + "."]
            blocks.append(_facts(name, method, used))
    return "\n\n".join(blocks) + "\n"


def _options(method: Catalogued) -> dict[str, str]:
    fields = dataclasses.fields(method) if dataclasses.is_dataclass(method) else ()
    values = {field.name: getattr(method, field.name) for field in fields if field.repr}
    return {
        name: repr(value) for name, value in values.items() if isinstance(value, (int, float, str, bool, type(None)))
    }


def _facts(name: str, method: Catalogued, used: Any) -> str:
    rows = [["takes", f"`sd.{method.accepts.__name__}`, {method.calculus or 'Ito or Stratonovich'}"]]
    rows.append(["claims", cell(claims_in_words(method))])
    sources = dict.fromkeys(claim.source for claim in method.claims if claim.source)
    rows.append(["proved in", cell("; ".join(sources))])
    rows.append(["from", cell(method.citation)])
    rows.append(["used in", "; ".join(f"[{title}]({address})" for title, address in used(name))])
    return table([f"`{name}`", ""], [row for row in rows if row[1]])


def models_page() -> str:
    """Return the ready-made systems with their parameters and the exact answers that are known."""
    lines = [
        "# Models",
        "",
        "These systems are ready-made. Call the function with the name of a model, or use the value in",
    ]
    lines += ['capitals, which also has exact answers: `OU.exact["mean"](t)`. `stodyn models` lists the models.', ""]
    rows = [[f"[`{name}`](#{name})", cell(model.summary)] for name, model in models().items()]
    lines += [table(["", "equations"], rows), ""]
    for name, model in models().items():
        build = model.build
        text, defaults = signature(build, build.__name__)
        value = next(
            key for key, found in vars(importlib.import_module(build.__module__)).items() if found is model
        )  # the name of the value in its module
        lines += [
            f"## {name} {{#{name}}}",
            "",
            f"```python\nfrom {build.__module__} import {build.__name__}, {value}\n\n{text}\n```",
        ]
        lines += ["", docstrings.markdown(build, defaults, 3), ""]
        if model.answers:
            lines += [f"Known exactly: {', '.join(f'`{answer}`' for answer in model.answers)}.", ""]
    return "\n".join(lines)


def netlist_models_page() -> str:
    """Return the parameters of every type of .model that netlists may contain."""
    lines = [
        "# Models of netlists",
        "",
        'The parameters of `.model` lines. A parameter under "refused" would change the',
    ]
    lines += [
        "answer but is not implemented: it may only have the value at which it has no effect. Parameters that are not"
    ]
    lines += ["listed are skipped with a warning.", ""]
    for letter, kind in netlist_elements.items():
        types: dict[int, list[str]] = {}
        for name, model in kind.models.items():
            types.setdefault(id(model), []).append(name)
        for names in types.values():
            model = kind.models[names[0]]
            title = " and ".join(f"`{name.upper()}`" for name in names)
            also = {name: [old.upper() for old, new in model.same.items() if new == name] for name in model.parameters}
            rows = [
                [f"`{name.upper()}`", ", ".join(f"`{word}`" for word in also[name]), _default_of(parameter.default),
                 parameter.unit]
                for name, parameter in model.parameters.items()
            ]  # fmt: skip
            lines += [f"## {title}, of element {letter.upper()}", "", table(["", "also", "default", "unit"], rows), ""]
            if model.lists:
                words = ", ".join(f"`{name.upper()}`" for name in model.lists)
                lines += [f"Several numbers in brackets: {words}.", ""]
            if model.refused:
                words = ", ".join(f"`{name.upper()}` ({value:g})" for name, value in model.refused.items())
                lines += [f"Refused, but for the value in brackets: {words}.", ""]
    return "\n".join(lines)


def _default_of(value: float) -> str:
    return "" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:g}"


COMMAND_LINE = f"""# The command line

`stodyn --help` lists the commands, `stodyn COMMAND --help` their options. In every command

- `--json` prints only the result, as JSON, on standard output; progress and messages go to standard
  error. Numbers that are not finite are `null`.
- rows are at most 100 columns wide.
- {EXIT_CODES[0].lower()}{EXIT_CODES[1:]}
"""


def command_line_page() -> str:
    """Return every command with its arguments and options."""
    lines = [COMMAND_LINE]
    commands = get_command(application()).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        rows = []
        for option in command.params:
            if option.name == "help":
                continue
            given = option.param_type_name == "argument"
            value = option.metavar or option.name.upper()
            flags = value if given else ", ".join(option.opts) + ("" if option.is_flag else f" {value}")
            default = "" if given or option.is_flag or option.default in (None, "", 0.0) else f"`{option.default}`"
            rows.append([f"`{flags}`", default, cell(option.help or "")])
        words = inspect.cleandoc(command.help or "").replace("\b\n", "")  # \b keeps the lines of a paragraph apart
        lines += [f"## stodyn {name} {{#{name}}}", "", docstrings.prose(words), ""]
        lines += [table(["", "default", "meaning"], rows), ""] if rows else []
    return "\n".join(lines)


def examples() -> dict[str, Any]:
    """Return words for a kind of problem -> an example of it."""

    def spiral(t, x):
        return jnp.array([[0.0, -x[1]], [x[0], 0.0]])

    return {
        "`sd.SDE`, nonlinear, noise that does not depend on the state": sd.SDE(
            lambda t, x: x - x**3, lambda t, x: 0.5, 1.0
        ),
        "`sd.SDE`, linear, noise that does not depend on the state": sd.SDE(lambda t, x: -x, lambda t, x: 0.5, 1.0),
        "`sd.SDE`, Ito, each component with its own noise": sd.SDE(
            lambda t, x: -(x**3), lambda t, x: jnp.diag(0.3 * x), [1.0, 2.0]
        ),
        "`sd.SDE`, Stratonovich, one channel": sd.SDE(
            lambda t, x: jnp.array([x[1], -jnp.sin(x[0])]),
            lambda t, x: jnp.array([[0.0], [0.2 * x[0] ** 2]]),
            [1.0, 0.0],
            calculus="stratonovich",
        ),
        "`sd.SDE`, Ito, channels that do not commute": sd.SDE(lambda t, x: -(x**3), spiral, [1.0, 2.0]),
        "`sd.circuits.read`, a netlist": sd.circuits.read("low pass\nv1 in 0 1\nr1 in out 1k\nc1 out 0 1n\n.end"),
        "`sd.SDAE`, other equations with constraints, additive noise": sd.SDAE(
            np.diag([1.0, 0.0]), lambda t, x: jnp.array([x[1] - x[0], x[0] + x[1] ** 3]),
            lambda t, x: jnp.array([[0.1], [0.0]]), [0.0, 0.0]
        ),
        "`sd.SDAE`, noise that depends on the state, one channel": sd.SDAE(
            np.diag([1.0, 0.0]), lambda t, x: jnp.array([x[1] - x[0], x[0] + x[1]]),
            lambda t, x: jnp.array([[0.1 * x[0]], [0.0]]), [1.0, -1.0]
        ),
        "`sd.Mechanical`, structures and mechanisms, given forces and additive noise": sd.Mechanical(
            lambda t, x, v: -x - x**3 - 0.1 * v, lambda t, x, v: jnp.array([[0.2]]), ([0.0], [0.0])
        ),
        "`sd.Mechanical`, noise that depends on the velocity": sd.Mechanical(
            lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 0.2 * v[:, None], ([1.0], [0.0])
        ),
        "`sd.Mechanical` with joints": sd.Mechanical(
            lambda t, x, v: jnp.array([0.0, -9.81]) - 0.1 * v, lambda t, x, v: 0.1 * jnp.eye(2),
            ([1.0, 0.0], [0.0, 0.0]), constraints=lambda t, x: x @ x - 1.0,
        ),
        "`sd.Hamiltonian`, Langevin's equation": sd.Hamiltonian(
            lambda t, q, p: p**2 / 2 + (q**2 - 1) ** 2 / 4, h=lambda t, q, p: -0.3 * q,
            force=lambda t, q, p: -0.1 * p, start=(1.0, 0.0),
        ),
        "`sd.Hamiltonian`, noise in the Hamiltonian": sd.Hamiltonian(
            lambda t, q, p: (p**2 + q**2) / 2, h=lambda t, q, p: 0.1 * (p**2 + q**2) / 2, start=(1.0, 0.0)
        ),
        "`sd.RandomDAE`, random parameters, no noise": sd.RandomDAE(
            lambda p: [[p["R"]]], matrix=[[-1.0]], source=[1.0], start=[0.0], params={"R": Uniform(0.9, 1.1)}
        ),
    }  # fmt: skip


def recommendations() -> str:
    """Return what `sd.recommend` says of an example of every kind of problem, as tables."""
    blocks = []
    for words, problem in examples().items():
        rows = []
        for choice in sd.recommend(problem):
            when, _, why = choice.reason.partition(": ")
            rows.append([f"`{choice.method.name}`", when, cell(why)])
        blocks.append(f"### {words}\n\n{table(['method', 'use it', 'because'], rows)}")
    return "\n\n".join(blocks)
