"""What the agent's tests share."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_cluster import FakeCluster
from material import Agent


@pytest.fixture(scope="session")
def referee(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CDI library that runtimes use, as a program."""
    built = tmp_path_factory.mktemp("referee") / "cdi_referee"
    subprocess.run(["go", "build", "-o", str(built), "."], cwd=Path(__file__).resolve().parent / "cdi_referee", check=True)
    return built


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
