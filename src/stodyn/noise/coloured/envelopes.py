"""The strength of a passing load over time: factors e(t) between 0 and 1 for the `into` of with_noise.

A noise e(t) y(t) has the variance e(t)² σ²: it is stationary noise that fades in and out but does not change colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from stodyn import listing
from stodyn.arguments import check_positive, checks_arguments

__dir__ = listing.names_of(__name__)


@checks_arguments
def jennings(rise: float, end: float, decay: float) -> Callable[[Any], Any]:
    """Make Jennings's envelope: (t/rise)² until `rise`, 1 until `end`, then exp(-decay (t - end)).

    Parameters
    ----------
    rise, end : float
        When the strong phase begins and ends.
    decay : float
        The rate at which it fades.

    Returns
    -------
    function of t

    Raises
    ------
    ValueError
        If `end` is before `rise`, or a number is not above 0.

    References
    ----------
    P. C. Jennings, G. W. Housner & N. C. Tsai (1968).

    Examples
    --------
    >>> import stodyn as sd
    >>> strength = sd.noise.coloured.envelopes.jennings(2.0, 10.0, 0.5)
    >>> float(strength(1.0))
    0.25
    """
    check_positive(rise=rise, end=end, decay=decay)
    if not rise <= end:
        raise ValueError(f"end: expected a time at or after rise = {rise!r}, got {end!r}")

    def envelope(t):
        begun = jnp.clip(t / rise, 0.0, 1.0) ** 2
        return begun * jnp.exp(-decay * jnp.maximum(t - end, 0.0))

    return envelope


@checks_arguments
def shinozuka_sato(a: float, b: float) -> Callable[[Any], Any]:
    """Make Shinozuka and Sato's envelope: (exp(-a t) - exp(-b t)) over its largest value, 0 < a < b.

    Parameters
    ----------
    a, b : float
        The rates of fading and of rising.

    Returns
    -------
    function of t

    Raises
    ------
    ValueError
        If not 0 < a < b.

    References
    ----------
    M. Shinozuka & Y. Sato (1967).

    Examples
    --------
    >>> import stodyn as sd
    >>> strength = sd.noise.coloured.envelopes.shinozuka_sato(0.1, 0.5)
    >>> float(strength(0.0))
    0.0
    """
    check_positive(a=a, b=b)
    if not a < b:
        raise ValueError(f"a, b: expected a < b, the rate of fading below that of rising, got {a!r} and {b!r}")
    top = math.log(b / a) / (b - a)
    largest = math.exp(-a * top) - math.exp(-b * top)

    def envelope(t):
        passed = jnp.maximum(t, 0.0)
        return (jnp.exp(-a * passed) - jnp.exp(-b * passed)) / largest

    return envelope
