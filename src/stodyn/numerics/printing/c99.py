"""Printed programs in C99: LLVM text of single paths, instruction by instruction, with the same bits.

The graph, its order and its fused products are those of the run; this module only spells instructions anew. A value
becomes a variable of its function, a block a label, a phi copies at the end of the blocks before it. Whole numbers are
kept without sign, where C lets them wrap, and are read with one where the instruction says so. What C leaves open is
lines out (shifts by the width, casts of numbers out of range). The compiler must not contract products and sums:
`-ffp-contract=off`, or -std=c99; `helpers` ends with a test of it.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from stodyn.numerics.printing.unprintable import Unprintable

TYPES = {"double": "double", "float": "float", "i1": "int", "i8": "uint8_t", "i16": "uint16_t", "i32": "uint32_t",
         "i64": "uint64_t", "i128": "sd_wide", "ptr": "char *", "void": "void"}  # fmt: skip
SIGNED = {"i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t"}
ARITHMETIC = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "add": "+", "sub": "-", "mul": "*", "and": "&",
              "or": "|", "xor": "^", "udiv": "/", "urem": "%"}  # fmt: skip
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
CALLED = {"fma": "fma", "sqrt": "sqrt", "fabs": "fabs", "copysign": "copysign", "floor": "floor", "ceil": "ceil",
          "trunc": "trunc", "rint": "rint", "nearbyint": "rint", "roundeven": "rint", "round": "round"}  # fmt: skip
FLAGS = re.compile(r"(?<![%@\w])(nsw|nuw|exact|noalias|nnan|ninf|nsz|inbounds|tail|disjoint|nneg)\b ?")
TYPE = r"\{[^}]*\}|\[[^\]]*\]|[a-z]+\d*"


def helpers(name: str, text: str) -> str:
    """What the instructions of a text need besides C's own operators, and the test of contraction `name`_check."""
    casts = [_saturated(real, bits) for real in ("double", "float") for bits in (8, 16, 32, 64)]
    needed: list[str] = []
    for helper in reversed("".join([_HELPERS, *casts]).split("static inline ")[1:]):  # later ones call earlier ones
        called = re.search(r"(sd_\w+)\(", helper)
        assert called is not None
        if re.search(rf"\b{called[1]}\(", "".join([*needed, text])):
            needed.append(f"static inline {helper}")
    return "".join([_WIDE, *reversed(needed), _CHECK.replace("NAME", name)])


def translated(text: str) -> str:
    """The functions of a module in LLVM text as static C functions, each declared before all of them."""
    functions = [_Function(head, body) for head, body in _functions(text)]
    structs = dict.fromkeys(s for function in functions for s in function.structs)
    declared = [f"typedef struct {{ {fields} }} {struct_name};" for struct_name, fields in map(_fields, structs)]
    tables = [_table(line) for line in text.splitlines() if line.startswith("@")]
    return "\n".join([*declared, *tables, *(f"{f.head};" for f in functions), "", *(f.text() for f in functions)])


def _table(line: str) -> str:
    """A table of constants."""
    match = re.match(r"@([\w.]+) = .*?(?:constant|global) \[(\d+) x (\w+)\] \[(.*)\]", line)
    if match is None:
        raise Unprintable(f"C: the constant {line[:60]!r} is not understood")
    name, count, element, numbers = match.groups()
    values = ", ".join(_value(*_typed(number)) for number in _split(numbers))
    return f"static const {TYPES[element]} {_label(name)}[{count}] = {{{values}}};"


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    """The first line and the body of each function."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("define"):
            body = []
            for inner in lines:
                if inner == "}":
                    break
                body.append(inner.strip())
            yield line, body
        elif line.strip() and not line.startswith(("!", "@", "declare")):
            raise Unprintable(f"C: the line {line.strip()!r} is outside every function")


def _split(text: str) -> list[str]:
    """The parts of a list, whose commas inside brackets do not count."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [*parts, part.strip()] if part.strip() else parts


def _typed(text: str) -> tuple[str, str]:
    """`double %x` as its type and its value."""
    match = re.match(rf"({TYPE})\s*(.*)", text.strip())
    if match is None:
        raise Unprintable(f"C: the operand {text!r} has no type that is known")
    return match.group(1), match.group(2)


def _c_type(type_: str) -> str:
    return _fields(type_)[0] if type_.startswith("{") else TYPES[type_]


def _fields(struct: str) -> tuple[str, str]:
    """The name of a structure of results, and its fields."""
    kinds = [part.strip() for part in struct.strip("{} ").split(",")]
    return "sd_" + "_".join(kinds), " ".join(f"{TYPES[kind]} r{k};" for k, kind in enumerate(kinds))


def _name(value: str) -> str:
    return re.sub(r"\W", "_", value[1:]) + "_" if value.startswith("%") else value


class _Line(NamedTuple):
    """A line of C, and the variable that it does nothing but set."""

    text: str
    sets: str = ""


class _Block(NamedTuple):
    label: str
    lines: list[_Line]


class _Function:
    """One function: its head, its blocks, and the variables that several blocks set."""

    def __init__(self, head: str, body: Sequence[str]):
        match = re.match(rf"define (?:internal )?({TYPE}|void) @([\w.]+)\((.*?)\)", head)
        if match is None:
            raise Unprintable(f"C: the function {head!r} is not understood")
        result, name, arguments = match.groups()
        parameters = [_typed(FLAGS.sub("", argument)) for argument in _split(arguments)]
        self.structs = [result] if result.startswith("{") else []
        declared = ", ".join(f"{_c_type(t)} {_name(x)}" for t, x in parameters)
        self.head = f"static {_c_type(result)} {name}({declared or 'void'})"
        self.memory: list[_Line] = []
        self.phis: dict[str, list[tuple[str, str, dict[str, str]]]] = {}
        self.blocks = self._read(body)

    def _read(self, body: Sequence[str]) -> list[_Block]:
        blocks, waiting = [_Block("entry", [])], list[tuple[_Block, str]]()
        for line in body:
            line = FLAGS.sub("", re.sub(r",? !.*$", "", line)).strip()
            if line == "entry:" or not line:
                continue
            if line.endswith(":"):
                blocks.append(_Block(line[:-1], []))
            elif " = phi " in line:
                self._phi(blocks[-1].label, line)
            else:
                waiting.append((blocks[-1], line))
        for block, line in waiting:
            block.lines.extend(self._instruction(block.label, line))
        return blocks

    def _phi(self, label: str, line: str) -> None:
        match = re.match(rf"(%[\w.]+) = phi ({TYPE}) (.*)", line)
        assert match is not None
        target, type_, rest = match.groups()
        sources = {before: value for value, before in re.findall(r"\[ (.+?), %([\w.]+) \]", rest)}
        self.phis.setdefault(label, []).append((target, type_, sources))

    def text(self) -> str:
        merged = [_Line(f"{_c_type(t)} {_name(x)};", _name(x)) for phis in self.phis.values() for x, t, _ in phis]
        lines = [*merged, *self.memory, *(line for block in self.blocks for line in block.lines)]
        labels = {label for line in lines for label in re.findall(r"goto (\w+);", line.text)}
        needed = _needed(lines)
        without_idle = lambda lines: [f"    {line.text}" for line in lines if not line.sets or line.sets in needed]  # noqa: E731
        text = [self.head, "{", *without_idle([*merged, *self.memory])]
        for block in self.blocks:
            label = f"at_{_label(block.label)}"
            text += [*([f"{label}:;"] if label in labels else []), *without_idle(block.lines)]
        return "\n".join([*text, "}", ""])

    # --- instructions ---------------------------------------------------------------------------------------------

    def _instruction(self, label: str, line: str) -> list[_Line]:
        match = re.match(r"(%[\w.]+) = (.*)", line)
        if match is None:
            return self._statement(label, line)
        target, (op, _, operands) = _name(match.group(1)), match.group(2).partition(" ")
        if op == "alloca":
            return self._alloca(target, operands)
        if op not in _RULES:
            raise Unprintable(f"C: the instruction {op!r} has no spelling in C")
        type_, value = _RULES[op](op, operands)
        if type_.startswith("{"):
            self.structs.append(type_)
        if op == "insertvalue":
            base, place, x = value.split(" ", 2)
            begun = "" if base == "poison" else f" = {base}"
            return [_Line(f"{_c_type(type_)} {target}{begun};", target), _Line(f"{target}.r{place} = {x};", target)]
        return [_Line(f"{_c_type(type_)} {target} = {value};", target)]

    def _alloca(self, target: str, operands: str) -> list[_Line]:
        kind = _split(operands)[0]
        match = re.match(r"\[(\d+) x (\w+)\]", kind)
        count, element = match.groups() if match else ("1", kind)
        self.memory.append(_Line(f"{TYPES[element]} {target}memory[{count}];", f"{target}memory"))
        return [_Line(f"char * {target} = (char *){target}memory;", target)]

    def _statement(self, label: str, line: str) -> list[_Line]:
        op, _, rest = line.partition(" ")
        if op == "store":
            value, place, *_ = _split(rest)
            type_, x = _typed(value)
            return [_Line(f"sd_store_{type_}({_value(*_typed(place))}, {_value(type_, x)});")]
        if op == "ret":
            return [_Line("return;" if rest == "void" else f"return {_value(*_typed(rest))};")]
        if op == "br":
            return self._branch(label, rest)
        if op == "call":
            return [_Line(f"{_called(rest)[1]};")]
        raise Unprintable(f"C: the instruction {op!r} has no spelling in C")

    def _branch(self, label: str, rest: str) -> list[_Line]:
        targets = re.findall(r"label %([\w.]+)", rest)
        ways = [[*self._copies(label, target), _Line(f"goto at_{_label(target)};")] for target in targets]
        if len(ways) == 1:
            return ways[0]
        which, (yes, no) = _value("i1", _typed(_split(rest)[0])[1]), ways
        inside = [_Line(f"    {line.text}", line.sets) for line in yes]
        return [_Line(f"if ({which}) {{"), *inside, _Line("}"), *no]

    def _copies(self, label: str, target: str) -> list[_Line]:
        """What the phis of the next block take from this one, all at once."""
        moves = [(_name(x), type_, _value(type_, sources[label])) for x, type_, sources in self.phis.get(target, [])]
        moves = [(x, type_, value) for x, type_, value in moves if value != x]
        changed = {x for x, _, _ in moves}
        if not any(value in changed for _, _, value in moves):
            return [_Line(f"{x} = {value};", x) for x, _, value in moves]
        copies = [_Line(f"    {_c_type(type_)} {x}next = {value};", f"{x}next") for x, type_, value in moves]
        return [_Line("{"), *copies, *(_Line(f"    {x} = {x}next;", x) for x, _, _ in moves), _Line("}")]


def _needed(lines: Sequence[_Line]) -> set[str]:
    """The variables on which what a function does depends."""
    read: dict[str, set[str]] = {}
    waiting: list[str] = []
    for line in lines:
        names = set(re.findall(r"[A-Za-z_]\w*", line.text)) - {line.sets}
        if line.sets:
            read.setdefault(line.sets, set()).update(names)
        else:
            waiting.extend(names)
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(read.get(name, ()))
    return needed


def _label(label: str) -> str:
    return re.sub(r"\W", "_", label)


def _value(type_: str, x: str) -> str:
    """An operand: a variable, or a number."""
    if x.startswith("%"):
        return _name(x)
    if x.startswith("@"):
        return f"(char *){_label(x[1:])}"
    if x in ("zeroinitializer", "poison", "undef", "null"):
        return "0"
    if type_ in ("double", "float"):
        return _real(x, type_)
    if type_ == "i1":
        return {"true": "1", "false": "0"}.get(x, x)
    if type_ == "i128":
        return f"sd_wide_of(UINT64_C({int(x)}))"
    bits = int(type_[1:])
    return f"UINT{bits}_C({int(x) % 2**bits})"


def _real(x: str, type_: str) -> str:
    """A real number to the last bit; LLVM writes both types as the word of a double."""
    return real_number(struct.unpack("<d", struct.pack("<Q", int(x, 16)))[0] if x.startswith("0x") else float(x))


def real_number(x: float) -> str:
    """A number as C reads it to the last bit: a short decimal where there is one, else its binary digits."""
    if math.isnan(x):
        return "NAN"
    size = abs(x)
    text = "INFINITY" if math.isinf(x) else repr(size) if len(repr(size)) <= 8 else size.hex()
    return f"(-{text})" if math.copysign(1.0, x) < 0 else text


# --- the rules: operands -> type and text -----------------------------------------------------------------------------

_Rule = Callable[[str, str], tuple[str, str]]


def _two(operands: str) -> tuple[str, str, str]:
    first, second = _split(operands)
    type_, x = _typed(first)
    return type_, _value(type_, x), _value(type_, second)


def _arithmetic(op: str, operands: str) -> tuple[str, str]:
    type_, a, b = _two(operands)
    if type_ == "i128":
        return type_, f"sd_wide_{op}({a}, {b})"
    text = f"{a} {ARITHMETIC[op]} {b}"
    if type_ in ("i8", "i16"):
        text = f"({TYPES[type_]})({text})"  # C computes these as int
    return type_, f"({text}) & 1" if type_ == "i1" and op in ("add", "sub", "xor", "mul") else text


def _remainder(op: str, operands: str) -> tuple[str, str]:
    type_, a, b = _two(operands)
    return type_, f"fmod{'f' if type_ == 'float' else ''}({a}, {b})"


def _signed_division(op: str, operands: str) -> tuple[str, str]:
    type_, a, b = _two(operands)
    own = SIGNED[type_]
    return type_, f"({TYPES[type_]})(({own}){a} {'/' if op == 'sdiv' else '%'} ({own}){b})"


def _shift(op: str, operands: str) -> tuple[str, str]:
    type_, a, b = _two(operands)
    if type_ == "i128":
        return type_, f"sd_wide_{op}({a})"
    if op == "ashr":
        return type_, f"({TYPES[type_]})sd_shifted((int64_t)({SIGNED[type_]}){a}, (unsigned){b})"
    text = f"{a} {'<<' if op == 'shl' else '>>'} {b}"
    return type_, text if type_ in ("i32", "i64") else f"({TYPES[type_]})({text})"


def _negated(op: str, operands: str) -> tuple[str, str]:
    type_, x = _typed(operands)
    return type_, f"-{_value(type_, x)}"


def _compared_reals(op: str, operands: str) -> tuple[str, str]:
    condition, _, rest = operands.partition(" ")
    _, a, b = _two(rest)
    if condition in ("ord", "uno"):
        return "i1", f"{'' if condition == 'uno' else '!'}(isnan({a}) || isnan({b}))"
    sign = COMPARED[condition[1:]]
    if condition[0] == "o":
        return "i1", f"({a} < {b} || {a} > {b})" if condition == "one" else f"{a} {sign} {b}"
    if condition == "une":
        return "i1", f"{a} != {b}"
    return "i1", f"({a} {sign} {b} || isnan({a}) || isnan({b}))"


def _compared_whole(op: str, operands: str) -> tuple[str, str]:
    condition, _, rest = operands.partition(" ")
    type_, a, b = _two(rest)
    sign = COMPARED[condition[-2:]]
    if condition[0] == "s" and type_ in SIGNED:
        a, b = (f"({SIGNED[type_]}){x}" for x in (a, b))
    elif condition[0] == "s" and type_ == "i1":
        a, b = f"-{a}", f"-{b}"  # the only bit is the sign
    return "i1", f"{a} {sign} {b}"


def _select(op: str, operands: str) -> tuple[str, str]:
    which, yes, no = map(_typed, _split(operands))
    return yes[0], f"{_value(*which)} ? {_value(*yes)} : {_value(*no)}"


def _cast(op: str, operands: str) -> tuple[str, str]:
    operand, _, wanted = operands.rpartition(" to ")
    type_, x = _typed(operand)
    value = _value(type_, x)
    if op == "bitcast":
        return wanted, f"sd_{type_}_as_{wanted}({value})"
    if wanted == "i128":
        return wanted, f"sd_wide_of({value})"
    if type_ == "i128":
        return wanted, f"{value}.low"
    if op in ("sext", "sitofp"):
        value = f"-{value}" if type_ == "i1" else f"({SIGNED[type_]}){value}"
    if op == "trunc" and wanted == "i1":
        return wanted, f"(int)({value} & 1)"
    return wanted, f"({TYPES[wanted]}){value}"


def _loaded(op: str, operands: str) -> tuple[str, str]:
    type_, place, *_ = _split(operands)
    return type_, f"sd_load_{type_}({_value(*_typed(place))})"


def _address(op: str, operands: str) -> tuple[str, str]:
    element, base, index = _split(operands)
    size = {"i8": 1, "double": 8, "i64": 8}[element]
    offset = f"(int64_t){_value(*_typed(index))}"
    return "ptr", f"{_value(*_typed(base))} + {offset if size == 1 else f'{size} * {offset}'}"


def _extracted(op: str, operands: str) -> tuple[str, str]:
    whole, k = _split(operands)
    type_, x = _typed(whole)
    kinds = [part.strip() for part in type_.strip("{} ").split(",")]
    return kinds[int(k)], f"{_name(x)}.r{k}"


def _insertion(op: str, operands: str) -> tuple[str, str]:
    whole, value, k = _split(operands)
    type_, base = _typed(whole)
    return type_, f"{base if base == 'poison' else _name(base)} {k} {_value(*_typed(value))}"


def _call(op: str, operands: str) -> tuple[str, str]:
    return _called(operands)


def _called(text: str) -> tuple[str, str]:
    match = re.match(rf"({TYPE}|void) @([\w.]+)\((.*)\)", text)
    if match is None:
        raise Unprintable(f"C: the call {text!r} is not understood")
    type_, name, operands = match.groups()
    typed = [_typed(part) for part in _split(operands)]
    values = [_value(*part) for part in typed]
    if not name.startswith("llvm."):
        return type_, f"{name}({', '.join(values)})"
    return type_, _intrinsic(name.split(".")[1:], type_, typed, values)


def _intrinsic(words: Sequence[str], type_: str, typed: Sequence[tuple[str, str]], values: list[str]) -> str:
    name = words[0]
    if name in CALLED:
        return f"{CALLED[name]}{'f' if type_ == 'float' else ''}({', '.join(values)})"
    if name in ("fptosi", "fptoui"):
        return f"sd_{name}_{typed[0][0]}_{type_}({values[0]})"
    if name in ("smin", "smax", "umin", "umax"):
        own = SIGNED[type_] if name[0] == "s" else TYPES[type_]
        a, b = values
        return f"({own}){a} {'<' if name.endswith('min') else '>'} ({own}){b} ? {a} : {b}"
    if name == "abs":
        return f"({SIGNED[type_]}){values[0]} < 0 ? ({TYPES[type_]})(0 - {values[0]}) : {values[0]}"
    if name in ("ctlz", "ctpop"):
        bits = int(type_[1:])
        return f"({TYPES[type_]})sd_{name}({values[0]}{f', {bits}' if name == 'ctlz' else ''})"
    if name in ("fshl", "fshr") and type_ == "i64":
        return f"sd_{name}({', '.join(values)})"
    if name in ("minimum", "maximum", "minnum", "maxnum"):
        return f"sd_{name}_{type_}({', '.join(values)})"
    raise Unprintable(f"C: the intrinsic {'.'.join(words)!r} has no spelling in C")


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **dict.fromkeys(("sdiv", "srem"), _signed_division),
    **dict.fromkeys(("shl", "lshr", "ashr"), _shift),
    **dict.fromkeys(("zext", "sext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp", "bitcast"), _cast),
    "frem": _remainder,
    "fneg": _negated,
    "fcmp": _compared_reals,
    "icmp": _compared_whole,
    "select": _select,
    "load": _loaded,
    "getelementptr": _address,
    "extractvalue": _extracted,
    "insertvalue": _insertion,
    "call": _call,
}


def _saturated(real: str, bits: int) -> str:
    """Casts of reals to whole numbers, held within their range; of NaN, 0."""
    top, last = 2 ** (bits - 1), "f" if real == "float" else ""
    whole = f"uint{bits}_t"
    return f"""static inline {whole} sd_fptosi_{real}_i{bits}({real} x)
{{
    if (!(x >= -{float(top)}{last})) return isnan(x) ? 0 : ({whole})(UINT64_C(1) << {bits - 1});
    return x >= {float(top)}{last} ? ({whole})((UINT64_C(1) << {bits - 1}) - 1) : ({whole})(int64_t)x;
}}
static inline {whole} sd_fptoui_{real}_i{bits}({real} x)
{{
    if (!(x > 0)) return 0;
    return x >= {float(2 * top)}{last} ? ({whole})UINT64_MAX : ({whole})(uint64_t)x;
}}
"""


_WIDE = "typedef struct { uint64_t low, high; } sd_wide;\n"
_HELPERS = """static inline double sd_load_double(const char *p) { double x; memcpy(&x, p, sizeof x); return x; }
static inline uint64_t sd_load_i64(const char *p) { uint64_t x; memcpy(&x, p, sizeof x); return x; }
static inline void sd_store_double(char *p, double x) { memcpy(p, &x, sizeof x); }
static inline void sd_store_i64(char *p, uint64_t x) { memcpy(p, &x, sizeof x); }
static inline uint64_t sd_double_as_i64(double x) { uint64_t y; memcpy(&y, &x, sizeof y); return y; }
static inline double sd_i64_as_double(uint64_t x) { double y; memcpy(&y, &x, sizeof y); return y; }
static inline uint32_t sd_float_as_i32(float x) { uint32_t y; memcpy(&y, &x, sizeof y); return y; }
static inline float sd_i32_as_float(uint32_t x) { float y; memcpy(&y, &x, sizeof y); return y; }
static inline int64_t sd_shifted(int64_t x, unsigned k) { return x < 0 ? ~(~x >> k) : x >> k; }
static inline uint64_t sd_fshl(uint64_t a, uint64_t b, uint64_t k) { k &= 63; return k ? a << k | b >> (64 - k) : a; }
static inline uint64_t sd_fshr(uint64_t a, uint64_t b, uint64_t k) { k &= 63; return k ? b >> k | a << (64 - k) : b; }
static inline int sd_ctlz(uint64_t x, int bits)
{
    int n = 0;
    while (n < bits && !(x >> (bits - 1 - n) & 1)) n++;
    return n;
}
static inline int sd_ctpop(uint64_t x)
{
    int n = 0;
    for (; x; x &= x - 1) n++;
    return n;
}
static inline double sd_maximum_double(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    return a > b || (a == b && !signbit(a)) ? a : b;
}
static inline double sd_minimum_double(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    return a < b || (a == b && signbit(a)) ? a : b;
}
static inline sd_wide sd_wide_of(uint64_t x) { sd_wide w; w.low = x; w.high = 0; return w; }
static inline sd_wide sd_wide_add(sd_wide a, sd_wide b)
{
    a.low += b.low;
    a.high += b.high + (a.low < b.low);
    return a;
}
static inline sd_wide sd_wide_mul(sd_wide a, sd_wide b)
{
    uint64_t a0 = a.low & UINT32_MAX, a1 = a.low >> 32, b0 = b.low & UINT32_MAX, b1 = b.low >> 32;
    uint64_t middle = (a0 * b0 >> 32) + (a1 * b0 & UINT32_MAX) + (a0 * b1 & UINT32_MAX);
    sd_wide w;
    w.low = a.low * b.low;
    w.high = a1 * b1 + (a1 * b0 >> 32) + (a0 * b1 >> 32) + (middle >> 32) + a.high * b.low + a.low * b.high;
    return w;
}
static inline sd_wide sd_wide_lshr(sd_wide a) { return sd_wide_of(a.high); }
"""

_CHECK = """
int NAME_check(void)
{
    volatile double a = 1.0 + 0x1p-27, b = 1.0 - 0x1p-27, c = -1.0, small = 0x1p-1000, big = 0x1p1000;
    double x = a, y = b, z = c, product = x * y + z;
    if (product != 0.0 || fma(x, y, z) != -0x1p-54) return 1;
    if ((x + big) - big != 0.0 || small * small != 0.0 || small * 0x1p-60 == 0.0) return 1;
    volatile double infinite = INFINITY;
    z = infinite - infinite;
    return !(z != z);
}
"""
