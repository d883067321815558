"""Bringing a cluster up step by step, and the questions that people and tests ask of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from bed import components, daemons, images, keys, runtimes
from bed import node as nodes
from bed.api import Api
from bed.daemons import Daemon, Release
from bed.node import Node
from bed.place import API_ADDRESS, API_PORT, Place
from bed.space import PATIENCE, Failed, NotUp, Space, changing, wait_for


@dataclass(frozen=True)
class Wish:
    """What a cluster is made of."""

    kubernetes: str = components.DEFAULT_MINOR
    nodes: int = 1
    gates: tuple[str, ...] | None = None  # None: what the minor needs to share devices
    api_server_flags: tuple[str, ...] = ()
    runtime: str = components.DEFAULT_RUNTIME


class Cluster:
    """One cluster by name: up, down, and a way in."""

    def __init__(self, name: str, say: Callable[[str], None] = lambda _: None) -> None:
        self.place = Place(name)
        self.space = Space(self.place)
        self.api = Api(self.space)
        self.say = say

    # ------------------------------------------------------------------------------------------ up and down

    def up(self, wish: Wish, furnish: Callable[[], None] = lambda: None) -> None:
        """Brings the cluster up, or mends what of it is not running; every node is ready when it is furnished.

        A new cluster stays only if this comes to its end.
        """
        release = self.release(wish)
        with changing(self.place):
            life = None
            if not self._fits(wish):
                self.say("namespaces")
                self.space.end()  # what an earlier one left
                life = self.space.begin()
                self.place.facts.write_text(json.dumps(asdict(wish)), encoding="utf-8")
            self._fill(wish, release)
            furnish()
            self.space.keep()
            if life is not None:
                os.close(life)

    def down(self) -> None:
        """Ends the cluster; an `up` that is at work on it fails by that."""
        self.space.end()
        with changing(self.place, PATIENCE):
            self.space.end()

    def release(self, wish: Wish | None = None) -> Release:
        """The programs of the cluster, built first where this machine has them not."""
        wish = wish or self.wish()
        gates = daemons.default_gates(wish.kubernetes) if wish.gates is None else tuple(wish.gates)
        wanted = [components.kubernetes(wish.kubernetes), components.etcd(), components.RUNTIMES[wish.runtime]()]
        return Release(wish.kubernetes, *map(components.ensure, wanted), wish.runtime, gates)

    def wish(self) -> Wish:
        """What the cluster that is there was made with."""
        if not self.place.facts.exists():
            raise NotUp(f"cluster {self.place.name} is not up")
        known = json.loads(self.place.facts.read_text(encoding="utf-8"))
        return Wish(**{key: tuple(value) if isinstance(value, list) else value for key, value in known.items()})

    def _fits(self, wish: Wish) -> bool:
        """Whether what is there can become what is wished; `Failed` where it is another cluster."""
        if not self.space.is_up():
            return False
        if not self.place.facts.exists():
            return False
        there = self.wish()
        if (there.kubernetes, there.gates, there.runtime) != (wish.kubernetes, wish.gates, wish.runtime):
            raise Failed(f"cluster {self.place.name} is there with Kubernetes {there.kubernetes} on {there.runtime}; take it down first")
        if there.nodes > wish.nodes:
            raise Failed(f"cluster {self.place.name} has {there.nodes} nodes; take it down first")
        self.place.facts.write_text(json.dumps(asdict(wish)), encoding="utf-8")
        return True

    def _fill(self, wish: Wish, release: Release) -> None:
        """Starts what is not running, in the order in which each needs the one before."""
        self.say("keys")
        self.write_keys(wish.nodes)
        made = [Node(self.place, number) for number in range(1, wish.nodes + 1)]
        # The runtime needs nothing of the control plane: both come up at once.
        with ThreadPoolExecutor(1) as pool:
            runtimes = pool.submit(self._start_runtimes, made, release)
            self.say("etcd")
            self.start(daemons.etcd(self.place, release), release)
            self.say("API server")
            policy = self.place.root / "audit-policy.json"
            policy.write_text(json.dumps(daemons.audit_policy()), encoding="utf-8")
            self.start(daemons.api_server(self.place, release, tuple(wish.api_server_flags)), release)
            wait_for(lambda: self._alive("kube-apiserver") and self.api.answers("/readyz"), "the API server")
            self.say("controllers, scheduler and proxy")
            self._start_control_plane(release)
            if made:
                self.say("container runtime and images")
            runtimes.result()
        if made:
            self.say("kubelets")
            for node in made:
                self.start(nodes.kubelet(node, release), release)
            self.say("nodes ready")
            wait_for(lambda: all(self._ready(node) for node in made), "the nodes to be ready")
        wait_for(lambda: self.api.find("/api/v1/namespaces/default/serviceaccounts/default"), "the service account")

    def _start_control_plane(self, release: Release) -> None:
        configuration = json.dumps(daemons.proxy_configuration(self.place, release))
        file = self.place.root / "kube-proxy.json"
        # kube-proxy ends when this file is touched.
        if not file.exists():
            file.write_text(configuration, encoding="utf-8")
        for daemon in (daemons.controller_manager, daemons.scheduler, daemons.proxy):
            self.start(daemon(self.place, release), release)
        if "kwok" in self.space.daemons():
            self.start_player()

    def _start_runtimes(self, made: list[Node], release: Release) -> None:
        archive = self.place.root / "standard-images.tar"
        if made and not archive.exists():
            images.write_standard_images(archive)
        for node in made:
            nodes.prepare(node, release)
            runtimes.of(release).prepare(node, release)
            self._prepare_machine(node)
            fresh = not (node.root / "images-loaded").exists()
            daemon = runtimes.of(release).daemon(node, release)
            self.start(daemon, release)
            wait_for(lambda: self._alive(daemon.name) and node.runtime_socket.is_socket(), daemon.name)  # noqa: B023
            if fresh:
                images.load(self.space, node, release, archive)
                (node.root / "images-loaded").touch()

    def _prepare_machine(self, node: Node) -> None:
        """The node's control groups and its address."""
        self.inside("sh", "-ec", f"""
            for top in /sys/fs/cgroup /sys/fs/cgroup/*; do
                [ ! -e "$top/cgroup.procs" ] || mkdir -p "$top{node.cgroup}"
            done
            # A set without processors or memory takes no process.
            for set in /sys/fs/cgroup/cpuset/{self.place.cgroup} /sys/fs/cgroup/cpuset{node.cgroup}; do
                [ ! -d "$set" ] || for what in cpus mems; do cat "$set/../cpuset.$what" > "$set/cpuset.$what"; done
            done
            ip address show dev node0 | grep -qF ' {node.address}/' || ip address add {node.address}/24 dev node0
            """)  # fmt: skip

    def write_keys(self, count: int) -> None:
        """All certificates and kubeconfigs, as far as they are missing."""
        authority = keys.Authority(self.place.keys)
        authority.issue("apiserver", keys.api_server())
        authority.issue("apiserver-kubelet", keys.Identity("kube-apiserver-kubelet-client", ("system:masters",)))
        keys.service_account_pair(self.place)
        keys.kubeconfig(authority, self.place.kubeconfig, keys.Identity("admin", ("system:masters",)))
        for name in ("controller-manager", "scheduler", "proxy"):
            file = self.place.root / f"{name}.kubeconfig"
            keys.kubeconfig(authority, file, keys.Identity(f"system:kube-{name}"))
        for number in range(1, count + 1):
            node = Node(self.place, number)
            node.root.mkdir(exist_ok=True)
            authority.issue(f"{node.name}-serving", keys.Identity(node.name, addresses=(node.name, node.address)))
            keys.kubeconfig(authority, node.root / "kubelet.kubeconfig", keys.node(node.name))

    # ------------------------------------------------------------------------------------------ questions

    def start(self, daemon: Daemon, release: Release) -> None:
        environment = {
            "PATH": release.path(), "HOME": str(self.place.temporary), "TMPDIR": str(self.place.temporary),
            "GOMAXPROCS": str(max(2, os.cpu_count() or 2))}  # fmt: skip
        self.space.start(daemon.name, daemon.command, environment)

    def _alive(self, name: str) -> bool:
        """True while a daemon runs; `Failed` with its last words once it has ended."""
        state = self.space.daemons().get(name, "not started")
        if state.startswith("ended"):
            raise Failed(f"{name} {state}:\n{self.space.log(name, 20)}")
        return True

    def _ready(self, node: Node) -> bool:
        self._alive(f"kubelet-{node.number}")
        self._alive(f"{self.wish().runtime}-{node.number}")
        found = self.api.find(f"/api/v1/nodes/{node.name}") or {}
        conditions = found.get("status", {}).get("conditions", [])
        return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)

    def environment(self) -> dict[str, str]:
        """For commands that work on this cluster."""
        release = self.release()
        return os.environ | {"KUBECONFIG": str(self.place.kubeconfig), "PATH": release.path(),
                             "CLUSTER_API": f"https://{API_ADDRESS}:{API_PORT}"}  # fmt: skip

    def admissions(self, namespace: str) -> list[dict]:
        """What the API server noted of the pods of a namespace: each as it came, and the patches of the webhooks."""
        lines = self.place.admissions.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines if f'"{namespace}"' in line]
        return [event for event in events if event["objectRef"].get("namespace") == namespace]

    def inside(self, *command: str, mounts: bool = True) -> str:
        """Runs a command in the cluster and returns what it prints; `Failed` where it fails."""
        done = subprocess.run(
            [*self.space.entering(mounts=mounts, tied=True), *command], capture_output=True, text=True, cwd="/",
            stdin=subprocess.DEVNULL)  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)[:200]}: {done.stderr.strip()}")
        return done.stdout

    def kubectl(self, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as the administrator; the caller looks at its status."""
        return subprocess.run(
            [*self.space.entering(), "kubectl", *arguments], input=input, capture_output=True, text=True,
            env=self.environment())  # fmt: skip

    # ------------------------------------------------------------------------------------------ fleet

    def add_fleet(self, file: Path) -> None:
        """Creates the ResourceSlices of a file, and a node played by KWOK for each that they name."""
        slices = [item for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
                  for item in (document or {}).get("items", [document]) if item]  # fmt: skip
        self.start_player()
        for name in sorted({item["spec"]["nodeName"] for item in slices if "nodeName" in item["spec"]}):
            if self.api.find(f"/api/v1/nodes/{name}") is None:
                self.add_fake_node(name)
        for item in slices:
            path = f"/apis/resource.k8s.io/v1/resourceslices/{item['metadata']['name']}"
            self.api.apply(path, item)

    def start_player(self) -> None:
        """Starts KWOK, which plays the fake nodes."""
        self.start(daemons.kwok(self.place, components.ensure(components.kwok())), self.release())

    def add_fake_nodes(self, count: int) -> None:
        self.start_player()
        for number in range(1, count + 1):
            self.add_fake_node(f"fake-{number}")

    def add_fake_node(self, name: str) -> None:
        """A node whose pods are played: they start and end, and nothing runs."""
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "1000"}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "drawbridge.test/fake": "true"}
        metadata = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels}
        document = {"apiVersion": "v1", "kind": "Node", "metadata": metadata,
                    "status": {"allocatable": amounts, "capacity": amounts}}  # fmt: skip
        self.api.apply(f"/api/v1/nodes/{name}", document)
