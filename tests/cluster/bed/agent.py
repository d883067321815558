"""The node agent in the cluster, installed as its users install it: the image, manifests/base/agent, and where a node of a
cluster here has its folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from bed import images
from bed.cluster import Cluster
from bed.node import Node
from bed.space import Failed, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent.parent
RELEASE = ROOT / "build" / "release"
NAMESPACE = "drawbridge-agent"
IMAGE = "drawbridge.test/agent"
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
DEVICES = "/etc/drawbridge/devices"


def agent_program() -> Path:
    """The program that is installed: DRAWBRIDGE_AGENT, or the release build of this tree."""
    return Path(os.environ.get("DRAWBRIDGE_AGENT") or RELEASE / "bin" / "drawbridge-agent")


class AgentInstallation:
    """The agent of one cluster: a DaemonSet for each real node, since each has folders of its own here."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.place.root / "agent"
        self.nodes = [Node(cluster.place, number) for number in range(1, cluster.wish().nodes + 1)]

    def install(self, devices: Path | None, library: Path = RELEASE / "lib" / "libdrawbridge.so") -> None:
        """Builds the image, brings it to the nodes, applies the manifests, waits until every agent is ready. Without `devices`
        the agent looks for a driver."""
        tag = self.load_image(agent_program(), library)
        for node in self.nodes:
            self.write_overlay(node, tag, devices)
            done = self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(self.folder_of(node)))
            if done.returncode != 0:
                raise Failed(f"the manifests were not accepted:\n{done.stderr}")
        wait_for(self.rolled_out, "the agents to be ready")

    def remove(self) -> None:
        """Takes everything away again; the pods that have shares are to be ended before."""
        for node in self.nodes:
            self.cluster.kubectl("delete", "--ignore-not-found", "--wait", "-k", str(self.folder_of(node)))

    def load_image(self, program: Path, library: Path) -> str:
        """The tag of the image with these and the front beside the library: made of their content, so that another build is
        another image."""
        files = (program, library, library.with_name("libdrawbridge-libcuda.so"))
        for file in files:
            if not file.exists():
                raise Failed(f"{file} is missing; build it first (cmake --build --preset release)")
        tag = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
        self.folder.mkdir(exist_ok=True)
        archive = self.folder / f"agent-{tag}.tar"
        if not archive.exists():
            done = subprocess.run(
                [*self.cluster.space.entering(mounts=True, tied=True), ROOT / "manifests" / "image" / "build", program, archive,
                 f"{IMAGE}:{tag}", library],
                env=os.environ | {"TMPDIR": str(self.cluster.place.temporary)}, capture_output=True, text=True)  # fmt: skip
            if done.returncode != 0:
                raise Failed(f"the image did not build:\n{done.stdout}{done.stderr}")
        for node in self.nodes:
            loaded = node.root / f"agent-{tag}-loaded"
            if not loaded.exists():
                images.load(self.cluster.space, node, self.cluster.release(), archive)
                loaded.touch()
        return tag

    def folder_of(self, node: Node) -> Path:
        return self.folder / node.name

    def name_of(self, node: Node) -> str:
        return "drawbridge-agent" if len(self.nodes) == 1 else f"drawbridge-agent-{node.number}"

    def write_overlay(self, node: Node, tag: str, devices: Path | None) -> None:
        """What an installer adds to manifests/base/agent: image, devices, and the paths of a node that has its own."""
        folder = self.folder_of(node)
        folder.mkdir(exist_ok=True)
        if devices:
            shutil.copyfile(devices, folder / "devices.yaml")
        container = "/spec/template/spec/containers/0"
        hosts = [node.kubelet_root / name for name in ("plugins", "plugins_registry", "pod-resources")] + [node.cdi]
        arguments = [f"--kubelet-root={node.kubelet_root}", f"--cdi={node.cdi}",
                     f"--runtime-socket=/host{node.runtime_socket}", *([f"--devices={DEVICES}/devices.yaml"] if devices else [])]
        maps = [{"name": "drawbridge-agent-devices", "namespace": NAMESPACE, "files": ["devices.yaml"]}]
        patch = [
            {"op": "replace", "path": "/metadata/name", "value": self.name_of(node)},
            {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"kubernetes.io/hostname": node.name}},
            {"op": "remove", "path": f"{container}/resources/requests/cpu"},
            *({"op": "add", "path": f"{container}/args/-", "value": text} for text in arguments),
            *({"op": "replace", "path": f"/spec/template/spec/volumes/{at}/hostPath/path", "value": str(path)}
              for at, path in enumerate(hosts)),
            *({"op": "replace", "path": f"{container}/volumeMounts/{at}/mountPath", "value": str(path)}
              for at, path in enumerate(hosts)),
        ]  # fmt: skip
        if devices:
            patch += [{"op": "add", "path": f"{container}/volumeMounts/-", "value": {"name": "devices", "mountPath": DEVICES}},
                      {"op": "add", "path": "/spec/template/spec/volumes/-",
                       "value": {"name": "devices", "configMap": {"name": "drawbridge-agent-devices"}}}]  # fmt: skip
        base = [os.path.relpath(ROOT / "manifests" / "base" / "agent", folder)]
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": base,
            "images": [{"name": "drawbridge/agent", "newName": IMAGE, "newTag": tag}],
            "configMapGenerator": maps if devices else [],
            "generatorOptions": {"disableNameSuffixHash": True},
            "patches": [{"target": {"kind": "DaemonSet"}, "patch": json.dumps(patch), "options": {"allowNameChange": True}}]}  # fmt: skip
        (folder / "kustomization.yaml").write_text(json.dumps(overlay, indent=1), encoding="utf-8")

    def rolled_out(self) -> bool:
        """Whether every agent is of the newest template, and ready: registered with its kubelet, and published."""
        return all(self._rolled_out(self.cluster.api.get(f"{SETS}/{self.name_of(node)}")) for node in self.nodes)

    @staticmethod
    def _rolled_out(found: dict) -> bool:
        status = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        counts = [status.get(name, 0) for name in ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")]
        return current and counts == [1, 1, 1] and status.get("numberUnavailable", 0) == 0

    def pods(self) -> list[dict]:
        return self.cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3Dagent")["items"]

    def logs(self) -> str:
        """What the agents that run have said."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return "".join(str(self.cluster.api.exchange("GET", f"{path}/{pod['metadata']['name']}/log")[2]) for pod in self.pods())
