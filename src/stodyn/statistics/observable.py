"""The mean of any function of the state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn.arguments import checks_arguments
from stodyn.numerics.bounds import check_bounds
from stodyn.problems.calling import call
from stodyn.problems.contract import check_repeats
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.moments import Averaged, summarise


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Observable(Averaged):
    """Mean, variance and standard deviation over the paths of a function of the state, a number or a vector.

    Parameters
    ----------
    function : callable
        function(t, x[, params]), written for one path with jax.numpy. It may take params or not, whether the problem
        has any or not; x is a vector (n,) even where the problem is scalar.
    name : str, optional
        The name under which the variables appear in the result; by default the function's own, "observable" for a
        lambda.
    units : str, optional
        The units of the values, for labels.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables: NAME, NAME_stderr, NAME_variance, NAME_variance_stderr, NAME_std, NAME_std_stderr (time[, NAME_entry]).

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> energy = st.Observable(lambda t, x: 0.5 * (x[0] ** 2 + x[1] ** 2), name="energy", units="J", every=10)
    """

    function: Callable = dataclasses.field(kw_only=False)
    name: str | None = None
    units: str | None = None

    def __post_init__(self):
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(f"Observable: expected a function of (t, x[, params]), got {self.function!r}")
        if self.name is None:
            name = getattr(self.function, "__name__", "observable")
            object.__setattr__(self, "name", "observable" if name == "<lambda>" else name)
        if not isinstance(self.name, str):
            raise TypeError(f"Observable: name must be a word, the variable's name in the result, got {self.name!r}")

    def prepared(self, problem, times):
        def trace() -> core.ClosedJaxpr:
            point = np.zeros(()), np.zeros(problem.n), problem.example_params()
            return jax.make_jaxpr(lambda t, x, params: call(self.function, t, x, params=params))(*point)

        try:
            first = trace()
        except Exception:  # reported when the run is traced
            return self
        check_bounds(first, f"Observable {self.name}:")
        check_repeats(f"Observable {self.name}", first, trace())
        return self

    @property
    def averages(self) -> tuple[str, str]:
        """The names of the variables that describe `values`."""
        return f"{self.name}", f"{self.name}_variance"

    def values(self, snapshot):
        return jnp.atleast_2d(snapshot.map(self.function, f"Observable {self.name}"))

    def label(self, result, labels):
        s = summarise(result)
        one = s.mean.shape[1] == 1
        dims = ("time",) if one else ("time", f"{self.name}_entry")
        attrs = {"units": self.units} if self.units else {}
        kinds = {"": intervals.STUDENT, "_variance": intervals.CHI_SQUARE, "_std": intervals.DEVIATION}
        values = {
            "": s.mean,
            "_stderr": s.mean_stderr,
            "_variance": s.variance,
            "_variance_stderr": s.variance_stderr,
            "_std": s.std,
            "_std_stderr": s.std_stderr,
        }
        return Labelled(
            {
                f"{self.name}{ending}": Variable(
                    dims,
                    v[:, 0] if one else v,
                    attrs | (intervals.attributes(kinds[ending], result.weight) if ending in kinds else {}),
                )
                for ending, v in values.items()
            }
        )
