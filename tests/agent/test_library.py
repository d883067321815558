"""The preload library on a node: laid down by the agent, given to claims, kept as long as one has it."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

from fake_cluster import FakeCluster
from material import AGENT, Agent, device_name

INSIDE = "/run/drawbridge/lib/libdrawbridge.so"
PRELOAD = "/etc/ld.so.preload"


def build_of(agent: Agent, content: str) -> Path:
    """A file that is told from a shared library of this machine by its head alone."""
    head = bytearray(AGENT.read_bytes()[:64])
    struct.pack_into("<H", head, 16, 3)  # ET_DYN
    struct.pack_into("<Q", head, 40, 0)  # no table of sections
    struct.pack_into("<H", head, 60, 0)
    file = agent.folder / f"{content}.so"
    file.write_bytes(bytes(head) + content.encode())
    return file


def start(agent: Agent, content: str) -> None:
    agent.start("--library", str(build_of(agent, content)))


def prepared(agent: Agent, cluster: FakeCluster, name: str) -> dict[str, Any]:
    claim = cluster.claim(name, [{"device": device_name(1), "memory": "1Gi"}])
    assert not agent.kubelet.prepare_one(claim).error
    return claim


def spec_of(agent: Agent, claim: dict[str, Any]) -> str:
    return (agent.cdi / f"k8s.gpu.drawbridge.dev-claim_{claim['metadata']['uid']}.json").read_text()


def mounts_of(agent: Agent, claim: dict[str, Any]) -> dict[str, Path]:
    """What lies where in every container of a claim."""
    mounts = json.loads(spec_of(agent, claim))["containerEdits"].get("mounts", [])
    return {mount["containerPath"]: Path(mount["hostPath"]) for mount in mounts}


def builds(agent: Agent) -> list[str]:
    return sorted(path.name for path in (agent.plugin / "lib").iterdir())


def test_without_a_library_none_is_mounted(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    assert mounts_of(agent, prepared(agent, cluster, "one")) == {}
    assert builds(agent) == []


def test_a_container_gets_the_build_and_the_file_that_names_it(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, "one")
    claim = prepared(agent, cluster, "one")
    mounts = mounts_of(agent, claim)
    assert set(mounts) == {INSIDE, PRELOAD}
    assert mounts[INSIDE].read_bytes().endswith(b"one") and mounts[PRELOAD].read_text() == INSIDE + "\n"
    assert mounts[INSIDE].stat().st_mode & 0o777 == 0o755 and mounts[PRELOAD].stat().st_mode & 0o777 == 0o644
    assert mounts[INSIDE].parent.parent.stat().st_mode & 0o777 == 0o711
    options = {mount["containerPath"]: mount["options"] for mount in json.loads(spec_of(agent, claim))["containerEdits"]["mounts"]}
    assert "noexec" not in options[INSIDE] and all("ro" in found for found in options.values())


def test_a_claim_of_the_administrator_gets_no_library(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, "one")
    claim = cluster.claim("admin", [{"device": device_name(1), "admin": True}])
    assert not agent.kubelet.prepare_one(claim).error
    assert mounts_of(agent, claim) == {}


def test_a_prepared_claim_keeps_its_build_and_the_last_one_takes_it_along(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, "one")
    old = prepared(agent, cluster, "old")
    text, inode = spec_of(agent, old), mounts_of(agent, old)[INSIDE].stat().st_ino
    agent.kill()
    start(agent, "two")
    new = prepared(agent, cluster, "new")
    assert mounts_of(agent, new)[INSIDE].read_bytes().endswith(b"two")
    assert len(builds(agent)) == 2
    # Neither the kubelet's repeated call nor a lost file changes what the claim has.
    assert not agent.kubelet.prepare_one(old).error
    (agent.cdi / f"k8s.gpu.drawbridge.dev-claim_{old['metadata']['uid']}.json").unlink()
    agent.kill()
    start(agent, "two")
    assert spec_of(agent, old) == text and mounts_of(agent, old)[INSIDE].stat().st_ino == inode
    assert not agent.kubelet.unprepare(old)[old["metadata"]["uid"]].error
    agent.kill()
    start(agent, "two")
    assert builds(agent) == [mounts_of(agent, new)[INSIDE].parent.name]


def test_an_agent_without_a_library_takes_it_from_no_claim(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, "one")
    claim = prepared(agent, cluster, "one")
    text = spec_of(agent, claim)
    agent.kill()
    agent.start()
    assert not agent.kubelet.prepare_one(claim).error
    assert spec_of(agent, claim) == text and mounts_of(agent, claim)[INSIDE].exists()


def test_after_a_reboot_a_claim_gets_the_present_build(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, "one")
    claim = prepared(agent, cluster, "one")
    agent.kill()
    agent.boot(2)
    start(agent, "two")
    assert not agent.kubelet.prepare_one(claim).error
    assert mounts_of(agent, claim)[INSIDE].read_bytes().endswith(b"two")


def test_a_build_that_somebody_removed_is_replaced_by_the_present_one(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, "one")
    claim = prepared(agent, cluster, "one")
    mounts_of(agent, claim)[INSIDE].unlink()
    agent.kill()
    start(agent, "two")
    assert mounts_of(agent, claim)[INSIDE].read_bytes().endswith(b"two")
    mounts_of(agent, claim)[INSIDE].unlink()
    assert not agent.kubelet.prepare_one(claim).error
    assert mounts_of(agent, claim)[INSIDE].read_bytes().endswith(b"two")


def test_what_no_program_could_load_is_refused_at_the_start(agent: Agent) -> None:
    text = agent.folder / "text.so"
    text.write_text("no library")
    for path, reason in [(text, "no ELF file"), (agent.folder / "missing.so", "missing.so")]:
        done = subprocess.run(
            [AGENT, "--node", "node-1", "--kubeconfig", agent.kubeconfig, "--kubelet-root", agent.root, "--cdi", agent.cdi,
             "--devices", agent.devices_file, "--library", path], capture_output=True, text=True, timeout=60)  # fmt: skip
        assert done.returncode == 1 and reason in done.stderr, done.stderr
