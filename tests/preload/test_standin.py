"""The stand-in driver answers as the recorded driver did."""

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
