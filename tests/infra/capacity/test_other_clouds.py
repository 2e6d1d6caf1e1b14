"""Claims about reading capacity in Google's and Oracle's clouds, with messages of their shape.

The SDKs are optional and not installed with the tests: what they answer is written down here,
after google-cloud-compute 1.57 and oci 2.189.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fleet.errors import CloudError, ToolError
from fleet.load import Fleet, load_fleet
from infra.capacity.aws_access import AwsAccess
from infra.capacity.contract import CapacityReader
from infra.capacity.readers import readers

FABRIC = "ocid1.computegpumemoryfabric.oc1.iad.aaaa"
IMAGE = "ocid1.image.oc1.iad.aaaa"
PATH = "k3/reservationBlocks/b1/reservationSubBlocks/s1"

FLEET = f"""\
apiVersion: k3fleet/v1
name: prod
release: vllm-tp8-dcp8
regions:
  - name: central
    cloud: gcp
    cluster:
      project: k3-production
      zone: us-central1-b
      version: 1.35.3-gke.1318000
      hold_upgrades_from: 2026-12-01T00:00:00Z
    racks:
      - id: usc1-r01
        capacity: {{reservation: k3, block: b1, sub_block: s1}}
        capacity_ends_at: 2027-01-01T00:00:00Z
      - id: usc1-r02
  - name: ashburn
    cloud: oci
    cluster:
      tenancy: ocid1.tenancy.oc1..aaaa
      compartment: ocid1.compartment.oc1..aaaa
      region: us-ashburn-1
      home_region: us-ashburn-1
      availability_domain: "XyZw:US-ASHBURN-AD-1"
      version: "v1.34.2"
      system_nodes: {{image: {IMAGE}}}
    racks:
      - id: iad-r01
        capacity: {{fabric: {FABRIC}, image: {IMAGE}}}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return load_fleet(path)


def no_aws() -> AwsAccess:
    raise AssertionError("no region of this fleet is in AWS")


def both(fleet: Fleet) -> list[CapacityReader]:
    return readers(fleet, no_aws)


def google(health: dict[str, Any], **reservation: Any) -> Any:
    """Give a stand-in for google.cloud.compute_v1 that notes what it is asked."""
    asked: list[dict[str, str]] = []
    part = SimpleNamespace(count=18, health_info=SimpleNamespace(**health))
    whole = SimpleNamespace(**{"status": "READY", "delete_at_time": "", **reservation})

    def client(answer: Any) -> Any:
        def get(**words: str) -> Any:
            asked.append(words)
            return answer

        return lambda: SimpleNamespace(get=get)

    return SimpleNamespace(
        asked=asked,
        ReservationsClient=client(whole),
        ReservationBlocksClient=client(SimpleNamespace(resource=part)),
        ReservationSubBlocksClient=client(SimpleNamespace(resource=part)),
    )


def sub_block(status: str, hosts: int = 0, infra: int = 0) -> dict[str, Any]:
    return {
        "health_status": status,
        "degraded_host_count": hosts,
        "healthy_host_count": 18 - hosts,
        "degraded_infra_count": infra,
    }


def install(monkeypatch: pytest.MonkeyPatch, name: str, module: Any) -> None:
    made = ModuleType(name)
    vars(made).update(vars(module))
    monkeypatch.setitem(sys.modules, name, made)


@pytest.mark.parametrize(
    ("health", "interconnect", "unavailable"),
    [
        (sub_block("HEALTHY"), "ok", 0),
        (sub_block("DEGRADED", hosts=2), "ok", 2),
        (sub_block("DEGRADED", infra=1), "impaired", 0),
        (sub_block("HEALTH_STATUS_UNSPECIFIED"), "insufficient-data", 0),
    ],
)
def test_googles_sub_block_is_a_rack(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    health: dict[str, Any],
    interconnect: str,
    unavailable: int,
) -> None:
    """Broken trays are another alarm than a broken NVLink domain."""
    sdk = google(health, delete_at_time="2027-01-01T00:00:00Z")
    install(monkeypatch, "google.cloud.compute_v1", sdk)
    reader = both(fleet)[0]
    (block,) = reader.blocks()
    assert block.health is not None
    assert (block.health.interconnect, block.health.unavailable) == (interconnect, unavailable)
    assert (block.state, block.id, f"{block.ends_at:%Y-%m-%d}") == ("active", PATH, "2027-01-01")
    at = {"project": "k3-production", "zone": "us-central1-b"}
    parent = "reservations/k3/reservationBlocks/b1"
    assert sdk.asked == [
        {**at, "reservation": "k3"},
        {**at, "parent_name": parent, "reservation_sub_block": "s1"},
    ]


def test_a_rack_without_capacity_is_claimed_without_reservation(fleet: Fleet) -> None:
    """It is planned, and nothing was bought for it."""
    claims = both(fleet)[0].claims()
    assert [(claim.rack, claim.reservation) for claim in claims] == [
        ("usc1-r01", PATH),
        ("usc1-r02", None),
    ]


@pytest.mark.parametrize(
    ("state", "health", "expected"),
    [
        ("OCCUPIED", "HEALTHY", ("active", "ok", 2)),
        ("DEGRADED", "UNHEALTHY", ("active", "impaired", 2)),
        ("UNAVAILABLE", None, ("unavailable", "insufficient-data", 2)),
    ],
)
def test_oracles_fabric_is_a_rack(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    health: str | None,
    expected: tuple[str, str, int],
) -> None:
    """Its health is that of the NVLink fabric; its hosts are counted apart."""
    fabric = SimpleNamespace(
        id=FABRIC,
        lifecycle_state=state,
        fabric_health=health,
        total_host_count=18,
        healthy_host_count=16,
    )

    class Client:
        def __init__(self, settings: dict[str, str]) -> None:
            assert settings == {"user": "u", "region": "us-ashburn-1"}

        def get_compute_gpu_memory_fabric(self, name: str) -> Any:
            assert name == FABRIC
            return SimpleNamespace(data=fabric)

    def from_file(profile_name: str) -> dict[str, str]:
        assert profile_name == "DEFAULT"
        return {"user": "u"}

    sdk = SimpleNamespace(
        config=SimpleNamespace(from_file=from_file), core=SimpleNamespace(ComputeClient=Client)
    )
    install(monkeypatch, "oci", sdk)
    (block,) = both(fleet)[1].blocks()
    assert block.health is not None
    assert (block.state, block.health.interconnect, block.health.unavailable) == expected


@pytest.mark.parametrize(
    ("number", "module", "package"),
    [(0, "google.cloud.compute_v1", "google-cloud-compute"), (1, "oci", "oci")],
)
def test_a_missing_sdk_says_what_to_install(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, number: int, module: str, package: str
) -> None:
    """They are large, and most fleets need none of them."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ToolError, match=f"pip install {package}"):
        both(fleet)[number].blocks()


def test_an_sdks_error_is_told_in_one_line(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's are pages long, and may hold tokens."""

    class RefusedError(Exception):
        pass

    def refuse() -> Any:
        raise RefusedError("403 no permission\n" + "secret " * 1000)

    sdk = SimpleNamespace(ReservationsClient=refuse)
    install(monkeypatch, "google.cloud.compute_v1", sdk)
    with pytest.raises(CloudError) as raised:
        both(fleet)[0].blocks()
    said = str(raised.value)
    assert said.startswith("gcp k3-production: RefusedError: 403 no permission. Check the login")
    assert "secret" not in said
