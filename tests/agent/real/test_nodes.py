"""Two nodes, each with a kubelet, a container runtime, GPUs and an agent of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from bed.space import wait_for
from material import GIB
from node import SLICES, Node, Pods, share


@pytest.fixture
def pods(two_nodes: list[Node]) -> Iterator[Pods]:
    made = Pods(two_nodes[0], f"t-{uuid.uuid4().hex[:8]}")
    yield made
    made.remove()


def node_of(pods: Pods, name: str) -> str:
    return pods.get(name)["spec"]["nodeName"]


def uuids(node: Node) -> list[str]:
    return [device["attributes"]["uuid"]["string"] for item in node.slices() for device in item["spec"]["devices"]]


def versions(node: Node) -> list[str]:
    return [item["metadata"]["resourceVersion"] for item in node.slices()]


def test_each_agent_publishes_its_own_gpus_and_leaves_the_other_nodes_alone(two_nodes: list[Node]) -> None:
    first, second = two_nodes
    for node in two_nodes:
        assert uuids(node) == [entry["uuid"] for entry in node.gpus]
        assert {item["spec"]["pool"]["name"] for item in node.slices()} == {node.name}
    before = versions(first)
    second.kill()
    second.devices(second.gpus[0])
    second.start()
    wait_for(lambda: second.published() == 1, "what the second node offers now")
    second.restart_kubelet()  # which takes back what its node had published
    second.devices(*second.gpus)
    wait_for(lambda: second.published() == 2, "the second node to be whole again")
    assert versions(first) == before


def test_pods_fill_the_gpus_of_both_nodes_and_no_more(two_nodes: list[Node], pods: Pods) -> None:
    template = pods.template("t", share("60Gi"))
    names = [f"p{number}" for number in range(4)]
    for name in names:
        pods.simple(name, template)
    for name in names:
        pods.running(name)
        assert pods.limits(name) == [(60 * GIB, 1000)]
    assert sorted(node_of(pods, name) for name in names) == ["node-1", "node-1", "node-2", "node-2"]
    pods.simple("fifth", template)
    wait_for(lambda: pods.is_pending("fifth"), "the fifth pod to wait")
    [freed, *_] = [name for name in names if node_of(pods, name) == "node-2"]
    pods.delete(freed)
    pods.running("fifth")
    assert node_of(pods, "fifth") == "node-2"


def test_pods_of_one_claim_are_where_its_device_is(two_nodes: list[Node], pods: Pods) -> None:
    pods.claim("shared", share("2Gi"))
    for name in ("a", "b"):
        pods.start(name, {"main": ["gpu"]}, {"gpu": {"resourceClaimName": "shared"}})
        pods.running(name)
    assert node_of(pods, "a") == node_of(pods, "b")
    [claim] = pods.claims()
    there = {node.name: claim["metadata"]["uid"] + "-0" in node.shares() for node in two_nodes}
    assert there == {node.name: node.name == node_of(pods, "a") for node in two_nodes}


def test_with_one_agent_away_the_other_node_serves_on(two_nodes: list[Node], pods: Pods) -> None:
    first, second = two_nodes
    template = pods.template("t", share("2Gi"))
    pods.start("there", {"main": ["gpu"]}, {"gpu": {"resourceClaimTemplateName": template}},
               nodeSelector={"kubernetes.io/hostname": second.name})  # fmt: skip
    pods.running("there")
    second.kill()
    second.restart_kubelet()
    wait_for(lambda: second.published() == 0, "what the second node had published to go")
    pods.simple("here", template)
    pods.running("here")
    assert node_of(pods, "here") == first.name
    second.start()
    wait_for(lambda: second.published() == 2, "the second node to be back")
    status = pods.get("there")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 0 and "running" in status["state"]
    [name] = [claim["metadata"]["uid"] + "-0" for claim in pods.claims() if "there" in claim["metadata"]["name"]]
    assert name in second.shares()


def test_15_an_agent_cannot_touch_the_slices_of_another_node(two_nodes: list[Node]) -> None:
    first, second = two_nodes
    agent = first.as_agent()
    [theirs] = second.slices()
    path = f"{SLICES}/{theirs['metadata']['name']}?dryRun=All"
    theirs["spec"]["devices"] = []
    attempts = {"PUT": theirs, "DELETE": None}
    for method, body in attempts.items():
        status, _, text = agent.exchange(method, path, body)
        assert status == 422 and "alone" in text, (method, status, text)
    [own] = first.slices()
    moved = own | {"spec": own["spec"] | {"nodeName": second.name}}
    status, _, text = agent.exchange("PUT", f"{SLICES}/{own['metadata']['name']}?dryRun=All", moved)
    assert status == 422, text
