"""A cluster leaves nothing: not after `down`, and not where `up` is killed, whenever that is."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import snapshot
from bed.cluster import Cluster, Wish
from bed.place import BASE
from bed.space import wait_for
from bench import container, pod
from conftest import HERE

COMMAND = str(HERE.parent / "cluster")
STEPS = ("namespaces", "keys", "etcd", "API server", "controllers, scheduler and proxy", "kubelets", "nodes ready")


def take() -> dict[str, set[str]]:
    """The machine, but for clusters of other tests and people."""
    return snapshot.take("killed", "small", "mended")


@pytest.fixture
def before() -> dict[str, set[str]]:
    return take()


def same(before: dict[str, set[str]]) -> None:
    """The machine comes to be as it was; what ends needs a moment to be gone."""
    with contextlib.suppress(Exception):
        wait_for(lambda: not snapshot.difference(before, take()), "nothing to be left", 20.0)
    assert snapshot.difference(before, take()) == {}


def killed(name: str, step: str | None = None, seconds: float | None = None) -> None:
    """Starts `up` and kills it when it prints a step, or after a time."""
    command = [COMMAND, "up", "--name", name]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        if seconds is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(seconds)
        else:
            for line in child.stdout:
                if line.rstrip().endswith(f" s  {step}"):
                    break
            else:
                pytest.fail(f"`up` never printed {step}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize("step", STEPS)
def test_up_killed_at_a_step_leaves_nothing(before: dict[str, set[str]], step: str) -> None:
    killed("killed", step)
    same(before)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
def test_up_killed_at_any_time_leaves_nothing(before: dict[str, set[str]], number: int) -> None:
    seconds = random.Random(number).uniform(0.05, 12.0)
    killed("killed", seconds=seconds)
    # It may have been complete by then.
    Cluster("killed").down()
    same(before)


@pytest.fixture
def small() -> Iterator[Cluster]:
    made = Cluster("small")
    made.up(Wish(nodes=1))
    yield made
    made.down()


def run_pod(cluster: Cluster, name: str) -> None:
    cluster.api.call("POST", "/api/v1/namespaces/default/pods", pod(name, container()))
    path = f"/api/v1/namespaces/default/pods/{name}"
    wait_for(lambda: cluster.api.get(path)["status"].get("phase") == "Running", f"pod {name} to run")


def test_down_with_running_pods_leaves_nothing(before: dict[str, set[str]]) -> None:
    made = Cluster("small")
    made.up(Wish(nodes=1))
    run_pod(made, "a")
    during = snapshot.difference(before, take())
    for kind in ("network namespaces", "control groups", "processes", "files", "sockets"):
        assert during[kind], f"the snapshot sees nothing of a running cluster's {kind}"
    made.down()
    same(before)


def test_a_cluster_whose_first_process_is_killed_leaves_nothing_that_down_does_not_take(
    before: dict[str, set[str]],
) -> None:
    made = Cluster("small")
    made.up(Wish(nodes=1))
    run_pod(made, "a")
    os.kill(made.space.pid(), signal.SIGKILL)
    wait_for(lambda: not made.space.is_up(), "the first process to be gone")
    wait_for(lambda: not take()["processes"] - before["processes"], "its processes to be gone with it")
    made.down()
    same(before)


@pytest.mark.parametrize(
    "part",
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "containerd-1", "kubelet-1"],
)
def test_up_mends_a_cluster_of_which_a_part_was_killed(small_for_all: Cluster, part: str) -> None:
    small_for_all.space.kill(part)
    assert small_for_all.space.daemons()[part] != "running"
    small_for_all.up(Wish(nodes=1))
    assert set(small_for_all.space.daemons().values()) == {"running"}
    run_pod(small_for_all, f"after-{part}")


@pytest.fixture(scope="module")
def small_for_all() -> Iterator[Cluster]:
    made = Cluster("mended")
    made.up(Wish(nodes=1))
    yield made
    made.down()


def test_clusters_stand_side_by_side(small_for_all: Cluster, small: Cluster) -> None:
    for cluster in (small_for_all, small):
        run_pod(cluster, "beside")
    small.down()
    assert small_for_all.api.answers("/readyz")


GROUP = next(top for top in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.isdir(top)) + "/drawbridge-planted"
PLANTED = {
    "mounts": (["mount", "-t", "tmpfs", "tmpfs", "{folder}"], ["umount", "{folder}"]),
    "links": (["ip", "link", "add", "planted0", "type", "bridge"], ["ip", "link", "delete", "planted0"]),
    "network namespaces": (["ip", "netns", "add", "planted"], ["ip", "netns", "delete", "planted"]),
    "control groups": (["mkdir", GROUP], ["rmdir", GROUP]),
    "rules": (["nft", "add", "table", "ip", "planted"], ["nft", "delete", "table", "ip", "planted"]),
    "files": (["mkdir", "-p", str(BASE / "planted")], ["rm", "-r", str(BASE / "planted")]),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_the_comparison_finds_a_leftover(before: dict[str, set[str]], tmp_path: Path, kind: str) -> None:
    plant, remove = ([word.format(folder=tmp_path) for word in words] for words in PLANTED[kind])
    subprocess.run(plant, check=True)
    try:
        assert kind in snapshot.difference(before, take())
    finally:
        subprocess.run(remove, check=True)


def test_the_comparison_finds_a_process(before: dict[str, set[str]]) -> None:
    with subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "sleep", "600"]) as child:
        try:
            wait_for(lambda: "processes" in snapshot.difference(before, take()), "the process")
        finally:
            child.kill()
