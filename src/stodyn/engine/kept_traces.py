"""Traces of steps, facts about problems and solutions, kept under a digest of everything they are made of.

A step is a function of its method and of the problem. Both enter the digest by value, and the functions of the problem
by traces made in this call. Where something has no digest (a method that is not ours, a function that was not
traced, one with derivatives of its own or a call to the host), the step is traced again and the facts are worked out
again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import jax
import numpy as np
import scipy

from stodyn.engine import kept_faults
from stodyn.engine.traces import Traced
from stodyn.methods.looping import Clock
from stodyn.noise.source import Source
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.printing.fingerprints import fingerprint, says_all
from stodyn.problems.contract import Problem, TracedFunction, example_arguments
from stodyn.problems.level import Gauge
from stodyn.problems.looped import Looped
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Timed

MOST_TRACES = 256
OURS = "stodyn."
Of = TypeVar("Of")
CONFIGURED = ("jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion")

_traces: Bounded[str, Any] = Bounded(MOST_TRACES)
_facts: Bounded[str, dict[tuple[str, str], Any]] = Bounded(MOST_TRACES)
_changing = threading.Lock()


class NoDigest(Exception):
    """Raised where a value has no digest, because its behaviour cannot be read off it."""


def of_step(
    problem: Problem, functions: Mapping[str, TracedFunction], method: Any, make: Callable[[], Traced],
    is_converted: bool = False,
) -> Traced:  # fmt: skip
    """The traces of a method's step on a problem; `functions`: those of its functions as they are now.

    Where the problem lists what a step takes from its values, and is not converted before it is stepped, that list
    stands for the values in the digest; unless, once the step is traced, it took more and there is no list any longer.
    """

    is_made = []

    def noted() -> Traced:
        is_made.append(True)
        return make()

    def by_values() -> Traced:
        return _reused(lambda: (_problem(problem, functions), _value(method)), noted)

    facts = None if is_converted else problem.step_facts
    if facts is None:
        return by_values()
    words = functools.partial(_problem, problem, functions, facts=facts)
    return _reused(
        lambda: (words(), _value(method)), by_values, lambda: bool(is_made) and problem.step_facts is not None
    )


def of_values(values: Sequence[Any], make: Callable[[], Of]) -> Of:
    """Traces that depend on these values alone, such as those of the numbers that statistics observe."""
    return _reused(lambda: _value(values), make)


def of_problem(problem: Problem, functions: Mapping[str, TracedFunction], question: Any, make: Callable[[], Of]) -> Of:
    """What follows from a problem, whose functions are traced as they are now, for a question in plain values."""
    return _reused(lambda: (_problem(problem, functions), _value(question)), make)


def _reused(words: Callable[[], Any], make: Callable[[], Of], may_be: Callable[[], bool] = lambda: True) -> Of:
    """The traces of make(), stored under a digest of the value of words(), where they may be once they are made."""
    try:
        key = _digest(words())
    except NoDigest:
        return make()
    traces = _traces.get(key)
    if traces is None:
        traces = make()
        if may_be():
            with _changing:
                _traces[key] = traces
    return traces


def recall_facts(problem: Problem, functions: Mapping[str, TracedFunction]) -> str | None:
    """Give a problem the facts known about one with the same functions and values (the structure of its noise, the
    index of its equations); returns the digest under which facts are kept, None where there is none."""
    if any(source.is_random or source.is_listed for source in (*problem.start_parts, *problem.param_sources)):
        return None  # one example does not determine the others
    try:
        values = [_array(np.asarray(x)) for x in (problem.example_start(), *jax.tree.leaves(problem.params))]
        key = _digest((_problem(problem, functions), values))
    except NoDigest:
        return None
    for (record, name), value in _facts.get(key, {}).items():
        vars(_record(problem, record)).setdefault(name, value)
    return key


def note_facts(problem: Problem, key: str | None) -> None:
    """Keep the facts a problem has worked out by now: the values of its cached properties, where these are plain
    (numbers, words, arrays and records of them)."""
    if key is None:
        return
    known = _facts.get(key, {})
    facts = {
        (record, name): value
        for record in ("", *problem.records)
        for name, value in vars(_record(problem, record)).items()
        if (record, name) in known or _is_fact(_record(problem, record), name, value)
    }
    if len(facts) > len(known):
        with _changing:
            _facts[key] = facts


def _record(problem: Problem, record: str) -> Any:
    """The object that holds facts: the problem itself, or its record of this name."""
    return getattr(problem, record) if record else problem


def _is_fact(holder: Any, name: str, value: Any) -> bool:
    if not isinstance(getattr(type(holder), name, None), functools.cached_property):
        return False
    try:
        _value(value)
    except NoDigest:
        return False
    return True


def _digest(words: Any) -> str:
    configured = [getattr(jax.config, name) for name in CONFIGURED]
    return hashlib.sha256(repr((words, configured)).encode()).hexdigest()


def forget() -> None:
    """Drop all traces, facts and faults."""
    kept_faults.forget()
    with _changing:
        _traces.clear()
        _facts.clear()


def _problem(
    problem: Problem, functions: Mapping[str, TracedFunction], path: str = "", facts: Any = None
) -> list[Any]:  # fmt: skip
    """All arguments of a problem; starts and parameters of small SDEs by shape, since their steps know no values, and
    those of problems whose steps take no more than `facts` from them."""
    if not _is_ours(problem):
        raise NoDigest(type(problem))
    if problem.has_random_params and not isinstance(problem, Looped):
        raise NoDigest("parameters that are drawn")
    params = problem.example_params() if isinstance(problem, Looped) else problem.params
    values = [np.asarray(x) for x in (problem.example_start(), *jax.tree.leaves(params))]
    if (type(problem) is SDE and problem.n <= WRITTEN_OUT) or facts is not None:
        parts: list[Any] = [*((x.shape, x.dtype.str) for x in values), _value(facts)]
    else:
        parts = [*map(_array, values)]
    parts += [type(problem).__module__, type(problem).__qualname__, problem.n, problem.m]
    parts.append(jax.tree.structure(problem.params))
    for field in dataclasses.fields(problem):  # type: ignore[arg-type]
        value = getattr(problem, field.name)
        if not field.init or field.name in ("start", "params") or not field.metadata.get("in_steps", True):
            continue
        parts.append(field.name)
        if isinstance(value, Problem):
            parts.append(_problem(value, functions, f"{path}{field.name}."))
        elif callable(value):
            twins = (f.name for f in dataclasses.fields(problem) if getattr(problem, f.name) is value)  # type: ignore[arg-type]
            parts.append(
                _function(functions, path + next((name for name in twins if path + name in functions), field.name))
            )
        elif isinstance(value, tuple | list):
            parts += [_member(functions, path, f"{field.name}[{k}]", member) for k, member in enumerate(value)]
        else:
            parts.append(_value(value))
    return parts


def _member(functions: Mapping[str, TracedFunction], path: str, name: str, member: Any) -> Any:
    """One of several values in a field; a sensor or a part of a loop by its function and its other values."""
    if callable(member):
        return _function(functions, path + name)
    if not isinstance(member, Timed):
        return _value(member)
    own = [(f.name, getattr(member, f.name)) for f in dataclasses.fields(member) if f.name not in ("of", "update")]  # type: ignore[arg-type]
    return [_function(functions, path + member.function_words), *map(_value, own)]


def _function(functions: Mapping[str, TracedFunction], name: str) -> str:
    if name not in functions or not functions[name].has_full_digest:
        raise NoDigest(name)
    return functions[name].digest


def _gauge(gauge: Gauge) -> Any:
    """A level on the problem that is stepped, by a trace of the distances from it as they are now."""
    problem = gauge.problem
    with jax.enable_x64(True):
        trace = jax.make_jaxpr(gauge.distances)(*example_arguments(problem))
    if not says_all(trace):
        raise NoDigest("a level")
    return fingerprint(trace), gauge.level.direction, callable(gauge.of) or gauge.of


def _is_ours(value: Any) -> bool:
    kind = type(value)
    return dataclasses.is_dataclass(value) and kind.__module__.startswith(OURS) and "<locals>" not in kind.__qualname__


def _array(value: np.ndarray) -> tuple[str, tuple[int, ...], str]:
    return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()


def _value(value: Any) -> Any:
    """A value in words that no other value has."""
    if value is None or isinstance(value, bool | int | float | complex | str | Fraction | np.generic):
        return type(value).__name__, value
    if isinstance(value, np.ndarray | jax.Array) and not isinstance(value, jax.core.Tracer):
        return _array(np.asarray(value))
    if isinstance(value, scipy.sparse.sparray):
        csr = scipy.sparse.csr_array(value)
        return ["sparse", csr.shape, *map(_array, (csr.indptr, csr.indices, csr.data))]
    if isinstance(value, tuple | list):
        plain = set(map(type, value)) in ({str}, {int})  # such as the names of many components
        return [type(value).__qualname__, *(value if plain else map(_value, value))]
    if isinstance(value, Mapping):
        return [(_value(key), _value(entry)) for key, entry in value.items()]
    if isinstance(value, Source):
        raise NoDigest("where starts or parameters come from")
    if isinstance(value, Gauge):
        return _gauge(value)
    if isinstance(value, Clock):  # all else in it is that of the loop
        return value.begin, value.h, value.takes_equal_steps, sorted(value.jitters.items())
    if type(value).__module__.startswith(OURS) and isinstance(getattr(value, "token", None), int):
        return type(value).__qualname__, value.token  # it never changes: the network of a circuit
    if _is_ours(value) and not isinstance(value, Problem):
        fields = [(f.name, _value(getattr(value, f.name))) for f in dataclasses.fields(value)]
        return [type(value).__module__, type(value).__qualname__, *fields]
    raise NoDigest(type(value))
