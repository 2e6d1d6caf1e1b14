"""A load test is one command: checked before it starts, judged however it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest
from run_folders import make_settings, report_of

from cli.main import main
from lab.load_test import ended_early
from loadtest.settings import with_absolute_paths

DEMO = str(Path(__file__).parents[2] / "fleets" / "demo.yaml")
SMALL = ("--token-scale", "200", "--time-scale", "60", "--block-size", "16")
Arguments = Callable[..., list[str]]


@pytest.fixture
def arguments(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Arguments:
    """Give the words of a small run against a path of the gateway double."""

    def words(*more: str, path: str = "ok", model: str = "kimi-k3") -> list[str]:
        target = ("--target", f"us={gateway}/{path}", "--model", model)
        load = ("--tokenizer", str(tokenizer_dir), "--duration", "2s", *SMALL)
        told = {"--users", "--sessions-per-minute", "--stages"} & set(more)
        users = () if told else ("--users", "4")
        return ["loadtest", "run", *target, *load, *users, "--out", str(tmp_path / "out"), *more]

    return words


@pytest.fixture
def started(arguments: Arguments, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a long run as a process; nothing of it outlives the test."""
    command = [sys.executable, "-m", "cli.main", *arguments("--duration", "10m")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    yield process
    process.kill()
    process.wait()


def test_a_run_against_an_endpoint_ends_with_a_verdict(
    arguments: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All files are in one folder, and what nobody knows of the endpoint is said."""
    gates = tmp_path / "gates.yaml"
    gates.write_text(
        "gates: [{id: g, title: Requests, kind: slo, metric: requests, op: '>=', limit: 5, why: w}]"
    )
    assert main(arguments("-o", "json", "--gates", str(gates))) == 0
    printed = json.loads(capsys.readouterr().out)
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files >= {
        "settings.json", "requests.jsonl", "generator.json", "run.json", "locust.log",
        "summary.json", "report.json", "report.html", "junit.xml", "buckets.csv", "replicas.csv",
        "timeline.csv",
    }  # fmt: skip
    assert printed["verdict"] == "go"
    assert any("What stands behind the URL" in text for text in printed["unknown"])


def test_more_processes_make_one_run(arguments: Arguments, tmp_path: Path) -> None:
    """Their files are judged together."""
    main(arguments("--processes", "2"))
    report = report_of(tmp_path / "out")
    assert (report["traffic"]["processes"], report["load"]["generator"]["users"]) == (2, 4)
    assert report["load"]["requests"] > 0


def test_a_failing_target_is_a_no_go(arguments: Arguments, tmp_path: Path) -> None:
    """Streams that are cut are failures, whatever the HTTP status says."""
    gates = tmp_path / "gates.yaml"
    gates.write_text(
        "gates: [{id: e, title: E, kind: slo, metric: error_rate, op: '<=', limit: 0.1, why: w}]"
    )
    words = arguments("--gates", str(gates))
    words[words.index("--target") + 1 : words.index("--target") + 1] = [
        words[words.index("--target") + 1].replace("us=", "ok="), "--target",
    ]  # fmt: skip
    cut = words.index("--target", words.index("--target") + 1) + 1
    words[cut] = words[cut].replace("/ok", "/cut")
    assert main(words) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_judged_and_leaves_no_process(
    started: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    """Whoever presses Ctrl-C wants to know what the hour before showed."""
    log, pause = tmp_path / "out" / "requests.jsonl", Event()
    while started.poll() is None and not (log.exists() and log.stat().st_size):
        pause.wait(0.05)
    children = psutil.Process(started.pid).children(recursive=True)
    assert children
    started.send_signal(number)
    _, said = started.communicate(timeout=60)
    report = report_of(tmp_path / "out")
    assert started.returncode in {0, 2}, said  # 2: not enough requests to judge
    assert {0: "go", 2: "invalid"}[started.returncode] == report["verdict"]
    assert "Interrupted" in report["notes"][0]
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize(
    ("sent_s", "planned_s", "interrupted", "said"),
    [
        (10.0, 100.0, False, "stopped after 10 of 100 s"),
        (71.0, 300.0, True, "a signal ended the load after 71 of 300 s"),
        (99.5, 100.0, False, None),
        (40.0, None, False, None),
    ],
)
def test_a_load_that_ended_early_says_when(
    sent_s: float, planned_s: float | None, interrupted: bool, said: str | None
) -> None:
    """A verdict on a tenth of the asked time is not the one that was asked for."""
    notes = ended_early(sent_s, planned_s, interrupted=interrupted)
    assert len(notes) == (said is not None)
    assert all(str(said) in note for note in notes)


def test_a_stop_on_the_page_is_in_the_report(arguments: Arguments, tmp_path: Path) -> None:
    """Nobody else would know why there is so little."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    words = arguments("--duration", "10m", "--web-port", str(port))
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *words], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    log, pause = tmp_path / "out" / "requests.jsonl", Event()
    try:
        while process.poll() is None and not (log.exists() and log.stat().st_size):
            pause.wait(0.05)
        urllib.request.urlopen(f"http://127.0.0.1:{port}/stop", b"", timeout=20).read()
        process.wait(60)
    finally:
        process.terminate()  # it ends its generator too, which a kill would leave
        process.wait(60)
    report = report_of(tmp_path / "out")
    assert report["notes"][0].startswith("Ended early: the load was stopped after")
    assert report["traffic"]["sent_s"] < report["traffic"]["duration_s"] == 600


def test_a_killed_generator_is_an_error_with_its_log(
    started: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Half a measurement must not look like a whole one."""
    log, pause = tmp_path / "out" / "requests.jsonl", Event()
    while started.poll() is None and not (log.exists() and log.stat().st_size):
        pause.wait(0.05)
    (locust,) = psutil.Process(started.pid).children()
    locust.kill()
    _, said = started.communicate(timeout=60)
    assert started.returncode == 8
    assert "locust.log" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("path", "model", "said"),
    [
        ("html", "kimi-k3", "answers with a web page"),
        ("closed", "kimi-k3", "refuses the key"),
        ("list", "kimi-k3", "no list of models"),
        ("ok", "kimi-k4", "does not serve the model 'kimi-k4'. Did you mean 'kimi-k3'"),
        ("ok/v1", "kimi-k3", "Leave /v1 out"),
    ],
)
def test_an_endpoint_is_asked_first(
    arguments: Arguments,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: str,
    model: str,
    said: str,
) -> None:
    """Thousands of failed requests would say the same, less clearly."""
    assert main(arguments(path=path, model=model)) == 3
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_server_that_is_not_there_is_named(
    arguments: Arguments, capsys: pytest.CaptureFixture[str]
) -> None:
    """The URL is the likeliest mistake."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert main(arguments("--target", f"eu=http://127.0.0.1:{port}")) == 3
    said = capsys.readouterr().err
    assert f"--target eu: http://127.0.0.1:{port}: does not answer: Connection refused" in said
    assert said.count("does not answer") == 1  # the line of the step does not say it too


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://nowhere.invalid", "Check the name of the host"),
        ("https://127.0.0.1:{port}", "does not speak TLS"),
    ],
)
def test_why_there_is_no_answer_is_said(
    arguments: Arguments, capsys: pytest.CaptureFixture[str], url: str, said: str
) -> None:
    """A wrong name, a wrong port and a wrong scheme have different remedies."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as plain:
        Thread(target=plain.serve_forever, daemon=True).start()
        target = url.format(port=plain.server_port)
        assert main(arguments("--target", f"eu={target}")) == 3
        plain.shutdown()
    assert said in capsys.readouterr().err


def test_what_the_generator_refused_is_the_error(
    arguments: Arguments, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exit code and the end of a log hide the one line that explains them."""
    assert main(arguments("--traffic", "interactive_agent", path="500")) in {3, 8}
    last = capsys.readouterr().err.split("error: ")
    assert len(last) == 2
    assert last[1].startswith("load test: ")
    assert "ended with code" not in last[1]


def test_all_that_an_endpoint_needs_is_asked_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Three attempts for three options are two too many."""
    assert main(["loadtest", "run", "--target", "us=http://127.0.0.1:1"]) == 3
    said = capsys.readouterr().err
    assert all(f"{option}: " in said for option in ("--users", "--model", "--tokenizer"))


def test_a_target_without_a_scheme_is_named_by_its_option(
    arguments: Arguments, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of the library are nobody's option."""
    assert main(arguments("--target", "eu=127.0.0.1:18773")) == 3
    said = capsys.readouterr().err
    assert "--target: eu: '127.0.0.1:18773' is no http://" in said
    assert "Value error" not in said


def test_a_server_without_a_list_of_models_is_not_refused(
    arguments: Arguments, tmp_path: Path
) -> None:
    """Some serve chats and nothing else; the report says that the name was not checked."""
    main(arguments(path="old"))
    assert any("was not checked" in text for text in report_of(tmp_path / "out")["unknown"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target", "us=http://127.0.0.1:1"], "--target us: is given twice"),
        (["--target", "http://127.0.0.1:1"], "is no pair of a name and a value"),
        (["--target", "http://u:p@127.0.0.1:1"], "--target '...@127.0.0.1:1': is no pair"),
        (["--target", "eu=http://u:p@127.0.0.1:1"], "user or password"),
        (["--gpus", "eu=8"], "--gpus eu: is no region of --target"),
        (["--gpus", "us=none"], "--gpus: Input should be a valid integer"),
        (["--metrics", "us=nowhere"], "is no http://, https:// or dns+http:// URL"),
        (["--target", "eu=ftp://x"], "is no http:// or https:// URL"),
        (["--users", "0"], "--users"),
        (["--users", "-3"], "--users"),
        (["--duration", "-1s"], "--duration"),
        (["--token-scale", "nan"], "--token-scale"),
        (["--tokens-per-chunk", "1e-320"], "--tokens-per-chunk"),
        (["--seed", "9" * 4000], "--seed"),
        (["--users", "2", "--sessions-per-minute", "2"], "Choose one"),
        (["--traffic", "interactive_agents"], "interactive_agent"),
        (["--traffic", "trace:no/such/file.json"], "no/such/file.json"),
        (["--gates", "lunch"], "Did you mean 'launch'"),
        (["--output-tokens-per-s", "20000"], "4 processes are needed, 1 is given"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(
    arguments: Arguments,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    said: str,
) -> None:
    """Each mistake has its own message."""
    assert main(arguments(*more)) == 3
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_paths_are_relative_to_the_folder_of_the_user(
    arguments: Arguments, tmp_path: Path, tokenizer_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generator runs in a folder of its own, where they name nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tok").symlink_to(tokenizer_dir)
    Path("mine.yaml").write_text("extends: interactive_agent\nname: mine\n")
    Path("gates.yaml").write_text("extends: endpoint\n")
    Path("key").write_text("secret")
    files = ("--tokenizer", "tok", "--gates", "gates.yaml", "--api-key-file", "key")
    assert main(arguments(*files, "--traffic", "mine.yaml", "--out", "out")) in {0, 1, 2}
    assert report_of(tmp_path / "out")["load"]["requests"] > 0


@pytest.mark.parametrize("given", ["trace:t.json", "trace:mooncake:t.json"])
def test_a_recording_is_named_by_its_whole_path(given: str, tmp_path: Path) -> None:
    """Its format stays before it."""
    found = with_absolute_paths(make_settings(tmp_path, traffic=given)).traffic
    assert found == given.replace("t.json", str(Path("t.json").absolute()))


def test_wrong_trace_and_gates_files_are_refused(
    arguments: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They name what is missing."""
    trace = tmp_path / "trace.json"
    trace.write_text('{"id": "a", "requests": [{"t": 0}]}')
    assert main(arguments("--traffic", f"trace:{trace}")) == 3
    assert "trace.json" in capsys.readouterr().err
    gates = tmp_path / "gates.yaml"
    gates.write_text(
        "gates: [{id: g, title: G, kind: slo, metric: hit.ration, op: '>=', limit: 1, why: w}]"
    )
    assert main(arguments("--gates", str(gates))) == 3
    assert "Did you mean 'hit.ratio'" in capsys.readouterr().err


def test_a_load_in_stages_is_judged_by_its_steady_part(
    arguments: Arguments, tmp_path: Path
) -> None:
    """Warm-up and drain are sent and not counted."""
    shape = tmp_path / "shape.yaml"
    shape.write_text(
        "stages:\n"
        "  - {name: warm-up, duration: 2s, users: 1}\n"
        "  - {name: soak, duration: 3s, users: 4}\n"
    )
    words = arguments("--stages", str(shape))
    del words[words.index("--duration") : words.index("--duration") + 2]
    main(words)
    report = report_of(tmp_path / "out")
    assert (report["traffic"]["stages"], report["traffic"]["duration_s"]) == ("warm-up; soak", 5)
    lines = (tmp_path / "out" / "requests.jsonl").read_bytes().splitlines()
    assert {json.loads(line)["stage"] for line in lines} >= {"warm-up", "soak"}
    assert 0 < report["load"]["requests"] < len(lines)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--stages", "SHAPE", "--users", "3"], "--users, --stages: both given"),
        (["--stages", "SHAPE"], "--duration: the stages say"),
        (["--stages", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_stages_are_a_load_of_their_own(
    arguments: Arguments,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    said: str,
) -> None:
    """Two answers to how much would contradict each other."""
    shape = tmp_path / "shape.yaml"
    shape.write_text("stages: [{name: soak, duration: 3s, users: 4}]\n")
    assert main(arguments(*(word.replace("SHAPE", str(shape)) for word in more))) == 3
    assert said in capsys.readouterr().err


def test_an_undersized_run_can_be_forced_and_is_marked(
    arguments: Arguments, tmp_path: Path
) -> None:
    """Somebody with two cores may want to see it all the same."""
    main(arguments("--output-tokens-per-s", "20000", "--force-undersized"))
    assert report_of(tmp_path / "out")["notes"][0].startswith("Undersized: 20,000 events/s")


def test_results_of_two_runs_do_not_mix(
    arguments: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder with old workers' files would be judged with them."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    assert main(arguments()) == 3
    assert "is not empty" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named(
    arguments: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is not full then; another folder is the remedy."""
    (tmp_path / "file").write_text("x")
    assert main(arguments("--out", str(tmp_path / "file" / "run"))) == 3
    assert "Give a folder that can be written: --out DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no target is given"),
        ([DEMO], "no lab is up. Start it: k3fleet lab up"),
        ([DEMO, "--target", "us=http://127.0.0.1:1"], "--target: the running lab of"),
        (["--target", "us=http://127.0.0.1:1"], "--users"),
        (["--target", "us=http://127.0.0.1:1", "--users", "1"], "--model"),
    ],
)
def test_who_is_meant_must_be_clear(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """A fleet's lab, or an endpoint with all that is needed of it."""
    assert main(["loadtest", "run", *words, "--work-dir", str(tmp_path / "work")]) == 3
    assert said in capsys.readouterr().err


def test_the_key_is_in_no_file_and_no_argv(arguments: Arguments, tmp_path: Path) -> None:
    """Run folders are attached to tickets."""
    key = tmp_path / "key"
    key.write_text("sk-very-secret\n")
    main(arguments("--api-key-file", str(key)))
    texts = [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert texts
    assert not any(b"sk-very-secret" in text for text in texts)


def test_judging_needs_no_locust(saved_run: Callable[..., Path]) -> None:
    """A machine that only reads results has none of the generator's libraries to load."""
    program = (
        "import sys; from cli.main import main; "
        f"main(['loadtest', 'report', {str(saved_run())!r}, '--gates', 'endpoint']); "
        "print([m for m in ('locust', 'gevent', 'pulumi', 'dynamo') if m in sys.modules], "
        "file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ},
    )  # fmt: skip
    assert done.stderr == "[]\n"
