"""Ask AWS whose credentials these are."""

from __future__ import annotations

from typing import Protocol

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from fleet.errors import AccountError, CloudError
from infra.state.bucket import client

NO_LOGIN = (
    *(CredentialRetrievalError, NoCredentialsError, PartialCredentialsError),
    *(ProfileNotFound, SSOError, TokenRetrievalError),
)


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
    except (ClientError, *NO_LOGIN) as error:
        raise AccountError(
            f"{region}: nobody can say whose credentials these are: {type(error).__name__}. "
            "Log in to the region's account, then run again."
        ) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise CloudError(
            f"{region}: AWS cannot be asked whose credentials these are: {type(error).__name__}. "
            "See that there is a way to it, then run again: nothing was touched."
        ) from error
    if found != cluster.account:
        raise AccountError(
            f"{region}: these are credentials of account {found}, and the region is in "
            f"{cluster.account}. Use those of that account; nothing was touched."
        )
