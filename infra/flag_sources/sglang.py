"""Read SGLang: `sglang serve` and its variables.

The flags are annotations of fields, `name: A[type, Arg(help=…, aliases=[…])]`, of one
class up to 0.5.18 and of several since; a few more are declared by hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from infra.flag_sources.annotations import Kind, kinds, scalar
from infra.flag_sources.classes import REQUIRED, Field, enum_names, field_default, fields
from infra.flag_sources.evaluator import Evaluator, Native, Reading
from infra.flag_sources.flags import Entry, flag_entries
from infra.flag_sources.program import Module, Program
from infra.flag_sources.values import (
    Arguments,
    Class,
    Declaration,
    Instance,
    Opaque,
    Parser,
    is_known,
    plain,
)
from infra.flag_sources.variables import named_in_source

PACKAGES = ("sglang",)

_ARGUMENTS = "sglang.srt.server_args"
_SPECULATION = "sglang.srt.speculative.spec_info"
_VARIABLE = "(?:SGLANG|SGL)_[A-Z0-9_]+"
_PARSING = "long flags take unambiguous prefixes"

Keywords = dict[str, object]


def read_sglang(program: Program) -> dict[str, object]:
    """Read flags and the SGLANG_ variables."""
    reading = Reading(program=program, natives=_NATIVES)
    ev = Evaluator(reading=reading, module=program.need(_ARGUMENTS), names={"parser": Parser()})
    ev.value(ast.parse("ServerArgs.add_cli_args(parser)", mode="eval").body)
    flags = flag_entries(ev, ev.declared)
    for entry in flags:
        if entry["dest"] == "speculative_algorithm" and (names := _algorithms(ev)):
            entry["known_values"] = names
    variables = _variables(ev, program.need("sglang.srt.environ"))
    known = {str(variable["name"]) for variable in variables}
    return {
        "flags": flags,
        "parsing": _PARSING,
        "env": variables,
        "env_elsewhere": sorted(set(named_in_source(program, _VARIABLE)) - known),
    }


def _algorithms(ev: Evaluator) -> list[str]:
    """Name the ways to speculate; others can be registered, so the parser takes any text."""
    module = ev.reading.program.module(_SPECULATION)
    found = ev.inside(module).name("SpeculativeAlgorithm") if module else None
    names = enum_names(found) if isinstance(found, Class) else []
    return sorted(name for name in names if name.isupper())


def _add_fields(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for add_cli_args_from_dataclass, which looks at live types."""
    for cls in _records(ev):
        for field in fields(ev, cls).values():
            declared = _declaration(ev.inside(field.owner.module), field)
            if declared is not None:
                ev.declared.append(declared)
    return None


def _records(ev: Evaluator) -> list[Class]:
    arguments = ev.inside(ev.reading.program.need(_ARGUMENTS))
    spaces = arguments.name("_INPUT_NAMESPACES")
    found = spaces if isinstance(spaces, list) else [arguments.name("ServerArgs")]
    return [each for each in found if isinstance(each, Class)]


def _declaration(ev: Evaluator, field: Field) -> Declaration | None:
    """Make the call that SGLang makes for a field; None for a field without flag."""
    match field.annotation:
        case ast.Subscript(value=ast.Name(id="A" | "Annotated"), slice=ast.Tuple(elts=parts)):
            settings = _settings(ev, parts[1:])
        case _:
            return None
    if not settings or settings.get("no_cli") is True:
        return None
    flag = settings.get("cli_name") or "--" + field.name.replace("_", "-")
    aliases = settings.get("aliases")
    names = [flag, *(aliases if isinstance(aliases, list) else [])]
    keywords: Keywords = {"dest": field.name, "help": settings.get("help")}
    if (default := field_default(ev, field.default, ev.module)) is not REQUIRED:
        keywords["default"] = default
    alternatives = [each for each in kinds(ev, parts[0]) if each.kind != "none"]
    keywords |= _shape(settings, alternatives, needed=default is REQUIRED)
    return Declaration(tuple(map(str, names)), keywords, ev.module)


def _settings(ev: Evaluator, metadata: list[ast.expr]) -> Keywords:
    """Read `Arg(...)`; a text alone is the help."""
    for each in metadata:
        match each:
            case ast.Call(func=ast.Name(id="Arg"), args=given, keywords=keywords):
                named = {word.arg: ev.value(word.value) for word in keywords if word.arg}
                return {"help": ev.value(given[0])} | named if given else named
            case ast.Call():
                continue
            case _ if isinstance(text := ev.value(each), str):
                return {"help": text}
    return {}


def _shape(settings: Keywords, alternatives: list[Kind], *, needed: bool) -> Keywords:
    """Choose the keywords by the field's type, in SGLang's order."""
    given = {key: settings[key] for key in ("choices", "nargs") if settings.get(key)}
    only = alternatives[0] if len(alternatives) == 1 else Kind(kind="other")
    parser = settings.get("type_parser")
    if settings.get("action") is not None:
        more = settings.get("action_kwargs")
        return {"action": settings["action"]} | (more if isinstance(more, dict) else {})
    if only.kind == "literal":
        return {"type": "str", "choices": given.get("choices", list(only.values))}
    if only.kind == "list" and parser is None:
        item = scalar(only.items, ("int", "float", "str"))
        return {"type": item, "nargs": "+"} | given
    if only.kind == "bool":
        return {"action": "store_true"}
    kind = only.kind if only.kind in {"int", "float"} else "str"
    required = settings.get("required")
    must = required is True or (required is None and needed)
    return {"type": parser or kind} | given | ({"required": True} if must else {})


def _declared_default(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for the function that gives a field's default to a flag declared by hand."""
    for cls in _records(ev):
        field = fields(ev, cls).get(str(given.get(0, "name")))
        if field is not None:
            return field_default(ev, field.default, field.owner.module)
    return Opaque(ast.unparse(node))


def _variable_default(ev: Evaluator, given: Arguments, node: ast.Call) -> object:
    """Stand in for `envs.X.get()`: nothing is set while a table is made."""
    receiver = ev.value(node.func.value) if isinstance(node.func, ast.Attribute) else None
    if isinstance(receiver, Instance) and "default" in receiver.attributes:
        return receiver.attributes["default"]
    return Opaque(ast.unparse(node))


def _variables(ev: Evaluator, module: Module) -> list[Entry]:
    inside = ev.inside(module)
    declared = inside.name("Envs")
    found: dict[str, Entry] = {}
    for name, value in declared.assigned().items() if isinstance(declared, Class) else ():
        if isinstance(value, ast.Call):
            found[name] = {"name": name, **_variable(inside, value)}
    for entry in list(found.values()):
        if isinstance(old := entry.get("deprecated_alias"), str):
            renamed = {"type": entry["type"], "deprecated": True, "replacement": entry["name"]}
            found.setdefault(old, {"name": old, **renamed})
    for name in _translated(module):
        found.setdefault(name, {"name": name, "type": "?", "deprecated": True})
    return [found[name] for name in sorted(found)]


def _variable(ev: Evaluator, declared: ast.Call) -> Entry:
    """Read `EnvInt(default, deprecated_name=…)`."""
    entry: Entry = {"type": ast.unparse(declared.func)}
    keywords = {keyword.arg: keyword.value for keyword in declared.keywords}
    default = declared.args[0] if declared.args else keywords.get("default")
    if default is not None and is_known(value := ev.value(default)):
        entry["default"] = plain(value)
    if (old := keywords.get("deprecated_name")) is not None:
        entry["deprecated_alias"] = ev.value(old)
    return entry


def _translated(module: Module) -> Iterator[str]:
    """Give old names that functions of the module still translate, or warn about."""
    for function in module.tree.body:
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            match node:
                case ast.Constant(value=str() as text) if re.fullmatch(_VARIABLE, text):
                    yield text


_NATIVES: Mapping[str, Native] = {
    "add_cli_args_from_dataclass": _add_fields,
    "_declared_default": _declared_default,
    "EnvField.get": _variable_default,
    "_DeprecatedEnvFallback.get": _variable_default,
}
