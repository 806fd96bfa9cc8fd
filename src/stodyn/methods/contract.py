"""The contract of all methods: Method (a step), Solver (a whole grid) and Expansion (no paths), and their claims."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.arguments import suggestion
from stodyn.noise.increment import Increment, Recipe
from stodyn.problems import describing
from stodyn.problems.contract import NoiseStructure, written_as
from stodyn.problems.measured import Measured

__all__ = [
    "EXPLICIT",
    "Catalogued",
    "Claim",
    "Expanded",
    "Expansion",
    "Method",
    "Report",
    "Solver",
    "WithBase",
    "in_words",
]
__dir__ = listing.names_of(__name__)


class Report(NamedTuple):
    """The outcome of a step; an explicit step returns EXPLICIT.

    Parameters
    ----------
    ok : bool
        False where the equations of the step were not solved.
    iterations : int
        The number of Newton rounds (or the like) that the step took.
    rounded : bool
        True where rounding, not `tol`, limited the solution (see newton.Root).
    """

    ok: Any
    iterations: Any
    rounded: Any = False

    def joined(self, other: Report) -> Report:
        """The report of a step that made both of these solves."""
        return Report(self.ok & other.ok, self.iterations + other.iterations, self.rounded | other.rounded)


EXPLICIT = Report(ok=True, iterations=0)


@dataclasses.dataclass(frozen=True)
class Claim:
    """One property of a method and the conditions under which it holds; tests/claims measures each claim.

    Parameters
    ----------
    kind : str
        "strong", "weak" or "deterministic" (orders), or the name of a property ("A-stable", "symplectic", ...).
    order : float, optional
        The order, where `kind` is a kind of order.
    when : tuple of str
        The noise structures the claim holds for, from problems.contract.STRUCTURES; () means every structure it takes.
    source : str
        Where the claim is proved.
    """

    kind: str
    order: Fraction | float | None = None
    when: tuple[str, ...] = ()
    source: str = ""


def in_words(claim: Claim) -> str:
    """Describe the order of a claim and the noise for which it holds.

    Parameters
    ----------
    claim : Claim
        The claim.

    Returns
    -------
    str
    """
    order = "" if claim.order is None else f"order {float(claim.order):g}"
    noise = f"for {', '.join(claim.when)} noise" if claim.when else ""
    return " ".join(word for word in (order, noise) if word) or "yes"


def _asked_of_its_form(refusal: Callable) -> Callable:
    """Return a method's `refusal`, asked of the form in which a run gives it a problem: in its class, and without what
    measurements and walls put around it."""

    @functools.wraps(refusal)
    def refusal_of_form(method: Any, problem: Any) -> str | None:
        form = written_as(problem, method.accepts)
        while form is None and isinstance(problem, Measured):
            problem = problem.problem
            form = written_as(problem, method.accepts)
        if form is None:
            kind = type(problem).__name__
            return f"{method.name} takes {method.accepts.__name__} problems, but the problem is of type {kind}"
        return refusal(method, form)

    return refusal_of_form


class Catalogued(ABC):
    """The entry of a method in the catalogue: its name, its kind of problem, its claims and its source.

    A method is a frozen value. Calling it with options gives a changed copy: Midpoint(tol=1e-8).
    """

    accepts: ClassVar[type]

    @property
    @abstractmethod
    def calculus(self) -> str | None:
        """The calculus of the problems the method solves; None where both are the same to it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The public name, unique in the catalogue."""

    @property
    @abstractmethod
    def claims(self) -> tuple[Claim, ...]:
        """The claims of the method."""

    @property
    @abstractmethod
    def citation(self) -> str:
        """The source of the method: authors, title, journal, year."""

    @property
    def summary(self) -> str:
        """One line on what the method is: its documentation up to the first colon, semicolon or full stop."""
        return re.split(r"[:;.](?:\s|$)", inspect.getdoc(type(self)) or "")[0].replace("\n", " ")

    @property
    def structures(self) -> tuple[str, ...]:
        """The noise structures (problems.contract.STRUCTURES) the method may be used for; () means all."""
        return ()

    def promised(self, kind: str, noise) -> float:
        """The highest order that the method claims for some noise.

        Parameters
        ----------
        kind : "strong", "weak" or "deterministic"
            The kind of order.
        noise : NoiseStructure
            The structure of the noise, as in `problem.noise_structure`.

        Returns
        -------
        float
            The order, or 0 where none is claimed.
        """
        fitting = (c for c in self.claims if c.kind == kind and (not c.when or any(map(noise.implies, c.when))))
        return max((float(claim.order or 0) for claim in fitting), default=0.0)

    def freezes_noise(self, problem) -> bool:
        """Whether a step keeps g at its value where the step begins, although g changes (as EulerMaruyama does)."""
        diagonal = NoiseStructure(("diagonal", "commutative"), "asked")
        resolves = self.promised("strong", diagonal) >= 1 or self.promised("weak", diagonal) >= 2
        return not resolves and not problem.noise_structure.implies("additive")

    @_asked_of_its_form
    def refusal(self, problem) -> str | None:
        """Why the method cannot take this problem, in words for the user; None where it can.

        A problem of another class is asked about in its form of the method's class, and one within walls as without
        them. Classes that have reasons of their own get the problem in that form.
        """
        if self.structures and not any(problem.noise_structure.implies(s) for s in self.structures):
            return (
                f"{self.name} is made for {' or '.join(self.structures)} noise, but this problem's noise is "
                f"{problem.noise_structure}"
            )
        return None

    def step_refusal(self, h: float) -> str | None:
        """Why the method cannot take a step of length h, in words for the user; None where it can."""
        return None

    def prepared(self, problem, h: float):
        """A copy of the method for one problem of its class and steps up to h, with the cheapest noise that suffices.

        The method and the problem may warn where the numbers show that results will be poor.
        """
        problem.check_step(self, h)
        return self

    @property
    def spelling(self) -> str:
        """The method with all its options, as a user would write it; fields without a repr are part of the name."""
        options = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.init and f.repr]  # type: ignore[arg-type]
        return f"{self.name}({', '.join(options)})" if options else self.name

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.__repr__ = Catalogued.__repr__  # type: ignore[method-assign]  # else dataclass shows the class's name
        if "refusal" in vars(cls):
            cls.refusal = _asked_of_its_form(cls.refusal)  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return self.spelling

    def _repr_html_(self) -> str:
        claims = [(claim.kind, in_words(claim)) for claim in self.claims]
        takes = f"{self.accepts.__name__}, {self.calculus or 'either calculus'}"
        lines = [("", self.summary), ("takes", takes), *claims, ("from", self.citation)]
        return describing.as_html(self.spelling, lines)

    def __call__(self, *values, **options):
        """A copy of the method with other options."""
        names = [field.name for field in dataclasses.fields(self) if field.init]  # type: ignore[arg-type]
        if len(values) > len(names):
            raise TypeError(f"{self.name} takes at most {len(names)} options ({', '.join(names)}), got {len(values)}")
        options = dict(zip(names, values, strict=False)) | options
        unknown = [name for name in options if name not in names]
        if unknown:
            raise TypeError(
                f"{self.name} has no option {unknown[0]!r}; it has {', '.join(names) if names else 'no options'}"
                f"{suggestion(unknown[0], names)}"
            )
        return dataclasses.replace(self, **options)  # type: ignore[type-var]


class Method(Catalogued):
    """A method that makes steps, each written for ONE path in plain JAX on small vectors.

    A step neither draws noise nor loops over paths: the engine batches it, and a test may call it with made-up noise.
    Concrete classes are final frozen dataclasses.
    """

    stops: ClassVar[bool] = False  # whether a path stands still once the last entry of its state is not 0

    @property
    @abstractmethod
    def needs(self) -> Recipe:
        """The noise that a step needs."""

    def start(self, problem, t, x, params) -> Any:
        """The method's state at the initial value x (a pytree of arrays); most methods carry x alone."""
        return x

    @abstractmethod
    def step(self, problem, t, state, noise: Increment, params) -> tuple[Any, Report]:
        """Advance one path by one step.

        Parameters
        ----------
        problem
            A problem of the class `accepts`, in the method's calculus.
        t
            The time at which the step begins.
        state
            The method's state at t, as `start` or the last step returned it.
        noise : Increment
            The length noise.h of the step, and the noise that `needs` describes.
        params
            The parameters of this path.

        Returns
        -------
        tuple
            The state at t + noise.h, and the Report of the step.
        """

    @property
    def starting_steps(self) -> int:
        """How many steps `starting_step` makes at the beginning of a path, to build a multistep method's history."""
        return 0

    @property
    def takes_equal_steps(self) -> str:
        """Why all steps of a run must have the same length, in words for the user; empty where they need not."""
        return "takes its history at equal steps" if self.starting_steps else ""

    @property
    def fixed_params(self) -> tuple[str, ...]:
        """The names of params whose values at the time of preparation are part of the step."""
        return ()

    def with_steps(self, dt: float) -> Method:
        """The same method for steps of another length, where its noise has the law of one length."""
        return self

    def at_any_length(self) -> Method:
        """The same method with steps of any length, in which noise that has the law of one length keeps this law: for
        questions about what the steps do to a path."""
        return self

    def starting_step(self, k, problem, t, state, noise: Increment, params) -> tuple[Any, Report]:
        """Step number k (from 0, traced) of the first `starting_steps` steps; it has the same state as `step`."""
        raise NotImplementedError(f"{self.name} has no starting steps")

    def numbered_step(self, k, problem, t, state, noise: Increment, params) -> tuple[Any, Report]:
        """Step number k of a path, a starting step or an ordinary one; for plain loops in JAX."""
        if not self.starting_steps:
            return self.step(problem, t, state, noise, params)

        def as_arrays(after: Any, report: Report) -> tuple[Any, Report]:
            ok, rounded = (jnp.asarray(flag, bool) for flag in (report.ok, report.rounded))
            return after, Report(ok, jnp.asarray(report.iterations, jnp.int32), rounded)

        return jax.lax.cond(
            k < self.starting_steps,
            lambda: as_arrays(*self.starting_step(k, problem, t, state, noise, params)),
            lambda: as_arrays(*self.step(problem, t, state, noise, params)),
        )

    def after_jump(self, problem, t, state, params) -> Any:
        """The method's state after an input among the params has jumped at time t; what else it carries begins anew."""
        return state

    def leading(self, state) -> Any:
        """The first part of the state, which a step makes of itself alone and with the same bits whatever follows."""
        return state

    def read(self, state) -> jax.Array:
        """The vector of the problem's components in the method's state, which is the part that a run shows."""
        return state


class WithBase(Method):
    """A method that steps by means of another one, its `base`: each base makes one, called Name(base).

    Public classes of this kind have a default base, with which they are listed beside the catalogue.
    """

    base: Any


class Solver(Catalogued):
    """A method without steps: host code that takes a block of members over the whole grid at once."""

    follows_paths: ClassVar[bool] = False  # whether it takes the normals of W as steps do, (channels, paths) for each

    def as_steps(self, problem, h: float, inputs: Sequence[str]) -> Method | None:
        """The solver as a method that makes steps of length h, between which the inputs among the params may change;
        None where it makes none for this problem."""
        return None

    @abstractmethod
    def solve(self, problem, grid: np.ndarray, start: np.ndarray, params, streams: Mapping[str, Any]) -> np.ndarray:
        """Solve a block of members over the whole grid.

        Parameters
        ----------
        problem
            A problem of the class `accepts`, in the method's calculus.
        grid : array (times,)
            The times of the states.
        start : array (members, n)
            The states at grid[0].
        params
            The problem's parameters, with a leading axis of members.
        streams : mapping
            A NumPy Generator for each name of a stream; of W, for a method that follows paths, the normals of these.

        Returns
        -------
        array (times, members, n)
            The states.
        """


class Expanded(NamedTuple):
    """The result of an Expansion.

    Parameters
    ----------
    parameters : tuple of str
        The names of the random parameters.
    series : chaos.expansion.Series
        The solution in polynomials of the parameters.
    record : dict
        How the series was made.
    """

    parameters: tuple[str, ...]
    series: Any
    record: dict[str, Any]


class Expansion(Catalogued):
    """A method without paths: host code that gives the solution as a polynomial of the random parameters."""

    draws: ClassVar[bool] = False  # whether the expansion needs a seed

    @abstractmethod
    def expand(self, problem, times: np.ndarray, saved: np.ndarray, seed: int) -> Expanded:
        """Expand the solution in polynomials of the random parameters.

        Parameters
        ----------
        problem : Problem
            A problem of the class `accepts`.
        times : array
            The ends of the steps, from the start on.
        saved : array of int
            The indices of the times at which the expansion is wanted.
        seed : int
            The seed, for expansions that draw.

        Returns
        -------
        Expanded
            The expansion at times[saved].
        """
