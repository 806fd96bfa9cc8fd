"""Numbers with engineering suffixes, and arithmetic over parameters by a small grammar; nothing is ever run as code.

sum     = product {("+" | "-") product}
product = signed {("*" | "/") signed}
signed  = ["+" | "-"] signed | power
power   = atom [("**" | "^") signed]
atom    = number | name | function "(" sum {"," sum} ")" | "(" sum ")"
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

SUFFIXES = {
    "t": 1e12, "g": 1e9, "meg": 1e6, "k": 1e3, "mil": 25.4e-6, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9,
    "p": 1e-12, "f": 1e-15, "": 1.0,
}  # fmt: skip
_UNITS = "v|volts?|a|amps?|ohms?|ω|f|farads?|h|henrys?|hz|s|secs?"
_NUMBER = rf"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(?:(t|g|meg|k|mil|m|u|µ|μ|n|p|f)?(?:{_UNITS})?(?![\w.]))"
NUMBER = re.compile(_NUMBER)
SIGNED = re.compile(rf"([+-]?){_NUMBER}")
TOKEN = re.compile(r"\s*(?:(\*\*|[-+*/^(),])|([a-z_][\w.]*))")
FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "sqrt": (1, math.sqrt), "exp": (1, math.exp), "log": (1, math.log), "ln": (1, math.log), "log10": (1, math.log10),
    "abs": (1, abs), "sin": (1, math.sin), "cos": (1, math.cos), "tan": (1, math.tan), "atan": (1, math.atan),
    "sinh": (1, math.sinh), "cosh": (1, math.cosh), "tanh": (1, math.tanh), "pow": (2, math.pow), "min": (2, min),
    "max": (2, max),
}  # fmt: skip
CONSTANTS = {"pi": math.pi}
LONGEST, DEEPEST = 2000, 50


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


class _Parser:
    """Recursive descent over the grammar above, computing as it goes."""

    def __init__(self, text: str, lookup: Callable[[str], float]):
        self.text, self.lookup, self.place, self.depth = text, lookup, 0, 0
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

    def whole(self) -> float:
        value = self.sum()
        if self.operator or self.name or self.value is not None:
            raise BadValue(f"{self.text!r}: did not expect {self.operator or self.name or f'{self.value:g}'!r} there")
        return value

    def sum(self) -> float:
        self.depth += 1
        if self.depth > DEEPEST:
            raise BadValue(f"an expression nested deeper than {DEEPEST}")
        value = self.product()
        while sign := self.took("+", "-"):
            value = value + self.product() if sign == "+" else value - self.product()
        self.depth -= 1
        return value

    def product(self) -> float:
        value = self.signed()
        while sign := self.took("*", "/"):
            value = self.computed(operator.mul if sign == "*" else operator.truediv, value, self.signed())
        return value

    def signed(self) -> float:
        negative = False
        while sign := self.took("+", "-"):
            negative ^= sign == "-"
        value = self.power()
        return -value if negative else value

    def power(self) -> float:
        base = self.atom()
        if not self.took("**", "^"):
            return base
        self.depth += 1
        if self.depth > DEEPEST:
            raise BadValue(f"an expression nested deeper than {DEEPEST}")
        result = self.computed(math.pow, base, self.signed())
        self.depth -= 1
        return result

    def atom(self) -> float:
        if self.value is not None:
            value = self.value
            self.advance()
            return value
        if self.name:
            name = self.name
            self.advance()
            if self.operator == "(":
                return self.call(name)
            return CONSTANTS[name] if name in CONSTANTS else self.lookup(name)
        if self.took("("):
            value = self.sum()
            if not self.took(")"):
                raise BadValue(f"{self.text!r}: a parenthesis is not closed")
            return value
        raise BadValue(f"{self.text!r}: a value is missing" + (f" before {self.operator!r}" if self.operator else ""))

    def call(self, name: str) -> float:
        if name not in FUNCTIONS:
            raise BadValue(f"there is no function {name}(); there are {', '.join(FUNCTIONS)}")
        self.advance()
        values = [self.sum()]
        while self.took(","):
            values.append(self.sum())
        if not self.took(")"):
            raise BadValue(f"{self.text!r}: the parenthesis of {name}( is not closed")
        count, function = FUNCTIONS[name]
        if len(values) != count:
            raise BadValue(f"{name}() takes {count} value(s), got {len(values)}")
        return self.computed(function, *values)

    def computed(self, function: Callable[..., float], *values: float) -> float:
        try:
            return float(function(*values))
        except ZeroDivisionError:
            raise BadValue(f"{self.text!r} divides by zero") from None
        except (OverflowError, ValueError) as error:
            raise BadValue(f"{self.text!r} has no value ({error})") from None
