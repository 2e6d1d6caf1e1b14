"""Desired state made real: chart values, rendered objects and the Pulumi programs."""
