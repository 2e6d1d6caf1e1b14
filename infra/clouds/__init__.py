"""Find the program of a cloud, importing no other cloud's SDK."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from fleet.clouds import Cloud
from fleet.errors import ToolError
from infra.clouds.contract import CloudProgram

# Cloud -> module with PROGRAM, and the package that it needs. `pip install 'k3fleet[CLOUD]'`
# brings the package.
MODULES: Mapping[Cloud, tuple[str, str | None]] = {
    "existing": ("infra.clouds.existing", None),
    "aws": ("infra.clouds.aws", "pulumi_aws"),
    "gcp": ("infra.clouds.gcp", "pulumi_gcp"),
    "oci": ("infra.clouds.oci", "pulumi_oci"),
    "azure": ("infra.clouds.azure", "pulumi_azure_native"),
    "coreweave": ("infra.clouds.coreweave", "pulumi_coreweave"),
    "nebius": ("infra.clouds.nebius", "pulumi_nebius"),
}


def program(cloud: Cloud) -> CloudProgram:
    """Give the program of a cloud; raise ToolError when its SDK is not installed."""
    module, package = MODULES[cloud]
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if package is None or (error.name or "").partition(".")[0] != package:
            raise
        raise ToolError(
            f"cloud {cloud}: the Python package {package} is missing. "
            f"Run `pip install 'k3fleet[{cloud}]'`."
        ) from error
    return cast(CloudProgram, found.PROGRAM)
