"""Quantities that a step may preserve: symplectic form, phase-space volume, momentum maps, energy; all measured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.engine.simulate import simulate
from stodyn.engine.spec import as_it_is_now, matched
from stodyn.hints import Count, Integer, Reals, whole
from stodyn.methods import variational
from stodyn.methods.catalogue import catalogue, stepping
from stodyn.methods.contract import Method
from stodyn.noise.increment import Increment
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.linear_plant import refuse_random_params
from stodyn.statistics.change import Change
from stodyn.statistics.observable import Observable

__dir__ = listing.names_of(__name__)

LONGER = 4.0  # times as long a step shows the defects of methods of high order, which look like rounding in a short one
TOLERANCE = 1e-12  # a defect of a 64-bit step below it counts as none: above rounding by what Newton leaves


@checks_arguments
def draw_increment(method: Method | str, m: int, dt: float, seed: int = 0) -> Increment:
    """Draw one increment of the noise that a method needs, over a step dt, that moves every channel.

    A three-point draw is zero two times in three, and a step without noise would show nothing: such draws are skipped.

    Parameters
    ----------
    method : Method or str
        A method that makes steps, or its name.
    m : int
        The number of channels.
    dt : float
        The length of the step.
    seed : int
        The seed of the draw.

    Returns
    -------
    Increment
    """
    rng, needs = np.random.default_rng(seed), stepping(method).needs
    while True:
        normals = {name: rng.standard_normal(count) for name, count in needs.normals(m).items()}
        noise = at_one(lambda h, normals: needs.increment(h, normals, m), float(dt), normals)
        if np.all(noise.W):
            return noise


@checks_arguments
def jacobian(problem: Any, method: Method | str, x: Any, noise: Increment, t: float = 0.0) -> np.ndarray:
    """Compute ∂(q', p')/∂(q, p) of one step by automatic differentiation through the step itself.

    Parameters
    ----------
    problem : Hamiltonian or another problem of (q, p)
        It is lowered as in a run. Its parameters must be numbers: random ones are refused.
    method : Method or str
        A method that makes steps, or its name.
    x : array (2N,)
        The state (2N,) at which the step begins.
    noise : Increment
        The increment of the step, as `draw_increment` makes one.
    t : float
        The time at which it begins.

    Returns
    -------
    array (2N, 2N)
    """
    return jacobians(problem, method, np.asarray(x, float)[None], noise, t)[0]


@checks_arguments
def jacobians(
    problem: Any, method: Method | str, x: np.ndarray, noise: Increment, t: float = 0.0, of_noises: bool = False
) -> np.ndarray:
    """Compute the Jacobians of a step at several states, or at one state for several increments.

    Parameters
    ----------
    problem, method, t
        As in `jacobian`.
    x : array (states, 2N)
        The states at which the step begins; with `of_noises`, one state (2N,).
    noise : Increment
        The increment of the step; with `of_noises`, increments with a leading axis.
    of_noises : bool
        Whether the increments vary, not the states.

    Returns
    -------
    array (states, 2N, 2N)
        With `of_noises`, the increments come first instead.
    """
    step, problem = stepping(method), as_it_is_now(problem)
    refuse_random_params("problem", problem)
    stepped, _ = matched(problem, step)
    params = problem.example_params()

    def after(t, x, noise):
        return step.read(step.step(stepped, t, step.start(stepped, t, x, params), noise, params)[0])

    along = (None, None, 0) if of_noises else (None, 0, None)
    return at_points(jax.jacfwd(after, argnums=1), np.asarray(t, float), x, noise, in_axes=along)


@checks_arguments
def symplectic_form(N: int) -> np.ndarray:
    """Return Ω, the symplectic form of (q, p).

    Parameters
    ----------
    N : int
        The number of coordinates.

    Returns
    -------
    array (2N, 2N)
    """
    return np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(N))


@checks_arguments
def symplecticity_defect(problem: Any, method: Method | str, x: Any, noise: Increment, t: float = 0.0) -> float:
    """Compute max |Jᵀ Ω J - Ω| of one step, which is only rounding for a symplectic one.

    Parameters
    ----------
    problem, method, x, noise, t
        As in `jacobian`.

    Returns
    -------
    float
    """
    J, Ω = jacobian(problem, method, x, noise, t), symplectic_form(problem.n // 2)
    return float(np.abs(J.T @ Ω @ J - Ω).max())


class Conformal(NamedTuple):
    """c with Jᵀ Ω J ≈ c Ω, the largest entry of the difference, and the factor of the exact flow."""

    factor: float
    defect: float
    exact: float


@checks_arguments
def conformal_factor(problem: Hamiltonian, method: Method | str, x: Any, noise: Increment, t: float = 0.0) -> Conformal:
    """Compare the conformal factor of one step with exp(-ν_0 h - Σ ν_r W_r) of the flow, where forces are -ν_k p.

    Theorem 2.4 of Kraus & Tyranowski (2021).

    Parameters
    ----------
    problem : Hamiltonian
        A system with friction -ν p, ν a number for each channel.
    method, x, noise, t
        As in `jacobian`.

    Returns
    -------
    Conformal
        The factor, the defect, and the factor of the exact flow.

    Raises
    ------
    ValueError
        If a force is not -ν p, or parameters are random.
    """
    friction = frictions(problem)
    N = problem.n // 2
    if any(np.abs(Γ - Γ[0, 0] * np.eye(N)).max() > 0 for Γ in friction):
        raise ValueError("problem: a conformal flow has friction -ν p, ν a number, but here some Γ is another matrix")
    J, Ω = jacobian(problem, method, x, noise, t), symplectic_form(N)
    pulled = J.T @ Ω @ J
    c = float(np.sum(pulled * Ω) / np.sum(Ω * Ω))
    exact = np.exp(-sum(δ * Γ[0, 0] for δ, Γ in zip(_drivers(noise), friction, strict=True)))
    return Conformal(c, float(np.abs(pulled - c * Ω).max()), float(exact))


class Volume(NamedTuple):
    """det J of a step; that of the exact flow, exp(-tr γ); that of Störmer-Verlet, det(I - γ/2)/det(I + γ/2)."""

    step: float
    exact: float
    verlet: float


@checks_arguments
def volume_factor(problem: Hamiltonian, method: Method | str, x: Any, noise: Increment, t: float = 0.0) -> Volume:
    """Compute the factor by which a step changes phase-space volume where forces are -Γ_k p: γ = h Γ_0 + Σ W_r Γ_r.

    (2.43) of Kraus & Tyranowski (2021), and their (3.54) with the sign of γ corrected.

    Parameters
    ----------
    problem : Hamiltonian
        A system with friction -Γ p, Γ a constant matrix for each channel.
    method, x, noise, t
        As in `jacobian`.

    Returns
    -------
    Volume
        The factors of the step, of the exact flow and of Störmer-Verlet.
    """
    friction = frictions(problem)
    γ = np.tensordot(_drivers(noise), friction, axes=1)
    one = np.eye(len(γ))
    verlet = np.linalg.det(one - γ / 2) / np.linalg.det(one + γ / 2)
    ours = np.linalg.det(jacobian(problem, method, x, noise, t))
    return Volume(float(ours), float(np.exp(-np.trace(γ))), float(verlet))


@checks_arguments
def frictions(problem: Hamiltonian) -> list[np.ndarray]:
    """Return the matrices Γ_k of forces -Γ_k p, channel 0 being time.

    Parameters
    ----------
    problem : Hamiltonian
        The system.

    Returns
    -------
    list of array (N, N)

    Raises
    ------
    TypeError
        If the problem is not a Hamiltonian.
    ValueError
        If a force is not of this form, or parameters are random.
    """
    if not isinstance(problem, Hamiltonian):
        raise TypeError(f"problem: expected a Hamiltonian, got {type(problem).__name__}")
    refuse_random_params("problem", problem)
    matrices = []
    q, p = problem.split(np.asarray(problem.example_start(), float))
    params = problem.example_params()
    for k in range(problem.m + 1):
        depends = problem.facts.depends(k, "push")
        push = functools.partial(problem.push, k, 0.0)
        at_rest, slope = at_one(lambda q, p: (push(q, 0.0 * p, params), jax.jacfwd(push, 1)(q, p, params)), q, p)
        if depends.on_q or not depends.affine_p or np.any(at_rest):
            raise ValueError(
                f"problem: expected forces -Γ p, Γ a constant matrix; that of channel {k} is not of this form"
            )
        matrices.append(-slope)
    return matrices


def _drivers(noise: Increment) -> list[float]:
    return [float(np.asarray(noise.h)), *np.asarray(noise.W).tolist()]


# --- quasi-symplecticity ---------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """The measured defects of one method; None where the method does not take the problem.

    symplectic  max |Jᵀ Ω J - Ω| without forces (nonseparable where the method takes it)
    qs1         the same on the Langevin system without friction
    qs2         the spread of det J over states, with friction
    lengths     of the step that showed each of these
    """

    symplectic: float | None
    qs1: float | None
    qs2: float | None
    lengths: tuple[float, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the method takes none of the systems."""
        return self.symplectic is None and self.qs1 is None and self.qs2 is None

    @property
    def quasi_symplectic(self) -> bool | None:
        """QS1 and QS2 of G. N. Milstein & M. V. Tretyakov, IMA J. Numer. Anal. 23 (2003)."""
        if self.qs1 is None or self.qs2 is None:
            return None
        return self.qs1 < TOLERANCE and self.qs2 < TOLERANCE


@functools.cache
def langevin_system(friction: float) -> Hamiltonian:
    """Make (3.50) with two coordinates, a quartic potential and friction -Γ p, Γ = friction [[1, .3], [-.2, .8]]."""
    Γ = friction * np.array([[1.0, 0.3], [-0.2, 0.8]])
    return Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * jnp.sum(q**4) + 0.3 * q[0] * q[1],
        lambda t, q, p: -0.4 * q[0] - 0.2 * q[1],
        (lambda t, q, p: -(jnp.asarray(Γ) @ p)) if friction else None,
        start=([0.5, -0.3], [0.2, 0.6]),
    )


@functools.cache
def entangled_system() -> Hamiltonian:
    """Make a system of two coordinates without forces in which nothing is separable."""
    return Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * (q @ q) ** 2 + 0.1 * p[0] * q[1] ** 2,
        lambda t, q, p: 0.2 * jnp.sin(q[0]) * p[1] + 0.1 * q[1] * p[0] ** 2,
        start=([0.5, -0.3], [0.2, 0.6]),
    )


@checks_arguments
def verdict(method: Method | str, dt: float = 0.1) -> Verdict:
    """Measure the properties that a method preserves, at one draw of its noise and, for QS2, at four states.

    A defect that is no more than rounding is measured again over a step four times as long: methods of high order keep
    everything in short steps.

    Parameters
    ----------
    method : Method or str
        A method that makes steps, or its name.
    dt : float
        The length of the step.

    Returns
    -------
    Verdict
    """
    short = _verdict(stepping(method), dt)
    if all(value is None or value >= TOLERANCE for value in short):
        return Verdict(*short, (dt,) * 3)
    long = _verdict(stepping(method), LONGER * dt)
    shows = [now is not None and now < TOLERANCE <= (later or 0.0) for now, later in zip(short, long, strict=True)]
    form, qs1, qs2 = (later if is_shown else now for now, later, is_shown in zip(short, long, shows, strict=True))
    return Verdict(form, qs1, qs2, tuple(LONGER * dt if is_shown else dt for is_shown in shows))


def _verdict(step: Method, dt: float) -> tuple[float | None, float | None, float | None]:
    """The defects in one step of this length."""

    def measure(problem: Hamiltonian, ask: Callable[[Hamiltonian], float]) -> float | None:
        lowered = (problem, "") if isinstance(problem, step.accepts) else problem.lower(step.accepts)
        return None if lowered is None or step.refusal(lowered[0]) is not None else ask(problem)

    noise = draw_increment(step, 1, dt, seed=5)

    def defect(problem: Hamiltonian) -> float:
        return symplecticity_defect(problem, step, problem.example_start(), noise)

    def spread(problem: Hamiltonian) -> float:
        states = np.random.default_rng(0).standard_normal((4, problem.n))
        return float(np.ptp(np.linalg.det(jacobians(problem, step, states, noise))))

    free = langevin_system(0.0)
    return measure(entangled_system(), defect), measure(free, defect), measure(langevin_system(0.7), spread)


@checks_arguments
def verdicts(dt: float = 0.1, names: Sequence[str] | None = None) -> dict[str, Verdict]:
    """Measure `verdict` for the methods of the catalogue that take the systems.

    Parameters
    ----------
    dt : float
        The length of the step.
    names : sequence of str, optional
        The names of the methods; by default all that make steps.

    Returns
    -------
    dict
        Method name -> Verdict.
    """
    by_method = {}
    for name, method in catalogue().items():
        if isinstance(method, Method) and (names is None or name in names):
            result = verdict(method, dt)
            if not result.is_empty:
                by_method[name] = result
    return by_method


# --- momentum maps ---------------------------------------------------------------------------------------------------


class MomentumBalance(NamedTuple):
    """J_ξ after every step (steps + 1,), and the impulses of the discrete forces in each (steps,), where known."""

    momentum: np.ndarray
    impulses: np.ndarray | None

    @property
    def drift(self) -> float:
        """The largest distance |J_k - J_0| of the momentum from its value at the start."""
        return float(np.abs(self.momentum - self.momentum[0]).max())

    @property
    def defect(self) -> float:
        """max |J_(k+1) - J_k - impulse of the forces|: the discrete Noether balance (3.14)."""
        if self.impulses is None:
            raise ValueError("impulses: the method has no discrete forces; only those of methods.variational do")
        return float(np.abs(np.diff(self.momentum) - self.impulses).max())


@checks_arguments
def momentum_balance(
    problem: Hamiltonian,
    method: Method | str,
    generator: Callable[[Array], Array],
    *,
    dt: float,
    steps: int,
    seed: int = 0,
    params: Any = None,
) -> MomentumBalance:
    """Follow the momentum map J_ξ = p · ξ(q) of a symmetry, and F⁻ · ξ(q_k) + F⁺ · ξ^p(q_(k+1), p_(k+1)), along a path.

    Parameters
    ----------
    problem : Hamiltonian
        The system.
    method : Method or str
        A method that makes steps, or its name.
    generator : function ξ(q) -> (N,)
        How an infinitesimal transformation of the symmetry moves q, e.g. (-q_y, q_x) for rotations.
    dt : float
        The length of the steps.
    steps, seed : int
        The number of steps, and the seed of the path's noise.
    params : pytree, optional
        Numbers in place of the problem's own params; needed where these are random.

    Returns
    -------
    MomentumBalance

    Raises
    ------
    TypeError
        If the generator is not a function.
    ValueError
        If the generator does not return a vector of the shape of q, or parameters are random.
    """
    if not callable(generator):
        raise TypeError(f"generator: expected a function ξ(q), got {generator!r}. For a matrix A: lambda q: A @ q")
    step, problem = stepping(method), as_it_is_now(problem)
    N = problem.n // 2
    with jax.enable_x64(True):
        shape = jax.eval_shape(lambda q: jnp.asarray(generator(q)), jax.ShapeDtypeStruct((N,), np.float64)).shape
        if shape != (N,):
            raise ValueError(f"generator: returned shape {shape} for q of shape ({N},), expected ({N},)")
    rng = np.random.default_rng(seed)
    normals = {name: rng.standard_normal((steps, count)) for name, count in step.needs.normals(problem.m).items()}
    noise = at_points(lambda h, z: step.needs.increment(h, z, problem.m), np.full(steps, float(dt)), normals)
    if params is None:
        refuse_random_params("problem", problem)
        params = problem.example_params()
    states = _states(problem, step, noise, params)

    def momentum(x):
        q, p = problem.split(x)
        return p @ generator(q)

    momenta = at_points(momentum, states)
    if not isinstance(step, variational.LagrangeDAlembert):
        return MomentumBalance(momenta, None)
    pieces = variational.discrete(problem, step).pieces

    def impulse(t, x, x_next, noise, params):
        q, (q_next, p_next) = problem.split(x)[0], problem.split(x_next)
        _, _, plus, minus = pieces(t, q, p_next, noise, params)
        lifted = -jax.grad(lambda q: p_next @ generator(q))(q_next)
        return minus @ generator(q) + plus @ lifted

    along = dt * np.arange(steps), states[:-1], states[1:], noise
    return MomentumBalance(momenta, at_points(impulse, *along, params, in_axes=(0, 0, 0, 0, None)))


def _states(problem: Hamiltonian, method: Method, noise: Increment, params: Any) -> np.ndarray:
    """The states (steps + 1, n) of a path from the start of the problem, along increments with a leading axis."""
    stepped, _ = matched(problem, method)

    def begun(x, params):
        state = method.start(stepped, 0.0, x, params)
        return state, method.read(state)

    def after(t, state, noise, params):
        with underived():
            state, _ = method.step(stepped, t, state, noise, params)
        return state, method.read(state)

    advanced, t = AtPoints(after, (None, 0, 0, None)), 0.0
    state, x = at_points(begun, np.asarray(problem.example_start(), float)[None], params, in_axes=(0, None))
    states = [x[0]]
    for k, h in enumerate(np.asarray(noise.h)):
        piece = jax.tree.map(lambda a, k=k: a[k : k + 1], noise)
        state, x = advanced(np.asarray(t), state, piece, params)
        states.append(x[0])
        t += float(h)
    return np.stack(states)


# --- energy ----------------------------------------------------------------------------------------------------------


@checks_arguments
def energy_of(problem: Hamiltonian) -> Callable[..., Array]:
    """Return H as a function of (t, x[, params]), for statistics.

    Parameters
    ----------
    problem : Hamiltonian
        The system.

    Returns
    -------
    callable

    Raises
    ------
    TypeError
        If the problem is not a Hamiltonian.
    """
    if not isinstance(problem, Hamiltonian):
        raise TypeError(
            f"problem: expected a Hamiltonian, whose energy is known, got {type(problem).__name__}. Of another "
            "problem, collect statistics.Change(energy), with its energy as a function of (t, x[, params])"
        )
    return lambda t, x, params: problem.energy(0, t, *problem.split(x), params)


@checks_arguments
def energy_drift(
    problem: Hamiltonian,
    method: Method | str,
    *,
    t: Reals,
    dt: float,
    paths: Count,
    seed: Integer,
    saves: Count = 50,
) -> xr.Dataset:
    """Measure how far the energy moves over a long run: the means of H(t) and of H(t) - H(0) over the paths.

    Parameters
    ----------
    problem : Hamiltonian
        The system.
    method, t, dt, paths, seed
        As in `simulate`.
    saves : int
        The number of times that are stored.

    Returns
    -------
    xarray.Dataset
        Over time: energy, energy_stderr, drift, drift_stderr, drift_rms (of H(t) - H(0)) and drift_rms_stderr.
    """
    energy = energy_of(problem)
    steps = round((float(t[1]) - float(t[0])) / dt)
    every = max(steps // whole("saves", saves), 1)
    collected = [Observable(energy, name="energy", every=every), Change(energy, name="drift", every=every)]
    return simulate(problem, method, t=t, dt=dt, paths=paths, seed=seed, collect=collected)
