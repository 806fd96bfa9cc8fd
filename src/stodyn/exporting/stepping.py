"""A stepping model: one path of a problem with a method and a step, as functions in LLVM text of single numbers.

    begin  (start, params) -> state          step  (state, normals, params, t, h) -> state, ok
    look   (state, params, t) -> outputs     jump  (state, params, t) -> state where an input has jumped

They are printed from the same graphs as a run, whose bits do not depend on how many paths go side by side.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.engine import grid
from stodyn.engine.program.as_scalars import Scalars
from stodyn.engine.program.executors import LOOPED, source_of
from stodyn.engine.program.watching import watched
from stodyn.engine.simulate import run_of
from stodyn.engine.spec import Spec, as_it_is_now, describe
from stodyn.engine.stability import examined
from stodyn.engine.traces import jump_trace
from stodyn.engine.where import where_of
from stodyn.exporting import noises
from stodyn.exporting.noises import Noise
from stodyn.methods.contract import Method
from stodyn.noise import counter
from stodyn.noise.from_normals import FromNormals
from stodyn.numerics.newton import underived
from stodyn.numerics.printing import elementary, scalars
from stodyn.numerics.printing.llvm import Printer, Writer
from stodyn.numerics.printing.nodes import Entry, Graph, Node, reachable
from stodyn.numerics.printing.rows import words
from stodyn.numerics.printing.unprintable import LongTable, TooLarge, Unprintable
from stodyn.problems.contract import innermost, param_units
from stodyn.problems.describing import OWN
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.linear import GaussianStart
from stodyn.problems.looped import Keys, Looped
from stodyn.problems.random_dae import RandomDAE
from stodyn.statistics.moments import Moments
from stodyn.statistics.observable import Observable

STEPS = 1000  # of the run that is described and looked at, at least; a stepping model has no end


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A number among a problem's params: its name, its place among the words of all, and its value."""

    name: str
    place: int
    value: float


@dataclasses.dataclass(frozen=True, eq=False)
class Stepping:
    """A problem, a method and a step, ready to be printed.

    outputs     names of the numbers that are shown after every step, and their rows in the graph
    parameters  real numbers that may be set from outside
    noise       the noise that it is, where it is no more than that
    has_inputs  whether its host sets params between steps
    """

    spec: Spec
    source: Scalars
    dt: float
    begins_at: float
    outputs: tuple[str, ...]
    rows: tuple[int, ...]
    noise: Noise | None = None
    has_inputs: bool = False

    @property
    def title(self) -> str:
        """What the model is, in a few words."""
        what = self.spec.record["problem"] if self.noise is None else self.noise.text
        return f"{what} by {self.spec.record['method']}, dt = {self.dt!r}"

    @property
    def is_by_time(self) -> bool:
        """Whether its samples can be had by their times, in any order: held noise without memory."""
        return self.noise is not None and not self.noise.has_memory and not self.noise.is_fresh

    @property
    def streams(self) -> tuple[tuple[str, int], ...]:
        return self.source.traced.streams

    @property
    def starting_steps(self) -> int:
        return self.source.traced.starting_steps

    @property
    def state_words(self) -> int:
        return len(self.source.layout.dtypes)

    @functools.cached_property
    def start(self) -> np.ndarray:
        """The state at which every path begins; NaN where each has its own."""
        start = self.spec.common_start
        return np.full(self.spec.problem.n, np.nan) if start is None else np.asarray(start[0], float)

    @property
    def has_keys(self) -> bool:
        """Whether sensors draw numbers of their own, by a key of the path."""
        return any(self.spec.varies)

    @property
    def is_random(self) -> bool:
        return bool(self.streams) or self.has_keys or self.spec.common_start is None

    @property
    def common_params(self) -> list[tuple[str, np.ndarray]]:
        """The params that are the same for all paths: their names and values."""
        leaves = zip(leaf_names(self.spec.problem.params), self.spec.examples, self.spec.varies, strict=True)
        return [(name, example) for name, example, varies in leaves if not varies]

    @functools.cached_property
    def words(self) -> np.ndarray:
        """The words of all params."""
        return np.concatenate([np.zeros(0), *(words(value).ravel() for _, value in self.common_params)])

    @property
    def fixed(self) -> tuple[str, ...]:
        """The params that are part of the step, and cannot be set any more."""
        return self.spec.method.fixed_params

    def unit_of(self, name: str) -> str:
        """The unit of a component, a parameter, an entry of one, or "time"; "" where none was given."""
        problem = self.spec.problem
        units = {**param_units(problem), **(problem.component_units or {})}
        return units.get(name, units.get(name.partition("[")[0], ""))

    @property
    def set_inside(self) -> dict[str, str]:
        """The params that parts of a loop write, and which part does."""
        parts = self.spec.problem.parts if isinstance(self.spec.problem, Looped) else ()
        return {name: part.name for part in parts for name in part.writes}

    @functools.cached_property
    def parameters(self) -> list[Parameter]:
        parameters, place = [], 0
        for name, example in self.common_params:
            numbers = np.ravel(example)
            is_fixed = name.split(".")[0] in self.fixed or self.fixed == ("params",)
            for k, number in enumerate(numbers):
                if example.dtype.kind == "f" and not is_fixed and not name.startswith(OWN):
                    suffix = f"[{', '.join(map(str, np.unravel_index(k, example.shape)))}]" if example.shape else ""
                    parameters.append(Parameter(name + suffix, place + k, float(number)))
            place += numbers.size
        return parameters

    @functools.cached_property
    def jump(self) -> list[Entry] | None:
        """The state after a jump of an input, where the method does not go on as it is."""
        if not self.has_inputs or type(self.spec.method).after_jump is Method.after_jump:
            return None
        with jax.enable_x64(True), underived():
            trace = jump_trace(self.spec.problem, self.spec.method, self.spec.dtype)
        program = self.source.jumped(trace)
        is_same = [isinstance(e, Node) and (e.op, e.attr) == ("input", ("now", k)) for k, e in enumerate(program)]
        return None if all(is_same) else program

    @property
    def keeps_more(self) -> bool:
        """Whether the method carries more from step to step than the components, such as accelerations."""
        return self.noise is None and self.source.layout.of_method > self.spec.problem.n

    @functools.cached_property
    def functions(self) -> dict[str, Printed]:
        """The functions by name."""
        source = self.source
        functions = {"begin": _printed("begin", source.begun, source.layout.dtypes)}
        if self.spec.common_start is None:
            functions["pair"] = _reals("pair", _pair())
            functions["draw"] = _reals("draw", _drawn_start(self.spec.problem.start_from_normals))
        for name, step in source.steps.items():
            results, dtypes = [*step.program, step.ok], [*source.layout.dtypes, np.dtype(bool)]
            functions["step" if name == "run" else "first_step"] = _printed(name, results, dtypes)
        if self.jump is not None:
            functions["jump"] = _printed("jump", self.jump, source.layout.dtypes)
        shown = [source.see[row] for row in self.rows]
        functions["look"] = _printed("look", shown, [source.saved_dtypes[row] for row in self.rows])
        if self.noise is not None and self.is_by_time:
            functions["at"] = _reals("at", _by_time(self.noise, len(self.words)))
        return functions

    def reads_of_output(self, k: int) -> set[tuple[str, int]]:
        """What an output is computed from: numbers of arrays."""
        nodes = reachable([self.source.see[self.rows[k]]])
        return {node.attr for node in nodes if node.op == "input"}

    def text(self, also: Sequence[str] = ()) -> str:
        """The functions, and the elementary ones that they and others (`also`) call."""
        functions = self.functions.values()
        called = {name for function in functions for name, _ in function.elementary} | set(also)
        return "\n".join([elementary.definitions(called, 1, tabled=False), *(f.text for f in functions)])


@dataclasses.dataclass(frozen=True)
class Printed:
    """A function in LLVM text: its name, the arrays that it takes, in order, and the elementary functions it calls."""

    name: str
    arguments: tuple[str, ...]
    text: str
    elementary: frozenset[tuple[str, int]]


def _printed(name: str, results: Sequence[Entry], dtypes: Sequence[Any]) -> Printed:
    """The function that writes results, eight bytes each, from arrays of such words; the last argument takes them."""
    w, arrays = Writer(1, name), dict[str, None]()

    def input_value(node: Node) -> str:
        array, k = node.attr
        arrays[array] = None
        return w.load_row(w.at(f"%{array}", k, 8), node.dtype)

    printer = Printer(w, results, input_value)
    for k, (result, dtype) in enumerate(zip(results, dtypes, strict=True)):
        w.store_row(printer.read(result), w.at("%results", k, 8), dtype)
    w.emit("ret void")
    arguments = (*arrays, "results")
    signature = f"void @{name}({', '.join(f'ptr %{array}' for array in arguments)})"
    return Printed(name, arguments, w.text(signature), frozenset(w.elementary))


def _reals(name: str, entries: Sequence[Entry]) -> Printed:
    """The function that writes real numbers."""
    return _printed(name, entries, [np.dtype(float)] * len(entries))


def _drawn_start(start: FromNormals) -> list[Entry]:
    """The start of a path from its normals."""
    return _of_arrays(lambda z: core.jaxpr_as_fun(start.trace)(z)[0], {"z": ((start.normals,), np.float64)})


def _by_time(noise: Noise, words: int) -> list[Entry]:
    """What is shown of a sample without those before it, from its normals."""

    def shown(z: Any, truth: Any) -> Any:
        y = noise.alone(z)
        return y if noise.response is None else noise.shown(y, truth)

    return _of_arrays(shown, {"z": ((noise.normals,), np.float64), "common_params": ((words,), np.float64)})


def _pair() -> list[Entry]:
    """Two normals that a path counts off: from the key of the run, the stream, the path and their number."""
    graph = Graph()
    key = [graph.input(("key", k), np.uint32) for k in (0, 1)]
    stream, path, number = (graph.input((name, 0), dtype) for name, dtype in
                            (("stream", np.uint32), ("path", np.uint64), ("number", np.uint64)))  # fmt: skip
    return counter.entries(graph, key, stream, path, number)


def _of_arrays(function: Callable, arrays: Mapping[str, tuple[tuple[int, ...], Any]]) -> list[Entry]:
    """The results of a function of arrays, which are known by their names, shapes and types."""
    graph = Graph()
    inputs = [scalars.inputs_of(graph, name, shape, dtype) for name, (shape, dtype) in arrays.items()]
    with jax.enable_x64(True):
        trace = jax.make_jaxpr(function)(*(np.zeros(shape, dtype) for shape, dtype in arrays.values()))
    return scalars.flatten(scalars.scalarised(trace, inputs, graph))


def stepping(
    problem: Any,
    method: Any,
    dt: float,
    outputs: Sequence[str] | Mapping[str, Callable] | None,
    begins_at: float,
    has_inputs: bool = False,
) -> Stepping:
    """The stepping model of a problem or of a noise; refuses in words what cannot leave the house."""
    noise = noises.noise_of(problem, dt) if noises.is_noise(problem) else None
    if noise is not None:
        problem, method = noise.problem(), noises.method_of(noise, method)
        if outputs is not None:
            raise ValueError(
                'outputs: a noise by itself shows all of its outputs; leave outputs out, or pick some by noise["name"]'
            )
        outputs = noise.outputs()
    problem = as_it_is_now(problem)
    functions = outputs if isinstance(outputs, Mapping) else {}
    collect = [Moments(), *(Observable(function, name=name) for name, function in functions.items())]
    steps = max(STEPS, np.ceil(np.spacing(abs(begins_at)) / (grid.TOLERANCE * dt)))  # whose end can be told apart
    spec = describe(problem, method, (begins_at, begins_at + steps * dt), dt, collect, "float64")
    if not isinstance(spec.method, Method) or spec.traced is None:
        raise ValueError(
            f"method: {spec.record['method']} makes whole paths of this problem, not steps, so that it cannot be "
            f"exported; {_with_steps(spec)}"
        )
    check_random(spec, innermost(problem))
    try:
        if spec.traced.unprintable is not None:
            raise Unprintable(spec.traced.unprintable)
        source = source_of(spec, watched(spec), LOOPED)
    except Unprintable as error:
        raise ValueError(
            f"method: {spec.record['method']} cannot be printed for this problem, and only printed programs can be "
            f"exported: {error}. {_way_out(error)}"
        ) from error
    if not isinstance(source, Scalars):
        raise ValueError(
            f"problem: its {spec.problem.n} components are computed by loops over arrays ({source.description}), which "
            "cannot be exported yet. Export a smaller system"
        )
    if noise is None:
        _look_at_steps(spec, problem)
    names, rows = _outputs(spec, source, outputs)
    return Stepping(spec, source, float(dt), float(begins_at), names, rows, noise, has_inputs)


def _with_steps(spec: Spec) -> str:
    if isinstance(spec.problem, RandomDAE):
        return "no method makes steps of a RandomDAE: write it with one value of its parameters, as an SDAE"
    return f"take a method of steps such as {spec.implicit[0] if spec.implicit else 'RK4'}"


def _look_at_steps(spec: Spec, problem: Any) -> None:
    """Warn, as before a run, of steps that are unstable, or make variances or energies wrong."""
    examined(run_of(spec, 1, 0, where_of()), problem, spec.method)


def _way_out(error: Unprintable) -> str:
    match error:
        case LongTable():
            return "Let the host look up values of long tables, and read them from params, as an input; or shorten it"
        case TooLarge():
            return "Take a method with fewer operations in a step, such as an explicit one, or fewer components"
        case _:
            return "Take another method, or write this in other operations"


def check_random(spec: Spec, stated: Any) -> None:
    """Refuse starts and parameters that are drawn for every path: a model outside is one path. `stated` is the problem
    in the form in which its user has it."""
    problem = spec.problem
    if problem.has_random_start and problem.start_from_normals is None:
        same_law = "problem.changed(start=problem.start.from_normals()) has the same law"
        if isinstance(stated.start, FromNormals):
            raise ValueError(
                "problem: starts by from_normals are taken of an SDE, a Hamiltonian or a mechanical system, and of "
                f"loops around them, but this is a {type(problem).__name__}. Give start= as numbers"
            )
        if isinstance(stated, DrivenMechanical):
            raise ValueError(
                "problem: the filter of its noise starts in its stationary law, by draws of NumPy, which an exported "
                "model cannot do. Give its x and v as stodyn.from_normals(lambda z: jnp.array([x..., v...]), 1), a "
                "function that may leave z alone: then all of its start is counted off by each path"
            )
        raise ValueError(
            "problem: paths differ in their starts, by draws of NumPy or by a list, which an exported model cannot do. "
            "Give start= as numbers, or as stodyn.from_normals(function, count)"
            f"{f'; {same_law}' if isinstance(stated.start, GaussianStart) else ''}"
        )
    for name, source in zip(leaf_names(problem.params), problem.param_sources, strict=True):
        if source.is_random and not isinstance(source, Keys):
            raise ValueError(
                f"problem: params[{name!r}] is a distribution; an exported model is one path. Give it a number: it "
                "becomes a parameter of the exported model, which the host sets"
            )


def leaf_names(params: Any) -> list[str]:
    """The names of the leaves of a problem's params."""
    places, _ = jax.tree_util.tree_flatten_with_path(params)
    return [jax.tree_util.keystr(place, simple=True, separator=".") or "params" for place, _ in places]


def _outputs(spec: Spec, source: Scalars, outputs: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    components = list(spec.problem.components)
    if outputs is None:
        return tuple(components), tuple(range(len(components)))
    if isinstance(outputs, Mapping):
        names, rows = [], []
        for name, numbers in zip(outputs, source.rows_of[1:], strict=True):
            flat = numbers[0].ravel()
            names += [name] if flat.size == 1 else [f"{name}[{k}]" for k in range(flat.size)]
            rows += flat.tolist()
        return tuple(names), tuple(rows)
    unknown = [name for name in outputs if name not in components]
    if unknown or not outputs:
        raise ValueError(
            f"outputs: {unknown or 'nothing'} asked for; the components are {components}. Give some of them, or a "
            "mapping from names to functions (t, x[, params])"
        )
    return tuple(outputs), tuple(components.index(name) for name in outputs)
