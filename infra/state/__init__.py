"""Where Pulumi keeps what it knows of the stacks, and who is changing it."""
