"""Many pods that come and go (scenario 18): what is left of them, and how long each prepare took."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from bed.space import wait_for
from node import Node, Pods, share

AT_ONCE = 16  # of the twenty slots of two GPUs
KINDS = {"small": share("1Gi"), "half": share("3Gi", 20), "pair": share("2Gi", 10)}


class Churn:
    """Keeps a number of pods alive; the oldest goes when another comes, now and then by force."""

    def __init__(self, node: Node, pods: Pods, seed: int) -> None:
        self.node, self.pods = node, pods
        self.random, self.seen = random.Random(seed), len(node.log())
        self.alive: list[str] = []
        self.started = 0
        for name, wanted in KINDS.items():
            pods.template(name, wanted, *([wanted] if name == "pair" else []))

    def step(self) -> None:
        name = f"p{self.started}"
        self.pods.simple(name, self.random.choice(list(KINDS)))
        self.alive.append(name)
        self.started += 1
        if len(self.alive) > AT_ONCE // 2:
            oldest = self.alive.pop(0)
            self.pods.running(oldest)
            self.pods.delete(oldest, force=self.random.random() < 0.1)

    def run(self, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            self.step()
            if self.started % 25 == 0:
                self.node.kill()
                self.node.start()
        for name in self.alive:
            self.pods.running(name)
            self.pods.delete(name)


def records(node: Node) -> list[str]:
    return [file.read_text() for file in (node.plugin / "claims").iterdir() if not file.name.startswith(".")]


def leaves_nothing(node: Node, pods: Pods) -> None:
    wait_for(lambda: pods.claims() == [], "the claims to go")
    wait_for(lambda: node.shares() == [] and node.cdi_files() == [], "the files to go")
    # What is left of a claim is the mark that it has ended, for ten minutes. It is written after the files have gone.
    wait_for(lambda: all('"state":"Unprepared"' in text for text in records(node)), "the marks that the claims have ended")
    assert [text for text in refusals(pods) if not any(part in text for part in EXPECTED)] == []


# An agent that was just killed answers nobody; and a slot is refused as long as the container of a pod that was deleted by
# force has it, though the scheduler has given it to another.
EXPECTED = ("rpc error", "not registered", "given away twice")


def refusals(pods: Pods) -> list[str]:
    found = pods.api.get(f"/api/v1/namespaces/{pods.namespace}/events")["items"]
    return [item["message"] for item in found if item.get("reason") == "FailedPrepareDynamicResources"]


def slowest_of_a_hundred(churn: Churn) -> float:
    """Seconds within which ninety-nine of a hundred prepares were done, by the agent's log."""
    lines = churn.node.log()[churn.seen :]
    times = sorted(line["micros"] for line in lines if line["msg"] == "prepare" and line["verdict"] == "done")
    assert len(times) >= churn.started
    return times[len(times) * 99 // 100] / 1e6


@pytest.fixture
def churn(node: Node, pods: Pods) -> Churn:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return Churn(node, pods, seed)


def test_18_pods_that_come_and_go_leave_nothing(node: Node, pods: Pods, churn: Churn) -> None:
    churn.run(lambda: churn.started < 40)
    leaves_nothing(node, pods)
    assert slowest_of_a_hundred(churn) < 2


@pytest.mark.long
def test_18_two_hundred_pods_and_more_within_half_an_hour_leave_nothing(
        node: Node, pods: Pods, churn: Churn, request: pytest.FixtureRequest) -> None:  # fmt: skip
    end = time.monotonic() + 60 * request.config.getoption("--churn-minutes")
    churn.run(lambda: churn.started < 200 or time.monotonic() < end)
    leaves_nothing(node, pods)
    assert slowest_of_a_hundred(churn) < 2
    print(f"{churn.started} pods, p99 of prepare {slowest_of_a_hundred(churn) * 1000:.1f} ms")
