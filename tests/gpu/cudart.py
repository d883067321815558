"""NVIDIA's CUDA runtime, shared and linked statically, of whatever versions a machine has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from plan import CONTEXT, HERE, Bench, check, has, has_command, run
from share import MIB

ROOM = 480 * MIB  # beside a context; a multiple of each step of the program
KINDS = ("linear", "managed", "pitched", "array", "async", "per thread", "pool")


def check_cudart(bench: Bench) -> None:
    """A C program takes every kind of memory through the runtime."""
    names = ("cudart shared", "cudart static")
    if not has_command("gcc", *names):
        return
    found = runtimes()
    for name in names:
        has(found.get(name), "neither nvcc nor a package of Python's has it", name)
    for name, libraries in found.items():
        for library in libraries:
            is_held(bench, f"{name} of {library.parent}", library)


def runtimes() -> dict[str, list[Path]]:
    """The runtimes beside nvcc, and those that Python's packages bring: shared and static."""
    nvcc = shutil.which("nvcc")
    folders = [Path(nvcc).resolve().parent.parent / "lib64"] if nvcc else []
    folders += [folder for place in sys.path for folder in Path(place).glob("nvidia/*/lib")]
    found: dict[str, list[Path]] = {}
    for folder in dict.fromkeys(folders):
        for name, pattern in (("cudart shared", "libcudart.so.[0-9]*"), ("cudart static", "libcudart_static.a")):
            found.setdefault(name, []).extend(sorted(folder.glob(pattern))[:1])
    return {name: libraries for name, libraries in found.items() if libraries}


def is_held(bench: Bench, name: str, library: Path) -> None:
    work = bench.folder()
    work.mkdir()
    command = ["gcc", "-O1", "-o", work / "cudart", HERE.parent / "preload" / "programs" / "cudart.c", library, f"-Wl,-rpath,{library.parent}", "-lpthread", "-ldl", "-lrt"]
    subprocess.run(command, check=True)
    root, share = bench.share(CONTEXT + ROOM)
    done = run([str(work / "cudart")], root.environment())
    try:
        got = json.loads(done.stdout)
    except ValueError:
        got = {"failed": [done.returncode, done.stdout[-300:], done.stderr[-900:]]}
    for kind in KINDS:
        facts = got.get(kind, {})
        held = ROOM - 32 * MIB <= facts.get("taken", 0) <= ROOM and (facts["refused"], facts["beyond"], facts["back"]) == (2, 2, 1)
        check(f"{name}: {kind} is refused at the limit and given back", held, got)
    again = [got.get(key) for key in ("total", "name", "reset", "after")]
    check(f"{name}: the share is the runtime's whole card, also after a reset", again == [CONTEXT + ROOM, "cudaErrorMemoryAllocation", 1, 0], got)
    check(f"{name}: nothing is left at the end", share.slot(0)["errors"] == 0, share.slot(0))
