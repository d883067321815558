"""Real programs on the stand-in: each gets its share and is refused what is beyond it. Prints the driver functions that
each has used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import CONTEXT, HERE, Bench
from share import MIB

CHECK_PYTHON = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drawbridge-check" / "bin" / "python"
LIMIT = 2 * CONTEXT + 1000 * MIB


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("go") / "program"
    path = os.environ["PATH"] + os.pathsep + "/usr/local/go/bin"
    go = shutil.which("go", path=path)
    assert go, "tools/deps asks for Go"
    subprocess.run([go, "build", "-buildvcs=false", "-o", program, "."], cwd=HERE / "programs" / "go", check=True,
                   env=os.environ | {"PATH": path, "CGO_ENABLED": "1", "GOFLAGS": "-mod=mod"})  # fmt: skip
    return program


def used(bench: Bench, command: list[str]) -> tuple[str, list[str]]:
    """What a program prints, and the driver functions that it has called."""
    done = bench.run(command, DRAWBRIDGE_STANDIN_TRACE="1")
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
