"""The stand-in driver answers as the recorded driver did; older ones are in test_profiles.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import HERE, RECORDED, STANDIN, Bench
from elf import dynamic_symbols
from record import VERSIONS

FACTS = json.loads((RECORDED / "facts.json").read_text())
# What is not modelled, and why.
DIFFERENT = {
    ("virtual", "handle"): "a value of the driver's own",
    ("shared_handle", "release both"): "a card's memory without a process that holds it",
    ("pools", "after cuMemFree"): "the driver's figure of used bytes does not follow cuMemFree",
    ("pools", "all freed, threshold max"): "the same",
    ("pools", "trimmed to 50 MiB"): "the same",
    ("pools", "trimmed to 0"): "the same",
    ("rules", "release unknown"): "the driver crashes",
    ("rules", "ipc handle"): "interprocess handles",
}
# 2 MiB for the driver's own use come with the first instantiated graph.
GRAPH_EXTRA = {"instantiated", "launched", "destroyed", "trimmed", "uploaded, no free node", "freed"}
EXPERIMENTS = ["context", "linear", "pitched", "arrays", "virtual", "shared_handle", "pools", "graphs", "limits", "rules"]


@pytest.mark.parametrize("library", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_exports_are_those_of_the_recording(library: str) -> None:
    rows = [line.split("\t") for line in (RECORDED / "exports.tsv").read_text().splitlines()]
    wanted = {name for which, name, _, kind in rows if which == library and kind == "function"}
    found = {symbol.name for symbol in dynamic_symbols(STANDIN / library) if symbol.defined and not symbol.name.startswith("standin_")}
    assert found == wanted


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_memory_behaves_as_recorded(experiment: str, bench: Bench) -> None:
    got = bench.python(HERE / "record" / "memory.py", experiment, preload=False)
    wrong = {}
    for key, wanted in FACTS[experiment].items():
        found = got[key]  # type: ignore[index]
        if experiment == "linear" and isinstance(wanted, dict):
            wanted, found = ({k: v for k, v in value.items() if k != "spacing"} for value in (wanted, found))
        if experiment == "graphs" and key in GRAPH_EXTRA:
            wanted = [*wanted[:2], [value - (2 << 20) for value in wanted[2]]]
        if found != wanted and (experiment, key) not in DIFFERENT:
            wrong[key] = (wanted, found)
    assert not wrong


LOOK_UP = """
import ctypes, json, sys
library = ctypes.CDLL("libcuda.so.1")
names, versions = json.load(open(sys.argv[1]))
address = {ctypes.cast(getattr(library, name), ctypes.c_void_p).value: name for name in names}
wrong = 0
checked = 0
for line in open(sys.argv[2]):
    function, name, flags, *changes = line.rstrip("\\n").split("\\t")
    call = getattr(library, function)
    steps = [(int(c.split(":")[0]), *c.split(":")[1].split("/")) for c in changes]
    for flag in map(int, flags.split(",")):
        for index, (version, symbol, rc, status) in enumerate(steps):
            end = steps[index + 1][0] if index + 1 < len(steps) else 1 << 30
            for at in (one for one in versions if version <= one < end):
                pointer, found = ctypes.c_void_p(0x5a), ctypes.c_int(-1)
                extra = [ctypes.byref(found)] if function.endswith("v2") else []
                got = call(b"" if name == "(empty)" else name.encode(), ctypes.byref(pointer), at, ctypes.c_uint64(flag), *extra)
                value = "=" if pointer.value == 0x5a else address.get(pointer.value, "null" if not pointer.value else "foreign")
                checked += 1
                wrong += (value, str(got), str(found.value)) != (symbol, rc, status)
print(json.dumps([checked, wrong]))
"""


def test_look_ups_answer_as_recorded(bench: Bench, tmp_path: Path) -> None:
    """All recorded names, versions and flags."""
    rows = [line.split("\t") for line in (RECORDED / "exports.tsv").read_text().splitlines()]
    names = tmp_path / "names.json"
    functions = [name for which, name, _, kind in rows if which == "libcuda.so.1" and kind == "function"]
    names.write_text(json.dumps([functions, VERSIONS]))
    checked, wrong = bench.python(LOOK_UP, str(names), str(RECORDED / "lookups.tsv"), preload=False)  # type: ignore[misc]
    assert checked > 200000
    assert wrong == 0


TABLES = """
import ctypes, json, sys
library = ctypes.CDLL("libcuda.so.1")
assert library.cuInit(0) == 0
def table(uuid):
    found = ctypes.c_void_p(0x5A)
    status = library.cuGetExportTable(ctypes.byref(found), bytes.fromhex(uuid))
    return [status, found.value, ctypes.c_uint64.from_address(found.value).value if status == 0 else 0]
def function(uuid, place, *parameters):
    return ctypes.CFUNCTYPE(ctypes.c_int, *parameters)(ctypes.c_void_p.from_address(table(uuid)[1] + 8 * place).value)
cudart, storage, pointer = "6bd5fb6c5bf4e74a8987d93912fd9df9", "c693336e1121df11a8c368f355d89593", ctypes.c_void_p
of_device = function(cudart, 2, pointer, ctypes.c_int)
farewell_type = ctypes.CFUNCTYPE(None, pointer, pointer, pointer)
put, drop, get = function(storage, 0, pointer, pointer, pointer, farewell_type), function(storage, 1, pointer, pointer), function(storage, 2, pointer, pointer, pointer)
told = []
farewell = farewell_type(lambda context, key, value: told.append([context == first.value, key, value]))
first, again, value = pointer(), pointer(), pointer()
out = {"tables": {uuid: table(uuid) for uuid in sys.argv[1:]}, "null": library.cuGetExportTable(None, bytes(16))}
out["handle"] = [of_device(ctypes.byref(first), 0), of_device(ctypes.byref(again), 1)]
out["not in use"] = put(first, 1, 10, farewell)
library.cuDevicePrimaryCtxRetain(ctypes.byref(again), 0)
out["same"] = first.value == again.value
out["put"] = [put(first, 1, 10, farewell), put(first, 2, 20, farewell), get(ctypes.byref(value), first, 2), value.value]
out["drop"] = [drop(first, 2), drop(first, 2), get(ctypes.byref(value), first, 2), list(told)]
out["reset"] = [library.cuDevicePrimaryCtxReset_v2(0), list(told)]
library.cuDevicePrimaryCtxRetain(ctypes.byref(again), 0)
out["again"] = [first.value == again.value, get(ctypes.byref(value), first, 1)]
print(json.dumps(out))
"""
# The proof that a driver is NVIDIA's (export_tables.cpp), and two tables that libcuda 535 does not have either.
LEFT_OUT = {"d4082055bde6704b8d34ba123c66e1f2", "263e88607cd2614392f6bbd5006dfa7e", "f8cff95121468b4eb9e2fb469e7c0dd9"}


def test_export_tables_are_as_long_as_recorded_and_keep_what_a_runtime_stores(bench: Bench) -> None:
    rows = [line.split("\t") for line in (RECORDED / "trace.tsv").read_text().splitlines()]
    asked = [(what.split()[1:], programs) for what, programs in rows if what.startswith("table ") and "cudart shared" in programs]
    sizes = {uuid: int(size) for (uuid, size), _ in asked}
    found = bench.python(TABLES, *sizes, preload=False, DRAWBRIDGE_STANDIN_VERSION="11010")
    tables = found.pop("tables")  # type: ignore[attr-defined]
    assert {uuid for uuid, (status, _, _) in tables.items() if status != 0} == LEFT_OUT
    assert {(status, pointer) for uuid, (status, pointer, _) in tables.items() if uuid in LEFT_OUT} == {(1, None)}
    # The table of context storage begins with a function, which lies elsewhere in each process.
    assert {uuid: size for uuid, (_, _, size) in tables.items() if 0 < size < 1 << 20} == {uuid: sizes[uuid] for uuid in sizes.keys() - LEFT_OUT if sizes[uuid] < 1 << 20}
    assert found == {
        "null": 1, "handle": [0, 101], "not in use": 201, "same": True, "put": [0, 0, 0, 20], "drop": [0, 400, 400, []],
        "reset": [0, [[True, 1, 10]]], "again": [True, 400],
    }  # fmt: skip
