"""Secrets in what is shown and kept."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.redaction import SHORTEST, SHOWN, Redactor

VALUE = 'tok/en+"ä"=value'


@pytest.mark.parametrize(
    "text",
    [
        f"error: {VALUE} was refused",
        json.dumps({"password": VALUE}),
        f"https://registry.example/{quote(VALUE, safe='')}/v2",
        base64.b64encode(f"user:{VALUE}".encode()).decode(),
        base64.b64encode(f"x{VALUE}".encode()).decode(),
        base64.b64encode(f"xy{VALUE}z".encode()).decode(),
    ],
)
def test_a_known_value_is_hidden_however_it_is_spelt(text: str) -> None:
    """A pull secret holds it in base64, in the middle of something else."""
    shown = Redactor(frozenset({VALUE})).text(text)
    assert SHOWN in shown
    for form in (VALUE, quote(VALUE, safe=""), json.dumps(VALUE)[1:-1]):
        assert form not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://bot:s3cr3t@git.example/x", f"https://bot:{SHOWN}@git.example/x"),
        ("https://hooks.slack.com/services/T0/B0/abc", f"https://hooks.slack.com/services/{SHOWN}"),
        ("Authorization: Bearer abcdefgh.1234", f"Authorization: Bearer {SHOWN}"),
        ("using hf_abcdefghijklmnopqrst now", f"using {SHOWN} now"),
        ("key AKIAABCDEFGHIJKLMNOP", f"key {SHOWN}"),
        ("GET /x?token=abc&page=2", f"GET /x?token={SHOWN}&page=2"),
    ],
)
def test_well_known_tokens_are_hidden_unknown_as_they_are(text: str, shown: str) -> None:
    """A token from a file that we never read."""
    assert Redactor().text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "urn:pulumi:serving-us-east::k3fleet-serving::kubernetes:core/v1:Service::Service/k3/e",
        "https://127.0.0.1:6443/api/v1/namespaces/k3",
        "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.0.0",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """A log that hides everything helps nobody."""
    assert Redactor(frozenset({"short", ""})).text(text) == text


@given(st.text(min_size=SHORTEST).filter(lambda text: len(text.strip()) >= SHORTEST))
def test_json_stays_json(secret: str) -> None:
    """Events are read again after they were cleaned."""
    line = json.dumps({"message": f"before {secret} after", "urn": "u"})
    assert "message" in json.loads(Redactor(frozenset({secret})).text(line))


def test_a_redactor_does_not_show_what_it_knows() -> None:
    """It is in tracebacks and debuggers."""
    assert VALUE not in repr(Redactor(frozenset({VALUE})))


def test_every_long_line_of_a_secret_is_one() -> None:
    """A private key is printed line by line, and indented."""
    key = "-----BEGIN X-----\nplantedplantedplanted1\nplantedplantedplanted2\n}\n"
    redactor = Redactor(frozenset({key}))
    assert redactor.text("    plantedplantedplanted2\n") == f"    {SHOWN}\n"
    assert redactor.text("  }\n") == "  }\n"
