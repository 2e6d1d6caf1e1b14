"""Pulumi program of what all regions share."""

from infra.global_program import run

run()
