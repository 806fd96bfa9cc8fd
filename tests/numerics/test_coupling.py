"""Coupled equations are put in order, and as few unknowns as possible are solved for."""

from stodyn.numerics.coupling import Block, blocks


def test_a_chain_is_explicit():
    assert blocks({"c": ["b", "a"], "b": ["a"], "a": []}) == [Block((), ("a",)), Block((), ("b",)), Block((), ("c",))]


def test_a_cycle_of_two_needs_one_unknown():
    (block,) = blocks({"Q": ["P"], "P": ["Q"]})
    assert len(block.unknowns) == 1 and len(block.others) == 1


def test_what_reads_itself_is_the_unknown():
    (block,) = blocks({"Q": ["P"], "P": ["Q", "P"]})
    assert block == Block(("P",), ("Q",))


def test_blocks_come_in_the_order_they_are_needed():
    found = blocks({"z": ["y"], "x": ["y"], "y": ["x", "w"], "w": []})
    assert [set(block.nodes) for block in found] == [{"w"}, {"x", "y"}, {"z"}]


def test_two_rings_that_share_a_node_need_that_node_alone():
    (block,) = blocks({"hub": ["b", "d"], "a": ["hub"], "b": ["a"], "c": ["hub"], "d": ["c"]})
    assert block.unknowns == ("hub",)
