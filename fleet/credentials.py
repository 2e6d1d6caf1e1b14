"""Recognise credentials, by the names that things have and by the shape of values.

A release is copied into every cluster, report and log, so none may be in it. What is
found is named, never shown: the message goes into logs too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fleet.errors import Problem
from fleet.release import Release
from fleet.schema import found_text
from fleet.yaml_document import Document, NodePath

_FIX = "Keep it out of releases: name its Secret under `secrets` of the fleet file"

_WORD_EDGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
# Wherever they stand in a name, with or without something before them.
_TELLING = re.compile(r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION|BEARER|APIKEY")
_HARMLESS = frozenset({"ALLOW_CREDENTIALS", "NO_ALLOW_CREDENTIALS"})  # a CORS switch of engines
# Only as a name's last word, and not after some others: engines count tokens and name keys.
_TOKEN = re.compile(r".*TOKEN")
_LAST = frozenset({"PASS", "PWD", "PAT", "AUTH", "CREDS"})
_NOT_AFTER: Mapping[str, re.Pattern[str]] = {
    "TOKEN": re.compile(
        "PER|MAX|MIN|NUM|NEW|NEXT|EACH|FIRST|LAST|INTER|EOS|BOS|PAD|UNK|SEP|CLS|MASK|STOP|START|"
        "END|THINK|SPECIAL|IMAGE|VIDEO|AUDIO|INPUT|OUTPUT|PROMPT|DRAFT|PREFILL|DECODE"
    ),
    "KEY": re.compile(
        "CONFIG|GRAPH|CACHE|ROUTING|SORT|GROUP|HASH|PREFIX|PRIMARY|PARTITION|PUBLIC|TRACKING|"
        "BLOCK|SESSION"
    ),
    "PASS": re.compile("FORWARD|BACKWARD|SINGLE|ONE|FUSION"),
}
# Pairs that mean one wherever they stand, unless a file is named: AWS_ACCESS_KEY_ID.
_KEY_OF = re.compile(r"(^|_)(API|ACCESS|PRIVATE|SSH|SIGNING|ENCRYPTION|LICENSE)_?KEY(_|$)")
_PLACES = frozenset({"FILE", "PATH", "DIR"})

# A flag, or the name before `=` or `:` in an assignment or in JSON.
_NAMES = re.compile(
    r"""(?:^|[\s'"{,;(&|])(-{1,2}[A-Za-z][\w.-]*|[A-Za-z_][\w.-]*(?=["']?\s*[=:]))"""
)
_START = r"(?<![A-Za-z0-9])"
# As their issuers document them; lengths are lower bounds.
_SHAPES: Mapping[str, re.Pattern[str]] = {
    "a Hugging Face token": re.compile(_START + r"hf_[A-Za-z0-9]{10,}"),
    "an API key": re.compile(_START + r"(?:sk-[A-Za-z0-9_-]{8,}|nvapi-[\w-]{8,}|AIza[\w-]{30,})"),
    "an AWS key": re.compile(_START + r"(?:AKIA|ASIA)[A-Z0-9]{12,}"),
    "a GitHub or GitLab token": re.compile(
        _START + r"(?:gh[pousr]_\w{10,}|github_pat_\w{10,}|glpat-[\w-]{10,})"
    ),
    "a Slack token": re.compile(_START + r"xox[abeoprs]-[\w-]{8,}"),
    "a JSON web token": re.compile(_START + r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}"),
    "a bearer token": re.compile(r"\b[Bb]earer\s+[\w.~+/-]{6,}"),
    "a URL with a password": re.compile(r"://[^\s/:@'\"]*:[^\s/@'\"]+@"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
}


def credential_problems(document: Document, release: Release) -> Iterator[Problem]:
    """Find what reads like a credential in variables, arguments and commands."""
    for path, name, text in _texts(release):
        if fault := credential_fault(name, text):
            yield document.problem(path, fault, _FIX)


def credential_fault(name: str | None, text: str) -> str | None:
    """Say that a text is or holds a credential, by its name, the names in it or its shape."""
    names = [name] if name else [found[1] for found in _NAMES.finditer(text)]
    named = next(filter(names_credential, names), None)
    if named is not None:
        return f"{found_text(named)} looks like a credential"
    shape = credential_shape(text)
    return f"the value looks like {shape}" if shape else None


def names_credential(name: str) -> bool:
    """Say whether something of this name is a credential: HF_TOKEN is, MAX_TOKENS is not."""
    words = [word for word in _WORD_EDGE.sub("_", name).upper().split("_") if word]
    while words and words[-1].isdecimal():
        words.pop()
    joined = "_".join(words)
    if not words or joined in _HARMLESS:
        return False
    if _TELLING.search(joined):
        return True
    if _KEY_OF.search(joined):
        return words[-1] not in _PLACES
    return _ends_like_one(words)


def credential_shape(text: str) -> str | None:
    """Say what a value looks like, by the shapes in which credentials are given out."""
    return next((title for title, shape in _SHAPES.items() if shape.search(text)), None)


def _ends_like_one(words: list[str]) -> bool:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    harmless = _NOT_AFTER.get(last)
    if harmless and harmless.fullmatch(before):
        return False
    if _TOKEN.fullmatch(last):
        return True
    # `--key` and PWD alone mean something else.
    return bool(before) and (last in _LAST or last == "KEY")


def _texts(release: Release) -> Iterator[tuple[NodePath, str | None, str]]:
    """Give every text that a release hands to its engine: path, variable's name, text."""
    parts: list[tuple[NodePath, Mapping[str, str], tuple[str, ...]]] = [
        ((), release.env, release.args)
    ]
    if pools := release.disaggregation:
        parts.append((("disaggregation", "prefill"), pools.prefill.env, pools.prefill.args))
        parts.append((("disaggregation", "decode"), pools.decode.env, pools.decode.args))
    for path, env, args in parts:
        for name, value in env.items():
            yield (*path, "env", name), name, value
        for index, word in enumerate(args):
            yield (*path, "args", index), None, word
    if custom := release.engine.custom:
        commands = {"command": custom.command, "worker_command": custom.worker_command or ()}
        for key, words in commands.items():
            for index, word in enumerate(words):
                yield ("engine", "custom", key, index), None, word
