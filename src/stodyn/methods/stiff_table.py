"""Tables of diagonally implicit stochastic Runge-Kutta methods for index-1 SDAEs, with their order conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction as Q
from typing import Any

import numpy as np

from stodyn.methods.contract import Claim
from stodyn.methods.signature import integral
from stodyn.methods.tableau import Matrix, Row, Table
from stodyn.methods.trees import Scheme, Stage
from stodyn.numerics.surd import Number, Surd


@dataclasses.dataclass(frozen=True, kw_only=True)
class StiffTable(Table):
    """The class of Küpper, Kværnø and Rößler for M dX = f dt + g dW, with I = W and I_(1,1) = (W² - h)/2:

    M H_i = M x + h Σ A_ij f(t + c_j h, H_j) + Σ (B1_ij I + B2_ij I_(1,1)/√h + B3_ij √h) g(t + c_j h, H_j)
    M x'  = M x + h Σ α_i f(H_i) + Σ (β1_i I + β2_i I_(1,1)/√h + β3_i √h) g(H_i),      c = A e

    α, β1, β2, β3 are by default the last rows of A, B1, B2, B3, so that x' = H_s: the table is then stiffly
    accurate, and x' satisfies the constraints wherever M is singular. This requires that A is regular, or that the
    first stage is x itself and the rest of A regular.

    Parameters
    ----------
    A, B1, B2, B3 : sequences of rows
        Matrices of integers, fractions or surds (numerics.surd.sqrt), A and B3 lower triangular, B1 and B2 strictly so;
        B2 and B3 are zero by default. A float counts as the fraction it is, so that a condition which holds up to
        rounding fails: give Fraction(2, 3), not 2/3, to compute orders or stability.
    """

    A: Matrix
    B1: Matrix
    B2: Matrix = ()
    B3: Matrix = ()
    α: Row = ()
    β1: Row = ()
    β2: Row = ()
    β3: Row = ()
    calculus = "ito"

    def __post_init__(self):
        if not isinstance(self.claims, tuple) or not all(isinstance(claim, Claim) for claim in self.claims):
            raise TypeError(f"claims: expected a tuple of Claim(kind, order), () for none, got {self.claims!r}")
        object.__setattr__(self, "A", _rows("A", self.A))
        s = len(self.A)
        if not s:
            raise ValueError("A: expected at least one stage, got no rows")
        for name in ("B1", "B2", "B3"):
            rows = _rows(name, getattr(self, name))
            object.__setattr__(self, name, rows if rows or name == "B1" else ((0,) * s,) * s)
        for name, strict in (("A", False), ("B1", True), ("B2", True), ("B3", False)):
            matrix = getattr(self, name)
            if len(matrix) != s or any(len(row) != s for row in matrix):
                raise ValueError(f"{name}: expected {s} rows of {s} numbers, as A has {s} rows, got {matrix}")
            if any(matrix[i][j] for i in range(s) for j in range(i if strict else i + 1, s)):
                kind = "strictly lower" if strict else "lower"
                raise ValueError(
                    f"{name}: expected a {kind} triangular matrix (stages solved one by one), got {matrix}"
                )
        for name, matrix in (("α", self.A), ("β1", self.B1), ("β2", self.B2), ("β3", self.B3)):
            (row,) = _rows(name, (getattr(self, name),))
            object.__setattr__(self, name, row or matrix[-1])
            if len(getattr(self, name)) != s:
                raise ValueError(f"{name}: expected {s} numbers, got {getattr(self, name)}")
        super().__post_init__()

    @property
    def c(self) -> Row:
        return tuple(sum(row) for row in self.A)

    @property
    def begins_explicitly(self) -> bool:
        """Whether the first stage is x itself."""
        return not any(row[0][0] for row in (self.A, self.B3))

    @property
    def stiffly_accurate(self) -> bool:
        """Whether x' is the last stage."""
        pairs = ((self.α, self.A), (self.β1, self.B1), (self.β2, self.B2), (self.β3, self.B3))
        return all(tuple(row) == tuple(matrix[-1]) for row, matrix in pairs)

    @property
    def solvable(self) -> bool:
        """Whether all stages are determined where M is singular: A is regular, at least after an explicit stage."""
        return all(self.A[i][i] for i in range(int(self.begins_explicitly), len(self.A)))

    @property
    def uses_W_alone(self) -> bool:
        """Whether neither I_(1,1) nor √h enters, so that the table applies to any number of channels."""
        matrices: tuple = (self.B2, self.B3, (self.β2, self.β3))
        return not any(number for matrix in matrices for row in matrix for number in row)

    def scheme(self, m: int) -> Scheme:
        s = range(len(self.A))
        rows: dict[Stage, dict] = {i: self._row(self.A[i], self.B1[i], self.B2[i], self.B3[i], m=m) for i in s}
        last = self._row(self.α, self.β1, self.β2, self.β3, m=m)
        clock: dict[Stage, Number] = dict(zip(s, self.c, strict=True))
        return Scheme(self.calculus, tuple(range(m + 1)), rows, last, clock)

    @staticmethod
    def _row(a, b1, b2, b3, m):
        row = {(0, j): number for j, number in enumerate(a) if number}
        for k in range(1, m + 1):
            for j in range(len(a)):
                coefficient = integral(k) * b1[j] + integral(k, k) * b2[j] + b3[j]
                if b1[j] or b2[j] or b3[j]:
                    row[k, j] = coefficient
        return row

    def conditions(self) -> dict[int, Number]:
        """The exact defects of the 14 conditions of strong order 1 for scalar noise, 0 where a condition holds.

        They are numbered as in the paper's theorem, with λ = 2 β1 B1 e. In print conditions 2, 4, 6 and 8 are missing
        and 9 and 10 are garbled; here they are derived from z e = I and z Z e = I_(1,1), identities in W.
        """
        α, β1, β2, β3 = self.α, self.β1, self.β2, self.β3
        A, B1, B2, B3 = self.A, self.B1, self.B2, self.B3
        e: Row = (1,) * len(A)
        Ae, B1e, B2e, B3e = (_times(matrix, e) for matrix in (A, B1, B2, B3))
        λ = 2 * _dot(β1, B1e)
        half = Q(1, 2)

        def products(*terms: tuple) -> Number:
            return sum(
                (factor * _dot(row, [a * b for a, b in zip(u, v, strict=True)]) for factor, row, u, v in terms), 0
            )

        def nested(*terms: tuple) -> Number:
            return sum((factor * _dot(row, _times(matrix, column)) for factor, row, matrix, column in terms), 0)

        return {
            1: _dot(α, e) - 1,
            2: _dot(β1, e) - 1,
            3: _dot(β2, e),
            4: _dot(β3, e),
            5: 0 * λ,
            6: _dot(β3, B3e) + λ * half,
            7: _dot(β2, B3e) + _dot(β3, B2e) + λ - 1,
            8: _dot(α, B3e),
            9: _dot(β1, B3e) + _dot(β3, B1e),
            10: _dot(β2, B2e),
            11: _dot(β1, B2e) + _dot(β2, B1e),
            12: _dot(β3, Ae),
            13: products(
                (2, β1, B1e, B2e), (2, β1, B1e, B3e), (1, β2, B1e, B1e), (1, β2, B2e, B2e), (1, β2, B2e, B3e),
                (1, β3, B1e, B1e), (half, β3, B2e, B2e), (1, β3, B3e, B3e),
            ),
            14: nested(
                (1, β1, B1, B2e), (1, β1, B2, B1e), (1, β1, B1, B3e), (1, β1, B3, B1e), (1, β2, B1, B1e),
                (1, β2, B2, B2e), (half, β2, B2, B3e), (half, β2, B3, B2e), (1, β3, B1, B1e), (half, β3, B2, B2e),
                (1, β3, B3, B3e),
            ),
        }  # fmt: skip

    def half_order_condition(self) -> Number:
        """β1 B1 e + β2 B2 e/2 + β3 B3 e, which with conditions 1 to 4 must vanish for strong order 1/2."""
        e: Row = (1,) * len(self.A)
        terms = ((1, self.β1, self.B1), (Q(1, 2), self.β2, self.B2), (1, self.β3, self.B3))
        return sum((factor * _dot(row, _times(matrix, e)) for factor, row, matrix in terms), 0)

    def error_constants(self) -> dict[str, float]:
        """The mean-square local error for scalar noise, E|.|²/h³ at the trees f'g, g'f, g''(g, g)/2 and g'g'g.

        With W = √h ξ, z = β1 ξ + β2 (ξ² - 1)/2 + β3, and Z likewise from the rows. A method that uses W alone cannot do
        better than 1/12 for f'g, 1/12 for g'f and 1/48 for g''(g, g)/2.
        """
        A, B1, B2, B3 = (np.array(rows, float) for rows in (self.A, self.B1, self.B2, self.B3))
        α, β1, β2, β3 = (np.array(row, float) for row in (self.α, self.β1, self.β2, self.β3))
        nodes, weights = np.polynomial.hermite_e.hermegauss(8)
        errors = np.zeros(4)
        for ξ, weight in zip(nodes, weights / np.sqrt(2.0 * np.pi), strict=True):
            Z, z = ξ * B1 + 0.5 * (ξ**2 - 1.0) * B2 + B3, ξ * β1 + 0.5 * (ξ**2 - 1.0) * β2 + β3
            Ze = Z.sum(axis=1)
            defects = (0.5 * ξ - α @ Ze, 0.5 * ξ - z @ A.sum(axis=1), (ξ**3 / 3.0 - 0.5 * ξ - z @ Ze**2) / 2.0,
                       (ξ**3 - 3.0 * ξ) / 6.0 - z @ Z @ Ze)  # fmt: skip
            errors += weight * np.square(defects)
        errors += np.array([1 / 12, 1 / 12, 1 / 48, 0.0])
        return dict(zip(("f'g", "g'f", "g''(g,g)/2", "g'g'g"), map(float, errors), strict=True))


def _rows(name: str, rows: Any) -> Matrix:
    """The rows as tuples of exact numbers; a float counts as the fraction it is."""
    try:
        return tuple(tuple(_exact(x) for x in row) for row in rows)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name}: expected rows of integers, fractions, surds (numerics.surd.sqrt) or finite floats, got {rows!r}"
        ) from None


def _exact(x: Any) -> Number:
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float):
        return Q(x)
    if not isinstance(x, (int, Q, Surd)):
        raise TypeError
    return x


def _dot(row: Sequence[Number], column: Sequence[Number]) -> Number:
    return sum((a * b for a, b in zip(row, column, strict=True)), 0)


def _times(matrix: Matrix, column: Sequence[Number]) -> Row:
    return tuple(_dot(row, column) for row in matrix)
