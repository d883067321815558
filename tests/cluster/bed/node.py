"""One real node: its containerd and its kubelet, in a part of the machine of their own."""

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
    def containerd_socket(self) -> Path:
        return self.root / "containerd.sock"

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


def containerd(node: Node, release: Release) -> Daemon:
    return Daemon(
        f"containerd-{node.number}", [str(release.containerd / "containerd"), "--config", f"{node.root}/containerd.toml"])  # fmt: skip


def kubelet(node: Node, release: Release) -> Daemon:
    return Daemon(f"kubelet-{node.number}", [
        release.program("kubelet"), f"--config={node.root}/kubelet.json",
        f"--kubeconfig={node.root}/kubelet.kubeconfig", f"--root-dir={node.kubelet_root}",
        f"--cert-dir={node.root}/pki", f"--hostname-override={node.name}", f"--node-ip={node.address}"])  # fmt: skip


def prepare(node: Node, release: Release) -> None:
    """Writes what the node's daemons read. The certificates are there already."""
    for folder in ("containerd", "state", "cni", "pods", "kubelet", "cdi", "pki"):
        (node.root / folder).mkdir(parents=True, exist_ok=True)
    (node.root / "containerd.toml").write_text(containerd_configuration(node), encoding="utf-8")
    (node.root / "kubelet.json").write_text(json.dumps(kubelet_configuration(node, release)), encoding="utf-8")
    (node.root / "cni" / "10-pods.conflist").write_text(json.dumps(cni_configuration(node)), encoding="utf-8")


def containerd_configuration(node: Node) -> str:
    """`native`: not every kernel has overlayfs. restrict_oom_score_adj: root may lack CAP_SYS_RESOURCE."""
    return f"""version = 3
root = "{node.root}/containerd"
state = "{node.root}/state"
[grpc]
  address = "{node.containerd_socket}"
[ttrpc]
  address = "{node.containerd_socket}.ttrpc"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["{node.cdi}"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{node.root}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "/usr/sbin/runc"
        SystemdCgroup = false
[plugins."io.containerd.transfer.v1.local"]
  [[plugins."io.containerd.transfer.v1.local".unpack_config]]
    platform = "linux/amd64"
    snapshotter = "native"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
"""


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
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "cgroupDriver": "cgroupfs", "cgroupRoot": node.cgroup, "failCgroupV1": False, "failSwapOn": False,
        "enforceNodeAllocatable": [], "resolvConf": "", "podLogsDir": f"{node.root}/pods",
        "volumePluginDir": f"{node.root}/volume-plugins", "featureGates": gate_map(release),
        # The machine's own disk and memory are not the cluster's business.
        "evictionHard": {signal: "0%" for signal in ("memory.available", "nodefs.available", "nodefs.inodesFree",
                                                     "imagefs.available", "imagefs.inodesFree")},
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s", "maxPods": 250,
        "serializeImagePulls": False, "shutdownGracePeriod": "0s"}  # fmt: skip
