"""Claims about the verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.errors import ConfigError
from loadtest.judge.gates import DEFAULT_GATES_FILE, NAMED_GATES, Gate, about, judge, load_gates
from loadtest.judge.metric_paths import is_metric, metric_paths, near_metric
from loadtest.results.generator_summary import CPU_LIMIT_SHARE, LAG_LIMIT_MS
from loadtest.results.summary import RunContext, summarise
from loadtest.settings import LoadSettings

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "gates.yaml").read_text())
CONTEXT = RunContext(
    block_size=128,
    replicas={"us": ["r0", "r1"]},
    worker_names={"w0": "r0", "w1": "r1"},
    registered=frozenset({"r0", "r1"}),
)

Make = Callable[..., Any]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_default_gates(make_record: Make, make_generator: Make, case: dict[str, Any]) -> None:
    """Each way a launch can go, and the word for it."""
    records = [
        record
        for changes in case["records"]
        for record in [make_record(**{k: v for k, v in changes.items() if k != "repeat"})]
        * changes["repeat"]
    ]
    summary = summarise(records, make_generator(**case.get("generator", {})), CONTEXT)
    judgement = judge(summary, load_gates())
    not_passed = {gate.id: gate.status for gate in judgement.gates if gate.status != "pass"}
    assert (judgement.verdict, not_passed) == (case["verdict"], case["not_passed"])


def test_an_empty_file_of_gates_is_told_how_gates_begin(tmp_path: Path) -> None:
    """The start of a fleet file would lead further astray."""
    (tmp_path / "gates.yaml").write_text("")
    with pytest.raises(ConfigError, match="Start with `extends: endpoint`"):
        load_gates(tmp_path / "gates.yaml")


def gate(**changes: Any) -> Gate:
    fields = {"id": "g", "title": "G", "kind": "slo", "metric": "requests", "op": ">=", "why": ""}
    return Gate.model_validate({**fields, "limit": 1.0, **changes})


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ([gate()], 0),
        ([gate(limit=2.0)], 1),
        ([gate(kind="validity", limit=2.0)], 2),
        ([gate(limit=2.0), gate(kind="validity", limit=2.0)], 2),
        ([gate(metric="generator.cpu_share", op="<=", limit=0.2)], 0),
        ([gate(metric="hit.ratio", op="<=", limit=0.9)], 1),
    ],
)
def test_exit_codes(make_record: Make, make_generator: Make, limits: list[Gate], code: int) -> None:
    """Scripts read them: 0 go, 1 no-go, 2 could not be judged."""
    summary = summarise([make_record()], make_generator(), CONTEXT)
    assert judge(summary, limits).exit_code == code


def test_a_gate_without_a_value_is_no_go_ahead(make_generator: Make) -> None:
    """Nobody can say go for what was not measured."""
    summary = summarise([], make_generator(), CONTEXT)
    assert judge(summary, [gate(metric="ttft_ms.p95", op="<=")]).verdict == "invalid"


def test_every_number_of_the_summary_can_be_a_gate(make_record: Make, make_generator: Make) -> None:
    """A known metric must be found in the figures."""
    summary = summarise([make_record()], make_generator(), CONTEXT)
    gates = [gate(id=name, metric=name, limit=-1.0) for name in metric_paths()]
    assert all(result.status != "fail" for result in judge(summary, gates).gates)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("metric: hit.ratio", "metric: hit.ration", "Did you mean 'hit.ratio'"),
        ("id: error-rate", "id: cache-hit-ratio", "is used twice"),
        ('op: ">="', "op: '>'", "is not one of the choices"),
        ("limit: 0.95", "limit: most", "gates[2].limit"),
        ("limit: 0.95", "limit: true", "gates[2].limit"),
        ("kind: slo", "kind: slo\n    kind: validity", "gates.yaml:"),
        ("title:", "titel:", "Did you mean 'title'"),
    ],
)
def test_a_wrong_gates_file_is_refused(tmp_path: Path, old: str, new: str, what: str) -> None:
    """All faults at once, with line and remedy."""
    path = tmp_path / "gates.yaml"
    path.write_text(DEFAULT_GATES_FILE.read_text().replace(old, new), "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_gates(path)
    assert what in str(caught.value)


def test_limits_of_the_machine_are_those_of_the_gates() -> None:
    """`limited_by_machine` and the default validity gates must not tell two stories."""
    limits = {gate.id: gate.limit for gate in load_gates()}
    assert (limits["generator-lag"], limits["generator-cpu"]) == (LAG_LIMIT_MS, CPU_LIMIT_SHARE)


@pytest.mark.parametrize("name", NAMED_GATES)
def test_every_set_of_gates_names_metrics_that_exist(name: str) -> None:
    """A launch must not learn at its end that its judge is broken."""
    assert load_gates(NAMED_GATES[name])


def test_a_set_replaces_and_leaves_out_gates_of_the_one_it_extends() -> None:
    """One limit stands in one file."""
    limits = {
        name: {gate.id: gate.limit for gate in load_gates(NAMED_GATES[name])}
        for name in NAMED_GATES
    }
    assert (limits["launch"]["cache-hit-ratio"], limits["drained"]["cache-hit-ratio"]) == (
        0.95,
        0.90,
    )
    assert limits["launch"]["generator-lag"] == 50.0
    assert "replicas-served" not in limits["endpoint"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("extends: lunch\n", "Did you mean 'launch'"),
        ("extends: own.yaml\n", "extends this file"),
        ("extends: launch\nwithout: [tpto]\n", "Did you mean 'tpot'"),
        ("gates: []\n", "no gate is given"),
    ],
)
def test_a_wrong_set_is_refused(tmp_path: Path, text: str, what: str) -> None:
    """A gate that silently is not there lets a launch pass."""
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(what)):
        load_gates(path)


@pytest.mark.parametrize(
    ("metric", "known"),
    [
        ("ttft_by_context.64-128k.p95", True),
        ("ttft_by_context.64k-128k.p95", False),
        ("regions.us-east.hit.ratio", True),
        ("regions.us-east", False),
        ("regions..requests", False),
        ("regions.*.hit.ratio", True),
        ("ttft_by_turn.*.p95", True),
        ("locality.by_turn.26+.hit.ratio", True),
        ("locality.by_turn.27+.hit.ratio", False),
        ("locality.skew.*.computed_tokens", True),
        ("hit.*", False),
        ("generator", False),
        ("errors_by_class", False),
        ("", False),
    ],
)
def test_a_bucket_is_known_before_the_run_and_a_region_is_not(metric: str, known: bool) -> None:
    """A misspelt bucket would be skipped for ever."""
    assert is_metric(metric) is known


def test_the_nearest_bucket_is_named() -> None:
    """There are too many paths to read a list of."""
    assert "Did you mean 'ttft_by_context.64-128k.p95'" in near_metric(
        "ttft_by_context.64k-128k.p95"
    )


def test_a_gate_on_a_row_reads_that_row(make_record: Make, make_generator: Make) -> None:
    """One region may be slow while the sum looks well."""
    records = [make_record(region="us"), make_record(region="eu", ttft_s=3.0)]
    summary = summarise(records, make_generator(), CONTEXT)
    fast, slow, absent = (
        gate(id=name, metric=f"regions.{name}.ttft_ms.p95", op="<=", limit=1000.0)
        for name in ("us", "eu", "ap")
    )
    assert [result.status for result in judge(summary, [fast, slow, absent]).gates] == [
        "pass",
        "fail",
        "skip",
    ]


@pytest.mark.parametrize(("op", "limit", "status"), [("<=", 1000.0, "fail"), (">=", 200.0, "fail")])
def test_of_every_row_the_worst_counts(
    make_record: Make, make_generator: Make, op: str, limit: float, status: str
) -> None:
    """A limit on every region must hold for each of them."""
    records = [make_record(region="us"), make_record(region="eu", ttft_s=3.0)]
    summary = summarise(records, make_generator(), CONTEXT)
    every = gate(metric="regions.*.ttft_ms.p95", op=op, limit=limit)
    assert judge(summary, [every]).gates[0].status == status


def test_a_row_without_a_value_leaves_every_row_unjudged(
    make_record: Make, make_generator: Make
) -> None:
    """A region that sent nothing has not reached anything."""
    summary = summarise([make_record(region="eu")], make_generator(), CONTEXT)
    assert judge(summary, [gate(metric="regions.*.hit.ratio")]).gates[0].status == "skip"


def test_the_row_of_all_regions_is_meant_where_there_is_one(
    make_record: Make, make_generator: Make
) -> None:
    """`by_turn` has a row for each region too."""
    records = [make_record(region="a", cached_tokens=0), make_record(region="b")]
    summary = summarise(records, make_generator(), CONTEXT)
    found = judge(summary, [gate(metric="locality.by_turn.1.hit.achieved")]).gates[0]
    assert found.value == pytest.approx(0.256)


def test_a_gate_on_arrivals_is_not_about_a_closed_loop(tmp_path: Path) -> None:
    """N agents offer no rate, so none can be missed."""
    fields = {"targets": {"us": "http://127.0.0.1:1"}, "tokenizer_dir": ".", "out_dir": tmp_path}
    closed = LoadSettings.model_validate({**fields, "users": 1})
    opened = LoadSettings.model_validate({**fields, "sessions_per_minute": 1})
    gates = [gate(id="any"), gate(id="open", only="open-loop")]
    assert [g.id for g in about(gates, closed)] == ["any"]
    assert [g.id for g in about(gates, opened)] == ["any", "open"]
