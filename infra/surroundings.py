"""Choose what a region has beside what serves: policies, weights stage, monitoring.

Nothing of it is needed to answer a request, and much of it needs controllers of
other people. `Options.bare` leaves all of it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.load import Fleet
from fleet.plan import RegionPlan
from infra import frontend
from infra.dashboard import dashboard_json
from infra.engine import SYSTEM_PORT
from infra.load_generator import Listeners, LoadGenerator, LoadPod, load_generator
from infra.monitoring import monitoring
from infra.network import Ports, load_policies, network_policies
from infra.node_report import NodeReportValues, node_report_values
from infra.options import Options
from infra.policies import admission_policies
from infra.secret_references import external_secrets
from infra.staging import StagingValues, staging_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One object: the template's name, and what it is filled with beside the layer's values."""

    template: str
    item: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An identity outside Dynamo's discovery."""

    name: str
    uses_api: bool
    image_pull: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A file for Grafana."""

    text: str


def platform_surroundings(
    fleet: Fleet, region: RegionPlan, namespace: str, options: Options
) -> tuple[Part, ...]:
    """List what belongs to the platform layer of a region."""
    if options.bare:
        return ()
    staging = staging_values(fleet, region, namespace, options)
    parts = [
        Part(template="platform/external-secret", item=secret)
        for secret in external_secrets(fleet.spec)
    ]
    for policy in admission_policies(fleet, namespace, staging, options):
        parts.append(Part(template="platform/admission-policy", item=policy))
        parts.append(Part(template="platform/admission-policy-binding", item=policy))
    if staging is not None:
        parts += _weights_stage(staging)
    if (reports := node_report_values(fleet, region, options)) is not None:
        parts += _node_report(reports)
    return tuple(parts)


def serving_surroundings(
    fleet: Fleet, region: RegionPlan, namespace: str, gateway_port: int, options: Options
) -> tuple[Part, ...]:
    """List what belongs to the serving layer of a region."""
    if options.bare:
        return ()
    ports = _ports(fleet, gateway_port)
    parts = [
        Part(template="serving/network-policy", item=policy)
        for policy in network_policies(ports, options.monitoring_namespace)
    ]
    at = Listeners(namespace=namespace, gateway_port=ports.gateway, frontend_port=ports.frontend)
    if generator := load_generator(fleet, region, at):
        parts += _load_generator(generator, ports)
    if fleet.spec.monitoring == "prometheus-operator":
        parts += _monitoring(fleet, region, namespace)
    return tuple(parts)


def _weights_stage(staging: StagingValues) -> list[Part]:
    account = Account(name=staging.account, uses_api=True, image_pull=staging.image_pull)
    return [
        Part(template="platform/service-account", item=account),
        Part(template="platform/weights-stage-role", item=staging),
        Part(template="platform/weights-stage-role-binding", item=staging),
        Part(template="platform/weights-stage-config", item=staging),
        Part(template="platform/weights-stage", item=staging),
    ]


def _node_report(reports: NodeReportValues) -> list[Part]:
    account = Account(name=reports.account, uses_api=False, image_pull=reports.image_pull)
    return [
        Part(template="platform/service-account", item=account),
        Part(template="platform/node-report-config", item=reports),
        Part(template="platform/node-report", item=reports),
    ]


def _load_generator(generator: LoadGenerator, ports: Ports) -> list[Part]:
    return [
        *(Part(template="serving/network-policy", item=policy) for policy in load_policies(ports)),
        Part(template="serving/loadtest-config", item=generator),
        Part(template="serving/loadtest-service", item=generator),
        *(
            Part(
                template="serving/loadtest-deployment",
                item=LoadPod(process=process, generator=generator),
            )
            for process in (generator.master, generator.workers)
        ),
    ]


def _monitoring(fleet: Fleet, region: RegionPlan, namespace: str) -> list[Part]:
    told = monitoring(fleet, region, namespace)
    parts = [Part(template="serving/pod-monitor", item=scrape) for scrape in told.scrapes]
    parts.append(Part(template="serving/alerts", item=told))
    if told.scrapes:
        text = dashboard_json(fleet.spec.name, region.name, namespace)
        parts.append(Part(template="serving/dashboard", item=Dashboard(text=text)))
    return parts


def _ports(fleet: Fleet, gateway_port: int) -> Ports:
    custom = fleet.release.engine.custom
    if custom is not None and not fleet.release.engine.registers:
        return Ports(gateway=gateway_port, frontend=None, engine=custom.port)
    return Ports(gateway=gateway_port, frontend=frontend.PORT, engine=SYSTEM_PORT)
