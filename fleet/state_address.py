"""Read the addresses of Pulumi's state and of the key that encrypts secrets in it.

Both are in Pulumi's own spelling, so that `pulumi login` and the
`--secrets-provider` flag take them as they stand. They are checked here because
Pulumi checks them late: a bucket without a region is looked for in whatever
region the caller's environment happens to name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import SplitResult, parse_qsl, urlsplit

from fleet.schema import found_text, refuse, suggestion

BackendKind = Literal["file", "s3", "gs", "azblob"]
SecretsKind = Literal["passphrase", "awskms", "gcpkms", "azurekeyvault", "hashivault"]

S3_EXAMPLE = "Write s3://BUCKET/FOLDER?region=us-west-2"
_SECRETS_EXAMPLES: Mapping[str, str] = {
    "awskms": "Write awskms://alias/NAME?region=us-west-2",
    "gcpkms": "Write gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K",
    "azurekeyvault": "Write azurekeyvault://VAULT.vault.azure.net/keys/KEY",
    "hashivault": "Write hashivault://KEY",
}
# docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html. Without dots, which S3
# allows but whose names no wildcard certificate covers.
BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
AWS_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+){1,2}-[0-9]{1,2}")
_GCS_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,63})*")
# What gocloud.dev's s3blob reads and k3fleet lets through; `anonymous` and `disable_https` are not.
_S3_PARAMETERS = frozenset(
    {"region", "profile", "endpoint", "use_path_style", "s3ForcePathStyle", "dualstack", "fips"}
)
_AZURE_PARAMETERS = frozenset({"storage_account", "domain"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_AWS_KEY = re.compile(
    r"alias/[A-Za-z0-9/_-]{1,249}|(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
_AWS_KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:(?:key|alias)/[A-Za-z0-9/_-]+")
_GCP_KEY = re.compile(
    r"projects/[a-z][a-z0-9-]{4,28}[a-z0-9]/locations/[a-z0-9-]+/keyRings/[\w-]{1,63}/cryptoKeys/[\w-]{1,63}"
)
_AZURE_KEY = re.compile(
    r"[a-z0-9-]{3,24}\.(?:vault|managedhsm)\.(?:azure\.net|azure\.cn|usgovcloudapi\.net)"
    r"/keys/[A-Za-z0-9-]{1,127}(?:/[0-9a-f]{32})?"
)
_VAULT_KEY = re.compile(r"[\w.-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The parts of a backend's address."""

    kind: BackendKind
    bucket: str  # of a file backend: empty
    prefix: str  # folder inside the bucket; of a file backend: the path
    parameters: Mapping[str, str]

    @property
    def region(self) -> str:
        """Region of an S3 bucket."""
        return self.parameters.get("region", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsKey:
    """The parts of a secrets provider's address."""

    kind: SecretsKind
    key: str  # alias, id, ARN or path; empty for a passphrase
    region: str  # of an AWS key that is no ARN


def parse_backend(text: str) -> Backend:
    """Take a checked backend address apart; raise what pydantic understands where it is wrong."""
    url = _split(text, "s3://BUCKET/FOLDER?region=us-west-2 or file:///FOLDER")
    kinds = get_args(BackendKind)
    if url.scheme not in kinds:
        raise refuse(
            f"{found_text(text)} is no backend that k3fleet knows",
            suggestion(url.scheme, [f"{kind}://" for kind in kinds]),
        )
    parameters = _parameters(url)
    checks = {"file": _file, "s3": _s3, "gs": _gs, "azblob": _azblob}
    return checks[url.scheme](url, parameters)


def parse_secrets_provider(text: str) -> SecretsKey:
    """Take a checked secrets provider apart; raise what pydantic understands where it is wrong."""
    if text == "passphrase":
        return SecretsKey(kind="passphrase", key="", region="")
    url = _split(text, "awskms://alias/NAME?region=us-west-2 or passphrase")
    example = _SECRETS_EXAMPLES.get(url.scheme)
    if example is None:
        raise refuse(
            f"{found_text(text)} is no secrets provider",
            suggestion(url.scheme, get_args(SecretsKind)),
        )
    kind: SecretsKind = url.scheme  # type: ignore[assignment]  # a key of the examples
    key = f"{url.netloc}{url.path}".lstrip("/")
    parameters = _parameters(url)
    known = frozenset({"region", "profile"}) if kind == "awskms" else frozenset()
    _refuse_unknown(parameters, known, example)
    patterns = {"gcpkms": _GCP_KEY, "azurekeyvault": _AZURE_KEY, "hashivault": _VAULT_KEY}
    region = parameters.get("region", "")
    if kind != "awskms":
        good = patterns[kind].fullmatch(key) is not None
    elif _AWS_KEY_ARN.fullmatch(key):
        good, region = True, region or key.split(":")[3]
    else:
        good = _AWS_KEY.fullmatch(key) is not None
        if good and not AWS_REGION.fullmatch(region):
            raise refuse(f"{found_text(text)} names no AWS region", example)
    if not good:
        raise refuse(f"{found_text(text)} names no key of {kind}", example)
    return SecretsKey(kind=kind, key=key, region=region)


def _split(text: str, example: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        raise refuse("the address cannot be read", f"Write {example}") from error
    if "@" in url.netloc:  # shown nowhere: what stands before it may be a password
        raise refuse("the address holds a user or a password", "Leave them to the environment")
    if url.fragment or not text.isprintable() or any(char.isspace() for char in text):
        raise refuse(f"{found_text(text)} is no address", f"Write {example}")
    return url


def _parameters(url: SplitResult) -> dict[str, str]:
    pairs = parse_qsl(url.query, keep_blank_values=True)
    if len(dict(pairs)) != len(pairs):
        raise refuse("the address names a parameter twice", "Name each once")
    return dict(pairs)


def _refuse_unknown(parameters: Mapping[str, str], known: frozenset[str], example: str) -> None:
    unknown = sorted(set(parameters) - known)
    if unknown:
        fix = suggestion(unknown[0], known) if known else example
        raise refuse(f"the parameter {found_text(unknown[0])} is not known here", fix)


def _file(url: SplitResult, parameters: Mapping[str, str]) -> Backend:
    _refuse_unknown(parameters, frozenset(), "Write file:///FOLDER")
    parts = url.path.split("/")
    if url.netloc or not url.path.startswith("/") or ".." in parts or url.path.strip("/") == "":
        raise refuse(
            f"{found_text(url.geturl())} is no folder from the root",
            "Write file:///srv/k3-state, with three slashes",
        )
    return Backend(kind="file", bucket="", prefix=url.path, parameters=parameters)


def _s3(url: SplitResult, parameters: Mapping[str, str]) -> Backend:
    _refuse_unknown(parameters, _S3_PARAMETERS, S3_EXAMPLE)
    if not BUCKET_NAME.fullmatch(url.netloc):
        raise refuse(
            f"{found_text(url.netloc)} is no name of a bucket",
            "Use 3 to 63 lower-case letters, digits and dashes",
        )
    if not AWS_REGION.fullmatch(parameters.get("region", "")):
        raise refuse("the address names no AWS region", S3_EXAMPLE)
    endpoint = parameters.get("endpoint")
    if endpoint is not None:
        _check_endpoint(endpoint)
    return _bucket("s3", url, parameters)


def _check_endpoint(text: str) -> None:
    """Refuse a store that is reached without TLS, unless it is this machine."""
    url = _split(text, "endpoint=https://HOST")
    safe = url.scheme == "https" or (url.scheme == "http" and url.hostname in _LOOPBACK)
    if not safe or not url.hostname:
        raise refuse(
            f"the endpoint {found_text(text)} is not reached by TLS",
            "Write endpoint=https://HOST; http is for 127.0.0.1 only",
        )


def _gs(url: SplitResult, parameters: Mapping[str, str]) -> Backend:
    _refuse_unknown(parameters, frozenset(), "Write gs://BUCKET/FOLDER")
    if not _GCS_NAME.fullmatch(url.netloc):
        raise refuse(f"{found_text(url.netloc)} is no name of a bucket", "Write gs://BUCKET/FOLDER")
    return _bucket("gs", url, parameters)


def _azblob(url: SplitResult, parameters: Mapping[str, str]) -> Backend:
    example = "Write azblob://CONTAINER/FOLDER?storage_account=ACCOUNT"
    _refuse_unknown(parameters, _AZURE_PARAMETERS, example)
    if not BUCKET_NAME.fullmatch(url.netloc) or "--" in url.netloc:
        raise refuse(f"{found_text(url.netloc)} is no name of a container", example)
    if not re.fullmatch(r"[a-z0-9]{3,24}", parameters.get("storage_account", "")):
        raise refuse("the address names no storage account", example)
    return _bucket("azblob", url, parameters)


def _bucket(kind: BackendKind, url: SplitResult, parameters: Mapping[str, str]) -> Backend:
    prefix = url.path.strip("/")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise refuse(
            f"{found_text(prefix)} is no folder of a bucket",
            "Use letters, digits and any of . _ -, with / between folders",
        )
    return Backend(kind=kind, bucket=url.netloc, prefix=prefix, parameters=parameters)
