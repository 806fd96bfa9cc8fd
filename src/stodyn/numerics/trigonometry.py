"""sin and cos of many numbers at once, written out in multiplications: XLA calls the library for them one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import Array, lax

# π/2 in three parts of 22 bits, whose multiples up to 2³¹ are exact, and the rest of it.
HALF_PI = tuple(map(float.fromhex, ("0x1.921fb0p+0", "0x1.5110b0p-22", "0x1.184698p-44", "0x1.3198a2e037073p-69")))
LARGEST = 2.0**31

# (sin r - r)/r³ and (cos r - 1 + r²/2)/r⁴ in powers of r² for |r| <= π/4, to 2⁻⁵⁸: FDLIBM 5.3, k_sin.c and k_cos.c
# (Sun Microsystems, 1993).
SIN = (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
       2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)  # fmt: skip
COS = (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
       -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)  # fmt: skip


def sin(x: Array) -> Array:
    """sin x of float64 numbers to 2.5 units of the last place; where some |x| >= 2³¹ all are the library's."""
    return _unless_large(_sin, lax.sin, x)


def cos(x: Array) -> Array:
    """cos x of float64 numbers to 2.5 units of the last place; where some |x| >= 2³¹ all are the library's."""
    return _unless_large(_cos, lax.cos, x)


def _unless_large(written_out: Callable[[Array], Array], library: Callable[[Array], Array], x: Array) -> Array:
    return lax.cond(jnp.any(jnp.abs(x) >= LARGEST), library, written_out, x)


def _sin(x: Array) -> Array:
    quarter, sine, cosine = _reduced(x)
    value = jnp.where((quarter == 1) | (quarter == 3), cosine, sine)
    return jnp.where(quarter >= 2, -value, value)


def _cos(x: Array) -> Array:
    quarter, sine, cosine = _reduced(x)
    value = jnp.where((quarter == 1) | (quarter == 3), sine, cosine)
    return jnp.where((quarter == 1) | (quarter == 2), -value, value)


def _reduced(x: Array) -> tuple[Array, Array, Array]:
    """k mod 4, sin r and cos r with x = k π/2 + r, |r| <= π/4."""
    k = jnp.round(x * (2.0 / math.pi))
    r = x
    for part in HALF_PI:
        r = r - k * part
    return k - 4.0 * jnp.floor(0.25 * k), *within_an_eighth(r)


def within_an_eighth(r: Array) -> tuple[Array, Array]:
    """sin r and cos r for |r| <= π/4, an eighth of a turn."""
    z = r * r
    return r + r * z * polynomial(SIN, z), 1.0 - 0.5 * z + z * z * polynomial(COS, z)


def polynomial(coefficients: Sequence[float], z: Array) -> Array:
    """The sum of coefficients[k] zᵏ."""
    total = jnp.full_like(z, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * z + coefficient
    return total
