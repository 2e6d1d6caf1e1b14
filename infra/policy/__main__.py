"""Policy pack of k3fleet's stacks: `pulumi up --policy-pack infra/policy`."""

from datetime import UTC, datetime

from infra.policy_pack.pack import serve

serve(datetime.now(UTC).date())
