"""Questions of known answers: what passes, and what a bad release cannot hide."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Thread
from typing import Any

import httpx2
import pytest

from fleet.rollout.answers import Asked, broken, counted
from fleet.rollout.strategy import Gates
from verify.probe import Worker, probe, put_together
from verify.questions import Answer, Expected, Question, is_empty, leaks, questions, wrong

EXPECTED = Expected(block_tokens=128)
USAGE = {
    "prompt_tokens": 1025,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 1024},
}
ASKED = {question.name: question for question in questions("n0nce")}
HTTP = httpx2.Client(trust_env=False)
WORKER = "18446744073709551615"


def right(question: Question) -> Answer:
    calls = ((question.tool, json.dumps({"city": question.says})),) if question.tool else ()
    return Answer(
        content="" if question.tool else f"It is {question.says}.",
        reasoning="Let me see.",
        calls=calls,
        finish="tool_calls" if question.tool else "stop",
        usage=USAGE,
    )


@pytest.mark.parametrize("name", ASKED)
def test_a_right_answer_passes(name: str) -> None:
    """Else every rollout would be held."""
    answer = right(ASKED[name])
    assert list(wrong(ASKED[name], answer, EXPECTED)) == []
    assert not leaks(answer)
    assert not is_empty(answer)


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("plain", Answer(content="§ tomato", finish="stop", usage=USAGE), "does not say 42"),
        ("plain", Answer(content="42", usage=USAGE), "has no finish reason"),
        ("plain", Answer(content="42", finish="length", usage=USAGE), "cut after"),
        ("plain", Answer(content="42", finish="stop"), "its usage has no prompt_tokens"),
        ("plain", Answer(content="42\ufffd", finish="stop", usage=USAGE), "broken characters"),
        ("reasoning", Answer(content="408", finish="stop", usage=USAGE), "has no reasoning apart"),
        (
            "tool",
            Answer(content="get_weather(Paris)", finish="stop", usage=USAGE),
            "does not call get_weather",
        ),
        (
            "tool",
            Answer(calls=(("get_weather", '{"city": "Par'),), finish="tool_calls", usage=USAGE),
            "arguments are no JSON",
        ),
        (
            "tool",
            Answer(calls=(("get_weather", '{"city": "Rome"}'),), finish="stop", usage=USAGE),
            "arguments are not those asked for",
        ),
        ("long-again", Answer(content="KESTREL", finish="stop"), "does not say what was cached"),
    ],
)
def test_a_wrong_answer_is_named(name: str, answer: Answer, why: str) -> None:
    """With what is wrong, so that nobody has to ask again by hand."""
    assert any(why in found for found in wrong(ASKED[name], answer, EXPECTED))


@pytest.mark.parametrize(("cached", "well"), [(1024, True), (896, True), (768, False), (0, False)])
def test_a_prompt_that_was_just_asked_is_cached(cached: int, well: bool) -> None:
    """An image whose engine caches nothing answers every question right."""
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": cached}}
    answer = Answer(content="KESTREL", reasoning="r", finish="stop", usage=usage)
    found = list(wrong(ASKED["long-again"], answer, EXPECTED))
    assert found == ([] if well else [f"{cached} of 1024 tokens were cached, asked a second time"])


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer(content="42<|close|>message<|sep|>"), ("<|close|>", "<|sep|>")),
        (Answer(reasoning="so <|open|> think"), ("<|open|>",)),
        (Answer(content="</think>42"), ("</think>",)),
        (Answer(calls=(("get_weather", '{"city": "Paris<|sep|>"}'),)), ("<|sep|>",)),
        (Answer(content="if a <b| or |> c"), ()),
    ],
)
def test_markers_are_found_wherever_they_are(answer: Answer, found: tuple[str, ...]) -> None:
    """Reasoning and arguments are read by clients too."""
    assert leaks(answer) == found


def test_an_empty_answer_is_one_that_ended_by_itself() -> None:
    """One that only calls a tool is not empty, and one that was cut has another fault."""
    assert is_empty(Answer(content=" \n", reasoning="long thoughts", finish="stop"))
    assert not is_empty(right(ASKED["tool"]))
    assert not is_empty(Answer(finish="length"))


def test_limits_count_single_answers() -> None:
    """A parser that is wrong in one of many answers is wrong."""
    gates = Gates(max_marker_leaks=1)
    asked = Asked(answers=10, leaks=("r: plain: <|sep|>", "r: tool: <|sep|>"))
    assert broken(asked, gates) == (
        "max_marker_leaks: 2 of 10 answers to our own questions "
        "(r: plain: <|sep|>; r: tool: <|sep|>); allowed are 1"
    )
    assert broken(Asked(answers=10, leaks=("x",)), gates) == ""
    assert "max_empty_answers: 0, in 10 answers to our own" in counted(Asked(answers=10))


@contextmanager
def server(
    answers: dict[str, Any], hears: Callable[[str], object] = lambda _name: None
) -> Iterator[str]:
    """Serve what is scripted for each question; `hears` is told of each before it is answered."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            [name] = asked["nvext"]["annotations"]
            hears(name.partition(":")[2])
            answer = answers[name.partition(":")[2]]
            events = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in answer)
            data = events + b"data: [DONE]\n\n" if asked.get("stream") else b""
            self.send_response(200 if answer else 503)
            self.end_headers()
            self.wfile.write(data or json.dumps(answer[0] if answer else {}).encode())

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        httpd.server_close()


def reply(content: str, worker: str = WORKER, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": "stop"}
    nvext = {"worker_id": {"decode_worker_id": int(worker)}}
    return {"choices": [choice], "usage": USAGE, "nvext": nvext, **more}


def test_each_question_is_judged_by_itself() -> None:
    """A leak, an empty answer, one of another worker, and a refusal: four faults of four kinds."""
    answers = {
        "plain": [reply("42 <|sep|>")],
        "reasoning": [reply("")],
        "tool": [reply("Paris", worker="7")],
        "long": [],
        "long-again": [reply("KESTREL")],
    }
    expected = Expected(block_tokens=128, parsed=False)
    with server(answers) as url:
        asked = probe(Worker(url, WORKER, HTTP, scripted=True), "m", "n", expected)
    assert asked == Asked(
        answers=3,
        leaks=("plain: <|sep|>",),
        empties=("reasoning",),
        wrong=("tool: another worker answered", "long: HTTP 503"),
    )


def test_questions_are_asked_side_by_side() -> None:
    """Reasoning takes seconds: nobody is answered before four are asked, or one has to give up."""
    four, heard = Barrier(4, timeout=30.0), list[str]()

    def hears(name: str) -> None:
        heard.append(name)
        if name != "long-again":
            four.wait()

    answers = {name: [reply(question.says)] for name, question in ASKED.items()}
    expected = Expected(block_tokens=128, parsed=False)
    with server(answers, hears) as url:
        asked = probe(Worker(url, WORKER, HTTP, scripted=True), "m", "n", expected)
    assert asked == Asked(answers=5)
    assert heard[-1] == "long-again"  # what it repeats is answered by then


def test_a_worker_that_is_gone_is_no_crash() -> None:
    """It is what the questions are for."""
    with server({}) as url:
        pass
    asked = probe(Worker(url, WORKER, HTTP), "m", "n", EXPECTED)
    assert (asked.answers, len(asked.wrong)) == (0, len(ASKED))


def test_a_streamed_tool_call_comes_in_parts() -> None:
    """The name first, then its arguments, in any number of pieces."""
    head = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}
    more = [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ("{", "}")]
    pieces = [{"choices": [{"delta": delta}]} for delta in (head, *more)]
    answer = put_together([*pieces, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}])
    assert answer == Answer(calls=(("f", "{}"),), finish="tool_calls")
