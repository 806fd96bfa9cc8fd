"""A prepared run, for callers that run the same problem many times."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.engine.door import front_door
from stodyn.engine.layout import Layout
from stodyn.engine.places.contract import Place
from stodyn.engine.progress import Progress
from stodyn.engine.raw import Raw
from stodyn.engine.run import Run, Tally
from stodyn.engine.simulate import check_options, dataset, described, halved, merged, run_of
from stodyn.engine.spec import as_it_is_now, chosen_method
from stodyn.engine.stability import examined
from stodyn.engine.where import Where, where_of
from stodyn.hints import Count, Integer, Reals
from stodyn.methods.contract import Catalogued, Expansion
from stodyn.methods.stopping import Stop
from stodyn.statistics.contract import Statistic


@front_door
def prepare(
    problem: Any,
    method: Catalogued | str | None = None,
    *,
    t: Reals,
    dt: ArrayLike | Callable[..., Any],
    paths: Count,
    collect: Statistic | Sequence[Statistic] | None = None,
    on_failure: str = "raise",
    dtype: str = "float64",
    device: Any = "cpu",
    executor: str = "auto",
    block: Count | None = None,
    threads: Integer | None = None,
    place: Place | None = None,
    stop: Stop | None = None,
) -> Ready:
    """Check, trace and compile a run once: ready(seed=2) then takes about the time of its steps.

    The problem's functions are traced now and not again, so values that they read from outside stay as they are now.
    Expansions make no paths and cannot be prepared.

    Parameters
    ----------
    problem, method, t, dt, paths, collect, on_failure, dtype, device, executor, block, threads, place, stop
        As in `simulate`.

    Returns
    -------
    Ready
        Called with a seed and, if wanted, other params or another start, it returns the Dataset of `simulate`.

    Raises
    ------
    ValueError
        If the method makes no paths.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x, p: -p["rate"] * x, lambda t, x: 0.5, start=1.0, params={"rate": 1.0})
    >>> ready = sd.prepare(decay, "EulerMaruyama", t=(0, 1), dt=0.1, paths=64)
    >>> runs = [ready(seed=k) for k in range(3)]
    >>> faster = ready(seed=1, params={"rate": 2.0})
    >>> bool(faster["mean"][-1, 0] < runs[1]["mean"][-1, 0])
    True
    """
    problem = as_it_is_now(problem)
    check_options(paths, 0, on_failure)
    chosen = chosen_method(problem, method)
    if isinstance(chosen, Expansion):
        raise ValueError(f"method: {chosen.name} makes no paths, so it cannot be prepared; call simulate")
    where = where_of(threads=threads, place=place, device=device, executor=executor, block=block)
    spec = described(problem, chosen, t, dt, collect, dtype, paths, stop)
    run = run_of(spec, int(paths), 0, where)
    run = examined(run, problem, chosen)
    options = dict(t=t, dt=dt, paths=paths, collect=collect, on_failure=on_failure, dtype=dtype, device=device,
                   executor=executor, block=block, threads=threads, place=place, stop=stop)  # fmt: skip
    return Ready(problem, chosen, run, where, options)


@dataclasses.dataclass(eq=False)
class Ready:
    """The result of `prepare`: call it with a seed."""

    problem: Any
    method: Catalogued
    run: Run
    where: Where
    options: dict[str, Any]
    _raw: Raw | None = None

    @checks_arguments
    def __call__(self, *, seed: Integer, params: Any = None, start: Any = None) -> xr.Dataset:
        """The Dataset that simulate would give.

        With other params or another start the problem is checked, proved and traced again, since the facts known about
        it may depend on the old values; compiled programs are used again as long as the equations are the same.
        """
        began = time.perf_counter()
        return dataset(self._tally(seed, params, start), self.where, {}, began)

    @checks_arguments
    def arrays(self, *, seed: Integer, params: Any = None, start: Any = None) -> dict[str, np.ndarray]:
        """The same numbers as plain arrays by name, without coordinates or record: the cheapest call."""
        tally = self._tally(seed, params, start)
        arrays: dict[str, np.ndarray] = {}
        for _, labelled, _ in tally.labelled():
            arrays |= {name: variable.values for name, variable in labelled.variables.items()}
        failed = tally.log.variables() if tally.on_failure == "record" else {}
        return arrays | {name: values for name, (_, values) in failed.items()}

    def raw(
        self, *, seed: int, params: Any = None, start: np.ndarray | None = None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The components of all paths at the end of the run, and nothing else: for clouds of particles, filters and
        samplers that make a million small calls. It computes in the calling thread.

        Parameters
        ----------
        seed : int
            The seed; a path has the numbers that it has in `simulate`.
        params : optional
            Other values in the shapes of the problem's params, those of all paths (paths, ...) where paths have their
            own. Of an SDE of up to 12 components.
        start : array (n, paths), optional
            The start of each path. Of an SDE of up to 12 components.
        out : array (n, paths) of float64, optional
            Where to write them.

        Returns
        -------
        array (n, paths)
            `out`, where it is given. With on_failure="record", failed paths have components that are not finite.
        """
        if self._raw is None:
            self._raw = Raw(self.run, self.options["on_failure"])
        return self._raw(seed, params, start, out)

    def _tally(self, seed: Integer, params: Any, start: Any) -> Tally:
        check_options(self.run.paths, seed, self.options["on_failure"])
        changes = {name: new for name, new in (("params", params), ("start", start)) if new is not None}
        run = self.run if not changes else self._changed(changes).run
        while True:
            layout = Layout(run.spec, run.paths, int(seed), run.layout.width)
            try:
                with jax.enable_x64(True), Progress(0, False) as bar:
                    return merged(
                        Run(run.spec, layout, run.executor), self.where.place, bar, self.options["on_failure"]
                    )
            except RuntimeError as error:
                run = halved(run, self.where, error)
                if not changes:
                    self.run = run

    def _changed(self, changes: dict[str, Any]) -> Ready:
        for name, new in changes.items():
            old = getattr(self.problem, name, None)
            if old is None:
                raise ValueError(
                    f"{name}: this {type(self.problem).__name__} has none that could change; prepare another problem"
                )
            was, now = (str(jax.tree.structure(tree)) for tree in (old, new))
            if name == "params" and was != now:
                raise ValueError(
                    f"params: expected the structure {was}, got {now}; prepare another problem for other parameters"
                )
        return prepare(self.problem.changed(**changes), self.method, **self.options)
