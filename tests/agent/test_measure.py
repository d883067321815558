"""What the driver says of processes beside what the ledgers say: overhead, and processes that go past the library."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path

import pytest
from fake_cluster import FakeCluster
from gpu_program import MIB, Container, container
from material import NVML, Agent, get, wait_until

OVERHEAD = 4096  # place in preload/abi.h
CONTEXT = 518  # MiB that the stand-in takes for a context


def overhead(box: Container, slot: int) -> int:
    with (box.share / "limits").open("rb") as limits:
        return struct.unpack("<I", os.pread(limits.fileno(), 4, OVERHEAD + 4 * slot))[0]


def started(agent: Agent) -> int:
    """On the stand-in's NVML, in the same world as the programs."""
    root = agent.folder / "driver"
    (root / "usr" / "lib64").mkdir(parents=True)
    (root / "usr" / "lib64" / "libnvidia-ml.so.1").symlink_to(NVML)
    agent.boot_id_file.write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    port_file = agent.folder / "ports"
    agent.start("--port-file", str(port_file), "--driver-root", str(root), devices=False, DRAWBRIDGE_STANDIN_STATE=str(agent.folder / "world"))
    return json.loads(port_file.read_text())["operator"]


def metric(port: int, name: str) -> int:
    found = re.search(rf"^drawbridge_agent_{name}{{.*}} (\d+)$", get(port, "/metrics")[1], re.MULTILINE)
    assert found
    return int(found[1])


def test_contexts_are_measured_and_counted_with_what_is_charged(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    box = container(agent, cluster, "one")
    with box.run("cu.must_out('cuMemAlloc_v2', 100 << 20)") as program:
        assert metric(port, "used_bytes") == 100 * MIB
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
        past.kill()
        wait_until(lambda: metric(port, "bypass_suspected") == 0)
