"""The normal law of a start: fixed, given by the problem, stationary, unknown, or a parameter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import suggestion
from stodyn.noise.source import Source

WORDS = ("stationary", "diffuse")
START = "start"  # among the params: numbers in place of the problem's start, {component: number}


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
    """N(mean, covariance) of the plant's states, or their stationary law; `diffuse` lists states that are unknown, and
    `stated` those whose value the params state, by their names."""

    mean: np.ndarray
    covariance: np.ndarray
    is_stationary: bool = False
    diffuse: tuple[int, ...] = ()
    stated: tuple[tuple[int, str], ...] = ()

    def mean_at(self, params: Any) -> Any:
        """The mean at some params."""
        mean: Any = self.mean
        for place, name in self.stated:
            mean = jnp.asarray(mean).at[place].set(params[START][name])
        return mean


def start_of(source: Source, initial: Any, states: Sequence[str], stated: Sequence[str] = ()) -> Start:
    """Return the start of states from the problem's own, from what `initial` says in its place, and from params."""
    start = _start_of(source, initial, states)
    if not stated:
        return start
    for name in stated:
        if name not in states:
            raise ValueError(f"{START}.{name}: there is no state {name!r}; there are {', '.join(states)}"
                             f"{suggestion(str(name), states)}")  # fmt: skip
    places = [states.index(name) for name in stated]
    if start.is_stationary or set(places) & set(start.diffuse):
        raise ValueError(
            f"{START}.{stated[0]}: the start is a parameter here, and `initial` says {initial!r}; leave one out"
        )
    covariance = start.covariance.copy()
    covariance[places], covariance[:, places] = 0.0, 0.0
    return dataclasses.replace(start, covariance=covariance, stated=tuple(zip(places, stated, strict=True)))


def _start_of(source: Source, initial: Any, states: Sequence[str]) -> Start:
    n = len(states)
    if isinstance(initial, str) and initial in WORDS:
        zero = np.zeros(n), np.zeros((n, n))
        return Start(*zero, initial == "stationary", tuple(range(n)) if initial == "diffuse" else ())
    if initial is not None and not isinstance(initial, Mapping):
        raise TypeError(f"initial: expected 'stationary', 'diffuse' or {{component: 'diffuse'}}, got {initial!r}")
    mean, covariance = _moments(source, n)
    unknown = []
    for name, word in (initial or {}).items():
        if name not in states:
            raise ValueError(f"initial: there is no state {name!r}; there are {', '.join(states)}"
                             f"{suggestion(str(name), states)}")  # fmt: skip
        if word != "diffuse":
            raise ValueError(f"initial ({name}): expected 'diffuse', got {word!r}")
        unknown.append(states.index(name))
    mean[unknown], covariance[unknown], covariance[:, unknown] = 0.0, 0.0, 0.0
    return Start(mean, covariance, False, tuple(unknown))


def _moments(source: Source, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a normal start; an error where it is not normal."""
    moments = source.normal()
    if moments is None:
        raise ValueError(
            "start: a Kalman filter takes a fixed or a normal start; give numbers, scipy.stats.norm(...), "
            "multivariate_normal(...), or initial='stationary' or 'diffuse'"
        )
    mean, covariance = moments
    if len(mean) == 1 < n:
        return np.repeat(mean, n), np.eye(n) * covariance
    return np.array(mean), np.array(covariance)
