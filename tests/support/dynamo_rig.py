"""A frontend and one mocked engine of Dynamo, without cluster or gateway, for a test."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import stamina
import yaml

from fleet.model import Model
from lab.modeldir import make_model_dir

ROOT = Path(__file__).parents[2]
START_S = 90.0


class Notes:
    """A progress that nobody watches."""

    def step(self, name: str) -> None: ...

    def update(self, text: str) -> None: ...


def model_dir(folder: Path) -> Path:
    """Make K3's model folder, without weights."""
    document = yaml.safe_load((ROOT / "fleet/models/kimi-k3.yaml").read_text())
    return make_model_dir(
        folder / "model",
        model=Model.model_validate(document),
        tokenizer_dir=None,
        cache_dir=Path.home() / ".cache" / "k3fleet",
        progress=Notes(),
    )


def environment(folder: Path) -> dict[str, str]:
    """Keep everything on loopback and in the folder."""
    hosts = ("TCP_RPC", "TCP_RESPONSE_STREAM", "EVENT_PLANE", "SYSTEM")
    return {
        **os.environ,
        **{f"DYN_{name}_HOST": "127.0.0.1" for name in hosts},
        "DYN_FILE_KV": str(folder / "kv"),
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_LOG": "warn",
        "DYN_ENABLE_ANTHROPIC_API": "true",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }


@contextlib.contextmanager
def dynamo(folder: Path, model: Path) -> Iterator[str]:
    """Run both; give the frontend's URL once it serves the model."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    frontend = ["dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", port]
    frontend += ["--router-mode", "kv", "--tokenizer", "fastokens", "--no-tokenizer-fallback"]
    engine = ["dynamo.mocker", "--model-path", str(model), "--model-name", "kimi-k3"]
    engine += ["--num-workers", "1", "--block-size", "128", "--speedup-ratio", "100"]
    with contextlib.ExitStack() as stack:
        for command in (frontend, engine):
            log = stack.enter_context((folder / f"{command[0]}.log").open("wb"))
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=environment(folder),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            stack.callback(end, process)
        url = f"http://127.0.0.1:{port}"
        wait_for(url)
        yield url


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, gently first."""
    process.terminate()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=15)


def wait_for(url: str) -> None:
    """Wait until one chat is answered: the model is listed a moment earlier."""
    question = {
        "model": "kimi-k3",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1,
    }
    for attempt in stamina.retry_context(
        on=(httpx2.HTTPError, AssertionError), timeout=START_S, attempts=None, wait_max=1.0
    ):
        with attempt:
            answer = httpx2.post(f"{url}/v1/chat/completions", json=question, timeout=10.0)
            assert answer.status_code == 200, answer.text
