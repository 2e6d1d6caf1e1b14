"""Make the options of a cloud's resources: which account, what is protected, what is not ours."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra.clouds.protected import kept


def guarded(
    kind: type[pulumi.CustomResource] | str,
    provider: pulumi.ProviderResource,
    *,
    ignore: Sequence[str] = (),
    after: Sequence[pulumi.Resource] = (),
    timeouts: pulumi.CustomTimeouts | None = None,
) -> pulumi.ResourceOptions:
    """Give the options of a resource of a kind, its class or its type token.

    `ignore`: inputs that others change while the cluster runs, an autoscaler or a drain.
    """
    options = pulumi.ResourceOptions(
        provider=provider,
        ignore_changes=list(ignore) or None,
        depends_on=list(after) or None,
        custom_timeouts=timeouts,
    )
    token = kind if isinstance(kind, str) else str(vars(kind)["pulumi_type"])
    return kept(token, options)
