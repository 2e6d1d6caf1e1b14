"""Say what traffic a profile makes, by drawing many sessions: no text, no server, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadtest.cache.attainable import HitCount
from loadtest.results.quantiles import Quantiles
from loadtest.traffic.profile_schema import Profile
from loadtest.traffic.scale import Scale, Seeds
from loadtest.traffic.session_outline import session_outline

MOST_CALLS = 300_000
"""Calls that are drawn at most, whatever a profile says: 5 to 9 s of CPU at 16 to 30 µs each."""

_PRODUCTION = Scale(tokens=1.0, time=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Hold what many sessions of a profile have in common; tokens and seconds of production."""

    profile: str
    seed: int
    sessions: int
    """Sessions drawn: fewer than asked for when they have too many calls together."""
    calls: int
    steps_per_session: Quantiles
    """Calls of the model, those of sub-agents too."""
    prompt_tokens: Quantiles
    output_tokens: Quantiles
    input_per_output: float
    subagent_share: float
    """Of calls: those made by sub-agents."""
    compaction_share: float
    """Of calls: those after a compaction."""
    uncached_per_step: float
    """Prompt tokens per call that no cache could have: prompt ends kept, shared prefix warm."""
    attainable: dict[str, float]
    """Token-weighted hit rate that a cache could reach, by what it keeps."""


@dataclass(slots=True)
class _Drawn:
    sessions: list[int] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    subagents: int = 0
    compactions: int = 0


def draw_statistics(profile: Profile, *, sessions: int, seed: int) -> Statistics:
    """Draw sessions and summarise them."""
    drawn, hits = _Drawn(), HitCount()
    seeds = Seeds(seed=seed, salt="")
    for number in range(sessions):
        before = len(drawn.prompts)
        hits.start_session()
        for call in session_outline(profile, _PRODUCTION, seeds.lengths("session", number)):
            hits.add(call)
            drawn.prompts.append(call.prompt_tokens)
            drawn.outputs.append(call.output_tokens)
            drawn.subagents += bool(call.agent)
            drawn.compactions += call.kind == "compaction"
            if len(drawn.prompts) >= MOST_CALLS:
                break
        drawn.sessions.append(len(drawn.prompts) - before)
        if len(drawn.prompts) >= MOST_CALLS:
            break
    return _summary(profile.name, seed, drawn, hits)


def _summary(name: str, seed: int, drawn: _Drawn, hits: HitCount) -> Statistics:
    calls = len(drawn.prompts)
    return Statistics(
        profile=name,
        seed=seed,
        sessions=len(drawn.sessions),
        calls=calls,
        steps_per_session=Quantiles.of(drawn.sessions),
        prompt_tokens=Quantiles.of(drawn.prompts),
        output_tokens=Quantiles.of(drawn.outputs),
        input_per_output=sum(drawn.prompts) / sum(drawn.outputs),
        subagent_share=drawn.subagents / calls,
        compaction_share=drawn.compactions / calls,
        uncached_per_step=hits.missed("prompt ends") / calls,
        attainable=hits.rates(),
    )
