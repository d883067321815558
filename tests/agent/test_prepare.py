"""Prepare and unprepare through the kubelet's own calls, on the real binary."""

from __future__ import annotations

import json
import struct
import threading

import grpc
import pytest
from fake_cluster import Fault, FakeCluster
from material import GIB, Agent, device_name, gpu


def uid_of(claim: dict) -> str:
    return claim["metadata"]["uid"]


def limits_of(agent: Agent, share: str) -> tuple[int, int]:
    """Memory in bytes and compute in permille, read at their places in preload/abi.h."""
    page = (agent.plugin / "shares" / share / "limits").read_bytes()
    assert len(page) == 16384 and page[1:8] == b"DBLIMTS"
    return struct.unpack_from("<Q", page, 120)[0], struct.unpack_from("<I", page, 144)[0]


def test_a_registered_plugin_tells_its_name_endpoint_and_versions(agent: Agent) -> None:
    agent.start(register=False)
    info = agent.kubelet.register()
    assert info.type == "DRAPlugin" and info.name == "gpu.drawbridge.dev"
    assert info.endpoint == str(agent.plugin / "dra.sock")
    assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
                                             "v1alpha1.DRAResourceHealth"]  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_share_gets_its_device_its_files_and_its_answer(agent: Agent, cluster: FakeCluster, version: str) -> None:
    agent.start()
    claim = cluster.claim("one", [{"request": "gpu/big", "device": device_name(1), "memory": "8000Mi", "cores": 30}])
    answer = agent.kubelet.prepare_one(claim, version)
    assert not answer.error
    [device] = answer.devices
    name = uid_of(claim) + "-0"
    assert list(device.request_names) == ["gpu"]
    assert (device.pool_name, device.device_name) == ("node-1", device_name(1))
    assert list(device.cdi_device_ids) == [f"k8s.gpu.drawbridge.dev/claim={name}"]
    assert device.share_id == claim["status"]["allocation"]["devices"]["results"][0]["shareID"]

    spec = agent.cdi_files()[f"k8s.gpu.drawbridge.dev-claim_{uid_of(claim)}.json"]
    assert spec["kind"] == "k8s.gpu.drawbridge.dev/claim"
    assert spec["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    [edits] = [entry["containerEdits"] for entry in spec["devices"]]
    assert edits["deviceNodes"] == [{"path": "/dev/null"}]
    assert [mount["containerPath"] for mount in edits["mounts"]] == [
        f"/run/drawbridge/shares/{name}/limits", f"/run/drawbridge/shares/{name}/ledger"]  # fmt: skip
    assert limits_of(agent, name) == (8000 << 20, 300)
    ledger = agent.plugin / "shares" / name / "ledger"
    assert ledger.stat().st_size == 262144 and ledger.stat().st_mode & 0o777 == 0o666

    assert agent.kubelet.unprepare(claim, version=version)[uid_of(claim)].error == ""
    assert agent.cdi_files() == {} and agent.shares() == []


def test_the_second_call_gets_the_first_answer_and_touches_nothing(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    first = agent.kubelet.prepare_one(claim)
    ledger = agent.plugin / "shares" / (uid_of(claim) + "-0") / "ledger"
    with ledger.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x11")  # a container at work
    before = ledger.stat().st_ino
    assert agent.kubelet.prepare_one(claim) == first
    agent.kill()
    agent.start()
    assert agent.kubelet.prepare_one(claim) == first
    assert ledger.stat().st_ino == before and ledger.read_bytes()[4096] == 0x11


def test_parallel_calls_for_one_claim_get_one_answer(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(agent.kubelet.prepare_one(claim))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 16 and all(answer == answers[0] and not answer.error for answer in answers)


def test_two_shares_of_one_device_in_one_claim_stay_apart(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("two", [{"device": device_name(1), "memory": "2Gi"}, {"device": device_name(1), "memory": "3Gi"}])
    answer = agent.kubelet.prepare_one(claim)
    assert len({device.share_id for device in answer.devices}) == 2
    assert len({device.cdi_device_ids[0] for device in answer.devices}) == 2
    assert [limits_of(agent, f"{uid_of(claim)}-{at}")[0] for at in (0, 1)] == [2 * GIB, 3 * GIB]


def test_eight_devices_keep_their_own_limits(agent: Agent, cluster: FakeCluster) -> None:
    agent.devices(*[gpu(number) for number in range(1, 9)])
    agent.start()
    claim = cluster.claim("all", [{"device": device_name(number), "memory": f"{number}Gi"} for number in range(1, 9)])
    answer = agent.kubelet.prepare_one(claim)
    assert [device.device_name for device in answer.devices] == [device_name(number) for number in range(1, 9)]
    assert [limits_of(agent, f"{uid_of(claim)}-{at}")[0] for at in range(8)] == [number * GIB for number in range(1, 9)]


def test_a_device_that_is_given_away_twice_is_refused_until_the_first_claim_ends(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    first = cluster.claim("first", [{"device": device_name(1), "memory": "60Gi"}])
    second = cluster.claim("second", [{"device": device_name(1), "memory": "30Gi"}])
    assert not agent.kubelet.prepare_one(first).error
    error = agent.kubelet.prepare_one(second).error
    assert "default/first" in error and "memory" in error
    agent.kubelet.unprepare(first)
    assert not agent.kubelet.prepare_one(second).error


def test_slots_are_counted_too(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claims = [cluster.claim(f"c{at}", [{"device": device_name(1), "memory": "1Gi"}]) for at in range(11)]
    answers = [agent.kubelet.prepare_one(claim) for claim in claims]
    assert [bool(answer.error) for answer in answers] == [False] * 10 + [True]
    assert "slots" in answers[10].error


def test_a_whole_card_and_an_admin_share(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    whole = cluster.claim("whole", [{"device": device_name(1), "whole": True}])
    assert not agent.kubelet.prepare_one(whole).error
    assert limits_of(agent, uid_of(whole) + "-0") == (80 * GIB, 1000)
    admin = cluster.claim("admin", [{"device": device_name(1), "memory": "0", "slots": 0, "admin": True}])
    assert not agent.kubelet.prepare_one(admin).error
    [edits] = [entry["containerEdits"] for entry in agent.cdi_files()[
        f"k8s.gpu.drawbridge.dev-claim_{uid_of(admin)}.json"]["devices"]]  # fmt: skip
    assert "mounts" not in edits


def test_one_bad_claim_does_not_spoil_a_batch(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    good = cluster.claim("good", [{"device": device_name(1)}])
    bad = cluster.claim("bad", [{"device": "gpu-nowhere"}])
    gone = {"metadata": {"namespace": "default", "name": "gone", "uid": "11111111-1111-4111-8111-111111111111"}}
    answers = agent.kubelet.prepare(good, bad, gone)
    assert set(answers) == {uid_of(good), uid_of(bad), uid_of(gone)}
    assert not answers[uid_of(good)].error
    assert "gpu-nowhere" in answers[uid_of(bad)].error and answers[uid_of(gone)].error


def test_an_empty_request_is_answered(agent: Agent) -> None:
    agent.start()
    assert agent.kubelet.prepare() == {} and agent.kubelet.unprepare() == {}


@pytest.mark.parametrize("uid", ["../../etc", "", "a/b", "x" * 80])
def test_a_uid_that_is_none_reaches_no_file(agent: Agent, cluster: FakeCluster, uid: str) -> None:
    agent.start()
    claim = {"metadata": {"namespace": "default", "name": "evil", "uid": uid}}
    assert agent.kubelet.prepare(claim)[uid].error and agent.kubelet.unprepare(claim)[uid].error


def test_a_claim_that_was_replaced_is_refused(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("same", [{"device": device_name(1)}])
    cluster.delete_claim(claim)
    cluster.claim("same", [{"device": device_name(1)}])
    assert "replaced" in agent.kubelet.prepare_one(claim).error
    assert agent.shares() == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [({"reservedFor": []}, "reserved"), ({"allocation": None}, "not allocated")],
)
def test_a_claim_nobody_may_use_yet_is_refused(agent: Agent, cluster: FakeCluster, status: dict, reason: str) -> None:
    agent.start()
    claim = cluster.claim("early", [{"device": device_name(1)}])
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/early"
    cluster.put(path, claim | {"status": claim["status"] | status})
    assert reason in agent.kubelet.prepare_one(claim).error


def test_a_claim_of_two_pods_is_prepared_once(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("shared", [{"device": device_name(1)}])
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "second", "uid": "2"})
    cluster.put("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/shared", claim)
    first = agent.kubelet.prepare_one(claim)
    assert not first.error and [device.device_name for device in first.devices] == [device_name(1)]
    assert agent.kubelet.prepare_one(claim) == first


def test_results_of_other_drivers_are_left_alone(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("mixed", [{"device": "nic-0", "driver": "nic.example.com", "pool": "nics"}, {"device": device_name(2)}])
    [device] = agent.kubelet.prepare_one(claim).devices
    assert device.device_name == device_name(2) and list(device.request_names) == ["gpu-1"]
    foreign = cluster.claim("foreign", [{"device": "nic-0", "driver": "nic.example.com", "pool": "nics"}])
    answer = agent.kubelet.prepare_one(foreign)
    assert not answer.error and not answer.devices


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"consumedCapacity": None}, "consumed capacity"),
        ({"consumedCapacity": {"memory": "1Gi", "cores": "0"}}, "whole amount"),
        ({"consumedCapacity": {"memory": "1Gi", "cores": "0", "slots": "1", "more": "1"}}, "more"),
        ({"consumedCapacity": {"memory": "-1Gi", "cores": "0", "slots": "1"}}, "whole amount"),
        ({"consumedCapacity": {"memory": "1Gi", "cores": "101", "slots": "1"}}, "cores"),
        ({"consumedCapacity": {"memory": "81Gi", "cores": "0", "slots": "1"}}, "memory"),
        ({"consumedCapacity": {"memory": "1Ki", "cores": "0", "slots": "1"}}, "memory"),
        ({"pool": "node-2"}, "node-2"),
    ],
)
def test_an_allocation_that_cannot_be_is_refused(agent: Agent, cluster: FakeCluster, change: dict, reason: str) -> None:
    agent.start()
    claim = cluster.claim("odd", [{"device": device_name(1)}])
    claim["status"]["allocation"]["devices"]["results"][0] |= change
    cluster.put("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/odd", claim)
    assert reason in agent.kubelet.prepare_one(claim).error
    assert agent.records() == {} and agent.cdi_files() == {}


def test_parameters_reach_the_limits_and_unknown_ones_are_refused(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()

    def config(source: str, **parameters: object) -> dict:
        return {"source": source, "requests": [], "opaque": {"driver": "gpu.drawbridge.dev", "parameters": {
            "apiVersion": "gpu.drawbridge.dev/v1", "kind": "ShareConfig", **parameters}}}  # fmt: skip

    low = cluster.claim("low", [{"device": device_name(1)}], config=[config("FromClass", priority=1), config("FromClaim", priority=0)])
    assert not agent.kubelet.prepare_one(low).error
    page = (agent.plugin / "shares" / (uid_of(low) + "-0") / "limits").read_bytes()
    assert struct.unpack_from("<I", page, 152)[0] == 1
    odd = cluster.claim("odd", [{"device": device_name(1)}], config=[config("FromClaim", burst=True)])
    assert "burst" in agent.kubelet.prepare_one(odd).error


def test_claims_do_not_wait_for_each_others_api_calls(agent: Agent, cluster: FakeCluster) -> None:
    agent.devices(*[gpu(number) for number in range(1, 9)])
    agent.start()
    cluster.wait_until(lambda: len(cluster.devices()) == 8)

    def claims(name: str, count: int) -> list[dict]:
        return [cluster.claim(f"{name}-{at}", [{"device": device_name(1 + at % 8), "memory": "1Gi"}]) for at in range(count)]

    slow = claims("slow", 40)  # more than there would be connections for in a burst
    release = threading.Event()
    cluster.faults.append(Fault(lambda request: "/slow-" in request.path, hold=release, pass_on=True))
    answers: list[dict] = []
    waiting = threading.Thread(target=lambda: answers.append(agent.kubelet.prepare(*slow)))
    waiting.start()
    cluster.wait_until(lambda: cluster.count("GET", "/slow-") == len(slow))
    assert all(not answer.error for answer in agent.kubelet.prepare(*claims("quick", 16)).values())
    assert answers == []
    release.set()
    waiting.join()
    assert all(not answer.error for answer in answers[0].values())


def test_a_late_prepare_does_not_bring_an_unprepared_claim_back(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("late", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    release = threading.Event()
    held = Fault(lambda request: request.path.endswith("/late"), hold=release, pass_on=True, times=1)
    cluster.faults.append(held)
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(agent.kubelet.prepare_one(claim)))
    waiting.start()
    cluster.wait_until(lambda: held.times == 0)
    agent.kubelet.unprepare(claim)
    release.set()
    waiting.join()
    assert "unprepared" in answers[0].error
    assert agent.shares() == [] and agent.cdi_files() == {}
    # A pod that starts later with the same claim is another matter: the API server shows it reserved.
    assert not agent.kubelet.prepare_one(claim).error


def test_a_call_whose_caller_has_gone_is_finished_by_the_next(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("slow", [{"device": device_name(1)}])
    release = threading.Event()
    cluster.faults.append(Fault(lambda request: request.path.endswith("/slow"), hold=release, pass_on=True, times=1))
    with pytest.raises(grpc.RpcError):
        agent.kubelet.prepare_one(claim, patience=0.3)
    release.set()
    assert not agent.kubelet.prepare_one(claim).error
    assert len(agent.shares()) == 1


def test_a_line_tells_of_each_claim_and_never_of_its_parameters(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("told", [{"device": device_name(1)}], config=[{"source": "FromClaim", "requests": [], "opaque": {
        "driver": "gpu.drawbridge.dev", "parameters": {"apiVersion": "gpu.drawbridge.dev/v9", "kind": "ShareConfig",
                                                       "secret": "hunter2"}}}])  # fmt: skip
    agent.kubelet.prepare_one(claim)
    line = agent.wait_log("prepare", uid=uid_of(claim))
    assert line["claim"] == "told" and line["namespace"] == "default" and line["verdict"] == "done" and line["micros"] > line["api_micros"] > 0
    assert "hunter2" not in json.dumps(agent.log)
