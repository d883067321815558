"""The agent on a real kubelet, container runtime and API server (tests/cluster): one node with made-up GPUs."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path[:0] = [str(path) for path in (
    HERE, HERE.parent, ROOT / "tests" / "cluster", ROOT / "tests" / "cluster" / "tests", ROOT / "tests" / "cases")]  # fmt: skip

from bed.cluster import Cluster, Wish  # noqa: E402
from bed.components import DEFAULT_MINOR, DEFAULT_RUNTIME, RUNTIMES  # noqa: E402
from bed.daemons import default_gates  # noqa: E402
from bed.place import own  # noqa: E402
from bed.residue import cgroups  # noqa: E402
from node import Node, Pods  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kubernetes", default=os.environ.get("CLUSTER_KUBERNETES", DEFAULT_MINOR), help="minor version")
    parser.addoption("--runtime", default=DEFAULT_RUNTIME, choices=RUNTIMES, help="container runtime of the nodes")
    parser.addoption("--keep-cluster", action="store_true", help="leave the clusters up behind the tests")
    parser.addoption("--churn-minutes", type=float, default=30, help="how long pods come and go in the long test of it")


@contextlib.contextmanager
def started(request: pytest.FixtureRequest, name: str, nodes: int, *gates: str) -> Iterator[Cluster]:
    """A cluster of this checkout's own, with feature gates beside the usual ones."""
    minor = request.config.getoption("--kubernetes")
    runtime = request.config.getoption("--runtime")
    # Short: the names of the agent's sockets come behind it, with one letter for another runtime.
    kind = minor.split(".")[1] + ("" if runtime == DEFAULT_RUNTIME else "o")
    made = Cluster(own(f"{name}-{kind}"), lambda text: print(f"cluster: {text}", flush=True))
    made.up(Wish(minor, nodes, gates=(*default_gates(minor), *gates), runtime=runtime))
    try:
        yield made
    finally:
        if not request.config.getoption("--keep-cluster"):
            made.down()
            assert not made.space.is_up() and not made.place.root.exists() and not cgroups(made.place)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with started(request, "agent", 1) as made:
        yield made


@pytest.fixture(scope="module")
def two_nodes(request: pytest.FixtureRequest) -> Iterator[list[Node]]:
    """The nodes of another cluster, each with two GPUs of its own and an agent that has published them."""
    with started(request, "pair", 2) as made:
        nodes = [Node(made, number) for number in (1, 2)]
        for node in nodes:
            node.install()
            node.settle()
        yield nodes
        for node in nodes:
            node.stop()


@pytest.fixture(scope="session")
def session_node(cluster: Cluster) -> Iterator[Node]:
    made = Node(cluster)
    made.install()
    yield made
    made.stop()


@pytest.fixture
def node(session_node: Node) -> Node:
    """Two GPUs, an agent that runs and has published, and nothing of another test."""
    session_node.settle()
    return session_node


@pytest.fixture
def pods_with_health(request: pytest.FixtureRequest) -> Iterator[Pods]:
    """A namespace on a node whose kubelet asks for health. That of 1.35 does not of its own accord, and one that is told to
    loses the status of pods once it was restarted (docs/cluster.md): there it is a node of the test's own."""
    if request.config.getoption("--kubernetes") != "1.35":
        yield request.getfixturevalue("pods")
        return
    with started(request, "health", 1, "ResourceHealthStatus=true") as cluster:
        node = Node(cluster)
        node.install()
        node.settle()
        yield Pods(node, "health")
        node.stop()


@pytest.fixture
def pods(node: Node) -> Iterator[Pods]:
    """A namespace of the test's own, emptied at its end."""
    made = Pods(node, f"t-{uuid.uuid4().hex[:8]}")
    yield made
    made.remove()
