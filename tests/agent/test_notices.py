"""What the agent tells the cluster and nobody waits for: the status of claims, and events."""

from __future__ import annotations

import threading

from fake_cluster import CLAIMS, Fault, FakeCluster, Request
from material import DRIVER, Agent, device_name, gpu

PATH = CLAIMS.format("default")


def is_status(request: Request) -> bool:
    return request.path.endswith("/status") and request.method == "PATCH"


def is_event(request: Request) -> bool:
    return request.path.startswith("/apis/events.k8s.io/") and request.method in ("POST", "PATCH")


def attempts(cluster: FakeCluster, kind=is_status) -> int:
    return sum(map(kind, cluster.requests))


def entries(cluster: FakeCluster, claim: dict) -> list[dict]:
    return cluster.claim_now(claim)["status"].get("devices", [])


# ------------------------------------------------------------------ claim status


def test_each_share_of_a_prepared_claim_has_an_entry_in_its_status(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("two", [{"device": device_name(1), "memory": "8000Mi", "cores": 30},
                                  {"device": device_name(1), "memory": "1Gi"},
                                  {"device": "nic-0", "driver": "nic.example.com", "pool": "nics"}])  # fmt: skip
    foreign = {"driver": "nic.example.com", "pool": "nics", "device": "nic-0", "conditions": []}
    claim["status"]["devices"] = [foreign]
    claim = cluster.put(f"{PATH}/two", claim)
    assert not agent.kubelet.prepare_one(claim).error
    cluster.wait_until(lambda: len(entries(cluster, claim)) == 3)
    other, first, second = entries(cluster, claim)
    results = claim["status"]["allocation"]["devices"]["results"]
    assert other == foreign
    [condition] = first.pop("conditions")
    assert first == {"driver": DRIVER, "pool": "node-1", "device": device_name(1), "shareID": results[0]["shareID"],
                     "data": {"uuid": gpu(1)["uuid"], "limits": {"memory": "8000Mi", "cores": "30", "slots": "1"}}}  # fmt: skip
    assert second["shareID"] == results[1]["shareID"] and second["data"]["limits"]["memory"] == "1Gi"
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "True", "Prepared")
    [request] = filter(is_status, cluster.requests)
    assert request.query == {"fieldManager": DRIVER, "force": "true"} and request.content_type == "application/apply-patch+yaml"
    assert request.body["metadata"]["uid"] == claim["metadata"]["uid"]


def test_a_status_that_hangs_delays_no_prepare(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    release = threading.Event()
    cluster.faults.append(Fault(is_status, hold=release, pass_on=True))
    claims = [cluster.claim(f"c{at}", [{"device": device_name(1), "memory": "1Gi"}]) for at in range(3)]
    for claim in claims:
        assert not agent.kubelet.prepare_one(claim).error
    assert not any(entries(cluster, claim) for claim in claims)
    release.set()
    cluster.wait_until(lambda: all(entries(cluster, claim) for claim in claims))


def test_a_status_is_tried_again_after_failures_and_is_one_line_in_the_log(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    for status in (503, 503, 500, 409):
        cluster.faults.append(Fault(is_status, status=status, times=1))
    claim = cluster.claim("one", [{"device": device_name(1)}])
    assert not agent.kubelet.prepare_one(claim).error
    cluster.wait_until(lambda: bool(entries(cluster, claim)))
    assert attempts(cluster) == 5
    lines = [line for line in agent.log if line["msg"] == "notice"]
    assert [line["kind"] for line in lines] == ["claim-status"] * 3 and all(line["again"] for line in lines)  # 503 twice is one


def test_prepared_again_is_not_written_again(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    last = cluster.claim("last", [{"device": device_name(1)}])
    for _ in range(3):
        agent.kubelet.prepare_one(claim)
        cluster.wait_until(lambda: bool(entries(cluster, claim)))
    agent.kubelet.prepare_one(last)
    cluster.wait_until(lambda: bool(entries(cluster, last)))
    assert attempts(cluster) == 2


def test_a_claim_that_went_is_given_up(agent: Agent, cluster: FakeCluster) -> None:
    """Gone, replaced under its name, or no longer allocated: none is tried forever, and others go on."""
    agent.start()
    release = threading.Event()
    cluster.faults.append(Fault(is_status, hold=release, pass_on=True, times=1))
    gone, replaced, freed, held = [cluster.claim(name, [{"device": device_name(1)}]) for name in ("gone", "replaced", "freed", "held")]
    for claim in (held, gone, replaced, freed):
        assert not agent.kubelet.prepare_one(claim).error
    cluster.delete_claim(gone)
    cluster.delete_claim(replaced)
    fresh = cluster.claim("replaced", [{"device": device_name(2)}])
    cluster.put(f"{PATH}/freed", {"metadata": {"name": "freed", "namespace": "default"}, "status": {}})
    release.set()
    last = cluster.claim("last", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(last)
    cluster.wait_until(lambda: bool(entries(cluster, last)) and bool(entries(cluster, held)))
    agent.wait_log("notice", key="claim/" + replaced["metadata"]["uid"], again=False)
    assert entries(cluster, fresh) == [] and cluster.claim_now(freed)["status"] == {}


def test_an_unprepared_claim_is_no_longer_written(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    release = threading.Event()
    cluster.faults.append(Fault(is_status, hold=release, pass_on=True, times=1))
    held, ended, last = [cluster.claim(name, [{"device": device_name(1)}]) for name in ("held", "ended", "last")]
    agent.kubelet.prepare_one(held)
    cluster.wait_until(lambda: attempts(cluster) == 1)
    agent.kubelet.prepare_one(ended)
    agent.kubelet.unprepare(ended)
    agent.kubelet.prepare_one(last)
    release.set()
    cluster.wait_until(lambda: bool(entries(cluster, last)))
    assert entries(cluster, ended) == []


def test_a_server_without_the_field_is_asked_once(agent: Agent, cluster: FakeCluster) -> None:
    cluster.device_status = False
    agent.start()
    first, second = [cluster.claim(name, [{"device": device_name(1)}]) for name in ("first", "second")]
    agent.kubelet.prepare_one(first)
    assert "DRAResourceClaimDeviceStatus" in agent.wait_log("claim_status", level="warn")["reason"]
    assert not agent.kubelet.prepare_one(second).error
    refused = cluster.claim("refused", [{"device": "gpu-unknown"}])
    agent.kubelet.prepare_one(refused)  # its event comes behind what a status would have been
    cluster.wait_until(lambda: len(cluster.events("default")) == 1)
    assert attempts(cluster) == 1


# ------------------------------------------------------------------ events


def test_a_refused_prepare_is_an_event_of_the_pods_that_wait(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("bad", [{"device": "gpu-unknown"}])
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "second", "uid": "00000000-0000-4000-8000-000000000002"})
    claim = cluster.put(f"{PATH}/bad", claim)
    reason = agent.kubelet.prepare_one(claim).error
    cluster.wait_until(lambda: len(cluster.events("default")) == 2)
    pods = {event["regarding"]["name"]: event for event in cluster.events("default")}
    assert set(pods) == {"pod-bad", "second"}
    event = pods["pod-bad"]
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "pod-bad",
                                  "uid": claim["status"]["reservedFor"][0]["uid"]}  # fmt: skip
    assert event["related"]["kind"] == "ResourceClaim" and event["related"]["uid"] == claim["metadata"]["uid"]
    assert (event["type"], event["reason"]) == ("Warning", "PrepareRefused")
    assert event["reportingController"] == DRIVER and event["reportingInstance"] == "node-1"
    assert reason in event["note"] and "gpu-unknown" in event["note"]


def test_the_kubelets_retries_make_no_flood(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("bad", [{"device": "gpu-unknown"}])
    for _ in range(100):
        assert agent.kubelet.prepare_one(claim).error
    other = cluster.claim("other", [{"device": "gpu-unknown"}])
    agent.kubelet.prepare_one(other)
    cluster.wait_until(lambda: len(cluster.events("default")) == 2)
    assert attempts(cluster, is_event) == 2


def test_a_fault_of_a_device_and_its_end_are_events_of_the_node(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    agent.devices(gpu(1, taints=[{"key": "gpu-lost", "effect": "NoExecute", "message": "gone from the bus"}]), gpu(2))
    cluster.wait_until(lambda: len(cluster.events("default")) == 1)
    [lost] = cluster.events("default")
    assert lost["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-1"}
    assert (lost["type"], lost["reason"]) == ("Warning", "GpuLost")
    assert gpu(1)["uuid"] in lost["note"] and "gone from the bus" in lost["note"]
    agent.devices(gpu(1), gpu(2))
    cluster.wait_until(lambda: len(cluster.events("default")) == 2)
    over = next(event for event in cluster.events("default") if event["type"] == "Normal")
    assert over["reason"] == "GpuRecovered" and device_name(1) in over["note"]


def test_a_fault_that_only_informs_is_no_event(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    agent.devices(gpu(1, taints=[{"key": "unmonitored", "effect": "None"}]), gpu(2, taints=[{"key": "xid", "value": "62"}]))
    cluster.wait_until(lambda: len(cluster.events("default")) == 1)
    assert cluster.events("default")[0]["reason"] == "GpuError"


def test_an_event_whose_answer_got_lost_is_there_once(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("bad", [{"device": "gpu-unknown"}])
    cluster.faults.append(Fault(is_event, status=503, times=2))
    agent.kubelet.prepare_one(claim)
    cluster.wait_until(lambda: len(cluster.events("default")) == 1)
    assert attempts(cluster, is_event) == 3


def test_events_that_are_forbidden_hold_up_nothing(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    cluster.faults.append(Fault(is_event, status=403))
    agent.kubelet.prepare_one(cluster.claim("bad", [{"device": "gpu-unknown"}]))
    good = cluster.claim("good", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(good)
    cluster.wait_until(lambda: bool(entries(cluster, good)))
    assert attempts(cluster, is_event) == 1
