"""Say what the rollouts of a fleet need to know of the place where they are driven."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from fleet.load import Fleet
from fleet.release import Release
from infra.rollout.cluster import Cluster
from infra.rollout.region import Questions
from infra.settings import Settings
from infra.stacks import StackRunner


class Venue(Protocol):
    """A lab that is up, or the clusters of a kubeconfig; seen from one working copy."""

    @property
    def fleet(self) -> Fleet: ...

    @property
    def said(self) -> str:
        """Which clusters these are, for people."""
        ...

    @property
    def home(self) -> Path:
        """Where this working copy keeps its records."""
        ...

    @property
    def questions(self) -> Questions:
        """How workers are asked."""
        ...

    def clusters(self) -> Mapping[str, Cluster]:
        """Give the API servers of all regions."""
        ...

    def settings(self, region: str) -> Settings:
        """Read what this working copy tells a region's serving stack."""
        ...

    def runner(self, region: str) -> StackRunner:
        """Give a region's serving stack."""
        ...

    def require_right(self, region: str) -> None:
        """Raise an error of its own kind where a region must not be touched from here."""
        ...

    def claimed(self, region: str) -> AbstractContextManager[None]:
        """Keep other commands of this working copy away from a region's serving stack."""
        ...

    def announce(self, release: Release, /) -> None:
        """Hear of a release before it is first applied."""
        ...

    def spoil(self, release: Release, fault: str | None) -> None:
        """Rehearse a release with a fault; raise ConfigError where nothing is rehearsed."""
        ...

    def note(self, text: str, /) -> None:
        """Tell people something that has to stay visible."""
        ...
