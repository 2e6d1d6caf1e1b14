"""The part of a phase that happens in one region: its replicas, its waits, its touches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from fleet.errors import ApplyError, BusyError
from fleet.rollout.answers import Asked
from fleet.rollout.state import Do
from infra.render import KubeObject
from infra.rollout.cards import cards_differ
from infra.rollout.checks import differs, listed
from infra.rollout.fronting import other_than
from infra.rollout.region import SiteRegion
from infra.rollout.waiting import Waiter


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a phase has to do in one region, and who may do it."""

    region: SiteRegion
    replicas: tuple[str, ...]
    action: Do
    waiter: Waiter
    require_held: Callable[[str], None]
    forwards: bool = True  # towards the new release, whose replicas are to be judged
    # The sets of the rollout's two releases: one, or two that are kept apart.
    sets: frozenset[str] = frozenset()

    @property
    def apart(self) -> bool:
        """Whether the two releases have frontends of their own, and sessions have to move."""
        return len(self.sets) > 1

    @property
    def target_set(self) -> str:
        """The set that the step leads to."""
        return self.region.stack.set_of(self.action.target)

    def hold(self) -> None:
        """Make sure, before a touch, that the region is still ours."""
        self.require_held(self.region.cluster.region)

    def route(self, *, on: bool) -> None:
        """Put the leaders into routing, or take them out."""
        for pod in self.region.leaders():
            if pod.replica in self.replicas and pod.routed != on:
                self.hold()
                self.region.cluster.route(pod, on=on)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Tell an update that failed from one whose API server went away under it."""
        try:
            yield
        except ApplyError:
            self.region.cluster.owner()  # AwayError where it does not answer
            raise

    def changed_by_hand(self, *either: str) -> Mapping[str, str]:
        """Name the region's replicas that are not what is written down, nor one of `either`.

        What is written down may already be ahead of the cluster, or a killed update behind it:
        the step's own replicas may be of one of two releases.
        """
        if self.shared and (why := self._fronting_by_hand(either)):
            return {"frontends and gateway": why}
        live = self.region.cluster.workloads()
        if not live:
            return {}
        found = _differing(live, self.region.stack.rendered())
        for release in either if found else ():
            other = self.region.stack.rendered(dict.fromkeys(self.replicas, release))
            found = {n: why for n, why in found.items() if n in _differing(live, other)}
        return found

    @property
    def shared(self) -> bool:
        """Whether frontends and gateway change, and no replica does."""
        return self.action.step.shared is not None

    def silent(self) -> str:
        """Say who does not answer at which frontend; behind new ones, some replicas are asked."""
        if not self.shared:
            return self.region.silent(self.replicas)
        witnesses = self.region.witnesses()
        return self.region.silent(witnesses) if witnesses else "no replica serves"

    def probed(self) -> Asked:
        """Ask what has known answers: each of the step's replicas, or through each new frontend."""
        if self.shared:
            return self.region.probed_through_all(self.region.witnesses())
        return self.region.probed(self.replicas, self.action.target)

    def _fronting_by_hand(self, either: tuple[str, ...]) -> str:
        live, stack = self.region.cluster.deployments(), self.region.stack
        if any(not other_than(live, stack.fronting(release)) for release in either):
            return ""
        return other_than(live, stack.fronting())

    def other_cards(self) -> str:
        """Say where the step's replicas registered another model than those of another release.

        Those of another set have frontends of their own, and may have another card.
        """
        cards, target = self.region.cluster.cards(), self.action.target
        leaders = [pod for pod in self.region.leaders() if pod.name in cards]
        own = {pod.set for pod in leaders if pod.release == target}
        others = [pod for pod in leaders if pod.release != target and pod.set in own]
        return listed(
            f"{pod.replica}: its model card differs from that of {others[0].replica}: {why}"
            for pod in leaders
            if others and pod.replica in self.replicas
            if (why := cards_differ(cards[pod.name], cards[others[0].name]))
        )

    def locked(self) -> str:
        """Say who updates the stack at the moment."""
        try:
            self.region.stack.check_unlocked()
        except (ApplyError, BusyError) as error:
            return str(error)
        return ""


def named(replicas: Mapping[str, str]) -> str:
    """Name replicas with what is wrong with each."""
    return listed(f"{name}: {why}" for name, why in replicas.items())


def _differing(
    live: Mapping[str, KubeObject], rendered: Mapping[str, KubeObject]
) -> dict[str, str]:
    return {
        name: why
        for name, item in rendered.items()
        if name in live and (why := differs(live[name], item))
    }
