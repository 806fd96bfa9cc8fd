"""x = k π/2 + r for |x| >= 2^30, where k has more digits than a double: M 2^q by the digits of 2/π that count.

M 2^q times the digits of weight 2^-j with j < q - 1 is a multiple of 4, so 192 digits from there on are enough: their
product with M, modulo 4, has its whole part in two bits and a fraction in 190, of which 137 are good, and no double
comes nearer to a multiple of π/2 than 2^-62.
M. Payne & R. Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18 (1983).
"""

from __future__ import annotations

from stodyn.numerics.printing import coefficients as c
from stodyn.numerics.printing.vectors import REAL, WORD, kind, literal, name_of

FROM = 2.0**30
NAME = "far_turn"


def text(width: int, attributes: str) -> str:
    """The function (x, r, low, k) -> (r, low, k): unchanged where |x| < 2^30, computed again lane by lane beyond.

    r + low is the angle in two parts; the last two bits of k count the quarters.
    """
    table = ", ".join(f"i64 {(w + 2**63) % 2**64 - 2**63}" for w in c.DIGITS_OF_TWO_OVER_PI)
    count = len(c.DIGITS_OF_TWO_OVER_PI)
    real, word = kind(REAL, width), kind(WORD, width)
    whole, arguments = f"{{ {real}, {real}, {word} }}", f"{real} %x, {real} %r, {real} %low, {word} %k"
    one = name_of(f"{NAME}_of_one", width)
    digits = name_of("digits", width)
    head = f"""@{digits} = internal unnamed_addr constant [{count} x i64] [{table}]

define internal {{ double, double, i64 }} @{one}(double %x) nounwind noinline cold {attributes} {{
  %bits = bitcast double %x to i64
  %field = lshr i64 %bits, 52
  %exponent = and i64 %field, 2047
  %finite = icmp ult i64 %exponent, 2047
  %beyond = sub i64 %exponent, 1053
  %large = icmp ult i64 %beyond, 994
  %e = select i1 %large, i64 %exponent, i64 1053
  %fraction = and i64 %bits, {(1 << 52) - 1}
  %m = or i64 %fraction, {1 << 52}
  %p = sub i64 %e, 1013
  %at = lshr i64 %p, 6
  %off = and i64 %p, 63
  %t0 = getelementptr i64, ptr @{digits}, i64 %at
  %t1 = getelementptr i64, ptr %t0, i64 1
  %t2 = getelementptr i64, ptr %t0, i64 2
  %t3 = getelementptr i64, ptr %t0, i64 3
  %d0 = load i64, ptr %t0
  %d1 = load i64, ptr %t1
  %d2 = load i64, ptr %t2
  %d3 = load i64, ptr %t3
  %w2 = call i64 @llvm.fshl.i64(i64 %d0, i64 %d1, i64 %off)
  %w1 = call i64 @llvm.fshl.i64(i64 %d1, i64 %d2, i64 %off)
  %w0 = call i64 @llvm.fshl.i64(i64 %d2, i64 %d3, i64 %off)
  %wide_m = zext i64 %m to i128
  %wide_w0 = zext i64 %w0 to i128
  %wide_w1 = zext i64 %w1 to i128
  %p0 = mul i128 %wide_m, %wide_w0
  %p1 = mul i128 %wide_m, %wide_w1
  %p2 = mul i64 %m, %w2
  %low0 = trunc i128 %p0 to i64
  %carry0 = lshr i128 %p0, 64
  %middle = add i128 %p1, %carry0
  %low1 = trunc i128 %middle to i64
  %carry1 = lshr i128 %middle, 64
  %carried = trunc i128 %carry1 to i64
  %top = add i64 %p2, %carried
  %whole = lshr i64 %top, 62
  %f2 = call i64 @llvm.fshl.i64(i64 %top, i64 %low1, i64 2)
  %f1 = call i64 @llvm.fshl.i64(i64 %low1, i64 %low0, i64 2)
  %f0 = shl i64 %low0, 2
  %up = lshr i64 %f2, 63
  %quarter = add i64 %whole, %up
  %flip = sub i64 0, %up
  %a2 = xor i64 %f2, %flip
  %a1 = xor i64 %f1, %flip
  %a0 = xor i64 %f0, %flip
  %zeros = call i64 @llvm.ctlz.i64(i64 %a2, i1 false)
  %places = and i64 %zeros, 63
  %n1 = call i64 @llvm.fshl.i64(i64 %a2, i64 %a1, i64 %places)
  %n0 = call i64 @llvm.fshl.i64(i64 %a1, i64 %a0, i64 %places)
  %head = lshr i64 %n1, 11
  %rest = call i64 @llvm.fshl.i64(i64 %n1, i64 %n0, i64 53)
  %head_real = uitofp i64 %head to double
  %rest_real = uitofp i64 %rest to double
  %size = sub i64 970, %places
  %size_bits = shl i64 %size, 52
  %unit = bitcast i64 %size_bits to double
  %high = fmul double %head_real, %unit
  %rest_unit = fmul double %unit, {literal(2.0**-64, REAL, 1)}
  %low = fmul double %rest_real, %rest_unit
  %r = fmul double %high, {literal(c.HALF_PI[0], REAL, 1)}
  %minus_r = fneg double %r
  %lost = call double @llvm.fma.f64(double %high, double {literal(c.HALF_PI[0], REAL, 1)}, double %minus_r)
  %more = call double @llvm.fma.f64(double %high, double {literal(c.HALF_PI[1], REAL, 1)}, double %lost)
  %tail = call double @llvm.fma.f64(double %low, double {literal(c.HALF_PI[0], REAL, 1)}, double %more)
  %negative = lshr i64 %bits, 63
  %turned = xor i64 %negative, %up
  %turned_bit = trunc i64 %turned to i1
  %minus_tail = fneg double %tail
  %r_signed = select i1 %turned_bit, double %minus_r, double %r
  %tail_signed = select i1 %turned_bit, double %minus_tail, double %tail
  %minus_quarter = sub i64 0, %quarter
  %negative_bit = trunc i64 %negative to i1
  %k = select i1 %negative_bit, i64 %minus_quarter, i64 %quarter
  %nothing = fsub double %x, %x
  %r_found = select i1 %finite, double %r_signed, double %nothing
  %tail_found = select i1 %finite, double %tail_signed, double %nothing
  %s0 = insertvalue {{ double, double, i64 }} poison, double %r_found, 0
  %s1 = insertvalue {{ double, double, i64 }} %s0, double %tail_found, 1
  %s2 = insertvalue {{ double, double, i64 }} %s1, i64 %k, 2
  ret {{ double, double, i64 }} %s2
}}

define internal {whole} @{name_of(NAME, width)}({arguments}) nounwind noinline cold {attributes} {{
"""
    lines, last = [], ["%r", "%low", "%k"]
    for i in range(width):
        x, old, new = "%x", last, last
        if width > 1:
            x, old, new = f"%x{i}", [f"%{n}{i}o" for n in "rlk"], [f"%{n}{i}v" for n in "rlk"]
            lines.append(f"  {x} = extractelement {real} %x, i32 {i}")
            for o, all_lanes, t in zip(old, ("%r", "%low", "%k"), (real, real, word), strict=True):
                lines.append(f"  {o} = extractelement {t} {all_lanes}, i32 {i}")
        lines += [
            f"  %size{i} = call double @llvm.fabs.f64(double {x})",
            f"  %near{i} = fcmp olt double %size{i}, {literal(FROM, REAL, 1)}",
            f"  %far{i} = call {{ double, double, i64 }} @{one}(double {x})",
        ]
        chosen = []
        for j, (o, t) in enumerate(zip(old, ("double", "double", "i64"), strict=True)):
            lines.append(f"  %f{j}_{i} = extractvalue {{ double, double, i64 }} %far{i}, {j}")
            lines.append(f"  %c{j}_{i} = select i1 %near{i}, {t} {o}, {t} %f{j}_{i}")
            chosen.append(f"%c{j}_{i}")
        if width > 1:
            for n, l, v, t, e in zip(new, last, chosen, (real, real, word), ("double", "double", "i64"), strict=True):
                lines.append(f"  {n} = insertelement {t} {l}, {e} {v}, i32 {i}")
            last = new
        else:
            last = chosen
    for j, (v, t) in enumerate(zip(last, (real, real, word), strict=True)):
        lines.append(f"  %out{j} = insertvalue {whole} {'poison' if j == 0 else f'%out{j - 1}'}, {t} {v}, {j}")
    return head + "\n".join([*lines, f"  ret {whole} %out2", "}"])
