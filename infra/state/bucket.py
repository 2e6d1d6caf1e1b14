"""Keep the state in a bucket of S3, or of a store that speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from fleet.errors import AccountError, StateError
from infra.state.files import OWN_PASSPHRASE
from infra.state.store import Lock, StackName

# Whoever waits for a bucket that is not there sits at a terminal.
_PATIENCE = Config(connect_timeout=5, read_timeout=15, retries={"total_max_attempts": 2})
_PATH_STYLE = ("use_path_style", "s3ForcePathStyle")
_DENIED = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "403"})


@dataclass(frozen=True, kw_only=True)
class BucketState:
    """State in a bucket, which keeps every version of it."""

    url: str  # as Pulumi is given it: s3://BUCKET/FOLDER?region=…
    secrets_provider: str | None = None

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return urlsplit(self.url).netloc

    def variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Pass the caller's passphrase on, where no cloud's key encrypts the secrets."""
        if self.secrets_provider:
            return {}
        found = {name: environ[name] for name in OWN_PASSPHRASE if name in environ}
        if not found:
            raise StateError(
                f"{self.bucket}: nothing says what encrypts the secrets of its state. Name a key "
                f"as state.secrets_provider, or set {OWN_PASSPHRASE[1]} as its other users do."
            )
        return found

    def secrets(self) -> tuple[str, ...]:
        """Give none: the passphrase is the caller's, who knows it."""
        return ()

    def prepare(self) -> None:
        """Raise StateError unless the bucket answers and keeps versions."""
        if self._versioning != "Enabled":
            raise StateError(
                f"{self.bucket}: the bucket keeps no versions, so a broken state could not be "
                "taken back. Turn versioning on (`k3fleet bootstrap` does), then run again."
            )

    def exists(self, name: StackName) -> bool:
        """Look for the stack's checkpoint."""
        wanted = self._key(name.checkpoint)
        return any(key in (wanted, f"{wanted}.gz") for key in self._keys(wanted))

    def locks(self, name: StackName) -> list[Lock]:
        """Read the lock objects."""
        found = []
        for key in self._keys(self._key(f"{name.locks}/")):
            place = f"s3://{self.bucket}/{key}"
            with self._asking():
                try:
                    body = self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
                except self._client.exceptions.NoSuchKey:  # released while we looked
                    continue
            found.append(Lock.read(place, body.decode(errors="replace")))
        return found

    def remove(self, lock: Lock) -> None:
        """Remove a lock object."""
        with self._asking():
            key = lock.place.removeprefix(f"s3://{self.bucket}/")
            self._client.delete_object(Bucket=self.bucket, Key=key)

    @cached_property
    def _versioning(self) -> str:
        with self._asking():
            found = self._client.get_bucket_versioning(Bucket=self.bucket)
        return str(found.get("Status", "off"))

    @cached_property
    def _asked(self) -> Mapping[str, str]:
        return dict(parse_qsl(urlsplit(self.url).query))

    @cached_property
    def _client(self) -> Any:
        return client("s3", self._asked)

    def _key(self, name: str) -> str:
        folder = urlsplit(self.url).path.strip("/")
        return f"{folder}/{name}" if folder else name

    def _keys(self, prefix: str) -> list[str]:
        with self._asking():
            pages = self._client.get_paginator("list_objects_v2")
            asked = pages.paginate(Bucket=self.bucket, Prefix=prefix)
            return [item["Key"] for page in asked for item in page.get("Contents", ())]

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn what a bucket or the way to it did into an error of ours."""
        try:
            yield
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", "?"))
            if code in _DENIED:
                raise AccountError(
                    f"{self.bucket}: these credentials may not use the bucket of the state "
                    f"({code}). Use those of the account that owns it, then run again."
                ) from error
            raise StateError(
                f"{self.bucket}: the bucket of the state refused: {code}. "
                "See that state.backend is right; `k3fleet bootstrap` makes a missing bucket."
            ) from error
        except (BotoCoreError, ResponseParserError) as error:
            raise StateError(
                f"{self.bucket}: the bucket of the state cannot be reached: "
                f"{type(error).__name__}. See that the network and credentials are there, then "
                "run again: nothing was changed."
            ) from error


def client(service: str, asked: Mapping[str, str]) -> Any:
    """Make a client for a service as the backend's address asks: region, profile, endpoint."""
    session = boto3.Session(profile_name=asked.get("profile"), region_name=asked.get("region"))
    paths = any(asked.get(name) == "true" for name in _PATH_STYLE)
    style = {"s3": {"addressing_style": "path"}} if paths else {}
    config = _PATIENCE.merge(Config(**style))
    endpoint = asked.get("endpoint") if service == "s3" else None
    return session.client(service, endpoint_url=endpoint, config=config)
