"""ResourceSlices against a fake API server: content, generations, and everything that can go wrong with a write."""

from __future__ import annotations

import json
import time

import pytest
from fake_cluster import SLICES, Fault, FakeCluster
from material import Agent, device_name, get, gpu, wait_until

NAME = "00000-gpu.drawbridge.dev-node-1"


def is_write(request) -> bool:
    return request.path.startswith(SLICES) and request.method != "GET" and "dryRun" not in request.query


def writes(cluster: FakeCluster) -> int:
    return sum(map(is_write, cluster.requests))


def started(agent: Agent, cluster: FakeCluster, *arguments: str) -> Agent:
    agent.start(*arguments)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    return agent


def test_the_slice_says_what_a_scheduler_needs(agent: Agent, cluster: FakeCluster) -> None:
    started(agent, cluster)
    [item] = cluster.slices()
    node = cluster.get("/api/v1/nodes/node-1")
    assert item["metadata"]["name"] == NAME
    assert item["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "controller": True,
                                                    "uid": node["metadata"]["uid"]}]  # fmt: skip
    assert item["spec"]["driver"] == "gpu.drawbridge.dev" and item["spec"]["nodeName"] == "node-1"
    assert item["spec"]["pool"] == {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    device = item["spec"]["devices"][0]
    assert device["name"] == device_name(1) and device["allowMultipleAllocations"] is True
    assert device["attributes"]["uuid"] == {"string": gpu(1)["uuid"]}
    assert device["attributes"]["numaNode"] == {"int": 0} and device["attributes"]["type"] == {"string": "gpu"}
    assert device["capacity"] == {
        "memory": {"value": "80Gi", "requestPolicy": {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}},
        "cores": {"value": "100", "requestPolicy": {"default": "100", "validRange": {"min": "0", "max": "100", "step": "1"}}},
        "slots": {"value": "10", "requestPolicy": {"default": "10", "validRange": {"min": "1", "max": "10", "step": "1"}}}}  # fmt: skip


def test_nothing_is_published_before_the_kubelet_knows_the_plugin(agent: Agent, cluster: FakeCluster) -> None:
    agent.start(register=False)
    assert cluster.count("POST", SLICES) == 0
    agent.kubelet.register()
    cluster.wait_until(lambda: len(cluster.devices()) == 2)


def test_order_is_by_pci_address_whatever_the_order_of_the_source(agent: Agent, cluster: FakeCluster) -> None:
    agent.devices(gpu(2), gpu(1))
    started(agent, cluster)
    assert [device["name"] for device in cluster.devices()] == [device_name(1), device_name(2)]


def test_a_restart_writes_nothing(agent: Agent, cluster: FakeCluster) -> None:
    started(agent, cluster)
    before = writes(cluster)
    lists = cluster.count("GET", SLICES)
    agent.kill()
    port_file = agent.folder / "ports"
    agent.start("--port-file", str(port_file))
    cluster.wait_until(lambda: cluster.count("GET", SLICES) >= lists + 3)  # its look, its list, its watch
    port = json.loads(port_file.read_text())["operator"]
    wait_until(lambda: get(port, "/readyz")[0] == 200)  # it is content with what it has published
    assert writes(cluster) == before


def test_slices_are_back_after_a_kubelet_wiped_them(agent: Agent, cluster: FakeCluster) -> None:
    started(agent, cluster)
    cluster.wait_until(lambda: any(request.query.get("watch") for request in cluster.requests))
    cluster.wipe_slices()
    cluster.wait_until(lambda: len(cluster.devices()) == 2)


def test_a_slice_that_somebody_edited_is_put_right(agent: Agent, cluster: FakeCluster) -> None:
    started(agent, cluster)
    cluster.wait_until(lambda: any(request.query.get("watch") for request in cluster.requests))
    [item] = cluster.slices()
    item["spec"]["devices"].pop()
    cluster.put(f"{SLICES}/{NAME}", item)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)


def test_another_writer_does_not_drive_the_agent(agent: Agent, cluster: FakeCluster) -> None:
    started(agent, cluster)
    before = cluster.devices()
    righted = []
    for _ in range(5):
        [item] = cluster.slices()
        item["spec"]["devices"].pop()
        cluster.put(f"{SLICES}/{NAME}", item)
        cluster.wait_until(lambda: cluster.devices() == before)
        righted.append(time.monotonic())
    assert righted[-1] - righted[-2] > 1  # at least: how slow the machine is does not matter


@pytest.mark.parametrize("collected", [True, False], ids=["collected", "not-collected-yet"])
def test_a_node_made_anew_gets_slices_of_its_own(agent: Agent, cluster: FakeCluster, collected: bool) -> None:
    """What the old one owned is collected with it, sooner or later."""
    started(agent, cluster)
    cluster.delete("/api/v1/nodes/node-1")
    fresh = cluster.put("/api/v1/nodes/node-1", {"kind": "Node", "metadata": {"name": "node-1"}})
    if collected:
        cluster.wipe_slices()
    else:
        agent.kill()
        agent.start()
    cluster.wait_until(lambda: [item["metadata"]["ownerReferences"][0]["uid"] for item in cluster.slices()]
                       == [fresh["metadata"]["uid"]])  # fmt: skip


def test_a_fault_is_a_taint_that_goes_by_itself_and_keeps_the_generation(agent: Agent, cluster: FakeCluster) -> None:
    started(agent, cluster)
    agent.devices(gpu(1, taints=[{"key": "xid", "value": "62"}]), gpu(2))
    cluster.wait_until(lambda: bool(cluster.devices()[0].get("taints")))
    [taint] = cluster.devices()[0]["taints"]
    assert (taint["key"], taint["value"], taint["effect"]) == ("gpu.drawbridge.dev/xid", "62", "NoSchedule")
    agent.devices(gpu(1), gpu(2))
    cluster.wait_until(lambda: not cluster.devices()[0].get("taints"))
    assert cluster.slices()[0]["spec"]["pool"]["generation"] == 1


def test_where_taints_are_unknown_a_faulty_device_is_left_out(agent: Agent, cluster: FakeCluster) -> None:
    cluster.minor, cluster.taints = "35", False
    started(agent, cluster)
    agent.devices(gpu(1, taints=[{"key": "xid"}]), gpu(2))
    cluster.wait_until(lambda: [device["name"] for device in cluster.devices()] == [device_name(2)])


def test_where_taints_are_dropped_a_faulty_device_is_left_out(agent: Agent, cluster: FakeCluster) -> None:
    cluster.taints = False
    agent.devices(gpu(1, taints=[{"key": "xid"}]), gpu(2))
    agent.start()
    cluster.wait_until(lambda: [device["name"] for device in cluster.devices()] == [device_name(2)])


def test_without_the_sharing_gate_no_device_is_ever_offered(agent: Agent, cluster: FakeCluster) -> None:
    cluster.sharing = False
    offered: list[object] = []
    agent.start()
    agent.wait_log("publish", level="error")
    cluster.wait_until(lambda: len(cluster.slices()) == 1)
    with cluster.changed:
        offered = [event for event in cluster._events if event[2]["spec"].get("devices")]
    assert offered == [] and cluster.devices() == []


def test_more_devices_than_a_slice_holds_are_split(agent: Agent, cluster: FakeCluster) -> None:
    agent.devices(*[gpu(number) for number in range(1, 131)])
    agent.start()
    cluster.wait_until(lambda: len(cluster.devices()) == 130)
    assert [len(item["spec"]["devices"]) for item in cluster.slices()] == [64, 64, 2]
    assert {item["spec"]["pool"]["resourceSliceCount"] for item in cluster.slices()} == {3}
    agent.devices(*[gpu(number) for number in range(1, 65)])
    cluster.wait_until(lambda: [item["spec"]["pool"] for item in cluster.slices()] == [
        {"name": "node-1", "generation": 2, "resourceSliceCount": 1}])  # fmt: skip


def test_no_device_is_an_empty_slice(agent: Agent, cluster: FakeCluster) -> None:
    agent.devices()
    agent.start()
    cluster.wait_until(lambda: len(cluster.slices()) == 1)
    assert cluster.devices() == []


def test_conflicts_and_failures_are_tried_again(agent: Agent, cluster: FakeCluster) -> None:
    for status in (409, 500, 410, 404, 429):
        cluster.faults.append(Fault(is_write, status=status, times=1))
    started(agent, cluster)


def test_what_the_server_refuses_is_told_and_tried_again(agent: Agent, cluster: FakeCluster) -> None:
    refusal = Fault(lambda request: request.path.startswith(SLICES) and request.method == "POST", status=422)
    cluster.faults.append(refusal)
    agent.start()
    assert "made to fail" in agent.wait_log("publish", level="warn")["reason"]
    cluster.faults.clear()
    cluster.wait_until(lambda: len(cluster.devices()) == 2)


def test_an_outage_during_a_change_loses_nothing(agent: Agent, cluster: FakeCluster) -> None:
    started(agent, cluster)
    cluster.down = True
    agent.devices(gpu(1, taints=[{"key": "xid", "value": "79", "effect": "NoExecute"}]), gpu(2))
    agent.wait_log("publish", level="warn")
    cluster.down = False
    cluster.wait_until(lambda: bool(cluster.devices()[0].get("taints")))


def test_beside_a_device_plugin_nothing_is_offered_unless_told_so(agent: Agent, cluster: FakeCluster) -> None:
    cluster.put("/api/v1/nodes/node-1", {"kind": "Node", "metadata": {"name": "node-1"},
                                         "status": {"allocatable": {"nvidia.com/gpu": "2"}}})  # fmt: skip
    agent.start()
    assert "--beside-device-plugin" in agent.wait_log("publish", level="warn")["reason"]
    assert cluster.devices() == []
    agent.kill()
    agent.start("--beside-device-plugin")
    cluster.wait_until(lambda: len(cluster.devices()) == 2)


def test_settings_of_a_folder_are_those_of_its_files_and_none_are_the_defaults(agent: Agent, cluster: FakeCluster) -> None:
    """A ConfigMap as the kubelet mounts it: links through a hidden one that is swapped, and nothing where it is not there."""
    folder = agent.folder / "settings"
    folder.mkdir()

    def slots() -> set[str]:
        return {device["capacity"]["slots"]["value"] for device in cluster.devices()}

    agent.start("--settings", str(folder))
    cluster.wait_until(lambda: slots() == {"10"})
    head = "apiVersion: drawbridge.dev/v1\nkind: AgentSettings\n"
    data = folder / "..data"
    data.mkdir()
    (data / "a.yaml").write_text(head + "splitCount: 3\n")
    (data / "b.json").write_text('{"nodeconfig": [{"name": "node-1", "devicesplitcount": 5}]}')
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    cluster.wait_until(lambda: slots() == {"3"})
    (folder / "b.json").symlink_to("..data/b.json")
    cluster.wait_until(lambda: slots() == {"5"})
    (data / "a.yaml").write_text(head + "splitCount: many\n")
    assert "settings/a.yaml: /splitCount" in agent.wait_log("devices", level="warn")["reason"]
    assert slots() == {"5"}
    for name in ("a.yaml", "b.json"):
        (folder / name).unlink()
    cluster.wait_until(lambda: slots() == {"10"})


def test_a_settings_file_that_is_named_must_be_there(agent: Agent, cluster: FakeCluster) -> None:
    agent.start("--settings", str(agent.folder / "missing.yaml"))
    assert "missing.yaml" in agent.wait_log("devices", level="warn")["reason"]
    cluster.wait_until(lambda: len(cluster.slices()) == 1)
    assert cluster.devices() == []


def test_settings_scale_split_and_leave_out(agent: Agent, cluster: FakeCluster) -> None:
    settings = agent.folder / "settings.yaml"
    settings.write_text(
        "apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nsplitCount: 4\n"
        "nodes:\n- name: node-1\n  memoryScaling: 1.5\n  coreScaling: 2\n  exclude: {indices: [1]}\n"
    )
    agent.start("--settings", str(settings))
    cluster.wait_until(lambda: len(cluster.devices()) == 1)
    capacity = cluster.devices()[0]["capacity"]
    assert [capacity[name]["value"] for name in ("memory", "cores", "slots")] == ["120Gi", "200", "4"]


def test_hamis_own_node_configuration_is_read(agent: Agent, cluster: FakeCluster) -> None:
    settings = agent.folder / "config.json"
    settings.write_text('{"nodeconfig": [{"name": "node-1", "devicesplitcount": 5, "devicememoryscaling": 1.8, '
                        '"migstrategy": "none", "filterdevices": {"uuid": ["%s"], "index": []}}]}' % gpu(2)["uuid"])  # fmt: skip
    agent.start("--settings", str(settings))
    cluster.wait_until(lambda: len(cluster.devices()) == 1)
    assert cluster.devices()[0]["capacity"]["slots"]["value"] == "5"
    assert cluster.devices()[0]["capacity"]["memory"]["value"] == "144Gi"
