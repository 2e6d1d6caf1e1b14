"""Print plans and results of provisioning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from cli.output import print_json, print_table
from cli.plain import plain
from fleet.errors import EXIT_GO, FleetError
from infra.provision.request import Done, Planned, StackPlan, StackResult, Stay
from infra.stack_events import CHANGES_NOTHING, Touched

_SHOWN = 40  # lines of one stack's plan; the JSON has all
_SHOWN_PATHS = 4


def changes_text(changes: Mapping[str, int]) -> str:
    """Say how many resources change how: `3 create, 1 update`."""
    told = [f"{n} {name}" for name, n in changes.items() if n and name not in CHANGES_NOTHING]
    return ", ".join(told) or "no changes"


def is_changed(stack: StackPlan) -> bool:
    """Say whether a plan would change anything."""
    return stack.new or bool(stack.touched) or bool(stack.lets_go)


def show_plan(planned: Iterable[Planned], *, err: bool) -> None:
    """Say what would change, object by object."""
    for plan in planned:
        for stack in plan.stacks:
            _line(f"{stack.stack}: {_summary(stack)}", err=err)
            for item in stack.touched[:_SHOWN]:
                _line(f"  {described(item)}", err=err)
            if len(stack.touched) > _SHOWN:
                _line(f"  … and {len(stack.touched) - _SHOWN} more", err=err)
            show_stays(stack.stays, err=err)
            if stack.pending:
                _line("  an earlier update was cut off: it is repaired first", err=err)
        if plan.error:
            _line(f"{plan.region or 'global'}: cannot be planned", err=err)


def show_stays(stays: Sequence[Stay], *, err: bool) -> None:
    """Say what a teardown leaves."""
    for stay in stays[:_SHOWN]:
        _line(f"  stays: {stay}", err=err)
    if len(stays) > _SHOWN:
        _line(f"  … and {len(stays) - _SHOWN} more stay", err=err)


def described(item: Touched) -> str:
    """Say what happens to one object, and where it differs."""
    paths = ", ".join(item.changed[:_SHOWN_PATHS])
    more = ", …" if len(item.changed) > _SHOWN_PATHS else ""
    return f"{item.operation} {item.name}" + (f" ({paths}{more})" if paths else "")


def print_plan_json(planned: Sequence[Planned]) -> None:
    """Print plans for programs."""
    regions = [
        {
            "region": plan.region or None,
            "stacks": [_stack_json(stack) for stack in plan.stacks],
            "error": str(plan.error) if plan.error else None,
        }
        for plan in planned
    ]
    print_json({"ok": not any(plan.error for plan in planned), "regions": regions})


def print_done(done: Sequence[Done], planned: Sequence[Planned], output: str) -> int:
    """Print what came of every stack; give the exit code, that of the first failure."""
    errors = [plan.error for plan in planned if plan.error]
    errors += [one.error for one in done if one.error]
    failed = [plan for plan in planned if plan.error]
    if output == "json":
        unplanned = [Done(region=plan.region, stacks=(), error=plan.error) for plan in failed]
        regions = [_done_json(one) for one in (*done, *unplanned)]
        print_json({"ok": not errors, "regions": regions})
    else:
        rows = [
            [stack.stack, stack.status, changes_text(stack.changes), round(stack.seconds, 1)]
            for one in done
            for stack in one.stacks
        ]
        rows += [[plan.region or "global", "failed", "cannot be planned", 0.0] for plan in failed]
        print_table(["stack", "status", "changes", "seconds"], rows)
        for stack in (stack for one in done for stack in one.stacks if stack.stays):
            _line(f"{stack.stack}: what is still there", err=False)
            show_stays(stack.stays, err=False)
    return print_errors(errors)


def print_errors(errors: Sequence[FleetError]) -> int:
    """Print what went wrong; give the exit code, that of the first."""
    for error in errors:
        _line(f"error: {error}", err=True)
    return errors[0].exit_code if errors else EXIT_GO


def _done_json(one: Done) -> dict[str, Any]:
    return {
        "region": one.region or None,
        "stacks": [_result_json(stack) for stack in one.stacks],
        "error": str(one.error) if one.error else None,
    }


def _summary(stack: StackPlan) -> str:
    if stack.put_off and not stack.touched:
        return "is planned when what it stands on is there"
    new = "new, " if stack.new else ""
    return new + changes_text(stack.changes or {"change": len(stack.touched)})


def _stack_json(stack: StackPlan) -> dict[str, Any]:
    return {
        "stack": stack.stack,
        "layer": stack.layer,
        "new": stack.new,
        "put_off": stack.put_off,
        "pending_operations": stack.pending,
        "changes": dict(stack.changes),
        "objects": [
            {
                "operation": item.operation,
                "name": item.name,
                "urn": item.urn,
                "changed": list(item.changed),
                "forced_by": list(item.forced_by),
            }
            for item in stack.touched
        ],
        "refused": [str(one) for one in stack.findings],
    }


def _result_json(stack: StackResult) -> dict[str, Any]:
    return {
        "stack": stack.stack,
        "layer": stack.layer,
        "status": stack.status,
        "changes": dict(stack.changes),
        "seconds": round(stack.seconds, 3),
        "events": stack.events or None,
        "error": stack.why or None,
        "stays": [{"name": one.name, "urn": one.urn, "why": one.why} for one in stack.stays],
    }


def _line(text: str, *, err: bool) -> None:
    click.echo(
        plain(text) if "\n" not in text else "\n".join(map(plain, text.split("\n"))), err=err
    )
