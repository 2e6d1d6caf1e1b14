"""Claims about the statistics of profiles, and that the profiles have those of production."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from loadtest.cache.attainable import ANSWERS, COLD, FLOORED, PROMPT_ENDS, HitCount
from loadtest.traffic import statistics as traffic_stats
from loadtest.traffic.outline import Call, Piece
from loadtest.traffic.profile_schema import LogNormal
from loadtest.traffic.profiles import load_profile
from loadtest.traffic.statistics import Statistics, draw_statistics

# What a Monte Carlo of the published table of profiles gave, by an independent program.
STEPS = {  # per session: mean, p50, p90
    "chat_assist": (2.4, 1, 6),
    "interactive_agent": (83, 24, 199),
    "autonomous_agent": (236, 137, 531),
}
LENGTHS = {  # prompt mean, p50, p90; output mean; input per output; uncached per step
    "chat_assist": (16_600, 12_300, 33_000, 570, 29, 5_100),
    "interactive_agent": (74_900, 68_900, 139_000, 457, 164, 2_000),
    "autonomous_agent": (132_000, 110_000, 289_000, 550, 240, 2_300),
}
HITS = {  # in %, by the rules below
    "chat_assist": (69.3, 68.9, 61.7, 69.3, 43, 61, 67, 69, 55, 47, 15),
    "interactive_agent": (97.3, 97.2, 96.9, 97.9, 90, 95, 96, 97, 95, 92, 75),
    "autonomous_agent": (98.2, 98.2, 98.0, 98.7, 94, 97, 98, 98, 97, 95, 86),
}
RULES = (
    *(PROMPT_ENDS, FLOORED, COLD, ANSWERS),
    *(f"idle eviction {minutes} min" for minutes in (1, 5, 15, 60)),
    *(f"only multiples of {size}" for size in (4096, 8192, 32768)),
)
SESSIONS = {"chat_assist": 10_000, "interactive_agent": 2_000, "autonomous_agent": 1_000}


@pytest.fixture(scope="module", params=STEPS)
def drawn(request: pytest.FixtureRequest) -> Statistics:
    """Draw as many sessions of a profile as make the noise small."""
    name = request.param
    return draw_statistics(load_profile(name), sessions=SESSIONS[name], seed=11)


def test_steps_per_session_are_those_of_the_table(drawn: Statistics) -> None:
    """Within 12 %: two standard errors.

    Steps per session have a standard deviation of 1.3 to 2.5 times their mean, so the mean of so
    many sessions has an error of 4 to 6 %, and that of the table one of its own.
    """
    steps = drawn.steps_per_session
    assert (steps.mean, steps.p50, steps.p90) == pytest.approx(STEPS[drawn.profile], rel=0.12)


def test_lengths_are_those_of_the_table(drawn: Statistics) -> None:
    """Within 4 %: they have a thousand times more draws, and the table has two or three digits."""
    prompt = drawn.prompt_tokens
    found = (
        *(prompt.mean, prompt.p50, prompt.p90),
        *(drawn.output_tokens.mean, drawn.input_per_output, drawn.uncached_per_step),
    )
    assert found == pytest.approx(LENGTHS[drawn.profile], rel=0.04)


def test_attainable_hits_are_those_of_the_table(drawn: Statistics) -> None:
    """Within 1.4 points.

    The table rounds to whole points (0.5); over seeds, chat_assist moves by 0.6 because the few
    calls of its sessions decide whether a prompt is seen again at all.
    """
    found = [100 * drawn.attainable[rule] for rule in RULES]
    assert found == pytest.approx(HITS[drawn.profile], abs=1.4)


@pytest.mark.parametrize(("name", "cost"), [("interactive_agent", 0.8), ("autonomous_agent", 0.1)])
def test_taking_old_reasoning_out_costs_what_was_measured(name: str, cost: float) -> None:
    """In points of the attainable hit; the same sessions both times, so the noise is small."""
    profile = load_profile(name)
    stripped = profile.model_copy(update={"reasoning_replay": "within_turn"})
    kept, taken = (
        draw_statistics(every, sessions=200, seed=4).attainable[PROMPT_ENDS]
        for every in (profile, stripped)
    )
    assert 100 * (kept - taken) == pytest.approx(cost, abs=0.2)


def test_a_seed_repeats_its_statistics() -> None:
    """Two people who compare numbers must be able to."""
    profile = load_profile("burst")
    one, two = (asdict(draw_statistics(profile, sessions=50, seed=2)) for _ in range(2))
    assert one == two
    assert one != asdict(draw_statistics(profile, sessions=50, seed=3))


def test_a_profile_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand turns of a hundred thousand steps would be drawn for days."""
    monkeypatch.setattr(traffic_stats, "MOST_CALLS", 500)
    many = LogNormal(median=100_000, sigma=0, max=100_000)
    one = LogNormal(median=1, sigma=0, max=1)
    update = {"first_turn_steps": many, "tool_tokens": one, "output_tokens": one}
    endless = load_profile("interactive_agent").model_copy(update=update)
    found = draw_statistics(endless, sessions=1000, seed=1)
    assert (found.calls, found.sessions) == (500, 1)


def call(agent: str, kept: int, added: list[Piece], **more: object) -> Call:
    """Make a call of 10 tokens of answer, one minute and a second after the one before."""
    given = {
        "agent": agent,
        "prefix": ("harness", 0),
        "forks": False,
        "turn": 1,
        "kind": "tool",
        "gap_s": 61.0,
        "kept": kept,
        "added": tuple(added),
        "output_tokens": 10,
        "answer": Piece(9, "assistant", 10),
        "cancel_after": None,
        **more,
    }
    return Call(**given)  # type: ignore[arg-type]


def piece(tokens: int, role: str = "user") -> Piece:
    return Piece(1, role, tokens)  # type: ignore[arg-type]


def count(*calls: Call) -> dict[str, int]:
    """Give the tokens that could not be hits, by rule."""
    hits = HitCount()
    for every in calls:
        hits.add(every)
    return {rule: hits.missed(rule) for rule in hits.rates()}


FIRST = call("", 0, [piece(1000, "system"), piece(500)], prompt_tokens=1500)


def test_the_first_call_finds_the_shared_prefix_and_nothing_else() -> None:
    """When it is warm; a cold one has to be computed once per session."""
    missed = count(FIRST)
    assert (missed[PROMPT_ENDS], missed[COLD]) == (500, 1500)
    assert missed[FLOORED] == 1500 - 1000 // 128 * 128
    assert missed["only multiples of 4096"] == 1500


def test_the_next_call_misses_the_answer_and_what_is_new() -> None:
    """The state at the end of the answer is not kept; where it is, only the new part misses."""
    missed = count(FIRST, call("", 3, [piece(200)], prompt_tokens=1710))
    assert missed[PROMPT_ENDS] - count(FIRST)[PROMPT_ENDS] == 210
    assert missed[ANSWERS] - count(FIRST)[ANSWERS] == 200
    assert missed[COLD] - count(FIRST)[COLD] == 210


def test_an_answer_without_its_reasoning_is_nothing_that_was_computed() -> None:
    """The server has computed the text after the reasoning; sent back without it, it is new."""
    silent = FIRST._replace(answer=Piece(9, "assistant", 6))
    missed = count(silent, call("", 3, [piece(200)], prompt_tokens=1706))
    assert missed[ANSWERS] - count(FIRST)[ANSWERS] == 206


def test_an_idle_session_finds_only_the_shared_prefix() -> None:
    """After one minute and a second the shortest timeout has passed, the others have not."""
    missed = count(FIRST, call("", 3, [piece(200)], prompt_tokens=1710))
    assert missed["idle eviction 1 min"] == 500 + 710
    assert missed["idle eviction 5 min"] == 500 + 210


def test_a_rewritten_history_falls_back_to_the_last_state_before_it() -> None:
    """A compaction to the shared prefix, stripped reasoning to the prompt before the answer."""
    second = call("", 3, [piece(200)], prompt_tokens=1710)
    compacted = call("", 1, [piece(100)], prompt_tokens=1100)
    stripped = call("", 2, [piece(5), piece(200), piece(5), piece(50)], prompt_tokens=1760)
    before = count(FIRST, second)[PROMPT_ENDS]
    assert count(FIRST, second, compacted)[PROMPT_ENDS] - before == 100
    assert count(FIRST, second, stripped)[PROMPT_ENDS] - before == 260


def test_a_fork_finds_all_of_its_parents_prompt_and_a_spawn_its_own_prefix() -> None:
    """What tells the two apart for a cache."""
    fork = call("1", 2, [piece(70)], forks=True, prompt_tokens=1570)
    own = ("subagent", 0)
    spawn = call("1", 0, [piece(300, "system"), piece(70)], prefix=own, prompt_tokens=370)
    first = count(FIRST)
    assert count(FIRST, fork)[PROMPT_ENDS] - first[PROMPT_ENDS] == 70
    assert count(FIRST, spawn)[PROMPT_ENDS] - first[PROMPT_ENDS] == 70
    assert count(FIRST, spawn)[COLD] - first[COLD] == 370
