"""Runs programs as a container of a node does where the front stands in the place of libcuda.so.1: with mounts of its own,
in which the driver's file is at its fixed place and every name of it in a library folder is the front's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from conftest import FRONT, SECONDS, STANDIN, Bench

VERSIONED = "libcuda.so.580.159"
DRIVER = "/run/drawbridge/driver/libcuda.so.1"
ENTER = 'mount -t tmpfs none /run && mkdir /run/drawbridge && mount --bind "$1" /run/drawbridge && shift && exec "$@"'


class FrontBench(Bench):
    """`names`: under which the front lies in the folder of libraries."""

    def __init__(self, folder: Path, names: tuple[str, ...] = ("libcuda.so.1", VERSIONED), driver: Path = STANDIN / "libcuda.so.1") -> None:
        super().__init__(folder)
        self.driver = self.root.folder / "driver" / "libcuda.so.1"
        self.driver.parent.mkdir()
        shutil.copy(driver, self.driver)
        self.libraries = folder / "libraries"
        self.libraries.mkdir()
        shutil.copy(FRONT, folder / "front")
        for name in names:
            (self.libraries / name).hardlink_to(folder / "front")
        shutil.copy(STANDIN / "libnvidia-ml.so.1", self.libraries)
        self.variables["LD_LIBRARY_PATH"] = str(self.libraries)

    def environment(self, preload: bool = True, **more: str) -> dict[str, str]:
        inside = {"LD_PRELOAD": "/run/drawbridge/lib/libdrawbridge.so"} if preload else {}
        return dict(os.environ) | inside | self.variables | more

    def run(self, command: list[str], preload: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """The library is preloaded into the command alone, since the shell before it has no such file yet."""
        environment = self.environment(preload, **more)
        loaded = [f"{name}={value}" for name, value in environment.items() if name in ("LD_PRELOAD", "LD_LIBRARY_PATH")]
        entered = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.root.folder), "env", *loaded, *command]
        rest = {name: value for name, value in environment.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        return subprocess.run(entered, env=rest, capture_output=True, text=True, timeout=SECONDS, check=False)
