"""Claims about the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.errors import ConfigError
from loadtest.gates import DEFAULT_GATES_FILE, Gate, judge, known_metrics, load_gates
from loadtest.generator_summary import CPU_LIMIT_SHARE, LAG_LIMIT_MS
from loadtest.summary import RunContext, summarise

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
    gates = [gate(id=name, metric=name, limit=-1.0) for name in known_metrics()]
    assert all(result.status != "fail" for result in judge(summary, gates).gates)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("metric: hit.ratio", "metric: hit.ration", "Did you mean 'hit.ratio'"),
        ("id: error-rate", "id: cache-hit-ratio", "is used twice"),
        ('op: ">="', "op: '>'", "is not one of the choices"),
        ("limit: 0.95", "limit: most", "gates[2].limit"),
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
