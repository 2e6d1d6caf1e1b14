"""Describe the inference engine of a release, one of ours or a house engine."""

from __future__ import annotations

import string
from typing import Literal, Self

from pydantic import Field, model_validator

from fleet.model import EngineKind
from fleet.schema import FileModel, ImageRef, Text, found_text, refuse
from fleet.spec import Port

# What a house engine's command may name in braces.
COMMAND_WORDS = frozenset(
    {"weights", "model", "nodes", "rank", "leader", "tensor", "host", "port", "context_tokens"}
)


class CustomEngine(FileModel):
    """A house engine: how it is started, and what it can do.

    `registers: dynamo` means that it is a Dynamo worker, as vLLM and SGLang are
    here: frontends find it and route by cache. `registers: nothing` means that it
    only speaks the OpenAI API: the gateway then sends sessions straight to it, by
    a hash of the session, and the region has no frontends.
    """

    command: tuple[Text, ...] = Field(min_length=1)
    # Of the other nodes; None: the same command, told apart by {rank}.
    worker_command: tuple[Text, ...] | None = None
    registers: Literal["dynamo", "nothing"]
    port: Port = 8000  # the OpenAI API
    health_path: Text = "/health"
    health_port: Port | None = None  # None: `port`
    # Where it publishes which blocks it caches (ZMQ); None: it does not.
    kv_events_port: Port | None = None

    @model_validator(mode="after")
    def _known_words(self) -> Self:
        _check_words("command", self.command)
        _check_words("worker_command", self.worker_command or ())
        return self


class Engine(FileModel):
    """The inference engine and the image that holds it."""

    kind: EngineKind
    # By digest: public dev tags of K3 images were pushed again under the same name. None: there
    # is no public image, so a release made from this preset must bring its own.
    image: ImageRef | None = None
    version: Text
    custom: CustomEngine | None = None

    @model_validator(mode="after")
    def _custom_is_described(self) -> Self:
        if (self.kind == "custom") != (self.custom is not None):
            raise refuse(
                f"kind {self.kind} {'needs' if self.custom is None else 'has no'} section custom",
                "Describe a house engine with kind: custom and a section custom",
            )
        return self

    @property
    def registers(self) -> bool:
        """Say whether it is a Dynamo worker, which frontends find."""
        return self.custom is None or self.custom.registers == "dynamo"

    @property
    def direct_port(self) -> int | None:
        """Give the port at which the gateway asks it; None: requests come through frontends."""
        return None if self.custom is None or self.registers else self.custom.port


def _check_words(key: str, command: tuple[str, ...]) -> None:
    """Refuse what is not a plain known name in braces.

    Formats and conversions could be errors when rendered, or fill the memory. The text
    around the braces is not repeated: it may hold what should not be in a log.
    """
    known = f"Use one of {', '.join(sorted(COMMAND_WORDS))}; write {{{{ and }}}} for braces"
    for index, part in enumerate(command):
        where = f"{key}[{index}]"
        try:
            parsed = list(string.Formatter().parse(part))
        except ValueError as error:
            raise refuse(f"{where}: {error}", "Write {{ and }} for braces") from error
        for _, word, layout, conversion in parsed:
            if word is None:
                continue
            if word not in COMMAND_WORDS:
                raise refuse(f"{where}: {{{found_text(word)[1:-1]}}} is not known", known)
            if layout or conversion:
                what = f"{where}: {{{word}}} is used with a format or a conversion"
                raise refuse(what, f"Write {{{word}}} alone")
