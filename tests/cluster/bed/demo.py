"""The demonstration: a real cluster, Drawbridge installed, old manifests applied, and what became of each."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bed.api import Api, ApiError
from bed.cluster import Cluster, Wish
from bed.drawbridge import ROOT, Installation
from bed.space import Failed, NotUp, wait_for

BUILT_IN = ("v1", "apps/v1", "batch/v1")
CLAIMS = "/apis/resource.k8s.io/v1"
LEGACY = "nvidia.com/"


def documents(file: Path) -> list[dict]:
    return [document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]


def pod_spec(document: dict) -> dict:
    """The pod's part of a document of a built-in kind; empty for what makes no pods."""
    spec = document.get("spec") or {}
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec if document["kind"] == "Pod" else (spec.get("template") or {}).get("spec") or {}


def asked(spec: dict) -> Iterator[str]:
    """What each container asks for, as people wrote it."""
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        limits = (container.get("resources") or {}).get("limits") or {}
        figures = [f"{name.removeprefix(LEGACY)} {value}" for name, value in limits.items() if name.startswith(LEGACY)]
        if figures:
            yield f"{container['name']}: {', '.join(figures)}"


class Account:
    """Applies one example in a namespace of its own and tells of it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.api: Api = cluster.api
        self.namespace = namespace

    def tell(self, title: str, made: list[dict]) -> None:
        print(f"\n{title}")
        foreign = [f"{document['kind']} of {document['apiVersion']}" for document in made
                   if document["apiVersion"] not in BUILT_IN]  # fmt: skip
        if foreign:
            print(f"  skipped    {', '.join(foreign)}: not in this cluster; drawbridge translate knows it")
            return
        self._prepare(made)
        for document in made:
            for line in asked(pod_spec(document)):
                print(f"  asked      {line}")
        done = self.cluster.kubectl("-n", self.namespace, "apply", "-f", "-", input=as_list(made))
        for line in done.stderr.splitlines():
            self._say_notice(line)
        if any(document["kind"] == "CronJob" for document in made):
            name = next(document["metadata"]["name"] for document in made if document["kind"] == "CronJob")
            self.cluster.kubectl("-n", self.namespace, "create", "job", "now", f"--from=cronjob/{name}")
        if done.returncode == 0:
            self._follow()

    @staticmethod
    def _say_notice(line: str) -> None:
        if line.startswith("Warning: "):
            print(f"  warned     {line.removeprefix('Warning: ')}")
        elif "denied the request: " in line:
            print(f"  denied     {line.partition('denied the request: ')[2]}")
        elif line.strip():
            print(f"             {line}")

    def _prepare(self, made: list[dict]) -> None:
        """What the manifests take for granted: the namespace, accounts, volumes, labels of nodes."""
        self.api.apply(f"/api/v1/namespaces/{self.namespace}",
                       {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})  # fmt: skip
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        wait_for(lambda: self.api.find(f"{path}/default"), "the service account")
        for document in made:
            (document.get("metadata") or {}).pop("namespace", None)
            spec = pod_spec(document)
            if account := spec.get("serviceAccountName"):
                self.api.call("POST", path, {"metadata": {"name": account}})
            if level := spec.get("priorityClassName"):
                kind = {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": level},
                    "value": 1,
                }
                self.api.apply(f"/apis/scheduling.k8s.io/v1/priorityclasses/{level}", kind)
            for template in (document.get("spec") or {}).get("volumeClaimTemplates", []):
                for number in range(document["spec"].get("replicas", 1)):
                    self._volume(f"{template['metadata']['name']}-{document['metadata']['name']}-{number}")
            for volume in spec.get("volumes", []):
                if claim := volume.get("persistentVolumeClaim"):
                    self._volume(claim["claimName"])
            for node in self.api.get("/api/v1/nodes?labelSelector=drawbridge.test/fake")["items"]:
                labels = {"metadata": {"labels": spec.get("nodeSelector") or {}}}
                self.api.call(
                    "PATCH", f"/api/v1/nodes/{node['metadata']['name']}", labels, "application/merge-patch+json"
                )

    def _volume(self, claim: str) -> None:
        """A volume for a claim, both bound to each other from the start."""
        name = f"{self.namespace}-{claim}"
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        reference = {"name": claim, "namespace": self.namespace}
        volume = {"metadata": {"name": name}, "spec": common | {
            "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"}, "claimRef": reference}}  # fmt: skip
        wish = {"metadata": {"name": claim}, "spec": common | {
            "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
        with contextlib.suppress(ApiError):  # two documents may share one
            self.api.call("POST", "/api/v1/persistentvolumes", volume)
            self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims", wish)

    def _follow(self) -> None:
        """Waits until the scheduler has decided on every pod, and tells where each went and what it got."""
        pods = wait_for(self._decided, "the scheduler")
        shown: set[str] = set()
        for pod in pods:
            lines = "\n".join(self._outcome(pod))
            if lines not in shown:  # replicas that fare alike
                print(lines)
            shown.add(lines)

    def _decided(self) -> list[dict] | None:
        pods = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        refused = [event["message"] for event in self.api.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
                   if event["reason"] == "FailedCreate"]  # fmt: skip
        for message in refused:
            self._say_notice(message)
        if refused:
            return [{}]
        decided = [
            pod["spec"].get("nodeName")
            or any(entry.get("reason") == "Unschedulable" for entry in pod.get("status", {}).get("conditions", []))
            for pod in pods
        ]
        return pods if pods and all(decided) else None

    def _outcome(self, pod: dict) -> Iterator[str]:
        if not pod:
            return
        if not pod["spec"].get("nodeName"):
            reason = next(entry["message"] for entry in pod["status"]["conditions"] if entry["type"] == "PodScheduled")
            yield f"  waits      {reason[:110]}"
            return
        yield f"  placed on  {pod['spec']['nodeName']}"
        for status in pod["status"].get("resourceClaimStatuses", []):
            claim = self.api.get(f"{CLAIMS}/namespaces/{self.namespace}/resourceclaims/{status['resourceClaimName']}")
            users = [container["name"] for part in ("initContainers", "containers") for container in pod["spec"].get(part, [])
                     if {"name": status["name"]} in ((container.get("resources") or {}).get("claims") or [])]  # fmt: skip
            for result in claim["status"]["allocation"]["devices"]["results"]:
                got = ", ".join(f"{name} {value}" for name, value in sorted(result["consumedCapacity"].items()))
                yield f"  got        {' and '.join(users)}: {result['device']} ({got})"


def as_list(made: list[dict]) -> str:
    listed: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": made}
    return json.dumps(listed, ensure_ascii=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--name", default="demo", help="name of the cluster (default: demo)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    parser.add_argument("files", nargs="*", type=Path, help="manifests (default: the examples)")
    options = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    cluster = Cluster(options.name, say)
    try:
        cluster.up(Wish())
        say("a fleet of seven cards of six sizes on three nodes")
        cluster.add_fleet(ROOT / "tests" / "cases" / "fleet.yaml")
        say("Drawbridge")
        Installation(cluster).install()
        say("old manifests")
        for number, file in enumerate(options.files or sorted((ROOT / "examples").glob("*/before.yaml"))):
            title = file.parent.name if file.name == "before.yaml" else file.name
            Account(cluster, f"demo-{number + 1}").tell(title, documents(file))
        print(f"\nDone in {time.monotonic() - began:.0f} s.")
        if options.keep:
            print(f"Look around: tests/cluster/cluster kubectl --name {options.name} -- get pods -A")
    except (Failed, NotUp) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            with contextlib.suppress(NotUp):
                cluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
