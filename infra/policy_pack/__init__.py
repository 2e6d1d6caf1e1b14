"""Judge the resources of a stack before they are made: what `pulumi up --policy-pack` runs."""
