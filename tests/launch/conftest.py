"""A Slurm for the tests of launch/."""

from collections.abc import Iterator

import pytest
from slurm_cluster import SlurmCluster, missing_daemons


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """Four nodes on this machine."""
    missing = missing_daemons()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: apt-get install slurm-wlm munge)")
    with SlurmCluster() as cluster:
        yield cluster
