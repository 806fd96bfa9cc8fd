"""The description of a study, and the list of all studies in this folder."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stodyn import listing, studies

T = TypeVar("T")


class Size(enum.IntEnum):
    """The size at which an experiment is run. TINY runs every part but its numbers mean nothing: a few seconds, for the
    tests. SMALL shows the effects in about a minute on two cores. FULL is the paper's own size."""

    TINY, SMALL, FULL = range(3)

    def of(self, tiny: T, small: T, full: T) -> T:
        """The one of these that belongs to this size: size.of(16, 4096, 100_000) paths."""
        return (tiny, small, full)[self]


@dataclasses.dataclass(frozen=True)
class Row:
    """One quantity: the paper's value, our value, our standard error, and a remark.

    paper and ours are numbers, words ("diverges"), or None where there is no value; stderr is None for exact numbers.
    """

    quantity: str
    paper: float | str | None
    ours: float | str | None
    stderr: float | None = None
    remark: str = ""


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """The result of a study; figures are matplotlib figures by file name without extension."""

    rows: Sequence[Row]
    figures: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Study:
    """One experiment of a paper; its file in this folder holds it as STUDY.

    name      the name a user types: stodyn reproduce NAME
    summary   one line: the paper, and the part of it that is reproduced
    run       run(size, out, progress) -> StudyResult. out: an existing folder for data worth keeping (figures are saved
              by the command). progress(words): a function to call with the name of the next part
    estimate  estimate() -> seconds that the full size takes on this machine; it may time a small part first
    """

    name: str
    summary: str
    run: Callable[[Size, Path, Callable[[str], None]], StudyResult]
    estimate: Callable[[], float]


def catalogue() -> dict[str, Study]:
    """Name -> study, for every Study in this folder."""
    return listing.values(studies, Study)


def find(name: str) -> Study:
    """The study called `name`, or an error that suggests similar names."""
    return listing.find(name, catalogue(), "study")
