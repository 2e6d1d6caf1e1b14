"""Claims about asking an endpoint before a load is sent to it."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic

import pytest
from raw_server import Answer, dripped_body, dripped_head, endless_body, saying, server
from tls import https_server, write_certificate

from fleet.errors import ConfigError
from verify import endpoint
from verify.endpoint import require_model


def test_an_endpoint_of_a_private_authority_is_asked_with_its_certificates(tmp_path: Path) -> None:
    """The load trusts them, and so must the question before it."""
    certificate = write_certificate(tmp_path / "gateway.pem")
    with https_server(certificate, b'{"data": [{"id": "kimi-k3"}]}') as url:
        assert require_model("--target us", url, "kimi-k3", {}, ca_file=certificate) is None
        with pytest.raises(ConfigError, match=r"certificate.*client\.ca_file"):
            require_model("--target us", url, "kimi-k3", {})


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (dripped_head, "does not answer"),
        (dripped_body, "does not answer"),
        (endless_body, "more than 1 MiB"),
        (saying(b"[" * 200_000), "no list of models"),
    ],
)
def test_an_answer_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, what: str
) -> None:
    """The check is to save time: it may not wait, or fill the memory, for ever."""
    monkeypatch.setattr(endpoint, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(endpoint, "MOST_BYTES", 1 << 20)
    began_s = monotonic()
    with server(answer) as url, pytest.raises(ConfigError, match=what):
        require_model("--target us", url, "kimi-k3", {})
    assert monotonic() - began_s < 30


def test_names_of_models_cannot_command_the_terminal() -> None:
    """They come from a server that nobody knows yet."""
    names = ["\x1b[31mred\x1b]0;pwn\x07\nline", "k" * 100_000, "a sk-very-secret"]
    body = json.dumps({"data": [{"id": name} for name in names]}).encode()
    with server(saying(body)) as url, pytest.raises(ConfigError) as caught:
        require_model("--target us", url, "kimi-k3", {"Authorization": "Bearer sk-very-secret"})
    assert str(caught.value).isprintable()
    assert "sk-very" not in str(caught.value)
    assert len(str(caught.value)) < 1000
