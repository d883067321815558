"""Limits that an administrator changes while containers run on them."""

from __future__ import annotations

import json
import mmap
import struct
from pathlib import Path
from typing import Any

from fake_cluster import FakeCluster
from material import GIB, Agent, device_name, wait_until

GENERATION, MEMORY, CORES = 16, 120, 144  # places in preload/abi.h


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


def test_settings_that_cannot_be_read_change_no_limit(agent: Agent, cluster: FakeCluster) -> None:
    settings = write_settings(agent, {"namespace": "default", "pod": "pod-one", "memory": "1Gi"})
    agent.start("--settings", str(settings))
    seen = Mapped(agent, prepared(agent, cluster, "one", memory="8Gi"))
    assert seen()[0] == GIB
    agent.kill()
    settings.write_text("limits: [")
    agent.start("--settings", str(settings))
    assert seen()[0] == GIB
