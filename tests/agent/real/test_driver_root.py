"""The installed agent where the driver comes from outside: a node without GPU, the host's own driver, and that of the GPU
Operator's container, which is mounted when the agent runs already. The manifests are as they stand; the driver is the stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bed.agent import NAMESPACE, AgentInstallation
from bed.cluster import Cluster
from bed.space import wait_for
from gpu_program import BUILD, card
from node import SHOW, Node, Pods, share

VERSION = "580.159"  # of the stand-in
OPERATOR = "/run/nvidia/driver"
SEE = "ls /dev /usr/lib64; " + SHOW


@pytest.fixture(scope="module")
def installation(cluster: Cluster, session_node: Node) -> Iterator[AgentInstallation]:
    """In place of the agent that other tests run as a process."""
    session_node.stop()
    made = AgentInstallation(cluster)
    made.install(None)
    yield made
    cluster.kubectl("delete", "--namespace", NAMESPACE, "--wait", "daemonset", "drawbridge-agent")
    wait_for(lambda: not made.pods(), "the agent to go")


@pytest.fixture
def node(session_node: Node, installation: AgentInstallation) -> Node:
    """The node with the installed agent, in place of the fixture that starts a process."""
    wait_for(lambda: len(session_node.slices()) == 1, "the slice")
    return session_node


def in_cluster(node: Node, script: str) -> None:
    node.cluster.inside("sh", "-euc", script)


def uuids(node: Node) -> list[str]:
    return [device["attributes"]["uuid"]["string"] for item in node.slices() for device in item["spec"].get("devices") or []]


@pytest.fixture
def operator(node: Node) -> Iterator[str]:
    """Shows a driver where the Operator does, by a mount that comes after the agent. NVML comes last: that of a real driver does
    not start without the device nodes, and a claim that is prepared before they are there has a container that cannot start."""
    library = BUILD / "standin" / "libnvidia-ml.so.1"
    in_cluster(node, f"""
        mkdir -p {OPERATOR}
        mount -t tmpfs -o mode=755,dev driver {OPERATOR}
        mkdir -p {OPERATOR}/usr/lib64 {OPERATOR}/usr/bin {OPERATOR}/dev
        cp {library} {OPERATOR}/usr/lib64/libnvidia-ml.so.{VERSION}
        touch {OPERATOR}/usr/lib64/libcuda.so.{VERSION} {OPERATOR}/usr/bin/nvidia-smi
        for name in nvidiactl nvidia-uvm nvidia0; do mknod -m 666 {OPERATOR}/dev/$name c 1 3; done
        ln -s libnvidia-ml.so.{VERSION} {OPERATOR}/usr/lib64/libnvidia-ml.so.1""")
    yield OPERATOR
    in_cluster(node, f"umount -l {OPERATOR}; rm -r /run/nvidia")


@pytest.fixture
def own_driver(node: Node) -> Iterator[None]:
    """Puts a driver into the host's library folder, as only this cluster sees it."""
    place = node.bed.root / "own-driver"
    library = BUILD / "standin" / "libnvidia-ml.so.1"
    in_cluster(node, f"""
        mkdir -p {place}; mount -t tmpfs own {place}; mkdir {place}/upper {place}/work
        cp {library} {place}/upper/libnvidia-ml.so.1
        mount -t overlay -o lowerdir=/usr/lib64,upperdir={place}/upper,workdir={place}/work own /usr/lib64""")
    yield
    in_cluster(node, f"umount -l /usr/lib64; umount -l {place}; rmdir {place}")


def restarted(installation: AgentInstallation) -> None:
    """Another agent: one that had a driver keeps its devices when it goes."""
    installation.cluster.kubectl("--namespace", NAMESPACE, "rollout", "restart", "daemonset", "drawbridge-agent")
    wait_for(lambda: installation.rolled_out() and len(installation.pods()) == 1, "the update to end")


def test_on_a_node_without_gpu_it_is_ready_and_offers_nothing(node: Node, installation: AgentInstallation) -> None:
    wait_for(lambda: node.published() == 0, "what another agent offered to go")
    log = installation.logs()
    assert '"no_gpu"' in log and '"level":"error"' not in log


def test_the_operators_driver_is_found_when_it_is_mounted(
        node: Node, pods: Pods, installation: AgentInstallation, operator: str) -> None:  # fmt: skip
    wait_for(lambda: uuids(node) == [card()["uuid"]], "the stand-in's card")
    pods.template("t", share("2Gi"))
    pods.start("one", {"main": ["gpu"]}, {"gpu": {"resourceClaimTemplateName": "t"}}, show=SEE)
    pods.running("one")
    seen = pods.log("one").split()
    assert {"nvidiactl", "nvidia-uvm", "nvidia0", f"libcuda.so.{VERSION}", "libcuda.so.1", "libnvidia-ml.so.1"} <= set(seen), seen
    [file] = node.cdi_files()
    assert f'"hostPath":"{operator}/usr/lib64/libcuda.so.{VERSION}"' in (node.bed.cdi / file).read_text()
    pods.delete("one")


def test_the_hosts_own_driver_is_found(node: Node, installation: AgentInstallation, own_driver: None) -> None:
    restarted(installation)
    wait_for(lambda: uuids(node) == [card()["uuid"]], "the stand-in's card")
