"""Turn human text such as `1.4TB` or `15m` into numbers, and back.

Parsed once, here; everywhere else a name carries its unit (`weights_bytes`,
`drain_s`). Decimal arithmetic, because `181.1GiB` must not depend on a float.
"""

from __future__ import annotations

import re
from decimal import Decimal

from fleet.errors import ConfigError

_BYTE_UNITS = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000 ** (power + 1) for power, prefix in enumerate("kMGTP")},
    **{f"{prefix}iB": 1024 ** (power + 1) for power, prefix in enumerate("KMGTP")},
}
_BYTE_UNITS_FOLDED = {unit.casefold(): size for unit, size in _BYTE_UNITS.items()}
_DURATION_UNITS_S = {
    "d": Decimal(86_400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
_WHOLE = re.compile(r"[0-9]{1,18}")
_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"
_BYTES = re.compile(rf"({_NUMBER})\s*([A-Za-z]*)")
_DURATION_PART = re.compile(rf"({_NUMBER})(ms|d|h|m|s)")


class UnitError(ConfigError, ValueError):
    """A quantity cannot be read. Also a ValueError, which pydantic reports with its path."""


def whole_number(text: object) -> int | None:
    """Read a whole number from 0 that somebody else wrote; None for what is none.

    `str.isdigit` would let `²` and thousands of digits through, at which `int` raises.
    """
    return int(str(text)) if _WHOLE.fullmatch(str(text)) else None


def parse_bytes(text: str) -> int:
    """Read a number of bytes: `1.56TB` (decimal), `181.1GiB` (binary), `4096`."""
    match = _BYTES.fullmatch(text.strip())
    size = _BYTE_UNITS_FOLDED.get(match[2].casefold()) if match else None
    if match is None or size is None:
        raise UnitError(f"{text!r} is not a size. Write for example 1.56TB or 181.1GiB.")
    return int(Decimal(match[1]) * size)


def parse_duration(text: str) -> float:
    """Read a duration in seconds: `90s`, `2m`, `1h30m`, `250ms`; a bare number is seconds."""
    stripped = text.strip()
    if re.fullmatch(_NUMBER, stripped):
        return float(stripped)
    parts = _DURATION_PART.findall(stripped)
    order = [list(_DURATION_UNITS_S).index(unit) for _, unit in parts]
    whole = "".join(number + unit for number, unit in parts)
    if not parts or whole != stripped or order != sorted(set(order)):
        raise UnitError(f"{text!r} is not a duration. Write for example 90s, 15m or 1h30m.")
    return float(sum(Decimal(number) * _DURATION_UNITS_S[unit] for number, unit in parts))


def format_bytes(count: int, *, binary: bool = False) -> str:
    """Write a size with three significant digits: `1.56 TB`, or `42.2 GiB` when binary."""
    base, units = (
        (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
        if binary
        else (1000, ("B", "kB", "MB", "GB", "TB", "PB"))
    )
    power = 0
    while power < len(units) - 1 and count >= base ** (power + 1):
        power += 1
    value = count / base**power
    digits = 0 if power == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {units[power]}"


def format_duration(seconds: float) -> str:
    """Write a duration to the millisecond, so that `parse_duration` gives it back."""
    left_ms = round(seconds * 1000)
    parts = []
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        count, left_ms = divmod(left_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    if left_ms:
        parts.append(f"{left_ms}ms")
    return "".join(parts) or "0s"
