"""Make a K3 `tokenizer.json`: from K3's own `tiktoken.model`, or a small one from scratch.

Dynamo's fast tokenizers read this format only, and the default one answers every
K3 chat with an error.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from lab.k3_tokens import SPLIT_PATTERN, added_tokens

_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": False,
}


def train(texts: Iterable[str], *, vocabulary: int) -> dict[str, Any]:
    """Train a byte-level BPE with K3's split pattern, and append K3's control tokens."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    trained: dict[str, Any] = json.loads(tokenizer.to_str())
    trained["added_tokens"] = added_tokens(len(trained["model"]["vocab"]))
    return trained


def read_tiktoken(content: bytes) -> dict[bytes, int]:
    """Read a tiktoken rank file; raise ValueError when it is none."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ValueError(f"line {number} is not a base64 token and a rank") from error
    if sorted(ranks.values()) != list(range(len(ranks))) or len(ranks) < 256:
        raise ValueError("its ranks are not 0, 1, 2 …")
    return ranks


def convert(ranks: Mapping[bytes, int]) -> dict[str, Any]:
    """Turn tiktoken ranks into a `tokenizer.json` that gives the same ids.

    tiktoken joins any two neighbours whose concatenation is a token, lowest rank
    first; a BPE here joins listed pairs only, in their order. So every split of
    every token into two tokens is listed, by the rank of the whole.
    `ignore_merges` is tiktoken's rule that a piece which is a token stays whole.
    """
    show = _byte_names()
    ordered = sorted(ranks, key=ranks.__getitem__)
    names = {token: "".join(show[byte] for byte in token) for token in ordered}
    merges = [
        [names[left], names[right]] for token in ordered for left, right in _splits(token, ranks)
    ]
    split = {
        "type": "Split",
        "pattern": {"Regex": SPLIT_PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(len(ranks)),
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, _BYTE_LEVEL]},
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {names[token]: ranks[token] for token in ordered},
            "merges": merges,
        },
    }


def _splits(token: bytes, ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """List the ways to cut a token into two tokens, lowest ranks first."""
    cuts = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
    pairs = [(left, right) for left, right in cuts if left in ranks and right in ranks]
    return sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def _byte_names() -> dict[int, str]:
    """Map each byte to the printable character that stands for it in BPE files.

    The printable bytes of Latin-1 stand for themselves, the others for the
    characters from U+0100 on (GPT-2's convention, which all such files follow).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(0x100 + index) for index, byte in enumerate(others)
    }


def dump(tokenizer: Mapping[str, Any]) -> str:
    """Write a tokenizer as the one text that its content always gives."""
    return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
