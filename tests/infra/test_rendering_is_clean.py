"""Our own linter over all that a region can have at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.load import Fleet
from infra.lint.ruleset import RULES
from infra.lint.run import lint
from infra.lint.subject import subject

MakeFleet = Callable[..., Fleet]
IMAGE = "registry.example/any@sha256:" + "0" * 64
EVERYTHING: dict[str, Any] = {
    "secrets": {
        "image_pull": "registry",
        "hf_token": "hub",
        "gateway_keys": "keys",
        "loadtest_key": "load-key",
        "external_store": "vault",
    },
    "scheduling": {"gang": "kai", "queue": "serving"},
    "weights_stage": {"image": IMAGE},
    "node_report": {"image": IMAGE, "folder": "/mnt/nvme"},
    "loadtest": {"image": IMAGE, "tokenizer_dir": "/opt/kimi", "results_claim": "load"},
    "regions": [
        {
            "name": "us-east",
            "racks": [
                {
                    "id": "use1-r01",
                    "healthy_nodes": 6,
                    "capacity_ends_at": "2027-01-31T11:30:00Z",
                }
            ],
        }
    ],
}


@pytest.mark.parametrize("cache", [{"path": "/mnt/k3fleet/kernels"}, {"claim": "kernels"}])
@pytest.mark.parametrize("release", ["vllm-tp8", "sglang-tp8-dspark", "vllm-pd-2p1d"])
@pytest.mark.parametrize("backend", ["lws", "dgd"])
def test_nothing_that_we_render_is_wrong(
    make_fleet: MakeFleet, backend: str, release: str, cache: dict[str, str]
) -> None:
    """A finding in our own objects is a mistake of ours, or of the rule."""
    fleet = make_fleet(backend=backend, release=release, kernel_cache=cache, **EVERYTHING)
    given = subject([fleet.path])
    assert len(given.scene.manifests) > 40
    report = lint(given.scene, RULES, waivers=(), today=datetime.now(UTC).date())
    assert [finding for finding in report.findings if finding.severity != "info"] == []
