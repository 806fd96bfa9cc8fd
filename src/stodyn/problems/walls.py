"""Walls: components of the state that cannot pass a bound.

reflect   dX = f dt + g dW + dK, K grows only where X is at the wall (noise enters the component)
impact    x' = v, and at the wall v -> -e v (mechanics: noise enters velocities alone)
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments, stacklevel_of_user
from stodyn.numerics import uncompiled
from stodyn.problems.contract import Recommended, expect_problem
from stodyn.problems.impact import Impact, Restitution, Struck, check_restitution, check_strikable, struck
from stodyn.problems.level import BRIDGE, Level
from stodyn.problems.measured import Measured
from stodyn.problems.sde import SDE
from stodyn.warnings import WallsNotResolved

KINDS = ("reflect", "impact")
# Steps from which the stationary mean or variance is 2 % off, measured without drift and with constant ones:
LIFTED_STEP = (
    0.6  # lifted, deviation of a step over the width of the box: .5 gives .7 % in the variance, .7 2.9 %, 1 5 %
)
FOLDED_STEP = 0.015  # folded, (drift towards a wall)² h/(noise)²: .01 gives 1.7 % in the mean, .04 5 %, .16 16 %


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Walls:
    """Bounds that components of the state cannot pass: half-spaces and boxes.

    Parameters
    ----------
    bounds : mapping
        Component, by its name or number -> (low, high), None for a side without a wall.
    kind : "reflect" or "impact"
        "reflect" sends a component that noise enters back along itself. "impact" is for positions of mechanical
        systems, whose velocity is turned round at the wall.
    restitution : number
        e of an impact, from 0 to 1: the share of the velocity that is left. 1 by default.
    located : bool
        For impacts. False (the default): where a step ends beyond the wall, x and v are mirrored, x -> wall - e (x -
        wall) and v -> -e v. That costs nothing, is exact for e = 1 in a field that is symmetric about the wall, and of
        weak order 1 otherwise. True: the moment of the impact is found within the step, as by `Impact`, with errors
        about a third as large.
    draw : bool
        For reflection. True (the default): the least value between two steps is drawn as that of a Brownian bridge, and
        the step is lifted by the amount by which that value lies beyond the wall (Lépingle), exactly for constant
        coefficients. False: the step is folded at the wall, which draws nothing and has errors 3 to 4 times as large.
        Both have weak order 1, whatever the method. A warning names the step needed where a law would be biased by more
        than 2 %: lifted steps that reach across the box, folded ones against a drift towards the wall.

    Examples
    --------
    >>> import stodyn as sd
    >>> walls = sd.Walls({"x": (0.0, None), "y": (-1.0, 1.0)})
    """

    bounds: Mapping[str | int, tuple[float | None, float | None]]
    kind: str = "reflect"
    restitution: float = 1.0
    draw: bool = True
    located: bool = False

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f'kind: expected "reflect" or "impact", got {self.kind!r}')
        if not isinstance(self.bounds, Mapping) or not self.bounds:
            raise TypeError(f"walls: expected a mapping such as {{'x': (0.0, None)}}, got {self.bounds!r}")
        for component, pair in self.bounds.items():
            _check_pair(component, pair)
        check_restitution(self.restitution)
        if self.kind == "reflect" and self.restitution != 1:
            raise ValueError(
                'restitution: belongs to impacts; reflection loses nothing. Give kind="impact", or leave it out'
            )
        for name in ("draw", "located"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.kind == "reflect" and self.located:
            raise ValueError('located: belongs to impacts; reflection is drawn within the step. Give kind="impact"')

    @property
    def impacts(self) -> tuple[Impact, ...]:
        """Every wall as an impact of its own."""
        return tuple(
            Impact(Level(bound, component, direction), Restitution(self.restitution))
            for component, pair in self.bounds.items()
            for bound, direction in zip(pair, ("down", "up"), strict=True)
            if bound is not None
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Walled(Measured):
    """A problem with walls; made by `with_walls`. It shows exactly the components of the problem.

    places  (component, its velocity or -1, low, high) of each component with a wall; ±inf for a side without one
    """

    walls: Walls
    places: tuple[tuple[int, int, float, float], ...]

    @property
    def recommended(self) -> Recommended:
        """The method for the equations of first order: a state that a wall has moved fits no earlier acceleration."""
        return self.problem.lower(SDE)[0].recommended if self.walls.kind == "impact" else super().recommended

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        x = self.problem.draw_start(rng, paths)
        for component, _, low, high in self.places:
            outside = np.flatnonzero(~((x[:, component] >= low) & (x[:, component] <= high)))
            if outside.size:
                raise ValueError(
                    f"start: {self.components[component]} = {x[outside[0], component]:g} of path {paths[outside[0]]} "
                    f"is outside its walls ({low:g}, {high:g}). Start all paths inside."
                )
        return x

    def reach(self, component: int) -> tuple[float, float]:
        bounds = {i: (low, high) for i, _, low, high in self.places}
        return bounds.get(component, super().reach(component))

    def jumps(self, component: int) -> str:
        struck = {j for i, velocity, _, _ in self.places if velocity >= 0 for j in (i, velocity)}
        name = self.components[component]
        mirrored = f"{name} is mirrored at a wall after the step, so that it jumps; located=True locates the jump"
        return mirrored if component in struck else ""

    def check_step(self, method: Any, h: float) -> None:
        """Warn where steps up to h are too long for walls that reflect, so that the law between them is biased."""
        if self.walls.kind == "impact":
            return
        for i, _, low, high in self.places:
            rule, is_long, step = (
                self._lifted_step(i, low, high, h) if self.walls.draw else self._folded_step(i, low, high)
            )
            if h > step:
                warnings.warn(
                    f"dt: steps of {h:g} are long for the walls of {self.components[i]} at ({low:g}, {high:g}): "
                    f"{is_long}, and the {rule} step biases its law by more than 2 %. Take steps below {step:.2g}"
                    f"{'.' if self.walls.draw else ', or draw=True.'}",
                    WallsNotResolved,
                    stacklevel=stacklevel_of_user(),
                )

    def _lifted_step(self, i: int, low: float, high: float, h: float) -> tuple[str, str, float]:
        """The rule, why a step is too long for it, and the longest one: for both walls of a box in one step."""
        if not math.isfinite(high - low):
            return "lifted", "", math.inf
        _, noise = self._rates_at(i, 0.5 * (low + high))
        words = f"noise moves it by {noise * math.sqrt(h):.3g} in a step (its standard deviation)"
        return "lifted", words, (LIFTED_STEP * (high - low) / noise) ** 2 if noise else math.inf

    def _folded_step(self, i: int, low: float, high: float) -> tuple[str, str, float]:
        """The rule, why a step is too long for it, and the longest one, for folding: it takes no account of the drift
        on the way from the wall."""
        longest, words = math.inf, ""
        for wall, side in ((low, -1.0), (high, 1.0)):
            drift, noise = self._rates_at(i, wall) if math.isfinite(wall) else (0.0, 0.0)
            if side * drift > 0.0 and FOLDED_STEP * (noise / drift) ** 2 < longest:
                longest = FOLDED_STEP * (noise / drift) ** 2
                words = f"the drift at {wall:g} is {drift:.3g}, with noise of {noise:.3g}"
        return "folded", words, longest

    def _rates_at(self, i: int, place: float) -> tuple[float, float]:
        """Drift and noise of a component, the others at the start and it at this place."""
        x = np.array(self.example_start(), float)
        x[i] = place

        def rates(x: Any) -> Any:
            params = self.problem.example_params()
            (drift,), (row,) = (of(0.0, x, params, (i,)) for of in (self.problem.mean_rates, self.problem.noise_rows))
            return jnp.stack([drift, jnp.sqrt(jnp.sum(jnp.asarray(row) ** 2))])

        drift, noise = uncompiled.value(rates, x)
        return float(drift), float(noise)

    def before_run(self, t: float) -> tuple[str, ...]:
        rule = "mirrored after the step" if self.walls.kind == "impact" else "lifted" if self.walls.draw else "folded"
        names = ", ".join(f"{self.components[i]} in ({low:g}, {high:g})" for i, _, low, high in self.places)
        return (*self.problem.before_run(t), f"walls: {names}, {rule}; weak order 1 with walls")


@checks_arguments
def with_walls(problem: Any, *walls: Walls | Mapping | Impact) -> Walled | Struck:
    """Return a problem with walls that components of its state cannot pass.

    Parameters
    ----------
    problem : SDE or Mechanical
        An SDE whose noise enters the components that are reflected, or a mechanical system whose positions are bounded
        by impacts.
    *walls : Walls, or one Impact or more
        The bounded components and how they come back; a mapping component -> (low, high) reflects. Impacts are walls of
        any shape, fixed or moving, with any map of the state, located within the step.

    Returns
    -------
    Walled or Struck
        A problem for one-step methods; with walls that reflect, for those that step the state itself, such as
        EulerMaruyama, Heun or SRA1. Systems with joints take located impacts, by the methods for joints. At most weak
        order 1. With impacts a run shows two components more: how many `impacts` a path has had, and in how many steps
        it was at rest at a wall (`rests`).

    Raises
    ------
    TypeError, ValueError
        If a wall does not fit the problem, or the problem already has further components.

    Examples
    --------
    >>> import stodyn as sd
    >>> free = sd.SDE(lambda t, x: -(x + 0.5), lambda t, x: 1.0, 0.5)
    >>> bounded = sd.with_walls(free, sd.Walls({"x": (0.0, None)}))
    """
    if isinstance(problem, Measured):
        raise TypeError(
            f"problem: a {type(problem).__name__} already has further components; put all walls around the "
            "problem itself, as in with_loop(with_walls(plant, ...), ...)"
        )
    expect_problem(problem)
    if not walls:
        raise TypeError("walls: expected at least one; write stodyn.Walls({'x': (0.0, None)}) or stodyn.Impact(...)")
    if isinstance(walls[0], Impact) or len(walls) > 1:
        return struck(problem, walls)  # type: ignore[arg-type]
    bounds = walls[0] if isinstance(walls[0], Walls) else Walls(walls[0])
    return struck(problem, bounds.impacts) if bounds.located else _walled(problem, bounds)


def _walled(problem: Any, walls: Walls) -> Walled:
    if walls.kind == "reflect" and not isinstance(problem, SDE):
        raise TypeError(
            f"problem: reflection takes an SDE whose noise enters the component, got a {type(problem).__name__}; "
            'for positions of a Mechanical give kind="impact"'
        )
    if walls.kind == "impact":
        check_strikable(problem)
        if problem.joints is not None:
            raise ValueError(
                "walls: a state that is mirrored after a step would leave the joints; give Walls(..., located=True), "
                "whose impacts keep them"
            )
    places = tuple(_place(problem, walls, of, pair) for of, pair in walls.bounds.items())
    if len({place[0] for place in places}) < len(places):
        raise ValueError(f"walls: a component is named twice in {list(walls.bounds)}")
    nothing = np.zeros((0, problem.n)), np.zeros((0, 0))
    walled = Walled(problem, *nothing, problem.components, problem.component_units, walls, places)
    if not problem.has_random_start:
        walled.example_start()
    return walled


def _place(problem: Any, walls: Walls, of: str | int, pair: tuple[Any, Any]) -> tuple[int, int, float, float]:
    try:
        gauge = Level(0.0, of).on(problem)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("of:", "walls:", 1)) from error
    i: Any = gauge.of
    low, high = -math.inf if pair[0] is None else float(pair[0]), math.inf if pair[1] is None else float(pair[1])
    if walls.kind == "impact":
        if i >= problem.N:
            raise ValueError(
                f"walls: {problem.components[i]} is a velocity; impacts are of positions, {problem.coordinates}"
            )
        return i, problem.N + i, low, high
    if gauge.known[0] != BRIDGE:
        raise ValueError(
            f"walls: noise does not enter {problem.components[i]} ({gauge.known[1]}), so it is struck, not "
            'reflected: write the system as a Mechanical and give kind="impact"'
        )
    return i, -1, low, high


def _check_pair(component: Any, pair: Any) -> None:
    words = f"walls: of {component!r} expected (low, high), numbers or None for a side without a wall, got {pair!r}"
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] is pair[1] is None:
        raise ValueError(words)
    for bound in pair:
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, (int, float, np.number))):
            raise ValueError(words)
        if bound is not None and not math.isfinite(bound):
            raise ValueError(words)
    if None not in pair and not pair[0] < pair[1]:
        raise ValueError(f"walls: of {component!r} they cross: low = {pair[0]:g} is not below high = {pair[1]:g}")
