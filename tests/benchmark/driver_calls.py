"""What the preload library adds to a driver call, in CPU time of a program on the stand-in driver."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "benchmark"
sys.path.insert(0, str(ROOT / "tests" / "preload"))
import share as made  # noqa: E402

CARD = bytes([0x5D]) + bytes(14) + bytes([1])  # the stand-in's first
POLICY, FORCE = 148, 1
PAIRS = 9
EXECS = 1000


@dataclass
class Scene:
    """A share of the stand-in's card: by how much compute is limited, and how many processes have it already."""

    permille: int = 1000
    others: int = 0

    def run(self, preload: bool, mode: str) -> list[float]:
        with tempfile.TemporaryDirectory(prefix="drawbridge-benchmark-") as name:
            folder = Path(name)
            root = made.Root(folder / "root", BUILD / "lib" / "libdrawbridge.so")
            share = root.share("claim", CARD, 80 << 30, permille=self.permille)
            share.write("limits", POLICY, "<I", FORCE)
            environment = (root.environment() if preload else dict(os.environ)) | {
                "DRAWBRIDGE_STANDIN_STATE": str(folder / "world"), "LD_LIBRARY_PATH": str(BUILD / "standin")}  # fmt: skip
            program = str(BUILD / "bin" / "benchmark_calls")
            others = [subprocess.Popen([program, "hold"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                      for _ in range(self.others)]  # fmt: skip
            for other in others:
                assert other.stdout and other.stdout.readline() == b"ready\n"
            done = subprocess.run([program, mode], env=environment, capture_output=True, text=True, check=True)
            for other in others:
                other.communicate(b"\n")
            return [float(value) for value in done.stdout.split()]


def execution(environment: dict[str, str]) -> float:
    """Microseconds of CPU of a program that uses no CUDA, from its start to its end."""
    process = os.posix_spawn("/bin/true", ["true"], environment)
    _, status, spent = os.wait4(process, 0)
    assert status == 0
    return (spent.ru_utime + spent.ru_stime) * 1e6


def added_to_an_execution() -> float:
    """The median of pairs: where another has the processor for a moment, one of them is lost and no more."""
    with tempfile.TemporaryDirectory(prefix="drawbridge-benchmark-") as name:
        environment = made.Root(Path(name) / "root", BUILD / "lib" / "libdrawbridge.so").environment()
        bare = dict(os.environ)
        return statistics.median(-execution(bare) + execution(environment) for _ in range(EXECS))


def added(measure: Callable[[bool], float]) -> float:
    """What the library adds to a whole process: the median of pairs, bare and preloaded in turn."""
    return statistics.median(-measure(False) + measure(True) for _ in range(PAIRS))


def call(scene: Scene, mode: str) -> tuple[float, float, float]:
    """The stand-in's own call, what the library adds, and what the meter finds to be added without it: medians of runs."""
    found = [scene.run(True, mode) + scene.run(False, mode)[1:] for _ in range(PAIRS)]
    bare, more, error = (statistics.median(values) for values in zip(*found, strict=True))
    return bare, more, error


def measure() -> list[tuple[str, float, str, float | None]]:
    """What, how much, unit, and what it may come to (enforcement.md 5.3)."""
    rows: list[tuple[str, float, str, float | None]] = []
    for what, scene, mode, limit in (
        ("a pair of allocation and free", Scene(), "pairs", 100.0),
        ("the same beside 63 processes of the share", Scene(others=63), "pairs", 400.0),
        ("a launch, compute not limited", Scene(), "launches", 5.0),
        ("a launch, compute limited", Scene(permille=500), "launches", 20.0),
    ):
        bare, more, error = call(scene, mode)
        rows += [(f"{what}: stand-in alone", bare, "ns", None), (f"{what}: added", more, "ns", limit),
                 (f"{what}: added, measured without the library", error, "ns", None)]  # fmt: skip
    more = added(lambda preload: Scene().run(preload, "start")[0] / 1e6)
    rows.append(("cuInit: added", more, "ms", 1.0))
    rows.append(("a program without CUDA, exec to end: added", added_to_an_execution(), "µs", 100.0))
    return rows
