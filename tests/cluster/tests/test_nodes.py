"""The bed itself: several real nodes, what runs on them, and how people reach it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from bed.cluster import Cluster, Wish
from bed.place import own
from bed.space import wait_for
from bench import container, pod
from conftest import HERE

COMMAND = str(HERE.parent / "cluster")


@pytest.fixture(scope="module")
def three(minor: str) -> Iterator[Cluster]:
    made = Cluster(own("three"))
    made.up(Wish(minor, nodes=3))
    yield made
    made.down()


def phase(cluster: Cluster, name: str) -> str | None:
    found = cluster.api.find(f"/api/v1/namespaces/default/pods/{name}") or {}
    return found.get("status", {}).get("phase")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_node_runs_pods(three: Cluster, number: int) -> None:
    made = pod(f"on-{number}", container(), nodeSelector={"kubernetes.io/hostname": f"node-{number}"})
    three.api.call("POST", "/api/v1/namespaces/default/pods", made)
    wait_for(lambda: phase(three, f"on-{number}") == "Running", f"the pod on node-{number}")
    done = three.kubectl("exec", f"on-{number}", "--", "echo", "hello")
    assert done.stdout == "hello\n", done.stderr


def test_pods_of_different_nodes_reach_each_other_and_the_api_server(three: Cluster) -> None:
    talk = container("talk")
    talk["command"] = ["sh", "-c", "while true; do echo hello | nc -l -p 8000; done"]
    three.api.call("POST", "/api/v1/namespaces/default/pods",
                   pod("listens", talk, nodeSelector={"kubernetes.io/hostname": "node-2"}))  # fmt: skip
    wait_for(lambda: phase(three, "listens") == "Running", "the listener")
    address = three.api.get("/api/v1/namespaces/default/pods/listens")["status"]["podIP"]
    asks = container("asks")
    asks["command"] = ["sh", "-c", f"nc {address} 8000 </dev/null && nc -w 2 10.96.0.1 443 </dev/null && echo reached"]
    three.api.call("POST", "/api/v1/namespaces/default/pods",
                   pod("asks", asks, nodeSelector={"kubernetes.io/hostname": "node-3"}, restartPolicy="OnFailure"))  # fmt: skip
    wait_for(lambda: phase(three, "asks") == "Succeeded", "the pod that asks")
    assert three.kubectl("logs", "asks").stdout.splitlines()[-2:] == ["hello", "reached"]


def test_a_drained_node_gives_its_pods_away(three: Cluster) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", container())["spec"]}
    template["spec"]["terminationGracePeriodSeconds"] = 0
    spec = {"template": template, "selector": {"matchLabels": {"app": "x"}}, "replicas": 3}
    three.api.call("POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "x"}, "spec": spec})

    def nodes() -> set[str] | None:
        pods = three.api.get("/api/v1/namespaces/default/pods?labelSelector=app%3Dx")["items"]
        running = [
            each
            for each in pods
            if each["status"].get("phase") == "Running" and not each["metadata"].get("deletionTimestamp")
        ]
        return {each["spec"]["nodeName"] for each in running} if len(running) == 3 else None

    wait_for(nodes, "the pods")
    done = three.kubectl("drain", "node-3", "--ignore-daemonsets", "--force", "--grace-period=0", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: (found := nodes()) and "node-3" not in found, "the pods to move")
    assert three.kubectl("uncordon", "node-3").returncode == 0


def test_people_reach_it_by_kubectl_and_exec(three: Cluster) -> None:
    listed = subprocess.run([COMMAND, "kubectl", "--name", own("three"), "--", "get", "nodes", "-o", "name"],
                            capture_output=True, text=True)  # fmt: skip
    assert listed.stdout.split() == ["node/node-1", "node/node-2", "node/node-3"], listed.stderr
    script = 'curl --silent --cacert "$CLUSTER_CA" "$CLUSTER_API/readyz"'
    asked = subprocess.run(
        [COMMAND, "exec", "--name", own("three"), "--", "sh", "-c", script], capture_output=True, text=True
    )
    assert asked.stdout == "ok", asked.stderr


def test_what_is_not_up_is_said_in_one_line() -> None:
    for command in (["kubectl", "--name", "nowhere", "--", "get", "pods"], ["exec", "--name", "nowhere", "--", "true"]):
        done = subprocess.run([COMMAND, *command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, "cluster: cluster nowhere is not up\n")
