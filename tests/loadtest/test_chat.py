"""Claims about calls over a real connection, against a gateway double in its own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from fleet.errors import ConfigError
from loadtest.client.chat import Chat, make_chat
from loadtest.client.fetch import Request, fetch
from loadtest.client.sse import Reply
from loadtest.client.taxonomy import classify_status, classify_wire
from loadtest.client.wire import Connection
from loadtest.play.conversation import Conversation
from loadtest.play.load_run import make_run
from loadtest.prompt.prompts import Message
from loadtest.prompt.words import Vocabulary
from loadtest.results.records import Record, read_records
from loadtest.settings import LoadSettings
from loadtest.traffic.sessions import Seeds

BLOCK = 16  # of the double

Call = Callable[..., Reply]


@pytest.fixture
def chat_for(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Callable[..., Chat]:
    """Make a chat with one behaviour of the double."""

    def make(*paths: str, **changes: Any) -> Chat:
        settings = LoadSettings.model_validate(
            {
                "targets": {path: f"{gateway}/{path}" for path in paths},
                "tokenizer_dir": tokenizer_dir,
                "block_size": BLOCK,
                "users": 1,
                "out_dir": tmp_path / "out",
                "token_scale": 200.0,
                **changes,
            }
        )
        return make_chat(settings, perf_counter)

    return make


@pytest.fixture
def question(vocabulary: Vocabulary) -> list[Message]:
    """Ask something."""
    words = vocabulary.draw(Seeds(seed=1, salt="").lengths(), 5)
    return [Message(role="user", content=words)]


@pytest.mark.parametrize(
    ("behaviour", "status", "error"),
    [
        ("ok", 200, None),
        ("frame", 200, "in_stream_error"),
        ("cut", 200, "truncated"),
        ("empty", 200, "empty"),
        ("unreported", 200, "no_usage"),
        ("garbage", 200, "bad_json"),
        ("mute", 0, "reset"),
        ("400", 400, "context_overflow"),
        ("404", 404, "not_found"),
        ("429", 429, "rate_limited"),
        ("500", 500, "server_5xx"),
        ("503", 503, "server_5xx"),
    ],
)
def test_every_failure_has_its_class(
    chat_for: Callable[..., Chat],
    question: list[Message],
    behaviour: str,
    status: int,
    error: str | None,
) -> None:
    """A report that says only "failed" sends people to the wrong team."""
    chat = chat_for(behaviour)
    reply = chat.fetch(chat.connect(behaviour), chat.body(question, 3))
    assert (reply.status, reply.error) == (status, error)


def test_an_answer_is_read_to_its_end(
    chat_for: Callable[..., Chat], question: list[Message]
) -> None:
    """Tokens, worker and usage, over a connection that stays."""
    chat = chat_for("ok")
    reply = chat.fetch(chat.connect("ok"), chat.body(question, 3))
    assert (reply.chunks, reply.worker) == (3, "42")
    assert reply.usage is not None
    assert reply.usage["completion_tokens"] == 3


def test_a_connection_is_kept_between_calls(
    chat_for: Callable[..., Chat], question: list[Message]
) -> None:
    """A new connection per call would measure handshakes."""
    chat = chat_for("ok")
    connection = chat.connect("ok")
    chat.fetch(connection, chat.body(question, 1))
    assert connection.is_open


def test_a_connection_closed_in_between_is_opened_again(
    chat_for: Callable[..., Chat], question: list[Message]
) -> None:
    """A gateway may close an idle connection; that is no failure of the fleet."""
    chat = chat_for("stale")
    connection = chat.connect("stale")
    errors = [chat.fetch(connection, chat.body(question, 1)).error for _ in range(3)]
    assert errors == [None, None, None]


def test_a_refused_connection_is_told_apart() -> None:
    """Nothing listens on port 1 of loopback."""
    connection = Connection("http://127.0.0.1:1", {})
    assert fetch(connection, Request(path="/", body=b""), perf_counter).error == "connect"


@pytest.mark.parametrize(
    ("kind", "status", "chunks", "error"),
    [
        ("timeout_read", 0, 0, "timeout_first_token"),
        ("timeout_read", 200, 0, "timeout_first_token"),
        ("timeout_read", 200, 5, "timeout_gap"),
        ("reset", 200, 5, "truncated"),
        ("reset", 0, 0, "reset"),
        ("dns", 0, 0, "dns"),
    ],
)
def test_network_failures_are_classed_by_when_they_came(
    kind: str, status: int, chunks: int, error: str
) -> None:
    """A stall before the first token and one within the answer have different causes."""
    assert classify_wire(kind, status, chunks) == error


@pytest.mark.parametrize(
    ("status", "error"), [(401, "unauthorized"), (413, "too_large"), (418, "http_418")]
)
def test_other_statuses_have_names_too(status: int, error: str) -> None:
    """Including those that nobody expects."""
    assert classify_status(status, b"") == error


@pytest.mark.parametrize("content", [b"", b"two\nlines", "schlüssel".encode(), None])
def test_a_useless_key_file_is_refused_without_showing_it(
    chat_for: Callable[..., Chat], tmp_path: Path, content: bytes | None
) -> None:
    """A line end would let the file write headers; a message ends up in logs."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="cannot be read as a key") as caught:
        chat_for("ok", api_key_file=path)
    assert "lines" not in str(caught.value)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev", "/no\0thing", "huge"])
def test_a_key_file_without_end_is_refused(
    chat_for: Callable[..., Chat], tmp_path: Path, path: str
) -> None:
    """It would be read into memory until there is none."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="cannot be read as a key"):
        chat_for("ok", api_key_file=tmp_path / path)


def test_the_key_goes_into_a_header(chat_for: Callable[..., Chat], tmp_path: Path) -> None:
    """Gateways take a bearer token."""
    (tmp_path / "key").write_text("abc\n")
    assert chat_for("ok", api_key_file=tmp_path / "key").headers == {"Authorization": "Bearer abc"}


def play(chat: Chat, calls: int) -> list[Record]:
    run = make_run(chat.settings)
    conversation = Conversation(run, run.next_session_number() or 0)
    records = []
    for _ in range(calls):
        step = conversation.next_step()
        if step is None:
            conversation = Conversation(run, run.next_session_number() or 0)
            continue
        records.append(conversation.call(step))
    run.recorder.finish()
    return records


def read_to_the_end(records: list[Record]) -> list[Record]:
    """Leave out what the user hung up on: such a call is told no usage."""
    answered = [record for record in records if not record.cancelled]
    assert len(answered) > 20
    return answered


def test_the_oracle_agrees_with_a_real_cache(chat_for: Callable[..., Chat]) -> None:
    """Every call gets exactly what was attainable, when one cache serves all."""
    records = read_to_the_end(play(chat_for("ok", run_id="a"), 40))
    assert [r.cached_tokens for r in records] == [r.attainable_tokens for r in records]
    assert sum(r.attainable_tokens for r in records) > 0


@pytest.mark.parametrize("behaviour", ["ok", "counted"])
def test_prompt_lengths_are_predicted(chat_for: Callable[..., Chat], behaviour: str) -> None:
    """With a server that tells token ids, and with one that only counts."""
    records = read_to_the_end(play(chat_for(behaviour, run_id=behaviour), 40))
    assert [r.prompt_tokens for r in records] == [r.predicted_prompt_tokens for r in records]


def test_every_call_is_on_disk(chat_for: Callable[..., Chat]) -> None:
    """A run that is killed keeps its data."""
    chat = chat_for("ok", run_id="b")
    records = play(chat, 5)
    assert list(read_records(chat.settings.out_dir / "requests.jsonl")) == records


def test_sessions_take_turns_between_regions(chat_for: Callable[..., Chat]) -> None:
    """Every region gets its share of the load."""
    run = make_run(chat_for("ok", "500").settings)
    regions = []
    for _ in range(4):
        conversation = Conversation(run, run.next_session_number() or 0)
        step = conversation.next_step()
        assert step is not None
        regions.append(conversation.call(step).region)
    assert regions == ["ok", "500", "ok", "500"]


def test_a_session_ends_before_it_outgrows_the_context(chat_for: Callable[..., Chat]) -> None:
    """A prompt that is too long would be our error, not the fleet's."""
    chat = chat_for("ok", run_id="c", max_context=15_000, token_scale=1.0)
    conversation = Conversation(make_run(chat.settings), 0)
    assert conversation.next_step() is None
