"""Numbers with engineering suffixes, and the arithmetic of .param."""

import math

import pytest

from stodyn.circuits.expressions import BadValue, Names, evaluate, number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10.0), ("-2.5", -2.5), (".5", 0.5), ("3.", 3.0), ("1e-3", 1e-3), ("2.5e+6", 2.5e6), ("10k", 1e4),
        ("4.7kohm", 4700.0), ("1meg", 1e6), ("1megohm", 1e6), ("1m", 1e-3), ("1mil", 25.4e-6), ("2.2uf", 2.2e-6),
        ("3µ", 3e-6), ("100n", 1e-7), ("15pf", 15e-12), ("1f", 1e-15), ("1g", 1e9), ("2t", 2e12), ("5v", 5.0),
        ("1ma", 1e-3), ("10ns", 1e-8), ("50hz", 50.0), ("1khz", 1e3), ("3a", 3.0), ("1kk", 1e3), ("1e", 1.0),
    ],
)  # fmt: skip
def test_numbers_are_read_with_their_suffixes_and_units(text, value):
    assert number(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["", "k", "4kk7", "1.2.3", "0x10", "1_000", "inf", "nan", "--1", "1 2"])
def test_what_is_no_number(text):
    assert number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7.0), ("(1+2)*3", 9.0), ("2**3**2", 512.0), ("2^-1", 0.5), ("-2**2", -4.0), ("--3", 3.0),
        ("8/2/2", 2.0), ("7-2-1", 4.0), ("a*1k", 2000.0), ("sqrt(16)+pow(2,3)", 12.0), ("max(min(3,5),1)", 3.0),
        ("2*pi", 2 * math.pi), ("ln(exp(2))", 2.0), ("1/(2*pi*10k*1n)", 1 / (2 * math.pi * 1e-5)), (" 1 + 2 ", 3.0),
    ],
)  # fmt: skip
def test_expressions_have_the_values_of_ordinary_arithmetic(text, value):
    assert evaluate(text, Names({"a": 2.0}.__getitem__)) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1+", "a value is missing"), ("(1", "not closed"), ("1/0", "divides by zero"), ("1 2", "did not expect"),
        ("exp(1e9)", "no value"), ("sqrt(-1)", "no value"), ("(-1)**0.5", "no value"), ("1e308*10", "finite"),
        ("foo(1)", "no function"), ("sqrt(1,2)", "takes 1"), ("1;2", "not a number, name or operator"), ("", "missing"),
        ("__import__('os')", "no function"), ("a.b", "no parameter"), ("(" * 60 + "1" + ")" * 60, "nested"),
        ("1+" * 1500 + "1", "characters"), ("10**10**10", "no value"), ("2^" * 100 + "1", "nested"),
        ("9[0]", "not a number"),
    ],
)  # fmt: skip
def test_expressions_without_a_value_say_why(text, said):
    def unknown(name):
        raise BadValue(f"there is no parameter {name}")

    with pytest.raises(BadValue, match=said):
        evaluate(text, Names(unknown))
