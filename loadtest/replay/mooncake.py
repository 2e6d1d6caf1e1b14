"""Read Mooncake's request traces, and those of Bailian (Qwen) that extend them.

Sources: github.com/kvcache-ai/Mooncake, `FAST25-release/traces` (timestamp in ms, input_length,
output_length, hash_ids of 512-token prefix blocks that mean the same in the whole file, the last
one not full); AIPerf's loader and Dynamo's `MooncakeRow` (session_id, delay in ms, the other names
of fields); github.com/alibaba-edu/qwen-bailian-usagetraces-anon (timestamp in s, 16-token blocks,
chat_id, parent_chat_id, turn).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import AliasChoices, Field

from loadtest.replay.blocks import BlockCall, BlockHistory, IdBudget
from loadtest.replay.chains import chains
from loadtest.replay.files import Document, Entry, Recorded
from loadtest.replay.reading import Rules
from loadtest.replay.recording import MAX_CALLS, MAX_SECONDS, MAX_TOKENS, Trace

BLOCK_SIZE = 512
_BAILIAN_BLOCK_SIZE = 16

_Time = Annotated[float, Field(ge=0, le=MAX_SECONDS * 1000, allow_inf_nan=False)]
_TokenCount = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class _Row(Recorded):
    timestamp: _Time | None = Field(
        None, validation_alias=AliasChoices("timestamp", "created_time")
    )
    delay: _Time | None = Field(None, validation_alias=AliasChoices("delay", "delay_ms"))
    input_length: _TokenCount = Field(validation_alias=AliasChoices("input_length", "input_tokens"))
    output_length: _TokenCount = Field(
        validation_alias=AliasChoices("output_length", "output_tokens")
    )
    hash_ids: list[int] = Field(default_factory=list)
    session_id: str | int | None = None
    chat_id: int | None = None
    parent_chat_id: int = -1


@dataclass(frozen=True, slots=True)
class Request:
    """Hold one request of a trace whose ids mean the same in all its sessions."""

    at_s: float
    delay_s: float | None
    input_tokens: int
    output_tokens: int
    ids: array[int]
    tail_id: int | None
    session: str | None
    after_tool: bool = False


class MooncakeReader:
    """Read one request per line."""

    name: ClassVar[str] = "mooncake"
    may_be_cut: ClassVar[bool] = False

    def claims(self, document: Document) -> bool:
        """Tell by the length and the ids of a prompt."""
        lengths = "input_length" in document or "input_tokens" in document
        return lengths and not {"schema", "request_id", "turns"} & document.keys()

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read all requests, then sort them into sessions."""
        chats: dict[int, str] = {}
        requests: list[Request] = []
        block_size = rules.options.block_size or 0
        budget = IdBudget()
        for entry in entries:
            row = entry.read(_Row, entry.data)
            own_size = BLOCK_SIZE if row.chat_id is None else _BAILIAN_BLOCK_SIZE
            block_size = block_size or own_size
            cut = budget.cut(entry, "hash_ids", row.hash_ids, row.input_length, block_size)
            requests.append(_request(row, cut, _session(entry, row, chats)))
            if len(requests) > MAX_CALLS:
                entry.refuse("", f"more than {MAX_CALLS} requests", "Give a part of the file")
        yield from by_session(requests, block_size, rules)


def _session(entry: Entry, row: _Row, chats: dict[int, str]) -> str | None:
    """Name a row's session: its own name, or the chat that its chain of parents starts with."""
    if row.session_id is not None:
        return str(row.session_id)
    if row.chat_id is None:
        return None
    if row.chat_id in chats:
        entry.refuse("chat_id", f"{row.chat_id} was read before", "Give each request its own")
    root = chats.get(row.parent_chat_id, f"chat-{row.chat_id}")
    chats[row.chat_id] = root
    return root


def _request(row: _Row, cut: tuple[array[int], int | None], session: str | None) -> Request:
    ids, tail_id = cut
    unit = 1.0 if row.chat_id is not None else 1000.0
    return Request(
        at_s=(row.timestamp or 0.0) / unit,
        delay_s=None if row.delay is None else row.delay / 1000.0,
        input_tokens=row.input_length,
        output_tokens=row.output_length,
        ids=ids,
        tail_id=tail_id,
        session=session,
    )


def by_session(requests: list[Request], block_size: int, rules: Rules) -> Iterator[Trace]:
    """Sort requests into sessions: by name, else by what they share, or one each."""
    requests.sort(key=lambda request: request.at_s)
    if not requests:
        return
    unnamed = [request.ids for request in requests if request.session is None]
    single = rules.options.sessions == "requests"
    numbers = iter(range(len(unnamed)) if single else chains(unnamed))
    groups: dict[str | int, list[Request]] = {}
    for request in requests:
        key = next(numbers) if request.session is None else request.session
        groups.setdefault(key, []).append(request)
    first_s = requests[0].at_s
    for key, group in groups.items():
        yield _trace(f"{key}", group, block_size, first_s)


def _trace(name: str, requests: Sequence[Request], block_size: int, first_s: float) -> Trace:
    """Make a session; without a recorded pause it is what lies between two requests."""
    history = BlockHistory()
    start_s = before_s = requests[0].at_s
    calls = []
    for request in requests:
        gap_s = request.at_s - before_s if request.delay_s is None else request.delay_s
        before_s = request.at_s
        made = BlockCall(
            agent="",
            at_s=request.at_s - start_s,
            gap_s=gap_s,
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            after_tool=request.after_tool,
            ids=request.ids,
            tail_id=request.tail_id,
        )
        calls.append(history.call(made))
    return Trace(
        name=name,
        calls=tuple(calls),
        block_size=block_size,
        scope="set",
        start_s=start_s - first_s,
    )
