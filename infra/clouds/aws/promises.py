"""Say what AWS can and cannot promise about a rack."""

from __future__ import annotations

from infra.clouds.contract import Promise

PROMISES = (
    Promise(
        what="a rack's nodes are one NVLink domain",
        kept=True,
        instead="one node group per UltraServer block; `k3fleet racks preflight` asserts one "
        "clique, because a block can hold several",
    ),
    Promise(
        what="nodes carry their rack's label",
        kept=True,
        instead="EKS puts the label of the node group on every node that joins",
    ),
    Promise(
        what="18 nodes join",
        kept=False,
        instead="EKS does not check it, and a block that is not active yet gives launch errors: "
        "set initial_nodes 0 until it is, and run `k3fleet racks preflight`",
    ),
    Promise(
        what="a rack is drained before its block ends",
        kept=False,
        instead="EKS scales the group down 40 minutes before the end, while EC2 wants UltraServer "
        "instances gone by 60: set capacity_ends_at and drain before, with `k3fleet racks drain`",
    ),
    Promise(
        what="nodes get a new AMI without leaving their block",
        kept=False,
        instead="AWS asks for 0 nodes before a node group of a block is upgraded: drain the rack "
        "and scale it to 0, then change its ami_release",
    ),
    Promise(
        what="the network cards are those of a GB300",
        kept=False,
        instead="AWS publishes no layout for p6e-gb300: that of p6e-gb200 is taken "
        "(infra/clouds/aws/network_cards.yaml); compare vpc.amazonaws.com/efa on the first node",
    ),
    Promise(
        what="capacity is bought",
        kept=False,
        instead="never by `up`: `k3fleet capacity buy` buys a block and prints its reservation",
    ),
    Promise(
        what="the cluster cannot be deleted by mistake",
        kept=True,
        instead="EKS deletion protection, and protected in the stack",
    ),
)
