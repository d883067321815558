"""One real node: its kubelet, and what the container runtimes of all kinds have in common."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bed.daemons import Daemon, Release, gate_map
from bed.place import NETWORK, PODS, Place

PAUSE_IMAGE = "test.local/pause:1"


@dataclass(frozen=True)
class Node:
    """The folders, addresses and names of node `number`, counted from 1."""

    place: Place
    number: int

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    @property
    def root(self) -> Path:
        return self.place.root / f"n{self.number}"

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number}"

    @property
    def pods(self) -> str:
        return f"{PODS}.{self.number}.0/24"

    @property
    def runtime_socket(self) -> Path:
        return self.root / "runtime.sock"

    @property
    def kubelet_root(self) -> Path:
        """Below it lie `plugins` and `plugins_registry`."""
        return self.root / "kubelet"

    @property
    def cdi(self) -> Path:
        return self.root / "cdi"

    @property
    def cgroup(self) -> str:
        return f"/{self.place.cgroup}/{self.name}"


def kubelet(node: Node, release: Release) -> Daemon:
    return Daemon(f"kubelet-{node.number}", [
        release.program("kubelet"), f"--config={node.root}/kubelet.json",
        f"--kubeconfig={node.root}/kubelet.kubeconfig", f"--root-dir={node.kubelet_root}",
        f"--cert-dir={node.root}/pki", f"--hostname-override={node.name}", f"--node-ip={node.address}"])  # fmt: skip


def prepare(node: Node, release: Release) -> None:
    """Writes what the kubelet reads, and the network of pods. The certificates are there already."""
    for folder in ("cni", "pods", "kubelet", "cdi", "pki"):
        (node.root / folder).mkdir(parents=True, exist_ok=True)
    (node.root / "kubelet.json").write_text(json.dumps(kubelet_configuration(node, release)), encoding="utf-8")
    (node.root / "cni" / "10-pods.conflist").write_text(json.dumps(cni_configuration(node)), encoding="utf-8")


def cni_configuration(node: Node) -> dict:
    """A pair of links for each pod; the machine routes between them."""
    addresses = {"type": "host-local", "dataDir": f"{node.root}/addresses", "ranges": [[{"subnet": node.pods}]],
                 "routes": [{"dst": "0.0.0.0/0"}]}  # fmt: skip
    plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]}


def kubelet_configuration(node: Node, release: Release) -> dict:
    keys = node.place.keys
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": node.address, "port": 10250, "healthzBindAddress": node.address, "healthzPort": 10248,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                           "x509": {"clientCAFile": f"{keys}/ca.crt"}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{keys}/{node.name}-serving.crt", "tlsPrivateKeyFile": f"{keys}/{node.name}-serving.key",
        "containerRuntimeEndpoint": f"unix://{node.runtime_socket}",
        "cgroupDriver": "cgroupfs", "cgroupRoot": node.cgroup, "failCgroupV1": False, "failSwapOn": False,
        "enforceNodeAllocatable": [], "resolvConf": "", "podLogsDir": f"{node.root}/pods",
        "volumePluginDir": f"{node.root}/volume-plugins", "featureGates": gate_map(release),
        # The machine's own disk and memory are not the cluster's business.
        "evictionHard": {signal: "0%" for signal in ("memory.available", "nodefs.available", "nodefs.inodesFree",
                                                     "imagefs.available", "imagefs.inodesFree")},
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s", "maxPods": 250,
        "serializeImagePulls": False, "shutdownGracePeriod": "0s"}  # fmt: skip
