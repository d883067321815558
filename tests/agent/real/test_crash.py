"""The agent killed before each step of a prepare and of an unprepare, on a real kubelet (scenario 8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.space import wait_for
from material import GIB, ROOT
from node import Node, Pods, share

PROGRAM = ROOT / "build" / "debug" / "bin" / "dying_agent"


@pytest.fixture
def wish(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file with the step before which the agent dies; it runs in place of the usual one."""
    file = node.bed.root / "dying"
    node.stop()
    node.environment = {"DYING_AGENT": str(file)}
    node.start(program=PROGRAM)
    yield file
    file.unlink(missing_ok=True)
    node.stop()
    node.environment = {}


def died(node: Node, wish: Path) -> None:
    """Waits until the agent has died where it was told to, and starts it anew."""
    wait_for(lambda: not wish.exists() and not node.runs(), "the agent to die")
    node.start(program=PROGRAM)


@pytest.mark.parametrize("step", ["begin", "library", "share", "cdi", "answer"])
def test_8_killed_in_a_prepare_the_pod_starts_all_the_same(node: Node, pods: Pods, wish: Path, step: str) -> None:
    wish.write_text(step)
    pods.simple("one", pods.template("t", share("2Gi", 20)))
    died(node, wish)
    pods.running("one")
    assert pods.limits("one") == [(2 * GIB, 200)]
    assert len(node.shares()) == len(node.cdi_files()) == 1
    pods.delete("one")
    wait_for(lambda: node.shares() == [] and node.cdi_files() == [], "the files to go")


@pytest.mark.parametrize("step", ["remove", "bury"])
def test_8_killed_in_an_unprepare_nothing_is_left(node: Node, pods: Pods, wish: Path, step: str) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")
    wish.write_text(step)
    pods.delete("one")
    died(node, wish)
    wait_for(lambda: node.shares() == [] and node.cdi_files() == [], "the files to go")
