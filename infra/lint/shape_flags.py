"""Read the fields of an engine's shape out of its flags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.engine_flags import FIELD_FLAGS
from fleet.given_flags import GivenFlags
from fleet.units import whole_number

ServingEngine = Literal["vllm", "sglang", "trtllm"]

# Flags that no typed field of a release has, and those that took another's place.
_MORE_FLAGS: Mapping[ServingEngine, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "pipeline": ("--pipeline-parallel-size",),
        "data": ("--data-parallel-size",),
    },
    "sglang": {
        "pipeline": ("--pp-size",),
        "data": ("--attn-dp-size", "--dp-size"),
        "expert": ("--ep-size",),
        "draft": ("--speculative-draft-model-path",),
        "draft_tokens": ("--speculative-dspark-block-size", "--speculative-dflash-block-size"),
        "radix_strategy": ("--mamba-radix-cache-strategy", "--mamba-scheduler-strategy"),
    },
}
_LENGTH = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?([kKmMgG]?)")
_LENGTH_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def shape_flag(engine: ServingEngine, field: str) -> tuple[str, ...]:
    """Name the flags of a field, the usual one first."""
    usual = FIELD_FLAGS[engine].get(field)
    return (usual,) if usual else _MORE_FLAGS.get(engine, {}).get(field, ())


@dataclass(frozen=True, slots=True)
class ShapeFlags:
    """The fields of a shape, as an engine's flags give them."""

    engine: ServingEngine
    given: GivenFlags

    def text(self, field: str) -> str | None:
        """Return the value of a field; None: not given, or only the running pod knows it."""
        return self.given.text(*shape_flag(self.engine, field))

    def raw(self, field: str) -> str | None:
        """Return the value of a field as it stands there, with its `$`; None: not given."""
        use = self.given.find(*shape_flag(self.engine, field))
        return use.values[0].text if use and use.values else None

    def is_given(self, field: str) -> bool:
        """Say whether a field is set."""
        return self.given.has(*shape_flag(self.engine, field))

    def count(self, field: str, default: int) -> int | None:
        """Return the number of a field; None: what is given is none."""
        if not self.is_given(field):
            return default
        return whole_number(self.text(field)) or None

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
        if not self.is_given(field):
            return None
        found = _LENGTH.fullmatch(self.text(field) or "")
        if found is None:  # `auto`, or -1: as long as fits
            return "auto"
        whole, part, unit = found[1], found[2] or "", found[3]
        return int(whole + part) * _LENGTH_UNITS[unit] // 10 ** len(part) or "auto"
