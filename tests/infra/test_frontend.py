"""The command line of a frontend, in the frontend's own parser."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import get_args

import pytest
import yaml

from fleet.load import Fleet
from fleet.router import RouterMode, RouterSpec
from infra.engine import dynamo_env
from infra.frontend import FrontendValues, frontend_values
from infra.options import Options

PARSE = """
import json, sys
from dynamo.frontend.main import parse_args
seen = []
for sys.argv in json.load(sys.stdin):
    c = parse_args()[0]
    seen.append([c.http_host, c.router_mode, c.migration_limit, c.tokenizer_backend])
print(json.dumps(seen))
"""


def with_router(fleet: Fleet, router: RouterSpec) -> FrontendValues:
    changed = fleet.spec.model_copy(update={"router": router})
    spec = {name: getattr(fleet, name) for name in ("model", "hardware", "release", "path")}
    other = Fleet(spec=changed, release_id=fleet.release_id, **spec)
    return frontend_values(other, other.release, "demo-us-east", Options())


def test_dynamo_accepts_every_router_a_fleet_file_can_ask_for(demo: Fleet) -> None:
    """A flag that a new Dynamo drops would end every frontend at start."""
    modes = get_args(RouterMode)
    routers = [RouterSpec(mode=mode) for mode in modes]
    routers += [RouterSpec(session_affinity=kind) for kind in ("hard", "off")]
    commands = [["frontend", *with_router(demo, router).args] for router in routers]
    parsed = subprocess.run(
        [sys.executable, "-c", PARSE],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    assert parsed.returncode == 0, parsed.stderr
    assert json.loads(parsed.stdout.splitlines()[-1]) == [
        ["$(POD_IP)", router.mode, 3, "basetenkenizer"] for router in routers
    ]


def test_a_frontend_has_time_for_its_streams(demo: Fleet) -> None:
    """Kubernetes kills it after the grace period, whatever Dynamo still does."""
    values = frontend_values(demo, demo.release, "demo-us-east", Options())
    drain_s = int(values.env["DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS"])
    assert drain_s == demo.release.drain_s
    assert values.grace_s > values.pre_stop_s + drain_s


@pytest.mark.parametrize(
    "name", ["DYN_TCP_RPC_HOST", "DYN_TCP_RESPONSE_STREAM_HOST", "DYN_EVENT_PLANE_HOST"]
)
def test_dynamo_speaks_from_the_pods_own_address(name: str) -> None:
    """It otherwise advertises the first interface of the machine."""
    assert dynamo_env("x")[name] == "$(POD_IP)"


def test_a_router_policy_is_a_file_of_the_frontends(demo: Fleet) -> None:
    """Dynamo 1.7 drops the flags that said the same; a changed file restarts the pods."""
    policies = [{"policy_classes": []}, {"policy_classes": [], "default": "x"}]
    files = [with_router(demo, RouterSpec(policy=policy)).policy for policy in policies]
    assert [yaml.safe_load(file.text) for file in files if file] == policies
    assert len({file.config_map for file in files if file}) == 2


def test_a_router_without_policy_has_no_file(demo: Fleet) -> None:
    """An empty file would be another thing than Dynamo's defaults."""
    values = with_router(demo, RouterSpec())
    assert values.policy is None
    assert "--router-policy-config" not in values.args
