"""Reach AWS: clients with the right patience, and its errors in our words.

What only asks may be repeated by botocore. What spends money gets a client that sends a
request once, because an answer that got lost does not mean that nothing was bought.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from fleet.errors import AccountError, CloudError
from infra.redaction import Redactor

# EC2's names for credentials that are wrong, or were right once.
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_UNKNOWN = frozenset(
    {"AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch"}
)
_FORBIDDEN = frozenset({"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})
UNKNOWN_CODE = "unknown"  # an answer without one
_SHOWN_CHARS = 300  # an encoded authorisation message has thousands


class LoginError(AccountError, CloudError):
    """AWS does not know who asks, or does not let him."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsAccess:
    """One account's clients, by service and region."""

    session: boto3.Session
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 60.0

    _clients: dict[tuple[str, str, int], Any] = field(default_factory=dict)  # made once: 0.2 s each

    def asking(self, service: str, region: str) -> Any:
        """Give a client for questions: repeated when AWS is busy or away."""
        return self._client(service, region, tries=5)

    def spending(self, region: str) -> Any:
        """Give a client whose requests are sent once."""
        return self._client("ec2", region, tries=1)

    def _client(self, service: str, region: str, *, tries: int) -> Any:
        key = (service, region, tries)
        if key not in self._clients:
            config = Config(
                connect_timeout=self.connect_timeout_s,
                read_timeout=self.read_timeout_s,
                # The first try is counted; botocore's `max_attempts: 1` would allow two.
                retries={"total_max_attempts": tries, "mode": "standard"},
                max_pool_connections=_POOL,
            )
            with translated(f"aws {region}"):
                client = self.session.client(service, region_name=region, config=config)
            self._clients[key] = client
        return self._clients[key]


_POOL = 16  # above the threads that share a client


@functools.cache
def default_access() -> AwsAccess:
    """Take credentials from where every AWS tool does: environment, files, SSO, instance role."""
    with translated("aws"):
        return AwsAccess(session=boto3.Session())


def check_account(access: AwsAccess, region: str, wanted: str) -> None:
    """Raise AccountError unless the credentials are those of an account."""
    sts = access.asking("sts", region)
    with translated(f"aws {region}"):
        found = str(sts.get_caller_identity()["Account"])
    if found != wanted:
        raise AccountError(
            f"aws {region}: the credentials are of account {found}, the fleet file says {wanted}. "
            "Log in to the other account, or correct cluster.account."
        )


def given(answer: Mapping[str, Any], name: str, where: str) -> Any:
    """Take something out of an answer that it has to have."""
    value = answer.get(name)
    if value is None:
        raise CloudError(
            f"{where}: AWS's answer has no {name}. Look for a proxy or another AWS_ENDPOINT_URL on "
            "the way; if there is none, update k3fleet."
        )
    return value


def error_code(error: ClientError) -> str:
    """Give AWS's word for an error."""
    return str(error.response.get("Error", {}).get("Code") or UNKNOWN_CODE)


def error_text(error: ClientError) -> str:
    """Give AWS's sentence for an error, cut: it may hold an encoded policy."""
    return str(error.response.get("Error", {}).get("Message", "")).strip()[:_SHOWN_CHARS]


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise CloudError for what AWS or the way to it has, LoginError for our credentials."""
    try:
        yield
    except ClientError as error:
        raise client_error(error, where) from error
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
        raise LoginError(
            f"{where}: no credentials: {error}. Log in (aws sso login), or set AWS_PROFILE."
        ) from error
    except TokenRetrievalError as error:
        raise LoginError(
            f"{where}: the login has expired: {error}. Log in again (aws sso login)."
        ) from error
    except (EndpointConnectionError, ConnectTimeoutError) as error:
        raise CloudError(
            f"{where}: cannot be reached. Check the network, the proxy and the region's name."
        ) from error
    except (ResponseParserError, LookupError) as error:  # botocore has no other word for it
        raise CloudError(
            f"{where}: the answer is not AWS's ({type(error).__name__}). "
            "Look for a proxy or a login page on the way, then try again."
        ) from error
    except BotoCoreError as error:
        raise CloudError(
            f"{where}: {Redactor().text(str(error))[:_SHOWN_CHARS]}. Try again."
        ) from error
    except ValueError as error:  # AWS_ENDPOINT_URL and the like
        raise CloudError(
            f"{where}: {Redactor().text(str(error))[:_SHOWN_CHARS]}. "
            "Check AWS_ENDPOINT_URL and ~/.aws/config."
        ) from error


def client_error(error: ClientError, where: str) -> CloudError:
    """Put AWS's refusal into words that say what to do."""
    code, text = error_code(error), error_text(error)
    if code in _EXPIRED:
        return LoginError(f"{where}: the credentials have expired. Log in again.")
    if code in _UNKNOWN:
        return LoginError(
            f"{where}: AWS does not know the credentials ({code}). Log in to the right account."
        )
    if code in _FORBIDDEN:
        return LoginError(
            f"{where}: not allowed: {error.operation_name} ({code}). "
            "Ask for the permission; docs/capacity.md lists those that are needed."
        )
    return CloudError(f"{where}: {error.operation_name}: {code}: {text.rstrip('.')}. Try again.")
