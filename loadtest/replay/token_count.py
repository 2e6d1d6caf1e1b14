"""Count the tokens of recorded text with the model's own tokenizer.

Only formats that recorded messages need it, and only their lengths: the text itself is not kept
and never sent.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from loadtest.replay.reading import CountTokens, estimate_tokens


def token_counter(tokenizer_dir: Path) -> CountTokens:
    """Make a counter that reads `tokenizer.json` when it is first asked.

    A file that is only a vocabulary, with nothing that could split text, leaves the estimate.
    """

    @cache
    def tokenizer() -> Tokenizer | None:
        try:
            return Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
        except Exception:  # the library raises plain Exception; the vocabulary's reader has judged
            return None

    def count(text: str) -> int:
        made = tokenizer()
        if made is None:
            return estimate_tokens(text)
        return len(made.encode(text, add_special_tokens=False).ids)

    return count
