"""Tell which weights a command names: a repository, or a folder that somebody filled from one."""

from __future__ import annotations

from fleet.model import Model
from infra.lint.commands import Command, is_flag


def serves(command: Command, model: Model) -> bool:
    """Say whether an engine loads the very weights of a model, not a variant of them."""
    source = source_of(command)
    served = command.value("--served-model-name") or ""
    if source == model.repo:
        return True
    if source and not is_local(source):
        return False
    if any(model.name in part for part in parts(source or "")):
        return names_repo(source or "", model.repo)
    return names_repo(served, model.repo)


def source_of(command: Command) -> str | None:
    """Return which weights are named, if any: by a flag, or by the first word."""
    source = command.value("--model", "--model-path")
    if not source and command.words and not is_flag(command.words[0].text):
        source = command.words[0].text
    return source


def is_local(source: str) -> bool:
    """Say whether a source is a path, or a name that only somebody's cluster knows."""
    return source.startswith(("/", ".", "~", "$")) or source.count("/") != 1


def parts(source: str) -> list[str]:
    """Split a source into what its folders are called."""
    return source.lower().split("/")


def names_repo(source: str, repo: str) -> bool:
    """Say whether a path has a folder named like a repository, or that of the hub's cache."""
    owner, _, name = repo.lower().partition("/")
    return any(part in (name, f"models--{owner}--{name}") for part in parts(source))
