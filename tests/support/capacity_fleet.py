"""A fleet in AWS with one rack that has capacity and one that waits for it, and a clock of ours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra.capacity.clock import Clock

ACCOUNT = "123456789012"  # moto's own
RESERVATION = "cr-0123456789abcdef0"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)

FLEET = """\
apiVersion: k3fleet/v1
name: prod
release: vllm-tp8-dcp8
regions:
  - name: us-east
    cloud: aws
    cluster:
      account: "ACCOUNT"
      region: us-east-1
      zone_groups: [us-east-1-dfw-2]
      admins: ["arn:aws:iam::123456789012:role/sre"]
      addons: {vpc-cni: v1.20.4-eksbuild.2}
      given_network:
        vpc: vpc-0123456789abcdef0
        control_plane:
          us-east-1a: subnet-0123456789abcdef0
          us-east-1b: subnet-0123456789abcdef1
        nodes: {us-east-1-dfw-2a: subnet-0123456789abcdef2}
    racks:
      - id: use1-r01
        capacity: {reservation: RESERVATION, zone: us-east-1-dfw-2a}
        capacity_ends_at: 2026-12-17T11:30:00Z
      - id: use1-r02
"""


def write_fleet(folder: Path, *, account: str = ACCOUNT, more: str = "") -> Path:
    """Write the fleet file."""
    path = folder / "fleet.yaml"
    text = FLEET.replace("ACCOUNT", account).replace("RESERVATION", RESERVATION)
    path.write_text(text + more)
    return path


@dataclass
class Moment:
    """A time that goes on only when somebody waits."""

    now: datetime = NOW
    waited_s: float = 0.0

    def clock(self) -> Clock:
        """Give it as a clock."""
        return Clock(now=lambda: self.now, pause=self._pause)

    def _pause(self, seconds: float) -> None:
        assert seconds > 0, "a wait that lets no time pass never ends"
        self.waited_s += seconds
        self.now += timedelta(seconds=seconds)
