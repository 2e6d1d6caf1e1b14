"""`k3fleet up`, `preview` and `destroy`: bring a fleet's stacks to what its file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.provision_options import (
    OVERWRITE,
    POLICY_PACK,
    REFRESH,
    allow_options,
    asked,
    which_options,
)
from cli.provision_output import is_changed, print_done, print_errors, print_plan_json, show_plan
from cli.wiring import user_name
from fleet.errors import EXIT_GO, EXIT_NO_GO, RefusedError
from infra.provision.applying import Applying
from infra.provision.guard import told
from infra.provision.planning import refused
from infra.provision.request import Planned
from infra.provision.run import Taking, act, held, plan


@click.command()
@which_options
@REFRESH
@OVERWRITE
@allow_options
@POLICY_PACK
@YES
def up(fleet_file: Path, **options: Any) -> int:
    """Bring the stacks of FLEET_FILE's regions up to what it says: show the plan, ask, do it.

    A change that would delete, make anew or restart what serves is refused unless it is allowed
    by name. A new release is not brought out here, but by `k3fleet rollout start`.

    \b
    Example:
        k3fleet up fleets/launch.yaml --region us-east
        k3fleet up fleets/launch.yaml --all --from platform --yes
    """
    return _take(fleet_file, options, "up", "Bring it up?")


@click.command()
@which_options
@allow_options
@YES
def destroy(fleet_file: Path, **options: Any) -> int:
    """Take the stacks of FLEET_FILE's regions down, but leave what is protected.

    What is protected is only let go when it is named whole by --allow-delete.

    \b
    Example:
        k3fleet destroy fleets/launch.yaml --region us-east --layer serving
        k3fleet destroy fleets/launch.yaml --region us-east --allow-delete Namespace/k3
    """
    return _take(fleet_file, options, "destroy", "Destroy it?")


@click.command()
@which_options
@REFRESH
@OVERWRITE
@allow_options
@POLICY_PACK
@click.option(
    "--expect-no-changes",
    is_flag=True,
    help="Compare with what is there; exit code 1 and the objects when anything differs.",
)
def preview(fleet_file: Path, expect_no_changes: bool, **options: Any) -> int:
    """Show what `k3fleet up` would do. Changes nothing in the clusters.

    \b
    Example:
        k3fleet preview fleets/launch.yaml --all
        k3fleet preview fleets/launch.yaml --all --expect-no-changes -o json
    """
    options["refresh"] = options["refresh"] or expect_no_changes
    with asked(fleet_file, options) as what:
        with held(what.stacks, what.request, "k3fleet preview", user_name()):
            planned = plan(what.planning, "up")
        if options["output"] == "json":
            print_plan_json(planned)
        else:
            show_plan(planned, err=False)
        if code := print_errors([one.error for one in planned if one.error]):
            return code
        if expect_no_changes:
            drifted = any(is_changed(stack) for one in planned for stack in one.stacks)
            return EXIT_NO_GO if drifted else EXIT_GO
        _require_allowed(planned)
    return EXIT_GO


def _take(fleet_file: Path, options: dict[str, Any], action: Taking, question: str) -> int:
    with (
        asked(fleet_file, options, parts=action == "destroy") as what,
        held(what.stacks, what.request, f"k3fleet {action}", user_name()),
    ):
        planned = plan(what.planning, action)
        show_plan(planned, err=True)
        if action == "destroy":
            what.show.note(f"the state stays in {what.stacks.store.url}")
        _require_allowed(planned)
        if any(one.stacks and not one.idle for one in planned if not one.error):
            print_errors([one.error for one in planned if one.error])  # before anybody agrees
            confirm(yes=options["yes"], what=question)
        done = act(Applying(planning=what.planning, again=not options["yes"]), planned, action)
        return print_done(done, planned, options["output"])


def _require_allowed(planned: tuple[Planned, ...]) -> None:
    findings = refused(planned)
    if findings:
        raise RefusedError(f"not allowed, and nothing was changed:\n{told(findings)}")
