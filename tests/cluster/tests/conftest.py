"""What the cluster tests share: one cluster with Drawbridge and the test fleet, a namespace a test, and the evidence."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path[:0] = [str(HERE.parent), str(ROOT / "tests" / "cases"), str(HERE)]


from bed.cluster import Cluster, Wish  # noqa: E402
from bed.components import DEFAULT_MINOR, DEFAULT_RUNTIME, RUNTIMES  # noqa: E402
from bed.drawbridge import Installation  # noqa: E402
from bed.place import own  # noqa: E402
from bench import Bench, Names  # noqa: E402

FLEET = ROOT / "tests" / "cases" / "fleet.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kubernetes", default=os.environ.get("CLUSTER_KUBERNETES", DEFAULT_MINOR), help="minor version")
    parser.addoption("--runtime", default=DEFAULT_RUNTIME, choices=RUNTIMES, help="container runtime of the clusters of test_clean.py")
    parser.addoption("--keep-cluster", action="store_true", help="leave the cluster up behind the tests")


@pytest.fixture(scope="session")
def minor(request: pytest.FixtureRequest) -> str:
    """The Kubernetes minor under test."""
    return request.config.getoption("--kubernetes")


@pytest.fixture(scope="session")
def runtime(request: pytest.FixtureRequest) -> str:
    return request.config.getoption("--runtime")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, minor: str) -> Iterator[Cluster]:
    """A cluster of one real node and the nodes of the test fleet."""
    tests = os.environ.get("CLUSTER_TESTS", "tests")  # another name for tests that are run by a test
    made = Cluster(own(f"{tests}-{minor.replace('.', '-')}"), lambda text: print(f"cluster: {text}", flush=True))
    made.up(Wish(minor))
    made.add_fleet(FLEET)
    try:
        yield made
    finally:
        if not request.config.getoption("--keep-cluster"):
            made.down()


@pytest.fixture(scope="session")
def installation(cluster: Cluster) -> Installation:
    """Drawbridge as its users install it."""
    made = Installation(cluster)
    made.install()
    return made


@pytest.fixture(scope="session")
def session_bench(cluster: Cluster, installation: Installation) -> Bench:
    return Bench(cluster, installation)


@pytest.fixture
def bench(session_bench: Bench) -> Bench:
    """The cluster with Drawbridge, as a test finds it: direct, serving, nothing of other tests on the fleet."""
    session_bench.settle()
    return session_bench


@pytest.fixture
def names(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Names]:
    """A namespace of the test's own."""
    yield from namespace(bench, request)


@pytest.fixture
def unasked(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Names]:
    """A namespace of the test's own, for whose pods the installed webhook is not asked."""
    yield from namespace(bench, request, **{"drawbridge.dev/mode": "off"})


def namespace(bench: Bench, request: pytest.FixtureRequest, **labels: str) -> Iterator[Names]:
    made = bench.namespace(f"t-{uuid.uuid4().hex[:8]}", **labels)
    request.node.stash[EVIDENCE] = made
    yield made
    made.remove()


EVIDENCE = pytest.StashKey[Names]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """A test that failed prints what its namespace holds, the reviews, and what the components said of it."""
    report = (yield).get_result()
    made = item.stash.get(EVIDENCE, None)
    if report.failed and report.when == "call" and made is not None:
        report.sections += made.evidence()
