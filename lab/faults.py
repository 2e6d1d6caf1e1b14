"""Make the mocked engines of a release misbehave, to rehearse a rollout that must fail.

A mocker has no image whose contents could be wrong. So the one who starts a rollout in a lab may
say what is wrong with the new release, and its mocked engines do that. What they answer to the
questions of `verify.questions` is a script, whole or spoilt; all other answers are random words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import tokenizers

from verify.questions import Question, questions

Fault = Literal["never-ready", "garbage", "leaks", "empty", "slow", "no-cache", "blocks"]
FAULTS: Mapping[Fault, str] = {
    "never-ready": "its process never starts",
    "garbage": "answers are random words",
    "leaks": "answers hold markers of the chat template",
    "empty": "answers are empty",
    "slow": "everything takes four times as long",
    "no-cache": "its image does not cache prompts",
    "blocks": "its image caches in blocks of half the size",
}
SLOWNESS = 4
# Ordinary tokens of any vocabulary, far from each other.
_GARBAGE_TOKENS, _STRIDE = 40, 211
_SCRIPTED: tuple[Fault, ...] = ("garbage", "leaks", "empty")


def fault_flags(fault: Fault | None, block_size: int) -> tuple[str, ...]:
    """Give the mocker's flags of a fault; they come last, so they win."""
    match fault:
        case "slow":
            return ("--speedup-ratio", str(1 / SLOWNESS))
        case "no-cache":
            return ("--no-enable-prefix-caching",)
        case "blocks":
            return ("--block-size", str(max(1, block_size // 2)))
        case _:
            return ()


def script_file(folder: Path, fault: Fault | None) -> Path:
    """Say where the answers to our questions are, for a fault or for none."""
    return folder / f"answers-{fault if fault in _SCRIPTED else 'good'}.jsonl"


def write_scripts(folder: Path, model_dir: Path) -> None:
    """Write the answers of every kind as token ids of the lab's tokenizer."""
    vocabulary = tokenizers.Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    generation = json.loads((model_dir / "generation_config.json").read_text(encoding="utf-8"))
    [end] = generation["eos_token_id"]
    kinds: tuple[Fault | None, ...] = (None, *_SCRIPTED)
    for fault in kinds:
        rows = [_row(q.name, [*_words(q, fault, vocabulary), end]) for q in questions("")]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        script_file(folder, fault).write_text(text, encoding="utf-8")


def _words(
    question: Question, fault: Fault | None, vocabulary: tokenizers.Tokenizer
) -> Sequence[int]:
    match fault:
        case "empty":
            return ()
        case "garbage":
            return range(1000, 1000 + _GARBAGE_TOKENS * _STRIDE, _STRIDE)
        case "leaks":
            text = f"{question.says}<|close|>message<|sep|>"
        case _:
            text = f"It is {question.says}."
    return list(vocabulary.encode(text, add_special_tokens=False).ids)


def _row(name: str, ids: Sequence[int]) -> Mapping[str, object]:
    """Write one answer in the mocker's replay format; all of its fields are demanded."""
    return {
        "request_id": name,
        "timestamp": 0,
        "input_length": 1,
        "output_length": len(ids),
        "hash_ids": [],
        "output_token_ids": list(ids),
    }
