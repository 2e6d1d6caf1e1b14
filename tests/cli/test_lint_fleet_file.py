"""What a fleet file tells the linter, wrong: one line per fault, with its place; exit code 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import main

FLEET = """\
apiVersion: k3fleet/v1
name: demo
release: vllm-tp8-dcp8
regions: [{name: us-east, racks: [{id: use1-r01, healthy_nodes: 2}]}]
"""
NO_DATE = "is no date. Write it as 2027-01-31."
VERSIONS = "Known: 1.34, 1.35, 1.36, 1.37."


def waiver(**parts: str) -> str:
    """Write one waiver on line 7, right but for what is given; `-` leaves a key out."""
    whole = {"rule": "K003", "reason": "known", "expires": "2099-01-31", **parts}
    inner = ", ".join(f"{key}: {text}" for key, text in whole.items() if text != "-")
    return f"lint:\n  waivers:\n    - {{{inner}}}\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('kubernetes: "1.29"\n', f"5: kubernetes: '1.29' is not one of the choices. {VERSIONS}"),
        ('kubernetes: "1.37.2"\n', "5: kubernetes: '1.37.2' is not one of the choices. Did you"),
        ("kubernetes: 1.37\n", "5: kubernetes: expected text, found the number 1.37. Write"),
        ("kubernetes: [1]\n", "5: kubernetes: a list is not one of the choices. Known"),
        ("kubernetes:\n", "5: kubernetes: nothing is not one of the choices. Known"),
        ("lint: []\n", "5: lint: expected a mapping, found a list. Write `key: value`"),
        ("lint:\n  waiver: []\n", "6: lint.waiver: unknown key. Did you mean 'waivers'?"),
        ("lint:\n  waivers: K003\n", "6: lint.waivers: expected a list, found 'K003'. Start"),
        ("lint:\n  waivers: [K003]\n", "6: lint.waivers[0]: expected a mapping, found 'K003'."),
        (waiver(rule="K930"), "7: lint.waivers[0].rule: there is no rule K930. Did you mean K02"),
        (waiver(rule="k003"), "7: lint.waivers[0].rule: 'k003' is no rule. Name one, for example"),
        (waiver(rule="-"), "7: lint.waivers[0].rule: the key is missing. Add `rule`: the rule's"),
        (waiver(reason="-"), "7: lint.waivers[0].reason: the key is missing. Add `reason`: why"),
        (waiver(reason="''"), "7: lint.waivers[0].reason: is empty. Give a value, or"),
        (waiver(expires="-"), "7: lint.waivers[0].expires: the key is missing. Add `expires`: the"),
        (waiver(expires="31.01.2099"), f"7: lint.waivers[0].expires: '31.01.2099' {NO_DATE}"),
        (waiver(expires="2099-02-30"), f"7: lint.waivers[0].expires: '2099-02-30' {NO_DATE}"),
        (waiver(expires="20990131"), f"7: lint.waivers[0].expires: 20990131 {NO_DATE}"),
        (waiver(expires="'20990131'"), f"7: lint.waivers[0].expires: '20990131' {NO_DATE}"),
        (waiver(expires="2099-W01-1"), f"7: lint.waivers[0].expires: '2099-W01-1' {NO_DATE}"),
        (waiver(expires="never"), f"7: lint.waivers[0].expires: 'never' {NO_DATE}"),
        (waiver(objects="'*'"), "7: lint.waivers[0].objects: unknown key. Did you mean 'object'?"),
    ],
)
@pytest.mark.parametrize("as_option", [False, True])
def test_a_wrong_value_is_named_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, said: str, as_option: bool
) -> None:
    """A waiver that is not understood must not look like a clean fleet, or hide anything."""
    fleet, pod = tmp_path / "fleet.yaml", tmp_path / "pod.yaml"
    fleet.write_text(FLEET + more)
    pod.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
    given = [str(pod), "--fleet", str(fleet)] if as_option else [str(fleet)]
    assert main(["lint", *given]) == 3
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"error: {fleet}:{said}")
    assert printed.out == ""


def test_all_wrong_waivers_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One round of corrections."""
    fleet = tmp_path / "fleet.yaml"
    entry = "    - {rule: K9%s0, reason: known, expires: 2099-01-31}\n"
    fleet.write_text(f"{FLEET}lint:\n  waivers:\n{entry % 1}{entry % 2}")
    assert main(["lint", str(fleet)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1].rpartition(":")[2] for line in lines[:2]] == ["7", "8"]


def test_an_unknown_version_on_the_command_line_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Schemas of another version would judge wrongly."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    assert main(["lint", str(fleet), "--kubernetes", "1.29"]) == 3
    assert "'1.34', '1.35', '1.36', '1.37'" in capsys.readouterr().err
