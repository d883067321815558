"""Drivers of older CUDA versions: the stand-in has the functions of each, and the library holds programs on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import CONTEXT, HERE, PROFILES, RECORDED, TREE, Bench, drivers
from elf import dynamic_symbols
from record import VERSIONS
from roots import roots
from share import MIB

VERSION = {"11.4": 11040, "11.8": 11080, "12.2": 12020, "12.4": 12040, "12.8": 12080}
SINCE = {row[0]: int(row[3]) for row in (line.split("\t") for line in (TREE / "preload" / "entry_points.tsv").read_text().splitlines()) if row[0].startswith("cu")}
FUNCTIONS = {name for which, name, _, kind in (line.split("\t") for line in (RECORDED / "exports.tsv").read_text().splitlines()) if (which, kind) == ("libcuda.so.1", "function")}
every_profile = pytest.mark.parametrize("profile", VERSION)
oldest_and_middle = pytest.mark.parametrize("profile", ["11.4", "12.4"])


def driver(profile: str) -> Path:
    return PROFILES / profile / "libcuda.so.1"


def exports(library: Path) -> set[str]:
    """Functions of the newest recorded driver that this one has."""
    return {symbol.name for symbol in dynamic_symbols(library) if symbol.defined} & FUNCTIONS


def on(bench: Bench, profile: str) -> Bench:
    bench.variables["LD_LIBRARY_PATH"] = drivers(profile)
    return bench


@every_profile
def test_a_profile_exports_what_was_there_in_its_version(profile: str) -> None:
    """By NVIDIA's headers, from which the table has its versions; and each version has what the one before it had."""
    has = exports(driver(profile))
    assert has & set(SINCE) == {name for name, since in SINCE.items() if since <= VERSION[profile]}
    newer = [exports(driver(other)) for other, version in VERSION.items() if version > VERSION[profile]]
    assert all(has < more for more in [*newer, FUNCTIONS])


def test_a_profile_exports_what_nvidias_library_of_its_version_does() -> None:
    assert exports(driver("12.2")) == exports(roots.nvidias_libcuda())


ASK = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
exported, names, versions = json.load(open(sys.argv[2]))
address = {ctypes.cast(getattr(library, name), ctypes.c_void_p).value: name for name in exported}
found = []
for function in ("cuGetProcAddress", "cuGetProcAddress_v2"):
    call = getattr(library, function)
    for name in names:
        for version in versions:
            for flags in (0, 1, 2, 4):
                pointer, status = ctypes.c_void_p(0x5a), ctypes.c_int(-1)
                more = [ctypes.byref(status)] if function.endswith("v2") else []
                rc = call(name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), *more)
                found.append([function, name, version, flags, rc, status.value, address.get(pointer.value, pointer.value)])
print(json.dumps(found))
"""


def test_look_ups_answer_as_nvidias_library_of_that_version(bench: Bench, tmp_path: Path) -> None:
    """All recorded names, also those that its version had not yet, by versions before its own, by that, and by newer ones."""
    names = sorted({line.split("\t")[1] for line in (RECORDED / "lookups.tsv").read_text().splitlines()} - {"(empty)"})
    (tmp_path / "ask.json").write_text(json.dumps([sorted(exports(driver("12.2"))), names, [*VERSIONS[::3], 12020, 12030]]))
    theirs, ours = (bench.python(ASK, str(library), str(tmp_path / "ask.json"), preload=False) for library in (roots.nvidias_libcuda(), driver("12.2")))
    assert len(theirs) > 80000  # type: ignore[arg-type]
    assert [(their, our) for their, our in zip(theirs, ours, strict=True) if their != our] == []  # type: ignore[call-overload]


WAYS = """
import ctypes, json, re, sys
library = ctypes.CDLL("libcuda.so.1")
since, version = json.loads(sys.argv[1]), int(sys.argv[2])
maps = [[int(part, 16) for part in line.split()[0].split("-")] for line in open("/proc/self/maps") if "libdrawbridge.so" in line]
def ours(address): return any(low <= address < high for low, high in maps)
look_up = getattr(library, "cuGetProcAddress_v2" if version >= 12000 else "cuGetProcAddress")
wrong = []
for name, first in since.items():
    base, stream = re.sub("(_v[0-9]+)?(_ptsz)?$", "", name), name.endswith("_ptsz")
    pointer = ctypes.c_void_p()
    if first > version:
        try: wrong.append([name, "is there", ctypes.cast(getattr(library, name), ctypes.c_void_p).value])
        except AttributeError: pass
        continue
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    more = [None] if version >= 12000 else []
    rc = look_up(base.encode(), ctypes.byref(pointer), first, ctypes.c_uint64(2 if stream else 1), *more)
    if not ours(address) or rc != 0 or pointer.value != address: wrong.append([name, rc, address, pointer.value])
print(json.dumps([len(since), wrong]))
"""


@every_profile
def test_every_wrapped_function_of_a_profile_is_reached_and_no_other_is_there(profile: str, bench: Bench) -> None:
    on(bench, profile).share(1 << 40)
    count, wrong = bench.python(WAYS, json.dumps(SINCE), str(VERSION[profile]))  # type: ignore[misc]
    assert (count > 60, wrong) == (True, [])


@oldest_and_middle
def test_every_kind_of_memory_is_held_as_on_the_newest_driver(profile: str, bench: Bench, tmp_path: Path) -> None:
    newest = Bench(tmp_path / "newest")
    programs = TREE / "tests" / "gpu" / "programs.py"
    for name in ("kinds", "linear"):
        bench.root.clear()
        newest.root.clear()
        shares = bench.share(2 << 30, name), newest.share(2 << 30, name)
        assert on(bench, profile).python(programs, name) == newest.python(programs, name)
        ours, theirs = (share.slot(0) for share in shares)
        assert ours["denied"] == theirs["denied"] > 0
        assert (ours["driver_version"], theirs["driver_version"]) == (VERSION[profile], 13000)


@oldest_and_middle
def test_every_way_to_a_function_leads_to_its_wrapper(profile: str, bench: Bench) -> None:
    bench.share(1 << 40)
    got = on(bench, profile).python(TREE / "tests" / "gpu" / "programs.py", "ways")
    assert len(got) == (6 if profile == "11.4" else 7) and all(value == [1, True] for value in got.values()), got  # type: ignore[arg-type, union-attr]


@oldest_and_middle
def test_random_sequences_agree_with_the_model(profile: str, bench: Bench) -> None:
    limit = CONTEXT + 1000 * MIB
    share = bench.share(limit)
    done, denials, counts = on(bench, profile).python(HERE / "walk.py", "7", "1500", str(share.folder / "ledger"), str(limit), str(CONTEXT))  # type: ignore[misc]
    assert (done, denials > 5, len(counts)) == (1500, True, 22 if VERSION[profile] >= SINCE["cuMulticastCreate"] else 18)
