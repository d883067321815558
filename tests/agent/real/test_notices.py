"""Claim status and events on a real API server, with the agent's own rights and no more."""

from __future__ import annotations

import json
from typing import Any

from bed.space import wait_for
from material import DRIVER, device_name, gpu
from node import NAMESPACE, Node, Pods, share

Json = dict[str, Any]


def entries(pods: Pods) -> list[Json]:
    return [entry for claim in pods.claims() for entry in claim.get("status", {}).get("devices") or []]


def events(node: Node, namespace: str) -> list[Json]:
    found = node.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [event for event in found if event.get("reportingController") == DRIVER]


def test_a_prepared_claim_shows_it_in_its_status_and_loses_it_when_it_is_free(node: Node, pods: Pods) -> None:
    pods.claim("shared", share("8000Mi", 30))
    pods.start("one", {"main": ["gpu"]}, {"gpu": {"resourceClaimName": "shared"}})
    pods.running("one")
    wait_for(lambda: entries(pods), "the status of the claim")
    [entry] = entries(pods)
    [claim] = pods.claims()
    [result] = claim["status"]["allocation"]["devices"]["results"]
    assert {key: entry[key] for key in ("driver", "pool", "device", "shareID")} == {
        "driver": DRIVER, "pool": node.name, "device": result["device"], "shareID": result["shareID"]}  # fmt: skip
    uid = next(gpu(number)["uuid"] for number in (1, 2) if device_name(number) == entry["device"])
    assert entry["data"] == {"uuid": uid, "limits": {"memory": "8000Mi", "cores": "30", "slots": "1"}}
    [condition] = entry["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "True", "Prepared")
    pods.delete("one")
    wait_for(lambda: "allocation" not in pods.claims()[0]["status"], "the claim to be free")
    assert entries(pods) == []


def test_a_driver_of_another_name_or_node_may_write_no_status(node: Node, pods: Pods) -> None:
    """The rights of the manifests are enough for the agent (the test above) and for nothing beside it."""
    pods.claim("mine", share("2Gi"))
    pods.start("one", {"main": ["gpu"]}, {"gpu": {"resourceClaimName": "mine"}})
    pods.running("one")
    wait_for(lambda: entries(pods), "the status of the claim")
    path = pods.resource + "/resourceclaims/mine/status"
    agent = node.as_agent()

    def apply(token_of: Any, device: Json, **status: Any) -> tuple[int, str]:
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"},
                "status": {"devices": [device]} | status}  # fmt: skip
        code, _, text = token_of.exchange("PATCH", path + "?fieldManager=probe&force=true&dryRun=All", body, "application/apply-patch+yaml")
        return code, json.loads(text).get("message", "")

    own = {key: entries(pods)[0][key] for key in ("driver", "pool", "device", "shareID")} | {"data": {"probe": 1}}
    assert apply(agent, own)[0] == 200
    if node.cluster.release().minor != "1.35":  # before the granular rights, who writes status writes all of it
        for attempt in (apply(agent, own, reservedFor=[{"resource": "pods", "name": "x", "uid": "u"}]), apply(node.as_agent("node-2"), own)):
            assert attempt[0] == 422 and "requires resource=\"resourceclaims/" in attempt[1], attempt
    claim = node.api.get(pods.resource + "/resourceclaims/mine")
    for method in ("PUT", "DELETE"):
        assert agent.exchange(method, pods.resource + "/resourceclaims/mine", claim)[0] == 403


def test_faults_and_refusals_are_events_where_people_look(node: Node, pods: Pods) -> None:
    before = {event["metadata"]["name"] for event in events(node, "default")}
    node.devices(gpu(1, taints=[{"key": "xid", "value": "62", "message": "XID 62"}]), gpu(2))
    wait_for(lambda: {event["reason"] for event in events(node, "default") if event["metadata"]["name"] not in before} == {"GpuError"},
             "the event of the fault")  # fmt: skip
    node.devices(gpu(1), gpu(2))
    wait_for(lambda: any(event["reason"] == "GpuRecovered" for event in events(node, "default")), "the event of the recovery")
    described = node.cluster.kubectl("describe", "node", node.name).stdout
    assert "GpuError" in described and "GpuRecovered" in described


def test_a_pod_whose_prepare_is_refused_is_told_why(node: Node, pods: Pods) -> None:
    node.kill()
    pods.simple("one", pods.template("t", share("2Gi")))
    wait_for(lambda: any(claim.get("status", {}).get("allocation") for claim in pods.claims()), "the allocation")
    [result] = pods.claims()[0]["status"]["allocation"]["devices"]["results"]
    assert result["device"] == device_name(1)
    node.devices(gpu(2))
    node.start()
    wait_for(lambda: events(node, pods.namespace), "the event")
    event = events(node, pods.namespace)[0]
    assert (event["regarding"]["kind"], event["regarding"]["name"], event["reason"]) == ("Pod", "one", "PrepareRefused")
    assert event["related"]["name"] == pods.claims()[0]["metadata"]["name"] and device_name(1) in event["note"]
    node.devices(gpu(1), gpu(2))
    pods.running("one")
    assert len(events(node, pods.namespace)) == 1
