"""A driver whose calls do not come back, as those of a card that has crashed may."""

from __future__ import annotations

import json
import os

from fake_cluster import FakeCluster
from material import NVML, Agent, get, wait_until


class Hang:
    """Holds who asks the stand-in of NVML, as a card that has crashed does: its script is a pipe that nobody writes."""

    def __init__(self, agent: Agent) -> None:
        self.script, self.pipe = agent.folder / "script", agent.folder / "pipe"
        self.pipe.unlink(missing_ok=True)
        os.mkfifo(self.pipe)
        (agent.folder / "next").hardlink_to(self.pipe)
        (agent.folder / "next").rename(self.script)

    def end(self) -> None:
        following = self.script.with_name("following")
        following.touch()
        following.rename(self.script)
        self.pipe.open("w").close()


def start(agent: Agent) -> int:
    """The agent on two cards of the stand-in; gives its operator port."""
    library = agent.folder / "driver" / "usr" / "lib64" / "libnvidia-ml.so.1"
    if not library.exists():
        library.parent.mkdir(parents=True)
        library.symlink_to(NVML)
        (agent.folder / "script").touch()
    ports = agent.folder / "ports"
    ports.unlink(missing_ok=True)
    agent.log.clear()  # "started" is the new one's word
    agent.start("--port-file", str(ports), "--driver-root", str(agent.folder / "driver"), devices=False,
                DRAWBRIDGE_STANDIN_DEVICES="2", DRAWBRIDGE_STANDIN_NVML=str(agent.folder / "script"))  # fmt: skip
    return json.loads(ports.read_text())["operator"]


def test_a_driver_that_hangs_keeps_new_pods_away_and_the_agent_from_nothing_else(agent: Agent, cluster: FakeCluster) -> None:
    port = start(agent)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    name = cluster.devices()[0]["name"]
    held, late = (cluster.claim(claim, [{"device": name}]) for claim in ("held", "late"))
    assert not agent.kubelet.prepare_one(held).error
    hang = Hang(agent)
    cluster.wait_until(lambda: all(device.get("taints") for device in cluster.devices()), 90)
    assert {taint["effect"] for device in cluster.devices() for taint in device["taints"]} == {"NoSchedule"}
    assert "hang" in get(port, "/readyz")[1]
    assert not agent.kubelet.prepare_one(held).error
    assert "the driver does not answer" in agent.kubelet.prepare_one(late).error
    hang.end()
    cluster.wait_until(lambda: not any(device.get("taints") for device in cluster.devices()))
    assert not agent.kubelet.prepare_one(late).error
    Hang(agent)
    assert agent.stop() == 0
    assert agent.kubelet.registration_sockets() == []


def test_claims_end_on_a_node_whose_driver_hangs_at_the_start(agent: Agent, cluster: FakeCluster) -> None:
    start(agent)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    before = cluster.slices()
    claim = cluster.claim("one", [{"device": cluster.devices()[0]["name"]}])
    assert not agent.kubelet.prepare_one(claim).error
    agent.kill()
    hang = Hang(agent)
    port = start(agent)
    assert agent.kubelet.unprepare(claim)[claim["metadata"]["uid"]].error == ""
    status, text = get(port, "/readyz")
    assert status == 503 and "hang" in text
    assert cluster.slices() == before  # it is not known what there is
    hang.end()
    wait_until(lambda: get(port, "/readyz")[0] == 200)
    assert cluster.slices() == before
