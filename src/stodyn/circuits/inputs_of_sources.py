"""A circuit as the plant of a loop: .params that give values of sources become params that parts write.

The equations are affine in the value of a source, so each input has a constant column b: M x' = f(t, x) + b (u - u₀).
It is the difference of the equations of the netlist laid out with two values, after a check that nothing else moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from stodyn.numerics.printing.points import at_one
from stodyn.problems.sdae import SDAE

CLOSE = 1e-9  # of the largest value, to which two differences of equations are equal
TIMES = (0.0, 0.37)  # in units of the run, where the equations are compared


def as_plant(circuit: Any, names: Sequence[str]) -> SDAE:
    """The circuit as an SDAE with these inputs among its params, at the values of the netlist."""
    inputs = [name for name in names if name not in circuit.params]
    if not inputs:
        return circuit
    zero = circuit.valued(dict.fromkeys(inputs, 0.0))
    columns = {name: _column(zero, name) for name in inputs}
    B = np.stack(list(columns.values()), axis=1)
    begun = np.linalg.lstsq(B, _equations(circuit, 0) - _equations(zero, 0), rcond=None)[0]

    def drift(t: Any, x: Any, params: Any) -> Any:
        own = {name: value for name, value in params.items() if name not in columns}
        moved = sum(column * params[name] for name, column in columns.items())
        return zero.drift(t, x, own) + moved

    fields = {f.name: getattr(circuit, f.name) for f in dataclasses.fields(SDAE) if f.init}
    params = {**circuit.params, **{name: float(value) for name, value in zip(inputs, begun, strict=True)}}
    return SDAE(**{**fields, "drift": drift, "params": params})


def _column(zero: Any, name: str) -> np.ndarray:
    """The column of an input; refuses one that does more than set values of sources."""
    first, second = (zero.valued({name: value}) for value in (1.0, 2.0))
    columns = []
    for case in range(2 * len(TIMES)):
        begun = _equations(zero, case)
        columns += [_equations(first, case) - begun, (_equations(second, case) - begun) / 2.0]
    size = max(np.abs(column).max() for column in columns)
    is_constant = all(np.abs(column - columns[0]).max() <= CLOSE * size for column in columns)
    noise, other_noise = _noise(zero), _noise(second)
    same_noise = noise.shape == other_noise.shape and np.allclose(noise, other_noise, rtol=CLOSE, atol=0.0)
    same_mass = np.array_equal(_dense(zero.mass), _dense(second.mass))
    if not (is_constant and same_noise and same_mass and size > 0.0):
        raise ValueError(
            f"writes: {name!r} of the netlist is no input: it must give values of independent sources alone, "
            f"such as V1 in 0 DC {{{name}}}"
        )
    return columns[0]


def _equations(circuit: Any, case: int) -> np.ndarray:
    """The equations in one of a few states and times."""
    x = np.random.default_rng(case // len(TIMES)).standard_normal(circuit.n)
    return at_one(lambda x: circuit.drift(TIMES[case % len(TIMES)], x, circuit.params), x)


def _noise(circuit: Any) -> np.ndarray:
    return at_one(lambda x: circuit.g(0.0, x, circuit.params), np.zeros(circuit.n))


def _dense(mass: Any) -> np.ndarray:
    return mass.toarray() if hasattr(mass, "toarray") else np.asarray(mass)
