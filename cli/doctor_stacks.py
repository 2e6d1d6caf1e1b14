"""`k3fleet doctor FLEET --stacks`: what cut-off updates have left in a fleet's stacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.output import print_json, print_table
from cli.provision_options import ALL_OPTIONS, asked
from fleet.errors import EXIT_GO, EXIT_NO_GO
from infra.provision.health import StackHealth, health
from infra.stack_process import run_tracks


def show_stacks(fleet_file: Path, options: Mapping[str, Any]) -> int:
    """Print what is wrong with each stack, and the command that repairs it; 1 when anything is."""
    with asked(fleet_file, {**ALL_OPTIONS, **options}) as what:
        tracks = [health(what.stacks, region, layers) for region, layers in what.request.places]
        found = [one for region in run_tracks(tracks) for one in region]
    if options["output"] == "json":
        print_json(
            {"ok": not any(one.faults for one in found), "stacks": [_json(x) for x in found]}
        )
    else:
        rows = [[one.stack, said, one.fix] for one in found for said in one.faults or _well(one)]
        print_table(["stack", "state", "what to do"], rows)
    return EXIT_NO_GO if any(one.faults for one in found) else EXIT_GO


def _well(one: StackHealth) -> tuple[str]:
    return ("ok" if one.deployed else "not deployed",)


def _json(one: StackHealth) -> dict[str, Any]:
    return {
        "stack": one.stack,
        "deployed": one.deployed,
        "faults": list(one.faults),
        "fix": one.fix or None,
    }
