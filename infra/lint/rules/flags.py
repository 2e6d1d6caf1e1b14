"""Rules for the command lines and variables of engines and frontends.

`fleet/flag_check.py` knows what each version takes; here its faults become findings.
One rule per kind of fault, so that one kind can be waived.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

from fleet.flag_check import Versions, check
from fleet.flag_fault import Fault, Kind
from fleet.flag_target import PROGRAM_ENGINES, choose
from fleet.yaml_document import NodePath
from infra.lint.commands import Command
from infra.lint.rule import Check, Rule, Spot
from infra.lint.scene import Scene

_WHEELS = "the argument parsers in the engines' published wheels (docs/engine-flags.md)"
_UNSURE = "F015"
_VERSION_UNKNOWN = "F013"
_PERHAPS_PATCHED = "F017"
_WITHOUT_TABLE: Mapping[str, str] = {
    "trtllm": "nothing of this command line is checked: TensorRT-LLM has no table of flags",
    "dynamo.trtllm": "Dynamo's own flags are checked, TensorRT-LLM's settings are not",
}
_RULE_OF: Mapping[Kind, str] = {
    "unknown": "F001",
    "version": "F002",
    "choice": "F003",
    "type": "F004",
    "key": "F005",
    "deprecated": "F006",
    "spelling": "F007",
    "env_version": "F008",
    "scope": "F009",
    "abbreviation": "F010",
    "twice": "F011",
    "pair": "F012",
    "env_unknown": "F014",
    "left": "F016",
}
# These are no more than warnings anyway, so they stay what they are for an unsure version.
_MILD: frozenset[Kind] = frozenset({"deprecated", "abbreviation", "twice", "env_unknown"})


def _rule_of(command: Command, fault: Fault) -> str:
    if fault.kind == "env_unknown" and not _is_released(command):
        return _PERHAPS_PATCHED
    unsure = not fault.certain and fault.kind not in _MILD
    return _UNSURE if unsure else _RULE_OF[fault.kind]


def _is_released(command: Command) -> bool:
    target = choose(command.program, *command.versions)
    return target is not None and target.known


def _of(rule: str) -> Check:
    def check_scene(scene: Scene) -> Iterator[Spot]:
        yield from _spots(scene.commands).get(rule, ())

    return check_scene


@lru_cache(maxsize=1)
def _spots(commands: tuple[Command, ...]) -> Mapping[str, Sequence[Spot]]:
    """Check all commands once, whichever rule asks first."""
    found: dict[str, list[Spot]] = defaultdict(list)
    for _, group in groupby(commands, lambda command: id(command.container)):
        for command, fault in _container_faults(list(group)):
            manifest = command.container.manifest
            spot = Spot(manifest, _path(command, fault), fault.what, fault.fix)
            found[_rule_of(command, fault)].append(spot)
    found[_VERSION_UNKNOWN] += _unknown_versions(commands)
    return found


def _container_faults(commands: Sequence[Command]) -> Iterator[tuple[Command, Fault]]:
    """Yield the faults of a container; a variable is wrong when none of its programs reads it."""
    faults = [_faults(command) for command in commands]
    wrong = [{fault.subject for fault in found if fault.place is None} for found in faults]
    everywhere = set.intersection(*wrong)
    said: set[str] = set()
    for command, found in zip(commands, faults, strict=True):
        for fault in found:
            if fault.place is None:
                if fault.subject not in everywhere or fault.subject in said:
                    continue
                said.add(fault.subject)
            yield command, fault


def _faults(command: Command) -> tuple[Fault, ...]:
    env = tuple(command.env.items())
    return check(command.program, command.texts, env, Versions(*command.versions))


def _path(command: Command, fault: Fault) -> NodePath:
    if fault.place is not None:
        return command.words[fault.place].path
    return command.env_paths.get(fault.subject.split()[0], command.container.path)


def _unknown_versions(commands: Sequence[Command]) -> Iterator[Spot]:
    """Say once per file and image that its versions are not known."""
    said: set[tuple[str, str, str]] = set()
    for command in commands:
        container = command.container
        target = choose(command.program, *command.versions)
        kind = "engine" if PROGRAM_ENGINES.get(command.program) else "Dynamo"
        key = (container.manifest.file, container.image, kind)
        if target is None or target.known or key in said:
            continue
        said.add(key)
        image = container.image or "an image without a name"
        what = f"{image} does not say its versions: checked against {target.name}"
        yield Spot(container.manifest, (*container.path, "image"), what)


def _not_checked(scene: Scene) -> Iterator[Spot]:
    """Say once per file and program what no table is there for."""
    said: set[tuple[str, str]] = set()
    for command in scene.commands:
        what, manifest = _WITHOUT_TABLE.get(command.program), command.container.manifest
        if what and (manifest.file, command.program) not in said:
            said.add((manifest.file, command.program))
            yield Spot(manifest, command.container.path, what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="F001",
        severity="error",
        title="Every flag exists",
        reason="An engine ends at once on a flag that it does not know.",
        source=_WHEELS,
        fix="Correct the flag's name, or drop it",
        check=_of("F001"),
    ),
    Rule(
        id="F002",
        severity="error",
        title="Flags and values exist in the version inside the image",
        reason="Flags come and go with every release; a recipe for another one ends at the start.",
        source=_WHEELS,
        fix="Drop it, or use a version that takes it",
        check=_of("F002"),
    ),
    Rule(
        id="F003",
        severity="error",
        title="A value is one of the flag's choices",
        reason="The parser refuses another value, and the engine does not start.",
        source=_WHEELS,
        fix="Use one of the values that it takes",
        check=_of("F003"),
    ),
    Rule(
        id="F004",
        severity="error",
        title="A value has the flag's type",
        reason="The parser refuses text where a number or JSON belongs, or no value at all.",
        source=_WHEELS,
        fix="Correct the value",
        check=_of("F004"),
    ),
    Rule(
        id="F005",
        severity="error",
        title="A JSON value has only keys that the engine knows",
        reason="vLLM's classes of settings forbid other keys, and keys vanish between versions.",
        source="vllm.config, in " + _WHEELS,
        fix="Correct the key, or drop it",
        check=_of("F005"),
    ),
    Rule(
        id="F006",
        severity="warning",
        title="No flag or variable is deprecated",
        reason="It ends the start of a later version: SGLang removed 25 old names at once.",
        source=_WHEELS,
        fix="Use what took its place",
        check=_of("F006"),
    ),
    Rule(
        id="F007",
        severity="error",
        title="Flags are those of the engine that runs",
        reason="The engines spell the same setting differently, a typical error of copying.",
        source=_WHEELS,
        fix="Use this engine's name for it",
        check=_of("F007"),
    ),
    Rule(
        id="F008",
        severity="error",
        title="The version inside the image reads every variable that is set",
        reason="A variable of another version is ignored, so the setting silently is the default.",
        source=_WHEELS,
        fix="Drop it, or use what took its place",
        check=_of("F008"),
    ),
    Rule(
        id="F009",
        severity="error",
        title="A flag stands at the program that takes it",
        reason="Dynamo's workers refuse flags of vllm serve and of frontends, and the reverse.",
        source=_WHEELS,
        fix="Move the flag to the program that takes it",
        check=_of("F009"),
    ),
    Rule(
        id="F010",
        severity="warning",
        title="Flags are written in full",
        reason="A prefix is refused as soon as a version brings a second flag that starts with it.",
        source="argparse, allow_abbrev",
        fix="Write the flag in full",
        check=_of("F010"),
    ),
    Rule(
        id="F011",
        severity="warning",
        title="No flag is given twice",
        reason="The last one wins without a word, so a reader believes the first.",
        source="argparse, action store",
        fix="Keep one of them",
        check=_of("F011"),
    ),
    Rule(
        id="F012",
        severity="error",
        title="Flags that stand together go together",
        reason="The engine checks some combinations only when it starts, minutes after the pod.",
        source="checks of settings (`__post_init__` and hooks) in the engines' published wheels",
        fix="Change one of the two",
        check=_of("F012"),
    ),
    Rule(
        id="F013",
        severity="info",
        title="An image says which versions it holds",
        reason="Without a version, only what every known version refuses can be found.",
        source="docs/engine-flags.md",
        fix="Use a release tag, or the annotations k3fleet.io/engine-version and "
        "k3fleet.io/dynamo-version",
        check=_of("F013"),
    ),
    Rule(
        id="F014",
        severity="warning",
        title="Something reads every variable of an engine",
        reason="Engines ignore what they do not know; vLLM warns in its log, the others do not.",
        source=_WHEELS,
        fix="Correct the name, or drop it",
        check=_of("F014"),
    ),
    Rule(
        id="F015",
        severity="warning",
        title="Flags are known to the nearest version, values without a plugin",
        reason="The version is older or newer than all tables, or a plugin may add the value: it "
        "may work, but nobody has checked.",
        source=_WHEELS,
        fix="Look it up in the engine's --help, or run k3fleet flags update",
        check=_of("F015"),
    ),
    Rule(
        id="F016",
        severity="error",
        title="Every word belongs to a flag",
        reason="The parser ends at a word that it cannot place.",
        source="argparse, unrecognized arguments",
        fix="Drop it, or name the flag it is for",
        check=_of("F016"),
    ),
    Rule(
        id="F017",
        severity="info",
        title="Some release reads every variable of an engine",
        reason="The image's version is unknown: it may be a development build that reads it, or "
        "the variable does nothing.",
        source=_WHEELS,
        fix="Look it up in the image, or drop it",
        check=_of("F017"),
    ),
    Rule(
        id="F018",
        severity="info",
        title="Every engine has a table of its flags",
        reason="TensorRT-LLM's settings are a file, and no wheel of it is published to read them "
        "from: what is wrong in them shows when the engine starts.",
        source="https://github.com/NVIDIA/TensorRT-LLM (its package on PyPI is a stub)",
        fix="Check the settings against the TensorRT-LLM inside the image",
        check=_not_checked,
    ),
)
