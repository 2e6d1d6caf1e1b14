"""Stand-ins that misbehave: each in one way, and in nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
import tokenizers

from fleet.load import load_fleet
from fleet.tokenizer_file import dump
from lab.agent_settings import AgentSettings
from lab.engines import mocked_engines, mocker_argv
from lab.faults import FAULTS, Fault, fault_flags, script_file, write_scripts
from lab.tokenizer_json import train
from verify.questions import Answer, Expected, is_empty, leaks, questions, wrong

END = 302
DEMO = Path(__file__).parents[2] / "fleets/demo.yaml"
USAGE = {
    "prompt_tokens": 1025,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 1024},
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the scripts with a small tokenizer that has K3's control tokens."""
    folder = tmp_path_factory.mktemp("scripts")
    text = dump(train(iter(["It is 42, 408, Paris, KESTREL. message"] * 9), vocabulary=300))
    (folder / "tokenizer.json").write_text(text)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [END]}))
    write_scripts(folder, folder)
    return folder


def answers(folder: Path, fault: Fault | None) -> dict[str, Answer]:
    """Read what a mocker would say to each question."""
    vocabulary = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    found = {}
    for line in script_file(folder, fault).read_text().splitlines():
        row = json.loads(line)
        *ids, end = row["output_token_ids"]
        assert (end, row["output_length"]) == (END, len(ids) + 1)
        text = vocabulary.decode([one % 256 if fault == "garbage" else one for one in ids])
        found[row["request_id"]] = Answer(content=text, finish="stop", usage=USAGE)
    return found


def faults(folder: Path, fault: Fault | None) -> set[str]:
    expected = Expected(block_tokens=128, parsed=False)
    found = set()
    for question in questions("n"):
        answer = answers(folder, fault)[question.name]
        if leaks(answer):
            found.add("leaks")
        elif is_empty(answer):
            found.add("empty")
        elif list(wrong(question, answer, expected)):
            found.add("garbage")
    return found


@pytest.mark.parametrize("fault", [None, "leaks", "empty", "garbage"])
def test_a_script_has_its_fault_and_no_other(scripts: Path, fault: Fault | None) -> None:
    """Judged as a replica's answers are."""
    assert faults(scripts, fault) == ({fault} if fault else set())


def test_every_fault_is_described_and_does_something() -> None:
    """What one cannot choose is no fault, and what changes nothing is none either."""
    assert tuple(FAULTS) == get_args(Fault)
    fleet = load_fleet(DEMO)
    shape = mocked_engines(fleet, 16)[fleet.release_id]["aggregated"]

    def argv(fault: Fault | None) -> tuple[str, ...]:
        spoilt = shape.model_copy(update={"fault": fault})
        here = Path("/lab")
        return mocker_argv(spoilt, python="p", model_dir=here, model_name="m", tables=here)

    assert len({argv(fault) for fault in FAULTS if fault != "never-ready"}) == len(FAULTS) - 1
    assert argv(None) == argv("never-ready")  # its process never starts
    assert fault_flags("blocks", 128) == ("--block-size", "64")


def agent_settings(folder: Path) -> AgentSettings:
    return AgentSettings(
        lab_id="lab",
        region="here",
        lab_number=1,
        region_index=0,
        namespace="k3",
        kubeconfig=folder,
        folder=folder,
        python=folder,
        envoy=folder,
        model_dir=folder,
        model_name="m",
        tables=folder,
        token_scale=16,
        engines={},
        roles={},
    )


def test_what_is_wrong_stays_until_it_is_said_anew(tmp_path: Path) -> None:
    """A resumed rollout makes its releases known again, and must not heal one."""
    fleet = load_fleet(DEMO)
    engines, release = mocked_engines(fleet, 16), fleet.release_id
    settings = agent_settings(tmp_path).telling(engines, frozenset())
    spoilt = settings.spoiling(release, "slow")
    assert spoilt.telling(engines, frozenset()).engines[release]["aggregated"].fault == "slow"
    assert spoilt.spoiling(release, None).engines[release] == engines[release]
