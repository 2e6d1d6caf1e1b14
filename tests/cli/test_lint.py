"""`k3fleet lint`: exit codes, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli import lint as cli_lint
from cli.lint_output import folded
from cli.main import main
from infra.lint.rule import Finding, Rule, Spot
from infra.lint.scene import Scene

# `kind: Broken` breaks it, `kind: Odd` is worth knowing, everything else is fine.
BROKEN = Rule(
    id="K003",
    severity="error",
    title="Nothing is broken",
    reason="It would not work",
    source="https://example.com/why",
    fix="Mend it",
    check=lambda scene: _spots(scene, "Broken"),
)
ODD = Rule(
    id="P001",
    severity="info",
    title="Nothing is odd",
    reason="People ask",
    source="a person",
    fix="Leave it",
    check=lambda scene: _spots(scene, "Odd"),
)
BOTH = """\
apiVersion: v1
kind: Broken
metadata: {name: a, namespace: k3}
spec:
  size: "\\e[31m"
---
apiVersion: v1
kind: Odd
metadata: {name: b}
"""
FLEET = """\
apiVersion: k3fleet/v1
name: demo
release: vllm-tp8-dcp8
regions:
  - name: us-east
    racks: [{id: use1-r01, healthy_nodes: 4}]
"""
WAIVERS = """\
lint:
  waivers:
    - {rule: K003, object: "Broken k3/*", reason: known, expires: 2099-01-31}
"""


def _spots(scene: Scene, kind: str) -> list[Spot]:
    return [
        Spot(item, ("spec", "size"), f"size is {item.at('spec', 'size')}")
        for item in scene.of(kind)
    ]


@pytest.fixture(autouse=True)
def _two_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the real rules find is tested with them."""
    monkeypatch.setattr(cli_lint, "RULES", (BROKEN, ODD))


@pytest.fixture
def both(tmp_path: Path) -> str:
    path = tmp_path / "both.yaml"
    path.write_text(BOTH)
    return str(path)


def test_a_finding_is_one_line_with_its_place(
    both: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in a manifest must not colour the terminal."""
    assert main(["lint", both]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{both}:5: error K003 Broken k3/a: spec.size: size is \\x1b[31m. Mend it.",
        f"{both}:7: info P001 Odd b: spec.size: size is None. Leave it.",
        "1 file, 2 objects: 1 error, 0 warnings, 1 info, 0 waived",
    ]


def test_infos_alone_exit_0(both: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask for nothing."""
    monkeypatch.setattr(cli_lint, "RULES", (ODD,))
    assert main(["lint", both]) == 0


def test_an_unusable_file_exits_3_and_prints_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is neither clean nor a finding."""
    path = tmp_path / "bad.yaml"
    path.write_text("a: b: c\n")
    assert main(["lint", str(path)]) == 3
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_nothing_to_check_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Clean by accident would be worse."""
    assert main(["lint"]) == 3
    assert "Give a fleet file, a folder or manifests." in capsys.readouterr().err


def test_json_has_every_finding_and_the_counts(
    both: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """For scripts."""
    main(["lint", both, "-o", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["summary"] == {
        "files": 1,
        "objects": 2,
        "errors": 1,
        "warnings": 0,
        "infos": 1,
        "waived": 0,
    }
    assert printed["findings"][0] == {
        "rule": "K003",
        "severity": "error",
        "file": both,
        "line": 5,
        "object": "Broken k3/a",
        "path": "spec.size",
        "what": "size is \x1b[31m",
        "fix": "Mend it",
    }


def test_the_fleet_of_manifests_gives_their_waivers(
    both: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A waived finding is listed, and does not fail."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET + WAIVERS)
    assert main(["lint", both, "--fleet", str(fleet), "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (waived,) = printed["waived"]
    assert (waived["rule"], waived["expires"]) == ("K003", "2099-01-31")


def test_a_fleet_file_is_rendered_and_linted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both layers of all regions, by the fleet's own Kubernetes version."""
    seen: list[Scene] = []
    monkeypatch.setattr(cli_lint, "RULES", (_noting(seen),))
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET + 'kubernetes: "1.35"\n')
    assert main(["lint", str(fleet)]) == 0
    assert {item.file for item in seen[0].manifests} == {"us-east/platform", "us-east/serving"}
    assert (len(list(seen[0].of("LeaderWorkerSet"))), seen[0].kubernetes) == (2, (1, 35))
    assert capsys.readouterr().out.startswith("2 files, ")


def test_the_version_of_kubernetes_can_be_asked_for(
    both: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before an upgrade, for example."""
    seen: list[Scene] = []
    monkeypatch.setattr(cli_lint, "RULES", (_noting(seen),))
    main(["lint", both, "--kubernetes", "1.34"])
    assert seen[0].kubernetes == (1, 34)


def _noting(seen: list[Scene]) -> Rule:
    def check(scene: Scene) -> tuple[Spot, ...]:
        seen.append(scene)
        return ()

    return Rule(
        id="K001", severity="error", title="t", reason="r", source="s", fix="f", check=check
    )


def sarif_run(path: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["lint", path, "-o", "sarif"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["version"] == "2.1.0"
    run: dict[str, Any] = printed["runs"][0]
    return run


def test_sarif_has_a_result_at_its_line(both: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What a code host shows beside the line."""
    result = sarif_run(both, capsys)["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("K003", "error")
    assert place == {
        "artifactLocation": {"uri": Path(both).as_uri()},
        "region": {"startLine": 5},
    }


def test_sarif_describes_its_rules(both: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`ruleIndex` leads there; a link only where the source is one."""
    run = sarif_run(both, capsys)
    rules = run["tool"]["driver"]["rules"]
    assert [rules[item["ruleIndex"]]["id"] for item in run["results"]] == ["K003", "P001"]
    assert [rule.get("helpUri") for rule in rules] == ["https://example.com/why", None]


def test_explain_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """Small letters are fine."""
    assert main(["lint", "--explain", "k003"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "K003 (error): Nothing is broken.",
        "why     It would not work.",
        "source  https://example.com/why",
        "fix     Mend it.",
    ]


def test_an_unknown_rule_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 3, one line."""
    assert main(["lint", "--explain", "K033"]) == 3
    assert "there is no such rule. Did you mean K003?" in capsys.readouterr().err


def finding(object_: str, line: int | None) -> Finding:
    return Finding(
        rule="K003",
        severity="error",
        file="us-east/serving",
        line=line,
        object=object_,
        path="spec",
        what="x",
        fix="y",
    )


def test_like_findings_of_a_rendering_are_one_line() -> None:
    """1,800 replicas are made of one template."""
    alike = tuple(finding(f"Pod k3/{number}", None) for number in range(1800))
    assert folded((*alike, finding("Job k3/a", None))) == [
        (alike[0], 1799),
        (finding("Job k3/a", None), 0),
    ]


def test_like_findings_in_files_are_lines_of_their_own() -> None:
    """Each is somewhere else."""
    assert len(folded((finding("Pod a", 1), finding("Pod b", 1)))) == 2
