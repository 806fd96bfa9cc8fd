"""Dual numbers over arrays: a function written for an array module gives its value and its slopes in one call.

x = value + Σ_k slopes[k] ε_k with ε_j ε_k = 0; a slope that is zero everywhere is None. `slopes(function, *values)`
hands the function dual numbers and this module in place of numpy, so that a function written once for numpy and JAX is
also differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

STEP = 1e-5  # in difference quotients of dual numbers


def slopes(function: Callable[..., Any], values: Sequence[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    """function((x_1, x_2, ...), module) and its slope in each x."""
    count = len(values)
    duals = tuple(Dual(v, [np.ones(()) if i == k else None for i in range(count)]) for k, v in enumerate(values))
    results = _lifted(function(duals, Functions), count)
    return results.value, [np.broadcast_to(_filled(s), np.shape(results.value)) for s in results.slopes]


def slope_in_first(function: Callable[..., Any], values: Sequence[Any], *more: Any) -> Any:
    """The slope of function(values, *more) in the first of the values, for numpy, JAX and dual numbers; the last
    argument is the array module. For dual numbers, whose own slopes are then second ones, it is a difference quotient.
    """
    *between, xp = more
    if xp is np:
        return slopes(lambda duals, module: function(duals, *between, module), values)[1][0]
    first, *rest = values
    if xp is Functions:
        low, high = (function((first + side, *rest), *between, xp) for side in (-STEP, STEP))
        return (high - low) * (0.5 / STEP)
    return jax.jvp(lambda x: function((x, *rest), *between, xp), (first,), (xp.ones_like(first),))[1]


class Dual:
    """A value and its slopes; None stands for a slope that is zero."""

    __array_ufunc__ = None  # so that numpy leaves array * Dual to Dual

    def __init__(self, value: Any, slopes: list[Any]):
        self.value, self.slopes = value, slopes

    def _through(self, value: Any, slope: Any) -> Dual:
        return Dual(value, [None if s is None else slope * s for s in self.slopes])

    def __neg__(self) -> Dual:
        return Dual(-self.value, [None if s is None else -s for s in self.slopes])

    def __add__(self, other: Any) -> Dual:
        other = _lifted(other, len(self.slopes))
        return Dual(self.value + other.value, list(map(_sum, self.slopes, other.slopes)))

    def __sub__(self, other: Any) -> Dual:
        return self + (-other)

    def __mul__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return self._through(self.value * other, other)
        ours, theirs = self._through(None, other.value), other._through(None, self.value)
        return Dual(self.value * other.value, list(map(_sum, ours.slopes, theirs.slopes)))

    def __truediv__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return self * other._through(1.0 / other.value, -1.0 / other.value**2)
        return self * (1.0 / other)

    def __pow__(self, power: Any) -> Dual:
        if isinstance(power, Dual):
            return Functions.exp(power * Functions.log(self))
        return self._through(self.value**power, power * self.value ** (power - 1.0))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Dual:
        return (-self) + other

    def __rtruediv__(self, other: Any) -> Dual:
        return self._through(1.0 / self.value, -1.0 / self.value**2) * other

    def __rpow__(self, base: Any) -> Dual:
        value = base**self.value
        return self._through(value, value * np.log(base))

    def __lt__(self, other: Any) -> Any:
        return self.value < _value(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= _value(other)

    def __gt__(self, other: Any) -> Any:
        return self.value > _value(other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= _value(other)


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Dual) else x


def _lifted(x: Any, count: int) -> Dual:
    return x if isinstance(x, Dual) else Dual(np.asarray(x, float), [None] * count)


def _sum(a: Any, b: Any) -> Any:
    """The sum of two slopes."""
    return b if a is None else a if b is None else a + b


def _filled(slope: Any) -> Any:
    return np.zeros(()) if slope is None else slope


def _elementary(function: Callable, slope: Callable) -> Any:
    def applied(x):
        if not isinstance(x, Dual):
            return function(x)
        return x._through(function(x.value), slope(x.value))

    return staticmethod(applied)


class Functions:
    """The functions of an array module that the laws of devices use."""

    exp = _elementary(np.exp, np.exp)
    expm1 = _elementary(np.expm1, np.exp)
    log = _elementary(np.log, lambda x: 1.0 / x)
    log10 = _elementary(np.log10, lambda x: 1.0 / (np.log(10.0) * x))
    log1p = _elementary(np.log1p, lambda x: 1.0 / (1.0 + x))
    sqrt = _elementary(np.sqrt, lambda x: 0.5 / np.sqrt(np.where(x > 0.0, x, np.inf)))
    tanh = _elementary(np.tanh, lambda x: 1.0 - np.tanh(x) ** 2)
    sinh = _elementary(np.sinh, np.cosh)
    cosh = _elementary(np.cosh, np.sinh)
    sin = _elementary(np.sin, np.cos)
    cos = _elementary(np.cos, lambda x: -np.sin(x))
    tan = _elementary(np.tan, lambda x: 1.0 / np.cos(x) ** 2)
    arctan = _elementary(np.arctan, lambda x: 1.0 / (1.0 + x * x))
    arcsin = _elementary(np.arcsin, lambda x: 1.0 / np.sqrt(1.0 - x * x))
    arccos = _elementary(np.arccos, lambda x: -1.0 / np.sqrt(1.0 - x * x))
    arcsinh = _elementary(np.arcsinh, lambda x: 1.0 / np.sqrt(1.0 + x * x))
    arccosh = _elementary(np.arccosh, lambda x: 1.0 / np.sqrt(x * x - 1.0))
    arctanh = _elementary(np.arctanh, lambda x: 1.0 / (1.0 - x * x))
    trunc, floor, ceil, round = (_elementary(f, np.zeros_like) for f in (np.trunc, np.floor, np.ceil, np.round))
    abs = _elementary(np.abs, np.sign)
    sign = _elementary(np.sign, np.zeros_like)
    asarray = staticmethod(lambda x: x)

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        if not (isinstance(a, Dual) or isinstance(b, Dual)):
            return np.where(condition, a, b)
        count = len((a if isinstance(a, Dual) else b).slopes)
        a, b = _lifted(a, count), _lifted(b, count)
        pairs = zip(a.slopes, b.slopes, strict=True)
        slopes = [None if s is t is None else np.where(condition, _filled(s), _filled(t)) for s, t in pairs]
        return Dual(np.where(condition, a.value, b.value), slopes)

    @staticmethod
    def arctan2(y: Any, x: Any) -> Any:
        if not (isinstance(y, Dual) or isinstance(x, Dual)):
            return np.arctan2(y, x)
        count = len((y if isinstance(y, Dual) else x).slopes)
        y, x = _lifted(y, count), _lifted(x, count)
        square = x.value**2 + y.value**2
        parts = y._through(None, x.value / square), x._through(None, -y.value / square)
        return Dual(np.arctan2(y.value, x.value), list(map(_sum, parts[0].slopes, parts[1].slopes)))

    @staticmethod
    def maximum(a: Any, b: Any) -> Any:
        return Functions.where(_value(a) > _value(b), a, b)

    @staticmethod
    def minimum(a: Any, b: Any) -> Any:
        return Functions.where(_value(a) < _value(b), a, b)

    @staticmethod
    def clip(x: Any, low: Any, high: Any) -> Any:
        return Functions.minimum(Functions.maximum(x, low), high)
