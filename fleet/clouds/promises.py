"""Read what each cloud can and cannot promise, without any cloud's SDK.

The table is data (promises.yaml): one entry per thing that an operator counts on,
with a line for every cloud, so that clouds can be compared and none leaves one out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from fleet.clouds import Cloud
from fleet.schema import FileModel, Text

FILE = Path(__file__).with_name("promises.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One thing that an operator counts on, and whether a cloud keeps it."""

    what: str
    kept: bool
    instead: str  # what holds it up here, or what to do because it is not kept
    unverified: bool = False  # read in public texts or an SDK, and not seen on a rack


class _Word(FileModel):
    """What one cloud says."""

    kept: bool
    how: Text
    unverified: bool = False


class _Topic(FileModel):
    """One thing that an operator counts on."""

    what: Text
    existing: _Word
    aws: _Word
    gcp: _Word
    oci: _Word
    azure: _Word
    coreweave: _Word
    nebius: _Word


def promises_of(cloud: Cloud) -> tuple[Promise, ...]:
    """Give a cloud's promises, in the same order for all clouds."""
    words = [(topic.what, getattr(topic, cloud)) for topic in _topics()]
    return tuple(
        Promise(what=what, kept=word.kept, instead=word.how, unverified=word.unverified)
        for what, word in words
    )


@cache
def _topics() -> tuple[_Topic, ...]:
    return TypeAdapter(tuple[_Topic, ...]).validate_python(
        yaml.safe_load(FILE.read_text(encoding="utf-8"))
    )
