"""Reach AWS, and say in our words why it cannot be reached."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)
from botocore.parsers import ResponseParserError

from fleet.errors import AccountError, StateError

Client = Any  # boto3 makes its clients' classes at run time

_CONFIG = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 4}
)
_STALE = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "InvalidAccessKeyId"}
)
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "403"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose credentials these are."""

    account: str
    partition: str
    arn: str


@dataclass(frozen=True, slots=True)
class Aws:
    """Clients of one set of credentials."""

    session: boto3.Session
    _clients: dict[tuple[str, str], Client] = field(default_factory=dict)

    def client(self, service: str, region: str) -> Client:
        """Give a client that gives up within a minute; making one takes a tenth of a second."""
        if (service, region) not in self._clients:
            made = self.session.client(service, region_name=region, config=_CONFIG)
            self._clients[service, region] = made
        return self._clients[service, region]

    def caller(self, region: str) -> Caller:
        """Ask AWS whose credentials these are."""
        with explained("AWS credentials"):
            found = self.client("sts", region).get_caller_identity()
        arn = str(found["Arn"])
        return Caller(account=str(found["Account"]), partition=arn.split(":")[1], arn=arn)


def connect(profile: str | None) -> Aws:
    """Take the credentials that the environment, or a profile, gives."""
    with explained("AWS credentials"):
        return Aws(boto3.Session(profile_name=profile))


def code(error: ClientError) -> str:
    """Give the error code of an answer."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextlib.contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn what boto3 raises into an error that says what to do; no body of an answer is shown."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
        raise AccountError(
            f"{where}: {error}. Sign in, for example with `aws sso login`, then run again."
        ) from error
    except ClientError as error:
        raise _refused(where, error) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise StateError(
            f"{where}: AWS cannot be reached ({type(error).__name__}). "
            "Check the network and the region, then run again."
        ) from error


def _refused(where: str, error: ClientError) -> StateError | AccountError:
    found, call = code(error), error.operation_name
    if found in _STALE:
        return AccountError(f"{where}: the credentials are not valid ({found}). Sign in again.")
    if found in _DENIED:
        return AccountError(
            f"{where}: these credentials may not call {call}. "
            "Use a role that may, or ask for that permission."
        )
    return StateError(f"{where}: {call} was refused ({found}). Correct the cause and run again.")
