"""Memory of graphs, which their allocation nodes map when they are launched."""

from __future__ import annotations

import pytest
from conftest import CONTEXT, Bench
from share import MIB
from test_holders import HEAD, START

TEMPORARY = """
stream, graph, graph_exec, pointer = cu.must_out('cuStreamCreate', 0), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
cu.must('cuStreamBeginCapture_v2', stream, 2)
for _ in range(20):
    cu.must('cuMemAllocAsync', ctypes.byref(pointer), 64 * MIB, stream); cu.must('cuMemFreeAsync', pointer.value, stream)
cu.must('cuStreamEndCapture', stream, ctypes.byref(graph))
cu.must('cuGraphInstantiateWithFlags', ctypes.byref(graph_exec), graph.value, 0)
"""


@pytest.mark.parametrize(("room", "status"), [(64, 0), (63, 2)])
def test_what_a_graph_frees_and_takes_again_is_set_aside_once(bench: Bench, room: int, status: int) -> None:
    """Temporary memory in a captured stream has the same addresses again and again."""
    share = bench.share(CONTEXT + room * MIB)
    assert bench.python(HEAD + START + TEMPORARY + "print(cu.call('cuGraphLaunch', graph_exec.value, stream))") == status
    assert share.slot(0)["graph"] == (0 if status else 64 * MIB)


@pytest.mark.parametrize("tight", [None, 0, 1])
def test_a_graph_with_memory_on_two_cards_is_held_by_both(bench: Bench, tight: int | None) -> None:
    shares = [bench.share((CONTEXT, 0)[device] + (90 if device == tight else 300) * MIB, f"claim-{device}", device) for device in (0, 1)]
    script = HEAD + START + """
import struct
graph, node, graph_exec = cu.must_out('cuGraphCreate', 0), ctypes.c_uint64(), ctypes.c_uint64()
for device in (0, 1):
    alloc = ctypes.create_string_buffer(struct.pack('<IIII72xQQQQ', 1, 0, 1, device, 0, 0, 96 * MIB, 0))
    cu.must('cuGraphAddMemAllocNode', ctypes.byref(node), graph, 0, 0, alloc)
cu.must('cuGraphInstantiateWithFlags', ctypes.byref(graph_exec), graph, 0)
found = [cu.call('cuGraphLaunch', graph_exec.value, 0), cu.call('cuGraphExecDestroy', graph_exec.value)]
print(json.dumps(found))
"""
    assert bench.python(script, DRAWBRIDGE_STANDIN_DEVICES="2") == [0 if tight is None else 2, 0]
    assert [share.slot(0)["graph"] // MIB for share in shares] == ([96, 96] if tight is None else [0, 0])
    assert [share.slot(0)["in_flight"] for share in shares] == [0, 0]
