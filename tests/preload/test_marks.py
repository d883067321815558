"""Deaths and stops at every point between two steps of the account: nobody else waits for ever, and nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import CONTEXT, MARKED, SECONDS, TREE, Bench
from share import MIB, Share

MARKS = re.findall(r"^    (\w+), +///<", (TREE / "preload" / "marks.hpp").read_text(), re.MULTILINE)
LIMIT = 5 * CONTEXT + 300 * MIB
HEAD = f"import sys; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); cu.start(); "
# Comes by every mark, that of reaping too where a dead process has left a slot.
ACTOR = HEAD + """
kept = cu.must_out('cuMemAlloc_v2', 10 * MIB)
assert cu.out('cuMemAlloc_v2', 1 << 40)[0] == 2
cu.must('cuMemFree_v2', kept); print('end', flush=True)
"""
# Answers each line: is what nobody can have refused, what is free, and can all of it be had?
WITNESS = HEAD + """
kept = cu.must_out('cuMemAlloc_v2', 10 * MIB); print('ready', flush=True)
for line in sys.stdin:
    refused = cu.out('cuMemAlloc_v2', 1 << 40)[0]
    free = cu.free_bytes()
    status, block = cu.out('cuMemAlloc_v2', free // (2 * MIB) * (2 * MIB))
    if status == 0: cu.must('cuMemFree_v2', block)
    print(refused, free, status, flush=True)
"""
CORPSE = HEAD + "cu.must_out('cuMemAlloc_v2', 50 * MIB); os.kill(os.getpid(), 9)"


def start(bench: Bench, script: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script], env=bench.environment(**more), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


def ends(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, errors = process.communicate(timeout=SECONDS)
    return process.returncode, out + errors


class Scene:
    """A share, a process that lives through everything, and a dead one that has left its slot behind."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, MARKED)
        self.share: Share = self.bench.share(LIMIT)
        self.witness = start(self.bench, WITNESS)
        assert self.witness.stdout and self.witness.stdout.readline() == "ready\n"
        self.leave_a_corpse()

    def leave_a_corpse(self) -> None:
        assert ends(start(self.bench, CORPSE))[0] == -signal.SIGKILL

    def dies_at(self, mark: str) -> None:
        assert ends(start(self.bench, ACTOR, DRAWBRIDGE_MARK=f"{mark}:9")) == (-signal.SIGKILL, ""), mark

    def stopped_at(self, mark: str) -> subprocess.Popen[str]:
        actor = start(self.bench, ACTOR, DRAWBRIDGE_MARK=f"{mark}:{signal.SIGSTOP:d}")
        state = os.waitid(os.P_PID, actor.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert state and state.si_code == os.CLD_STOPPED, (mark, ends(actor))
        return actor

    def ask(self) -> list[int]:
        assert self.witness.stdin and self.witness.stdout
        self.witness.stdin.write("\n")
        self.witness.stdin.flush()
        return [int(word) for word in self.witness.stdout.readline().split()]

    def is_whole(self, mark: str) -> None:
        """The witness has its own and can have all the rest; a newcomer gets a clean slot."""
        left = LIMIT - CONTEXT - 10 * MIB
        assert self.ask() == [2, left, 0], (mark, self.share.used())
        assert ends(start(self.bench, ACTOR)) == (0, "end\n"), mark
        assert self.ask() == [2, left, 0], (mark, self.share.used())
        used = self.share.used()
        assert (used[0], sum(used)) == (CONTEXT + 10 * MIB, CONTEXT + 10 * MIB), (mark, used)
        assert [self.share.slot(index)["in_flight"] for index in range(len(used))] == [0] * len(used)
        assert self.share.read("ledger", 20, "<I") == (0,), "others are still told to queue"

    def close(self) -> None:
        assert ends(self.witness) == (0, "")


@contextlib.contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    made = Scene(folder)
    yield made
    made.close()


@pytest.mark.parametrize("mark", MARKS)
def test_a_death_at_any_mark_leaves_the_share_whole(mark: str, tmp_path: Path) -> None:
    with scene(tmp_path) as one:
        one.dies_at(mark)
        one.is_whole(mark)


@pytest.mark.parametrize("mark", MARKS)
def test_a_stop_at_any_mark_holds_nobody_up(mark: str, tmp_path: Path) -> None:
    with scene(tmp_path) as one:
        actor = one.stopped_at(mark)
        refused, free, status = one.ask()
        charged = sum(one.share.used()) - CONTEXT - 10 * MIB
        assert (refused, free, status) == (2, LIMIT - CONTEXT - 10 * MIB - charged, 0), mark
        assert ends(start(one.bench, ACTOR)) == (0, "end\n"), mark
        actor.send_signal(signal.SIGCONT)
        assert ends(actor) == (0, "end\n"), mark
        one.is_whole(mark)


def pair(folder: Path, stopped: str, dies: str) -> None:
    with scene(folder) as one:
        actor = one.stopped_at(stopped)
        one.leave_a_corpse()
        one.dies_at(dies)
        actor.kill()
        assert ends(actor)[0] == -signal.SIGKILL
        one.is_whole(f"{stopped}, {dies}")


@pytest.mark.parametrize("mark", MARKS)
def test_two_deaths_at_the_same_mark_leave_the_share_whole(mark: str, tmp_path: Path) -> None:
    pair(tmp_path, mark, mark)


@pytest.mark.long
def test_deaths_at_every_pair_of_marks_leave_the_share_whole(tmp_path: Path) -> None:
    pairs = list(itertools.product(MARKS, repeat=2))
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda both: pair(tmp_path / "-".join(both), *both), pairs))
    assert len(done) == len(MARKS) ** 2 == 225
