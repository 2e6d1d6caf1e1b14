"""Claims about judging what a run left, whoever made it and however it ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
import pytest
import yaml
from run_folders import make_run, make_settings, sessions_of, write_part

from fleet.errors import ConfigError
from loadtest.judge.gates import DEFAULT_GATES_FILE, NAMED_GATES, GateSet, load_gate_set
from loadtest.judge.judging import judge_run
from loadtest.results.live_figures import LiveFigures
from loadtest.results.recorder import Recorder
from loadtest.results.result_options import ServiceLevels
from loadtest.results.run_facts import RunFacts
from loadtest.results.run_folder import read_run
from loadtest.results.saved_run import read_saved
from loadtest.results.workers_file import WorkerEntry, WorkersFile

Make = Callable[..., Any]


def test_a_run_is_judged_from_its_folder_alone(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """The fleet may be gone by the time somebody asks again."""
    facts = RunFacts(name="demo", replicas={"us": ("r0",)}, worker_names={"w0": "r0"},
                     registered=frozenset({"r0"}))  # fmt: skip
    make_run(tmp_path, sessions_of(make_record(), 20), make_generator(), facts)
    judged = judge_run(read_saved(tmp_path), load_gate_set(DEFAULT_GATES_FILE))
    assert judged.judgement.verdict == "go"
    assert judged.summary.coverage.served == 1.0


def test_the_levels_of_the_gates_decide_what_goodput_is(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """Other gates ask for other service levels of the same requests."""
    make_run(tmp_path, sessions_of(make_record(ttft_s=0.1), 20), make_generator())
    run, gates = read_saved(tmp_path), load_gate_set(DEFAULT_GATES_FILE).gates
    shares = [
        judge_run(run, GateSet(gates=gates, levels=levels)).summary.goodput.share
        for levels in (None, ServiceLevels(ttft_ms=200), ServiceLevels(ttft_ms=50))
    ]
    assert shares == [None, 1.0, 0.0]


def test_workers_that_were_lost_are_noted(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """Their share of the load is missing, whatever the gates say."""
    make_run(tmp_path, sessions_of(make_record(), 20), make_generator())
    workers = WorkersFile(run_id="r", folder=tmp_path)
    workers.join(WorkerEntry(index=1, client_id="c", joined_s=0.0))
    workers.lose("c", 12.4)
    workers.finish(60.0)
    notes = judge_run(read_saved(tmp_path), load_gate_set(DEFAULT_GATES_FILE)).report()["notes"]
    assert notes[0] == "No whole run: worker-1 was lost after 12 s."


def test_gpus_of_the_fleet_divide_its_throughput(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """Where the settings do not say, the plan of the fleet does."""
    facts = RunFacts(name="demo", gpus={"us": 72})
    make_run(tmp_path, sessions_of(make_record(), 20), make_generator(), facts)
    assert (
        judge_run(read_saved(tmp_path), load_gate_set(DEFAULT_GATES_FILE)).summary.per_gpu.gpus
        == 72
    )


def test_workers_are_summed_and_the_worst_of_them_counts(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """Three idle workers do not make good for one that sends late."""
    make_run(tmp_path, [], None)
    (tmp_path / "requests.jsonl").unlink()
    for index, lag_ms in enumerate((2.0, 80.0)):
        part = make_generator(lag_p99_ms=lag_ms, cpu_share=0.3 + index / 10, users=4)
        write_part(tmp_path / f"worker-{index}", sessions_of(make_record(), 10), part)
    run = read_saved(tmp_path)
    assert (len(run.records), run.generator.users) == (60, 8)
    assert (run.generator.lag_p99_ms, run.generator.cpu_share) == (80.0, 0.4)
    assert run.generator.gap_histogram == {"le_ms": [10.0, 20.0, 40.0], "count": [2.0, 16.0, 2.0]}


def test_a_lost_worker_makes_the_run_invalid_and_loses_no_request(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """What it waited for is in no file."""
    make_run(tmp_path, [], None)
    (tmp_path / "requests.jsonl").unlink()
    write_part(tmp_path / "worker-0", sessions_of(make_record(), 20), make_generator())
    write_part(tmp_path / "worker-1", sessions_of(make_record(), 20), None)
    judged = judge_run(read_saved(tmp_path), load_gate_set(NAMED_GATES["endpoint"]))
    assert judged.judgement.verdict == "invalid"
    assert judged.summary.requests == 120
    assert "worker-1: killed" in judged.report()["notes"][0]


def test_a_request_log_cut_by_a_kill_is_judged_without_its_last_line(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """The line before it was written whole."""
    make_run(tmp_path, sessions_of(make_record(), 2), make_generator())
    log = tmp_path / "requests.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    assert len(read_saved(tmp_path).records) == 5


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "settings.json").unlink(), "settings.json: is missing"),
        (lambda folder: (folder / "requests.jsonl").unlink(), "requests.jsonl"),
        (lambda folder: (folder / "generator.json").unlink(), "generator.json"),
        (lambda folder: (folder / "generator.json").write_text('{"users": 1'), "not readable"),
        (lambda folder: (folder / "requests.jsonl").write_text("x\n{}\n"), "requests.jsonl:1"),
        (lambda folder: (folder / "run.json").write_text("{"), "run.json: 1 field(s)"),
        (lambda folder: (folder / "settings.json").write_text("{}"), "settings.json: targets"),
    ],
)
def test_a_damaged_folder_is_bad_input(
    tmp_path: Path, make_record: Make, make_generator: Make, damage: Make, said: str
) -> None:
    """Each damage has its own message, and names the file."""
    make_run(tmp_path, [make_record()], make_generator())
    damage(tmp_path)
    with pytest.raises(ConfigError) as caught:
        read_saved(tmp_path)
    assert said in str(caught.value)


EDITED = yaml.safe_load((Path(__file__).parent / "cases" / "edited_files.yaml").read_text())


@pytest.mark.parametrize("case", EDITED, ids=[f"{c['file']} {c['set']}" for c in EDITED])
def test_an_edited_file_is_refused_with_its_place(
    tmp_path: Path, make_record: Make, make_generator: Make, case: dict[str, Any]
) -> None:
    """A figure that cannot be would be in the verdict; a traceback would help nobody."""
    make_run(tmp_path, [make_record(), make_record()], make_generator())
    file, change = tmp_path / case["file"], case["set"]
    if file.suffix == ".jsonl":
        first, second = file.read_bytes().splitlines()
        file.write_bytes(first + b"\n" + orjson.dumps(orjson.loads(second) | change) + b"\n")
    elif file.exists():
        file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | change))
    else:
        file.write_bytes(orjson.dumps(change))
    with pytest.raises(ConfigError) as caught:
        read_saved(tmp_path)
    place = f"{file}:2: " if file.suffix == ".jsonl" else f"{file}: not readable ("
    assert str(caught.value).startswith(place + case["field"])


def test_what_a_run_leaves_is_read_as_it_was(tmp_path: Path, make_record: Make) -> None:
    """Types and ranges are those of every value that a generator writes."""
    records = [
        make_record(best_tokens=5, ttfo_s=0.2, parent="s", finish="stop", due_s=-0.001),
        make_record(error="reset", status=0, prompt_tokens=None, ttft_s=None, cancelled=True),
    ]
    settings = make_settings(tmp_path)
    recorder = Recorder(settings=settings, clock=perf_counter, started_at=datetime.now(UTC))
    recorder.stage = "soak"
    for record in records:
        recorder.add(record, [0.01, 0.02, 1e-9])
    recorder.finish()
    run = read_run(tmp_path)
    assert list(run.records) == records
    figures = LiveFigures()
    figures.merge(run.figures[0])
    assert figures.plain() == recorder.figures.plain()


def test_a_file_of_before_a_field_was_added_is_read(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """Old runs are what new ones are compared with."""
    make_run(tmp_path, [make_record()], make_generator())
    for name in ("requests.jsonl", "generator.json"):
        document = orjson.loads((tmp_path / name).read_bytes())
        for later in ("predicted_exactly", "stage", "best_tokens", "unwritten", "stages"):
            document.pop(later, None)
        (tmp_path / name).write_bytes(orjson.dumps(document) + b"\n")
    (tmp_path / "figures.json").write_text('{"cells": [["us", 0, 0, 1, 0, 0, 0]]}')
    assert read_saved(tmp_path).records == (make_record(),)


def test_a_folder_that_is_none_is_bad_input(tmp_path: Path) -> None:
    """A typing mistake is the likeliest reason."""
    with pytest.raises(ConfigError, match="is no folder"):
        read_saved(tmp_path / "nowhere")
