"""Find out whether regions may be touched from here; one that is away is asked before its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from infra.rollout.cluster import AwayError, Cluster
from infra.rollout.waiting import AWAY_S, Waiter

Require = Callable[[str], None]


@dataclass(kw_only=True)
class Rights:
    """What is known of the regions; a wrong account or cluster is an error of its own kind."""

    clusters: Mapping[str, Cluster]
    ask: Require  # raises where a region must not be touched from here
    say: Callable[[str], None]
    _known: set[str] = field(default_factory=set)

    def await_any(self, waiter: Waiter) -> None:
        """Wait until an API server answers: an upgrade of the only one is no reason to give up."""
        said: list[str] = []

        def away() -> str:
            errors = []
            for cluster in self.clusters.values():
                try:
                    cluster.owner()
                except AwayError as error:
                    errors.append(str(error))
                else:
                    return ""
            if not said:
                said.append(errors[0])
                self.say(f"{errors[0]} The rollout waits for it.")
            return errors[0]

        waiter.until(away, AWAY_S)

    def look(self, regions: Iterable[str]) -> None:
        """Ask for all that answer now: what is wrong is to be known before anything is done."""
        for region in regions:
            try:
                self.require(region)
            except AwayError as error:
                self.say(f"{error} It is asked again before anything is done there.")

    def require(self, region: str) -> None:
        """Ask for a region once; raise AwayError while its API server does not answer."""
        if region not in self._known:
            self.clusters[region].owner()
            self.ask(region)
            self._known.add(region)


def both(first: Require, second: Require) -> Require:
    """Require one thing of a region, and then another."""

    def require(region: str) -> None:
        first(region)
        second(region)

    return require
