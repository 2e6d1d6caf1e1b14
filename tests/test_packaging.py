"""Our packages have short names: nobody else may own one of them here."""

from __future__ import annotations

import importlib.metadata

import pytest


@pytest.mark.parametrize("name", ["cli", "fleet", "infra", "lab", "loadtest", "verify"])
def test_no_other_distribution_owns_our_name(name: str):
    """An import of `cli` must never find somebody else's."""
    owners = importlib.metadata.packages_distributions().get(name, [])
    assert set(owners) <= {"k3fleet"}
