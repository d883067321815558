"""What a cluster can leave on the machine once its processes are gone: control groups and files; and taking it away."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import time
from pathlib import Path

from bed.place import BASE, Place

CGROUPS = Path("/sys/fs/cgroup")
DETACH = 2
LIBC = ctypes.CDLL(None, use_errno=True)


def cgroups(place: Place) -> list[Path]:
    """The cluster's control group in every hierarchy that has one."""
    roots = [CGROUPS, *(entry for entry in CGROUPS.iterdir() if entry.is_dir() and not entry.is_symlink())]
    return [root / place.cgroup for root in roots if (root / place.cgroup).is_dir()]


def mounts_below(folder: Path) -> list[str]:
    """The mount points at and below a folder, the deepest first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if point == str(folder) or point.startswith(f"{folder}/"):
            found.append(point)
    return sorted(found, reverse=True)


def unmount_below(folder: Path) -> None:
    for point in mounts_below(folder):
        LIBC.umount2(os.fsencode(point), DETACH)


def remove_cgroup(top: Path, patience: float = 10.0) -> None:
    """Removes a tree of control groups whose processes were killed: the kernel lets go of each in its own time."""
    limit = time.monotonic() + patience
    for folder, _, _ in sorted(os.walk(top), reverse=True):
        while True:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.02)
            else:
                break


def clear(place: Place) -> None:
    """Takes away what is left of a cluster that has no process any more."""
    for top in cgroups(place):
        remove_cgroup(top)
    unmount_below(place.root)
    shutil.rmtree(place.root, ignore_errors=True)
    with contextlib.suppress(OSError):  # other clusters lie there
        BASE.rmdir()


def left_of(place: Place) -> list[str]:
    """What is there of a cluster, by path."""
    found = [str(top) for top in cgroups(place)] + mounts_below(place.root)
    return found + ([str(place.root)] if place.root.exists() else [])
