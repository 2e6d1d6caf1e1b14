"""What an API server refuses, in our words and with one exit code per meaning."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from lightkube.core.exceptions import ApiError

from fleet.errors import ApplyError
from infra.rollout.cluster import AwayError, Cluster

REQUEST = httpx2.Request("GET", "https://api.test")


def status(code: int) -> ApiError:
    body = {"kind": "Status", "code": code, "message": "no"}
    return ApiError(response=httpx2.Response(code, json=body, request=REQUEST))


@pytest.mark.parametrize(
    ("error", "exit_code", "away"),
    [
        (httpx2.ConnectError("refused", request=REQUEST), 11, True),
        (status(503), 11, True),
        (status(401), 11, False),
        (status(403), 11, False),
        (status(422), 7, False),
    ],
    ids=str,
)
def test_a_cluster_out_of_reach_is_one_exit_code(
    error: Exception, exit_code: int, away: bool
) -> None:
    """It was another one for `up` than for `racks`; who may not come in need not wait for it."""
    cluster = Cluster(region="us-east", kubeconfig=Path("config"), namespace="k3", go_on="again")
    with pytest.raises(ApplyError, match="us-east: its API server") as raised, cluster.api():
        raise error
    assert raised.value.exit_code == exit_code
    assert isinstance(raised.value, AwayError) is away
