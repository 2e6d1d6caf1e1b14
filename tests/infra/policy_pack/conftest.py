"""The policy pack, served in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from policy_engine import Engine, policy_engine


@pytest.fixture(scope="session")
def shared_engine() -> Iterator[Engine]:
    with policy_engine() as found:
        yield found


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    """Give the engine with the pack's own settings."""
    shared_engine.configure({})
    return shared_engine
