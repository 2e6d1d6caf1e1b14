"""The rollout's machine: no way to lose a replica, and a way out of everywhere."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rollout_world import FLEET, NEW, OLD, PARTS, REPLICAS, World, parts, started

from fleet.errors import ConfigError
from fleet.rollout.record import PHASES, Began, Ended, Entry, Seen
from fleet.rollout.state import Do, Over, Wait, read_state, refusal
from fleet.session_shares import shares_of
from fleet.traffic_shift import TOTAL_WEIGHT

FEW = 200  # phases of two whole passes through the fleet, back and forth


def finish(world: World) -> Over:
    """Let everything go well from here on."""
    for _ in range(FEW):
        action = world.action
        match action:
            case Over():
                return action
            case Wait():
                world.ask("resume")
            case Do():
                world.go()
    raise AssertionError("it never ends")


def test_all_replicas_are_started_once_and_in_order() -> None:
    """A second start would throw away a second cache."""
    world = World(record=[started()])
    assert finish(world) == Over(status="done")
    assert world.starts == [(name, NEW) for name in PARTS]
    assert set(world.live.values()) == {NEW}


@pytest.mark.parametrize("step", range(len(FLEET)))
@pytest.mark.parametrize("phase", range(len(PHASES)))
@pytest.mark.parametrize("killed_at", range(5))
def test_killed_anywhere_it_ends_the_same(step: int, phase: int, killed_at: int) -> None:
    """Nothing twice, nothing lost: the record alone says how to go on."""
    world = World(record=[started()])
    for _ in range(step * len(PHASES) + phase):
        world.go()
    world.killed(killed_at)
    assert finish(world) == Over(status="done")
    assert sorted(world.starts) == sorted((name, NEW) for name in PARTS)
    assert world.routed == set(REPLICAS)


@pytest.mark.parametrize("phase", range(1, len(PHASES)))
@pytest.mark.parametrize("killed_at", range(1, 5))
def test_turned_round_anywhere_everything_is_as_before(phase: int, killed_at: int) -> None:
    """Half a wave done, an update cancelled in the middle: the way back looks at what is live."""
    world = World(record=[started()])
    for _ in range(2 * len(PHASES) + phase):
        world.go()
    world.killed(killed_at)
    world.ask("roll-back")
    assert finish(world) == Over(status="rolled-back")
    assert set(world.live.values()) == {OLD}
    assert world.routed == set(REPLICAS)


def test_the_way_back_starts_with_what_was_under_way() -> None:
    """It serves nobody, so it is the cheapest to turn; then the latest."""
    world = World(record=[started()])
    for _ in range(2 * len(PHASES) + PHASES.index("smoke")):
        world.go()
    world.ask("roll-back")
    order = [place.replica for step in world.state.queue for place in step.places]
    assert order == ["a2-0", "b1-0", "a1-1", "a1-2", "a1-0"]


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ("replica", {"a1-0", "a1-1", "a1-2"}),
        ("rack", {"a1-0", "a1-1", "a1-2"}),
        ("region", set()),
        ("fleet", set()),
    ],
)
def test_a_part_can_be_turned_back(scope: str, left: set[str]) -> None:
    """One bad rack is no reason to lose the caches of all others."""
    world = World(record=[started()])
    for _ in range(2 * len(PHASES) + PHASES.index("smoke")):
        world.go()
    world.ask("roll-back", scope)
    finish(world)
    assert {name for name, release in world.live.items() if release == NEW} == left


@pytest.mark.parametrize(
    ("scope", "order"),
    [
        ("rack", [["shared a"]]),
        ("region", [["shared a"], ["a2-0"], ["a1-1", "a1-2"], ["a1-0"]]),
        ("fleet", [["shared a"], ["a2-0", "b1-0"], ["a1-1", "a1-2"], ["a1-0"]]),
    ],
)
def test_what_a_region_shares_is_turned_back_before_its_replicas(
    scope: str, order: list[list[str]]
) -> None:
    """It was under way; a new router may be bad, and the replicas behind it fine."""
    world = World(record=[started()])
    for _ in range(3 * len(PHASES) + PHASES.index("gates")):
        world.go()
    world.ask("roll-back", scope)
    assert [parts(step) for step in world.state.queue] == order
    assert finish(world) == Over(status="rolled-back")
    assert world.live["shared a"] == OLD


def test_what_frontends_had_counted_outlives_their_change() -> None:
    """The gates of a shared step compare with it; whoever resumes has it from the record."""
    world = World(record=[started()])
    for _ in range(3 * len(PHASES)):
        world.go()
    seen = Seen(requests=1.0, errors=0.0, prompt_tokens=9.0, cached_tokens=8.0)
    world.go(seen=seen)
    world.state = read_state(world.record)
    while isinstance(world.action, Do) and world.action.step.shared:
        assert world.action.seen == seen
        world.go()
    assert isinstance(world.action, Do)
    assert world.action.seen is None


def test_the_first_steps_can_stay() -> None:
    """Two racks were fine, the third is not: their caches are kept."""
    world = World(record=[started()])
    for _ in range(3 * len(PHASES) + PHASES.index("smoke")):
        world.go()
    world.ask("roll-back", step=2)
    assert finish(world) == Over(status="rolled-back")
    left = {name for name, release in world.live.items() if release == NEW}
    assert left == {"a1-0", "a1-1", "a1-2"}
    assert refusal(world.state, "roll-back", 2) == "no replica has the new release after step 2"
    assert refusal(world.state, "roll-back", 1) is None


def test_a_step_that_is_not_over_cannot_stay_as_it_is() -> None:
    """Half done it serves nobody: turned back it does not stay, left alone it is lost."""
    world = World(record=[started()])
    for _ in range(len(PHASES) + PHASES.index("smoke")):
        world.go()
    assert refusal(world.state, "roll-back", 1) is None
    for keep in (2, 3):
        assert refusal(world.state, "roll-back", keep) == f"step {keep} is not over"
        world.ask("roll-back", step=keep)
        assert not world.state.back


@pytest.mark.parametrize("phases", [0, PHASES.index("drain"), PHASES.index("smoke")])
@pytest.mark.parametrize("command", ["abort", "roll-back"])
def test_a_wider_way_back_is_gone_where_a_narrow_one_has_begun(command: str, phases: int) -> None:
    """`rolled-back` must not be said of a fleet that has the new release still."""
    world = World(record=[started()])
    for _ in range(2 * len(PHASES) + PHASES.index("smoke")):
        world.go()
    world.ask(command, "replica")
    for _ in range(phases):
        world.go()
    world.ask("roll-back", "rack")
    world.ask("roll-back", "fleet")
    assert parts(world.state.queue[0]) == ["a2-0", "b1-0"]
    assert finish(world) == Over(status="rolled-back")
    assert set(world.live.values()) == {OLD}
    assert world.starts.count(("a2-0", OLD)) == 1


def test_a_narrower_way_back_shortens_none() -> None:
    """Whoever asked for the fleet gets it, whatever another asks after him."""
    world = World(record=[started()])
    for _ in range(2 * len(PHASES) + PHASES.index("smoke")):
        world.go()
    world.ask("roll-back", "fleet")
    queue = world.state.queue
    world.ask("roll-back", "replica")
    world.ask("roll-back", step=2)
    assert world.state.queue == queue


def test_what_may_be_overwritten_is_forgotten_after_the_step() -> None:
    """Leave for one replica is no leave for the next."""
    world = World(record=[started(reruns=0)])
    world.go("inconclusive")
    world.ask("resume", overwrite=True)
    for _ in range(len(PHASES)):
        assert isinstance(world.action, Do)
        assert world.action.overwrite
        world.go()
    assert isinstance(world.action, Do)
    assert not world.action.overwrite


def test_a_pause_waits_for_the_step_to_end() -> None:
    """A replica out of routing serves nobody: paused there, capacity is lost for nothing."""
    world = World(record=[started()])
    for _ in range(PHASES.index("ready")):
        world.go()
    world.ask("pause")
    while isinstance(world.action, Do):
        world.go()
    assert world.state.status == "paused"
    assert world.routed == set(REPLICAS)


def test_a_gate_without_data_is_asked_again_and_then_a_person() -> None:
    """Too few requests at night are no verdict on the release."""
    world = World(record=[started(reruns=2)])
    for _ in range(PHASES.index("gates")):
        world.go()
    for _ in range(2):
        world.go("inconclusive")
        assert isinstance(world.action, Do)
    world.go("inconclusive")
    assert world.action == Wait(why="gates went wrong")


def test_a_failed_step_turns_back_when_the_strategy_says_so() -> None:
    """At three in the morning nobody has to be awake for it."""
    world = World(record=[started("roll-back")])
    for _ in range(PHASES.index("smoke")):
        world.go()
    world.go("failed")
    assert finish(world) == Over(status="rolled-back")
    assert set(world.live.values()) == {OLD}


def test_held_after_an_apply_it_is_applied_again_with_a_look_at_what_is_live() -> None:
    """Somebody may have changed the replica by hand: resuming is the leave to put it back."""
    world = World(record=[started()])
    for _ in range(PHASES.index("gates")):
        world.go()
    world.go("failed")
    world.live["a1-0"] = "by-hand"
    world.ask("resume")
    action = world.action
    assert isinstance(action, Do)
    assert (action.phase, action.refresh) == ("apply", True)
    world.go()
    world.go()  # verify looks at the live replica, and fails the test otherwise


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "it is empty"),
        ([Began(at_s=0, phase="drain")], "entry 1: the start is missing"),
        ([started(), started()], "entry 2: it starts a second time"),
        ([started(), Began(at_s=0, phase="smoke")], "entry 2: phase smoke began at preflight"),
        ([started(), *(Ended(at_s=0, phase="drain", outcome="ok"),)], "phase drain ended"),
    ],
)
def test_a_record_that_no_rollout_wrote_is_refused(entries: list[Entry], message: str) -> None:
    """Two files merged by git must not drive a fleet."""
    with pytest.raises(ConfigError, match=message):
        read_state(entries)


def test_a_command_that_makes_no_sense_says_why() -> None:
    """And changes nothing."""
    world = World(record=[started()])
    state = world.state
    assert refusal(state, "resume") == "the rollout is running"
    assert refusal(state, "roll-back") == "no replica has the new release"
    finish(world)
    for command in ("pause", "resume", "abort"):
        assert refusal(world.state, command) == "the rollout is done"
        world.ask(command)
    assert world.action == Over(status="done")


class Rollout(RuleBasedStateMachine):
    """Any order of outcomes, kills and commands."""

    @initialize(on_fail=st.sampled_from(["hold", "roll-back"]), reruns=st.integers(0, 2))
    def start(self, on_fail: str, reruns: int) -> None:
        self.world = World(record=[started(on_fail, reruns)])
        self.written: dict[tuple[str, int], dict[str, str]] = {}
        self.turned = False
        self.torn: set[str] = set()  # parts whose assignment may not have been written
        self.low: set[str] = set()  # regions that lost nodes have brought below the floor

    def is_running(self) -> bool:
        return isinstance(self.world.action, Do)

    @precondition(is_running)
    @rule(outcome=st.sampled_from(["ok", "ok", "ok", "ok", "failed", "inconclusive"]))
    def phase(self, outcome: str) -> None:
        self.world.go(outcome)  # type: ignore[arg-type]

    @precondition(is_running)
    @rule(phases=st.integers(1, 12))
    def many_phases(self, phases: int) -> None:
        for _ in range(phases):
            if self.is_running():
                self.world.go()

    @rule(replica=st.sampled_from(REPLICAS))
    def node_down(self, replica: str) -> None:
        self.world.lost.add(replica)
        self.low = self.world.low

    @rule()
    def nodes_up(self) -> None:
        self.world.lost.clear()

    @precondition(is_running)
    @rule(at=st.integers(0, 4))
    def killed(self, at: int) -> None:
        self.world.killed(at)

    @rule(
        command=st.sampled_from(["pause", "resume", "abort", "roll-back"]),
        scope=st.sampled_from(["replica", "rack", "region", "fleet"]),
        keep=st.sampled_from([0, 0, 1, 3, 6]),
    )
    def command(self, command: str, scope: str, keep: int) -> None:
        self.world.ask(command, scope, step=keep if command == "roll-back" else 0)
        self.turned = self.turned or command in ("abort", "roll-back")

    @invariant()
    def only_the_current_step_is_away(self) -> None:
        """So the floor that the plan kept holds in every state."""
        state = self.world.state
        away = set(REPLICAS) - self.world.routed
        assert away <= {place.replica for step in state.queue[:1] for place in step.places}

    @invariant()
    def no_step_brings_a_region_below_its_floor(self) -> None:
        """Nodes may be lost between any two phases, and a driver may come back days later."""
        assert self.world.low <= self.low

    @invariant()
    def whoever_waits_says_why(self) -> None:
        action = self.world.action
        assert not isinstance(action, Wait) or (action.why and action.ways)

    @invariant()
    def what_is_over_is_whole(self) -> None:
        if isinstance(self.world.action, Over):
            assert self.world.routed == set(REPLICAS)
            assert self.world.live == self.world.assigned

    @invariant()
    def sessions_go_where_replicas_serve(self) -> None:
        """Of two releases that are kept apart, none gets sessions while nobody serves it."""
        for region, told in self.world.told.items():
            serving = self.world.serving(region)
            assert sum(told.values()) == TOTAL_WEIGHT
            assert all(serving[release] for release, share in told.items() if share)

    @invariant()
    def a_share_is_that_of_its_replicas_when_all_is_over(self) -> None:
        """Whoever died in between: the next one reads what was written, and writes what is."""
        if isinstance(self.world.action, Over):
            for region, told in self.world.told.items():
                assert told == shares_of(self.world.serving(region))

    @invariant()
    def what_a_region_shares_is_new_only_behind_its_replicas(self) -> None:
        """Unless somebody turned a part of it back, and kept the rest on purpose."""
        state = self.world.state
        if not state.back and not self.turned:
            for region, has in state.shared.items():
                own = {has for name, has in state.assigned.items() if name[0] == region}
                assert has == OLD or own == {NEW}

    @invariant()
    def what_should_run_is_what_was_written_down(self) -> None:
        state = self.world.state
        if state.phase == "assign" and state.began:  # killed before or behind the writing
            self.torn |= set(parts(state.queue[0]))
        elif PHASES.index(state.phase) > PHASES.index("assign") or not state.queue:
            self.torn.clear()  # written anew, also where it was turned round in between
        written = {**state.assigned, **{f"shared {n}": has for n, has in state.shared.items()}}
        differing = {name for name, has in written.items() if has != self.world.assigned[name]}
        assert differing <= self.torn

    @invariant()
    def a_serial_is_one_assignment(self) -> None:
        """Also after a kill: else an older file could pass for a newer one."""
        state = self.world.state
        for region, serial in state.serials.items():
            now = {name: has for name, has in state.assigned.items() if name[0] == region}
            now["shared"] = state.shared[region]
            assert self.written.setdefault((region, serial), now) == now

    def teardown(self) -> None:
        """From everywhere there is a way out: on, back, or an end."""
        for command in ("resume", "abort", "roll-back"):
            copy = World(
                record=list(self.world.record),
                live=dict(self.world.live),
                stored=dict(self.world.stored),
                assigned=dict(self.world.assigned),
                routed=set(self.world.routed),
                lost=set(self.world.lost),
                told=dict(self.world.told),
            )
            copy.ask(command)
            self.goes_on_or_says_why(copy)
            copy.lost.clear()
            over = finish(copy)
            assert copy.routed == set(REPLICAS)
            assert over.status != "done" or set(copy.live.values()) == {NEW}

    def goes_on_or_says_why(self, world: World) -> None:
        """With nodes that stay down it may not come to its end, but nobody waits in silence."""
        for _ in range(FEW):
            if not isinstance(world.action, Do):
                break
            world.go()
        action = world.action
        assert isinstance(action, Over) or (isinstance(action, Wait) and action.why and action.ways)


TestRollout = Rollout.TestCase
TestRollout.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
