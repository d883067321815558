"""Every case of tests/cases against the real API server, scheduler and controllers."""

from __future__ import annotations

import json
from pathlib import Path

import check
import pytest
from bed.space import wait_for
from bench import Bench, Names
from conftest import FLEET
from judge import ClusterJudge

FOLDER = FLEET.parent
CASES = sorted(path for path in FOLDER.glob("[0-9]*.yaml") if check.is_case(path))


@pytest.fixture(scope="module")
def control(session_bench: Bench) -> Names:
    """A namespace in which the webhook is not called: what the API server makes of a pod by itself."""
    return session_bench.namespace("control", **{"drawbridge.dev/mode": "off"})


@pytest.fixture(scope="module")
def judge(session_bench: Bench, control: Names) -> ClusterJudge:
    return ClusterJudge(session_bench, check.read_fleet(FLEET), control)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_comes_to_what_its_header_says(bench: Bench, judge: ClusterJudge, names: Names, path: Path) -> None:
    case = check.read_case(path)
    document = dict(case.document)
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key != "namespace"}
    document["metadata"] = metadata or {"generateName": "case-"}
    prepare(names, case)
    done = names.kubectl("create", "-f", "-", input=json.dumps(document, ensure_ascii=False))
    said = done.stderr
    if case.document["kind"] != "Pod" and done.returncode == 0:
        said += run_once(names, document) + wait_for(lambda: outcome(names, case), "the controller to make pods")
    pods = names.listed("pods")
    if case.expect == "reject":
        assert not pods, "the pod was taken"
        assert done.returncode != 0 or "FailedCreate" in said, "nothing was refused"
        judge.rejected(case, said)
        return
    assert done.returncode == 0, said
    assert pods, said
    if case.expect == "leave":
        judge.left(case, names, pods)
        return
    placed = judge.translated(case, names, pods, said)
    print(f"{path.stem}: {len(pods)} pods, {placed} placed")
    assert (placed > 0) == can_be_placed(case, judge), f"{placed} of {len(pods)} pods placed"


def test_as_many_cases_ran_as_there_are_files() -> None:
    files = [path for path in FOLDER.glob("*.yaml") if path.name != "fleet.yaml"]
    assert len(CASES) == len(files) > 0


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


def outcome(names: Names, case: check.Case) -> str | None:
    """What the controllers said, once they have made pods or were refused."""
    events = [event for event in names.listed("events") if event["involvedObject"]["kind"] != "Pod"]
    refused = [event["message"] for event in events if event["reason"] == "FailedCreate"]
    if refused:
        return "FailedCreate: " + "\n".join(refused)
    return "\n" if names.listed("pods") else None


def can_be_placed(case: check.Case, judge: ClusterJudge) -> bool:
    """Whether there is a device for every container that asks for one."""
    for name, share in case.shares.items():
        fitting = [judge.fleet[device] for device in case.devices(name, judge.fleet)]
        if share and sum(share.memory_on(device) <= device.memory() for device in fitting) < share.devices:
            return False
    return True
