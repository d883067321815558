"""Random sequences over all kinds of memory against a model, and kills at random moments."""

from __future__ import annotations

import random
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import CONTEXT, HERE, SECONDS, TREE, Bench, is_older_than
from share import MIB, Share

LIMIT = CONTEXT + 1000 * MIB
HEAD = f"import sys, json, os, random; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); "
CHURN = HEAD + """
cu.start(); r = random.Random(int(sys.argv[1])); held = []; print('ready', flush=True)
sys.stdin.readline()
while True:
    status, pointer = cu.out('cuMemAlloc_v2', r.choice([4096, MIB, 5 * MIB, 40 * MIB]))
    if status == 0: held.append(pointer)
    if held and (status != 0 or r.random() < 0.5): cu.must('cuMemFree_v2', held.pop(r.randrange(len(held))))
"""


def walk(bench: Bench, share: Share, seed: int, steps: int) -> list[object]:
    return bench.python(HERE / "walk.py", str(seed), str(steps), str(share.folder / "ledger"), str(LIMIT), str(CONTEXT))  # type: ignore[return-value]


def run_walks(bench: Bench, seeds: range, steps: int) -> None:
    benches = [Bench(bench.folder / str(seed)) for seed in seeds]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda pair: walk(pair[1], pair[1].share(LIMIT), pair[0], steps), zip(seeds, benches, strict=True)))
    for (done, denials, counts), one in zip(found, benches, strict=True):
        assert done == steps and denials > steps // 200, (done, denials)  # type: ignore[operator]
        assert len(counts) == (18 if is_older_than(12, 1) else 22)  # type: ignore[arg-type]  # since then multicast objects
        # The blocks of small allocations lie in pages of 2 MiB: the card may hold some more than is charged. A pool that
        # is full of fragments may grow by what was asked for, within the call that is then refused.
        assert one.peak() <= LIMIT - CONTEXT + (64 + 128) * MIB


def test_random_sequences_agree_with_the_model(bench: Bench) -> None:
    run_walks(bench, range(4), 2500)


@pytest.mark.long
def test_a_million_random_steps_agree_with_the_model(bench: Bench) -> None:
    run_walks(bench, range(100, 140), 25000)


def storm(bench: Bench, kills: int) -> None:
    """Workers are killed at random moments; one survivor goes on, and in the end the ledger is what it holds."""
    share = bench.share(4 * CONTEXT + 500 * MIB)
    chance = random.Random(3)
    survivor = subprocess.Popen([sys.executable, "-c", HEAD + "cu.start(); kept = cu.must_out('cuMemAlloc_v2', 10 * MIB); print('ready', flush=True)\nfor line in sys.stdin: print(cu.out('cuMemAlloc_v2', 1 << 40)[0], cu.free_bytes(), flush=True)"],
                                env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert survivor.stdin and survivor.stdout

    def ask() -> list[str]:
        survivor.stdin.write("\n")  # type: ignore[union-attr]
        survivor.stdin.flush()  # type: ignore[union-attr]
        return survivor.stdout.readline().split()  # type: ignore[union-attr]

    assert survivor.stdout.readline() == "ready\n"
    workers: list[subprocess.Popen[bytes]] = []
    for number in range(kills):
        workers.append(subprocess.Popen([sys.executable, "-c", CHURN, str(number)], env=bench.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        assert workers[-1].stdout and workers[-1].stdout.readline() == b"ready\n"
        select.select([], [], [], chance.random() / 50)
        if len(workers) > 2 or chance.random() < 0.5:
            victim = workers.pop(chance.randrange(len(workers)))
            victim.kill()
            victim.communicate()
        assert ask()[0] == "2"
    for victim in workers:
        victim.kill()
        victim.communicate()
    status, free = ask()
    survivor.communicate()
    assert (status, int(free)) == ("2", 3 * CONTEXT + 490 * MIB), share.used()


def test_kills_at_random_moments_leave_no_drift(bench: Bench) -> None:
    storm(bench, 25)


@pytest.mark.long
def test_a_thousand_kills_leave_no_drift(bench: Bench) -> None:
    storm(bench, 1000)


def test_many_processes_near_the_limit_never_overshoot(bench: Bench) -> None:
    """Eight processes churn at once; the stand-in counts the peak at every allocation."""
    share = bench.share(8 * CONTEXT + 300 * MIB)
    # Blocks of over 1 MiB: the pages of small ones may stay half full, which the card counts whole and nobody can bound.
    script = CHURN.replace("while True:", "for _ in range(2000):") + "\nprint('done', flush=True); sys.stdin.readline()"
    script = script.replace("[4096, MIB, 5 * MIB, 40 * MIB]", "[2 * MIB, 5 * MIB, 40 * MIB]")
    assert "4096" not in script
    children = [subprocess.Popen([sys.executable, "-c", script, str(seed)], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) for seed in range(8)]
    for child in children:  # every context is there before the first block is
        assert child.stdout and child.stdout.readline() == b"ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write(b"\n")
        child.stdin.flush()
    assert [child.stdout.readline() for child in children if child.stdout] == [b"done\n"] * 8
    for child in children:  # and every context is there until the last block is gone
        child.communicate(b"\n", timeout=SECONDS)
    assert 280 * MIB < bench.peak() <= 300 * MIB
    assert [share.slot(index)["errors"] for index in range(8)] == [0] * 8


def test_threads_of_one_process_leave_no_drift(bench: Bench) -> None:
    """Four threads churn through all kinds at the limit; afterwards the ledger holds the context alone."""
    share = bench.share(LIMIT)
    script = HEAD + """
import threading
cu.start(); context = cu.must_out('cuDevicePrimaryCtxRetain', 0); wrong = []
def churn(seed):
    r = random.Random(seed); cu.must('cuCtxSetCurrent', context); held = []
    kinds = [(lambda n: cu.out('cuMemAlloc_v2', n), lambda p: cu.call('cuMemFree_v2', p)),
             (lambda n: cu.out('cuMemAllocAsync', n, 0), lambda p: cu.call('cuMemFreeAsync', p, 0)),
             (lambda n: cu.out('cuMemCreate', 20 * MIB, allocation_properties(), 0), lambda h: cu.call('cuMemRelease', h)),
             (lambda n: cu.out('cuArray3DCreate_v2', array_description(1024, 1024, 0, 0x20, 1)), lambda a: cu.call('cuArrayDestroy', a))]
    for _ in range(3000):
        make, free = r.choice(kinds)
        status, key = make(r.choice([512, MIB, 30 * MIB, 90 * MIB]))
        if status == 0: held.append((free, key))
        elif status != 2: wrong.append(status)
        if held and (status != 0 or r.random() < 0.5):
            free, key = held.pop(r.randrange(len(held)))
            wrong.extend([s] if (s := free(key)) else [])
    for free, key in held: wrong.extend([s] if (s := free(key)) else [])
threads = [threading.Thread(target=churn, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
cu.must('cuCtxSynchronize'); cu.call('cuMemPoolTrimTo', cu.must_out('cuDeviceGetDefaultMemPool', 0), 0)
print(json.dumps([sorted(set(wrong)), cu.total_bytes() - cu.free_bytes()]))
"""
    assert bench.python(script) == [[], CONTEXT]
    slot = share.slot(0)
    assert slot["denied"] > 0 and [slot[name] for name in ("linear", "array", "vmm", "pool", "in_flight", "errors")] == [0] * 6


@pytest.mark.parametrize("permille", [1000, 500])
def test_threads_that_begin_at_once_are_one_process(permille: int, bench: Bench, tmp_path: Path) -> None:
    """Nobody has found the driver, opened a share or taken a slot before them; some launches wait."""
    share = bench.share(CONTEXT + 4000 * MIB, permille=permille)
    share.write("limits", 148, "<I", 1)  # force
    program = tmp_path / "threads"
    subprocess.run(["gcc", "-w", "-pthread", "-o", program, HERE / "programs" / "threads.c"], check=True)
    done = bench.run([str(program)])
    assert (done.returncode, done.stdout) == (0, "0\n"), done
    assert len(share.used()) == 1
    slot = share.slot(0)
    assert slot["denied"] == 8 * 300 and [slot[name] for name in ("linear", "vmm", "in_flight", "errors")] == [0] * 4


def test_what_fits_for_all_is_never_denied_to_one(bench: Bench) -> None:
    """Eight processes that together stay under the limit race for it; none may be refused."""
    share = bench.share(8 * CONTEXT + 8 * 40 * MIB)
    script = HEAD + """
cu.start(); print('ready', flush=True); sys.stdin.readline(); denied = 0
for n in range(4000):
    status, pointer = cu.out('cuMemAlloc_v2', 40 * MIB)
    denied += status != 0
    if status == 0: cu.must('cuMemFree_v2', pointer)
print(denied, flush=True); sys.stdin.readline()
"""
    children = [subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(8)]
    for child in children:
        assert child.stdout and child.stdout.readline() == b"ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write(b"\n")
        child.stdin.flush()
    assert [child.stdout.readline() for child in children if child.stdout] == [b"0\n"] * 8
    for child in children:
        child.communicate(b"\n", timeout=SECONDS)
    assert sum(share.slot(index)["denied"] for index in range(8)) == 0
