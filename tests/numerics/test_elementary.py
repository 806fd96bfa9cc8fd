"""The printed elementary functions: against 40 digits, at special values, with the same bits however they are made."""

import functools
import os

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from stodyn.numerics.printing import coefficients, elementary
from stodyn.numerics.printing.over_arrays import evaluate

NAMES = sorted(elementary.NAMES)
WIDTHS = (2, 4, 8, 16) if "STODYN_FULL" in os.environ else (2, 16)
SIZE = 400

# The functions of mpmath under other names; the others have their own.
EXACT = {
    "exp2": lambda x: mp.power(2, x),
    "pow": mp.power,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "logistic": lambda x: 1 / (1 + mp.exp(-x)),
    "erf_inv": mp.erfinv,
    "lgamma": lambda x: mp.re(mp.loggamma(x)),
}
NUMPY = {
    "pow": np.power,
    "atan2": np.arctan2,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "logistic": lambda x: np.where(x < -40, np.exp(x), scipy.special.expit(x)),  # SciPy's underflows at -709.8
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    # SciPy's is -inf at -inf, and inf in the denormals
    "lgamma": lambda x: np.where(
        np.abs(x) < 1e-300, -np.log(np.abs(x)), scipy.special.gammaln(np.where(x == -np.inf, np.inf, x))
    ),
    "digamma": lambda x: np.where((x <= 0) & (x == np.floor(x)), np.nan, scipy.special.psi(x)),  # NaN as in JAX
    "erf_inv": lambda x: np.copysign(scipy.special.erfinv(x), x),  # SciPy's loses the sign of -0
}


@functools.cache
def samples(name):
    """Arguments over the whole range, in random order: near zeros, poles and edges, in the denormals, up to 1e300."""
    rng = np.random.default_rng(1)
    u = functools.partial(rng.uniform, size=SIZE)

    def any_size(low=-320.0, high=308.0):
        return rng.choice([-1, 1], SIZE) * 10.0 ** u(low, high)

    near_one = 1 + rng.choice([-1, 1], SIZE) * 10.0 ** u(-16, -1)
    below_one = near_one[near_one <= 1]
    turns = [
        u(-10, 10),
        u(-(2.0**30), 2.0**30),
        np.round(u(-1e6, 1e6)) * (np.pi / 2),
        np.round(u(-1e9, 1e9)) * (np.pi / 4),
        any_size(),
        any_size(9.0),
        [14461176.67027838, 6381956970095103 * 2.0**797, 2.0**30, np.nextafter(2.0**30, 0), 1.7e308],
    ]
    growth = [u(-745.1, 709.7), u(-2, 2), any_size(-320, 1)]
    ranges = {
        "exp": growth,
        "exp2": [u(-1074.9, 1023.9), u(-2, 2), any_size(-320, 1)],
        "expm1": growth,
        "sinh": [u(-710.4, 710.4), *growth[1:]],
        "cosh": [u(-710.4, 710.4), *growth[1:]],
        "tanh": [u(-25, 25), *growth[1:]],
        "logistic": [u(-745, 40), u(-3, 3), any_size(-320, 2)],
        "log": [abs(any_size()), u(0.5, 2), near_one],
        "log1p": [abs(any_size()), u(-1, 3), any_size(-320, -1), -1 + 10.0 ** u(-15, -1)],
        "asinh": [any_size(), u(-3, 3), any_size(-10, 10)],
        "acosh": [10.0 ** u(0, 308), 1 + 10.0 ** u(-15, 1), u(1, 3)],
        "atanh": [u(-1, 1), any_size(-320, -1), below_one[below_one < 1]],
        "cbrt": [any_size(), u(-8, 8), u(0, 1e-307)],
        "erf": [u(-6, 6), u(-1, 1), any_size(-320, 1)],
        "erfc": [u(-6, 27), u(-1, 1), u(0.4, 6), u(26, 27.2), any_size(-320, 0)],
        "erf_inv": [u(-1, 1), any_size(-307, -1), below_one[below_one < 1]],
        "asin": [u(-1, 1), any_size(-320, 0), below_one, u(0.45, 0.55)],
        "acos": [u(-1, 1), any_size(-320, 0), below_one, -below_one],
        "atan": [u(-3, 3), any_size(), near_one],
        "atan2": [any_size(-3, 3), any_size(), u(-1, 1), 3 * near_one],
        "lgamma": [
            u(0, 1),
            u(1, 3),
            near_one,
            near_one + 1,
            u(3, 50),
            abs(any_size(-320, 305)),
            -abs(any_size(-320, -60)),
        ],
        "digamma": [u(7, 60), 10.0 ** u(1, 308), any_size(-307, -60)],
        "pow": [10.0 ** u(-3, 3), 1 + u(-0.1, 0.1), 10.0 ** u(-320, 308), -np.round(u(1, 50))],
    }
    first = np.concatenate(turns if name in ("sin", "cos", "tan") else ranges[name])
    order = rng.permutation(first.size)
    if name == "atan2":
        second = [any_size(-3, 3), any_size(), u(-1, 1), np.full(SIZE, 3.0)]
    elif name == "pow":
        second = [u(-50, 50), u(-3000, 3000), u(-1.5, 1.5), np.round(u(-9, 9))]
    else:
        return (first[order],)
    return first[order], np.concatenate(second)[order]


def exactly(name, arguments):
    function = EXACT.get(name) or getattr(mp, name)
    large = name in ("sin", "cos", "tan") and abs(arguments[0]) > 1e9
    with mp.workdps(360 if large else 40):
        return function(*map(mp.mpf, arguments))


@pytest.mark.parametrize("name", NAMES)
def test_units_of_the_last_place(name):
    """At most 1.1, of atan 1.3, of log Γ 3 and of ψ 1.5; these two where they are not led over from elsewhere."""
    arguments = samples(name)
    worst, where = 0.0, None
    for *given, found in zip(*(a.tolist() for a in arguments), evaluate(name, *arguments).tolist(), strict=True):
        exact = exactly(name, given)
        rounded = float(exact)
        if np.isfinite(rounded) and np.isfinite(found):
            error = float(abs(mp.mpf(found) - exact) / mp.mpf(np.spacing(abs(rounded))))
        else:
            error = 0.0 if found == rounded else np.inf
        if not error <= worst:
            worst, where = error, (given, found, rounded)
    assert worst < {"atan": 1.3, "atan2": 1.3, "lgamma": 3.0, "digamma": 1.5}.get(name, 1.1), where


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_functions_beside_their_zeros(name):
    """Negative arguments, and ψ up to 7, are led over from others and lose digits at zeros: 1.2e-15 max(1, |value|)."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-30, 0, SIZE), rng.uniform(0, 7, SIZE), -(10.0 ** rng.uniform(-60, 1, SIZE))])
    exact = np.array([float(exactly(name, (v,))) for v in x.tolist()])
    assert np.max(np.abs(evaluate(name, x) - exact) / np.maximum(1, np.abs(exact))) < 1.2e-15


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_functions_of_halves_beyond_2_51(name):
    """The last numbers below 2^52 that are not whole; they were taken for poles."""
    x = -np.array([2.0**51 - 0.25, 2.0**51 + 0.5, 2.9e15 + 0.5, 2.0**52 - 1.5, 2.0**52 - 0.5])
    exact = np.array([float(exactly(name, (v,))) for v in x.tolist()])
    np.testing.assert_allclose(evaluate(name, x), exact, rtol=4e-16)
    assert not np.isfinite(evaluate(name, np.array([-(2.0**51), -(2.0**51) - 1.0, 1.0 - 2.0**52, -(2.0**52)]))).any()


POSITIVE = [0.0, 5e-324, 1e-310, 2.0**-1022, 1e-30, 1e-9, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 26.5, 27.5, 40.0]
EDGES = [709.78, 709.79, 710.47, 710.48, 745.1, 745.2, 1023.9, 1024.0, 1074.5, 1075.5, 2.0**31, 1e22, 1e300, np.inf]
WHOLE = [2.0**52 + 1, 2.0**53 - 1, 2.0**53 + 2, np.finfo(float).max]
SPECIAL = np.array([*POSITIVE, *EDGES, *WHOLE])
SPECIAL = np.concatenate([SPECIAL, -SPECIAL, [np.nan, -np.nan]])


@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_those_of_numpy(name):
    """Zeros with their signs, infinities, NaN, denormals, edges of overflow and underflow; all pairs of them."""
    arguments = (SPECIAL,)
    if elementary.arguments(name) == 2:
        arguments = tuple(x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = (NUMPY.get(name) or getattr(np, name))(*arguments)
        found = evaluate(name, *arguments)
        units = 50 if name in ("lgamma", "digamma") else 4
        near = np.abs(found - expected) <= units * np.spacing(np.abs(expected))
    same = (np.isnan(found) & np.isnan(expected)) | (
        ((found == expected) | near) & (np.signbit(found) == np.signbit(expected))
    )
    wrong = [tuple(x[~same]) for x in (*arguments, found, expected)]
    assert same.all(), list(zip(*wrong, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_bits_depend_on_the_argument_alone(name):
    """Not on the width, so not on the neighbours, nor on LLVM's effort, nor on where constants are kept."""
    arguments = [np.concatenate([a, np.resize(SPECIAL, a.size)]) for a in samples(name)]
    arguments = [np.random.default_rng(2).permutation(a) for a in arguments]
    expected = evaluate(name, *arguments, width=1).view(np.uint64)
    for width in WIDTHS:
        found = evaluate(name, *arguments, width=width).view(np.uint64)
        differ = (found != expected) & ~np.isnan(found.view(float))
        assert not differ.any(), (width, [a[differ] for a in arguments])
    for effort in ({"level": 0}, {"level": 3, "passes": 3}, {"tabled": False}):
        found = evaluate(name, *arguments, **effort)
        np.testing.assert_array_equal(found, expected.view(float), err_msg=str(effort))


def test_next_to_a_zero_and_at_minus_zero():
    """Where digits cancel, and where a sign is all there is."""
    assert evaluate("cos", 14461176.67027838) == float(exactly("cos", (14461176.67027838,)))
    for name in ("sin", "tan", "tanh", "sinh", "asin", "atan", "asinh", "atanh", "expm1", "log1p", "cbrt", "erf"):
        assert np.signbit(evaluate(name, -0.0)) and evaluate(name, -0.0) == 0.0, name


def test_several_widths_in_one_module():
    import llvmlite.binding as llvm

    llvm.parse_assembly(
        "\n".join(elementary.definitions(elementary.NAMES, width) for width in (1, 2, 4, 8, 16, 32))
    ).verify()


def test_the_constant_of_erfc_has_its_digits_twice():
    """(1 + 2a) exp(a²) erfc a at a = 4, about which it is fitted: half a unit of the first is 1.1e-16."""
    with mp.workdps(40):
        exact = 9 * mp.exp(16) * mp.erfc(4)
        assert abs(mp.mpf(coefficients.ERFC[0]) + mp.mpf(coefficients.ERFC[1]) - exact) < 3e-17


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="bessel"):
        elementary.definitions({"exp", "bessel"}, 4)
