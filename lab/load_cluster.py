"""Drive the load generator of a region in its cluster, and judge what it measured."""

from __future__ import annotations

import importlib.metadata
import io
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError

from fleet.load import Fleet
from fleet.plan import RegionPlan
from infra.load_apply import generator_objects
from infra.load_generator import (
    MASTER,
    RESULTS_MOUNT,
    SETTINGS_FILE,
    SETTINGS_MOUNT,
    WEB_PORT,
    WORKER,
)
from infra.pod_shell import PodShell
from lab.load_target import serving_gpus
from lab.reach import RegionReach
from loadtest.judge.gates import GateSet
from loadtest.judge.judging import JudgedRun, judge_run
from loadtest.play import master_page
from loadtest.report.write import write_files
from loadtest.results import collected
from loadtest.results.run_facts import RunFacts, write_facts
from loadtest.results.saved_run import read_saved
from loadtest.settings import LoadSettings

PAGE_TIMEOUT_S = 60.0
RESULTS_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPage:
    """The page of a master, asked from within its pod: it listens nowhere else."""

    shell: PodShell

    def ask(self, method: str, path: str, form: Mapping[str, str]) -> bytes:
        """Send one request."""
        (pod, *_) = self.shell.pods(MASTER)
        out = io.BytesIO()
        command = master_page.in_pod_command(WEB_PORT, method, path, form)
        self.shell.run(pod, command, out, timeout_s=PAGE_TIMEOUT_S)
        return out.getvalue()


def region_settings(fleet: Fleet, region: str) -> LoadSettings:
    """Read the settings that the region's generator is deployed with."""
    config = next(item for item in generator_objects(fleet, region) if item["kind"] == "ConfigMap")
    return LoadSettings.model_validate_json(config["data"][SETTINGS_FILE])


def fetch_results(fleet: Fleet, region: str, shell: PodShell, folder: Path) -> None:
    """Bring the files of master and workers into one folder."""
    pods = (*shell.pods(WORKER), *shell.pods(MASTER))
    if fleet.spec.loadtest is not None and fleet.spec.loadtest.results_claim:
        pods = pods[:1]  # all of them have the same folder
    command = collected.in_pod_command(
        f"{RESULTS_MOUNT}/{region}", f"{SETTINGS_MOUNT}/{SETTINGS_FILE}"
    )
    for pod in pods:
        with tempfile.TemporaryFile() as archive:
            shell.run(pod, command, archive, timeout_s=RESULTS_TIMEOUT_S)
            archive.seek(0)
            collected.unpack(archive, folder, where=pod)


def judge_collected(
    fleet: Fleet, region: RegionPlan, client: Client, folder: Path, gates: GateSet
) -> JudgedRun:
    """Judge a folder of collected files, with who is registered now."""
    earlier = collected.drop_earlier_tests(folder)
    notes = (f"Files of an earlier test were left out: {', '.join(earlier)}.",) if earlier else ()
    facts = RunFacts(
        name=f"{fleet.spec.name} {region.name}",
        processes=fleet.spec.loadtest.workers if fleet.spec.loadtest else 1,
        replicas={region.name: tuple(name for rack in region.racks for name in rack.replica_names)},
        roles=dict(region.roles),
        gpus=serving_gpus(fleet, [region]),
        notes=notes,
        real=("The fleet", f"k3fleet {importlib.metadata.version('k3fleet')}"),
    )
    write_facts(_with_workers(facts, fleet, region, client), folder)
    judged = judge_run(read_saved(folder), gates)
    write_files(judged.report(), folder)
    return judged


def _with_workers(facts: RunFacts, fleet: Fleet, region: RegionPlan, client: Client) -> RunFacts:
    """Add who is registered with the router, as the API server says."""
    reach = RegionReach(
        client=client,
        namespace=fleet.spec.namespace,
        gateway_url="",
        roles=region.roles,
        engine_port=fleet.release.engine.direct_port,
    )
    try:
        registered = dict(reach.registered())
    except (ApiError, httpx2.HTTPError) as error:
        unknown = f"Which replicas were registered: the API server said {type(error).__name__}"
        return facts.model_copy(update={"unknown": (unknown,)})
    return facts.model_copy(
        update={"worker_names": registered, "registered": frozenset(registered.values())}
    )
