"""The description of a study, and the list of all studies in this folder."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stodyn import listing, studies
from stodyn.results import provenance
from stodyn.studies.papers import Paper

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

S = TypeVar("S")


class Size(enum.IntEnum):
    """The size at which an experiment is run. TINY runs every part but its numbers mean nothing: a few seconds, for the
    tests. SMALL shows the effects in about a minute on two cores. FULL is the paper's own size."""

    TINY, SMALL, FULL = range(3)

    def of(self, tiny: S, small: S, full: S) -> S:
        """The one of these that belongs to this size: size.of(16, 4096, 100_000) paths."""
        return (tiny, small, full)[self]


@dataclasses.dataclass(frozen=True)
class Row:
    """One quantity: the paper's value, our value, our standard error, and a remark.

    paper and ours are numbers, words ("diverges"), or None where there is no value; stderr is None for exact numbers.
    T, h and paths tell the run behind the number: its end, its step (words where there are several), and its number of
    paths, which is given wherever there is a standard error.
    """

    quantity: str
    paper: float | str | None
    ours: float | str | None
    stderr: float | None = None
    remark: str = ""
    T: float | None = None
    h: float | str | None = None
    paths: int | None = None


def of_run(run: xr.Dataset) -> dict[str, Any]:
    """T, h and paths of a run, for its rows: Row(..., **of_run(run))."""
    record = provenance(run)
    (begin, end), h = record["t"], record["dt"]
    words = h if isinstance(h, (int, float)) else (end - begin) / record["steps"]
    return {"T": float(end), "h": float(words), "paths": int(record["paths"])}


@dataclasses.dataclass(frozen=True)
class Picture:
    """A matplotlib figure and its caption: what it shows, of which runs (method, T, h, paths), what its bars are."""

    figure: Figure
    caption: str


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """The result of a study; figures by their file names without extension."""

    rows: Sequence[Row]
    figures: Mapping[str, Picture] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Study:
    """One experiment of a paper; its file in this folder holds it as STUDY.

    name      the name a user types: stodyn reproduce NAME
    paper     whose experiment it is
    title     the part of the paper that is reproduced, in a few words
    finding   what the numbers show, and where the paper is wrong: a sentence or a few
    run       run(size, out, progress) -> StudyResult. out: an existing folder for data worth keeping (figures are saved
              by the command). progress(words): a function to call with the name of the next part
    estimate  estimate() -> seconds that the full size takes on this machine; it may time a small part first
    """

    name: str
    paper: Paper
    title: str
    finding: str
    run: Callable[[Size, Path, Callable[[str], None]], StudyResult]
    estimate: Callable[[], float]

    @property
    def summary(self) -> str:
        """One line: the paper, and the part of it that is reproduced."""
        return f"{self.paper.short}: {self.title}"


def catalogue() -> dict[str, Study]:
    """Name -> study, for every Study in this folder."""
    return listing.values(studies, Study)


def find(name: str) -> Study:
    """The study called `name`, or an error that suggests similar names."""
    return listing.find(name, catalogue(), "study")
