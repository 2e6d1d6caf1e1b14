"""A gateway double: streams chat completions over HTTP/1.1, and fails in the ways real ones do.

The first part of the path chooses the behaviour (/ok, /500, /cut, ...). The prompt is framed as a
small chat template would; `cached_tokens` come from a real block cache, so that the oracle can be
checked against it. Arguments: a tokenizer.json, and a file for a line per request, if wanted.
Prints its port, ends when its stdin closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

BLOCK = 16
CACHE: set[int] = set()
FULL: set[asyncio.StreamWriter] = set()
MOST_OPEN = 5  # connections that /full serves
TAG = 1_000_000  # above all ids of the vocabulary
PACE_S = 0.01  # between the events of a slow answer
UNKNOWN = 2_000_000  # of words that a model said
OPEN = {"system": [1, 2], "user": [1, 3], "assistant": [1, 4, 5]}


VOCABULARY = json.loads(Path(sys.argv[1]).read_text())["model"]["vocab"]


def word(text: str) -> list[int]:
    return [VOCABULARY.get("Ġ" + part, UNKNOWN) for part in text.split()]


def tokens_of(messages: list[dict[str, str]]) -> list[int]:
    ids = tags(7, 7, 7)
    for message in messages:
        ids += tags(*OPEN[message["role"]])
        if message["role"] == "assistant":
            ids += word(message["reasoning_content"]) + tags(6)
        ids += word(message["content"]) + tags(9)
    return ids + tags(*OPEN["assistant"])


def tags(*ids: int) -> list[int]:
    return [TAG + id_ for id_ in ids]


def cached_tokens(ids: list[int]) -> int:
    chain, hits, intact = 0, 0, True
    for start in range(0, len(ids) - BLOCK + 1, BLOCK):
        chain = hash((chain, *ids[start : start + BLOCK]))
        intact = intact and chain in CACHE
        hits += intact
        CACHE.add(chain)
    return min(hits, (len(ids) - 1) // BLOCK) * BLOCK


def listed(path: str) -> bytes:
    """Answer what models there are; /html is a web page, /closed wants a key, /old has no list."""
    names = ["kimi-k2", "other"] if path == "others" else ["kimi-k3"]
    models = json.dumps({"data": [{"id": name} for name in names]}).encode()
    status, kind, body = {
        "html": (200, "text/html", b"<!doctype html><title>login</title>"),
        "closed": (401, "application/json", b"{}"),
        "old": (404, "application/json", b"{}"),
        "list": (200, "application/json", b"[]"),
    }.get(path, (200, "application/json", models))
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def delta(**content: str) -> str:
    choice = {"index": 0, "delta": content, "finish_reason": None}
    worker = {"decode_worker_id": 42}
    return "data: " + json.dumps({"choices": [choice], "nvext": {"worker_id": worker}}) + "\n\n"


def messages_stream(body: dict[str, Any]) -> list[str]:
    """Answer as Anthropic's Messages API does: think, say, and call a tool if there is one."""
    system = [{"role": "system", "content": block["text"]} for block in body.get("system", [])]
    ids = tokens_of([*system, *map(as_chat, body["messages"])])
    hits = cached_tokens(ids)
    usage = {"input_tokens": len(ids) - hits, "output_tokens": body["max_tokens"]}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 0}}},
        {"type": "ping"},
        piece(0, "thinking_delta", thinking="hm"),
        *(piece(1, "text_delta", text="é") for _ in range(body["max_tokens"] - 1)),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {**usage, "cache_read_input_tokens": hits},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def piece(index: int, kind: str, **content: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **content}}


def as_chat(message: dict[str, Any]) -> dict[str, str]:
    if message["role"] == "user":
        return {"role": "user", "content": message["content"]}
    texts = {block["type"]: block for block in message["content"]}
    return {
        "role": "assistant",
        "reasoning_content": texts.get("thinking", {}).get("thinking", ""),
        "content": texts.get("text", {}).get("text", ""),
    }


def stream(path: str, body: dict[str, Any]) -> list[str]:
    ids = tokens_of(body["messages"])
    count = body.get("max_completion_tokens", body.get("max_tokens"))
    usage: dict[str, Any] = {
        "prompt_tokens": len(ids),
        "completion_tokens": count,
        "prompt_tokens_details": {"cached_tokens": cached_tokens(ids)},
    }
    if path == "listed" and count > 2:  # calibrated well, and answered badly
        usage["prompt_tokens_details"] = [usage["prompt_tokens_details"]]
    last = "data: " + json.dumps({"choices": [], "usage": usage}) + "\n\n"
    parts = [": keep-alive\n\n", delta(role="assistant", content="")]
    if path == "ok" and "annotations" in body["nvext"]:
        parts.append(f"event: token_ids\n: {json.dumps(json.dumps(ids))}\n\n")
    tokens = [delta(content="é") for _ in range(count)]
    done = "data: [DONE]\n\n"
    error = 'event: error\ndata: {"error": {"message": "worker lost", "code": 503}}\n\n'
    return {
        "frame": [*parts, *tokens[:1], error, done],
        "cut": [*parts, *tokens],
        "empty": [*parts, last, done],
        "unreported": [*parts, *tokens, done],
        "garbage": [*parts, "data: {not json\n\n", done],
    }.get(path, [*parts, *tokens, last, done])


def note(head: str, sent: bytes) -> None:
    """Write down whose request it was, and what its body was, as a digest."""
    if len(sys.argv) > 2:
        names = [line for line in head.split("\r\n") if "session-id" in line.lower()]
        session = names[0].split(":")[1].strip() if names else "-"
        with Path(sys.argv[2]).open("a") as log:
            log.write(f"{session} {hashlib.sha256(sent).hexdigest()}\n")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; say whether the connection stays open."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    path = head.split(" ", 2)[1].split("/")[1]
    if head.startswith("GET "):
        writer.write(listed(path))
        return True
    length = next(line for line in head.split("\r\n") if line.lower().startswith("content-length"))
    sent = await reader.readexactly(int(length.split(":")[1]))
    note(head, sent)
    body = json.loads(sent)
    if path.isdigit():
        text = b'{"message": "this is longer than the maximum context length"}'
        writer.write(b"HTTP/1.1 %s X\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(text)))
        writer.write(text)
        return True
    if path == "mute":
        return False
    if path == "full":
        FULL.add(writer)
        if len(FULL) > MOST_OPEN:
            writer.write(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
            return True
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    is_messages = head.split(" ", 2)[1].endswith("/v1/messages")
    for part in messages_stream(body) if is_messages else stream(path, body):
        data = part.encode()
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await writer.drain()
        if path == "slow":
            await asyncio.sleep(PACE_S)
    if path == "abort":
        return False
    writer.write(b"0\r\n\r\n")
    return path != "stale"  # announces keep-alive, then closes all the same


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while await answer(reader, writer):
            await writer.drain()
        await writer.drain()
    FULL.discard(writer)
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
