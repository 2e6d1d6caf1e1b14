"""Have the weights put on the nodes' own disks, ahead of the engines.

A DaemonSet on the rack's nodes runs `charts/platform/stage-weights.py` with the
plan that is computed here, and labels each node with the revisions that are
whole on it. Engines ask for those labels, so they wait for their weights.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.plan import RegionPlan
from fleet.release import Release
from fleet.weights.needs import weight_sets
from fleet.weights_spec import StoreSpec
from infra.options import Options
from infra.secret_references import HF_TOKEN_KEY

ACCOUNT = "weights-stage"
LABEL_PREFIX = "weights.k3fleet.io/"
LABEL_VALUE = "ready"
ROOT = "/weights"  # in the pod
INTERVAL_S = 60  # between two looks at what is there
HASH_DIGITS = 8

# Of the token that stands for the account: whom it is for, and where it is in the pod.
AUDIENCE, IDENTITY_FOLDER = "sts.amazonaws.com", "/identity"

_CHARTS = Path(__file__).resolve().parent.parent / "charts/platform"
_SCRIPTS = ("stage-weights.py", "weights_bucket.py", "weights_disk.py", "weights_signing.py")
# The name part of a label key (Kubernetes, "Labels and selectors").
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReference:
    """The entry of a Secret that the hub's token is in."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleReference:
    """A role that nodes take by their account's token."""

    arn: str
    audience: str = AUDIENCE
    token_folder: str = IDENTITY_FOLDER

    @property
    def token_file(self) -> str:
        """Where the token is in the pod."""
        return f"{self.token_folder}/token"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingValues:
    """The weights stage of one region."""

    account: str
    # Belongs to the cluster, so it is named after the namespace.
    cluster_name: str
    image: str
    image_pull: str | None
    config_map: str
    scripts: Mapping[str, str]  # by name
    plan: str
    host_folder: str
    root: str
    arch: str
    racks: tuple[str, ...]
    token: TokenReference | None
    bucket_secret: str | None  # with the keys of a bucket that not everybody may read
    role: RoleReference | None  # or a role for its reading
    label_prefix: str


def staging_values(
    fleet: Fleet, region: RegionPlan, namespace: str, options: Options
) -> StagingValues | None:
    """Compute the weights stage; None where somebody else brings the weights."""
    stage = fleet.spec.weights_stage
    if stage is None or not stages_weights(fleet, options):
        return None
    scripts = {name: (_CHARTS / name).read_text(encoding="utf-8") for name in _SCRIPTS}
    plan = _plan(fleet, stage.keep_previous, options, region.name)
    content = "\0".join((*scripts.values(), plan))
    digest = hashlib.sha256(content.encode()).hexdigest()[:HASH_DIGITS]
    token = fleet.spec.secrets.hf_token
    nodes = fleet.spec.weights.nodes if fleet.spec.weights else None
    return StagingValues(
        account=ACCOUNT,
        cluster_name=f"{namespace}-{ACCOUNT}",
        image=stage.image,
        image_pull=fleet.spec.secrets.image_pull,
        config_map=f"{ACCOUNT}-{digest}",
        scripts=scripts,
        plan=plan,
        host_folder=options.weights_dir.rstrip("/"),
        root=ROOT,
        arch=fleet.hardware.arch,
        racks=tuple(sorted(rack.id for rack in region.racks)),
        token=None if token is None else TokenReference(secret=token, key=HF_TOKEN_KEY),
        bucket_secret=nodes.secret if nodes else None,
        role=RoleReference(arn=nodes.role) if nodes and nodes.role else None,
        label_prefix=LABEL_PREFIX,
    )


def stages_weights(fleet: Fleet, options: Options) -> bool:
    """Say whether nodes get their weights from us."""
    return (
        fleet.spec.weights_stage is not None and options.weights_claim is None and not options.bare
    )


def node_labels(release: Release, fleet: Fleet, options: Options) -> Mapping[str, str]:
    """Give the labels of a node that holds all weights of a release."""
    if not stages_weights(fleet, options):
        return {}
    return {
        _label(release, weights.revision): LABEL_VALUE
        for weights in weight_sets(fleet.model, release)
    }


def bucket_url(store: StoreSpec) -> str:
    """Give the address of a bucket, as a node asks it."""
    if store.endpoint_url is None:
        if "." in store.bucket or store.addressing == "path":  # no certificate has such a name
            return f"https://s3.{store.region}.amazonaws.com/{store.bucket}"
        return f"https://{store.bucket}.s3.{store.region}.amazonaws.com"
    if store.addressing == "virtual":
        scheme, _, host = store.endpoint_url.partition("://")
        return f"{scheme}://{store.bucket}.{host}"
    return f"{store.endpoint_url}/{store.bucket}"


def sts_url(store: StoreSpec, role: str) -> str:
    """Give the address of STS: Amazon's in the bucket's region, or the store's own."""
    if store.endpoint_url is not None:
        return store.endpoint_url
    suffix = "amazonaws.com.cn" if role.startswith("arn:aws-cn:") else "amazonaws.com"
    return f"https://sts.{store.region}.{suffix}"


def _bucket(fleet: Fleet, region: str) -> dict[str, object] | None:
    """Say where the nodes of a region read weights; None: at the hub."""
    weights = fleet.spec.weights
    if weights is None or weights.nodes is None:
        return None
    store = weights.regions[region]
    return {
        "url": bucket_url(store),
        "prefix": f"{store.prefix}/" if store.prefix else "",
        "region": store.region,
        "hub_fallback": weights.nodes.hub_fallback,
        "sts": sts_url(store, weights.nodes.role or ""),
    }


def _plan(fleet: Fleet, keep_previous: int, options: Options, region: str) -> str:
    """Write what the script is told.

    Every release that the stack knows is staged, not only those that run: a
    candidate's weights are on all nodes before the first replica gets it.
    """
    releases = {**options.releases, fleet.release_id: fleet.release}
    wanted = {
        weights.revision: weights.repo
        for release in releases.values()
        for weights in weight_sets(fleet.model, release)
    }
    pinned = fleet.spec.weights.manifests if fleet.spec.weights else {}
    plan = {
        "wanted": [
            {"repo": repo, "revision": revision}
            | ({"manifest": pinned[revision]} if revision in pinned else {})
            for revision, repo in sorted(wanted.items())
        ],
        "bucket": _bucket(fleet, region),
        "keep_previous": keep_previous,
        "interval_s": INTERVAL_S,
        "root": ROOT,
        "label_prefix": LABEL_PREFIX,
        "label_value": LABEL_VALUE,
        "api": "https://kubernetes.default.svc",
        "account": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    return json.dumps(plan, indent=2) + "\n"


def _label(release: Release, revision: str) -> str:
    if not _LABEL_NAME.fullmatch(revision):
        raise ConfigError(
            f"release {release.name}: revision {revision!r} cannot be part of a node label. "
            "Give the commit of the repository, or set no weights_stage."
        )
    return LABEL_PREFIX + revision
