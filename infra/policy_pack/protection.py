"""What must not die is declared so.

An engine shows a policy pack what is declared, not what is deleted: a deletion
of these kinds is refused by `protect`, and by the diff guard of `k3fleet up`.
"""

from __future__ import annotations

from infra.clouds.protected import PROTECTED_TYPES
from infra.policy_pack.resource import Config, Fault, Faults, Policy, Resource
from infra.protected import PROTECTED


def _protected(resource: Resource, _config: Config) -> Faults:
    if resource.protected:
        return
    kind = resource.type.rpartition(":")[2]
    of_cluster = resource.type.startswith("kubernetes:") and kind in PROTECTED
    if of_cluster or resource.type in PROTECTED_TYPES:
        yield Fault(
            resource,
            f"a {kind} takes running replicas, weights or capacity along when it goes",
            "Declare it with protect, and with retain_on_delete where nobody can make it again",
        )


POLICIES = (Policy(name="protected-kinds", title="What must not die is protected", one=_protected),)
