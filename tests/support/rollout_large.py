"""The record of a large rollout, as long as it gets: one replica at a time, every verdict."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.rollout.record import PHASES, Began, Ended, Entry, Place, RecordedStep, Started

REPLICAS = 1800


def large_record(replicas: int = REPLICAS) -> Iterator[Entry]:
    """Give the entries of a rollout of so many replicas, up to its end."""
    steps = tuple(
        RecordedStep(
            wave="rest",
            places=(Place(replica=f"use{n // 9}-r01-{n % 9}", rack=f"use{n // 9}", region="a"),),
        )
        for n in range(replicas)
    )
    yield Started(
        at_s=1.7e9, by="t", old="old-1", new="new-2", steps=steps, on_fail="hold", reruns=1
    )
    for number in range(replicas * len(PHASES)):
        phase, at_s = PHASES[number % len(PHASES)], 1.7e9 + number * 7.123456
        yield Began(at_s=at_s, phase=phase)
        yield Ended(at_s=at_s + 3.3, phase=phase, outcome="ok", why=_why(phase, number))


def _why(phase: str, number: int) -> str:
    """Say as much as a phase says at most; the figures differ from step to step."""
    asked = "max_marker_leaks: 0, max_empty_answers: 0, in 5 answers to our own questions"
    one, two, seconds = number % 977 / 1000, number % 1009 / 1000, number % 83
    if phase == "smoke":
        return f"us-east: {asked}"
    if phase != "gates":
        return ""
    return (
        f"us-east: max_error_rate: {number % 3} errors in {number} requests, {one:.2%}; "
        f"allowed are 0.50%; max_ttft_ratio: {1 + one:.2f} ({one:.3f} s over {number} answers, "
        f"others {two:.3f} s over {number * 7}, in {seconds} s); allowed are 1.25; max_hit_dip "
        f"of the region: {one - two:+.3f} ({one:.3f} against {two:.3f}, in {seconds} s); "
        f"allowed are 0.150; max_hit_dip of the replicas: {one - two:+.3f} ({two:.3f} against "
        f"{one:.3f}, in {seconds} s); allowed are 0.150; {asked}"
    )
