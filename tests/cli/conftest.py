"""Fixtures of the command line's tests: a gateway double and what a load test leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_folders import GENERATOR, RECORD, make_run, sessions_of

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DOUBLE = Path(__file__).parents[1] / "loadtest" / "fake_gateway.py"


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tokenizer.json with 676 one-token words."""
    folder = tmp_path_factory.mktemp("model")
    words = [f"Ġ{a}{b}x" for a in LETTERS for b in LETTERS]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = {"model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def gateway(tokenizer_dir: Path) -> Iterator[str]:
    """Run the gateway double in a process of its own and give its URL."""
    command = [sys.executable, str(DOUBLE), str(tokenizer_dir / "tokenizer.json")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture
def saved_run(tmp_path: Path) -> Callable[..., Path]:
    """Write the folder of a run in which all went well."""

    def write(name: str = "run", *, count: int = 20, **settings: Any) -> Path:
        records = sessions_of(RECORD, count)
        return make_run(tmp_path / name, records, GENERATOR, **settings)

    return write
