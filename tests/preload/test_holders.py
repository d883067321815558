"""What holds physical memory besides references to its handle: mappings, multicast objects, arrays whose memory is mapped
later, and others whom the process does not see. Programs print what they hold after each step, and the library's account
is to be what the card says without it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from conftest import CONTEXT, TREE, Bench
from share import CHARGE_MANAGED, MIB

LIMIT = 4000 * MIB
HEAD = f"import sys, json, os, ctypes, itertools, threading; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); " + """
PAGE = 2 * MIB
def held(): return (begin - cu.free_bytes()) // MIB
def memory(size, device=0, usage=1, types=0): return cu.must_out('cuMemCreate', size * MIB, allocation_properties(device, types, usage=usage), 0)
def place(size): return cu.must_out('cuMemAddressReserve', size * MIB, 0, 0, 0)
def mapped(handle, size):
    address = place(size)
    cu.must('cuMemMap', address, size * MIB, 0, handle, 0)
    return address
def team(size, *devices):
    handle = cu.must_out('cuMulticastCreate', multicast_properties(len(devices), size * MIB))
    for device in devices: cu.must('cuMulticastAddDevice', handle, device)
    return handle
def array(flags, width=512, height=512, levels=0):
    shape = array_description(width, height, 0, 0x20, 1, flags)
    return cu.must_out('cuMipmappedArrayCreate', shape, levels) if levels else cu.must_out('cuArray3DCreate_v2', shape)
def tile(*operations, variant=''): return cu.call('cuMemMapArrayAsync' + variant, b''.join(operations), len(operations), 0)
SPARSE, DEFERRED = 0x40, 0x80
"""
START = "cu.start(); begin = cu.free_bytes()\n"


def both(bench: Bench, body: str, *arguments: str, devices: int = 1) -> object:
    """What a program prints under the library, which is what it prints on the bare driver; nothing is left in the end."""
    share = bench.share(LIMIT)
    for device in range(1, devices):
        bench.share(LIMIT, f"claim-{device}", device)
    variables = {"DRAWBRIDGE_STANDIN_DEVICES": str(devices)}
    found = bench.python(HEAD + START + body, *arguments, **variables)
    assert found == bench.python(HEAD + START + body, *arguments, preload=False, **variables)
    slot = share.slot(0)
    assert [slot[name] for name in ("vmm", "in_flight", "errors", "unknown_handles", "denied")] == [0] * 5
    return found


# --------------------------------------------------------------------------------------------------- multicast objects

STEPS = ["release", "unmap", "unbind", "release object", "unmap object"]
ORDERS = [list(order) for order in itertools.permutations(STEPS) if order.index("unbind") < order.index("release object")]
ORDERS += [list(order) for order in itertools.permutations([step for step in STEPS if step != "unbind"])]
ORDERED = """
found = []
for order in json.loads(sys.argv[1]):
    handle, object = memory(64), team(128, 0)
    address, view = mapped(handle, 64), mapped(object, 128)
    if sys.argv[2] == 'memory': cu.must('cuMulticastBindMem', object, 32 * MIB, handle, 0, 64 * MIB, 0)
    else: cu.must('cuMulticastBindAddr', object, 32 * MIB, address, 64 * MIB, 0)
    steps = {'release': lambda: cu.must('cuMemRelease', handle), 'unmap': lambda: cu.must('cuMemUnmap', address, 64 * MIB),
             'unbind': lambda: cu.must('cuMulticastUnbind', object, 0, 32 * MIB, 64 * MIB),
             'release object': lambda: cu.must('cuMemRelease', object), 'unmap object': lambda: cu.must('cuMemUnmap', view, 128 * MIB)}
    trace = [held()]
    for step in order:
        steps[step]()
        trace.append(held())
    found.append(trace)
print(json.dumps(found))
"""


def expected(order: list[str]) -> list[int]:
    """Held until the handle is released, the memory unmapped, and the binding undone or its object gone."""
    trace = [64]
    for count in range(1, len(order) + 1):
        done = set(order[:count])
        is_unbound = "unbind" in done or {"release object", "unmap object"} <= done
        trace.append(0 if {"release", "unmap"} <= done and is_unbound else 64)
    return trace


@pytest.mark.parametrize("by", ["memory", "address"])
def test_memory_is_held_until_the_last_of_handle_mapping_and_binding_in_every_order(bench: Bench, by: str) -> None:
    assert len(ORDERS) == 84
    assert both(bench, ORDERED, json.dumps(ORDERS), by) == [expected(order) for order in ORDERS]


def test_one_unbind_takes_all_that_is_bound_in_its_range_on_its_device(bench: Bench) -> None:
    body = """
object = team(64, 0, 1); found = []
for device in (0, 1):
    for at in (0, 8, 16):
        handle = memory(8, device)
        cu.must('cuMulticastBindMem', object, at * MIB, handle, 0, 8 * MIB, 0); cu.must('cuMemRelease', handle)
def unbind(device, at, size): found.append([cu.call('cuMulticastUnbind', object, device, at * MIB, size * MIB), held()])
unbind(0, 24, 8)  # nothing is bound there
unbind(0, 0, 16); unbind(0, 0, 16)
unbind(1, 0, 24); unbind(0, 16, 8)
cu.must('cuMemRelease', object)
print(json.dumps(found))
"""
    assert both(bench, body, devices=2) == [[1, 24], [0, 8], [1, 8], [0, 8], [0, 0]]


def test_each_devices_share_pays_for_what_is_bound_on_it(bench: Bench) -> None:
    first, second = bench.share(LIMIT, "a", 0), bench.share(LIMIT, "b", 1)
    script = HEAD + START + f"""
def charged(): return [int.from_bytes(os.pread(file, 8, 4096), 'little') // MIB for file in files]
files = [os.open(path, os.O_RDONLY) for path in {[str(share.folder / "ledger") for share in (first, second)]!r}]
object, found = team(64, 0, 1), []; zero = charged()
for device, size in ((0, 8), (1, 32)):
    handle = memory(size, device)
    cu.must('cuMulticastBindMem', object, 0, handle, 0, size * MIB, 0); cu.must('cuMemRelease', handle)
for device in (1, 0):
    found.append([now - then for now, then in zip(charged(), zero)])
    cu.must('cuMulticastUnbind', object, device, 0, 64 * MIB)
print(json.dumps([*found, [now - then for now, then in zip(charged(), zero)]]))
"""
    assert bench.python(script, DRAWBRIDGE_STANDIN_DEVICES="2") == [[8, 32], [8, 0], [0, 0]]


def test_memory_bound_to_two_objects_is_held_by_either(bench: Bench) -> None:
    body = """
handle, first, second = memory(32), team(32, 0), team(64, 0)
cu.must('cuMulticastBindMem', first, 0, handle, 0, 32 * MIB, 0)
cu.must('cuMulticastBindMem', second, 0, handle, 0, 16 * MIB, 0); cu.must('cuMulticastBindMem', second, 32 * MIB, handle, 16 * MIB, 16 * MIB, 0)
cu.must('cuMemRelease', handle); found = [held()]
cu.must('cuMulticastUnbind', second, 0, 0, 16 * MIB); found.append(held())
cu.must('cuMemRelease', second); found.append(held())
cu.must('cuMemRelease', first); found.append(held())
print(json.dumps(found))
"""
    assert both(bench, body) == [32, 32, 32, 0]


def test_what_the_driver_refuses_changes_nothing(bench: Bench) -> None:
    body = """
handle, object, other = memory(32), team(32, 0), memory(32, 1); address = mapped(handle, 32)
cu.must('cuMulticastBindMem', object, 0, handle, 0, 8 * MIB, 0)
refused = [cu.call('cuMulticastBindMem', object, 8 * MIB, handle, 0, MIB, 0), cu.call('cuMulticastBindMem', object, 0, handle, 0, 8 * MIB, 0),
           cu.call('cuMulticastBindMem', object, 8 * MIB, 12345, 0, 8 * MIB, 0), cu.call('cuMulticastBindMem', object, 8 * MIB, other, 0, 8 * MIB, 0),
           cu.call('cuMulticastBindMem', 12345, 0, handle, 0, 8 * MIB, 0), cu.call('cuMulticastBindAddr', object, 16 * MIB, address, 8 * MIB, 1),
           cu.call('cuMulticastBindAddr', object, 16 * MIB, address + 32 * MIB, 8 * MIB, 0), cu.call('cuMulticastUnbind', object, 1, 0, 8 * MIB), cu.call('cuMulticastUnbind', object, 0, 0, 8 * MIB + 1),
           cu.call('cuMulticastUnbind', 12345, 0, 0, 8 * MIB), cu.call('cuMemMap', address, 32 * MIB, 0, handle, 0), cu.call('cuMemMap', 4096, 32 * MIB, 0, handle, 0),
           cu.out('cuMulticastCreate', multicast_properties(0, 32 * MIB))[0]]
for one in (handle, other): cu.must('cuMemRelease', one)
found = [held()]
cu.must('cuMemUnmap', address, 32 * MIB); found.append(held())
cu.must('cuMulticastUnbind', object, 0, 0, 8 * MIB); found.append(held())
cu.must('cuMemRelease', object)
print(json.dumps([refused, found]))
"""
    assert both(bench, body, devices=2) == [[1, 1, 1, 101, 1, 1, 1, 101, 1, 1, 1, 1, 1], [32, 32, 0]]


@pytest.mark.parametrize("call", ["'cuMulticastBindMem', object, 0, handle, 0, 32 * MIB, 0", "'cuMulticastBindAddr', object, 0, address, 32 * MIB, 0", "'cuMemMap', view, 32 * MIB, 0, object, 0"])
def test_a_thread_that_waits_for_a_device_keeps_no_other_from_adding_it(bench: Bench, call: str) -> None:
    """The driver lets it wait until all devices are there, and the thread that adds the last one has memory of its own to make."""
    body = f"""
object = cu.must_out('cuMulticastCreate', multicast_properties(2, 32 * MIB)); cu.must('cuMulticastAddDevice', object, 0)
handle, view, done = memory(32), place(32), []; address = mapped(handle, 32)
waiting = threading.Thread(target=lambda: done.append(cu.call({call})), daemon=True); waiting.start()
calls = cu.library.standin_calls; calls.restype = ctypes.c_ulong
while calls({call.split(",")[0]}.encode()) < (2 if 'MemMap' in {call.split(",")[0]} else 1): os.sched_yield()
cu.must('cuMemRelease', memory(8, 1)); cu.must('cuMemUnmap', mapped(other := memory(8, 1), 8), 8 * MIB); cu.must('cuMemRelease', other)
cu.must('cuMulticastAddDevice', object, 1); waiting.join()
cu.must('cuMemRelease', handle); cu.must('cuMemUnmap', address, 32 * MIB); found = [held()]
cu.must('cuMemRelease', object); cu.call('cuMemUnmap', view, 32 * MIB); found.append(held())
print(json.dumps([done, found]))
"""
    assert both(bench, body, devices=2) == [[0], [0 if "MemMap" in call else 32, 0]]


def test_threads_that_bind_and_unbind_at_once_leave_no_drift(bench: Bench) -> None:
    body = """
object = team(64, 0)
def churn(index):
    for n in range(300):
        handle = memory(8)
        cu.must('cuMulticastBindMem', object, index * 8 * MIB, handle, 0, 8 * MIB, 0)
        if n % 2: cu.must('cuMemRelease', handle)
        cu.must('cuMulticastUnbind', object, 0, index * 8 * MIB, 8 * MIB)
        if not n % 2: cu.must('cuMemRelease', handle)
threads = [threading.Thread(target=churn, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(held()))
"""
    assert both(bench, body) == 0


def test_a_forked_child_holds_nothing_of_its_parents(bench: Bench) -> None:
    body = """
handle, object, tiles_of = memory(32), team(32, 0), array(SPARSE)
cu.must('cuMulticastBindMem', object, 0, handle, 0, 32 * MIB, 0); tile(tiles(MAP, tiles_of, (0, 0, 0, 512, 512, 1), handle))
pid = os.fork()
if pid == 0:
    os._exit(0 if [cu.call('cuMulticastUnbind', object, 0, 0, 32 * MIB), cu.call('cuMemRelease', handle), cu.call('cuArrayDestroy', tiles_of)] == [3] * 3 else 1)
found = [os.waitpid(pid, 0)[1], held()]
cu.must('cuMemRelease', handle); cu.must('cuMemRelease', object); found.append(held())
cu.must('cuArrayDestroy', tiles_of); print(json.dumps([*found, held()]))
"""
    assert both(bench, body) == [0, 32, 32, 0]


def test_bound_memory_keeps_others_from_having_it(bench: Bench) -> None:
    """The stand-in counts at every allocation: never more than the limit, though every handle is released at once."""
    bench.share(CONTEXT + 100 * MIB)
    body = """
object, statuses, at = team(512, 0), [], 0
for n in range(20):
    status, handle = cu.out('cuMemCreate', 8 * MIB, allocation_properties(), 0)
    statuses.append(status)
    if status: continue
    cu.must('cuMulticastBindMem', object, at, handle, 0, 8 * MIB, 0); cu.must('cuMemRelease', handle)
    at += 8 * MIB
print(json.dumps(statuses))
"""
    assert bench.python(HEAD + START + body) == [0] * 12 + [2] * 8
    assert bench.peak() == 96 * MIB


# ------------------------------------------------------------------------------------- arrays that are mapped afterwards


@pytest.mark.parametrize("variant", ["", "_ptsz"])
def test_tiles_hold_their_memory_until_the_last_is_unmapped(bench: Bench, variant: str) -> None:
    """Mapped as one box, unmapped in parts, across what was mapped together, and twice."""
    body = f"""
one, found = array(SPARSE), []
def unmap(*box): found.append([tile(tiles(UNMAP, one, box), variant={variant!r}), held()])
handle = memory(2)
found.append([tile(tiles(MAP, one, (0, 0, 0, 512, 512, 1), handle), variant={variant!r}), held()])
cu.must('cuMemRelease', handle)
unmap(128, 128, 0, 128, 256, 1); unmap(128, 128, 0, 128, 256, 1)
unmap(0, 0, 0, 512, 128, 1); unmap(0, 0, 0, 256, 512, 1); unmap(256, 384, 0, 256, 128, 1)
unmap(256, 128, 0, 256, 128, 1); unmap(384, 256, 0, 128, 128, 1); unmap(256, 256, 0, 128, 128, 1)
cu.must('cuArrayDestroy', one); print(json.dumps(found))
"""
    assert both(bench, body) == [[0, 2]] * 8 + [[0, 0]]


def test_what_is_mapped_over_other_memory_takes_its_place(bench: Bench) -> None:
    body = """
one, first, second = array(SPARSE), memory(2), memory(4)
found = [tile(tiles(MAP, one, (0, 0, 0, 256, 256, 1), first), tiles(MAP, one, (256, 0, 0, 256, 256, 1), first))]
cu.must('cuMemRelease', first)
for at in (0, 256):
    found += [tile(tiles(MAP, one, (at, 0, 0, 256, 256, 1), second)), held()]
cu.must('cuMemRelease', second); found.append(held())
found += [tile(tiles(UNMAP, one, (0, 0, 0, 512, 512, 1))), held()]
cu.must('cuArrayDestroy', one); print(json.dumps(found))
"""
    assert both(bench, body) == [0, 0, 6, 0, 4, 4, 0, 0]


def test_levels_layers_and_the_tail_are_places_of_their_own(bench: Bench) -> None:
    body = """
one, found = array(SPARSE, levels=3), []
places = [dict(level=0), dict(level=1), dict(level=0, layer=1)]
boxes = [(0, 0, 0, 256, 256, 1)] * 3
for place_, box in zip(places, boxes):
    handle = memory(2); found.append(tile(tiles(MAP, one, box, handle, mipmap=True, **place_))); cu.must('cuMemRelease', handle)
handle = memory(2); found.append(tile(tail(MAP, one, 0, 4 * 65536, handle))); cu.must('cuMemRelease', handle); found.append(held())
for place_, box in zip(places, boxes):
    tile(tiles(UNMAP, one, box, mipmap=True, **place_)); found.append(held())
tile(tail(UNMAP, one, 0, 2 * 65536)); found.append(held())
tile(tail(UNMAP, one, 2 * 65536, 2 * 65536)); found.append(held())
wide, handle = array(SPARSE, 131072, 256, 3), memory(2)
tile(tail(MAP, wide, 0, 65536, handle)); cu.must('cuMemRelease', handle)
found.append(tile(tiles(UNMAP, wide, (0, 0, 0, 131072, 256, 1), mipmap=True))); found.append(held())
for gone in (one, wide): cu.must('cuMipmappedArrayDestroy', gone)
print(json.dumps(found))
"""
    assert both(bench, body) == [0, 0, 0, 0, 8, 6, 4, 2, 2, 0, 0, 2]


@pytest.mark.parametrize("end", ["'cuArrayDestroy', one", "'cuCtxDestroy_v2', context"])
def test_an_array_that_goes_lets_go_of_its_tiles_and_another_of_its_handle_begins_anew(bench: Bench, end: str) -> None:
    body = f"""
found = []
for n in range(3):
    before = held()
    context = cu.must_out('cuCtxCreate_v2', 0, 0)
    one, other, handle = array(SPARSE), array(DEFERRED), memory(64)
    tile(tiles(MAP, one, (0, 0, 0, 256, 256, 1), handle), tiles(MAP, one, (256, 256, 0, 256, 256, 1), handle), tiles(MAP, other, (0,) * 6, handle))
    cu.must('cuMemRelease', handle); cu.must('cuArrayDestroy', other); middle = held()
    cu.must({end}); found.append((middle - held()) // 64)
    if 'Array' in {end.split(",")[0]}: cu.must('cuCtxDestroy_v2', context)
    found.append(held() - before)
print(json.dumps(found))
"""
    share = bench.share(LIMIT)
    got = bench.python(HEAD + START + body)
    assert [value for index, value in enumerate(got) if index % 2] == [0] * 3  # type: ignore[arg-type]
    assert all(value >= 1 for index, value in enumerate(got) if not index % 2)  # type: ignore[arg-type]
    assert (share.slot(0)["vmm"], share.slot(0)["errors"]) == (0, 0)


def test_a_deferred_array_is_one_place_whatever_the_call_says_of_it(bench: Bench) -> None:
    """The driver looks at neither the kind of the place nor at the box."""
    body = """
one, handle, found = array(DEFERRED), memory(2), []
tile(tiles(MAP, one, (7, 8, 9, 1, 2, 3), handle, level=5)); cu.must('cuMemRelease', handle); found.append(held())
other = memory(4)
tile(tail(MAP, one, 99, 100, other)); found.append(held())
cu.must('cuMemRelease', other); tile(tiles(UNMAP, one, (0,) * 6)); found.append(held())
cu.must('cuArrayDestroy', one); print(json.dumps(found))
"""
    assert both(bench, body) == [2, 4, 0]


def test_a_list_that_the_driver_refuses_maps_and_unmaps_nothing(bench: Bench) -> None:
    body = """
one, plain, handle, other = array(SPARSE), array(0), memory(2), memory(2, usage=0)
begin = cu.free_bytes(); good, gone = tiles(MAP, one, (0, 0, 0, 128, 128, 1), handle), tiles(UNMAP, one, (0, 0, 0, 128, 128, 1))
bad = [tiles(MAP, one, (0, 0, 0, 100, 128, 1), handle), tiles(MAP, one, (0, 0, 0, 128, 128, 1), 12345), tiles(MAP, plain, (0, 0, 0, 128, 128, 1), handle),
       tiles(MAP, one, (0, 0, 0, 128, 128, 1), other), tiles(MAP, one, (0, 0, 0, 128, 128, 1), handle, device=1), tiles(3, one, (0, 0, 0, 128, 128, 1), handle)]
found = [tile(good, one_, good) for one_ in bad]
found += [cu.call('cuMemMapArrayAsync', 0, 3, 0), cu.call('cuMemMapArrayAsync', good, 0, 0), cu.call('cuArrayDestroy', 0)]
found.append(tile(good)); found.append(tile(gone, bad[0])); cu.must('cuMemRelease', handle); found.append(held())
found += [tile(gone), held()]
for call in (('cuMemRelease', other), ('cuArrayDestroy', one), ('cuArrayDestroy', plain)): cu.must(*call)
print(json.dumps(found))
"""
    assert both(bench, body) == [1] * 8 + [400, 0, 1, 0, 0, -2]


def test_a_long_list_is_one_call(bench: Bench) -> None:
    body = """
one, handles = array(SPARSE, 1024, 1024), [memory(2) for _ in range(64)]
boxes = [(128 * (n % 8), 128 * (n // 8), 0, 128, 128, 1) for n in range(64)]
found = [tile(*(tiles(MAP, one, box, handle) for box, handle in zip(boxes, handles)))]
for handle in handles: cu.must('cuMemRelease', handle)
found.append(held())
found.append(tile(*(tiles(UNMAP, one, box) for box in boxes[:48]))); found.append(held())
found.append(tile(tiles(UNMAP, one, (0, 0, 0, 1024, 1024, 1)))); found.append(held())
cu.must('cuArrayDestroy', one); print(json.dumps(found))
"""
    assert both(bench, body) == [0, 128, 0, 32, 0, 0]


# ------------------------------------------------------------------------------------- others whom nobody sees

EXPORTED = HEAD + """
cu.start(); print('ready', flush=True); sys.stdin.readline()
cu.must('cuMemFree_v2', cu.must_out('cuMemAlloc_v2', PAGE)); begin = cu.free_bytes()
handle = memory(64, types=1); descriptor = ctypes.c_int(-1)
if sys.argv[1] == 'memory': cu.must('cuMemExportToShareableHandle', ctypes.byref(descriptor), handle, 1, 0)
if sys.argv[1] != 'memory':
    object = team(64, 0); cu.must('cuMulticastBindMem', object, 0, handle, 0, 64 * MIB, 0)
    cu.must('cuMemExportToShareableHandle', ctypes.byref(descriptor), object, 1, 0); cu.must('cuMemRelease', object)
cu.must('cuMemRelease', handle)
print(held(), flush=True)
for line in sys.stdin: print(json.dumps([held(), cu.out('cuMemAlloc_v2', int(line) * MIB)[0], held()]), flush=True)
"""


class Exporter:
    """A process that exported 64 MiB, or a multicast object that holds them, and then let go of all that it had."""

    def __init__(self, bench: Bench, what: str, measure: Callable[[], None] = lambda: None) -> None:
        self.child = subprocess.Popen([sys.executable, "-c", EXPORTED, what], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.child.stdin and self.child.stdout and self.child.stdout.readline() == "ready\n"
        measure()
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        self.left = int(self.child.stdout.readline())

    def ask(self, size: int) -> list[int]:
        """Asks for so many MiB: what it holds, the answer, what it holds then."""
        assert self.child.stdin and self.child.stdout
        self.child.stdin.write(f"{size}\n")
        self.child.stdin.flush()
        return list(json.loads(self.child.stdout.readline()))

    def end(self) -> None:
        self.child.communicate()
        assert self.child.returncode == 0


HEARTBEAT = 160  # of limits
what_is_exported = pytest.mark.parametrize("what", ["memory", "object"])


@what_is_exported
def test_what_an_exported_descriptor_may_hold_is_charged_until_the_agent_has_measured(bench: Bench, what: str) -> None:
    share = bench.share(CONTEXT + 100 * MIB)
    share.write("limits", HEARTBEAT, "<Q", time.monotonic_ns())
    exporter = Exporter(bench, what)
    assert (exporter.left, share.slot(0)["vmm"], share.slot(0)["provisional"]) == (64, 0, CONTEXT + 64 * MIB)
    assert exporter.ask(40) == [64, 2, 64]
    assert bench.peak() == 64 * MIB
    share.set_overhead(0, CONTEXT // MIB)  # nobody holds it any more, as the driver says
    assert exporter.ask(40) == [64, 0, 40]
    share.set_overhead(0, CONTEXT // MIB + 50)
    assert exporter.ask(40) == [90, 2, 90]
    exporter.end()
    assert share.slot(0)["errors"] == 0


@what_is_exported
def test_what_is_left_to_a_measure_comes_on_top_of_the_measure_before(bench: Bench, what: str) -> None:
    share = bench.share(CONTEXT + 100 * MIB)
    share.write("limits", HEARTBEAT, "<Q", time.monotonic_ns())
    exporter = Exporter(bench, what, lambda: share.set_overhead(0, CONTEXT // MIB))
    assert (exporter.left, share.slot(0)["provisional"]) == (64, CONTEXT + 64 * MIB)
    assert exporter.ask(40) == [64, 2, 64]
    share.set_overhead(0, CONTEXT // MIB + 1)
    assert exporter.ask(40) == [64, 0, 41]
    exporter.end()


def test_memory_that_is_bound_to_anothers_object_stays_charged_when_the_own_handle_of_it_goes(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + START + """
descriptor, team_ = ctypes.c_int(-1), team(64, 0)
cu.must('cuMemExportToShareableHandle', ctypes.byref(descriptor), team_, 1, 0); os.set_inheritable(descriptor.value, True)
bind = sys.argv[1].replace('DESCRIPTOR', str(descriptor.value))
import subprocess
print(subprocess.run([sys.executable, '-c', bind], close_fds=False, capture_output=True, text=True, check=True).stdout, end='')
"""
    bind = HEAD + START + """
object, handle = cu.must_out('cuMemImportFromShareableHandle', DESCRIPTOR, 1), memory(64)
cu.must('cuMulticastBindMem', object, 0, handle, 0, 64 * MIB, 0)
cu.must('cuMemRelease', handle); found = [held()]
cu.must('cuMemRelease', object); print(json.dumps([*found, held()]))
"""
    assert bench.python(script, bind) == [64, 64]
    assert (share.slot(0)["errors"], share.slot(0)["unknown_handles"]) == (0, 0)


def test_where_nobody_measures_it_is_given_back_when_room_is_needed(bench: Bench) -> None:
    """The agent is silent; or it lives, and found no moment to measure the process for longer than ten seconds."""
    share = bench.share(CONTEXT + 100 * MIB)
    exporter = Exporter(bench, "memory")
    assert [exporter.left, *exporter.ask(20), *exporter.ask(60)] == [64, 64, 0, 84, 84, 0, 80]
    exporter.end()
    share.write("limits", HEARTBEAT, "<Q", time.monotonic_ns())
    exporter = Exporter(bench, "memory")
    assert exporter.ask(60) == [64, 2, 64]
    share.write("limits", HEARTBEAT, "<Q", time.monotonic_ns() + 11 * 10**9)
    assert exporter.ask(60) == [64, 0, 60]
    exporter.end()


def test_a_claim_that_pays_for_no_overhead_pays_for_no_descriptor(bench: Bench) -> None:
    bench.share(LIMIT, flags=CHARGE_MANAGED)
    exporter = Exporter(bench, "memory")
    assert exporter.left == 0
    exporter.end()


def test_an_imported_handle_is_charged_to_nobody_and_released_by_itself(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + START + """
handle = memory(64, types=1); descriptor = ctypes.c_int(-1)
cu.must('cuMemExportToShareableHandle', ctypes.byref(descriptor), handle, 1, 0)
copy = cu.must_out('cuMemImportFromShareableHandle', descriptor.value, 1); found = [held()]
address = mapped(copy, 64); cu.must('cuMemRelease', copy); found.append(held())
cu.must('cuMemUnmap', address, 64 * MIB); print(json.dumps([*found, held()]))
"""
    assert bench.python(script) == [64, 64, 64]
    assert (share.slot(0)["unknown_handles"], share.slot(0)["errors"]) == (0, 0)
