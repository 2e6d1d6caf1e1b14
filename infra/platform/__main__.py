"""Pulumi program of the platform layer of one region."""

from infra.program import run

run("platform")
