"""What the environment tells of secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.wiring import known_secrets


def test_a_secret_that_looks_like_a_path_is_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in 64 secret keys of AWS begins with a slash."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "/planted/secret+key")
    monkeypatch.setenv("CA_CREDENTIALS", "/tmp")  # noqa: S108 - a place, not a secret
    assert "/planted/secret+key" in known_secrets()
    assert "/tmp" not in known_secrets()  # noqa: S108


def test_a_file_of_a_secret_is_read_wherever_it_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pulumi takes a relative path as well; the path itself is no secret."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("planted-passphrase\n")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "words")
    monkeypatch.setenv("OTHER_TOKEN_FILE", "nul\udcff")
    assert "planted-passphrase" in known_secrets()
    assert "words" not in known_secrets()
