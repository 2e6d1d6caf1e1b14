"""Labels follow the hardware: no rack is split, merged or moved without being told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ConfigError
from fleet.racks.domains import (
    CAPACITY_BLOCK,
    CLIQUE,
    SOURCES,
    Asked,
    choose_source,
    own_label,
    plan_labels,
)
from fleet.racks.seen import NodeSeen

OCI = next(source for source in SOURCES if source.name == "oci-memory-fabric")
COREWEAVE = "ds.coreweave.com/nvlink.domain"


def node(name: str, clique: str = "", rack: str = "", **labels: str) -> NodeSeen:
    own = {key.replace("_", "/", 1).replace("_", "."): value for key, value in labels.items()}
    if clique:
        own["nvidia.com/gpu.clique"] = clique
    return NodeSeen(name=name, clique=clique, rack=rack, labels=own)


def asked(*racks: str, relabel: bool = False, **given: str) -> Asked:
    names: dict[str, frozenset[str]] = {rack: frozenset() for rack in racks}
    return Asked(racks=names, given=given, nodes_per_rack=18, relabel=relabel)


def planned(nodes: list[NodeSeen], how: Asked, source: Any = CLIQUE) -> Mapping[str, str]:
    return {c.node: c.rack for c in plan_labels(nodes, source, {}, {}, how)}


def test_a_domain_is_the_rack_that_it_is_said_to_be() -> None:
    """The fabric's id, whatever the partition."""
    nodes = [node("a", "f1.1"), node("b", "f2.1"), node("c", "f1.2")]
    assert planned(nodes, asked("r1", "r2", f1="r1", f2="r2")) == {"a": "r1", "b": "r2", "c": "r1"}


def test_the_fleet_file_may_name_the_hardware() -> None:
    """A fabric's whole OCID is in the file, its last characters on the node."""
    label = {"oci.oraclecloud.com/host.gpu_memory_fabric_id": "abcdefghijk"}
    nodes = [NodeSeen(name="a", labels={**label, "oci.oraclecloud.com/host.tray_index": "7"})]
    how = Asked(
        racks={"r1": frozenset({"ocid1.computegpumemoryfabric.oc1..xyzabcdefghijk"})},
        given={},
        nodes_per_rack=18,
    )
    [change] = plan_labels(nodes, OCI, {}, {}, how)
    assert (change.rack, change.tray) == ("r1", 7)


def test_a_node_that_was_replaced_gets_the_rack_of_its_neighbours() -> None:
    """And those that carry it already are not touched: the second run finds nothing to do."""
    nodes = [node("a", "f1.1", "r1"), node("b", "f1.1")]
    changes = plan_labels(nodes, CLIQUE, {}, {}, asked("r1", "r2"))
    assert [(c.node, c.changes) for c in changes] == [("a", False), ("b", True)]


@pytest.mark.parametrize(
    ("nodes", "how", "says"),
    [
        ([node("a", "f1.1")], asked("r1"), "f1: 1 nodes .*nothing says which rack"),
        ([node("a", "f1.1")], asked("r1", f1="r9"), "rack r9 is not in the fleet file"),
        ([node("a", "f1.1")], asked("r1", f2="r1"), "--map f2: no node is in it"),
        (
            [node("a", "f1.1"), node("b", "f2.1")],
            asked("r1", f1="r1", f2="r1"),
            "rack r1: would be f1 and f2, two racks in one",
        ),
        (
            [node("a", "f1.1", "r1"), node("b", "f1.1", "r2")],
            asked("r1", "r2"),
            "f1: could be rack r1 or r2",
        ),
        ([node("a", "f1.1", "r2")], asked("r1", "r2", f1="r1"), "a: carries rack r2"),
        (
            [node(f"n{i}", "f1.1") for i in range(19)],
            asked("r1", f1="r1"),
            "f1: 19 nodes, a rack has 18",
        ),
    ],
)
def test_what_would_break_a_rack_is_refused(nodes: list[NodeSeen], how: Asked, says: str) -> None:
    """Replicas are pinned to the label: a wrong one takes them out of their NVLink fabric."""
    with pytest.raises(ConfigError, match=says):
        planned(nodes, how)


def test_a_move_is_possible_when_it_is_told() -> None:
    """A label that was wrong has to be corrected some time."""
    nodes = [node("a", "f1.1", "r2")]
    assert planned(nodes, asked("r1", "r2", relabel=True, f1="r1")) == {"a": "r1"}


def test_a_block_of_two_ultraservers_is_no_rack() -> None:
    """AWS has several cliques under one capacity block (topograph 293)."""
    nodes = [node("a", "f1.1"), node("b", "f2.1")]
    told = {"a": "cb-1", "b": "cb-1"}
    how = Asked(racks={"r1": frozenset()}, given={"cb-1": "r1"}, nodes_per_rack=18)
    with pytest.raises(ConfigError, match=r"cb-1: holds 2 NVLink fabrics .*--source clique"):
        plan_labels(nodes, CAPACITY_BLOCK, told, {}, how)


def test_a_domain_inside_of_a_fabric_would_split_a_rack() -> None:
    """Two domains of the cloud, one fabric by the driver: the driver knows."""
    nodes = [node("a", "f1.1"), node("b", "f1.1")]
    how = Asked(racks={"r1": frozenset()}, given={"x": "r1"}, nodes_per_rack=18)
    with pytest.raises(ConfigError, match="would split a rack"):
        plan_labels(nodes, CAPACITY_BLOCK, {"a": "x", "b": "y"}, {}, how)


def test_the_first_source_that_every_node_has_is_taken() -> None:
    """The clique is the last one: it is absent while Fabric Manager starts."""
    first = NodeSeen(name="a", labels={COREWEAVE: "d1", "nvidia.com/gpu.clique": "f1.1"})
    bare = NodeSeen(name="b", labels={"nvidia.com/gpu.clique": "f1.1"})
    assert choose_source(SOURCES, [first], {}, None).name == "coreweave-nvlink"
    assert choose_source(SOURCES, [first, bare], {}, None) is CLIQUE
    assert choose_source(SOURCES, [first, bare], {}, "coreweave-nvlink").label == COREWEAVE
    own = (own_label("site/cabinet"), *SOURCES)
    assert (
        choose_source(own, [NodeSeen(name="c", labels={"site/cabinet": "7"})], {}, None) is own[0]
    )


@pytest.mark.parametrize("wanted", [None, "clique"])
def test_no_source_is_an_error_that_names_the_node(wanted: str | None) -> None:
    """A rack that is half labelled would be half used."""
    with pytest.raises(ConfigError, match=r"no source tells .*(b|a, b)\."):
        choose_source(SOURCES, [node("a"), node("b")], {}, wanted)


@given(
    st.lists(
        st.tuples(st.sampled_from("fgh"), st.sampled_from(["", "r1", "r2", "r3"])), max_size=12
    ),
    st.dictionaries(st.sampled_from("fgh"), st.sampled_from(["r1", "r2", "r3"])),
    st.booleans(),
)
def test_whatever_is_asked_a_rack_stays_one_fabric(
    fabrics: list[tuple[str, str]], given_: dict[str, str], relabel: bool
) -> None:
    """Either it is refused, or each rack has exactly one fabric and each fabric one rack."""
    nodes = [node(f"n{i}", f"{name}.1", rack) for i, (name, rack) in enumerate(fabrics)]
    how = Asked(
        racks={rack: frozenset() for rack in ("r1", "r2", "r3")},
        given=given_,
        nodes_per_rack=18,
        relabel=relabel,
    )
    try:
        found = plan_labels(nodes, CLIQUE, {}, {}, how)
    except ConfigError:
        return
    pairs = {(change.domain, change.rack) for change in found}
    assert len(pairs) == len({d for d, _ in pairs}) == len({r for _, r in pairs})
    assert relabel or all(c.rack_now in ("", c.rack) for c in found)
