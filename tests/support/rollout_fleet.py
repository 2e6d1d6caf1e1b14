"""The fleet of the rollout tests: two regions of two replicas, and the releases they are given."""

from __future__ import annotations

from collections.abc import Mapping

FLEET = """\
apiVersion: k3fleet/v1
name: roll
release: ./old.yaml
frontends: {replicas: 1}
regions:
  - name: east
    racks: [{id: e01, healthy_nodes: 4}]
  - name: west
    racks: [{id: w01, healthy_nodes: 4}]
"""
STRATEGY = """\
apiVersion: k3fleet/v1
waves:
  - {scope: canary, soak: 2s, gates: {min_requests: 5, min_replica_requests: 3}}
  - {scope: rest, soak: 1s, gates: {min_requests: 5, min_replica_requests: 3}}
at_once: {per_rack: 1, per_region: 1, regions: 2}
floor: {rack: 0.5, region: 0.5}
deadlines: {ready: 45s, registered: 30s, gates: 60s}
reruns: 0
webhook: http://127.0.0.1:9/nobody-listens
"""
RELEASES: Mapping[str, Mapping[str, object]] = {
    "old": {"drain_s": "30s"},
    "batch": {"drain_s": "30s", "max_num_seqs": 48},
    "third": {"drain_s": "30s", "max_num_seqs": 40},
    "cards": {"drain_s": "30s", "max_num_seqs": 32},
    "apart": {"drain_s": "30s", "block_size": 256},
}
