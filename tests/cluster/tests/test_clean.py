"""A cluster leaves nothing: not after `down`, and not where `up` is killed, whenever that is."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import snapshot
from bed.cluster import Cluster, Wish
from bed.place import BASE, Place, own
from bed.space import changing, wait_for
from bench import container, pod
from conftest import FLEET, HERE

COMMAND = str(HERE.parent / "cluster")
KILLED, SMALL, MENDED, PLANTED = map(own, ("killed", "small", "mended", "planted"))
UP = (COMMAND, "up", "--name", KILLED, "--fake-nodes", "2", "--fleet", str(FLEET), "--drawbridge")
STEPS = ("namespaces", "keys", "etcd", "API server", "controllers, scheduler and proxy", "container runtime and images",
         "kubelets", "nodes ready", "fake nodes", "fleet", "Drawbridge")  # fmt: skip


def take() -> dict[str, set[str]]:
    """The machine, but for clusters of other tests and people."""
    return snapshot.take(KILLED, SMALL, MENDED, PLANTED)


@pytest.fixture(scope="module", autouse=True)
def folder_of_network_namespaces() -> None:
    """The first `ip netns` after a boot makes it, for good."""
    for what in ("add", "delete"):
        subprocess.run(["ip", "netns", what, f"of-{PLANTED}"], check=True)


@pytest.fixture
def before() -> Iterator[dict[str, set[str]]]:
    """The machine before the test; one comparison at a time on it, since another would see what this one plants."""
    with changing(Place("comparison"), 3600.0):
        yield take()


def same(before: dict[str, set[str]]) -> None:
    """The machine comes to be as it was; what ends needs a moment to be gone."""
    with contextlib.suppress(Exception):
        wait_for(lambda: not snapshot.difference(before, take()), "nothing to be left", 60.0)
    assert snapshot.difference(before, take()) == {}


def step_of(line: str) -> str:
    """What a line of `up` says is being done."""
    return line.rstrip().partition(" s  ")[2]


@pytest.fixture
def up(minor: str, runtime: str) -> list[str]:
    """The command."""
    return [*UP, "--kubernetes", minor, "--runtime", runtime]


@pytest.fixture(scope="module")
def wish(minor: str, runtime: str) -> Wish:
    return Wish(minor, nodes=1, runtime=runtime)


@contextlib.contextmanager
def starting(up: list[str]) -> Iterator[subprocess.Popen[str]]:
    """An `up` at work, killed at the end of this block."""
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            yield child
        finally:
            child.kill()


def test_up_prints_no_other_steps_and_down_leaves_nothing(before: dict[str, set[str]], up: list[str]) -> None:
    done = subprocess.run(up, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert tuple(map(step_of, done.stdout.splitlines()[:-1])) == STEPS
    Cluster(KILLED).down()
    same(before)


@pytest.mark.parametrize("step", STEPS)
def test_up_killed_at_a_step_leaves_nothing(before: dict[str, set[str]], up: list[str], step: str) -> None:
    with starting(up) as child:
        assert any(step_of(line) == step for line in child.stdout), f"`up` never came to {step}"
    same(before)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
def test_up_killed_at_any_time_leaves_nothing(before: dict[str, set[str]], up: list[str], number: int) -> None:
    with starting(up) as child, contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(random.Random(number).uniform(0.05, 20.0))
    if child.returncode == 0:  # it was complete by then
        Cluster(KILLED).down()
    same(before)


@pytest.fixture
def small(wish: Wish) -> Iterator[Cluster]:
    made = Cluster(SMALL)
    made.up(wish)
    yield made
    made.down()


def run_pod(cluster: Cluster, name: str) -> None:
    cluster.api.call("POST", "/api/v1/namespaces/default/pods", pod(name, container()))
    path = f"/api/v1/namespaces/default/pods/{name}"
    wait_for(lambda: cluster.api.get(path)["status"].get("phase") == "Running", f"pod {name} to run")


def test_down_with_running_pods_leaves_nothing(before: dict[str, set[str]], wish: Wish) -> None:
    made = Cluster(SMALL)
    made.up(wish)
    run_pod(made, "a")
    during = snapshot.difference(before, take())
    for kind in ("network namespaces", "control groups", "processes", "files", "sockets"):
        assert during[kind], f"the snapshot sees nothing of a running cluster's {kind}"
    made.down()
    same(before)


def test_a_cluster_whose_first_process_is_killed_comes_up_again_and_leaves_nothing(
    before: dict[str, set[str]], wish: Wish
) -> None:
    made = Cluster(SMALL)
    made.up(wish)
    run_pod(made, "a")
    os.kill(made.space.pid(), signal.SIGKILL)
    wait_for(lambda: not made.space.is_up(), "the first process to be gone")
    wait_for(lambda: not take()["processes"] - before["processes"], "its processes to be gone with it")
    made.up(wish)  # over what is left
    run_pod(made, "b")
    made.down()
    same(before)


@pytest.mark.parametrize(
    "part",
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "runtime", "kubelet-1"],
)
def test_up_mends_a_cluster_of_which_a_part_was_killed(small_for_all: Cluster, wish: Wish, part: str) -> None:
    part = f"{wish.runtime}-1" if part == "runtime" else part
    small_for_all.space.kill(part)
    assert small_for_all.space.daemons()[part] != "running"
    small_for_all.up(wish)
    assert set(small_for_all.space.daemons().values()) == {"running"}
    run_pod(small_for_all, f"after-{part}")


@pytest.fixture(scope="module")
def small_for_all(wish: Wish) -> Iterator[Cluster]:
    made = Cluster(MENDED)
    made.up(wish)
    yield made
    made.down()


def test_clusters_stand_side_by_side(small_for_all: Cluster, small: Cluster) -> None:
    for cluster in (small_for_all, small):
        run_pod(cluster, "beside")
    small.down()
    assert small_for_all.api.answers("/readyz")


GROUP = next(top for top in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.isdir(top)) + f"/drawbridge-{PLANTED}"
FOLDER = BASE / PLANTED
# What is made, and what takes it away, by the kind under which it is to be found.
MADE = {
    "mounts": ("mount -t tmpfs tmpfs {folder}", "umount {folder}"),
    "links": ("ip link add planted0 type veth peer name planted1", "ip link delete planted0"),
    "addresses": ("ip address add 127.93.7.5/32 dev lo", "ip address delete 127.93.7.5/32 dev lo"),
    "network namespaces": ("ip netns add planted", "ip netns delete planted"),
    "control groups": (f"mkdir {GROUP}", f"rmdir {GROUP}"),
    "rules": ("nft add table ip planted", "nft delete table ip planted"),
    "files": (f"mkdir -p {FOLDER}/etcd", f"rm -r {FOLDER}"),
    "kernel settings": ("sysctl -qw kernel.panic=7", "sysctl -qw kernel.panic={panic}"),
}  # fmt: skip
# What runs, by what it is.
RUNNING = {
    "in a process namespace": ["unshare", "--pid", "--fork", "--kill-child", "sleep", "600"],
    "in a mount namespace": ["unshare", "--mount", "sleep", "600"],
    "on the cluster's files": ["tail", "--pid", "{pid}", "-f", "/dev/null", f"{FOLDER}/logs/etcd.log"],
    "for the cluster": ["sh", "-c", "read line", "--name", PLANTED],
}


@pytest.mark.parametrize("kind", MADE)
def test_the_comparison_finds_what_was_made(before: dict[str, set[str]], tmp_path: Path, kind: str) -> None:
    panic = Path("/proc/sys/kernel/panic").read_text(encoding="utf-8").strip()
    plant, remove = (line.format(folder=tmp_path, panic=panic).split() for line in MADE[kind])
    subprocess.run(plant, check=True)
    try:
        assert kind in snapshot.difference(before, take())
    finally:
        subprocess.run(remove, check=True)
    same(before)


@pytest.mark.parametrize("what", RUNNING)
def test_the_comparison_finds_what_runs(before: dict[str, set[str]], what: str) -> None:
    command = [word.format(pid=os.getpid()) for word in RUNNING[what]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            wait_for(lambda: "processes" in snapshot.difference(before, take()), "the process")
        finally:
            child.kill()
    same(before)


@contextlib.contextmanager
def orphan(script: str) -> Iterator[int]:
    """A shell below init that runs this and says so; its process group is killed at the end of this block."""
    shell = ["sh", "-c", 'setsid sh -c "echo \\$\\$; $1" & ', "sh", script]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as parent:
        group = int(parent.stdout.readline())
        try:
            yield group
        finally:
            os.killpg(group, signal.SIGKILL)


def test_the_comparison_finds_what_has_lost_its_parent(before: dict[str, set[str]]) -> None:
    with orphan("exec unshare --mount --net sleep 600"):
        wait_for(lambda: {"processes", "network namespaces"} <= set(snapshot.difference(before, take())), "the process")
    same(before)


def test_the_comparison_passes_over_a_neighbours_container(before: dict[str, set[str]]) -> None:
    with orphan("unshare --mount --net sleep 600; true") as shell:
        wait_for(lambda: foreign_children(shell), "the container")
        assert snapshot.difference(before, take()) == {}


def foreign_children(shell: int) -> bool:
    """Whether a child of this shell lives in a mount namespace of its own."""
    return any(found.parent == shell and found.mounts != os.readlink("/proc/self/ns/mnt")
               for found in snapshot.read_processes().values())  # fmt: skip


def test_the_comparison_finds_a_socket(before: dict[str, set[str]]) -> None:
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(Place(PLANTED).socket)
        assert "sockets" in snapshot.difference(before, take())
    same(before)
