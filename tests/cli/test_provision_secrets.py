"""Secrets that a process of Pulumi prints, or that the environment holds, stay there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_pulumi import error, step, summary
from provision_place import Place

PLANTED = {
    "HF_TOKEN": "hf_plantedplantedplanted",
    "K3FLEET_WEBHOOK": "https://hooks.example/planted-webhook-path",
    "REGISTRY_PASSWORD": 'planted/registry"password',
    "PULUMI_CONFIG_PASSPHRASE": "planted-passphrase",
}
URL = "https://bot:planted-in-a-url@registry.example/v2"


def leaks(text: str) -> list[str]:
    return [part for part in ("planted", "PLANTED") if part in text]


def test_secrets_stay_where_they_are(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output, plan, error, log, events, stack files: they go to tickets and chats."""
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    spilled = " ".join((*PLANTED.values(), URL))
    old = {"inputs": {"data": spilled}}
    change = step("update", "Service/k3/engines", old=old, diffs=["spec"])
    failing = {"code": 1, "prints": spilled, "events": [change, error(spilled), summary(update=1)]}
    place.pulumi.answer({"platform-us-east up": failing, "preview": {"events": [change]}})
    assert place.run("up", "--yes") == 7
    assert leaks(place.err + place.out) == []
    assert place.run("preview", "-o", "json") == 0
    assert leaks(place.err + place.out) == []
    kept = [file for file in (place.folder / ".k3fleet").rglob("*") if file.is_file()]
    assert [str(file) for file in kept if leaks(file.read_text(errors="replace"))] == []
    [events] = (place.folder / ".k3fleet/demo/stacks/platform-us-east/runs").glob("*-up.jsonl")
    assert len([json.loads(line) for line in events.read_text().splitlines()]) == 3


def test_the_passphrase_of_the_work_folder_is_a_secret(place: Place) -> None:
    """k3fleet made it itself; it opens the state."""
    assert place.run("preview") == 0
    passphrase = Path(".k3fleet/demo/stacks/passphrase").read_text()
    place.pulumi.answer({"platform-us-east preview": {"code": 1, "prints": f"error: {passphrase}"}})
    assert place.run("preview") == 7
    assert passphrase not in place.err


def test_only_some_runs_are_kept(place: Place) -> None:
    """A night job for a year would fill the disk."""
    assert place.run("preview", "--layer", "serving") == 0
    runs = place.folder / ".k3fleet/demo/stacks/serving-us-east/runs"
    for number in range(30):
        (runs / f"20200101T0000{number:02}.000000Z-up.jsonl").write_text("")
    assert place.run("preview", "--layer", "serving") == 0
    names = sorted(file.name for file in runs.glob("*.jsonl"))
    assert len(names) == 20
    assert names[-1].endswith("-preview.jsonl")
