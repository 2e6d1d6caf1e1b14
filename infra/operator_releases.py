"""Declare operators' charts to Pulumi, as releases of Helm: their hooks have to run."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi
from pulumi_kubernetes.helm.v3 import Release, RepositoryOptsArgs

from infra.operators import Chart

_TIMEOUT_S = 1200  # drivers are compiled on nodes that bring none
_REVISIONS = 5


def declare_operators(
    charts: Iterable[Chart],
    provider: pulumi.ProviderResource,
    first: Iterable[pulumi.Input[pulumi.Resource]] = (),
) -> dict[str, list[pulumi.Resource]]:
    """Declare each chart after what it needs; give what the kinds that it brings wait for.

    Helm waits until an operator runs, so its kinds are there when their objects come.
    """
    releases: dict[str, pulumi.Resource] = {}
    gates: dict[str, list[pulumi.Resource]] = {}
    for chart in charts:
        needs = [releases[name] for name in chart.after if name in releases]
        release = _release(chart, provider, [*first, *needs])
        releases[chart.name] = release
        for kind in chart.brings:
            gates.setdefault(kind, []).append(release)
    return gates


def _release(
    chart: Chart,
    provider: pulumi.ProviderResource,
    needs: list[pulumi.Input[pulumi.Resource]],
) -> Release:
    return Release(
        f"operator/{chart.name}",
        name=chart.name.replace("_", "-"),
        chart=chart.chart,
        version=chart.version,
        repository_opts=RepositoryOptsArgs(repo=chart.repository) if chart.repository else None,
        namespace=chart.namespace,
        create_namespace=True,
        values=dict(chart.values),
        atomic=True,  # what does not come up is taken back
        cleanup_on_fail=True,
        skip_await=False,
        max_history=_REVISIONS,
        timeout=_TIMEOUT_S,
        opts=pulumi.ResourceOptions(
            provider=provider,
            depends_on=needs or None,
            # Without its operator a kind's objects hang, and replicas lose NVLink or their pods.
            protect=True,
            retain_on_delete=True,
        ),
    )
