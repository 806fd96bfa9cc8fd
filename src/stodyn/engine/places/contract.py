"""The contract of places: ways to map a function over the blocks of a run, with the results in their order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from stodyn.engine.door import available_cores
from stodyn.engine.record.job import Job, Tell
from stodyn.engine.record.ledger import Ledger
from stodyn.hints import Integer, is_integer


class Place(ABC):
    """A place where the blocks of a run are computed."""

    @property
    def link(self) -> str | None:
        """The address at which a browser can watch it, or None."""
        return None

    @property
    @abstractmethod
    def words(self) -> str:
        """Its description in the record of a run."""

    @abstractmethod
    def parts(self, job: Job, ledger: Ledger | None, tell: Tell) -> Iterator[Any]:
        """The parts of all blocks in order: read from the ledger, or computed and written to it."""


def count_of(count: Integer | None, name: str) -> int:
    """The requested number of workers, or one per core."""
    if count is not None and not is_integer(count):
        raise ValueError(f"{name}: expected a whole number >= 1, got {count!r}")
    return available_cores() if count is None else int(count)


class Bundles:
    """The blocks of a run in bundles of neighbours that take about SECONDS to compute: one way there and back for each.

    A bundle is a list of (block, its part from the ledger or None); `took` receives the seconds that the others took.
    """

    def __init__(self, job: Job, ledger: Ledger | None, workers: int):
        self.job, self.ledger, self.workers = job, ledger, workers
        self.following, self.size = job.first_block, 1

    def __iter__(self) -> Iterator[list[tuple[int, Any]]]:
        while self.following < self.job.blocks:
            left = self.job.blocks - self.following
            last = self.following + min(self.size, max(left // (2 * self.workers), 1))
            numbers, self.following = range(self.following, last), last
            yield [(block, None if self.ledger is None else self.ledger.read(block)) for block in numbers]

    def took(self, seconds: float, blocks: int) -> None:
        self.size = max(1, min(int(SECONDS * blocks / max(seconds, 1e-9)), 2 * self.size, LARGEST))


SECONDS, LARGEST = 0.5, 256  # of a bundle, and blocks in it


def parts_of(
    bundle: Sequence[tuple[int, Any]], records: Sequence[bytes], job: Job, ledger: Ledger | None, tell: Tell
) -> list[Any]:
    """The part of each block of a bundle: read earlier, or unpacked from its record, which goes to the ledger."""
    upcoming, parts = iter(records), []
    for block, part in bundle:
        if part is None:
            data = next(upcoming)
            part = job.unpack(data)
            if ledger is not None:
                ledger.write(block, data)
        tell(job.path_steps(block))
        parts.append(part)
    return parts
