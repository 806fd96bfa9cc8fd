"""Operations entry by entry: a row for each, with everything that readers of traces ask about it.

A row says how an operation is printed, how NumPy computes it, what it makes of zeros, in what it is linear, and whether
it is smooth. Operations of other kinds have rows in table.py, by their records.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from stodyn.numerics.printing import elementary
from stodyn.numerics.printing.nodes import BOOL, Entry, Graph, value_of
from stodyn.numerics.printing.unprintable import Unprintable


class Zeros(enum.Enum):
    """Where the result is known to be zero."""

    NOWHERE = enum.auto()
    KEPT = enum.auto()  # where the operand is
    COPIED = enum.auto()  # likewise, and every other number stays what it is
    FACTOR = enum.auto()  # where one of the operands is
    ALL = enum.auto()  # where all operands are
    TERM = enum.auto()  # likewise; beside a zero the other operand stays what it is
    NUMERATOR = enum.auto()  # where the first operand is and the second is not
    BASE = enum.auto()  # where the first operand is, for a positive power
    UNEQUAL = enum.auto()  # where two counters differ
    CHOSEN = enum.auto()  # where the chosen operand is


Rule: TypeAlias = Callable[..., Entry]  # prints an operation: rule(graph, dtype, how, *operands)
Computed: TypeAlias = Callable[..., Any]  # computes it by NumPy: computed(*operands)


class Row(NamedTuple):
    """What is known about an operation.

    node        prints it: node(graph, dtype, how, *operands); None: it is not printed
    numpy       computes it: numpy(*operands)
    real        whether NumPy is asked only for real numbers
    with_how    whether NumPy's function takes the operation's record before the operands
    zeros       where the result is zero
    factors     the first of the operands whose exact zeros make the result zero, whatever the others are
    is_exact    whether every processor computes the same of numbers of any type
    is_rounded  whether its result is rounded
    is_affine   whether it is affine in the operands that move: is_affine(how, *moves)
    is_flat     whether its results have slope zero wherever they have one: is_flat(how, how many they are)
    is_singular whether it has a point where its slopes have no bound or are not defined, as roots and powers have
    has_corners whether its slope jumps among ordinary numbers, as that of an absolute value
    has_cut     whether it jumps at a line with slopes on both sides, as the angle of a vector does
    is_free     whether it costs nothing
    is_exponential  whether it overflows or underflows for ordinary numbers, as an exponential does
    merges      with how many exponentials as operands XLA rewrites it
    decides     what shows on which of its pieces it is: decides(result, *operands)
    neutral     the number that changes no other when joined with it: neutral(dtype)
    place       the name of what finds the place of an entry that is the result, among those that it joins
    undefined   what it is called, where it is not a number for some real operands
    above       of a comparison: the sign of the first operand less the second where it is true
    data        the operands whose entries it moves, where it does nothing else: the others say where from, or where to
    axes        which axes of the result those of the operand have become, where their sizes are the same: axes(how,
                shape, shape of the result); None where entries leave their axes
    is_sum      whether its results are sums of many terms, each of which is rounded
    """

    node: Rule | None = None
    numpy: Any = None
    real: bool = False
    with_how: bool = False
    zeros: Zeros = Zeros.NOWHERE
    factors: int = 0
    is_exact: bool = False
    is_rounded: bool = False
    is_affine: Callable[..., bool] = lambda how, *moves: False
    is_flat: Callable[[Any, int], bool] = lambda how, results: False
    is_singular: bool = False
    has_corners: bool = False
    has_cut: bool = False
    is_free: bool = False
    is_exponential: bool = False
    merges: int = 0
    decides: Callable[..., tuple[Any, ...]] | None = None
    neutral: Any = None
    place: str = ""
    undefined: str = ""
    above: int = 0
    data: Sequence[int] = ()
    axes: Callable[..., Mapping[int, int] | None] = lambda how, shape, out: None
    is_sum: bool = False


# --- as nodes ---------------------------------------------------------------------------------------------------------


def _plain(op: str) -> Rule:
    return lambda graph, dtype, how, *operands: graph.make(op, dtype, *operands)


def _compared(op: str) -> Rule:
    return lambda graph, dtype, how, a, b: graph.make(op, BOOL, a, b)


def _integer_pow(graph: Graph, dtype: np.dtype, y: int, x: Entry) -> Entry:
    """Print x to an integer power, by squaring; a negative power is one over the positive one."""
    if y == 0:
        return dtype.type(1)
    result, power, left = None, x, abs(y)
    while True:
        if left & 1:
            result = power if result is None else graph.make("mul", dtype, result, power)
        left >>= 1
        if not left:
            break
        power = graph.make("mul", dtype, power, power)
    return result if y > 0 else graph.make("div", dtype, dtype.type(1), result)


def _one_minus_square(graph: Graph, dtype: np.dtype, how: Any, x: Entry) -> Entry:
    """1 - x² near x = ±1 too, from JAX 0.11 on: the derivative of tanh at artanh x."""
    one = dtype.type(1)
    return graph.make("mul", dtype, graph.make("add", dtype, one, x), graph.make("sub", dtype, one, x))


def _polynomial(graph: Graph, dtype: np.dtype, how: Any, x: Entry, *coefficients: Entry) -> Entry:
    """Σ c_k x^k by Horner's rule, from JAX 0.12 on; before, polyval was written out, or a scan."""
    *others, value = coefficients
    for coefficient in reversed(others):
        value = graph.make("add", dtype, graph.make("mul", dtype, value, x), coefficient)
    return value


def _pow(graph: Graph, dtype: np.dtype, how: Any, x: Entry, y: Entry) -> Entry:
    if y.dtype.kind != "f":
        value = value_of(y)
        if value is None:
            raise Unprintable("pow with a whole exponent that is not known")
        return _integer_pow(graph, dtype, int(value), x)
    return _function("pow")(graph, dtype, how, x, y)


def _function(name: str) -> Rule:
    """An elementary function, in double precision whatever the numbers are."""

    def rule(graph: Graph, dtype: np.dtype, how: Any, *operands: Entry) -> Entry:
        if name not in elementary.NAMES:
            raise Unprintable(f"primitive {name} is not among the printed operations")
        wide = [graph.convert(x, np.float64) for x in operands]
        return graph.convert(graph.make(name, np.float64, *wide), dtype)

    return rule


def _log2(graph: Graph, dtype: np.dtype, how: Any, x: Entry) -> Entry:
    """Print the logarithm to base 2 as the quotient of two natural ones. JAX has the operation from 0.11 on; before, it
    wrote this quotient."""
    logarithm = graph.make("log", np.float64, graph.convert(x, np.float64))
    return graph.convert(graph.make("div", np.float64, logarithm, np.float64(math.log(2.0))), dtype)


def _select_n(graph: Graph, dtype: np.dtype, how: Any, which: Entry, *cases: Entry) -> Entry:
    if which.dtype == BOOL:
        return graph.select(which, cases[1], cases[0], dtype)
    chosen = cases[0]
    for k, case in enumerate(cases[1:], start=1):
        chosen = graph.select(graph.make("ge", BOOL, which, which.dtype.type(k)), case, chosen, dtype)
    return chosen


def _rsqrt(graph: Graph, dtype: np.dtype, how: Any, x: Entry) -> Entry:
    return graph.make("div", dtype, dtype.type(1), graph.make("sqrt", dtype, x))


def _is_finite(graph: Graph, dtype: np.dtype, how: Any, x: Entry) -> Entry:
    return graph.make("lt", BOOL, graph.make("abs", x.dtype, x), x.dtype.type(np.inf))


def _clamp(graph: Graph, dtype: np.dtype, how: Any, low: Entry, x: Entry, high: Entry) -> Entry:
    return graph.make("min", dtype, graph.make("max", dtype, low, x), high)


def _round(graph: Graph, dtype: np.dtype, is_away: bool, x: Entry) -> Entry:
    return graph.make("round_away" if is_away else "round_even", dtype, x)


def _in_total_order(op: str) -> Rule:
    """Comparisons in which -0 < +0 and every NaN has its place: of the words, those of negative numbers turned over."""

    def rule(graph: Graph, dtype: np.dtype, how: Any, a: Entry, b: Entry) -> Entry:
        if a.dtype.kind != "f":
            return graph.make(op, BOOL, a, b)
        word = np.dtype(f"int{8 * a.dtype.itemsize}")

        def place(x: Entry) -> Entry:
            bits = _bitcast(graph, word, how, x)
            below = graph.make("lt", BOOL, bits, word.type(0))
            turned = graph.make("xor", word, bits, word.type(np.iinfo(word).max))
            return graph.select(below, turned, bits, word)

        return graph.make(op, BOOL, place(a), place(b))

    return rule


def _reduce_precision(graph: Graph, dtype: np.dtype, bits: Any, x: Entry) -> Entry:
    held = np.finfo(dtype)
    if bits.exponent < held.nexp or bits.mantissa < held.nmant:
        raise Unprintable("reduce_precision to fewer bits")
    return x


def _shift(op: str) -> Rule:
    def rule(graph: Graph, dtype: np.dtype, how: Any, x: Entry, by: Entry) -> Entry:
        bits = 8 * dtype.itemsize
        inside = graph.make("lt", BOOL, graph.convert(by, f"uint{bits}"), np.dtype(f"uint{bits}").type(bits))
        safe = graph.select(inside, by, dtype.type(0 if op != "ashr" else bits - 1), dtype)
        shifted = graph.make(op, dtype, x, safe)
        return shifted if op == "ashr" else graph.select(inside, shifted, dtype.type(0), dtype)

    return rule


def _convert(graph: Graph, dtype: np.dtype, how: Any, x: Entry) -> Entry:
    return graph.convert(x, dtype)


def _bitcast(graph: Graph, dtype: np.dtype, how: Any, x: Entry) -> Entry:
    if x.dtype.itemsize != np.dtype(dtype).itemsize or BOOL in (x.dtype, dtype):
        raise Unprintable("bitcast_convert_type between types of different sizes")
    value = value_of(x)
    if value is not None:
        return np.asarray(value).view(dtype)[()]
    return graph.make("bitcast", dtype, x)


# --- by NumPy ---------------------------------------------------------------------------------------------------------


def chosen(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    """Return, for each entry, the case whose number is in `which`; np.choose takes only a few cases."""
    result = cases[0]
    for k, case in enumerate(cases[1:], 1):
        result = np.where(which == k, case, result)
    return result


def _horner(x: np.ndarray, *coefficients: np.ndarray) -> np.ndarray:
    *others, value = coefficients
    for coefficient in reversed(others):
        value = value * x + coefficient
    return value


def _converted(new_dtype: Any, x: np.ndarray) -> np.ndarray:
    """Convert as XLA does: NaN becomes the whole number 0, and what is too large for a type its largest number."""
    if x.dtype.kind != "f" or np.dtype(new_dtype).kind not in "iu":
        return np.asarray(x, new_dtype)
    limits = np.iinfo(new_dtype)
    with np.errstate(invalid="ignore"):
        whole = x.astype(new_dtype)
    whole = np.where(x >= float(limits.max), limits.max, np.where(x <= float(limits.min), limits.min, whole))
    return np.where(np.isnan(x), 0, whole).astype(new_dtype)


def _rounded(is_away: bool, x: np.ndarray) -> np.ndarray:
    """Round to the nearest whole number, halves to the even one or away from zero."""
    if not is_away:
        return np.rint(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _quotient(x: Any, y: Any) -> Any:
    """x/y; of integers the whole part, towards 0."""
    return (x - np.fmod(x, y)) // y if np.issubdtype(np.result_type(x, y), np.integer) else np.divide(x, y)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b))) if a.dtype.kind in "iu" else np.fmod(a, b)


# --- the table --------------------------------------------------------------------------------------------------------


def linear(how: Any, *moves: bool) -> bool:
    """Whether the operation is linear: it is, in all operands together."""
    return True


def flat(how: Any, results: int) -> bool:
    """Whether the slope is zero: it is, wherever there is one."""
    return True


def _flat_beside(how: Any, results: int) -> bool:
    """Whether a sorting operation permutes more than what it sorts, such as the places: their slopes are zero."""
    return results > 1


def _number(number: float) -> Callable[[np.dtype], Any]:
    return lambda dtype: dtype.type(number)


def _limit(towards: float) -> Callable[[np.dtype], Any]:
    """The largest number of a type, or the smallest."""

    def limit(dtype: np.dtype) -> Any:
        if dtype == BOOL:
            raise Unprintable("an extreme of truth values")
        if dtype.kind == "f":
            return dtype.type(towards)
        return dtype.type(np.iinfo(dtype).max if towards > 0 else np.iinfo(dtype).min)

    return limit


def _extreme(op: str, numpy: Computed, towards: float, place: str) -> Row:
    return Row(
        _plain(op),
        numpy,
        zeros=Zeros.ALL,
        has_corners=True,
        decides=lambda y, a, b: (a > b,),
        neutral=_limit(-towards),
        place=place,
    )


def _steps(node: Rule, numpy: Computed, with_how: bool = False) -> Row:
    """The row of an operation that rounds to whole numbers."""
    return Row(node, numpy, with_how=with_how, zeros=Zeros.KEPT, is_flat=flat, decides=lambda y, x: (y,))


def _compares(op: str, numpy: Computed, zeros: Zeros = Zeros.NOWHERE, above: int = 0) -> Row:
    return Row(_compared(op), numpy, zeros=zeros, is_exact=True, is_flat=flat, above=above)


def _computes(name: str, numpy: Computed | None = None, zeros: Zeros = Zeros.NOWHERE, **further: Any) -> Row:
    """The row of an elementary function."""
    return Row(_function(name), numpy, real=True, zeros=zeros, is_rounded=True, **further)


def _copies(**further: Any) -> Row:
    return Row(lambda graph, dtype, how, x: x, is_free=True, **further)


TABLE: dict[str, Row] = {
    # sums and products
    "add": Row(
        _plain("add"), np.add, zeros=Zeros.TERM, is_exact=True, is_rounded=True, is_affine=linear, neutral=_number(0)
    ),
    "add_any": Row(_plain("add"), np.add, zeros=Zeros.TERM, is_rounded=True, is_affine=linear),
    "sub": Row(_plain("sub"), np.subtract, zeros=Zeros.TERM, is_exact=True, is_rounded=True, is_affine=linear),
    "neg": Row(_plain("neg"), np.negative, zeros=Zeros.KEPT, is_exact=True, is_affine=linear),
    "mul": Row(
        _plain("mul"),
        np.multiply,
        zeros=Zeros.FACTOR,
        factors=2,
        is_exact=True,
        is_rounded=True,
        is_affine=lambda how, *moves: sum(moves) == 1,
        merges=2,
        neutral=_number(1),
    ),
    "div": Row(
        _plain("div"),
        _quotient,
        real=True,
        zeros=Zeros.NUMERATOR,
        factors=1,
        is_rounded=True,
        is_affine=lambda how, above, below: not below,
        merges=2,
    ),
    "square": Row(
        lambda graph, dtype, how, x: graph.make("mul", dtype, x, x), np.square, zeros=Zeros.KEPT, is_rounded=True
    ),
    "one_minus_square": Row(_one_minus_square, lambda x: (1 + x) * (1 - x), is_rounded=True),
    "polynomial": Row(  # affine in its coefficients, and in x where there are two
        _polynomial, _horner, is_affine=lambda how, x, _, *slopes: not x or slopes == (False,), is_sum=True
    ),
    "integer_pow": Row(_integer_pow, lambda y, x: x**y, with_how=True, zeros=Zeros.BASE, is_rounded=True),
    # roots and powers
    "pow": Row(
        _pow, np.power, real=True, zeros=Zeros.BASE, is_rounded=True, is_singular=True, merges=1, undefined="a power"
    ),
    "sqrt": Row(
        _plain("sqrt"), np.sqrt, zeros=Zeros.KEPT, is_rounded=True, is_singular=True, undefined="a square root"
    ),
    "rsqrt": Row(
        _rsqrt, lambda x: 1.0 / np.sqrt(x), real=True, is_rounded=True, is_singular=True, undefined="a square root"
    ),
    "cbrt": _computes("cbrt", np.cbrt, Zeros.KEPT, is_singular=True),
    # elementary functions
    "exp": _computes("exp", np.exp, is_exponential=True),
    "exp2": _computes("exp2", is_exponential=True),
    "expm1": _computes("expm1", np.expm1, Zeros.KEPT),
    "log": _computes("log", np.log, merges=1, undefined="a logarithm"),
    "log2": Row(
        _log2, lambda x: np.log(x) / math.log(2.0), real=True, is_rounded=True, merges=1, undefined="a logarithm"
    ),
    "log1p": _computes("log1p", np.log1p, Zeros.KEPT, undefined="a logarithm"),
    "logistic": _computes("logistic", lambda x: 1.0 / (1.0 + np.exp(-x))),
    "sin": _computes("sin", np.sin, Zeros.KEPT),
    "cos": _computes("cos", np.cos),
    "tan": _computes("tan", np.tan, Zeros.KEPT),
    "asin": _computes("asin", np.arcsin, Zeros.KEPT, is_singular=True, undefined="an arc sine"),
    "acos": _computes("acos", np.arccos, is_singular=True, undefined="an arc cosine"),
    "atan": _computes("atan", np.arctan, Zeros.KEPT),
    "atan2": _computes("atan2", np.arctan2, has_cut=True),
    "sinh": _computes("sinh", np.sinh, Zeros.KEPT),
    "cosh": _computes("cosh", np.cosh),
    "tanh": _computes("tanh", np.tanh, Zeros.KEPT),
    "asinh": _computes("asinh", np.arcsinh, Zeros.KEPT),
    "acosh": _computes("acosh", is_singular=True, undefined="an inverse hyperbolic cosine"),
    "atanh": _computes("atanh", zeros=Zeros.KEPT, undefined="an inverse hyperbolic tangent"),
    "erf": _computes("erf", zeros=Zeros.KEPT),
    "erfc": _computes("erfc"),
    "erf_inv": _computes("erf_inv"),
    "lgamma": _computes("lgamma"),
    "digamma": _computes("digamma"),
    # comparisons and logic
    "eq": _compares("eq", np.equal, Zeros.UNEQUAL),
    "ne": _compares("ne", np.not_equal),
    "lt": _compares("lt", np.less, above=-1),
    "le": _compares("le", np.less_equal, above=-1),
    "gt": _compares("gt", np.greater, above=1),
    "ge": _compares("ge", np.greater_equal, above=1),
    "eq_to": Row(_in_total_order("eq")),
    "lt_to": Row(_in_total_order("lt"), is_flat=flat),
    "le_to": Row(_in_total_order("le"), is_flat=flat),
    "is_finite": Row(_is_finite, np.isfinite, is_flat=flat),
    "and": Row(_plain("and"), np.bitwise_and, zeros=Zeros.FACTOR, is_exact=True, neutral=_number(True)),
    "or": Row(_plain("or"), np.bitwise_or, zeros=Zeros.TERM, is_exact=True, neutral=_number(False)),
    "xor": Row(_plain("xor"), np.bitwise_xor, zeros=Zeros.TERM, is_exact=True, neutral=_number(False)),
    "not": Row(_plain("not"), np.invert, is_exact=True),
    "shift_left": Row(_shift("shl")),
    "shift_right_logical": Row(_shift("lshr")),
    "shift_right_arithmetic": Row(_shift("ashr")),
    "population_count": Row(_plain("population_count")),
    "clz": Row(_plain("clz")),
    # choices, corners and jumps
    "select_n": Row(_select_n, chosen, zeros=Zeros.CHOSEN, is_affine=lambda how, which, *cases: not which),
    "max": _extreme("max", np.maximum, np.inf, "argmax"),
    "min": _extreme("min", np.minimum, -np.inf, "argmin"),
    "abs": Row(_plain("abs"), np.abs, zeros=Zeros.KEPT, has_corners=True, decides=lambda y, x: (x > 0.0,)),
    "clamp": Row(
        _clamp,
        lambda low, x, high: np.minimum(np.maximum(low, x), high),
        has_corners=True,
        decides=lambda y, low, x, high: (x > low, x > high),
    ),
    "sign": Row(  # which keeps the sign of a zero
        _plain("sign"),
        lambda x: np.where(x == 0, x, np.sign(x)),
        real=True,
        zeros=Zeros.KEPT,
        is_flat=flat,
        decides=lambda y, x: (x > 0.0,),
    ),
    "floor": _steps(_plain("floor"), np.floor),
    "ceil": _steps(_plain("ceil"), np.ceil),
    "round": _steps(_round, _rounded, with_how=True),
    "rem": Row(_plain("rem"), _remainder, is_flat=flat, decides=lambda y, a, b: (jnp.floor(a / b),)),
    "nextafter": Row(is_flat=flat),
    "sort": Row(is_flat=_flat_beside, has_corners=True),
    "top_k": Row(is_flat=_flat_beside, has_corners=True),
    # copies and types
    "copy": _copies(numpy=np.array, zeros=Zeros.COPIED, is_affine=linear),
    "copy_p": _copies(zeros=Zeros.COPIED, is_affine=linear),
    "real": _copies(zeros=Zeros.KEPT, is_affine=linear),
    "imag": Row(is_affine=linear),
    "stop_gradient": _copies(numpy=lambda x: x, zeros=Zeros.KEPT, is_flat=flat),
    "reduce_precision": Row(_reduce_precision, zeros=Zeros.KEPT, is_free=True),
    "convert_element_type": Row(
        _convert,
        _converted,
        with_how=True,
        zeros=Zeros.COPIED,
        is_free=True,
        is_affine=lambda how, x: jnp.issubdtype(how, jnp.inexact),
        is_flat=lambda how, results: not jnp.issubdtype(how, jnp.inexact),
    ),
    "bitcast_convert_type": Row(_bitcast),
}
UNKNOWN = Row()
PRINTED = {name: row.node for name, row in TABLE.items() if row.node is not None}
