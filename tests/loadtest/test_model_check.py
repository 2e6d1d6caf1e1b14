"""Claims about asking targets what they serve, before the load."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import pytest
from raw_server import Answer, dripped_body, dripped_head, endless_body, saying, server
from tls import https_server

from fleet.errors import ConfigError
from loadtest.client import model_check
from loadtest.client.chat import make_chat
from loadtest.client.model_check import check_models
from loadtest.settings import LoadSettings


def check(targets: dict[str, str], tokenizer_dir: Path, **changes: Any) -> None:
    settings = LoadSettings(
        targets=targets, tokenizer_dir=tokenizer_dir, users=1, out_dir=tokenizer_dir, **changes
    )
    check_models(make_chat(settings, perf_counter))


def test_a_target_that_serves_the_model_is_fine(gateway: str, tokenizer_dir: Path) -> None:
    """As every run starts."""
    check({"us": f"{gateway}/ok"}, tokenizer_dir)


def test_another_model_is_told_with_those_there_are(gateway: str, tokenizer_dir: Path) -> None:
    """The name is usually a typing mistake."""
    with pytest.raises(ConfigError, match=r"targets\.us.*serves kimi-k2, other") as caught:
        check({"us": f"{gateway}/others"}, tokenizer_dir)
    assert caught.value.exit_code == 3


def test_a_web_page_is_no_target(gateway: str, tokenizer_dir: Path) -> None:
    """The address of a dashboard answers 200 to everything."""
    with pytest.raises(ConfigError, match="is a web page"):
        check({"us": f"{gateway}/html"}, tokenizer_dir)


def test_all_targets_are_told_at_once(gateway: str, tokenizer_dir: Path) -> None:
    """One run of the command for all mistakes."""
    targets = {name: f"{gateway}/{name}" for name in ("html", "ok", "others")}
    with pytest.raises(ConfigError) as caught:
        check(targets, tokenizer_dir)
    assert len(caught.value.problems) == 2


def test_a_region_that_is_down_is_no_mistake(gateway: str, tokenizer_dir: Path) -> None:
    """Its failures are what the test is to measure."""
    check({"down": "http://127.0.0.1:1", "us": f"{gateway}/ok"}, tokenizer_dir)


def test_a_private_authority_is_known_to_the_first_question_too(
    certificate: Path, tokenizer_dir: Path
) -> None:
    """Else a wrong model name behind the house's gateway would be found by the load itself."""
    with https_server(certificate, b'{"data": [{"id": "kimi-k2"}]}') as url:
        check({"us": url}, tokenizer_dir)  # nobody that we trust answers: not our mistake to tell
        trusted = {"client": {"ca_file": certificate}}
        with pytest.raises(ConfigError, match="serves kimi-k2"):
            check({"us": url}, tokenizer_dir, **trusted)


@pytest.mark.parametrize(
    "answer", [dripped_head, dripped_body, endless_body, saying(b"[" * 99_999)]
)
def test_a_list_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tokenizer_dir: Path, answer: Answer
) -> None:
    """A generator that waits for it never begins."""
    monkeypatch.setattr(model_check, "_PATIENCE_S", 1.0)
    monkeypatch.setattr(model_check, "_MOST_BYTES", 1 << 20)
    began_s = monotonic()
    with server(answer) as url:
        check({"us": url}, tokenizer_dir)
    assert monotonic() - began_s < 30


def test_names_of_models_are_shown_as_text(tokenizer_dir: Path, tmp_path: Path) -> None:
    """A terminal obeys escapes, and a server may name a model after the key it was sent."""
    (tmp_path / "key").write_text("sk-very-secret")
    names = ["\x1b[31mred\x1b]0;pwn\x07\nline", "k" * 100_000, "sk-very-secret"]
    body = json.dumps({"data": [{"id": name} for name in names]}).encode()
    with server(saying(body)) as url, pytest.raises(ConfigError) as caught:
        check({"us": url}, tokenizer_dir, api_key_file=tmp_path / "key")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000
    assert "sk-very" not in str(caught.value)
