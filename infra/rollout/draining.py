"""Take replicas out of routing and let their streams end, before anything happens to them."""

from __future__ import annotations

from infra.rollout.checks import listed
from infra.rollout.driver import Result
from infra.rollout.part import Part
from infra.rollout.sharing import leave
from infra.rollout.verdicts import OK, unsure

# A pod leaves an EndpointSlice 0.2 s after its label is off (measured); this is for bad days.
OUT_OF_ROUTING_S = 60.0
# A frontend hears of it a moment later, and may have sent a request meanwhile.
HEARD_S = 2.0


def drain(part: Part) -> Result:
    """Take the replicas out of routing, then let their streams end within the drain budget.

    Where another set of releases can have their sessions, those go there first.
    """
    waited = leave(part)
    if waited.how != "held":
        return unsure(waited)
    part.route(on=False)
    leaders = [pod for pod in part.region.leaders() if pod.replica in part.replicas]
    names = {pod.name for pod in leaders}

    def still_routed() -> str:
        return listed(
            f"{name} is still in routing"
            for name in sorted(names & part.region.cluster.in_routing())
        )

    waited = part.waiter.until(still_routed, OUT_OF_ROUTING_S)
    if waited.how != "held":
        return unsure(waited)
    budgets = [part.region.drain_s(pod.release) for pod in leaders if pod.ready]
    if not budgets:
        return OK
    heard_s = part.waiter.clock() + HEARD_S

    def busy() -> str:
        streams = part.region.streams(part.replicas)
        early = part.waiter.clock() < heard_s
        return streams or ("frontends may not have heard yet" if early else "")

    waited = part.waiter.until(busy, max(*budgets, HEARD_S))
    if waited.how == "stopped":
        return unsure(waited)
    late = waited.how == "late"
    return Result("ok", f"the drain budget is over: {waited.missing}" if late else "")
