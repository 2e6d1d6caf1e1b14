"""Turn what boto3 raises into sentences, so that no answer of a store ends in a traceback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConfigNotFound,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from fleet.errors import AccountError, ConfigError, StoreError
from infra.redaction import Redactor


class AbsentError(StoreError):
    """An object or an upload is not there."""


class ChangedError(StoreError):
    """An object is not the one that was asked for, by its tag."""


class DamagedError(StoreError):
    """What arrived at the store is not what was sent; it was refused."""


class DeniedError(AccountError, StoreError):
    """This account may not do that."""


class CredentialsError(AccountError, StoreError):
    """Nobody says who we are, or not any more."""


class UntoldError(StoreError):
    """The store refused a HEAD request, whose answer has no body that says why."""


class BusyStoreError(StoreError):
    """The store still asks for less after all tries."""


_ABSENT = frozenset({"NoSuchKey", "NoSuchUpload", "NotFound", "404"})
_CHANGED = frozenset(
    {"PreconditionFailed", "ConditionalRequestConflict", "412", "409", "InvalidPart"}
)
_DAMAGED = frozenset({"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "RequestTimeout"})
_EXPIRED = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
)
_SKEWED = frozenset({"RequestTimeTooSkewed", "RequestInTheFuture"})
_UNKNOWN = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken"})
_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "Forbidden", "403"})
_BUSY = frozenset(
    {"SlowDown", "503", "ServiceUnavailable", "Throttling", "ThrottlingException", "500"}
)
_UNTOLD = frozenset({"400"})
_OTHER_REGION = frozenset(
    {"PermanentRedirect", "IllegalLocationConstraintException", "AuthorizationHeaderMalformed"}
)
_SHOWN_CHARS = 200
_RENEW = "Renew them and run it again: what is done stays done."


@contextmanager
def asked(where: str) -> Iterator[None]:
    """Run a request; `where`: the bucket and key, for the message."""
    try:
        yield
    except ClientError as error:
        raise _refused(error, where) from error
    except ProfileNotFound as error:
        raise ConfigError(f"{where}: {error}. Name one that ~/.aws/config has.") from error
    except ConfigNotFound as error:
        raise ConfigError(f"{where}: {error}. Check AWS_CONFIG_FILE.") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise CredentialsError(
            f"{where}: no credentials were found. Log in as boto3 expects it: `aws sso login`, "
            "AWS_PROFILE, or a role of this machine."
        ) from error
    except (CredentialRetrievalError, TokenRetrievalError, SSOError) as error:
        raise CredentialsError(
            f"{where}: the credentials cannot be renewed ({type(error).__name__}). {_RENEW}"
        ) from error
    except (ResponseParserError, UnicodeDecodeError) as error:  # no BotoCoreError
        raise StoreError(
            f"{where}: the answer is not a store's ({type(error).__name__}). Look for a proxy or a "
            "login page on the way, then run it again: what is done stays done."
        ) from error
    except BotoCoreError as error:
        raise StoreError(
            f"{where}: cannot be reached: {_cut(str(error))}. Check the address and the way there, "
            "then run it again: what is done stays done."
        ) from error


def given(answer: Mapping[str, Any], name: str, where: str) -> Any:
    """Take something out of an answer that every store of this protocol has to give."""
    value = answer.get(name)
    if value is None:
        raise StoreError(
            f"{where}: the store's answer has no {name}. k3fleet cannot work with such a store: "
            "look for a proxy before it, or ask its vendor."
        )
    return value


def _refused(error: ClientError, where: str) -> Exception:  # noqa: PLR0911 - one line each
    details = error.response.get("Error", {})
    code, said = str(details.get("Code", "")), _cut(str(details.get("Message", "")))
    if code == "NoSuchBucket":
        return ConfigError(f"{where}: there is no such bucket. Make it, or correct `weights`.")
    if code in _OTHER_REGION:
        return ConfigError(
            f"{where}: the bucket is in another region: {said}. Correct `region` under `weights`."
        )
    if code in _ABSENT:
        return AbsentError(f"{where}: is not there. Run `k3fleet weights status`.")
    if code in _CHANGED:
        return ChangedError(f"{where}: was changed meanwhile. Find out by whom, and run it again.")
    if code in _DAMAGED:
        return DamagedError(f"{where}: what arrived is not what was sent ({code}). Run it again.")
    if code in _EXPIRED:
        return CredentialsError(f"{where}: the credentials have expired. {_RENEW}")
    if code in _SKEWED:
        return CredentialsError(
            f"{where}: the clock of this machine is wrong: {said}. Set it (NTP), then run it again."
        )
    if code in _UNKNOWN:
        return CredentialsError(
            f"{where}: the store does not accept the credentials ({code}). {_RENEW}"
        )
    if code in _DENIED:
        return DeniedError(f"{where}: not allowed ({said}). Give this account the right to do it.")
    if code in _BUSY:
        return BusyStoreError(
            f"{where}: still too busy after all tries ({code}). "
            "Run it again with a lower --rate or --concurrency: what is done stays done."
        )
    if code in _UNTOLD:
        return UntoldError(
            f"{where}: the store refused to say what is there ({said}). Run it again."
        )
    return StoreError(f"{where}: the store refused: {code}: {said}. Look it up in its manual.")


def _cut(text: str) -> str:
    """Shorten what a store said, without secrets and on one line."""
    line = Redactor().text(" ".join(text.split())).rstrip(".")
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 3] + "..."
