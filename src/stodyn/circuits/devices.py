"""What current a device carries, its slopes and its noise: junction diodes and field-effect transistors.

A law takes the controlling voltages of all the devices of a kind (arrays), their numbers and an array module (numpy or
jax.numpy), and gives
    i        the current from the first node to the second (diode: anode to cathode; transistor: drain to source)
    slopes   ∂i/∂v for each controlling voltage
    noise    the two-sided density S of its white current noise in A²/Hz: i dt + √S dW
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

BOLTZMANN, CHARGE = 1.380649e-23, 1.602176634e-19  # J/K, C (exact)
ZERO_CELSIUS = 273.15  # K
LARGEST = 1e9  # A: beyond it a junction's exponential goes on as its tangent, so that no Newton step overflows


class Current(NamedTuple):
    """What a law gives."""

    i: Any
    slopes: tuple[Any, ...]
    noise: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of the devices of a kind, one array each."""

    of: Mapping[str, np.ndarray]
    kelvin: float

    def __getitem__(self, name: str) -> np.ndarray:
        return self.of[name]


def thermal(resistance: Any, kelvin: float) -> Any:
    """2kT/R: the two-sided density of a resistor's current noise; one-sided it is 4kT/R."""
    return 2.0 * BOLTZMANN * kelvin / resistance


def diode(v: tuple[Any, ...], p: Numbers, xp: Any) -> Current:
    """i = IS (exp(v/(N V_T)) - 1), V_T = kT/q; shot noise of both currents of the junction, S = q (i + 2 IS).

    At v = 0 and N = 1 that is the thermal noise 2kT i'(0), as it must be.
    """
    saturation, scale = p["is"], p["n"] * (BOLTZMANN * p.kelvin / CHARGE)
    most = np.log(LARGEST / saturation + 1.0)
    z = v[0] / scale
    over = xp.maximum(z - most, 0.0)
    below = xp.minimum(z, most)
    grown = xp.exp(below)
    i = saturation * (xp.expm1(below) + grown * over)
    return Current(i, (saturation * grown / scale,), CHARGE * (i + 2.0 * saturation))


def transistor(v: tuple[Any, ...], p: Numbers, xp: Any) -> Current:
    """The square law of level 1, drain and source exchanged where v_ds < 0; v = (v_gs, v_ds), o = v_gs - VTO.

    i = β (o - u/2) u (1 + LAMBDA v_ds), u = min(v_ds, o), β = KP W/L; 0 for o < 0.
    NLEV=2: S = 2kT (2/3)(g_m + GFLOOR), right in saturation. NLEV=3: S = 2kT (2/3)(β o (1 + a + a²)/(1 + a) + GFLOOR),
    a = 1 - v_ds/o, which in the triode region goes to 2kT g_ds, as a switch that is on must have.
    """
    sign, β, λ = p["sign"], p["kp"] * p["w"] / p["l"], p["lambda"]
    gs, ds = sign * v[0], sign * v[1]
    back = ds < 0.0
    gs, ds, way = xp.where(back, gs - ds, gs), xp.where(back, -ds, ds), xp.where(back, -1.0, 1.0)
    o = xp.maximum(gs - sign * p["vto"], 0.0)
    u = xp.minimum(ds, o)
    longer = 1.0 + λ * ds
    i, gm = β * (o - 0.5 * u) * u * longer, β * u * longer
    gds = β * (o - u) * longer + λ * β * (o - 0.5 * u) * u
    a = 1.0 - u / xp.where(o > 0.0, o, 1.0)
    whole = β * o * (1.0 + a + a * a) / (1.0 + a)
    slopes = xp.where(back, -gm, gm), xp.where(back, gm + gds, gds)
    return Current(sign * way * i, slopes, _channel(xp.where(p["nlev"] == 3.0, whole, gm), p))


def smooth_transistor(v: tuple[Any, ...], p: Numbers, xp: Any) -> Current:
    """W. R. Curtice's law, smooth in v_ds: i = (β/2) s(v_gs - VTO)² tanh(ALPHA v_ds)(1 + LAMBDA |v_ds|).

    s(o) = SMOOTH log(1 + exp(o/SMOOTH)) rounds the threshold. S = 2kT (2/3)(g_m + GFLOOR), g_m = |∂i/∂v_gs|.
    """
    sign, β, λ, α, width = p["sign"], p["kp"] * p["w"] / p["l"], p["lambda"], p["alpha"], p["smooth"]
    o, ds = sign * (v[0] - p["vto"]), sign * v[1]
    s = xp.maximum(o, 0.0) + width * xp.log1p(xp.exp(-xp.abs(o) / width))
    rise = 1.0 / (1.0 + xp.exp(-xp.clip(o / width, -500.0, 500.0)))
    bend, longer = xp.tanh(α * ds), 1.0 + λ * xp.abs(ds)
    gm = β * s * rise * bend * longer
    gds = 0.5 * β * s * s * (α * (1.0 - bend * bend) * longer + λ * xp.abs(bend))
    return Current(sign * 0.5 * β * s * s * bend * longer, (gm, gds), _channel(xp.abs(gm), p))


def _channel(conductance: Any, p: Numbers) -> Any:
    return 2.0 * BOLTZMANN * p.kelvin * (2.0 / 3.0) * (conductance + p["gfloor"])


def flicker_size(i: Any, p: Numbers, xp: Any) -> Any:
    """√KF |i|^(AF/2): what multiplies noise of the one-sided density 1/f."""
    return xp.sqrt(p["kf"]) * (i * i + 1e-30) ** (0.25 * p["af"])


class Kind(NamedTuple):
    """A kind of nonlinear device: its law, and which of its nodes its controlling voltages lie between."""

    law: Any
    between: tuple[tuple[int, int], ...]
    carries: tuple[int, int]


KINDS = {
    "diode": Kind(diode, ((0, 1),), (0, 1)),
    "transistor": Kind(transistor, ((1, 2), (0, 2)), (0, 2)),
    "smooth_transistor": Kind(smooth_transistor, ((1, 2), (0, 2)), (0, 2)),
}


class Parameter(NamedTuple):
    """A parameter of a model: its default and the least value it may have (math.inf below: any)."""

    default: float
    least: float = 0.0
    may_be_least: bool = True


ANY = -math.inf
_FLICKER = {"kf": Parameter(0.0), "af": Parameter(1.0, 0.0, False)}
_CHANNEL = {
    "level": Parameter(1.0), "kp": Parameter(2e-5, 0.0, False), "vto": Parameter(0.0, ANY), "lambda": Parameter(0.0),
    "alpha": Parameter(0.0, 0.0, False), "smooth": Parameter(0.02, 0.0, False), "gfloor": Parameter(1e-12, 0.0, False),
    "nlev": Parameter(2.0), **_FLICKER,
}  # fmt: skip
MODELS: dict[str, dict[str, Parameter]] = {
    "d": {"is": Parameter(1e-14, 0.0, False), "n": Parameter(1.0, 0.0, False), "cjo": Parameter(0.0), **_FLICKER},
    "nmos": _CHANNEL,
    "pmos": _CHANNEL,
}
SAME = {"cj0": "cjo", "vt0": "vto"}
