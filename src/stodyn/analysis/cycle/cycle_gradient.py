"""The derivatives of an oscillator's cycle, its period and its phase noise with respect to parameters.

A cycle solves M x' = f(x, p). Its derivative by p solves the equations of Newton's last round with ∂f/∂p - ∂M/∂p x' on
the right: one solve for each parameter, with the derivatives of the steps that the cycle has. The cycle is then moved
to both sides along this derivative, where a round or two of Newton make it exact, and c is compared there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.analysis.cycle.periodic import Cycle, moved, slope_of
from stodyn.analysis.cycle.periodic_system import System, system_of
from stodyn.arguments import suggestion
from stodyn.circuits import Circuit
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.tangents import with_tangents

STEP = 1e-4  # of a parameter (of 1 where it is 0): c and its derivative are then right to about 1e-8


class Gradient(NamedTuple):
    """The derivatives of the period, and of the shares (sources) of c, for each of the named parameters."""

    names: tuple[str, ...]
    period: np.ndarray
    c_by_source: np.ndarray


def gradient(cycle: Cycle, shares: Callable[[Cycle], np.ndarray], of: str | Sequence[str]) -> Gradient:
    """The derivatives of the period of a cycle, and of shares(cycle) of c."""
    names = (of,) if isinstance(of, str) else tuple(of)
    periods, by_source = [], []
    for size, at in _sides(cycle.system, names):
        step = STEP * (abs(size) or 1.0)
        above, below = at(step), at(-step)
        slope = slope_of(cycle, above, below, 2.0 * step)
        sides = [shares(moved(cycle, system, slope, side)) for system, side in ((above, step), (below, -step))]
        periods.append(slope.period)
        by_source.append((sides[0] - sides[1]) / (2.0 * step))
    return Gradient(_labels(cycle.system, names), np.array(periods), np.array(by_source))


Sides = Iterator[tuple[float, Callable[[float], System]]]  # of each parameter: its value, and the system a step beside


def _labels(system: System, names: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(system.problem, Circuit):
        return names
    return tuple(one.name for one in with_tangents(system.problem, names).directions)


def _sides(system: System, names: tuple[str, ...]) -> Sides:
    return _of_netlist(system, names) if isinstance(system.problem, Circuit) else _of_params(system, names)


def _of_netlist(system: System, names: tuple[str, ...]) -> Sides:
    """The numbers of a netlist."""
    circuit: Any = system.problem
    numbers = circuit.network.netlist.overrides.met
    for name in names:
        if name.lower() not in numbers:
            raise ValueError(f"of: {name!r} is not a number of the netlist{suggestion(name, list(numbers))}")
        value = float(numbers[name.lower()])

        def at(step, name=name, value=value):
            return system_of(circuit.valued({name: value + step}))

        yield value, at


def _of_params(system: System, names: tuple[str, ...]) -> Sides:
    """The parameters of a problem, whose functions are compiled once for all values."""
    problem: Any = system.problem
    paths = with_tangents(problem, names)
    starts = [one.name for one in paths.directions if one.leaf is None]
    if starts:
        raise ValueError(f"of: {starts[0]}: a cycle does not depend on the start")

    def f(values, t, x):
        return problem.f(t, x, paths.with_values(problem.params, values))

    def g(values, t, x):
        return problem.g(t, x, paths.with_values(problem.params, values))

    functions = {"f": f, "J": jax.jacfwd(f, argnums=2), "g": g}
    programs = {name: AtPoints(function, (None, 0, 0)) for name, function in functions.items()}
    with jax.enable_x64(True):
        own = np.asarray(paths.values(jax.tree.map(jnp.asarray, problem.params)), float)

    def at(k, step):
        values = own + step * np.eye(len(own))[k]
        other = dataclasses.replace(system, problem=paths.moved(k, step))
        vars(other)["_programs"] = {name: functools.partial(program, values) for name, program in programs.items()}
        return other

    for k, value in enumerate(own):
        yield float(value), functools.partial(at, k)
