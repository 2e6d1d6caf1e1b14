"""Tell what a set of recordings asks of a fleet: pure, from the recordings alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from loadtest.replay.recording import Call, Trace
from loadtest.results.quantiles import Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStatistics:
    """Hold the figures of a set of recordings, in tokens and seconds as recorded."""

    sessions: int
    subagents: int
    calls: int
    calls_per_session: Quantiles
    prompt_tokens: Quantiles
    output_tokens: Quantiles
    in_out: float
    """Prompt tokens per output token."""
    hit: float
    """Share of the prompt tokens that a cache without end would have, cold at the start."""
    block_hit: float
    """The same as a share of whole blocks; of messages where the recording has no blocks."""
    tool_gap_s: Quantiles
    user_gap_s: Quantiles
    span_s: Quantiles


def trace_statistics(traces: Sequence[Trace]) -> TraceStatistics:
    """Compute the figures of a set of recordings, each played once and in order of name."""
    calls = [call for trace in traces for call in trace.calls]
    prompts = [float(call.input_tokens) for call in calls]
    outputs = [float(call.output_tokens) for call in calls]
    reuse = _reuse(traces)
    return TraceStatistics(
        sessions=len(traces),
        subagents=sum(len(trace.parents) for trace in traces),
        calls=len(calls),
        calls_per_session=Quantiles.of(float(len(trace.calls)) for trace in traces),
        prompt_tokens=Quantiles.of(prompts),
        output_tokens=Quantiles.of(outputs),
        in_out=sum(prompts) / max(1.0, sum(outputs)),
        hit=reuse.hit_tokens / max(1.0, sum(prompts)),
        block_hit=reuse.hit_units / max(1, reuse.units),
        tool_gap_s=Quantiles.of(_gaps(traces, after_tool=True)),
        user_gap_s=Quantiles.of(_gaps(traces, after_tool=False)),
        span_s=Quantiles.of(trace.calls[-1].at_s for trace in traces),
    )


@dataclass(slots=True)
class InfiniteCache:
    """Remember every prefix of blocks or parts that was sent, and count what was there already."""

    hit_tokens: int = 0
    hit_units: int = 0
    units: int = 0
    _children: dict[tuple[int, object], int] = field(default_factory=dict)
    _paths: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _tokens: list[int] = field(default_factory=lambda: [0])
    """Prompt tokens up to and with each prefix; the first is the empty one."""

    def forget(self) -> None:
        """Begin a session whose ids mean nothing in another."""
        self._paths.clear()
        self._children.clear()
        self._tokens = [0]

    def send(self, session: str, call: Call, block_size: int) -> int:
        """Note a prompt; return how many of its tokens were there."""
        base = self._paths.get((session, call.agent if call.base is None else call.base), [])
        path = base[: call.keep]
        node, hits, missed = path[-1] if path else 0, len(path), False
        for unit, tokens in _units(session, call, block_size):
            child = self._children.get((node, unit))
            if child is None:
                child = self._children[node, unit] = len(self._tokens)
                self._tokens.append(self._tokens[node] + tokens)
                missed = True
            hits += not missed
            path.append(child)
            node = child
        self._paths[session, call.agent] = path
        found = self._tokens[path[hits - 1]] if hits else 0
        self.hit_tokens += found
        self.hit_units += hits
        self.units += len(path)
        return found


def _units(session: str, call: Call, block_size: int) -> Iterable[tuple[object, int]]:
    if block_size:
        return ((id_, block_size) for id_ in call.blocks)
    return (((part.key, "" if part.common else session), part.tokens) for part in call.parts)


def _reuse(traces: Sequence[Trace]) -> InfiniteCache:
    """Send every recording once: those that share nothing one by one, the others by time."""
    cache = InfiniteCache()
    together: list[tuple[float, Trace, Call]] = []
    for trace in traces:
        if trace.scope == "set" or not trace.block_size:
            start_s = trace.start_s or 0.0
            together += [(start_s + call.at_s, trace, call) for call in trace.calls]
            continue
        cache.forget()
        for call in trace.calls:
            cache.send(trace.name, call, trace.block_size)
    cache.forget()
    for _, trace, call in sorted(together, key=lambda item: item[0]):
        cache.send(trace.name, call, trace.block_size)
    return cache


def _gaps(traces: Sequence[Trace], *, after_tool: bool) -> Iterable[float]:
    for trace in traces:
        for call in trace.calls[1:]:
            if call.after_tool == after_tool:
                yield call.gap_s
