"""Claims about converting `tiktoken.model`: it counts like tiktoken, and faults are named."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from fleet.errors import ConfigError
from fleet.k3_tokens import CONTROL_TOKENS, SPLIT_PATTERN, added_tokens
from fleet.tokenizer_file import MAX_BYTES, build_tokenizer_json, read_ranks

KIMI = Path(__file__).parents[3] / "shared/data/kimi-tokenizer"
needs_kimi = pytest.mark.skipif(not KIMI.is_dir(), reason=f"K3's tokenizer is not in {KIMI}")
BASE = 256


def model_file(*extra: bytes, drop: int | None = None) -> bytes:
    """Write the 256 bytes and some tokens behind them, without one of them if asked."""
    tokens = [bytes([byte]) for byte in range(BASE)] + list(extra)
    lines = [b"%s %d" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)]
    return b"\n".join(line for rank, line in enumerate(lines) if rank != drop) + b"\n"


def config_file(changes: dict[str, Any] | None = None, *, base: int = BASE) -> bytes:
    """Write a tokenizer_config.json with K3's control tokens, some changed (None: left out)."""
    entries: dict[str, Any] = {
        str(base + token.offset): {"content": token.text, "special": token.special}
        for token in CONTROL_TOKENS
    } | (changes or {})
    kept = {key: entry for key, entry in entries.items() if entry is not None}
    return json.dumps({"added_tokens_decoder": kept}).encode()


def runs(chance: random.Random) -> Iterator[str]:
    for char in "a=-/#.0 Aé中\N{FIRE}_\t\n\r":
        for count in (2, 3, 7, 16, 33, 64, 127, 1000):
            yield char * count
            yield f"x{char * count}y{char * chance.randrange(1, 9)}"


def code(chance: random.Random) -> Iterator[str]:
    folder = Path(sysconfig.get_path("stdlib"))
    for file in sorted(folder.glob("*.py")):
        text = file.read_text(errors="replace")
        for _ in range(5):
            start = chance.randrange(max(1, len(text)))
            yield text[start : start + chance.choice((20, 200, 1000, 3000))]


def mixed(chance: random.Random) -> Iterator[str]:
    """Mix scripts, marks, spaces, digits, contractions and letters that fold into others."""
    ranges = ((0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF))
    ranges += ((0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF))
    ranges += ((0x2000, 0x2BFF), (0x3040, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3))
    ranges += ((0x1D400, 0x1D7FF), (0x1F300, 0x1F6FF), (0xE000, 0xE0FF), (0xFFF0, 0xFFFF))
    words = (
        "'s",
        "'LL",
        "'\u017f",
        "123",
        "1234567",
        "\uff0c",
        "  ",
        " \n",
        "\r\n\r\n",
        "\u3000",
        "\u200d",
    )
    words += ("\N{WAVING WHITE FLAG}\ufe0f\u200d\N{RAINBOW}", "e\u0301", "\x00", "don't", "I'Ve")
    for _ in range(1500):
        parts = []
        for _ in range(chance.randrange(1, 14)):
            low, high = chance.choice(ranges)
            parts.append(
                "".join(chr(chance.randrange(low, high)) for _ in range(chance.randrange(1, 9)))
            )
            parts.append(chance.choice(words) if chance.random() < 0.5 else "")
        yield "".join(parts)


def bytes_as_text(chance: random.Random) -> Iterator[str]:
    for _ in range(200):
        yield chance.randbytes(chance.randrange(1, 300)).decode("utf-8", "replace")
        yield base64.b64encode(chance.randbytes(chance.randrange(1, 300))).decode()
        yield json.dumps({chance.randbytes(3).hex(): chance.random() for _ in range(9)}, indent=2)


def corpus() -> list[str]:
    chance = random.Random(20261129)  # noqa: S311
    return ["", *runs(chance), *code(chance), *mixed(chance), *bytes_as_text(chance)]


@pytest.fixture(scope="session")
def oracle() -> tiktoken.Encoding:
    ranks = read_ranks((KIMI / "tiktoken.model").read_bytes())
    names = {slot["content"]: slot["id"] for slot in added_tokens(len(ranks))}
    return tiktoken.Encoding(
        "k3", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens=names
    )


@pytest.fixture(scope="session")
def converted() -> Tokenizer:
    config = (KIMI / "tokenizer_config.json").read_bytes()
    made = build_tokenizer_json((KIMI / "tiktoken.model").read_bytes(), config)
    return Tokenizer.from_str(made.decode())


@needs_kimi
def test_ids_are_tiktokens_on_thousands_of_strings(
    oracle: tiktoken.Encoding, converted: Tokenizer
) -> None:
    """One id off is another prompt, and a prefix hash that no engine has cached."""
    texts = corpus()
    assert len(texts) >= 2000
    found = converted.encode_batch(texts, add_special_tokens=False)
    wanted = oracle.encode_batch(texts, allowed_special="all", num_threads=1)
    wrong = [text for text, got, want in zip(texts, found, wanted, strict=True) if got.ids != want]
    assert wrong == []


@needs_kimi
def test_control_tokens_amid_text_are_tiktokens(
    oracle: tiktoken.Encoding, converted: Tokenizer
) -> None:
    """A tag beside text, half a tag, a reserved slot: each has one right reading."""
    chance = random.Random(7)  # noqa: S311
    names = [token.text for token in CONTROL_TOKENS] + ["<|reserved_token_163592|>"]
    filler = ["hello", " world", "\n", "中文", "<|", "|>", "<|open", ">", "'s", "  ", "[BOS"]
    texts = [
        "".join(chance.choice(chance.choice((names, filler))) for _ in range(9)) for _ in range(500)
    ]
    found = [converted.encode(text, add_special_tokens=False).ids for text in texts]
    assert found == [oracle.encode(text, allowed_special="all") for text in texts]


@needs_kimi
@settings(max_examples=500)
@given(text=st.text(st.characters(codec="utf-8"), max_size=300))
def test_ids_are_tiktokens_on_any_text(
    oracle: tiktoken.Encoding, converted: Tokenizer, text: str
) -> None:
    """Nobody chooses what users paste."""
    found = converted.encode(text, add_special_tokens=False).ids
    assert found == oracle.encode(text, allowed_special="all")


@needs_kimi
def test_the_same_vocabulary_gives_the_same_bytes() -> None:
    """Every region makes its own file, and the manifest has one hash for it."""
    content = (KIMI / "tiktoken.model").read_bytes()
    with_config = build_tokenizer_json(content, (KIMI / "tokenizer_config.json").read_bytes())
    assert with_config == build_tokenizer_json(content)
    assert hashlib.sha256(with_config).hexdigest() in (KIMI / "README.md").read_text()


def test_a_small_vocabulary_counts_like_tiktoken() -> None:
    """Lowest rank first wherever it stands, and whole pieces before merges, without K3's data."""
    content = model_file(b"bc", b"ab", b"abc", b"cd", b" a", b"aa", b"aaaa", b"\xe4\xb8")
    ranks = read_ranks(content)
    oracle = tiktoken.Encoding("t", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={})
    made = Tokenizer.from_str(build_tokenizer_json(content).decode())
    for text in ("abcd", "xbcx abca", "aaaaaaa", "abcdabcd aab", "中文 ab"):
        assert made.encode(text, add_special_tokens=False).ids == oracle.encode(text)


def line_of(token: bytes, rank: int) -> bytes:
    return b"%s %d\n" % (base64.b64encode(token), rank)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (model_file() + b"!!!! 256\n", ":257: its token is not base64"),
        (model_file() + b"YWI=\n", ":257: is not a base64 token and a rank"),
        (model_file() + b"YWI= -1\n", ":257: is not a base64 token and a rank"),
        (model_file() + b"YWI= 25\xc2\xb2\n", ":257: is not a base64 token and a rank"),
        (model_file() + b"YWI= " + b"9" * 5000, ":257: is not a base64 token and a rank"),
        (model_file(b"ab") + line_of(b"ab", 257), ":258: is the same token as line 257"),
        (model_file(b"ab") + line_of(b"cd", 256), ":258: rank 256 is that of line 257 too"),
        (model_file(b"ab") + line_of(b"cd", 999), "has 258 tokens, but none of rank 257"),
        (model_file(b"ab", drop=0), "none of rank 0"),
        (line_of(b"a", 0), "has no token for 255 of the 256 bytes, the first is 0x00"),
        (b"", "has no token for 256 of the 256 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\n", ":1: is not a base64 token"),
        (model_file(b"x" * 1025), ":257: its token has 1025 bytes, 1024 are allowed"),
        (b"=" * (MAX_BYTES + 1), f"has {MAX_BYTES + 1} bytes, {MAX_BYTES} are allowed"),
    ],
    ids=range(14),
)
def test_a_damaged_vocabulary_is_named_by_its_fault(content: bytes, message: str) -> None:
    """A file cut short or edited would move ids, and answers would be garbage without an error."""
    with pytest.raises(ConfigError) as raised:
        build_tokenizer_json(content, where="/k3")
    assert str(raised.value).startswith("/k3/tiktoken.model:")
    assert message in str(raised.value)


K2_END = {"258": {"content": "<|im_end|>", "special": True}}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"{", "tokenizer_config.json: is no JSON"),
        (b"[" * 100_000, "tokenizer_config.json: is no JSON"),
        (b"[]", "added_tokens_decoder: names no control token"),
        (b'{"added_tokens_decoder": {}}', "added_tokens_decoder: names no control token"),
        (b'{"added_tokens_decoder": {"x": {}}}', "'x' is no id with a content"),
        (b'{"added_tokens_decoder": {"256": []}}', "'256' is no id with a content"),
        (config_file(base=300), "the vocabulary has 256 tokens"),
        (config_file(K2_END), "258: is '<|im_end|>' with special true; K3 has '<|end_of_msg|>'"),
        (
            config_file({"259": {"content": "<|open|>", "special": True}}),
            "259: is '<|open|>' with special true; K3 has '<|open|>' with false",
        ),
        (config_file({"260": None}), "260: is 'nothing' with special true; K3 has '<|close|>'"),
        (config_file({"400": {"content": "[BOS]"}}), "400: '[BOS]' is token 256 too"),
    ],
    ids=range(11),
)
def test_a_foreign_configuration_is_refused(config: bytes, message: str) -> None:
    """K2's configuration goes with the same vocabulary, and gives K3 the wrong control tokens."""
    with pytest.raises(ConfigError) as raised:
        build_tokenizer_json(model_file(), config, where="/k3")
    assert str(raised.value).startswith("/k3/tokenizer_config.json: ")
    assert message in str(raised.value)
