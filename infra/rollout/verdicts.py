"""Say what the end of a wait means for a phase."""

from __future__ import annotations

from infra.rollout.driver import Result
from infra.rollout.waiting import Waiting

OK = Result("ok")


def verdict(waited: Waiting, when: str) -> Result:
    """Blame the release for what is missing at a deadline, and nobody for a wait that was ended."""
    match waited.how:
        case "held":
            return OK
        case "late":
            return Result("failed", f"{waited.missing}, {when}")
        case _:
            return unsure(waited)


def unsure(waited: Waiting) -> Result:
    """Say what is missing, without a verdict on the release."""
    asked = "asked to turn back; " if waited.how == "stopped" else ""
    return Result("inconclusive", f"{asked}{waited.missing}")


def left_alone(by_hand: str) -> str:
    """Say that nothing was done because of what somebody changed by hand."""
    return (
        f"other than written down: {by_hand}. Nothing was touched. Undo what somebody changed by "
        "hand, then resume; or let the step overwrite it: k3fleet rollout resume --overwrite"
    )
