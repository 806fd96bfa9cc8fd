"""Every statistic passes the suite of all statistics; what is wrong with one is named."""

import dataclasses

import pytest

from stodyn import statistics as st
from stodyn.analysis.check import CheckFailed
from stodyn.analysis.check_statistic import EXAMPLES, SUITE, check_statistic
from stodyn.statistics.catalogue import catalogue

BASES = {"Averaged"}  # of statistics that users write
APART = {"Surrogate", "Reaction"}  # of expansions, which have no paths, and of mechanisms with constraints


def test_every_statistic_is_listed():
    classes = {name for name in st.__all__ if isinstance(getattr(st, name), type)}
    assert set(catalogue()) == classes - BASES
    kinds = set(catalogue()) - APART
    assert kinds <= {type(make(0.0)).__name__ for make in EXAMPLES.values()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_statistic_passes(name):
    results = check_statistic(EXAMPLES[name])
    assert [result.question for result in results] == list(SUITE)


@pytest.mark.brief("Moments")
@pytest.mark.parametrize("name", ["Moments", "Autocorrelation"])
def test_errors_are_what_they_say(name):
    """Over 100 seeds with 8 and with 1000 paths; benchmarks/stated_errors.py asks all of them over more."""
    (coverage,) = (r for r in check_statistic(EXAMPLES[name], seeds=100) if r.question == "coverage")
    assert "8 paths" in coverage.finding and "1000 paths" in coverage.finding


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forgetful(st.Moments):
    """Takes the mean of the last block for that of all."""

    def merge(self, a, b):
        return b


def test_what_is_wrong_is_named():
    with pytest.raises(CheckFailed, match="merge: as one block mean differs by"):
        check_statistic(Forgetful())
