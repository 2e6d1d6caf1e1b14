"""Train a small tokenizer that has K3's split pattern and control tokens, from any text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from fleet.k3_tokens import SPLIT_PATTERN, added_tokens


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
