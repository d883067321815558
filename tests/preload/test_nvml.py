"""NVML inside a container: lists of processes hold those of the share alone."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import CONTEXT, TREE, Bench
from share import CHARGE_MANAGED, CHARGE_OVERHEAD, MIB, UTILIZATION

HEAD = f"import sys, json, os, ctypes, struct; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); cu.start(); "
HOLD = HEAD + "cu.must_out('cuMemAlloc_v2', 300 * MIB); print('ready', flush=True); sys.stdin.readline()"
LISTS = HEAD + """
cu.must_out('cuMemAlloc_v2', 100 * MIB); nvml, found = Nvml(), []
def ask(name, form, size, count, *head):
    room = ctypes.create_string_buffer(size * 8)
    told = ctypes.create_string_buffer(struct.pack(form, *head, ctypes.addressof(room)) if count else struct.pack(form, *head, 0), 24)
    status = getattr(nvml.library, name)(nvml.device, told)
    return status, struct.unpack_from('<I', told, 8 if 'Detail' in name else 4)[0], room.raw
for version, mode, count in ((1 << 24 | 24, 0, 0), (1 << 24 | 24, 0, 8), (1 << 24 | 24, 1, 8), (2 << 24 | 24, 0, 8), (1 << 24 | 24, 3, 8)):
    status, listed, room = ask('nvmlDeviceGetRunningProcessDetailList', '<IIIxxxxQ', 32, count, version, mode, count)
    found.append([status, listed if status in (0, 7) else 0])
    if (status, listed) == (0, 1):
        pid, used, *rest = struct.unpack_from('<IxxxxQIIQ', room); found.append([pid == os.getpid(), used, rest == [2**32 - 1, 2**32 - 1, 2**64 - 1]])
for version, count in ((1 << 24 | 24, 0), (1 << 24 | 24, 8), (7, 8)):
    status, listed, room = ask('nvmlDeviceGetProcessesUtilizationInfo', '<IIQQ', 40, count, version, count, 0)
    found.append([status, listed if status in (0, 7) else 0])
    if status == 0: when, pid, *rates = struct.unpack_from('<Q7I', room); found.append([pid == os.getpid(), when > 0, rates])
print(json.dumps(found))
"""


@pytest.mark.parametrize("is_busy", [True, False])
def test_the_lists_of_newer_programs_hold_the_shares_processes_alone(bench: Bench, is_busy: bool) -> None:
    share = bench.share(3000 * MIB)
    if is_busy:
        share.write("limits", UTILIZATION, "<H", 420)
    with subprocess.Popen([sys.executable, "-c", HOLD], env=bench.environment(preload=False), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as neighbour:
        assert neighbour.stdout and neighbour.stdout.readline() == "ready\n"
        found = bench.python(LISTS)
        neighbour.communicate("\n")
    details = [[7, 1], [0, 1], [True, CONTEXT + 100 * MIB, True], [0, 0], [25, 0], [2, 0]]
    samples = [[7, 1], [0, 1], [True, True, [42, 0, 0, 0, 0, 0]], [25, 0]] if is_busy else [[6, 0], [6, 0], [25, 0]]
    assert found == details + samples


@pytest.mark.parametrize(("more", "is_refused"), [({}, True), ({"flags": CHARGE_MANAGED | CHARGE_OVERHEAD}, False)])
def test_every_setting_is_refused_where_the_share_says_so(bench: Bench, more: dict[str, int], is_refused: bool) -> None:
    bench.share(3000 * MIB, **more)
    rows = [line.split("\t") for line in (TREE / "preload" / "entry_points.tsv").read_text().splitlines()]
    names = " ".join(row[0] for row in rows if row[1:2] == ["S"])
    script = HEAD + "nvml = Nvml(); print(json.dumps([getattr(nvml.library, name)(0, 0, 0, 0, 0) == 4 for name in sys.argv[1].split()]))"
    assert bench.python(script, names) == [is_refused] * len(names.split())
