"""Make what Pulumi needs before it can run: the bucket of its state, and a key."""
