"""The list of statistics, and how they are found by name."""

import pytest

from stodyn.statistics.catalogue import catalogue, find


def test_statistics_are_found_by_their_names():
    assert {"Moments", "Histogram", "Passage", "Paths"} <= catalogue().keys() and "Batches" not in catalogue()
    for name, kind in catalogue().items():
        assert kind.__name__ == name and find(name) is kind
    with pytest.raises(ValueError, match="Moments"):
        find("Moment")
