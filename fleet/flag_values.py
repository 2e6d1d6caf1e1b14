"""Say whether an engine takes a value: as text of a flag, or inside JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from fleet.flag_table import Domain, Key

Configs = Mapping[str, Mapping[str, Key]]
_SHOWN_CHARS = 60
NEAR = 0.75  # a typing error, not another word
_NONE_WORDS = frozenset({"none", "null", ""})


class WrongValue(NamedTuple):
    """What is wrong with a value."""

    kind: Literal["choice", "type", "key", "deprecated"]
    what: str
    near: str | None = None  # what may be meant
    key: str = ""  # of a JSON value
    certain: bool = True
    found: str = ""  # the wrong choice, or the wrong key


def wrong_text(domain: Domain, text: str, configs: Configs) -> Iterator[WrongValue]:
    """Yield what is wrong with a flag's or a variable's value."""
    if domain.type in ("json", "json_or_str", "json_list_type"):
        yield from _wrong_json(domain, text, configs)
    elif domain.choices:
        yield from _wrong_choice(domain, text)
    elif domain.type in _TYPES:
        expected, takes = _TYPES[domain.type]
        if not takes(text):
            yield WrongValue("type", f"takes {expected}, found {_short(text)}")


def nearest(word: str, known: Mapping[str, object] | tuple[str, ...] | list[str]) -> str | None:
    """Give the known word that is most like a word, if one is."""
    same = next((item for item in known if _plain(item) == _plain(word)), None)
    return same or next(iter(get_close_matches(word, list(known), n=1, cutoff=NEAR)), None)


def _plain(text: str) -> str:
    return text.lower().replace("-", "_").replace("_", "")


def _wrong_choice(domain: Domain, text: str, key: str = "") -> Iterator[WrongValue]:
    if text in domain.choices:
        return
    folded = {choice.lower().replace("-", "_") for choice in domain.choices}
    loose = not domain.closed or domain.type == "custom"
    # Enum names match in any case, and stand for numbers too.
    if loose and (text.lower().replace("-", "_") in folded or text.isdigit()):
        return
    if domain.type == "custom" and text == "aic":  # Dynamo's old word for `ais`
        return
    near = _contained(text, domain.choices) or nearest(text, domain.choices)
    listed = ", ".join(domain.choices[:8]) + (", …" if len(domain.choices) > 8 else "")
    yield WrongValue(
        "choice",
        f"does not take {_short(text)} (but {listed})",
        near,
        key,
        domain.closed,
        text,
    )


def _contained(text: str, choices: tuple[str, ...]) -> str | None:
    """Find `fp8_e4m3` for `fp8`, and `kv` for `kv_router`."""
    if any(_plain(choice) == _plain(text) for choice in choices):
        return None
    longer = [choice for choice in choices if text and choice.startswith(f"{text}_")]
    shorter = [choice for choice in choices if text.startswith(f"{choice}_")]
    return next(iter([*longer, *shorter]), None)


def _wrong_json(domain: Domain, text: str, configs: Configs) -> Iterator[WrongValue]:
    if domain.type == "json_or_str" and not text.lstrip().startswith("{"):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield WrongValue("type", f"takes JSON, found {_short(text)}")
        return
    if domain.type == "json_list_type" and not isinstance(value, list):
        yield WrongValue("type", f"takes a JSON list, found {_short(text)}")
    yield from wrong_keys(domain.config, value, configs)


def wrong_keys(
    config: str | None, value: object, configs: Configs, above: str = ""
) -> Iterator[WrongValue]:
    """Yield what is wrong inside a JSON value, by its class's keys."""
    keys = configs.get(config or "")
    if keys is None or not isinstance(value, dict):
        return
    for name, item in value.items():
        path = f"{above}{name}"
        known = keys.get(name)
        if known is None or known.internal:
            what = "is set by the engine itself" if known else "is not known"
            yield WrongValue("key", f"key {path} {what}", nearest(name, keys), path, True, path)
            continue
        if known.deprecated:
            yield WrongValue("deprecated", f"key {path} is deprecated", key=path, found=path)
        yield from _wrong_item(known.domain, item, path)
        yield from wrong_keys(known.domain.config, item, configs, f"{path}.")


def wrong_key_text(
    config: str | None, key: tuple[str, ...], text: str | None, configs: Configs
) -> Iterator[WrongValue]:
    """Yield what is wrong with `--flag.key value`; without a value, only with the key."""
    value: object = None
    if text is not None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
    for part in reversed(key):
        value = {part: value}
    yield from wrong_keys(config, value, configs)


def _wrong_item(domain: Domain, item: object, path: str) -> Iterator[WrongValue]:
    if item is None or isinstance(item, bool) or (isinstance(item, float) and item.is_integer()):
        return
    if domain.choices and isinstance(item, str):
        for wrong in _wrong_choice(domain, item, path):
            yield wrong._replace(what=f"key {path} {wrong.what}")
    elif domain.type in _TYPES and not domain.choices:
        expected, takes = _TYPES[domain.type]
        if not takes(json.dumps(item) if not isinstance(item, str) else item):
            shown = _short(json.dumps(item))
            yield WrongValue("type", f"key {path} takes {expected}, found {shown}", key=path)


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…")


def _reads(convert: Callable[[str], Any], *, least: float | None = None) -> Callable[[str], bool]:
    def takes(text: str) -> bool:
        try:
            value = convert(text)
        except (ValueError, OverflowError):
            return False
        return least is None or bool(value >= least)

    return takes


def _or_none(takes: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: text.strip().lower() in _NONE_WORDS or takes(text)


def _is_human_int(text: str) -> bool:
    """Read `8k` (8,000) and `8K` (8,192) as vLLM does: no fraction with a binary unit."""
    if re.fullmatch(r"\d+(?:\.\d+)?[kmgt]|\d+[KMGT]", text):
        return True
    return _reads(int)(text)


def _is_sglang_int(text: str) -> bool:
    return re.fullmatch(r"\d+(?:\.\d+)?[kKmMgGtT]?[iI]?", text) is not None or _reads(int)(text)


_WHOLE = "a whole number"
_TYPES: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    "int": (_WHOLE, _reads(int)),
    "positive_int": ("a whole number from 1", _reads(int, least=1)),
    "non_negative_int": ("a whole number from 0", _reads(int, least=0)),
    "nullable_int": (_WHOLE, _or_none(_reads(int))),
    "float": ("a number", _reads(float)),
    "non_negative_float": ("a number from 0", _reads(float, least=0)),
    "nullable_float": ("a number", _or_none(_reads(float))),
    "human_int": ("a whole number, as 8192 or 8k", _is_human_int),
    "human_int_or_auto": (
        "a whole number, as 8192 or 8k, or auto",
        lambda text: text == "auto" or _is_human_int(text),
    ),
    "human_readable_int": ("a whole number, as 8192 or 8k", _is_sglang_int),
}
