"""Makes sources from entry_points.tsv, the reviewed table of the functions that the library wraps.

    generate.py emit FOLDER
        entry_points.hpp (types, indices, declarations), entry_points.cpp (tables, hash of names), exports.map,
        front.map (what the front exports)
    generate.py refresh --cuda cudaTypedefs.h ... --nvml nvml.h --recorded FOLDER
        fills the columns `since` and `parameters` from NVIDIA's public headers (PyPI: nvidia-cuda-runtime,
        nvidia-nvml-dev) and from a recording of a driver; only needed when a row is added

Columns: name, kind (W: has an effect, T: keeps tables right, S: a setting, refused where the share says so), group,
since (CUDA version of this variant, 0 for NVML), parameters. Types are reduced to what the calling convention sees:
void*, uint64_t, uint32_t, int. Every function returns int: CUresult or nvmlReturn_t."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
TABLE = HERE / "entry_points.tsv"
PLAIN = {
    "unsigned int": "uint32_t", "CUdeviceptr_v1": "uint32_t", "int": "int", "CUdevice": "int", "CUdevice_v1": "int", "size_t": "uint64_t",
    "cuuint64_t": "uint64_t", "unsigned long long": "uint64_t", "CUdeviceptr_v2": "uint64_t", "CUmemGenericAllocationHandle_v1": "uint64_t",
    "CUmemGenericAllocationHandle": "uint64_t", "CUdeviceptr": "uint64_t", "CUlimit": "uint32_t", "CUmemAllocationHandleType": "uint32_t",
    "CUmemAllocationType": "uint32_t",
}  # fmt: skip
HANDLES = {"nvmlDevice_t", "nvmlUnit_t", "nvmlGpuInstance_t", "nvmlComputeInstance_t", "nvmlVgpuInstance_t"}
ENUMS = re.compile(r"^(enum )?nvml\w+_t$")
BY_HAND = {  # declared in no public header
    "cuGLCtxCreate": "void* pCtx, uint32_t Flags, int device",
    "cuGLCtxCreate_v2": "void* pCtx, uint32_t Flags, int device",
    "cuVDPAUCtxCreate": "void* pCtx, uint32_t flags, int device, uint32_t vdpDevice, void* vdpGetProcAddress",
    "cuVDPAUCtxCreate_v2": "void* pCtx, uint32_t flags, int device, uint32_t vdpDevice, void* vdpGetProcAddress",
}

NEWER = {  # than the recorded driver: base name and first version
    "cuMulticastBindMem_v2": ("cuMulticastBindMem", 13010),
    "cuMulticastBindAddr_v2": ("cuMulticastBindAddr", 13010),
}


class Row(NamedTuple):
    name: str
    kind: str
    group: str
    since: str
    parameters: str

    @property
    def library(self) -> str:
        return "nvml" if self.name.startswith("nvml") else "cuda"

    @property
    def arguments(self) -> str:
        return ", ".join(re.findall(r"(\w+)(?:,|$)", self.parameters)) if self.parameters != "void" else ""


def read_table() -> list[Row]:
    lines = TABLE.read_text().splitlines()
    return [Row(*(line.split("\t") + ["", ""])[:5]) for line in lines if line and not line.startswith("#")]


# --------------------------------------------------------------------------------------------------- refresh


def reduced(parameters: str) -> str:
    """The parameter list with types as the calling convention sees them."""
    if parameters.strip() == "void":
        return "void"
    out = []
    for parameter in parameters.split(","):
        text = " ".join(parameter.replace("const ", " ").split())
        words = text.replace("*", " * ").split()
        name = re.sub(r"\[.*", "", words[-1])
        kind = " ".join(words[:-1])
        if "*" in kind or "[" in text or kind in HANDLES:
            kind = "void*"
        elif kind in PLAIN:
            kind = PLAIN[kind]
        elif kind.startswith("CU"):
            kind = "void*"
        elif ENUMS.match(kind):
            kind = "uint32_t"
        else:
            sys.exit(f"generate.py: unknown type in: {parameter}")
        out.append(f"{kind} {name}")
    return ", ".join(out)


def cuda_signatures(headers: list[Path]) -> dict[tuple[str, int, str], str]:
    found = {}
    pattern = re.compile(r"typedef CUresult \(CUDAAPI \*PFN_(\w+?)_v(\d+)(_ptsz|_ptds)?\)\(([^;]*)\);")
    for header in headers:
        for name, version, stream, parameters in pattern.findall(header.read_text()):
            found[name, int(version), stream] = parameters
    return found


def nvml_signatures(header: Path) -> dict[str, str]:
    pattern = re.compile(r"^(?:\w+\([^)]*\) *)?nvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(([^;]*?)\);", re.MULTILINE | re.DOTALL)
    return dict(pattern.findall(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)))


def recorded_variants(folder: Path) -> dict[str, tuple[str, int]]:
    """Exported symbol -> base name and first version that cuGetProcAddress_v2 gave it for."""
    found: dict[str, tuple[str, int]] = {}
    for line in (folder / "lookups.tsv").read_text().splitlines():
        function, name, _, *answers = line.split("\t")
        for answer in answers if function == "cuGetProcAddress_v2" else []:
            version, symbol = re.match(r"(\d+):([^/]+)", answer).groups()  # type: ignore[union-attr]
            if symbol.startswith("cu"):
                found.setdefault(symbol, (name, int(version)))
    return found


def refresh(cuda: list[Path], nvml: Path, recorded: Path) -> None:
    typedefs, functions, variants = cuda_signatures(cuda), nvml_signatures(nvml), NEWER | recorded_variants(recorded)
    rows = []
    for row in read_table():
        since, parameters = row.since, row.parameters
        if row.library == "nvml":
            since, parameters = "0", reduced(functions[row.name])
        else:
            base, version = variants[row.name]
            stream = "_ptsz" if row.name.endswith("_ptsz") else ""
            since = str(version)
            parameters = BY_HAND[row.name] if row.name in BY_HAND else reduced(typedefs[base, version, stream])
        rows.append(row._replace(since=since, parameters=parameters))
    head = [line for line in TABLE.read_text().splitlines() if line.startswith("#")]
    TABLE.write_text("\n".join(head + ["\t".join(row) for row in rows]) + "\n")


# ------------------------------------------------------------------------------------------------------ emit


def fnv(name: str, seed: int) -> int:
    value = seed
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value ^ value >> 15


SEED = 2166136261


def hashed(names: list[str]) -> list[int]:
    """Places of an open-addressing table, at most a quarter full; -1 marks an empty place."""
    size = 1 << (4 * len(names) - 1).bit_length()
    places = [-1] * size
    for index, name in enumerate(names):
        place = fnv(name, SEED) & size - 1
        while places[place] != -1:
            place = place + 1 & size - 1
        places[place] = index
    return places


def header(rows: list[Row]) -> str:
    lines = ["// Made by preload/generate.py from preload/entry_points.tsv.", "#pragma once", "", "#include <stdint.h>", "",
             "namespace preload {", "", "enum Entry : int {"]  # fmt: skip
    lines += [f"    entry_{row.name}," for row in rows]
    lines += ["    entry_count", "};", "", f"inline constexpr int first_nvml_entry = {sum(row.library == 'cuda' for row in rows)};", ""]
    lines += [f"using {row.name}_function = int (*)({row.parameters});" for row in rows]
    lines += ["", "}  // namespace preload", "", 'extern "C" {']
    lines += [f'__attribute__((visibility("default"))) int {row.name}({row.parameters});' for row in rows]
    return "\n".join([*lines, "}", ""])


def tables(rows: list[Row]) -> str:
    places = hashed([row.name for row in rows])
    size = len(places)
    lines = ["// Made by preload/generate.py from preload/entry_points.tsv.", '#include "preload/entry_points.hpp"', "",
             '#include "preload/resolve.hpp"', "", "namespace preload {", "",
             "const char* const entry_names[entry_count] = {"]  # fmt: skip
    lines += [f'    "{row.name}",' for row in rows]
    lines += ["};", "", "void* const entry_wrappers[entry_count] = {"]
    lines += [f"    reinterpret_cast<void*>(&::{row.name})," for row in rows]
    lines += ["};", "", f"const uint32_t entry_hash_seed = {SEED}u;", f"const uint32_t entry_hash_mask = {size - 1}u;",
              f"const int16_t entry_hash_places[{size}] = {{"]  # fmt: skip
    lines += ["    " + ", ".join(map(str, places[at : at + 16])) + "," for at in range(0, size, 16)]
    lines += ["};", "", "}  // namespace preload", "", 'extern "C" {']
    for row in rows:
        if row.kind == "S":
            lines.append(f"int {row.name}({row.parameters}) {{\n"
                         f"    if (preload::setting_refused()) return preload::nvml_no_permission;\n"
                         f"    auto* real = preload::real<preload::{row.name}_function>(preload::entry_{row.name});\n"
                         f"    return real ? real({row.arguments}) : preload::nvml_function_not_found;\n}}")  # fmt: skip
    return "\n".join([*lines, "}", ""])


def version_script(rows: list[Row], more: list[str]) -> str:
    names = [row.name for row in rows] + ["drawbridge_build", *more]
    return "{\n  global:\n" + "".join(f"    {name};\n" for name in sorted(names)) + "  local: *;\n};\n"


def write(path: Path, text: str) -> None:
    """Writes only what changed, so that the build does no more than it must."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def emit(folder: Path) -> None:
    rows = sorted(read_table(), key=lambda row: row.library)
    write(folder / "entry_points.hpp", header(rows))
    write(folder / "entry_points.cpp", tables(rows))
    write(folder / "exports.map", version_script(rows, ["dlsym", "dlvsym"]))
    write(folder / "front.map", version_script([row for row in rows if row.library == "cuda"], ["drawbridge_front"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("emit").add_argument("folder", type=Path)
    again = commands.add_parser("refresh")
    again.add_argument("--cuda", type=Path, nargs="+", required=True)
    again.add_argument("--nvml", type=Path, required=True)
    again.add_argument("--recorded", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "emit":
        emit(options.folder)
    else:
        refresh(options.cuda, options.nvml, options.recorded)


if __name__ == "__main__":
    main()
