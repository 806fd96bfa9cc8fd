"""The functions of a Hamiltonian system, channel by channel: channel 0 is time, r = 1, ..., m the noise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from stodyn.problems.contract import returned_shape


class Channels(NamedTuple):
    """The functions of all channels; None where a channel has no Hamiltonian or no force.

    hamiltonians  H, then h_r
    forces        F, then f_r
    all_h         h where it is one function that returns those of all channels, (m,)
    """

    hamiltonians: tuple[Callable | None, ...]
    forces: tuple[Callable | None, ...]
    all_h: Callable | None


def channels_of(problem: Any) -> Channels:
    """Return the channels of a Hamiltonian; refuse arguments that do not define any."""
    count = _all_channels(problem)
    h = tuple(_entry(problem.h, r) for r in range(count)) if count else _channels("h", problem.h)
    forces = _channels("noise", problem.noise)
    if h and forces and len(h) != len(forces):
        raise ValueError(
            f"noise: {len(forces)} functions were given, but h has {len(h)}: both need one per noise channel. "
            "Write None for a channel that has no force, or no Hamiltonian."
        )
    m = len(h) or len(forces)
    return Channels(
        (problem.H, *(h or (None,) * m)), (problem.force, *(forces or (None,) * m)), problem.h if count else None
    )


def check_channels(problem: Any, channels: Channels) -> None:
    """Refuse Hamiltonians that do not return a number, and forces that do not have the shape of q."""
    shape, arguments = problem.example_pair[0].shape, _arguments(problem)
    h = () if callable(problem.h) else channels.hamiltonians[1:]
    noise = {f"noise[{r}]": f for r, f in enumerate(channels.forces[1:])}
    forces = {"force": problem.force, **({"noise": problem.noise} if callable(problem.noise) else noise)}
    with jax.enable_x64(True):
        for name, function in {"H": problem.H, **{f"h[{r}]": f for r, f in enumerate(h)}}.items():
            returned = () if function is None else returned_shape(problem, name, function, *arguments).shape
            if returned != ():
                raise ValueError(
                    f"{name}: returned shape {returned}, expected one number: a Hamiltonian is scalar. "
                    "Sum over the components, e.g. 0.5 * jnp.sum(p**2)."
                )
        for name, function in forces.items():
            returned = shape if function is None else returned_shape(problem, name, function, *arguments).shape
            if returned != shape:
                raise ValueError(f"{name}: returned shape {returned}, expected {shape}, the shape of q")


def _arguments(problem: Any) -> tuple[tuple[str, Any], ...]:
    """Return examples of t, q and p, with which the functions of a problem are traced."""
    q, p = problem.example_pair
    return ("t", 0.0), ("q", q), ("p", p)


def _all_channels(problem: Any) -> int:
    """Return how many channels one function h returns; 0 where it returns a number, or there is one function each."""
    if not callable(problem.h):
        return 0
    with jax.enable_x64(True):
        shape = returned_shape(problem, "h", problem.h, *_arguments(problem)).shape
    if len(shape) > 1 or shape == (0,):
        raise ValueError(f"h: returned shape {shape}, expected one number, or a vector of one number per channel")
    return shape[0] if shape else 0


def _entry(function: Callable, r: int) -> Callable:
    """Return the function of one channel of a function that returns those of all."""
    return functools.wraps(function)(lambda *arguments: function(*arguments)[r])


def _channels(name: str, value: Any) -> tuple[Callable | None, ...]:
    """Return an argument, one function or a sequence of them, as a tuple of one per channel."""
    if not (value is None or callable(value) or isinstance(value, Sequence)):
        raise TypeError(
            f"{name}: expected a function of (t, q, p[, params]) or a tuple of one per channel, got {value!r}"
        )
    functions = () if value is None else (value,) if callable(value) else tuple(value)
    for r, function in enumerate(functions):
        if function is not None and not callable(function):
            raise TypeError(f"{name}[{r}]: expected a function of (t, q, p[, params]) or None, got {function!r}")
    return functions
