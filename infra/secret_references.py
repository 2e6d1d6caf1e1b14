"""Name the Secrets that a region's pods use, and have them fetched.

Only references: what is in a Secret is never rendered, because rendered files
lie in build artefacts and in Pulumi's state.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.spec import FleetSpec

HF_TOKEN_KEY = "HF_TOKEN"  # noqa: S105 - the name of a key, as the public K3 recipes call it
GATEWAY_KEYS_KEY = "keys.yaml"
LOADTEST_KEY_KEY = "api-key"
REGISTRY_KEY = ".dockerconfigjson"
REGISTRY_TYPE = "kubernetes.io/dockerconfigjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSecret:
    """A Secret that the External Secrets operator fetches from a ClusterSecretStore."""

    name: str  # of the Secret, and of the entry in the store
    store: str
    key: str
    type: str


def external_secrets(spec: FleetSpec) -> tuple[ExternalSecret, ...]:
    """List what has to be fetched; a token that nobody reads stays in its store."""
    secrets = spec.secrets
    if secrets.external_store is None:
        return ()
    found = []
    if secrets.image_pull is not None:
        found.append((secrets.image_pull, REGISTRY_KEY, REGISTRY_TYPE))
    if secrets.hf_token is not None and spec.weights_stage is not None:
        found.append((secrets.hf_token, HF_TOKEN_KEY, "Opaque"))
    if secrets.gateway_keys is not None:
        found.append((secrets.gateway_keys, GATEWAY_KEYS_KEY, "Opaque"))
    if secrets.loadtest_key is not None and spec.loadtest is not None:
        found.append((secrets.loadtest_key, LOADTEST_KEY_KEY, "Opaque"))
    return tuple(
        ExternalSecret(name=name, store=secrets.external_store, key=key, type=kind)
        for name, key, kind in found
    )
