"""What the tests of the preload library share: the library, the stand-in driver, a fresh root and programs run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE / "record")]

from share import Root, Share, preloaded  # noqa: E402

BUILD = Path(os.environ.get("DRAWBRIDGE_PRELOAD_BUILD", TREE / "build" / "debug"))
LIBRARY = BUILD / "lib" / "libdrawbridge.so"
FRONT = BUILD / "lib" / "libdrawbridge-libcuda.so"  # for the place of libcuda.so.1
MARKED = BUILD / "marked" / "libdrawbridge.so"  # with points at which a process stops or dies
STANDIN = BUILD / "standin"
PROFILES = BUILD / "standin-profiles"  # older drivers, by their CUDA version
PROFILE = os.environ.get("DRAWBRIDGE_STANDIN_PROFILE", "")  # the one of them that the tests run on; none: the newest driver
RECORDED = HERE / "recorded" / "580.159-h200"
CONTEXT = 543162368
CARD = bytes([0x5D]) + bytes(14) + bytes([1])
SECONDS = 120  # only a hang reaches it
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CHECK_PYTHON = CACHE / "drawbridge-check" / "bin" / "python"  # has NVIDIA's binding of NVML; see tools/deps
CUDA = CACHE / "drawbridge-cuda"  # has NVIDIA's CUDA runtime and CuPy
# From a driver of CUDA 11.2 or newer that runtime wants a proof that it is NVIDIA's (standin/export_tables.cpp).
OLDER_DRIVER = {"DRAWBRIDGE_STANDIN_VERSION": "11010"}


def card(index: int) -> bytes:
    """UUID of one of the stand-in's cards."""
    return CARD[:15] + bytes([index + 1])


def is_older_than(major: int, minor: int) -> bool:
    """Whether the stand-in that the tests run on is a driver from before a CUDA version."""
    return PROFILE != "" and tuple(map(int, PROFILE.split("."))) < (major, minor)


def drivers(profile: str = PROFILE) -> str:
    """Where the loader finds a driver: the newest, or that of a CUDA version such as 11.4."""
    return f"{PROFILES / profile}:{STANDIN}" if profile else str(STANDIN)


class Bench:
    """A root of its own, and a world of cards of its own."""

    def __init__(self, folder: Path, library: Path = LIBRARY, root: Root | None = None) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.root = root or Root(folder / "root", library)
        self.variables = {"DRAWBRIDGE_STANDIN_STATE": str(folder / "world"), "LD_LIBRARY_PATH": drivers(), "PYTHONDONTWRITEBYTECODE": "1"}

    def share(self, memory: int, name: str = "claim-0", device: int = 0, **more: object) -> Share:
        return self.root.share(name, card(device), memory, context=CONTEXT, **more)

    def environment(self, preload: bool = True, **more: str) -> dict[str, str]:
        return (self.root.environment() if preload else os.environ | preloaded()) | self.variables | more

    def run(self, command: list[str], preload: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self.environment(preload, **more), capture_output=True, text=True, timeout=SECONDS, check=False)

    def peak(self, device: int = 0) -> int:
        """Most bytes that all blocks on a card ever were, counted inside the stand-in (`peak` of its World)."""
        first = 8 + 8 * 8 + 8 * device
        return int.from_bytes((self.folder / "world").read_bytes()[first : first + 8], "little")

    def python(self, program: Path | str, *arguments: str, preload: bool = True, **more: str) -> object:
        """Runs a program that prints JSON in its last line."""
        command = [sys.executable, str(program), *arguments] if isinstance(program, Path) else [sys.executable, "-c", program, *arguments]
        done = self.run(command, preload, **more)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def program() -> Callable[[str], list[str]]:
    return lambda name: [str(TREE / "tests" / "gpu" / "programs.py"), name]


@pytest.fixture(scope="session")
def cuda() -> Path:
    """The environment that has NVIDIA's CUDA runtime and CuPy."""
    assert (CUDA / "wheels.txt").exists(), f"tools/deps installs NVIDIA's CUDA runtime and CuPy into {CUDA}, and could not"
    return CUDA
