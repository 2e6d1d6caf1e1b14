"""Make a request: encode it, send it, read its stream to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.errors import ConfigError, Problem
from fleet.yaml_document import file_content
from loadtest.client.fetch import Request, fetch
from loadtest.client.sse import Expected, Reply
from loadtest.client.transport import check_ca_file
from loadtest.client.wire import Connection
from loadtest.prompt.api import Api, Wish
from loadtest.prompt.api_chat import ChatApi
from loadtest.prompt.api_messages import MessagesApi
from loadtest.prompt.body import Body
from loadtest.prompt.prompts import Message, ToolSet
from loadtest.prompt.session_options import SessionOptions
from loadtest.results.recorder import Clock
from loadtest.settings import LoadSettings

_MOST_KEY_BYTES = 1024**2
_APIS: dict[str, Callable[[str, SessionOptions], Api]] = {
    "openai": ChatApi,
    "anthropic": MessagesApi,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Hold what every request of a run has in common."""

    settings: LoadSettings
    api: Api
    headers: dict[str, str]
    clock: Clock

    def connect(self, region: str) -> Connection:
        """Make the connection of a session; it opens with the first request."""
        url = self.settings.targets[region]
        return Connection(url, self.headers, self.settings.client, self.clock)

    def body(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        annotations: Sequence[str] = (),
        tools: ToolSet | None = None,
    ) -> Body:
        """Encode a request from scratch; sessions keep their fragments instead."""
        fragments = [self.api.fragment(message) for message in messages]
        wish = Wish(max_tokens=max_tokens, tools=tools, annotations=annotations)
        return self.api.body(messages, fragments, wish)

    def for_calibration(self) -> Chat:
        """Give the same chat over chat completions, where servers tell the tokens of a prompt.

        Other APIs of a server make the same prompt of the same texts, but Dynamo's Messages
        API knows no effort.
        """
        if isinstance(self.api, ChatApi):
            return self
        options = self.settings.session.model_copy(update={"reasoning_effort": None})
        return replace(self, api=ChatApi(self.settings.model, options))

    def fetch(
        self,
        connection: Connection,
        body: Body | bytes,
        headers: dict[str, str] | None = None,
        expected: Expected | None = None,
    ) -> Reply:
        """Send one request and read its stream; whatever fails is in the reply."""
        options = self.settings.client
        expected = replace(
            expected or Expected(),
            keep_text=self.settings.session.history == "live",
            validate_json=options.validate_json,
            max_event_bytes=options.max_event_bytes,
        )
        request = Request(
            path=self.api.path,
            body=body,
            headers=headers or {},
            expected=expected,
            dialect=self.api.delta,
        )
        return fetch(connection, request, self.clock)


def make_chat(settings: LoadSettings, clock: Clock) -> Chat:
    """Read the API key and the authorities, if any. Raises ConfigError that never shows a key."""
    check_ca_file(settings.client)
    headers: dict[str, str] = {}
    if settings.api_key_file is not None:
        headers["Authorization"] = f"Bearer {_read_key(settings.api_key_file)}"
    api = _APIS[settings.session.dialect](settings.model, settings.session)
    return Chat(settings=settings, api=api, headers=headers, clock=clock)


def _read_key(path: Path) -> str:
    content = file_content(path, _MOST_KEY_BYTES, "Give a file with the key alone")
    if isinstance(content, Problem):
        raise _no_key(path, content.what)
    try:
        key = content.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise _no_key(path, "it is not ASCII") from error
    if not key.isprintable() or not key:  # a line end would start a header of its own
        raise _no_key(path, "it is not one line of text")
    return key


def _no_key(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path}: cannot be read as a key: {why.removeprefix('cannot be read: ')}. "
        "Give a file that holds the gateway's API key alone."
    )
