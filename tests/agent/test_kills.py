"""Random lives of a real agent that is killed at any moment, judged from outside (node_judge.py)."""

from __future__ import annotations

import random
import tempfile
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import node_judge
import pytest
from fake_cluster import Fault, FakeCluster
from material import Agent, device_name, wait_until

LONGEST = 0.02  # seconds until a kill: a prepare takes about ten milliseconds


class Life:
    """A node, the scheduler that gives its devices away, and the kubelet's own account of what is prepared."""

    def __init__(self, seed: int, agent: Agent, cluster: FakeCluster) -> None:
        self.random, self.agent, self.cluster = random.Random(seed), agent, cluster
        self.claims: dict[str, dict[str, Any]] = {}  # that were not ended
        self.prepared: dict[str, Any] = {}  # the answers, by UID
        self.ended: set[str] = set()
        self.boots = 1
        self.small = self.random.random() < 0.5  # so that it is slots that come to an end
        agent.start()

    def step(self) -> None:
        steps = {self.allocate: 6, self.prepare: 10, self.unprepare: 4, self.late: 1, self.restart: 1, self.wipe: 1, self.reboot: 1}
        self.random.choices(list(steps), list(steps.values()))[0]()

    def allocate(self) -> None:
        """More than there is, now and then: a scheduler errs."""
        most, cores = (1, [0]) if self.small else (40, [0, 20, 40])
        shares = [{"device": device_name(1 if self.small else self.random.randint(1, 2)), "memory": f"{self.random.randint(1, most)}Gi",
                   "cores": self.random.choice(cores)} for _ in range(4 if self.small else self.random.randint(1, 2))]  # fmt: skip
        claim = self.cluster.claim(f"c{uuid.uuid4().hex[:8]}", shares)
        self.claims[claim["metadata"]["uid"]] = claim

    def prepare(self) -> None:
        if not self.claims:
            return self.allocate()
        uid = self.random.choice(list(self.claims))
        answer = self.survive(lambda: self.agent.kubelet.prepare_one(self.claims[uid]))
        if answer is None or answer.error:
            assert answer is None or "given away twice" in answer.error, answer.error
            return None
        told = [(device.device_name, device.share_id, list(device.cdi_device_ids)) for device in answer.devices]
        assert self.prepared.setdefault(uid, told) == told
        return None

    def unprepare(self) -> None:
        if not self.claims:
            return
        uid = self.random.choice(list(self.claims))
        self.prepared.pop(uid, None)  # no container runs any more
        answer = self.survive(lambda: self.agent.kubelet.unprepare(self.claims[uid])[uid])
        if answer is None:
            return
        assert not answer.error, answer.error
        self.cluster.delete_claim(self.claims.pop(uid))
        self.ended.add(uid)

    def late(self) -> None:
        """A prepare that was under way when the claim was ended."""
        if not self.claims:
            return
        uid = self.random.choice(list(self.claims))
        claim = self.claims[uid]
        asked, release = self.cluster.count("GET", claim["metadata"]["name"]), threading.Event()
        self.cluster.faults.append(Fault(lambda request: request.path.endswith("/" + claim["metadata"]["name"]), hold=release,
                                         pass_on=True, times=1))  # fmt: skip
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.agent.kubelet.prepare_one, claim)
            self.cluster.wait_until(lambda: self.cluster.count("GET", claim["metadata"]["name"]) > asked)
            self.prepared.pop(uid, None)
            assert not self.agent.kubelet.unprepare(claim)[uid].error
            release.set()
            assert answer.result().error
        self.cluster.delete_claim(self.claims.pop(uid))
        self.ended.add(uid)

    def survive(self, call: Callable[[], Any]) -> Any:
        """Makes a call during which the agent may be killed; nothing where it was."""
        killer = None
        if self.random.random() < 0.4:
            assert self.agent.process
            killer = threading.Timer(self.random.uniform(0, LONGEST), self.agent.process.kill)
            killer.start()
        try:
            return call()
        except grpc.RpcError:
            assert killer, "a call failed, and nobody was killed"
            return None
        finally:
            if killer:
                killer.join()
                self.restart()

    def restart(self) -> None:
        self.agent.kill()
        self.agent.start()

    def wipe(self) -> None:
        """The CDI folder is emptied; the next prepare of each claim makes its file again."""
        for file in self.agent.cdi.iterdir():
            file.unlink()
        self.again()

    def reboot(self) -> None:
        self.agent.kill()
        for file in self.agent.cdi.iterdir():
            file.unlink()
        self.boots += 1
        self.agent.boot(self.boots)
        self.restart()
        self.again()

    def again(self) -> None:
        """The kubelet asks for what its pods have; a restarted agent may have answered for it already."""
        for uid in list(self.prepared):
            assert not self.agent.kubelet.prepare_one(self.claims[uid]).error

    def judge(self) -> list[str]:
        boot = uuid.UUID(f"00000000-0000-4000-8000-{self.boots:012x}").bytes
        faults = node_judge.sums(self.agent)
        for uid in self.prepared:
            faults += node_judge.of_claim(self.agent, self.claims[uid], boot)
        for uid in self.ended:
            faults += node_judge.left_of(self.agent, uid)
        return faults

    def end(self) -> None:
        for uid, claim in self.claims.items():
            assert not self.agent.kubelet.unprepare(claim)[uid].error
        wait_until(lambda: self.agent.shares() == [] and self.agent.cdi_files() == {})


def live(seed: int) -> None:
    with FakeCluster() as cluster, tempfile.TemporaryDirectory(prefix="db-") as folder:
        agent = Agent(Path(folder), cluster)
        try:
            life = Life(seed, agent, cluster)
            for number in range(40):
                life.step()
                assert life.judge() == [], f"seed {seed}, step {number}"
            life.end()
        finally:
            agent.close()


@pytest.mark.parametrize("seed", range(1, 13))
def test_a_life_with_kills_breaks_no_account(seed: int) -> None:
    live(seed)


@pytest.mark.long
@pytest.mark.parametrize("at", range(300))
def test_three_hundred_lives_with_kills_break_no_account(at: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    live(seed)
