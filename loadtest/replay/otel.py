"""Read spans of OpenTelemetry's conventions for generative AI.

Source: opentelemetry.io/docs/specs/semconv/gen-ai (status: development): `gen_ai.operation.name`,
`gen_ai.usage.input_tokens` and `.output_tokens` (earlier `prompt_tokens`, `completion_tokens`),
`gen_ai.conversation.id`, `gen_ai.response.finish_reasons`. Files: OTLP JSON (`resourceSpans`, as
the collector's file exporter writes it, one export per line), `{"spans": […]}`, or one span per
line, with OTLP's names or those of the SDKs' console exporters (`context.span_id`, `parent_id`,
`start_time`, attributes as an object).

A conversation is a session, a span without one belongs to its trace. A span `invoke_agent` inside
another one is a sub-agent. Spans have no block ids: see `growth` for what is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NoReturn

from loadtest.replay.families import roots
from loadtest.replay.files import Document, Entry
from loadtest.replay.growth import CountedCall, Growth
from loadtest.replay.reading import Rules
from loadtest.replay.recording import MAX_CALLS, MAX_TOKENS, Call, Trace, paced

_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CONVERSATION = ("gen_ai.conversation.id", "session.id")
_NO_CALLS = {"create_agent", "embeddings", "execute_tool", "invoke_agent", "invoke_workflow"}
"""Operations that are no call of a model; an agent's usage is the sum of its calls'."""
_MAX_NS = 10**19  # the year 2286
_FIX = "Correct this span, or leave it out"

_Id = tuple[str, str]
"""Trace and span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    entry: Entry
    id: _Id
    parent: _Id | None
    operation: str
    conversation: str | None
    start_s: float
    end_s: float
    input_tokens: int | None
    output_tokens: int
    tools_follow: bool

    @property
    def is_call(self) -> bool:
        return self.input_tokens is not None and self.operation not in _NO_CALLS


class OtelReader:
    """Read spans, in any of the usual shapes."""

    name: ClassVar[str] = "otel"
    may_be_cut: ClassVar[bool] = False

    def claims(self, document: Document) -> bool:
        """Tell by OTLP's frame, or by what each span has."""
        if {"resourceSpans", "spans"} & document.keys():
            return True
        return "attributes" in document and bool({"spanId", "span_id", "context"} & document.keys())

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read all spans, then sort their calls into conversations."""
        spans: dict[_Id, _Span] = {}
        for entry in entries:
            for data, place in _span_objects(entry):
                span = _span(entry, data, place)
                if span.id in spans:
                    entry.refuse(place, f"span {span.id[1]} was read before", _FIX)
                if len(spans) >= MAX_CALLS:
                    entry.refuse("", f"more than {MAX_CALLS} spans", "Give a part of the file")
                spans[span.id] = span
        yield from _conversations(spans, rules.options.tag_tokens)


def _span_objects(entry: Entry) -> Iterator[tuple[dict[str, Any], str]]:
    """Find the spans of a line, with their places."""
    data = entry.data
    if "resourceSpans" in data:
        for resource, place in _objects(entry, data, "resourceSpans", ""):
            for scope, inner in _objects(entry, resource, "scopeSpans", f"{place}."):
                yield from _objects(entry, scope, "spans", f"{inner}.")
    elif "spans" in data:
        yield from _objects(entry, data, "spans", "")
    else:
        yield data, ""


def _objects(
    entry: Entry, owner: dict[str, Any], key: str, place: str
) -> Iterator[tuple[dict[str, Any], str]]:
    items = owner.get(key, [])
    if not isinstance(items, list):
        entry.refuse(f"{place}{key}", "is no list", _FIX)
    for index, item in enumerate(items):
        spot = f"{place}{key}[{index}]"
        if not isinstance(item, dict):
            entry.refuse(spot, "is no object", _FIX)
        yield item, spot


def _span(entry: Entry, data: dict[str, Any], place: str) -> _Span:
    context = data.get("context")
    ids = {**data, **context} if isinstance(context, dict) else data
    trace = _text(entry, ids, ("traceId", "trace_id"), place)
    own = _text(entry, ids, ("spanId", "span_id"), place)
    if own is None or trace is None:
        entry.refuse(place, "has no trace id or no span id", _FIX)
    parent = _text(entry, data, ("parentSpanId", "parent_span_id", "parent_id"), place)
    attributes = _attributes(entry, data.get("attributes"), place)
    start_s = _time(entry, data, ("startTimeUnixNano", "start_time"), place)
    end_s = _time(entry, data, ("endTimeUnixNano", "end_time"), place)
    if end_s < start_s:
        entry.refuse(place, "ends before it starts", _FIX)
    return _Span(
        entry=entry.place(),
        id=(trace, own),
        parent=(trace, parent) if parent else None,
        operation=_operation(attributes),
        conversation=_text(entry, attributes, _CONVERSATION, f"{place}.attributes"),
        start_s=start_s,
        end_s=end_s,
        input_tokens=_count(entry, attributes, _INPUT, place),
        output_tokens=_count(entry, attributes, _OUTPUT, place) or 1,
        tools_follow=_tools_follow(attributes),
    )


def _attributes(entry: Entry, data: Any, place: str) -> Mapping[str, Any]:
    """Read attributes: an object, or OTLP's list of keys and typed values."""
    if data is None or isinstance(data, dict):
        return data or {}
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        entry.refuse(f"{place}.attributes".lstrip("."), "is no list of objects", _FIX)
    values: dict[str, Any] = {}
    for item in data:
        value = item.get("value")
        if isinstance(value, dict):
            value = next(iter(value.values()), None)
        if isinstance(item.get("key"), str):
            values[item["key"]] = value
    return values


def _operation(attributes: Mapping[str, Any]) -> str:
    operation = attributes.get("gen_ai.operation.name")
    return operation if isinstance(operation, str) else ""


def _tools_follow(attributes: Mapping[str, Any]) -> bool:
    """Tell whether the model asked for tools; OTLP wraps a list in an object of values."""
    reasons = attributes.get("gen_ai.response.finish_reasons")
    if isinstance(reasons, dict):
        reasons = reasons.get("values")
    if not isinstance(reasons, list):
        return isinstance(reasons, str) and "tool" in reasons
    texts = [item.get("stringValue") if isinstance(item, dict) else item for item in reasons]
    return any(isinstance(text, str) and "tool" in text for text in texts)


def _text(entry: Entry, data: Mapping[str, Any], names: tuple[str, ...], place: str) -> str | None:
    for name in names:
        value = data.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str):
            entry.refuse(f"{place}.{name}".lstrip("."), "is no text", _FIX)
        return value
    return None


def _count(
    entry: Entry, attributes: Mapping[str, Any], names: tuple[str, ...], place: str
) -> int | None:
    """Read a token count; OTLP writes 64-bit numbers as text."""
    for name in names:
        value = attributes.get(name)
        if value is None:
            continue
        number = _whole(value)
        if number is None or not 0 <= number <= MAX_TOKENS:
            what = f"is no number of tokens from 0 to {MAX_TOKENS}"
            entry.refuse(f"{place}.attributes.{name}".lstrip("."), what, _FIX)
        return number
    return None


def _time(entry: Entry, data: Mapping[str, Any], names: tuple[str, str], place: str) -> float:
    """Read a time: nanoseconds since 1970, or a date."""
    nano, date = names
    spot = f"{place}.{nano if nano in data else date}".lstrip(".")
    value = data.get(nano, data.get(date))
    number = _whole(value)
    if number is not None and 0 <= number < _MAX_NS:
        return number / 1e9
    seconds = _date(value) if isinstance(value, str) else None
    if seconds is None or seconds < 0:
        entry.refuse(spot, "is neither nanoseconds nor a date since 1970", _FIX)
    return seconds


def _date(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _conversations(spans: Mapping[_Id, _Span], tag_tokens: int) -> Iterator[Trace]:
    homes, parents = _homes(spans)
    groups: dict[str, list[_Span]] = {}
    for span in spans.values():
        if span.is_call:
            name = homes[span.id].conversation or f"trace-{span.id[0]}"
            groups.setdefault(name, []).append(span)
    first_s = min((span.start_s for group in groups.values() for span in group), default=0.0)
    ordered = sorted(groups.items(), key=lambda item: min(span.start_s for span in item[1]))
    for name, group in ordered:
        group.sort(key=lambda span: span.start_s)
        agents = {span.id: homes[span.id].agent or "" for span in group}
        yield Trace(
            name=name[:200],
            calls=paced(_calls(group, agents, tag_tokens)),
            parents={agent: parents[agent] for agent in agents.values() if agent},
            start_s=group[0].start_s - first_s,
        )


def _calls(
    group: list[_Span], agents: Mapping[_Id, str], tag_tokens: int
) -> Iterator[tuple[Call, float]]:
    growth = Growth(tag_tokens)
    tools_follow: dict[str, bool] = {}
    for span in group:
        agent = agents[span.id]
        made = CountedCall(
            agent=agent,
            at_s=span.start_s,
            input_tokens=span.input_tokens or 0,
            output_tokens=span.output_tokens,
            after_tool=tools_follow.get(agent, False),
        )
        tools_follow[agent] = span.tools_follow
        yield growth.call(made), span.end_s - span.start_s


@dataclass(frozen=True, slots=True)
class _Home:
    """Say where a span belongs; agent None = in no agent's span, "" = in the session's own."""

    agent: str | None = None
    conversation: str | None = None

    def inside(self, span: _Span) -> _Home:
        """Give the home of a span whose parent is here."""
        agent = self.agent
        if span.operation == "invoke_agent":
            agent = "" if agent is None else span.id[1]
        return _Home(agent, span.conversation or self.conversation)


def _homes(spans: Mapping[_Id, _Span]) -> tuple[dict[_Id, _Home], dict[str, str]]:
    """Find the home of each span, and who started each sub-agent."""

    def refuse(span: _Id, what: str) -> NoReturn:
        spans[span].entry.refuse("parentSpanId", f"{what} at span {span[1]}", "Correct the parents")

    roots({span.id: span.parent for span in spans.values()}, refuse)
    homes: dict[_Id, _Home] = {}
    parents: dict[str, str] = {}
    for start in spans:
        path: list[_Span] = []
        node: _Id | None = start
        while node is not None and node in spans and node not in homes:
            path.append(spans[node])
            node = spans[node].parent
        home = homes.get(node, _Home()) if node is not None else _Home()
        for span in reversed(path):
            inner = home.inside(span)
            if inner.agent and inner.agent != home.agent:
                parents[inner.agent] = home.agent or ""
            home = homes[span.id] = inner
    return homes, parents
