"""`k3fleet racks cordon`, `drain` and `uncordon`: take nodes out of work, and bring them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import FunctionT, output_option, print_json, print_line
from cli.plain import plain
from cli.racks_where import FLEET_FILE, places, where_options
from cli.rollout_plan import STRATEGY
from fleet.errors import EXIT_GO, ConfigError
from fleet.racks.seen import RackSeen
from fleet.racks.wording import named
from fleet.rollout.strategy import load_strategy
from infra.racks.work import Planned, RackWork
from lab.interrupts import interruptible
from lab.racks import RackPlaces, waiter
from lab.rollout import who

_RACK = click.argument("rack")
_NODES = click.argument("nodes", nargs=-1, metavar="[NODE]...")
_OPTIONS = (
    YES,
    STRATEGY,
    click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing."),
    click.option(
        "--take-over",
        is_flag=True,
        help="Although somebody else seems to drive; he stops before his next touch.",
    ),
    where_options,
    output_option,
)


def work_options(command: FunctionT) -> FunctionT:
    """Add rack, nodes, and the options of all commands that touch a rack."""
    for option in reversed((FLEET_FILE, _RACK, _NODES, *_OPTIONS)):
        command = option(command)
    return command


@click.command()
@work_options
@click.option(
    "--during-rollout", is_flag=True, help="Also while a rollout is open; its step may then fail."
)
def cordon(
    fleet_file: Path, rack: str, nodes: tuple[str, ...], during_rollout: bool, **options: Any
) -> int:
    """Let no more pods onto NODEs of RACK, or onto all. What runs stays.

    \b
    Example:
        k3fleet racks cordon fleets/demo.yaml use1-r01 use1-r01-n03
    """
    job = rack_job(fleet_file, rack, options, "cordon", during_rollout=during_rollout)
    asked = job.nodes(nodes)
    if job.goes_on([f"cordon {named(asked)}"], "Cordon?"):
        with job.held() as work:
            work.cordon(asked)
    return job.end(cordoned=sorted(asked))


@click.command()
@work_options
def drain(fleet_file: Path, rack: str, nodes: tuple[str, ...], **options: Any) -> int:
    """Move replicas off NODEs of RACK, or off all, by the rules of a rollout, and cordon them.

    One replica after the other: out of routing, streams end within the release's drain budget,
    then it goes. With h healthy nodes a rack keeps floor(h/2) replicas; one without a place is
    parked until `uncordon`. Killed at any moment, the same command goes on.

    \b
    Example:
        k3fleet racks drain fleets/demo.yaml use1-r01 use1-r01-n03 --dry-run
        k3fleet racks drain fleets/demo.yaml use1-r01 use1-r01-n03
    """
    job = rack_job(fleet_file, rack, options, "drain", whole=not nodes)
    asked = job.nodes(nodes)
    planned = job.work.plan(asked)
    job.work.require_possible(planned)
    if job.goes_on(lines(planned), "Drain?"):
        with job.held() as work:
            work.drain(asked)
    return job.end(drained=sorted(asked), **as_json(planned))


@click.command()
@work_options
@click.option("--no-wait", is_flag=True, help="Do not wait until replicas serve again.")
def uncordon(
    fleet_file: Path, rack: str, nodes: tuple[str, ...], no_wait: bool, **options: Any
) -> int:
    """Let pods onto NODEs of RACK again, and bring parked replicas back that have room.

    Without NODE: those that `racks cordon` or `drain` took, and none that somebody else did.

    \b
    Example:
        k3fleet racks uncordon fleets/demo.yaml use1-r01
    """
    job = rack_job(fleet_file, rack, options, "uncordon")
    ours = tuple(node.name for node in job.rack().nodes if node.cordoned_by)
    asked = job.nodes(nodes) if nodes else ours
    back: tuple[str, ...] = ()
    if job.goes_on([f"uncordon {named(asked) or 'no node'}"], "Uncordon?"):
        with job.held() as work:
            back = work.uncordon(asked)
            if not no_wait:
                work.wait_serving(back)
    return job.end(uncordoned=sorted(asked), back=list(back))


@dataclass(frozen=True, slots=True, kw_only=True)
class RackJob:
    """One command on one rack."""

    found: RackPlaces
    region: str
    what: str
    work: RackWork
    options: Mapping[str, Any]
    during_rollout: bool

    def rack(self) -> RackSeen:
        return self.work.read()

    def nodes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Give the nodes that are named, or all; raise ConfigError for one of another rack."""
        known = [node.name for node in self.rack().nodes]
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"{name}: is no node of rack {self.work.rack}. Use one of: {', '.join(known)}."
                )
        return tuple(dict.fromkeys(names)) or tuple(known)

    def goes_on(self, told: Sequence[str], question: str) -> bool:
        """Say what will be done and ask; False: only look."""
        for line in told:
            print_line(line) if self.options["output"] == "table" else _say(line)
        if self.options["dry_run"]:
            return False
        confirm(yes=self.options["yes"], what=question)
        return True

    @contextmanager
    def held(self) -> Iterator[RackWork]:
        """Be the only one who touches the region; give the work with the right to do so."""
        if self.during_rollout:  # its driver has the lease
            yield self.work
            return
        leases = self.found.leases(self.region, self.what, _say)
        with leases.held(take_over=self.options["take_over"]), interruptible():
            self.found.require_no_rollout(self.region)  # one may have begun meanwhile
            yield replace(self.work, require_held=leases.require)

    def end(self, **told: object) -> int:
        """Tell what was done."""
        if self.options["output"] == "json":
            print_json({"rack": self.work.rack, "dry_run": self.options["dry_run"], **told})
        return EXIT_GO


def rack_job(
    fleet_file: Path,
    rack: str,
    options: Mapping[str, Any],
    what: str,
    *,
    whole: bool = False,
    during_rollout: bool = False,
) -> RackJob:
    """Find a rack's clusters, and make a command on it."""
    found = places(fleet_file, options)
    return job_of(found, rack, options, what, whole=whole, during_rollout=during_rollout)


def job_of(
    found: RackPlaces,
    rack: str,
    options: Mapping[str, Any],
    what: str,
    *,
    whole: bool = False,
    during_rollout: bool = False,
) -> RackJob:
    """Make a command on a rack; raise ConfigError where it must not be given now."""
    strategy = load_strategy(options["strategy_file"])
    fleet = found.fleet
    _require_backend(found)
    region = found.region_of(rack)
    if not during_rollout:
        found.require_no_rollout(region)
    site = found.site(region)
    if wrong := site.wrong_cluster():
        raise ConfigError(f"{wrong}.")
    floor = strategy.floor
    if whole:  # none of it is to serve, so only the region's floor is left to keep
        floor = floor.model_copy(update={"rack": 0.0})
    return RackJob(
        found=found,
        region=region,
        what=f"{what} {rack}",
        work=RackWork(
            region=site,
            rack=rack,
            gpus=fleet.hardware.gpus_per_node,
            nodes_per_replica=fleet.release.nodes,
            floor=floor,
            deadlines=strategy.deadlines,
            waiter=waiter(),
            by=f"{who()} {datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}",
            say=_say,
        ),
        options=options,
        during_rollout=during_rollout,
    )


def _require_backend(found: RackPlaces) -> None:
    fleet = found.fleet
    if fleet.spec.backend != "lws" or not fleet.release.engine.registers:
        raise ConfigError(
            f"{fleet.path}: replicas are taken out of work by their LeaderWorkerSet and their "
            "registration at frontends, and this fleet has not both. Use `kubectl cordon`, and "
            "your operator's way of removing a replica."
        )


def lines(planned: Planned) -> list[str]:
    """Say what a drain would do."""
    words: Mapping[str, Callable[[str], str]] = {
        "drop": lambda name: f"park {name}: no two healthy nodes are left for it",
        "move": lambda name: f"move {name} within the rack",
    }
    settled = planned.settled
    moving, without = len(settled.move), len(settled.drop)
    total = f"{len(settled.stay)} replicas stay, {moving} move or wait, {without} have no place"
    return [
        f"cordon {named(sorted(planned.nodes))}",
        *(words[move.how](move.replica) for move in planned.moves),
        total,
    ]


def as_json(planned: Planned) -> dict[str, Collection[object]]:
    """Say it as plain data."""
    return {
        "stay": list(planned.settled.stay),
        "moves": [{"replica": move.replica, "how": move.how} for move in planned.moves],
    }


def _say(text: str) -> None:
    click.echo(plain(text), err=True)
