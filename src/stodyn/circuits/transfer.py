"""Transfer functions in s of LAPLACE sources: rational ones, read by the grammar of expressions, and their states.

With H = (n₀ + n₁ s + ...)/(d₀ + d₁ s + ... + d_N s^N) and X = u/(d₀ + ...), the states x_k = s^k X/(ω₁ ... ω_k) obey
    x_k'/ω_(k+1) = x_(k+1),   d_N ω₁ ... ω_(N-1) x_(N-1)' = u - Σ d_k ω₁ ... ω_k x_k,   k = 0 ... N - 1
and y = Σ n_k ω₁ ... ω_k x_k + n_N s^N X. The ω are the magnitudes of the poles in rising order, so that the factors of
poles decades apart are of one size. Each state is the voltage of a capacitor on a node of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from stodyn.circuits.element import GROUND, Card, Element
from stodyn.circuits.expressions import BadValue, Function, Names, evaluate_arrays

HIGHEST = 40  # the highest power of s
NOT_RATIONAL = (
    "expected a rational function of s, such as 1/(1 + s*1u); write delays, roots and tables with R, L, C and T"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Rational:
    """A quotient of polynomials in s, each by its coefficients from s⁰ on."""

    above: np.ndarray
    below: np.ndarray

    def __add__(self, other: Any) -> Rational:
        other = _lifted(other)
        above = _added(np.convolve(self.above, other.below), np.convolve(other.above, self.below))
        return _checked(above, np.convolve(self.below, other.below))

    def __mul__(self, other: Any) -> Rational:
        other = _lifted(other)
        return _checked(np.convolve(self.above, other.above), np.convolve(self.below, other.below))

    def __truediv__(self, other: Any) -> Rational:
        other = _lifted(other)
        if not other.above.any():
            raise BadValue("a transfer function divides by zero")
        return self * Rational(other.below, other.above)

    def __pow__(self, power: int) -> Rational:
        if abs(power) > HIGHEST:
            raise BadValue(f"s to the power {power}, expected at most {HIGHEST}")
        result, base = _lifted(1.0), self if power >= 0 else _lifted(1.0) / self
        for _ in range(abs(power)):
            result = result * base
        return result

    def __neg__(self) -> Rational:
        return Rational(-self.above, self.below)

    def __sub__(self, other: Any) -> Rational:
        return self + -_lifted(other)

    def __rsub__(self, other: Any) -> Rational:
        return -self + other

    def __rtruediv__(self, other: Any) -> Rational:
        return _lifted(other) / self

    def __radd__(self, other: Any) -> Rational:
        return self + other

    def __rmul__(self, other: Any) -> Rational:
        return self * other


S = Rational(np.array([0.0, 1.0]), np.array([1.0]))


def _lifted(value: Any) -> Rational:
    if isinstance(value, Rational):
        return value
    if not isinstance(value, float | int):
        raise BadValue(NOT_RATIONAL)
    return Rational(np.array([float(value)]), np.array([1.0]))


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros(max(len(a), len(b)))
    total[: len(a)] += a
    total[: len(b)] += b
    return total


def _checked(above: np.ndarray, below: np.ndarray) -> Rational:
    """A quotient without powers of s that stand on both sides, and without leading zeros."""
    above, below = (np.trim_zeros(side, "b") if side.any() else np.zeros(1) for side in (above, below))
    while len(above) > 1 and len(below) > 1 and above[0] == below[0] == 0.0:
        above, below = above[1:], below[1:]
    if max(len(above), len(below)) > HIGHEST + 1:
        raise BadValue(f"a transfer function of order {max(len(above), len(below)) - 1}, expected at most {HIGHEST}")
    return Rational(above, below)


def rational(
    text: str, parameter: Callable[[str], float], function: Callable[[str], Function | None]
) -> Rational:  # fmt: skip
    """The rational function of s that an expression stands for."""
    names = Names(lambda name: S if name == "s" else parameter(name), function)
    try:
        quotient = _lifted(evaluate_arrays(text, names, np))
    except (TypeError, AttributeError):
        raise BadValue(f"{text!r}: {NOT_RATIONAL}") from None
    if not all(np.isfinite(side).all() for side in (quotient.above, quotient.below)):
        raise BadValue(f"{text!r}: its coefficients are not finite numbers")
    if len(quotient.above) > len(quotient.below):
        raise BadValue(f"{text!r} grows without bound at high frequencies, as a derivative does; give it as many poles "
                       "as zeros, above the frequencies that matter")  # fmt: skip
    return quotient


def states(
    card: Card, of: Rational, control: tuple[str, str]
) -> tuple[list[Element], list[tuple[str, str]], list[float]]:
    """The parts that hold the states of a transfer function of a voltage; and the pairs of nodes whose voltages, times
    the gains that follow them, make the output: the states and then the control."""
    below = of.below / (np.sign(of.below[-1]) * np.abs(of.below[of.below != 0.0][0]))
    above = np.append(of.above * (below[-1] / of.below[-1]), np.zeros(len(below) - len(of.above)))
    order = len(below) - 1
    if not order:
        return [], [control], [above[0] / below[0]]
    sizes = np.sort(np.abs(np.roots(below[::-1])))
    sizes = np.where(sizes > 0.0, sizes, np.min(sizes, where=sizes > 0.0, initial=np.inf))
    sizes = np.where(np.isfinite(sizes), sizes, 1.0)
    products = np.concatenate([[1.0], np.cumprod(sizes[:-1])])
    nodes = [card.inner(f"s{k}") for k in range(order)]
    parts = []
    for k, node in enumerate(nodes[:-1]):
        parts += [card.part("c", (node, GROUND), 1.0 / sizes[k], f".c{k}"),
                  card.part("g", (GROUND, node, nodes[k + 1], GROUND), 1.0, f".g{k}")]  # fmt: skip
    last = nodes[-1]
    parts += [card.part("c", (last, GROUND), below[-1] * products[-1], f".c{order - 1}"),
              card.part("g", (GROUND, last, *control), 1.0, ".in")]  # fmt: skip
    for k, node in enumerate(nodes):
        if below[k]:
            parts.append(card.part("g", (GROUND, last, node, GROUND), -below[k] * products[k], f".d{k}"))
    through = above[-1] / below[-1]
    gains = (above[:-1] - through * below[:-1]) * products
    return parts, [*((node, GROUND) for node in nodes), control], [*gains.tolist(), through]
