"""Shares that containers of a real runtime use: programs on the stand-in driver, under the library that the agent gave
them, as the container, the agent and people see it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bed import images
from bed.cluster import Cluster
from bed.space import wait_for
from material import AGENT, GIB
from node import ROOT, Node, Pods, share

BUILD = ROOT / "build" / "debug"
IMAGE = "test.local/gpu-user:1"
MIB = 1 << 20
CONTEXT = 518 * MIB  # that the stand-in takes for a context
OUT_OF_MEMORY = "refused 2"  # CUDA_ERROR_OUT_OF_MEMORY
DRIVER_VERSION = "580.159"  # of the stand-in
FOLDER = "/usr/lib/x86_64-linux-gnu"
STATE = "/var/lib/standin"  # in containers: the cards, which all processes of a machine share


@pytest.fixture(scope="module")
def card(session_node: Node) -> Iterator[Node]:
    """The node with the stand-in's one card, and its driver where a driver's container has one. Its boot is that of this
    machine, since a real library runs on what the agent makes."""
    node, driver = session_node, session_node.bed.root / "driver"
    libraries = Path(f"{driver}{FOLDER}")
    libraries.mkdir(parents=True)
    for name, file in {"libcuda.so": "libcuda.so.1", "libnvidia-ml.so": "libnvidia-ml.so.1"}.items():
        shutil.copy(BUILD / "standin" / file, libraries / f"{name}.{DRIVER_VERSION}")
    (libraries / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{DRIVER_VERSION}")
    world = node.bed.root / "world"
    world.mkdir()
    (world / "cards").touch()
    (world / "cards").chmod(0o666)
    (world / "nvml").write_text("bare 0\n")
    before = node.source, node.environment
    node.stop()
    node.source = ["--driver-root", str(driver), "--driver-root-on-host", str(driver)]
    node.environment = {"DRAWBRIDGE_STANDIN_STATE": str(world / "cards"), "DRAWBRIDGE_STANDIN_NVML": str(world / "nvml")}
    node.boot_id_file.write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    node.start()
    wait_for(lambda: node.published() == 1, "the stand-in's card")
    yield node
    node.stop()
    node.source, node.environment = before
    node.boot(1)


@pytest.fixture
def node(card: Node) -> Node:
    return card


@pytest.fixture(scope="module")
def image(cluster: Cluster, card: Node) -> str:
    """An image with a program that uses a GPU, and what the driver's libraries need of an image."""
    libraries = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2")
    files = {f"{FOLDER[1:]}/{name}": Path(FOLDER) / name for name in libraries}
    files |= {"bin/busybox": images.BUSYBOX, "bin/gpu_user": BUILD / "bin" / "gpu_user",
              "lib64/ld-linux-x86-64.so.2": Path("/lib64/ld-linux-x86-64.so.2")}  # fmt: skip
    layer = images.layer_of(files, {f"bin/{applet}": "busybox" for applet in images.APPLETS})
    archive = cluster.place.root / "gpu-user.tar"
    images.write_archive(archive, {IMAGE: ["/bin/busybox", "sh", "-c", "echo READY; exec sleep 100000"]}, layer)
    images.load(cluster.space, card.bed, cluster.release(), archive)
    return IMAGE


def start(pods: Pods, name: str, image: str, template: str, **security: Any) -> None:
    """A pod whose container finds the stand-in's cards."""
    world = str(pods.node.bed.root / "world")
    pods.start(name, {"main": ["gpu"]}, {"gpu": {"resourceClaimTemplateName": template}}, image=image,
               volumes=[{"name": "cards", "hostPath": {"path": world}}],
               more={"env": [{"name": "DRAWBRIDGE_STANDIN_STATE", "value": f"{STATE}/cards"}],
                     "volumeMounts": [{"name": "cards", "mountPath": STATE}], "securityContext": security})  # fmt: skip
    pods.running(name)


class Program:
    """A `gpu_user` in a pod's container, by kubectl exec."""

    def __init__(self, pods: Pods, pod: str, *arguments: str) -> None:
        self.pods, self.pod = pods, pod
        self.process = subprocess.Popen(
            [*pods.node.cluster.space.entering(), "kubectl", "exec", "-i", "-n", pods.namespace, pod, "--", "/bin/gpu_user",
             *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=pods.node.cluster.environment())  # fmt: skip
        word, number = self._line().split()
        assert word == "pid"
        self.pid = int(number)

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline().strip()
        assert line, "the program has ended"
        return line

    def do(self, word: str, number: int = 0) -> str:
        assert self.process.stdin
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()
        return self._line()

    def free_and_total(self) -> tuple[int, int]:
        free, total = self.do("info").split()
        return int(free), int(total)

    def kill(self) -> None:
        """kill -9, by somebody else in the container."""
        done = self.pods.node.cluster.kubectl("exec", "-n", self.pods.namespace, self.pod, "--", "kill", "-9", str(self.pid))
        assert done.returncode == 0, done.stderr
        assert self.process.wait(60) == 137

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()  # at whose end it ends
        self.process.wait(60)
        self.process.stdout.close()


def metric(pods: Pods, name: str, pod: str) -> float:
    found = re.search(rf'^drawbridge_agent_{name}{{[^}}]*namespace="{pods.namespace}",pod="{pod}"[^}}]*}} (\S+)$', pods.node.ask("/metrics"), re.MULTILINE)
    assert found, name
    return float(found[1])


def top(pods: Pods, pod: str) -> str:
    """The line of a pod's share."""
    table = pods.node.cluster.inside(str(AGENT), "top", "--operator", pods.node.operator, "--once")
    [line] = [line for line in table.splitlines() if pods.namespace in line and f" {pod} " in line]
    return re.sub(r" +", " ", line.strip())


def described(pods: Pods, pod: str) -> str:
    return pods.node.cluster.kubectl("describe", "pod", "-n", pods.namespace, pod).stdout


def measured(program: Program) -> bool:
    """Whether the agent has counted the program's context."""
    free, total = program.free_and_total()
    return free == total - CONTEXT


def test_two_pods_share_a_card_each_to_its_limit_and_no_further(pods: Pods, image: str) -> None:
    start(pods, "one", image, pods.template("two", share("2Gi")))
    start(pods, "other", image, pods.template("three", share("3Gi", 30)), runAsUser=1000, readOnlyRootFilesystem=True)
    with Program(pods, "one") as one, Program(pods, "other") as other:
        for program, limit in ((one, 2 * GIB), (other, 3 * GIB)):
            wait_for(lambda: measured(program), "the agent to measure the context")  # noqa: B023
            assert program.free_and_total() == (limit - CONTEXT, limit)
            assert program.do("alloc", limit - CONTEXT + MIB) == OUT_OF_MEMORY
            assert program.do("alloc", limit - CONTEXT).startswith("ok ")
            assert program.do("alloc", MIB) == OUT_OF_MEMORY
            assert program.free_and_total() == (0, limit)
        [device] = json.loads(pods.node.ask("/status"))["devices"]
        assert len([entry for entry in device["shares"] if entry["namespace"] == pods.namespace]) == 2
        assert [metric(pods, "used_bytes", pod) for pod in ("one", "other")] == [2 * GIB, 3 * GIB]
        assert [metric(pods, "limit_bytes", pod) for pod in ("one", "other")] == [2 * GIB, 3 * GIB]
        assert metric(pods, "limit_hits_total", "one") == 2 and metric(pods, "processes", "one") == 1
        assert re.fullmatch(rf"{pods.namespace} one main \S+ 2048 / 2048 MiB 100% - 1 \d+ \d+% \d+", top(pods, "one"))
        assert re.fullmatch(rf"{pods.namespace} other main \S+ 3072 / 3072 MiB 100% 30% 1 \d+ \d+% \d+", top(pods, "other"))


def test_what_a_killed_process_held_is_there_for_the_next(pods: Pods, image: str) -> None:
    start(pods, "one", image, pods.template("t", share("2Gi")))
    for _ in range(2):
        with Program(pods, "one") as program:
            wait_for(lambda: measured(program), "the agent to measure the context")  # noqa: B023
            assert program.do("alloc", 2 * GIB - CONTEXT).startswith("ok ")
            program.kill()
    # Nobody in the container looks any more: the agent frees what is left.
    wait_for(lambda: metric(pods, "used_bytes", "one") == 0, "the agent to free what the dead held")
    assert metric(pods, "processes", "one") == 0


def test_a_container_that_goes_past_the_library_is_found(pods: Pods, image: str) -> None:
    start(pods, "one", image, pods.template("t", share("2Gi")))
    [folder] = pods.shares()
    with Program(pods, "one") as held, Program(pods, "one", "past") as past:
        assert held.do("alloc", 4 * GIB) == OUT_OF_MEMORY
        assert past.do("alloc", 4 * GIB).startswith("ok ")  # nothing of ours is in its way
        wait_for(lambda: metric(pods, "bypass_suspected", "one") == 1, "the agent to find it")
        assert [line for line in pods.node.log() if line["msg"] == "bypass" and line["share"] == folder and line["processes"] == 1]
        assert f"{folder}: 1 process" in pods.node.readiness()
        wait_for(lambda: "GpuLimitBypassed" in described(pods, "one"), "what kubectl describe says of the pod")
        past.kill()
        wait_for(lambda: metric(pods, "bypass_suspected", "one") == 0, "it to be gone")
        assert held.do("alloc", MIB).startswith("ok ")


@pytest.fixture
def evicting(node: Node, tmp_path: Path) -> Iterator[Node]:
    """The agent as the component installs it: with the option, and the right that it needs."""
    manifests = Path(os.path.relpath(ROOT / "manifests", tmp_path))
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{manifests}/base/agent]\ncomponents: [{manifests}/components/agent-evict]\n")
    made = node.cluster.kubectl("kustomize", str(tmp_path))
    assert made.returncode == 0, made.stderr
    items = list(yaml.safe_load_all(made.stdout))
    [agent] = [item for item in items if item["kind"] == "DaemonSet"]
    [option] = [word for word in agent["spec"]["template"]["spec"]["containers"][0]["args"] if word.startswith("--on-bypass")]
    rights = yaml.safe_dump_all(item for item in items if item["metadata"]["name"] == "drawbridge-agent-evict")
    assert node.cluster.kubectl("apply", "-f", "-", input=rights).returncode == 0
    node.stop()
    node.start(option)
    yield node
    node.stop()
    node.start()
    assert node.cluster.kubectl("delete", "-f", "-", input=rights).returncode == 0


def test_a_pod_that_goes_past_the_library_is_evicted_where_that_is_wanted(evicting: Node, pods: Pods, image: str) -> None:
    template = pods.template("t", share("2Gi"))
    start(pods, "one", image, template)
    start(pods, "other", image, template)
    with Program(pods, "other") as other:
        before = pods.get("one")["metadata"]["uid"]
        with Program(pods, "one", "past") as past:
            assert past.do("alloc", MIB).startswith("ok ")
            wait_for(lambda: (pods.api.find(f"{pods.path}/one") or {}).get("metadata", {}).get("uid") != before, "the pod to go")
        assert other.do("alloc", MIB).startswith("ok ")  # whose card it is too


@pytest.fixture
def replacing(node: Node, tmp_path: Path) -> Iterator[Node]:
    """The agent of a node that has the setting."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nreplaceLibcuda: true\n")
    node.stop()
    node.start("--settings", str(settings))
    yield node
    node.stop()
    node.start()


def test_a_namespace_of_its_own_is_held_where_the_front_stands(replacing: Node, pods: Pods, image: str) -> None:
    start(pods, "one", image, pods.template("t", share("2Gi")))
    with Program(pods, "one") as held, Program(pods, "one", "past") as past:
        assert past.do("alloc", 4 * GIB) == OUT_OF_MEMORY
        room = 2 * GIB - 2 * CONTEXT
        wait_for(lambda: past.free_and_total() == held.free_and_total() == (room, 2 * GIB), "the agent to measure both contexts")
        assert past.do("alloc", room + MIB) == OUT_OF_MEMORY
        assert past.do("alloc", room).startswith("ok ")
        assert past.do("alloc", MIB) == held.do("alloc", MIB) == OUT_OF_MEMORY
        wait_for(lambda: metric(pods, "used_bytes", "one") == 2 * GIB, "the agent to say so")
        assert metric(pods, "bypass_suspected", "one") == 0
        past.kill()
        assert held.do("alloc", room).startswith("ok ")
