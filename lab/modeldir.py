"""Make the model folder that frontends and mocked engines read: no weights, no code.

`config.json` names the model type, by which Dynamo chooses its own K3 prompt
renderer and parsers; the tokenizer is K3's when its files are at hand, else a
small one trained on this machine. Token counts of the small one are not K3's.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from fleet.errors import ConfigError
from fleet.k3_tokens import CONTROL_TOKENS, SPECIAL_SLOTS
from fleet.model import Model
from fleet.tokenizer_file import convert, dump, read_ranks
from lab.builds import Progress
from lab.tokenizer_json import train

# Large enough to give tokens of a few bytes, small enough to train in seconds.
SMALL_VOCABULARY = 32_768
# Raise it when the training below changes: it names the cached result.
TRAINER_VERSION = 1
TOKENIZER = "tokenizer.json"
TIKTOKEN = "tiktoken.model"
_OFFSETS = {token.key: token.offset for token in CONTROL_TOKENS if token.key}
_TESTS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cache:
    """Tokenizers that were made once, by the hash of what they were made from."""

    folder: Path
    progress: Progress

    def get(self, name: str, make: Callable[[], Mapping[str, Any]], *, note: str) -> str:
        """Return a tokenizer's text, making and keeping it when it is new."""
        file = self.folder / f"{name}.json"
        if file.is_file():
            return file.read_text(encoding="utf-8")
        self.progress.step(note)
        text = dump(make())
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(file, text)
        return text


def make_model_dir(
    dest: Path,
    *,
    model: Model,
    tokenizer_dir: Path | None,
    cache_dir: Path,
    progress: Progress,
) -> Path:
    """Write a model folder into `dest` and return it; raise ConfigError for a bad tokenizer.

    `tokenizer_dir` holds K3's `tokenizer.json` or `tiktoken.model`; without it a
    small tokenizer is trained, which takes some seconds the first time.
    """
    cache = _Cache(folder=cache_dir / "tokenizers", progress=progress)
    text = _tokenizer_from(tokenizer_dir, cache) if tokenizer_dir else _small_tokenizer(cache)
    base = base_vocabulary(text, where=(tokenizer_dir or cache.folder) / TOKENIZER, model=model)
    dest.mkdir(parents=True, exist_ok=True)
    _write(dest / TOKENIZER, text)
    for name, content in (
        ("config.json", _config(model, base)),
        ("generation_config.json", _generation_config(base)),
        ("tokenizer_config.json", _tokenizer_config(model, base)),
    ):
        _write(dest / name, json.dumps(content, indent=1) + "\n")
    return dest


def base_vocabulary(text: str, *, where: Path, model: Model) -> int:
    """Return how many ordinary tokens a tokenizer has, after checking its control tokens.

    A control token under another id makes the model see garbage, and nothing
    else would notice.
    """
    try:
        slots = {slot["content"]: slot for slot in json.loads(text)["added_tokens"]}
        base = int(slots[CONTROL_TOKENS[0].text]["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{where}: not a K3 tokenizer: no {CONTROL_TOKENS[0].text} among its added_tokens. "
            f"Use the {TOKENIZER} or {TIKTOKEN} of {model.repo}."
        ) from error
    for token in CONTROL_TOKENS:
        slot = slots.get(token.text, {})
        if (slot.get("id"), slot.get("special")) != (base + token.offset, token.special):
            raise ConfigError(
                f"{where}: added_tokens: {token.text} has id {slot.get('id')} and special "
                f"{slot.get('special')}; {model.name} has {base + token.offset} and "
                f"{token.special}. Use the {TIKTOKEN} of {model.repo}."
            )
    _check_model(model)
    return base


def _check_model(model: Model) -> None:
    base = model.vocab_size - SPECIAL_SLOTS
    for key, number in model.special_ids.items():
        if key in _OFFSETS and number != base + _OFFSETS[key]:
            raise ConfigError(
                f"model {model.name}: special_ids.{key}: {number}, but this family of "
                f"tokenizers has it at {base + _OFFSETS[key]}. Correct the model file."
            )


def _tokenizer_from(folder: Path, cache: _Cache) -> str:
    """Read K3's tokenizer, converting it when only tiktoken's file is there."""
    ready, ranks = folder / TOKENIZER, folder / TIKTOKEN
    try:
        if ready.is_file():
            return ready.read_text(encoding="utf-8")
        content = ranks.read_bytes()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{folder}: neither {TOKENIZER} nor {TIKTOKEN} can be read there ({error}). "
            "Point to a folder that has one of them."
        ) from error
    name = f"tiktoken-{hashlib.sha256(content).hexdigest()[:16]}-{TRAINER_VERSION}"
    return cache.get(
        name,
        lambda: convert(read_ranks(content, where=str(ranks))),
        note=f"tokenizer: converting {ranks} (seconds)",
    )


def _small_tokenizer(cache: _Cache) -> str:
    """Train a tokenizer on the standard library's sources: every machine has them."""
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(_sources(root))
    listing = [(str(file.relative_to(root)), file.stat().st_size) for file in files]
    versions = (platform.python_version(), tokenizers.__version__, TRAINER_VERSION)
    key = hashlib.sha256(repr((versions, SMALL_VOCABULARY, listing)).encode()).hexdigest()[:16]
    return cache.get(
        f"small-{key}",
        lambda: train(_texts(files), vocabulary=SMALL_VOCABULARY),
        note="tokenizer: training a small tokenizer on Python's own sources (some seconds, once)",
    )


def _sources(root: Path) -> Iterator[Path]:
    """List the library's own modules: its tests are as much text again and teach nothing new."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _TESTS]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _texts(files: list[Path]) -> Iterator[str]:
    for file in files:
        yield file.read_text(encoding="utf-8", errors="replace")


def _config(model: Model, base: int) -> dict[str, Any]:
    """Describe the model to Dynamo, which refuses a model that names no architecture."""
    family = "".join(part.capitalize() for part in model.model_type.split("_"))
    return {
        "architectures": [f"{family}ForConditionalGeneration"],
        "model_type": model.model_type,
        **_ids(base),
        "media_placeholder_token_id": base + _OFFSETS["media_pad"],
        "dtype": "bfloat16",
        "text_config": {
            "model_type": "kimi_linear",
            "num_hidden_layers": model.layers,
            "num_attention_heads": model.kda.heads,
            "num_key_value_heads": model.kda.heads,
            "head_dim": model.kda.head_dim,
            "max_position_embeddings": model.context_tokens,
            "vocab_size": base + SPECIAL_SLOTS,
        },
    }


def _ids(base: int) -> dict[str, int]:
    # K3 stops at the end of a message, not at [EOS].
    return {
        "bos_token_id": base + _OFFSETS["bos"],
        "eos_token_id": base + _OFFSETS["end_of_msg"],
        "pad_token_id": base + _OFFSETS["pad"],
    }


def _generation_config(base: int) -> dict[str, Any]:
    ids = _ids(base)
    return {**ids, "eos_token_id": [ids["eos_token_id"]]}


def _tokenizer_config(model: Model, base: int) -> dict[str, Any]:
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {
        "added_tokens_decoder": {
            str(base + token.offset): {"content": token.text, **flags, "special": token.special}
            for token in CONTROL_TOKENS
        },
        "bos_token": "[BOS]",
        "eos_token": "[EOS]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "additional_special_tokens": ["<|end_of_msg|>"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": model.context_tokens,
        "tokenizer_class": "TikTokenTokenizer",
    }


def _write(file: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=".")
    os.close(descriptor)
    Path(draft).write_text(text, encoding="utf-8")
    Path(draft).chmod(0o644)
    Path(draft).replace(file)
