"""Runs of cluster programs that the tests of one cloud share."""

from __future__ import annotations

import pytest
from cloud_fleets import Change, Outcome, Run, run_cluster, write_fleet

from fleet.clouds import Cloud


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the cluster program on a cloud's example, changed or not, in one and the same folder."""
    folder = tmp_path_factory.mktemp("fleet")

    def run_example(cloud: Cloud, change: Change | None = None) -> Outcome:
        return run_cluster(write_fleet(folder, cloud, change))

    return run_example
