"""The class Model, and the list of all models in this folder."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stodyn import listing, models
from stodyn.arguments import suggestion
from stodyn.problems import describing

__dir__ = listing.names_of(__name__)


@dataclasses.dataclass(frozen=True)
class Model:
    """A system with parameters, and the exact answers that are known about it.

    Calling a model changes parameters: Model(...)(rate=2.0) is the same system at another rate.

    Parameters
    ----------
    build : callable
        The function that makes the problem; each of its parameters has a default.
    answers : mapping
        Quantity -> function. Each function takes its variables, then as keywords the parameters it needs, by the names
        `build` gives them and without defaults, so that the defaults stand in one place:

            mean(t), variance(t)     times of any shape (...) -> (..., n)
            solution(t, W)           W(t) of shape (..., m) -> the state (..., n) of the same path
            stationary_density(x)    numbers of any shape -> the same shape

        and others that the system has. They refer to a fixed start.
    overrides : mapping
        The parameters that differ from the defaults.

    Examples
    --------
    >>> from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
    >>> fast = ORNSTEIN_UHLENBECK(rate=2.0)
    >>> fast.parameters["rate"]
    2.0
    >>> mean = fast.exact["mean"](1.0)
    """

    build: Callable[..., Any]
    answers: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        signature = inspect.signature(self.build).parameters
        for name in self.overrides:
            if name not in signature:
                raise TypeError(
                    f"{self.name} has no parameter {name!r}; it has {', '.join(signature)}{suggestion(name, signature)}"
                )
        for quantity, function in self.answers.items():
            for name in _keywords(function):
                if name not in signature:
                    raise TypeError(f"{quantity} takes {name!r}, which is not a parameter of {self.name}")

    @property
    def name(self) -> str:
        return self.build.__name__

    @property
    def summary(self) -> str:
        """The first line of the docstring of `build`."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """Name -> value: the defaults, replaced by `overrides`."""
        return {name: p.default for name, p in inspect.signature(self.build).parameters.items()} | dict(self.overrides)

    @functools.cached_property
    def problem(self) -> Any:
        """The problem with these parameters."""
        return self.build(**self.parameters)

    @functools.cached_property
    def exact(self) -> dict[str, Callable[..., Any]]:
        """Quantity -> function of its variables alone, with these parameters."""
        return {
            quantity: functools.partial(function, **{name: self.parameters[name] for name in _keywords(function)})
            for quantity, function in self.answers.items()
        }

    def __repr__(self) -> str:
        return describing.as_text(*self._described())

    def _repr_html_(self) -> str:
        return describing.as_html(*self._described())

    def _described(self) -> tuple[str, list[tuple[str, str]]]:
        values = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        lines = [("", self.summary), ("made by", f"{self.name}({values})"), ("known exactly", ", ".join(self.answers))]
        return f"Model {self.name}", [line for line in lines if line[1]]

    def __call__(self, **parameters: Any) -> "Model":
        """The same system with other parameters."""
        return dataclasses.replace(self, overrides=dict(self.overrides) | parameters)


def _keywords(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]


def catalogue() -> dict[str, Model]:
    """Return name -> model, for every Model in this folder."""
    return listing.values(models, Model)


def find(name: str) -> Model:
    """Return the model called `name`, or raise an error that suggests similar names."""
    return listing.find(name, catalogue(), "model")
