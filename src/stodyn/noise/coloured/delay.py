"""Coloured noise that arrives later elsewhere, exactly: the road under the rear axle, a wave along a row of supports.

What an output did in the last steps is held beside the state of the filter: its value at the start of each, its
integral over it, and the integral of that. A delay of k steps reads what entered k steps ago,

    y(t - k h),   ∫ y(u - k h) du,   ∫∫ y(u - k h) du      over a step,

so that the delayed noise has the same exact integrals as the noise itself, for delays of whole numbers of steps.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from stodyn.arguments import check_positive, checks_arguments
from stodyn.noise.coloured.process import Coloured, stacked

WHOLE = 1e-9  # relative: a delay this close to a whole number of steps is one
HELD = 3  # numbers of an output and a step: its value, its integral, the integral of that
LONGEST = 400  # steps that are held: the root of their covariance takes seconds beyond


class Late(NamedTuple):
    """Which output of the noise, by its number, and by how many steps it is late."""

    output: int
    steps: int


@dataclasses.dataclass(frozen=True, eq=False)
class Delayed:
    """Outputs of coloured noise that arrive late by whole numbers of steps of length dt, made by `delayed`.

    Parameters
    ----------
    noise : Coloured
        The noise.
    late : tuple of Late
        Which of its outputs each output is, and how many steps later.
    dt : float
        The length of the steps of a run.
    names : tuple of str
        The names of the outputs.
    """

    noise: Coloured
    late: tuple[Late, ...]
    dt: float
    names: tuple[str, ...]

    @functools.cached_property
    def held(self) -> tuple[int, ...]:
        """How many steps of each output of the noise are held."""
        counts = [0] * len(self.noise.C)
        for output, steps in self.late:
            counts[output] = max(counts[output], steps)
        return tuple(counts)

    @property
    def delays(self) -> np.ndarray:
        """How late each output is."""
        return self.dt * np.array([steps for _, steps in self.late])

    @property
    def states(self) -> int:
        """How many numbers hold the noise and its past."""
        return len(self.noise.A) + HELD * sum(self.held)

    def place(self, output: int, steps: int) -> int:
        """Where the numbers of an output some steps ago begin."""
        return len(self.noise.A) + HELD * (sum(self.held[:output]) + steps - 1)

    @functools.cached_property
    def C(self) -> np.ndarray:
        """The matrix (outputs, states) that reads the outputs."""
        rows = np.zeros((len(self.late), self.states))
        for row, (output, steps) in zip(rows, self.late, strict=True):
            if steps:
                row[self.place(output, steps)] = 1.0
            else:
                row[: len(self.noise.A)] = self.noise.C[output]
        return rows

    @property
    def state_names(self) -> tuple[str, ...]:
        """The filter's states, then the past of each output: a delayed output is called by its own name."""
        called = {self.place(*late): name for late, name in zip(self.late, self.names, strict=True) if late.steps}
        names = list(self.noise.state_names)
        for (output, name), count in zip(enumerate(self.noise.names), self.held, strict=True):
            for steps in range(1, count + 1):
                past = f"{name}[-{steps}]"
                names += [called.get(self.place(output, steps), past), f"∫{past}", f"∫∫{past}"]
        return tuple(names)

    def with_outputs_first(self) -> Delayed:
        """The same noise with its filter in coordinates whose first states are the outputs, where these are
        independent."""
        return dataclasses.replace(self, noise=self.noise.with_outputs_first())

    @property
    def undelayed(self) -> Coloured:
        """Noise with as many outputs of the same laws, which arrive at once and are independent of each other."""
        copies = stacked(
            *(self.noise.named(*(f"{j}.{i}" for i in range(len(self.noise.C)))) for j in range(len(self.late)))
        )
        pick = [j * len(self.noise.C) + output for j, (output, _) in enumerate(self.late)]
        return copies.mixed(np.eye(len(copies.C))[pick], self.names)

    def integrals(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Return those of the noise itself, for `advanced`; h must be dt."""
        if abs(h - self.dt) > WHOLE * self.dt:
            raise ValueError(
                f"dt: the past of {', '.join(self.names)} is held in steps of {self.dt:g}, got steps of {h:g}; "
                f"run with dt={self.dt:g}, or make the noise with noise.coloured.delayed(..., dt={h:g})"
            )
        return self.noise.integrals(h)

    def advanced(self, law: tuple[Array, Array], s: Array, ξ: Array) -> tuple[Array, Array, Array]:
        """Return the states after a step, and ∫y and ∫∫y of all outputs over it."""
        k = len(self.noise.A)
        now, once, twice = self.noise.advanced(law, s[:k], ξ)
        y, parts = jnp.asarray(self.noise.C, s.dtype) @ s[:k], [now]
        for output, count in enumerate(self.held):
            if count:
                first = self.place(output, 1)
                newest = jnp.stack([y[output], once[output], twice[output]])
                parts += [newest, s[first : first + HELD * (count - 1)]]
        over_once, over_twice = (
            jnp.stack([
                s[self.place(output, steps) + 1 + i] if steps else integral[output] for output, steps in self.late
            ])
            for i, integral in enumerate((once, twice))
        )  # fmt: skip
        return jnp.concatenate(parts), over_once, over_twice

    @functools.cached_property
    def state_covariance(self) -> np.ndarray:
        """The covariance of the filter's state and of all that is held of its past, in the stationary law."""
        P, k, p = self.noise.state_covariance, len(self.noise.A), len(self.noise.C)
        own, root = self.noise.integrals(self.dt)
        Phi, longest = own[:k], max(self.held)
        read = np.concatenate([self.noise.C, own[k:]])  # (y, ∫y, ∫∫y) over a step from the state at its start
        fresh = np.concatenate([np.zeros((p, root.shape[1])), root[k:]])
        at_once = read @ P @ read.T + fresh @ fresh.T
        after = [Phi @ P @ read.T + root[:k] @ fresh.T]  # of the state 1, 2, ... steps after with those of a step
        for _ in range(longest - 1):
            after.append(Phi @ after[-1])
        apart = [at_once, *(read @ each for each in after[:-1])]  # of a step with an earlier one
        places = [(output, steps) for output, count in enumerate(self.held) for steps in range(1, count + 1)]
        whole = np.zeros((self.states, self.states))
        whole[:k, :k] = P
        for output, steps in places:
            first = self.place(output, steps)
            whole[:k, first : first + HELD] = after[steps - 1][:, output::p]
            whole[first : first + HELD, :k] = whole[:k, first : first + HELD].T
            for other, earlier in places:
                if earlier >= steps:
                    second, block = self.place(other, earlier), apart[earlier - steps][output::p, other::p]
                    whole[first : first + HELD, second : second + HELD] = block
                    whole[second : second + HELD, first : first + HELD] = block.T
        return whole


@checks_arguments
def delayed(noise: Coloured, by: ArrayLike, dt: float, names: Sequence[str] | None = None) -> Delayed:
    """Make coloured noise arrive at several places one after the other: y(t - by), for loads on structures.

    The past of the noise is held in the state of the problem, so that the delay is exact, and the start is drawn from
    the stationary law of the noise and its past together. `with_noise` and `base_excited` take the result for
    mechanical systems, with a column for each output; the run then takes steps of dt.

    Parameters
    ----------
    noise : Coloured
        The noise, with one or several outputs.
    by : float or sequence of floats
        The delays in units of time, >= 0, each a whole number of steps; all outputs of the noise arrive after each.
    dt : float
        The length of the steps of the run.
    names : sequence of str, optional
        The names of the outputs, delay by delay; by default those of the noise where there is one delay, else those
        followed by the number of the delay, from 0.

    Returns
    -------
    Delayed

    Raises
    ------
    ValueError
        If a delay is negative or no whole number of steps, or names are missing.

    Examples
    --------
    >>> import stodyn as sd
    >>> road = sd.noise.coloured.iso_road("B", speed=20.0)
    >>> axles = sd.noise.coloured.delayed(road, by=[0.0, 0.12], dt=0.01)
    >>> axles.names
    ('road0', 'road1')
    """
    check_positive(dt=dt)
    times = np.atleast_1d(np.asarray(by, float))
    if times.ndim != 1 or not len(times) or not (np.isfinite(times).all() and (times >= 0).all()):
        raise ValueError(f"by: expected one or several delays >= 0, got {by!r}")
    steps = np.rint(times / dt)
    off = np.abs(times - steps * dt) > WHOLE * times
    if off.any():
        worst = times[off][0]
        fits = [worst / count for count in (np.floor(worst / dt), np.ceil(worst / dt)) if count]
        raise ValueError(
            f"by: a delay of {worst:g} is {worst / dt:.6g} steps of {dt:g}, expected a whole number; steps of "
            f"{' or '.join(f'{step:.12g}' for step in fits)} divide it"
        )
    if steps.max() > LONGEST:
        raise ValueError(
            f"by: a delay of {times.max():g} is {steps.max():.0f} steps, expected at most {LONGEST}, all of which are "
            f"held; take a dt of {times.max() / LONGEST:g} or more"
        )
    p = len(noise.names)
    default = noise.names if len(times) == 1 else tuple(f"{name}{i}" for i in range(len(times)) for name in noise.names)
    called = default if names is None else tuple(names)
    if len(called) != p * len(times) or len(set(called)) < len(called):
        raise ValueError(f"names: expected {p * len(times)} different names, one per output and delay, got {called}")
    return Delayed(noise, tuple(Late(i, int(k)) for k in steps for i in range(p)), float(dt), called)


def beside_each_other(first: Coloured | Delayed, second: Coloured | Delayed) -> Coloured | Delayed:
    """Put two independent noises side by side, late ones with others."""
    if isinstance(first, Coloured) and isinstance(second, Coloured):
        return stacked(first, second)
    lengths = [noise.dt for noise in (first, second) if isinstance(noise, Delayed)]
    if abs(lengths[0] - lengths[-1]) > WHOLE * lengths[0]:
        raise ValueError(f"noise: delays are held in steps of {lengths[0]:g} and of {lengths[-1]:g}; give both one dt")
    one, other = (
        noise if isinstance(noise, Delayed)
        else Delayed(noise, tuple(Late(i, 0) for i in range(len(noise.C))), lengths[0], noise.names)
        for noise in (first, second)
    )  # fmt: skip
    count = len(one.noise.C)
    late = (*one.late, *(Late(count + output, steps) for output, steps in other.late))
    return Delayed(stacked(one.noise, other.noise), late, lengths[0], (*one.names, *other.names))
