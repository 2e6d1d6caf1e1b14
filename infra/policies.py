"""Have the API server refuse what would break a region later.

The rules that the objects rendered here keep, said in CEL, so that they also
hold for what a person applies by hand. Only the part of CEL that every
evaluator knows is used: no optional types, no Kubernetes libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.load import Fleet
from fleet.region_spec import REPLICA_NAME_MAX
from fleet.spec import Backend
from infra.options import Options
from infra.staging import StagingValues

RACK = "k3fleet.io/rack"
_PINNED = "has(c.image) && c.image.matches('@sha256:[0-9a-f]{64}$')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that must be true of an object, and what to do when it is not."""

    id: str
    expression: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """The rules for one kind of object."""

    name: str
    app: str
    group: str
    version: str
    resource: str
    operations: tuple[str, ...]
    rules: tuple[Rule, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    namespace: str | None  # None: the objects belong to the cluster


# An object that is going is only stripped of its finalizers: never hold it up.
_STAYS = {"stays": "!has(object.metadata.deletionTimestamp)"}
_WRITES = ("CREATE", "UPDATE")


def admission_policies(
    fleet: Fleet, namespace: str, staging: StagingValues | None, options: Options
) -> tuple[AdmissionPolicy, ...]:
    """List the policies of a region: engines, their racks' domains, the weights stage."""
    nodes = {release.nodes for release in (fleet.release, *options.releases.values())}
    engines = _engines(fleet.spec.backend, namespace, sorted(nodes), fleet.hardware.gpus_per_node)
    policies = [engines, _compute_domains(namespace)]
    if staging is not None:
        policies.append(_weights_stage(namespace, staging))
    return tuple(policies)


def _engines(backend: Backend, namespace: str, nodes: list[int], gpus: int) -> AdmissionPolicy:
    """Write the policy for what a replica is made of.

    With backend `dgd` the operator makes LeaderWorkerSets of its own, which keep
    other rules; what we give to the operator is checked instead.
    """
    shape = _LWS if backend == "lws" else _DGD
    return AdmissionPolicy(
        name=f"{namespace}-engines",
        app="engine",
        group=shape.group,
        version=shape.version,
        resource=shape.resource,
        operations=_WRITES,
        variables={"pods": shape.pods},
        conditions=_STAYS,
        rules=(_whole_nodes(shape, nodes, gpus), *shape.rules, *_POD_RULES),
        namespace=namespace,
    )


def _whole_nodes(shape: _Shape, nodes: list[int], gpus: int) -> Rule:
    return Rule(
        id="K001",
        expression=f"{shape.nodes} in {nodes} && variables.pods.all(pod, "
        "pod.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
        "'nvidia.com/gpu' in c.resources.limits && "
        f"string(c.resources.limits['nvidia.com/gpu']) == '{gpus}'))",
        message=f"a replica is {_either(nodes)} nodes with all {gpus} GPUs of each. Render "
        "it with k3fleet: other sizes split the tensor ranks wrongly.",
    )


# What both backends keep.
_POD_RULES = (
    Rule(
        id="K002",
        expression="has(object.metadata.labels) && "
        f"'{RACK}' in object.metadata.labels && variables.pods.all(pod, "
        f"has(pod.nodeSelector) && '{RACK}' in pod.nodeSelector && "
        f"pod.nodeSelector['{RACK}'] == object.metadata.labels['{RACK}'])",
        message=f"the object's label {RACK} and the node selector of every pod must name "
        "the same rack. Set them: a replica that spans two racks fails to start.",
    ),
    Rule(
        id="K008",
        expression="variables.pods.all(pod, !has(pod.tolerations) || "
        "pod.tolerations.all(t, has(t.key) && t.key != ''))",
        message="a toleration without a key also tolerates a cordon. Name its key.",
    ),
    Rule(
        id="K013",
        expression=f"size(object.metadata.name) <= {REPLICA_NAME_MAX}",
        message=f"the name has more than {REPLICA_NAME_MAX} characters, the limit of "
        "Kueue. Shorten the rack's id.",
    ),
    Rule(
        id="K014",
        expression=f"variables.pods.all(pod, pod.containers.all(c, {_PINNED}) && "
        f"(!has(pod.initContainers) || pod.initContainers.all(c, {_PINNED})))",
        message="an image is not given by digest. Write repository:tag@sha256:<digest>: "
        "tags of K3 images were moved to other content.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Where a backend's object keeps what the rules look at."""

    group: str
    version: str
    resource: str
    pods: str  # CEL: the pod specs
    nodes: str  # CEL: the number of nodes
    rules: tuple[Rule, ...]


_UPDATE = "object.spec.rolloutStrategy.rollingUpdateConfiguration"
_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_TEMPLATES = "object.spec.leaderWorkerTemplate"
_LWS = _Shape(
    group="leaderworkerset.x-k8s.io",
    version="v1",
    resource="leaderworkersets",
    pods=f"has({_TEMPLATES}.leaderTemplate) ? "
    f"[{_TEMPLATES}.leaderTemplate.spec, {_TEMPLATES}.workerTemplate.spec] : "
    f"[{_TEMPLATES}.workerTemplate.spec]",
    nodes=f"{_TEMPLATES}.size",
    rules=(
        Rule(
            id="K003",
            expression=f"!has(object.spec.rolloutStrategy) || !has({_UPDATE}) || "
            f"!has({_UPDATE}.maxSurge) || string({_UPDATE}.maxSurge) in ['0', '0%']",
            message="maxSurge must be 0. A full rack has no node to surge onto, and the rollout "
            "would wait for one for ever.",
        ),
        Rule(
            id="K004",
            expression="!has(object.metadata.annotations) || "
            f"!('{_EXCLUSIVE}' in object.metadata.annotations)",
            message=f"remove the annotation {_EXCLUSIVE}. It gives a whole rack to one replica.",
        ),
    ),
)
_COMPONENTS = "object.spec.components"
_DGD = _Shape(
    group="nvidia.com",
    version="v1beta1",
    resource="dynamographdeployments",
    # A component without pods of its own gets the operator's, which have no GPU: K001 says so.
    pods=f"has({_COMPONENTS}) && "
    f"{_COMPONENTS}.all(c, has(c.podTemplate) && has(c.podTemplate.spec)) ? "
    f"{_COMPONENTS}.map(c, c.podTemplate.spec) : []",
    nodes=f"(size(variables.pods) == 0 ? 0 : has({_COMPONENTS}[0].multinode) ? "
    f"{_COMPONENTS}[0].multinode.nodeCount : 1)",
    rules=(),
)


def _compute_domains(namespace: str) -> AdmissionPolicy:
    return AdmissionPolicy(
        name=f"{namespace}-compute-domains",
        app="compute-domain",
        group="resource.nvidia.com",
        version="v1beta1",
        resource="computedomains",
        operations=_WRITES,
        conditions=_STAYS,
        rules=(
            Rule(
                id="K006",
                expression="(!has(object.spec.numNodes) || object.spec.numNodes == 0) && "
                f"has(object.metadata.labels) && '{RACK}' in object.metadata.labels && "
                f"object.metadata.labels['{RACK}'] == object.metadata.name",
                message=f"a rack has one domain, which has its name and its label {RACK}, and "
                "numNodes 0. Render it with k3fleet: a second domain in a rack breaks the first.",
            ),
        ),
        namespace=namespace,
    )


def _weights_stage(namespace: str, staging: StagingValues) -> AdmissionPolicy:
    """Bind the weights stage's account to its own node and to its own labels there."""
    claim = "authentication.kubernetes.io/node-name"
    prefix = staging.label_prefix
    new, old = "object.metadata.labels", "oldObject.metadata.labels"
    same = " && ".join(
        f"has(object.metadata.{part}) == has(oldObject.metadata.{part}) && "
        f"(!has(object.metadata.{part}) || object.metadata.{part} == oldObject.metadata.{part})"
        for part in ("annotations", "finalizers", "ownerReferences")
    )
    return AdmissionPolicy(
        name=staging.cluster_name,
        app="weights-stage",
        group="",
        version="v1",
        resource="nodes",
        operations=("UPDATE",),
        conditions={
            "account": "request.userInfo.username == "
            f"'system:serviceaccount:{namespace}:{staging.account}'"
        },
        rules=(
            Rule(
                id="own-node",
                expression=f"has(request.userInfo.extra) && '{claim}' in request.userInfo.extra "
                f"&& object.metadata.name in request.userInfo.extra['{claim}']",
                message="the weights stage may only change the node that it runs on.",
            ),
            Rule(
                id="own-labels",
                expression=f"(!has({new}) || {new}.all(k, k.startsWith('{prefix}') || "
                f"(has({old}) && k in {old} && {new}[k] == {old}[k]))) && "
                f"(!has({old}) || {old}.all(k, k.startsWith('{prefix}') || "
                f"(has({new}) && k in {new})))",
                message=f"the weights stage may only change labels that start with {prefix}.",
            ),
            Rule(
                id="nothing-else",
                expression=f"object.spec == oldObject.spec && {same}",
                message="the weights stage may only change labels.",
            ),
        ),
        namespace=None,
    )


def _either(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))
