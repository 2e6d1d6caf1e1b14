"""Pulumi program of the serving layer of one region."""

from infra.program import run

run("serving")
