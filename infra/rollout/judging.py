"""Ask new replicas, and watch their traffic, until it is clear whether they are well.

What is right is decided in `fleet.rollout.gates` and `fleet.rollout.answers`; here it is asked and
waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fleet.rollout.answers import Asked, broken, counted
from fleet.rollout.counters import Reading, between, lifetime
from fleet.rollout.gates import Judgement, judge
from fleet.rollout.strategy import Gates
from infra.rollout.checks import listed
from infra.rollout.driver import Result
from infra.rollout.fronting import counts_of
from infra.rollout.part import Part
from infra.rollout.verdicts import unsure, verdict
from infra.rollout.waiting import POLL_S

# Replicas that do not answer at all are waited for; of five answers, some with reasoning, and more
# than one round of them, none takes longer.
SMOKE_S = 180.0
# Models draw lots: a healthy one may miss an answer, and does not miss it three times.
ROUNDS = 3
# Pages of engines and frontends are read so often. The first times it is sooner, where engines
# count: then no window is closed without answers of the new replicas, however short it is.
READ_EVERY_S = 2.0
SOONER_S = 0.25


def smoke(part: Part, gates: Gates) -> Result:
    """Ask each replica at each frontend, by its worker's id, so that no other answers.

    Then ask it what has known answers. On the way back silence is all that counts: what it leads
    to has served before, and a leak of long standing must not keep a broken release in place.
    """
    if not part.forwards:
        waited = part.waiter.until(part.silent, SMOKE_S)
        return verdict(waited, f"asked for {SMOKE_S:.0f} s")
    return questioned(part, gates)


def questioned(part: Part, gates: Gates) -> Result:
    """Ask until all answers are right, a limit is broken, or some were wrong in every round."""
    total, wrong, rounds = Asked(), "", 0

    def missing() -> str:
        nonlocal total, wrong, rounds
        if silent := part.silent():
            return silent
        now = part.probed()
        total, wrong, rounds = total.plus(now), listed(now.wrong), rounds + 1
        return "" if broken(total, gates) or rounds >= ROUNDS else wrong

    # Rounds are apart, so that a fault of a moment is not met in all of them.
    waited = replace(part.waiter, first_s=POLL_S).until(missing, SMOKE_S)
    if why := broken(total, gates):
        return Result("failed", why)
    if waited.how != "held":
        return verdict(waited, f"asked for {SMOKE_S:.0f} s")
    if wrong:
        return Result("failed", f"{wrong}, in {rounds} rounds of our own questions")
    return Result("ok", counted(total))


@dataclass
class _Watch:
    """The windows of one gates phase: one is open, closed ones were judged."""

    part: Part
    gates: Gates
    first: Reading = field(init=False)
    opened: Reading = field(init=False)
    last: Reading = field(init=False)
    judgement: Judgement = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.opened = self.last = self._read()
        self.judgement = self._judge()

    def missing(self) -> str:
        """Look again; empty once there is nothing to wait for."""
        if self.part.waiter.clock() - self.last.at_s >= self._pause_s:
            self.last = self._read()
            self.judgement = self._judge()
            if self.judgement.verdict == "again":
                self.opened = self.last
        return "" if self.judgement.verdict in ("held", "broken") else self.judgement.why

    @property
    def _pause_s(self) -> float:
        """Twice as old at each reading, until that is long enough."""
        replicas = self.first.new.values()
        if not replicas or any(counts.first_tokens is None for counts in replicas):
            return READ_EVERY_S
        return min(READ_EVERY_S, max(SOONER_S, self.last.at_s - self.first.at_s))

    def _read(self) -> Reading:
        part = self.part
        return part.region.reading(part.replicas, part.action.target, part.waiter.clock())

    def _judge(self) -> Judgement:
        return judge(
            so_far=between(self.first, self.last).region,
            window=replace(
                between(self.opened, self.last), moving=self.part.apart or self.part.shared
            ),
            baseline=(
                counts_of(self.part.action.seen)
                if self.part.shared
                else lifetime(self.first.frontends.values())
            ),
            gates=self.gates,
            age_s=self.last.at_s - self.first.at_s,
            forgot=self.part.shared,
        )


def watched(part: Part, gates: Gates, timeout_s: float) -> Result:
    """Judge live traffic, once there was enough of it, and ask again while it goes on.

    On the way back nothing is judged: what it leads to has served before, and it must not wait for
    traffic that a broken release keeps away.
    """
    if not part.forwards:
        return Result("ok", "not judged on the way back")
    watch = _Watch(part, gates)
    waited = part.waiter.until(watch.missing, timeout_s)
    if waited.how != "held":
        return unsure(waited)
    if watch.judgement.verdict == "broken":
        return Result("failed", watch.judgement.why)
    asked = questioned(part, gates)
    if asked.outcome != "ok":
        return asked
    return Result("ok", f"{watch.judgement.why}; {asked.why}")
