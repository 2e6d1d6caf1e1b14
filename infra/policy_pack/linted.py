"""Judge the objects of Kubernetes by the rules of `k3fleet lint`.

The rules are not written twice: an object is given to the linter alone before
it is made, and with all of its stack when the stack is known. What the linter
calls an error stops an update, and so do some warnings about what a team cannot
take back; the other warnings are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from fleet.load import Fleet, load_fleet, load_hardware, load_model
from fleet.spec import DEFAULT_HARDWARE, DEFAULT_KUBERNETES, DEFAULT_MODEL, kubernetes_version
from infra.lint.manifest import Manifest
from infra.lint.rule import Finding
from infra.lint.ruleset import RULES
from infra.lint.run import lint
from infra.lint.scene import Scene
from infra.lint.waivers import fleet_waivers
from infra.policy_pack.kubernetes import manifest_of
from infra.policy_pack.resource import Config, Fault, Faults, Policy, Resource

# Warnings of the linter that stop an update: replicas across racks, and secrets in clear.
STOPPING = ("K022", "K023", "P028")


@dataclass(frozen=True, slots=True)
class Linter:
    """The linter on one day: waivers end."""

    today: date

    def policies(self) -> tuple[Policy, ...]:
        """Give the policies, with the fleet file as their setting."""
        settings: dict[str, dict[str, Any]] = {
            "fleet": {"type": "string", "default": ""},
            "stopping": {
                "type": "array",
                "items": {"type": "string"},
                "default": list(STOPPING),
            },
        }
        return (
            Policy(
                name="kubernetes-objects",
                title="Objects keep the rules of k3fleet lint",
                one=self._one(stops),
                config=settings,
            ),
            Policy(
                name="kubernetes-objects-advice",
                title="What k3fleet lint warns of",
                level="advisory",
                one=self._one(advises),
                config=settings,
            ),
            Policy(
                name="kubernetes-stack",
                title="Objects of a stack go together",
                stack=self._all,
                config=settings,
            ),
        )

    def _one(self, counts: Judge) -> Callable[[Resource, Config], Faults]:
        def judge(resource: Resource, config: Config) -> Faults:
            manifest = manifest_of(resource)
            if manifest is None:
                return
            for finding in self.findings([manifest], config):
                if counts(finding, config):
                    yield _fault(resource, finding)

        return judge

    def _all(self, resources: Sequence[Resource], config: Config) -> Faults:
        """Find what only shows when objects stand side by side."""
        found = [(item, manifest_of(item)) for item in resources]
        objects = {id(manifest): (item, manifest) for item, manifest in found if manifest}
        by_name = {manifest.file: item for item, manifest in objects.values()}
        for finding in self.findings([manifest for _, manifest in objects.values()], config):
            if stops(finding, config):
                yield _fault(by_name[finding.file], finding)

    def findings(self, manifests: Sequence[Manifest], config: Config) -> Iterator[Finding]:
        """Run the linter; a fleet file adds its waivers, model, hardware and version."""
        fleet = load_fleet(Path(config["fleet"])) if config.get("fleet") else None
        waivers = fleet_waivers(fleet, RULES) if fleet else ()
        yield from lint(_scene(manifests, fleet), RULES, waivers=waivers, today=self.today).findings


Judge = Callable[[Finding, Config], bool]


def stops(finding: Finding, config: Config) -> bool:
    """Say whether a finding stops an update."""
    return finding.severity == "error" or finding.rule in config.get("stopping", STOPPING)


def advises(finding: Finding, config: Config) -> bool:
    """Say whether a finding is told and no more."""
    return finding.severity == "warning" and not stops(finding, config)


def _scene(manifests: Sequence[Manifest], fleet: Fleet | None) -> Scene:
    here = Path()
    version = fleet.spec.kubernetes if fleet else DEFAULT_KUBERNETES
    return Scene(
        manifests=tuple(manifests),
        kubernetes=kubernetes_version(version),
        model=fleet.model if fleet else load_model(DEFAULT_MODEL, beside=here),
        hardware=fleet.hardware if fleet else load_hardware(DEFAULT_HARDWARE, beside=here),
    )


def _fault(resource: Resource, finding: Finding) -> Fault:
    at = f"{finding.path}: " if finding.path else ""
    return Fault(resource, f"{finding.rule}: {at}{finding.what}", finding.fix.rstrip("."))
