"""Policy packs, run by the real engine through our language host."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from engine_stack import Stack, built_toolchain, new_stack

pytestmark = pytest.mark.lab

PACK = Path(__file__).parents[2] / "infra/policy"
TOKEN = "hf_" + "abcdefghijklmnop"
PROGRAM = """
import pulumi
pulumi.Stash("kept", input={{"note": "{text}"}})
"""


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return new_stack(built_toolchain(), tmp_path)


def packs(stack: Stack) -> list[psutil.Process]:
    """Find policy packs that are still served to a stack; other tests serve theirs meanwhile."""
    own = ("PULUMI_HOME", stack.environ["PULUMI_HOME"])
    return [
        item
        for item in psutil.process_iter(["cmdline", "environ"])
        if "pulumi.policy" in (item.info["cmdline"] or [])
        and own in (item.info["environ"] or {}).items()
    ]


def test_a_violation_stops_the_update(stack: Stack) -> None:
    """Nothing is made, the message says what to do, and the credential is not repeated."""
    stack.program(PROGRAM.format(text=TOKEN))
    failed = stack.up("--policy-pack", str(PACK))
    shown = failed.stdout + failed.stderr
    assert failed.returncode != 0, shown
    assert "no-credentials" in shown
    assert "Keep it in a secret store" in shown
    assert TOKEN not in shown
    state = json.loads(stack.run("stack", "export").stdout)
    made = [item["type"] for item in state["deployment"].get("resources", [])]
    assert "pulumi:index:Stash" not in made
    assert packs(stack) == []


def test_a_violation_stops_the_preview(stack: Stack) -> None:
    """A pull request is where it should be seen."""
    stack.program(PROGRAM.format(text=TOKEN))
    failed = stack.run("preview", "--policy-pack", str(PACK))
    assert failed.returncode != 0
    assert "no-credentials" in failed.stdout + failed.stderr


def test_what_keeps_the_policies_is_made(stack: Stack) -> None:
    """The pack is served, asked, and ended with the update."""
    stack.program(PROGRAM.format(text="nothing to hide"))
    done = stack.up("--policy-pack", str(PACK))
    assert done.returncode == 0, done.stdout + done.stderr
    assert packs(stack) == []


def test_a_team_chooses_the_level(stack: Stack, tmp_path: Path) -> None:
    """With the engine's own flag, and without a change of the pack."""
    stack.program(PROGRAM.format(text=TOKEN))
    config = tmp_path / "levels.json"
    config.write_text(json.dumps({"no-credentials": "advisory"}))
    told = stack.up("--policy-pack", str(PACK), "--policy-pack-config", str(config))
    assert told.returncode == 0, told.stdout + told.stderr
    assert "no-credentials" in told.stdout
