"""Write numerics/printing/coefficients.py: the polynomials and constants of the elementary functions, in 60 digits.

Each polynomial is what is left of a function when its leading terms are taken out, interpolated in Chebyshev points,
which comes within a factor of 2 of the best polynomial of its length. Run it with mpmath at hand: it prints the error
of every fit and writes the file.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60
HOME = pathlib.Path(__file__).parents[1] / "src" / "stodyn" / "numerics" / "printing" / "coefficients.py"
ROOM = mp.mpf("1.001")  # how much wider a fit is than the reduced arguments, which are rounded
DIGITS = 20 * 64  # bits of 2/π kept, 64 of them zeros before the point


def fit(rest: Callable, low, high, terms: int, name: str) -> list[float]:
    """Coefficients, lowest first, of the polynomial that meets `rest` in Chebyshev points of [low, high]."""
    middle, radius = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    nodes = [middle + radius * mp.cos(mp.pi * (2 * k + 1) / (2 * terms)) for k in range(terms)]
    matrix = mp.matrix([[x**j for j in range(terms)] for x in nodes])
    found = list(mp.lu_solve(matrix, mp.matrix([rest(x) for x in nodes])))
    between = [middle + radius * mp.mpf(2 * k + 1 - 200) / 200 for k in range(200)]
    worst = max(abs(mp.polyval(found[::-1], x) - rest(x)) for x in between)
    print(f"{name}: {terms} terms, error {mp.nstr(worst, 3)}")
    return [float(c) for c in found]


def by_series(term: Callable, closed: Callable) -> Callable:
    """A quotient with a removable singularity: Σ term(k) z^k near 0, `closed` elsewhere."""
    return lambda z: mp.fsum(term(k) * z**k for k in range(14)) if abs(z) < mp.mpf("1e-4") else closed(z)


def odd(function: Callable, term: Callable, out: int = 1) -> Callable:
    """r(z) with function(t) = t (term(0) + ... + z^out r(z)), z = t²: an odd function less its first `out` terms."""
    return by_series(
        lambda k: term(k + out),
        lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - mp.fsum(term(k) * z**k for k in range(out))) / z**out,
    )


def parts(x, count: int) -> list[float]:
    """x as a sum of doubles, the largest first."""
    found: list[float] = []
    for _ in range(count):
        found.append(float(x))
        x -= mp.mpf(found[-1])
    return found


def scaled_erfc(t):
    """(1 + 2a) exp(a²) erfc a, which stays between 1 and 1.29, at a = 4 (1 + t) / (1 - t)."""
    a = 4 * (1 + t) / (1 - t)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)


def between_zeros(s):
    """log Γ(y) / ((y - 1) (y - 2)) at y = 7/4 + s."""
    y = mp.mpf(7) / 4 + s
    return mp.loggamma(y) / ((y - 1) * (y - 2))


def stirling(z):
    """x (log Γ(x) - (x - 1/2) (log x - 1) - (log 2π - 1) / 2) at z = 1/x²."""
    x = 1 / mp.sqrt(z)
    return x * (mp.loggamma(x) - (x - mp.mpf(1) / 2) * (mp.log(x) - 1) - (mp.log(2 * mp.pi) - 1) / 2)


def digamma_rest(z):
    """x² (log x - 1/(2x) - ψ(x)) at z = 1/x²."""
    x = 1 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z


def polynomials() -> dict[str, list[float]]:
    half = mp.log(2) / 2 * ROOM
    eighth = (mp.pi / 4 * ROOM) ** 2
    s = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * ROOM
    place = lambda a: (mp.mpf(a) - 4) / (mp.mpf(a) + 4)  # noqa: E731
    low, high = place("0.499"), place("27.5")
    middle = scaled_erfc(mp.mpf(0))
    arc_tangent = odd(mp.atan, lambda k: mp.mpf(-1) ** k / (2 * k + 1))
    cos_rest = lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2  # noqa: E731
    return {
        "EXP": fit(
            by_series(lambda k: 1 / mp.factorial(k + 2), lambda r: (mp.exp(r) - 1 - r) / r**2), -half, half, 10, "exp"
        ),
        "SIN": fit(odd(mp.sin, lambda k: (-1) ** k / mp.factorial(2 * k + 1)), 0, eighth, 6, "sin"),
        "COS": fit(by_series(lambda k: (-1) ** k / mp.factorial(2 * k + 4), cos_rest), 0, eighth, 6, "cos"),
        "LOG": fit(odd(lambda s: 2 * mp.atanh(s), lambda k: mp.mpf(2) / (2 * k + 1)), 0, s, 7, "log"),
        "LOG_FINE": fit(
            odd(lambda s: 2 * mp.atanh(s), lambda k: mp.mpf(2) / (2 * k + 1), 2), 0, s, 8, "log, in two parts"
        ),
        "ATAN": fit(lambda s: arc_tangent(s + mp.mpf(1) / 2), -mp.mpf(1) / 2, mp.mpf(1) / 2, 20, "atan"),
        "ASIN": fit(
            odd(mp.asin, lambda k: mp.binomial(2 * k, k) / (mp.mpf(4) ** k * (2 * k + 1))),
            0,
            mp.mpf("0.2501"),
            13,
            "asin",
        ),
        "ERF": fit(
            lambda z: (mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z > 0 else 2 / mp.sqrt(mp.pi)) - 1,
            0,
            mp.mpf("0.2501"),
            9,
            "erf",
        ),
        "ERFC": [
            *parts(middle, 2),
            *fit(lambda t: (scaled_erfc(t) - middle) / t if t else mp.diff(scaled_erfc, 0), low, high, 22, "erfc"),
        ],
        "LOG_GAMMA": fit(between_zeros, -mp.mpf("0.751"), mp.mpf("0.751"), 26, "lgamma"),
        "STIRLING": fit(stirling, 0, mp.mpf("0.01563"), 8, "lgamma from 8 on"),
        "DIGAMMA": fit(digamma_rest, 0, mp.mpf("0.02778"), 9, "digamma from 6 on"),
        "CBRT": fit(mp.cbrt, 1, 2, 5, "cbrt"),
    }


def constants() -> dict[str, list[float]]:
    ln2 = mp.log(2)
    head = float(mp.floor(ln2 * 2**32) / 2**32)  # its products with exponents are exact
    return {
        "LOG2_E": parts(1 / ln2, 1),
        "LN2": [head, float(ln2 - head)],
        "LN2_FINE": parts(ln2, 2),
        "TWO_THIRDS": parts(mp.mpf(2) / 3, 2),
        "TWO_OVER_PI": parts(2 / mp.pi, 1),
        "HALF_PI": parts(mp.pi / 2, 3),
        "PI": parts(mp.pi, 2),
        "STIRLING_CONSTANT": parts((mp.log(2 * mp.pi) - 1) / 2, 1),
        "CUBE_ROOTS": [1.0, *parts(mp.cbrt(2), 1), *parts(mp.cbrt(4), 1)],
        "HALF_ROOT_PI": parts(mp.sqrt(mp.pi) / 2, 2),
    }


def digits_of_two_over_pi() -> list[int]:
    with mp.workprec(DIGITS + 100):
        whole = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (DIGITS - 64)))
    return [(whole >> (DIGITS - 64 * (k + 1))) & (2**64 - 1) for k in range(DIGITS // 64)]


def rows(numbers: list[str]) -> str:
    return "".join(f"    {number},\n" for number in numbers)


def page() -> str:
    text = (
        '"""Polynomials and constants of the elementary functions, as benchmarks/fit_elementary.py wrote them."""\n\n'
    )
    text += "# fmt: off\n"
    for name, numbers in {**polynomials(), **constants()}.items():
        text += f"{name} = (\n{rows([repr(x) for x in numbers])})\n"
    return text + f"DIGITS_OF_TWO_OVER_PI = (\n{rows([f'0x{x:016X}' for x in digits_of_two_over_pi()])})\n"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    HOME.write_text(page())
