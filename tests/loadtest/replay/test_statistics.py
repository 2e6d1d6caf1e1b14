"""Claims about the figures of a set of recordings."""

from __future__ import annotations

from array import array

from loadtest.replay.recording import Call, Part, Trace
from loadtest.replay.statistics import trace_statistics


def call(at_s: float, keep: int, ids: list[int], agent: str = "", tokens: int = 0) -> Call:
    return Call(
        agent=agent,
        at_s=at_s,
        gap_s=at_s,
        input_tokens=tokens or (keep + len(ids)) * 10 + 5,
        output_tokens=5,
        after_tool=at_s > 1,
        keep=keep,
        blocks=array("Q", ids),
    )


def trace(name: str, *calls: Call, scope: str = "session", start_s: float = 0.0) -> Trace:
    kind = "set" if scope == "set" else "session"
    return Trace(name=name, calls=calls, block_size=10, scope=kind, start_s=start_s)


def test_the_hit_counts_whole_blocks_seen_as_a_prefix() -> None:
    """A block that comes again behind another one is no prefix."""
    figures = trace_statistics(
        [trace("a", call(0, 0, [1, 2]), call(2, 2, [3]), call(3, 0, [2, 1]))]
    )
    assert figures.block_hit == 2 / 7
    assert figures.hit == 20 / (25 + 35 + 25)


def test_sub_agents_find_what_their_parent_sent() -> None:
    """They share the session's ids."""
    figures = trace_statistics([trace("a", call(0, 0, [1, 2]), call(1, 0, [1, 4], agent="1"))])
    assert figures.block_hit == 1 / 4


def test_sessions_share_nothing_unless_their_ids_mean_the_same() -> None:
    """Ids are numbers that start anew in each session, or hashes."""
    for scope, hit in (("session", 0.0), ("set", 2 / 4)):
        traces = [trace(name, call(0, 0, [1, 2]), scope=scope) for name in "ab"]
        assert trace_statistics(traces).block_hit == hit


def test_sessions_of_a_set_find_what_was_sent_before_in_time() -> None:
    """The order of names is not that of time."""
    late = trace("a", call(0, 0, [1, 2]), scope="set", start_s=9.0)
    soon = trace("b", call(0, 0, [1]), call(1, 1, [3]), scope="set")
    assert trace_statistics([late, soon]).block_hit == 2 / 5


def test_parts_count_by_their_tokens() -> None:
    """A system prompt of all sessions, and a history that grew."""
    system = Part("system", 100, "s", common=True)

    def session(name: str) -> Trace:
        first = Call(
            agent="", at_s=0, gap_s=0, input_tokens=110, output_tokens=5, after_tool=False, keep=0,
            parts=(system, Part("user", 10, "1")),
        )  # fmt: skip
        second = Call(
            agent="", at_s=1, gap_s=1, input_tokens=140, output_tokens=5, after_tool=True, keep=2,
            parts=(Part("user", 30, "2"),),
        )  # fmt: skip
        return Trace(name=name, calls=(first, second))

    figures = trace_statistics([session("a"), session("b")])
    assert figures.hit == (110 + 100 + 110) / 500


def test_lengths_and_pauses_are_summed_up() -> None:
    """Pauses before a session's first call are none of its own."""
    figures = trace_statistics([trace("a", call(0, 0, [1]), call(1, 1, []), call(4, 1, [2]))])
    assert (figures.sessions, figures.subagents, figures.calls) == (1, 0, 3)
    assert (figures.prompt_tokens.p50, figures.prompt_tokens.most) == (15, 25)
    assert (figures.tool_gap_s.mean, figures.user_gap_s.mean, figures.span_s.p50) == (4, 1, 4)
    assert figures.in_out == 55 / 15


def test_nothing_has_figures_too() -> None:
    """A page may ask before anything was read."""
    assert trace_statistics([]).hit == 0
