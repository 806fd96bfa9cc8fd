"""Mechanical systems from their energies, by SymPy (the extra `sympy`).

With L = T - V, p = ∂L/∂v and Rayleigh's dissipation function R, Lagrange's equations are

    M v' = ∂L/∂q - (∂p/∂q) v - ∂p/∂t + forces - ∂R/∂v + noise ξ - Gᵀ λ,      M = ∂²T/∂v².

T must be quadratic in v: where M depends on v, noise in M dv and noise in dp differ by a drift that is not stated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.noise.source import source_of


def from_energies(
    kind: type,
    T: Any,
    V: Any,
    q: Sequence[Any],
    v: Sequence[Any] | None = None,
    *,
    start: Any,
    t: Any = None,
    forces: Sequence[Any] | None = None,
    dissipation: Any = None,
    constraints: Sequence[Any] = (),
    noise: Any = None,
    params: Mapping[Any, Any] | None = None,
    **options: Any,
) -> Any:
    """Return the system, of a kind of problem, of `Mechanical.from_lagrangian`, which describes the arguments."""
    sympy = _sympy()
    reader = _Reader(sympy, q, v, t, params or {})
    T, V = reader.read("T", T), reader.read("V", V)
    R = reader.read("dissipation", 0 if dissipation is None else dissipation)
    expressions = [reader.read("forces", f) for f in (forces if forces is not None else [0] * len(reader.q))]
    if len(expressions) != len(reader.q):
        raise ValueError(
            f"forces: expected {len(reader.q)} expressions, one for each coordinate, got {len(expressions)}"
        )
    if V.has(*reader.v):
        raise ValueError("V: depends on velocities; put such terms into T, forces or dissipation")
    q_, v_ = sympy.Matrix(reader.q), sympy.Matrix(reader.v)
    L = T - V
    p = sympy.Matrix([sympy.diff(T, u) for u in reader.v])
    M = p.jacobian(v_)
    if M.has(*reader.v) and any(sympy.simplify(entry).has(*reader.v) for entry in M):
        raise ValueError(
            "T: is not quadratic in the velocities, so that the mass depends on them. Noise on the momentum p = ∂T/∂v "
            "then differs from noise in M dv by a drift -½ Σ ∂²p/∂v² b b; write the equation that is meant as "
            "stodyn.Mechanical or stodyn.SDE"
        )
    M = M.applyfunc(sympy.simplify)
    gradient = sympy.Matrix([sympy.diff(L, x) for x in reader.q])
    carried = p.jacobian(q_) * v_ + sympy.diff(p, reader.t)
    lost = sympy.Matrix([sympy.diff(R, u) for u in reader.v])
    force = gradient - carried + sympy.Matrix(expressions) - lost
    joined = [reader.read("constraints", g) for g in constraints]
    for number, g in enumerate(joined):
        if g.has(*reader.v):
            raise ValueError(f"constraints: number {number}, {g}, contains a velocity; only g(t, q) = 0 is supported")
    columns = _columns(sympy, reader, noise)
    scalar = np.ndim(start[0]) == 0 if isinstance(start, (tuple, list)) else False
    if scalar and len(reader.q) != 1:
        raise ValueError(f"start: expected two vectors of {len(reader.q)} entries, one for each coordinate")
    is_constant = not M.free_symbols
    arguments = {
        "force": reader.function(list(force), (len(reader.q),), scalar),
        "noise": None if columns is None else reader.function(list(columns), columns.shape, scalar),
        "mass": np.array(M.tolist(), float) if is_constant else reader.function(list(M), M.shape, scalar),
        "params": reader.params,
        "names": options.pop("names", tuple(str(x) for x in reader.q)),
    }
    if joined:
        arguments["constraints"] = reader.constraint_function(joined)
    return kind(start=start, **arguments, **options)


def _sympy() -> Any:
    try:
        import sympy
    except ImportError as error:
        raise ImportError("from_lagrangian needs SymPy; in a clone of stodyn: pip install '.[sympy]'") from error
    return sympy


def _columns(sympy: Any, reader: _Reader, noise: Any) -> Any:
    """The noise as a matrix (N, channels) of expressions."""
    if noise is None:
        return None
    rows = [list(row) if isinstance(row, (Sequence, sympy.MatrixBase)) else [row] for row in
            (noise.tolist() if isinstance(noise, sympy.MatrixBase) else noise)]  # fmt: skip
    if len(rows) != len(reader.q) or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise ValueError(
            f"noise: expected {len(reader.q)} expressions for one channel, or a matrix with a row for each coordinate "
            f"and a column for each channel, got {noise!r}"
        )
    return sympy.Matrix([[reader.read("noise", entry) for entry in row] for row in rows])


class _Reader:
    """Expressions in plain symbols t, q, v and parameters; any other symbol is refused by name."""

    def __init__(self, sympy: Any, q: Sequence[Any], v: Sequence[Any] | None, t: Any, params: Mapping[Any, Any]):
        self.sympy = sympy
        q = [q] if isinstance(q, sympy.Basic) else list(q)
        self.t = sympy.Symbol("t") if t is None else t
        moving = [x for x in q if isinstance(x, sympy.core.function.AppliedUndef)]
        if moving and len(moving) != len(q):
            raise ValueError(f"q: expected all symbols, or all functions of time (dynamicsymbols), got {q}")
        if moving:
            self.t = moving[0].args[0]
            self.q = [sympy.Symbol(x.func.__name__, real=True) for x in q]
        elif all(isinstance(x, sympy.Symbol) for x in q) and q:
            self.q = q
        else:
            raise TypeError(f"q: expected symbols of SymPy, got {q!r}")
        rates = [sympy.diff(x, self.t) for x in moving]
        if v is None and not moving:
            raise ValueError("v: expected the symbols of the velocities, one for each coordinate")
        named = [sympy.Symbol(f"d{x}", real=True) for x in self.q]
        symbols = [sympy.sympify(u) for u in (v if v is not None else rates)]
        self.v = [n if isinstance(u, sympy.Derivative) else u for u, n in zip(symbols, named, strict=False)]
        if len(symbols) != len(q) or not all(isinstance(u, sympy.Symbol) for u in self.v):
            raise ValueError(f"v: expected {len(q)} symbols, one for each coordinate, got {v!r}")
        self.replaced = [*zip(rates, self.v, strict=True), *zip(moving, self.q, strict=True)] if moving else []
        self.symbols = [sympy.sympify(s) if not isinstance(s, str) else sympy.Symbol(s) for s in params]
        self.values = list(params.values())
        names = [str(s) for s in self.symbols]
        if len(set(names)) != len(names):
            raise ValueError(f"params: expected different names, got {names}")
        # Numbers that are not drawn anew for each path are known now, and make constant masses constant.
        fixed = [not source_of(value).is_random and np.ndim(value) == 0 for value in self.values]
        self.params = {n: x for n, x, f in zip(names, self.values, fixed, strict=True) if not f} or None
        self.known = {s: x for s, x, f in zip(self.symbols, self.values, fixed, strict=True) if f}
        self.free = [s for s, f in zip(self.symbols, fixed, strict=True) if not f]

    def read(self, name: str, expression: Any) -> Any:
        sympy = self.sympy
        formula = sympy.sympify(expression)
        for old, new in self.replaced:
            formula = formula.subs(old, new)
        formula = formula.subs(self.known)
        left = formula.atoms(sympy.Derivative)
        if left:
            raise ValueError(
                f"{name}: contains {', '.join(map(str, left))}; only first derivatives of coordinates are supported"
            )
        unknown = formula.atoms(sympy.core.function.AppliedUndef)
        if unknown:
            raise ValueError(f"{name}: contains unknown functions: {', '.join(map(str, unknown))}")
        free = formula.free_symbols - {self.t, *self.q, *self.v, *self.free}
        if free:
            words = ", ".join(sorted(map(str, free)))
            raise ValueError(
                f"{name}: {words} are neither coordinates nor parameters with a value; give them in params"
            )
        return formula

    def _compiled(self, arguments: Sequence[Any], expressions: Sequence[Any]) -> Callable:
        return self.sympy.lambdify([self.t, *arguments, *self.free], list(expressions), modules="jax", cse=True)

    def function(self, expressions: Sequence[Any], shape: Sequence[int], scalar: bool) -> Callable:
        compiled = self._compiled([*self.q, *self.v], expressions)
        names, shape = [str(s) for s in self.free], () if scalar else tuple(shape)

        def of(t, x, v, params):
            entries = (*jnp.ravel(x), *jnp.ravel(v), *(params[name] for name in names))
            return jnp.reshape(jnp.stack([jnp.asarray(e, jnp.asarray(x).dtype) for e in compiled(t, *entries)]), shape)

        return of

    def constraint_function(self, expressions: Sequence[Any]) -> Callable:
        compiled, names = self._compiled(self.q, expressions), [str(s) for s in self.free]

        def of(t, x, params):
            entries = (*jnp.ravel(x), *(params[name] for name in names))
            return jnp.stack([jnp.asarray(e, jnp.asarray(x).dtype) for e in compiled(t, *entries)])

        return of
