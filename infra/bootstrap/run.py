"""Look, then make: what `k3fleet bootstrap` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import AccountError, StateError
from fleet.spec import FleetSpec
from fleet.state_address import Backend
from infra.bootstrap.calls import Aws, Caller
from infra.bootstrap.home import Home, home
from infra.bootstrap.make import Maker
from infra.bootstrap.survey import Change, Found, look, missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is there in the caller's account, and what is missing."""

    caller: Caller
    home: Home
    found: Found
    changes: tuple[Change, ...]


def survey(spec: FleetSpec, backend: Backend, aws: Aws) -> Survey:
    """Find what is missing; raise AccountError where these are another account's credentials."""
    caller = aws.caller(backend.region)
    expected = spec.global_spec.account if spec.global_spec else caller.account
    if caller.account != expected:
        raise AccountError(
            f"global.account: the credentials are of account {caller.account}, the fleet file "
            f"names {expected}. Sign in to {expected}, then run again."
        )
    place = home(spec, backend, account=caller.account, partition=caller.partition)
    found = look(aws, place)
    return Survey(caller=caller, home=place, found=found, changes=missing(place, found))


def carry_out(
    found: Survey, aws: Aws, *, say: Callable[[str], None], sleep: Callable[[float], None]
) -> None:
    """Make what is missing; a run that is interrupted is completed by the next one."""
    maker = Maker(aws=aws, home=found.home, key=found.found.key, say=say, sleep=sleep)
    maker.make(found.changes)


def missing_folder(backend: Backend) -> tuple[Change, ...]:
    """List the folder of a file backend, where it is not there."""
    folder = Path(backend.prefix)
    if folder.is_dir():
        return ()
    return (Change(name="folder", where=str(folder), what="make the folder, for its owner only"),)


def make_folder(backend: Backend) -> None:
    """Make the folder of a file backend."""
    folder = Path(backend.prefix)
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise StateError(
            f"state.backend: {folder} cannot be made ({error.strerror}). "
            "Name another folder, or make it by hand."
        ) from error
