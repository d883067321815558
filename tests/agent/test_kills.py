"""Random lives of a real agent that is killed at any moment, and whose machine loses its power, judged from outside
(node_judge.py)."""

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
from material import AGENT, ROOT, SANITIZED, Agent, device_name, wait_until
from power_cut import Disk

LONGEST = 0.02  # seconds until a kill: a prepare takes some milliseconds


class Broken(AssertionError):
    """The agent did what it must not."""


def expect(holds: bool, what: object) -> None:
    if not holds:
        raise Broken(what)


class Life:
    """A node, the scheduler that gives its devices away, and the kubelet's own account of what is prepared."""

    def __init__(self, seed: int, agent: Agent, cluster: FakeCluster, syncs: bool = True) -> None:
        self.random, self.agent, self.cluster = random.Random(seed), agent, cluster
        self.claims: dict[str, dict[str, Any]] = {}  # that were not ended
        self.prepared: dict[str, Any] = {}  # the answers, by UID
        self.ended: set[str] = set()
        self.boots = 1
        self.small = self.random.random() < 0.5  # so that it is slots that come to an end
        self.disk = Disk(agent.plugin, agent.folder / "disk")
        # Sanitizers want to be the first that is loaded.
        self.environment = {} if SANITIZED and agent.program == AGENT else self.disk.environment(syncs)
        agent.start(**self.environment)

    def step(self) -> None:
        steps = {self.allocate: 6, self.prepare: 10, self.unprepare: 4, self.late: 1, self.restart: 1, self.wipe: 1,
                 self.reboot: 1, self.cut_power: 1}  # fmt: skip
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
            expect(answer is None or "given away twice" in answer.error, answer and answer.error)
            return None
        told = [(device.device_name, device.share_id, list(device.cdi_device_ids)) for device in answer.devices]
        expect(self.prepared.setdefault(uid, told) == told, "another answer than before")
        return None

    def unprepare(self) -> None:
        if not self.claims:
            return
        uid = self.random.choice(list(self.claims))
        self.prepared.pop(uid, None)  # no container runs any more
        answer = self.survive(lambda: self.agent.kubelet.unprepare(self.claims[uid])[uid])
        if answer is None:
            return
        expect(not answer.error, answer.error)
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
            expect(not self.agent.kubelet.unprepare(claim)[uid].error, "a claim does not end")
            release.set()
            expect(bool(answer.result().error), "a claim that had ended was prepared by a call from before")
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
        self.agent.start(**self.environment)

    def wipe(self) -> None:
        """The CDI folder is emptied; the next prepare of each claim makes its file again."""
        for file in self.agent.cdi.iterdir():
            file.unlink()
        self.again()

    def cut_power(self) -> None:
        self.agent.kill()
        self.disk.cut(self.random)
        self.reboot()

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
            error = self.agent.kubelet.prepare_one(self.claims[uid]).error
            expect(not error, error)

    def judge(self) -> list[str]:
        boot = uuid.UUID(f"00000000-0000-4000-8000-{self.boots:012x}").bytes
        faults = node_judge.sums(self.agent, boot) + node_judge.records(self.agent, self.ended)
        for uid in self.prepared:
            faults += node_judge.of_claim(self.agent, self.claims[uid], boot)
        for uid in self.ended:
            faults += node_judge.left_of(self.agent, uid)
        return faults

    def end(self) -> None:
        for uid, claim in self.claims.items():
            expect(not self.agent.kubelet.unprepare(claim)[uid].error, "a claim does not end")
        wait_until(lambda: self.agent.shares() == [] and self.agent.cdi_files() == {})


def live(seed: int, program: Path | None = None, syncs: bool = True) -> None:
    with FakeCluster() as cluster, tempfile.TemporaryDirectory(prefix="db-") as folder:
        agent = Agent(Path(folder), cluster)
        agent.program = program or agent.program
        try:
            life = Life(seed, agent, cluster, syncs)
            for number in range(40):
                life.step()
                faults = life.judge()
                expect(faults == [], f"seed {seed}, step {number}: {faults}")
            life.end()
        finally:
            agent.close()


@pytest.mark.parametrize("seed", range(1, 13))
def test_a_life_with_kills_breaks_no_account(seed: int) -> None:
    live(seed)


# What is planted: a program without a guard line, and whether the disk syncs.
PLANTED = {
    "slots are not added up": ("planted_slots", True),
    "no mark is left of an ended claim": ("planted_tombstone", True),
    "nothing is synced": (None, False),
}


@pytest.mark.parametrize("bug", PLANTED if not SANITIZED else list(PLANTED)[:2])
def test_lives_with_kills_find_a_planted_bug(bug: str) -> None:
    program, syncs = PLANTED[bug]
    for seed in range(1, 13):
        try:
            live(seed, ROOT / "build" / "debug" / "bin" / program if program else None, syncs)
        except Broken as found:
            print(found)
            return
    pytest.fail("no life has found it")


@pytest.mark.long
@pytest.mark.parametrize("at", range(300))
def test_three_hundred_lives_with_kills_break_no_account(at: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    live(seed)
