"""`k3fleet bootstrap`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_account import Account, aws_account

from cli.main import main

STATE = "{backend: 's3://k3-state/prod?region=us-west-2', secrets_provider: 'awskms://alias/k3?region=us-west-2'}"
FLEET = """\
apiVersion: k3fleet/v1
name: demo
release: vllm-tp8-dcp8
state: {state}
regions: [{{name: us-east, racks: [{{id: use1-r01}}]}}]
"""


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    with aws_account() as found:
        monkeypatch.setattr("cli.bootstrap.connect", lambda _profile: found.aws)
        yield found


def fleet(folder: Path, state: str = STATE) -> str:
    path = folder / "fleet.yaml"
    path.write_text(FLEET.format(state=state))
    return str(path)


def test_a_dry_run_says_what_is_missing_and_makes_nothing(
    account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is what a reviewer sees."""
    assert main(["bootstrap", fleet(tmp_path), "--dry-run", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["outcome"] == "not done: --dry-run"
    assert [item["name"] for item in shown["changes"]][:4] == ["key", "rotation", "alias", "bucket"]
    assert account.changes == []


def test_without_a_terminal_nothing_is_made_unasked(account: Account, tmp_path: Path) -> None:
    """A pipeline that is to make buckets says --yes."""
    assert main(["bootstrap", fleet(tmp_path)]) == 3
    assert account.changes == []


def test_the_change_is_shown_before_it_is_made(
    account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr; the result is on stdout. The second run has nothing to do."""
    assert main(["bootstrap", fleet(tmp_path), "--yes"]) == 0
    first = capsys.readouterr()
    assert "will make the bucket: s3://k3-state in us-west-2" in first.err
    assert "done" in first.out
    assert main(["bootstrap", fleet(tmp_path), "--yes"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_another_accounts_bucket_has_an_exit_code_of_its_own(
    account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline has to stop there, and not to try again."""
    account.foreign.add("k3-state")
    assert main(["bootstrap", fleet(tmp_path), "--yes"]) == 13
    assert "another account's" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("{backend: 'gs://k3-state'}", "gcloud storage buckets create gs://k3-state"),
        (
            "{backend: 'azblob://state?storage_account=k3prod'}",
            "az storage container create --name state --account-name k3prod",
        ),
        (
            "{backend: 's3://k3-state?region=us-west-2&endpoint=https://store.example'}",
            "In the store at https://store.example: a bucket k3-state",
        ),
    ],
)
def test_what_cannot_be_made_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str, line: str
) -> None:
    """Exit code 2: nobody looked whether it is there."""
    assert main(["bootstrap", fleet(tmp_path, state)]) == 2
    assert line in capsys.readouterr().out


def test_a_key_elsewhere_is_listed_beside_the_bucket_that_is_made(
    account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of it is done, and exit code 2 says that half is not."""
    state = "{backend: 's3://k3-state?region=us-west-2', secrets_provider: 'hashivault://k3'}"
    assert main(["bootstrap", fleet(tmp_path, state), "--yes"]) == 2
    assert "by hand: vault write -f transit/keys/k3" in capsys.readouterr().out
    assert account.client("s3").list_buckets()["Buckets"][0]["Name"] == "k3-state"


def test_a_folder_is_made(tmp_path: Path) -> None:
    """The nearest backend needs a place too."""
    state = f"{{backend: 'file://{tmp_path}/state'}}"
    assert main(["bootstrap", fleet(tmp_path, state), "--yes"]) == 0
    assert (tmp_path / "state").is_dir()


def test_a_fleet_without_a_backend_needs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its state is in the work folder."""
    assert main(["bootstrap", fleet(tmp_path, "{}")]) == 0
    assert "nothing to make" in capsys.readouterr().out


def test_without_credentials_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, and no waiting for a metadata service."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert main(["bootstrap", fleet(tmp_path), "--yes"]) == 13
    assert "Unable to locate credentials. Sign in" in capsys.readouterr().err
