"""Arithmetic on W numbers at once, written down as LLVM instructions: a formula in Python prints its program.

Every operation is IEEE's own, without flags, and fused products are written as such, so that neither W nor LLVM's level
of optimisation shows in the bits.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

REAL, WORD, MASK = "double", "i64", "i1"
Number: TypeAlias = "Value | float"  # a name in a program, or a number written there
PURE = "nounwind willreturn memory(read)"


def kind(element: str, width: int) -> str:
    """The LLVM type of `width` elements; one is a scalar."""
    return element if width == 1 else f"<{width} x {element}>"


def mangled(element: str, width: int) -> str:
    """The type of such a vector as a part of an intrinsic's name."""
    name = {REAL: "f64"}.get(element, element)
    return name if width == 1 else f"v{width}{name}"


def literal(number: float | int | bool, element: str, width: int) -> str:
    if element == REAL:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
    elif element == MASK:
        text = "true" if number else "false"
    else:
        text = str((int(number) + 2**63) % 2**64 - 2**63)
    return text if width == 1 else f"splat ({element} {text})"


class Table:
    """Constants kept in memory, each twice, as a register of two numbers is loaded with them.

    Neoverse builds a constant of 64 bits in four instructions and copies it in a fifth; a load is one. The table is
    reached through a pointer, so that its address is built once per function.
    """

    def __init__(self, symbol: str):
        self.symbol, self._offsets = symbol, dict[float, int]()

    def offset(self, number: float) -> int:
        return self._offsets.setdefault(number, 16 * len(self._offsets))

    def text(self) -> str:
        entries = ", ".join(f"double {literal(x, REAL, 1)}, double {literal(x, REAL, 1)}" for x in self._offsets)
        size = 2 * len(self._offsets)
        return (
            f"@{self.symbol} = internal externally_initialized global [{size} x double] [{entries}], align 16\n"
            f"@{self.symbol}.at = internal externally_initialized global ptr @{self.symbol}\n"
        )


def is_immediate(number: float) -> bool:
    """Whether a vector of the constant takes one or two instructions: few leading bits, then zeros."""
    return struct.unpack("<Q", struct.pack("<d", float(number)))[0] & ((1 << 48) - 1) == 0


class Value:
    """A name in a program, with the operators of its element: double, i64 or i1."""

    def __init__(self, code: Code, name: str, element: str):
        self.code, self.name, self.element = code, name, element

    def _with(self, real: str, word: str, other: Number, turned: bool = False) -> Value:
        operation = {REAL: real, WORD: word, MASK: word}[self.element]
        a, b = self, self.code.value(other, self.element)
        return self.code.operation(operation, *((b, a) if turned else (a, b)))

    def __add__(self, other: Number) -> Value:
        return self._with("fadd", "add", other)

    def __radd__(self, other: Number) -> Value:
        return self._with("fadd", "add", other, True)

    def __sub__(self, other: Number) -> Value:
        return self._with("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Value:
        return self._with("fsub", "sub", other, True)

    def __mul__(self, other: Number) -> Value:
        return self._with("fmul", "mul", other)

    def __rmul__(self, other: Number) -> Value:
        return self._with("fmul", "mul", other, True)

    def __truediv__(self, other: Number) -> Value:
        return self._with("fdiv", "", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self._with("fdiv", "", other, True)

    def __and__(self, other: Number) -> Value:
        return self._with("", "and", other)

    def __or__(self, other: Number) -> Value:
        return self._with("", "or", other)

    def __xor__(self, other: Number) -> Value:
        return self._with("", "xor", other)

    def __lshift__(self, other: Number) -> Value:
        return self._with("", "shl", other)

    def __rshift__(self, other: Number) -> Value:
        return self._with("", "lshr", other)

    def __invert__(self) -> Value:
        return self ^ -1

    def __neg__(self) -> Value:
        return self.code.instruction(f"fneg {self.code.type(REAL)} {self.name}", REAL)

    def __abs__(self) -> Value:
        return self.code.intrinsic("fabs", self)

    def __lt__(self, other: Number) -> Value:
        return self.code.compare("olt", "slt", self, other)

    def __le__(self, other: Number) -> Value:
        return self.code.compare("ole", "sle", self, other)

    def __gt__(self, other: Number) -> Value:
        return self.code.compare("ogt", "sgt", self, other)

    def __ge__(self, other: Number) -> Value:
        return self.code.compare("oge", "sge", self, other)

    def equals(self, other: Number) -> Value:
        return self.code.compare("oeq", "eq", self, other)

    def differs(self, other: Number) -> Value:
        """Whether it differs from another number; NaN differs from everything."""
        return self.code.compare("une", "ne", self, other)

    def within(self, bound: Number) -> Value:
        """|x| < bound, false for NaN."""
        return abs(self) < bound

    @property
    def bits(self) -> Value:
        """The words of real numbers."""
        return self.code.cast("bitcast", self, WORD)

    @property
    def real(self) -> Value:
        """The real numbers whose words these are."""
        return self.code.cast("bitcast", self, REAL)

    @property
    def rounded(self) -> Value:
        """The real numbers next to whole ones."""
        return self.code.cast("sitofp", self, REAL)


class Code:
    """The body of one function of vectors of W numbers; equal instructions are written once."""

    def __init__(self, width: int, symbol: str, arguments: int, attributes: str, table: Table | None = None):
        self.width, self.symbol, self.attributes, self.table = width, symbol, attributes, table
        self.arguments = [Value(self, f"%x{i}", REAL) for i in range(arguments)]
        self.lines: list[str] = ["entry:"]
        self.needs: list[str] = []  # functions called
        self._known: dict[str, Value] = {}
        self._count = 0

    def type(self, element: str) -> str:
        return kind(element, self.width)

    def value(self, number: Number, element: str) -> Value:
        if isinstance(number, Value):
            return number
        if element == REAL and self.table is not None and not is_immediate(number):
            return self._from_table(float(number), self.table)
        return Value(self, literal(number, element, self.width), element)

    def _from_table(self, number: float, table: Table) -> Value:
        base = self.instruction(f"load ptr, ptr @{table.symbol}.at, !invariant.load !{{}}", "ptr")
        place = self.instruction(f"getelementptr i8, ptr {base.name}, i64 {table.offset(number)}", "ptr")
        two = min(self.width, 2)
        loaded = self.instruction(f"load {kind(REAL, two)}, ptr {place.name}, align 16, !invariant.load !{{}}", REAL)
        if self.width <= 2:
            return loaded
        mask = f"<{self.width} x i32> zeroinitializer"
        return self.instruction(f"shufflevector <2 x double> {loaded.name}, <2 x double> poison, {mask}", REAL)

    def instruction(self, text: str, element: str) -> Value:
        if text not in self._known:
            self._count += 1
            self.lines.append(f"  %v{self._count} = {text}")
            self._known[text] = Value(self, f"%v{self._count}", element)
        return self._known[text]

    def operation(self, operation: str, a: Value, b: Value) -> Value:
        return self.instruction(f"{operation} {self.type(a.element)} {a.name}, {b.name}", a.element)

    def compare(self, real: str, word: str, a: Value, b: Number) -> Value:
        condition = f"fcmp {real}" if a.element == REAL else f"icmp {word}"
        text = f"{condition} {self.type(a.element)} {a.name}, {self.value(b, a.element).name}"
        return self.instruction(text, MASK)

    def cast(self, operation: str, a: Value, element: str) -> Value:
        return self.instruction(f"{operation} {self.type(a.element)} {a.name} to {self.type(element)}", element)

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        operands = ", ".join(f"{self.type(a.element)} {a.name}" for a in arguments)
        element = arguments[0].element
        text = f"call {self.type(element)} @llvm.{name}.{mangled(element, self.width)}({operands})"
        return self.instruction(text, element)

    def any(self, mask: Value) -> str:
        """The name of a bit: whether one of the lanes is true."""
        if self.width == 1:
            return mask.name
        text = f"call i1 @llvm.vector.reduce.or.{mangled(MASK, self.width)}({self.type(MASK)} {mask.name})"
        return self.instruction(text, MASK).name

    def unless(self, outside: Value, common: list[Value], cold: str, *arguments: Value) -> list[Value]:
        """`common`, or the result of the function `cold` for all lanes where one lane is `outside`.

        `cold` must give the common lanes the bits they have here, so that no lane depends on its neighbours.
        """
        self.needs.append(cold)
        condition = self.any(outside)
        types = [self.type(v.element) for v in common]
        whole = types[0] if len(types) == 1 else "{ " + ", ".join(types) + " }"
        operands = ", ".join(f"{self.type(a.element)} {a.name}" for a in arguments)
        self.lines.append(
            f'  br i1 {condition}, label %outside, label %inside, !prof !{{!"branch_weights", i32 1, i32 2000}}'
        )
        self.lines += ["outside:", f"  %rare = call {whole} @{name_of(cold, self.width)}({operands})"]
        rare = ["%rare"]
        if len(types) > 1:
            rare = [f"%rare{i}" for i in range(len(types))]
            self.lines += [f"  {r} = extractvalue {whole} %rare, {i}" for i, r in enumerate(rare)]
        self.lines += ["  br label %inside", "inside:"]
        results = []
        for i, (v, r, t) in enumerate(zip(common, rare, types, strict=True)):
            self.lines.append(f"  %met{i} = phi {t} [ {v.name}, %entry ], [ {r}, %outside ]")
            results.append(Value(self, f"%met{i}", v.element))
        return results

    def call(self, function: str, *arguments: Value) -> Value:
        """The value of another function of this kind."""
        self.needs.append(function)
        operands = ", ".join(f"{self.type(a.element)} {a.name}" for a in arguments)
        return self.instruction(f"call {self.type(REAL)} @{name_of(function, self.width)}({operands})", REAL)

    def text(self, results: list[Value]) -> str:
        types = [self.type(v.element) for v in results]
        whole = types[0] if len(types) == 1 else "{ " + ", ".join(types) + " }"
        operands = ", ".join(f"{self.type(REAL)} {a.name}" for a in self.arguments)
        end = [f"  ret {whole} {results[0].name}"]
        if len(types) > 1:
            last, end = "poison", []
            for i, (v, t) in enumerate(zip(results, types, strict=True)):
                end.append(f"  %r{i} = insertvalue {whole} {last}, {t} {v.name}, {i}")
                last = f"%r{i}"
            end.append(f"  ret {whole} {last}")
        head = f"define internal {whole} @{self.symbol}({operands}) {self.attributes} {{"
        return "\n".join([head, *self.lines, *end, "}"])


def name_of(function: str, width: int) -> str:
    return f"sd_{function}_v{width}"


def fma(a: Value, b: Number, c: Number) -> Value:
    """a b + c, rounded once."""
    return a.code.intrinsic("fma", a, a.code.value(b, REAL), a.code.value(c, REAL))


def sqrt(a: Value) -> Value:
    return a.code.intrinsic("sqrt", a)


def copysign(a: Value, sign: Value) -> Value:
    return a.code.intrinsic("copysign", a, sign)


def select(mask: Value, a: Number, b: Number) -> Value:
    code, element = mask.code, next((v.element for v in (a, b) if isinstance(v, Value)), REAL)
    a, b = code.value(a, element), code.value(b, element)
    text = f"select {code.type(MASK)} {mask.name}, {code.type(element)} {a.name}, {code.type(element)} {b.name}"
    return code.instruction(text, element)


def two_sum(a: Number, b: Value) -> tuple[Value, Value]:
    """a + b rounded, and what the rounding lost, for any a and b."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def fast_two_sum(a: Number, b: Value) -> tuple[Value, Value]:
    """a + b rounded, and what the rounding lost, in three operations, where |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Number) -> tuple[Value, Value]:
    """a b rounded, and what the rounding lost."""
    product = a * b
    return product, fma(a, b, -product)


def quotient(a: Number, a_low: Number, b: Value, b_low: Number) -> Value:
    """(a + a_low) / (b + b_low), to little more than half a unit in the last place, with one division."""
    inverse = 1.0 / b
    result = inverse * a
    left = fma(-result, b, a) + (a_low - result * b_low)
    return fma(left, inverse, result)


def polynomial(coefficients: tuple[float, ...], x: Value) -> Value:
    """Σ c_k x^k, even and odd terms (of 14 and more: every fourth) in chains of their own, which run side by side."""
    chains = 1 if len(coefficients) < 5 else 2 if len(coefficients) < 14 else 4
    powers = [x]
    while 2 ** len(powers) <= chains:
        powers.append(powers[-1] * powers[-1])
    sums: list[Any] = []
    for first in range(chains):
        own = coefficients[first::chains]
        total: Any = own[-1]
        for c in own[-2::-1]:
            total = fma(powers[-1], total, c)
        sums.append(total)
    for power in powers[:-1]:
        sums = [fma(power, odd, even) for even, odd in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]
