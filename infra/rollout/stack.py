"""Read and change which release each replica of a region is to run: its stack's configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.errors import ConfigError
from fleet.load import Fleet, load_release
from fleet.plan import make_plan
from fleet.release import Release, release_id
from fleet.release_set import release_set
from fleet.rollout.fronting import overtaken
from infra.file_config import FileConfig
from infra.options import Options
from infra.outputs import Remembered
from infra.render import KubeObject, render_region
from infra.rollout.narrow import own_targets
from infra.settings import Settings, from_config
from infra.stack_process import Track, run_tracks
from infra.stacks import How, StackRunner, UpResult
from infra.staging import node_labels
from infra.values import assigned_releases, region_plan

NAME_LABEL = "app.kubernetes.io/name"
FRONTING = frozenset({"frontend", "gateway"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What the last update of a region's stack brought."""

    serial: int  # of the assignment
    releases: Mapping[str, str]  # replica -> release id
    shared: str | None = None  # release of frontends and gateway; None: it was not said


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The serving stack of one region."""

    runner: StackRunner
    fleet: Fleet
    sources: Mapping[str, str]  # release id -> preset or file, of the rollout

    def assign(
        self, replicas: Mapping[str, str], *, serial: int, shared: str | None = None
    ) -> None:
        """Write down what replicas are to run, or what frontends and gateway are to follow.

        The serial never falls.
        """
        settings = self._settings()
        before = settings.options
        after = replace(
            before,
            assignment={**before.assignment, **replicas},
            shared=before.shared if shared is None else shared,
            serial=max(serial, before.serial),
        )
        if after != before:
            self._write(settings, after)

    def to_tell(self, old: str) -> str | None:
        """Give the release of the replicas where frontends have to be told to follow it."""
        options = self._settings().options
        now = options.shared or self.fleet.release_id
        known = options.releases.get(now) or self.release(now)
        return old if overtaken(known, self.release(old)) else None

    def sync(self, deployed: Deployed, under_way: Mapping[str, str], *, serial: int) -> None:
        """Take what is deployed, and what an open rollout has written down since.

        A stack that was never applied keeps what is written here.
        """
        if not deployed.releases:
            return
        assigned = {**deployed.releases, **under_way}
        fleets_own = self.fleet.release_id
        others = {name: id_ for name, id_ in assigned.items() if id_ != fleets_own}
        settings = self._settings()
        options = replace(
            settings.options,
            assignment=others,
            shared=deployed.shared or settings.options.shared,
            serial=max(serial, deployed.serial),
        )
        self._write(settings, options)

    @property
    def exists(self) -> bool:
        """Whether this working copy has a configuration of the stack."""
        return self.runner.config_file.exists()

    def create(self) -> None:
        """Write a configuration from the settings, for a working copy that has none."""
        self.runner.folder.mkdir(parents=True, exist_ok=True)
        self.runner.write_config()

    def deployed(self) -> Deployed:
        """Read what the last update of the stack brought."""
        outputs = deployed_outputs(self._now())
        return Deployed(serial=outputs.serial, releases=outputs.releases, shared=outputs.shared)

    def serial(self) -> int:
        """Give the serial of the assignment that is written here."""
        return self._settings().options.serial

    def check_unlocked(self) -> None:
        """Raise BusyError while an update of the stack runs."""
        self.runner.unlock()

    def preview(self, *, refresh: bool, force: bool) -> UpResult:
        """Say what an update would do; the API server is asked, so conflicts show here first."""
        return replace(self._now(), force=force).preview(refresh=refresh)

    def own_targets(self, step: Collection[str]) -> tuple[str, ...] | None:
        """Name what an update would touch where that is the step's own; None: ask the engine."""
        runner = self._now()
        if runner.unclean.exists():
            return None
        [state] = run_tracks([runner.exporting()])
        settings = self._settings()
        objects = render_region(self.fleet, settings.region, "serving", settings.options)
        return own_targets(state, objects, step)

    def up(self, *, refresh: bool, force: bool, only: Collection[str] = ()) -> UpResult:
        """Bring the region to what is assigned; `force`: over what others have set by hand.

        `only`: the URNs that the engine may touch.
        """
        runner = replace(self._now(), force=force)
        return run_tracks([_updating(runner, How(refresh=refresh, words=_targets(only)))])[0]

    def rendered(self, instead: Mapping[str, str] | None = None) -> Mapping[str, KubeObject]:
        """Give the objects of all replicas as their releases render to.

        `instead`: as if these replicas had another release than the one that is written down.
        """
        settings = self._settings()
        options = settings.options
        for identity in set((instead or {}).values()):
            known = {**options.releases, identity: self.release(identity)}
            options = replace(options, releases=known)
        options = replace(options, assignment={**options.assignment, **(instead or {})})
        return {
            item["metadata"]["name"]: item
            for item in render_region(self.fleet, settings.region, "serving", options)
            if item["kind"] == "LeaderWorkerSet"
        }

    def fronting(self, instead: str | None = None) -> Mapping[tuple[str, str], KubeObject]:
        """Give the objects of frontends and gateway by kind and name.

        `instead`: as if they followed another release than the one that is written down.
        """
        settings = self._settings()
        options = settings.options
        if instead is not None:
            known = {**options.releases, instead: self.release(instead)}
            options = replace(options, shared=instead, releases=known)
        return {
            (item["kind"], item["metadata"]["name"]): item
            for item in render_region(self.fleet, settings.region, "serving", options)
            if item["metadata"].get("labels", {}).get(NAME_LABEL) in FRONTING
        }

    def sets(self, without: Collection[str]) -> frozenset[str]:
        """Name the sets of the releases that a region's other replicas are to run."""
        settings = self._settings()
        region = region_plan(make_plan(self.fleet), settings.region)
        assigned = assigned_releases(self.fleet, region, settings.options)
        ids = {identity for name, identity in assigned.items() if name not in without}
        known = settings.options.releases
        return frozenset(
            release_set(known[i]) if i in known else self.set_of(i) for i in sorted(ids)
        )

    def set_of(self, identity: str) -> str:
        """Name the set that a release belongs to."""
        return release_set(self.release(identity))

    def weights_labels(self, identity: str) -> Mapping[str, str]:
        """Give the labels of nodes that hold a release's weights; none where others bring them."""
        return node_labels(self.release(identity), self.fleet, self._settings().options)

    def release(self, identity: str) -> Release:
        """Give a release by its id; raise ConfigError where its file is another one by now."""
        if identity == self.fleet.release_id:
            return self.fleet.release
        return release_of(identity, self.sources, self.fleet.path)

    def _write(self, settings: Settings, options: Options) -> None:
        known = {self._id_of(name): name for name in settings.releases}
        sources = {**self.sources, **known}
        own = self.fleet.release_id
        shared = None if options.shared == own else options.shared
        wanted = {*options.assignment.values(), shared or own} - {own}
        if unknown := sorted(wanted - set(sources)):
            raise ConfigError(
                f"{self.runner.stack}: release {unknown[0]} is assigned, and nothing here says "
                "where it is read from. Get the working copy whose fleet file and releases belong "
                "to it, for example by `git pull`."
            )
        # What no replica runs any more is left out: its file may go.
        names = [name for id_, name in sources.items() if id_ in wanted]
        changed = replace(
            settings,
            releases=tuple(names),
            options=replace(options, shared=shared, releases={}),
        )
        replace(self.runner, settings=changed).write_config()

    def _id_of(self, name: str) -> str:
        return release_id(load_release(name, beside=self.fleet.path))

    def _settings(self) -> Settings:
        """Read what is to be deployed from the file; where to, the runner knows."""
        found = from_config(FileConfig.read(self.runner.config_file))
        told = self.runner.settings
        if not isinstance(told, Settings):
            return found
        return replace(found, kubeconfig=told.kubeconfig, context=told.context)

    def _now(self) -> StackRunner:
        return replace(self.runner, settings=self._settings())


def _targets(urns: Collection[str]) -> tuple[str, ...]:
    return tuple(word for urn in urns for word in ("--target", urn))


def _updating(runner: StackRunner, how: How) -> Track[UpResult]:
    yield from runner.preparing()
    return (yield from runner.performing("up", how))


def deployed_outputs(runner: StackRunner) -> Remembered:
    """Read what a stack's last update left; raise ConfigError where there was none."""
    if runner.store.exists(runner.name) is False:
        raise ConfigError(
            f"{runner.stack}: was not brought up from this state ({runner.store.url}). See that "
            "it is the fleet's (work folder, `state` of the fleet file), or first: k3fleet up"
        )
    return run_tracks([runner.remembering()])[0]


def release_of(identity: str, sources: Mapping[str, str], fleet_file: Path) -> Release:
    """Read a release from where the record says it is."""
    if identity not in sources:
        raise ConfigError(
            f"release {identity}: the rollout does not say where it is read from. "
            "Restore the rollout's record."
        )
    release = load_release(sources[identity], beside=fleet_file)
    if (found := release_id(release)) != identity:
        raise ConfigError(
            f"{sources[identity]}: is release {found} by now, the rollout brings {identity}. "
            "Restore the file: a release that is on its way must not change."
        )
    return release
