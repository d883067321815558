"""Reads the dynamic symbols of an ELF64 little-endian library, without tools that a GPU machine may lack."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple


class Symbol(NamedTuple):
    """One symbol of the dynamic table; `version` is empty where the library has none."""

    name: str
    version: str
    defined: bool
    function: bool
    weak: bool


class Section(NamedTuple):
    kind: int
    address: int
    offset: int
    size: int
    link: int
    info: int


DYNSYM, VERDEF, VERNEED, VERSYM = 11, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF


def text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def sections(data: bytes) -> list[Section]:
    offset = struct.unpack_from("<Q", data, 0x28)[0]
    size, count = struct.unpack_from("<HH", data, 0x3A)
    found = []
    for index in range(count):
        _, kind, _, address, place, length, link, info = struct.unpack_from("<IIQQQQII", data, offset + index * size)
        found.append(Section(kind, address, place, length, link, info))
    return found


def version_names(data: bytes, table: list[Section]) -> dict[int, str]:
    """The names of version indices, defined and needed alike."""
    names: dict[int, str] = {}
    for section in table:
        if section.kind not in (VERDEF, VERNEED):
            continue
        strings = data[table[section.link].offset :][: table[section.link].size]
        at = section.offset
        for _ in range(section.info):
            if section.kind == VERDEF:
                _, _, index, count, _, first, step = struct.unpack_from("<HHHHIII", data, at)
                names[index & 0x7FFF] = text(strings, struct.unpack_from("<I", data, at + first)[0])
            else:
                _, count, _, first, step = struct.unpack_from("<HHIII", data, at)
                inner = at + first
                for _ in range(count):
                    _, _, index, name, after = struct.unpack_from("<IHHII", data, inner)
                    names[index & 0x7FFF] = text(strings, name)
                    inner += after
            at += step
    return names


def dynamic_symbols(path: Path | str) -> list[Symbol]:
    """Every named symbol of the dynamic symbol table, in file order."""
    data = Path(path).read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no ELF64 little-endian file")
    table = sections(data)
    versions = version_names(data, table)
    index = next((section for section in table if section.kind == VERSYM), None)
    found = []
    for section in table:
        if section.kind != DYNSYM:
            continue
        strings = data[table[section.link].offset :][: table[section.link].size]
        for number in range(section.size // 24):
            name, info, _, place = struct.unpack_from("<IBBH", data, section.offset + 24 * number)
            mark = struct.unpack_from("<H", data, index.offset + 2 * number)[0] & 0x7FFF if index else 0
            if name:
                found.append(Symbol(text(strings, name), versions.get(mark, "") if mark > 1 else "", place != 0,
                                    info & 15 == 2, info >> 4 == 2))  # fmt: skip
    return found
