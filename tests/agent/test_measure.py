"""What the driver says of processes beside what the ledgers say: overhead, and processes that go past the library."""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any

import pytest
from fake_cluster import FakeCluster, Fault, Request
from gpu_program import KERNEL, MIB, Container, container, start_on_nvml
from material import Agent, get, wait_until

OVERHEAD, CONTEXT_BYTES, UTILIZATION = 4096, 136, 8192  # places in preload/abi.h
CONTEXT = 518  # MiB that the stand-in takes for a context


def figure(box: Container, place: int, form: str) -> int:
    with (box.share / "limits").open("rb") as limits:
        return struct.unpack(form, os.pread(limits.fileno(), struct.calcsize(form), place))[0]


def overhead(box: Container, slot: int) -> int:
    return figure(box, OVERHEAD + 4 * slot, "<I")


def gpu_time(box: Container, slot: int) -> int:
    """Permille of the last seconds, as the library shows it to programs."""
    return figure(box, UTILIZATION + 2 * slot, "<H")


def started(agent: Agent, *arguments: str) -> int:
    port_file = agent.folder / "ports"
    start_on_nvml(agent, "--port-file", str(port_file), *arguments)
    return json.loads(port_file.read_text())["operator"]


def events(cluster: FakeCluster, reason: str) -> list[dict[str, Any]]:
    """Those that were made of that reason."""
    made = [request.body for request in cluster.requests if request.method == "POST" and request.path.endswith("/events")]
    return [event for event in made if event["reason"] == reason]


def is_eviction(request: Request) -> bool:
    return request.path.endswith("/eviction")


def metric(port: int, name: str) -> int:
    found = re.search(rf"^drawbridge_agent_{name}{{.*}} (\d+)$", get(port, "/metrics")[1], re.MULTILINE)
    assert found
    return int(found[1])


def test_contexts_are_measured_and_counted_with_what_is_charged(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    box = container(agent, cluster, "one")
    with box.run("cu.must_out('cuMemAlloc_v2', 100 << 20)") as program:
        assert metric(port, "used_bytes") in (100 * MIB, (100 + CONTEXT) * MIB)  # before or after the first measure
        wait_until(lambda: overhead(box, 0) == CONTEXT)
        wait_until(lambda: metric(port, "overhead_bytes") == CONTEXT * MIB)
        assert metric(port, "used_bytes") == (100 + CONTEXT) * MIB
        assert metric(port, "bypass_suspected") == 0
        # The process is held to what is left.
        program.do("assert cu.out('cuMemAlloc_v2', (8192 - 100 - 517) << 20)[0] == 2")
        program.do("cu.must_out('cuMemAlloc_v2', (8192 - 100 - 518) << 20)")
    wait_until(lambda: overhead(box, 0) == 0)
    wait_until(lambda: metric(port, "used_bytes") == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_a_process_that_goes_past_the_library_is_found(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    box = container(agent, cluster, "one")
    allocate = "cu.must_out('cuMemAlloc_v2', 100 << 20)"
    with (
        box.run(allocate, mounted=True),  # has a slot
        box.run(allocate, preload=False),  # is in no container with a share
        box.run(allocate, preload=False, mounted=True) as past,
    ):
        assert agent.wait_log("bypass", share=box.share.name)["processes"] == 1
        assert metric(port, "bypass_suspected") == 1
        assert f"{box.share.name}: 1 process" in get(port, "/readyz")[1]
        cluster.wait_until(lambda: bool(events(cluster, "GpuLimitBypassed")))
        [event] = events(cluster, "GpuLimitBypassed")
        pod = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "pod-one", "uid": "pod-uid"}
        assert event["regarding"] == pod and event["related"]["name"] == "one" and event["type"] == "Warning"
        assert not [request for request in cluster.requests if is_eviction(request)]
        past.kill()
        wait_until(lambda: metric(port, "bypass_suspected") == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_a_pod_that_goes_past_the_library_is_evicted_where_that_is_wanted(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent, "--on-bypass", "evict")
    box = container(agent, cluster, "one")
    cluster.faults.append(Fault(is_eviction, status=429, times=1))  # a disruption budget
    with box.run("cu.must_out('cuMemAlloc_v2', 100 << 20)", preload=False, mounted=True):
        cluster.wait_until(lambda: sum(map(is_eviction, cluster.requests)) == 2)
        [first, second] = filter(is_eviction, cluster.requests)
        assert first.method == "POST" and first.path == "/api/v1/namespaces/default/pods/pod-one/eviction" and first.body == second.body
        assert first.body["deleteOptions"] == {"preconditions": {"uid": "pod-uid"}}
        # The fake API server has no pods: gone.
        wait_until(lambda: 'notices_total{kind="eviction",result="dropped"} 1' in get(port, "/metrics")[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_processes_that_hold_more_than_the_share_are_told_of(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    box = container(agent, cluster, "one")  # of 8 GiB
    with box.run("cu.must_out('cuMemAlloc_v2', 4 << 30)", mounted=True), box.run("cu.must_out('cuMemAlloc_v2', 6 << 30)", preload=False, mounted=True):
        agent.wait_log("overrun", share=box.share.name)
        assert metric(port, "overrun_bytes") == (2048 + 2 * CONTEXT) * MIB
        cluster.wait_until(lambda: bool(events(cluster, "GpuLimitExceeded")))
        assert f"{box.share.name}: {2048 + 2 * CONTEXT} MiB held beyond its limit" in get(port, "/readyz")[1]
    wait_until(lambda: metric(port, "overrun_bytes") == 0)


def test_the_next_process_is_charged_at_once_what_a_context_takes(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    box = container(agent, cluster, "one")
    with box.run(""):
        wait_until(lambda: figure(box, CONTEXT_BYTES, "<Q") == CONTEXT * MIB)
        with box.run("assert cu.free_bytes() == (8192 - 2 * %d) << 20" % CONTEXT) as second:
            wait_until(lambda: overhead(box, 1) == CONTEXT)
            # It has done nothing since, and is counted once all the same.
            assert metric(port, "used_bytes") == 2 * CONTEXT * MIB and metric(port, "overhead_bytes") == 2 * CONTEXT * MIB
            second.do("assert cu.free_bytes() == (8192 - 2 * %d) << 20" % CONTEXT)
            second.do("other = cu.must_out('cuCtxCreate_v2', 0, 0)")
            wait_until(lambda: overhead(box, 1) >= 2 * CONTEXT)
            second.do("cu.must('cuCtxDestroy_v2', other)")
            wait_until(lambda: overhead(box, 1) == CONTEXT)
            second.do("cu.must_out('cuMemAlloc_v2', (8192 - 2 * %d) << 20)" % CONTEXT)
    # Another share of the card knows it from the start, and so does the next agent.
    agent.kill()
    agent.start("--driver-root", str(agent.folder / "driver"), devices=False, DRAWBRIDGE_STANDIN_STATE=str(agent.folder / "world"))
    other = container(agent, cluster, "two")
    wait_until(lambda: figure(other, CONTEXT_BYTES, "<Q") == CONTEXT * MIB)


def test_what_processes_have_of_the_gpu_is_shown_to_them(agent: Agent, cluster: FakeCluster) -> None:
    started(agent)
    box = container(agent, cluster, "one")
    with box.run(KERNEL) as busy, box.run(""):
        wait_until(lambda: overhead(box, 0) == CONTEXT)
        assert gpu_time(box, 0) == 0
        busy.do("work(3000)")
        wait_until(lambda: gpu_time(box, 0) > 500)
        assert gpu_time(box, 1) == 0
        wait_until(lambda: gpu_time(box, 0) == 0)
