"""Processes and their slots: what a death, a fork or another program in the same process leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CONTEXT, MARKED, TREE, Bench
from share import MIB, preloaded

LIMIT = 3000 * MIB
HEAD = f"import sys, json, os, ctypes, signal; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); "


@pytest.mark.parametrize(("left", "measured", "held"), [(300, 300, CONTEXT), (700, 700, CONTEXT), (700, 0, CONTEXT), (700, 701, 701 * MIB), (700, 200, 200 * MIB)])
def test_what_a_slots_last_process_was_measured_with_is_not_the_next_ones(bench: Bench, left: int, measured: int, held: int) -> None:
    """The agent clears it within a second; until then a program that is started anew would miss as much."""
    share = bench.share(LIMIT)
    share.set_overhead(0, left)
    script = HEAD + "cu.start(); print(cu.free_bytes(), flush=True); sys.stdin.readline(); print(json.dumps([cu.out('cuMemAlloc_v2', 2 * MIB)[0], cu.free_bytes()]), flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout and child.stdout.readline() == f"{LIMIT - CONTEXT}\n"
        assert (share.used()[0], share.slot(0)["provisional"]) == (CONTEXT, CONTEXT)
        share.set_overhead(0, measured)
        child.stdin.write("\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline()) == [0, LIMIT - held - 2 * MIB]


def test_a_process_that_begins_another_program_holds_nothing_of_the_first_one(bench: Bench) -> None:
    """Its pid and its start are the same."""
    share = bench.share(LIMIT)
    second = HEAD + "cu.start(); print(json.dumps([cu.free_bytes(), cu.out('cuMemAlloc_v2', 2000 * MIB)[0]]))"
    first = HEAD + "cu.start(); cu.must_out('cuMemAlloc_v2', 2000 * MIB); os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    assert bench.python(first, second) == [LIMIT - CONTEXT, 0]
    assert share.slot(0)["state"] == 0


@pytest.mark.parametrize("ledger", [True, False])
def test_a_process_that_begins_a_program_without_cuda_holds_nothing_for_others(bench: Bench, ledger: bool) -> None:
    """Unless all it has done is to close its descriptors."""
    share = bench.share(LIMIT)
    first = HEAD + "cu.start(); cu.must_out('cuMemAlloc_v2', 1000 * MIB); print('ready', flush=True); " + (
        "os.closerange(3, 4096); sys.stdin.readline()" if ledger else "os.execv('/bin/cat', ['cat'])")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", first], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout and child.stdout.readline() == "ready\n"
        while not ledger and Path(f"/proc/{child.pid}/cmdline").read_bytes() != b"cat\0":
            pass
        while ledger and len(list(Path(f"/proc/{child.pid}/fd").iterdir())) > 3:
            pass
        assert bench.python(HEAD + "cu.start(); print(cu.free_bytes())") == LIMIT - CONTEXT - (CONTEXT + 1000 * MIB if ledger else 0)
        assert share.slot(0)["state"] == int(ledger)
        child.communicate("\n")


@pytest.mark.parametrize("mark", ["claim_locked", "claim_cleared"])
def test_children_of_a_process_that_has_looked_have_slots_of_their_own(bench: Bench, mark: str) -> None:
    """Who asks NVML for a share opens its ledger; a lock on a slot is that of whoever opened it. One child has the lock on its
    slot, and nothing in it yet, when the next one takes its own; and both are freed when they have gone."""
    marked = Bench(bench.folder / "marked", MARKED)
    share = marked.share(LIMIT)
    script = HEAD + """
nvml = Nvml(); nvml.device_used()
def child(mark=None):
    go, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        if mark: os.environ['DRAWBRIDGE_MARK'] = mark
        os.read(go[0], 1)
        cu.start(); cu.must_out('cuMemAlloc_v2', 100 * MIB); os.write(done[1], b'1'); signal.pause()
    os.write(go[1], b'1')
    return pid, done[0]
first = child(f"{sys.argv[1]}:{signal.SIGSTOP:d}")
os.waitpid(first[0], os.WUNTRACED)
second = child(); os.read(second[1], 1)
os.kill(first[0], signal.SIGCONT); os.read(first[1], 1)
print(json.dumps([first[0], second[0]]), flush=True); sys.stdin.readline()
for pid, _ in (first, second): os.kill(pid, 9); os.waitpid(pid, 0)
print('gone', flush=True); sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", script, mark], env=marked.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin and parent.stdout
        pids = json.loads(parent.stdout.readline())
        slots = [share.slot(index) for index in range(len(share.used()))]
        assert sorted((slot["pid"], slot["linear"]) for slot in slots if slot["state"]) == sorted((pid, 100 * MIB) for pid in pids)
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "gone\n"
        assert marked.python(HEAD + "cu.start(); print(cu.free_bytes())") == LIMIT - CONTEXT
        parent.communicate("\n")


SLOW = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
int standing = -1, go = -1;
struct dirent* readdir(DIR* folder) {
    struct dirent* (*next)(DIR*) = dlsym(RTLD_NEXT, "readdir");
    struct dirent* found = next(folder);
    if (found != NULL && strncmp(found->d_name, "claim", 5) == 0 && standing >= 0) {
        char byte = 0;
        int told = standing;
        standing = -1;
        write(told, &byte, 1);
        read(go, &byte, 1);
    }
    return found;
}
"""


def test_a_child_that_is_forked_while_another_thread_opens_the_shares_has_a_share(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "slow.c").write_text(SLOW)
    slow = tmp_path / "slow.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", slow, tmp_path / "slow.c"], check=True)
    share = bench.share(LIMIT)
    script = HEAD + """
import threading
standing, go, slow = os.pipe(), os.pipe(), ctypes.CDLL(sys.argv[1])
ctypes.c_int.in_dll(slow, 'go').value = go[0]; ctypes.c_int.in_dll(slow, 'standing').value = standing[1]
thread = threading.Thread(target=lambda: Nvml().device_used()); thread.start()
os.read(standing[0], 1)
pid = os.fork()
if pid == 0:
    signal.alarm(20); cu.start(); os._exit(cu.total_bytes() // MIB != 3000)
status = os.waitpid(pid, 0)[1]
os.write(go[1], b'1'); thread.join()
print(status)
"""
    assert bench.python(script, str(slow), **preloaded(str(slow), str(bench.root.library))) == 0
    assert len(share.used()) == 1


def test_reports_follow_the_dead_on_every_card(bench: Bench) -> None:
    """Who asks for one card and then for the next sees what the dead held go on both."""
    for device in (0, 1):
        bench.share(LIMIT, f"claim-{device}", device)
    hold = HEAD + """
cu.must('cuInit', 0)
for device in (0, 1): cu.must('cuCtxSetCurrent', cu.must_out('cuDevicePrimaryCtxRetain', device)); cu.must_out('cuMemAlloc_v2', 100 * MIB)
print('ready', flush=True); sys.stdin.readline()
"""
    look = HEAD + """
cu.must('cuInit', 0); contexts = [cu.must_out('cuDevicePrimaryCtxRetain', device) for device in (0, 1)]
for line in sys.stdin:
    found = []
    for context in contexts: cu.must('cuCtxSetCurrent', context); found.append((cu.total_bytes() - cu.free_bytes()) // MIB)
    print(json.dumps(found), flush=True)
"""
    pipe, environment = subprocess.PIPE, bench.environment(DRAWBRIDGE_STANDIN_DEVICES="2")
    victim, witness = (subprocess.Popen([sys.executable, "-c", script], env=environment, stdin=pipe, stdout=pipe, text=True) for script in (hold, look))
    assert victim.stdout and victim.stdout.readline() == "ready\n"

    def ask() -> list[int]:
        assert witness.stdin and witness.stdout
        witness.stdin.write("\n")
        witness.stdin.flush()
        return list(json.loads(witness.stdout.readline()))

    assert ask() == [2 * (CONTEXT // MIB) + 100] * 2
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    found = ask()
    while found[0] != CONTEXT // MIB:  # at most ten times a second
        found = ask()
    assert ask() == [CONTEXT // MIB] * 2
    witness.communicate()


TAKES = {
    "cuMemAlloc_v2": "8 * MIB", "cuMemAllocPitch_v2": "ctypes.byref(ctypes.c_uint64()), 4096, 2048, 4", "cuMemAllocAsync": "8 * MIB, 0",
    "cuMemCreate": "8 * MIB, allocation_properties(), 0", "cuArray3DCreate_v2": "array_description(1024, 1024, 0, 0x20, 1)",
}  # fmt: skip


@pytest.mark.parametrize("name", TAKES)
def test_memory_that_the_driver_still_takes_back_from_the_dead_is_waited_for(bench: Bench, name: str) -> None:
    """Whoever finds a slot of the dead may be ahead of the driver; here a report does."""
    share = bench.share(LIMIT)
    hold = HEAD + "cu.start(); cu.must_out('cuMemAlloc_v2', 100 * MIB); print('ready', flush=True); sys.stdin.readline()"
    take = HEAD + f"""
cu.start(); {f"cu.call('{name}', 0, 0, 0, 0, 0)"}; print('ready', flush=True); sys.stdin.readline()
while cu.total_bytes() - cu.free_bytes() > {CONTEXT}: pass
cu.library.standin_fail({name.encode()!r}, 2); print(cu.out('{name}', {TAKES[name]})[0], flush=True)
"""
    pipe = subprocess.PIPE
    victim, survivor = (subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=pipe, stdout=pipe, text=True) for script in (hold, take))
    for process in (victim, survivor):
        assert process.stdout and process.stdout.readline() == "ready\n"
    victim.kill()
    victim.communicate()
    assert survivor.communicate("\n")[0] == "0\n"
    assert sum(share.slot(index)["oom_retries"] for index in range(2)) == 1
