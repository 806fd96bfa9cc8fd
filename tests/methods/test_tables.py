"""Every table of the catalogue has the orders it claims: they are proved here, not when the package is imported."""

import dataclasses

import pytest

from stodyn.methods.catalogue import catalogue
from stodyn.methods.tableau import Table

PROVED = {name: m.table for name, m in catalogue().items() if getattr(getattr(m, "table", None), "proved", False)}


@pytest.mark.parametrize("table", PROVED.values(), ids=PROVED)
def test_a_table_that_calls_itself_proved_is(table):
    assert isinstance(table, Table)
    assert dataclasses.replace(table, proved=False) == table


def test_there_are_such_tables():
    assert len(PROVED) >= 12
