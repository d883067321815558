"""How a case of tests/cases goes into a cluster, as its author would hand it in."""

from __future__ import annotations

import json
import subprocess

import check
from bed.space import wait_for
from bench import Names


def submit(names: Names, case: check.Case) -> tuple[subprocess.CompletedProcess[str], str]:
    """kubectl create of a case; what it gave, and all that it and the controllers said."""
    document = dict(case.document)
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key != "namespace"}
    document["metadata"] = metadata or {"generateName": "case-"}
    prepare(names, case)
    done = names.kubectl("create", "-f", "-", input=json.dumps(document, ensure_ascii=False))
    said = done.stderr
    if case.document["kind"] != "Pod" and done.returncode == 0:
        said += run_once(names, document) + wait_for(lambda: outcome(names), "the controller to make pods")
    return done, said


def prepare(names: Names, case: check.Case) -> None:
    """What a pod of the case names, and a real cluster must have: accounts, classes, templates, labels of nodes."""
    spec = check.pod_spec(case.document)
    if account := spec.get("serviceAccountName"):
        names.api.call("POST", f"/api/v1/namespaces/{names.name}/serviceaccounts", {"metadata": {"name": account}})
    if runtime := spec.get("runtimeClassName"):
        kind = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": runtime},
            "handler": "runc",
        }
        names.api.apply(f"/apis/node.k8s.io/v1/runtimeclasses/{runtime}", kind)
    for entry in spec.get("resourceClaims") or []:
        # A claim for nothing: that it is kept is what counts.
        template = {"metadata": {"name": entry["resourceClaimTemplateName"]}, "spec": {"spec": {"devices": {}}}}
        names.api.call("POST", names.path("resourceclaimtemplates"), template)
    for node in sorted(fleet_nodes(names)):
        labels = {"metadata": {"labels": spec.get("nodeSelector") or {}}}
        names.api.call("PATCH", f"/api/v1/nodes/{node}", labels, "application/merge-patch+json")


def fleet_nodes(names: Names) -> set[str]:
    slices = names.api.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
    return {item["spec"]["nodeName"] for item in slices}


def run_once(names: Names, document: dict) -> str:
    """A CronJob makes a Job when its time comes, or when one is made from it by hand."""
    if document["kind"] != "CronJob":
        return ""
    done = names.kubectl("create", "job", "now", f"--from=cronjob/{document['metadata']['name']}")
    assert done.returncode == 0, done.stderr
    return done.stderr


def outcome(names: Names) -> str | None:
    """What the controllers said, once they have made pods or were refused."""
    events = [event for event in names.listed("events") if event["involvedObject"]["kind"] != "Pod"]
    refused = [event["message"] for event in events if event["reason"] == "FailedCreate"]
    if refused:
        return "FailedCreate: " + "\n".join(refused)
    return "\n" if names.listed("pods") else None
