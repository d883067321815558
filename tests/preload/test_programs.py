"""Real programs on the stand-in: each gets its share and is refused what is beyond it. Prints the driver functions that
each has used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import CHECK_PYTHON, CONTEXT, HERE, OLDER_DRIVER, Bench
from front import FrontBench
from roots import roots
from share import MIB

LIMIT = 2 * CONTEXT + 1000 * MIB
ROOM = 960 * MIB  # beside a context; a multiple of each step of the programs
CARD = 4096 * MIB
OUT_OF_MEMORY = 2  # CUDA's
DRIVER = OLDER_DRIVER | {"DRAWBRIDGE_STANDIN_BYTES": str(CARD)}
KINDS = ["linear", "managed", "pitched", "array", "async", "per thread", "pool"]
FULL = {"taken": ROOM, "left": 0, "beyond": OUT_OF_MEMORY, "back": True}


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("go") / "program"
    path = os.environ["PATH"] + os.pathsep + "/usr/local/go/bin"
    go = shutil.which("go", path=path)
    assert go, "tools/deps asks for Go"
    subprocess.run([go, "build", "-buildvcs=false", "-o", program, "."], cwd=HERE / "programs" / "go", check=True,
                   env=os.environ | {"PATH": path, "CGO_ENABLED": "1", "GOFLAGS": "-mod=mod"})  # fmt: skip
    return program


@pytest.fixture(scope="session")
def runtime(cuda: Path) -> Path:
    (library,) = cuda.glob("lib/python3*/site-packages/nvidia/cuda_runtime/lib/libcudart.so.11.0")
    return library


@pytest.fixture(scope="session")
def c_program(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("cudart") / "cudart"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / "programs" / "cudart.c", runtime,
                    f"-Wl,-rpath,{runtime.parent}", "-lpthread"], check=True)  # fmt: skip
    return program


def used(bench: Bench, command: list[str], **more: str) -> tuple[str, list[str]]:
    """What a program prints, and the driver functions that it has called."""
    done = bench.run(command, DRAWBRIDGE_STANDIN_TRACE="1", **more)
    assert done.returncode == 0, done.stderr[-2000:]
    called = sorted({line.removeprefix("standin: ") for line in done.stderr.splitlines() if line.startswith("standin: ")})
    print(f"{Path(command[0]).name}: {', '.join(called)}")
    return done.stdout, called


def test_a_go_program_with_threads_and_children(bench: Bench, go_program: Path) -> None:
    bench.share(LIMIT)
    out, called = used(bench, [str(go_program), "1"])
    found = json.loads(out)
    left = LIMIT - CONTEXT
    assert (found["total"], found["left"], found["after"]) == (LIMIT, left, left)
    assert (found["whole"], found["beyond"]) == (0, 2)
    assert (found["child_beyond"], found["child"]) == ("2", "0")
    assert found["granted"] == left // (16 * MIB)
    assert {"cuInit", "cuMemAlloc_v2", "cuMemFree_v2"} <= set(called)


def test_nvidias_own_python_binding_shows_the_share(bench: Bench) -> None:
    bench.share(LIMIT)
    script = """
import ctypes, json, os, pynvml as n
cuda = ctypes.CDLL("libcuda.so.1"); context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_uint64(100 << 20)) == 0
n.nvmlInit(); handle = n.nvmlDeviceGetHandleByIndex(0)
one, two = n.nvmlDeviceGetMemoryInfo(handle), n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
processes = [[entry.pid == os.getpid(), entry.usedGpuMemory] for entry in n.nvmlDeviceGetComputeRunningProcesses(handle)]
print(json.dumps([one.total, one.used, one.free, two.total, two.used + two.reserved, two.free, processes, n.nvmlDeviceGetCount()]))
"""
    out, called = used(bench, [str(CHECK_PYTHON), "-c", script])
    assert "nvmlDeviceGetMemoryInfo_v2" in called
    held = CONTEXT + 100 * MIB
    assert json.loads(out) == [LIMIT, held, LIMIT - held, LIMIT, held, LIMIT - held, [[True, held]], 1]


def test_debians_nvidia_smi_shows_the_share(bench: Bench) -> None:
    """Its table of NVML's functions is a private one; what it says of memory goes through the functions that all have."""
    bench.share(LIMIT)
    script = """
import ctypes, json, os, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1"); context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_uint64(100 << 20)) == 0
def smi(*arguments): return subprocess.run([sys.argv[1], *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout
memory = smi("--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader,nounits").strip()
processes = smi("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits").strip()
print(json.dumps([memory, processes == f"{os.getpid()}, {memory.split(', ')[1]}", smi()]))
"""
    out, called = used(bench, [str(CHECK_PYTHON), "-c", script, str(roots.nvidias_smi())])
    memory, own_process, table = json.loads(out)
    total, held = LIMIT // MIB, (CONTEXT + 100 * MIB) // MIB
    assert (memory, own_process) == (f"{total}, {held}, {total - held}", True)
    assert re.search(rf" {held}MiB / +{total}MiB \|", table) and re.search(rf" C +python3? +{held}MiB \|", table), table
    assert {"nvmlInternalGetExportTable", "nvmlDeviceGetMemoryInfo_v2", "nvmlInit_v2"} <= set(called)


def held_and_bare(bench: Bench, command: list[str]) -> tuple[dict, dict, set[str]]:
    """What a program of the CUDA runtime finds under the library and without it, and the driver functions that it has called."""
    out, called = used(bench, command, **DRIVER)
    bare = bench.run(command, preload=False, **DRIVER)
    assert bare.returncode == 0, bare.stderr[-2000:]
    return json.loads(out), json.loads(bare.stdout), set(called)


def is_held(found: dict, bare: dict, kinds: list[str]) -> None:
    """The share under the library, all of the card without it."""
    assert (found["runtime"], found["driver"]) == (bare["runtime"], bare["driver"]) == (11080, 11010)
    assert (found["whole"], found["total"]) == (ROOM, CONTEXT + ROOM)
    assert {kind: found[kind] for kind in kinds} == {kind: found[kind] | FULL for kind in kinds}
    assert (bare["total"], bare["whole"] > CARD - CONTEXT - 64 * MIB) == (CARD, True)
    assert all(bare["whole"] - bare[kind]["taken"] < 32 * MIB for kind in kinds)


def test_a_c_program_with_the_shared_cuda_runtime(bench: Bench, c_program: Path) -> None:
    bench.share(CONTEXT + ROOM)
    found, bare, called = held_and_bare(bench, [str(c_program)])
    is_held(found, bare, KINDS)
    assert {found[kind]["refused"] for kind in KINDS} == {OUT_OF_MEMORY}
    assert (found["host"], found["threads"], found["name"], found["reset"], found["after"]) == (1, ROOM, "cudaErrorMemoryAllocation", 1, 0)
    assert bare["threads"] > 3 * ROOM
    assert {"cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync", "cuDevicePrimaryCtxReset", "cuGetExportTable"} <= called


@pytest.mark.parametrize("preload", [False, True], ids=["front alone", "preloaded too"])
def test_the_shared_cuda_runtime_finds_the_front(preload: bool, tmp_path: Path, c_program: Path) -> None:
    bench = FrontBench(tmp_path)
    bench.share(CONTEXT + ROOM)
    done = bench.run([str(c_program)], preload, **DRIVER)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert {kind: found[kind] for kind in KINDS} == {kind: found[kind] | FULL for kind in KINDS}
    assert (found["total"], found["threads"], found["reset"], found["after"]) == (CONTEXT + ROOM, ROOM, 1, 0)


def test_cupys_pools_with_the_cuda_runtime_linked_in(bench: Bench, cuda: Path) -> None:
    bench.share(CONTEXT + ROOM)
    found, bare, called = held_and_bare(bench, [str(cuda / "bin" / "python"), str(HERE / "programs" / "with_cupy.py")])
    is_held(found, bare, ["linear", "managed", "async"])
    assert found["linear"]["message"] == f"Out of memory allocating {20 * MIB:,} bytes (allocated so far: {ROOM:,} bytes)."
    assert (found["array"], found["linked in"]) == (True, True)
    assert {"cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocAsync", "cuGetExportTable"} <= called


def test_python_and_its_child_with_the_cuda_runtime_by_ctypes(bench: Bench, runtime: Path) -> None:
    bench.share(2 * CONTEXT + ROOM)
    half = ROOM // 2
    command = [str(CHECK_PYTHON), str(HERE / "programs" / "with_ctypes.py"), str(runtime), str(half // MIB), str(half // MIB)]
    found, bare, called = held_and_bare(bench, command)
    child = {"left": half, "total": 2 * CONTEXT + ROOM, "status": 0, "beyond": OUT_OF_MEMORY, "killed": True}
    assert found == {"left": CONTEXT + ROOM, "total": 2 * CONTEXT + ROOM, "status": 0, "child": child, "beyond": 0}
    assert (bare["total"], bare["child"]["total"], bare["child"]["beyond"]) == (CARD, CARD, 0)
    assert {"cuMemAlloc_v2", "cuMemGetInfo_v2", "cuGetExportTable"} <= called
