"""Who may use a gateway, and how much: in the Envoy that runs its file."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateway_rig import Rig, envoy, envoy_file, on_disk, running

from fleet.errors import ConfigError
from fleet.load import Fleet
from infra.options import Layer, Options
from infra.render import KubeObject, render_region
from loadtest.settings import LoadSettings

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
MOUNT = "/etc/k3fleet/gateway-keys"
LIMITS = (
    "extends: vllm-tp8\nname: limited\nedge: {max_request_bytes: 1MB, requests_per_minute: 20}\n"
)
LOADTEST = {"image": "registry.example/k3fleet@sha256:" + "0" * 64, "tokenizer_dir": "/opt/kimi"}


@pytest.fixture(scope="module")
def limited(
    make_fleet: MakeFleet, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Fleet]:
    """Make a fleet whose gateways ask for keys and count requests."""
    release = tmp_path_factory.mktemp("release") / "limited.yaml"
    release.write_text(LIMITS)

    def make(**secrets: str) -> Fleet:
        return make_fleet(SMALL, release=str(release), secrets=secrets)

    return make


def keys_file(**keys: str) -> str:
    """Write what the Secret holds, as docs/region-objects.md says."""
    policies = {
        client: {
            "permissions": [{"any": True}],
            "principals": [
                {"header": {"name": "authorization", "string_match": {"exact": f"Bearer {key}"}}}
            ],
        }
        for client, key in keys.items()
    }
    kind = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"
    config = {"@type": kind, "rules": {"action": "ALLOW", "policies": policies}}
    resource = {
        "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
        "name": "api-keys",
        "typed_config": config,
    }
    return yaml.safe_dump({"resources": [resource]})


class MountedSecret:
    """A Secret as kubelet mounts it: a link to a folder that is exchanged as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = 0
        folder.mkdir()
        (folder / "keys.yaml").symlink_to("..data/keys.yaml")

    def write(self, text: str) -> None:
        self.versions += 1
        version = self.folder / f"..version-{self.versions}"
        version.mkdir()
        (version / "keys.yaml").write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> MountedSecret:
    found = MountedSecret(tmp_path_factory.mktemp("keys") / "mounted")
    found.write(keys_file(team_a="sesame", team_b="simsim"))
    return found


@pytest.fixture(scope="module")
def rig(
    limited: Callable[..., Fleet], secret: MountedSecret, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rig]:
    fleet = limited(gateway_keys="keys")
    folder = tmp_path_factory.mktemp("gateway")
    with running(fleet, folder, lambda text: text.replace(MOUNT, str(secret.folder))) as found:
        yield found


@pytest.mark.parametrize("key", ["", "wrong", "sesam", "sesame2"])
def test_without_a_right_key_nothing_is_answered(rig: Rig, key: str) -> None:
    """As OpenAI's API says it, so that clients understand; the readiness check needs no key."""
    rig.key = key
    status, body = rig.chat("s")
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert rig.healthy()


def test_a_request_that_is_too_large_is_refused(rig: Rig) -> None:
    """Before a frontend holds it in memory."""
    rig.key = "simsim"
    assert [rig.chat("s", size=size)[0] for size in (900_000, 1_100_000)] == [200, 413]


def test_each_key_has_requests_of_its_own(rig: Rig) -> None:
    """One team's loop must not take the other's."""
    rig.key = "sesame"
    counted = Counter(rig.chat("s")[0] for _ in range(30))
    assert counted == {200: 20, 429: 10}
    rig.key = "simsim"
    assert rig.chat("s")[0] == 200


def test_keys_change_without_a_restart(rig: Rig, secret: MountedSecret) -> None:
    """A leaked key has to go now; a file that is wrong must not lock everybody out."""
    secret.write(keys_file(team_b="simsim", team_c="fresh"))
    rig.key = "fresh"
    rig.wait(lambda: rig.chat("s")[0] == 200)
    rig.key = "sesame"
    assert rig.chat("s")[0] == 401
    secret.write("resources: [")
    rig.key = "fresh"
    rig.wait(lambda: b"Filesystem config update failure" in rig.log.read_bytes())
    assert rig.chat("s")[0] == 200


def test_envoy_accepts_the_file_without_a_warning(
    limited: Callable[..., Fleet], secret: MountedSecret, tmp_path: Path
) -> None:
    """What Envoy calls unfinished must not guard the door."""
    path = tmp_path / "envoy.yaml"
    text = on_disk(limited(gateway_keys="keys"), tmp_path, Options())
    path.write_text(text.replace(MOUNT, str(secret.folder)))
    check = subprocess.run(
        [envoy(), "--mode", "validate", "-c", str(path), "--log-level", "warning"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (check.returncode, check.stderr) == (0, "")


def rendered(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    layers: tuple[Layer, ...] = ("platform", "serving")
    return [item for layer in layers for item in render_region(fleet, "us-east", layer, options)]


def deployment(objects: list[KubeObject], name: str) -> dict[str, Any]:
    (item,) = (
        item for item in objects if (item["kind"], item["metadata"]["name"]) == ("Deployment", name)
    )
    pod: dict[str, Any] = item["spec"]["template"]["spec"]
    return pod


def mounted(pod: dict[str, Any]) -> dict[str, str]:
    """Give path -> Secret of what a pod mounts."""
    secrets = {v["name"]: v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v}
    mounts = pod["containers"][0]["volumeMounts"]
    return {m["mountPath"]: secrets[m["name"]] for m in mounts if m["name"] in secrets}


def test_keys_are_named_and_fetched_but_never_written(limited: Callable[..., Fleet]) -> None:
    """Rendered files lie in build artefacts and in Pulumi's state."""
    objects = rendered(limited(gateway_keys="keys", external_store="vault"))
    assert mounted(deployment(objects, "gateway")) == {MOUNT: "keys"}
    assert not [item for item in objects if item["kind"] == "Secret"]
    fetched = [item["spec"]["data"] for item in objects if item["kind"] == "ExternalSecret"]
    assert fetched == [[{"secretKey": "keys.yaml", "remoteRef": {"key": "keys"}}]]


def test_a_limit_without_keys_is_refused(limited: Callable[..., Fleet]) -> None:
    """It would limit nobody, and nobody would notice."""
    with pytest.raises(ConfigError, match=r"counts the requests of each key\. Name a Secret"):
        rendered(limited())


def test_the_load_generator_has_a_key_of_its_own(make_fleet: MakeFleet) -> None:
    """Its settings name a file, so that no secret is in them."""
    secrets = {"gateway_keys": "keys", "loadtest_key": "load-key"}
    objects = rendered(make_fleet(SMALL, secrets=secrets, loadtest=LOADTEST))
    (path,) = mounted(deployment(objects, "loadtest-worker"))
    (config,) = (
        item["data"]["settings.json"]
        for item in objects
        if item["kind"] == "ConfigMap" and "settings.json" in item["data"]
    )
    assert LoadSettings.model_validate_json(config).api_key_file == Path(path, "api-key")
    with pytest.raises(ConfigError, match=r"secrets\.loadtest_key: not set"):
        rendered(make_fleet(SMALL, secrets={"gateway_keys": "keys"}, loadtest=LOADTEST))


def test_a_bare_region_asks_for_no_keys(limited: Callable[..., Fleet]) -> None:
    """The lab has no Secrets, and its load would be limited."""
    objects = rendered(limited(gateway_keys="keys"), Options(bare=True))
    assert "keys" not in json.dumps(deployment(objects, "gateway"))
    text = envoy_file(limited(gateway_keys="keys"), Options(bare=True))
    assert "config_discovery" not in text
    assert "local_ratelimit" not in text
