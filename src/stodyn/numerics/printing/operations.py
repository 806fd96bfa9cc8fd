"""The seam to JAX: the equations of a trace as operations with records of ours.

No other module reads the parameters of an equation, whatever JAX calls them in its versions. A primitive whose
parameters are not the ones expected here gets a name that is in nobody's table, so that it is treated as an unknown
one: whoever meets it falls back, and gives that name as the reason.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from traceback import FrameSummary, extract_tb
from typing import Any, NamedTuple

import jax
from jax.extend import core

Equation = Any  # jax.extend.core.JaxprEqn
Reader = Callable[[Mapping[str, Any], Equation], Any]

EXECUTED = "execute_instructions"  # a primitive of our own (numerics/instructions.py)
WHOLE = "call_hi_primitive"  # from JAX 0.11 on, which so keeps custom_root in a trace, and from 0.12 on searchsorted
INLINED = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
    "custom_vmap_call", "checkpoint", "remat2", "eval_jaxpr",
}  # fmt: skip
CALLS = INLINED | {WHOLE}
LOOPS = {"while", "scan"}
FACTORISED = {"lu", "cholesky", "geqrf", "eigh", "eig", "svd", "schur"}  # each for a batch in one call to LAPACK
UNMAPPED = CALLS - {"custom_vmap_call"}  # whose own rule says how it is mapped


# --- what is known of an operation besides its name -------------------------------------------------------------------


class Scan(NamedTuple):
    """A loop over rows: its first `consts` operands stay, the next `carry` are handed on, the others are series of
    rows."""

    consts: int
    carry: int
    length: int
    is_reverse: bool
    unroll: int
    body: core.ClosedJaxpr


class While(NamedTuple):
    """A loop while a condition holds: its first `tested` operands are for the condition, those up to `fixed` for the
    body, and the rest are carried."""

    tested: int
    fixed: int
    condition: core.ClosedJaxpr
    body: core.ClosedJaxpr

    @property
    def consts(self) -> int:
        """How many of the body's inputs come before those that it hands on."""
        return self.fixed - self.tested


class Cond(NamedTuple):
    """`chosen` is the number of the branch for processors, where each platform has its own."""

    branches: tuple[core.ClosedJaxpr, ...]
    chosen: int | None


class Platform(NamedTuple):
    """The number of the branch for processors."""

    number: int


class LinearSolve(NamedTuple):
    """The solution of a linear system: a function of the operands `of` and of those from `rest` on; and whether that of
    the transposed system is known."""

    of: slice
    rest: int
    solve: core.ClosedJaxpr
    has_transpose: bool


class Gather(NamedTuple):
    """Slices of an array, each beginning where a row of the indices says, laid out in the result.

    axes     the axes of the array on which the rows say where slices begin
    sizes    of a slice, for all axes
    inside   axis of the array -> axis of the result that counts inside a slice
    along    axis of the array -> axis of the indices that counts it
    fills    whether slices outside the array are filled, with `fill` where it is given
    clips    whether they are moved inside because the user says so
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    inside: Mapping[int, int]
    along: Mapping[int, int]
    fills: bool
    fill: Any
    clips: bool


class Scatter(NamedTuple):
    """Windows of updates, each beginning where a row of the indices says.

    axes     the axes of the array on which the rows say where windows begin
    inside   axis of the array -> axis of the updates that counts inside a window
    along    axis of the array -> axis of the indices that counts it
    clips    whether windows partly outside are moved inside; else they are dropped
    fold     the operation that joins an update with the entry it lands on; None: the update replaces it
    function of an old and a new entry, in x.at[k].apply(f)
    """

    axes: tuple[int, ...]
    inside: Mapping[int, int]
    along: Mapping[int, int]
    clips: bool
    fold: str | None
    function: core.ClosedJaxpr | None


class Dot(NamedTuple):
    """The axes of each operand that are summed over, and those that both have in common."""

    contracted: tuple[tuple[int, ...], tuple[int, ...]]
    batch: tuple[tuple[int, ...], tuple[int, ...]]

    def arranged(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The operands as (batch, rows, products) and (batch, columns, products)."""

        def of(x: Any, contracted: Sequence[int], batch: Sequence[int]) -> Any:
            free = [k for k in range(x.ndim) if k not in (*contracted, *batch)]
            sizes = [math.prod(x.shape[k] for k in axes) for axes in (batch, free, contracted)]
            return x.transpose([*batch, *free, *contracted]).reshape(sizes)

        return of(a, self.contracted[0], self.batch[0]), of(b, self.contracted[1], self.batch[1])


class Reduced(NamedTuple):
    """The entries along some axes joined by the operation `fold`."""

    axes: tuple[int, ...]
    fold: str


class Extreme(NamedTuple):
    """The place of the largest (`fold` is "max") or the smallest entry along an axis."""

    axes: tuple[int, ...]
    fold: str


class Cumulated(NamedTuple):
    """The entries along an axis joined by `fold` one after another, with all results on the way."""

    axis: int
    is_reverse: bool
    fold: str


class SliceAt(NamedTuple):
    """A slice that begins where the further operands say."""

    sizes: tuple[int, ...]


class UpdateAt(NamedTuple):
    """A slice of an array replaced, beginning where the further operands say."""


class Executed(NamedTuple):
    """Instructions (numerics.instructions) carried out."""

    program: Any


class Barrier(NamedTuple):
    """The operands, which XLA is not to merge with what comes before."""


class Reshaped(NamedTuple):
    shape: tuple[int, ...]


class Squeezed(NamedTuple):
    axes: tuple[int, ...]


class Expanded(NamedTuple):
    axes: tuple[int, ...]


class Transposed(NamedTuple):
    order: tuple[int, ...]


class Reversed(NamedTuple):
    axes: tuple[int, ...]


class Joined(NamedTuple):
    axis: int


class Stacked(NamedTuple):
    axis: int


class Unstacked(NamedTuple):
    axis: int


class Tiled(NamedTuple):
    times: tuple[int, ...]


class Padded(NamedTuple):
    """Entries put before, after and between those of each axis."""

    widths: tuple[tuple[int, int, int], ...]


class Sliced(NamedTuple):
    starts: tuple[int, ...]
    limits: tuple[int, ...]
    steps: tuple[int, ...] | None


class Spread(NamedTuple):
    """An array broadcast: axis k becomes axes[k] of the result."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]


class Counted(NamedTuple):
    """An array whose entries are their indices along an axis."""

    shape: tuple[int, ...]
    dtype: Any
    axis: int


class Empty(NamedTuple):
    shape: tuple[int, ...]
    dtype: Any


class Split(NamedTuple):
    sizes: tuple[int, ...]
    axis: int


class Bits(NamedTuple):
    exponent: int
    mantissa: int


def _scan(params: Mapping[str, Any], equation: Equation) -> Scan:
    if "num_consts" in params:  # before JAX 0.11
        consts, carry = params["num_consts"], params["num_carry"]
    else:
        parts = params["ft_in"].update(range(len(equation.invars))).unpack()
        consts, carry = len(list(parts[0])), len(list(parts[1]))
    return Scan(consts, carry, params["length"], params["reverse"], params["unroll"], params["jaxpr"])


def _while(params: Mapping[str, Any], _: Equation) -> While:
    tested = params["cond_nconsts"]
    return While(tested, tested + params["body_nconsts"], params["cond_jaxpr"], params["body_jaxpr"])


def _for_processors(platforms: Sequence[Sequence[str] | None]) -> int:
    """The branch of a function written for each platform that is for all others, or for processors."""
    return next((k for k, those in enumerate(platforms) if those is None or "cpu" in those), 0)


def _cond(params: Mapping[str, Any], _: Equation) -> Cond:
    platforms = params.get("branches_platforms")
    return Cond(tuple(params["branches"]), None if platforms is None else _for_processors(platforms))


def _linear_solve(params: Mapping[str, Any], _: Equation) -> LinearSolve:
    lengths = params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    solves = params["jaxprs"]
    own = slice(before, before + lengths.solve)
    return LinearSolve(own, sum(lengths), solves.solve, solves.transpose_solve is not None)


def _inside(
    equation: Equation, dropped: Sequence[int], along: Mapping[int, int], axes: Sequence[int]
) -> dict[int, int]:
    remaining = [a for a in range(equation.invars[0].aval.ndim) if a not in dropped and a not in along]
    return dict(zip(remaining, axes, strict=True))


def _gather(params: Mapping[str, Any], equation: Equation) -> Gather:
    numbers = params["dimension_numbers"]
    along = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    inside = _inside(equation, numbers.collapsed_slice_dims, along, numbers.offset_dims)
    fills, clips = (word in str(params["mode"]) for word in ("FILL", "CLIP"))
    return Gather(numbers.start_index_map, params["slice_sizes"], inside, along, fills, params["fill_value"], clips)


def _scatter(fold: str | None) -> Reader:
    def read(params: Mapping[str, Any], equation: Equation) -> Scatter:
        numbers = params["dimension_numbers"]
        along = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
        inside = _inside(equation, numbers.inserted_window_dims, along, numbers.update_window_dims)
        rule = params["update_jaxpr"] if fold is None else None
        function = None if rule is None else core.ClosedJaxpr(rule, params["update_consts"])
        clips = "CLIP" in str(params["mode"])
        return Scatter(numbers.scatter_dims_to_operand_dims, inside, along, clips, fold, function)

    return read


def _dot(params: Mapping[str, Any], _: Equation) -> Dot:
    return Dot(*params["dimension_numbers"])


def _number(key: str) -> Reader:
    """One parameter alone."""
    return lambda params, _: params[key]


def _record(record: Callable[..., Any], *keys: str, fold: str | None = None) -> Reader:
    """A record of these parameters, in its order, and of the operation that joins its entries."""
    more = () if fold is None else (fold,)
    return lambda params, _: record(*map(params.__getitem__, keys), *more)


JOINED = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or", "xor": "xor"}
READ: dict[str, Reader] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_linear_solve": _linear_solve,
    "optimization_barrier": _record(Barrier),
    "platform_index": lambda params, _: Platform(_for_processors(params["platforms"])),
    "gather": _gather,
    "scatter": _scatter(None),
    **{f"scatter-{fold}": _scatter(fold) for fold in ("add", "sub", "mul", "min", "max")},
    "dot_general": _dot,
    EXECUTED: _record(Executed, "program"),
    "dynamic_slice": _record(SliceAt, "slice_sizes"),
    "dynamic_update_slice": _record(UpdateAt),
    **{f"reduce_{name}": _record(Reduced, "axes", fold=fold) for name, fold in JOINED.items()},
    **{f"arg{fold}": _record(Extreme, "axes", fold=fold) for fold in ("max", "min")},
    **{f"cum{name}": _record(Cumulated, "axis", "reverse", fold=JOINED[name]) for name in list(JOINED)[:4]},
    "reshape": _record(Reshaped, "new_sizes"),
    "squeeze": _record(Squeezed, "dimensions"),
    "expand_dims": _record(Expanded, "dimensions"),
    "transpose": _record(Transposed, "permutation"),
    "rev": _record(Reversed, "dimensions"),
    "concatenate": _record(Joined, "dimension"),
    "split": _record(Split, "sizes", "axis"),
    "stack": _record(Stacked, "axis"),
    "unstack": _record(Unstacked, "axis"),
    "tile": _record(Tiled, "reps"),
    "slice": _record(Sliced, "start_indices", "limit_indices", "strides"),
    "broadcast_in_dim": _record(Spread, "shape", "broadcast_dimensions"),
    "pad": _record(Padded, "padding_config"),
    "iota": _record(Counted, "shape", "dtype", "dimension"),
    "empty": _record(Empty, "shape", "dtype"),
    "integer_pow": _number("y"),
    "round": lambda params, _: int(params["rounding_method"]) == 0,  # whether halves go away from zero
    "reduce_precision": _record(Bits, "exponent_bits", "mantissa_bits"),
    "convert_element_type": _number("new_dtype"),
}


# --- operations -------------------------------------------------------------------------------------------------------


class Operation:
    """An equation of a trace: its name, its record (`how`), and the types of its operands and results."""

    __slots__ = ("_equation", "how", "ins", "name", "outs")

    def __init__(self, name: str, how: Any, ins: Sequence[Any], outs: Sequence[Any], equation: Equation = None):
        self.name, self.how, self.ins, self.outs, self._equation = name, how, ins, outs, equation

    @property
    def kind(self) -> type:
        """The kind of its record: what operations of one kind have in common goes by it, not by names."""
        return type(self.how)

    @property
    def has_effects(self) -> bool:
        return bool(self._equation.effects)

    @property
    def traces(self) -> list[core.ClosedJaxpr]:
        """The functions, branches and loop bodies inside it."""
        return traces_inside(self._equation)

    @property
    def origin(self) -> Any:
        """What the same operation of a trace that is opened several times has in common; the trace keeps it alive."""
        return id(self._equation)

    @property
    def callers(self) -> list[FrameSummary]:
        """The lines of Python from which it came into the trace, the outermost first."""
        calls = None if self._equation is None else self._equation.source_info.traceback
        return [] if calls is None else extract_tb(calls.as_python_traceback())

    @property
    def parameters(self) -> list[tuple[str, Any]]:
        """All that it holds besides its operands, by name."""
        return [] if self._equation is None else parameters_of(self._equation)

    def bind(self, *values: Any) -> list[Any]:
        """Its results for other operands, computed by JAX, or traced by it."""
        results = self._equation.primitive.bind(*values, **self._equation.params)
        return list(results) if self._equation.primitive.multiple_results else [results]

    def rewritten(self, change: Callable[[core.ClosedJaxpr], core.ClosedJaxpr]) -> Operation:
        """The operation with the traces inside it changed; itself where the change leaves all of them as they are."""
        params = self._equation.params
        changed = {key: _rewritten(value, change) for key, value in params.items()}
        if all(changed[key] is value for key, value in params.items()):
            return self
        return Operation(self.name, self.how, self.ins, self.outs, self._equation.replace(params=changed))


def operation_of(equation: Equation) -> Operation:
    """An equation as an operation with its record."""
    name, how = equation.primitive.name, None
    read = READ.get(name)
    if read is not None:
        try:
            how = read(equation.params, equation)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            name = f"{name} as this version of JAX has it ({type(error).__name__}: {error})"
    return Operation(name, how, [v.aval for v in equation.invars], [v.aval for v in equation.outvars], equation)


def _rewritten(value: Any, change: Callable[[core.ClosedJaxpr], core.ClosedJaxpr]) -> Any:
    if isinstance(value, core.ClosedJaxpr):
        return change(value)
    if isinstance(value, tuple) and value and all(isinstance(part, core.ClosedJaxpr) for part in value):
        parts = tuple(map(change, value))
        return value if all(map(operator.is_, parts, value)) else parts
    return value


# --- traces inside equations ------------------------------------------------------------------------------------------


def with_traces(equation: Equation, change: Callable[[core.Jaxpr], core.Jaxpr]) -> Equation:
    """The equation with changed functions, branches and loop bodies inside it."""

    def inside(value: Any) -> Any:
        if type(value) in (tuple, list):
            return type(value)(map(inside, value))
        if isinstance(value, core.ClosedJaxpr):
            return value.replace(jaxpr=change(value.jaxpr))
        return change(value) if isinstance(value, core.Jaxpr) else value

    return equation.replace(params={name: inside(value) for name, value in equation.params.items()})


def called_by(equation: Equation) -> core.ClosedJaxpr | core.Jaxpr | None:
    """The trace of the function that an equation calls; None where it cannot be told which one that is."""
    if equation.primitive.name == WHOLE:
        return opened(equation)
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        if key in equation.params:
            return equation.params[key]
    inside = traces_inside(equation)
    return inside[0] if len(inside) == 1 else None


def traces_inside(equation: Equation) -> list[core.ClosedJaxpr]:
    """The functions, branches and loop bodies inside an equation."""
    if equation.primitive.name == WHOLE:
        return [opened(equation)]
    return [
        value if isinstance(value, core.ClosedJaxpr) else core.ClosedJaxpr(value, ())
        for parameter in equation.params.values()
        for value in (parameter if isinstance(parameter, (tuple, list)) else (parameter,))
        if isinstance(value, (core.ClosedJaxpr, core.Jaxpr))
    ]


def inner_traces(jaxpr: core.Jaxpr) -> list[core.ClosedJaxpr]:
    """The functions, branches and loop bodies inside a trace's equations."""
    return list(itertools.chain.from_iterable(map(traces_inside, jaxpr.eqns)))


def equations_of(jaxpr: core.Jaxpr) -> Iterator[Equation]:
    """The equations of a trace, and those of its inner functions and loop bodies (a loop body once)."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in traces_inside(equation):
            yield from equations_of(inner.jaxpr)


def has_loops(closed: core.ClosedJaxpr) -> bool:
    """Whether there is a loop in a trace."""
    return any(equation.primitive.name in LOOPS for equation in equations_of(closed.jaxpr))


def library_calls(closed: core.ClosedJaxpr) -> int:
    """How many factorisations a trace leaves to LAPACK, of which XLA may compute those at once that do not read each
    other's results."""
    return sum(1 for equation in equations_of(closed.jaxpr) if equation.primitive.name in FACTORISED)


def opened(equation: Equation) -> core.ClosedJaxpr:
    """The trace of an operation that a trace holds as a whole."""
    return _opened(_Itself(equation.params["_prim"]))


class _Itself:
    """An operation that is equal to itself alone: to JAX it is equal to that of other operands, or has no hash."""

    def __init__(self, operation: Any):
        self.operation = operation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.operation is other.operation

    def __hash__(self) -> int:
        return id(self.operation)


@functools.lru_cache(maxsize=256)
def _opened(itself: _Itself) -> core.ClosedJaxpr:
    operation = itself.operation

    def flat(*arguments: Any) -> list[Any]:
        return jax.tree.leaves(operation.expand(*jax.tree.unflatten(operation.in_tree, arguments)))

    with jax.enable_x64(True):  # the trace has the dtypes it has, whatever the caller's are
        shapes = (jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in operation.in_avals_flat)
        return jax.make_jaxpr(flat)(*shapes)


def has_indices(equation: Equation) -> bool:
    """Whether an equation reads or writes where other operands say."""
    return equation.primitive.name.startswith(("dynamic_slice", "gather", "scatter"))


# --- all parameters, for digests --------------------------------------------------------------------------------------


def parameters_of(equation: Equation) -> list[tuple[str, Any]]:
    """The parameters of an equation by name, whatever they are."""
    return sorted(equation.params.items())


def function_name(equation: Equation) -> str | None:
    """The name of the compiled function that an equation calls."""
    return equation.params.get("name")
