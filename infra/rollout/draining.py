"""Take replicas out of routing and let their streams end, before anything happens to them."""

from __future__ import annotations

from infra.rollout.checks import listed
from infra.rollout.driver import Result
from infra.rollout.part import Part
from infra.rollout.sharing import leave
from infra.rollout.verdicts import OK, unsure

# A pod leaves an EndpointSlice 0.2 s after its label is off (measured); this is for bad days.
OUT_OF_ROUTING_S = 60.0
# A frontend drops it within 0.1 s then (measured); one that does not say so has this long.
HEARD_S = 2.0
# What it sent just before is on its way so long at most.
SETTLED_S = 0.5


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
    clock, registered = part.waiter.clock, part.region.cluster.workers()
    workers = frozenset(registered[name] for name in names if name in registered)
    settled_s = clock() + HEARD_S

    def busy() -> str:
        nonlocal settled_s
        now_s = clock()
        if now_s + SETTLED_S < settled_s and part.region.dropped(workers):
            settled_s = now_s + SETTLED_S
        streams = part.region.streams(part.replicas)  # looked at last: now they can only get fewer
        return streams or ("frontends may not have heard yet" if now_s < settled_s else "")

    waited = part.waiter.until(busy, max(*budgets, HEARD_S))
    if waited.how == "stopped":
        return unsure(waited)
    late = waited.how == "late"
    return Result("ok", f"the drain budget is over: {waited.missing}" if late else "")
