"""Which replicas of a rack stay, move and go: as many as fit, and none for nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.racks.moves import leaving, returning, settle, usable_nodes
from fleet.racks.seen import NodeSeen, RackSeen, Seat

NODES = [f"n{number}" for number in range(18)]


@st.composite
def racks(draw: st.DrawFn) -> tuple[dict[str, frozenset[str]], frozenset[str], frozenset[str]]:
    """Give homes of replicas, usable nodes, and who is parked."""
    order = draw(st.permutations(NODES))
    slots = draw(st.lists(st.sampled_from(["whole", "half", "none", "parked"]), max_size=9))
    homes, parked, free = {}, set(), list(order)
    for slot, state in enumerate(slots):
        size = {"whole": 2, "half": 1}.get(state, 0)
        homes[f"r-{slot}"] = frozenset(free.pop() for _ in range(size))
        if state == "parked":
            parked.add(f"r-{slot}")
    usable = frozenset(draw(st.sets(st.sampled_from(NODES))))
    return homes, usable, frozenset(parked)


@given(racks())
def test_a_rack_runs_half_as_many_replicas_as_it_has_nodes(
    case: tuple[dict[str, frozenset[str]], frozenset[str], frozenset[str]],
) -> None:
    """floor(h / 2), or all there are; nobody is forgotten or named twice."""
    homes, usable, parked = case
    found = settle(usable, homes, nodes_per_replica=2, parked=parked)
    assert sorted([*found.stay, *found.move, *found.drop]) == sorted(homes)
    assert len(found.stay) + len(found.move) == min(len(homes), len(usable) // 2)


@given(racks())
def test_who_has_two_good_nodes_is_left_alone(
    case: tuple[dict[str, frozenset[str]], frozenset[str], frozenset[str]],
) -> None:
    """Each replica that moves loses its prefix cache."""
    homes, usable, parked = case
    found = settle(usable, homes, nodes_per_replica=2, parked=parked)
    well = {name for name, own in homes.items() if len(own) == 2 and own <= usable}
    assert set(found.stay) == well - parked


@given(racks())
def test_those_without_a_place_leave_first(
    case: tuple[dict[str, frozenset[str]], frozenset[str], frozenset[str]],
) -> None:
    """And none of them twice: who is parked and has no pods is done."""
    homes, usable, parked = case
    drained = frozenset(NODES) - usable
    found = settle(usable, homes, nodes_per_replica=2, parked=parked)
    moves = leaving(found, homes, drained, parked)
    how = [move.how for move in moves]
    assert how == sorted(how)
    assert not any(move.replica in parked and not homes[move.replica] for move in moves)
    touched = {name for name, own in homes.items() if own & drained}
    assert touched <= {move.replica for move in moves}


def test_who_runs_goes_before_who_waits() -> None:
    """One place is left: the replica with clients gets it, whatever its slot."""
    homes = {
        "r-0": frozenset[str](),
        "r-1": frozenset({"n1", "n2"}),
        "r-2": frozenset({"n3"}),
    }
    found = settle(["n1", "n5"], homes, nodes_per_replica=2, parked=["r-0"])
    assert (found.move, found.drop) == (("r-1",), ("r-2", "r-0"))


def test_slots_are_counted_as_numbers() -> None:
    """Slot 10 is not between 1 and 2."""
    homes = {f"r-{slot}": frozenset[str]() for slot in (10, 2, 1)}
    assert settle(["a", "b", "c", "d"], homes, nodes_per_replica=2).move == ("r-1", "r-2")


def test_what_was_parked_comes_back_where_there_is_room() -> None:
    """And what only waits for its pods is not named."""
    homes = {"r-0": frozenset[str](), "r-1": frozenset[str](), "r-2": frozenset[str]()}
    found = settle(["a", "b", "c", "d"], homes, nodes_per_replica=2, parked=["r-1", "r-2"])
    assert returning(found, ["r-1", "r-2"]) == ("r-1",)


def test_a_cordoned_node_keeps_its_replica_and_gets_no_other() -> None:
    """A health agent cordons; only the drain of that node moves anybody."""
    seats = tuple(
        Seat(pod=f"r-0-{n}", replica="r-0", release="x", leader=not n, standing="serves", node=name)
        for n, name in enumerate(("a", "b"))
    )
    nodes = tuple(NodeSeen(name=name, gpus=4, ready=True, cordoned=name in "ac") for name in "abcd")
    rack = RackSeen(id="r", region="x", nodes=nodes, seats=seats)
    assert usable_nodes(rack, 4, ()) == {"a", "b", "d"}
    assert usable_nodes(rack, 4, ["b"]) == {"d"}
