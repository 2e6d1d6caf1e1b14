"""Give the keywords that vLLM derives for argparse from the fields of its config classes.

This stands in for `get_kwargs` in vllm/engine/arg_utils.py, which looks at live
types. Its rules, in its order: a dataclass is JSON, a bool is a pair of flags, a
literal is a choice, a collection takes several values, then numbers, mappings, text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from infra.flag_sources.annotations import COLLECTIONS, Kind, kinds, literals, scalar
from infra.flag_sources.classes import Field, enum_names, field_default, fields
from infra.flag_sources.evaluator import Evaluator
from infra.flag_sources.flags import CONFIG, KNOWN, is_deprecated, unique
from infra.flag_sources.values import Arguments, Class, Opaque, is_known, plain

Keywords = dict[str, object]

OPTIONAL = "*optional"

# Fields that also take 8k or 1.5M.
_HUMAN_INTEGERS: Mapping[str, str] = {
    "max_model_len": "human_int_or_auto",
    **dict.fromkeys(
        (
            "max_num_batched_tokens",
            "max_num_scheduled_tokens",
            "kv_cache_memory_bytes",
            "safetensors_prefetch_block_size",
            "max_num_queued_tokens",
        ),
        "human_int",
    ),
}
# Inside a JSON value these are filled in by the engine, not by a person.
_INTERNAL = frozenset({"ModelConfig", "ParallelConfig", "LoadConfig", "VllmConfig"})


def get_kwargs(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for vLLM's function of this name: map fields of a class to their keywords."""
    cls = given.get(0, "cls")
    if not isinstance(cls, Class):
        return Opaque(ast.unparse(node))
    return {name: _keywords(ev, field) for name, field in fields(ev, cls).items()}


def _keywords(ev: Evaluator, field: Field) -> Keywords:
    alternatives = kinds(ev.inside(field.owner.module), field.annotation)
    keywords: Keywords = {
        "default": field_default(ev, field.default, field.owner.module),
        "help": field.doc,
        **_shape(field.name, alternatives),
    }
    for each in alternatives:
        if each.kind == "enum" and each.cls is not None:
            keywords[KNOWN] = enum_names(each.cls)
    if any(each.kind == "none" for each in alternatives):
        keywords[OPTIONAL] = True
    return keywords


def _shape(name: str, alternatives: list[Kind]) -> Keywords:
    found = {each.kind for each in alternatives}
    if "dataclass" in found:
        cls = next(each.cls for each in alternatives if each.kind == "dataclass")
        return {"type": "json", CONFIG: cls}
    if found == {"bool", "str", "none"}:
        return {"type": "str", "nargs": "?"}
    if "bool" in found:
        return {"action": "BooleanOptionalAction"}
    if "literal" in found:
        values = literals(alternatives)
        where = KNOWN if "str" in found else "choices"
        return {"type": type(values[0]).__name__, where: values}
    if found & COLLECTIONS:
        return _collection(alternatives)
    return {"type": _HUMAN_INTEGERS.get(name, "int") if "int" in found else _single(found)}


def _single(found: set[str]) -> str:
    if "float" in found:
        return "float"
    if "dict" in found:
        return "json_or_str" if found & {"str", "other", "enum"} else "json"
    return "str"


def _collection(alternatives: list[Kind]) -> Keywords:
    several = next(each for each in alternatives if each.kind in COLLECTIONS)
    values = literals(several.items)
    text = bool(values) or any(each.kind == "str" for each in several.items)
    keywords: Keywords = {
        "nargs": several.length or "+",
        "type": "str" if text else scalar(several.items),
    }
    return keywords | ({"choices": values} if values else {})


def config_tables(ev: Evaluator, roots: Iterable[Class]) -> dict[str, dict[str, Keywords]]:
    """List the keys that JSON values of these classes may have, and those of classes inside."""
    tables: dict[str, dict[str, Keywords]] = {}
    waiting = list(roots)
    while waiting:
        cls = waiting.pop()
        if cls.name in tables:
            continue
        table = tables[cls.name] = {}
        for name, field in fields(ev, cls).items():
            if name.startswith("_") or _set_by_engine(field):
                continue
            keywords = _keywords(ev, field)
            table[name] = _key(field, keywords)
            inner = keywords.get(CONFIG)
            if isinstance(inner, Class) and inner.name not in _INTERNAL:
                waiting.append(inner)
    return tables


def _set_by_engine(field: Field) -> bool:
    return field.default is not None and "init=False" in ast.unparse(field.default)


def _key(field: Field, keywords: Keywords) -> Keywords:
    kind = "bool" if "action" in keywords else keywords["type"]
    entry: Keywords = {"type": f"list[{kind}]" if keywords.get("nargs") == "+" else kind}
    for key, keyword in (("choices", "choices"), ("known_values", KNOWN)):
        if isinstance(values := keywords.get(keyword), list):
            known = [value for value in unique(values) if is_known(value)]
            entry[key] = sorted(known, key=str)
    if OPTIONAL in keywords:
        entry["optional"] = True
    if field.default is None:
        entry["required"] = True
    elif is_known(keywords["default"]):
        entry["default"] = plain(keywords["default"])
    if isinstance(inner := keywords.get(CONFIG), Class):
        entry |= {"internal": True} if inner.name in _INTERNAL else {"config": inner.name}
    if is_deprecated(field.doc):
        entry["deprecated"] = True
    return entry
