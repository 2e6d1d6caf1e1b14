"""Name what every Kimi K3 tokenizer has in common: its split pattern and its control tokens.

Sources: `pat_str` of `tokenization_kimi.py` and `tokenizer_config.json` in the model's
repository (moonshotai/Kimi-K3). The vocabulary itself is not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# Slots behind the base vocabulary, named or reserved.
SPECIAL_SLOTS = 256

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
SPLIT_PATTERN = "|".join(
    (
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


class ControlToken(NamedTuple):
    """A named slot. `special` tokens vanish when text is decoded; the others must not,
    because the parsers of reasoning and tool calls read them.
    """

    offset: int
    text: str
    key: str | None = None  # its name in `special_ids` of the model file
    special: bool = True


CONTROL_TOKENS = (
    ControlToken(0, "[BOS]", "bos"),
    ControlToken(1, "[EOS]", "eos"),
    ControlToken(2, "<|end_of_msg|>", "end_of_msg"),
    ControlToken(3, "<|open|>", "open", special=False),
    ControlToken(4, "<|close|>", "close", special=False),
    ControlToken(5, "<|sep|>", "sep", special=False),
    ControlToken(6, "[start_header_id]"),
    ControlToken(7, "[end_header_id]"),
    ControlToken(9, "[EOT]"),
    ControlToken(18, "<|media_begin|>"),
    ControlToken(19, "<|media_content|>"),
    ControlToken(20, "<|media_end|>"),
    ControlToken(21, "<|media_pad|>", "media_pad"),
    ControlToken(65, "<osagent_mode>"),
    ControlToken(254, "[UNK]"),
    ControlToken(255, "[PAD]", "pad"),
)


def slots(base: int, named: Mapping[int, tuple[str, bool]]) -> list[dict[str, Any]]:
    """List all 256 slots behind a vocabulary of `base` tokens, as tokenizer.json holds them.

    `named` gives text and `special` by offset; the other slots are reserved ones.
    """
    found = []
    for offset in range(SPECIAL_SLOTS):
        text, special = named.get(offset, (f"<|reserved_token_{base + offset}|>", True))
        found.append(
            {
                "id": base + offset,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": special,
            }
        )
    return found


def added_tokens(base: int) -> list[dict[str, Any]]:
    """List K3's slots."""
    return slots(base, {token.offset: (token.text, token.special) for token in CONTROL_TOKENS})
