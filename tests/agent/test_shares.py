"""What the agent does for the shares of running containers: heartbeat, dead processes."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path

from fake_cluster import FakeCluster
from gpu_program import MIB, Program, container, start_on_this_boot
from material import AGENT, Agent, get, wait_until

HEARTBEAT = 160  # places in preload/abi.h
USED, SLOT, SLOT_SIZE = 4096, 4096 + 8 * 1024, 192


def word(file: Path, place: int, form: str = "<Q") -> int:
    with file.open("rb") as opened:
        return struct.unpack(form, os.pread(opened.fileno(), struct.calcsize(form), place))[0]


def state(share: Path, slot: int) -> int:
    return word(share / "ledger", SLOT + SLOT_SIZE * slot, "<I")


def used(share: Path, slot: int) -> int:
    return word(share / "ledger", USED + 8 * slot)


def test_the_heartbeat_is_renewed_on_the_clock_of_the_library_and_ends_with_the_agent(agent: Agent, cluster: FakeCluster) -> None:
    start_on_this_boot(agent)
    box = container(agent, cluster, "one")
    limits = box.share / "limits"
    generation = word(limits, 16)
    before = time.monotonic_ns()
    with box.run(""):
        wait_until(lambda: word(limits, HEARTBEAT) > before)
        first = word(limits, HEARTBEAT)
        wait_until(lambda: word(limits, HEARTBEAT) > first)
        assert word(limits, HEARTBEAT) <= time.monotonic_ns() and word(limits, 16) == generation
        assert agent.stop() == 0
        last = word(limits, HEARTBEAT)
        agent.start()
        wait_until(lambda: word(limits, HEARTBEAT) > last)


def test_a_share_that_nobody_uses_is_left_alone_until_its_ledger_is_opened(agent: Agent, cluster: FakeCluster) -> None:
    port_file = agent.folder / "ports"
    start_on_this_boot(agent, "--port-file", str(port_file))
    used_one, idle_one = container(agent, cluster, "used"), container(agent, cluster, "idle")
    limits = idle_one.share / "limits"
    wait_until(lambda: word(limits, HEARTBEAT) > 0)  # it was looked at
    with used_one.run(""):
        last = word(limits, HEARTBEAT)
        wait_until(lambda: word(used_one.share / "limits", HEARTBEAT) > last + 12 * 10**9)
        quiet = word(limits, HEARTBEAT)
        # Who reads the ledgers for their metrics wakes nobody.
        assert 'claim="idle"' in get(json.loads(port_file.read_text())["operator"], "/metrics")[1]
        wait_until(lambda: word(used_one.share / "limits", HEARTBEAT) > last + 16 * 10**9)
        assert word(limits, HEARTBEAT) == quiet
        with idle_one.run(""):
            wait_until(lambda: word(limits, HEARTBEAT) > quiet)
            first = word(limits, HEARTBEAT)
            wait_until(lambda: word(limits, HEARTBEAT) > first)


def test_a_share_that_is_found_is_looked_after_for_a_while_since_it_may_be_open_already(agent: Agent, cluster: FakeCluster) -> None:
    start_on_this_boot(agent)
    limits = container(agent, cluster, "one").share / "limits"
    assert agent.stop() == 0
    found = word(limits, HEARTBEAT)
    agent.start()
    wait_until(lambda: word(limits, HEARTBEAT) > found)
    first = word(limits, HEARTBEAT)
    wait_until(lambda: word(limits, HEARTBEAT) > first)


def test_where_the_kernel_has_no_watch_to_give_a_new_share_is_looked_after_all_the_same(agent: Agent, cluster: FakeCluster) -> None:
    """fs.inotify.max_user_instances is 128 as a rule, and a node's runtime and collectors take them all."""
    agent.program = agent.folder / "without-inotify"
    agent.program.write_text(f"""#!/bin/sh
exec unshare --map-root-user sh -c 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"' sh {AGENT} "$@"
""")
    agent.program.chmod(0o755)
    start_on_this_boot(agent)
    box = container(agent, cluster, "one")
    limits = box.share / "limits"
    with box.run(""):
        wait_until(lambda: word(limits, HEARTBEAT) > 0)
        first = word(limits, HEARTBEAT)
        wait_until(lambda: word(limits, HEARTBEAT) > first)


def test_what_the_dead_held_is_free_and_the_living_keep_theirs(agent: Agent, cluster: FakeCluster) -> None:
    start_on_this_boot(agent)
    box = container(agent, cluster, "one")
    allocate = "cu.must_out('cuMemAlloc_v2', 100 * (1 << 20))"
    with box.run(allocate) as dying, box.run(allocate) as living, box.run(allocate + "; os.closerange(3, 1000)") as hidden:
        assert [state(box.share, slot) for slot in range(3)] == [1, 1, 1]
        dying.kill()
        found = agent.wait_log("reaped", share=box.share.name)
        assert found["slots"] == 1
        assert [state(box.share, slot) for slot in range(3)] == [0, 1, 1]
        assert used(box.share, 0) == 0 and used(box.share, 1) >= 100 * MIB and used(box.share, 2) >= 100 * MIB
        # The last one has no descriptor and so no lock any more: two rounds later it still has its slot.
        beats = word(box.share / "limits", HEARTBEAT)
        wait_until(lambda: word(box.share / "limits", HEARTBEAT) > beats + 5 * 10**9)
        assert [state(box.share, slot) for slot in range(3)] == [0, 1, 1]
        for program in (living, hidden):
            program.do("cu.must_out('cuMemAlloc_v2', 1 << 20)")


def test_a_running_containers_ledger_outlives_the_agent(agent: Agent, cluster: FakeCluster) -> None:
    start_on_this_boot(agent)
    box = container(agent, cluster, "one")
    with box.run("cu.must_out('cuMemAlloc_v2', 100 * (1 << 20))") as program:
        agent.kill()
        before = (box.share / "ledger").read_bytes()
        agent.start()
        beats = time.monotonic_ns()
        wait_until(lambda: word(box.share / "limits", HEARTBEAT) > beats + 3 * 10**9)
        assert (box.share / "ledger").read_bytes() == before
        assert isinstance(program, Program) and program.process.poll() is None
