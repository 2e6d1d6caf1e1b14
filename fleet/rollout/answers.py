"""Sum up what replicas answered to questions of ours, and judge it.

Pure. This is probe traffic, a few questions of known answers to each replica: nothing here reads
what users are told. Leaks and empty answers count one by one, also when a second try goes well,
because a parser that is wrong in one of twenty answers is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.rollout.strategy import Gates

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came of some questions; each text names the question and what was wrong."""

    answers: int = 0
    leaks: tuple[str, ...] = ()  # markers of the chat template in an answer
    empties: tuple[str, ...] = ()  # neither text nor a tool call
    wrong: tuple[str, ...] = ()  # no answer, another one, or one that misses a part

    def plus(self, other: Asked) -> Asked:
        """Add other questions."""
        return Asked(
            answers=self.answers + other.answers,
            leaks=self.leaks + other.leaks,
            empties=self.empties + other.empties,
            wrong=self.wrong + other.wrong,
        )


def broken(asked: Asked, gates: Gates) -> str:
    """Say which limit for answers does not hold."""
    parts = []
    for name, found, limit in (
        ("max_marker_leaks", asked.leaks, gates.max_marker_leaks),
        ("max_empty_answers", asked.empties, gates.max_empty_answers),
    ):
        if len(found) > limit:
            what = "; ".join(found[:_SHOWN])
            parts.append(
                f"{name}: {len(found)} of {asked.answers} answers to our own questions ({what}); "
                f"allowed are {limit}"
            )
    return "; ".join(parts)


def counted(asked: Asked) -> str:
    """Say what was counted."""
    return (
        f"max_marker_leaks: {len(asked.leaks)}, max_empty_answers: {len(asked.empties)}, "
        f"in {asked.answers} answers to our own questions"
    )
