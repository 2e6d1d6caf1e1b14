"""Turn `add_argument` calls into entries of a flag table.

The keywords with a star are our own: functions that replace an engine's helpers
hand over with them what argparse has no keyword for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from infra.flag_sources.classes import base_names, enum_members, method
from infra.flag_sources.evaluator import Evaluator
from infra.flag_sources.values import Class, Declaration, Function, Opaque, is_known, plain

CONFIG = "*config"  # the class whose fields are the keys of a JSON value
KNOWN = "*known"  # values that the engine knows, without the parser enforcing them
ENV = "*env"  # the variable that sets the default
DEPRECATED = "*deprecated"  # true, or what to use instead
OBSOLETE = "*obsolete"  # a spelling that is kept for old command lines

Entry = dict[str, object]

_FLAGS_ALONE = frozenset({"store_const", "version", "help", "count"})
_NOTE_CHARS = 160
_HELP_CHARS = 160  # a deprecation is said at the beginning
_DEPRECATION = re.compile(
    r"^\W*(deprecat|removed\b)|[(\[]deprecated|is deprecated|deprecated alias|will be removed in",
    re.IGNORECASE,
)
_PAIRS = (("--enable-", "--disable-"), ("--disable-", "--enable-"))


def is_deprecated(help_text: object) -> bool:
    """Say whether a help text or a comment begins by calling its subject deprecated."""
    if not isinstance(help_text, str):
        return False
    return _DEPRECATION.search(_one_line(help_text)[:_HELP_CHARS]) is not None


def flag_entries(
    ev: Evaluator, declared: Iterable[Declaration], *, pairs: bool = False
) -> list[Entry]:
    """Make the entries of a parser, sorted; a flag declared twice keeps the later form.

    Args:
        ev: an evaluator of the same reading.
        declared: the calls in their order.
        pairs: the parser adds `--disable-x` to every boolean `--enable-x`.
    """
    entries: dict[str, Entry] = {}
    for each in declared:
        key = next((flag for flag in each.flags if flag.startswith("--")), each.flags[0])
        entries[key] = _entry(ev, each, pairs)
    return [entries[key] for key in sorted(entries, key=lambda key: key.lstrip("-"))]


def _entry(ev: Evaluator, declared: Declaration, pairs: bool) -> Entry:
    keywords = declared.keywords
    entry: Entry = {"flags": list(declared.flags), "dest": _dest(declared)}
    if not any(flag.startswith("-") for flag in declared.flags):
        entry["positional"] = True
    entry |= _value_shape(ev, declared, pairs)
    entry |= _choices(ev, keywords.get("choices"), "choices")
    entry |= _choices(ev, keywords.get(KNOWN), "known_values")
    if "default" in keywords and is_known(keywords["default"]):
        entry["default"] = plain(keywords["default"])
    if keywords.get("required") is True:
        entry["required"] = True
    if isinstance(config := keywords.get(CONFIG), Class):
        entry["config"] = config.name
    for key, keyword in (("env", ENV), ("obsolete_alias", OBSOLETE), ("replacement", "new_flag")):
        if isinstance(text := keywords.get(keyword), str):
            entry[key] = text
    return entry | _deprecation(keywords)


def _dest(declared: Declaration) -> str:
    dest = declared.keywords.get("dest")
    if isinstance(dest, str):
        return dest
    long = [flag for flag in declared.flags if flag.startswith("--")]
    return (long or declared.flags)[0].lstrip("-").replace("-", "_")


def _value_shape(ev: Evaluator, declared: Declaration, pairs: bool) -> Entry:
    """Say how many values a flag takes and of which type."""
    action = declared.keywords.get("action")
    name = _name(action)
    if isinstance(action, Class) and "BooleanOptionalAction" in base_names(ev, action):
        name = "BooleanOptionalAction"
    if name == "BooleanOptionalAction":
        negative = list(_negative(declared.flags, pairs))
        return {"type": "bool", "nargs": 0, "negatable": True, "negative_flags": negative}
    if name in {"store_true", "store_false"}:
        return {"type": "bool", "nargs": 0}
    if name in _FLAGS_ALONE:
        return {"type": name, "nargs": 0}
    shape: Entry = _type(declared.keywords.get("type"))
    nargs = declared.keywords.get("nargs")
    if isinstance(action, Class) and "nargs" not in declared.keywords:
        nargs = _own_nargs(ev, action)
    if name not in {"", "store"}:
        shape["action"] = name
        if name.endswith("StoreTrueAction"):
            shape["type"] = "bool"
    if nargs is not None and not isinstance(nargs, Opaque):
        shape["nargs"] = nargs
    return shape


def _negative(flags: Iterable[str], pairs: bool) -> Iterable[str]:
    long = [flag for flag in flags if flag.startswith("--")]
    yield from (f"--no-{flag[2:]}" for flag in long)
    for flag in long if pairs else ():
        for prefix, opposite in _PAIRS:
            if flag.startswith(prefix):
                yield opposite + flag.removeprefix(prefix)


def _own_nargs(ev: Evaluator, action: Class) -> object:
    """Read the number of values that an action class sets by a default of its `__init__`."""
    found = method(ev, action, "__init__")
    if found is None:
        return None
    signature = found.node.args
    names = [each.arg for each in signature.args][-len(signature.defaults) :]
    for name, default in zip(names, signature.defaults, strict=False):
        if name == "nargs":
            return ev.inside(found.module).value(default)
    return None


def _type(given: object) -> Entry:
    if given is None:
        return {"type": "str"}
    text = given.text if isinstance(given, Opaque) else _name(given)
    if text.startswith("lambda"):
        return {"type": "custom", "type_expr": _one_line(text)[:120]}
    return {"type": "json" if "json.loads" in text else text}


def _name(given: object) -> str:
    match given:
        case Class():
            return given.name
        case Function():
            return given.node.name
        case Opaque():
            return given.name
        case str():
            return given
        case _:
            return ""


def _choices(ev: Evaluator, given: object, key: str) -> Entry:
    if isinstance(given, Class):
        given = enum_members(ev, given)
    if not isinstance(given, list | tuple | set | dict | range):
        return {}
    values = unique(given)
    known = [value for value in values if is_known(value)]
    entry: Entry = {key: known}
    if len(known) < len(values):
        entry["choices_open"] = True
    return entry


def unique(given: Iterable[object]) -> list[object]:
    """List values once each, texts in order; what is not known comes last."""
    values: list[object] = []
    for value in map(plain, given):
        if value not in values:
            values.append(value)
    known = [value for value in values if is_known(value)]
    if all(isinstance(value, str) for value in known):
        known.sort(key=str)
    return known + [value for value in values if not is_known(value)]


def _deprecation(keywords: Mapping[str, object]) -> Entry:
    said = keywords.get(DEPRECATED)
    action = keywords.get("action")
    entry: Entry = {
        "deprecated": bool(said)
        or keywords.get("deprecated") is True
        or "Deprecat" in _name(action)
        or is_deprecated(keywords.get("help"))
    }
    if isinstance(said, str):
        entry["note"] = _one_line(said)[:_NOTE_CHARS]
    if isinstance(error := keywords.get("error_message"), str):
        entry |= {"removed": True, "note": _one_line(error)[:_NOTE_CHARS]}
    return entry


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip())
