"""What a cluster test works with: a namespace, pods made with kubectl or directly, claims and allocations."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from bed.api import Api, ApiError
from bed.cluster import Cluster
from bed.drawbridge import CONFIGURATION, Installation
from bed.hooks import CONFIGURATIONS, Injector, Patch
from bed.serving import Serving
from bed.space import wait_for

CLAIMS = "/apis/resource.k8s.io/v1"
TEMPLATE_PREFIX = "drawbridge-"
BACKGROUND = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}


def container(name: str = "main", **figures: str) -> dict:
    """A container with legacy figures by short name: gpu, gpumem, gpumem_percentage, gpucores, priority."""
    limits = {f"nvidia.com/{key.replace('_', '-')}": str(value) for key, value in figures.items()}
    return {"name": name, "image": "test.local/busybox:1", "command": ["sleep", "3600"],
            "imagePullPolicy": "Never", "resources": {"limits": limits} if limits else {}}  # fmt: skip


def pod(name: str, *containers: dict, **spec: Any) -> dict:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": list(containers) or [container()], **spec}}  # fmt: skip


def legacy_names(found: dict) -> set[str]:
    spec = found["spec"]
    amounts = [
        entry.get("resources", {}).get(part) or {} for entry in spec["containers"] for part in ("limits", "requests")
    ]
    return {name for part in amounts for name in part if name.startswith("nvidia.com/")}


def own_entries(found: dict) -> dict[str, str]:
    return {entry["name"]: entry["resourceClaimTemplateName"] for entry in found["spec"].get("resourceClaims", [])}


class Bench:
    """A cluster with Drawbridge."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.installation = installation
        self.made: list[Names] = []

    def settle(self) -> None:
        """Waits until nothing that earlier tests made holds a share of the fleet."""
        wait_for(lambda: not self.api.get(f"{CLAIMS}/resourceclaims")["items"], "the claims of earlier tests to go")

    @contextlib.contextmanager
    def recording(self) -> Iterator[list[tuple[dict, dict]]]:
        """The reviews with their answers, as long as this lasts; they are in the cluster's reviews.jsonl too."""
        probe = self.namespace("recorder-probe")
        recorder = self.installation.record()
        try:
            self.configurations_known(probe.name)
            yield recorder.reviews
        finally:
            self.installation.direct()
            self.configurations_known(probe.name)
            recorder.close()
            probe.remove()

    def namespace(self, name: str, **labels: str) -> Names:
        made = Names(self, name)
        with contextlib.suppress(ApiError):
            self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        wait_for(lambda: self.api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the service account")
        self.made.append(made)
        return made

    @contextlib.contextmanager
    def injector(self, name: str, namespace: str, patch: Callable[[dict], Patch], reinvoke: str = "IfNeeded"):
        """Another mutating webhook beside ours, for one namespace; its name says whether before or after."""
        server = Injector(self.cluster.space, patch)
        self.api.call("POST", CONFIGURATIONS, server.configuration(name, namespace, reinvoke))
        probe = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "probe-"},
            "spec": {"containers": [{"name": "probe", "image": "a"}]},
        }
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        try:
            wait_for(lambda: self.api.exchange("POST", path, probe) and server.requests, "the injector to be called")
            server.requests.clear()
            yield server
        finally:
            self.api.call("DELETE", f"{CONFIGURATIONS}/{name}")
            server.close()

    @contextlib.contextmanager
    def asked(
        self, namespace: str, server: Serving, policy: str = "Fail"
    ) -> Iterator[Callable[[Serving], None]]:
        """For one namespace that is off the API server asks a process of its own; gives what makes it ask another."""
        name = f"zz-{namespace}"
        (hook, *_) = self.api.get(CONFIGURATION)["webhooks"]
        hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        hook["failurePolicy"] = policy
        configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                         "metadata": {"name": name}, "webhooks": [hook]}  # fmt: skip

        def ask(other: Serving) -> None:
            hook["clientConfig"] = other.client
            self.api.apply(f"{CONFIGURATIONS}/{name}", configuration)
            self.configurations_known(namespace)

        ask(server)
        try:
            yield ask
        finally:
            self.api.call("DELETE", f"{CONFIGURATIONS}/{name}")

    def configurations_known(self, namespace: str) -> None:
        """Waits until the API server acts by all that was written of webhooks: it learns of changes in their order."""
        with self.injector(f"zzz-mark-{namespace}", namespace, lambda _: []):
            pass

    def metrics(self, name: str) -> dict[str, float]:
        """The API server's samples of one metric, by their labels."""
        samples = {}
        for line in self.api.get("/metrics").splitlines():
            if line.startswith(name + "{"):
                key, _, value = line.rpartition(" ")
                samples[key[len(name) :]] = float(value)
        return samples


class Names:
    """A namespace and what is done in it."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.api: Api = bench.api
        self.name = name

    # ------------------------------------------------------------------------------------------ making

    def kubectl(self, *arguments: str, input: Any = None) -> subprocess.CompletedProcess[str]:
        """kubectl in this namespace; `input` is written as JSON unless it is a text."""
        text = input if input is None or isinstance(input, str) else json.dumps(input)
        return self.bench.cluster.kubectl("-n", self.name, *arguments, input=text)

    def apply(self, *documents: dict, command: tuple[str, ...] = ("create",)) -> str:
        """kubectl create, which must succeed; what it says on standard error."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        done = self.kubectl(*command, "-f", "-", input=listed if len(documents) > 1 else documents[0])
        assert done.returncode == 0, done.stderr
        return done.stderr

    def create(self, document: dict, dry_run: bool = False) -> dict:
        """Creates a pod directly; `ApiError` where it is refused."""
        return self.api.call("POST", f"{self.path('pods')}{'?dryRun=All' if dry_run else ''}", document)

    def remove(self) -> None:
        """Ends what is in the namespace, and the namespace in its own time."""
        self.delete_pods()
        with contextlib.suppress(ApiError):
            self.api.call("DELETE", f"/api/v1/namespaces/{self.name}", BACKGROUND)

    def delete_pods(self) -> None:
        """Deletes every pod; the API server cuts a call off that takes it more than a minute, which is made again."""

        def done() -> bool:
            with contextlib.suppress(OSError):
                return self.api.exchange("DELETE", self.path("pods"), BACKGROUND)[0] < 500
            return False

        wait_for(done, "the pods to be deleted")

    # ------------------------------------------------------------------------------------------ looking

    def path(self, kind: str, name: str = "") -> str:
        roots = {"pods": "/api/v1", "events": "/api/v1", "limitranges": "/api/v1", "deployments": "/apis/apps/v1",
                 "replicasets": "/apis/apps/v1"}  # fmt: skip
        return f"{roots.get(kind, CLAIMS)}/namespaces/{self.name}/{kind}" + (f"/{name}" if name else "")

    def listed(self, kind: str) -> list[dict]:
        """The objects of a kind; those of a list lack what the list says once for all."""
        found = self.api.get(self.path(kind))
        common = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return [common | item for item in found["items"]]

    def templates(self) -> dict[str, dict]:
        """Our templates by name."""
        found = {item["metadata"]["name"]: item for item in self.listed("resourceclaimtemplates")}
        return {name: item for name, item in found.items() if name.startswith(TEMPLATE_PREFIX)}

    def pod(self, name: str) -> dict:
        return self.api.get(self.path("pods", name))

    def claims_of(self, found: dict) -> dict[str, dict]:
        """The claims of a pod by entry, as far as they are made."""
        statuses = found.get("status", {}).get("resourceClaimStatuses") or []
        claims = {entry["name"]: self.api.find(self.path("resourceclaims", entry.get("resourceClaimName", "-")))
                  for entry in statuses}  # fmt: skip
        return {name: claim for name, claim in claims.items() if claim}

    def allocated(self, name: str) -> dict[str, list[dict]]:
        """Waits until the pod is placed; the devices that each of its claim entries got."""
        found = wait_for(lambda: self._placed(name), f"pod {name} to be placed")
        return {entry: claim["status"]["allocation"]["devices"]["results"]
                for entry, claim in self.claims_of(found).items()}  # fmt: skip

    def _placed(self, name: str) -> dict | None:
        found = self.pod(name)
        return found if found["spec"].get("nodeName") else None

    def pends(self, name: str) -> str:
        """Waits until the scheduler has said that the pod has no place; what it said."""

        def reason() -> str | None:
            conditions = self.pod(name).get("status", {}).get("conditions") or []
            said = [entry for entry in conditions if entry["type"] == "PodScheduled" and entry["status"] == "False"]
            return said[0].get("message") if said and said[0].get("reason") == "Unschedulable" else None

        return wait_for(reason, f"pod {name} to be found unschedulable")

    def delete_pod(self, name: str) -> None:
        """Deletes a pod and waits until it is gone."""
        self.api.call("DELETE", self.path("pods", name), BACKGROUND)
        wait_for(lambda: self.api.find(self.path("pods", name)) is None, f"pod {name} to be gone")

    def evidence(self) -> list[tuple[str, str]]:
        """What helps to understand a failure."""
        sections = []
        for kind in ("pods", "events", "resourceclaims", "resourceclaimtemplates"):
            with contextlib.suppress(Exception):
                shown = self.kubectl("get", kind, "-o", "yaml" if kind != "events" else "wide").stdout
                sections.append((f"{kind} of {self.name}", shown))
        with contextlib.suppress(Exception):
            said = [line for line in self.bench.installation.logs().splitlines() if f'"{self.name}"' in line]
            sections.append(("webhook log", "\n".join(said)))
        with contextlib.suppress(Exception):
            told = ("annotations", "objectRef", "requestObject", "responseStatus")
            events = [{key: event.get(key) for key in told} for event in self.bench.cluster.admissions(self.name)]
            sections.append(("admissions", "\n".join(json.dumps(event) for event in events[-20:])))
        for component in ("kube-scheduler", "kube-controller-manager", "kube-apiserver"):
            said = [line for line in self.bench.cluster.space.log(component).splitlines() if self.name in line]
            sections.append((component, "\n".join(said[-20:])))
        return sections
