"""The agent as its users install it: image, DaemonSet, its own account; upgraded and taken away again under load."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.agent import NAMESPACE, AgentInstallation
from bed.cluster import Cluster
from bed.space import wait_for
from material import GIB, gpu
from node import SHOW_SHARES, Node, Pods, share

NAME = "drawbridge-agent"


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("devices") / "devices.json"
    file.write_text(json.dumps({"apiVersion": "drawbridge.dev/v1", "kind": "DeviceList", "devices": [gpu(1), gpu(2)]}))
    return file


@pytest.fixture(scope="module")
def installation(cluster: Cluster, session_node: Node, devices: Path) -> Iterator[AgentInstallation]:
    """In place of the agent that other tests run as a process; the rights and the policy stay for them."""
    session_node.stop()
    made = AgentInstallation(cluster)
    made.install(devices)
    yield made
    cluster.kubectl("delete", "--namespace", NAMESPACE, "--wait", "daemonset", NAME)
    wait_for(lambda: not made.pods(), "the agent to go")


@pytest.fixture
def node(session_node: Node, installation: AgentInstallation, devices: Path) -> Node:
    """The node with the installed agent, in place of the fixture that starts a process."""
    installation.install(devices)
    wait_for(lambda: session_node.published() == 2, "two published devices")
    return session_node


def agent_pod(installation: AgentInstallation) -> dict:
    [pod] = installation.pods()
    return pod


def test_the_installed_agent_publishes_and_gives_shares(node: Node, pods: Pods, installation: AgentInstallation) -> None:
    pod = agent_pod(installation)
    assert pod["spec"]["serviceAccountName"] == NAME
    pods.simple("one", pods.template("t", share("2Gi", 20)))
    pods.running("one")
    assert pods.limits("one") == [(2 * GIB, 200)]
    # Builds of other tests may still lie beside it.
    mounted = re.findall(r"/lib/([^/\"]+)/libdrawbridge\.so", "".join((node.bed.cdi / name).read_text() for name in node.cdi_files()))
    assert mounted and {path.name for path in (node.plugin / "lib").iterdir()} >= set(mounted)
    log = installation.logs()
    assert '"verdict":"done"' in log and '"level":"error"' not in log
    # The runtime's socket is seen through the host's root.
    metrics = node.cluster.inside("curl", "-s", f"http://{pod['status']['podIP']}:8082/metrics")
    assert "drawbridge_agent_cdi 1\n" in metrics


def test_settings_are_a_config_map_which_need_not_be_there(node: Node, pods: Pods, installation: AgentInstallation) -> None:
    def slots() -> set[str]:
        return {device["capacity"]["slots"]["value"] for item in node.slices() for device in item["spec"]["devices"]}

    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    assert node.api.find(f"{maps}/{NAME}") is None and slots() == {"10"}
    text = "apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nsplitCount: 3\n"
    node.api.call("POST", maps, {"metadata": {"name": NAME}, "data": {"settings.yaml": text}})
    try:
        # The kubelet brings it to a pod that runs within two minutes, to a new one at once.
        done = node.cluster.kubectl("--namespace", NAMESPACE, "rollout", "restart", "daemonset", NAME)
        assert done.returncode == 0, done.stderr
        wait_for(lambda: slots() == {"3"}, "the settings to hold")
        wait_for(lambda: installation.rolled_out() and len(installation.pods()) == 1, "the update to end")
    finally:
        node.api.call("DELETE", f"{maps}/{NAME}")
        node.cluster.kubectl("--namespace", NAMESPACE, "rollout", "restart", "daemonset", NAME)
    wait_for(lambda: slots() == {"10"} and installation.rolled_out() and len(installation.pods()) == 1, "the defaults to hold")


def test_11_a_rolling_update_fails_no_prepare(node: Node, pods: Pods, installation: AgentInstallation) -> None:
    pods.template("t", share("1Gi"))
    pods.simple("before", "t")
    pods.running("before")
    first = agent_pod(installation)["metadata"]["uid"]
    done = node.cluster.kubectl("--namespace", NAMESPACE, "rollout", "restart", "daemonset", NAME)
    assert done.returncode == 0, done.stderr
    started = 0
    # Pods come and go all the while, and some more once the old agent has gone.
    while started < 6 or not (installation.rolled_out() and len(installation.pods()) == 1):
        name = f"during-{started}"
        pods.simple(name, "t")
        pods.running(name)
        pods.delete(name)
        started += 1
        assert started < 200, "the update does not end"
    assert agent_pod(installation)["metadata"]["uid"] != first
    assert "FailedPrepareDynamicResources" not in pods.reasons(), pods.events
    assert pods.get("before")["status"]["containerStatuses"][0]["restartCount"] == 0
    # No socket of the one that went is left for the kubelet to try.
    wait_for(lambda: len(list((node.bed.kubelet_root / "plugins_registry").iterdir())) == 1, "the old socket to go")


def ended(pods: Pods) -> int:
    return sum(pod["status"].get("phase") == "Succeeded" for pod in pods.api.get(pods.path)["items"])


@pytest.mark.long
def test_11_five_hundred_pods_start_while_one_update_follows_the_other(
        node: Node, pods: Pods, installation: AgentInstallation) -> None:  # fmt: skip
    template = pods.template("t", share("1Gi"))
    updates = started = 0
    while started < 500:
        if installation.rolled_out() and len(installation.pods()) == 1:
            done = node.cluster.kubectl("--namespace", NAMESPACE, "rollout", "restart", "daemonset", NAME)
            assert done.returncode == 0, done.stderr
            updates += 1
        batch = [f"p{number}" for number in range(started, started + 10)]
        for name in batch:
            pods.start(name, {"main": ["gpu"]}, {"gpu": {"resourceClaimTemplateName": template}},
                       show=SHOW_SHARES + "; echo READY", restartPolicy="Never")  # fmt: skip
        wait_for(lambda: ended(pods) == 10, lambda: f"ten pods to end: {pods.events}")
        for name in batch:
            assert pods.limits(name) == [(GIB, 1000)], name
            pods.delete(name)
        started += 10
    assert updates >= 10
    assert "FailedPrepareDynamicResources" not in pods.reasons(), pods.events
    wait_for(lambda: node.shares() == [] and node.cdi_files() == [], "the files to go")


def test_17_removed_in_the_right_order_nothing_is_stuck(node: Node, pods: Pods, installation: AgentInstallation) -> None:
    pods.simple("one", pods.template("t", share("1Gi")))
    pods.running("one")
    pods.delete("one")
    wait_for(lambda: node.shares() == [] and node.cdi_files() == [], "the claims to be unprepared")
    node.cluster.kubectl("delete", "--namespace", NAMESPACE, "--wait", "daemonset", NAME)
    wait_for(lambda: not installation.pods(), "the agent to go")
    assert not list((node.bed.kubelet_root / "plugins_registry").iterdir())
    wait_for(lambda: node.published() == 0, "the kubelet to take back what was published", seconds=120)


def test_17_in_the_wrong_order_pods_end_once_an_agent_is_back(
        node: Node, pods: Pods, installation: AgentInstallation, devices: Path) -> None:  # fmt: skip
    pods.simple("one", pods.template("t", share("1Gi")))
    pods.running("one")
    [name] = node.shares()
    node.cluster.kubectl("delete", "--namespace", NAMESPACE, "--wait", "daemonset", NAME)
    wait_for(lambda: not installation.pods(), "the agent to go")
    pods.delete("one")
    wait_for(lambda: _is_refused(node, f"{pods.namespace}/one"), "the kubelet to have tried")
    assert name in node.shares()
    installation.install(devices)
    wait_for(lambda: name not in node.shares(), "the share to go", seconds=180)


def _is_refused(node: Node, pod: str) -> bool:
    """Whether the kubelet has said that it cannot take a pod's share back."""
    lines = node.cluster.space.log("kubelet-1").splitlines()
    return any("unprepare dynamic resources" in line and f'pod="{pod}"' in line for line in lines)
