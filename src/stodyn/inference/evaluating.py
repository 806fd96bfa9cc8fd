"""The log-likelihood of many parameter sets at once, with derivatives along directions, as lanes of one recursion."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stodyn.inference import kalman, schedule
from stodyn.inference.kalman import History, Row, Spread, State, Sum
from stodyn.inference.laws import Model, Parts
from stodyn.inference.stepping import SteppedModel
from stodyn.numerics import linear_flow
from stodyn.numerics.printing import recurrence
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.uncompiled import Uncompiled

AGREES = 1e-10  # of an entry of the laws of all gaps: what depends on time, taken at some times in a gap and at others
SHORTEST = 1e-12  # of the record: gaps about a jump
MOST_BETWEEN = 1_000_000  # rows for these
PRINTED = 4  # states up to which the laws of gaps are printed; beyond, NumPy computes them for all lanes at once


class Evaluated:
    """A model and its record: `params_of` makes params of a vector θ."""

    def __init__(self, model: Model | SteppedModel, params_of: Callable[[Any], Any]):
        self.model, self.params_of = model, params_of
        self._whole = _along(lambda theta: model.at(params_of(theta)), _of_lanes)
        self._own = Uncompiled(lambda theta: model.own(params_of(theta)))
        if isinstance(model, Model):
            self._systems = _along(lambda theta: model.without_laws(params_of(theta)), AtPoints)
            self._laws = _along(functools.partial(of_gap, model, params_of, False), AtPoints)
            self._other_nodes = AtPoints(functools.partial(of_gap, model, params_of, True))
            self._views = _along(functools.partial(of_row, model, params_of), AtPoints)

    def for_parameters(self, thetas: np.ndarray) -> Evaluated:
        """Return this made wide enough for the matrices at θ (lanes, p)."""
        model = self.model.widened([self._own(theta) for theta in thetas])
        return self if model is self.model else Evaluated(model, self.params_of)

    def refuse_unstable(self, theta: np.ndarray) -> None:
        """Refuse a plant without a stationary law at θ (p,), in words."""
        self.model.refuse_unstable(self._own(theta))

    @functools.cached_property
    def rows(self) -> Row:
        """The rows of the record."""
        plan = self.model.schedule
        is_read = ~np.isnan(plan.values)
        return Row(np.where(is_read, plan.values, 0.0), is_read, schedule.keeping(plan, self.model.widths))

    def parts(self, *directions: Any) -> Any:
        """Return the matrices at θ (lanes, p), with tangents along one or two directions of the same shape."""
        order, model = len(directions) - 1, self.model
        if not isinstance(model, Model) or model.states > PRINTED:
            return self._whole[order](*directions)
        parts = self._systems[order](*directions)
        plan, lanes = model.schedule, len(directions[0])
        if not model.moved:
            laws = _laws_over(_rates(parts, order), order, plan.gaps, plan.longest or 1.0, lanes)
        else:
            laws = self._laws_of_gaps(self._laws, directions, plan.gaps, plan.begins)
        parts = _with(parts, "law", laws, order, lanes)
        if not model.is_timed:
            return parts
        return _with(parts, "view", self._views[order](*_beside(directions, plan.times)), order, lanes)

    def _laws_of_gaps(self, functions: list[Any], directions: Any, gaps: np.ndarray, begins: np.ndarray) -> Any:
        """The laws of gaps, lane by lane, of matrices or forces that depend on time."""
        order = len(directions) - 1
        results = functions[order](*_beside(directions, gaps, begins))
        if self.model.moved == "forces":
            return results
        return _laws_over(results, order, gaps, self.model.schedule.longest or 1.0, len(directions[0]))

    def resolved(self, theta: np.ndarray) -> Evaluated:
        """Return this with so many rows that the law of each gap at θ (p,) is the same by other nodes, where it depends
        on time: gaps are halved until then, and end at a jump in ever shorter ones."""
        model = self.model
        if not (isinstance(model, Model) and model.moved):
            return self
        plan = model.schedule
        begins, gaps = plan.begins[plan.gaps > 0], plan.gaps[plan.gaps > 0]
        between, sizes, shortest = [plan.times], None, SHORTEST * np.ptp(plan.times)
        while len(gaps):
            law, other = (self._laws_of_gaps(own, (theta[None],), gaps, begins)
                          for own in (self._laws, [self._other_nodes]))  # fmt: skip
            if sizes is None:
                sizes = [np.abs(part).max(axis=0) for part in (law.Phi, law.c, law.Q)]
            is_far = np.zeros(len(gaps), bool)
            for one, two, size in zip(law, other, sizes, strict=True):
                is_far |= (np.abs(one - two) > AGREES * size).reshape(len(gaps), -1).any(axis=1)
            is_far &= gaps > shortest
            halves, begins = 0.5 * gaps[is_far], begins[is_far]
            between.append(begins + halves)
            if sum(map(len, between)) > MOST_BETWEEN + len(plan.times):
                raise ValueError(
                    f"problem: it changes in time so fast that more than {MOST_BETWEEN} rows are needed between the "
                    f"readings, as at {between[-1][0]:.6g}"
                )
            begins, gaps = np.concatenate([begins, between[-1]]), np.tile(halves, 2)
        if sum(map(len, between)) == len(plan.times):
            return self
        times = np.sort(np.concatenate(between))
        finer = plan.with_rows(times, np.searchsorted(times, plan.times)).one_by_one()
        return Evaluated(dataclasses.replace(model, schedule=finer), self.params_of)

    def log_likelihood(self, *directions: np.ndarray) -> list[np.ndarray]:
        """Return log L at θ (lanes, p); with a direction u also its slope along u; with two, [L, L_u, L_v, L_uv]."""
        parts = self.parts(*directions)
        order = len(directions) - 1
        spread, carry, table, fixed = nested(parts, order, self._arguments)
        (_, last), _ = kalman.SUMS[self.model.is_timed][order]((spread, carry), table, fixed, self.data)
        return totals(last, order)

    @functools.cached_property
    def data(self) -> recurrence.Rows:
        """The rows of the record, as a recursion takes them."""
        rows = self.rows
        return recurrence.prepared(rows, which(self.model), (rows.is_read, rows.keep))

    def log_total(self, theta: Any) -> Any:
        """Return log L at θ (p,) within a trace of JAX."""
        parts, D, is_timed = self.model.at(self.params_of(theta)), self.model.diffuse(), self.model.is_timed
        left = None if D is None else jnp.asarray(float(D.shape[1]))
        spread = Spread(parts.P, None if D is None else jnp.asarray(D), left)

        def turn(carry: Any, at: tuple[Any, Row, Any]) -> Any:
            gap, row, sensing = at
            law = jax.tree.map(lambda part: part[gap], parts.law)
            return kalman.summed_row(carry, law, sensing if is_timed else parts.view.sensing, row), None

        rows = jnp.asarray(self.model.schedule.gap), self.rows, parts.view.sensing if is_timed else None
        (_, carry), _ = lax.scan(turn, (spread, Sum(parts.m, jnp.zeros(()), jnp.zeros(()))), rows)
        return carry.total

    def _arguments(self, parts: Parts, is_tangent: bool) -> tuple[Any, Any, Any, Any]:
        """Start of covariances and means, table and fixed numbers of the recursion, with lanes where it has them."""
        lanes, D = len(parts.m), self.model.diffuse()
        diffuse = None if D is None else np.repeat((0.0 if is_tangent else 1.0) * D[None], lanes, axis=0)
        left = None if D is None else np.full(lanes, 0.0 if is_tangent else float(D.shape[1]))
        begun = Spread(parts.P, diffuse, left), Sum(parts.m, np.zeros(lanes), np.zeros(lanes))
        return *begun, *entries(self.model, parts)

    def history(self, theta: np.ndarray) -> tuple[Parts, History]:
        """Return the matrices at θ (p,), and what the filter leaves of every row."""
        parts = self.parts(theta[None])
        spread, begun, table, fixed = self._arguments(parts, False)
        _, history = kalman.STORED[self.model.is_timed](State(begun.m, *spread), table, fixed, self.data)
        return jax.tree.map(lambda a: a[0], parts), jax.tree.map(lambda a: a[:, 0], history)

    def smoothed(self, parts: Parts, history: History) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of all states in all rows, given all readings."""
        return smoothed(self.model, parts, history, self.rows)


def smoothed(model: Model | SteppedModel, parts: Parts, history: History, rows: Row) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (rows, n) and covariance of all states given all readings."""
    n, is_diffuse = len(parts.m), history.state.D is not None
    zero, flat = np.zeros((1, n)), np.zeros((1, n, n))
    adjoint = kalman.Adjoint(zero, flat, *((zero, flat, flat) if is_diffuse else (None, None, None)))
    backwards: Any = jax.tree.map(lambda a: a[::-1], kalman.Passed(history.predicted, history.readings, rows))
    table, fixed = entries(model, jax.tree.map(lambda a: a[None], parts))
    data = recurrence.prepared(backwards, which(model)[::-1])
    _, (mean, covariance) = kalman.SMOOTHED[model.is_timed](adjoint, table, fixed, data)
    return mean[::-1, 0], covariance[::-1, 0]


def which(model: Model | SteppedModel) -> np.ndarray:
    """Return which entry of the table of a recursion belongs to each row: that of its gap, or its own."""
    plan = model.schedule
    return np.arange(len(plan.times)) if model.is_timed else plan.gap


def entries(model: Model | SteppedModel, parts: Parts) -> tuple[Any, Any]:
    """Return the table and the fixed numbers of a recursion from parts that have the lanes first."""
    table: Any = parts.law
    fixed: Any = parts.view.sensing
    if model.is_timed:
        table, fixed = (jax.tree.map(lambda part: part[:, model.schedule.gap], table), fixed), ()
    leaves, tree = jax.tree.flatten(table)
    return jax.tree.unflatten(tree, [leaf.swapaxes(0, 1) for leaf in leaves]), fixed


def _along(function: Callable, evaluator: Callable) -> list[Any]:
    """A function of θ at many points: its values, those with a slope along one direction, and with curvatures."""

    def slope(theta: Any, u: Any) -> Any:
        return jax.jvp(function, (theta,), (u,))

    def curvature(theta: Any, u: Any, v: Any) -> Any:
        return jax.jvp(lambda theta: slope(theta, u), (theta,), (v,))

    return [evaluator(own) for own in (function, slope, curvature)]


def _of_lanes(function: Callable) -> Uncompiled:
    return Uncompiled(jax.vmap(function))


def of_gap(model: Model, params_of: Callable, checking: bool, theta: Any) -> Any:
    """Return the law of a gap, whose length and beginning follow the parameters, or rates in place of its own."""
    params, when = params_of(theta[:-2]), lax.stop_gradient(theta[-2:])
    if model.moved == "matrices":
        return model.rates(params, when[0], when[1], checking)
    # of powers of a length 0, second derivatives would be NaN times 0
    return jax.tree.map(lambda part: part[0], model.law(params, when[:1], when[1:], checking))


def of_row(model: Model, params_of: Callable, theta: Any) -> Any:
    """Return what is seen at a time, which follows the parameters."""
    return model.view(params_of(theta[:-1]), lax.stop_gradient(theta[-1]))


def _beside(directions: Any, *numbers: np.ndarray) -> list[np.ndarray]:
    """θ (lanes, p), and directions of the same shape, for each of some entries, with the numbers of the entry behind
    them: lane by lane."""
    own = np.tile(np.stack(numbers, axis=1), (len(directions[0]), 1))
    behind = [own, *[np.zeros_like(own)] * (len(directions) - 1)]
    return [np.concatenate([np.repeat(part, len(numbers[0]), axis=0), more], axis=1)
            for part, more in zip(directions, behind, strict=True)]  # fmt: skip


def _rates(systems: Any, order: int) -> Any:
    """The rates of parts, as deep as the order."""
    return systems.law if order == 0 else tuple(_rates(part, order - 1) for part in systems)


def _laws_over(rates: Any, order: int, gaps: np.ndarray, longest: float, lanes: int) -> Any:
    """The laws over gaps of many lanes, lane by lane, whose rates have as many tangents as the order says; they are
    those of each lane, or of each gap in it."""
    leaves, tree = jax.tree.flatten(rates)
    halvings, copies = linear_flow.doublings(leaves[0], longest), lanes * len(gaps) // len(leaves[0])
    rates = jax.tree.unflatten(tree, [leaf.repeat(copies, axis=0) for leaf in leaves])
    how = np.asarray(longest / 2.0**halvings), np.asarray(halvings), np.asarray(linear_flow.TERMS)
    shares = gaps / longest
    return LAWS[order](rates, shares if lanes == 1 else np.tile(shares, lanes), *how)


def _law(rates: Any, share: Any, unit: Any, halvings: Any, terms: Any) -> Any:
    """The law over one share of a time, the same for all problems."""
    short = unit * rates.A, unit * rates.a, unit * rates.S
    laws = linear_flow.over_shares(*short, share[None], halvings, terms)
    return jax.tree.map(lambda part: part[0], laws)


def _with_slope(function: Callable, pair: Any, *others: Any) -> Any:
    return jax.jvp(lambda rates: function(rates, *others), pair[:1], pair[1:])


_ORDERS = (
    _law,
    functools.partial(_with_slope, _law),
    functools.partial(_with_slope, functools.partial(_with_slope, _law)),
)
LAWS = [AtPoints(function, (0, 0, None, None, None)) for function in _ORDERS]  # by order of derivative


def _with(parts: Any, name: str, values: Any, order: int, lanes: int) -> Any:
    """Parts with other values by this name, which are those of their entries lane by lane, as deep as the order."""
    if order > 0:
        return tuple(_with(*both, order - 1, lanes) for both in zip(parts, [name] * 2, values, strict=True))
    values = type(values)(*(part.reshape(lanes, -1, *part.shape[1:]) for part in values))
    return parts._replace(**{name: values})


def nested(parts: Any, order: int, arguments: Callable, is_tangent: bool = False) -> tuple[Any, ...]:
    """Return the arguments of a recursion whose numbers are pairs of pairs of values and tangents, by the order."""
    if order == 0:
        return arguments(parts, is_tangent)
    value, tangent = parts
    both = nested(value, order - 1, arguments, is_tangent), nested(tangent, order - 1, arguments, True)
    return tuple(zip(*both, strict=True))


def totals(carry: Any, order: int) -> list[np.ndarray]:
    """Return the log-likelihoods and their derivatives from the last carry of such a recursion."""
    if order == 0:
        return [carry[1]]
    return [total for part in carry for total in totals(part, order - 1)]
