"""Coloured noise put into problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.noise.coloured import Coloured
from stodyn.noise.coloured.delay import Delayed
from stodyn.problems.driven import driven
from stodyn.problems.driven_mechanical import driven_mechanical
from stodyn.problems.mechanical import Mechanical


@checks_arguments
def with_noise(problem: Any, noise: Coloured, into: str | int | Sequence[str | int] | ArrayLike | Callable) -> Any:
    """Put coloured noise y into a problem: dx = (f + G y) dt + g dW, y = C s, ds = A s dt + B dW'.

    This is an exact rewriting as an SDE of (x, s) with white noise, for any method. s starts in its stationary law, and
    its first entries are y, so that the noise appears among the components of the result under its names. G y is an
    ordinary force, the same in both calculi; the problem's own white noise and its calculus stay as they are. Problems
    of other kinds are written as SDEs first (an SDAE without its algebraic components). For a linear problem the method
    VanLoan is exact at any step. Other methods treat the filter like any linear system, and a run warns where that puts
    the variance of the noise off by 2 %. With stodyn.ExactNoise(method) the noise is exact beside any method.

    A mechanical system stays mechanical: M x'' = force + G y + noise ξ. Methods of the α family take it with the exact
    integrals of y over each step, others as an SDE of (x, v, s).

    Parameters
    ----------
    problem : Problem
        Before measurements are added to it.
    noise : Coloured or Delayed
        The noise, such as stodyn.noise.coloured.gauss_markov(1, 2); for a mechanical system also one that arrives late
        (noise.coloured.delayed).
    into : str, int, sequence of these, array or function
        Where y enters: the component to whose rate each output is added, by name or number (a list for several
        outputs); the matrix G (n, outputs); or a function into(t, x[, params]) -> G. For a mechanical system: the
        coordinate on which y acts as a force; a matrix (N, outputs); or into(t, x, v[, params]). Of a modal reduction
        names and matrices may also be those of the coordinates of the whole structure.

    Returns
    -------
    SDE or Mechanical
        A mechanical system where `problem` is one, otherwise an SDE.

    Raises
    ------
    ValueError
        If `into` does not fit the problem and the noise, or names are taken.

    Examples
    --------
    >>> import stodyn as sd
    >>> quiet = sd.SDE(lambda t, x: -x, None, start=0.0)
    >>> driven = sd.with_noise(quiet, sd.noise.coloured.gauss_markov(sigma=1.0, tau=2.0), into="x")
    >>> driven.components
    ('x', 'y')
    """
    if isinstance(noise, Delayed) and not isinstance(problem, Mechanical):
        raise TypeError(
            "noise: delayed noise is held for the steps of mechanical systems, got " + type(problem).__name__
        )
    if not isinstance(noise, (Coloured, Delayed)):
        raise TypeError(
            "noise: expected coloured noise such as stodyn.noise.coloured.gauss_markov(1, 2), got "
            f"{type(noise).__name__}; the order of the arguments is with_noise(problem, noise, into)"
        )
    return (driven_mechanical if isinstance(problem, Mechanical) else driven)(problem, noise, into)
