"""Claims about what Dynamo's K3 renderer makes of our sessions: every prompt is known exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dynamo_rig import dynamo, model_dir

from loadtest.play.conversation import Conversation
from loadtest.play.load_run import make_run
from loadtest.prompt.prompts import Message, ToolCall, ToolSet, declare_tool
from loadtest.prompt.words import Vocabulary, read_vocabulary
from loadtest.results.records import Record
from loadtest.settings import LoadSettings
from loadtest.traffic.arrivals import POISSON, ArrivalProcess
from loadtest.traffic.harness import Prefix
from loadtest.traffic.sessions import Seeds, Step

pytestmark = pytest.mark.lab

BLOCK = 128
TOOLS = ToolSet(
    name="harness",
    tools=(declare_tool("read_file", "Read a file."), declare_tool("bash", "Run a command.")),
)


@dataclass
class Talk:
    """Script one session that calls tools in every way."""

    vocabulary: Vocabulary
    name: str
    tools: ToolSet | None
    history: list[Message] = field(default_factory=list)
    arrivals: ArrivalProcess = POISSON
    most_sessions: int | None = None

    def session(self, number: int) -> Iterator[Step]:
        rng = Seeds(seed=1, salt=self.name).words(number)

        def text(tokens: int) -> Any:
            return self.vocabulary.draw(rng, tokens)

        self.history = [
            Message(role="system", content=text(300)),
            Message(role="user", content=text(50)),
        ]
        turns: Sequence[tuple[str, ...]] = (("bash",), (), ("read_file", "bash", "bash"), ("bash",))
        for turn, names in enumerate(turns, start=1):
            yield self._step(turn)
            used = names if self.tools else ()
            calls = tuple(
                ToolCall(id=f"c{turn}.{i}", name=name, argument=text(9))
                for i, name in enumerate(used)
            )
            answer = Message(
                role="assistant", reasoning=text(40), content=text(20), tool_calls=calls
            )
            results = [Message(role="tool", content=text(150), call_id=c.id) for c in calls]
            after = results or [Message(role="user", content=text(60))]
            self.history += [answer, *after]
        yield self._step(len(turns) + 1)

    def shared(self) -> Sequence[Message]:
        return ()

    def prefixes(self) -> Sequence[Prefix]:
        return ()

    def _step(self, turn: int) -> Step:
        return Step(
            session=self.name,
            parent=None,
            turn=turn,
            kind="tool",
            gap_s=0.0,
            messages=tuple(self.history),
            output_tokens=8,
            tools=self.tools,
        )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the model folder once."""
    return model_dir(tmp_path_factory.mktemp("rig"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[str]:
    """Run the rig for the tests of this file."""
    with dynamo(tmp_path_factory.mktemp("dynamo"), model) as address:
        yield address


def play(url: str, model: Path, out_dir: Path, talk: str, **session: Any) -> list[Record]:
    """Play the script and give its records."""
    settings = LoadSettings.model_validate(
        {
            "targets": {"us": url},
            "tokenizer_dir": model,
            "block_size": BLOCK,
            "users": 1,
            "out_dir": out_dir,
            "token_scale": 200.0,
            "session": session,
        }
    )
    run = make_run(settings)
    tools = None if talk.startswith("plain") else TOOLS
    run.traffic = Talk(read_vocabulary(model), talk, tools)
    conversation, records = Conversation(run, run.next_session_number() or 0), []
    while (step := conversation.next_step()) is not None:
        records.append(conversation.call(step))
    return records


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("kind", ["plain", "tools"])
def test_every_prompt_is_predicted(
    url: str, model: Path, tmp_path: Path, dialect: str, kind: str
) -> None:
    """Declared tools, parallel calls and results, over both APIs."""
    records = play(url, model, tmp_path, f"{kind}-{dialect}", dialect=dialect)
    assert [record.error for record in records] == [None] * 5
    assert [r.prompt_tokens for r in records] == [r.predicted_prompt_tokens for r in records]
    assert all(record.predicted_exactly for record in records)


def test_the_cache_has_what_the_oracle_says(url: str, model: Path, tmp_path: Path) -> None:
    """Token by token: a wrong id anywhere would end the shared prefix there."""
    records = play(url, model, tmp_path, "tools-cache")
    assert [r.cached_tokens or 0 for r in records[1:]] == [r.attainable_tokens for r in records[1:]]
    assert records[-1].attainable_tokens > 4 * BLOCK


def test_a_live_session_goes_on(url: str, model: Path, tmp_path: Path) -> None:
    """What the engine said comes back to it, and the scripted part is still found."""
    records = play(url, model, tmp_path, "tools-live", history="live")
    assert [record.error for record in records] == [None] * 5
    assert [record.predicted_exactly for record in records] == [True, *[False] * 4]


@pytest.mark.parametrize("effort", ["low", "high", "max"])
def test_the_effort_is_part_of_the_prompt(
    url: str, model: Path, tmp_path: Path, effort: str
) -> None:
    """The frame is learned with the effort that the run asks for."""
    records = play(url, model, tmp_path, f"plain-{effort}", reasoning_effort=effort)
    assert [r.prompt_tokens for r in records] == [r.predicted_prompt_tokens for r in records]
