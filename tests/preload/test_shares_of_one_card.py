"""Several shares of one card in a container count as one of their sum, in what they hold and in what they show; cards are kept
apart."""

from __future__ import annotations

import pytest
from conftest import CONTEXT, TREE, Bench
from share import MIB

HEAD = f"import sys, json, os, ctypes; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); cu.start(); "


@pytest.mark.parametrize("room", [[600, 1500], [1500, 600]])
def test_what_the_last_share_grants_nobody_has_denied(bench: Bench, room: list[int]) -> None:
    shares = [bench.share(size * MIB, f"claim-{index}") for index, size in enumerate(room)]
    script = HEAD + "print(json.dumps([cu.out('cuMemAlloc_v2', size * MIB)[0] for size in (500, 400, 2000)]))"
    assert bench.python(script)[-1] == 2
    assert sum(share.slot(0)["denied"] for share in shares) == 1
    assert sum(share.slot(0)["denied_bytes"] for share in shares) == 2000 * MIB


@pytest.mark.parametrize("room", [[600, 1500], [1500, 600]])
def test_stacks_find_room_in_every_share(bench: Bench, room: list[int]) -> None:
    """They are taken for every thread that the card can hold: 4 KiB for each are 792 MiB more than at the start."""
    shares = [bench.share(size * MIB, f"claim-{index}") for index, size in enumerate(room)]
    script = HEAD + """
begin, found = cu.free_bytes(), []
for size in (4096, 1024, 4096, 1024): found += [cu.call('cuCtxSetLimit', 0, size), (begin - cu.free_bytes()) // MIB]
print(json.dumps(found))
"""
    assert bench.python(script) == [0, 792, 0, 0, 0, 792, 0, 0]
    assert sum(share.slot(0)["provisional"] for share in shares) == CONTEXT
    assert [share.slot(0)["errors"] for share in shares] == [0, 0]


@pytest.mark.parametrize(("second", "is_held"), [(500, False), (400, True)])
def test_parts_of_the_cores_add_up(bench: Bench, second: int, is_held: bool) -> None:
    """Two halves of a card are all of it."""
    shares = [bench.share(1500 * MIB, f"claim-{index}", permille=permille) for index, permille in enumerate((500, second))]
    for share in shares:
        share.write("limits", 148, "<I", 1)  # force
    script = HEAD + """
function = ctypes.c_void_p(); cu.call('cuModuleGetFunction', ctypes.byref(function), 0, 0)
for _ in range(500): cu.call('cuLaunchKernel', function, 1000, 1, 1, 1, 1, 1, 0, 0, 0, 0)
cu.must('cuCtxSynchronize'); print(0)
"""
    bench.python(script)
    assert (sum(share.slot(0)["throttle_ns"] for share in shares) > 0) == is_held


def test_nvml_shows_what_a_process_holds_of_all_shares(bench: Bench) -> None:
    for index in range(2):
        bench.share(1500 * MIB, f"claim-{index}")
    script = HEAD + """
for _ in range(20): cu.must_out('cuMemAlloc_v2', 100 * MIB)
nvml = Nvml(); print(json.dumps([nvml.process_used(), nvml.device_used(), cu.total_bytes() - cu.free_bytes()]))
"""
    assert bench.python(script) == [CONTEXT + 2000 * MIB] * 3


def test_a_denial_on_one_card_leaves_the_pools_of_another(bench: Bench) -> None:
    for device in (0, 1):
        bench.share(CONTEXT + 200 * MIB, f"claim-{device}", device)
    script = HEAD + """
pool = cu.must_out('cuMemPoolCreate', pool_properties(1)); keep = ctypes.c_uint64(1 << 40)
cu.must('cuMemPoolSetAttribute', pool, 4, ctypes.byref(keep))
cu.must('cuMemFreeAsync', cu.must_out('cuMemAllocFromPoolAsync', 64 * MIB, pool, 0), 0); cu.must('cuCtxSynchronize')
status, reserved = cu.out('cuMemAlloc_v2', 300 * MIB)[0], ctypes.c_uint64()
cu.must('cuMemPoolGetAttribute', pool, 5, ctypes.byref(reserved)); print(json.dumps([status, reserved.value // MIB]))
"""
    assert bench.python(script, DRAWBRIDGE_STANDIN_DEVICES="2") == [2, 64]


def test_nvml_and_the_driver_agree_on_what_a_pool_has_given_back(bench: Bench) -> None:
    bench.share(CONTEXT + 200 * MIB)
    script = HEAD + """
nvml = Nvml(); kept = cu.must_out('cuMemAllocAsync', 32 * MIB, 0)
cu.must('cuMemFreeAsync', cu.must_out('cuMemAllocAsync', 64 * MIB, 0), 0); cu.must('cuCtxSynchronize')
print(json.dumps([nvml.device_used(), cu.total_bytes() - cu.free_bytes()]))
"""
    assert bench.python(script) == [CONTEXT + 32 * MIB] * 2
