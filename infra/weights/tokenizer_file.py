"""Put a `tokenizer.json` beside a `tiktoken.model`, after it has counted like it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from fleet.errors import ConfigError, FleetError
from fleet.tokenizer_file import MAX_BYTES, TIKTOKEN, TOKENIZER_CONFIG, build_tokenizer_json

TOKENIZER = "tokenizer.json"
# Byte level, split pattern and merges each fail on one of these; what tiktoken says of thousands
# of strings is held against the conversion in its tests.
_CANARIES = (
    "def f(x):\n\treturn x  # 123456",
    "世界\uff0c你好",
    "it's   \r\n\r\n",
    "\N{FIRE}\x00é",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was made of a folder's vocabulary."""

    content: bytes
    tokens: int  # with the control tokens
    written: bool  # False: it was there already


def write_tokenizer(folder: Path, *, force: bool) -> Made:
    """Convert a folder's vocabulary and write the result beside it, whole or not at all.

    Raises ConfigError for a bad vocabulary, and for a file with other content unless `force`.
    """
    config = folder / TOKENIZER_CONFIG
    content = build_tokenizer_json(
        _read(folder / TIKTOKEN), _read(config) if config.exists() else None, where=str(folder)
    )
    tokens = _tried(content, folder)
    target = folder / TOKENIZER
    if target.exists():
        if _read(target) == content:
            return Made(content=content, tokens=tokens, written=False)
        if not force:
            raise ConfigError(
                f"{target}: is there, with other content than {TIKTOKEN} gives. "
                "Move it away, or give --force to replace it."
            )
    _write(target, content)
    return Made(content=content, tokens=tokens, written=True)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)  # one more, so that too large is seen
    except OSError as error:
        raise ConfigError(
            f"{file}: {error.strerror}. Give the folder of a K3 checkpoint."
        ) from error


def _tried(content: bytes, folder: Path) -> int:
    """Load the result with the library that reads it, and see that text survives it."""
    tokenizer = Tokenizer.from_str(content.decode())
    for text in _CANARIES:
        back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids)
        if back != text:
            raise ConfigError(
                f"{folder / TIKTOKEN}: its tokens give {back!r} for {text!r}. "
                "It is not the vocabulary of a model of K3's family."
            )
    return tokenizer.get_vocab_size()


def _write(target: Path, content: bytes) -> None:
    try:
        descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(0o644)
            Path(draft).replace(target)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FleetError(
            f"{target}: cannot write: {error.strerror}. Free space, or give another folder."
        ) from error
