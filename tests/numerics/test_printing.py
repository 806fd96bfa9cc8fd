"""Printed functions: what every operation means, the same bits at every width and effort, and loops path by path."""

import fnmatch
import sys
import time
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core
from jax.extend.core import primitives

from stodyn.numerics.printing import compiling, entrywise, operations, rows, scalars
from stodyn.numerics.printing.llvm import OPERATIONS
from stodyn.numerics.printing.nodes import FOLDS, Graph, Node, reachable
from stodyn.numerics.printing.over_arrays import WORDS, Printed
from stodyn.numerics.printing.points import QUICK
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.rarely import rarely

pytestmark = pytest.mark.skipif(compiling.unavailable() is not None, reason="nothing can be printed here")


def same(a, b):
    """Bit by bit, where all NaN are one."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_array_equal(a, b)
    if a.dtype.kind == "f":
        finite = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[finite]), np.signbit(b[finite]))


# --- everyday constructs ----------------------------------------------------------------------------------------------

PATHS = 37
REFUSED = {
    "complex": "complex128", "linalg.solve": "lu", "linalg.inv": "lu", "cholesky": "cholesky", "sort": "sort",
    "median": "sort", "fft": "complex128", "expm": "lu",
}  # fmt: skip


@pytest.fixture(scope="module")
def on_paths():
    return np.random.default_rng(1).standard_normal((4, PATHS)) * 1.3, np.array(0.7)


@pytest.fixture(scope="module")
def ours(everyday):
    functions = {name: f for name, f in everyday.items() if name not in REFUSED}
    return Printed(functions, [np.zeros(4), np.zeros(())], common=(1,), level=0)


@pytest.fixture(scope="module")
def theirs(everyday, on_paths):
    def all_of_them(x, s):
        return {name: jax.tree.leaves(f(x, s)) for name, f in everyday.items() if name not in REFUSED}

    many = jax.vmap(all_of_them, in_axes=(-1, None), out_axes=-1, axis_size=PATHS)
    batched = jax.jit(many, compiler_options=QUICK)
    with jax.enable_x64(True):
        return batched(*on_paths)


def test_constructs_agree_with_vmap_or_are_refused_by_name(construct, everyday, ours, theirs, on_paths):
    if construct in REFUSED:
        with pytest.raises(Unprintable, match=REFUSED[construct]):
            Printed({construct: everyday[construct]}, [np.zeros(4), np.zeros(())], common=(1,))
        return
    for a, b in zip(ours(construct, *on_paths), theirs[construct], strict=True):
        assert a.dtype == b.dtype
        rtol = 1e-12 if a.dtype != np.float32 else 1e-6
        np.testing.assert_allclose(a, np.asarray(b), rtol=rtol, atol=rtol)


# --- what operations mean ---------------------------------------------------------------------------------------------

TINY, LEAST, LARGE = 2.0**-1074, 2.0**-1022, np.finfo(float).max
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.49999999999999994, 4503599627370497.5,
                    1e300, -1e300, LARGE, TINY, -TINY, LEAST, np.inf, -np.inf, np.nan])  # fmt: skip
X, Y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))


def whole_part_to_even(x):
    return np.rint(x)


def away_from_zero(x):
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), np.copysign(whole, x))


def larger(x, y):
    """NaN wins, and +0 over -0."""
    zeros = (x == 0) & (y == 0)
    return np.where(zeros, np.where(np.signbit(x) & np.signbit(y), -0.0, 0.0), np.maximum(x, y))


# primitive, as JAX binds it -> what it is of real numbers
REAL = {
    "add": (lax.add, np.add),
    "sub": (lax.sub, np.subtract),
    "mul": (lax.mul, np.multiply),
    "div": (lax.div, np.divide),
    "div by 2 or 1": (lambda x, y: x / jnp.where(y > 0, 2.0, 1.0), lambda x, y: x / np.where(y > 0, 2.0, 1.0)),
    "div by powers of two": (
        lambda x, y: x / jnp.where(y > 0, 2.0**1023, -0.25),  # the inverse of the first is not a normal number
        lambda x, y: x / np.where(y > 0, 2.0**1023, -0.25),
    ),
    "rem": (lax.rem, np.fmod),
    "max": (lax.max, larger),
    "min": (lax.min, lambda x, y: -larger(-x, -y)),
    "eq": (lax.eq, np.equal),
    "ne": (lax.ne, np.not_equal),
    "lt": (lax.lt, np.less),
    "le": (lax.le, np.less_equal),
    "gt": (lax.gt, np.greater),
    "ge": (lax.ge, np.greater_equal),
    "neg": (lambda x, y: lax.neg(x), lambda x, y: np.negative(x)),
    "abs": (lambda x, y: lax.abs(x), lambda x, y: np.abs(x)),
    "sign": (lambda x, y: lax.sign(x), lambda x, y: np.where((x == 0) | np.isnan(x), x, np.copysign(1.0, x))),
    "floor": (lambda x, y: lax.floor(x), lambda x, y: np.floor(x)),
    "ceil": (lambda x, y: lax.ceil(x), lambda x, y: np.ceil(x)),
    "round to even": (
        lambda x, y: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        lambda x, y: whole_part_to_even(x),
    ),
    "round away": (lambda x, y: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), lambda x, y: away_from_zero(x)),
    "sqrt": (lambda x, y: lax.sqrt(x), lambda x, y: np.sqrt(x)),
    "rsqrt": (lambda x, y: lax.rsqrt(x), lambda x, y: 1.0 / np.sqrt(x)),
    "square": (lambda x, y: lax.square(x), lambda x, y: x * x),
    "is_finite": (lambda x, y: lax.is_finite(x), lambda x, y: np.isfinite(x)),
    "integer_pow 3": (lambda x, y: lax.integer_pow(x, 3), lambda x, y: x * (x * x)),
    "integer_pow -2": (lambda x, y: lax.integer_pow(x, -2), lambda x, y: 1.0 / (x * x)),
    "integer_pow 0": (lambda x, y: lax.integer_pow(x, 0), lambda x, y: np.ones_like(x)),
    "clamp": (lambda x, y: lax.clamp(-1.0, x, 2.0), lambda x, y: np.minimum(np.maximum(-1.0, x), 2.0)),
    "select_n": (lambda x, y: lax.select(x < y, x, y), lambda x, y: np.where(x < y, x, y)),
    "reduce_max": (lambda x, y: jnp.max(jnp.stack([x, y, x])), lambda x, y: larger(larger(x, y), x)),
    "argmax": (lambda x, y: jnp.argmax(jnp.stack([x, y])), lambda x, y: np.argmax(np.stack([x, y]), axis=0)),
    "argmin": (lambda x, y: jnp.argmin(jnp.stack([x, y])), lambda x, y: np.argmin(np.stack([x, y]), axis=0)),
    "lt_to": (lambda x, y: lax.lt_to_p.bind(x, y), lambda x, y: in_total_order(x) < in_total_order(y)),
    "bitcast": (lambda x, y: lax.bitcast_convert_type(x, np.int64), lambda x, y: x.view(np.int64)),
    "0.0 x": (lambda x, y: 0.0 * x, lambda x, y: 0.0 * x),
    "x + 0.0": (lambda x, y: x + 0.0, lambda x, y: x + 0.0),
    "x - 0.0": (lambda x, y: x - 0.0, lambda x, y: x - 0.0),
    "0.0 - x": (lambda x, y: 0.0 - x, lambda x, y: 0.0 - x),
    "0.0 / x": (lambda x, y: 0.0 / x, lambda x, y: 0.0 / x),
    "1.0 x": (lambda x, y: 1.0 * x, lambda x, y: 1.0 * x),
    "-1.0 x": (lambda x, y: -1.0 * x, lambda x, y: -1.0 * x),
}


def in_total_order(x):
    bits = x.view(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


@pytest.fixture(scope="module")
def real():
    return Printed({name: f for name, (f, _) in REAL.items()}, [np.zeros(()), np.zeros(())], level=0)


@pytest.mark.parametrize("name", REAL)
def test_real_operations_on_special_values(name, real):
    """Every pair of 21 numbers: zeros of both signs, halves, denormals, the largest, infinities and NaN."""
    (found,) = real(name, X, Y)
    with np.errstate(all="ignore"):
        wanted = REAL[name][1](X, Y)
    if name in ("argmax", "argmin"):
        wanted = wanted.astype(found.dtype)
    if name in ("lt_to", "bitcast"):  # the sign of a NaN is the compiler's
        plain = ~(np.isnan(X) | np.isnan(Y))
        found, wanted = found[plain], wanted[plain]
    same(found, wanted)


WHOLE_TYPES = (np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64)


def towards_zero(a, b, bits, signed):
    if b == 0:
        return -1
    q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return q


def remainder(a, b, bits, signed):
    return a if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


def shift_left(a, b, bits, signed):
    return a << b if 0 <= b < bits else 0


def shift_right(a, b, bits, signed):
    return (a % 2**bits) >> b if 0 <= b < bits else 0


def shift_right_with_sign(a, b, bits, signed):
    a = a if signed or a < 2 ** (bits - 1) else a - 2**bits
    return a >> (b if 0 <= b < bits else bits - 1)


# name -> (operation, the same of Python's whole numbers, before it is wrapped into the type)
WHOLE = {
    "add": (lax.add, lambda a, b, *_: a + b),
    "sub": (lax.sub, lambda a, b, *_: a - b),
    "mul": (lax.mul, lambda a, b, *_: a * b),
    "div": (lax.div, towards_zero),
    "rem": (lax.rem, remainder),
    "max": (lax.max, lambda a, b, *_: max(a, b)),
    "min": (lax.min, lambda a, b, *_: min(a, b)),
    "and": (lax.bitwise_and, lambda a, b, *_: a & b),
    "or": (lax.bitwise_or, lambda a, b, *_: a | b),
    "xor": (lax.bitwise_xor, lambda a, b, *_: a ^ b),
    "not": (lambda x, y: lax.bitwise_not(x), lambda a, b, *_: ~a),
    "neg": (lambda x, y: lax.neg(x), lambda a, b, *_: -a),
    "sign": (lambda x, y: lax.sign(x), lambda a, b, *_: (a > 0) - (a < 0)),
    "abs": (lambda x, y: jnp.abs(x), lambda a, b, *_: abs(a)),
    "shift_left": (lax.shift_left, shift_left),
    "shift_right_logical": (lax.shift_right_logical, shift_right),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, shift_right_with_sign),
    "population_count": (lambda x, y: lax.population_count(x), lambda a, b, bits, _: (a % 2**bits).bit_count()),
    "clz": (lambda x, y: lax.clz(x), lambda a, b, bits, _: bits - (a % 2**bits).bit_length()),
    "integer_pow": (lambda x, y: lax.integer_pow(x, 3), lambda a, b, *_: a**3),
    "less": (lambda x, y: (x < y).astype(x.dtype), lambda a, b, *_: int(a < b)),
    "equal": (lambda x, y: (x == y).astype(x.dtype), lambda a, b, *_: int(a == b)),
}


@pytest.mark.parametrize("dtype", WHOLE_TYPES, ids=lambda d: d.__name__)
def test_whole_numbers_at_their_edges(dtype):
    """x/0 = -1, x % 0 = x, the least over -1 is itself, shifts by the width and more leave nothing but the sign."""
    limits, bits = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    edges = np.array([0, 1, 2, 3, 7, bits - 1, bits, 100, limits.max, limits.max - 1, limits.min, limits.min + 1,
                      *([-1, -2, -3, -7] if limits.min else [])], dtype)  # fmt: skip
    a, b = (x.ravel() for x in np.meshgrid(edges, edges))
    printed = Printed({name: f for name, (f, _) in WHOLE.items()}, [dtype(0), dtype(0)], level=0)
    for name, (_, meaning) in WHOLE.items():
        (found,) = printed(name, a, b)
        exact = [meaning(int(x), int(y), bits, limits.min < 0) % 2**bits for x, y in zip(a, b, strict=True)]
        wanted = np.array(exact, np.uint64).astype(f"uint{bits}").view(dtype)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{name} of {dtype.__name__}")


TYPES = ("float64", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def converted(x, dtype):
    """By the definition: towards zero and saturating, NaN to 0; whole numbers wrap; truth is whatever is not zero."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu" and x.dtype.kind == "f":
        least, largest = (int(limit) for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max))
        inside = [0 if v != v else largest if v >= largest else least if v <= least else int(v) for v in x.tolist()]
        return np.array(inside, dtype)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def test_conversions_saturate_wrap_and_round():
    reals = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.5, 255.5, 256.0, -129.0, 2.0**31 - 0.5, 2.0**31, -(2.0**31) - 1,
             2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300, 1e-300, 1.0 + 2.0**-25, np.inf, -np.inf,
             np.nan]  # fmt: skip
    whole = [0, 1, 127, 128, 255, 300, -1, 2**31 - 1, 2**53 + 1]
    for given in ("float64", "float32", "int64", "int32", "uint8", "bool"):
        with np.errstate(over="ignore"):
            x = np.array(reals, given) if "float" in given else np.array(whole).astype(given)
        printed = Printed({to: lambda v, to=to: v.astype(to) for to in TYPES}, [np.zeros((), given)], level=0)
        for to in TYPES:
            same(printed(to, x)[0], converted(x, to))


OF_REALS, OF_WORDS = {"sqrt", "floor", "ceil", "round_even", "round_away"}, {"and", "or", "xor", "not"}
COMPARED, UNARY = {"eq", "ne", "lt", "le", "gt", "ge"}, OF_REALS | {"neg", "abs", "sign", "not"}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint32", "int8"])
def test_numbers_known_beforehand_give_the_bits_of_those_that_are_not(dtype):
    """Each operation that is done while printing, at special numbers, beside its machine code."""
    dtype, skipped = np.dtype(dtype), {"select"}
    if dtype.kind == "f":
        values, skipped = [0.0, -0.0, 1.5, -2.5, 0.5, 3.0, 1e30, np.inf, -np.inf, np.nan, 1e-40], skipped | OF_WORDS
    else:
        limits, skipped = np.iinfo(dtype), skipped | OF_REALS
        values = [0, 1, 3, 7, limits.max, limits.min, limits.min + 1]
    x, y = (a.ravel() for a in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    graph, frame = Graph(), [*WORDS, "given"]
    first, second = scalars.inputs_of(graph, "given", (2,), dtype)
    asked = [op for op in FOLDS if op not in skipped]
    kinds = [np.dtype(bool) if op in COMPARED else dtype for op in asked]
    computed = [graph.intern(op, kind, (first,) if op in UNARY else (first, second))
                for op, kind in zip(asked, kinds, strict=True)]  # fmt: skip
    written = rows.mapped("f", 2, computed, kinds, frame)
    machine = compiling.compiled(rows.module([written]), ["f"], 0)
    given = np.stack([x, y]).astype(float if dtype.kind == "f" else np.int64)
    out, words = np.zeros((len(asked), x.size)), rows.Frame(frame)
    words.set(first_lane=0, last_lane=x.size // 2 * 2, stride=x.size, results=out, given=given)
    machine["f"](words.address)
    for op, kind, row in zip(asked, kinds, out, strict=True):
        with np.errstate(all="ignore"):
            arguments = [(a,) if op in UNARY else (a, b) for a, b in zip(x, y, strict=True)]
            known = np.array([np.asarray(FOLDS[op](*args), kind)[()] for args in arguments])
        found = row.astype(kind) if kind.kind == "f" else row.view(np.int64).astype(kind)
        used = slice(0, x.size // 2 * 2)
        same(found[used], known[used])


def test_every_operation_of_the_table_is_folded_or_computed():
    """What a graph may hold has an instruction."""
    assert set(FOLDS) <= set(OPERATIONS)


# --- one rounding -----------------------------------------------------------------------------------------------------


def exact(a, b, c):
    return np.array([float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)])


def test_a_product_and_an_addition_are_rounded_once():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 400))
    c = -a * b * (1 + rng.choice([0.0, 1e-16, 1.0], 400))  # cancellation shows the rounding of the product
    forms = {
        "a b + c": (lambda a, b, c: a * b + c, exact(a, b, c)),
        "c + a b": (lambda a, b, c: c + a * b, exact(a, b, c)),
        "a b - c": (lambda a, b, c: a * b - c, exact(a, b, -c)),
        "c - a b": (lambda a, b, c: c - a * b, exact(-a, b, c)),
        "two readers": (lambda a, b, c: (a * b + c) * (a * b), (a * b + c) * (a * b)),
    }
    printed = Printed({name: f for name, (f, _) in forms.items()}, [np.zeros(())] * 3, passes=3, level=3)
    for name in forms:
        same(printed(name, a, b, c)[0], forms[name][1])
    one, product = Printed({"f": lambda a, b, c: (a * b + c, a * b)}, [np.zeros(())] * 3)("f", a, b, c)
    same(product, a * b)
    same(one, a * b + c)

    def of_a_loop(a, b, c):
        """A loop begins with the product, and of its results only another is asked for."""
        left = lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] + 1.0, s[1] + 1), (a * b, 0))
        return left[1], a * b + c

    same(Printed({"f": of_a_loop}, [np.zeros(())] * 3)("f", a, b, c)[1], a * b + c)
    assert not np.array_equal(exact(a, b, c), a * b + c), "the numbers tell one rounding from two"


# --- drift and noise with a common factor -----------------------------------------------------------------------------


def exactly(entry, values):
    """The number of a sum of products, without rounding."""
    if not isinstance(entry, Node):
        return Fraction(float(entry))
    if entry.op in ("input", "literal"):
        return values[entry.attr] if entry.op == "input" else Fraction(float(entry.attr))
    a, *b = (exactly(argument, values) for argument in entry.args)
    return {"neg": lambda: -a, "add": lambda: a + b[0], "sub": lambda: a - b[0], "mul": lambda: a * b[0]}[entry.op]()


def entered(form, noise=True):
    """A form as nodes, its value by the nodes, and its value by the form itself; noise is z and w."""
    graph = Graph()
    nodes = {name: graph.input(name, "float64", noise=noise and name in "zw") for name in "xypzw"}
    nodes |= {name: graph.input(name, "float64", lane=False) for name in "hb"}
    values = {name: Fraction(k * k + 3, 7 + k) for k, name in enumerate(nodes)}

    class Symbol:
        def __init__(self, entry):
            self.entry = entry

        def __mul__(self, other):
            return Symbol(graph.make("mul", "float64", self.entry, other.entry))

        def __add__(self, other):
            return Symbol(graph.make("add", "float64", self.entry, other.entry))

        def __neg__(self):
            return Symbol(graph.make("neg", "float64", self.entry))

    entry = form(**{name: Symbol(node) for name, node in nodes.items()}).entry
    return entry, exactly(entry, values), form(**values)


PROPORTIONAL = {
    "drift before noise": lambda x, h, b, z, **_: h * x + (b * x) * z,
    "noise before drift": lambda x, h, b, z, **_: z * (x * b) + x * h,
    "negative": lambda x, h, b, z, **_: h * -x + (b * -x) * z,
    "drift negative": lambda x, h, b, z, **_: -(h * x) + z * (b * x),
    "noise negative": lambda x, h, b, z, **_: h * x + -(z * (b * x)),
    "noise with two signs": lambda x, h, b, z, **_: h * x + -(-z * (b * x)),
    "a scaled normal": lambda x, h, b, z, **_: h * x + (b * x) * (h * z),
    "noise alone": lambda x, b, z, w, **_: (b * x) * z + x * w,
    "two channels": lambda x, h, b, z, w, **_: (h * x + (b * x) * z) + x * w,
}
APART = {
    "other factors": lambda x, y, h, b, z, **_: h * x + (b * y) * z,
    "no noise": lambda x, h, b, p, **_: h * x + (b * x) * p,
    "two factors": lambda x, y, h, b, z, **_: (h * x) * y + (x * y) * (b * z),
    "no factor": lambda h, b, z, w, **_: h * z + b * w,
    "no product": lambda x, b, z, **_: x + (b * x) * z,
}


@pytest.mark.parametrize("name", PROPORTIONAL)
def test_a_common_factor_of_drift_and_noise_is_taken_out(name):
    entry, value, wanted = entered(PROPORTIONAL[name])
    assert value == wanted
    entry = entry.args[0] if entry.op == "neg" else entry
    assert entry.op == "mul" and any(a.op == "input" and a.attr == "x" for a in entry.args)
    assert {"x"}.isdisjoint(n.attr for a in entry.args if a.op != "input" for n in reachable([a]))


@pytest.mark.parametrize("name", APART)
def test_other_sums_stay_as_they_are_written(name):
    entry, value, wanted = entered(APART[name])
    assert value == wanted and entry.op == "add"
    entry, value, wanted = entered(PROPORTIONAL["drift before noise"], noise=False)
    assert value == wanted and entry.op == "add"


def test_stages_share_the_sum_of_step_and_noise():
    """Heun on an oscillator with a fluctuating clock, both components added up to have one result."""

    def heun(x, y, h, b, z, **_):
        def pushed(u):
            return h * u + (b * u) * z

        ahead = x + pushed(y), y + -pushed(x)
        return (pushed(y) + pushed(ahead[1])) + -(pushed(x) + pushed(ahead[0]))

    entry, value, wanted = entered(heun)
    assert value == wanted
    operations = Counter(node.op for node in reachable([entry]) if node.lane)
    assert operations["mul"] == 1 + 4  # b z, and one of each component and stage
    assert operations["neg"] == 0


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_signs_of_noise_go_to_what_it_is_added_to(first, second):
    """Whichever of two terms with noise, and whatever else, is negative: no sign of theirs is left but that of all."""

    def form(x, y, p, h, b, z, **_):
        one, other = h * x + (b * x) * z, h * y + (b * y) * z
        return (p + (-one if first else one)) + ((-one if first else one) + (-other if second else other)) * p

    entry, value, wanted = entered(form)
    assert value == wanted
    assert sum(node.op == "neg" for node in reachable([entry])) == (first and second)


# --- the same bits ----------------------------------------------------------------------------------------------------


def of_everything(x, k):
    def turn(carry):
        y, count = carry
        return 0.5 * (y + (1 + x[0] ** 2) / y), count + 1

    root, turns = lax.while_loop(lambda c: (jnp.abs(c[0] ** 2 - 1 - x[0] ** 2) > 1e-13) & (c[1] < 60), turn, (1.0, 0))
    waves = jnp.sin(x) * jnp.cos(3 * x[::-1]) + jnp.exp(-x) * jnp.tanh(x) + jnp.log1p(x * x)
    powers = jnp.abs(x) ** 1.7 + jnp.arctan2(x, x[::-1]) + jax.scipy.special.erf(x)
    index = (k // 3 + k % 5) & 3

    def seldom(y):
        deeper = rarely(x[3] > 0, lambda y: (jnp.exp(y[0] * 0.3) + waves, y[1] + turns), y)
        return deeper[0] * 1.1 + x[2], deeper[1] - k

    return (
        *(waves * root, powers @ x, turns, x[index], lax.cond(x[1] > 0, lambda: x * x[2] + x[3], lambda: -x)),
        *rarely(~(x[0] < 1.5), seldom, (powers, k)),
    )


EFFORTS = [(2, 1, 0), (8, 1, 0), (16, 1, 0), (32, 0, 0), (4, 0, 0), (4, 3, 0), (4, 3, 3), (2, 3, 3)]


@pytest.fixture(scope="module")
def reference():
    rng = np.random.default_rng(8)
    x, k = rng.standard_normal((4, 64)) * 2, rng.integers(-9, 9, 64)
    x[:, 5], x[0, 9], x[1, 11] = np.nan, np.inf, 1e6
    return x, k, Printed({"f": of_everything}, [np.zeros(4), 0], width=4)("f", x, k)


@pytest.mark.brief("2-1-0", "16-1-0", "4-0-0", "4-3-3")
@pytest.mark.parametrize(("width", "level", "passes"), EFFORTS)
def test_bits_depend_on_neither_width_nor_effort(width, level, passes, reference):
    x, k, wanted = reference
    for a, b in zip(
        Printed({"f": of_everything}, [np.zeros(4), 0], (), width, level, passes)("f", x, k), wanted, strict=True
    ):
        same(a, b)


def test_a_bad_path_leaves_its_neighbours_alone(reference):
    x, k, with_bad = reference
    good = x.copy()
    good[:, 5], good[0, 9], good[1, 11] = 0.3, 0.1, 0.2
    for a, b in zip(with_bad, Printed({"f": of_everything}, [np.zeros(4), 0], width=4)("f", good, k), strict=True):
        others = np.delete(np.arange(64), [5, 9, 11])
        same(a[..., others], b[..., others])


# --- loops ------------------------------------------------------------------------------------------------------------


def collatz(n):
    """Steps to 1, each path its own."""

    def turn(carry):
        n, steps = carry
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

    return lax.while_loop(lambda c: c[0] != 1, turn, (n, 0))[1]


def nested(n):
    """Σ of the Collatz steps of 1, ..., n: a loop in a loop, both of lengths of their own."""
    return lax.while_loop(lambda c: c[0] <= n, lambda c: (c[0] + 1, c[1] + collatz(c[0])), (1, 0))[1]


def steps(n):
    count = 0
    while n != 1:
        n, count = n // 2 if n % 2 == 0 else 3 * n + 1, count + 1
    return count


def never_entered(n):
    """Inside, a loop that counts very long: computed where a path enters, and only there."""
    inner = lambda c: lax.fori_loop(0, 2_000_000_000, lambda i, y: y * 1.0000001 + 1e-9, c)  # noqa: E731
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, inner(c[1])), (100, 1.0))[1]


LOOPS = {
    "collatz": collatz,
    "nested": nested,
    "never entered": never_entered,
    "counted": lambda n: lax.fori_loop(0, 7000, lambda i, y: 0.999 * y + 0.001 * i, n * 1.0),
    "written out": lambda n: lax.fori_loop(0, 7, lambda i, y: 0.5 * y + i, n * 1.0),
    "several": lambda n: jax.vmap(collatz)(jnp.stack([n, n + 1, 2 * n])),
    "nothing moves": lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1]), (0, n * 2))[1],
    "switch": lambda n: lax.switch(n - 3, [lambda: n, lambda: -n, lambda: 10 * n]),
}


@pytest.fixture(scope="module")
def loops():
    return Printed(LOOPS, [0], level=1)


COUNTS = np.arange(1, 31)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("collatz", [steps(n) for n in COUNTS]),
        ("nested", np.cumsum([steps(n) for n in COUNTS])),
        ("several", [[steps(n) for n in COUNTS], [steps(n + 1) for n in COUNTS], [steps(2 * n) for n in COUNTS]]),
        ("nothing moves", 2 * COUNTS),
        ("switch", [n if n <= 3 else -n if n == 4 else 10 * n for n in COUNTS]),
    ],
)
def test_every_path_goes_through_loops_by_itself(name, wanted, loops):
    np.testing.assert_array_equal(loops(name, COUNTS)[0], wanted)


@pytest.mark.parametrize(
    ("name", "turns", "decay", "slope"), [("counted", 7000, 0.999, 0.001), ("written out", 7, 0.5, 1)]
)
def test_loops_of_known_length(name, turns, decay, slope, loops):
    wanted = COUNTS * 1.0
    for i in range(turns):
        wanted = decay * wanted + slope * i
    np.testing.assert_allclose(loops(name, COUNTS)[0], wanted, rtol=1e-12)


def test_a_loop_that_nobody_enters_computes_nothing(loops):
    began = time.thread_time()
    np.testing.assert_array_equal(loops("never entered", COUNTS)[0], 1.0)
    assert time.thread_time() - began < 1.0


# --- zeros ------------------------------------------------------------------------------------------------------------


def test_zeros_of_derivatives_are_exact_and_written_ones_are_not():
    functions = {
        "derivative": jax.jacfwd(lambda x: x**2 * jnp.array([1.0, 2.0])),
        "written": lambda x: 0.0 * x,
        "behind a name": lambda x: jnp.float64(0.0) * x + x,
    }
    printed = Printed(functions, [np.zeros(2)])
    x = np.array([[np.inf, 1.0], [2.0, np.nan]])
    same(printed("derivative", x)[0], np.array([[2 * x[0], [0.0, 0.0]], [[0.0, 0.0], 4 * x[1]]]))
    same(printed("written", x)[0], np.array([[np.nan, 0.0], [0.0, np.nan]]))
    same(printed("behind a name", x)[0], np.array([[np.nan, 1.0], [2.0, np.nan]]))


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (jnp.sort, "primitive sort is not among"),
        (lambda x: jnp.linalg.slogdet(jnp.outer(x, x) + jnp.eye(4))[1], "primitive lu is not among"),
        (lambda x: jnp.abs(jnp.exp(1j * x)), "complex128"),
        (lambda x: jnp.fft.rfft(x).real, "fft gives numbers of type complex128"),
        (lambda x: x + jax.random.normal(jax.random.key(0)), "random_seed"),
        (lambda x: x + jax.random.normal(jax.random.PRNGKey(0)), "random_seed"),
        (lax.cumlogsumexp, "primitive cumlogsumexp is not among"),
        (lambda x: jnp.asarray(np.linspace(0, 1, 999))[jnp.int32(x[0])], "more than 256 positions"),
        (lambda x: jax.pure_callback(np.sin, x, x), "primitive pure_callback is not among"),
    ],
)
def test_what_cannot_be_printed_is_named(function, said):
    with pytest.raises(Unprintable, match=said):
        Printed({"f": function}, [np.zeros(4)])


class Doubled:
    """An operation that is equal to itself of other operands and has no hash, as some are that JAX keeps whole."""

    __hash__ = None

    def __init__(self, shape):
        self.in_avals_flat = [jax.core.ShapedArray(shape, np.dtype(float))]
        self.in_tree = jax.tree.structure((0.0,))

    def expand(self, x):
        return 2.0 * x

    def __eq__(self, other):
        return isinstance(other, Doubled)


def test_an_operation_kept_whole_is_opened_for_its_own_operands():
    for shape in ((3,), ()):
        equation = SimpleNamespace(params={"_prim": Doubled(shape)})
        assert operations.opened(equation).out_avals[0].shape == shape


def written_out(name, *numbers):
    """What the rule of a primitive, whether this JAX has it or not, makes of known numbers."""
    return entrywise.PRINTED[name](Graph(), np.dtype(float), None, *map(np.float64, numbers))


def test_primitives_of_later_versions():
    x = 1.0 - 2.0**-30  # whose square is rounded
    assert written_out("one_minus_square", x) == float(1 - Fraction(x) ** 2)
    assert written_out("polynomial", 3.0, 1.0, 5.0, 2.0) == 34.0
    graph = Graph()
    x = graph.input("x", float)
    quotient = entrywise.PRINTED["log2"](graph, np.dtype(float), None, x)
    logarithm, base = quotient.args
    assert (quotient.op, logarithm.op, logarithm.args, base) == ("div", "log", (x,), np.log(2.0))


# Of other versions of JAX than this one.
ELSEWHERE = {
    "execute_instructions",  # a primitive of ours: numerics/instructions.py
    "one_minus_square",
    "log2",
    "polynomial",
    "call_hi_primitive",
    "checkpoint",
    "closed_call",
    "copy_p",
    "core_call",
    "custom_vjp_call_jaxpr",
    "expand_dims",
    "pjit",
}
# The primitives of all versions of JAX that have been tried which make a function fall back, by the reason; any letters
# may take the place of a *.
NOT_PRINTED = {
    "complex numbers": "complex conj imag fft",
    "matrices taken apart or solved by LAPACK": "cholesky cholesky_update eig eigh hessenberg geqp3 geqrf "
    "householder_product lu lu_pivots_to_permutation ormqr qr schur svd symmetric_product triangular_solve "
    "tridiagonal tridiagonal_solve",
    "special functions without code of ours": "bessel_i0e bessel_i1e igamma igamma_grad_a igammac polygamma "
    "random_gamma regularized_incomplete_beta zeta",
    "order among entries": "approx_top_k sort top_k",
    "windows and convolutions": "conv_general_dilated reduce_window reduce_window_max reduce_window_min "
    "reduce_window_sum select_and_gather_add select_and_scatter select_and_scatter_add",
    "reductions other than sums, products and extremes": "cumlogsumexp reduce",
    "random numbers that a method did not draw": "random_bits random_fold_in random_seed random_split "
    "rng_bit_generator rng_uniform threefry2x32",
    "words of whole numbers, and numbers of few bits": "mulhi nextafter ragged_dot_general scaled_dot *_edtype",
    "several devices, and places of arrays": "all_gather* all_to_all* axis_index device_put pbroadcast* pmax pmin "
    "ppermute* precv preduced psend psum* ragged_all_to_all reduce_scatter* sharding_constraint unreduced_* "
    "vary_unreduced_cast*",
    "effects, and memory that is written to": "after_all create_token dce_sink empty2 get program_order swap tie",
    "for JAX's transformations and other compilers": "call composite custom_lin name stage",
}


def primitives_of_jax():
    """The names of those that JAX offers, and of those that its operations on arrays have for themselves."""
    own = [module for name, module in sys.modules.items() if name.startswith("jax._src.lax.")]
    homes = (primitives, lax, lax.linalg, *own)
    return {p.name for home in homes for p in vars(home).values() if isinstance(p, core.Primitive)}


def test_every_primitive_of_this_jax_is_printed_or_is_known_not_to_be():
    """What a new version of JAX brings is to be written into a table of the printer, or above with the reason."""
    printed = operations.CALLS.union(entrywise.PRINTED, operations.READ)  # kinds: see the tests of loops
    refused = " ".join(NOT_PRINTED.values()).split()
    others = sorted(primitives_of_jax() - printed)
    new = [name for name in others if not any(fnmatch.fnmatchcase(name, pattern) for pattern in refused)]
    assert not new, f"JAX {jax.__version__} has primitives that are neither printed nor in NOT_PRINTED: {new}"
    assert not printed.intersection(refused)


def test_every_name_in_the_tables_is_one_of_this_jax():
    """JAX calls some primitives anew from time to time; the tables go by name."""
    examples = [
        lambda x: jnp.split(x, 2), lambda x: jnp.stack([x, x]), lambda x: lax.optimization_barrier(x),
        lambda x: jax.checkpoint(jnp.sin)(x), lambda x: jnp.tile(x, 3), lambda x: x.at[0].subtract(1.0),
        lambda x: jax.custom_batching.sequential_vmap(jnp.sin)(x), lambda x: jax.random.split(jax.random.key(0)),
        lambda x: jax.random.key_data(jax.random.wrap_key_data(np.zeros(2, np.uint32))), lambda x: [*x],
        lambda x: jnp.unstack(x),
    ]  # fmt: skip
    named = primitives_of_jax()

    for example in examples:
        named |= {e.primitive.name for e in operations.equations_of(jax.make_jaxpr(example)(np.zeros(4)).jaxpr)}
    tables = (entrywise.PRINTED, operations.READ, scalars.RANDOM)
    ours = operations.CALLS.union(*tables)
    assert sorted(ours - named - ELSEWHERE) == []


@pytest.mark.parametrize("width", [1, 4])
def test_sin_and_cos_of_one_number_have_the_bits_they_have_alone(width):
    """Printed together, in a loop too, also beyond 2³⁰ and for NaN and zeros of both signs."""
    x = np.concatenate([np.linspace(-30.0, 30.0, 41), [0.0, -0.0, np.nan, np.inf, 3e11, -7e200, 1e-300]])
    together = {"both": lambda x: (jnp.sin(x), jnp.cos(x)), "looped": lambda x: lax.fori_loop(
        0, 3, lambda k, s: (jnp.cos(s[0] + x), jnp.sin(s[0] + x)), (x, x))}  # fmt: skip
    alone = {
        "sin": jnp.sin,
        "cos": jnp.cos,
        "shifted": lambda x, y: jnp.sin(x + y),
        "other": lambda x, y: jnp.cos(x + y),
    }
    printed = Printed(together, [np.float64(0)], width=width)
    single = Printed({name: alone[name] for name in ("sin", "cos")}, [np.float64(0)], width=width)
    sums = Printed({name: alone[name] for name in ("shifted", "other")}, [np.float64(0)] * 2, width=width)
    sine, cosine = printed("both", x)
    same(sine, single("sin", x)[0])
    same(cosine, single("cos", x)[0])
    now = x
    for _ in range(3):
        now, last = sums("other", now, x)[0], sums("shifted", now, x)[0]
    found = printed("looped", x)
    same(found[0], now)
    same(found[1], last)
