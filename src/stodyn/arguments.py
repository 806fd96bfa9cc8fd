"""Check the arguments of public calls: unknown ones are refused with the name that is meant, missing ones with a form.

@checks_arguments
def steady(problem, method, dt): ...

steady(problem, "Heun", h=0.1)   steady() got an unexpected keyword argument 'h'. It is called 'dt' now
steady(problem, "Heun", td=0.1)  steady() got an unexpected keyword argument 'td'; did you mean 'dt'?
steady(problem)                  steady() needs method and dt; call it as steady(problem, method, dt)
"""

import contextlib
import dataclasses
import difflib
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

T = TypeVar("T", bound=Callable[..., Any])
Parameters = Mapping[str, inspect.Parameter]

RENAMED = {
    "cov0": "covariance",
    "elapsed": "t",
    "force": "drift",
    "h": "dt",
    "lengths": "dt",
    "mean0": "mean",
    "noise_force": "noise",
    "random": "params",
    "start": "t0",
    "stderr": "error",
    "step": "dt",
}  # keywords that version 0.2 renamed; they are looked up where a call takes the new one and not the old

INSTEAD = {
    ("dt", "error"): "It finds steps that meet `error`; steps=N fixes those of its coarsest level",
    ("params", "problem"): "Parameters stand in the problem: dataclasses.replace(problem, params=...)",
    ("start", "problem"): "The start stands in the problem: dataclasses.replace(problem, start=...)",
    ("angle_random_walk", "arw"): "It is arw, such as arw='0.3 deg/sqrt(h)'",
    ("velocity_random_walk", "vrw"): "It is vrw, such as vrw='0.1 m/s/sqrt(h)'",
    ("bits", "resolution"): "A converter of n bits has range=(low, high) and resolution=(high - low) / 2**n",
    ("rate", "loss"): "The time between readings is `every`, every=0.005 for 200 in a second",
    ("frequency", "loss"): "The time between readings is `every`, every=0.005 for 200 in a second",
    ("at", "cost"): "The plant is linear; of another one write the linear part about `at` as a plant of its own",
    ("noise_density", "arw"): "A data sheet's is arw=stodyn.density(..., sides=1); that of kalibr or PX4 has sides=2",
    ("noise_density", "vrw"): "A data sheet's is vrw=stodyn.density(..., sides=1); that of kalibr or PX4 has sides=2",
    ("noise_density", "accelerometer"): "It belongs to the sensors: gyro(arw=...) and accelerometer(vrw=...)",
    ("noise_density", "log_density"): "The noise of a reading is noise=stodyn.density(..., sides=1 or 2)",
    ("density", "log_density"): "The noise of a reading is noise=stodyn.density(..., sides=1 or 2)",
}  # unknown keywords that calls with another one do without


def checks_arguments(called: T) -> T:
    """Return a function, a method or a class whose calls are refused by `check` where they do not fit its signature.

    A class may say in `call_form` how it is called, where its signature needs less than its equations do.
    """
    own = cast(Any, called).__init__ if isinstance(called, type) else called
    is_call = called.__name__ == "__call__"  # of an object, which is called by a name of the user's
    name = called.__qualname__.partition(".")[0].lower() if is_call else called.__name__

    @functools.wraps(own)
    def checked(*arguments: Any, **options: Any) -> Any:
        try:
            return own(*arguments, **options)
        except TypeError:  # where the call does not fit, the error of `check` says more than that of Python
            parameters = {word: p for word, p in inspect.signature(own).parameters.items() if word != "self"}
            skipped = len(inspect.signature(own).parameters) - len(parameters)
            try:
                check(name, parameters, arguments[skipped:], options, getattr(called, "call_form", ""))
            except TypeError as refusal:
                raise refusal from None
            raise

    if not isinstance(called, type):
        return cast(T, checked)
    cast(Any, called).__init__ = checked
    return called


def check(
    name: str, parameters: Parameters, arguments: Sequence[Any], options: Mapping[str, Any], form: str = ""
) -> None:
    """Raise TypeError where a call has unknown, missing, doubled or too many arguments.

    Parameters
    ----------
    name : str
        The name of the function or class, for the message.
    parameters : mapping
        The parameters of its signature.
    arguments, options
        The arguments by position and by name.
    form : str, optional
        How it is called; by default, the name with the required arguments.
    """
    kinds = {parameter.kind for parameter in parameters.values()}
    known = tuple(word for word, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    by_place = tuple(word for word in known if parameters[word].kind is not inspect.Parameter.KEYWORD_ONLY)
    needed = [word for word in known if parameters[word].default is inspect.Parameter.empty]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for word in options:
            if word not in known:
                raise TypeError(f"{name}() got an unexpected keyword argument {word!r}{_meant(word, known)}")
    positional = by_place[: len(arguments)]
    if len(arguments) > len(by_place) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        order = f": {', '.join(by_place)}" if by_place else ""
        rest = [word for word in known if word not in by_place]
        hint = f". Give {', '.join(rest)} by name" if rest else ""
        raise TypeError(f"{name}() takes {len(by_place)} arguments by position{order}; got {len(arguments)}{hint}")
    for word in positional:
        if word in options:
            raise TypeError(f"{name}() got {word} twice, by position and by name; its order is {', '.join(by_place)}")
    missing = [word for word in needed if word not in options and word not in positional]
    if missing:
        usual = f"{name}({', '.join(word if word in by_place else f'{word}=...' for word in needed)})"
        raise TypeError(f"{name}() needs {' and '.join(missing)}; call it as {form or usual}")


def stacklevel_of_user() -> int:
    """Return the `stacklevel` with which a warning that the caller issues points to the user's line."""
    inside = str(Path(__file__).parent)
    frame, level = inspect.currentframe(), 0
    while frame is not None and (
        frame.f_code.co_filename.startswith(inside)
        or frame.f_code.co_filename in ("<string>", contextlib.__file__, dataclasses.__file__, functools.__file__)
    ):
        frame, level = frame.f_back, level + 1
    return level


def check_positive(what: str = "a number", **values: float | None) -> None:
    """Refuse arguments that are not finite numbers above 0; errors name the argument, and `what` it is."""
    for name, value in values.items():
        if value is None or np.ndim(value) or callable(value) or not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}: expected {what} > 0, got {value!r}")


def expect_dataset(value: Any, name: str, maker: str = "stodyn.simulate") -> None:
    """Refuse an argument that is not an xarray.Dataset, such as one variable of it, or arguments in another order."""
    if not hasattr(value, "data_vars"):
        hint = "; give the whole Dataset, not one of its variables" if hasattr(value, "dims") else ""
        raise TypeError(f"{name}: expected a Dataset such as that of {maker}(...), got {type(value).__name__}{hint}")


def suggestion(word: Any, known: Iterable[Any]) -> str:
    """Return the last sentence of an error about an unknown name, which suggests a similar one; "" if there is none."""
    near = difflib.get_close_matches(str(word), map(str, known), 1)
    return f". Did you mean {near[0]!r}?" if near else ""


def _meant(word: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown keyword: its new name, a similar keyword, or all keywords."""
    if RENAMED.get(word) in known:
        return f". It is called {RENAMED[word]!r} now"
    without = [why for (unknown, other), why in INSTEAD.items() if unknown == word and other in known]
    if without:
        return f". {without[0]}"
    near = difflib.get_close_matches(word, known, 1, 0.5 if len(word) < 4 else 0.6)  # td for dt, not paths for points
    return f"; did you mean {near[0]!r}?" if near else f". It takes {', '.join(known) if known else 'none'}"
