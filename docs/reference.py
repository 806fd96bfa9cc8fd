"""The reference: a page for every public name or small family of names, made from the code and its docstrings.

FAMILIES says which names share a page and where pages stand; a public name that it does not mention gets a page of its
own at the end of its section. Every page ends with the gallery entries and pages whose code uses its names.
"""

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import docstrings
from docstrings import cell, summary, table

import stodyn
from stodyn.methods import contract as method_contract
from stodyn.problems import contract as problem_contract
from stodyn.statistics import contract as statistic_contract

WIDTH = 92
# Section -> package of its names, then titles of families -> names; a bare string is a page of one name.
FAMILIES: dict[str, tuple[str, list[Any]]] = {
    "Problems": (
        "stodyn",
        [
            "SDE", "SDAE", "Hamiltonian", "Mechanical", "RandomDAE", "linear",
            ("Noise of large systems", ["diagonal", "sparse", "product"]),
            ("Random starts and parameters", ["PerPath", "from_normals"]),
            "with_noise", "with_measurement",
            ("Loops of sensors and controllers", ["with_loop", "Sensor", "Part", "Jitter", "true"]), "parts",
            ("Noise of readings", ["per_sample", "density"]),
            ("Walls and impacts", ["with_walls", "Walls", "Impact", "Restitution"]),
            ("Nonlinear elements", ["with_elements", "elements"]), "bodies", "base_excited",
        ],
    ),
    "Running": (
        "stodyn",
        [
            "simulate", "estimate", "until", ("Levels and stops", ["Level", "Stop"]),
            ("Rare events", ["rare", "fragility"]), ("Sweeps", ["sweep", "difference"]), "prepare",
            ("One path", ["path", "increments", "draw_increments"]), "replay", "plan", "place", "PathsFailed",
            "warnings",
        ],
    ),
    "Data": ("stodyn", ["Record", ("Filters and smoothers", ["filtered", "smoothed"]), "likelihood",
                         ("Fits", ["fit", "fitted"])]),
    "Choosing": ("stodyn", ["method", "recommend", "compare", "ExactNoise"]),
    "Results and pictures": (
        "stodyn",
        ["interval", "quantile", "provenance", ("Keeping results", ["save", "load", "status"]), "plot"],
    ),
    "Statistics": ("stodyn.statistics", [("Averages of your own", ["Averaged", "summarise"])]),
    "Noise": (
        "stodyn.noise",
        [
            "coloured", ("Inertial sensors", ["gyro", "accelerometer", "imu"]),
            ("Distributions", ["Distribution", "Normal", "Uniform", "LogNormal", "Exponential", "Gamma", "Beta",
                               "Truncated", "Density"]),
        ],
    ),
    "Analysis": ("stodyn.analysis", [("Allan variance", ["allan", "allan_variance"])]),
    "Circuits": (
        "stodyn.circuits",
        [
            ("Netlists", ["read", "examples", "Circuit", "NetlistError"]),
            ("Small signals", ["SmallSignal", "Response", "Spectrum"]),
        ],
    ),
    "Converting problems": (
        "stodyn.problems", [("Ito and Stratonovich", ["to_ito", "to_stratonovich"]), "in_minimal_coordinates"],
    ),
    "Writing methods": (
        "stodyn.methods",
        [
            "newton", ("A table for stiff equations", ["StiffTable", "StiffRungeKutta"]),
            ("Discrete Hamiltonians", ["discrete", "from_discrete"]),
        ],
    ),
}  # fmt: skip
ELSEWHERE = {  # public names that have their pages in another section, or are packages of names that do
    "stodyn": {"analysis", "circuits", "hints", "methods", "models", "noise", "problems", "statistics", "structures"},
    "stodyn.noise": {"PerPath"},
    "stodyn.analysis": {"choosing", "comparing", "plan"},
    "stodyn.methods": {"contract"},
    "stodyn.problems": {"contract", "NoiseNotDelivered", "ResponseNotDelivered"},
    "stodyn.statistics": {"contract"},
}
ALSO = {  # second names -> names with a place in the reference
    "stodyn.structures": "stodyn.analysis.structures",
    "stodyn.problems.NoiseNotDelivered": "stodyn.warnings.NoiseNotDelivered",
    "stodyn.problems.ResponseNotDelivered": "stodyn.warnings.ResponseNotDelivered",
}
# Of these classes, which the engine uses too, a page shows the members that have sections (Parameters, Returns) and
# those listed here: what users read off a value, and what authors of methods and problems call or define.
MEMBERS = {
    "Problem": (
        "noise_structure", "default_names", "components", "component_units", "param_names", "start_source",
        "has_random_start", "param_sources", "has_random_params", "recommended", "without_noise", "changed", "lower",
        "before_run", "check_step", "example_start", "example_params", "noise_rows", "mean_rates", "reach", "jumps",
    ),
    "Around": (),
    "SDE": ("f", "g", "push", "noise_structure"),
    "SDAE": ("mass_matrix", "f", "g", "push", "r", "constraints", "consistent", "noise_structure", "to_sde"),
    "Hamiltonian": ("energy", "velocity", "pull", "push", "split", "f", "g", "noise_structure"),
    "Mechanical": ("N", "coordinates", "mass_matrix", "split", "acceleration", "f", "g", "noise_structure"),
    "RandomDAE": ("parameters", "distributions", "domain_index"),
    "Circuit": ("title", "notes", "nodes", "span", "step", "times", "operating_point", "small_signal", "family"),
    "BoucWen": (),
    "Level": (),
    "Autocorrelation": (),
    "Observable": (),
    "Spectrum": ("input_density",),
    "Averaged": (),
    "Sensor": (),
    "Part": (),
    "Inertial": ("as_kalibr", "as_px4", "as_airsim"),
    "Imu": (),
}  # fmt: skip
RESULTS = {  # public names -> what they return and users ask further questions of, shown on the same page
    "stodyn.analysis.allan": ("stodyn.analysis.system.allan", ["AllanCurve", "AllanFit", "Coefficient"]),
    "stodyn.analysis.sampled": ("stodyn.analysis.system.sampled", ["Sampled"]),
    "stodyn.likelihood": ("stodyn.inference.likelihood", ["Likelihood"]),
    "stodyn.noise.imu": ("stodyn.noise.inertial", ["Inertial", "Imu"]),
}
CONTRACTS = {
    "A method of your own": method_contract,
    "A problem of your own": problem_contract,
    "A statistic of your own": statistic_contract,
}


@dataclasses.dataclass(frozen=True)
class Named:
    """A public name: what it is called in code, and its value."""

    package: str
    name: str

    @property
    def value(self) -> Any:
        return getattr(importlib.import_module(self.package), self.name)

    @property
    def dotted(self) -> str:
        return f"{self.package}.{self.name}"

    @property
    def called(self) -> str:
        """Return the name as users type it."""
        return self.dotted.replace("stodyn.", "sd.", 1)


@dataclasses.dataclass(frozen=True)
class Page:
    """A page of the reference: its section, its address, its title and the names on it."""

    section: str
    address: str
    title: str
    names: tuple[Named, ...]


def _slug(text: str) -> str:
    return text.lower().replace(" ", "_")


@functools.cache
def pages() -> tuple[Page, ...]:
    """Return all pages of public names."""
    made, taken = [], {package: set(names) for package, names in ELSEWHERE.items()}
    for package, members in FAMILIES.values():
        for member in members:
            taken.setdefault(package, set()).update([member] if isinstance(member, str) else member[1])
    left = {package: [] for package, _ in FAMILIES.values()}
    for package in left:
        public = importlib.import_module(package).__all__
        left[package] = [name for name in public if name not in taken.get(package, set())]
    for section, (package, members) in FAMILIES.items():
        for member in [*members, *left.pop(package, [])]:
            title, names = (member, [member]) if isinstance(member, str) else member
            folder = "" if package == "stodyn" else f"{package.removeprefix('stodyn.')}_"
            heading = f"`{Named(package, title).called}`" if isinstance(member, str) else title
            address = f"reference/{folder}{_slug(title)}.md"
            made.append(Page(section, address, heading, tuple(Named(package, name) for name in names)))
    return tuple(made)


def public_functions(module: ModuleType) -> list[str]:
    """Return the public functions, classes and modules of a module: those it lists, or else those it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def names_inside(value: Any) -> Iterator[str]:
    """Yield the public names inside a module, and inside the modules among them, dotted."""
    for name in public_functions(value) if inspect.ismodule(value) else ():
        yield name
        yield from (f"{name}.{inner}" for inner in names_inside(getattr(value, name)))


@functools.cache
def addresses() -> dict[str, str]:
    """Return dotted name -> page and anchor, for every public name, and every public name of a public module."""
    found = {}
    for page in pages():
        for named in page.names:
            alone = len(page.names) == 1
            found[named.dotted] = page.address if alone else f"{page.address}#{named.name}"
            for inner in names_inside(named.value):
                found[f"{named.dotted}.{inner}"] = f"{page.address}#{inner.rpartition('.')[2]}"
    return found | {name: found[home] for name, home in ALSO.items()}


@functools.cache
def by_value() -> dict[int, str]:
    """Return the identity of every documented value -> its first dotted name."""
    found: dict[int, str] = {}
    for dotted in addresses():
        found.setdefault(id(resolved(dotted)), dotted)
    return found


def resolved(dotted: str) -> Any:
    """Return the value of a dotted name of stodyn; None where there is none."""
    value: Any = stodyn
    for part in dotted.split(".")[1:]:
        value = getattr(value, part, None)
        if value is None:
            try:
                value = importlib.import_module(dotted)
            except ImportError:
                return None
    return value


def _default(value: Any) -> str:
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__name__
    text = repr(value)
    return "..." if text.startswith("<") else text


def signature(value: Callable, called: str) -> tuple[str, dict[str, str]]:
    """Return a call as text, broken where it is long, and the defaults of its parameters."""
    parameters = list(inspect.signature(value).parameters.values())
    defaults = {p.name: _default(p.default) for p in parameters if p.default is not p.empty}
    words, starred = [], False
    for p in parameters:
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        words.append(f"{star}{p.name}" + (f"={defaults[p.name]}" if p.name in defaults else ""))
    lines, line = [], f"{called}("
    for number, word in enumerate(words):
        piece = word + (", " if number < len(words) - 1 else ")")
        if len(line) + len(piece.rstrip()) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * 4
        line += piece
    return "\n".join([*lines, line if words else f"{line})"]), defaults


def _is_plain_tuple(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, tuple) and not hasattr(value, "_fields")


def callable_in_words(value: Any, called: str, level: int) -> str:
    """Return the signature, the docstring and the members of a function or class."""
    if inspect.isclass(value) and (issubclass(value, Exception) or _is_plain_tuple(value)):
        text, defaults = called, {}
    else:
        text, defaults = signature(value, called)
    blocks = [f"```python\n{text}\n```", docstrings.markdown(value, defaults, level)]
    if inspect.isclass(value):
        blocks += members(value, level)
    return "\n\n".join(blocks)


def members(value: type, level: int) -> Iterator[str]:
    """Yield the public methods and properties that a class defines: those with sections in full, others in a table."""
    rows, full = [], []
    for name, member in vars(value).items():
        function = getattr(member, "__func__", member)
        if isinstance(member, property):
            function = member.fget
        elif isinstance(member, functools.cached_property):
            function = member.func
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        has_sections = bool(docstrings.HEAD.search(inspect.getdoc(function) or ""))
        if not has_sections and name not in MEMBERS.get(value.__name__, (name,)):
            continue
        is_method = inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod))
        if is_method and has_sections:
            bound = getattr(value, name) if not inspect.isfunction(member) else member
            text, defaults = signature(bound, f"{value.__name__}.{name}" if bound is not member else f".{name}")
            full.append(f"{'#' * level} {value.__name__}.{name} {{#{value.__name__}.{name}}}\n\n```python\n{text}\n```")
            full.append(docstrings.markdown(function, defaults, min(level + 1, 6)))
        else:
            call = signature(member, name)[0].replace("\n    ", " ") if inspect.isfunction(member) else name
            rows.append([f"`{call}`", cell(summary(function))])
    if rows:
        yield f"{'#' * level} Members"
        yield table(["", "meaning"], rows)
    yield from full


def in_brief(value: Any) -> str:
    """Return the summary of a function, a class or a module; of any other value how it is written."""
    return summary(value) if inspect.ismodule(value) or callable(value) else f"`{value!r}`"


def module_in_words(module: ModuleType, called: str, level: int) -> str:
    """Return a module's docstring, a table of its functions and classes, and each of them."""
    names = public_functions(module)
    blocks = [docstrings.markdown(module, level=level)]
    blocks.append(table(["", "meaning"], [[f"[`{n}`](#{n})", cell(in_brief(getattr(module, n)))] for n in names]))
    for name in names:
        value = getattr(module, name)
        blocks.append(f"{'#' * level} {name} {{#{name}}}")
        blocks.append(value_in_words(value, f"{called}.{name}", level + 1))
    return "\n\n".join(blocks)


def value_in_words(value: Any, called: str, level: int) -> str:
    """Return what the reference says of a value."""
    if inspect.ismodule(value):
        return module_in_words(value, called, level)
    if callable(value):
        return callable_in_words(value, called, level)
    return f"```python\n{called} = {value!r}\n```"


def results_in_words(named: Named) -> Iterator[str]:
    """Yield what a name returns, where users ask further questions of it: docstrings and members."""
    home, names = RESULTS.get(named.dotted, ("stodyn", []))
    for name in names:
        value = getattr(importlib.import_module(home), name)
        yield f"## {name} {{#{name}}}"
        yield docstrings.markdown(value, level=3)
        yield from members(value, 3)


def page_text(page: Page, used: Callable[[str], list[tuple[str, str]]]) -> str:
    """Return the text of a page; `used` gives title and address of what uses a dotted name."""
    blocks = [f"# {page.title}"]
    for named in page.names:
        alone = len(page.names) == 1
        if not alone:
            blocks.append(f"## {named.called} {{#{named.name}}}")
        blocks.append(value_in_words(named.value, named.called, 2 if alone else 3))
        blocks += results_in_words(named)
    found = dict.fromkeys(use for named in page.names for use in used(named.dotted))
    if found:
        blocks.append("## Where it is used")
        blocks.append("\n".join(f"- [{title}]({address})" for title, address in found))
    return "\n\n".join(blocks) + "\n"


def is_public(dotted: str) -> bool:
    """Tell whether every step of a dotted name, from `stodyn` to the first value that is no module, is listed."""
    value: Any = stodyn
    for part in dotted.split(".")[1:]:
        if not inspect.ismodule(value):
            return True
        if part not in dir(value):
            return False
        value = getattr(value, part)
    return True


def contract_address(title: str) -> str:
    return f"reference/{_slug(title)}.md"


def contract_page(title: str, module: ModuleType) -> str:
    """Return the page of what authors of methods, problems or statistics build on."""
    return f"# {title}\n\n`{module.__name__}`\n\n{module_in_words(module, module.__name__, 2)}\n"


PUBLIC = """# Every public name

The names on this page are public; [what is public](public.md) says what that means, and what happens when one of them
changes. `import stodyn as sd` is assumed throughout.
"""


def index_page() -> str:
    """Return the list of every public name with its summary and a link to its page."""
    lines = [PUBLIC]
    for section in dict.fromkeys(page.section for page in pages()):
        rows = []
        for page in pages():
            if page.section == section:
                for named in page.names:
                    address = addresses()[named.dotted].removeprefix("reference/")
                    rows.append([f"[`{named.called}`]({address})", cell(summary(named.value))])
        lines += [f"## {section}", "", table(["", "meaning"], rows), ""]
    lines += ["## More", "", "- [All methods](methods.md), from their claims", "- [Models](models.md)"]
    lines += ["- [Models of netlists](netlist_models.md): the parameters of `.model` lines"]
    lines += ["- [The command line](command_line.md)", "- [Words that mean the same everywhere](words.md)"]
    lines += [f"- [{title}]({_slug(title)}.md)" for title in CONTRACTS]
    return "\n".join(lines) + "\n"
