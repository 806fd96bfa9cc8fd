"""Partitioned Runge-Kutta tables for forced stochastic Hamiltonian systems, and the solution of their stages."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from stodyn.methods.contract import EXPLICIT, Report
from stodyn.methods.signature import integral, variable
from stodyn.methods.tableau import Matrix, Row, Table
from stodyn.methods.trees import Scheme
from stodyn.numerics import coupling
from stodyn.numerics.elimination import solve as eliminate
from stodyn.numerics.newton import newton
from stodyn.numerics.sparse import order_of
from stodyn.numerics.surd import Number
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.hamiltonian_facts import PARTS

Stage = Any  # anything hashable
Source = tuple[int, Stage]  # the vectors of channel k (0 is time) at a stage


class Sums(NamedTuple):
    """Q = q + Σ velocity[k, j] δ_k v_k(j) and P = p + Σ pull[k, j] δ_k u_k(j) + Σ push[k, j] δ_k f_k(j).

    v_k, u_k and f_k are ∂h_k/∂p, -∂h_k/∂q and the force of channel k at stage j; δ_0 = h, δ_k = W_k.
    """

    velocity: Mapping[Source, Number]
    pull: Mapping[Source, Number]
    push: Mapping[Source, Number]


@dataclasses.dataclass(frozen=True)
class Stages:
    """The sums of every stage, the sums of the result, and the clock c of each stage, at the time t + c h."""

    rows: Mapping[Stage, Sums]
    last: Sums
    clock: Mapping[Stage, Number]

    def backward(self) -> Stages:
        """The same stages from q and the momentum at the END of the step: the p-sums minus those of the result."""
        rows = {
            stage: Sums(row.velocity, _less(row.pull, self.last.pull), _less(row.push, self.last.push))
            for stage, row in self.rows.items()
        }
        return Stages(rows, self.last, self.clock)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionedTable(Table):
    """A table whose stages are pairs (Q, P)."""

    calculus = "stratonovich"

    @abstractmethod
    def stages(self, m: int) -> Stages:
        """The sums for m noise channels."""

    @abstractmethod
    def symplecticity(self, m: int = 2) -> tuple[str, ...]:
        """The violated conditions of the Lagrange-d'Alembert form with m channels, in words; () if there are none."""

    @abstractmethod
    def draw(self, k: int) -> Any:
        """The driver of channel k as a variable of methods.signature."""

    def scheme(self, m: int) -> Scheme:
        stages = self.stages(m)
        drivers = [1, *(self.draw(k) for k in range(1, m + 1))]
        split = any(row.velocity != row.pull or row.pull != row.push for row in (*stages.rows.values(), stages.last))
        parts = PARTS if split else PARTS[:1]

        def row(sums: Sums) -> dict:
            return {
                (len(parts) * k + number, stage): weight * drivers[k]
                for number, part in enumerate(parts)
                for (k, stage), weight in getattr(sums, part).items()
                if weight
            }

        drives = tuple(k for k in range(m + 1) for _ in parts)
        rows = {stage: row(sums) for stage, sums in stages.rows.items()}
        return Scheme(self.calculus, drives, rows, row(stages.last), stages.clock)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanSquareTable(PartitionedTable):
    """The mean-square class, with the Wiener increments W_r:

    Q_i = q + h Σ a_ij H_p(j) + Σ_r W_r Σ b_ij h_r,p(j)
    P_i = p - h Σ ā_ij H_q(j) - Σ_r W_r Σ b̄_ij h_r,q(j) + h Σ â_ij F(j) + Σ_r W_r Σ b̂_ij f_r(j)
    q'  = q + h Σ α_i H_p(i) + Σ_r W_r Σ β_i h_r,p(i)
    p'  = p - h Σ α_i H_q(i) - Σ_r W_r Σ β_i h_r,q(i) + h Σ α̂_i F(i) + Σ_r W_r Σ β̂_i f_r(i)
    """

    a: Matrix
    a_bar: Matrix
    a_hat: Matrix
    b: Matrix
    b_bar: Matrix
    b_hat: Matrix
    α: Row
    α_hat: Row
    β: Row
    β_hat: Row

    def stages(self, m: int) -> Stages:
        def sums(parts: Sequence[tuple[Row, Row]]) -> Sums:
            return Sums(*({(k, j): w for k in range(m + 1) for j, w in enumerate(noise if k else drift) if w}
                          for drift, noise in parts))  # fmt: skip

        blocks = ((self.a, self.b), (self.a_bar, self.b_bar), (self.a_hat, self.b_hat))
        rows = {i: sums([(drift[i], noise[i]) for drift, noise in blocks]) for i in range(len(self.α))}
        last = sums([(self.α, self.β), (self.α, self.β), (self.α_hat, self.β_hat)])
        return without_unread(Stages(rows, last, {i: sum(self.a[i]) for i in rows}))

    def draw(self, k):
        return integral(k)

    def symplecticity(self, m=2):
        a, b, α, β, α_hat, β_hat = self.a, self.b, self.α, self.β, self.α_hat, self.β_hat
        return _products(
            ("3.16a", α, self.a_bar, α, a),
            ("3.16b", β, self.b_bar, β, b),
            ("3.16c", β, self.a_bar, α, b),
            ("3.16d", α, self.b_bar, β, a),
            ("3.16e", α, self.a_hat, α_hat, a),
            ("3.16f", α, self.b_hat, β_hat, a),
            ("3.16g", β, self.a_hat, α_hat, b),
            ("3.16h", β, self.b_hat, β_hat, b),
        )

    def order_conditions(self) -> tuple[str, ...]:
        """The violated conditions (3.27) of mean-square order 1 for commutative noise (1/2 otherwise), in words."""
        weights = {"α": self.α, "α̂": self.α_hat, "β": self.β, "β̂": self.β_hat}
        wrong = [f"Σ {name}_i = {sum(row)}, expected 1" for name, row in weights.items() if sum(row) != 1]
        for (name, row), (letter, matrix) in itertools.product(
            (("β", self.β), ("β̂", self.β_hat)), (("b", self.b), ("b̄", self.b_bar), ("b̂", self.b_hat))
        ):
            total = sum((w * sum(line) for w, line in zip(row, matrix, strict=True)), Fraction(0))
            if total != Fraction(1, 2):
                wrong.append(f"Σ {name}_i {letter}_ij = {total}, expected 1/2")
        return tuple(wrong)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeakTable(PartitionedTable):
    """The weak class, with three-point draws I_r; X = (Q, P), f and g_r the whole drift and noise vectors:

    X0_i = x + h Σ A0_ij f(X0_j) + Σ_r I_r Σ B0_ij g_r(Xr_j)
    Xl_i = x + h Σ A1_ij f(X0_j) + I_l Σ B1_ij g_l(Xl_j) + Σ_(r≠l) I_r Σ B3_ij g_r(Xr_j)
    x'   = x + h Σ α_i f(X0_i) + Σ_r I_r Σ β_i g_r(Xr_i)
    """

    A0: Matrix
    B0: Matrix
    A1: Matrix
    B1: Matrix
    B3: Matrix
    α: Row
    β: Row

    def stages(self, m: int) -> Stages:
        channels, size = range(1, m + 1), range(len(self.α))

        def sums(drift: Row, noise: Callable[[int], Row]) -> Sums:
            weights = {(0, (0, j)): w for j, w in enumerate(drift) if w}
            weights |= {(r, (r, j)): w for r in channels for j, w in enumerate(noise(r)) if w}
            return Sums(weights, weights, weights)

        rows: dict[Stage, Sums] = {(0, i): sums(self.A0[i], lambda r: self.B0[i]) for i in size}
        clock: dict[Stage, Number] = {(0, i): sum(self.A0[i]) for i in size}
        for l, i in itertools.product(channels, size):
            rows[l, i] = sums(self.A1[i], lambda r: self.B1[i] if r == l else self.B3[i])
            clock[l, i] = sum(self.A1[i])
        return without_unread(Stages(rows, sums(self.α, lambda r: self.β), clock))

    def draw(self, k):
        return variable("three", f"I{k}")

    def symplecticity(self, m=2):
        α, β = self.α, self.β
        conditions = [
            ("3.43a", α, self.A0, α, self.A0),
            ("3.43b", α, self.B0, β, self.A1),
            ("3.43c", β, self.B1, β, self.B1),
            ("3.43d", β, self.B3, β, self.B3),
        ]
        return _products(*conditions[: 4 if m > 1 else 3])


def _products(*conditions: tuple[str, Row, Matrix, Row, Matrix]) -> tuple[str, ...]:
    """The violated ones of the conditions u_i M_ij + v_j N_ji = u_i v_j, in words."""
    wrong = []
    for name, u, M, v, N in conditions:
        for i, j in itertools.product(range(len(u)), repeat=2):
            left, right = u[i] * M[i][j] + v[j] * N[j][i], u[i] * v[j]
            if left != right:
                wrong.append(f"({name}) at i, j = {i + 1}, {j + 1}: {left}, expected {right}")
    return tuple(wrong)


def without_unread(stages: Stages) -> Stages:
    """The stages without those that the result does not read, directly or through others."""
    reached: set[Stage] = set()
    waiting = [stages.last]
    while waiting:
        fresh = {stage for part in waiting.pop() for (_, stage), w in part.items() if w} - reached
        reached |= fresh
        waiting += [stages.rows[stage] for stage in fresh]
    read = [stage for stage in stages.rows if stage in reached]
    return Stages({s: stages.rows[s] for s in read}, stages.last, {s: stages.clock[s] for s in read})


def _less(a: Mapping[Source, Number], b: Mapping[Source, Number]) -> dict[Source, Number]:
    difference = {key: a.get(key, 0) - b.get(key, 0) for key in (*a, *(key for key in b if key not in a))}
    return {key: w for key, w in difference.items() if w}


# --- solving the stages -----------------------------------------------------------------------------------------------

Node = tuple[str, tuple]  # ("Q" or "P", its sums): stages with equal sums share it


class Solution:
    """The stages of one step, solved block by block.

    A block is solved by explicit formulas or a linear system where possible, otherwise by Newton's method for as few
    unknowns as break every cycle. `values[node]` are the Q and P, `at(k, part, stage)` is a vector of the equations at
    a stage, and `report` is that of the step.
    """

    def __init__(
        self,
        stages: Stages,
        problem: Hamiltonian,
        t,
        x: Array,
        noise,
        params,
        newton_options: dict,
        unread: bool = False,
    ):
        """Solve the stages; with `unread` also those that the result does not read for this problem."""
        self.problem, self.t, self.params = problem, t, params
        self.h = noise.h
        self.start = dict(zip("QP", problem.split(x), strict=True))
        self.drivers = [noise.h, *(noise.W[r] for r in range(problem.m))]
        self.stages, self.newton_options = stages, newton_options
        self.nodes: dict[Stage, tuple[Node, Node]] = {stage: self._nodes(row) for stage, row in stages.rows.items()}
        self.values: dict[Node, Array] = {}
        self.vectors: dict[Hashable, Array] = {}
        self.functions: dict[tuple[int, str], Callable[..., Array]] = {}
        self.report = EXPLICIT
        waiting = [node for pair in self.nodes.values() for node in pair] if unread else [*self._nodes(stages.last)]
        reads: dict[Node, tuple[Node, ...]] = {}
        while waiting:
            node = waiting.pop()
            if node not in reads:
                reads[node] = tuple(dict.fromkeys(self._reads(node)))
                waiting += reads[node]
        order = {node: None for pair in self.nodes.values() for node in pair if node in reads}
        for block in coupling.blocks({node: reads[node] for node in order}):
            self._solve(block)

    def _nodes(self, row: Sums) -> tuple[Node, Node]:
        def live(part: str) -> tuple:
            weights = getattr(row, part).items()
            return tuple(sorted(((s, w) for s, w in weights if w and not self._zero(s, part)), key=repr))

        return ("Q", (("velocity", live("velocity")),)), ("P", (("pull", live("pull")), ("push", live("push"))))

    def _zero(self, source: Source, part: str) -> bool:
        return self.problem.facts.depends(source[0], part).zero

    def _terms(self, node: Node) -> Iterator[tuple[str, int, Stage, Number]]:
        for part, weights in node[1]:
            for (k, stage), weight in weights:
                yield part, k, stage, weight

    def _reads(self, node: Node) -> Iterator[Node]:
        for part, k, stage, _ in self._terms(node):
            depends, (Q, P) = self.problem.facts.depends(k, part), self.nodes[stage]
            if depends.on_q:
                yield Q
            if depends.on_p:
                yield P

    def _affine(self, block: coupling.Block) -> bool:
        inside = set(block.nodes)
        return all(
            self.problem.facts.depends(k, part).is_affine(*(node in inside for node in self.nodes[stage]))
            for node in block.nodes
            for part, k, stage, _ in self._terms(node)
        )

    def _solve(self, block: coupling.Block) -> None:
        if block.unknowns:
            guess = jnp.concatenate([self.start[node[0]] for node in block.unknowns])
            known_values, known_vectors = self.values, self.vectors

            def residual(y: Array) -> Array:
                self.values, self.vectors = dict(known_values), dict(known_vectors)
                self._set(block, y)
                return y - jnp.concatenate([self.sum(node[0], self._terms(node)) for node in block.unknowns])

            order = order_of(residual, guess)

            def slope(residual: Callable[[Array], Array], y: Array, r: Array) -> Array:
                return eliminate(jax.jacfwd(residual)(y), r) if order is None else order.solve_at(residual, y, r)

            if self._affine(block):
                y = guess - slope(residual, guess, residual(guess))
                ok, iterations, rounded = jnp.all(jnp.isfinite(y)), jnp.asarray(1), jnp.asarray(False)
            else:
                y, ok, iterations, rounded = newton(residual, guess, **self.newton_options, solve=slope, linear=slope)
            self.values, self.vectors = dict(known_values), dict(known_vectors)
            self.report = self.report.joined(Report(ok, iterations, rounded))
            self._set(block, y)
        else:
            self._set(block, None)

    def _set(self, block: coupling.Block, y: Array | None) -> None:
        if y is not None:
            self.values |= dict(zip(block.unknowns, jnp.split(y, len(block.unknowns)), strict=True))
        for node in block.others:
            self.values[node] = self.sum(node[0], self._terms(node))

    def sum(self, letter: str, terms) -> Array:
        """q or p + Σ weight δ_k (vector), channel by channel."""
        by_channel: dict[int, list[Array]] = {}
        for (k, weight), group in itertools.groupby(
            sorted(terms, key=lambda term: (term[1], float(term[3]))), key=lambda term: (term[1], term[3])
        ):
            total = functools.reduce(operator.add, (self.at(k, part, stage) for part, _, stage, _ in group))
            by_channel.setdefault(k, []).append(total if weight == 1 else float(weight) * total)
        parts = [self.drivers[k] * functools.reduce(operator.add, vectors) for k, vectors in by_channel.items()]
        return functools.reduce(operator.add, parts, self.start[letter])

    def at(self, k: int, part: str, stage: Stage) -> Array:
        """The velocity, pull or push of channel k at a stage."""
        depends, (Q, P) = self.problem.facts.depends(k, part), self.nodes[stage]
        clock = self.stages.clock[stage]
        key = (k, part, clock, depends.on_q and Q, depends.on_p and P)
        if key not in self.vectors:
            q = self.values[Q] if depends.on_q else self.start["Q"]
            p = self.values[P] if depends.on_p else self.start["P"]
            time = self.t + float(clock) * self.h if clock else self.t
            self.vectors[key] = self._function(k, part)(time, q, p, self.params)
        return self.vectors[key]

    def _function(self, k: int, part: str) -> Callable[..., Array]:
        """A vector of the equations, traced once for all stages and all Newton rounds."""
        if (k, part) not in self.functions:
            self.functions[k, part] = jax.jit(functools.partial(getattr(self.problem, part), k))
        return self.functions[k, part]

    def stage(self, stage: Stage) -> tuple[Array, Array]:
        """Return the values Q and P of a stage."""
        Q, P = self.nodes[stage]
        return self.values[Q], self.values[P]

    def result(self) -> Array:
        """Return the state (q', p') after the step."""
        return jnp.concatenate([self.sum(node[0], self._terms(node)) for node in self._nodes(self.stages.last)])
