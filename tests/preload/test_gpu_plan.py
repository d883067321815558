"""The checks of tests/gpu, on the stand-in driver: they pass where all is well, and find what is not."""

from __future__ import annotations

import os
import re
import subprocess
import uuid
from pathlib import Path

import pytest
from conftest import FRONT, LIBRARY, OLDER_DRIVER, SECONDS, STANDIN, TREE, card
from share import ways_to_libcuda

pytestmark = pytest.mark.plain  # dlmopen and RTLD_DEEPBIND

PLAN = TREE / "tests" / "gpu" / "run"
MEMORY = ["ways", "linear", "real_use", "kinds", "multicast", "sparse", "killed", "changed", "overhead", "refusals", "front"]  # the rest needs the GPU's own programs
WAYS = set(ways_to_libcuda(Path(), Path()))


def plan(world: Path, *only: str, library: Path = LIBRARY, front: Path = FRONT, **more: str) -> subprocess.CompletedProcess[str]:
    command = [PLAN, "--device", str(uuid.UUID(bytes=card(0))), "--library", library, "--front", front, "--out", world / "out", "--only", *only]
    environment = os.environ | {"DRAWBRIDGE_STANDIN_STATE": str(world / "cards"), "DRAWBRIDGE_STANDIN_BYTES": str(8 << 30), "LD_LIBRARY_PATH": str(STANDIN)}
    return subprocess.run(command, env=environment | more, capture_output=True, text=True, timeout=SECONDS, check=False)


def lines(output: str, word: str) -> set[str]:
    return set(re.findall(rf"^{word} (.*?)(?:: (?:[\[{{\"].*|null))?$", output, re.MULTILINE))


def test_without_a_gpu_nothing_is_run_and_nothing_fails() -> None:
    done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev && exec "$1"', "sh", PLAN], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "tests/gpu/run: this machine has no NVIDIA GPU; nothing was run, nothing failed\n"), done


def test_every_memory_check_passes_on_the_stand_in(tmp_path: Path) -> None:
    done = plan(tmp_path, *MEMORY)
    assert (done.returncode, lines(done.stdout, "FAIL")) == (0, set()), done
    passed = lines(done.stdout, "ok  ")
    assert {line.split(":")[0] for line in passed} >= {"ways", "linear", "kinds", "multicast", "sparse", "killed", "front", "front beside the library"}
    for name in ("front", "front beside the library"):
        assert {f"{name}: {way} is refused at the limit" for way in WAYS} <= passed
    assert (tmp_path / "out" / "results.json").exists()


def test_a_front_that_holds_nobody_is_found(tmp_path: Path) -> None:
    """The driver itself in the place of the front: what a preloaded library does not see is open, and all is where there is none."""
    done = plan(tmp_path, "front", front=STANDIN / "libcuda.so.1")
    assert done.returncode == 1, done
    failed = {line.removesuffix(" is refused at the limit") for line in lines(done.stdout, "FAIL") if line.endswith(" at the limit")}
    assert failed == {f"front: {way}" for way in WAYS} | {f"front beside the library: {way}" for way in ("dlmopen", "RTLD_DEEPBIND")}


def test_a_library_that_holds_nobody_is_found(tmp_path: Path) -> None:
    """A driver in its place, which any program asks first."""
    done = plan(tmp_path, "linear", "kinds", "killed", "refusals", library=STANDIN / "libcuda.so.1")
    assert done.returncode == 1, done
    failed = lines(done.stdout, "FAIL")
    kinds = {f"kinds: {kind} is refused at the limit and given back" for kind in ("linear", "async", "async freed by cuMemFree", "vmm", "array", "own pool")}
    assert failed >= kinds | {"linear: total is the limit everywhere", "refusals: no share at all", "refusals: limits of another boot"}
    assert any(line.startswith("killed:") for line in failed)


HOLDERS = {
    "multicast: memory is held until it is unbound", "multicast: memory is held until the object is gone", "multicast: memory is held bound by its address, until it is unbound",
    "multicast: no more than the share, and all of it is back", "sparse: memory is held until the last tile is unmapped", "sparse: memory is held until the array is gone",
    "sparse: no more than the share, and all of it is back",
}  # fmt: skip


def test_multicast_objects_and_sparse_arrays_hold_memory_as_the_driver_has_it(tmp_path: Path) -> None:
    done = plan(tmp_path, "multicast", "sparse")
    assert (done.returncode, lines(done.stdout, "ok  "), lines(done.stdout, "not run")) == (0, HOLDERS, set()), done


def test_a_card_without_multicast_objects_and_sparse_arrays_is_told_of(tmp_path: Path) -> None:
    done = plan(tmp_path, "multicast", "sparse", DRAWBRIDGE_STANDIN_LACKS="132,112")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"0 passed, 0 failed, {len(HOLDERS)} not run"), done
    reasons = {"multicast": "the card and its driver have no multicast objects", "sparse": "the card and its driver have no sparse arrays"}
    assert {line for line in done.stdout.splitlines() if line.startswith("not run")} == {f"not run: {name}: {reasons[name.split(':')[0]]}" for name in HOLDERS}


def test_a_library_that_lets_go_of_what_others_hold_is_found(tmp_path: Path) -> None:
    """A driver in its place: no limit at all."""
    done = plan(tmp_path, "multicast", "sparse", library=STANDIN / "libcuda.so.1")
    assert (done.returncode, lines(done.stdout, "FAIL") >= {name for name in HOLDERS if "share" in name}) == (1, True), done


def with_cuda(cuda: Path) -> dict[str, str]:
    """A machine whose Python has NVIDIA's CUDA runtime, and a driver on which that one starts."""
    return OLDER_DRIVER | {"PATH": f"{cuda / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_the_cuda_runtime_is_held_on_the_stand_in(tmp_path: Path, cuda: Path) -> None:
    done = plan(tmp_path, "cudart", **with_cuda(cuda))
    assert (done.returncode, lines(done.stdout, "FAIL")) == (0, set()), done
    assert done.stdout.splitlines()[-1] == "9 passed, 0 failed, 1 not run"
    assert "not run: cudart static: neither nvcc nor a package of Python's has it" in done.stdout


def test_a_cuda_runtime_that_is_not_held_is_found(tmp_path: Path, cuda: Path) -> None:
    done = plan(tmp_path, "cudart", library=STANDIN / "libcuda.so.1", **with_cuda(cuda))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 passed, 8 failed, 1 not run")
