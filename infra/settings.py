"""Define the configuration of a stack, for both sides of it.

The runner writes it into a stack file and the Pulumi program reads it back; by
hand, `pulumi config set` writes the same keys. One table says what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from fleet.api_version import newer_fault
from fleet.errors import ConfigError
from fleet.folders import host_folder_fault
from fleet.load import load_release
from fleet.release import Tokenizer
from fleet.release_file import by_id
from infra.options import Options

Kind = Literal["text", "number", "flag", "object"]
# Layers of a fleet in the order in which they are built; `global` is one stack for all regions.
StackLayer = Literal["global", "cluster", "platform", "serving"]

# Stack configuration key -> field of Options. What is not set keeps the default there.
OPTION_KEYS: Mapping[str, tuple[str, Kind]] = {
    "dra": ("dra", "flag"),
    "namespace": ("namespace", "text"),
    "gatewayListen": ("gateway_listen", "text"),
    "gatewayPort": ("gateway_port", "number"),
    "gatewayAdminPort": ("gateway_admin_port", "number"),
    "gatewayAddresses": ("gateway_addresses", "object"),
    "gatewayRoot": ("gateway_root", "text"),
    "gatewayImage": ("gateway_image", "text"),
    "dnsServer": ("dns_server", "text"),
    "tokenizer": ("tokenizer", "text"),
    "bare": ("bare", "flag"),
    "monitoringNamespace": ("monitoring_namespace", "text"),
    "weightsDir": ("weights_dir", "text"),
    "weightsClaim": ("weights_claim", "text"),
    "assignment": ("assignment", "object"),
    "shared": ("shared", "text"),
    "serial": ("serial", "number"),
}
REQUIRED_KEYS = ("fleet", "region", "kubeconfig")
CLUSTER_KEYS = ("fleet", "region")
GLOBAL_KEYS = ("fleet",)
VERSION_KEY = "apiVersion"  # of the configuration itself; not set: ours
OTHER_KEYS = ("context", "releases", VERSION_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a stack is told."""

    fleet: Path
    region: str
    kubeconfig: Path  # a path, so that no credentials get into the state
    context: str | None = None  # of the kubeconfig; None: its current one
    # Presets or files of releases that the assignment names beside the fleet's own.
    releases: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlace:
    """What a stack is told that has no cluster yet: of a region, or of the whole fleet."""

    fleet: Path
    region: str = ""  # empty: the global stack


class StackConfig(Protocol):
    """The part of `pulumi.Config` that is used here."""

    def get(self, key: str) -> str | None: ...

    def get_bool(self, key: str) -> bool | None: ...

    def get_int(self, key: str) -> int | None: ...

    def get_object(self, key: str) -> object: ...


def to_config(settings: Settings | StackPlace) -> dict[str, object]:
    """Write settings as stack configuration; defaults are left out."""
    if isinstance(settings, StackPlace):
        region = {"region": settings.region} if settings.region else {}
        return {"fleet": str(settings.fleet.resolve()), **region}
    standard = Options()
    config: dict[str, object] = {
        "fleet": str(settings.fleet.resolve()),
        "region": settings.region,
        "kubeconfig": str(settings.kubeconfig.resolve()),
    }
    if settings.context:
        config["context"] = settings.context
    if settings.releases:
        config["releases"] = list(settings.releases)
    for key, (name, _) in OPTION_KEYS.items():
        value = getattr(settings.options, name)
        if value != getattr(standard, name):
            config[key] = dict(value) if isinstance(value, Mapping) else value
    return config


def from_config(config: StackConfig) -> Settings:
    """Read settings from stack configuration, and load the releases that they name."""
    _require(config, REQUIRED_KEYS)
    fleet = Path(config.get("fleet") or "").resolve()
    names = config.get_object("releases") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError("stack configuration: releases: expected a list of names or paths.")
    releases = [load_release(name, beside=fleet) for name in names]
    options = _options(config)
    return Settings(
        fleet=fleet,
        region=config.get("region") or "",
        kubeconfig=Path(config.get("kubeconfig") or "").resolve(),
        context=config.get("context") or None,
        releases=tuple(names),
        options=replace(options, releases=by_id(zip(names, releases, strict=True))),
    )


def fleet_and_region(config: StackConfig) -> tuple[Path, str]:
    """Read what a cluster's stack is told: the fleet file, and a region of it."""
    _require(config, CLUSTER_KEYS)
    return Path(config.get("fleet") or "").resolve(), config.get("region") or ""


def fleet_file(config: StackConfig) -> Path:
    """Read what the global stack is told: the fleet file."""
    _require(config, GLOBAL_KEYS)
    return Path(config.get("fleet") or "").resolve()


def _require(config: StackConfig, keys: Sequence[str]) -> None:
    if fault := newer_fault(config.get(VERSION_KEY)):
        raise ConfigError(f"stack configuration: {VERSION_KEY}: {fault[0]}. {fault[1]}.")
    missing = [key for key in keys if not config.get(key)]
    if missing:
        raise ConfigError(
            f"stack configuration: {', '.join(missing)} not set. "
            f"Run `pulumi config set {missing[0]} VALUE`."
        )


def newer_config(why: str) -> ConfigError:
    """Say that a stack was told something by a newer k3fleet than this one."""
    return ConfigError(
        f"stack configuration: written by a newer k3fleet ({why}). "
        "Bring this k3fleet up to date, then run again."
    )


def _options(config: StackConfig) -> Options:
    read: dict[Kind, Callable[[str], object]] = {
        "text": config.get,
        "number": config.get_int,
        "flag": config.get_bool,
        "object": config.get_object,
    }
    found = {name: read[kind](key) for key, (name, kind) in OPTION_KEYS.items()}
    given: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    for key, (name, kind) in OPTION_KEYS.items():
        if kind == "object" and not _is_text_map(given.get(name, {})):
            raise ConfigError(f"stack configuration: {key}: expected `name: text` lines.")
    tokenizer = given.get("tokenizer")
    if tokenizer is not None and tokenizer not in get_args(Tokenizer):
        known = ", ".join(get_args(Tokenizer))
        raise ConfigError(
            f"stack configuration: tokenizer: {tokenizer!r} is not known. Use one of: {known}."
        )
    options = Options(**given)
    if fault := host_folder_fault(options.weights_dir):
        raise ConfigError(f"stack configuration: weightsDir: {fault[0]}. {fault[1]}.")
    return options


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
