"""Know the clouds that a fleet file can name, and what each adds to it.

One line per cloud in `SCHEMAS`; one file per cloud beside this one, with its
`Cluster`, its `Rack` and its `SCHEMA`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from fleet.clouds import aws, azure, coreweave, existing, gcp, nebius, oci
from fleet.clouds.part import CloudSchema, Fault, Offer, typed
from fleet.schema import FileModel, refuse

__all__ = ["CLOUDS", "SCHEMAS", "Cloud", "CloudSchema", "Fault", "Offer", "read_part"]

Cloud = Literal["existing", "aws", "gcp", "oci", "azure", "coreweave", "nebius"]
CLOUDS: tuple[Cloud, ...] = get_args(Cloud)

SCHEMAS: Mapping[Cloud, CloudSchema[Any, Any]] = {
    "existing": existing.SCHEMA,
    "aws": aws.SCHEMA,
    "gcp": gcp.SCHEMA,
    "oci": oci.SCHEMA,
    "azure": azure.SCHEMA,
    "coreweave": coreweave.SCHEMA,
    "nebius": nebius.SCHEMA,
}


def read_part(kind: Literal["cluster", "rack"], offer: object) -> FileModel | None:
    """Type a `cluster` or a rack's `capacity` by the cloud of its region.

    None when the cloud itself is no cloud, which is reported at its own key.
    """
    if offer is None or isinstance(offer, FileModel):
        return offer
    if not isinstance(offer, Offer):
        raise refuse("belongs to no region", "Give it inside of a region, which names its cloud")
    if offer.data is None or offer.cloud not in CLOUDS:
        return None
    schema = SCHEMAS[offer.cloud]
    return typed(schema.cluster if kind == "cluster" else schema.rack, offer.data)
