"""Look flags up in a command line as an engine's own parser does, by any of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from fleet.engine_flags import FIELD_FLAGS
from infra.lint.commands import is_flag

ServingEngine = Literal["vllm", "sglang", "trtllm"]

# Other names of the flags in FIELD_FLAGS, and the flags that no typed field has.
_OTHER_NAMES: Mapping[ServingEngine, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "tensor": ("-tp",),
        "pipeline": ("--pipeline-parallel-size", "-pp"),
        "data": ("--data-parallel-size", "-dp"),
        "decode_context": ("-dcp",),
        "gpu_memory_utilization": ("--device-memory-utilization",),
    },
    "sglang": {
        "tensor": ("--tensor-parallel-size",),
        "pipeline": ("--pp-size", "--pipeline-parallel-size"),
        "data": ("--attn-dp-size", "--dp-size", "--data-parallel-size"),
        "expert": ("--ep-size", "--expert-parallel-size", "--ep"),
        "decode_context": ("--decode-context-parallel-size",),
        "draft": ("--speculative-draft-model-path", "--speculative-draft-model"),
        "draft_tokens": ("--speculative-dspark-block-size", "--speculative-dflash-block-size"),
        "radix_strategy": ("--mamba-radix-cache-strategy", "--mamba-scheduler-strategy"),
    },
}
_LENGTH = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?([kKmMgG]?)")
_LENGTH_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def shape_flag(engine: ServingEngine, field: str) -> tuple[str, ...]:
    """Name the flags of a field, the usual one first."""
    usual = FIELD_FLAGS[engine].get(field)
    others = _OTHER_NAMES.get(engine, {}).get(field, ())
    return (usual, *others) if usual else others


class GivenFlags:
    """The flags of a command line by name, each with its last value."""

    def __init__(self, engine: ServingEngine, texts: Sequence[str]) -> None:
        self.engine = engine
        self.hides_more = False  # a variable may stand for any arguments
        self._values: dict[str, str] = {}
        last: str | None = None
        for text in texts:
            if is_flag(text):
                name, equals, value = text.partition("=")
                name = name.replace("_", "-")
                self._values[name] = value
                last = None if equals else name
            elif last is not None:
                self._values[last] = text
                last = None
            elif "$" in text:
                self.hides_more = True

    def has(self, *names: str) -> bool:
        """Say whether any of some flags is given."""
        return any(name in self._values for name in names)

    def any_starts(self, prefix: str) -> bool:
        """Say whether a flag like `--speculative-config.model` is given."""
        return any(name.startswith(prefix) for name in self._values)

    def value(self, *names: str) -> str | None:
        """Return what is given to any of some flags, also by a shorter name, as argparse does."""
        for name in names:
            if name in self._values:
                return self._values[name]
        for name, value in self._values.items():
            if name.startswith("--") and any(full.startswith(name) for full in names):
                return value
        return None

    def text(self, field: str) -> str | None:
        """Return the value of a field; None: not given."""
        return self.value(*shape_flag(self.engine, field))

    def count(self, field: str, default: int) -> int | None:
        """Return the number of a field; None: what is given is none."""
        text = self.text(field)
        if text is None:
            return default
        return int(text) if re.fullmatch(r"0*[1-9][0-9]{0,8}", text) else None

    def fraction(self, field: str, *, most: float) -> float | None:
        """Return the number of a field, above zero; None: what is given is none."""
        try:
            value = float(self.text(field) or "")
        except ValueError:
            return None
        return value if 0 < value <= most else None

    def length(self, field: str) -> int | Literal["auto"] | None:
        """Return a number of tokens such as `128k`; auto: not a length; None: not given.

        As vLLM reads it: a small letter counts in thousands, a capital one in powers of two.
        """
        text = self.text(field)
        if text is None:
            return None
        found = _LENGTH.fullmatch(text)
        if found is None:  # `auto`, or -1: as long as fits
            return "auto"
        whole, part, unit = found[1], found[2] or "", found[3]
        return int(whole + part) * _LENGTH_UNITS[unit] // 10 ** len(part) or "auto"
