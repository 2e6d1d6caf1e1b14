"""Claims about replaying what a run of ours sent, against a server double."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from loadtest.results.records import Record, read_records
from loadtest.run import generator_command
from loadtest.settings import LoadSettings

Turn = tuple[str, int]


def run(folder: Path, gateway: str, tokenizer_dir: Path, **changes: Any) -> dict[Turn, Record]:
    """Run the generator; give its records by the session's number and turn."""
    fields = {
        "targets": {"ok": f"{gateway}/ok"},
        "tokenizer_dir": tokenizer_dir,
        "block_size": 16,
        "users": 3,
        "duration_s": 2,
        "out_dir": folder,
    }
    settings = LoadSettings.model_validate({**fields, **changes})
    command = generator_command(settings, python=Path(sys.executable), web_port=None)
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=120, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    records = read_records(folder / "requests.jsonl")
    return {(record.session.partition("-")[2], record.turn): record for record in records}


def test_a_replay_sends_the_sessions_of_the_run(
    tmp_path: Path, gateway: str, tokenizer_dir: Path
) -> None:
    """Two runs of one load can be compared session by session.

    Recorded lengths contain the tags of the template: four tokens per message, more or less, with
    this double.
    """
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = run(tmp_path / "one", gateway, tokenizer_dir, token_scale=50.0, time_scale=600.0)
    source = f"trace:{tmp_path}/one/requests.jsonl"
    once = {"loop": False, "pauses": False, "tag_tokens": 4}
    two = run(
        tmp_path / "two",
        gateway,
        tokenizer_dir,
        traffic=source,
        token_scale=1.0,
        time_scale=1.0,
        replay=once,
        duration_s=6,
    )
    assert set(two) <= set(one)
    assert len(two) >= len(one) / 2
    for turn, record in two.items():
        before = one[turn]
        sent = before.predicted_prompt_tokens
        assert abs((record.prompt_tokens or 0) - sent) <= 16 + 0.03 * sent
        assert abs(record.attainable_tokens - before.attainable_tokens) <= 32 + 0.03 * sent
        if not before.cancelled:  # who hangs up is not told how long the answer would have been
            assert record.output_tokens == before.output_tokens
