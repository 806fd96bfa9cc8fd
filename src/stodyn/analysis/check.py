"""One suite that every method must pass, whoever wrote it: the properties on which the engine and the claims rely."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn import listing
from stodyn.analysis.step.expectation import quadrature_nodes
from stodyn.analysis.step.order import deterministic_order, strong_order, unpacked, weak_order
from stodyn.arguments import checks_arguments
from stodyn.engine.follow import States, followed
from stodyn.engine.program.vmap import Vmap
from stodyn.engine.spec import Spec, matched
from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Method, in_words
from stodyn.models.catalogue import catalogue
from stodyn.models.noise_structures import (
    ADDITIVE_NOISE,
    COMMUTATIVE_NOISE,
    DIAGONAL_NOISE,
    GENERAL_NOISE,
    SCALAR_NOISE,
)
from stodyn.numerics import gauss
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import at_one, at_points
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.problems import lowering
from stodyn.problems.contract import STRUCTURES, written_as
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

__all__ = ["CheckFailed", "Result", "check_method"]
__dir__ = listing.names_of(__name__)

ORDERS = ("strong", "weak", "deterministic")
PATHS = 4
STEP = 1.0 / 64.0
AGREE = 1e-12  # between printed, vmap and the plain path, relative
SINGLE = 1e-4  # between float32 and float64 after a step, relative
LARGEST = 4  # components of the models that are tried
FINE_STEPS, STRONG_PATHS = (32, 64, 128, 256), 1000


@dataclasses.dataclass(frozen=True)
class Result:
    """One question, whether it was passed, and the finding in words."""

    question: str
    ok: bool
    finding: str


class CheckFailed(AssertionError):
    """A method, statistic or problem failed part of its suite; `results` holds all answers."""

    def __init__(self, name: str, results: Sequence[Result]):
        failed = [result for result in results if not result.ok]
        lines = "\n".join(f"  {result.question}: {result.finding}" for result in failed)
        super().__init__(f"{name} fails {len(failed)} of {len(results)} checks:\n{lines}")
        self.results = list(results)


@checks_arguments
def check_method(method: Method | str, problems: Sequence[Any] | None = None) -> list[Result]:
    """Put a method to the suite that every method must pass.

    record      it is a frozen, hashable value with lawful claims
    claims      no question, but a list: which of its claims this suite measures, and which it does not
    executors   print, vmap and the plain path agree to 1e-12 after a step, on a problem of every noise it takes
    float32     single precision stays single, is finite and agrees with double
    quiet       without noise it has the deterministic order it claims, on a nonlinear equation with time in it
    strong      it has the strong orders it claims, each on the most general noise for which it does: 1000 paths against
                a finer method on the same noise, about four seconds of processor time for each
    weak        it has the weak orders it claims, in first and second moments of linear equations, each with the most
                general noise for which it does: computed, not sampled. Nonlinear equations may show less
    driftless   without drift, constant noise is integrated exactly
    consistent  as h -> 0 a step has the mean h f and the covariance h g g' of the equation it claims to solve
    refusal     noise of another structure, and anything that is not a problem of its kind, is refused in words
    table       where it has a table, the table meets its order conditions
    report      where it solves equations, it says how many rounds it took, and when it failed

    Parameters
    ----------
    method : Method or str
        The method, or its name.
    problems : sequence of Problem, optional
        The problems on which it is tried; by default, of the models of the kind it accepts, one of each structure of
        noise. `quiet`, `strong`, `weak` and `driftless` use equations of their own and are asked of methods for SDEs.

    Returns
    -------
    list of Result
        One for each question.

    Raises
    ------
    CheckFailed
        If any check fails; its `results` hold all answers.
    """
    method = stepping(method)
    with jax.enable_x64(True):
        tried = list(problems) if problems is not None else examples(method)
        return answers(method.name, SUITE, method, tried)


def examples(method: Method) -> list[Any]:
    """Choose problems for a method: for each structure of noise that it takes, the model with the most channels."""
    largest: dict[str, Any] = {}
    for problem in _small_problems(method):
        kind = problem.noise_structure.kind
        if method.refusal(problem) is None and (kind not in largest or problem.m > largest[kind].m):
            largest[kind] = problem
    return list(largest.values())


def _small_problems(method: Method) -> Iterator[Any]:
    kind: Any = method.accepts
    for model in catalogue().values():
        if isinstance(model.problem, kind) and model.problem.n <= LARGEST:
            yield model.problem


def answers(name: str, suite: Mapping[str, Callable], *subject: Any) -> list[Result]:
    """Put all questions of a suite to a subject; raise CheckFailed, which holds all answers, where one is not right."""
    results = [ask(question, check, *subject) for question, check in suite.items()]
    if not all(result.ok for result in results):
        raise CheckFailed(name, results)
    return results


def ask(question: str, check: Callable, *subject: Any) -> Result:
    """Run a check on its subject: the Result holds its finding in words, or the error by which the subject fails."""
    try:
        return Result(question, True, check(*subject))
    except AssertionError as fault:
        return Result(question, False, str(fault))
    except Exception as error:  # any error of a method under test is an answer
        return Result(question, False, f"{type(error).__name__}: {error}")


def _record(method: Method, problems: list[Any]) -> str:
    assert isinstance(method, Method), f"{method!r} is not a Method"
    assert getattr(getattr(method, "__dataclass_params__", None), "frozen", False), "it is not a frozen dataclass"
    assert hash(method) == hash(method()) and method == method(), "it is not the same value after method()"
    assert method.citation, "it has no citation"
    for claim in method.claims:
        known = (*STRUCTURES, *method.accepts.further_structures)  # type: ignore[attr-defined]
        strange = [s for s in claim.when if s not in known]
        assert not strange, f"the claim {claim} names {strange[0]!r}, expected structures of {known}"
        assert claim.kind not in ORDERS or (claim.order or 0) > 0, f"the claim {claim} has no order"
    return f"{len(method.claims)} claims"


def _claims(method: Method, problems: list[Any]) -> str:
    """Which claims the other questions measure, and which are left to whoever makes them."""
    questions = (
        {"deterministic": "quiet", "strong": "strong", "weak": "weak"} if issubclass(SDE, method.accepts) else {}
    )
    measurable = [c for c in method.claims if c.kind in questions]
    left = [f"{c.kind} {in_words(c)}" for c in method.claims if c not in measurable]
    measured = "; ".join(f"{c.kind} {in_words(c)} is measured by `{questions[c.kind]}`" for c in measurable)
    unmeasured = f"NOT measured here: {', '.join(left)}; measure orders with analysis.order" if left else ""
    return "; ".join(words for words in (measured, unmeasured) if words) or "it makes none"


def _executors(method: Method, problems: list[Any]) -> str:
    assert problems, f"there is no model of the kind {method.accepts.__name__}; give problems="
    remarks = []
    for problem in problems:
        stepped = _stepped(problem, method)
        plain = _plain(stepped, method)
        for executor in ("vmap", "printed"):
            try:
                states = _printed(method, stepped) if executor == "printed" else _vmapped(method, stepped, np.float64)
            except ValueError as refused:
                if not isinstance(refused.__cause__, Unprintable):
                    raise
                remarks.append(f"{problem.noise_structure.kind} noise runs under vmap only ({refused.__cause__})")
                continue
            gap = np.abs(states - plain).max() / (1.0 + np.abs(plain).max())
            assert gap <= AGREE, (
                f"{executor} differs from the plain path by {gap:.2g} for {problem.noise_structure} noise"
            )
    structures = ", ".join(problem.noise_structure.kind for problem in problems)
    return "; ".join([f"agree to {AGREE:g} for {structures} noise", *remarks])


def _float32(method: Method, problems: list[Any]) -> str:
    assert problems, "there is nothing to try it on"
    stepped = _stepped(problems[0], method)
    double = _plain(stepped, method)
    single = _vmapped(method, stepped, np.float32)
    assert single.dtype == np.float32, f"a float32 state became {single.dtype}"
    gap = np.abs(single - double).max() / (1.0 + np.abs(double).max())
    assert gap <= SINGLE, f"float32 differs from float64 by {gap:.2g}"
    return f"differs from float64 by {gap:.1g}"


def _quiet(method: Method, problems: list[Any]) -> str:
    if not issubclass(SDE, method.accepts):
        return "not asked: it takes no SDE"
    claimed = max((float(c.order or 0) for c in method.claims if c.kind == "deterministic"), default=1.0)
    study = deterministic_order(_first_accepted(method, PENDULUM), method, t=(0.0, 2.0))
    low, high = study.attrs["order_low"], study.attrs["order_high"]
    finding = f"order {study.attrs['order']:.3f} in [{low:.2f}, {high:.2f}]"
    assert high >= claimed - 0.1, f"{finding}, and {claimed:g} is claimed"
    return finding


def _strong(method: Method, problems: list[Any]) -> str:
    def measured(model):
        return strong_order(model, method, steps=FINE_STEPS, paths=STRONG_PATHS)

    return _claimed_orders("strong", method, MODELS, measured)


def _weak(method: Method, problems: list[Any]) -> str:
    def measured(problem):
        if _rules(method, problem.m) is None:
            raise ValueError("a step has too many normals for a quadrature")
        return weak_order(problem, method, steps=FINE_STEPS)

    return _claimed_orders("weak", method, LINEAR, measured)


def _claimed_orders(kind: str, method: Method, models: Sequence[Any], measured: Callable[[Any], Any]) -> str:
    """The orders that are measured where they are claimed, in words; orders below the claim are called wrong."""
    if not issubclass(SDE, method.accepts):
        return "not asked: it takes no SDE"
    findings = []
    for claimed, model in _hardest(kind, method, models).items():
        noise = unpacked(model)[0].noise_structure.kind
        try:
            fit = measured(model).attrs
        except ValueError as error:  # such as errors too small to be told from those of the reference
            findings.append(f"NOT measured for {noise} noise ({error})")
            continue
        low, high = fit["order_low"], fit["order_high"]
        findings.append(f"order {fit['order']:.2f} in [{low:.2f}, {high:.2f}] for {noise} noise")
        assert high >= claimed - 0.1, f"{findings[-1]}, and {claimed:g} is claimed"
    return "; ".join(findings) or f"not asked: it claims no {kind} order"


def _hardest(kind: str, method: Method, models: Sequence[Any]) -> dict[float, Any]:
    """Order -> of models or problems with one structure of noise each, the most general for which it is claimed."""
    hardest: dict[float, Any] = {}
    for model in models:
        problem, _, _ = unpacked(model)
        order = method.promised(kind, problem.noise_structure)
        if order and method.refusal(problem) is None:
            hardest[order] = model
    return hardest


def _driftless(method: Method, problems: list[Any]) -> str:
    if not issubclass(SDE, method.accepts):
        return "not asked: it takes no SDE"
    problem = _stepped(_first_accepted(method, FREE), method)
    G = at_one(lambda x: problem.g(0.0, x, None), np.zeros(problem.n))
    path = np.asarray(_plain(problem, method))
    W = sum(
        np.stack([_increment(method, problem, k, i).W for i in range(PATHS)], axis=1) for k in range(_steps(method))
    )
    gap = np.abs(path - (states_near(problem) + G @ W)).max()
    # Noise in the history of a multistep method is still on its way into x.
    bound = 10.0 * np.abs(G).sum() * np.sqrt(STEP) * method.starting_steps or AGREE
    assert gap <= bound, f"with no drift and constant noise g, x differs from x0 + g W by {gap:.2g}"
    return f"x = x0 + g W to {bound:.2g}"


def _consistent(method: Method, problems: list[Any]) -> str:
    pairs: list[Any] = [(p, written_as(p, SDE)) for p in problems]
    pairs = [pair for pair in pairs if pair[1] is not None]
    if not pairs or method.starting_steps:
        return "not asked: nothing that is tried is an SDE, or a step needs a history"
    problem, sde = max(pairs, key=lambda pair: STRUCTURES.index(pair[0].noise_structure.kind))
    rules = _rules(method, problem.m)
    if rules is None:
        return "not asked: a step has too many normals for a quadrature"
    stepped, params, ito = _stepped(problem, method), problem.example_params(), lowering.to_ito(sde)
    x, seen_of = np.reshape(problem.example_start(), problem.n) + 0.1, np.eye(problem.n)
    if isinstance(problem, SDAE):
        x, seen_of = at_one(functools.partial(problem.consistent, 0.0), x, params), problem.facts.evolving
    x = _on_joints(problem, np.asarray(x)[:, None])[:, 0]
    drift, g = at_one(lambda y, params: (ito.f(0.0, y, params), ito.g(0.0, y, params)), seen_of @ x, params)
    spread = g @ g.T
    counts = method.needs.normals(problem.m)
    ends = np.cumsum(list(counts.values()))[:-1]
    ξ = np.stack([v.ravel() for v in np.meshgrid(*(r[0] for r in rules), indexing="ij")], axis=-1)
    weight = functools.reduce(np.multiply.outer, [r[1] for r in rules]).ravel()

    def moved(h, ξ):
        noise = method.needs.increment(h, dict(zip(counts, jnp.split(ξ, ends), strict=True)), problem.m)
        after, _ = method.step(stepped, jnp.zeros(()), method.start(stepped, jnp.zeros(()), x, params), noise, params)
        return method.read(after) - x

    moves, defects = Uncompiled(jax.vmap(moved, (None, 0))), []
    for h in (2.0**-8, 2.0**-12):
        with underived():
            d = np.asarray(moves(h, ξ)) @ seen_of.T
        mean = weight @ d
        covariance = (weight * d.T) @ d - np.outer(mean, mean)
        defects.append(max(np.abs(mean / h - drift).max(), np.abs(covariance / h - spread).max()))
    finding = f"(E x' - x)/h and Cov x'/h are off by {defects[0]:.2g} at h = 2^-8 and {defects[1]:.2g} at 2^-12"
    assert defects[1] <= max(defects[0] / 8.0, 1e-9), f"{finding}: they do not tend to f and g g'"
    return finding


def _rules(method: Method, m: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Nodes and weights for each normal of a step; None where three each are too many."""
    if hasattr(method.needs, "nodes"):
        return [(np.array(values, float), np.array(weights, float)) for values, weights in method.needs.nodes(m)]
    nodes, normals = quadrature_nodes(method, m), sum(method.needs.normals(m).values())
    return [gauss.hermite(nodes)] * normals if nodes >= 3 else None


def _refusal(method: Method, problems: list[Any]) -> str:
    refused = []
    for problem in _small_problems(method):
        takes = not method.structures or any(map(problem.noise_structure.implies, method.structures))
        kind, reason = problem.noise_structure.kind, method.refusal(problem)
        if reason is None:
            assert takes, f"it takes {problem.noise_structure} noise, and says it is for {method.structures}"
            continue
        try:
            matched(problem, method)
        except ValueError as error:
            assert reason in str(error), f"the refusal says {error}, and not why: {reason}"
            assert takes or kind in reason, f"the refusal does not name the noise, {kind}: {reason}"
            refused.append(kind)
        else:
            raise AssertionError(f"{problem.noise_structure} noise is run although the method refuses it")
    try:
        matched(object(), method)
    except TypeError:
        return f"refuses models with {', '.join(dict.fromkeys(refused))} noise" if refused else "takes every noise"
    raise AssertionError("it runs something that is not a problem")


def _table(method: Method, problems: list[Any]) -> str:
    table = getattr(method, "table", None)
    if table is None:
        return "it has none"
    missed = table.missed()
    assert not missed, "; ".join(missed)
    return "meets its order conditions"


def _report(method: Method, problems: list[Any]) -> str:
    assert problems, "there is nothing to try it on"
    problem = _stepped(problems[0], method)
    step, noises = _one_path(problem, method), _noises(problem, method, 0)
    _, ok, iterations = step(states_near(problem)[:, 0], noises)
    assert ok.dtype == bool and jnp.issubdtype(iterations.dtype, jnp.integer), (
        f"ok and iterations are {ok.dtype} and {iterations.dtype}, expected a truth value and a count"
    )
    assert ok, f"a plain step is reported as failed after {iterations} rounds"
    if iterations == 0:
        return "explicit"
    assert not step(np.full(problem.n, np.nan), noises)[1], "a step from NaN is reported as solved"
    return f"{iterations} rounds per step"


SUITE: dict[str, Callable[[Method, list[Any]], str]] = {
    "record": _record,
    "claims": _claims,
    "executors": _executors,
    "float32": _float32,
    "quiet": _quiet,
    "strong": _strong,
    "weak": _weak,
    "driftless": _driftless,
    "consistent": _consistent,
    "refusal": _refusal,
    "table": _table,
    "report": _report,
}


# --- what it is tried on ----------------------------------------------------------------------------------------------


def _pendulum(t, x):
    return jnp.stack([x[1], jnp.cos(t) - jnp.sin(x[0]) - 0.3 * x[0] ** 2 * x[1]])


def _still(t, x):
    return jnp.zeros(2)


def _turning(t, x):
    return jnp.stack([x[1] - x[0], -x[0] - 0.5 * x[1]])


PENDULUM = tuple(  # a driven pendulum, its noise set to zero
    SDE(_pendulum, lambda t, x, m=channels: jnp.zeros((2, m)), (0.5, 0.2)) for channels in (2, 1)
)
FREE = (
    SDE(_still, lambda t, x: jnp.array([[0.7, 0.2], [-0.3, 0.5]]), (0.5, 0.2)),
    SDE(_still, lambda t, x: jnp.array([[0.7], [-0.3]]), (0.5, 0.2)),
    SDE(_still, lambda t, x: jnp.diag(jnp.array([0.7, 0.5])), (0.5, 0.2)),
)

MODELS = (ADDITIVE_NOISE, SCALAR_NOISE, DIAGONAL_NOISE, COMMUTATIVE_NOISE, GENERAL_NOISE)
LINEAR = (SDE(_turning, lambda t, x: jnp.array([[0.7, 0.2], [-0.3, 0.5]], x.dtype), (0.5, 0.2)),
          SDE(_turning, lambda t, x: jnp.stack([0.6 * x[:1] + 0.3 * x[1:], 0.4 * x[1:]]), (0.5, 0.2)),
          SDE(_turning, lambda t, x: jnp.diag(jnp.array([0.7, 0.5], x.dtype) * x), (0.5, 0.2)),
          COMMUTATIVE_NOISE.problem, GENERAL_NOISE.problem)  # fmt: skip


def _first_accepted(method: Method, candidates: Sequence[SDE]) -> SDE:
    return next(problem for problem in candidates if method.refusal(problem) is None)


@functools.lru_cache(maxsize=64)
def _stepped(problem: Any, method: Method) -> Any:
    """Return the problem in the form that the method takes."""
    return matched(problem, method)[0]


def states_near(problem: Any) -> np.ndarray:
    """Draw states near the start of a problem, on its constraints: (n, PATHS), one per column."""
    offsets = np.random.default_rng(1).standard_normal((problem.n, PATHS))
    return _on_joints(problem, np.reshape(problem.example_start(), (problem.n, 1)) + 0.1 * offsets)


def _on_joints(problem: Any, states: np.ndarray) -> np.ndarray:
    """States (n, ...) of a mechanical system moved onto its constraints; others as they are."""
    joints = problem.joints
    if joints is None:
        return states

    def moved(x):
        q, _ = joints.moved_onto(0.0, x[: problem.N], problem.example_params(), 1e-14, 50)
        v = joints.frame(0.0, q, problem.example_params()).held(x[problem.N : 2 * problem.N])[0]
        return jnp.concatenate([q, v, x[2 * problem.N :]])

    with underived():
        onto = Uncompiled(moved)
        return np.stack([onto(x) for x in states.T], axis=1)


def _normals(counts: Mapping[str, int], k: int) -> dict[str, np.ndarray]:
    """The normals of step k, (count, PATHS) each."""
    rng = np.random.default_rng(k)
    return {name: rng.standard_normal((count, PATHS)) for name, count in counts.items()}


@functools.lru_cache(maxsize=16)
def _increments(method: Method, problem: Any, k: int) -> Any:
    """The increments of step k, the paths first."""
    normals = _normals(method.needs.normals(problem.m), k)
    return at_points(lambda normals: method.needs.increment(STEP, normals, problem.m), normals, in_axes=-1)


def _increment(method: Method, problem: Any, k: int, i: int) -> Any:
    """Return the noise of step k of path i."""
    return jax.tree.map(lambda a: a[i], _increments(method, problem, k))


def _steps(method: Method) -> int:
    """Return the number of steps that a test takes: one after those that make the history."""
    return method.starting_steps + 1


def _noises(problem: Any, method: Method, i: int) -> list[Any]:
    """Return the noise of all steps of path i."""
    return [_increment(method, problem, k, i) for k in range(_steps(method))]


@functools.lru_cache(maxsize=8)
def _one_path(problem: Any, method: Method) -> Uncompiled:
    """one(x, noises): the components (n,) of a path after its steps, and ok and iterations of the first of these."""
    params = problem.example_params()

    @Uncompiled
    def one(x, noises):
        state, reports = method.start(problem, jnp.zeros(()), x, params), []
        for k, noise in enumerate(noises):
            step = method.step if k >= method.starting_steps else lambda *a: method.starting_step(jnp.asarray(k), *a)
            state, report = step(problem, k * STEP, state, noise, params)
            reports.append(report)
        return method.read(state), jnp.asarray(reports[0].ok), jnp.asarray(reports[0].iterations)

    return one


@functools.lru_cache(maxsize=8)
def _plain(problem: Any, method: Method) -> np.ndarray:
    """The components (n, PATHS) after a step, each path by itself."""
    one, x = _one_path(problem, method), states_near(problem)
    return np.stack([one(x[:, i], _noises(problem, method, i))[0] for i in range(PATHS)], axis=1)


@functools.lru_cache(maxsize=4)
def _spec(problem: Any, method: Method, dtype: np.dtype) -> Spec:
    """Describe a run of as many steps as the plain path makes, with its traces."""
    steps = _steps(method)
    times, lengths = STEP * np.arange(steps + 1), np.full(steps, STEP)
    return Spec(problem, method, times, lengths, (States(),), (np.array([steps]),), dtype, None, {}).traced_anew()


def _printed(method: Method, problem: Any) -> np.ndarray:
    """The components (n, PATHS) after as many steps by a printed program; raises ValueError where there can be none."""
    counts = {name: count for name, count in method.needs.normals(problem.m).items() if count}
    draws = [_normals(counts, k) for k in range(_steps(method))]
    normals = {name: np.stack([z[name] for z in draws]) for name in counts}
    return followed(_spec(problem, method, np.dtype(float)), PATHS, normals, states_near(problem), "printed")[-1]


def _vmapped(method: Method, problem: Any, dtype: Any) -> np.ndarray:
    """Return the states after one step of all paths, computed by jax.vmap."""
    spec = _spec(problem, method, np.dtype(dtype))
    traced: Any = spec.traced
    executor, params = Vmap(traced, PATHS), spec.examples
    start = jax.vmap(core.jaxpr_as_fun(traced.start), in_axes=(None, -1, *(None for _ in params)), out_axes=-1)
    carry = tuple(Uncompiled(start)(np.zeros((), dtype), states_near(problem).astype(dtype), *params))
    steps = traced.starting_steps + 1

    @Uncompiled
    def run(carry, normals):
        for k in range(steps):
            number = jnp.asarray(k, np.int32) if k < traced.starting_steps else None
            t, h = jnp.asarray(k * STEP, dtype), jnp.asarray(STEP, dtype)
            carry, *_ = executor.step(carry, t, h, normals[k], params, [0] * len(params), number)
        return executor.read(carry)

    generators = [np.random.default_rng(k) for k in range(steps)]
    normals = [[rng.standard_normal((count, PATHS)).astype(dtype) for _, count in traced.streams] for rng in generators]
    return np.asarray(run(carry, normals))
