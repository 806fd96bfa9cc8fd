"""Whether a drift, force or noise jumps in time where a step ends, and what becomes of it there.

A step that ends at the jump may read the value after it, one that begins there that before it, and methods that carry
derivatives from step to step take those of before along: what a step counts too much falls with its length alone, so
that every method has order 1. Where the times of jumps are known, steps keep to their side of them and begin anew
(methods.jumping). Where they are not, because a parameter or the state says when, or a component is the time, or since
the method cannot, the run is told how far paths are off: this is linear in the load, and therefore measured, on x' =
load (x'' = load). One value at the jump, mostly the mean of both sides, takes the error away there
(docs/howto/choose_a_step.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.engine.traces import Traced, trace, traced_functions_of
from stodyn.methods.contract import Method
from stodyn.methods.jumping import AtJumps, carries
from stodyn.numerics import uncompiled
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.facts import degree
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import or_else, remembered
from stodyn.problems.contract import TracedFunction
from stodyn.problems.ground import GroundLoad
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import JumpsInTime

RATES = ("drift", "force", "H")  # the names of the functions that are looked at, of rates and of noise
NOISES = ("diffusion", "noise", "h")
MOST_NUMBERS = 4_000_000  # that are made of the functions, times their components
MOST_COMPONENTS = 100
MOST_BEGUN = 4096  # jumps at which a method that carries derivatives begins anew
BESIDE = 1e-9  # of a step: how near to its end the function is evaluated, by choice far above the rounding of times
CLOSEST = 1e-12  # of a step: how near to a jump steps come, where times are no coarser
SPACINGS = 16  # of floating-point numbers: how far from a jump steps stay at least
FARTHEST = 1e-2  # of a step: and at most
SHORTENED = 1e-8  # of a step: by how much all may be shortened
ASIDE = 1e-3  # of a component: how far from the start functions are looked at too, where noise and stiffness may rest
NEAR = 0.25  # of the shortest step: times that are nearer are the same
NOTABLE = 1e-6  # of the largest value: a jump below this is none, by choice
SHARE = 1e-2  # of the jump times the step: an error below this is none, by choice
JUMP, STEPS = 6, 72  # the step before the jump of the load on which methods are measured, and all steps
FEW = 14  # steps of those on which it is seen whether steps keep to their sides
SAME = 1e-6  # of the values there, which differ by the distance from the jump


class Ends(NamedTuple):
    """How far paths are off, in parts of the jump times the step, where the load takes the value before the jump there
    and where it takes that after it."""

    before: float
    after: float

    def errors(self, values: np.ndarray) -> np.ndarray:
        """The errors over the step for values (before, at, after) of a load."""
        before, here, after = values
        return self.before * (after - before) + (self.after - self.before) * (here - before)

    @property
    def remedy(self) -> str:
        """The value at the jump for which there is no error, in words."""
        right = self.before / (self.before - self.after) if self.before != self.after else 0.5
        if abs(right) < SHARE:
            return "the value before the jump there, as in jnp.where(t > T, b, a)"
        if abs(right - 1.0) < SHARE:
            return "the value after the jump there, as in jnp.where(t >= T, b, a)"
        is_mean = abs(right - 0.5) < SHARE
        mixed = "(a + b)/2" if is_mean else f"{1.0 - right:.4g}*a + {right:.4g}*b"
        what = "the mean of both sides" if is_mean else "a value"
        return f"{what} there, as in jnp.where(t > T, b, jnp.where(t == T, {mixed}, a))"


class Keeping(NamedTuple):
    """What becomes of a method that keeps to its side of a jump and begins anew there: whether it makes the same of a
    load, and of noise, whatever their value there (what it makes of that before the jump, then of that after it), and
    whether it delivers the same noise as before, where it jumps in nothing but a load."""

    loads: bool = False
    noise: bool = False
    law: bool = False


BY_SYMMETRY = Ends(-0.5, 0.5)  # of methods that are not measured: those for constraints

_jumps: Bounded[str, list[frozenset[int]]] = Bounded(256)
_ends: Bounded[str, Ends] = Bounded(256)
_keeping: Bounded[str, Keeping] = Bounded(256)


class Jump(NamedTuple):
    """The jumps of a function of a problem at ends of steps: the places of these times, its values before, at and after
    each of them (3, jumps, entries), whether they come from the time alone, and from how far away, in time, both sides
    are seen; None where they are not seen from the ends of steps in the numbers of the run."""

    name: str
    places: np.ndarray
    values: np.ndarray
    is_known: bool
    beside: float | None


def at_jumps(stepping: Any, method: Any, problem: Any, times: np.ndarray, dtype: np.dtype) -> Any:
    """The method as it steps a problem whose functions jump at some of the times; the method itself where none does.
    Warns where it cannot, and a jump lowers its order."""
    if not _is_looked_at(stepping, method, problem):
        return stepping
    is_whole = len(times) * max(problem.n, 1) <= MOST_NUMBERS
    looked = times if is_whole else times[: MOST_NUMBERS // max(problem.n, 1)]
    spacing = float(np.spacing(np.abs(times).max().astype(dtype)))
    closest = max(CLOSEST * float(np.min(np.diff(times))), SPACINGS * spacing)
    jumps = list(jumps_of(problem, looked, closest))
    if not jumps:
        return stepping
    if is_whole and problem.clocks is None and all(jump.is_known for jump in jumps):
        begun_anew, is_noisy = _beside_jumps(stepping, times, jumps), any(jump.name in NOISES for jump in jumps)
        keeping = Keeping() if begun_anew is None else keeps_to_sides(method)
        if keeping.loads and (keeping.law or not _has_noise(problem)) and (keeping.noise or not is_noisy):
            return begun_anew
    for jump in jumps:
        _tell(jump, method, looked)
    return stepping


def _is_looked_at(stepping: Any, method: Any, problem: Any) -> bool:
    own = getattr(problem, "own", problem)
    is_recorded = isinstance(getattr(own, "load", None), GroundLoad)  # whose end is a jump, and not the user's
    return (
        isinstance(problem, SDE | Mechanical | SDAE | Hamiltonian)
        and isinstance(stepping, Method)
        and problem.n <= MOST_COMPONENTS
        and _has_order(method)
        and not is_recorded
        and problem.clocks != ()
    )


def _has_noise(problem: Any) -> bool:
    return any(getattr(problem, name, None) not in (None, ()) for name in NOISES)


def _has_order(method: Any) -> bool:
    """Whether a method makes steps and promises an order that a jump takes from it."""
    return isinstance(method, Method) and any(float(claim.order or 0) > 1.0 for claim in method.claims)


def jumps_of(problem: Any, times: np.ndarray, closest: float) -> Iterator[Jump]:
    """The jumps of the functions of a problem at some of the times; `closest`: how far away sides may be looked at."""
    for name, look in traced_functions_of(problem).items():
        word = name.rsplit(".", 1)[-1].partition("[")[0]
        if word in RATES + NOISES:
            jump = _jump_of(word, _slopes(look) if word in "Hh" else look, times, problem, closest)
            if jump is not None:
                yield jump


def _slopes(energy: TracedFunction) -> TracedFunction:
    """The forces and velocities of a Hamiltonian H(t, q, p, ...), or of those of its noise, which jump where it may
    not, and the other way round."""

    def slopes(t: Any, q: Any, p: Any, *others: Any) -> Any:
        by_q, by_p = jax.jacrev(energy.function, argnums=(1, 2))(t, q, p, *others)
        return jnp.concatenate([jnp.ravel(by_q), jnp.ravel(by_p)])

    with jax.enable_x64(True):
        points = jax.tree.map(lambda x: jnp.asarray(x, float), energy.arguments)
        return TracedFunction(slopes, points, jax.make_jaxpr(slopes)(*points))


@or_else(lambda word, look, times, problem, closest: None)
def _jump_of(word: str, look: TracedFunction, times: np.ndarray, problem: Any, closest: float) -> Jump | None:
    """The jumps of a function of (t, x, ...), looked at about the start and beside it."""
    clocks = problem.clocks
    moving = 0 if clocks is None else 1
    on = remembered(_jumps, look.digest, lambda: degree.jumps(look.trace, look.arguments))
    in_time = [arguments for arguments in on if moving in arguments]
    if not in_time:
        return None
    state = look.arguments[1 : 2 if isinstance(problem, SDE | SDAE) else 3]
    others = look.arguments[1 + len(state) :]

    def value(t: Any, aside: Any) -> Any:
        at = [jnp.asarray(x) + aside * (1.0 + jnp.abs(jnp.asarray(x))) for x in state]
        if clocks is not None:
            at[0] = at[0].at[np.array(clocks)].set(t)
        return jnp.ravel(jnp.asarray(look.function(t, *at, *others)))

    δ = BESIDE * float(np.min(np.diff(times)))
    at_points = AtPoints(value, (0, None))
    with jax.enable_x64(True), np.errstate(all="ignore"):
        sides = [_Sides(at_points, times, aside, δ) for aside in (0.0, ASIDE)]
        places = np.flatnonzero(sides[0].jumps | sides[1].jumps)
        if not places.size:
            return None
        is_first = sides[0].jumps[places, None]
        values, nearer = (
            np.where(is_first, *(side.at(places, distance) for side in sides)) for distance in (δ, closest)
        )
    tolerated = SHARE * np.abs(values[2] - values[0]) + NOTABLE * np.nanmax(np.abs(values), initial=0.0)
    is_seen = bool((np.abs(nearer - values)[[0, 2]] <= tolerated).all())
    beside = closest if is_seen else δ if δ > closest else None
    return Jump(word, places, values, all(arguments == {moving} for arguments in in_time), beside)


class _Sides:
    """The values of a function on both sides of times, about the start or aside of it, and where it jumps."""

    def __init__(self, at_points: AtPoints, times: np.ndarray, aside: float, δ: float):
        self.at_points, self.times, self.aside = at_points, times, np.asarray(aside)
        before, here, after = values = self.at(np.arange(len(times)), δ)
        jumps = np.maximum(np.abs(after - before), np.abs(here - before))
        size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        self.jumps = (jumps > NOTABLE * size).any(axis=1)

    def at(self, places: np.ndarray, δ: float) -> np.ndarray:
        """The values before, at and after some of the times; nothing is known of a run before its start and after its
        end."""
        t, first, last = self.times[places], places == 0, places == len(self.times) - 1
        before, here, after = (np.array(self.at_points(at, self.aside)) for at in (t - δ, t, t + δ))
        before[first], after[last] = here[first], here[last]
        return np.stack([before, here, after])


# --- where the times are known ----------------------------------------------------------------------------------------


def _beside_jumps(stepping: Method, times: np.ndarray, jumps: list[Jump]) -> AtJumps | None:
    """The method that keeps to its side of the jumps; None where times are too coarse for that, or jumps too many."""
    distances = [jump.beside for jump in jumps if jump.beside is not None]
    shortest, places = float(np.min(np.diff(times))), np.unique(np.concatenate([jump.places for jump in jumps]))
    is_inside = bool((np.diff(places) == 1).any()) or len(places) > MOST_BEGUN
    most = (0.5 * SHORTENED if is_inside else FARTHEST) * shortest
    if len(distances) < len(jumps) or max(distances) > most or (len(places) > MOST_BEGUN and carries(stepping)):
        return None
    return AtJumps(stepping, tuple(times[places[:MOST_BEGUN]].tolist()), max(distances), NEAR * shortest, is_inside)


def keeps_to_sides(method: Any) -> Keeping:
    """What becomes of a method that begins anew at a jump, measured on x' = load + noise."""
    if method.spelling not in _keeping:
        answer = Keeping()
        with jax.enable_x64(True), contextlib.suppress(uncompiled.Compile):
            answer = _keeping_of(method)
        _keeping[method.spelling] = answer
    return _keeping[method.spelling]


def _keeping_of(method: Any) -> Keeping:
    def beside(ready: Method) -> Method:
        return AtJumps(ready, (float(JUMP),), ASIDE, NEAR, False)

    noisy = _on_loads(method, True, beside)
    begun, has_noise = noisy or _on_loads(method, False, beside), noisy is not None
    if begun is None:
        return Keeping()
    normals = np.random.default_rng(1).standard_normal((FEW, begun.normals))

    def keeps(*names: str) -> bool:
        sides = ((1, 1, 2), (1, 2, 2), (1, 1, 1), (2, 2, 2))
        steps = np.diff([begun.path(dict.fromkeys(names, three), normals) for three in sides], axis=1, prepend=0.0)
        expected = np.where(np.arange(FEW) < JUMP, steps[2], steps[3])
        return bool((np.abs(steps[:2] - expected) <= SAME * np.abs(steps).max()).all())

    if has_noise and keeps("rate", "noise"):
        return Keeping(True, True, _keeps_the_law(method, begun))
    return Keeping(keeps("rate"), False, has_noise and _keeps_the_law(method, begun))


def _keeps_the_law(method: Any, begun: _OnLoads) -> bool:
    """Whether the noise that a method delivers is the same where it begins anew: where some of it is on its way in a
    history, it is lost then, or enters twice."""
    if not begun.method.starting_steps:
        return True
    plain: Any = _on_loads(method, True, lambda ready: ready)
    there, before = (_variance(steps, (1.0, 1.0, 1.0)) for steps in (begun, plain))
    return there is not None and before is not None and bool(abs(there - before) <= SAME * before)


# --- where they are not -----------------------------------------------------------------------------------------------


def _tell(jump: Jump, method: Any, times: np.ndarray) -> None:
    """Warn of a jump by which paths are off."""
    before, here, after = jump.values
    sizes = np.maximum(np.abs(after - before), np.abs(here - before))
    sizes = np.where(sizes > NOTABLE * np.nanmax(np.abs(jump.values), initial=0.0), sizes, np.inf)
    way_out = "" if jump.is_known else (
        " Or write its time as a number, where that is a parameter: steps then keep to their side of it."
    )  # fmt: skip
    if jump.name in NOISES:
        _tell_of_noise(jump, method, times, way_out)
        return
    ends = measured_ends(method)
    shares = np.abs(ends.errors(jump.values)) / sizes
    place = int(np.argmax((shares > SHARE).any(axis=1)))
    off = float(shares[place].max())
    if off > SHARE:
        tell(
            f"{jump.name}: jumps at t = {times[jump.places[place]]:g}, where a step ends. For the value that it has "
            f"there, {method.name} is {off:.2g} of the jump times the step off from there on, so that its order is 1. "
            f"Give it {ends.remedy}, which takes this error away.{way_out}",
            JumpsInTime,
        )


def _tell_of_noise(jump: Jump, method: Any, times: np.ndarray, way_out: str) -> None:
    """Warn of noise that jumps, where steps deliver another variance than its own."""
    place, entry = np.unravel_index(np.argmax(np.ptp(jump.values, axis=0)), jump.values.shape[1:])
    sides = tuple(jump.values[:, place, entry].tolist())
    size = max(map(abs, sides))
    off = _variance_off(method, tuple(side / size for side in sides))
    if off is not None and abs(off) > SHARE:
        tell(
            f"{jump.name}: jumps from {sides[0]:.3g} to {sides[2]:.3g} at t = {times[jump.places[place]]:g}, where a "
            f"step ends. For the value {sides[1]:.3g} that it has there, the variance that the steps of {method.name} "
            f"deliver is {off * size**2:+.3g} times the step off from there on.{way_out}",
            JumpsInTime,
        )


def _variance_off(method: Any, sides: tuple[float, float, float]) -> float | None:
    """How far the variance of x is off where dx = load dW takes these values before, at and after a jump, in steps;
    None where it is not known."""
    with jax.enable_x64(True), contextlib.suppress(uncompiled.Compile):
        steps = _on_loads(method, True, lambda ready: ready)
        variance = None if steps is None else _variance(steps, sides)
        return None if variance is None else variance - JUMP * sides[0] ** 2 - (FEW - JUMP) * sides[2] ** 2
    return None


def _variance(steps: _OnLoads, sides: tuple[float, float, float]) -> float | None:
    """The variance of x after all steps of dx = load dW; None where steps are not linear in their normals."""
    units = np.eye(FEW * steps.normals).reshape(-1, FEW, steps.normals)
    weights = np.array([steps.path({"noise": sides}, unit)[-1] for unit in units])
    some = np.random.default_rng(1).standard_normal(len(units))
    along = steps.path({"noise": sides}, np.tensordot(some, units, 1))[-1]
    is_linear = abs(along - some @ weights) <= SAME * np.abs(weights).max()
    return float(weights @ weights) if is_linear else None


# --- a method on a load that jumps ------------------------------------------------------------------------------------


class _OnLoads(NamedTuple):
    """The steps of a method, of length 1, on x' = rate + noise w, or x'' or p', where both are loads that jump: their
    values before, at and after step JUMP are params. `row` is that of x, x' or p among what is shown."""

    problem: Any
    method: Method
    traced: Traced
    row: int

    @property
    def normals(self) -> int:
        """How many a step takes."""
        return sum(count for _, count in self.traced.streams)

    def path(self, loads: Mapping[str, Any], normals: np.ndarray) -> np.ndarray:
        """x after each step, with these normals of all steps (steps, normals)."""
        params = [np.asarray(loads.get(name, (0.0, 0.0, 0.0)), float) for name in ("noise", "rate")]
        traced, shown = self.traced, []
        state = uncompiled.run(traced.start, 0.0, self.problem.example_start(), *params)
        ends = np.cumsum([count for _, count in traced.streams])[:-1]
        for k, row in enumerate(normals):
            arguments = (float(k), 1.0, *state, *np.split(row, ends)[: len(traced.streams)], *params)
            if traced.starting is not None and k < traced.starting_steps:
                state = uncompiled.run(traced.starting, np.int32(k), *arguments)[: len(state)]
            else:
                state = uncompiled.run(traced.step, *arguments)[: len(state)]
            shown.append(uncompiled.run(traced.read, *state)[0][self.row])
        return np.array(shown)


def _on_loads(method: Any, has_noise: bool, around: Callable[[Method], Method]) -> _OnLoads | None:
    """The steps of a method, with what comes `around` it; None of a method that takes no such problem."""

    def load(t: Any, sides: Any) -> Any:
        return jnp.where(t > JUMP + BESIDE, sides[2], jnp.where(t < JUMP - BESIDE, sides[0], sides[1]))

    params = {name: np.zeros(3) for name in ("noise", "rate")}
    for problem, row in _problems(method, load, has_noise, params):
        lowered = (problem, "") if isinstance(problem, method.accepts) else problem.lower(method.accepts)
        if lowered is not None and method.refusal(lowered[0]) is None:
            with contextlib.suppress(TypeError, ValueError):
                ready = around(method.prepared(lowered[0], 1.0))
                return _OnLoads(lowered[0], ready, trace(lowered[0], ready), row)
    return None


def _problems(method: Any, load: Any, has_noise: bool, params: Any) -> Iterator[tuple[Any, int]]:
    """Problems of the kinds that methods take, with the row of x, x' or p."""
    one = np.zeros(1)
    if method.accepts is Mechanical:
        beside = np.zeros(2)
        noise = (lambda t, x, v, p: load(t, p["noise"])[None, None]) if has_noise else None
        yield Mechanical(lambda t, x, v, p: load(t, p["rate"])[None], noise, (one, one), params=params), 1
        noise = (lambda t, x, v, p: jnp.stack([load(t, p["noise"]), 0.0])[:, None]) if has_noise else None
        yield (
            Mechanical(
                lambda t, x, v, p: jnp.stack([load(t, p["rate"]), 0.0]), noise, (beside, beside),
                constraints=lambda t, x: x[1:], params=params,
            ), 2,
        )  # fmt: skip
    elif method.accepts is Hamiltonian:
        h = (lambda t, q, p, a: -load(t, a["noise"]) * q) if has_noise else ()
        yield Hamiltonian(lambda t, q, p, a: -load(t, a["rate"]) * q, h, start=(0.0, 0.0), params=params), 1
    else:
        g = (lambda t, x, p: load(t, p["noise"])[None, None]) if has_noise else None
        calculus = method.calculus or "ito"
        yield SDE(lambda t, x, p: load(t, p["rate"])[None], g, one, params=params, calculus=calculus), 0


def measured_ends(method: Any) -> Ends:
    """What a method makes of a load that jumps where a step ends."""
    if method.spelling not in _ends:
        paths: list[np.ndarray] = []
        with jax.enable_x64(True), contextlib.suppress(uncompiled.Compile):
            steps = _on_loads(method, False, lambda ready: ready)
            if steps is not None:
                nothing = np.zeros((STEPS, steps.normals))
                paths = [steps.path({"rate": sides}, nothing) for sides in ((0, 0, 1), (0, 1, 1))]
        if not paths:
            return BY_SYMMETRY
        _ends[method.spelling] = Ends(*(np.mean(path[-2:]) - (STEPS - JUMP - 0.5) for path in paths))  # what alternates
    return _ends[method.spelling]
