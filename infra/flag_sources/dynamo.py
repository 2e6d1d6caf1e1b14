"""Read Dynamo's components: the frontend, the workers, the mocker."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from infra.flag_sources.evaluator import Evaluator, Native, Reading
from infra.flag_sources.flags import DEPRECATED, ENV, OBSOLETE, Entry, flag_entries
from infra.flag_sources.native import parser_names
from infra.flag_sources.program import Module, Program
from infra.flag_sources.values import Arguments, Declaration, Opaque, Parser
from infra.flag_sources.variables import named_in_libraries, named_in_source

PACKAGES = ("ai-dynamo", "ai-dynamo-runtime")

_GROUPS = "dynamo.common.configuration.groups"
_RUNTIME = (f"{_GROUPS}.runtime_args", "DynamoRuntimeArgGroup")
_WORKERS = {
    "vllm": "DynamoVllmArgGroup",
    "sglang": "DynamoSGLangArgGroup",
    "trtllm": "DynamoTrtllmArgGroup",
}
# Replaced by hand before the parser sees it, so no parser declares it.
_COMBINED = "--publish-events-and-metrics"
_DECLARE_COMBINED = (
    f"parser.add_argument('{_COMBINED}', action=argparse.BooleanOptionalAction, "
    "help='Deprecated: an alias', new_flag='--publish-kv-events')"
)
_SCRIPTS = ("mocker", "replay")  # they fill their parser in one function
_VARIABLE = r"DYN_[A-Z0-9_]*[A-Z0-9]"

# What happens to a flag that is not a component's own.
_PASSTHROUGH = {
    "frontend": "refused, unless --dyn-chat-processor is vllm (all flags of vllm serve) or sglang "
    "(--tool-call-parser, --reasoning-parser, --chat-template)",
    "vllm": "goes to vLLM's engine parser, which has the flags of scope engine only",
    "sglang": "goes to SGLang's parser, whose --load-format also takes gms",
    "trtllm": "--trtllm.KEY VALUE sets a key of the engine's settings; the rest is refused",
    "mocker": "refused",
    "replay": "refused",
}
_PARSER_FLAGS = {
    "--dyn-tool-call-parser": "tool_call_parsers",
    "--dyn-reasoning-parser": "reasoning_parsers",
}


def read_dynamo(program: Program) -> dict[str, object]:
    """Read the components' flags, the DYN_ variables and the parser names."""
    reading = Reading(program=program, natives=_NATIVES)
    components = dict(_components(reading))
    registries = parser_names(program)
    for entries in components.values():
        _set_parser_choices(entries, registries)
    return {
        "components": {
            name: {"flags": entries, "passthrough": _PASSTHROUGH[name]}
            for name, entries in components.items()
        },
        "registries": registries,
        "env": _variables(program, components),
    }


def _components(reading: Reading) -> Iterable[tuple[str, list[Entry]]]:
    frontend = ("dynamo.frontend.frontend_args", "FrontendArgGroup")
    yield "frontend", _entries(reading, [_group(reading, *frontend)])
    for name, cls in _WORKERS.items():
        own = f"dynamo.{name}.backend_args"
        if reading.program.module(own) is None and name == "trtllm":
            continue
        groups = [_RUNTIME, (own, cls)]
        calls = [_group(reading, *each) for each in groups]
        yield name, _entries(reading, [*calls, *_extras(reading, name)])
    for name in _SCRIPTS:
        if (script := _script(reading, name)) is not None:
            yield name, _entries(reading, [script])


def _entries(reading: Reading, calls: Iterable[tuple[Module, str]]) -> list[Entry]:
    """Evaluate some calls, each in its module, and make entries of what they declare."""
    declared: list[Declaration] = []
    module = reading.program.need("dynamo.frontend.frontend_args")
    for module, text in calls:
        ev = Evaluator(reading=reading, module=module, declared=declared)
        ev.names["parser"] = Parser()
        ev.value(ast.parse(text, mode="eval").body)
    return flag_entries(Evaluator(reading=reading, module=module), declared)


def _group(reading: Reading, module: str, cls: str) -> tuple[Module, str]:
    return reading.program.need(module), f"{cls}().add_arguments(parser)"


def _extras(reading: Reading, worker: str) -> Iterable[tuple[Module, str]]:
    """Give what a worker declares outside its groups, in the versions that do."""
    program = reading.program
    arguments = program.need(f"dynamo.{worker}.args")
    router = program.module(f"{_GROUPS}.router_args")
    advertises = "parse_worker_router_config" in arguments.text
    if router is not None and advertises and "add_worker_router_arguments" in router.names:
        yield router, "add_worker_router_arguments(parser)"
    compat = program.module(f"dynamo.{worker}._compat")
    if compat is not None and "add_sglang_cli_compat" in compat.names:
        yield compat, "add_sglang_cli_compat(parser)"
    declared = program.need(f"dynamo.{worker}.backend_args").text
    if _COMBINED in arguments.text and _COMBINED not in declared:
        yield arguments, _DECLARE_COMBINED


def _script(reading: Reading, name: str) -> tuple[Module, str] | None:
    for path, function in (("args", "parse_args"), ("main", "main"), ("main", "parse_args")):
        module = reading.program.module(f"dynamo.{name}.{path}")
        found = module.names.get(function) if module else None
        if module and isinstance(found, ast.FunctionDef) and "add_argument" in ast.unparse(found):
            return module, f"{function}()"
    return None


def _set_parser_choices(entries: Iterable[Entry], registries: Mapping[str, list[str]]) -> None:
    for entry in entries:
        flags = entry["flags"]
        for flag in flags if isinstance(flags, list) else ():
            if names := registries.get(_PARSER_FLAGS.get(flag, "")):
                entry["choices"] = names


def _variables(program: Program, components: Mapping[str, list[Entry]]) -> list[Entry]:
    found: dict[str, Entry] = {}
    for entry in (entry for entries in components.values() for entry in entries):
        if isinstance(name := entry.get("env"), str):
            variable = found.setdefault(name, {"name": name})
            variable |= {key: entry[key] for key in ("default",) if key in entry}
            if entry["deprecated"]:
                variable["deprecated"] = True
    for name, default in named_in_source(program, _VARIABLE).items():
        found[name] = default | found.get(name, {"name": name})
    for name, uncertain in named_in_libraries(program, "DYN_", set(found)).items():
        found[name] = {"name": name} | ({"uncertain": True} if uncertain else {})
    return [found[name] for name in sorted(found)]


def _add_argument(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for Dynamo's helper, which reads the default out of the environment."""
    keywords = dict(given.keywords)
    flags = [keywords.pop("flag_name", None), keywords.pop("alias", None)]
    obsolete = keywords.pop("obsolete_flag", None)
    keywords["type"] = keywords.pop("arg_type", "str")
    keywords[ENV] = keywords.pop("env_var", None)
    keywords[OBSOLETE] = obsolete
    if (deprecated := keywords.pop("deprecated", None)) is not None:
        keywords[DEPRECATED] = deprecated.text if isinstance(deprecated, Opaque) else deprecated
    known = tuple(flag for flag in [*flags, obsolete] if isinstance(flag, str))
    if known:
        ev.declared.append(Declaration(known, keywords, ev.module))
    return None


def _add_boolean(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    more = {"action": "BooleanOptionalAction", "arg_type": None}
    return _add_argument(ev, Arguments(given.positional, given.keywords | more), node)


def _deprecated(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    return "; ".join(f"{key}: {value}" for key, value in given.keywords.items())


def _default(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    return given.get(1, "default")


_NATIVES: Mapping[str, Native] = {
    "add_argument": _add_argument,
    "add_negatable_bool_argument": _add_boolean,
    "env_or_default": _default,
    "Deprecated": _deprecated,
}
