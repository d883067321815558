"""NVIDIA's own libcuda under the library: it needs no GPU to be loaded and to be asked for its functions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import FRONT, LIBRARY, RECORDED, TREE
from elf import dynamic_symbols
from roots import roots
from share import Root

pytestmark = pytest.mark.plain  # in a root that has no sanitizer's runtime

LOOK = """
import ctypes, json, re
library = ctypes.CDLL("libcuda.so.1")
names = json.load(open("/run/bench/names.json"))
addresses, lies, lacking = {}, {}, {}
maps = [line.split() for line in open("/proc/self/maps") if len(line.split()) == 6]
def place(address):
    for span, _, _, _, _, file in maps:
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= address < high: return file
for name in names["driver"]:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    addresses[address], lies[name] = name, place(address)
for name in names["lacking"]:
    try: lacking[name] = place(ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    except AttributeError as problem: lacking[name] = str(problem)
found = []
for base in sorted({re.sub("(_v[0-9]+|_ptsz|_ptds)+$", "", name) for name in names["driver"]}):
    for version in (2000, 2010, 2020, 2030, 3000, 3020, 7000, 10020, 11020, 11040, 12000, 12020, 12030):
        for flags in (0, 1, 2):
            pointer, status = ctypes.c_void_p(), ctypes.c_int(-1)
            rc = library.cuGetProcAddress_v2(base.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), ctypes.byref(status))
            found.append([base, version, flags, rc, status.value, addresses.get(pointer.value, pointer.value)])
version = ctypes.c_int()
print(json.dumps([library.cuDriverGetVersion(ctypes.byref(version)), version.value, lies, lacking, found]))
"""


class Machine:
    """A Debian root with NVIDIA's libcuda, and what of the library a test puts there."""

    def __init__(self, work: Path) -> None:
        self.work, self.driver = work, roots.nvidias_libcuda()
        self.folder = Root(work / "drawbridge", LIBRARY).folder
        self.exports = {symbol.name for symbol in dynamic_symbols(self.driver) if symbol.defined and re.match("cu[A-Z]", symbol.name)}
        lines = (TREE / "preload" / "entry_points.tsv").read_text().splitlines()
        self.wrapped = {line.split("\t")[0] for line in lines if line.startswith("cu")}
        names = {"driver": sorted(self.exports), "lacking": sorted(self.wrapped - self.exports)}
        (work / "names.json").write_text(json.dumps(names))
        (work / "look.py").write_text(LOOK)
        (work / "libraries").mkdir()
        self.put(self.driver, work / "libraries" / "libcuda.so.1")

    def put(self, file: Path, place: Path) -> None:
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        shutil.copy(file, place)

    def look(self) -> list:
        done = roots.run(roots.debian("bookworm"), self.work, ["/usr/bin/python3", "/run/bench/look.py"], LD_LIBRARY_PATH="/run/bench/libraries")
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)


@pytest.mark.parametrize(("front", "preload"), [(False, True), (True, False), (True, True)], ids=["preloaded", "front alone", "both"])
def test_every_look_up_of_nvidias_libcuda_is_its_own_but_for_wrapped_functions(front: bool, preload: bool, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    status, version, _, _, bare = machine.look()
    assert (status, len(machine.exports) > 500, len(bare) > 10000) == (0, True, True)
    if front:
        machine.put(machine.driver, machine.folder / "driver" / "libcuda.so.1")
        machine.put(FRONT, tmp_path / "libraries" / "libcuda.so.1")
    if preload:
        (tmp_path / "ld.so.preload").write_text("/run/drawbridge/lib/libdrawbridge.so\n")
    driver = "/run/drawbridge/driver/libcuda.so.1" if front else "/run/bench/libraries/libcuda.so.1"
    wrapper = "/run/drawbridge/lib/libdrawbridge.so" if preload else "/run/bench/libraries/libcuda.so.1"
    *answer, lies, lacking, found = machine.look()
    assert answer == [0, version]
    assert lies == {name: wrapper if name in machine.wrapped else driver for name in machine.exports}
    assert found == bare
    for name, said in lacking.items():
        assert said == (f"{driver}: undefined symbol: {name}" if preload else wrapper)


def recorded() -> dict[tuple[str, int, int], list]:
    """What cuGetProcAddress_v2 answered in the recording, by name, flags and the version from which it did."""
    rows = [line.split("\t") for line in (RECORDED / "lookups.tsv").read_text().splitlines()]
    answers = {}
    for function, name, flags, *changes in rows:
        for change in changes if function == "cuGetProcAddress_v2" else []:
            version, answer = change.split(":")
            symbol, rc, status = answer.split("/")
            for flag in flags.split(","):
                answers[name, int(flag), int(version)] = [int(rc), int(status), None if symbol == "null" else symbol]
    return answers


def test_the_recording_has_the_first_versions_right(tmp_path: Path) -> None:
    """The driver was not asked for every version before 3.0; runtimes ask for some of them."""
    *_, found = Machine(tmp_path).look()
    answers, wrong, checked, now = recorded(), [], 0, {}
    for name, version, flags, *answer in found:
        now[name, flags] = answers.get((name, flags, version), now.get((name, flags)))
        if 2000 <= version <= 3000 and now[name, flags] is not None:
            checked += 1
            wrong += [(name, version, flags, answer)] if answer != now[name, flags] else []
    assert (checked > 5000, wrong) == (True, [])
