"""Fixtures of the bootstrap's tests: an account, and the fleet file's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_account import Account, aws_account

from fleet.load import Fleet
from fleet.spec import FleetSpec

BACKEND = "s3://k3-state/prod?region=us-west-2"
PROVIDER = "awskms://alias/k3-state?region=us-west-2"

SpecOf = Callable[..., FleetSpec]


@pytest.fixture
def account() -> Iterator[Account]:
    with aws_account() as found:
        yield found


@pytest.fixture
def spec_of(demo: Fleet) -> SpecOf:
    """Make the demo fleet's spec with a state of its own."""

    def make(backend: str = BACKEND, provider: str = PROVIDER, **changes: Any) -> FleetSpec:
        data = demo.spec.model_dump(by_alias=True)
        data["state"] = {"backend": backend, "secrets_provider": provider}
        return FleetSpec.model_validate({**data, **changes})

    return make
