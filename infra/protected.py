"""Name the Kubernetes kinds whose loss takes running replicas along."""

from __future__ import annotations

# `destroy` refuses them, and a deliberate removal from the state leaves the object where it is.
PROTECTED = frozenset({"Namespace", "ComputeDomain", "CustomResourceDefinition"})
