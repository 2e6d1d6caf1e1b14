"""Read the same streams with stock Locust and with AIPerf."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from truth import Load, Seen, pin

VERSION = "0.13.0"
AIPERF = f"AIPerf {VERSION}"
INSTALL_LIMIT_S, RUN_LIMIT_S = 240, 60
MARKER = ".ready"


def stock_stream(session: Any, body: dict[str, Any]) -> Seen:
    """Read one stream as Locust's documentation does, and decode each event."""
    stamps = []
    for line in session.iter_lines("/v1/chat/completions", method="POST", data=json.dumps(body)):
        if line.startswith("data: {"):
            stamps.append(time.perf_counter())
            json.loads(line[6:])
    stamps.pop()  # the usage
    gaps_s = [after - before for before, after in pairwise(stamps)]
    return Seen(id=body["truth_id"], first_s=stamps[0], gaps_s=gaps_s)


def stock_session(url: str) -> Any:
    """Make the session that FastHttpUser has."""
    from locust.contrib.fasthttp import FastHttpSession  # noqa: PLC0415 - patches all sockets
    from locust.event import EventHook  # noqa: PLC0415

    return FastHttpSession(base_url=url, request_event=EventHook(), user=None)


class AIPerf:
    """Run AIPerf from an environment of its own, offline once it is installed."""

    def __init__(self) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self._folder = Path(base) / "k3fleet" / "bench" / f"aiperf-{VERSION}"
        self._base_cpu_s: float | None = None

    def install(self) -> str | None:
        """Install it, once; say why it cannot be had."""
        if (self._folder / MARKER).exists():
            return None
        shutil.rmtree(self._folder, ignore_errors=True)
        print(f"installing {AIPERF} into {self._folder} (about 1.2 GB) …", flush=True)
        pip = [self._folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        try:
            for command in ([sys.executable, "-m", "venv", self._folder], [*pip, self._pinned]):
                subprocess.run(command, check=True, timeout=INSTALL_LIMIT_S)
        except (subprocess.SubprocessError, OSError) as error:
            return f"not measured: {error}"
        (self._folder / MARKER).touch()
        return None

    @property
    def _pinned(self) -> str:
        return f"aiperf=={VERSION}"

    def run(self, url: str, load: Load, work: Path) -> float:
        """Read all streams; give the CPU seconds of the whole pipeline beyond its start."""
        if self._base_cpu_s is None:
            first = Load(streams=1, rounds=2, events=load.events, gap_s=load.gap_s)
            self._base_cpu_s = self._profile(url, first, work)
        return self._profile(url, load, work) - self._base_cpu_s

    def _profile(self, url: str, load: Load, work: Path) -> float:
        _write_tokenizer(work / "tokenizer")
        (work / "prompts.jsonl").write_text('{"text": "word word word"}\n' * 20)
        shutil.rmtree(work / "out", ignore_errors=True)
        command = [
            *(str(self._folder / "bin" / "aiperf"), "profile", "--model", "kimi-k3"),
            *("--url", url, "--endpoint-type", "chat", "--streaming", "--ui", "none"),
            *("--tokenizer", str(work / "tokenizer"), "--use-server-token-count"),
            *("--input-file", str(work / "prompts.jsonl"), "--custom-dataset-type", "single_turn"),
            *("--extra-inputs", json.dumps({"truth": load.script})),
            *("--concurrency", str(load.streams)),
            *("--request-count", str(load.streams * load.rounds)),
            *("--workers-max", "1", "--record-processors", "1"),
            *("--no-gpu-telemetry", "--no-server-metrics"),
            *("--output-artifact-dir", str(work / "out")),
        ]
        # Nothing may be fetched: the hub's address leads nowhere.
        environment = {**os.environ, "HOME": str(work), "HF_ENDPOINT": "http://127.0.0.1:9"}
        before_s = _children_cpu_s()
        done = subprocess.run(
            command,
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
            preexec_fn=lambda: pin(0),
        )
        if done.returncode:
            raise SystemExit(f"AIPerf ended with code {done.returncode}:\n{done.stdout[-2000:]}")
        return _children_cpu_s() - before_s

    def seen(self, work: Path, wall_minus_monotonic_s: float) -> list[Seen]:
        """Read what its records say of each answer."""
        lines = (work / "out" / "profile_export.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return [
            Seen(
                id=record["metadata"]["x_request_id"],
                first_s=record["metadata"]["request_start_ns"] / 1e9
                - wall_minus_monotonic_s
                + record["metrics"]["time_to_first_token"]["value"] / 1000,
                gaps_s=[
                    gap_ms / 1000 for gap_ms in record["metrics"]["inter_chunk_latency"]["value"]
                ],
            )
            for record in records
        ]


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _write_tokenizer(folder: Path) -> None:
    """Write the smallest tokenizer that AIPerf takes: it counts nothing here."""
    folder.mkdir(parents=True, exist_ok=True)
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "word": 1}, "unk_token": "[UNK]"}
    parts = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": model,
        **dict.fromkeys(parts),
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
