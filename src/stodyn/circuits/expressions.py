"""Numbers with engineering suffixes, and arithmetic over parameters by a small grammar; nothing is ever run as code.

choice    = condition ["?" choice ":" choice]
condition = sum [(">" | "<" | ">=" | "<=" | "==" | "!=") sum]
sum       = product {("+" | "-") product}
product   = signed {("*" | "/") signed}
signed    = ["+" | "-"] signed | power
power     = atom [("**" | "^") signed]
atom      = number | name | function "(" choice {"," choice} ")" | "(" choice ")"
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

SUFFIXES = {
    "t": 1e12, "g": 1e9, "meg": 1e6, "k": 1e3, "mil": 25.4e-6, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9,
    "p": 1e-12, "f": 1e-15, "": 1.0,
}  # fmt: skip
_UNITS = "v|volts?|a|amps?|ohms?|ω|f|farads?|h|henrys?|hz|s|secs?"
_NUMBER = rf"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(?:(t|g|meg|k|mil|m|u|µ|μ|n|p|f)?(?:{_UNITS})?(?![\w.]))"
NUMBER = re.compile(_NUMBER)
SIGNED = re.compile(rf"([+-]?){_NUMBER}")
TOKEN = re.compile(r"\s*(?:(\*\*|>=|<=|==|!=|[-+*/^(),?:<>])|([a-z_][\w.]*))")
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "sqrt": (1, math.sqrt), "exp": (1, math.exp), "log": (1, math.log), "ln": (1, math.log), "log10": (1, math.log10),
    "abs": (1, abs), "sin": (1, math.sin), "cos": (1, math.cos), "tan": (1, math.tan), "atan": (1, math.atan),
    "sinh": (1, math.sinh), "cosh": (1, math.cosh), "tanh": (1, math.tanh), "pow": (2, math.pow), "min": (2, min),
    "max": (2, max), "int": (1, math.trunc), "floor": (1, math.floor), "ceil": (1, math.ceil),
    "sgn": (1, lambda x: float((x > 0) - (x < 0))), "limit": (3, lambda x, a, b: min(max(x, min(a, b)), max(a, b))),
}  # fmt: skip
CONSTANTS = {"pi": math.pi}
LONGEST, DEEPEST = 2000, 50


def array_functions(xp: Any) -> dict[str, tuple[int, Callable[..., Any]]]:
    """The functions of expressions over voltages, of an array module: smooth ones, and those with corners."""
    return {
        "sqrt": (1, lambda x: xp.sqrt(xp.maximum(x, 0.0))), "exp": (1, lambda x: xp.exp(xp.minimum(x, 200.0))),
        "log": (1, xp.log), "ln": (1, xp.log), "log10": (1, xp.log10), "abs": (1, xp.abs), "sin": (1, xp.sin),
        "cos": (1, xp.cos), "tan": (1, xp.tan), "atan": (1, xp.arctan), "sinh": (1, xp.sinh), "cosh": (1, xp.cosh),
        "tanh": (1, xp.tanh), "pow": (2, lambda x, p: raised(x, p, xp)), "min": (2, xp.minimum),
        "max": (2, xp.maximum), "sgn": (1, xp.sign), "limit": (3, lambda x, a, b: xp.minimum(xp.maximum(x, a), b)),
        "u": (1, lambda x: xp.where(x > 0.0, 1.0, 0.0)), "uramp": (1, lambda x: xp.maximum(x, 0.0)),
        "pwr": (2, lambda x, p: xp.sign(x) * xp.abs(x) ** p),
        "table": (0, lambda *points: interpolated(*points, xp=xp)),
    }  # fmt: skip


def raised(base: Any, power: Any, xp: Any) -> Any:
    """base ** power: of whole powers as it stands, else of |base|."""
    if isinstance(power, float | int) and float(power).is_integer():
        return base ** int(power)
    return xp.abs(base) ** power


def interpolated(x: Any, *points: Any, xp: Any) -> Any:
    """Straight lines through x1, y1, x2, y2, ..., constant outside."""
    places, values = points[::2], points[1::2]
    if len(places) < 2 or len(places) != len(values):
        raise BadValue("table() takes a value and at least two pairs of numbers")
    found = values[0]
    for left, right, low, high in zip(places, places[1:], values, values[1:], strict=False):
        if not right > left:
            raise BadValue("table(): its places must increase")
        found = found + (high - low) * (xp.minimum(xp.maximum((x - left) / (right - left), 0.0), 1.0))
    return found


class BadValue(ValueError):
    """What is wrong with a value."""


def number(text: str) -> float | None:
    """10k, 2.2uF, 1meg, -5V, 1e-3: the number a word in lower case says, or None. As in SPICE m is milli, f femto.

    Raises BadValue where no floating-point number is near it: 1e-400 is not 0.
    """
    found = SIGNED.fullmatch(text)
    if found is None:
        return None
    sign, digits, power, suffix = found.groups()
    value = float(digits + (power or "")) * SUFFIXES[suffix or ""]
    if not math.isfinite(value) or (value == 0.0 and digits.strip("0.")):
        raise BadValue(f"{text} is too {'small' if value == 0.0 else 'large'} for a number of 64 bits")
    return -value if sign == "-" else value


def evaluate(text: str, lookup: Callable[[str], float]) -> float:
    """The value of an expression in lower case; lookup(name) gives a parameter or raises BadValue."""
    if len(text) > LONGEST:
        raise BadValue(f"an expression of {len(text)} characters, expected at most {LONGEST}")
    value = _Parser(text, lookup).whole()
    if not math.isfinite(value):
        raise BadValue(f"{text!r} is not a finite number")
    return value


def evaluate_arrays(text: str, lookup: Callable[[str], Any], xp: Any) -> Any:
    """The same over arrays of the module xp: lookup(name) gives a number or an array."""
    return _Parser(text, lookup, xp).whole()


class _Parser:
    """Recursive descent over the grammar above, computing as it goes; with an array module, over arrays."""

    def __init__(self, text: str, lookup: Callable[[str], Any], xp: Any = None):
        self.text, self.lookup, self.xp, self.place, self.depth = text, lookup, xp, 0, 0
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
        found = NUMBER.match(self.text, self.place)
        if found:
            self.value = number(found[0])
        else:
            found = TOKEN.match(self.text, self.place)
            if not found:
                raise BadValue(f"{self.text!r}: {self.text[self.place :][:12]!r} is no number, name or operator")
            self.operator, self.name = found[1] or "", found[2] or ""
        self.place = found.end()

    def took(self, *operators: str) -> str:
        """The operator that stands here, if it is one of these; then go on."""
        found = self.operator
        if found and found in operators:
            self.advance()
            return found
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
        value = self.condition()
        if self.took("?"):
            live, is_known = self.live, self.xp is None
            self.live = live and (not is_known or bool(value))
            then = self.choice()
            if not self.took(":"):
                raise BadValue(f"{self.text!r}: expected CONDITION ? VALUE : VALUE")
            self.live = live and (not is_known or not value)
            other = self.choice()
            self.live = live
            value = (then if value else other) if is_known else self.xp.where(value, then, other)
        self.depth -= 1
        return value

    def condition(self) -> Any:
        value = self.sum()
        if sign := self.took(*COMPARED):
            other = self.sum()
            value = COMPARED[sign](value, other)
            return float(value) if self.xp is None else value
        return value if self.xp is None or self.operator != "?" else value != 0.0

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
        negative = False
        while sign := self.took("+", "-"):
            negative ^= sign == "-"
        value = self.power()
        return -value if negative else value

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
            return CONSTANTS[name] if name in CONSTANTS else self.lookup(name) if self.live else 0.0
        if self.took("("):
            value = self.choice()
            if not self.took(")"):
                raise BadValue(f"{self.text!r}: a parenthesis is not closed")
            return value
        raise BadValue(f"{self.text!r}: a value is missing" + (f" before {self.operator!r}" if self.operator else ""))

    def call(self, name: str) -> Any:
        if name not in self.functions:
            raise BadValue(f"there is no function {name}(); there are {', '.join(self.functions)}")
        self.advance()
        values = [self.choice()]
        while self.took(","):
            values.append(self.choice())
        if not self.took(")"):
            raise BadValue(f"{self.text!r}: the parenthesis of {name}( is not closed")
        count, function = self.functions[name]
        if len(values) != count and count:
            raise BadValue(f"{name}() takes {count} value(s), got {len(values)}")
        return self.computed(function, *values)

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
