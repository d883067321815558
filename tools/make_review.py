#!/usr/bin/env python3
"""Write the admission reviews that an API server would send for the pods of a manifest.

    tools/make_review.py MANIFEST.yaml FOLDER    one file per pod template: review.json, review-2.json, ...
    tools/make_review.py --examples              of every folder of examples/, beside its before.yaml

The reviews follow the recorded ones in tests/reviews: canonical quantities, requests filled from limits, defaulted
fields, the injected token volume, owner, managedFields. The same manifest always gives the same bytes. Needs PyYAML.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

TIME = "2026-11-29T12:00:00Z"
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# Kinds whose controllers make the pods, with the place of the pod templates: keys, `*` for each element or member.
TEMPLATES = {
    "Deployment": ["spec.template"],
    "StatefulSet": ["spec.template"],
    "DaemonSet": ["spec.template"],
    "ReplicaSet": ["spec.template"],
    "Job": ["spec.template", "spec.tasks.*.template"],
    "CronJob": ["spec.jobTemplate.spec.template"],
    "RayCluster": ["spec.headGroupSpec.template", "spec.workerGroupSpecs.*.template"],
    "PyTorchJob": ["spec.pytorchReplicaSpecs.*.template"],
    "LeaderWorkerSet": ["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"],
}
CONTROLLERS = {
    "Deployment": "replicaset-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemon-set-controller",
    "ReplicaSet": "replicaset-controller",
    "CronJob": "job-controller",
}


@dataclass
class Maker:
    """Who creates a pod, and the owner the pod names."""

    user: str
    owner: dict[str, Any] | None = None


def main() -> int:
    if sys.argv[1:] == ["--examples"]:
        examples = Path(__file__).resolve().parent.parent / "examples"
        work = [(manifest, manifest.parent) for manifest in sorted(examples.glob("*/before.yaml"))]
    elif len(sys.argv) == 3:
        work = [(Path(sys.argv[1]), Path(sys.argv[2]))]
    else:
        print(__doc__, file=sys.stderr)
        return 1
    for manifest, folder in work:
        for name, review in reviews(manifest.read_text(encoding="utf-8")).items():
            (folder / name).write_text(review, encoding="utf-8")
    return 0


def reviews(text: str) -> dict[str, str]:
    """The reviews of all pods of a manifest: file name -> body."""
    pods = [pod for document in yaml.safe_load_all(text) if document for pod in pods_of(document)]
    names = ["review.json", *(f"review-{number}.json" for number in range(2, len(pods) + 1))]
    return {name: body(*pod) for name, pod in zip(names, pods, strict=False)}


def pods_of(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Maker]]:
    """The pods that come of a document, each with its maker."""
    kind, name = document["kind"], document["metadata"]["name"]
    if kind == "Pod":
        yield copied(document), Maker("kubernetes-admin")
        return
    for path in TEMPLATES.get(kind, []):
        for number, template in enumerate(places(document, path.split("."))):
            pod = copied(template)
            pod.setdefault("metadata", {})["namespace"] = document["metadata"].get("namespace", "default")
            yield pod, made_by_controller(document, pod, f"{name}-{path.split('.')[-2]}-{number}")


def copied(value: Any) -> Any:
    """A deep copy without the members that are null, which an API server drops."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items() if item is not None}
    return [copied(item) for item in value] if isinstance(value, list) else value


def places(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield value
    elif path[0] == "*":
        for item in value.values() if isinstance(value, dict) else value:
            yield from places(item, path[1:])
    elif path[0] in value:
        yield from places(value[path[0]], path[1:])


def made_by_controller(document: dict[str, Any], pod: dict[str, Any], unique: str) -> Maker:
    """Names the pod as the controller of its workload does, and tells who that is."""
    kind, name, group = document["kind"], document["metadata"]["name"], document["apiVersion"].split("/")[0]
    owner = {"apiVersion": document["apiVersion"], "kind": kind, "name": name}
    labels = pod["metadata"].setdefault("labels", {})
    prefix = f"{name}-"
    if kind == "Deployment":
        suffix = hashlib.sha256(name.encode()).hexdigest()[:9]
        owner["kind"], owner["name"], prefix = "ReplicaSet", f"{name}-{suffix}", f"{name}-{suffix}-"
        labels["pod-template-hash"] = suffix
    elif kind == "CronJob":
        owner["kind"], owner["name"], prefix = "Job", f"{name}-29734230", f"{name}-29734230-"
    if kind == "StatefulSet":
        pod["metadata"]["name"] = f"{name}-0"
        labels |= {"apps.kubernetes.io/pod-index": "0", "statefulset.kubernetes.io/pod-name": f"{name}-0"}
        for claim in document["spec"].get("volumeClaimTemplates", []):
            volume = claim["metadata"]["name"]
            claimed = {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}-0"}}
            pod["spec"].setdefault("volumes", []).append(claimed)
    elif group in ("apps", "batch"):
        pod["metadata"]["generateName"] = prefix
    else:  # operators of other groups name their pods themselves, and Volcano's sets its scheduler
        pod["metadata"]["name"] = unique.lower()
        if scheduler := document["spec"].get("schedulerName"):
            pod["spec"]["schedulerName"] = scheduler
    if owner["kind"] == "Job" and group == "batch":
        labels |= {"batch.kubernetes.io/job-name": owner["name"], "job-name": owner["name"]}
    if not labels:
        del pod["metadata"]["labels"]
    owner |= {"uid": stable_uid(owner["name"]), "controller": True, "blockOwnerDeletion": True}
    controller = CONTROLLERS.get(kind, "job-controller" if group == "batch" else f"{kind.lower()}-operator")
    return Maker(f"system:serviceaccount:kube-system:{controller}", owner)


def body(pod: dict[str, Any], maker: Maker) -> str:
    """One AdmissionReview, as compact JSON with a newline."""
    metadata = pod["metadata"]
    namespace = metadata.setdefault("namespace", "default")
    if maker.owner:
        metadata["ownerReferences"] = [maker.owner]
    default_spec(pod["spec"], metadata.get("name") or metadata["generateName"])
    manager = "kubectl-client-side-apply" if maker.owner is None else "kube-controller-manager"
    fields = {"f:metadata": managed(metadata), "f:spec": managed(pod["spec"])}
    metadata["managedFields"] = [
        {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": TIME, "fieldsType": "FieldsV1",
         "fieldsV1": fields}
    ]  # fmt: skip
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    groups = ["system:masters"] if maker.owner is None else ["system:serviceaccounts"]
    request = {
        "uid": stable_uid(json.dumps(metadata)), "kind": kind, "resource": resource,
        "requestKind": kind, "requestResource": resource,
        **({"name": metadata["name"]} if "name" in metadata else {}),
        "namespace": namespace, "operation": "CREATE",
        "userInfo": {"username": maker.user, "groups": [*groups, "system:authenticated"]},
        "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": pod["spec"], "status": {}},
        "oldObject": None, "dryRun": False, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":"), ensure_ascii=False) + "\n"


def stable_uid(text: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def default_spec(spec: dict[str, Any], name: str) -> None:
    """Fills in what the API server has filled in by the time it calls."""
    token = f"kube-api-access-{hashlib.sha256(name.encode()).hexdigest()[:5]}"
    mount = {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for key in ("initContainers", "containers"):
        for container in spec.get(key, []):
            default_container(container)
            container.setdefault("volumeMounts", []).append(dict(mount))
    for volume in spec.get("volumes", []):
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]  # fmt: skip
    spec.setdefault("volumes", []).append({"name": token, "projected": {"sources": sources, "defaultMode": 420}})
    defaults = {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
        "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip
    for key, value in defaults.items():
        spec.setdefault(key, value)
    spec["tolerations"] = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]


def default_container(container: dict[str, Any]) -> None:
    resources = container.setdefault("resources", {})
    for amounts in (resources.get("limits"), resources.get("requests")):
        for key in amounts or {}:
            amounts[key] = canonical(amounts[key])
    if resources.get("limits"):
        resources["requests"] = resources["limits"] | resources.get("requests", {})
    for port in container.get("ports", []):
        port.setdefault("protocol", "TCP")
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        if probe in container:
            container[probe].get("httpGet", {}).setdefault("scheme", "HTTP")
            timing = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
            container[probe] = timing | container[probe]
    latest = ":" not in container["image"].rpartition("/")[2] or container["image"].endswith(":latest")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")


def canonical(amount: Any) -> str:
    """A quantity as an API server writes it: whole numbers in the largest suffix that keeps them whole."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)", str(amount))
    if not match:
        raise SystemExit(f"make_review: {amount!r} is not a quantity that examples use")
    number, suffix = Fraction(match[1]), match[2]
    if suffix in BINARY and number * 2 ** BINARY[suffix] >= 1024:
        number *= 2 ** BINARY[suffix]
        scales = [(text, Fraction(2) ** power) for text, power in BINARY.items()] + [("", Fraction(1))]
    else:
        number *= 2 ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** DECIMAL[suffix]
        scales = [(text, Fraction(10) ** power) for text, power in DECIMAL.items()]
    fitting = [(scale, text) for text, scale in scales if (number / scale).denominator == 1 and number]
    scale, text = max(fitting, default=(Fraction(1), ""))
    return f"{number / scale}{text}"


def managed(value: Any) -> dict[str, Any]:
    """The field set of a value, as in managedFields."""
    fields: dict[str, Any] = {}
    if isinstance(value, dict):
        fields = {f"f:{key}": managed(item) for key, item in value.items()}
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and "name" in item:
                key = json.dumps({"name": item["name"]}, separators=(",", ":"))
                fields[f"k:{key}"] = {".": {}, **managed(item)}
    return fields


if __name__ == "__main__":
    sys.exit(main())
