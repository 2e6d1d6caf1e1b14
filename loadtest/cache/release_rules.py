"""Tell the oracle how the engines of a release reuse prefixes."""

from __future__ import annotations

from dataclasses import asdict

from fleet.hardware import Hardware
from fleet.model import Model
from fleet.prefix_reuse import prefix_reuse
from fleet.release import Release
from loadtest.cache.oracle import OracleRules


def release_rules(model: Model, hardware: Hardware, release: Release) -> OracleRules:
    """Give the rules of a release's real engines; blocks without limit where they do not say."""
    reuse = prefix_reuse(model, hardware, release)
    return OracleRules() if reuse is None else OracleRules(**asdict(reuse))
