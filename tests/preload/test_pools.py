"""Pools: memory whose size the driver tells, on whatever card it lies, or on none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import CONTEXT, Bench
from share import CHARGE_OVERHEAD, MIB
from test_holders import HEAD, START
from test_races import THREADS

LIMIT = 4000 * MIB

POOLS = {"own": "cu.must_out('cuMemPoolCreate', pool_properties(1))", "default": "cu.must_out('cuDeviceGetDefaultMemPool', 1)"}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("variant", ["", "_ptsz"])
def test_a_pool_of_another_card_than_the_streams_is_held_by_that_cards_share(bench: Bench, pool: str, variant: str) -> None:
    first, second = bench.share(CONTEXT + 32 * MIB, "a", 0), bench.share(160 * MIB, "b", 1)
    script = HEAD + START + f"""
pool = {POOLS[pool]}
def fill():
    taken = []
    while len(taken) < 20 and (got := cu.out('cuMemAllocFromPoolAsync{variant}', 32 * MIB, pool, 0))[0] == 0: taken.append(got[1])
    return taken, got[0]
taken, status = fill(); found = [len(taken), status]
for block in taken: cu.must('cuMemFreeAsync{variant}', block, 0)
cu.must('cuCtxSynchronize'); found.append(cu.free_bytes() // MIB)
print(json.dumps([*found, len(fill()[0])]))
"""
    assert bench.python(script, DRAWBRIDGE_STANDIN_DEVICES="2") == [5, 2, 32, 5]
    assert (first.slot(0)["pool"], second.slot(0)["pool"]) == (0, 160 * MIB)
    assert bench.peak(1) == 160 * MIB


def test_a_card_without_a_share_is_no_way_round_the_share_of_another(bench: Bench) -> None:
    bench.share(160 * MIB, "b", 1)
    script = HEAD + START + f"""
pool, statuses = {POOLS["default"]}, []
for n in range(7): statuses.append(cu.out('cuMemAllocFromPoolAsync', 32 * MIB, pool, 0)[0])
print(json.dumps(statuses))
"""
    assert bench.python(script, DRAWBRIDGE_STANDIN_DEVICES="2") == [0] * 5 + [2] * 2


FILLS = {
    "pool": "cu.out('cuMemAllocAsync', 32 * MIB, 0)[0]",
    "graph": "launch_another()",
    "linear": "cu.out('cuMemAlloc_v2', 32 * MIB)[0]",
}


@pytest.mark.parametrize("kind", FILLS)
@pytest.mark.parametrize("first", [CONTEXT + 96 * MIB, CONTEXT - 32 * MIB])
def test_several_shares_of_one_card_hold_no_more_together(bench: Bench, kind: str, first: int) -> None:
    """Also where the context, which nobody refuses, is more than one of them has, or either."""
    shares = [bench.share(first, "a"), bench.share(256 * MIB, "b")]
    script = HEAD + START + f"""
def launch_another():
    stream, graph, graph_exec, pointer = cu.must_out('cuStreamCreate', 0), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    cu.must('cuStreamBeginCapture_v2', stream, 2); cu.must('cuMemAllocAsync', ctypes.byref(pointer), 32 * MIB, stream); cu.must('cuStreamEndCapture', stream, ctypes.byref(graph))
    cu.must('cuGraphInstantiateWithFlags', ctypes.byref(graph_exec), graph.value, 0)
    return cu.call('cuGraphLaunch', graph_exec.value, stream)
count, room = 0, cu.free_bytes() // MIB
while count < 40 and (status := {FILLS[kind]}) == 0: count += 1
print(json.dumps([room, count, status, cu.free_bytes() // MIB]))
"""
    room = (first + 256 * MIB - CONTEXT) // MIB
    assert bench.python(script) == [room, room // 32, 2, 0]
    assert sum(sum(share.used()) for share in shares) == first + 256 * MIB
    assert bench.peak() == room * MIB


def test_a_pool_gives_back_to_every_share_that_paid_for_it(bench: Bench) -> None:
    shares = [bench.share(CONTEXT + 96 * MIB, "a"), bench.share(256 * MIB, "b")]
    script = HEAD + START + """
pool = cu.must_out('cuMemPoolCreate', pool_properties()); found = []
for count in (11, 5):
    taken = [cu.must_out('cuMemAllocFromPoolAsync', 32 * MIB, pool, 0) for _ in range(count)]
    for block in taken: cu.must('cuMemFreeAsync', block, 0)
    cu.must('cuCtxSynchronize'); found.append(held())
print(json.dumps(found))
"""
    assert bench.python(script) == [0, 0]
    assert sum(share.used()[0] for share in shares) == CONTEXT
    assert [share.slot(0)["errors"] for share in shares] == [0, 0]


SYNCHRONIZES = {
    "cuCtxSynchronize": "", "cuCtxSynchronize_v2": ", context", "cuStreamSynchronize": ", 0", "cuStreamSynchronize_ptsz": ", 0", "cuEventSynchronize": ", event",
    "cuMemFree_v2": ", other",
}  # fmt: skip


@pytest.mark.parametrize("name", SYNCHRONIZES)
def test_what_the_driver_takes_back_from_a_pool_is_there_for_other_processes(bench: Bench, name: str) -> None:
    """The program that gave it back waits for the driver, and then does nothing more."""
    bench.share(2 * CONTEXT + 600 * MIB)
    idle = HEAD + START + f"""
context, event = cu.must_out('cuCtxGetCurrent'), cu.must_out('cuEventCreate', 0)
kept, given, other = (cu.must_out('cuMemAllocAsync', size * MIB, 0) for size in (32, 256, 256))
cu.must('cuMemFreeAsync', given, 0)
if {name!r} != 'cuMemFree_v2': cu.must('cuMemFreeAsync', other, 0)
cu.must('{name}'{SYNCHRONIZES[name]}); print('ready', flush=True); sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", idle], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout and child.stdout.readline() == "ready\n"
        assert bench.python(HEAD + START + "print(cu.out('cuMemAlloc_v2', 568 * MIB)[0])") == 0
        child.communicate("\n")


# --------------------------------------------------------------------------------------------- memory that is no card's

PINNED, MANAGED = 1, 2
DEVICE, HOST, NODE, ANYWHERE = 1, 2, 3, 0
GOT = {
    "default": "cu.must_out('cuMemGetDefaultMemPool', struct.pack('<II', place, 0), type_)", "current": "cu.must_out('cuMemGetMemPool', struct.pack('<II', place, 0), type_)",
    "made": "cu.must_out('cuMemPoolCreate', struct.pack('<IIII72x', type_, 0, place, 0))",
}  # fmt: skip


@pytest.mark.parametrize("got", GOT)
@pytest.mark.parametrize(("type_", "place", "charged"), [(PINNED, DEVICE, 96), (PINNED, HOST, 0), (PINNED, NODE, 0), (MANAGED, DEVICE, 96)])
def test_a_pool_of_the_hosts_memory_is_charged_to_nobody(bench: Bench, got: str, type_: int, place: int, charged: int) -> None:
    share = bench.share(CONTEXT + 128 * MIB)
    script = HEAD + START + f"""
import struct
type_, place = {type_}, {place}
pool = {GOT[got]}
print(json.dumps([cu.out('cuMemAllocFromPoolAsync', size * MIB, pool, 0)[0] for size in (96, 200)]))
"""
    assert bench.python(script) == [0, 2 if charged else 0]
    assert share.slot(0)["pool"] == charged * MIB


@pytest.mark.parametrize("got", ["default", "made"])
@pytest.mark.parametrize(("more", "status"), [({}, 2), ({"flags": CHARGE_OVERHEAD}, 0)])
def test_a_pool_of_managed_memory_is_charged_where_managed_memory_is(bench: Bench, got: str, more: dict[str, int], status: int) -> None:
    """Without a preferred card it is the current one's."""
    bench.share(CONTEXT + 128 * MIB, **more)
    script = HEAD + START + f"""
import struct
found = []
for place in ({DEVICE}, {ANYWHERE}):
    type_ = {MANAGED}; pool = {GOT[got]}; found.append(cu.out('cuMemAllocFromPoolAsync', 200 * MIB, pool, 0)[0])
print(json.dumps(found))
"""
    assert bench.python(script) == [status] * 2


def test_a_pool_that_the_driver_is_destroying_keeps_no_other_waiting(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = THREADS + """
pool, other = (cu.must_out('cuMemPoolCreate', pool_properties()) for _ in range(2)); kept = cu.must_out('cuMemAllocFromPoolAsync', 32 * MIB, other, 0)
cu.must_out('cuMemAllocFromPoolAsync', 32 * MIB, pool, 0); cu.call('cuMemPoolDestroy', 0)
def work(): return [cu.out('cuMemAllocFromPoolAsync', 64 * MIB, other, 0)[0], held(), cu.out('cuMemAlloc_v2', 1 << 40)[0]]
found = together('cuMemPoolDestroy', lambda: cu.call('cuMemPoolDestroy', pool), work)
print(json.dumps([*found, held()]))
"""
    assert bench.python(script) == [[0, 128, 2], 0, 128]
    assert share.slot(0)["errors"] == 0


def test_a_pool_in_fragments_grows_within_one_refused_call_and_no_further(bench: Bench) -> None:
    """What that call has grown it by is free, and would be room for the next one; what is freed is of use only once its stream is there."""
    bench.share(CONTEXT + 96 * MIB)
    script = HEAD + START + """
taken = [cu.must_out('cuMemAllocAsync', 16 * MIB, 0) for n in range(6)]
for block in taken[::2]: cu.must('cuMemFreeAsync', block, 0)
cu.must('cuStreamSynchronize', 0)
found = [cu.out('cuMemAllocAsync', 32 * MIB, 0)[0] for n in range(20)]
cu.must('cuStreamSynchronize', 0)
print(json.dumps([sorted(set(found)), cu.out('cuMemAllocAsync', 16 * MIB, 0)[0], held()]))
"""
    assert bench.python(script) == [[2], 0, 96]
    assert bench.peak() == (96 + 32) * MIB
