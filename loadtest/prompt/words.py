"""Make deterministic pseudo-text whose token count is known before it is sent.

Text is a run of words that the model's tokenizer holds as one token each, so n words are n tokens
by construction: no tokenizer runs during the test, and the cache oracle knows every token id.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from fleet.errors import ConfigError

TOKEN_BYTES = 4
"""Width of one token id in `Text.tokens`: little-endian unsigned 32 bit."""

_SLICE = 32_768  # words handled between two breaths: about a millisecond
_WORD = re.compile("Ġ[a-z]{3,}")  # Ġ is how byte-level BPE writes the leading space
_FEWEST_WORDS = 256

Breathe = Callable[[], None]
"""Called every millisecond or so of long work, so that others get their turn."""


class Text:
    """Pair a string with the token ids that it encodes to.

    Text of a vocabulary is held as its words' numbers, two bytes each; bytes and token ids are
    made when asked for and not kept.
    """

    __slots__ = ("_held", "_tokens", "_vocabulary")

    def __init__(self, text: str, tokens: bytes) -> None:
        self._held = orjson.dumps(text)[1:-1]
        self._tokens = tokens
        self._vocabulary: Vocabulary | None = None

    @classmethod
    def of_words(cls, vocabulary: Vocabulary, numbers: bytes) -> Text:
        """Make a text of a vocabulary's words, by their packed numbers."""
        text = cls("", b"")
        text._vocabulary, text._held = vocabulary, numbers
        return text

    @property
    def data(self) -> bytes:
        """Give the text as it stands between the quotes of a JSON string."""
        return b"".join(self.parts)

    @property
    def parts(self) -> list[bytes]:
        """Give that in pieces, so that who joins them with more copies megabytes only once."""
        return [self._held] if self._vocabulary is None else self._vocabulary.write(self._held)

    @classmethod
    def counted(cls, text: str, count: int) -> Text:
        """Make a text of which only the number of tokens is known; its ids are made up."""
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=TOKEN_BYTES).digest()
        return cls(text, digest * count)

    @property
    def is_empty(self) -> bool:
        """Tell whether it has no characters, whatever it counts."""
        return not self._held

    @property
    def text(self) -> str:
        """Give the text."""
        value: str = orjson.loads(b'"%b"' % self.data)
        return value

    @property
    def tokens(self) -> bytes:
        """Give the packed token ids."""
        return self._tokens if self._vocabulary is None else self._vocabulary.encode(self._held)

    def __len__(self) -> int:
        """Count the tokens."""
        if self._vocabulary is None:
            return len(self._tokens) // TOKEN_BYTES
        return len(self._held) // self._vocabulary.number_bytes

    def __eq__(self, other: object) -> bool:
        """Tell whether it is the same text."""
        if not isinstance(other, Text):
            return NotImplemented
        if self._vocabulary is other._vocabulary:
            return self._held == other._held
        return len(self) == len(other) and self.data == other.data

    def __hash__(self) -> int:
        """Hash the text."""
        return hash(self.data)

    def __repr__(self) -> str:
        """Show the beginning."""
        return f"Text({self.data[:40]!r}, {len(self)} tokens)"


EMPTY = Text("", b"")


class Vocabulary:
    """Draw text from the one-token words of a tokenizer."""

    def __init__(self, words: Sequence[str], ids: Sequence[int]) -> None:
        spelled = [b" " + word.encode("ascii") for word in words]
        self._lengths = np.array([len(word) for word in spelled], dtype=np.uint8)
        self._width = max(map(len, spelled))
        padded = b"".join([word.ljust(self._width) for word in spelled])
        self._spelling = np.frombuffer(padded, dtype=np.uint8).reshape(len(spelled), self._width)
        self._ids = np.asarray(ids, dtype="<u4")
        self._number = np.dtype("<u2" if len(words) <= 1 << 16 else "<u4")
        self.breathe: Breathe = lambda: None

    def __len__(self) -> int:
        """Count the words."""
        return len(self._ids)

    @property
    def number_bytes(self) -> int:
        """Give the width of a word's number in `Text`."""
        return self._number.itemsize

    def draw(self, rng: random.Random, count: int) -> Text:
        """Draw `count` words, all from `rng`, so the same seed gives the same text."""
        if count <= 0:
            return EMPTY
        words = np.empty(count, dtype=self._number)
        for start in range(0, count, _SLICE):
            if start:
                self.breathe()
            end = min(count, start + _SLICE)
            noise = np.frombuffer(rng.randbytes((end - start) * TOKEN_BYTES), dtype="<u4")
            words[start:end] = noise % len(self)
        return Text.of_words(self, words.tobytes())

    def text(self, noise: NDArray[np.uint64]) -> Text:
        """Turn noise into words, one each."""
        if not noise.size:
            return EMPTY
        return Text.of_words(self, (noise % np.uint64(len(self))).astype(self._number).tobytes())

    def write(self, numbers: bytes) -> list[bytes]:
        """Spell words, each with the space before it; give the text in pieces."""
        words = np.frombuffer(numbers, dtype=self._number)
        places = np.arange(self._width, dtype=np.uint8)
        parts: list[bytes] = []
        for start in range(0, len(words), _SLICE):
            if start:
                self.breathe()
            chosen = words[start : start + _SLICE]
            letters = places[None, :] < self._lengths[chosen][:, None]
            parts.append(self._spelling[chosen][letters].tobytes())
        return parts

    def encode(self, numbers: bytes) -> bytes:
        """Give the packed token ids of words."""
        words = np.frombuffer(numbers, dtype=self._number)
        parts: list[bytes] = []
        for start in range(0, len(words), _SLICE):
            if start:
                self.breathe()
            parts.append(self._ids[words[start : start + _SLICE]].tobytes())
        return b"".join(parts)

    def rows(
        self, noise: NDArray[np.uint64], counts: Sequence[int]
    ) -> tuple[list[str], list[bytes]]:
        """Turn each row of noise into its `counts` words: texts, and packed token ids."""
        made = [self.text(row[:count]) for row, count in zip(noise, counts, strict=True)]
        return [text.text for text in made], [text.tokens for text in made]


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
