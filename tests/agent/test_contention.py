"""Shares of one GPU notice each other: compute is limited while another one works, and only then."""

from __future__ import annotations

import os
import struct
import time

from fake_cluster import FakeCluster
from gpu_program import KERNEL, Container, container, start_on_this_boot
from material import Agent, wait_until

CONTENDED_UNTIL, HEARTBEAT, THROTTLE, SLOT = 168, 160, 128, 4096 + 8 * 1024  # places in preload/abi.h


def word(box: Container, file: str, place: int) -> int:
    with (box.share / file).open("rb") as opened:
        return struct.unpack("<Q", os.pread(opened.fileno(), 8, place))[0]


def contended(box: Container) -> bool:
    return word(box, "limits", CONTENDED_UNTIL) > time.monotonic_ns()


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
    with open_ended.run("") as program:
        wait_until(lambda: contended(limited))
        first = word(limited, "limits", CONTENDED_UNTIL)
        wait_until(lambda: word(limited, "limits", CONTENDED_UNTIL) > first + 4 * 10**9)  # it does nothing, and may
        program.kill()
    wait_until(lambda: not contended(limited))
