"""Look at what is there, and say what is missing. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from botocore.exceptions import ClientError

from fleet.errors import AccountError, ConfigError, StateError
from infra.bootstrap.aspects import ASPECTS, Aspect, Value, place, read
from infra.bootstrap.calls import Aws, Client, code, explained
from infra.bootstrap.home import OURS, OWNER, Home
from infra.bootstrap.keys import Key, find_key

KEY, REPLICA, ALIAS, ROTATION, BUCKET = "key", "replica", "alias", "rotation", "bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that will be done."""

    name: str  # KEY … BUCKET, or an aspect's
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is there already."""

    key: Key | None
    settings: Mapping[str, Value] | None  # by aspect; None: there is no bucket

    @property
    def ours(self) -> bool:
        """Say whether k3fleet made the bucket, and so may set it."""
        tags = (self.settings or {}).get("tags") or {}
        return bool(tags.get(OURS) == OWNER)


def look(aws: Aws, home: Home) -> Found:
    """Read key and bucket; raise where one of them can never be used."""
    with explained(f"{home.key} in {home.key_region}"):
        key = find_key(aws, home)
    s3 = aws.client("s3", home.bucket_region)
    with explained(f"s3://{home.bucket}"):
        if not _exists(s3, home):
            return Found(key=key, settings=None)
        return Found(key=key, settings={aspect.name: read(s3, home, aspect) for aspect in ASPECTS})


def missing(home: Home, found: Found) -> tuple[Change, ...]:
    """List what has to be done, in its order; raise ConfigError for a bucket of others unfit."""
    where = f"s3://{home.bucket} in {home.bucket_region}"
    if found.settings is not None and not found.ours:
        _check_foreign(home, found.settings)
        return tuple(_key_changes(home, found.key)) if home.key_is_for_secrets else ()
    changes = _key_changes(home, found.key) + _replica_changes(home, found.key)
    if found.settings is None:
        changes.append(Change(name=BUCKET, where=where, what="make the bucket"))
    key_arn = found.key.arn_in(home.bucket_region) if found.key else ""
    changes += [
        Change(name=aspect.name, where=where, what=aspect.what)
        for aspect in ASPECTS
        if _differs(home, aspect, key_arn, (found.settings or {}).get(aspect.name))
    ]
    return tuple(changes)


def _differs(home: Home, aspect: Aspect, key_arn: str, value: Value) -> bool:
    return bool(aspect.plain(aspect.wanted(home, key_arn, value)) != aspect.plain(value))


def _key_changes(home: Home, key: Key | None) -> list[Change]:
    where = f"{home.key} in {home.key_region}"
    changes = []
    if key is None:
        changes.append(Change(name=KEY, where=where, what="make a multi-region key"))
    if key is None or not key.rotates:
        changes.append(Change(name=ROTATION, where=where, what="give it new material each year"))
    if key is None or not key.has_alias:
        changes.append(Change(name=ALIAS, where=where, what="give the key its name"))
    return changes


def _replica_changes(home: Home, key: Key | None) -> list[Change]:
    """Ask for a replica where the bucket is in another region than the key."""
    if home.bucket_region in (key.regions if key else {home.key_region}):
        return []
    if key and not key.multi_region:
        raise ConfigError(
            f"{home.key}: the key is in {home.key_region} only, and the bucket in "
            f"{home.bucket_region}. Name one region for both under state, or another key."
        )
    where = f"{home.key} in {home.bucket_region}"
    return [Change(name=REPLICA, where=where, what="make a replica for the bucket")]


def _check_foreign(home: Home, settings: Mapping[str, Value]) -> None:
    """Name what a bucket lacks that somebody else made; it is his to change."""
    lacking = [
        f"{aspect.name}: {aspect.by_hand} --bucket {home.bucket}"
        for aspect in ASPECTS
        if aspect.by_hand and _differs(home, aspect, "", settings[aspect.name])
    ]
    if lacking:
        listed = "\n".join(lacking)
        raise StateError(
            f"s3://{home.bucket}: somebody else made this bucket (it has no tag {OURS}={OWNER}), "
            f"and it is not fit for a state. Do this by hand, or name another bucket:\n{listed}"
        )


def _exists(s3: Client, home: Home) -> bool:
    """Say whether the bucket is there; raise where it is not the caller's, or elsewhere."""
    try:
        s3.head_bucket(**place(home))
    except ClientError as error:
        if code(error) in ("404", "NoSuchBucket"):
            return False
        if code(error) in ("403", "AccessDenied"):
            raise not_ours(home) from error
        raise
    region = s3.get_bucket_location(**place(home)).get("LocationConstraint") or "us-east-1"
    if region != home.bucket_region:
        raise ConfigError(
            f"s3://{home.bucket}: the bucket is in {region}, not in {home.bucket_region}. "
            f"Write region={region} in state.backend, or name another bucket."
        )
    return True


def not_ours(home: Home) -> AccountError:
    """Say that a name is taken."""
    return AccountError(
        f"s3://{home.bucket}: the bucket is another account's than {home.account}, or these "
        "credentials may not see it. Name another bucket in state.backend, or sign in elsewhere."
    )
