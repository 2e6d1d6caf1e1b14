"""Fixtures of the load-test tests: a vocabulary, a frame, records, and a gateway double."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import run_folders
from load_processes import write_tokenizer
from tls import write_certificate

from loadtest.prompt.prompts import Frame, Slot, ToolSet, declare_tool
from loadtest.prompt.words import TOKEN_BYTES, Vocabulary, read_vocabulary
from loadtest.results.records import Generator, Record

MakeRecord = Callable[..., Record]


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model directory whose tokenizer.json has 676 one-token words and some others."""
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def vocabulary(tokenizer_dir: Path) -> Vocabulary:
    """Read the vocabulary of that directory."""
    return read_vocabulary(tokenizer_dir)


def tags(*ids: int) -> bytes:
    """Pack tag ids as a frame holds them."""
    return b"".join((1_000_000 + id_).to_bytes(TOKEN_BYTES, "little") for id_ in ids)


@pytest.fixture(scope="session")
def frame() -> Frame:
    """Make the frame of a small chat template."""
    between: dict[tuple[Slot, Slot], bytes] = {
        ("start", "system"): tags(1, 2),
        ("start", "user"): tags(1, 3),
        ("system", "user"): tags(9, 3),
        ("user", "user"): tags(9, 3),
        ("user", "reasoning"): tags(9, 4, 5),
        ("reasoning", "content"): tags(6),
        ("content", "user"): tags(9, 3),
        ("user", "end"): tags(9, 4, 5),
    }
    return Frame(between=between, exact=True)


TOOLS = ToolSet(name="harness", tools=(declare_tool("read", "r"), declare_tool("edit", "e")))


@pytest.fixture(scope="session")
def tools() -> ToolSet:
    """Give the tools of that frame."""
    return TOOLS


@pytest.fixture(scope="session")
def tool_frame(frame: Frame) -> Frame:
    """Make the frame of that template with two tools, each of up to eight calls at a time."""
    between = dict(frame.between)
    for number, name in enumerate(TOOLS.names, start=100):
        for place in range(1, 9):
            call, result = f"call:{name}#{place}", f"result:{name}#{place}"
            between["content", call] = tags(6, 7, number, place)
            between["call", call] = tags(8, 7, number, place)
            between["call", result] = tags(8, 9, 10, number, place)
            between["result", result] = tags(9, 10, number, place)
    between["result", "end"] = between["result", "reasoning"] = tags(9, 4, 5)
    between["result", "user"] = tags(9, 3)
    return replace(frame, between=between)


RECORD = replace(run_folders.RECORD, session="s-1")
GENERATOR = replace(
    run_folders.GENERATOR,
    duration_s=10.0,
    sessions_started=3,
    sessions_finished=1,
    gap_histogram={"le_ms": [10.0, 20.0, 40.0], "count": [1.0, 8.0, 1.0]},
)


@pytest.fixture
def make_record() -> MakeRecord:
    """Make a record of a successful request, with changes."""
    return lambda **changes: replace(RECORD, **changes)


@pytest.fixture
def make_generator() -> Callable[..., Generator]:
    """Make what a healthy generator says about itself, with changes."""
    return lambda **changes: replace(GENERATOR, **changes)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a certificate of 127.0.0.1 that no authority of the system knows."""
    return write_certificate(tmp_path_factory.mktemp("tls") / "gateway.pem")


@pytest.fixture(scope="session")
def gateway(tokenizer_dir: Path) -> Iterator[str]:
    """Run the gateway double in a process of its own and give its URL."""
    script = Path(__file__).with_name("fake_gateway.py")
    command = [sys.executable, str(script), str(tokenizer_dir / "tokenizer.json")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture(scope="session")
def truth_server() -> Iterator[str]:
    """Run the server whose delays are known in a process of its own and give its URL."""
    script = Path(__file__).parents[1] / "support" / "truth_server.py"
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()
