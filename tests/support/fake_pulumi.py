"""Stand for the `pulumi` executable: notes what it is asked, and answers as it was told."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# One answer, or a list of them, per `stack action` or per action. An answer has events, prints and
# code; or it hangs, with a lock as Pulumi writes it, and is deaf to the first interrupt or not.
SCRIPT = f"""#!{sys.executable}
import json, os, pathlib, signal, socket, subprocess, sys
told = pathlib.Path(os.environ["FAKE_PULUMI"])
args = sys.argv[1:]
if args[:1] == ["version"]:
    sys.exit(print("v0.0.0-fake"))
action = args[0] if args[0] not in ("stack", "state") else args[1]
if "--preview-only" in args:
    action = "preview-destroy"
stack = args[args.index("--stack") + 1] if "--stack" in args else args[2]
answers = json.loads((told / "answers.json").read_text())
answer = answers.get(f"{{stack}} {{action}}", answers.get(action, {{}}))
notes = told / "calls.jsonl"
if isinstance(answer, list):  # one answer after the other; the last one stays
    lines = notes.read_text().splitlines() if notes.exists() else []
    earlier = map(json.loads, lines)
    asked = sum((call["stack"], call["action"]) == (stack, action) for call in earlier)
    answer = answer[min(asked, len(answer) - 1)]
shown = {{k: v for k, v in os.environ.items() if k.startswith("PULUMI_")}}
with notes.open("a") as calls:
    call = {{"stack": stack, "action": action, "args": args, "env": shown}}
    calls.write(json.dumps(call) + "\\n")
backend = pathlib.Path(os.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
project = pathlib.Path("Pulumi.yaml").read_text().split()[1]
checkpoint = backend / ".pulumi/stacks" / project / (stack + ".json")
lock = backend / ".pulumi/locks/organization" / project / stack / "1.json"
if action == "init":
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_text("{{}}")
if action in ("output", "export") and "prints" not in answer:
    answer["prints"] = "{{}}"
print(answer.get("prints", ""))
if "--event-log" in args:
    with open(args[args.index("--event-log") + 1], "w") as log:
        log.writelines(json.dumps(event) + "\\n" for event in answer.get("events", []))
if answer.get("hangs"):
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(json.dumps({{
        "pid": os.getpid(), "hostname": socket.gethostname(), "username": "me",
        "timestamp": "2026-11-30T12:00:00Z",
    }}))
    plugin = subprocess.Popen(["sleep", "300"], process_group=0)
    (told / f"plugin-{{stack}}").write_text(str(plugin.pid))
    def stop(*_):
        (told / f"interrupted-{{stack}}").touch()
        if answer["hangs"] == "deaf":
            return
        lock.unlink()
        sys.exit(1)
    signal.signal(signal.SIGINT, stop)
    (told / f"started-{{stack}}").write_text(str(os.getpid()))
    while True:
        signal.pause()
sys.exit(answer.get("code", 0))
"""


@dataclass(frozen=True)
class FakePulumi:
    """The executable's orders and its notes."""

    folder: Path

    def __post_init__(self) -> None:
        self.bin.mkdir(parents=True)
        program = self.bin / "pulumi"
        program.write_text(SCRIPT)
        program.chmod(0o755)
        self.answer({})

    @property
    def bin(self) -> Path:
        """Folder of the executable, for PATH."""
        return self.folder / "bin"

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to start it."""
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "FAKE_PULUMI": str(self.folder)}

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Tell it what to answer from now on."""
        (self.folder / "answers.json").write_text(json.dumps(answers))

    def calls(self, *actions: str) -> list[dict[str, Any]]:
        """Give what it was asked, all of it or some actions."""
        file = self.folder / "calls.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        calls = [json.loads(line) for line in lines]
        return [call for call in calls if not actions or call["action"] in actions]

    def asked(self, *actions: str) -> list[str]:
        """Name stack and action of what it was asked."""
        return [f"{call['stack']} {call['action']}" for call in self.calls(*actions)]


def step(operation: str, name: str, *, token: str = "", **metadata: Any) -> dict[str, Any]:
    """Make the event with which the engine begins a step; `name` as `Kind/namespace/name`."""
    token = token or f"kubernetes:core/v1:{name.partition('/')[0]}"
    urn = f"urn:pulumi:s::p::{token}::{name}"
    return {
        "resourcePreEvent": {"metadata": {"op": operation, "urn": urn, "type": token, **metadata}}
    }


def summary(**changes: int) -> dict[str, Any]:
    """Make the event with which the engine ends."""
    return {"summaryEvent": {"resourceChanges": changes}}


def idle() -> list[dict[str, Any]]:
    """Make the events of a run that leaves everything as it is."""
    stack = {"type": "pulumi:pulumi:Stack", "outputs": {}}
    told = {"metadata": {"op": "same", "type": stack["type"], "old": stack, "new": stack}}
    ended = {"summaryEvent": {"result": "succeeded", "resourceChanges": {"same": 1}}}
    return [{"resourcePreEvent": told}, {"resOutputsEvent": told}, ended]


def error(message: str, urn: str = "") -> dict[str, Any]:
    """Make the event of an error."""
    return {"diagnosticEvent": {"severity": "error", "message": message, "urn": urn}}
