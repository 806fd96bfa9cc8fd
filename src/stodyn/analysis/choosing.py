"""Methods for a problem, ranked for a purpose.

strong  paths close to the true ones: the highest strong order, then the fewest operations
weak    means, variances, probabilities: the highest weak order, then the fewest operations
long    long times and stationary statistics: methods that keep the structure or are stable, then the highest weak order
fast    the fewest operations per step of those that converge
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.engine.spec import matched
from stodyn.hints import is_integer
from stodyn.methods.catalogue import catalogue, find, fitting
from stodyn.methods.contract import Catalogued, Method
from stodyn.methods.recommend import recommended
from stodyn.numerics.printing.fingerprints import holds
from stodyn.numerics.printing.flat import scalar_operations
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems import describing
from stodyn.problems.contract import NoiseStructure, expect_problem
from stodyn.problems.time_scale import has_slopes, time_scale

__dir__ = listing.names_of(__name__)

WANTS = {"strong": "close paths", "weak": "statistics", "long": "long times", "fast": "cheap steps"}
EXACT = "exact in law"
PRESERVED = (EXACT, "invariant measure", "symplectic", "constraints", "A-stable")  # over long times, the best first
LOOKED_AT = 12  # methods of the best orders whose operations are counted
SHORT = 0.01  # of the time scale of the equations: a step for which methods are made ready
SMALL = 12  # components up to which they are: steps of larger problems take long to trace


@dataclasses.dataclass(frozen=True)
class Choice:
    """A method, and the reason to take it."""

    method: Catalogued
    reason: str


class Choices(tuple[Choice, ...]):
    """Methods with reasons, the best first: `choices[0].method` is one to give to `simulate`."""

    def __repr__(self) -> str:
        width = max((len(choice.method.name) for choice in self), default=0)
        return "\n".join(f"{choice.method.name:{width}}  {choice.reason}" for choice in self)

    def _repr_html_(self) -> str:
        return describing.as_html("Methods, the best first", [(choice.method.name, choice.reason) for choice in self])


@checks_arguments
def recommend(problem: Any, want: str | None = None, most: int = 5) -> Choices:
    """List methods for a problem, the best first, each with the reason to take it.

    Parameters
    ----------
    problem : Problem
        The problem. Its noise is examined, and methods made for such problems are listed; those for the kinds to which
        it can be converted may still be named (an SDE's for a Hamiltonian). Where a slope is infinite at the start, as
        that of a root at 0, methods whose first step takes it are left out.
    want : {"strong", "weak", "long", "fast"}, optional
        "strong": paths close to the true ones. "weak": means, variances, probabilities. "long": long times and
        stationary statistics. "fast": the cheapest step that converges. Left out: the default method of `simulate`,
        then the best one for each of these.
    most : int
        The largest number of methods to list.

    Returns
    -------
    Choices
        A tuple of choices, each with a `method` and a `reason`; it prints as a table.

    Raises
    ------
    ValueError
        If `want` is unknown, or `most` is not a positive whole number.

    Examples
    --------
    >>> import stodyn as sd
    >>> spring = sd.SDE(lambda t, x: -x, lambda t, x: 0.5, 1.0)
    >>> sd.recommend(spring, "strong")[0].method
    SRA1
    """
    expect_problem(problem)
    if not is_integer(most):
        raise ValueError(f"most: expected how many methods to list, a positive whole number, got {most!r}")
    if want not in (None, *WANTS):
        raise ValueError(f"want: expected one of {', '.join(map(repr, WANTS))}, or nothing, got {want!r}")
    candidates = [candidate for candidate in _candidates(problem) if candidate.converges]
    if not has_slopes(problem):
        candidates = [candidate for candidate in candidates if candidate.leaves_the_start]
    if want is not None:
        return Choices(Choice(c.method, c.reason) for c in _ranked(candidates, want)[:most])
    best: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for each, words in WANTS.items():
        for c in _ranked(candidates, each)[:1]:
            best.setdefault(c.method.name, []).append(words)
            reasons[c.method.name] = c.reason
    own = Choice(recommended(problem), f"default: {problem.recommended.reason}")
    purposes = {name: ", ".join(words) if len(words) < len(WANTS) else "any purpose" for name, words in best.items()}
    others = [Choice(find(name), f"for {purposes[name]}: {reasons[name]}") for name in best]
    return Choices([own, *others][:most])


def _ranked(candidates: list[_Candidate], want: str) -> list[_Candidate]:
    """The best first; operations are counted only of those that may be among them."""
    first = sorted(candidates, key=lambda c: (c.worth(want), c.method.name))
    counted = [c.counted() for c in (first if want == "fast" else first[:LOOKED_AT])]
    return sorted(counted, key=lambda c: (c.worth(want), c.iterates, c.operations or np.inf, c.method.name))


@dataclasses.dataclass(frozen=True)
class _Candidate:
    """A method, the problem in the form that it takes, the conversions to that form, and a short step."""

    method: Catalogued
    noise: NoiseStructure
    problem: Any
    conversions: tuple[str, ...]
    stable: bool
    short: float
    operations: int | None = None
    iterates: bool = False

    def counted(self) -> _Candidate:
        """This candidate with the operations of its step, where it has steps that are quickly traced."""
        method, problem = self.ready, self.problem
        if not isinstance(method, Method) or problem.n > SMALL:
            return self
        counts = method.needs.normals(problem.m)
        normals = {name: jax.ShapeDtypeStruct((count,), np.dtype(float)) for name, count in counts.items()}

        def step(t, h, normals, x, params):
            noise = method.needs.increment(h, normals, problem.m)
            return method.step(problem, t, method.start(problem, t, x, params), noise, params)

        with jax.enable_x64(True):
            trace = jax.make_jaxpr(step)(0.0, 0.01, normals, problem.example_start(), problem.example_params())
        if holds(trace, "while"):
            return dataclasses.replace(self, iterates=True)
        return dataclasses.replace(self, operations=scalar_operations(trace))

    @property
    def leaves_the_start(self) -> bool:
        """Whether a short step from the start is finite: one that takes an infinite slope there is not."""
        method, problem = self.ready, self.problem
        if not isinstance(method, Method):
            return True
        normals = {name: np.ones((1, count)) for name, count in method.needs.normals(problem.m).items()}

        def after(normals, x, params):
            noise = method.needs.increment(self.short, normals, problem.m)
            return method.step(problem, 0.0, method.start(problem, 0.0, x, params), noise, params)[0]

        step = AtPoints(after, (0, None, None), few=1)
        with np.errstate(all="ignore"):
            state = step(normals, np.asarray(problem.example_start(), float), problem.example_params())
        return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))

    @functools.cached_property
    def ready(self) -> Catalogued:
        """The method as a run with short steps makes it ready, with the cheapest noise that suffices."""
        if not isinstance(self.method, Method):
            return self.method
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is the user's own step that deserves warnings
            return self.method.prepared(self.problem, self.short)

    @property
    def normals(self) -> int:
        """The normals that a step takes."""
        assert isinstance(self.ready, Method)
        return sum(self.ready.needs.normals(self.problem.m).values())

    @property
    def orders(self) -> dict[str, float]:
        return {kind: self.method.promised(kind, self.noise) for kind in ("strong", "weak")}

    @property
    def preserved(self) -> list[str]:
        """The properties that it preserves over long times, from PRESERVED."""
        held = {c.kind for c in self.method.claims if not c.when or any(map(self.noise.implies, c.when))}
        return [kind for kind in PRESERVED if kind in held]

    @property
    def converges(self) -> bool:
        return any(self.orders.values()) or EXACT in self.preserved or not isinstance(self.method, Method)

    def worth(self, want: str) -> tuple[float, ...]:
        """A key to sort by, the best first, operations aside."""
        inexact, strong, weak = EXACT not in self.preserved, self.orders["strong"], self.orders["weak"]
        match want:
            case "strong":
                return -strong, -weak
            case "weak":
                return inexact, -weak, -strong
            case "long":
                best = (*self.preserved, *(["A-stable"] if self.stable else []))[:1]
                return PRESERVED.index(best[0]) if best else len(PRESERVED), -weak, -strong
        if not isinstance(self.method, Method):
            return inexact, np.inf
        return inexact, self.normals

    @property
    def reason(self) -> str:
        orders = [f"{kind} order {order:g}" for kind, order in self.orders.items() if order]
        words = [f"{' and '.join(orders)} for {self.noise.kind} noise"] if orders else []
        words += [", ".join(self.preserved)] if self.preserved else []
        if isinstance(self.method, Method):
            normals = self.normals
            count = "" if self.operations is None else f" and {self.operations} operations"
            words.append(f"{normals} normal{'s' * (normals != 1)}{count} per step")
        words += ["its equations are solved by Newton's method"] if self.iterates else []
        words += [f"after {' and '.join(self.conversions)}"] if self.conversions else []
        return "; ".join(words or [self.method.summary])


def _candidates(problem: Any) -> Iterator[_Candidate]:
    """Methods for problems of this kind; where there are none, those that take it after an exact conversion."""
    forms: dict[tuple, tuple[Any, list[str]]] = {}  # the problem as methods of one kind and calculus take it
    short = SHORT * min(time_scale(problem), 1e300)
    own = [kind for kind in {m.accepts for m in catalogue().values()} if isinstance(problem, kind)]
    for name in fitting(problem, own[0] if own else None):
        method = catalogue()[name]
        form = method.accepts, method.calculus
        if form not in forms:
            forms[form] = matched(problem, method)
        converted, conversions = forms[form]
        stable = name in problem.stable_methods
        yield _Candidate(method, problem.noise_structure, converted, tuple(conversions), stable, short)
