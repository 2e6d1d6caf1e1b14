"""Replicas on racks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.packing import idle_nodes, pack_rack, replicas_that_fit

HEALTHY = st.integers(0, 18)
NODES = st.integers(1, 18)


def test_a_full_rack_holds_nine() -> None:
    """18 nodes, 2 per replica: the number the whole product is built on."""
    assert replicas_that_fit(18) == 9


def test_one_broken_node_costs_one_replica() -> None:
    """The second node of the pair stays idle: a replica never spans two racks."""
    assert replicas_that_fit(17) == 8


@given(HEALTHY, NODES)
def test_what_fits_uses_no_node_twice_and_leaves_no_room(healthy: int, nodes: int) -> None:
    """Never more nodes than there are, never enough left for one more."""
    fits = replicas_that_fit(healthy, nodes)
    assert 0 <= idle_nodes(healthy, fits, nodes) < nodes


@given(st.integers(1, 18), NODES)
def test_a_repaired_node_never_costs_a_replica(healthy: int, nodes: int) -> None:
    """More hardware, never less service."""
    assert replicas_that_fit(healthy, nodes) >= replicas_that_fit(healthy - 1, nodes)


@given(st.integers(0, 9))
def test_fewer_replicas_keep_their_names(count: int) -> None:
    """Losing a replica must not rename, and so restart, the others."""
    assert pack_rack("eu", "r01", 9)[:count] == pack_rack("eu", "r01", count)


def test_replicas_are_named_by_rack_and_slot() -> None:
    """The name tells an SRE at night which rack to look at."""
    assert [slot.name for slot in pack_rack("us-east", "use1-r01", 2)] == [
        "use1-r01-0",
        "use1-r01-1",
    ]
