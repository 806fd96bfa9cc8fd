"""Walls: components of the state that cannot pass a bound.

reflect   dX = f dt + g dW + dK, K grows only where X is at the wall (noise enters the component)
impact    x' = v, and at the wall v -> -e v (mechanics: noise enters velocities alone)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import Recommended, expect_problem
from stodyn.problems.driven import longest_step
from stodyn.problems.impact import Impact, Restitution, Struck, check_restitution, check_strikable, struck
from stodyn.problems.level import BRIDGE, Level
from stodyn.problems.measured import Measured
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import WallsNotResolved

KINDS = ("reflect", "impact")
# Where the stationary mean (over its deviation) or variance is 2 % off, measured in boxes and at single walls:
LIFTED_STEP = 0.6  # lifted, deviation of a step over the width of the box: .5 gives .7 %, .7 2.9 %, 1 5 %
FOLDED_STEP = 0.015  # folded, (drift towards a wall)² h/(noise)²: .01 gives 1.7 % in the mean, .04 5 %, .16 16 %
NOISE_CHANGE = 0.12  # relative, of the noise within a step's deviation of a wall: .13 gives 2.5 %, .2 6 %, .3 13 %
DRIFT_CHANGE = 0.15  # of the drift there, times √h/noise, by SRA1: .12 gives 1.7 %, .25 3 to 4 %, .5 8 to 12 %
PLACES = 33  # at which drift and noise are looked at, evenly over a box, and ever closer to each wall
NEAREST = 1e-4  # of these, to a wall, over the width or the deviation of a step


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
        than 2 %: steps so long that noise or drift change on the way from a wall, lifted ones that reach across the
        box, folded ones against a drift towards the wall.

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


class _Rates(NamedTuple):
    """Drift and noise of a component at places between its walls."""

    low: float
    high: float
    places: np.ndarray
    drift: np.ndarray
    noise: np.ndarray

    def at(self, place: float) -> tuple[float, float]:
        """Drift and noise at one place."""
        return float(np.interp(place, self.places, self.drift)), float(np.interp(place, self.places, self.noise))


@dataclasses.dataclass(frozen=True, eq=False)
class Walled(Measured):
    """A problem with walls; made by `with_walls`. It shows exactly the components of the problem.

    places  (component, its velocity or -1, low, high) of each component with a wall; ±inf for a side without one
    """

    walls: Walls
    places: tuple[tuple[int, int, float, float], ...]

    made_by = "with_walls"

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
        draws = self.walls.draw
        for i, _, low, high in self.places:
            rates = self._rates_along(i, low, high, h)
            reasons = _reasons(rates, draws, h)
            if not reasons:
                continue
            step = longest_step(lambda shorter: bool(_reasons(rates, draws, shorter)), h)
            other = "" if draws or _reasons(rates, True, h) else ", or draw=True"
            tell(
                f"dt: steps of {h:g} are long for the walls of {self.components[i]} at ({low:g}, {high:g}): "
                f"{'; '.join(reasons)}; the {'lifted' if draws else 'folded'} step biases its law by more than 2 %. "
                f"Take {'smaller steps' if step is None else f'steps of {step:g} or less'}{other}.",
                WallsNotResolved,
            )

    def _rates_along(self, i: int, low: float, high: float, h: float) -> _Rates:
        """Drift and noise of a component between its walls, the others at the start."""
        start = np.array(self.example_start(), float)

        def rates(place: Any) -> Any:
            params, x = self.problem.example_params(), jnp.asarray(start).at[i].set(place)
            (drift,), (row,) = (of(0.0, x, params, (i,)) for of in (self.problem.mean_rates, self.problem.noise_rows))
            return jnp.stack([drift, jnp.sqrt(jnp.sum(jnp.asarray(row) ** 2))])

        along, walls = AtPoints(rates, few=2), np.array([wall for wall in (low, high) if math.isfinite(wall)])
        length = high - low if math.isfinite(high - low) else math.sqrt(h) * along(walls)[:, 1].max() or 1.0
        away = length * np.concatenate([np.zeros(1), np.geomspace(NEAREST, 1.0, PLACES - 1)])
        places = np.unique(np.concatenate([np.add.outer(walls, sign * away).ravel() for sign in (1.0, -1.0)]
                                          + [np.linspace(walls[0], walls[0] + length, PLACES)]))  # fmt: skip
        places = places[(places >= low) & (places <= high)]
        return _Rates(low, high, places, *along(places).T)

    def before_run(self, t: float) -> tuple[str, ...]:
        rule = "mirrored after the step" if self.walls.kind == "impact" else "lifted" if self.walls.draw else "folded"
        names = ", ".join(f"{self.components[i]} in ({low:g}, {high:g})" for i, _, low, high in self.places)
        return (*self.problem.before_run(t), f"walls: {names}, {rule}; weak order 1 with walls")


def _reasons(rates: _Rates, draws: bool, h: float) -> list[str]:
    """Why a step is too long for the walls of a component, in words; `draws`: whether it is lifted, not folded."""
    width, largest, reasons = rates.high - rates.low, float(rates.noise.max()), []
    if draws and LIFTED_STEP * width < largest * math.sqrt(h):
        reasons.append(f"noise moves it by {largest * math.sqrt(h):.3g} in a step (its standard deviation)")
    for wall, inward in ((rates.low, 1.0), (rates.high, -1.0)):
        if not math.isfinite(wall):
            continue
        drift, noise = rates.at(wall)
        away = noise * math.sqrt(h)
        drift_away, noise_away = rates.at(float(np.clip(wall + inward * away, rates.low, rates.high)))
        if not draws and inward * drift < 0.0 and drift**2 * h > FOLDED_STEP * noise**2:
            reasons.append(f"the drift at {wall:g} is {drift:.3g}, with noise of {noise:.3g}")
        if abs(noise_away - noise) > NOISE_CHANGE * noise:
            reasons.append(f"within {away:.2g} of {wall:g}, a step's standard deviation, the noise goes from "
                           f"{noise:.3g} to {noise_away:.3g}")  # fmt: skip
        if abs(drift_away - drift) * h > DRIFT_CHANGE * away:
            reasons.append(f"within {away:.2g} of {wall:g}, a step's standard deviation, the drift goes from "
                           f"{drift:.3g} to {drift_away:.3g}")  # fmt: skip
    return reasons


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
        EulerMaruyama, Heun or SRA1. Systems with joints take located impacts, by the methods for joints, and so do
        systems with hysteretic elements or coloured noise, whose states do not jump: with_walls(with_noise(...), ...),
        by methods of the α family. At most weak order 1. With impacts a run shows two components more: how many
        `impacts` a path has had, and in how many steps it was at rest at a wall (`rests`).

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
        if problem.n != 2 * problem.N:
            raise ValueError(
                "walls: mirroring takes a system whose state is positions and velocities; beside hysteretic elements "
                "and coloured noise give Walls(..., located=True)"
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
