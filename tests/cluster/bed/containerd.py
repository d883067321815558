"""containerd as the container runtime of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bed.daemons import Daemon, Release
from bed.node import PAUSE_IMAGE, Node
from bed.space import Failed

if TYPE_CHECKING:
    from bed.cluster import Cluster

NAME = "containerd"


def daemon(node: Node, release: Release) -> Daemon:
    return Daemon(f"{NAME}-{node.number}", [str(release.runtime / NAME), "--config", f"{node.root}/containerd.toml"])


def prepare(node: Node, release: Release, cdi: bool = True) -> None:
    """Writes what it reads; without `cdi` it gives containers nothing of what CDI files say."""
    for folder in ("containerd", "state"):
        (node.root / folder).mkdir(exist_ok=True)
    (node.root / "containerd.toml").write_text(configuration(node, cdi), encoding="utf-8")


def configuration(node: Node, cdi: bool) -> str:
    """`native`: not every kernel has overlayfs. restrict_oom_score_adj: root may lack CAP_SYS_RESOURCE."""
    return f"""version = 3
root = "{node.root}/containerd"
state = "{node.root}/state"
[grpc]
  address = "{node.runtime_socket}"
[ttrpc]
  address = "{node.runtime_socket}.ttrpc"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = {str(cdi).lower()}
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


def importing(node: Node, release: Release, archive: Path, names: list[str]) -> list[list[str]]:
    """Commands that bring the images of an OCI archive to the node."""
    return [[*ctr(node, release), "images", "import", "--snapshotter", "native", str(archive)]]


def answers(cluster: Cluster, node: Node) -> bool:
    try:
        return "Server" in cluster.inside(*ctr(node, cluster.release()), "version")
    except Failed:
        return False


def end_containers(cluster: Cluster, node: Node) -> None:
    """Kills all containers, as a reboot does; one that ends by itself meanwhile is none of them."""
    command = ctr(node, cluster.release())
    for task in cluster.inside(*command, "tasks", "list", "--quiet").split():
        try:
            cluster.inside(*command, "tasks", "kill", "--signal", "9", task)
        except Failed as error:
            if "no running task found" not in str(error) and "process already finished" not in str(error):
                raise


def ctr(node: Node, release: Release) -> list[str]:
    return [str(release.runtime / "ctr"), "--address", str(node.runtime_socket), "--namespace", "k8s.io"]
