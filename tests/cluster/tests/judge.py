"""Judges what a real cluster made of a case by the case's header, with the rules of tests/cases/check.py."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import check
from bed.space import wait_for
from bench import Bench, Names
from check import Case, Device, Judge, Share, require

SERVER_FIELDS = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "namespace", "name",
                 "generateName", "ownerReferences", "finalizers")  # fmt: skip


def as_pod(case: Case) -> dict:
    """The pod that a case's manifest is, or makes."""
    template = copy.deepcopy(check.pod_template(case.document))
    metadata = {
        key: value for key, value in (template.get("metadata") or {}).items() if key in ("annotations", "labels")
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "generateName": "case-"},
        "spec": template["spec"],
    }


def plain(document: dict) -> dict:
    """A pod without what an API server adds to it, and in which no two pods are alike."""
    document = copy.deepcopy(document)
    document.pop("status", None)
    for key in SERVER_FIELDS:
        document["metadata"].pop(key, None)
    for key in ("labels", "annotations"):
        check.drop_empty(document["metadata"], key)
    for key in ("volumes", "nodeName", "hostname", "subdomain", "affinity", "tolerations"):
        document["spec"].pop(key, None)
    for _, container in check.containers(document["spec"]):
        container.pop("volumeMounts", None)
    for label in ("controller-revision-hash", "pod-template-hash", "pod-template-generation", "controller-uid", "job-name",
                  "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
                  "batch.kubernetes.io/job-completion-index"):  # fmt: skip
        (document["metadata"].get("labels") or {}).pop(label, None)
    check.drop_empty(document["metadata"], "labels")
    return document


def users_of(pod: dict) -> dict[str, list[str]]:
    """The containers of each entry of ours."""
    users: dict[str, list[str]] = {
        entry["name"]: [] for entry in pod["spec"].get("resourceClaims") or []
        if str(entry.get("resourceClaimTemplateName")).startswith(check.TEMPLATE_PREFIX)}  # fmt: skip
    for _, container in check.containers(pod["spec"]):
        for claim in (container.get("resources") or {}).get("claims") or []:
            if claim["name"] in users:
                users[claim["name"]].append(container["name"])
    return users


class ClusterJudge:
    """Compares what is in the cluster with a case's header."""

    def __init__(self, bench: Bench, fleet: dict[str, Device], control: Names) -> None:
        self.bench = bench
        self.fleet = fleet
        self.control = control  # a namespace in which the webhook is not called

    def translated(self, case: Case, names: Names, pods: list[dict], warnings: str) -> int:
        """Every pod was changed as the header has it; how many of them could be placed and were right."""
        before = self.control.create(as_pod(case), dry_run=True)
        templates = names.templates()
        for pod in pods:
            self._pod(case, before, pod, templates)
        if case.expect == "warn":
            self._warned(case, warnings)
        return sum(self._placed(case, names, pod) for pod in pods)

    def _pod(self, case: Case, before: dict, after: dict, templates: dict[str, dict]) -> None:
        """The rules of check.py, against the same pod as the API server takes it where the webhook is not called."""
        if left := check.legacy_left(after):
            raise check.Wrong(left)
        if place := check.difference(check.untouched(plain(before)), check.untouched(plain(after))):
            raise check.Wrong(f"not only the request changed: {place}")
        Judge._scheduler(before, after)
        Judge._marks(before, after)
        entries = {name: template for name, template in check.entries_of(after).items() if template in templates}
        users = Judge._own_claims(before, after, set(entries.values()))
        Judge._users(case, users, after)

    def _warned(self, case: Case, text: str) -> None:
        metadata = check.pod_template(case.document).get("metadata") or {}
        known = [*check.LEGACY, *(metadata.get("annotations") or {}), "NVIDIA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL"]
        require("Warning" in text, "no warning")
        require(any(check.says(text, name) for name in known), f"no warning names what it is about: {text[:300]}")

    def _placed(self, case: Case, names: Names, pod: dict) -> int:
        """Waits for the scheduler; 1 if it placed the pod, on the right devices with the right amounts."""
        name = pod["metadata"]["name"]

        def decided() -> dict | None:
            now = names.pod(name)
            conditions = now.get("status", {}).get("conditions") or []
            unschedulable = any(
                entry["type"] == "PodScheduled" and entry.get("reason") == "Unschedulable" for entry in conditions
            )
            return now if now["spec"].get("nodeName") or unschedulable else None

        now = wait_for(decided, f"the scheduler to decide on {name}")
        if not now["spec"].get("nodeName"):
            return 0
        claims = names.claims_of(now)
        for entry, sharers in users_of(now).items():
            self._allocation(case, claims[entry], sharers)
        return 1

    def _allocation(self, case: Case, claim: dict, users: list[str]) -> None:
        """Each device is another, may serve, and is charged what the header says."""
        who, shares = "+".join(users), [case.shares[name] for name in users]
        results = claim["status"]["allocation"]["devices"]["results"]
        got = [result["device"] for result in results]
        require(len(got) == shares[0].devices, f"{who}: got {got}, not {shares[0].devices} devices")
        require(len(set(got)) == len(got), f"{who}: one device twice: {got}")
        wanted = set.intersection(*(case.devices(name, self.fleet) for name in users))
        for result in results:
            device = self.fleet[result["device"]]
            require(device.name in wanted, f"{who}: got {device.name}, which may not serve it")
            booked = {name: check.quantity(text) for name, text in (result.get("consumedCapacity") or {}).items()}
            require(booked == self._right(device, shares), f"{who}: {device.name} is charged {booked}")
        self._parameters(claim, shares[0].priority, who)
        if any("NUMA" in wish for wish in case.wishes):
            numa = {json.dumps(self.fleet[name].attribute(f"{check.DRIVER}/numaNode")) for name in got}
            require(len(numa) == 1, f"{who}: got devices of NUMA nodes {numa}")

    @staticmethod
    def _right(device: Device, shares: list[Share]) -> dict[str, Fraction]:
        cores = max(share.cores for share in shares)
        slots = device.capacity["slots"].value if cores == 100 else 1
        memory = max(share.memory_on(device) for share in shares)
        return {"memory": Fraction(memory), "cores": Fraction(cores), "slots": Fraction(slots)}

    @staticmethod
    def _parameters(claim: dict, priority: int | None, who: str) -> None:
        """The priority reaches the driver through the allocation's configuration."""
        config: list[dict[str, Any]] = claim["status"]["allocation"]["devices"].get("config") or []
        found = {entry["opaque"]["parameters"].get("priority") for entry in config if "opaque" in entry} - {None}
        require(found == ({priority} - {None}), f"{who}: the priority is {found or 'none'}, not {priority}")

    def rejected(self, case: Case, message: str) -> None:
        if "left in place so that API validation denies it" in case.remarks:
            return
        for options in check.denial_words(case):
            require(
                any(check.says(message, word) for word in options), f"the denial names none of {options}: {message}"
            )

    def left(self, case: Case, names: Names, pods: list[dict]) -> None:
        before = self.control.create(as_pod(case), dry_run=True)
        require(not names.templates(), "a template was written")
        strips = "no claim, no device" in case.detail
        for pod in pods:
            old, new = plain(before), plain(pod)
            if strips:
                old, new = check.untouched(old), check.untouched(new)
            if place := check.difference(old, new):
                raise check.Wrong(f"the pod changed: {place}")
