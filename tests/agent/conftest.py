"""What the agent's tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_cluster import FakeCluster
from material import Agent


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        yield running


@pytest.fixture
def agent(cluster: FakeCluster) -> Iterator[Agent]:
    """Not started yet. In a folder with a short name, since sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="db-") as folder:
        node = Agent(Path(folder), cluster)
        yield node
        node.close()
