"""What a study of a paper is, and every one found in this folder."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stodyn import listing, studies

T = TypeVar("T")


class Size(enum.IntEnum):
    """How much of an experiment is run. TINY goes through every part and says nothing: a few seconds, for the tests.
    SMALL shows what is to be seen, in about a minute on two cores. FULL is the paper's own size."""

    TINY, SMALL, FULL = range(3)

    def of(self, tiny: T, small: T, full: T) -> T:
        """The one of these that belongs to this size: size.of(16, 4096, 100_000) paths."""
        return (tiny, small, full)[self]


@dataclasses.dataclass(frozen=True)
class Row:
    """One quantity: what the paper prints, what we find, our standard error, and what is to be said about it.

    paper and ours are numbers, words ("diverges"), or None where there is none; stderr is None for exact numbers.
    """

    quantity: str
    paper: float | str | None
    ours: float | str | None
    stderr: float | None = None
    remark: str = ""


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """What a study found; figures are matplotlib figures by file name without ending."""

    rows: Sequence[Row]
    figures: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Study:
    """One experiment of a paper; its file in this folder holds it as STUDY.

    name      what a user types: stodyn reproduce NAME
    summary   one line: the paper and what is reproduced of it
    run       run(size, out, progress) -> StudyResult. out: an existing folder for data worth keeping (figures are saved
              by the command). progress(words): call it with what is computed next
    estimate  estimate() -> seconds the full size takes on this machine; it may time a small piece first
    """

    name: str
    summary: str
    run: Callable[[Size, Path, Callable[[str], None]], StudyResult]
    estimate: Callable[[], float]


def catalogue() -> dict[str, Study]:
    """Name -> study, for every Study in this folder."""
    return listing.values(studies, Study)


def find(name: str) -> Study:
    """The study called `name`, or an error with the names near it."""
    return listing.find(name, catalogue(), "study")
