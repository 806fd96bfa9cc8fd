"""A run as variances are judged: in double precision, with the parameters of some paths, its noise as at some time."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.run import Run
from stodyn.engine.spec import describe
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import sample_params
from stodyn.telling import unheard

PATHS, MEMBERS = 60, 5  # of a run whose parameters differ between paths, and those of them whose variances are averaged
MOMENTS, LOOKED = (64, 4096), 1_000_000  # at which noise that changes in time is looked at; numbers, where it is large
SLIGHT, SAME_SHAPE = 0.01, 1e-6  # of the strongest noise, that does not matter; entries of products, shapes being 1


def in_double(spec: Any, system: Any, method: Any) -> Run:
    """A run of the system with the same steps, traced again."""
    with unheard():
        spec = describe(system, method, (spec.times[0], spec.times[-1]), spec.lengths, None, "float64")
    executor = executors.get(spec)
    return Run(spec, Layout(spec, 1, 0, executor.width), executor)


def with_steps(run: Run, h: float) -> Run:
    """The run, or where the noise of its method has the law of one length of step, one with steps of that length."""
    method: Any = run.spec.method
    other = method.with_steps(h)
    if other is method:
        return run
    spec = dataclasses.replace(run.spec, method=other).traced_anew()
    executor = executors.get(spec)
    return Run(spec, Layout(spec, 1, 0, executor.width), executor)


def with_params(run: Run, system: Any) -> Run:
    """The run with other parameters, without tracing it again."""
    spec = dataclasses.replace(run.spec, problem=run.spec.problem.changed(params=system.params))
    return Run(spec, Layout(spec, 1, 0, run.executor.width), executors.get(spec))


def spread_params(system: Any) -> list[Any]:
    """The parameters of some paths whose highest frequencies are spread as those of all; none where all are alike."""
    if not system.has_random_params:
        return []
    params, axes = sample_params(system, PATHS)
    start = np.asarray(system.example_start(), float)
    slopes = AtPoints(jax.jacfwd(lambda s, p: system.f(0.0, s, p)), (None, axes), few=1)
    fastest = np.abs(np.linalg.eigvals(slopes(start, params))).max(axis=1)
    chosen = np.argsort(fastest)[PATHS // (2 * MEMBERS) :: PATHS // MEMBERS]
    return [jax.tree.map(lambda axis, leaf, k=k: leaf if axis is None else leaf[k], axes, params,
                         is_leaf=lambda axis: axis is None) for k in chosen]  # fmt: skip


def held_in_words(t: float | None, has_spread_params: bool, where: str = "") -> str:
    """What is not as in the run itself: parameters of some paths stand for all, and the noise stays as it is at t."""
    spread = f", in the mean over {MEMBERS} paths from low frequencies to high ones" if has_spread_params else ""
    return spread + ("" if t is None else f", by the noise as it is at t = {t:g}{where}")


def moments(system: Any, times: np.ndarray, steady: float) -> list[float]:
    """When the noise is strongest, and when its shape differs most from that, among the times at which its variance
    changes in a step by no more than a share of it; none where it is not seen at such a time."""
    count = int(np.clip(LOOKED // system.n**2, *MOMENTS))
    steps = np.linspace(0, len(times) - 2, min(len(times) - 1, count)).astype(int)
    start, params = np.asarray(system.example_start(), float), system.example_params()
    noise = AtPoints(lambda t: system.g(t, start, params), few=1)(np.concatenate([times[steps], times[steps + 1]]))
    products = noise @ noise.swapaxes(1, 2)
    now, next_ = products[: len(steps)], products[len(steps) :]
    sizes = np.trace(now, axis1=1, axis2=2)
    is_steady = np.abs(next_ - now).max(axis=(1, 2)) <= steady * sizes
    sizes = np.where(is_steady, sizes, 0.0)
    strongest = int(np.argmax(sizes))
    if not sizes[strongest] > 0.0:
        return []
    shapes = now / np.where(sizes > SLIGHT * sizes[strongest], sizes, np.inf)[:, None, None]
    apart = np.where(shapes.any(axis=(1, 2)), np.abs(shapes - shapes[strongest]).max(axis=(1, 2)), 0.0)
    other = int(np.argmax(apart))
    return [float(times[steps[k]]) for k in ([strongest, other] if apart[other] > SAME_SHAPE else [strongest])]
