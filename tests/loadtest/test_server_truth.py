"""Claims about the cross-check with servers' own counters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import LoadError
from loadtest.results.result_options import ResultOptions
from loadtest.results.server_truth import Page, cross_check, read_pages, read_series, write_pages
from loadtest.results.server_watch import PageError, ServerWatch, fetch_page

Make = Callable[..., Any]
# As a frontend of Dynamo 1.6.1 gave it after three requests of 601 tokens, two of them cached.
FRONTEND = (Path(__file__).parent / "cases" / "dynamo_frontend.prom").read_text()
VLLM = (
    'vllm:prefix_cache_queries_total{{engine="0"}} {queries}\n'
    'vllm:prefix_cache_hits_total{{engine="0"}} {hits}\n'
    'vllm:external_prefix_cache_hits_total{{engine="0"}} {external}\n'
)
SGLANG = (
    'sglang:prompt_tokens_total{{model_name="k"}} {prompt}\n'
    'sglang:cached_tokens_total{{cache_source="device"}} {device}\n'
    'sglang:cached_tokens_total{{cache_source="host"}} {host}\n'
)


def page(*texts: str, region: str = "us") -> Page:
    found = Page(region=region, url="http://x/metrics")
    for text in texts:
        found.take(read_series(text))
    return found


def test_a_frontend_of_dynamo_is_understood(make_record: Make) -> None:
    """The names are those of a real page; its own label values do not matter."""
    before = "".join(
        f"{line.rpartition(' ')[0]} 0\n" for line in FRONTEND.splitlines() if line[0] != "#"
    )
    record = make_record(prompt_tokens=1803, cached_tokens=1152)
    truth = cross_check([page(before, FRONTEND)], [record])
    (hit,) = truth.hits
    assert (hit.source, hit.prompt_tokens, hit.cached_tokens) == ("dynamo frontend", 1803, 1152)
    assert (hit.difference_points, truth.router_regret, truth.findings) == (0.0, 1.0, ())


def test_a_cancelled_request_is_in_no_rate(make_record: Make) -> None:
    """A frontend counts its prompt and never its cached tokens: that is no disagreement."""
    start = "".join(
        f"{line.rpartition(' ')[0]} 0\n" for line in FRONTEND.splitlines() if line[0] != "#"
    )
    answered = make_record(prompt_tokens=1202, cached_tokens=1152)
    left = make_record(
        prompt_tokens=None, cached_tokens=None, predicted_prompt_tokens=601, cancelled=True
    )
    truth = cross_check([page(start, FRONTEND)], [answered, left])
    assert (truth.hits[0].prompt_tokens, truth.worst_points, truth.findings) == (1202, 0.0, ())


def test_engines_of_both_kinds_are_normalised(make_record: Make) -> None:
    """vLLM counts what a connector brought apart, SGLang by where it came from."""
    vllm = page(
        VLLM.format(queries=100, hits=50, external=0),
        VLLM.format(queries=1100, hits=450, external=112),
    )
    sglang = page(
        SGLANG.format(prompt=0, device=0, host=0),
        SGLANG.format(prompt=1000, device=300, host=212),
    )
    truth = cross_check([vllm, sglang], [make_record()])
    assert [(hit.source, hit.hit, hit.client_hit) for hit in truth.hits] == [
        ("vllm", 0.512, 0.512),
        ("sglang", 0.512, 0.512),
    ]


def test_more_than_two_points_apart_is_a_finding(make_record: Make) -> None:
    """Then answers and engines do not speak of the same thing, and no ratio can be trusted."""
    start = VLLM.format(queries=0, hits=0, external=0)
    near = page(start, VLLM.format(queries=1000, hits=530, external=0))
    far = page(start, VLLM.format(queries=1000, hits=540, external=0))
    found = [cross_check([seen], [make_record()]) for seen in (near, far)]
    assert [truth.findings == () for truth in found] == [True, False]
    assert found[1].worst_points == pytest.approx(2.8)


def test_other_traffic_is_a_finding(make_record: Make) -> None:
    """Somebody else's requests fill caches and queues that we measure."""
    start = VLLM.format(queries=0, hits=0, external=0)
    truth = cross_check(
        [page(start, VLLM.format(queries=2000, hits=1024, external=0))], [make_record()]
    )
    assert "somebody else" in truth.findings[0]


def test_a_restarted_engine_counts_from_zero() -> None:
    """A counter that falls was reset: what it shows now is all new."""
    seen = page(
        VLLM.format(queries=1000, hits=900, external=0),
        VLLM.format(queries=1500, hits=1300, external=0),
        VLLM.format(queries=200, hits=100, external=0),
    )
    assert seen.increments["vllm:prefix_cache_queries_total"] == 700
    assert seen.increments["vllm:prefix_cache_hits_total"] == 500
    assert seen.resets == 2


def test_a_series_that_comes_later_counts_from_zero() -> None:
    """A model or worker that registers during the run was not there before."""
    seen = page("", VLLM.format(queries=300, hits=100, external=0))
    assert seen.increments["vllm:prefix_cache_queries_total"] == 300


def test_a_page_that_is_first_read_late_says_so(make_record: Make) -> None:
    """What it had counted before its first reading is not known to be ours."""
    seen = Page(region="us", url="http://x/metrics")
    seen.fail("refused")
    for queries in (5000, 6000):
        seen.take(read_series(VLLM.format(queries=queries, hits=0, external=0)))
    truth = cross_check([seen], [make_record()])
    assert "only after the start" in truth.findings[0]
    assert seen.increments["vllm:prefix_cache_queries_total"] == 1000


def test_without_pages_nothing_is_said() -> None:
    """Nobody asked for it."""
    truth = cross_check([], [])
    assert (truth.pages, truth.worst_points, truth.findings) == (0, None, ())


def test_what_was_read_survives_its_file(tmp_path: Path) -> None:
    """A run can be judged again."""
    seen = page(FRONTEND, FRONTEND)
    write_pages(tmp_path / "server.json", [seen])
    (again,) = read_pages(tmp_path / "server.json")
    assert (again.increments, again.scrapes) == (seen.increments, 2)
    assert read_pages(tmp_path / "other.json") == ()


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """As after a full disk."""
    (tmp_path / "server.json").write_text("[{")
    with pytest.raises(LoadError, match=r"server\.json"):
        read_pages(tmp_path / "server.json")


Answer = tuple[int, bytes]


@contextmanager
def serving(answer: Callable[[], Answer]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def watch_of(url: str, folder: Path) -> ServerWatch:
    return ServerWatch(options=ResultOptions(metrics={"us": (url,)}), out_dir=folder)


def test_a_watch_counts_what_came_between_start_and_end(tmp_path: Path) -> None:
    """Over real HTTP."""
    numbers = iter([100, 350])
    with serving(
        lambda: (200, VLLM.format(queries=next(numbers), hits=0, external=0).encode())
    ) as url:
        watch = watch_of(url, tmp_path)
        watch.start()
        watch.finish()
    (seen,) = read_pages(tmp_path / "server.json")
    assert seen.increments["vllm:prefix_cache_queries_total"] == 250


@pytest.mark.parametrize(
    ("answer", "reason"),
    [((404, b""), "HTTP 404"), ((200, b"<html>no</html>"), "HTML"), ((200, b""), "")],
)
def test_what_is_no_page_is_said_and_not_fatal(
    tmp_path: Path, make_record: Make, answer: Answer, reason: str
) -> None:
    """The run goes on; the summary says what was not cross-checked."""
    with serving(lambda: answer) as url:
        watch = watch_of(url, tmp_path)
        watch.start()
        watch.finish()
    truth = cross_check(read_pages(tmp_path / "server.json"), [make_record()])
    assert reason in truth.findings[0]
    assert truth.hits == ()


def test_nobody_there_is_said(tmp_path: Path) -> None:
    """As when the frontends are in a network that the generator cannot reach."""
    watch = watch_of("http://127.0.0.1:9/metrics", tmp_path)
    watch.start()
    watch.finish()
    (seen,) = read_pages(tmp_path / "server.json")
    assert (seen.scrapes, seen.failures) == (0, 2)
    assert "refused" in seen.error


def test_an_endless_page_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's page may fill our memory."""
    monkeypatch.setattr("loadtest.results.server_watch.MOST_BYTES", 100_000)
    with serving(lambda: (200, b"x" * 300_000)) as url, pytest.raises(PageError, match="larger"):
        fetch_page(url, 5.0)
