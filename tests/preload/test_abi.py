"""What the files of the library are made of: one is loaded into every process of every container, and one may stand in the
place of libcuda.so.1."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import FRONT, LIBRARY, TREE
from elf import dynamic_symbols
from front import DRIVER

pytestmark = pytest.mark.plain

OLDEST_GLIBC = (2, 17)
LOADER = "ld-linux-x86-64.so.2"  # which is there before any library is
every_file = pytest.mark.parametrize("library", [LIBRARY, FRONT], ids=["preloaded", "front"])


def table() -> list[list[str]]:
    lines = (TREE / "preload" / "entry_points.tsv").read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def exports(library: Path) -> set[str]:
    return {symbol.name for symbol in dynamic_symbols(library) if symbol.defined}


def dynamic(library: Path) -> str:
    return subprocess.run(["readelf", "-Wd", library], capture_output=True, text=True, check=True).stdout


def test_exports_exactly_the_wrapped_names() -> None:
    names = {row[0] for row in table()}
    assert exports(LIBRARY) == names | {"dlsym", "dlvsym", "drawbridge_build"}
    assert exports(FRONT) == {name for name in names if name.startswith("cu")} | {"drawbridge_build", "drawbridge_front"}


@every_file
def test_needs_no_symbol_newer_than_glibc_2_17(library: Path) -> None:
    for symbol in dynamic_symbols(library):
        if symbol.defined:
            continue
        version = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", symbol.version)
        assert version, symbol
        assert (int(version[1]), int(version[2])) <= OLDEST_GLIBC, symbol


@every_file
def test_needs_no_runtime_and_no_library_but_the_fronts_driver(library: Path) -> None:
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic(library))
    assert needed == [*([DRIVER] if library == FRONT else []), "libc.so.6", LOADER]
    assert not [symbol for symbol in dynamic_symbols(library) if not symbol.defined and re.match(r"cu[A-Z]|nvml|_ZS|__cxa|__gxx", symbol.name)]


def test_the_front_has_the_name_of_the_driver_and_stays_once_it_is_loaded() -> None:
    text = dynamic(FRONT)
    assert re.findall(r"\(SONAME\).*\[(.*)\]", text) == ["libcuda.so.1"]
    assert "NODELETE" in text and "SYMBOLIC" in text and not re.search("RPATH|RUNPATH", text)


@every_file
def test_runs_nothing_when_it_is_loaded_or_unloaded(library: Path) -> None:
    text = dynamic(library)
    assert not re.search(r"\((INIT|FINI|INIT_ARRAY|FINI_ARRAY|PREINIT_ARRAY|TEXTREL)\)", text)
    assert "BIND_NOW" in text


@every_file
def test_is_loaded_with_little_work(library: Path) -> None:
    """No name is looked up for what the library defines itself, and its state is not copied: each would be, in every process."""
    own = {symbol.name for symbol in dynamic_symbols(library) if symbol.defined}
    text = subprocess.run(["readelf", "-WrlS", library], capture_output=True, text=True, check=True).stdout
    relocated = {line.split()[4].split("@")[0] for line in text.splitlines() if re.match(r"[0-9a-f]{16} .* R_\w+ +[0-9a-f]{16} ", line)}
    assert "dl_iterate_phdr" in relocated and not own & relocated
    assert len(re.findall(r"^ +LOAD ", text, re.MULTILINE)) == 2
    assert " .bss " in text and " .data " not in text


@every_file
def test_takes_little_room(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "library"
    subprocess.run(["strip", "-o", stripped, library], check=True)
    assert stripped.stat().st_size < 300 * 1024
    headers = subprocess.run(["readelf", "-Wl", library], capture_output=True, text=True, check=True).stdout
    local = re.search(r"^\s+TLS\s+\S+ \S+ \S+ \S+ (\S+)", headers, re.MULTILINE)
    assert local and int(local[1], 16) <= 64


def test_the_table_is_in_step_with_its_generator() -> None:
    rows = table()
    assert len({row[0] for row in rows}) == len(rows)
    for name, kind, group, since, parameters in rows:
        assert kind in "WTS" and group and since.isdigit() and parameters, name


def test_every_allocating_name_of_the_recorded_driver_was_looked_at() -> None:
    """A new name that allocates, maps or launches fails here until somebody has decided about it."""
    known = {row[0] for row in table()} | set((Path(__file__).parent / "left_alone.txt").read_text().split())
    pattern = re.compile(r"Alloc|Create|Launch|Pool|Import|Map|Retain|Reset|Graph.*Add")
    exports = (TREE / "tests/preload/recorded/580.159-h200/exports.tsv").read_text().splitlines()
    names = [line.split("\t")[1] for line in exports if line.startswith("libcuda")]
    assert [name for name in names if pattern.search(name) and name not in known] == []


def test_every_setting_of_the_recorded_nvml_was_looked_at() -> None:
    """As above; what is left alone sets something of the caller's alone, or tells of a setting."""
    known = {row[0] for row in table()} | set((Path(__file__).parent / "left_alone.txt").read_text().split())
    pattern = re.compile(r"Set|Clear|Reset|Create|Destroy|Remove|Modify|Activate|Update|Freeze|Force|Write")
    exports = (TREE / "tests/preload/recorded/580.159-h200/exports.tsv").read_text().splitlines()
    names = [line.split("\t")[1] for line in exports if line.startswith("libnvidia-ml")]
    assert [name for name in names if pattern.search(name) and name not in known] == []


def test_the_shared_page_layout_is_what_python_writes() -> None:
    """tests/preload/share.py packs by hand what abi.h declares; the C++ test holds the same offsets."""
    assert struct.calcsize("<IIQQIIQ7Q6Q12I") == 192
    assert 16 + struct.calcsize("<Q16s16s16s40sIIQQQIIII") == 160
