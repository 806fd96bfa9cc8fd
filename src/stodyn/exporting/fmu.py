"""A stepping model as a Functional Mock-up Unit for co-simulation, FMI 2.0 or 3.0: description, sources, library.

The integrator is a part of what is right, so that there is no model exchange. The sources are always inside; the
library is compiled where there is a compiler.
"""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Sequence
from pathlib import Path

from stodyn.engine.record.identity import versions
from stodyn.exporting import c_file, fmi_code
from stodyn.exporting.libraries import check_platforms, libraries
from stodyn.exporting.stepping import Stepping
from stodyn.telling import tell

VERSIONS = ("2.0", "3.0")
LARGEST_INTEGER = 2**31  # of FMI 2.0
SECOND = "s"  # the unit of time of FMI, where a model has none of its own
TIME = {"name": "time", "valueReference": "0", "causality": "independent", "variability": "continuous"}
WHOLE = {
    "seed": "The seed of all noise, as in stodyn.simulate",
    "path": "The number of the path; two instances with the same seed and path are the same path",
}
WORD, PLACE = r"[A-Za-z_]\w*", r"(\[\d+(, ?\d+)*\])?"
STRUCTURED = re.compile(rf"{WORD}{PLACE}(\.{WORD}{PLACE})*", re.ASCII)  # names such as gyro.truth[0]


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of the unit: its number, its role, the place of its value, and its unit."""

    name: str
    number: int
    causality: str  # "parameter", "input" or "output"
    place: int
    start: float | int | None = None
    unit: str = ""
    is_whole: bool = False


def write(
    model: Stepping, name: str, inputs: Sequence[str], file: Path, seed: int, fmi: str, platforms: Sequence[str]
) -> Path:
    """Write a model as an FMU, the file of a functional mock-up unit."""
    if fmi not in VERSIONS:
        raise ValueError(f'fmi: expected "2.0" or "3.0", got {fmi!r}')
    check_platforms(platforms, fmi)
    if model.noise is not None and model.noise.is_fresh:
        raise ValueError(
            f"to: a unit for co-simulation holds its outputs over a step, but this is {model.noise.text}; give "
            'noise.white(Q, host="held"), or export C or NumPy, which the host calls in every evaluation'
        )
    if fmi == "2.0" and seed >= LARGEST_INTEGER:
        raise ValueError(f'seed: integers of FMI 2.0 are below 2^31, got {seed}; give a smaller one, or fmi="3.0"')
    if model.unit_of("time") not in ("", SECOND):
        _warn_of_time(model.unit_of("time"))
    listed = variables(model, inputs, seed)
    digest = c_file.digest(model, inputs)
    sources = {
        "model.h": c_file.header(model, name, inputs),
        "model.c": c_file.source(model, name, inputs, "model.h"),
        "fmi.c": fmi_code.text(model, name, inputs, listed, digest, fmi),
    }
    compiled = libraries(sources, name, fmi, platforms)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as unit:
        unit.writestr("modelDescription.xml", description(model, name, listed, digest, fmi))
        for word, text in sources.items():
            unit.writestr(f"sources/{word}", text)
        if fmi == "3.0":
            unit.writestr("sources/buildDescription.xml", _build_description(name))
        for place, library in compiled.items():
            unit.writestr(place, library)
    return file


def _warn_of_time(unit: str) -> None:
    tell(
        f"units: the time of the problem is in {unit!r}, which the unit declares, but most hosts count seconds: for "
        f"them, 1 s is one {unit}. Write the problem with time in s"
    )


def variables(model: Stepping, inputs: Sequence[str], seed: int) -> list[Variable]:
    """The variables; number 0 is the time."""
    unit: list[Variable] = []

    def add(name: str, causality: str, place: int, **more) -> None:
        unit.append(Variable(name, len(unit) + 1, causality, place, unit=model.unit_of(name), **more))

    for p in model.parameters:
        if p.name in model.outputs and p.name.partition("[")[0] not in model.set_inside:
            raise ValueError(
                f"params: {p.name!r} is the name of an output too, and the variables of a unit have names of their "
                "own; give the parameter or the component another name"
            )
        if p.name not in inputs and p.name not in model.outputs:  # a loop sets what it also shows
            add(p.name, "parameter", p.place, start=p.value)
    values = {p.name: p for p in model.parameters}
    for j, name in enumerate(inputs):
        add(name, "input", j, start=values[name].value)
    for j, name in enumerate(model.outputs):
        add(name, "output", j)
    add("seed", "parameter", 0, start=seed, is_whole=True)
    add("path", "parameter", 1, start=0, is_whole=True)
    return unit


# --- modelDescription.xml ---------------------------------------------------------------------------------------------


def description(model: Stepping, name: str, listed: Sequence[Variable], digest: str, fmi: str) -> str:
    """The text of modelDescription.xml."""
    is_two = fmi == "2.0"
    token = "guid" if is_two else "instantiationToken"
    root = ET.Element("fmiModelDescription", {
        "fmiVersion": fmi, "modelName": name, token: f"{{{digest}}}",
        "generationTool": f"stodyn {versions()['stodyn']}", "variableNamingConvention": _convention(listed),
        "description": f"{model.title} {model.unit_of('time') or SECOND}",
    })  # fmt: skip
    abilities = {
        "modelIdentifier": name, "canHandleVariableCommunicationStepSize": "true", "canSerializeFMUState": "true",
        "canGetAndSetFMUState": "true",
    }  # fmt: skip
    if is_two:
        abilities = {key.replace("FMUState", "FMUstate"): value for key, value in abilities.items()}
        coupling = ET.SubElement(root, "CoSimulation", abilities)
        files = ET.SubElement(coupling, "SourceFiles")
        for word in ("model.c", "fmi.c"):
            ET.SubElement(files, "File", name=word)
    else:
        ET.SubElement(root, "CoSimulation", {**abilities, "fixedInternalStepSize": repr(model.dt)})
    units = sorted({v.unit for v in listed if v.unit} | ({model.unit_of("time")} - {""}))
    if units:
        definitions = ET.SubElement(root, "UnitDefinitions")
        for unit in units:
            ET.SubElement(definitions, "Unit", name=unit)
    ET.SubElement(root, "DefaultExperiment", startTime=repr(model.begins_at), stepSize=repr(model.dt))
    (_two if is_two else _three)(root, model, listed)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _convention(listed: Sequence[Variable]) -> str:
    """How the names are spelled: those of other letters, with blanks or signs, are taken as they are."""
    return "structured" if all(STRUCTURED.fullmatch(v.name) for v in listed) else "flat"


def _unit_of_time(model: Stepping) -> dict[str, str]:
    unit = model.unit_of("time")
    return {"unit": unit} if unit else {}


def _named(v: Variable) -> dict[str, str]:
    """What both versions say of a variable."""
    named = {"name": v.name, "valueReference": str(v.number), "causality": v.causality}
    if v.is_whole:
        named["description"] = WHOLE[v.name]
    if v.causality == "parameter":
        named |= {"variability": "fixed", "initial": "exact"}
    elif v.causality == "output":
        named |= {"initial": "calculated"}
    return named


def _value(v: Variable) -> dict[str, str]:
    return ({} if v.start is None else {"start": repr(v.start)}) | ({"unit": v.unit} if v.unit else {})


def _two(root: ET.Element, model: Stepping, listed: Sequence[Variable]) -> None:
    """Variables and structure in the words of FMI 2.0, where a variable is known by its place in the list."""
    all_variables = ET.SubElement(root, "ModelVariables")
    for v in listed:
        variable = ET.SubElement(all_variables, "ScalarVariable", _named(v))
        ET.SubElement(variable, "Integer" if v.is_whole else "Real", _value(v))
    if unit := _unit_of_time(model):
        ET.SubElement(ET.SubElement(all_variables, "ScalarVariable", TIME), "Real", unit)
    outputs = [(place, v) for place, v in enumerate(listed, 1) if v.causality == "output"]
    places = {v.number: place for place, v in enumerate(listed, 1)}
    structure = ET.SubElement(root, "ModelStructure")
    first, unknown = ET.SubElement(structure, "Outputs"), ET.SubElement(structure, "InitialUnknowns")
    for place, v in outputs:
        direct = " ".join(str(places[number]) for number in _direct(model, listed, v))
        ET.SubElement(first, "Unknown", index=str(place), dependencies=direct)
        ET.SubElement(unknown, "Unknown", index=str(place))


def _three(root: ET.Element, model: Stepping, listed: Sequence[Variable]) -> None:
    """Variables and structure in the words of FMI 3.0."""
    all_variables = ET.SubElement(root, "ModelVariables")
    ET.SubElement(all_variables, "Float64", TIME | _unit_of_time(model))
    for v in listed:
        ET.SubElement(all_variables, "UInt64" if v.is_whole else "Float64", _named(v) | _value(v))
    structure = ET.SubElement(root, "ModelStructure")
    outputs = [v for v in listed if v.causality == "output"]
    for v in outputs:
        direct = " ".join(map(str, _direct(model, listed, v)))
        ET.SubElement(structure, "Output", valueReference=str(v.number), dependencies=direct)
    for v in outputs:
        ET.SubElement(structure, "InitialUnknown", valueReference=str(v.number))


def _direct(model: Stepping, listed: Sequence[Variable], output: Variable) -> list[int]:
    """The inputs that an output reads itself, without a step between them."""
    places = {p.name: p.place for p in model.parameters}
    read = model.reads_of_output(output.place)
    return [v.number for v in listed if v.causality == "input" and ("common_params", places[v.name]) in read]


def _build_description(name: str) -> str:
    root = ET.Element("fmiBuildDescription", fmiVersion="3.0")
    configuration = ET.SubElement(root, "BuildConfiguration", modelIdentifier=name)
    files = ET.SubElement(configuration, "SourceFileSet", language="C99", compilerOptions="-ffp-contract=off")
    for word in ("model.c", "fmi.c"):
        ET.SubElement(files, "SourceFile", name=word)
    ET.SubElement(configuration, "Library", name="m", external="true")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
