"""Where Pulumi's state is, and what encrypts its secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from fleet.errors import ConfigError
from fleet.load import load_fleet
from fleet.state_address import Backend, SecretsKey, parse_backend, parse_secrets_provider
from fleet.state_spec import StateSpec

CASES = Path(__file__).parents[1] / "cases/state/refused.yaml"
REFUSED = [
    (key, text, what)
    for key, rows in yaml.safe_load(CASES.read_text()).items()
    for text, what in rows
]
S3 = "s3://k3-state/prod?region=us-west-2"
KEY = "1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.mark.parametrize(("key", "text", "what"), REFUSED)
def test_an_address_is_refused_where_it_stands(key: str, text: str, what: str) -> None:
    """Pulumi says so later, of another thing, or not at all."""
    given = {"backend": S3, key: text}
    with pytest.raises(ValidationError) as caught:
        StateSpec.model_validate(given)
    (error,) = caught.value.errors()
    assert error["loc"] == (key,)
    assert error["msg"] == what


@pytest.mark.parametrize("text", [text for _, text, _ in REFUSED if "hunter2" in text])
def test_a_password_in_an_address_is_not_shown(text: str) -> None:
    """The message goes into logs."""
    with pytest.raises(ValidationError) as caught:
        StateSpec.model_validate({"backend": text})
    assert "hunter2" not in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("file:///srv/state", Backend(kind="file", bucket="", prefix="/srv/state", parameters={})),
        (
            S3,
            Backend(
                kind="s3", bucket="k3-state", prefix="prod", parameters={"region": "us-west-2"}
            ),
        ),
        ("gs://k3_state", Backend(kind="gs", bucket="k3_state", prefix="", parameters={})),
        (
            "azblob://state/a/b?storage_account=k3prod",
            Backend(
                kind="azblob",
                bucket="state",
                prefix="a/b",
                parameters={"storage_account": "k3prod"},
            ),
        ),
    ],
)
def test_a_backend_is_taken_apart(text: str, parts: Backend) -> None:
    """The bootstrap makes the bucket that Pulumi will look for."""
    assert parse_backend(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("passphrase", SecretsKey(kind="passphrase", key="", region="")),
        (
            "awskms://alias/k3-state?region=us-west-2",
            SecretsKey(kind="awskms", key="alias/k3-state", region="us-west-2"),
        ),
        (
            f"awskms:///arn:aws:kms:us-east-1:123456789012:key/{KEY}",
            SecretsKey(
                kind="awskms",
                key=f"arn:aws:kms:us-east-1:123456789012:key/{KEY}",
                region="us-east-1",
            ),
        ),
        ("hashivault://k3", SecretsKey(kind="hashivault", key="k3", region="")),
        (
            "azurekeyvault://k3prod.vault.azure.net/keys/state",
            SecretsKey(kind="azurekeyvault", key="k3prod.vault.azure.net/keys/state", region=""),
        ),
        (
            "gcpkms://projects/k3-prod/locations/global/keyRings/r/cryptoKeys/k",
            SecretsKey(
                kind="gcpkms",
                key="projects/k3-prod/locations/global/keyRings/r/cryptoKeys/k",
                region="",
            ),
        ),
    ],
)
def test_a_secrets_provider_is_taken_apart(text: str, parts: SecretsKey) -> None:
    """Its region may be in the ARN."""
    assert parse_secrets_provider(text) == parts


def test_without_a_word_the_state_is_in_the_work_folder() -> None:
    """As it was before there were backends."""
    assert StateSpec().location is None
    assert StateSpec().key.kind == "passphrase"


def test_a_store_on_this_machine_may_be_reached_without_tls() -> None:
    """Tests and on-premises proxies listen there."""
    spec = StateSpec(backend=f"{S3}&endpoint=http://127.0.0.1:9000&use_path_style=true")
    assert spec.location is not None
    assert spec.location.parameters["endpoint"] == "http://127.0.0.1:9000"


def test_a_clouds_key_needs_a_backend(write_file: Callable[..., Path]) -> None:
    """Files in the work folder are opened with the passphrase beside them."""
    state = "name: demo\nstate: {secrets_provider: 'hashivault://k3'}"
    with pytest.raises(ConfigError, match=r"state: secrets_provider is given, but no backend"):
        load_fleet(write_file(change=("name: demo", state)))
