"""Elementary functions of W numbers at once as LLVM text: the same bits for every W, level of LLVM and processor.

    exp x    = 2^k (1 + r + r² E(r))                        x = k ln 2 + r
    log x    = k ln 2 + 2 artanh s                          x = 2^k (1 + f), s = f / (2 + f)
    sin, cos = of r, by the last bits of k                  x = k π/2 + r; beyond 2^30: large_angles
    atan y/x = t + t³ A(t²)                                 t = min / max of |x|, |y|
    erfc a   = exp(-a²) C(t) / (1 + 2a)                     t = (a - 4) / (a + 4)
    x^y      = exp(y log x), the logarithm in two doubles

All other functions stand on these. A number in two parts, (high, low), is an unevaluated sum. No library is called.
Errors in units of the last place against mpmath: see tests/numerics/test_elementary.py. Special values are IEEE's.
Polynomials: benchmarks/fit_elementary.py.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from math import inf, nan
from typing import NamedTuple, TypeAlias, TypeVar

from stodyn.numerics.printing import coefficients as c
from stodyn.numerics.printing import large_angles
from stodyn.numerics.printing.vectors import (
    PURE,
    Code,
    Table,
    Value,
    copysign,
    fast_two_sum,
    fma,
    name_of,
    polynomial,
    quotient,
    select,
    sqrt,
    two_product,
    two_sum,
)

SHIFT = 1.5 * 2.0**52  # added to a number, it leaves the nearest whole one in the low bits
EXPONENT = 52  # where a double's exponent begins
ONE = 1023 << EXPONENT  # the word of 1.0
ROOT_HALF = 0x3FE6A09E667F3BCD  # the word of √½
SMALLEST = 2.0**-1022  # of the normal numbers
SIN_AND_COS = "sin_and_cos"


Written: TypeAlias = Value | list[Value]  # one result, or several
Rule = TypeVar("Rule", bound=Callable[..., Written])


class Function(NamedTuple):
    write: Callable[..., Written]
    arguments: int
    cold: bool


_ALL: dict[str, Function] = {}


def function(arguments: int = 1, cold: bool = False, name: str | None = None) -> Callable[[Rule], Rule]:
    """Register a rule for writing a function; a cold one is called by others off their common path."""

    def enter(write: Rule) -> Rule:
        _ALL[name or write.__name__.strip("_")] = Function(write, arguments, cold)
        return write

    return enter


def call_name(name: str, width: int) -> str:
    """The symbol, without its @, of a function of vectors of `width` numbers; of width 1 it takes plain doubles."""
    return name_of(name, width)


def arguments(name: str) -> int:
    """How many numbers the function takes."""
    return _ALL[name].arguments


def definitions(
    names: Iterable[str], width: int, attributes: str = "", tabled: bool | None = None, inlined: bool = False
) -> str:
    """The LLVM text of the functions `names`, and of all they call, on `width` numbers; nothing else is needed.

    A function is `double @sd_exp_v1(double)`, `<4 x double> @sd_exp_v4(<4 x double>)`, ...; `attributes` (of the
    processor, such as "prefer-vector-width"="512") are written behind each. Constants are literals, or `tabled` in
    memory where that is faster (ARM); common paths may be `inlined`, as GPUs like it. The texts of several widths may
    stand in one module.
    """
    unknown = sorted(set(names) - NAMES - {SIN_AND_COS})
    if unknown:
        raise ValueError(f"names: {unknown} are not among the elementary functions: {', '.join(sorted(NAMES))}")
    if tabled is None:
        tabled = platform.machine().lower() in ("aarch64", "arm64")
    table = Table(call_name("constants", width)) if tabled else None
    texts: dict[str, str] = {}
    waiting = sorted(set(names))
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        if name == large_angles.NAME:
            texts[name] = large_angles.text(width, attributes)
            continue
        entry = _ALL[name]
        kind = "noinline cold " if entry.cold else "alwaysinline " if inlined else ""
        more = f"{PURE} {kind}{attributes}".strip()
        code = Code(width, call_name(name, width), entry.arguments, more, table)
        results = entry.write(*code.arguments)
        texts[name] = code.text(results if isinstance(results, list) else [results])
        waiting += code.needs
    head = table.text() + "\n" if table is not None else ""
    return head + "\n\n".join(texts[name] for name in sorted(texts)) + "\n"


# Powers of two


def _power_of_two(k: Value) -> Value:
    """2^k of a word k, -1022 <= k <= 1023."""
    return ((k + 1023) << EXPONENT).real


def _nearest(x: Value, scale: float) -> tuple[Value, Value]:
    """The whole number next to x scale, and words whose low 51 bits are its own."""
    shifted = fma(x, scale, SHIFT)
    return shifted - SHIFT, shifted.bits


def _scaled(value: Value, k: Value) -> Value:
    """value 2^k for a real whole |k| < 2100, in two factors: right at overflow and down to the denormals."""
    shifted = fma(k, 0.5, SHIFT)
    rest = (k - (shifted - SHIFT)) + SHIFT
    first, second = (((s.bits << EXPONENT) + ONE).real for s in (shifted, rest))
    return value * first * second


# exp and its relatives


def _reduced(x: Value, low: Value | None = None) -> tuple[Value, Value, Value, Value]:
    """(r, tail, k, words): exp(x + low) = 2^k (1 + r + tail), |r| <= 0.35; the words' low bits are k."""
    k, words = _nearest(x, c.LOG2_E[0])
    near = fma(k, -c.LN2[0], x)  # exact
    r = fma(k, -c.LN2[1], near)
    lost = fma(k, -c.LN2[1], near - r)
    if low is not None:
        r, lost = fast_two_sum(r, lost + low)
    return r, fma(r * r, polynomial(c.EXP, r), fma(lost, r, lost)), k, words


def _clipped(x: Value, low: float, high: float) -> Value:
    """x held between two bounds; NaN stays."""
    x = select(x < low, low, x)
    return select(x > high, high, x)


def _short_exp(x: Value) -> tuple[Value, Value, Value]:
    """(value, k, words) of exp x = value 2^k, in one double."""
    k, words = _nearest(x, c.LOG2_E[0])
    r = fma(k, -c.LN2[1], fma(k, -c.LN2[0], x))
    return fma(r, fma(r, polynomial(c.EXP, r), 1.0), 1.0), k, words


@function()
def exp(x: Value) -> Written:
    value, _, words = _short_exp(x)
    common = (value.bits + (words << EXPONENT)).real
    return x.code.unless(~x.within(708.0), [common], "any_exp", x)


@function(cold=True)
def any_exp(x: Value) -> Written:
    value, k, _ = _short_exp(_clipped(x, -746.0, 710.0))
    return _scaled(value, k)


@function()
def exp2(x: Value) -> Written:
    x = _clipped(x, -1080.0, 1025.0)
    k, _ = _nearest(x, 1.0)
    r = x - k
    t, low = two_product(r, c.LN2_FINE[0])
    low = fma(r, c.LN2_FINE[1], low)
    tail = fma(t * t, polynomial(c.EXP, t), fma(low, t, low))
    return _scaled(1.0 + (t + tail), k)


def _quarter_expm1(x: Value) -> tuple[Value, Value]:
    """(exp x - 1) / 4 in two parts, -60 <= x < 711; a quarter, to stay finite where sinh is."""
    r, tail, _, words = _reduced(x)
    quarter = ((words << EXPONENT) + (ONE - (2 << EXPONENT))).real
    less = quarter - 0.25
    lost = (quarter - less) - 0.25
    high, low = two_sum(less, quarter * r)
    return fast_two_sum(high, low + fma(quarter, tail, lost))


@function()
def expm1(x: Value) -> Written:
    high, _ = _quarter_expm1(_clipped(x, -60.0, 710.0))
    return select(x.within(2.0**-54), x, copysign(4.0 * high, x))


@function()
def sinh(x: Value) -> Written:
    """(e + e / (1 + e)) / 2 of e = exp |x| - 1."""
    high, low = _quarter_expm1(_clipped(abs(x), 0.0, 710.5))
    bottom, lost = two_sum(0.25, high)
    ratio = quotient(high, low, bottom, lost + low)
    total, rest = two_sum(high, 0.25 * ratio)
    return select(x.within(2.0**-28), x, copysign(2.0 * (total + (rest + low)), x))


@function()
def cosh(x: Value) -> Written:
    """(e + 1 / e) / 2 of e = exp |x|."""
    r, tail, _, words = _reduced(_clipped(abs(x), 0.0, 710.5))
    quarter = ((words << EXPONENT) + (ONE - (2 << EXPONENT))).real
    high, low = fast_two_sum(1.0, r)
    high, low = quarter * high, quarter * (low + tail)
    total, rest = fast_two_sum(high, 0.0625 / (high + low))
    return 2.0 * (total + (rest + low))


@function()
def tanh(x: Value) -> Written:
    """e / (e + 2) of e = exp 2|x| - 1."""
    a = _clipped(abs(x), 0.0, 22.0)
    high, low = _quarter_expm1(a + a)
    bottom, lost = two_sum(0.5, high)
    return select(x.within(2.0**-28), x, copysign(quotient(high, low, bottom, lost + low), x))


@function()
def logistic(x: Value) -> Written:
    """1 / (1 + e) for positive x, e / (1 + e) for negative, of e = exp(-|x|)."""
    r, tail, k, _ = _reduced(_clipped(-abs(x), -746.0, 0.0))
    high, low = fast_two_sum(1.0, r)
    high, low = fast_two_sum(high, low + tail)
    high, low = _scaled(high, k), _scaled(low, k)
    bottom, lost = fast_two_sum(1.0, high)
    negative = x < 0.0
    return quotient(select(negative, high, 1.0), select(negative, low, 0.0), bottom, lost + low)


# log and its relatives


def _mantissa(x: Value) -> tuple[Value, Value]:
    """(m, k) with x = 2^k m and √½ <= m < √2, of positive normal x; k is a word."""
    shifted = (x.bits - ROOT_HALF) + (2048 << EXPONENT)
    k = (shifted >> EXPONENT) - 2048
    return (x.bits - (k << EXPONENT)).real, k


def _log_of(f: Value, low: Value | float, k: Value) -> Value:
    """k ln 2 + log(1 + f + low) for √½ - 1 <= f < √2 - 1."""
    s = f / (f + 2.0)
    z = s * s
    half = (f * f) * 0.5
    inner = fma(s, fma(z, polynomial(c.LOG, z), half), fma(k, c.LN2[1], low))
    return fma(k, c.LN2[0], f - (half - inner))


@function()
def log(x: Value) -> Written:
    m, k = _mantissa(x)
    common = _log_of(m - 1.0, 0.0, k.rounded)
    return x.code.unless(~((x >= SMALLEST) & (x < inf)), [common], "any_log", x)


@function(cold=True)
def any_log(x: Value) -> Written:
    """Denormals, 0, infinity, NaN and negative numbers too."""
    small = x < SMALLEST
    m, k = _mantissa(select(small, x * 2.0**54, x))
    value = _log_of(m - 1.0, 0.0, k.rounded - select(small, 54.0, 0.0))
    value = select(x.equals(inf), x, value)
    value = select(x.equals(0.0), -inf, value)
    return select(x >= 0.0, value, select(x < 0.0, nan, x))


def _log_of_sum(high: Value, low: Value) -> Value:
    """log(high + low) for a normal high, |low| <= 2^-53 high: near 1, too, to the last place."""
    m, k = _mantissa(high)
    back = select(k < 1000, ONE - (k << EXPONENT), 0).real  # 2^-k; 0 where low no longer counts
    f, lost = two_sum(m - 1.0, low * back)
    return _log_of(f, lost, k.rounded)


@function()
def log1p(x: Value) -> Written:
    value = copysign(_log_of_sum(*two_sum(1.0, x)), x)
    value = select(x.equals(inf), x, value)
    value = select(x.equals(-1.0), -inf, value)
    value = select(x.within(2.0**-54), x, value)
    return select(x >= -1.0, value, select(x < -1.0, nan, x))


@function()
def asinh(x: Value) -> Written:
    """log(1 + a + a² / (1 + √(1 + a²))), of a = |x|; from 2^28 on log 2a."""
    a = _clipped(abs(x), 0.0, 2.0**30)
    squared = a * a
    high, low = fast_two_sum(a, squared / (1.0 + sqrt(1.0 + squared)))
    total, lost = two_sum(1.0, high)
    large = abs(x) >= 2.0**28
    far = select(large & (abs(x) < inf), abs(x), 1.0)
    value = _log_of_sum(select(large, far, total), select(large, 0.0, lost + low))
    value = select(large, value + c.LN2_FINE[0], value)
    value = select(abs(x).equals(inf), inf, value)
    value = select(x.within(2.0**-28), abs(x), value)
    return select(x.equals(x), copysign(value, x), x)


@function()
def acosh(x: Value) -> Written:
    """log(1 + t + √(t (t + 2))), of t = x - 1; from 2^28 on log 2x."""
    t = _clipped(x, 1.0, 2.0**30) - 1.0
    product, lost = two_product(t, t)
    product, more = two_sum(t + t, product)
    root = sqrt(product)
    left = fma(-root, root, product) + (lost + more)
    fine = select(root > 0.0, 0.5 * left / select(root > 0.0, root, 1.0), 0.0)
    high, low = two_sum(t, root)
    total, rest = two_sum(1.0, high)
    large = x >= 2.0**28
    far = select(large & (x < inf), x, 1.0)
    value = _log_of_sum(select(large, far, total), select(large, 0.0, rest + (low + fine)))
    value = select(large, value + c.LN2_FINE[0], value)
    value = select(x.equals(inf), x, value)
    return select(x >= 1.0, value, select(x < 1.0, nan, x))


@function()
def atanh(x: Value) -> Written:
    """log(1 + 2a / (1 - a)) / 2 of a = |x|."""
    a = _clipped(abs(x), 0.0, 1.0 - 2.0**-53)
    bottom, lost = fast_two_sum(1.0, -a)
    ratio = (a + a) / bottom
    fine = (fma(-ratio, bottom, a + a) - ratio * lost) / bottom
    total, low = two_sum(1.0, ratio)
    value = 0.5 * _log_of_sum(total, low + fine)
    value = select(abs(x).equals(1.0), inf, value)
    value = select(x.within(2.0**-28), abs(x), value)
    return select(abs(x) <= 1.0, copysign(value, x), select(abs(x) > 1.0, nan, x))


# Powers


def _log_in_two_parts(x: Value) -> tuple[Value, Value]:
    """log x, of positive finite x, to 2^-65."""
    small = x < SMALLEST
    m, k = _mantissa(select(small, x * 2.0**54, x))
    k = k.rounded - select(small, 54.0, 0.0)
    f = m - 1.0
    bottom, bottom_low = fast_two_sum(2.0, f)
    inverse = 1.0 / bottom
    s = f * inverse
    s_low = (fma(-s, bottom, f) - s * bottom_low) * inverse
    z, z_low = two_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    a, a_low = fast_two_sum(c.TWO_THIRDS[0], z * polynomial(c.LOG_FINE, z))
    a_low = a_low + c.TWO_THIRDS[1]
    b, b_low = two_product(z, a)
    b_low = b_low + fma(z, a_low, z_low * a)
    d, d_low = two_product(s, b)
    d_low = d_low + fma(s, b_low, s_low * b)
    high, low = fast_two_sum(s + s, d)
    low = low + d_low + (s_low + s_low)
    n, n_low = two_product(k, c.LN2_FINE[0])
    n_low = fma(k, c.LN2_FINE[1], n_low)
    total, lost = two_sum(n, high)
    return total, lost + low + n_low


def _positive_power(x: Value, y: Value) -> Value:
    """x^y of positive finite x and |y| < 2^65."""
    high, low = _log_in_two_parts(x)
    product, lost = two_product(y, high)
    lost = fma(y, low, lost)
    inside = product.within(800.0)
    r, tail, k, _ = _reduced(_clipped(product, -760.0, 720.0), select(inside, lost, 0.0))
    high, low = fast_two_sum(1.0, r)
    return _scaled(high + (low + tail), k)


@function(2)
def pow(x: Value, y: Value) -> Written:
    common = _positive_power(x, y)
    inside = (x >= SMALLEST) & (x < inf) & y.within(2.0**60)
    return x.code.unless(~inside, [common], "any_pow", x, y)


@function(2, cold=True)
def any_pow(x: Value, y: Value) -> Written:
    """Every pair: signs by whether y is whole and odd, zeros, infinities and NaN as IEEE's pow has them."""
    a, b = abs(x), abs(y)
    ordinary = (a > 0.0) & (a < inf)
    value = _positive_power(select(ordinary, a, 1.0), _clipped(y, -(2.0**64), 2.0**64))
    is_growing = select(y > 0.0, a > 1.0, a < 1.0)
    extreme = select(is_growing, inf, 0.0)
    value = select(ordinary & (b < inf), value, extreme)
    value = select(a.equals(1.0), 1.0, value)
    # A double from 2^53 on is even; below, adding 2^52 rounds to a whole number and leaves it in the low bits.
    shifted = select(b < 2.0**52, b, 0.0) + 2.0**52
    whole = (b >= 2.0**52) | (shifted - 2.0**52).equals(b)
    last = select(b < 2.0**52, shifted.bits, select(b < 2.0**53, b.bits, 0))
    odd = whole & (last & 1).equals(1)
    negative = x.bits < 0
    value = select(negative & odd, -value, value)
    value = select((x < 0.0) & (a < inf) & ~whole, nan, value)
    value = select(x.equals(x) & y.equals(y), value, x + y)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, value)


@function()
def cbrt(x: Value) -> Written:
    """Of a = 2^(3q + j) m, 1 <= m < 2: 2^q times a first guess of (2^j m)^(1/3), then Halley and Newton."""
    a = abs(x)
    small = a < SMALLEST
    words = select(small, a * 2.0**54, a).bits
    e = words >> EXPONENT
    third = (e * 43691) >> 17  # e / 3, for e < 2048
    j = e - third * 3
    m = ((words & ((1 << EXPONENT) - 1)) | ONE).real
    times = select(j.equals(0), 1.0, select(j.equals(1), 2.0, 4.0))
    root = select(j.equals(0), 1.0, select(j.equals(1), c.CUBE_ROOTS[1], c.CUBE_ROOTS[2]))
    y = polynomial(c.CBRT, m) * root
    m = m * times
    cube = y * y * y
    y = y * ((cube + (m + m)) / ((cube + cube) + m))
    squared, squared_low = two_product(y, y)
    cube, cube_low = two_product(squared, y)
    cube_low = fma(squared_low, y, cube_low)
    y = y + ((m - cube) - cube_low) / (3.0 * squared)
    value = y * _power_of_two(third - 341)
    value = select(small, value * 2.0**-18, value)
    return copysign(select((a > 0.0) & (a < inf), value, a), x)


# Circular functions


def _turn(x: Value) -> list[Value]:
    """[r, low, words]: x = k π/2 + r + low, |r| <= π/4, the words' last two bits are k's."""
    code = x.code
    k, words = _nearest(x, c.TWO_OVER_PI[0])
    near = fma(k, -c.HALF_PI[0], x)  # exact
    second, second_low = two_product(k, c.HALF_PI[1])
    r, lost = fast_two_sum(near, -second)
    low = fma(k, -c.HALF_PI[2], lost - second_low)
    return code.unless(~x.within(large_angles.FROM), [r, low, words], large_angles.NAME, x, r, low, words)


def _sine(r: Value, low: Value) -> tuple[Value, Value]:
    """sin(r + low) in two parts, |r| <= π/4."""
    z = r * r
    return r, fma(r * z, polynomial(c.SIN, z), fma(z * -0.5, low, low))


def _cosine(r: Value, low: Value) -> tuple[Value, Value]:
    z = r * r
    half = z * 0.5
    one = 1.0 - half
    return one, fma(z * z, polynomial(c.COS, z), ((1.0 - one) - half) - r * low)


def _circular(x: Value, *quarters: int) -> list[Value]:
    """sin(x + quarter π/2) for each of the quarters."""
    r, low, words = _turn(x)
    (s, s_low), (v, v_low) = _sine(r, low), _cosine(r, low)
    parts = []
    for quarter in quarters:
        turned = words + quarter
        odd = (turned & 1).equals(1)
        value = select(odd, v, s) + select(odd, v_low, s_low)
        parts.append((value.bits ^ ((turned & 2) << 62)).real)
    return parts


@function()
def sin(x: Value) -> Written:
    return select(x.equals(0.0), x, _circular(x, 0)[0])


@function()
def cos(x: Value) -> Written:
    return _circular(x, 1)[0]


@function(name=SIN_AND_COS)
def _sin_and_cos(x: Value) -> Written:
    """Both, at little more than the price of one, and to the same bits."""
    sine, cosine = _circular(x, 0, 1)
    return [select(x.equals(0.0), x, sine), cosine]


@function()
def tan(x: Value) -> Written:
    """sin r / cos r, or -cos r / sin r where k is odd."""
    r, low, words = _turn(x)
    odd = (words & 1).equals(1)
    (s, s_low), (v, v_low) = (fast_two_sum(*parts) for parts in (_sine(r, low), _cosine(r, low)))
    s, s_low = select(odd, -s, s), select(odd, -s_low, s_low)
    value = quotient(select(odd, v, s), select(odd, v_low, s_low), select(odd, s, v), select(odd, s_low, v_low))
    return select(x.within(2.0**-28), x, value)


def _arc_tangent(t: Value) -> Value:
    """atan t - t of |t| <= 1."""
    z = t * t
    from_half = z - 0.5  # where the terms do not cancel
    return (t * z) * fma(from_half, polynomial(c.ATAN[1:], from_half), c.ATAN[0])


@function()
def atan(x: Value) -> Written:
    a = abs(x)
    steep = a > 1.0
    t = select(steep, -1.0, a) / select(steep, a, 1.0)
    high, lost = fast_two_sum(select(steep, c.HALF_PI[0], 0.0), t)
    low = _arc_tangent(t) + select(steep, c.HALF_PI[1], 0.0)
    return copysign(high + (lost + low), x)


@function(2)
def atan2(y: Value, x: Value) -> Written:
    """The angle of min / max, from the axis next to it."""
    a, b = abs(x), abs(y)
    both = (a.equals(inf) & b.equals(inf)) | (a.equals(0.0) & b.equals(0.0))
    flat = both & a.equals(0.0)
    a, b = select(both, 1.0, a), select(flat, 0.0, select(both, 1.0, b))
    steep = b > a
    big, little = select(steep, b, a), select(steep, a, b)
    scale = select(big < 2.0**-900, 2.0**110, 1.0)
    t = (little * scale) / (big * scale)
    low = _arc_tangent(t)
    negative = x.bits < 0
    t, low = select(steep, -t, t), select(steep, -low, low)
    base, base_low = select(steep, c.HALF_PI[0], 0.0), select(steep, c.HALF_PI[1], 0.0)
    t, low = select(negative, -t, t), select(negative, -low, low)
    base = select(negative, select(steep, c.HALF_PI[0], c.PI[0]), base)
    base_low = select(negative, select(steep, c.HALF_PI[1], c.PI[1]), base_low)
    high, lost = fast_two_sum(base, t)
    value = high + (lost + (low + base_low))
    return select(x.equals(x) & y.equals(y), copysign(value, y), x + y)


def _arc_sine(z: Value, s: Value) -> Value:
    """asin s - s, of z = s² <= 1/4."""
    return (s * z) * polynomial(c.ASIN, z)


def _arc_sine_parts(x: Value) -> tuple[Value, Value, Value]:
    """(s, asin s - s, inner): s = |x| where |x| <= 1/2, the inner part, else √((1 - |x|) / 2)."""
    a = abs(x)
    inner = a <= 0.5
    z = select(inner, a * a, 0.5 - 0.5 * a)
    s = select(inner, a, sqrt(z))
    return s, _arc_sine(z, s), inner


@function()
def asin(x: Value) -> Written:
    s, rest, inner = _arc_sine_parts(x)
    high, lost = fast_two_sum(c.HALF_PI[0], -2.0 * s)
    outer = high + (lost + (c.HALF_PI[1] - 2.0 * rest))
    return copysign(select(inner, s + rest, outer), x)


@function()
def acos(x: Value) -> Written:
    s, rest, inner = _arc_sine_parts(x)
    negative = x < 0.0
    s, rest = select(inner & ~negative, -s, s), select(inner & ~negative, -rest, rest)
    near, gone = fast_two_sum(c.HALF_PI[0], s)
    middle = near + (gone + (rest + c.HALF_PI[1]))
    high, lost = fast_two_sum(c.PI[0], -2.0 * s)
    left = high + (lost + (c.PI[1] - 2.0 * rest))
    return select(inner, middle, select(negative, left, 2.0 * (s + rest)))


# The error function


def _erfc_beyond(a: Value) -> tuple[Value, Value]:
    """(value, k): erfc a = value 2^k, for 1/2 <= a < 27.3."""
    squared, squared_low = two_product(a, a)
    r, tail, k, _ = _reduced(-squared, -squared_low)
    e, e_low = fast_two_sum(1.0, r)
    e_low = e_low + tail
    t = quotient(*two_sum(a, a.code.value(-4.0, "double")), *two_sum(a, a.code.value(4.0, "double")))
    p, p_low = fast_two_sum(c.ERFC[0], t * polynomial(c.ERFC[2:], t))
    p_low = p_low + c.ERFC[1]
    top, top_low = two_product(e, p)
    top_low = top_low + fma(e, p_low, e_low * p)
    return quotient(top, top_low, *two_sum(1.0, a + a)), k


def _erf_rest(x: Value) -> Value:
    """erf x - x for |x| <= 1/2."""
    return x * polynomial(c.ERF, x * x)


@function()
def erf(x: Value) -> Written:
    value, k = _erfc_beyond(_clipped(abs(x), 0.5, 6.0))
    outer = copysign(1.0 - _scaled(value, k), x)
    return select(x.within(0.5), x + _erf_rest(x), select(x.equals(x), outer, x))


@function()
def erfc(x: Value) -> Written:
    value, k = _erfc_beyond(_clipped(abs(x), 0.5, 27.3))
    outer = _scaled(value, k)
    outer = select(x < 0.0, 2.0 - outer, outer)
    high, low = two_sum(1.0, -x)
    return select(x.within(0.5), high + (low - _erf_rest(x)), select(x.equals(x), outer, x))


@function()
def erf_inv(x: Value) -> Written:
    """A first guess (S. Winitzki, 2008), then Halley's step three times on erf, or on erfc where |x| > 1/2."""
    a = _clipped(abs(x), 0.0, 1.0)
    code, inside = x.code, a < 1.0
    a = select(inside, a, 0.5)
    outer = a > 0.5
    b = code.call("log", (1.0 - a) * (1.0 + a))
    w = 4.330746750799873 + 0.5 * b  # 2 / (π 0.147)
    y = sqrt(sqrt(w * w - b * 6.802721088435374) - w)
    y = select(a < 2.0**-20, a * c.HALF_ROOT_PI[0], y)
    for _ in range(3):
        missing = select(outer, (1.0 - a) - code.call("erfc", y), (y - a) + _erf_rest(y))
        step = missing * code.call("exp", y * y) * c.HALF_ROOT_PI[0]
        y = y - step / (1.0 + y * step)
    y = select(a < 2.0**-28, fma(a, c.HALF_ROOT_PI[0], a * c.HALF_ROOT_PI[1]), y)
    y = select(inside, y, inf)
    return select(abs(x) <= 1.0, copysign(y, x), select(abs(x) > 1.0, nan, x))


# The gamma function


def _log_gamma(x: Value) -> Value:
    """log Γ of positive x: a polynomial between the zeros at 1 and 2, to which x < 8 is led; then Stirling's."""
    code = x.code
    small = x < 1.0
    y = select(small, x + 1.0, _clipped(x, 1.0, 8.0))
    product: Value | float = 1.0
    for _ in range(6):
        above = y > 2.5
        y = select(above, y - 1.0, y)
        product = select(above, y * product, product)
    from_one = select(small, x, y - 1.0)
    from_two = select(small, x - 1.0, y - 2.0)
    near = (from_one * from_two) * polynomial(c.LOG_GAMMA, y - 1.75)
    large = x >= 8.0
    logarithm = code.call("log", select(small | large, x, product))
    inverse = 1.0 / select(large, x, 8.0)
    rest = fma(inverse, polynomial(c.STIRLING, inverse * inverse), c.STIRLING_CONSTANT[0])
    far = fma(x - 0.5, logarithm - 1.0, rest)
    return select(large, far, near + select(small, -logarithm, logarithm))


def _from_whole(x: Value) -> Value:
    """x, of one below 0, less the whole number next to it; beyond 2^52 all are whole."""
    a = select(x.within(2.0**52), x, 0.0)
    return a - ((a - 2.0**52) + 2.0**52)


@function()
def lgamma(x: Value) -> Written:
    return x.code.unless(~(x > 0.0), [_log_gamma(x)], "any_lgamma", x)


@function(cold=True)
def any_lgamma(x: Value) -> Written:
    """Below 0 by log Γ(x) + log Γ(-x) = log(π / |x sin πx|)."""
    code, a = x.code, abs(x)
    part = _from_whole(x)
    common = _log_gamma(a)
    sine = abs(code.call("sin", part * c.PI[0]))
    value = select(a < 2.0**-60, common, code.call("log", c.PI[0] / (a * sine)) - common)
    value = select(x > 0.0, common, select(part.equals(0.0), inf, value))
    return select(x.equals(x), value, x)


def _digamma(x: Value) -> Value:
    """ψ of positive x, which is led beyond 6 by ψ(x) = ψ(x + 1) - 1/x."""
    total: Value | float = 0.0
    for _ in range(6):
        below = x < 6.0
        total = select(below, 1.0 / x + total, total)
        x = select(below, x + 1.0, x)
    inverse = 1.0 / x
    z = inverse * inverse
    series = fma(z, polynomial(c.DIGAMMA, z), 0.5 * inverse)
    return (x.code.call("log", x) - series) - total


@function()
def digamma(x: Value) -> Written:
    return x.code.unless(~(x > 0.0), [_digamma(x)], "any_digamma", x)


@function(cold=True)
def any_digamma(x: Value) -> Written:
    """Below 0 by ψ(x) = ψ(1 - x) - π / tan πx; at 0 and the negative whole numbers NaN, as in JAX."""
    part = _from_whole(x)
    positive = x > 0.0
    value = _digamma(select(positive, x, 1.0 - x))
    turned = value - c.PI[0] / x.code.call("tan", part * c.PI[0])
    turned = select(part.equals(0.0), nan, turned)
    return select(positive, value, select(x.equals(x), turned, x))


NAMES = frozenset(name for name, entry in _ALL.items() if not entry.cold and name != SIN_AND_COS)
