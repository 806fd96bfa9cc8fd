"""Numbers with engineering suffixes, and arithmetic over parameters by a small grammar; nothing is ever run as code.

choice    = either ["?" choice ":" choice]
either    = both {"||" both}
both      = condition {"&&" condition}
condition = sum [(">" | "<" | ">=" | "<=" | "==" | "!=") sum]
sum       = product {("+" | "-") product}
product   = signed {("*" | "/") signed}
signed    = ["+" | "-" | "!"] signed | power
power     = atom [("**" | "^") signed]                      & | ~ are && || !, and <> is !=
atom      = number | name | function "(" choice {"," choice} ")" | "(" choice ")"

Functions are the ones below, those of .func, and the random ones. With a ξ drawn for each place in which one stands,
    gauss(x, r[, s]) = x + x r/s ξ    agauss(x, a[, s]) = x + a/s ξ       ξ normal, of variance 1
    unif(x, r) = x + x r ξ = mc(x, r)            aunif(x, a) = x + a ξ               ξ uniform between -1 and 1
    limit(x, a) = x + a sign(ξ)                                           ξ as for unif
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

SUFFIXES = {
    "t": 1e12, "g": 1e9, "meg": 1e6, "k": 1e3, "mil": 25.4e-6, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9,
    "p": 1e-12, "f": 1e-15, "": 1.0,
}  # fmt: skip
_UNITS = "v|volts?|a|amps?|ohms?|ω|f|farads?|h|henrys?|hz|s|secs?|w|watts?|mhos?|°?c|deg"
_NUMBER = rf"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(?:(t|g|meg|k|mil|m|u|µ|μ|n|p|f)?(?:{_UNITS})?(?![\w.]))"
NUMBER = re.compile(_NUMBER)
SIGNED = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(t|g|meg|k|mil|m|u|µ|μ|n|p|f)?[a-zω°%]*\+?")  # 10Vpeak, 1e-4+
SHORTHAND = re.compile(r"([+-]?\d+)(meg|[tgkmunpfr])(\d+)")  # 4k7
TOKEN = re.compile(r"\s*(?:(\*\*|>=|<=|==|!=|<>|&&?|\|\|?|[-+*/^(),?:<>!~])|([a-z_][\w.]*))")
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
    "==": lambda a, b: (a <= b) & (a >= b), "!=": lambda a, b: (a < b) | (a > b),
    "<>": lambda a, b: (a < b) | (a > b),
}  # fmt: skip
FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "sqrt": (1, math.sqrt), "exp": (1, math.exp), "log": (1, math.log), "ln": (1, math.log), "log10": (1, math.log10),
    "abs": (1, abs), "sin": (1, math.sin), "cos": (1, math.cos), "tan": (1, math.tan), "atan": (1, math.atan),
    "sinh": (1, math.sinh), "cosh": (1, math.cosh), "tanh": (1, math.tanh), "pow": (2, math.pow), "min": (2, min),
    "asin": (1, math.asin), "acos": (1, math.acos), "arctan": (1, math.atan), "asinh": (1, math.asinh),
    "acosh": (1, math.acosh), "atanh": (1, math.atanh), "atan2": (2, math.atan2), "hypot": (2, math.hypot),
    "sqr": (1, lambda x: x * x), "square": (1, lambda x: x * x), "nint": (1, round), "round": (1, round),
    "sign": (1, lambda x: float((x > 0) - (x < 0))), "pwr": (2, lambda x, p: math.copysign(abs(x) ** p, x)),
    "pwrs": (2, lambda x, p: math.copysign(abs(x) ** p, x)), "ternary_fcn": (3, lambda c, a, b: a if c else b),
    "u": (1, lambda x: float(x > 0.0)), "uramp": (1, lambda x: max(x, 0.0)), "max": (2, max),
    "int": (1, math.trunc), "floor": (1, math.floor), "ceil": (1, math.ceil),
    "sgn": (1, lambda x: float((x > 0) - (x < 0))), "limit": (3, lambda x, a, b: min(max(x, min(a, b)), max(a, b))),
    "if": (3, lambda condition, a, b: a if condition > 0.5 else b),
}  # fmt: skip
CONSTANTS = {"pi": math.pi}
OFFERED = {"e": math.e, "echarge": 1.602176634e-19, "boltz": 1.380649e-23, "planck": 6.62607015e-34}
LONGEST, DEEPEST = 2000, 50
MOST_CALLS = 1000  # calls of .func functions in one expression, nested calls included
NORMAL, UNIFORM = "normal", "uniform"
RANDOM: dict[str, tuple[str, int, Callable[..., float]]] = {
    "gauss": (NORMAL, 3, lambda ξ, x, r, s=1.0: x + x * r / s * ξ),
    "agauss": (NORMAL, 3, lambda ξ, x, a, s=1.0: x + a / s * ξ),
    "mc": (UNIFORM, 2, lambda ξ, x, r: x + x * r * ξ),
    "unif": (UNIFORM, 2, lambda ξ, x, r: x + x * r * ξ),
    "aunif": (UNIFORM, 2, lambda ξ, x, a: x + a * ξ),
    "limit": (UNIFORM, 2, lambda ξ, x, a: x + a * float((ξ > 0) - (ξ < 0))),
}


class Function(NamedTuple):
    """A function of .func: the names of its arguments, its expression, and the lookup of other names in it."""

    arguments: tuple[str, ...]
    body: str
    lookup: Callable[[str], Any]


class Names(NamedTuple):
    """The names available to an expression: parameters, functions of .func (None if there is none of that name), and
    the ξ of a random function by its name and law (None where random values are not allowed)."""

    parameter: Callable[[str], Any]
    function: Callable[[str], Function | None] = lambda name: None
    chance: Callable[[str, str], float] | None = None


def array_functions(xp: Any) -> dict[str, tuple[int, Callable[..., Any]]]:
    """The functions for expressions of voltages, in an array module: smooth ones, and those with corners."""
    return {
        "sqrt": (1, lambda x: xp.sqrt(xp.maximum(x, 0.0))), "exp": (1, lambda x: xp.exp(xp.minimum(x, 200.0))),
        "log": (1, xp.log), "ln": (1, xp.log), "log10": (1, xp.log10), "abs": (1, xp.abs), "sin": (1, xp.sin),
        "cos": (1, xp.cos), "tan": (1, xp.tan), "atan": (1, xp.arctan), "sinh": (1, xp.sinh), "cosh": (1, xp.cosh),
        "tanh": (1, xp.tanh), "pow": (2, lambda x, p: raised(x, p, xp)), "min": (2, xp.minimum),
        "max": (2, xp.maximum), "sgn": (1, xp.sign), "limit": (3, lambda x, a, b: xp.minimum(xp.maximum(x, a), b)),
        "u": (1, lambda x: xp.where(x > 0.0, 1.0, 0.0)), "uramp": (1, lambda x: xp.maximum(x, 0.0)),
        "if": (3, lambda condition, a, b: xp.where(condition > 0.5, a, b)),
        "pwr": (2, lambda x, p: xp.sign(x) * xp.abs(x) ** p), "pwrs": (2, lambda x, p: xp.sign(x) * xp.abs(x) ** p),
        "asin": (1, xp.arcsin), "acos": (1, xp.arccos), "arctan": (1, xp.arctan), "asinh": (1, xp.arcsinh),
        "acosh": (1, xp.arccosh), "atanh": (1, xp.arctanh), "atan2": (2, xp.arctan2),
        "hypot": (2, lambda x, y: xp.sqrt(x * x + y * y)), "sqr": (1, lambda x: x * x), "square": (1, lambda x: x * x),
        "sign": (1, xp.sign), "ternary_fcn": (3, lambda condition, a, b: xp.where(_is_true(condition), a, b)),
        "inv": (1, lambda x: xp.where(x > 0.5, 0.0, 1.0)), "buf": (1, lambda x: xp.where(x > 0.5, 1.0, 0.0)),
        "int": (1, xp.trunc), "floor": (1, xp.floor), "ceil": (1, xp.ceil), "nint": (1, xp.round),
        "round": (1, xp.round),
        "table": (0, lambda *points: interpolated(*points, xp=xp)),
        "pwl": (0, lambda *points: interpolated(*points, xp=xp)),
    }  # fmt: skip


def raised(base: Any, power: Any, xp: Any) -> Any:
    """base ** power for integer powers, |base| ** power for others."""
    if isinstance(power, float | int) and float(power).is_integer():
        return base ** int(power)
    return xp.abs(base) ** power


def interpolated(x: Any, *points: Any, xp: Any) -> Any:
    """Straight lines through x1, y1, x2, y2, ..., constant outside."""
    places, values = points[::2], points[1::2]
    if len(places) < 2 or len(places) != len(values):
        raise BadValue("table() takes a value and at least two pairs of numbers")
    total = values[0]
    for left, right, low, high in zip(places, places[1:], values, values[1:], strict=False):
        if not right > left:
            raise BadValue("table(): its abscissas must increase")
        total = total + (high - low) * (xp.minimum(xp.maximum((x - left) / (right - left), 0.0), 1.0))
    return total


def _is_true(value: Any) -> Any:
    """Whether a value is not zero, for numbers, arrays and dual numbers alike."""
    return (value > 0.0) | (value < 0.0)


class BadValue(ValueError):
    """A value that cannot be used; the message says why."""


def number(text: str) -> float | None:
    """10k, 2.2uF, 1meg, -5V, 1e-3: the number that a word in lower case stands for, or None. As in SPICE, m is
    milli and f femto, and letters after these say nothing.

    Raises BadValue where no floating-point number is near it: 1e-400 is not 0.
    """
    match = SIGNED.fullmatch(text)
    if match is None and (short := SHORTHAND.fullmatch(text)):  # 4k7 = 4.7k, 2r5 = 2.5
        match = SIGNED.fullmatch(f"{short[1]}.{short[3]}{short[2].replace('r', '')}")
    if match is None:
        return None
    sign, digits, power, suffix = match.groups()
    value = float(digits + (power or "")) * SUFFIXES[suffix or ""]
    if not math.isfinite(value) or (value == 0.0 and digits.strip("0.")):
        raise BadValue(f"{text} is too {'small' if value == 0.0 else 'large'} for a number of 64 bits")
    return -value if sign == "-" else value


def evaluate(text: str, names: Names) -> float:
    """The value of an expression in lower case; names that are not known raise BadValue."""
    if len(text) > LONGEST:
        raise BadValue(f"an expression of {len(text)} characters, expected at most {LONGEST}")
    value = _Parser(text, names).whole()
    if not math.isfinite(value):
        raise BadValue(f"{text!r} is not a finite number")
    return value


def evaluate_arrays(text: str, names: Names, xp: Any) -> Any:
    """The value of an expression over arrays of the module xp: parameters are numbers or arrays."""
    return _Parser(text, names, xp).whole()


class _Parser:
    """Recursive descent over the grammar above, computing as it goes; with an array module, over arrays."""

    def __init__(self, text: str, names: Names, xp: Any = None, depth: int = 0, calls: list[int] | None = None):
        self.text, self.names, self.xp, self.place, self.depth = text, names, xp, 0, depth
        self.calls = [0] if calls is None else calls  # of functions of .func, counted together
        self.functions: dict[str, tuple[int, Callable]] = FUNCTIONS if xp is None else array_functions(xp)
        self.live = True  # not in a branch that a condition leaves out
        self.advance()

    def advance(self) -> None:
        """Read the next token: an operator in `operator`, a name in `name`, or a number in `value`."""
        self.operator = self.name = ""
        self.value: float | None = None
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1
        if self.place == len(self.text):
            return
        match = NUMBER.match(self.text, self.place)
        if match:
            self.value = number(match[0])
        else:
            match = TOKEN.match(self.text, self.place)
            if not match:
                raise BadValue(f"{self.text!r}: {self.text[self.place :][:12]!r} is not a number, name or operator")
            self.operator, self.name = match[1] or "", match[2] or ""
        self.place = match.end()

    def took(self, *operators: str) -> str:
        """Return the operator at this place if it is one of these, and go on to the next token."""
        operator = self.operator
        if operator and operator in operators:
            self.advance()
            return operator
        return ""

    def whole(self) -> Any:
        value = self.choice()
        if self.operator or self.name or self.value is not None:
            raise BadValue(f"{self.text!r}: did not expect {self.operator or self.name or f'{self.value:g}'!r} there")
        return value

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise BadValue(f"an expression nested deeper than {DEEPEST}")

    def choice(self) -> Any:
        self.deeper()
        value = self.either()
        if self.took("?"):
            live, is_known = self.live, self.xp is None
            self.live = live and (not is_known or bool(value))
            then = self.choice()
            if not self.took(":"):
                raise BadValue(f"{self.text!r}: expected CONDITION ? VALUE : VALUE")
            self.live = live and (not is_known or not value)
            other = self.choice()
            self.live = live
            value = (then if value else other) if is_known else self.xp.where(_is_true(value), then, other)
        self.depth -= 1
        return value

    def either(self) -> Any:
        value = self.both()
        while self.took("||", "|"):
            value = self.logical(operator.or_, value, self.both())
        return value

    def both(self) -> Any:
        value = self.condition()
        while self.took("&&", "&"):
            value = self.logical(operator.and_, value, self.condition())
        return value

    def logical(self, joined: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        result = joined(_is_true(a), _is_true(b))
        return float(result) if self.xp is None else self.xp.where(result, 1.0, 0.0)

    def condition(self) -> Any:
        value = self.sum()
        if sign := self.took(*COMPARED):
            result = COMPARED[sign](value, self.sum())
            return float(result) if self.xp is None else self.xp.where(result, 1.0, 0.0)
        return value

    def sum(self) -> Any:
        value = self.product()
        while sign := self.took("+", "-"):
            value = value + self.product() if sign == "+" else value - self.product()
        return value

    def product(self) -> Any:
        value = self.signed()
        while sign := self.took("*", "/"):
            value = self.computed(operator.mul if sign == "*" else operator.truediv, value, self.signed())
        return value

    def signed(self) -> Any:
        signs = []
        while sign := self.took("+", "-", "!", "~"):
            signs.append(sign)
        value = self.power()
        for sign in reversed(signs):
            if sign in "!~":
                value = float(not value) if self.xp is None else self.xp.where(_is_true(value), 0.0, 1.0)
            elif sign == "-":
                value = -value
        return value

    def power(self) -> Any:
        base = self.atom()
        if not self.took("**", "^"):
            return base
        self.deeper()
        to = self.signed()
        result = self.computed(math.pow if self.xp is None else lambda b, p: raised(b, p, self.xp), base, to)
        self.depth -= 1
        return result

    def atom(self) -> Any:
        if self.value is not None:
            value = self.value
            self.advance()
            return value
        if self.name:
            name = self.name
            self.advance()
            if self.operator == "(":
                return self.call(name)
            return self.named(name)
        if self.took("("):
            value = self.choice()
            if not self.took(")"):
                raise BadValue(f"{self.text!r}: a parenthesis is not closed")
            return value
        raise BadValue(f"{self.text!r}: a value is missing" + (f" before {self.operator!r}" if self.operator else ""))

    def named(self, name: str) -> Any:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if not self.live:
            return 0.0
        try:
            return self.names.parameter(name)
        except BadValue:
            if name not in OFFERED:
                raise
            return OFFERED[name]

    def call(self, name: str) -> Any:
        own = self.names.function(name)
        if own is None and name not in self.functions and name not in RANDOM:
            raise BadValue(f"there is no function {name}(); there are {', '.join((*self.functions, *RANDOM))}")
        self.advance()
        values = [] if self.operator == ")" else [self.choice()]
        while values and self.took(","):
            values.append(self.choice())
        if not self.took(")"):
            raise BadValue(f"{self.text!r}: the parenthesis of {name}( is not closed")
        if own is not None:
            return self.called(name, own, values)
        if name in RANDOM and not (name in self.functions and len(values) > 2):
            return self.random_value(name, values)
        count, function = self.functions[name]
        if name in ("min", "max") and len(values) > 2:
            return functools.reduce(lambda a, b: self.computed(function, a, b), values)
        if len(values) != count and count:
            raise BadValue(f"{name}() takes {count} value(s), got {len(values)}")
        return self.computed(function, *values)

    def called(self, name: str, own: Function, values: list[Any]) -> Any:
        """The value of a function of .func."""
        if len(values) != len(own.arguments):
            raise BadValue(f"{name}() takes {len(own.arguments)} value(s), got {len(values)}")
        if not self.live:
            return 0.0
        self.calls[0] += 1
        if self.calls[0] > MOST_CALLS:
            raise BadValue(f"more than {MOST_CALLS} calls of functions of .func in one expression")
        self.deeper()
        bound = dict(zip(own.arguments, values, strict=True))
        inside = self.names._replace(parameter=lambda n: bound[n] if n in bound else own.lookup(n))
        value = _Parser(own.body, inside, self.xp, self.depth, self.calls).whole()
        self.depth -= 1
        return value

    def random_value(self, name: str, values: list[Any]) -> Any:
        """The value of a random function."""
        law, most, function = RANDOM[name]
        if not 2 <= len(values) <= most:
            raise BadValue(f"{name}() takes {'2 or 3' if most == 3 else '2'} value(s), got {len(values)}")
        if not self.live:
            return 0.0
        if self.names.chance is None or self.xp is not None:
            raise BadValue(f"{name}() cannot be used here; give its value to a .param, and use that")
        return self.computed(function, self.names.chance(name, law), *values)

    def computed(self, function: Callable[..., Any], *values: Any) -> Any:
        if not self.live:
            return 0.0
        if self.xp is not None:
            return function(*values)
        try:
            return float(function(*values))
        except ZeroDivisionError:
            raise BadValue(f"{self.text!r} divides by zero") from None
        except (OverflowError, ValueError) as error:
            raise BadValue(f"{self.text!r} has no value ({error})") from None
