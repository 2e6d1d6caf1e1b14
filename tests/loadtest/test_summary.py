"""Claims about the figures of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from loadtest.results.live_figures import LiveFigures
from loadtest.results.quantiles import nearest_rank
from loadtest.results.records import Generator, Record, read_generator, read_records
from loadtest.results.summary import RunContext, summarise, summary_json

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "summary.yaml").read_text())
CONTEXT = RunContext(
    block_size=128,
    replicas={"us": ["r0", "r1"]},
    worker_names={"w0": "r0"},
    registered=frozenset({"r0"}),
)

Make = Callable[..., Any]


def at(figures: Any, path: str) -> Any:
    for part in path.split("."):
        figures = figures[part]
    return figures


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_figures(make_record: Make, make_generator: Make, case: dict[str, Any]) -> None:
    """Each definition, on a run small enough to compute by hand."""
    records = [make_record(**changes) for changes in case["records"]]
    summary = summarise(records, make_generator(**case.get("generator", {})), CONTEXT)
    figures = summary_json(summary)
    for path, expected in case["expect"].items():
        found = at(figures, path)
        assert (list(found) if isinstance(found, tuple) else found) == expected, path


def test_a_region_without_a_request_is_listed(make_record: Make, make_generator: Make) -> None:
    """A dead region must not be missing from the report."""
    both = replace(CONTEXT, replicas={"us": [], "eu": []})
    summary = summarise([make_record()], make_generator(), both)
    assert [(region.name, region.requests) for region in summary.regions] == [("us", 1), ("eu", 0)]


def test_a_replica_whose_worker_has_changed_is_one_replica(
    make_record: Make, make_generator: Make
) -> None:
    """A restarted engine registers under a new id."""
    restarted = replace(CONTEXT, replicas={"us": ["r0"]}, worker_names={"w0": "r0", "w1": "r0"})
    records = [make_record(), make_record(worker="w1")]
    assert [r.requests for r in summarise(records, make_generator(), restarted).replicas] == [2]


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_nearest_rank_percentile_was_measured(values: list[float], share: float) -> None:
    """And at least that share of the values does not exceed it."""
    value = nearest_rank(values, share)
    assert value in values
    assert sum(other <= value for other in values) >= share * len(values)


def test_a_record_survives_its_file(tmp_path: Path, make_record: Make) -> None:
    """A run can be judged again from its files."""
    path = tmp_path / "requests.jsonl"
    records: list[Record] = [make_record(), make_record(error="truncated", error_detail="é\n")]
    path.write_bytes(b"".join(record.line() for record in records))
    assert list(read_records(path)) == records


def test_a_record_of_an_older_version_can_be_read(tmp_path: Path, make_record: Make) -> None:
    """Fields that came later have defaults: saved runs stay comparable."""
    record: Record = make_record()
    first = [entry.name for entry in fields(Record) if entry.default is MISSING]
    path = tmp_path / "requests.jsonl"
    path.write_bytes(orjson.dumps({name: getattr(record, name) for name in first}) + b"\n")
    assert list(read_records(path)) == [record]


def test_generator_figures_survive_their_file(tmp_path: Path, make_generator: Make) -> None:
    """The same for generator.json."""
    path = tmp_path / "generator.json"
    generator: Generator = make_generator()
    path.write_text(generator.text())
    assert read_generator(path) == generator


def test_an_idle_replica_that_answers_for_itself_has_served(
    make_record: Make, make_generator: Make
) -> None:
    """A router may rightly leave a replica without sessions; a deaf one it may not."""
    asked = replace(CONTEXT, answered=frozenset({"r1"}))
    records = [make_record(worker="w0")]
    assert summarise(records, make_generator(), CONTEXT).coverage.served == 0.5
    assert summarise(records, make_generator(), asked).coverage.served == 1.0


def test_calls_without_an_end_are_counted(make_record: Make, make_generator: Make) -> None:
    """An overloaded fleet answers few calls well; those it never answered must not be forgotten."""
    summary = summarise([make_record()], make_generator(calls_unfinished=3), CONTEXT)
    assert (summary.unfinished, summary.unfinished_share) == (3, 0.75)


def test_two_replicas_answer_where_prefill_and_decode_are_apart(
    make_record: Make, make_generator: Make
) -> None:
    """Both have served; the prompt, and what of it was cached, is the prefill replica's."""
    split = replace(
        CONTEXT,
        worker_names={"w0": "r0", "w1": "r1"},
        roles={"r0": "decode", "r1": "prefill"},
    )
    summary = summarise([make_record(prefill_worker="w1")], make_generator(), split)
    found = [(r.role, r.requests, r.share, r.prompt_tokens, r.hit) for r in summary.replicas]
    assert found == [("decode", 1, 1.0, 0, None), ("prefill", 1, 1.0, 1000, 0.512)]
    assert summary.coverage.served == 1.0


def test_nobody_knows_who_answered_when_no_answer_says_so(
    make_record: Make, make_generator: Make
) -> None:
    """A zero would say that a replica stood idle."""
    summary = summarise([make_record(worker=None)], make_generator(), CONTEXT)
    assert [(r.requests, r.share, r.hit) for r in summary.replicas] == [(None, None, None)] * 2
    assert summary.coverage.served == 0.0


def test_a_replica_without_a_request_has_served_none(
    make_record: Make, make_generator: Make
) -> None:
    """Others said who they are, so its silence is known."""
    summary = summarise([make_record()], make_generator(), CONTEXT)
    assert [(r.name, r.requests, r.share) for r in summary.replicas] == [
        ("r0", 1, 1.0),
        ("r1", 0, 0.0),
    ]


STAGES = [("ramp", 0.0), ("soak", 4.0), ("drain", 8.0)]


def test_with_stages_figures_are_of_the_steady_window(
    make_record: Make, make_generator: Make
) -> None:
    """Cold caches of the ramp and empty ones of the drain are no service level."""
    records = [
        make_record(sent_s=1.0, cached_tokens=0),
        make_record(sent_s=5.0),
        make_record(sent_s=9.0, error="truncated"),
    ]
    summary = summarise(records, make_generator(stages=STAGES), CONTEXT)
    assert (summary.requests, summary.window_s, summary.hit.ratio) == (1, 4.0, 1.0)
    assert (summary.error_rate, sum(s.requests for s in summary.timeline)) == (0.0, 3)


def test_a_cancelled_request_is_no_error_and_has_no_end(
    make_record: Make, make_generator: Make
) -> None:
    """The client hung up: its TTFT was measured, and what it would have reported never came."""
    cut = make_record(
        cancelled=True, e2e_s=9.0, cached_tokens=None, prompt_tokens=None, output_tokens=None
    )
    summary = summarise([make_record(), cut], make_generator(), CONTEXT)
    assert (summary.errors, summary.cancelled, summary.hit.reported_share) == (0, 1, 1.0)
    assert [part.attainable_tokens for part in summary.timeline] == [
        make_record().attainable_tokens
    ]
    assert (summary.e2e_ms.p99, summary.oracle.length_exact) == (300.0, 1.0)


def test_what_a_reader_must_know_first_is_a_finding(
    make_record: Make, make_generator: Make
) -> None:
    """Killed workers and requests without room on the disk."""
    lost = replace(CONTEXT, workers=3, lost_workers=("worker-2",))
    summary = summarise([make_record()], make_generator(unwritten=7), lost)
    run = summary.run
    assert (run.workers, run.lost_workers, run.unwritten) == (3, 1, 7)
    assert ["worker-2" in run.findings[0], "7 requests" in run.findings[1]] == [True, True]


def test_chunk_gaps_are_by_bucket_too(make_record: Make, make_generator: Make) -> None:
    """They come from what the generator summed up, since records do not hold them all."""
    live = LiveFigures()
    live.add(make_record(turn=3), [0.02, 0.04])
    kept = replace(CONTEXT, figures=(live.plain(),))
    summary = summarise([make_record(turn=3)], make_generator(), kept)
    by_turn = next(table for table in summary.latency.tables if table.by == "turn")
    gaps = [(r.bucket, r.n) for r in by_turn.rows if r.metric == "chunk_gap"]
    assert gaps == [("2-5", 2)]


def test_the_summary_is_json(make_record: Make, make_generator: Make) -> None:
    """The report holds it, and a NaN would break whoever reads that."""
    figures = summary_json(summarise([make_record()], make_generator(), CONTEXT))
    assert json.loads(json.dumps(figures, allow_nan=False))["hit"]["ratio"] == 1.0
