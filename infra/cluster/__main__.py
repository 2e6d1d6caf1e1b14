"""Pulumi program of the cluster of one region."""

from infra.cluster_program import run

run()
