"""Ask AWS whose credentials these are."""

from __future__ import annotations

from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from fleet.errors import AccountError
from infra.state.bucket import client


class AwsCluster(Protocol):
    """What is asked of a region's `cluster` in AWS."""

    @property
    def account(self) -> str: ...

    @property
    def region(self) -> str: ...


def require_account(region: str, cluster: AwsCluster) -> None:
    """Raise AccountError unless the credentials are those of the cluster's account."""
    try:
        found = client("sts", {"region": cluster.region}).get_caller_identity()["Account"]
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise AccountError(
            f"{region}: nobody can say whose credentials these are: {type(error).__name__}. "
            "Log in to the region's account, then run again."
        ) from error
    if found != cluster.account:
        raise AccountError(
            f"{region}: these are credentials of account {found}, and the region is in "
            f"{cluster.account}. Use those of that account; nothing was touched."
        )
