"""Which unknowns of a large SDAE stand in which of its equations, and how the matrices of its steps are eliminated."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.numerics.elimination import ORDERED, WRITTEN_OUT
from stodyn.numerics.facts.dependence import dependence, varies_by_arrays
from stodyn.numerics.printing.points import AtPoints, at_one
from stodyn.numerics.printing.unprintable import Unprintable, or_else
from stodyn.numerics.sparse import MOST_FULL, Elimination, Pattern, find_order, find_pattern
from stodyn.problems.explicit import Rest, step_lengths
from stodyn.problems.operators import Diagonal, Operator, Sparse

LATER = (0.0, 1e-3, 1.0, 1e3)  # times at which the slopes of f are evaluated, until they are regular
LENGTHS = 0.5  # of the steps of samples, in the times of the equations
MOST_ENTRIES = 4_000_000  # of g: where there are more, zeros are not looked for


class Sparsity(NamedTuple):
    """drift: of f_x (n, n); mass: of R M (r, n), with its values; matrix: of [R M - a R f_x; N f_x], eliminated, where
    unknowns are explicit that of the others."""

    drift: Pattern
    mass: Pattern
    mass_values: np.ndarray
    matrix: Elimination


def find_sparsity(problem: Any, implicit_noise: bool = False) -> Sparsity | None:
    """The patterns of an SDAE, proved from the trace of f, and an order for its matrices from samples of them.

    None where there are few unknowns, f cannot be taken apart, or elimination would fill the matrix up. The samples
    are those of steps of no length and of the lengths of the fastest, the middle and the slowest equation. With
    `implicit_noise` the matrix is that of a stage that is implicit in the noise too.
    """
    facts = problem.facts
    rest = None if implicit_noise else facts.rest
    if rest is not None and facts.unknowns <= ORDERED:
        return None
    n, drift, (rows, N, *_) = problem.n, facts.drift_pattern, facts.split
    if drift is None or len(drift.rows) > MOST_FULL * n * n:
        return None
    with jax.enable_x64(True):
        start: Any = np.asarray(facts.diagnosed().start, float)
        params = problem.example_params()
        N, RM = scipy.sparse.csr_array(N), problem.sparse_mass[rows]
        held = drift.csr(1.0)
        top = abs(RM) + held[rows]
        if implicit_noise:
            try:
                noise = find_pattern(lambda x, t, p: _row_sums(problem, t, x, p), start, np.zeros(()), params)
            except Unprintable:
                return None
            top = top + noise.csr(1.0)[rows]
        stacked = scipy.sparse.vstack([top, abs(N) @ held], format="csr")
        pattern = Pattern.of_csr(stacked if rest is None else abs(rest.matrix(stacked, -held)))
        pattern = dataclasses.replace(pattern, reversible=drift.reversible)
        slopes = AtPoints(lambda t: drift.jacobian(lambda x: problem.f(t, x, params), start), few=len(LATER))
        for t in LATER:
            f_x = drift.csr(slopes(np.array([t]))[0])
            if np.isfinite(f_x.data).all() and (
                elimination := find_order(pattern, _samples(pattern, RM, f_x, rows, N, rest))
            ):
                mass = Pattern.of_csr(RM)
                return Sparsity(drift, mass, mass.values_of(RM), elimination)
    return None


@or_else(lambda problem: None)
def find_drift_pattern(problem: Any) -> Pattern | None:
    """Where f_x of an SDAE with more than a few unknowns may differ from zero; None where f cannot be taken apart."""
    if problem.n <= WRITTEN_OUT:
        return None
    with jax.enable_x64(True):
        start: Any = np.asarray(problem.example_start(), float)
        params = problem.example_params()
        pattern = find_pattern(lambda x, t, p: problem.f(t, x, p), start, np.zeros(()), params)
        return dataclasses.replace(pattern, reversible=_is_reversible(problem, start, params))


@or_else(lambda function, x, params: None)
def find_varying(function: Any, x: np.ndarray, params: Any) -> np.ndarray | None:
    """Which entries of the large array function(t, x, params) depend on time or state; None where that is unknown."""
    with jax.enable_x64(True):
        arguments = (np.zeros(()), np.asarray(x, float), params)
        return varies_by_arrays(jax.make_jaxpr(function)(*arguments), arguments, (0, 1))


@or_else(lambda problem: None)
def find_elimination(problem: Any) -> Elimination | None:
    """An order for the matrices 1 - a f_x - b (g W)_x of the implicit steps of a large SDE; None where there is none.

    The pattern is proved from the traces of f and of g W. The samples are those of steps of no length and of half the
    lengths of the fastest, the middle and the slowest equation: with the whole length of one that grows its matrix
    would be singular.
    """
    n = problem.n
    if n <= WRITTEN_OUT:
        return None
    with jax.enable_x64(True):
        start, params, W = np.asarray(problem.example_start(), float), problem.example_params(), np.ones(problem.m)
        drift = find_pattern(lambda x, t, p: problem.f(t, x, p), start, np.zeros(()), params)
        noise = find_pattern(lambda x, t, p: problem.push(t, x, p, W), start, np.zeros(()), params)
        pattern = Pattern.of_csr(drift.csr() + noise.csr() + scipy.sparse.eye_array(n, dtype=bool))
        if len(pattern.rows) > MOST_FULL * n * n:
            return None
        f_x = at_one(lambda x: pattern.jacobian(lambda x: problem.f(0.0, x, params), x), start)
        on_diagonal = pattern.rows == pattern.columns
        slopes = np.zeros(n)
        np.maximum.at(slopes, pattern.rows, np.abs(f_x))
        lengths = np.sort(LENGTHS / slopes[slopes > 0.0])
        steps = [0.0, *(lengths[[0, len(lengths) // 2, -1]] if len(lengths) else ())]
        return find_order(pattern, np.array([on_diagonal - a * f_x for a in steps])) if np.isfinite(f_x).all() else None


class NoisePlaces(NamedTuple):
    """The places of the entries of noise that is never a matrix: their rows, their columns, and a group for each.

    The channels of a group do not disturb each other: an entry of one of them depends on no component that another one
    moves. So the derivatives of all of them along their own noise are computed in one pass.
    """

    rows: np.ndarray
    columns: np.ndarray
    groups: np.ndarray


@or_else(lambda problem: None)
def find_noise_places(problem: Any) -> NoisePlaces | None:
    """The places of an SDE's noise, from the trace of its entries; None where it is a matrix, is known by its products
    alone, or cannot be followed."""
    operators: list[Any] = []

    def entries(x, t, params):
        operators.append(problem.multiplier(t, x, params))
        return operators[-1].entries

    with jax.enable_x64(True):
        point = np.asarray(problem.example_start(), float), np.zeros(()), problem.example_params()
        depends = find_pattern(entries, *point).csr(1.0)
    noise = operators[-1]
    if not isinstance(noise, Diagonal | Sparse):
        return None
    count, (n, m) = noise.entries.size, noise.shape
    own = np.arange(count)
    rows, columns = (own, own) if isinstance(noise, Diagonal) else (noise.rows, noise.columns)
    moves = scipy.sparse.csr_array((np.ones(count), (rows, columns)), (n, m))
    belongs = scipy.sparse.csr_array((np.ones(count), (own, columns)), (count, m))
    return NoisePlaces(rows, columns, Pattern.of_csr(depends @ moves + belongs).colours[columns])


def _samples(pattern: Pattern, RM: Any, f_x: Any, rows: np.ndarray, N: Any, rest: Rest | None) -> np.ndarray:
    """The values (K, nnz) of the matrices of steps of several lengths."""
    R_f_x, N_f_x = f_x[rows], N @ f_x
    steps = step_lengths(RM, R_f_x)
    whole = (scipy.sparse.vstack([RM - a * R_f_x, N_f_x], format="csr") for a in steps)
    return np.array([pattern.values_of(each if rest is None else rest.matrix(each, f_x)) for each in whole])


def _is_reversible(problem: Any, x: Any, params: Any) -> bool:
    def backwards(x):
        _, slope = jax.linearize(lambda x: problem.f(0.0, x, params), x)
        return jax.linear_transpose(slope, x)(x)

    try:
        jax.eval_shape(backwards, x)
    except Exception:  # f contains a function without a backward derivative
        return False
    return True


def noise_pattern(problem: Any) -> Pattern | None:
    """The places of g (n, m) that are not zero, from g itself where it is sparse, else from its trace; None where it
    cannot be taken apart or is too large."""
    if problem.facts.unknowns <= (WRITTEN_OUT if problem.known.explicit is None else ORDERED):
        return None
    with jax.enable_x64(True):
        start, params = np.asarray(problem.example_start(), float), problem.example_params()
        if problem.is_operator:
            operators: list[Any] = []
            jax.eval_shape(lambda t, x, p: operators.append(problem.multiplier(t, x, p)), np.zeros(()), start, params)
            return _places_of(operators[0])
        if problem.n * problem.m > MOST_ENTRIES:
            return None
        try:
            holds = ~dependence(problem.g, np.zeros(()), start, params).zero
        except Unprintable:
            return None
    return Pattern.of(holds) if holds.mean() < MOST_FULL else None


def _places_of(noise: Any) -> Pattern | None:
    """The places of an operator's entries, in the order of Sparse.sorted_entries; None where they are not known."""
    if isinstance(noise, Diagonal):
        own = np.arange(noise.shape[0])
        return Pattern(own, own, noise.shape)
    return Pattern(*noise.places, noise.shape) if isinstance(noise, Sparse) else None


def _row_sums(problem: Any, t, x: Any, params: Any) -> Any:
    """g·1 (n,), which depends on a component wherever g does."""
    multiplier = problem.multiplier(t, x, params)
    return multiplier @ jnp.ones(problem.m, x.dtype) if isinstance(multiplier, Operator) else multiplier.sum(1)
