"""What the library file is made of: it is loaded into every process of every container."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

from conftest import LIBRARY, TREE
from elf import Symbol, dynamic_symbols

OLDEST_GLIBC = (2, 17)


def table() -> list[list[str]]:
    lines = (TREE / "preload" / "entry_points.tsv").read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def symbols() -> list[Symbol]:
    return dynamic_symbols(LIBRARY)


def test_exports_exactly_the_wrapped_names() -> None:
    found = {symbol.name for symbol in symbols() if symbol.defined}
    assert found == {row[0] for row in table()} | {"dlsym", "dlvsym", "drawbridge_build"}


def test_needs_no_symbol_newer_than_glibc_2_17() -> None:
    for symbol in symbols():
        if symbol.defined:
            continue
        version = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", symbol.version)
        assert version, symbol
        assert (int(version[1]), int(version[2])) <= OLDEST_GLIBC, symbol


def test_needs_no_driver_no_runtime_and_no_second_library() -> None:
    text = subprocess.run(["readelf", "-Wd", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"\(NEEDED\).*\[(.*)\]", text) == ["libc.so.6"]
    assert not [symbol for symbol in symbols() if not symbol.defined and re.match(r"cu[A-Z]|nvml|_ZS|__cxa|__gxx", symbol.name)]


def test_runs_nothing_when_it_is_loaded_or_unloaded() -> None:
    text = subprocess.run(["readelf", "-Wd", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\((INIT|FINI|INIT_ARRAY|FINI_ARRAY|PREINIT_ARRAY|TEXTREL)\)", text)
    assert "BIND_NOW" in text


def test_takes_little_room(tmp_path: Path) -> None:
    stripped = tmp_path / "library"
    subprocess.run(["strip", "-o", stripped, LIBRARY], check=True)
    assert stripped.stat().st_size < 300 * 1024
    headers = subprocess.run(["readelf", "-Wl", LIBRARY], capture_output=True, text=True, check=True).stdout
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
    pattern = re.compile(r"Alloc|Create|Pool|Import|Map|Retain|Reset|Graph.*Add")
    exports = (TREE / "tests/preload/recorded/580.159-h200/exports.tsv").read_text().splitlines()
    names = [line.split("\t")[1] for line in exports if line.startswith("libcuda")]
    assert [name for name in names if pattern.search(name) and name not in known] == []


def test_the_shared_page_layout_is_what_python_writes() -> None:
    """tests/preload/share.py packs by hand what abi.h declares; the C++ test holds the same offsets."""
    assert struct.calcsize("<IIQQIIQ7Q6Q12I") == 192
    assert 16 + struct.calcsize("<Q16s16s16s40sIIQQQIIII") == 160
