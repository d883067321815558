"""Shares of one GPU notice each other: compute is limited while another one works, and only then."""

from __future__ import annotations

import os
import struct
import time

from fake_cluster import FakeCluster
from gpu_program import KERNEL, Container, container, start_on_nvml, start_on_this_boot
from material import Agent, wait_until

# Places in preload/abi.h.
BUSY_SCALE, HEARTBEAT, CONTENDED_UNTIL, PAUSED_UNTIL = 156, 160, 168, 176
THROTTLE, SLOT = 128, 4096 + 8 * 1024
ONE = 1 << 16


def word(box: Container, file: str, place: int, form: str = "<Q") -> int:
    with (box.share / file).open("rb") as opened:
        return struct.unpack(form, os.pread(opened.fileno(), struct.calcsize(form), place))[0]


def contended(box: Container) -> bool:
    return word(box, "limits", CONTENDED_UNTIL) > time.monotonic_ns()


def paused(box: Container) -> bool:
    return word(box, "limits", PAUSED_UNTIL) > time.monotonic_ns()


def scale(box: Container) -> float:
    """GPU time that is charged for a nanosecond between events."""
    return word(box, "limits", BUSY_SCALE, "<I") / ONE


def throttled(box: Container) -> int:
    return word(box, "ledger", SLOT + THROTTLE)


def test_a_share_is_limited_while_another_one_of_its_gpu_works(agent: Agent, cluster: FakeCluster) -> None:
    start_on_this_boot(agent)
    one, two = container(agent, cluster, "one", cores=20), container(agent, cluster, "two", cores=20)
    wait_until(lambda: word(one, "limits", HEARTBEAT) and word(two, "limits", HEARTBEAT))
    with one.run(KERNEL) as first, two.run(KERNEL) as second:
        wait_until(lambda: not contended(one) and not contended(two))
        first.do("work(2500)")
        assert throttled(one) == 0  # alone, and looked at meanwhile: all of the GPU
        wait_until(lambda: contended(two))
        assert word(two, "limits", CONTENDED_UNTIL) <= time.monotonic_ns() + 3 * 10**9
        second.do("work(400)")  # beside one that has just worked
        assert throttled(two) > 0
        wait_until(lambda: contended(one))
        wait_until(lambda: not contended(one) and not contended(two))


def test_a_share_without_a_limit_is_there_while_it_has_a_process(agent: Agent, cluster: FakeCluster) -> None:
    start_on_this_boot(agent)
    limited, open_ended = container(agent, cluster, "limited", cores=20), container(agent, cluster, "open")
    with open_ended.run("") as program, limited.run(""):
        wait_until(lambda: contended(limited))
        first = word(limited, "limits", CONTENDED_UNTIL)
        wait_until(lambda: word(limited, "limits", CONTENDED_UNTIL) > first + 4 * 10**9)  # it does nothing, and may
        program.kill()
    wait_until(lambda: not contended(limited))


def test_where_the_driver_tells_an_idle_process_is_no_neighbour(agent: Agent, cluster: FakeCluster) -> None:
    start_on_nvml(agent)
    limited, open_ended = container(agent, cluster, "limited", cores=20), container(agent, cluster, "open")
    with open_ended.run(KERNEL) as program, limited.run(""):
        wait_until(lambda: word(limited, "limits", HEARTBEAT) > 0)
        beats = word(limited, "limits", HEARTBEAT)
        wait_until(lambda: word(limited, "limits", HEARTBEAT) > beats + 6 * 10**9)
        assert not contended(limited)
        program.do("work(3000)")
        wait_until(lambda: contended(limited))
        wait_until(lambda: not contended(limited))


def test_a_share_waits_while_one_of_a_higher_priority_works(agent: Agent, cluster: FakeCluster) -> None:
    start_on_this_boot(agent)
    high, low = container(agent, cluster, "high", priority=0, cores=50), container(agent, cluster, "low")
    with high.run(KERNEL) as first, low.run(KERNEL) as second:
        wait_until(lambda: not paused(high) and not paused(low))
        second.do("work(100)")
        assert throttled(low) == 0
        first.do("work(1500)")
        wait_until(lambda: paused(low))
        assert word(low, "limits", PAUSED_UNTIL) <= time.monotonic_ns() + 3 * 10**9 and not paused(high)
        second.do("work(100)")  # which waits, though it has no limit on compute
        assert throttled(low) > 0
        wait_until(lambda: word(low, "limits", PAUSED_UNTIL) == 0)
        before = throttled(low)
        second.do("work(100)")
        assert throttled(low) == before and not paused(high)


def test_what_work_is_charged_follows_the_drivers_count(agent: Agent, cluster: FakeCluster) -> None:
    start_on_nvml(agent)
    one, two = container(agent, cluster, "one", policy="force", cores=50), container(agent, cluster, "two", policy="force", cores=50)
    with one.run(KERNEL) as first, two.run(KERNEL) as second:
        wait_until(lambda: scale(one) == 1)
        for program in (first, second):
            program.start("work(20000)")
        # Both work, and nothing is known of it yet: half of the time is taken to be the other's.
        wait_until(lambda: scale(one) == 0.5 and scale(two) == 0.5)
        # The stand-in's kernels do not slow each other down: what events tell is what the driver counts.
        wait_until(lambda: 0.5 < scale(one) <= 0.626)
        wait_until(lambda: scale(one) > 0.85)
