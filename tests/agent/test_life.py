"""What a node goes through: restarts, reboots, lost files, outages, a full disk, an API server that is away."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any

import pytest
from fake_cluster import Fault, FakeCluster
from fake_kubelet import Kubelet, wire
from fake_pod_resources import PodResources
from material import GIB, Agent, device_name, gpu, wait_until


def uid_of(claim: dict) -> str:
    return claim["metadata"]["uid"]


def cdi_name(claim: dict) -> str:
    return f"k8s.gpu.drawbridge.dev-claim_{uid_of(claim)}.json"


def test_a_reboot_makes_the_same_files_again_and_resets_the_ledger(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    first = agent.kubelet.prepare_one(claim)
    spec = agent.cdi_files()[cdi_name(claim)]
    ledger = agent.plugin / "shares" / (uid_of(claim) + "-0") / "ledger"
    with ledger.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x11")
    agent.kill()
    agent.boot(2)
    (agent.cdi / cdi_name(claim)).unlink()
    agent.start()
    assert agent.kubelet.prepare_one(claim) == first
    assert agent.cdi_files()[cdi_name(claim)] == spec
    assert ledger.read_bytes()[4096] == 0
    assert agent.records()[uid_of(claim)]["bootId"].endswith("2")


def test_a_wiped_cdi_folder_is_filled_at_the_next_prepare_and_at_the_next_start(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claims = [cluster.claim(f"c{at}", [{"device": device_name(1)}]) for at in range(3)]
    agent.kubelet.prepare(*claims)
    before = agent.cdi_files()
    for name in before:
        (agent.cdi / name).unlink()
    agent.kubelet.prepare_one(claims[0])
    assert list(agent.cdi_files()) == [cdi_name(claims[0])]
    agent.kill()
    agent.start()
    assert agent.cdi_files() == before


def test_a_changed_cdi_file_is_written_anew(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    before = agent.cdi_files()
    (agent.cdi / cdi_name(claim)).write_text("{}")
    agent.kubelet.prepare_one(claim)
    assert agent.cdi_files() == before


def test_known_claims_are_answered_while_the_api_server_is_away(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    known = cluster.claim("known", [{"device": device_name(1)}])
    fresh = cluster.claim("fresh", [{"device": device_name(2)}])
    first = agent.kubelet.prepare_one(known)
    cluster.faults.append(Fault(lambda request: True, status=503))
    assert agent.kubelet.prepare_one(known) == first
    assert agent.kubelet.prepare_one(fresh).error
    assert agent.kubelet.unprepare(known)[uid_of(known)].error == ""
    cluster.faults.clear()
    assert not agent.kubelet.prepare_one(fresh).error


def test_unprepare_needs_neither_device_nor_api_server_nor_claim(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    agent.kill()
    cluster.delete_claim(claim)
    cluster.down = True
    agent.devices()
    agent.start()
    assert agent.kubelet.unprepare(claim)[uid_of(claim)].error == ""
    assert agent.shares() == [] and agent.cdi_files() == {}
    never = {"metadata": {"namespace": "x", "name": "never", "uid": "00000000-0000-4000-8000-000000000000"}}
    assert agent.kubelet.unprepare(never)[uid_of(never)].error == ""
    assert not (agent.plugin / "claims" / (uid_of(never) + ".json")).exists()


def test_a_device_that_went_between_allocation_and_prepare_is_named(agent: Agent, cluster: FakeCluster) -> None:
    agent.devices(gpu(2))
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    assert device_name(1) in agent.kubelet.prepare_one(claim).error
    agent.devices(gpu(1, taints=[{"key": "gpu-lost", "effect": "NoExecute"}]), gpu(2))
    agent.wait_log("inventory", devices=2)
    assert "lost" in agent.kubelet.prepare_one(claim).error


def test_a_device_that_vanishes_under_a_claim_stays_published_as_lost_until_the_claim_ends(
    agent: Agent, cluster: FakeCluster
) -> None:
    agent.start()
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    claim = cluster.claim("one", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    agent.devices(gpu(2))
    cluster.wait_until(lambda: any(
        device["name"] == device_name(1) and device.get("taints") for device in cluster.devices()))  # fmt: skip
    assert {device["name"] for device in cluster.devices()} == {device_name(1), device_name(2)}
    agent.kubelet.unprepare(claim)
    cluster.wait_until(lambda: [device["name"] for device in cluster.devices()] == [device_name(2)])


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_record_stops_new_claims_but_not_the_end_of_its_own(agent: Agent, cluster: FakeCluster, damage: str) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    other = cluster.claim("other", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    record = agent.plugin / "claims" / (uid_of(claim) + ".json")
    whole = record.read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "flipped": bytes([whole[0] ^ 1]) + whole[1:], "empty": b""}[damage]
    record.write_bytes(damaged)
    assert "not known" in agent.kubelet.prepare_one(other).error
    assert agent.kubelet.unprepare(claim)[uid_of(claim)].error == ""
    assert not agent.kubelet.prepare_one(other).error


def test_a_record_of_a_later_version_is_not_guessed_at(agent: Agent, cluster: FakeCluster) -> None:
    import base64
    import hashlib

    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    record = agent.plugin / "claims" / (uid_of(claim) + ".json")
    body = record.read_text().split('"claim":', 1)[1][:-2]
    checksum = base64.b32encode(hashlib.sha256(("2" + body).encode()).digest()).decode().lower()[:32]
    record.write_text(f'{{"version":2,"checksum":"{checksum}","claim":{body}}}\n')
    assert "version 2" in agent.kubelet.prepare_one(claim).error
    assert record.exists()


def test_fields_that_a_later_agent_added_to_a_record_survive(agent: Agent, cluster: FakeCluster) -> None:
    import base64
    import hashlib

    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    record = agent.plugin / "claims" / (uid_of(claim) + ".json")
    body = record.read_text().split('"claim":', 1)[1][:-2][:-1] + ',"later":{"x":[1]}}'
    checksum = base64.b32encode(hashlib.sha256(("1" + body).encode()).digest()).decode().lower()[:32]
    record.write_text(f'{{"version":1,"checksum":"{checksum}","claim":{body}}}\n')
    agent.kill()
    agent.boot(2)
    agent.start()
    assert not agent.kubelet.prepare_one(claim).error
    assert agent.records()[uid_of(claim)]["later"] == {"x": [1]}


def test_a_terminated_agent_removes_its_sockets_and_ends_with_success(agent: Agent) -> None:
    agent.start()
    assert agent.stop() == 0
    assert agent.kubelet.registration_sockets() == [] and not (agent.plugin / "dra.sock").exists()


def test_a_refused_registration_is_told(agent: Agent) -> None:
    agent.start(register=False)
    agent.kubelet.register(registered=False, error="version too old")
    assert agent.wait_log("registration", registered=False)["reason"] == "version too old"


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_health_is_streamed_at_once_and_on_each_change(agent: Agent, version: str) -> None:
    agent.start()
    stream = agent.kubelet.health(version)
    first = next(stream)
    assert [(item.device.pool_name, item.device.device_name, item.health) for item in first.devices] == [
        ("node-1", device_name(1), wire().HEALTHY), ("node-1", device_name(2), wire().HEALTHY)]  # fmt: skip
    agent.devices(gpu(1, taints=[{"key": "xid", "value": "62", "message": "XID 62"}]), gpu(2))
    changed = next(message for message in stream if message.devices[0].health != wire().HEALTHY)
    assert changed.devices[0].health == wire().UNHEALTHY and changed.devices[0].message == "XID 62"
    agent.devices(gpu(1), gpu(2))
    assert next(message for message in stream if message.devices[0].health == wire().HEALTHY)


def test_orphaned_files_are_swept_at_the_next_start_and_a_claims_own_are_not(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = cluster.claim("one", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    orphan = "99999999-9999-4999-8999-999999999999"
    agent.kill()
    (agent.plugin / "shares" / f"{orphan}-0").mkdir()
    (agent.plugin / "shares" / f"{orphan}-0" / "ledger").write_text("")
    (agent.cdi / f"k8s.gpu.drawbridge.dev-claim_{orphan}.json").write_text("{}")
    (agent.cdi / "nvidia.json").write_text("{}")
    agent.start()
    assert agent.shares() == [uid_of(claim) + "-0"]
    assert set(agent.cdi_files()) == {cdi_name(claim), "nvidia.json"}


def test_claims_that_nobody_ends_are_ended_and_those_of_running_containers_are_not(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    # The agent goes through them in the order of their UIDs: behind the last it has been at all.
    running, waiting, forgotten = (
        cluster.claim(name, [{"device": device_name(1)}], uid=f"00000000-0000-4000-8000-00000000000{number}")
        for number, name in enumerate(("running", "waiting", "forgotten"))
    )
    assert not any(answer.error for answer in agent.kubelet.prepare(running, waiting, forgotten).values())
    cluster.delete_claim(running)  # by force, and its container has not ended
    cluster.delete_claim(forgotten)
    agent.kill()
    with PodResources(agent) as pods:
        pods.runs(running, "main")
        agent.start()
        agent.wait_log("orphan", uid=uid_of(forgotten))
    assert agent.shares() == [uid_of(claim) + "-0" for claim in (running, waiting)]


@pytest.mark.parametrize("pool", ["node-1", "node-2"])
def test_a_claim_that_was_allocated_anew_gives_back_what_it_had(agent: Agent, cluster: FakeCluster, pool: str) -> None:
    agent.start()
    claim = cluster.claim("named", [{"device": device_name(1), "memory": "60Gi"}])
    assert not agent.kubelet.prepare_one(claim).error
    # Its pod went by force while the kubelet was away, which forgot it; the next pod's is another allocation.
    anew = cluster.claim("named", [{"device": device_name(1), "memory": "60Gi", "pool": pool}], uid=uid_of(claim))
    agent.kill()
    with PodResources(agent):
        agent.start()
        agent.wait_log("orphan", uid=uid_of(claim))
    assert agent.shares() == []
    if pool == cluster.node:
        assert not agent.kubelet.prepare_one(anew).error
    else:
        assert not agent.kubelet.prepare_one(cluster.claim("other", [{"device": device_name(1), "memory": "60Gi"}])).error


def test_files_that_a_killed_agent_left_half_written_go_unless_another_agent_runs(agent: Agent) -> None:
    agent.start("--instance", "first")
    halves = [folder / ".drawbridge-x1y2z3" for folder in (agent.cdi, agent.plugin, agent.plugin / "claims")]
    for half in halves:
        half.write_text("half")
    agent.start("--instance", "second")
    assert all(half.exists() for half in halves)  # the first may be writing them
    agent.kill_all()
    agent.start("--instance", "third")
    assert not any(half.exists() for half in halves)


def test_two_instances_on_one_node_keep_one_account(agent: Agent, cluster: FakeCluster) -> None:
    agent.start("--instance", "first")
    first = cluster.claim("first", [{"device": device_name(1), "memory": "60Gi"}])
    agent.kubelet.prepare_one(first)
    old = agent.process
    agent.log.clear()
    agent.start("--instance", "second")
    assert len(agent.kubelet.registration_sockets()) == 2
    second = cluster.claim("second", [{"device": device_name(1), "memory": "30Gi"}])
    assert "default/first" in agent.kubelet.prepare_one(second).error
    assert agent.kubelet.unprepare(first)[uid_of(first)].error == ""
    assert not agent.kubelet.prepare_one(second).error
    assert old is not None
    old.send_signal(signal.SIGTERM)
    assert old.wait(30) == 0
    assert len(agent.kubelet.registration_sockets()) == 1
    assert not agent.kubelet.prepare_one(second).error


def test_a_late_prepare_brings_back_no_claim_that_another_instance_ended(agent: Agent, cluster: FakeCluster) -> None:
    agent.start("--instance", "first")
    claim = cluster.claim("late", [{"device": device_name(1)}])
    agent.kubelet.prepare_one(claim)
    release = threading.Event()
    held = Fault(lambda request: request.path.endswith("/late"), hold=release, pass_on=True, times=1)
    cluster.faults.append(held)
    old = Kubelet(agent.root)
    old.endpoint = agent.kubelet.endpoint
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(old.prepare_one(claim)))
    waiting.start()
    cluster.wait_until(lambda: held.times == 0)
    agent.log.clear()
    agent.start("--instance", "second")
    assert agent.kubelet.endpoint != old.endpoint
    assert agent.kubelet.unprepare(claim)[uid_of(claim)].error == ""
    release.set()
    waiting.join()
    assert "unprepared" in answers[0].error
    assert agent.shares() == [] and agent.cdi_files() == {}
    old.close()


def test_a_published_size_that_could_not_be_remembered_is_once_it_can(agent: Agent, cluster: FakeCluster) -> None:
    sizes = agent.plugin / "sizes.json"
    sizes.mkdir(parents=True)
    agent.start()
    assert "sizes" in agent.wait_log("devices")["reason"]
    sizes.rmdir()
    wait_until(lambda: sizes.is_file() and len(json.loads(sizes.read_text())) == 2)


def test_a_published_size_stays_over_driver_updates_until_it_is_accepted(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    agent.devices(gpu(1, memory="79Gi"), gpu(2))
    agent.kill()
    agent.start()
    assert cluster.devices()[0]["capacity"]["memory"]["value"] == "80Gi"
    settings = agent.folder / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nacceptMemorySizes: true\n")
    agent.kill()
    agent.start("--settings", str(settings))
    cluster.wait_until(lambda: cluster.devices()[0]["capacity"]["memory"]["value"] == "79Gi")
    wait_until(lambda: 79 * GIB in json.loads((agent.plugin / "sizes.json").read_text()).values())
