"""Limits that an administrator changes while containers run on them."""

from __future__ import annotations

import json
import mmap
import struct
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from material import GIB, Agent, device_name, wait_until

GENERATION, MEMORY, CORES = 16, 120, 144  # places in preload/abi.h
USED = 4096  # in the ledger


def write_settings(agent: Agent, *limits: dict[str, Any]) -> Path:
    file = agent.folder / "settings.json"
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"apiVersion": "drawbridge.dev/v1", "kind": "AgentSettings", "limits": list(limits)}))
    fresh.rename(file)
    return file


class Mapped:
    """A share's limits as a running container has them: mapped once."""

    def __init__(self, agent: Agent, claim: dict[str, Any]) -> None:
        self.path = agent.plugin / "shares" / (claim["metadata"]["uid"] + "-0") / "limits"
        with self.path.open("rb") as file:
            self.page = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def __call__(self) -> tuple[int, int]:
        """Bytes and permille, once nobody writes."""
        wait_until(lambda: self.generation() % 2 == 0)
        return struct.unpack_from("<Q", self.page, MEMORY)[0], struct.unpack_from("<I", self.page, CORES)[0]

    def generation(self) -> int:
        return struct.unpack_from("<Q", self.page, GENERATION)[0]


def prepared(agent: Agent, cluster: FakeCluster, name: str, **share: Any) -> dict[str, Any]:
    claim = cluster.claim(name, [{"device": device_name(1), **share}])
    assert not agent.kubelet.prepare_one(claim).error
    return claim


def test_limits_change_under_a_running_container_and_come_back(agent: Agent, cluster: FakeCluster) -> None:
    agent.start("--settings", str(write_settings(agent)))
    claim = prepared(agent, cluster, "one", memory="8Gi", cores=50)
    seen = Mapped(agent, claim)
    assert seen() == (8 * GIB, 500)
    write_settings(agent, {"namespace": "default", "memory": "2Gi", "cores": 80})
    wait_until(lambda: seen() == (2 * GIB, 500))
    write_settings(agent, {"namespace": "default", "memory": "100Gi", "cores": 20})
    wait_until(lambda: seen() == (8 * GIB, 200))
    write_settings(agent)
    wait_until(lambda: seen() == (8 * GIB, 500))
    assert agent.wait_log("limits")["share"] == claim["metadata"]["uid"] + "-0"


def test_a_rule_holds_from_the_start_and_for_what_it_names_alone(agent: Agent, cluster: FakeCluster) -> None:
    agent.start("--settings", str(write_settings(agent, {"namespace": "default", "claim": "held", "memory": "1Gi"})))
    held = prepared(agent, cluster, "held", memory="8Gi")
    free = prepared(agent, cluster, "free", memory="8Gi")
    assert Mapped(agent, held)()[0] == GIB and Mapped(agent, free)()[0] == 8 * GIB


def test_a_change_that_was_left_half_done_is_ended_at_the_next_start(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = prepared(agent, cluster, "one", memory="8Gi", cores=50)
    seen = Mapped(agent, claim)
    agent.kill()
    with seen.path.open("r+b") as file:
        file.seek(GENERATION)
        file.write(struct.pack("<Q", seen.generation() + 1))
        file.seek(MEMORY)
        file.write(struct.pack("<Q", 1))
    agent.start()
    assert seen() == (8 * GIB, 500)


def use(agent: Agent, claim: dict[str, Any]) -> Path:
    """Writes into a share's ledger as a process does; gives the file."""
    ledger = agent.plugin / "shares" / (claim["metadata"]["uid"] + "-0") / "ledger"
    with ledger.open("r+b") as file:
        file.seek(USED)
        file.write(b"\x11")
    return ledger


def is_used(ledger: Path) -> bool:
    return ledger.read_bytes()[USED] == 0x11


def damage(seen: Mapped) -> None:
    with seen.path.open("r+b") as file:
        file.write(b"damaged " * 32)


def test_damaged_limits_are_mended_under_a_running_container_and_its_ledger_stays(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = prepared(agent, cluster, "one", memory="8Gi", cores=50)
    seen, ledger = Mapped(agent, claim), use(agent, claim)
    before = seen.page[:16], ledger.stat().st_ino
    damage(seen)
    for file in agent.cdi.iterdir():
        file.unlink()
    assert not agent.kubelet.prepare_one(claim).error
    assert seen() == (8 * GIB, 500)
    assert (seen.page[:16], ledger.stat().st_ino) == before and is_used(ledger)
    # Without the kubelet asking, at the next look.
    agent.kill()
    damage(seen)
    agent.start()
    assert seen() == (8 * GIB, 500) and is_used(ledger)


def test_a_ledger_of_an_earlier_boot_is_renewed_whatever_became_of_its_limits(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    claim = prepared(agent, cluster, "one", memory="8Gi")
    ledger = use(agent, claim)
    agent.kill()
    damage(Mapped(agent, claim))
    agent.boot(2)
    agent.start()
    assert not agent.kubelet.prepare_one(claim).error
    assert not is_used(ledger) and Mapped(agent, claim)() == (8 * GIB, 1000)


@pytest.mark.parametrize("boot", [1, 2])
def test_a_record_that_was_rebuilt_keeps_the_ledger_of_this_boot_alone(agent: Agent, cluster: FakeCluster, boot: int) -> None:
    agent.start()
    claim = prepared(agent, cluster, "one", memory="8Gi")
    for number in range(200):  # so that it stands on a page of its own
        cluster.claim(f"another-{number}", [{"device": "nic-0", "driver": "nic.example.com"}])
    ledger = use(agent, claim)
    agent.kill()
    (agent.plugin / "claims" / (claim["metadata"]["uid"] + ".json")).write_text("damaged")
    agent.boot(boot)
    agent.start()
    agent.wait_log("record_rebuilt")
    assert not agent.kubelet.prepare_one(claim).error
    assert is_used(ledger) == (boot == 1)


def test_settings_that_cannot_be_read_change_no_limit(agent: Agent, cluster: FakeCluster) -> None:
    settings = write_settings(agent, {"namespace": "default", "pod": "pod-one", "memory": "1Gi"})
    agent.start("--settings", str(settings))
    seen = Mapped(agent, prepared(agent, cluster, "one", memory="8Gi"))
    assert seen()[0] == GIB
    agent.kill()
    settings.write_text("limits: [")
    agent.start("--settings", str(settings))
    assert seen()[0] == GIB
