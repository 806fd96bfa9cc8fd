"""Before a run: do the method's steps give a linear system with white noise the moments that it has?

The covariance of the state after all steps of the run and in the long run is known beforehand (laws), as it is and as
the steps deliver it, by the module of each kind of system. Of an SDE the variances at the end of the run decide, since
from a fixed start none is larger before; of a mechanical system those in the long run too, where there are any: the
first steps of a path are off at any length of the steps, and of a run that is short beside the time in which the system
forgets its start nothing in the long run is seen.

Where noise depends on the state, or slopes change in time, means and variances go together: their recursion is followed
to the end of the run (laws_of_moments), and both are judged, relative to what they have been on the way if they have
all but died out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.engine import grid, laws_of_moments, laws_of_sdes, laws_of_structures
from stodyn.engine.held import PATHS, held_in_words
from stodyn.engine.laws import Law
from stodyn.engine.program import executors
from stodyn.methods.exact import VanLoan
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.unprintable import or_else, remembered
from stodyn.problems.contract import sample_params, written_as
from stodyn.problems.driven import (
    LINEARISED,
    NOTABLE_RESPONSE,
    largest_error,
    longest_step,
    response_in_words,
    steps_in_words,
    warn_of_response,
)
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import ResponseNotDelivered

BEGUN = 0.01  # of its variance in the long run, below which that of a component at the end of a run counts as none yet
LEFT = 0.01  # of its largest mean square or variance on the way, below which errors count relative to that much
SURE = 0.1  # of an error, by which that with other nodes may differ

_verdicts: Bounded[Any, tuple[Verdict | None, bool]] = Bounded(256)


class Verdict(NamedTuple):
    """The variances of the components at the end of a run, or at time `end`, as they are delivered and exact, or one of
    the `mean`; `longest`: the longest step with which they are right, None where none was found; `basis`: what they are
    computed from, where it is not the run's; `remedy`: a method that is right, in words."""

    delivered: np.ndarray
    exact: np.ndarray
    longest: float | None
    basis: str = ""
    remedy: str = ""
    end: float | None = None
    is_of_means: bool = False

    @property
    def error(self) -> float:
        """The largest relative error of the variances."""
        return largest_error(self.delivered, self.exact)


def warn_of_wrong_variances(run: Any, problem: Any, method: Any) -> bool:
    """Warn where a run gives components of a linear system with white noise a wrong variance at its end; returns
    whether it warned, or the system is linear and all is known of it."""
    spec = run.spec
    system = problem.problem if type(problem) is Measured else problem
    if not (_is_structure(system) or laws_of_sdes.is_judged(run, system)):
        return False
    if not (isinstance(run.executor, executors.SingleSteps) and grid.are_equal(spec.lengths)):
        return False
    h, (params, _) = float(spec.lengths[0]), sample_params(system, PATHS)
    values = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((params, system.example_start()))]
    if not _is_structure(system) or system.has_random_start:
        values += [part.tobytes() for part in laws_of_sdes.starts_of(system)]
    key = (spec.traced.fingerprints, *values, float(spec.times[0]), h, spec.steps, str(spec.dtype))
    verdict, is_known = remembered(_verdicts, key, lambda: _verdict(run, system, method))
    if verdict is not None:
        when = f"at t = {spec.times[-1] if verdict.end is None else verdict.end:g}"
        warn = _warn_of_means if verdict.is_of_means else warn_of_response
        warn(method, h, (verdict.delivered, verdict.exact), system.components, when, verdict.longest, verdict.basis,
             verdict.remedy)  # fmt: skip
    return is_known or verdict is not None


def _is_structure(system: Any) -> bool:
    return isinstance(system, Mechanical) and system.coloured is None and system.m > 0


@or_else(lambda run, system, method: (None, False))
def _verdict(run: Any, system: Any, method: Any) -> tuple[Verdict | None, bool]:
    """The worst verdict on a run, and whether the system is linear and its law is known."""
    if _is_structure(system):
        laws, notable = laws_of_structures.laws(run, system, method), NOTABLE_RESPONSE
    else:
        laws, notable = laws_of_sdes.laws(run, system, method), laws_of_sdes.NOTABLE
    verdicts = []
    for basis, law in laws:
        verdict = _verdict_on(law, float(run.spec.lengths[0]), run.spec.steps, system.components, notable)
        if verdict is not None:
            verdicts.append(verdict._replace(basis=basis))
    worst = max(verdicts, key=lambda verdict: verdict.error, default=None)
    is_known = bool(laws) and not any(LINEARISED in basis for basis, _ in laws)
    if not laws:
        worst, is_known = _of_moments(run, system, method)
    return None if worst is None else worst._replace(remedy=_remedy(system)), is_known


def _of_moments(run: Any, system: Any, method: Any) -> tuple[Verdict | None, bool]:
    """The verdict by means and variances together at the end of the run, and whether all is known by it: energies on
    the way may be wrong where those are right."""
    if not laws_of_sdes.has_moments(run, system):
        return None, False
    starts = laws_of_moments.Starts(*laws_of_sdes.starts_of(system))
    recursion = laws_of_moments.recursion(run, system, method, starts)
    if recursion is None:
        return None, False
    h = float(run.spec.lengths[0])
    T = h * recursion.steps
    along, delivered = recursion.exact(T), recursion.delivered(h, T)
    if along is None or delivered is None:
        return None, False
    sizes, exact = _sizes(along), along[-1]

    def errors(moments: laws_of_moments.Moments) -> np.ndarray:
        """Errors of means and variances, relative to their sizes."""
        apart = np.abs(np.subtract(moments, exact))
        return np.divide(apart, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)

    def is_off(shorter: float) -> bool:
        moments = recursion.delivered(shorter, T)
        return moments is None or errors(moments).max() > NOTABLE_RESPONSE

    relative = errors(delivered)
    of, worst = np.unravel_index(np.argmax(relative), relative.shape)
    if not relative[of, worst] > laws_of_sdes.NOTABLE:
        return None, False
    rough = recursion.delivered(h, T, is_rough=True)
    if rough is None or abs(errors(rough)[of, worst] - relative[of, worst]) > SURE * relative[of, worst]:
        return None, False
    alone = np.arange(system.n) == worst
    by_steps, true = (np.where(alone, moments[of], 0.0) for moments in (delivered, exact))
    basis, end = held_in_words(None, system.has_random_params), float(run.spec.times[0]) + T
    return Verdict(by_steps, true, longest_step(is_off, h), basis, end=end, is_of_means=bool(of == 0)), True


def _sizes(along: list[laws_of_moments.Moments]) -> np.ndarray:
    """The sizes of means and of variances at the end, to which errors are relative: of means the root of the mean
    square. What has all but died out counts as a small part of what it was."""
    means, variances = (np.array(values) for values in zip(*along, strict=True))
    squares = means**2 + variances
    squares, variances = (np.maximum(own[-1], LEFT * own.max(axis=0)) for own in (squares, variances))
    return np.array([np.sqrt(squares), variances])


def _warn_of_means(
    method: Any, h: float, compared: tuple[np.ndarray, np.ndarray], components: Sequence[str], when: str,
    longest: float | None, basis: str, remedy: str,
) -> None:  # fmt: skip
    """Warn where the mean of a component, as a method delivers it and as it is, differs."""
    delivered, exact = compared
    worst = int(np.argmax(np.abs(delivered - exact)))
    tell(
        f"dt: with steps of {h:g} {method.name} makes the mean of {components[worst]} {when} {delivered[worst]:.3g}"
        f"{basis}, but it is {exact[worst]:.3g}. Take {steps_in_words(longest)}, with which all means and variances "
        f"are right to {100.0 * NOTABLE_RESPONSE:g} %{remedy}.",
        ResponseNotDelivered,
    )


def _remedy(system: Any) -> str:
    sde = written_as(system, SDE)
    return ", or VanLoan, which is exact" if sde is not None and VanLoan.refusal(sde) is None else ""


def _verdict_on(law: Law, h: float, steps: int, names: Sequence[str], notable: float) -> Verdict | None:
    T = h * steps
    exact, delivered = law.exact(T), law.delivered(h, T)
    if exact is None or delivered is None or (law.is_of_end and steps < laws_of_sdes.LEAST_STEPS):
        return None
    notable = max(notable, laws_of_sdes.NOTABLE) if law.is_of_end else notable
    if response_in_words(delivered, exact, names, notable) is None:
        return None
    if not law.is_of_end:
        begun = _where_it_has_begun(law, exact)
        exact, delivered = np.where(begun, exact, 0.0), np.where(begun, delivered, 0.0)
        if response_in_words(delivered, exact, names, notable) is None or _comes_right(law, h, exact, names, notable):
            return None

    def is_off(shorter: float) -> bool:
        at_end = law.delivered(shorter, T)
        return at_end is None or response_in_words(np.where(exact > 0.0, at_end, 0.0), exact, names) is not None

    return Verdict(delivered, exact, longest_step(is_off, h))


def _where_it_has_begun(law: Law, exact: np.ndarray) -> np.ndarray:
    """Which variances at the end of a run are more than a small share of those in the long run; none where these are
    not known."""
    settled = law.exact(np.inf)
    return np.zeros(len(exact), bool) if settled is None else exact >= BEGUN * settled


def _comes_right(law: Law, h: float, exact: np.ndarray, names: Sequence[str], notable: float) -> bool:
    """Whether a run ends on the way to a law that the steps have too."""
    settled, in_the_long_run = law.exact(np.inf), law.delivered(h, np.inf)
    if settled is None or in_the_long_run is None:
        return False
    is_on_the_way = response_in_words(exact, settled, names, notable) is not None
    return is_on_the_way and response_in_words(in_the_long_run, settled, names, notable) is None
