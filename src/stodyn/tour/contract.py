"""The contract of a stop of the tour."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """A number with its standard error beside the truth."""

    quantity: str
    ours: float
    stderr: float
    truth: float

    @property
    def z(self) -> float:
        """The distance from the truth in standard errors."""
        return (self.ours - self.truth) / self.stderr


def rms(quantity: str, variance: Any, stderr: Any, truth: Any, unit: float = 1.0) -> Answer:
    """The root of a variance beside that of the true variance, in a unit of choice."""
    ours = float(variance) ** 0.5
    return Answer(quantity, unit * ours, unit * float(stderr) / (2 * ours), unit * float(truth) ** 0.5)


class Findings(NamedTuple):
    """The results of a stop: the answers, matplotlib Axes with the picture, and a few words about the run."""

    answers: Sequence[Answer]
    picture: Any
    words: str


@dataclasses.dataclass(frozen=True)
class Stop:
    """One system: visit(paths, seed) simulates it; its source is shown beside its results."""

    name: str
    question: str
    truth: str  # where the truth comes from
    visit: Callable[[int, int], Findings]
    place: int  # its position in the tour
