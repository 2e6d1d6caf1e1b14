"""Claims about the pseudo-text."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from fleet.errors import ConfigError
from loadtest.prompt.words import TOKEN_BYTES, Vocabulary, read_vocabulary
from loadtest.traffic.sessions import Seeds


def rng(seed: int) -> random.Random:
    return Seeds(seed=seed, salt="").lengths()


def test_a_text_has_as_many_words_as_tokens(vocabulary: Vocabulary) -> None:
    """The point of it: the length is known without a tokenizer."""
    text = vocabulary.draw(rng(1), 50)
    assert (len(text), len(text.text.split(" ")) - 1) == (50, 50)


def test_the_same_seed_gives_the_same_text(vocabulary: Vocabulary) -> None:
    """A run can be repeated."""
    assert vocabulary.draw(rng(3), 9) == vocabulary.draw(rng(3), 9)


def test_no_words_make_an_empty_text(vocabulary: Vocabulary) -> None:
    """Scaling may leave nothing of a length."""
    assert vocabulary.draw(rng(1), 0).text == ""


def test_only_whole_lower_case_words_are_used(vocabulary: Vocabulary) -> None:
    """Pieces, digits and capitals would join or split at their neighbours."""
    assert len(vocabulary) == 26 * 26


def test_the_token_ids_are_those_of_a_real_tokenizer(tmp_path: Path) -> None:
    """Prompt lengths and cache blocks stand on this."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    lines = [f" {a}{b}{c}ord" * 3 for a in "bcdfgh" for b in "aeiou" for c in "lmnprstvw"] * 2
    trainer = trainers.BpeTrainer(vocab_size=3000, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    text = read_vocabulary(tmp_path).draw(rng(1), 500)
    packed = b"".join(
        id_.to_bytes(TOKEN_BYTES, "little") for id_ in tokenizer.encode(text.text).ids
    )
    assert packed == text.tokens


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "No such file"),
        ("{", "tokenizer.json"),
        ("[]", "is no table"),
        (json.dumps({"model": {"vocab": {"Ġword": 1}}}), "1 plain words"),
    ],
)
def test_a_useless_tokenizer_is_refused(tmp_path: Path, content: str | None, what: str) -> None:
    """The message names the file and what is wrong with it."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=what):
        read_vocabulary(tmp_path)
