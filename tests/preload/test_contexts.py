"""Green contexts: each has a part of a card, and holds the primary context, which all memory belongs to."""

from __future__ import annotations

from conftest import CONTEXT, TREE, Bench
from share import MIB

LIMIT = 3000 * MIB
HEAD = f"import sys, json, os, ctypes; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); cu.must('cuInit', 0); " + """
def green():
    made = cu.must_out('cuGreenCtxCreate', 1, 0, 1)
    cu.must('cuCtxSetCurrent', cu.must_out('cuCtxFromGreenCtx', made))
    return made
def take():
    cu.must_out('cuMemAlloc_v2', 64 * MIB); cu.must_out('cuArray3DCreate_v2', array_description(1024, 1024, 0, 0x20, 4)); cu.must_out('cuMemAllocManaged', 32 * MIB, 1)
    return (cu.total_bytes() - cu.free_bytes()) // MIB
"""
FULL = CONTEXT // MIB + 64 + 16 + 32


def test_the_last_green_context_of_a_card_takes_its_memory_along(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + """
found = []
for _ in range(3):
    one, two = green(), green(); found.append(take())
    cu.must('cuGreenCtxDestroy', one); found.append((cu.total_bytes() - cu.free_bytes()) // MIB); cu.must('cuGreenCtxDestroy', two)
print(json.dumps(found))
"""
    assert bench.python(script) == [FULL] * 6
    slot = share.slot(0)
    assert (share.used(), slot["provisional"], slot["linear"], slot["array"], slot["managed"], slot["errors"]) == ([0], 0, 0, 0, 0, 0)


def test_a_primary_context_that_is_retained_besides_keeps_its_memory(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + """
primary = cu.must_out('cuDevicePrimaryCtxRetain', 0); one = green(); found = [take()]
cu.must('cuGreenCtxDestroy', one); cu.must('cuCtxSetCurrent', primary); found.append((cu.total_bytes() - cu.free_bytes()) // MIB)
cu.must('cuDevicePrimaryCtxRelease_v2', 0); print(json.dumps(found))
"""
    assert bench.python(script) == [FULL] * 2
    assert (share.used(), share.slot(0)["errors"]) == ([0], 0)
