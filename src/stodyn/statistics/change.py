"""How far a function of the state has moved since the start, path by path."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.moments import Averaged, summarise


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Change(Averaged):
    """Mean and rms over the paths of the change of a function of the state since the start of the same path.

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number, written for one path with jax.numpy.
    name : str
        The name under which the variables appear in the result.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables: NAME, NAME_stderr, NAME_rms, NAME_rms_stderr (time). It takes the memory of one more state per path.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> drift_of_energy = st.Change(lambda t, x: 0.5 * (x[0] ** 2 + x[1] ** 2), name="energy_error", every=100)
    """

    function: Callable = dataclasses.field(kw_only=False)
    name: str = "change"

    def __post_init__(self):
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(f"Change: expected a function of (t, x[, params]), got {self.function!r}")

    def track_start(self, t, x, params):
        return jnp.asarray(t, x.dtype), x

    def values(self, snapshot):
        t, x = snapshot.track
        name = f"Change {self.name}"
        change = snapshot.map(self.function, name) - snapshot._replace(t=t, x=x).map(self.function, name)
        if change.ndim != 1:
            raise ValueError(f"Change {self.name}: the function returns shape {change.shape[:-1]}, expected a number")
        return jnp.stack([change, change**2])

    def label(self, result, labels):
        s = summarise(result)
        rms = np.sqrt(s.mean[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            rms_stderr = np.where(rms > 0, 0.5 * s.mean_stderr[:, 1] / rms, 0.0)
        values = {"": s.mean[:, 0], "_stderr": s.mean_stderr[:, 0], "_rms": rms, "_rms_stderr": rms_stderr}
        kinds = {"": intervals.STUDENT, "_rms": intervals.RMS}
        known = {ending: intervals.attributes(kind, result.weight) for ending, kind in kinds.items()}
        return Labelled(
            {f"{self.name}{ending}": Variable(("time",), v, known.get(ending, {})) for ending, v in values.items()}
        )
