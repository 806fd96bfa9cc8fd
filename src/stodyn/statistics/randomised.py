"""Averages over paths that come in independent randomisations of one set of points, which give their errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from stodyn.noise.sobol import RANDOMISATIONS
from stodyn.statistics.contract import Labelled
from stodyn.statistics.moments import Averaged, Sums, Valued, merge_sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class Randomised(Valued):
    """A statistic of averages, stored for each randomisation by itself: path p belongs to randomisation p % R.

    The points of a randomisation are not independent of each other, so the scatter of its paths says nothing about
    the error of their mean, but the scatter of the R means does. The variables are those of the statistic `of`, with
    each NAME_stderr computed from the R values of NAME.
    """

    of: Any = dataclasses.field(kw_only=False)

    collected_by_users = False

    @property
    def counts_failed(self):  # type: ignore[override]
        return self.of.counts_failed

    def prepared(self, problem, times):
        return dataclasses.replace(self, of=self.of.prepared(problem, times))

    def stepped_by(self, method, times):
        return dataclasses.replace(self, of=self.of.stepped_by(method, times))

    def track_start(self, t, x, params):
        return self.of.track_start(t, x, params)

    def track(self, gathered, move):
        return self.of.track(gathered, move)

    def values(self, snapshot):
        return self.of.values(snapshot)

    def memory(self, times, paths, n):
        return RANDOMISATIONS * self.of.memory(times, paths, n)

    def fold(self, observed, block):
        """Sums with a leading axis of randomisations and times."""
        x, sound = (np.asarray(part)[..., : block.paths] for part in observed)
        times, entries, _ = x.shape
        x = np.moveaxis(x.reshape(times, entries, -1, RANDOMISATIONS), -1, 0).astype(float, order="C")
        if sound.all():
            count = np.full((RANDOMISATIONS, times, 1), float(x.shape[-1]))
            mean = x.mean(axis=-1)
            d = x - mean[..., None]
        else:
            w = np.moveaxis(sound.reshape(times, 1, -1, RANDOMISATIONS), -1, 0)
            x = np.where(w, x, 0.0)
            count = w.sum(axis=-1, dtype=float)
            mean = x.sum(axis=-1) / np.maximum(count, 1.0)
            d = np.where(w, x - mean[..., None], 0.0)
        d2 = d * d
        square, third, fourth = d2.sum(axis=-1), (d2 * d).sum(axis=-1), (d2 * d2).sum(axis=-1)
        if self.of.crosses:
            third, fourth = (np.einsum("rtei,rtfi->rtef", d2, power) for power in (d, d2))
        second = np.einsum("rtei,rtfi->rtef", d, d) if self.of.products(entries) else square
        return Sums(
            *(
                part.reshape(RANDOMISATIONS * times, *part.shape[2:])
                for part in (count[..., 0], mean, second, third, fourth)
            )
        )

    def merge(self, a, b):
        return merge_sums(a, b)

    @staticmethod
    def parted(result: Sums) -> list[Sums]:
        """The sums of each randomisation, with a leading axis of times."""
        return [Sums(*parts) for parts in zip(*(np.split(part, RANDOMISATIONS) for part in result), strict=True)]

    def label(self, result, labels):
        parts = self.parted(result)
        whole = parts[0]
        for part in parts[1:]:
            whole = merge_sums(whole, part)
        labelled: Labelled = self.of.label(whole, labels)
        each = [self.of.label(part, labels).variables for part in parts]
        variables = dict(labelled.variables)
        for name in labelled.variables:
            if f"{name}_stderr" in variables:
                values = np.stack([one[name].values for one in each])
                error = values.std(axis=0, ddof=1) / np.sqrt(len(each))
                variables[f"{name}_stderr"] = variables[f"{name}_stderr"]._replace(values=error)
        return Labelled(variables, labelled.coords, labelled.warnings)


def randomised(statistic: Any) -> Randomised:
    """Return the statistic with its errors taken from randomisations; refuse one that is not made of averages."""
    if not isinstance(statistic, Averaged):
        raise ValueError(
            f'points: "sobol" is for averages (Moments, Observable, Passage), but {type(statistic).__name__} is not '
            'made of them; collect it in a run with points="random"'
        )
    return Randomised(statistic, every=statistic.every, at=statistic.at)
