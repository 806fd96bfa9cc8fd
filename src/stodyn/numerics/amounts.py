"""Numbers as engineers write them: 6.44 µV, -1.250 mV, 450.49300 mV ± 210 nV."""

import math

PREFIXES = "afpnµm kMGT"


def amount(value: float, unit: str, digits: int = 3) -> str:
    """Format a number to `digits` digits, with an SI prefix before its unit."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    rounded = float(f"{value:.{digits - 1}e}")
    power = min(max(math.floor(math.log10(abs(rounded)) / 3.0 + 1e-9), -6), 4)
    scaled = rounded / 1000.0**power
    places = max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-9))
    return f"{scaled:.{places}f} {PREFIXES[power + 6].strip()}{unit}"


def with_error(value: float, stderr: float, unit: str) -> str:
    """Format a number with its standard error, to the digits that the error leaves."""
    if not stderr:
        return amount(value, unit, 6)
    digits = 2 + max(0, math.floor(math.log10(abs(value) / stderr))) if value else 2
    return f"{amount(value, unit, min(max(digits, 2), 9))} ± {amount(stderr, unit, 2)}"
