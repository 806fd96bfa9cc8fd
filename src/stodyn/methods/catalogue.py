"""The methods of the library, collected from the modules of the families: there is no central list."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stodyn import listing, methods
from stodyn.arguments import checks_arguments
from stodyn.methods.contract import Catalogued, Method, WithBase
from stodyn.problems.contract import Problem


@functools.cache
def catalogue() -> dict[str, Catalogued]:
    """All methods by name, in alphabetical order."""
    return listing.values(methods, Catalogued)  # type: ignore[type-abstract]


@functools.cache
def with_base() -> dict[str, type[WithBase]]:
    """The classes of methods that step by means of another one, by name; each has a default base."""
    return listing.classes(methods, WithBase)


@checks_arguments
def find(name: str) -> Catalogued:
    """Return the method with a name.

    Parameters
    ----------
    name : str
        A name that `stodyn methods` lists; capitals and hyphens make no difference. Methods that step by means of
        another one are named with it: "ExactNoise(Heun)".

    Returns
    -------
    Catalogued
        The method with its default options; call it to change them.

    Raises
    ------
    ValueError
        If there is no such method; the message lists similar names.
    TypeError
        If the name holds options, or a base that the method does not take.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.method("ThetaEuler")(theta=0.5)
    ThetaEuler(theta=0.5, tol=1e-10, limit=20)
    >>> sd.method("ExactNoise(Heun)")
    ExactNoise(Heun)
    """
    outer, bracket, inside = name.partition("(")
    known: dict[str, Any] = {**catalogue(), **with_base()}
    method = listing.find(outer.strip(), known, "method")
    if isinstance(method, type):
        method = method()
    if not bracket:
        return method
    if not isinstance(method, WithBase) or not inside.rstrip().endswith(")"):
        raise TypeError(
            f"method: {name!r} is not a name. Options are passed to the method of that name: "
            f'sd.method("{method.name}")(option=value); in a run file by method.options'
        )
    return method(base=find(inside.rstrip()[:-1].strip()))


def named(method: Any) -> Any:
    """The method with this name; anything but a string is returned unchanged."""
    return find(method) if isinstance(method, str) else method


def stepping(method: Any, argument: str = "method") -> Method:
    """The method itself, or the one with this name; it must make steps. Errors call it `argument`."""
    method = named(method)
    if isinstance(method, Problem):
        kind = type(method).__name__
        raise TypeError(f"{argument}: got a problem ({kind}). The problem comes first, then the method")
    if not isinstance(method, Method):
        description = (
            f"{method.name}, which takes the whole grid at once" if isinstance(method, Catalogued) else repr(method)
        )
        raise TypeError(
            f'{argument}: expected a method that makes steps, or its name, such as "Heun", got {description}'
        )
    return method


def fitting(problem, kind: type | None = None, wanted: Callable[[Catalogued], bool] = lambda method: True) -> list[str]:
    """The names of the methods that take a problem, as it is or after an exact conversion.

    With `kind`, a class of problems, only methods that accept this class are named. Only methods that are `wanted` are
    asked whether they take the problem: some must compute for that.
    """
    names, lowered = [], {type(problem): problem}
    for name, method in catalogue().items():
        accepts = method.accepts
        if kind not in (None, accepts) or not wanted(method):
            continue
        if accepts not in lowered:
            lowered[accepts] = problem if isinstance(problem, accepts) else (problem.lower(accepts) or (None,))[0]
        if lowered[accepts] is not None and method.refusal(lowered[accepts]) is None:
            names.append(name)
    return names
