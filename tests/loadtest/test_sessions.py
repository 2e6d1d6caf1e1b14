"""Claims about whole sessions: what they send, where they hang up, what they go on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from loadtest.client.sse import Reply
from loadtest.client.wire import Connection
from loadtest.play.conversation import Conversation
from loadtest.play.load_run import LoadRun, make_run
from loadtest.play.numbering import Numbers
from loadtest.prompt.body import Body
from loadtest.prompt.prompts import Message
from loadtest.prompt.words import Vocabulary
from loadtest.results.records import Record
from loadtest.settings import LoadSettings
from loadtest.traffic.arrivals import POISSON, ArrivalProcess
from loadtest.traffic.harness import Prefix
from loadtest.traffic.sessions import Seeds, Step

MakeRun = Callable[..., LoadRun]


@pytest.fixture
def run_for(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> MakeRun:
    """Make a run against the double, two regions of it."""

    def make(**changes: Any) -> LoadRun:
        settings = LoadSettings.model_validate(
            {
                "targets": {"a": f"{gateway}/ok", "b": f"{gateway}/ok"},
                "tokenizer_dir": tokenizer_dir,
                "block_size": 16,
                "users": 1,
                "out_dir": tmp_path / "out",
                "token_scale": 200.0,
                "run_id": "r",
                **changes,
            }
        )
        return make_run(settings)

    return make


@dataclass
class Script:
    """Play one session of given steps."""

    steps: Sequence[Step]
    arrivals: ArrivalProcess = POISSON
    most_sessions: int | None = None

    def session(self, number: int) -> Iterator[Step]:
        return iter(self.steps)

    def shared(self) -> Sequence[Message]:
        return ()

    def prefixes(self) -> Sequence[Prefix]:
        return ()


def steps(vocabulary: Vocabulary, count: int, seed: int = 1, **changes: Any) -> list[Step]:
    """Ask, answer and ask again; the answers are scripted."""
    rng = Seeds(seed=seed, salt="").lengths()
    history = [Message(role="user", content=vocabulary.draw(rng, 20))]
    made: list[Step] = []
    for turn in range(1, count + 1):
        step = Step(
            session="s",
            parent=None,
            turn=turn,
            kind="user",
            gap_s=0.0,
            messages=tuple(history),
            output_tokens=8,
        )
        made.append(replace(step, **changes))
        history.append(
            Message(
                role="assistant",
                reasoning=vocabulary.draw(rng, 3),
                content=vocabulary.draw(rng, 5),
            )
        )
        history.append(Message(role="user", content=vocabulary.draw(rng, 20)))
    return made


def play(run: LoadRun, script: Sequence[Step]) -> list[Record]:
    run.traffic = Script(script)
    conversation = Conversation(run, run.next_session_number() or 0)
    records = []
    while (step := conversation.next_step()) is not None:
        records.append(conversation.call(step))
    return records


def test_a_user_who_has_seen_enough_is_no_error(
    run_for: MakeRun, gateway: str, vocabulary: Vocabulary
) -> None:
    """The first token came, so its time counts; how long the rest takes nobody knows."""
    run = run_for(targets={"a": f"{gateway}/slow"})
    (record,) = play(run, steps(vocabulary, 1, cancel_after=0.25))
    assert (record.cancelled, record.error) == (True, None)
    assert record.ttft_s is not None
    assert 2 <= record.chunks < 8


def test_an_unusable_usage_is_a_failed_call_without_counts(
    run_for: MakeRun, gateway: str, vocabulary: Vocabulary
) -> None:
    """What is saved is read again, and summed up; the call itself must not be lost."""
    run = run_for(targets={"a": f"{gateway}/listed"})
    (record,) = play(run, steps(vocabulary, 1))
    assert (record.error, record.prompt_tokens, record.cached_tokens) == ("bad_usage", None, None)


def test_a_cancelled_connection_is_not_used_again(
    run_for: MakeRun, gateway: str, vocabulary: Vocabulary
) -> None:
    """The rest of the answer is still on it."""
    run = run_for(targets={"a": f"{gateway}/slow"})
    run.traffic = Script(steps(vocabulary, 1, cancel_after=0.25))
    conversation = Conversation(run, run.next_session_number() or 0)
    step = conversation.next_step()
    assert step is not None
    conversation.call(step)
    assert not conversation._connection.is_open


def test_a_cancelled_prompt_was_computed(
    run_for: MakeRun, gateway: str, vocabulary: Vocabulary
) -> None:
    """The server had to prefill it before the first token, so the next turn finds it."""
    records = play(
        run_for(targets={"a": f"{gateway}/slow"}), steps(vocabulary, 2, cancel_after=0.25)
    )
    assert records[1].attainable_tokens > 0
    assert records[1].prompt_tokens is None  # no usage came, and it is not made up


def test_a_live_history_sends_back_what_was_said(
    run_for: MakeRun, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reasoning too, else the prefix breaks each turn."""
    bodies = watch(monkeypatch)
    run = run_for(session={"history": "live"})
    bodies.clear()
    records = play(run, steps(vocabulary, 3))
    assert b'"content":"\xc3\xa9\xc3\xa9\xc3\xa9' in bodies[1]
    assert [body.count(b'"role":"assistant"') for body in bodies] == [0, 1, 2]
    assert [record.predicted_exactly for record in records] == [True, False, False]
    assert [record.error for record in records] == [None] * 3


def test_the_known_part_of_a_live_prompt_is_still_predicted(
    run_for: MakeRun, vocabulary: Vocabulary
) -> None:
    """What our own words fill is attainable, whatever the model said behind them."""
    records = play(run_for(session={"history": "live"}), steps(vocabulary, 3))
    assert all(record.attainable_tokens > 0 for record in records[1:])
    assert all(record.cached_tokens >= record.attainable_tokens - 16 for record in records[1:])  # type: ignore[operator]


def test_the_messages_api_plays_the_same_session(run_for: MakeRun, vocabulary: Vocabulary) -> None:
    """Same prompt, same cache; only the wire differs."""
    records = play(run_for(session={"dialect": "anthropic"}), steps(vocabulary, 3, seed=2))
    assert [record.error for record in records] == [None] * 3
    assert [r.prompt_tokens for r in records] == [r.predicted_prompt_tokens for r in records]
    assert [r.cached_tokens for r in records] == [r.attainable_tokens for r in records]
    assert {record.finish for record in records} == {"stop"}
    assert all(r.ttft_s is not None and r.ttfo_s is not None for r in records)


def watch(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect the bodies that are sent."""
    bodies: list[bytes] = []
    post = Connection.post

    def watched(self: Connection, path: str, body: Body | bytes, *rest: Any) -> int:
        bodies.append(bytes(body))
        return post(self, path, body, *rest)

    monkeypatch.setattr(Connection, "post", watched)
    return bodies


def bodies_by_session(
    run: LoadRun, bodies: list[bytes], sessions: int
) -> dict[int, list[tuple[str, bytes]]]:
    """Play the first steps of some sessions of one process."""
    played: dict[int, list[tuple[str, bytes]]] = {}
    for _ in range(sessions):
        number = run.numbers.index + run._numbered * run.numbers.count
        conversation = Conversation(run, run.next_session_number() or 0)
        bodies.clear()
        regions = []
        for _ in range(4):
            step = conversation.next_step()
            if step is None:
                break
            regions.append(conversation.call(step).region)
        played[number] = list(zip(regions, bodies, strict=True))
        conversation.close()
    return played


@pytest.mark.parametrize("processes", [2, 4])
def test_a_session_is_the_same_whichever_process_plays_it(
    run_for: MakeRun, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """Byte by byte and in the same region, or runs of different size cannot be compared."""
    bodies = watch(monkeypatch)
    alone = bodies_by_session(run_for(), bodies, 8)
    shared: dict[int, list[tuple[str, bytes]]] = {}
    for index in range(processes):
        run = run_for()
        run.numbers = Numbers(index=index, count=processes)
        shared.update(bodies_by_session(run, bodies, 8 // processes))
    assert shared == alone
    assert len({body for calls in alone.values() for _, body in calls}) > 8


def test_every_session_has_its_number_once(run_for: MakeRun) -> None:
    """Two processes never play the same session."""
    run = run_for()
    run.numbers = Numbers(index=1, count=3)
    assert [run.next_session_number() for _ in range(3)] == [1, 4, 7]


def test_a_reply_with_nothing_in_it_leaves_the_script(vocabulary: Vocabulary) -> None:
    """A failed call has said nothing that could be sent back."""
    from loadtest.prompt.live_history import LiveHistory  # noqa: PLC0415

    first, second = steps(vocabulary, 2)
    live = LiveHistory()
    live.took(first.messages, Reply(0.0, error="reset"))
    assert live.messages(second.messages) == second.messages


def test_a_call_that_cannot_be_made_ends_its_session_and_is_counted(
    run_for: MakeRun, vocabulary: Vocabulary, caplog: pytest.LogCaptureFixture
) -> None:
    """A frame is learned when it is first used: by then the server may be gone."""
    run = run_for()
    stray = Message(role="tool", content=vocabulary.draw(Seeds(seed=1, salt="").lengths(), 3))
    (step,) = steps(vocabulary, 1)
    run.traffic = Script([replace(step, messages=(*step.messages, stray))])
    conversation = Conversation(run, 0)
    (planned,) = [conversation.next_step()]
    assert planned is not None
    assert conversation.attempt(planned) is None
    recorder = run.recorder
    assert (recorder.calls_started, recorder.calls_ended) == (1, 0)
    assert "turn 1 was not sent" in caplog.text
