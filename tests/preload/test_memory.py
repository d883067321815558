"""Memory of shares, on the stand-in: limits, kinds, processes, deaths, damage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import CONTEXT, SECONDS, TREE, Bench, card
from share import MIB, OBSERVE_ONLY, SLOT, SLOT_SIZE, SLOTS, UNLIMITED, USED

PROGRAMS = TREE / "tests" / "gpu" / "programs.py"
LIMIT = 3000 * MIB
HEAD = f"import sys, json, os, ctypes; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); "


def test_a_program_gets_its_share_to_the_last_byte_and_no_more(bench: Bench) -> None:
    share = bench.share(LIMIT)
    got = bench.python(PROGRAMS, "linear")
    assert got["small"][1] == 2 and got["full"]["free"] < 2 * MIB  # type: ignore[index]
    assert got["large"][0] + got["small"][0] == got["begin"]["free"] // (2 * MIB) * 2 * MIB  # type: ignore[index]
    assert got["full"]["total"] == got["full"]["device_total"] == LIMIT  # type: ignore[index]
    assert got["full"]["nvml_used"] == LIMIT - got["full"]["free"] == got["full"]["nvml_process"]  # type: ignore[index]
    assert (got["freed"], got["again"], got["beyond"]) == (0, 0, 2)  # type: ignore[index]
    assert got["end"] == got["begin"]  # type: ignore[index]
    slot = share.slot(0)
    assert (slot["linear"], slot["errors"], slot["in_flight"], slot["denied"]) == (0, 0, 0, 3)


def test_every_kind_is_refused_at_the_limit_and_given_back(bench: Bench) -> None:
    share = bench.share(LIMIT)
    got = bench.python(PROGRAMS, "kinds")
    for kind in ("linear", "async", "async freed by cuMemFree", "vmm", "array", "own pool"):
        taken, status, _, freed, left = got[kind]  # type: ignore[index]
        assert (status, freed) == (2, [0]), kind
        assert taken > 2500 * MIB - CONTEXT, kind
        assert left == got["begin"], kind  # type: ignore[index]
    assert got["managed"] == 2  # type: ignore[index]
    assert got["released while mapped, unmapped"] == [got["begin"] - 64 * MIB, got["begin"]]  # type: ignore[index]
    assert got["stack"] == [2, got["begin"]]  # type: ignore[index]
    slot = share.slot(0)
    assert [slot[name] for name in ("linear", "managed", "array", "vmm", "pool", "graph", "errors", "in_flight")] == [0] * 8


def test_a_mipmapped_array_has_one_level_at_least(bench: Bench) -> None:
    """The driver takes no levels for one."""
    share = bench.share(LIMIT)
    script = HEAD + "cu.start(); array = cu.must_out('cuMipmappedArrayCreate', array_description(1024, 1024, 0, 0x20, 4), 0); print(cu.call('cuMemFree_v2', 0))"
    bench.python(script)
    assert share.slot(0)["array"] == 16 * MIB


def test_the_cards_own_peak_never_passes_the_limit(bench: Bench) -> None:
    """Four processes at once, all kinds, counted inside the stand-in at every allocation."""
    bench.share(LIMIT)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: bench.python(PROGRAMS, "linear"), range(4)))
    assert 0 < bench.peak() <= LIMIT


def test_two_shares_of_two_cards_are_kept_apart_under_reordering(bench: Bench) -> None:
    bench.share(1000 * MIB, "a", 0)
    bench.share(2000 * MIB, "b", 1)
    script = HEAD + "cu.must('cuInit', 0); print(json.dumps([cu.must_out('cuDeviceTotalMem_v2', d) for d in range(2)]))"
    variables = {"DRAWBRIDGE_STANDIN_DEVICES": "2"}
    assert bench.python(script, **variables) == [1000 * MIB, 2000 * MIB]
    assert bench.python(script, CUDA_VISIBLE_DEVICES="1,0", **variables) == [2000 * MIB, 1000 * MIB]


def test_the_device_comes_from_the_call_not_from_the_current_context(bench: Bench) -> None:
    first, second = bench.share(LIMIT, "a", 0), bench.share(LIMIT, "b", 1)
    script = HEAD + ("cu.start(); s = cu.must_out('cuMemCreate', 100 * MIB, allocation_properties(1), 0); p = cu.must_out('cuMemPoolCreate', pool_properties(1));"
                     "cu.must_out('cuMemAllocFromPoolAsync', 10 * MIB, p, 0); print(1)")  # fmt: skip
    bench.python(script, DRAWBRIDGE_STANDIN_DEVICES="2")
    assert (first.slot(0)["vmm"], first.slot(0)["pool"]) == (0, 0)
    assert second.slot(0)["vmm"] == 100 * MIB


def test_several_shares_of_one_card_add_up(bench: Bench) -> None:
    bench.share(1000 * MIB, "a")
    bench.share(1500 * MIB, "b")
    script = HEAD + "cu.start(); n = 0\nwhile cu.out('cuMemAlloc_v2', 100 * MIB)[0] == 0: n += 1\nprint(json.dumps([cu.total_bytes(), n]))"
    total, blocks = bench.python(script)  # type: ignore[misc]
    assert total == 2500 * MIB
    assert blocks == (1000 * MIB - CONTEXT) // (100 * MIB) + 15


def test_a_program_that_only_looks_sees_all_shares_of_a_card(bench: Bench) -> None:
    """nvidia-smi initialises no CUDA."""
    for index in range(2):
        share = bench.share(LIMIT, f"claim-{index}")
        share.write("ledger", 16, "<I", 1)  # slots in use; the first lives, and holds something
        share.write("ledger", SLOT, "<I", 1)
        share.write("ledger", USED, "<Q", 100 * MIB)
    got = bench.python(HEAD + "nvml = Nvml(); info = (ctypes.c_uint64 * 3)(); nvml.library.nvmlDeviceGetMemoryInfo(nvml.device, info); print(json.dumps(list(info)))")
    assert got == [2 * LIMIT, 2 * LIMIT - 200 * MIB, 200 * MIB]


def test_who_takes_a_slot_opens_the_ledger_however_long_he_has_had_it(bench: Bench) -> None:
    """It is what the agent wakes from. NVML opens the share too, and takes none."""
    share = bench.share(LIMIT)
    script = HEAD + f"""
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, {str(share.folder / "ledger").encode()!r}, 0x20) > 0  # IN_OPEN
def opened():
    try:
        return len(os.read(watch, 4096)) > 0
    except BlockingIOError:
        return False
nvml = Nvml()
nvml.library.nvmlDeviceGetMemoryInfo(nvml.device, (ctypes.c_uint64 * 3)())
told = [opened(), opened()]
cu.start()
print(json.dumps([*told, opened()]))"""
    assert bench.python(script) == [True, False, True]
    assert share.slot(0)["state"] == 1


def test_a_card_without_a_share_is_left_alone(bench: Bench) -> None:
    bench.share(1000 * MIB, "a", 0)
    script = HEAD + "cu.must('cuInit', 0); print(json.dumps([cu.must_out('cuDeviceTotalMem_v2', d) for d in range(2)]))"
    assert bench.python(script, DRAWBRIDGE_STANDIN_DEVICES="2") == [1000 * MIB, 150109880320]


def test_a_changed_limit_is_obeyed_by_the_next_call(bench: Bench) -> None:
    share = bench.share(1000 * MIB)
    script = HEAD + ("cu.start(); a = cu.out('cuMemAlloc_v2', 300 * MIB); print('ready', flush=True); sys.stdin.readline(); b = cu.out('cuMemAlloc_v2', 300 * MIB); i = cu.free_bytes();"
                     "print('set', flush=True); sys.stdin.readline(); c = cu.out('cuMemAlloc_v2', MIB); print(json.dumps([a[0], b[0], i, c[0], cu.free_bytes(), cu.total_bytes()]), flush=True)")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout
        assert child.stdout.readline() == "ready\n"
        share.set_memory(2000 * MIB)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "set\n"
        share.set_memory(900 * MIB)
        child.stdin.write("\n")
        child.stdin.flush()
        got = json.loads(child.stdout.readline())
    assert got == [0, 0, 2000 * MIB - 600 * MIB - CONTEXT, 2, 0, 900 * MIB]


def test_the_agents_measure_takes_the_place_of_the_assumed_overhead(bench: Bench) -> None:
    share = bench.share(3000 * MIB)
    script = HEAD + "cu.start(); a = cu.free_bytes(); print('ready', flush=True); sys.stdin.readline(); cu.out('cuMemAlloc_v2', 2 * MIB); print(json.dumps([a, cu.free_bytes()]), flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout
        assert child.stdout.readline() == "ready\n"
        share.set_overhead(0, 700)
        child.stdin.write("\n")
        child.stdin.flush()
        before, after = json.loads(child.stdout.readline())
    assert before == 3000 * MIB - CONTEXT
    assert after == 3000 * MIB - 700 * MIB - 2 * MIB
    assert share.slot(0)["provisional"] == 0


def test_a_context_made_after_a_measure_comes_on_top_of_it(bench: Bench) -> None:
    share = bench.share(3000 * MIB)
    script = HEAD + ("cu.start(); print('ready', flush=True); sys.stdin.readline(); cu.must('cuMemFree_v2', cu.must_out('cuMemAlloc_v2', 2 * MIB)); a = cu.free_bytes();"
                     "c = cu.must_out('cuCtxCreate_v2', 0, 0); b = cu.free_bytes(); print(json.dumps([a, b]), flush=True); sys.stdin.readline(); cu.out('cuMemAlloc_v2', 2 * MIB); print(cu.free_bytes(), flush=True)")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout and child.stdout.readline() == "ready\n"
        share.set_overhead(0, 600)
        child.stdin.write("\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline()) == [2400 * MIB, 2400 * MIB - CONTEXT]
        share.set_overhead(0, 1100)
        child.stdin.write("\n")
        child.stdin.flush()
        assert int(child.stdout.readline()) == 1898 * MIB
    assert (share.slot(0)["provisional"], share.slot(0)["errors"]) == (0, 0)


def test_observing_only_counts_and_refuses_nothing(bench: Bench) -> None:
    share = bench.share(100 * MIB, flags=OBSERVE_ONLY)
    assert bench.python(HEAD + "cu.start(); print(json.dumps(cu.out('cuMemAlloc_v2', 500 * MIB)[0]))") == 0
    assert share.slot(0)["linear"] == 500 * MIB


def test_unlimited_memory_still_counts(bench: Bench) -> None:
    share = bench.share(UNLIMITED)
    got = bench.python(HEAD + "cu.start(); cu.must_out('cuMemAlloc_v2', 500 * MIB); print(json.dumps([cu.total_bytes(), cu.free_bytes()]))")
    assert got == [150109880320, 149557477376 - 500 * MIB]
    assert share.used() == [500 * MIB + CONTEXT]


# ------------------------------------------------------------------------------------------- processes and deaths


def test_a_killed_process_leaves_nothing_behind(bench: Bench) -> None:
    share = bench.share(LIMIT)
    for _ in range(20):
        with subprocess.Popen([sys.executable, str(PROGRAMS), "hold"], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout
            assert json.loads(child.stdout.readline())["taken"] == (LIMIT - CONTEXT) // (256 * MIB) * 256 * MIB
            child.send_signal(signal.SIGKILL)
    assert len(share.used()) <= 2


def test_a_survivor_gets_what_the_dead_held(bench: Bench) -> None:
    bench.share(LIMIT)
    victim = subprocess.Popen([sys.executable, str(PROGRAMS), "hold"], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert victim.stdout and victim.stdin
    victim.stdout.readline()
    script = HEAD + "cu.start(); print(cu.out('cuMemAlloc_v2', 1000 * MIB)[0], flush=True); sys.stdin.readline(); print(cu.out('cuMemAlloc_v2', 1000 * MIB)[0], flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as survivor:
        assert survivor.stdin and survivor.stdout
        assert survivor.stdout.readline() == "2\n"
        victim.kill()
        victim.wait()
        survivor.stdin.write("\n")
        survivor.stdin.flush()
        assert survivor.stdout.readline() == "0\n"
    victim.stdin.close()
    victim.stdout.close()


def test_a_forked_child_holds_no_slot_of_its_parent(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + """
cu.start(); p = cu.must_out('cuMemAlloc_v2', 100 * MIB)
pid = os.fork()
if pid == 0:
    statuses = [cu.call('cuMemFree_v2', p), cu.out('cuMemAlloc_v2', MIB)[0], cu.call('cuInit', 0)]
    os._exit(0 if statuses == [3, 3, 3] else 1)
status = os.waitpid(pid, 0)[1]
print(json.dumps([status, cu.call('cuMemFree_v2', p), cu.out('cuMemAlloc_v2', MIB)[0]]))
"""
    assert bench.python(script) == [0, 0, 0]
    assert share.slot(0)["linear"] == MIB


def test_children_forked_before_cuda_have_slots_of_their_own(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + """
pids = []
for n in range(8):
    pid = os.fork()
    if pid == 0:
        cu.start(); cu.must_out('cuMemAlloc_v2', 10 * MIB); os._exit(0)
    pids.append(pid)
print(json.dumps([os.waitpid(pid, 0)[1] for pid in pids]))
"""
    # A context for each of eight processes is more than the share has; contexts are never refused, blocks are.
    assert set(bench.python(script)) <= {0, 256}  # type: ignore[arg-type]
    assert share.read("ledger", 16, "<I")[0] >= 1


def test_a_program_that_closes_every_descriptor_keeps_its_slot(bench: Bench) -> None:
    bench.share(LIMIT)
    script = HEAD + """
cu.start(); p = cu.must_out('cuMemAlloc_v2', 1000 * MIB); os.closerange(3, 4096)
print('ready', flush=True); sys.stdin.readline()
print(json.dumps([cu.out('cuMemAlloc_v2', 4000 * MIB)[0], cu.free_bytes()]), flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout
        assert child.stdout.readline() == "ready\n"
        other = bench.python(HEAD + "cu.start(); print(json.dumps(cu.free_bytes()))")
        assert other == LIMIT - 2 * CONTEXT - 1000 * MIB
        child.stdin.write("\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline())[0] == 2


@pytest.mark.parametrize("count", [50, pytest.param(300, marks=pytest.mark.long)])
def test_many_processes_start_at_once(bench: Bench, count: int) -> None:
    share = bench.share(UNLIMITED)
    script = HEAD + "cu.must('cuInit', 0); print('ready', flush=True); sys.stdin.readline()"
    children = [subprocess.Popen([sys.executable, "-c", script], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for child in children:
            assert child.stdout and child.stdout.readline() == b"ready\n"
        pids = [share.slot(index)["pid"] for index in range(share.read("ledger", 16, "<I")[0]) if share.slot(index)["state"] == 1]
        assert sorted(pids) == sorted(child.pid for child in children)
    finally:
        for child in children:
            child.communicate(b"\n", timeout=SECONDS)


def test_when_all_slots_are_held_a_process_is_refused_until_one_is_free(bench: Bench) -> None:
    share = bench.share(UNLIMITED)
    share.write("ledger", 16, "<I", SLOTS)
    for index in range(SLOTS - 1):  # live, of a pid namespace that is not this one: nobody here can know better
        share.write("ledger", SLOT + SLOT_SIZE * index, "<IIQQ", 1, 1, 1, 1)
    script = HEAD + "print(cu.call('cuInit', 0), flush=True); sys.stdin.readline()"
    command, pipe = [sys.executable, "-c", script], subprocess.PIPE
    with subprocess.Popen(command, env=bench.environment(), stdin=pipe, stdout=pipe, text=True) as last:
        assert last.stdin and last.stdout and last.stdout.readline() == "0\n"
        refused = bench.run(command)
        assert refused.stdout == "800\n" and refused.stderr.count("\n") == 1
        assert "ledger: all slots are held by running processes" in refused.stderr
        last.communicate("\n", timeout=SECONDS)
    assert bench.run(command).stdout == "0\n"


# ------------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize(("file", "place", "form", "value", "word"), [
    ("limits", 0, "<Q", 1, "magic"), ("limits", 8, "<H", 2, "version"), ("limits", 12, "<I", 5, "size"), ("limits", 40, "<Q", 1, "boot"),
    ("limits", 16, "<Q", 3, "without end"), ("ledger", 0, "<Q", 1, "magic"), ("ledger", 8, "<H", 9, "version"), ("ledger", 12, "<I", 0, "size"),
])  # fmt: skip
def test_damage_refuses_cuinit_with_one_clear_line(bench: Bench, file: str, place: int, form: str, value: int, word: str) -> None:
    share = bench.share(LIMIT)
    share.write(file, place, form, value)
    done = bench.run([sys.executable, "-c", HEAD + "print([cu.call('cuInit', 0), cu.call('cuInit', 0)])"])
    assert done.stdout == "[800, 800]\n"
    assert done.stderr.count("\n") == 1 and file in done.stderr and word in done.stderr, done.stderr


@pytest.mark.parametrize("case", ["no limits", "no ledger", "short ledger", "no share", "seventeen shares"])
def test_what_is_missing_refuses_cuinit(bench: Bench, case: str) -> None:
    if case == "seventeen shares":
        for index in range(17):
            bench.share(LIMIT, f"claim-{index}")
    elif case != "no share":
        share = bench.share(LIMIT)
        if case == "short ledger":
            os.truncate(share.folder / "ledger", 4096)
        else:
            (share.folder / case.split()[1]).unlink()
    done = bench.run([sys.executable, "-c", HEAD + "print(cu.call('cuInit', 0))"])
    assert (done.stdout, done.stderr.count("\n")) == ("800\n", 1), done


def test_every_byte_of_both_heads_flipped_is_refused_or_harmless(bench: Bench) -> None:
    """Never a crash: cuInit answers 0 or 800."""
    share = bench.share(LIMIT)
    script = HEAD + """
import mmap
path = sys.argv[1]
statuses = {}
for name in ('limits', 'ledger'):
    for place in range(0, 200):
        with open(f'{path}/{name}', 'r+b') as f:
            was = os.pread(f.fileno(), 1, place); os.pwrite(f.fileno(), bytes([was[0] ^ 0xff]), place)
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open('/dev/null', os.O_WRONLY), 2)
                os._exit({0: 0, 800: 8}.get(cu.call('cuInit', 0), 9))
            statuses.setdefault(os.waitpid(pid, 0)[1], []).append((name, place))
            os.pwrite(f.fileno(), was, place)
print(json.dumps({str(k): len(v) for k, v in statuses.items()}))
"""
    got = bench.python(script, str(share.folder))
    assert set(got) <= {"0", str(8 << 8)} and got[str(8 << 8)] >= 32, got  # type: ignore[arg-type, index]


def test_a_word_written_by_another_tenant_is_believed_until_its_slot_is_reaped(bench: Bench) -> None:
    share = bench.share(LIMIT)
    share.write("ledger", 16, "<I", 4)
    share.write("ledger", USED + 8 * 3, "<Q", UNLIMITED)
    share.write("ledger", SLOT + SLOT_SIZE * 3, "<II", 1, 1)
    got = bench.python(HEAD + "cu.start(); print(json.dumps([cu.out('cuMemAlloc_v2', MIB)[0], cu.free_bytes()]))")
    assert got == [2, 0]


def test_the_ledger_is_never_written_by_a_process_that_only_looks(bench: Bench) -> None:
    share = bench.share(LIMIT)
    before = (share.folder / "ledger").read_bytes()
    got = bench.python(HEAD + "n = Nvml(); print(json.dumps([n.device_used(), n.process_used()]))")
    assert got == [0, -1]
    assert (share.folder / "ledger").read_bytes() == before


def test_the_page_of_limits_is_not_writable_for_who_reads_it(bench: Bench, tmp_path: Path) -> None:
    bench.share(LIMIT)
    script = HEAD + "cu.must('cuInit', 0); print(json.dumps([l.split()[1] for l in open('/proc/self/maps') if l.rstrip().endswith('/limits')]))"
    assert bench.python(script) == ["r--s"]
    assert card(0) != card(1) and tmp_path.exists()
