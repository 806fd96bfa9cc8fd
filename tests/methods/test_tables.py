"""Every table of the catalogue has the orders it claims: they are proved here, not when the package is imported."""

import dataclasses

import pytest

from stodyn.methods.burrage import BurrageTable
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Claim
from stodyn.methods.partitioned import MeanSquareTable
from stodyn.methods.tableau import DRITable, RSTable, SRATable, SRITable, Table

PROVED = {name: m.table for name, m in catalogue().items() if getattr(getattr(m, "table", None), "proved", False)}


@pytest.mark.parametrize("table", PROVED.values(), ids=PROVED)
def test_a_table_that_calls_itself_proved_is(table):
    assert isinstance(table, Table)
    assert dataclasses.replace(table, proved=False) == table


OF_EXPLICIT = BurrageTable | DRITable | RSTable | SRATable | SRITable
EXPLICIT = {name: m.table for name, m in catalogue().items() if isinstance(getattr(m, "table", None), OF_EXPLICIT)}


@pytest.mark.parametrize("table", EXPLICIT.values(), ids=EXPLICIT)
def test_a_stage_of_an_explicit_table_reads_earlier_ones_at_their_times(table):
    """No step would read an entry on the diagonal or above it, and no condition of order would see it."""
    matrices = {name: value for name, value in vars(table).items() if name[0] in "AB" and isinstance(value, tuple)}
    assert len(matrices) >= 2
    if isinstance(table, DRITable):
        matrices.pop("B2")  # of stages that are computed behind the others
    for name, matrix in matrices.items():
        assert not any(entry for i, row in enumerate(matrix) for entry in row[i:]), name
    for time, matrix in (("c0", "A0"), ("c1", "A1")):
        if hasattr(table, matrix):
            assert [sum(row) for row in getattr(table, matrix)] == list(getattr(table, time))


TABLES = {name: m.table for name, m in catalogue().items() if isinstance(getattr(m, "table", None), Table)}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_stage_stands_at_the_time_that_its_drift_has_passed(table):
    """So that t is like a component with the drift 1; stages without a drift stand at the start."""
    scheme = table.scheme(1 if "E1" in table.name else 2)
    if scheme.clock is None:
        return
    colours = [c for c, driver in enumerate(scheme.drives) if driver == 0]
    for stage, row in scheme.rows.items():
        if isinstance(table, SRATable) and stage[0] == "t":
            continue  # the times at which additive noise is read
        passed = {c: sum(weight for (colour, _), weight in row.items() if colour == c) for c in colours}
        assert scheme.clock[stage] in passed.values(), (stage, passed)


def test_e1_meets_all_conditions_up_to_order_three_halves_but_those_of_means():
    """So its paper and ours say; a coefficient of which only terms of order 1.5 show is seen here."""
    order, violated = catalogue()["E1"].table.order("strong", "scalar", 1, 1.5)
    assert order == 1 and violated and all("mean" in condition for condition in violated)


def test_there_are_such_tables():
    assert len(PROVED) >= 12


MEAN_SQUARE = {name: table for name, table in TABLES.items() if isinstance(table, MeanSquareTable)}


@pytest.mark.parametrize("table", MEAN_SQUARE.values(), ids=MEAN_SQUARE)
def test_conditions_of_mean_square_order_name_what_is_violated(table):
    assert table.order_conditions() == ()
    weights = dataclasses.replace(table, β_hat=tuple(2 * w for w in table.β_hat), proved=True).order_conditions()
    assert any("Σ β̂_i = 2, expected 1" in words for words in weights)
    doubled = tuple(tuple(2 * entry for entry in row) for row in table.b_bar)
    stages = dataclasses.replace(table, b_bar=doubled, proved=True).order_conditions()
    assert "Σ β_i b̄_ij = 1, expected 1/2" in stages and not any("b̂" in words for words in stages)


@pytest.mark.parametrize("name", ["b", "b_bar", "b_hat"])
def test_each_part_of_a_partitioned_table_counts_in_its_order(name):
    """Midpoint has one matrix for all parts; with twice as much in one of them strong order 1 is lost."""
    table = catalogue()["Midpoint"].table
    assert table.order("strong", "commutative", 2, 1).order == 1
    doubled = tuple(tuple(2 * entry for entry in row) for row in getattr(table, name))
    assert dataclasses.replace(table, **{name: doubled}, proved=True).order("strong", "commutative", 2, 1).order < 1


def test_making_a_table_tries_one_channel_and_missed_tries_two():
    """Milstein's order without areas: 1 for a single channel only."""
    table = dataclasses.replace(TABLES["SRIW1"], claims=(Claim("strong", 1.0),), proved=False)
    (words,) = table.missed()
    assert "has order 1/2 with 2 channel(s)" in words and table.missed(channels=(1,)) == ()
    with pytest.raises(ValueError, match=r"^table SRIW1 claims strong order 2.0 .* has order 3/2 with 1 channel"):
        dataclasses.replace(table, claims=(Claim("strong", 2.0),))
