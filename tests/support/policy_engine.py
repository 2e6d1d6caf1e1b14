"""Ask a policy pack as Pulumi's engine does, without the engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

PACK = Path(__file__).parents[2] / "infra/policy"
# What the engine writes where a preview does not know a text yet (pulumi's UNKNOWN_STRING).
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# An engine's address that nobody answers: a pack only logs to it.
_NO_ENGINE = "127.0.0.1:1"
_PROVIDERS = "pulumi:providers:"
_LEVELS = {0: "advisory", 1: "mandatory", 2: "disabled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What the engine is told."""

    policy: str
    level: str
    message: str
    urn: str


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine's side of the protocol."""

    stub: Any

    def configure(self, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Send settings and levels, as `--policy-pack-config` does."""
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        numbers = {name: number for number, name in _LEVELS.items()}
        for name, given in settings.items():
            properties = {key: value for key, value in given.items() if key != "enforcementLevel"}
            request.policyConfig[name].properties.update(properties)
            level = given.get("enforcementLevel", "mandatory")
            request.policyConfig[name].enforcementLevel = numbers[level]
        self.stub.Configure(request)

    def policies(self) -> dict[str, str]:
        """Give the levels by policy, as the pack says them."""
        info = self.stub.GetAnalyzerInfo(json_format.ParseDict({}, struct_pb2.Struct()))
        return {item.name: _LEVELS[item.enforcementLevel] for item in info.policies}

    def one(self, item: Mapping[str, Any]) -> list[Violation]:
        """Ask about a resource before it is made."""
        answer = self.stub.Analyze(analyzer_pb2.AnalyzeRequest(**_fields(item)))
        return _violations(answer)

    def stack(self, items: Sequence[Mapping[str, Any]]) -> list[Violation]:
        """Ask about all resources of a stack."""
        resources = [analyzer_pb2.AnalyzerResource(**_fields(item)) for item in items]
        for resource, item in zip(resources, items, strict=True):
            for key, urns in item.get("uses", {}).items():
                resource.propertyDependencies[key].urns.extend(urns)
        return _violations(
            self.stub.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources))
        )


@contextmanager
def policy_engine() -> Iterator[Engine]:
    """Start the pack in a process of its own, and end it."""
    argv = [sys.executable, "-u", "-m", "pulumi.policy", _NO_ENGINE, str(PACK)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=PACK, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield Engine(analyzer_pb2_grpc.AnalyzerStub(channel))
        finally:
            process.kill()


def urn(item: Mapping[str, Any]) -> str:
    """Name a resource as the engine does."""
    return f"urn:pulumi:test::k3fleet-test::{item['type']}::{item.get('name', 'x')}"


def _fields(item: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": item["type"],
        "name": item.get("name", "x"),
        "urn": urn(item),
        "properties": _struct(item.get("props", {})),
        "options": analyzer_pb2.AnalyzerResourceOptions(protect=item.get("protect", False)),
    }
    if provider := item.get("provider"):
        fields["provider"] = analyzer_pb2.AnalyzerProviderResource(
            type=f"{_PROVIDERS}{provider['package']}",
            name=provider["name"],
            urn=f"urn:pulumi:test::k3fleet-test::pulumi:providers::{provider['name']}",
            properties=_struct(provider.get("props", {})),
        )
    return fields


def _struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def _violations(answer: Any) -> list[Violation]:
    return [
        Violation(
            policy=item.policyName,
            level=_LEVELS[item.enforcementLevel],
            message=item.message,
            urn=item.urn,
        )
        for item in answer.diagnostics
    ]


def declared(requests: Sequence[Any]) -> list[dict[str, Any]]:
    """Turn what a program asked of the mock engine into what the real one sends a pack."""
    providers = {item.name: item for item in requests if item.type.startswith(_PROVIDERS)}
    found = []
    for item in requests:
        if item.type.startswith("pulumi:") or not item.custom:
            continue
        sent: dict[str, Any] = {
            "type": item.type,
            "name": item.name,
            "props": json_format.MessageToDict(item.object),
            "protect": item.protect,
            "uses": {
                key: [_plain_urn(text) for text in used.urns]
                for key, used in item.propertyDependencies.items()
            },
        }
        # An URN and an id: …::pulumi:providers:aws::NAME::ID
        if own := providers.get("".join(item.provider.split("::")[-2:-1])):
            props = json_format.MessageToDict(own.object)
            package = own.type.removeprefix(_PROVIDERS)
            sent["provider"] = {"package": package, "name": own.name, "props": props}
        found.append(sent)
    return found


def _plain_urn(text: str) -> str:
    *_, kind, name = text.split("::")
    return urn({"type": kind.rpartition("$")[2], "name": name})
