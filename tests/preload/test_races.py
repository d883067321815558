"""Threads that meet inside the driver: one stands in a call, before the driver's work or after it, while another goes on. No
program waits for another's call that the driver alone would not let it wait for, and the account is right whoever comes first."""

from __future__ import annotations

import pytest
from conftest import CONTEXT, Bench
from share import MIB
from test_holders import HEAD, START

LIMIT = 4000 * MIB
THREADS = HEAD + """
for name in ('calls', 'stop', 'stands', 'go'): getattr(cu.library, 'standin_' + name).restype = ctypes.c_ulong
def together(name, first, then, after=False):
    '''Runs `then` while `first`, in a thread of its own, stands in a call of the driver; what the two say, None for one that waits for the other.'''
    answers = [None, None]
    def run(index, work):
        cu.must('cuCtxSetCurrent', context)
        answers[index] = work()
    threads = [threading.Thread(target=run, args=(index, work), daemon=True) for index, work in enumerate((first, then))]
    if not cu.library.standin_calls(name.encode()): cu.call(name, 0)
    assert cu.library.standin_stop(name.encode(), int(after)) == 1
    threads[0].start()
    while not cu.library.standin_stands(name.encode()): os.sched_yield()
    threads[1].start(); threads[1].join(20)
    met = list(answers)
    cu.library.standin_go(name.encode())
    for thread in threads: thread.join()
    assert met[0] is None
    return [met[1], answers[0]]
""" + START + "context = cu.must_out('cuCtxGetCurrent')\n"


# A kernel that waits for what another thread does next keeps such a call waiting in the driver, and with it whoever waits for it here.
WAITS = {
    "cuMemUnmap": "lambda: cu.call('cuMemUnmap', view, 8 * MIB)",
    "cuMemRelease": "lambda: cu.call('cuMemRelease', handle)",
    "cuMulticastUnbind": "lambda: cu.call('cuMulticastUnbind', object, 0, 0, 8 * MIB)",
    "cuMemRetainAllocationHandle": "lambda: cu.out('cuMemRetainAllocationHandle', view)[0]",
}


@pytest.mark.parametrize("name", WAITS)
def test_what_one_thread_does_with_physical_memory_keeps_no_other_waiting(bench: Bench, name: str) -> None:
    share = bench.share(LIMIT)
    script = THREADS + f"""
handle, other, object = memory(8), memory(8), team(64, 0); view, place_ = mapped(handle, 8), place(16)
cu.must('cuMulticastBindMem', object, 0, handle, 0, 8 * MIB, 0)
cu.must('cuMemRelease', cu.must_out('cuMemRetainAllocationHandle', view)); cu.call('cuMulticastUnbind', object, 0, 32 * MIB, 8 * MIB); cu.call('cuMemUnmap', place_, 8 * MIB)
def work():
    fresh = memory(8)
    cu.must('cuMemMap', place_, 8 * MIB, 0, fresh, 0); cu.must('cuMulticastBindMem', object, 16 * MIB, other, 0, 8 * MIB, 0)
    cu.must('cuMulticastUnbind', object, 0, 16 * MIB, 8 * MIB); cu.must('cuMemUnmap', place_, 8 * MIB); cu.must('cuMemRelease', fresh)
    return held()
found = together({name!r}, {WAITS[name]}, work)
for call in (('cuMemUnmap', view, 8 * MIB), ('cuMulticastUnbind', object, 0, 0, 8 * MIB), ('cuMemRelease', handle)):
    if call[0] != {name!r}: cu.must(*call)
for last in (other, object, *([handle] if 'Retain' in {name!r} else [])): cu.must('cuMemRelease', last)
print(json.dumps([*found, held()]))
"""
    assert bench.python(script) == [16, 0, 0]
    assert [share.slot(0)[key] for key in ("vmm", "errors", "unknown_handles")] == [0, 0, 0]


GRAPH = """
stream, graph, graph_exec, pointer = cu.must_out('cuStreamCreate', 0), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
cu.must('cuStreamBeginCapture_v2', stream, 2)
cu.must('cuMemAllocAsync', ctypes.byref(pointer), 64 * MIB, stream); cu.must('cuMemFreeAsync', pointer.value, stream)
cu.must('cuStreamEndCapture', stream, ctypes.byref(graph))
cu.must('cuGraphInstantiateWithFlags', ctypes.byref(graph_exec), graph.value, 0); cu.free_bytes()
def launch(): return cu.call('cuGraphLaunch', graph_exec.value, stream)
def trim(): return cu.call('cuDeviceGraphMemTrim', 0)
"""


def test_graph_memory_is_what_the_driver_said_last(bench: Bench) -> None:
    """Who asks the driver before a launch and comes back after it has an old figure."""
    share = bench.share(LIMIT)
    bench.python(THREADS + GRAPH + "print(json.dumps(together('cuDeviceGetGraphMemAttribute', cu.free_bytes, launch, after=True)))")
    assert (share.slot(0)["graph"], share.used()) == (64 * MIB, [CONTEXT + 64 * MIB])


def test_a_launch_during_a_trim_counts_on_no_memory_that_the_trim_takes(bench: Bench) -> None:
    bench.share(CONTEXT + 64 * MIB)
    script = THREADS + GRAPH + """
def fill_and_launch(): return [cu.free_bytes() // MIB, cu.out('cuMemAlloc_v2', 64 * MIB)[0], launch()]
print(json.dumps([launch(), trim(), launch(), together('cuDeviceGraphMemTrim', trim, fill_and_launch, after=True)]))
"""
    assert bench.python(script) == [0, 0, 0, [[64, 0, 2], 0]]
    assert bench.peak() == 64 * MIB


def test_no_pool_is_trimmed_that_another_thread_has_destroyed(bench: Bench) -> None:
    """Who needs room trims the pools of the process. The real driver may not survive the handle of a pool that is gone."""
    bench.share(CONTEXT + 64 * MIB)
    script = THREADS + """
dead = cu.library.standin_calls
pool = cu.must_out('cuMemPoolCreate', pool_properties()); cu.must('cuMemPoolTrimTo', pool, 0)
answers = []
def destroy(): answers.append(cu.call('cuMemPoolDestroy', pool))
def destroy_by_another(): threading.Thread(target=destroy, daemon=True).start()
found = together('cuMemPoolTrimTo', lambda: cu.out('cuMemAlloc_v2', 65 * MIB)[0], destroy_by_another)
while not answers: os.sched_yield()
print(json.dumps([*found, *answers, dead(b'a pool that is gone')]))
"""
    assert bench.python(script) == [None, 2, 0, 0]


def test_an_address_that_comes_again_before_its_context_is_gone_for_all_is_anothers(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = THREADS + """
second = cu.must_out('cuCtxCreate_v2', 0, 0); pointer = cu.must_out('cuMemAlloc_v2', 64 * MIB); cu.must('cuCtxSetCurrent', context)
again = together('cuCtxDestroy_v2', lambda: cu.call('cuCtxDestroy_v2', second), lambda: cu.must_out('cuMemAlloc_v2', 64 * MIB), after=True)
found = [again[0] == pointer, held()]
cu.must('cuMemFree_v2', pointer); print(json.dumps([*found, held()]))
"""
    assert bench.python(script) == [True, 64, 0]
    assert [share.slot(0)[key] for key in ("linear", "errors")] == [0, 0]


def test_a_context_of_the_handle_of_one_that_goes_is_another(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = THREADS + """
second = cu.must_out('cuCtxCreate_v2', 0, 0); cu.must_out('cuMemAlloc_v2', 64 * MIB); cu.must('cuCtxSetCurrent', context)
def make(): return cu.must_out('cuCtxCreate_v2', 0, 0), cu.must_out('cuMemAlloc_v2', 32 * MIB)
again = together('cuCtxDestroy_v2', lambda: cu.call('cuCtxDestroy_v2', second), make, after=True)
found = [again[0][0] == second, held()]
cu.must('cuCtxDestroy_v2', second); print(json.dumps([*found, held()]))
"""
    assert bench.python(script) == [True, CONTEXT // MIB + 32, 0]
    assert [share.slot(0)[key] for key in ("linear", "errors")] == [0, 0]


@pytest.mark.parametrize("stop", ["cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxGetState"])
def test_a_primary_context_that_is_retained_again_meanwhile_is_charged(bench: Bench, stop: str) -> None:
    """Where the one thread has released it, and before that one knows that it was the last."""
    share = bench.share(LIMIT)
    script = THREADS + f"""
cu.call('cuDevicePrimaryCtxGetState', 0, (ctypes.c_uint32 * 1)(), (ctypes.c_int * 1)())
cu.must_out('cuDevicePrimaryCtxRetain', 0); cu.must('cuDevicePrimaryCtxRelease_v2', 0)
pointer = cu.must_out('cuMemAlloc_v2', 64 * MIB)
def retain():
    cu.must('cuCtxSetCurrent', cu.must_out('cuDevicePrimaryCtxRetain', 0))
    return cu.must_out('cuMemAlloc_v2', 64 * MIB)
again = together({stop!r}, lambda: cu.call('cuDevicePrimaryCtxRelease_v2', 0), retain, after=True)
print(json.dumps(again[0] == pointer))
"""
    assert bench.python(script) is True
    assert share.used() == [CONTEXT + 64 * MIB]
    assert [share.slot(0)[key] for key in ("linear", "provisional", "errors")] == [64 * MIB, CONTEXT, 0]


FAILING = THREADS + """
import struct
cu.library.standin_fail.restype = ctypes.c_ulong
ledger = os.open(sys.argv[1], os.O_RDONLY)
figures = [(ctypes.c_uint64 * 1)() for _ in range(2)]
def charged(): return [*struct.unpack('<Q', os.pread(ledger, 8, 4096)), *struct.unpack('<7Q', os.pread(ledger, 56, 4096 + 8192 + 40))]
def once_failing(name, *arguments):  # the driver first refuses, which changes nothing, and then grants
    if not cu.library.standin_calls(name.encode()): cu.call(name, *([99 if 'Primary' in name else 0] * len(arguments)))
    cu.call('cuMemGetInfo_v2', *figures)  # pools are looked at
    before = charged()
    assert cu.library.standin_fail(name.encode(), 999) == 1, name
    assert (cu.call(name, *arguments), charged()) == (999, before), name
    cu.must(name, *arguments)
def made(name, *arguments):
    value = ctypes.c_uint64()
    once_failing(name, ctypes.byref(value), *arguments)
    return value.value
zero = charged()
"""


def test_what_the_driver_refuses_at_any_step_changes_nothing(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = FAILING + """
second = made('cuCtxCreate_v2', 0, 0)
one, two = made('cuMemAlloc_v2', 64 * MIB), made('cuMemAllocManaged', 8 * MIB, 1)
plain = made('cuArray3DCreate_v2', array_description(1024, 1024, 0, 0x20, 1)); sparse = made('cuArray3DCreate_v2', array_description(512, 512, 0, 0x20, 1, SPARSE))
handle = made('cuMemCreate', 8 * MIB, allocation_properties(0, 1, usage=1), 0); view = place(8)
once_failing('cuMemMap', view, 8 * MIB, 0, handle, 0)
again = made('cuMemRetainAllocationHandle', view)
object = made('cuMulticastCreate', multicast_properties(1, 64 * MIB)); cu.must('cuMulticastAddDevice', object, 0)
once_failing('cuMulticastBindMem', object, 0, handle, 0, 8 * MIB, 0); once_failing('cuMulticastBindAddr', object, 16 * MIB, view, 8 * MIB, 0)
once_failing('cuMemMapArrayAsync', tiles(MAP, sparse, (0, 0, 0, 256, 256, 1), handle), 1, 0)
for reference in (handle, again): once_failing('cuMemRelease', reference)
once_failing('cuMemUnmap', view, 8 * MIB)
for at in (0, 16): once_failing('cuMulticastUnbind', object, 0, at * MIB, 8 * MIB)
with_tiles = charged()[4]; once_failing('cuArrayDestroy', sparse); found = [again == handle, with_tiles // MIB, charged()[4]]
once_failing('cuMemRelease', object); once_failing('cuArrayDestroy', plain)
pool = made('cuMemPoolCreate', pool_properties()); four, five = made('cuMemAllocFromPoolAsync', 8 * MIB, pool, 0), made('cuMemAllocAsync', 8 * MIB, 0)
once_failing('cuMemFreeAsync', four, 0); once_failing('cuMemFree_v2', five); once_failing('cuMemPoolTrimTo', pool, 0); once_failing('cuMemPoolDestroy', pool)
once_failing('cuCtxSetLimit', 0, 4096); once_failing('cuCtxSetLimit', 0, 1024)
once_failing('cuMemFree_v2', two); once_failing('cuCtxDestroy_v2', second); cu.must('cuCtxSetCurrent', context); found.append(charged() == zero)
made('cuMemAlloc_v2', 8 * MIB); once_failing('cuDevicePrimaryCtxReset_v2', 0); found.append(charged() == [0] * 8)
made('cuDevicePrimaryCtxRetain', 0); cu.must('cuCtxSetCurrent', context); made('cuMemAlloc_v2', 8 * MIB); once_failing('cuDevicePrimaryCtxRelease_v2', 0)
print(json.dumps([*found, charged() == [0] * 8]))
"""
    assert bench.python(script, str(share.folder / "ledger")) == [True, 8, 0, True, True, True]
    assert [share.slot(0)[key] for key in ("errors", "in_flight", "unknown_handles")] == [0, 0, 0]


def test_the_last_who_detaches_from_a_context_gives_it_back(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + START + """
found = []
for n in range(8):
    second = cu.must_out('cuCtxCreate_v2', 0, 0); cu.must_out('cuMemAlloc_v2', 64 * MIB)
    if n % 2: cu.must_out('cuCtxAttach', 0); cu.must('cuCtxDetach', second); found.append(held())
    cu.must('cuCtxDetach', second); cu.must('cuCtxSetCurrent', cu.must_out('cuDevicePrimaryCtxRetain', 0)); found.append(held())
print(json.dumps(found))
"""
    assert bench.python(script) == [0, CONTEXT // MIB + 64, 0] * 4
    assert share.slot(0)["errors"] == 0


def test_a_pool_that_cannot_be_asked_stays_charged_as_it_was(bench: Bench) -> None:
    bench.share(LIMIT)
    script = FAILING + """
cu.must_out('cuMemAllocAsync', 32 * MIB, 0); found = [held()]
cu.library.standin_fail(b'cuMemPoolGetAttribute', 999); print(json.dumps([*found, held()]))
"""
    assert bench.python(script, str(bench.folder / "root" / "shares" / "claim-0" / "ledger")) == [32, 32]
