"""Go on with what the server said, instead of what was scripted.

The traffic scripts every answer beforehand. In a live history each is replaced by the reply that
came, reasoning and tool calls included, as a harness sends them back; the results that were
scripted answer the calls that were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from loadtest.client.sse import Reply
from loadtest.prompt.messages import Message, ToolCall
from loadtest.prompt.words import Text


@dataclass(slots=True)
class LiveHistory:
    """Hold the replies of one session."""

    _answers: dict[int, tuple[Message, Message]] = field(default_factory=dict)
    """By identity of the scripted message, which is held so that it stays its own."""
    _last: tuple[int, Message] | None = None

    def fork(self) -> LiveHistory:
        """Copy the state, for a sub-agent that goes on with the same conversation."""
        return LiveHistory(self._answers.copy(), self._last)

    def took(self, messages: Sequence[Message], reply: Reply) -> None:
        """Note the reply to a prompt; a failed one leaves the script as it is."""
        usable = reply.error is None and (reply.content or reply.reasoning or reply.tool_calls)
        self._last = (len(messages), _answer(reply)) if usable else None

    def messages(self, scripted: tuple[Message, ...]) -> tuple[Message, ...]:
        """Give the next prompt with the replies in their places."""
        if self._last is not None:
            place, answer = self._last
            if place < len(scripted) and scripted[place].role == "assistant":
                self._answers[id(scripted[place])] = (scripted[place], answer)
            self._last = None
        held = {id(message) for message in scripted}
        self._answers = {key: pair for key, pair in self._answers.items() if key in held}
        return tuple(self._replaced(scripted)) if self._answers else scripted

    def _replaced(self, scripted: Sequence[Message]) -> Iterator[Message]:
        is_live, open_calls = False, list[str]()
        for message in scripted:
            if is_live and message.role == "tool":
                if open_calls:
                    yield replace(message, call_id=open_calls.pop(0))
                else:  # the model made fewer calls than the script
                    yield Message(role="user", content=message.content)
                continue
            yield from _unanswered(open_calls)
            _, answer = self._answers.get(id(message), (message, message))
            is_live = answer.is_live
            open_calls = [call.id for call in answer.tool_calls] if is_live else []
            yield answer
        yield from _unanswered(open_calls)


def _unanswered(open_calls: Sequence[str]) -> Iterator[Message]:
    """Answer the calls that the script has no result for: servers refuse a history without."""
    for call_id in open_calls:
        yield Message(role="tool", call_id=call_id)


def _answer(reply: Reply) -> Message:
    calls = tuple(
        ToolCall(
            id=call["id"],
            name=call["function"]["name"],
            said=call["function"]["arguments"] or "{}",
        )
        for call in reply.tool_calls
    )
    count = (reply.usage or {}).get("completion_tokens")
    return Message(
        role="assistant",
        reasoning=Text(reply.reasoning, b""),
        content=Text.counted(reply.content, count if isinstance(count, int) else reply.chunks),
        tool_calls=calls,
        is_live=True,
    )
