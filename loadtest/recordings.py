"""Read recorded agent sessions: the JSON of kv-cache-tester.

A recording holds times, lengths and the ids of each prompt's blocks, no text. Ids are comparable
inside one file only; a sub-agent shares those of its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleet.errors import ConfigError, Problem

_MAX_FILE_BYTES = 256 * 1024 * 1024  # the largest public recording has 6 MB
_MAX_FILES = 10_000
_MAX_PROMPT_TOKENS = 16_777_216  # 16 times the longest context there is
_MAX_BLOCKS = _MAX_PROMPT_TOKENS  # a block holds a token at least

_Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_TokenCount = Annotated[int, Field(ge=0, le=100_000_000)]


class _Recorded(BaseModel):
    """Base of the recorded objects: other tools add keys, so unknown ones are let through."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Call(_Recorded):
    """Hold one recorded call of the model."""

    t: _Seconds
    input_tokens: _TokenCount = Field(alias="in")
    output_tokens: _TokenCount = Field(alias="out")
    hash_ids: list[int] = Field(max_length=_MAX_BLOCKS)
    api_time: _Seconds = 0.0
    input_types: list[str] = []


class _Head(_Recorded):
    id: str = Field(min_length=1, max_length=200)
    block_size: int = Field(ge=1, le=65_536)
    tool_tokens: _TokenCount = 0
    system_tokens: _TokenCount = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Hold one recorded session: its calls by time, each with its agent ("" = the parent)."""

    name: str
    block_size: int
    system_ids: tuple[int, ...]
    """Blocks of tools and system prompt, which every play of the recording shares."""
    calls: tuple[tuple[str, Call], ...]


def load_traces(path: Path) -> list[Trace]:
    """Read one recording, or all of a directory in order of name.

    Raises ConfigError that names the file and the place in it.
    """
    if not path.is_dir():
        return [_load(path)]
    files = sorted(path.glob("*.json"))[:_MAX_FILES]
    if not files:
        raise _refusal(path, "", "the folder holds no .json file")
    return [_load(file) for file in files]


def _load(path: Path) -> Trace:
    try:
        if not path.is_file() and path.exists():
            raise _refusal(path, "", "is not a regular file")
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise _refusal(path, "", f"the file is larger than {_MAX_FILE_BYTES >> 20} MiB")
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise _refusal(path, "", f"cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise _refusal(path, "", f"invalid JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refusal(path, "", "the top of the file is no JSON object")
    head = _valid(_Head, document, path, "")
    calls = sorted(_calls(document, path, head.block_size), key=lambda item: item[1].t)
    parents = [call for agent, call in calls if not agent]
    if not parents:
        raise _refusal(path, "requests", "holds no call of the model")
    shared = (head.tool_tokens + head.system_tokens) // head.block_size
    return Trace(
        name=head.id,
        block_size=head.block_size,
        system_ids=tuple(parents[0].hash_ids[:shared]),
        calls=tuple(calls),
    )


def _calls(owner: dict[str, Any], path: Path, block_size: int) -> Iterator[tuple[str, Call]]:
    """Flatten parent and sub-agents; a sub-agent's times count from its own start."""
    for index, request in enumerate(_requests(owner, path, "requests")):
        place = f"requests[{index}]"
        if request.get("type") != "subagent":
            yield "", _call(request, path, place, block_size)
            continue
        start = _valid(_Start, request, path, place).t
        nested = _requests(request, path, f"{place}.requests")
        for number, item in enumerate(nested):
            call = _call(item, path, f"{place}.requests[{number}]", block_size)
            yield str(index), call.model_copy(update={"t": start + call.t})


class _Start(_Recorded):
    t: _Seconds


def _call(request: dict[str, Any], path: Path, place: str, block_size: int) -> Call:
    call = _valid(Call, request, path, place)
    if len(call.hash_ids) * block_size > _MAX_PROMPT_TOKENS:
        raise _refusal(path, f"{place}.hash_ids", f"more than {_MAX_PROMPT_TOKENS} tokens")
    return call


def _requests(owner: dict[str, Any], path: Path, place: str) -> list[dict[str, Any]]:
    requests = owner.get("requests")
    if not isinstance(requests, list) or not all(isinstance(item, dict) for item in requests):
        raise _refusal(path, place, "is no list of objects")
    return requests


_ModelT = TypeVar("_ModelT", bound=BaseModel)


def _valid(model: type[_ModelT], data: dict[str, Any], path: Path, place: str) -> _ModelT:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field_path = ".".join(str(part) for part in (place, *first["loc"]) if part != "")
        raise _refusal(path, field_path, first["msg"]) from error


def _refusal(path: Path, place: str, what: str) -> ConfigError:
    fix = "Give a recording of kv-cache-tester, or a folder of them"
    return ConfigError.of([Problem(file=str(path), line=None, path=place, what=what, fix=fix)])
