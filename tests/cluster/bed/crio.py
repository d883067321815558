"""CRI-O as the container runtime of a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bed.daemons import Daemon, Release
from bed.node import PAUSE_IMAGE, Node
from bed.space import Failed, wait_for

if TYPE_CHECKING:
    from bed.cluster import Cluster

NAME = "crio"
# For the cluster's own images nobody signs.
POLICY = {"default": [{"type": "insecureAcceptAnything"}]}
# In the place of runc: what it is to make is fitted to this machine before.
FIT = Path(__file__).resolve().parent / "oci_fit.py"
RUNC = f"""#!/bin/sh
last=
for word; do
    [ "$last" != --bundle ] || /usr/bin/python3 -IBS {FIT} "$word/config.json" || exit
    last=$word
done
exec /usr/sbin/runc "$@"
"""


def daemon(node: Node, release: Release) -> Daemon:
    """Its folder for further configuration is one that is not there."""
    return Daemon(f"{NAME}-{node.number}", [
        str(release.runtime / NAME), "--config", f"{node.root}/crio.toml", "--config-dir", f"{node.root}/crio.d"])  # fmt: skip


def prepare(node: Node, release: Release, cdi: bool = True) -> None:
    """Writes what it reads. It has no switch for CDI: without `cdi` it looks for the files where none are."""
    for folder in ("crio", "state"):
        (node.root / folder).mkdir(exist_ok=True)
    (node.root / "policy.json").write_text(json.dumps(POLICY), encoding="utf-8")
    runc = node.root / "runc"
    if not runc.exists():  # it may be at work
        runc.write_text(RUNC, encoding="utf-8")
        runc.chmod(0o755)
    (node.root / "crio.toml").write_text(configuration(node, release, cdi), encoding="utf-8")


def configuration(node: Node, release: Release, cdi: bool) -> str:
    """`vfs`: not every kernel has overlayfs. What it keeps in fixed places is each node's own. Without a file that
    tells of clean ends it does not look through, and wipe, its store after a kill."""
    root, state = node.root, node.root / "state"
    return f"""[crio]
root = "{root}/crio"
runroot = "{state}/storage"
storage_driver = "vfs"
log_dir = "{root}/pods"
version_file = "{state}/version"
clean_shutdown_file = ""
[crio.api]
listen = "{node.runtime_socket}"
[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
default_runtime = "runc"
pinns_path = "{release.runtime}/pinns"
namespaces_dir = "{state}/namespaces"
container_exits_dir = "{state}/exits"
container_attach_socket_dir = "{state}/attach"
hooks_dir = []
cdi_spec_dirs = ["{node.cdi if cdi else root / "elsewhere"}"]
[crio.runtime.runtimes.runc]
runtime_path = "{root}/runc"
runtime_root = "{state}/runc"
monitor_path = "/usr/bin/conmon"
[crio.image]
pause_image = "{PAUSE_IMAGE}"
pause_command = ""
signature_policy = "{root}/policy.json"
[crio.network]
network_dir = "{root}/cni"
plugin_dirs = ["/usr/lib/cni"]
[crio.nri]
enable_nri = false
"""


def importing(node: Node, release: Release, archive: Path, names: list[str]) -> list[list[str]]:
    """Commands that bring the images of an OCI archive to the node: into the store that it reads."""
    store = ["--root", f"{node.root}/crio", "--runroot", f"{node.root}/state/storage", "--storage-driver", "vfs"]
    return [["buildah", *store, "pull", "--quiet", "--signature-policy", f"{node.root}/policy.json", f"oci-archive:{archive}:{name}"]
            for name in names]  # fmt: skip


def answers(cluster: Cluster, node: Node) -> bool:
    try:
        return bool(cluster.inside(str(cluster.release().runtime / NAME), "status", "--socket", str(node.runtime_socket), "info"))
    except Failed:
        return False


def end_containers(cluster: Cluster, node: Node) -> None:
    """Kills all containers, as a reboot does. Their sandboxes are well for CRI-O until it starts anew and does not find what
    a boot takes away: then it clears them away."""
    release = cluster.release()
    wait_for(lambda: bears_it(cluster, node), "the kubelet to have started")
    cluster.space.kill(daemon(node, release).name)
    runc = ["/usr/sbin/runc", "--root", f"{node.root}/state/runc"]
    for container in cluster.inside(*runc, "list", "--quiet").split():
        try:
            cluster.inside(*runc, "kill", container, "KILL")
        except Failed as error:
            if "not running" not in str(error) and "does not exist" not in str(error):
                raise
    (node.root / "state" / "version").unlink()
    cluster.start(daemon(node, release), release)
    wait_for(lambda: answers(cluster, node), "CRI-O to answer")


def bears_it(cluster: Cluster, node: Node) -> bool:
    """Whether the kubelet bears it that the runtime goes for a moment: one that starts does not."""
    if cluster.space.daemons().get(f"kubelet-{node.number}") != "running":
        return True
    try:
        return cluster.inside("curl", "-s", f"http://{node.address}:10248/healthz") == "ok"
    except Failed:
        return False
