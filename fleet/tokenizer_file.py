"""Turn K3's `tiktoken.model` into the `tokenizer.json` that fast tokenizers read.

Dynamo's fast tokenizers read this format only, and the default one answers every
K3 chat with an error. The same bytes in give the same bytes out, on any machine.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.errors import ConfigError
from fleet.k3_tokens import (
    CONTROL_TOKENS,
    SPECIAL_SLOTS,
    SPLIT_PATTERN,
    added_tokens,
    slots,
)
from fleet.schema import found_text

TIKTOKEN = "tiktoken.model"
TOKENIZER_CONFIG = "tokenizer_config.json"
# K3's file has 2.8 MB, 163,584 tokens and none above 256 bytes. Far beyond, a file is no
# vocabulary, and cutting each token everywhere would take minutes or the machine's memory.
MAX_BYTES = 64 * 2**20
MAX_TOKEN_BYTES = 1024
MAX_CONFIG_BYTES = 16 * 2**20
BYTES = 256  # the least vocabulary: any text is spelled out in them
_RANK = re.compile(rb"[0-9]{1,9}")
_FETCH = "Fetch the file again, from the revision that is served"
_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": False,
}


def build_tokenizer_json(
    tiktoken_model: bytes, config: bytes | None = None, *, where: str = "."
) -> bytes:
    """Convert a vocabulary; `config` is the `tokenizer_config.json` beside it.

    Without one the control tokens are K3's. Raises ConfigError, which names the file
    in folder `where` and its line, for what is no vocabulary or no configuration.
    """
    ranks = read_ranks(tiktoken_model, where=f"{where}/{TIKTOKEN}")
    tokenizer = convert(ranks)
    if config is not None:
        names = _named_slots(config, len(ranks), where=f"{where}/{TOKENIZER_CONFIG}")
        tokenizer["added_tokens"] = slots(len(ranks), names)
    return dump(tokenizer).encode()


def read_ranks(content: bytes, *, where: str = TIKTOKEN) -> dict[bytes, int]:
    """Read a tiktoken rank file; raise ConfigError with the line when it is none."""
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{where}: has {len(content)} bytes, {MAX_BYTES} are allowed. {_FETCH}.")
    ranks: dict[bytes, int] = {}
    lines: dict[int, int] = {}  # rank -> the line it is on
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        at = f"{where}:{number}"
        token, rank = _read_line(line, at)
        if token in ranks:
            first = lines[ranks[token]]
            raise ConfigError(f"{at}: is the same token as line {first}. {_FETCH}.")
        if rank in lines:
            raise ConfigError(f"{at}: rank {rank} is that of line {lines[rank]} too. {_FETCH}.")
        ranks[token] = rank
        lines[rank] = number
    _check_whole(ranks, lines, where)
    return ranks


def _read_line(line: bytes, at: str) -> tuple[bytes, int]:
    words = line.split()
    if len(words) != 2 or not _RANK.fullmatch(words[1]):
        raise ConfigError(f"{at}: is not a base64 token and a rank. {_FETCH}.")
    try:
        token = base64.b64decode(words[0], validate=True)
    except (ValueError, binascii.Error) as error:
        raise ConfigError(f"{at}: its token is not base64. {_FETCH}.") from error
    if not token:
        raise ConfigError(f"{at}: its token is empty. {_FETCH}.")
    if len(token) > MAX_TOKEN_BYTES:
        raise ConfigError(
            f"{at}: its token has {len(token)} bytes, {MAX_TOKEN_BYTES} are allowed. {_FETCH}."
        )
    return token, int(words[1])


def _check_whole(ranks: Mapping[bytes, int], lines: Mapping[int, int], where: str) -> None:
    """Refuse gaps, which would move every id behind them, and bytes that cannot be spelled."""
    missing = next((rank for rank in range(len(ranks)) if rank not in lines), None)
    if missing is not None:
        raise ConfigError(
            f"{where}: has {len(ranks)} tokens, but none of rank {missing}. {_FETCH}."
        )
    lost = [byte for byte in range(BYTES) if bytes([byte]) not in ranks]
    if lost:
        raise ConfigError(
            f"{where}: has no token for {len(lost)} of the 256 bytes, the first is "
            f"0x{lost[0]:02x}. {_FETCH}."
        )


def _named_slots(config: bytes, base: int, *, where: str) -> dict[int, tuple[str, bool]]:
    """Read text and `special` of the control tokens by their offset behind the vocabulary."""
    named: dict[int, tuple[str, bool]] = {}
    taken: dict[str, int] = {}
    for token, text, special in _decoder_entries(config, where):
        at = f"{where}: added_tokens_decoder.{token}"
        if not 0 <= token - base < SPECIAL_SLOTS:
            raise ConfigError(
                f"{at}: the vocabulary has {base} tokens, so control tokens are "
                f"{base} to {base + SPECIAL_SLOTS - 1}. Take both files from one revision."
            )
        if text in taken:
            raise ConfigError(f"{at}: {text!r} is token {taken[text]} too. {_FETCH}.")
        taken[text] = token
        named[token - base] = (text, special)
    _check_parsed_tokens(named, base, where)
    return named


def _check_parsed_tokens(named: Mapping[int, tuple[str, bool]], base: int, where: str) -> None:
    """Refuse another model's names: K2 has the same vocabulary, and other ones at these ids."""
    for token in CONTROL_TOKENS:
        if token.key is None or named.get(token.offset) == (token.text, token.special):
            continue
        text, special = named.get(token.offset, ("nothing", True))
        raise ConfigError(
            f"{where}: added_tokens_decoder.{base + token.offset}: is {text!r} with special "
            f"{str(special).lower()}; K3 has {token.text!r} with {str(token.special).lower()}. "
            "Take the file from K3's own repository."
        )


def _decoder_entries(config: bytes, where: str) -> Iterator[tuple[int, str, bool]]:
    if len(config) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{where}: has {len(config)} bytes. {_FETCH}.")
    try:
        data = json.loads(config)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: is no JSON. {_FETCH}.") from error
    entries = data.get("added_tokens_decoder") if isinstance(data, dict) else None
    if not isinstance(entries, dict) or not entries:
        raise ConfigError(f"{where}: added_tokens_decoder: names no control token. {_FETCH}.")
    for key, entry in entries.items():
        text = entry.get("content") if isinstance(entry, dict) else None
        if (
            not _RANK.fullmatch(key.encode(errors="replace"))
            or not isinstance(text, str)
            or not text
        ):
            raise ConfigError(
                f"{where}: added_tokens_decoder: {found_text(key)} is no id with a content. "
                f"{_FETCH}."
            )
        yield int(key), text, entry.get("special", True) is not False


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
