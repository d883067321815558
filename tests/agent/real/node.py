"""A node of a real cluster with the agent on it, and pods that ask for shares of its GPUs."""

from __future__ import annotations

import base64
import json
import struct
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from bed import keys, runtimes
from bed.api import Api
from bed.cluster import Cluster
from bed.images import BUSYBOX_IMAGE, PAUSE_IMAGE
from bed.node import Node as BedNode
from bed.node import kubelet
from bed.place import API_ADDRESS, API_PORT
from bed.space import wait_for
from material import AGENT, DRIVER, gpu

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "build" / "release" / "lib" / "libdrawbridge.so"
MANIFESTS = ROOT / "manifests" / "base"
NAMESPACE = "drawbridge-agent"
ACCOUNT = "drawbridge-agent"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
Json = dict[str, Any]


class Node:
    """A node of a cluster, with GPUs that no other node has."""

    def __init__(self, cluster: Cluster, number: int = 1) -> None:
        self.cluster, self.api, self.number = cluster, cluster.api, number
        self.bed = BedNode(cluster.place, number)
        # On 1.35 their gate is off unless one asks for it: what has a fault is left out of the slice.
        self.taints = cluster.wish().kubernetes != "1.35"
        self.name = self.bed.name
        self.agent = "agent" if number == 1 else f"agent-{number}"
        self.gpus = [gpu(16 * (number - 1) + at) for at in (1, 2)]
        self.plugin = self.bed.kubelet_root / "plugins" / DRIVER
        self.devices_file = self.bed.root / "devices.json"
        self.boot_id_file = self.bed.root / "boot_id"
        self.kubeconfig = self.bed.root / "agent.kubeconfig"
        self.environment: dict[str, str] = {}
        self.port_file = self.bed.root / "agent.ports"
        self.source = ["--devices", str(self.devices_file)]  # where the agent's GPUs come from

    # ------------------------------------------------------------------ the agent

    def install(self) -> None:
        """Rights, policy and class as the manifests have them, and a token of the node's own."""
        files = [MANIFESTS / "device-class.yaml", *(MANIFESTS / "agent" / name for name in (
            "namespace.yaml", "service-account.yaml", "rights.yaml", "slice-policy.yaml"))]  # fmt: skip
        for file in files:
            done = self.cluster.kubectl("apply", "--server-side", "-f", str(file))
            assert done.returncode == 0, done.stderr
        user = {"token": self.token(self.name)}
        keys.write_kubeconfig(keys.Authority(self.cluster.place.keys), self.kubeconfig, user)
        self.devices(*self.gpus)
        self.boot(1)
        # A policy takes effect some time after it is there.
        wait_for(lambda: self._policy_holds(), "the policy on slices")

    def _policy_holds(self) -> bool:
        foreign = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "probe"},
                   "spec": {"driver": DRIVER, "nodeName": "elsewhere", "devices": [],
                            "pool": {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1}}}  # fmt: skip
        return self.as_agent().exchange("POST", SLICES + "?dryRun=All", foreign)[0] == 422

    def token(self, node: str) -> str:
        """A token of the agent's account, bound to a pod on that node as those in pods are."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        holder = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent-" + node, "namespace": NAMESPACE},
                  "spec": {"serviceAccountName": ACCOUNT, "nodeName": node, "hostNetwork": True,
                           "containers": [{"name": "a", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}]}}  # fmt: skip
        made = self.api.find(f"{path}/agent-{node}") or self.api.call("POST", path, holder)
        bound = {"kind": "Pod", "apiVersion": "v1", "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                 "spec": {"boundObjectRef": bound, "expirationSeconds": 86400}}  # fmt: skip
        answer = self.api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token", asked)
        return answer["status"]["token"]

    def as_agent(self, node: str = "") -> Api:
        """A client with the agent's rights, on this node or on another."""
        if node:
            return Api(self.cluster.space, self.token(node))
        user = json.loads(self.kubeconfig.read_text())["users"][0]["user"]
        return Api(self.cluster.space, user["token"])

    def start(self, *arguments: str, library: Path = LIBRARY, server: str = "", program: Path = AGENT) -> None:
        """An agent as a process; `server` is where it finds the API server, if not at its usual place."""
        kubeconfig = self.kubeconfig
        if server:
            kubeconfig = self.kubeconfig.with_suffix(".elsewhere")
            usual = f"https://{API_ADDRESS}:{API_PORT}"
            kubeconfig.write_text(self.kubeconfig.read_text().replace(usual, server))
        command = [str(program), "--node", self.name, "--kubeconfig", str(kubeconfig),
                   "--kubelet-root", str(self.bed.kubelet_root), "--cdi", str(self.bed.cdi), *self.source,
                   "--boot-id-file", str(self.boot_id_file), "--library", str(library), "--operator-listen", "127.0.0.1:0",
                   "--port-file", str(self.port_file), "--runtime-socket", str(self.bed.runtime_socket), *arguments]  # fmt: skip
        self.cluster.space.start(self.agent, command, {"PATH": "/usr/bin:/bin"} | self.environment)

    def runs(self) -> bool:
        return self.cluster.space.daemons().get(self.agent) == "running"

    def kill(self) -> None:
        self.cluster.space.kill(self.agent)

    def stop(self) -> None:
        self.cluster.space.stop(self.agent)

    def devices(self, *entries: Json) -> None:
        text = json.dumps({"apiVersion": "drawbridge.dev/v1", "kind": "DeviceList", "devices": list(entries)})
        fresh = self.devices_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.devices_file)

    def boot(self, number: int) -> None:
        self.boot_id_file.write_text(f"00000000-0000-4000-8000-{number:012x}\n")

    def settle(self) -> None:
        self.devices(*self.gpus)
        self.start()
        wait_for(lambda: self.published() == 2, "two published devices")

    def restart_kubelet(self) -> None:
        self.cluster.space.kill(f"kubelet-{self.number}")
        release = self.cluster.release()
        self.cluster.start(kubelet(self.bed, release), release)

    @property
    def runtime(self) -> ModuleType:
        return runtimes.of(self.cluster.release())

    def end_containers(self) -> None:
        """Kills all containers of the node, as a reboot does."""
        self.runtime.end_containers(self.cluster, self.bed)

    def set_cdi(self, on: bool) -> None:
        """Has the container runtime read the agent's CDI files or not, and starts it anew."""
        release = self.cluster.release()
        self.runtime.prepare(self.bed, release, on)
        daemon = self.runtime.daemon(self.bed, release)
        self.cluster.space.kill(daemon.name)
        self.cluster.start(daemon, release)
        wait_for(lambda: self.runtime.answers(self.cluster, self.bed), "the container runtime to answer")

    @property
    def operator(self) -> str:
        """Address of the operator port, for those who are inside."""
        return f"127.0.0.1:{json.loads(self.port_file.read_text())['operator']}"

    def ask(self, path: str) -> str:
        """What the operator port says, asked from where it listens."""
        return self.cluster.inside("curl", "-s", f"http://{self.operator}{path}")

    def readiness(self) -> str:
        return self.ask("/readyz")

    def log(self) -> list[Json]:
        lines = self.cluster.space.log(self.agent).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    # ------------------------------------------------------------------ what there is

    def slices(self) -> list[Json]:
        found = self.api.get(f"{SLICES}?fieldSelector=spec.driver%3D{DRIVER}")["items"]
        return [item for item in found if item["spec"].get("nodeName") == self.name]

    def published(self) -> int:
        return sum(len(item["spec"].get("devices") or []) for item in self.slices())

    def device(self, number: int) -> Json:
        uid = gpu(number)["uuid"]
        return next(device for item in self.slices() for device in item["spec"]["devices"]
                    if device["attributes"]["uuid"]["string"] == uid)  # fmt: skip

    def shares(self) -> list[str]:
        return sorted(path.name for path in (self.plugin / "shares").iterdir())

    def cdi_files(self) -> list[str]:
        return sorted(path.name for path in self.bed.cdi.iterdir())


# The limits of each share that a container has, as a line of its log.
SHOW_SHARES = 'for f in /run/drawbridge/shares/*/limits; do test -e "$f" && echo "LIMITS $(/bin/busybox base64 -w0 "$f")"; done'
SHOW = SHOW_SHARES + '; echo "ENV $NVIDIA_VISIBLE_DEVICES"; ls -l /run/drawbridge/shares/*; echo READY; exec sleep 100000'


class Limits(NamedTuple):
    """What stands in a share's `limits` (preload/abi.h)."""

    uuid: str
    memory: int  # bytes
    cores: int  # permille
    priority: int


def limits_of(page: bytes) -> Limits:
    (memory,), (cores, _, priority) = struct.unpack_from("<Q", page, 120), struct.unpack_from("<3I", page, 144)
    return Limits("GPU-" + str(uuid.UUID(bytes=page[24:40])), memory, cores, priority)


def limits_in(log: str) -> list[Limits]:
    """The shares that a container showed in its log."""
    lines = [line.split()[1] for line in log.splitlines() if line.startswith("LIMITS ")]
    return [limits_of(base64.b64decode(line)) for line in lines]


class Pods:
    """Pods of one namespace; each container shows its share files in its log."""

    def __init__(self, node: Node, namespace: str) -> None:
        self.node, self.api, self.namespace = node, node.api, namespace
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        wait_for(lambda: self.api.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), "the service account")
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.resource = f"/apis/resource.k8s.io/v1/namespaces/{namespace}"

    def template(self, name: str, *requests: Json, constraints: list[Json] | None = None) -> str:
        """A ResourceClaimTemplate; a request is what is named of memory, cores and slots."""
        self.api.call("POST", self.resource + "/resourceclaimtemplates", {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": name}, "spec": {"spec": devices_of(*requests, constraints=constraints)}})  # fmt: skip
        return name

    def claim(self, name: str, *requests: Json) -> str:
        self.api.call("POST", self.resource + "/resourceclaims", {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": devices_of(*requests)})  # fmt: skip
        return name

    def start(self, name: str, containers: dict[str, list[str]], claims: dict[str, Json], image: str = "", show: str = SHOW,
              more: Json | None = None, **spec: Any) -> None:  # fmt: skip
        """A pod: claims by container, and where each claim comes from. `show` is what its containers run; an image of a
        test's own has its own command. `more` is what else each container has."""
        runs = {"image": image} if image else {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", show]}

        def made(container: str, entries: list[str]) -> Json:
            return {"name": container, "imagePullPolicy": "Never", **runs, **(more or {}),
                    "resources": {"claims": [{"name": entry} for entry in entries]}}  # fmt: skip

        self.api.call("POST", self.path, {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 0, "restartPolicy": "Always",
                     "containers": [made(*entry) for entry in containers.items()],
                     "resourceClaims": [{"name": entry} | source for entry, source in claims.items()]} | spec})  # fmt: skip

    def simple(self, name: str, template: str) -> None:
        self.start(name, {"main": ["gpu"]}, {"gpu": {"resourceClaimTemplateName": template}})

    def get(self, name: str) -> Json:
        return self.api.get(f"{self.path}/{name}")

    def running(self, name: str) -> Json:
        """Waits until a pod runs and each container has shown its files."""
        wait_for(lambda: self.get(name)["status"]["phase"] == "Running", lambda: self.told(name))
        pod = self.get(name)
        for container in pod["spec"]["containers"]:
            wait_for(lambda: "READY" in self.log(name, container["name"]), "the container's word")  # noqa: B023
        return pod

    def told(self, name: str) -> str:
        """All that there is to say of a pod."""
        pod = self.api.find(f"{self.path}/{name}") or {}
        claims = [item.get("status", {}) for item in self.api.get(f"{self.resource}/resourceclaims")["items"]]
        slices = [device["name"] for item in self.api.get(SLICES)["items"] for device in item["spec"].get("devices", [])]
        return f"pod {name}: {pod.get('status')}; events: {self.events}; claims: {claims}; devices: {slices}"

    @property
    def events(self) -> str:
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        return "; ".join(f"{item['involvedObject'].get('name')}: {item.get('message')}" for item in found[-6:])

    def reasons(self) -> set[str]:
        """The reasons of all events of the namespace."""
        return {item.get("reason", "") for item in self.api.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]}

    def log(self, name: str, container: str = "main") -> str:
        status, _, text = self.api.exchange("GET", f"{self.path}/{name}/log?container={container}")
        return text if status == 200 else ""

    def limits(self, name: str, container: str = "main") -> list[tuple[int, int]]:
        """Memory in bytes and compute in permille of each share that a container sees."""
        return sorted((share.memory, share.cores) for share in limits_in(self.log(name, container)))

    def is_pending(self, name: str) -> bool:
        conditions = self.get(name)["status"].get("conditions") or []
        return any(entry["type"] == "PodScheduled" and entry["status"] == "False" for entry in conditions)

    def claims(self) -> list[Json]:
        return self.api.get(self.resource + "/resourceclaims")["items"]

    def shares(self) -> list[str]:
        """The share folders of this namespace's claims."""
        uids = {claim["metadata"]["uid"] for claim in self.claims()}
        return [name for name in self.node.shares() if name.rsplit("-", 1)[0] in uids]

    def delete(self, name: str, force: bool = False) -> None:
        self.api.call("DELETE", f"{self.path}/{name}", {"gracePeriodSeconds": 0} if force else None)
        wait_for(lambda: self.api.find(f"{self.path}/{name}") is None, lambda: f"the end of {self.told(name)}")

    def remove(self) -> None:
        for pod in self.api.get(self.path)["items"]:
            self.delete(pod["metadata"]["name"])
        wait_for(lambda: not [claim for claim in self.claims() if claim["metadata"].get("ownerReferences")], "claims to go")
        self.api.call("DELETE", f"/api/v1/namespaces/{self.namespace}")


def devices_of(*requests: Json, constraints: list[Json] | None = None) -> Json:
    made = [{"name": f"gpu-{at}", "exactly": {"deviceClassName": DRIVER, "capacity": {"requests": request}} if request
             else {"deviceClassName": DRIVER}} for at, request in enumerate(requests)]  # fmt: skip
    return {"devices": {"requests": made, "constraints": constraints or []}}


def share(memory: str, cores: int = 0) -> Json:
    return {"memory": memory, "cores": str(cores), "slots": "1"}
