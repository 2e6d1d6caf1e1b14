"""Read vLLM: `vllm serve`, the keys of its JSON arguments, and its variables."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from infra.flag_sources.annotations import kinds, literals
from infra.flag_sources.evaluator import Evaluator, Native, Reading
from infra.flag_sources.flags import CONFIG, Entry, flag_entries, is_deprecated
from infra.flag_sources.program import Module, Program
from infra.flag_sources.values import (
    Arguments,
    Class,
    Declaration,
    Opaque,
    Parser,
    is_known,
    plain,
)
from infra.flag_sources.variables import comment_above, named_in_source
from infra.flag_sources.vllm_fields import config_tables, get_kwargs

PACKAGES = ("vllm",)

# The parser of `vllm serve` has moved twice: 0.33, 0.29 to 0.32, and before.
_SERVE = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.serve.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
_CONNECTORS = "vllm.distributed.kv_transfer.kv_connector.factory"
# Classes of JSON arguments that some versions hide behind a plain text or a mapping.
_CONFIGS = (
    "SpeculativeConfig",
    "KVTransferConfig",
    "KVEventsConfig",
    "AttentionConfig",
    "CompilationConfig",
)
_PARSING = (
    "long flags take underscores for dashes and unambiguous prefixes; JSON flags also take "
    "--flag.key value and --flag.key+ a,b; -O<n> is --optimization-level"
)


def read_vllm(program: Program) -> dict[str, object]:
    """Read flags, JSON keys, parser and connector names, and the VLLM_ variables."""
    reading = Reading(program=program, natives=_NATIVES)
    ev = Evaluator(reading=reading, module=program.need(*_SERVE))
    serve = _declared(ev, "make_arg_parser(parser)")
    engine = Evaluator(reading=reading, module=program.need("vllm.engine.arg_utils"))
    pairs = "class EnableDisableAction" in program.need("vllm.utils.argparse_utils").text
    of_engine = {
        entry["dest"]
        for entry in flag_entries(ev, _declared(engine, "AsyncEngineArgs.add_cli_args(parser)"))
    }
    flags = flag_entries(ev, serve, pairs=pairs)
    for entry in flags:
        entry["scope"] = "engine" if entry["dest"] in of_engine else "frontend"
    variables = [dict(entry) for entry in _variables(ev, program.need("vllm.envs"))]
    names = {variable["name"] for variable in variables}
    elsewhere = sorted(set(named_in_source(program, "VLLM_[A-Z0-9_]+")) - names)
    return {
        "flags": flags,
        "configs": config_tables(ev, _config_classes(ev, serve)),
        "registries": _registries(ev),
        "parsing": _PARSING,
        "env": variables,
        "env_elsewhere": elsewhere,
    }


def _declared(ev: Evaluator, call: str) -> list[Declaration]:
    inside = Evaluator(reading=ev.reading, module=ev.module, names={"parser": Parser()})
    inside.value(ast.parse(call, mode="eval").body)
    return inside.declared


def _config_classes(ev: Evaluator, declared: Iterable[Declaration]) -> list[Class]:
    configs = ev.reading.program.need("vllm.config")
    named = [ev.inside(configs).name(name) for name in _CONFIGS]
    given = [each.keywords.get(CONFIG) for each in declared]
    return [each for each in [*given, *named] if isinstance(each, Class)]


def _registries(ev: Evaluator) -> dict[str, list[str]]:
    return {
        "tool_call_parsers": _keys(ev, "vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        "reasoning_parsers": _keys(ev, "vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
        "kv_connectors": sorted(set(_connectors(ev.reading.program.module(_CONNECTORS)))),
    }


def _keys(ev: Evaluator, module: str, name: str) -> list[str]:
    found = ev.reading.program.module(module)
    value = ev.inside(found).name(name) if found else None
    return sorted(map(str, value)) if isinstance(value, dict | list | tuple) else []


def _connectors(module: Module | None) -> Iterator[str]:
    for node in ast.walk(module.tree) if module else ():
        match node:
            case ast.Call(
                func=ast.Attribute(attr="register_connector"),
                args=[ast.Constant(value=str() as name), *_],
            ):
                yield name


def _variables(ev: Evaluator, module: Module) -> list[Entry]:
    """Read the table of variables; types and defaults stand apart, for type checkers."""
    inside = ev.inside(module)
    typed = _typed(module)
    table = module.names.get("environment_variables")
    if not isinstance(table, ast.Dict):
        return []
    entries: list[Entry] = []
    for key, reader in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            entry: Entry = {"name": key.value}
            if (annotated := typed.get(key.value)) is not None:
                entry |= _typed_entry(inside, annotated)
            entry |= _reader_choices(inside, reader)
            if _warns(reader) or is_deprecated(comment_above(module.text, key.lineno)):
                entry["deprecated"] = True
            entries.append(entry)
    return sorted(entries, key=lambda entry: str(entry["name"]))


def _typed(module: Module) -> dict[str, ast.AnnAssign]:
    return {
        statement.target.id: statement
        for block in module.tree.body
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


def _typed_entry(ev: Evaluator, annotated: ast.AnnAssign) -> Entry:
    entry: Entry = {"type": ast.unparse(annotated.annotation)}
    if annotated.value is not None and is_known(value := ev.value(annotated.value)):
        entry["default"] = plain(value)
    if values := literals(kinds(ev, annotated.annotation)):
        entry["choices"] = values
    return entry


def _reader_choices(ev: Evaluator, reader: ast.expr) -> Entry:
    """Read the choices that `env_with_choices(name, default, choices)` enforces."""
    for node in ast.walk(reader):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, _, given, *_]) if "choices" in name:
                if isinstance(values := plain(ev.value(given)), list) and is_known(values):
                    return {"choices": values}
    return {}


def _warns(reader: ast.expr) -> bool:
    calls = (node for node in ast.walk(reader) if isinstance(node, ast.Call))
    return any("deprecat" in ast.unparse(call).lower() for call in calls)


def _get_args(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for typing.get_args of a literal."""
    return literals(kinds(ev, node.args[0])) or Opaque(ast.unparse(node))


def _get_field(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for vLLM's function that copies a field's default from another class."""
    cls, name = given.get(0, "cls"), given.get(1, "name")
    if not isinstance(cls, Class) or not isinstance(name, str):
        return Opaque(ast.unparse(node))
    inside = ev.inside(ev.module, {"cls": cls})
    return inside.value(ast.Attribute(ast.Name("cls"), name))


def _inner_type(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for parse_type(X) and optional_type(X), which take what X takes."""
    return given.positional[0]


def _nothing(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for what loads plugins or asks the machine."""
    return None


_NATIVES: Mapping[str, Native] = {
    "get_kwargs": get_kwargs,
    "get_args": _get_args,
    "get_field": _get_field,
    "parse_type": _inner_type,
    "optional_type": _inner_type,
    "load_general_plugins": _nothing,
    "pre_register_and_update": _nothing,
}
