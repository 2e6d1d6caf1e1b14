"""Read a traffic profile: one that comes with k3fleet by name, or a file by path.

A profile may extend another and state only what differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from fleet.errors import ConfigError, Problem
from fleet.extends import read_extended
from fleet.presets import FILE_ENDINGS, MAX_NAME_CHARS, NotFound
from fleet.schema import found_text, suggestion, validate
from fleet.yaml_document import Document
from loadtest.traffic.profile_schema import Profile
from loadtest.traffic.scale import Scale

PROFILES_DIR = Path(__file__).parent / "profiles"
PROFILE_PREFIX = "profile:"
DEFAULT_PROFILE = "interactive_agent"


def known_profiles() -> list[str]:
    """Name the profiles that come with k3fleet."""
    return sorted(path.stem for path in PROFILES_DIR.glob("*.yaml"))


def load_profile(name: str) -> Profile:
    """Read a profile by name, by `profile:PATH` or by a path that ends in .yaml.

    Raises ConfigError with the known names, or with all faults of the file.
    """
    found = profile_path(name) or _named(name, Path())
    if isinstance(found, NotFound):
        raise ConfigError(f"traffic: {found.what}. {found.fix}.")
    document = read_extended(found, known=Profile.model_fields, find=_named)
    profile, problems = validate(Profile, document)
    if profile is not None:
        problems += _contradictions(document, profile)
    if profile is None or problems:
        raise ConfigError.of(problems)
    return profile


def profile_path(name: str) -> Path | None:
    """Give the path that a profile is named by; None for one that comes with k3fleet."""
    if name.startswith(PROFILE_PREFIX):
        return Path(name.removeprefix(PROFILE_PREFIX))
    is_path = len(name) <= MAX_NAME_CHARS and ("/" in name or name.endswith(FILE_ENDINGS))
    return Path(name) if is_path else None


def require_fit(profile: Profile, scale: Scale, max_context: int) -> None:
    """Raise ConfigError when hardly a session's first call fits into the context of a run."""
    least = _least_first_call(profile)
    if scale.length(least) > max_context:
        needed = math.ceil(least)
        raise ConfigError(
            f"traffic: {profile.name}: even the shortest sessions start with {needed} tokens, "
            f"{scale.length(least)} after scaling, and {max_context} fit. "
            "Raise max_context or token_scale, or take another profile."
        )


def _named(name: str, folder: Path) -> Path | NotFound:
    """Give the file of a profile, or of a path relative to `folder`; it may not exist."""
    if len(name) > MAX_NAME_CHARS:
        return NotFound(f"{found_text(name)} is too long", "Shorten it")
    if "/" in name or name.endswith(FILE_ENDINGS):
        return folder / name
    known = known_profiles()
    if name in known:
        return PROFILES_DIR / f"{name}.yaml"
    return NotFound(
        f"{found_text(name)} is no profile",
        f"{suggestion(name, known)}; or give a path that ends in .yaml",
    )


def _least_first_call(profile: Profile) -> float:
    """Give a length that 999 of 1,000 first calls pass, answer included."""
    return profile.shared_prefix_tokens + profile.private_prompt_tokens.low + 1


def _contradictions(document: Document, profile: Profile) -> Iterator[Problem]:
    """Find values that are fine one by one and make no traffic together."""
    shared = profile.shared_prefix_tokens
    if profile.tools_tokens > shared:
        what = f"{profile.tools_tokens} tokens of tools are more than the shared prefix, {shared}"
        fix = "shared_prefix_tokens counts tools and system prompt together: raise it"
        yield document.problem(("tools_tokens",), what, fix)
    limit = profile.context_tokens
    least = _least_first_call(profile)
    if least > limit:
        what = f"{limit} tokens hold no session: even short ones start with {math.ceil(least)}"
        fix = "Raise it, or lower shared_prefix_tokens and private_prompt_tokens"
        yield document.problem(("context_tokens",), what, fix)
    yield from _endless_compaction(document, profile)


def _endless_compaction(document: Document, profile: Profile) -> Iterator[Problem]:
    compaction, subagents = profile.compaction, profile.subagents
    if compaction is None:
        return
    prefixes = {"shared_prefix_tokens": profile.shared_prefix_tokens}
    if subagents is not None:
        prefixes["subagents.prompt_tokens"] = subagents.prompt_tokens
    for key, prefix in prefixes.items():
        left = math.ceil(prefix + compaction.tokens.median)
        if left >= compaction.at_tokens:
            what = f"{compaction.at_tokens} is reached again by the summary itself"
            fix = f"Raise it above {key} + compaction.tokens.median, {left}"
            yield document.problem(("compaction", "at_tokens"), what, fix)
