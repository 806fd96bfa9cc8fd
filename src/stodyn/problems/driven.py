"""Problems driven by coloured noise, written with white noise: the filter's state joins the problem's own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from stodyn.arguments import suggestion
from stodyn.noise.coloured import Coloured
from stodyn.noise.coloured.delay import Delayed
from stodyn.noise.from_normals import FromNormals
from stodyn.noise.source import joined, source_of
from stodyn.numerics import lyapunov, uncompiled, van_loan
from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.problems.calling import call
from stodyn.problems.contract import WITHOUT_AREAS, expect_problem, param_units, returned_shape, written_as
from stodyn.problems.linear import GaussianStart
from stodyn.problems.measured import Measured
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import NoiseNotDelivered, ResponseNotDelivered

NOTABLE = 0.02  # relative error of the noise's variance above which a run warns
NOTABLE_RESPONSE = 0.05  # the same for the variance of what noise drives
IN_THE_LONG_RUN = "in the long run"
LINEARISED = ", by the equations linearised about their start"
MOST_HALVINGS = 24  # of a step, in search of one that is short enough
SLOW = 1e-6  # a rate of decay, relative to the fastest, that counts as zero


@dataclasses.dataclass(frozen=True, eq=False)
class Driven(SDE):
    """An SDE with coloured noise in it, made by `with_noise`.

    own    the problem's own equations of x alone, whose params are {"own": its params, "noise": y}
    noise  the noise that drives it
    """

    own: Any = None
    noise: Any = None

    made_by = "stodyn.with_noise(sde, noise, into)"

    def check_step(self, method: Any, h: float) -> None:
        """Warn where the method's own step gives the noise, or what it drives, another variance; refuse where it makes
        the noise grow."""
        delivered = delivered_variance(method, self.noise, h)
        if delivered is None:
            return
        ratios = delivered / self.noise.variance
        worst = int(np.argmax(np.abs(ratios - 1.0)))
        if abs(ratios[worst] - 1.0) <= NOTABLE:
            self.check_response(method, h)
            return
        if math.isinf(ratios[worst]):
            remedy = self._exact_noise(method)
            raise ValueError(f"dt: {method.name} makes the coloured noise grow with steps of {h:g}. {remedy}")
        compared = self.response(method, h)
        response = None if compared is None else response_in_words(*compared, self.components)
        also = "" if response is None else f", and that of {response[0]} {IN_THE_LONG_RUN} {response[1]}{LINEARISED}"
        of_response = 0.0 if compared is None else largest_error(*compared)
        rests_on_steps = of_response > max(abs(ratios[worst] - 1.0), NOTABLE_RESPONSE)
        remedy = self._shorter_steps(method, h) if rests_on_steps else self._exact_noise(method)
        tell(
            f"dt: with steps of {h:g} {method.name} makes the variance of {self.noise.names[worst]} "
            f"{_percent(ratios[worst])}{also}. {remedy}",
            NoiseNotDelivered,
        )

    def _exact_noise(self, method: Any) -> str:
        """What helps where the noise alone is wrong, in words."""
        rate = np.abs(np.linalg.eigvals(self.noise.A)).max()
        one_step = "Heun" if method.starting_steps else method.name
        return (
            f"The filter of the noise has rates up to {rate:.3g}: take smaller steps, or keep the noise exact at any "
            f"step by stodyn.ExactNoise({one_step!r}){by_van_loan(self, 'or by')}."
        )

    def _shorter_steps(self, method: Any, h: float) -> str:
        """What helps where the response is wrong by more than the noise, in words."""

        def is_off(shorter: float) -> bool:
            delivered = delivered_variance(method, self.noise, shorter)
            is_noise = delivered is not None and np.abs(delivered / self.noise.variance - 1.0).max() <= NOTABLE
            return not is_noise or self._is_off(method, shorter)

        return (
            f"Take {steps_in_words(longest_step(is_off, h))}, with which the noise is right to {100.0 * NOTABLE:g} % "
            f"and what it drives to {100.0 * NOTABLE_RESPONSE:g} %{by_van_loan(self)}."
        )

    def check_response(self, method: Any, h: float) -> None:
        """Warn where the method's own step gives driven components, linearised about the start, a wrong variance."""
        compared = self.response(method, h)
        if compared is not None and response_in_words(*compared, self.components) is not None:
            longest = longest_step(lambda shorter: self._is_off(method, shorter), h)
            remedy = by_van_loan(self)
            warn_of_response(method, h, compared, self.components, IN_THE_LONG_RUN, longest, LINEARISED, remedy)

    def _is_off(self, method: Any, h: float) -> bool:
        compared = self.response(method.with_steps(h) if hasattr(method, "with_steps") else method, h)
        return compared is None or response_in_words(*compared, self.components) is not None

    def response(self, method: Any, h: float) -> tuple[np.ndarray, np.ndarray] | None:
        """The variances in the long run as they are delivered and as they are, linearised about the start."""
        linear = self.about_the_start()
        exact = linear.stationary_variance()
        delivered = None if exact is None else linear.delivered(method, h)
        if exact is None or delivered is None:
            return None
        n = linear.own.n
        return delivered[:n], exact[:n]

    def about_the_start(self) -> Driven:
        """The equations linearised about the start of x without coloured noise, with their own noise as it is there."""
        A, G, b = self.slopes_at_the_start()
        linear = SDE(lambda t, x: A @ x, lambda t, x: jnp.asarray(b), np.zeros(len(A)), None, self.calculus,
                     structure="additive")  # fmt: skip
        return driven(linear, self.noise, G)

    def slopes_at_the_start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, G and b of dx = (A x + G y) dt + b dW, the equations linearised about the start without coloured noise."""
        own, p = self.own, len(self.noise.C)
        x = np.asarray(self.example_start()[: own.n], float)
        inner_params = {"own": self.example_params(), "noise": np.zeros(p)}
        with jax.enable_x64(True):
            A = uncompiled.value(jax.jacfwd(lambda x: own.f(0.0, x, inner_params)), x)
            G = uncompiled.value(jax.jacfwd(lambda y: own.f(0.0, x, inner_params | {"noise": y})), np.zeros(p))
            b = uncompiled.value(lambda x: own.g(0.0, x, inner_params), x)
        return A, G, b

    def stationary_variance(self) -> np.ndarray | None:
        """The variance of each component of a linear problem in the long run; None where it keeps growing."""
        x = np.zeros(self.n)
        with jax.enable_x64(True):
            A, B = (
                uncompiled.value(jax.jacfwd(lambda x: self.f(0.0, x, None)), x),
                uncompiled.value(lambda x: self.g(0.0, x, None), x),
            )
        rates = np.linalg.eigvals(A)
        if not np.isfinite(A).all() or rates.real.max() >= -SLOW * np.abs(rates).max():
            return None
        try:
            return np.diagonal(lyapunov.continuous(A, B @ B.T))
        except ValueError:  # modes that decay no faster than rounding lets them: nothing is known of the long run
            return None

    def delivered(self, method: Any, h: float) -> np.ndarray | None:
        """The variance of each component of a linear problem in the long run, as a method steps it; None where that
        grows or is not known."""
        covariance = _delivered(method.on(self) if hasattr(method, "on") else method, self, h)
        return None if covariance is None or not np.isfinite(covariance).all() else np.diagonal(covariance)


def warn_of_response(
    method: Any, h: float, compared: tuple[np.ndarray, np.ndarray], components: Sequence[str], when: str,
    longest: float | None, basis: str, remedy: str,
) -> None:  # fmt: skip
    """Warn where variances, as a method delivers them and as they are, differ; `longest`: the longest step with which
    they do not, where it is known; basis: what they are computed from; remedy: a method that is right, in words."""
    worst = response_in_words(*compared, components)
    if worst is None:
        return
    component, share = worst
    by_steps, true = (variances[list(components).index(component)] for variances in compared)
    tell(
        f"dt: with steps of {h:g} {method.name} makes the variance of {component} {when} {share}{basis}: "
        f"{by_steps:.3g}, but it is {true:.3g}. Take {steps_in_words(longest)}, with which all are right to "
        f"{100.0 * NOTABLE_RESPONSE:g} %{remedy}.",
        ResponseNotDelivered,
    )


def by_van_loan(problem: Any, words: str = "or") -> str:
    """The method that is exact for linear problems, in words; none where parameters differ between paths, which it
    refuses."""
    return "" if problem.has_random_params else f", {words} VanLoan where the problem is linear"


def steps_in_words(longest: float | None) -> str:
    """The longest step that is right, where it is known."""
    return "smaller steps" if longest is None else f"steps of {longest:g} or less"


def longest_step(is_off: Callable[[float], bool], h: float) -> float | None:
    """The longest step below h that is not off, to some percent, rounded down; None where no such step is found."""
    halvings = next((k for k in range(1, MOST_HALVINGS) if not is_off(h / 2.0**k)), None)
    if halvings is None:
        return None
    good, bad = float(halvings), halvings - 1.0
    for _ in range(4):
        middle = 0.5 * (good + bad)
        good, bad = (good, middle) if is_off(h / 2.0**middle) else (middle, bad)
    step = h / 2.0**good
    unit = 10.0 ** (math.floor(math.log10(step)) - 1)
    return math.floor(step / unit) * unit


def response_in_words(
    delivered: np.ndarray, exact: np.ndarray, components: Sequence[str], notable: float = NOTABLE_RESPONSE
) -> tuple[str, str] | None:
    """The component whose variance is most wrong, and by how much; None where none is notably wrong.

    A component that noise does not move has a variance of rounding alone, relative to the largest, and counts as right.
    """
    ratios = _ratios(delivered, exact)
    worst = int(np.argmax(np.abs(ratios - 1.0)))
    if abs(ratios[worst] - 1.0) <= notable:
        return None
    return components[worst], _percent(ratios[worst])


def _ratios(delivered: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Variances over exact ones; 1 where noise does not move a component."""
    moves = exact > len(exact) * np.finfo(float).eps * exact.max(initial=0.0)
    return np.divide(delivered, exact, out=np.ones(len(exact)), where=moves)


def largest_error(delivered: np.ndarray, exact: np.ndarray) -> float:
    """The largest relative error of variances that a method delivers."""
    return float(np.abs(_ratios(delivered, exact) - 1.0).max())


def _percent(ratio: float) -> str:
    return f"{100.0 * abs(ratio - 1.0):.3g} % too {'large' if ratio > 1.0 else 'small'}"


def delivered_variance(method: Any, noise: Coloured, h: float) -> np.ndarray | None:
    """The variances (p,) of the noise in the long run where a method steps its filter; inf where they grow.

    Exact, from the step itself on ds = A s dt + B dW. None for methods whose step NumPy cannot compute, such as
    those that iterate and those that take the whole grid at once.
    """
    A, B = noise.A, noise.B
    white = SDE(lambda t, s: A @ s, lambda t, s: jnp.asarray(B), np.zeros(len(A)), structure="additive",
                calculus=getattr(method, "calculus", None) or "ito")  # fmt: skip
    covariance = _delivered(method, white, h)
    if covariance is None or not np.isfinite(covariance).all():
        return None if covariance is None else np.full(len(noise.C), np.inf)
    return np.diagonal(noise.C @ covariance @ noise.C.T)


def _delivered(method: Any, problem: Any, h: float) -> np.ndarray | None:
    """The covariance (n, n) in the long run of a linear problem with additive noise, start 0, as a method steps it.

    Infinite where it grows; None where its step is not known.
    """
    matrices = step_matrices(method, problem, h)
    if matrices is None:
        return None
    M, G, R, D = matrices
    infinite = np.full((problem.n, problem.n), np.inf)
    if not np.abs(np.linalg.eigvals(M)).max() < 1.0:
        return infinite
    try:
        return lyapunov.discrete(M, G @ G.T, R) + D @ D.T
    except lyapunov.NotStable:  # to rounding
        return infinite
    except ValueError:  # numbers of 16 digits do not determine it
        return None


def step_matrices(method: Any, problem: Any, h: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """M, G, R and D of a method's step of a linear problem with additive noise, start 0: state' = M state + G ξ, which
    is read as R state + D ξ. None where the method makes no steps, or steps that NumPy cannot compute.
    """
    lowered = (problem, "") if isinstance(problem, method.accepts) else problem.lower(method.accepts)
    if lowered is None or not hasattr(method, "needs") or method.refusal(lowered[0]):
        return None
    problem = lowered[0]
    counts = method.needs.normals(problem.m)
    ends = np.cumsum(list(counts.values()))[:-1]
    with jax.enable_x64(True):
        start, state = ravel_pytree(method.start(problem, jnp.zeros(()), jnp.zeros(problem.n), None))

        def step(s, xi):
            normals = dict(zip(counts, jnp.split(xi, ends), strict=True))
            increment = method.needs.increment(jnp.asarray(h), normals, problem.m)
            after = method.step(problem, jnp.zeros(()), state(s), increment, None)[0]
            return ravel_pytree(after)[0], method.read(after)

        N, points = len(start), np.eye(len(start) + sum(counts.values()))
        inputs = points[:, :N], points[:, N:]
        try:
            after, shown = uncompiled.run(jax.make_jaxpr(jax.vmap(step))(*inputs), *inputs)
        except uncompiled.Compile:
            return None
    return after[:N].T, after[N:].T, shown[:N].T, shown[N:].T


def driven(problem: Any, noise: Coloured, into: Any) -> Driven:
    """Return a problem that is written as an SDE, with coloured noise in it, as `with_noise` describes it."""
    sde = _as_sde(problem)
    noise = noise.with_outputs_first()
    n, p = sde.n, len(noise.names)
    G = _input(sde, noise, into)
    quiet = _is_quiet(sde)
    A, B, C = noise.A, noise.B, noise.C
    m, r = (0 if quiet else sde.m), B.shape[1]

    def drift(t, z, params):
        x, s = z[:n], z[n:]
        return jnp.concatenate([sde.f(t, x, params) + jnp.reshape(G(t, x, params), (n, p)) @ (C @ s), A @ s])

    def diffusion(t, z, params):
        filtered = jnp.concatenate([jnp.zeros((n, r), z.dtype), jnp.asarray(B, z.dtype)])
        if quiet:
            return filtered
        own = sde.g(t, z[:n], params)
        return jnp.concatenate([jnp.concatenate([own, jnp.zeros((len(A), m), z.dtype)]), filtered], axis=1)

    def own_drift(t, x, inner_params):
        params, y = inner_params["own"], inner_params["noise"]
        return sde.f(t, x, params) + jnp.reshape(G(t, x, params), (n, p)) @ y

    def own_diffusion(t, x, inner_params):
        return sde.g(t, x, inner_params["own"])

    inner_params = {"own": sde.params, "noise": np.zeros(p)}
    own = SDE(own_drift, own_diffusion, np.zeros(n), inner_params, sde.calculus, structure=sde.structure)
    structure = sde.structure if sde.structure in ("additive", "commutative", "general", WITHOUT_AREAS) else None
    names = (*(sde.components or ()), *noise.state_names)
    if len(set(names)) < len(names):
        clashes = sorted(set(sde.components or ()) & set(noise.state_names))
        raise ValueError(
            f"noise: the problem already has components called {clashes}; rename the outputs with noise.named(...)"
        )
    return Driven(
        drift,
        diffusion,
        _start(sde, noise),
        sde.params,
        sde.calculus,
        names,
        {**(sde.component_units or {}), **param_units(problem)} or None,
        structure,
        own,
        noise,
    )


def _as_sde(problem: Any) -> SDE:
    if isinstance(problem, Measured):
        around = problem.made_by
        raise TypeError(f"problem: add noise before {around}: {around}(with_noise(problem, ...), ...)")
    expect_problem(problem)
    lowered = written_as(problem, SDE)
    if not isinstance(lowered, SDE):
        raise TypeError(f"problem: a {type(problem).__name__} cannot be written as an SDE, as coloured noise requires")
    return lowered


def _input(sde: SDE, noise: Coloured, into: Any) -> Callable:
    """G(t, x, params) from the argument `into`."""
    n, p = sde.n, len(noise.names)
    if callable(into):
        x = np.asarray(sde.example_start())
        with jax.enable_x64(True):
            shape = returned_shape(sde, "into", into, ("t", 0.0), ("x", x[0] if sde.scalar else x)).shape
        if shape not in [(n, p), *([(n,)] if p == 1 else []), *([()] if n == p == 1 else [])]:
            raise ValueError(
                f"into: returned shape {shape}, expected ({n}, {p}): one row per component, one column per output"
            )
        return lambda t, x, params: call(into, t, x[0] if sde.scalar else x, params=params)
    matrix = input_matrix(into, noise, Places("component", sde.components))
    return lambda t, x, params: matrix


class Places(NamedTuple):
    """Where noise may enter: components or coordinates by name, and what errors say further of one and of a matrix."""

    kind: str
    names: Sequence[str]
    about_one: str = ""
    about_matrix: str = ""

    def number(self, place: str | int) -> int:
        if isinstance(place, str):
            if place not in self.names:
                raise ValueError(
                    f"into: there is no {self.kind} {place!r}; the {self.kind}s are {', '.join(self.names)}"
                    f"{self.about_one or suggestion(place, self.names)}"
                )
            return list(self.names).index(place)
        if not 0 <= place < len(self.names):
            raise ValueError(f"into: there is no {self.kind} {place}; there are {len(self.names)}, counted from 0")
        return int(place)


def input_matrix(into: Any, noise: Coloured | Delayed, rows: Places) -> np.ndarray:
    """The argument `into`, places or a matrix, as a matrix with a column for each output of the noise."""
    n, p = len(rows.names), len(noise.names)
    places = (into,) if isinstance(into, (str, int, np.integer)) and not isinstance(into, bool) else into
    if isinstance(places, Sequence) and all(isinstance(place, (str, int, np.integer)) for place in places):
        if len(places) != p:
            raise ValueError(
                f"into: {len(places)} {rows.kind}(s) for the {p} output(s) {noise.names}; expected one per output"
            )
        matrix = np.zeros((n, p))
        for j, place in enumerate(places):
            matrix[rows.number(place), j] = 1.0
        return matrix
    matrix = np.asarray(into, float)
    matrix = matrix.reshape(n, 1) if matrix.shape in ((n,), ()) and p == 1 and matrix.size == n else matrix
    if matrix.shape != (n, p) or not np.isfinite(matrix).all():
        raise ValueError(
            f"into: expected a finite matrix of shape ({n}, {p}), a row for each of the {rows.kind}s {rows.names} and "
            f"a column for each of {noise.names}, got shape {matrix.shape}{rows.about_matrix}"
        )
    return matrix


def _is_quiet(sde: SDE) -> bool:
    """Whether the problem has no noise of its own: its diffusion is known to be zero."""
    try:
        noise = dependence(sde.g, np.zeros(()), np.asarray(sde.example_start()), sde.example_params())
    except Unprintable:
        return False
    return bool(noise.zero.all())


def _start(sde: SDE, noise: Coloured) -> Any:
    """The problem's own start and, independent of it, the filter's stationary law."""
    P, k = noise.state_covariance, len(noise.A)
    if isinstance(sde.start, GaussianStart):
        mean, own = sde.start.mean, sde.start.covariance
    elif isinstance(sde.start, FromNormals):
        return sde.start.followed_by(van_loan.root(P))
    elif sde.has_random_start:
        return joined([sde.start_source, source_of(GaussianStart(np.zeros(k), P))])
    else:
        mean, own = sde.example_start(), np.zeros((sde.n, sde.n))
    covariance = np.zeros((sde.n + k, sde.n + k))
    covariance[: sde.n, : sde.n], covariance[sde.n :, sde.n :] = own, P
    return GaussianStart(np.concatenate([mean, np.zeros(k)]), covariance)
