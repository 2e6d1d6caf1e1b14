"""Make deterministic pseudo-text whose token count is known before it is sent.

Text is a run of words that the model's tokenizer holds as one token each, so n words are n tokens
by construction: no tokenizer runs during the test, and the cache oracle knows every token id.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from fleet.errors import ConfigError

TOKEN_BYTES = 4
"""Width of one token id in `Text.tokens`: little-endian unsigned 32 bit."""

_WORD = re.compile("Ġ[a-z]{3,}")  # Ġ is how byte-level BPE writes the leading space
_FEWEST_WORDS = 256


@dataclass(frozen=True, slots=True)
class Text:
    """Pair a string with the token ids that it encodes to."""

    text: str
    tokens: bytes

    def __len__(self) -> int:
        """Count the tokens."""
        return len(self.tokens) // TOKEN_BYTES


EMPTY = Text("", b"")


class Vocabulary:
    """Draw text from the one-token words of a tokenizer."""

    def __init__(self, words: Sequence[str], ids: Sequence[int]) -> None:
        self._words = [" " + word for word in words]
        self._ids = np.asarray(ids, dtype="<u4")

    def __len__(self) -> int:
        """Count the words."""
        return len(self._words)

    def draw(self, rng: random.Random, count: int) -> Text:
        """Draw `count` words, all from `rng`, so the same seed gives the same text."""
        if count <= 0:
            return EMPTY
        drawn = np.frombuffer(rng.randbytes(count * TOKEN_BYTES), dtype="<u4") % len(self._words)
        words = self._words
        return Text("".join([words[i] for i in drawn.tolist()]), self._ids[drawn].tobytes())

    def rows(
        self, noise: NDArray[np.uint64], counts: Sequence[int]
    ) -> tuple[list[str], list[bytes]]:
        """Turn each row of noise into its `counts` words: texts, and packed token ids."""
        words, drawn = self._words, noise % np.uint64(len(self._words))
        width = noise.shape[1] * TOKEN_BYTES
        packed = self._ids[drawn].tobytes()
        texts = [
            "".join([words[i] for i in row[:count]])
            for row, count in zip(drawn.tolist(), counts, strict=True)
        ]
        tokens = [
            packed[index * width : index * width + count * TOKEN_BYTES]
            for index, count in enumerate(counts)
        ]
        return texts, tokens


def read_vocabulary(tokenizer_dir: Path) -> Vocabulary:
    """Read the one-token words of `tokenizer.json` in a model directory.

    Raises ConfigError when the file is absent, is no byte-level BPE or has too few words.
    """
    path = tokenizer_dir / "tokenizer.json"
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}. Give a model directory that holds a tokenizer.json."
        ) from error
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}: {error}. Give a valid tokenizer.json.") from error
    model = document.get("model") if isinstance(document, dict) else None
    entries = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(entries, dict):
        raise ConfigError(f"{path}: model.vocab: is no table. Give a BPE tokenizer.json.")
    pairs = sorted((token, id_) for token, id_ in entries.items() if _WORD.fullmatch(token))
    if len(pairs) < _FEWEST_WORDS:
        raise ConfigError(
            f"{path}: model.vocab: {len(pairs)} plain words, {_FEWEST_WORDS} needed. "
            "Give a byte-level BPE vocabulary that was trained on more text."
        )
    return Vocabulary([token[1:] for token, _ in pairs], [id_ for _, id_ in pairs])
