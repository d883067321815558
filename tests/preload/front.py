"""Runs programs as a container of a node does where the front stands in the place of libcuda.so.1."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from conftest import FRONT, LIBRARY, SECONDS, STANDIN, Bench
from share import FRONT_NAMES, FrontRoot

VERSIONED = FRONT_NAMES[1]
DRIVER = "/run/drawbridge/driver/libcuda.so.1"


class FrontBench(Bench):
    """`names`: under which the front lies in the folder of libraries."""

    root: FrontRoot

    def __init__(self, folder: Path, names: tuple[str, ...] = FRONT_NAMES, driver: Path = STANDIN / "libcuda.so.1") -> None:
        super().__init__(folder, root=FrontRoot(folder / "root", LIBRARY, FRONT, driver, names))
        self.driver, self.libraries = self.root.driver, self.root.libraries
        shutil.copy(STANDIN / "libnvidia-ml.so.1", self.libraries)
        self.variables["LD_LIBRARY_PATH"] = str(self.libraries)

    def environment(self, preload: bool = True, **more: str) -> dict[str, str]:
        return self.root.environment(preload) | self.variables | more

    def run(self, command: list[str], preload: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        entered = self.root.entered(command, self.environment(preload, **more))
        return subprocess.run(**entered, capture_output=True, text=True, timeout=SECONDS, check=False)  # type: ignore[call-overload]
