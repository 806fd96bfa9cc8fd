"""The log-likelihood of many parameter sets at once, with derivatives along directions, as lanes of one recursion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from stodyn.inference import kalman, schedule
from stodyn.inference.kalman import History, Row, Sensing, State
from stodyn.inference.laws import Model, Parts
from stodyn.inference.stepping import SteppedModel
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.uncompiled import Uncompiled

PRINTED = 4  # states up to which the laws of gaps are printed; beyond, NumPy computes them for all lanes at once


class Evaluated:
    """A model and its record: `params_of` makes params of a vector θ."""

    def __init__(self, model: Model | SteppedModel, params_of: Callable[[Any], Any]):
        self.model, self.params_of = model, params_of
        self._whole = _along(lambda theta: model.at(params_of(theta)), _of_lanes)
        linear: Any = model
        self._rest = _along(lambda theta: linear.without_laws(params_of(theta)), AtPoints)
        self._laws = _along(self._law, AtPoints)
        self._own = Uncompiled(lambda theta: model.own(params_of(theta)))

    def _law(self, theta: Any) -> Any:
        """The law of one gap, whose length and beginning follow the parameters."""
        when = lax.stop_gradient(theta[-2:])  # of powers of a length 0, second derivatives would be NaN times 0
        linear: Any = self.model
        law = linear.law(self.params_of(theta[:-2]), when[:1], when[1:])
        return jax.tree.map(lambda part: part[0], law)

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
        order = len(directions) - 1
        if not isinstance(self.model, Model) or self.model.states > PRINTED:
            return self._whole[order](*directions)
        plan, lanes = self.model.schedule, len(directions[0])
        gaps = np.stack([plan.gaps, plan.begins], axis=1)
        along = [np.tile(gaps, (lanes, 1)), *[np.zeros((lanes * len(gaps), 2))] * order]
        points = [np.concatenate([np.repeat(own, len(gaps), axis=0), gap], axis=1)
                  for own, gap in zip(directions, along, strict=True)]  # fmt: skip
        laws = jax.tree.map(lambda part: part.reshape(lanes, len(gaps), *part.shape[1:]), self._laws[order](*points))
        return _joined(self._rest[order](*directions), laws, order)

    def log_likelihood(self, *directions: np.ndarray) -> list[np.ndarray]:
        """Return log L at θ (lanes, p); with a direction u also its slope along u; with two, [L, L_u, L_v, L_uv]."""
        parts = self.parts(*directions)
        order = len(directions) - 1
        carry, table, fixed = nested(parts, order, self._arguments)
        last, _ = kalman.SUMS[order](carry, table, fixed, self.model.schedule.gap, self.rows)
        return totals(last, order)

    def _arguments(self, parts: Parts, is_tangent: bool) -> tuple[Any, Any, Any]:
        """Start, table and fixed numbers of the recursion, with lanes where it has them."""
        lanes, D = len(parts.m), self.model.diffuse()
        diffuse = None if D is None else np.repeat((0.0 if is_tangent else 1.0) * D[None], lanes, axis=0)
        left = None if D is None else np.full(lanes, 0.0 if is_tangent else float(D.shape[1]))
        table = jax.tree.map(lambda a: np.moveaxis(a, 0, 1), parts.law)
        return (State(parts.m, parts.P, diffuse, left), np.zeros(lanes)), table, Sensing(parts.H, parts.d, parts.R)

    def history(self, theta: np.ndarray) -> tuple[Parts, History]:
        """Return the matrices at θ (p,), and what the filter leaves of every row."""
        parts = self.parts(theta[None])
        (start, _), table, fixed = self._arguments(parts, False)
        _, history = kalman.STORED(start, table, fixed, self.model.schedule.gap, self.rows)
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
    table, fixed = jax.tree.map(lambda a: a[:, None], parts.law), Sensing(*(a[None] for a in parts[1:4]))
    _, (mean, covariance) = kalman.SMOOTHED(adjoint, table, fixed, model.schedule.gap[::-1], backwards)
    return mean[::-1, 0], covariance[::-1, 0]


def _along(function: Callable, evaluator: Callable) -> list[Any]:
    """A function of θ at many points: its values, those with a slope along one direction, and with curvatures."""

    def slope(theta: Any, u: Any) -> Any:
        return jax.jvp(function, (theta,), (u,))

    def curvature(theta: Any, u: Any, v: Any) -> Any:
        return jax.jvp(lambda theta: slope(theta, u), (theta,), (v,))

    return [evaluator(own) for own in (function, slope, curvature)]


def _of_lanes(function: Callable) -> Uncompiled:
    return Uncompiled(jax.vmap(function))


def _joined(parts: Any, laws: Any, order: int) -> Any:
    """Parts with the laws of their gaps, as deep as the order."""
    if order == 0:
        return parts._replace(law=laws)
    return tuple(_joined(part, law, order - 1) for part, law in zip(parts, laws, strict=True))


def nested(parts: Any, order: int, arguments: Callable, is_tangent: bool = False) -> tuple[Any, Any, Any]:
    """Return the arguments of a recursion whose numbers are pairs of pairs of values and tangents, by the order."""
    if order == 0:
        return arguments(parts, is_tangent)
    value, tangent = parts
    both = nested(value, order - 1, arguments, is_tangent), nested(tangent, order - 1, arguments, True)
    return tuple(zip(*both, strict=True))  # type: ignore[return-value]


def totals(carry: Any, order: int) -> list[np.ndarray]:
    """Return the log-likelihoods and their derivatives from the last carry of such a recursion."""
    if order == 0:
        return [carry[1]]
    return [total for part in carry for total in totals(part, order - 1)]
