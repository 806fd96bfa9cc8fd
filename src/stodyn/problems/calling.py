"""How a user's function is called: with params after its other arguments where its signature has a place for them.

lambda t, x: ...            without params, whether the problem has any or not
lambda t, x, p: ...         with params; with an empty dict where the problem has none
lambda t, x, p=None: ...    with params where the problem has some
lambda t, x, *rest: ...     likewise, as for functions without a readable signature
lambda t, x, *, k=2: ...    without params: keywords are the function's own
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

PARAMS_NAMES = ("params", "parameters", "par", "args", "p")  # names that users give to the argument


class _Places(NamedTuple):
    """The arguments that a function takes by position, and the keywords that it cannot be called without."""

    required: int
    most: float
    parameters: tuple[inspect.Parameter, ...]
    keywords: tuple[str, ...]


def call(function: Callable, *arguments: Any, params: Any) -> Any:
    """function(*arguments), or function(*arguments, params) where its signature has a place for them."""
    if not takes_params(function, len(arguments), params):
        return function(*arguments)
    return function(*arguments, {} if params is None else params)


def takes_params(function: Callable, count: int, params: Any) -> bool:
    """Whether a function is passed params after `count` other arguments."""
    counts = _counts(function)
    if counts is None:
        return _is_given(params)
    required, most = counts
    return required > count or (most > count and _is_given(params))


def check_call(name: str, function: Callable, words: Sequence[str], params: Any) -> None:
    """Refuse a function that cannot be called with arguments of these names, such as ("t", "x"), and params behind
    them; errors begin with `name`."""
    places = _places(function)
    if places is None:
        return
    count = len(words)
    if places.most < count or places.required > count + 1 or places.keywords:
        raise TypeError(
            f"{name}: must take {name}({', '.join(words)}) or {name}({', '.join((*words, 'params'))}), "
            f"got {_shown(function)}. {_way_out(places, count)}"
        )
    if _is_given(params) and places.required <= count < len(places.parameters):
        optional = places.parameters[count]
        if optional.default is not None and optional.name not in PARAMS_NAMES:
            raise TypeError(
                f"{name}: the problem has params, but {_shown(function)} has {optional.name}={optional.default!r} "
                f"where params would stand. Write `*, {optional.name}=...` to keep its value, or name it params to be "
                "given them."
            )


def _way_out(places: _Places, count: int) -> str:
    if places.keywords:
        return f"Give {places.keywords[0]} a value: functools.partial(function, {places.keywords[0]}=...)."
    if places.most < count:
        return f"Its {count} arguments are given by position; give it an argument for each, used or not."
    return "Capture further values in the function, or put them into params."


def _counts(function: Callable) -> tuple[int, float] | None:
    """How many arguments a function needs and how many it takes by position; None where it has no readable signature.

    Plain functions, which runs of expansions call once for each time and node, are asked without inspect.signature,
    which takes 30 µs.
    """
    if type(function) is FunctionType and not {"__wrapped__", "__signature__"} & vars(function).keys():
        code = function.__code__
        most = math.inf if code.co_flags & inspect.CO_VARARGS else code.co_argcount
        return code.co_argcount - len(function.__defaults__ or ()), most
    places = _places(function)
    return None if places is None else (places.required, places.most)


def _places(function: Callable) -> _Places | None:
    """The arguments of a function, or None where it has no readable signature, like some built-in functions."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    own = tuple(p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    endless = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty)
    return _Places(sum(p.default is p.empty for p in own), math.inf if endless else len(own), own, keywords)


def needed_names(function: Callable) -> tuple[str, ...]:
    """The names of the arguments that a function cannot be called without, by position."""
    places = _places(function) if callable(function) else None
    return () if places is None else tuple(each.name for each in places.parameters[: places.required])


def _is_given(params: Any) -> bool:
    return params is not None and not (isinstance(params, Mapping) and not params)


def _shown(function: Callable) -> str:
    return f"{_called(function)}{inspect.signature(function)}"


def _called(function: Callable) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else name
