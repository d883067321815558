"""Makes the shell of the stand-in driver from a recording: `generate.py OUT RECORDED PROFILES SOURCES...`.

Every exported name of the recorded driver that no source implements becomes a function that counts its calls and
answers "not supported"; the recorded answers of cuGetProcAddress become a table. PROFILES are CUDA versions with commas
between: each gets a list of what a driver of that version exports."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def implemented(sources: list[Path]) -> set[str]:
    return {name for source in sources for name in re.findall(r"^(?:int|const char\*) ((?:cu|nvml)\w+)\(", source.read_text(), re.MULTILINE)}


def exports(recorded: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"libcuda.so.1": [], "libnvidia-ml.so.1": []}
    for line in (recorded / "exports.tsv").read_text().splitlines():
        library, name, _, kind = line.split("\t")
        if kind == "function":
            found[library].append(name)
    return found


def stubs(names: list[str], done: set[str], answer: int) -> str:
    lines = ['#include "tests/preload/standin/count.hpp"', "", 'extern "C" {']
    lines += [f'int {name}() {{\n    COUNT_CALL("{name}");\n    return {answer};\n}}' for name in names if name not in done]
    return "\n".join([*lines, "}", ""])


def answers(recorded: Path) -> tuple[list[str], set[str]]:
    rows, symbols = [], set()
    for line in (recorded / "lookups.tsv").read_text().splitlines():
        function, name, flags, *changes = line.split("\t")
        if function != "cuGetProcAddress_v2":
            continue
        for change in changes:
            version, symbol, rc, status = re.match(r"(\d+):([^/]+)/(\d+)/(-?\d+)", change).groups()  # type: ignore[union-attr]
            pointer = "nullptr"
            if symbol.startswith("cu"):
                symbols.add(symbol)
                pointer = f"reinterpret_cast<void*>(&::{symbol})"
            mask = sum(1 << int(flag) for flag in flags.split(","))
            rows.append(f'    {{"{"" if name == "(empty)" else name}", {mask}u, {version}, {pointer}, {rc}, {status}, {"true" if symbol == "=" else "false"}}},')
    return rows, symbols


def look_ups(recorded: Path) -> str:
    rows, symbols = answers(recorded)
    lines = ['#include "tests/preload/standin/look_ups.hpp"', "", 'extern "C" {']
    lines += [f"int {symbol}();" for symbol in sorted(symbols)]
    lines += ["}", "", "namespace standin {", "", "const Answer recorded_answers[] = {", *rows, "};", "",
              f"const unsigned recorded_answer_count = {len(rows)};", "", "}  // namespace standin", ""]  # fmt: skip
    return "\n".join(lines)


def since(recorded: Path) -> dict[str, int]:
    """The CUDA version from which a function is looked up; what no look-up gives is as old as any driver here."""
    found: dict[str, int] = {}
    for line in (recorded / "lookups.tsv").read_text().splitlines():
        for version, symbol in re.findall(r"\t(\d+):(cu\w+)/", line):
            found[symbol] = min(int(version), found.get(symbol, int(version)))
    return found


def exports_of(names: list[str]) -> str:
    return "".join(["{\n  global:\n", *(f"    {name};\n" for name in [*names, "standin_*"]), "  local: *;\n};\n"])


def main() -> None:
    out, recorded, profiles, *sources = map(Path, sys.argv[1:])
    done = implemented(sources)
    names = exports(recorded)
    out.mkdir(parents=True, exist_ok=True)
    (out / "cuda_stubs.cpp").write_text(stubs(names["libcuda.so.1"], done, 801))
    (out / "nvml_stubs.cpp").write_text(stubs(names["libnvidia-ml.so.1"], done, 3))
    (out / "look_ups.cpp").write_text(look_ups(recorded))
    (out / "nvml.map").write_text(exports_of(["nvml*"]))
    first = since(recorded)
    for profile in map(int, str(profiles).split(",")):
        (out / f"cu-{profile}.map").write_text(exports_of([name for name in names["libcuda.so.1"] if first.get(name, 0) <= profile]))


if __name__ == "__main__":
    main()
