"""Makes what the node agent makes for a container: the library in its place, the front where a node has it, and the two files
of each share."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import uuid
from pathlib import Path

MIB = 1 << 20
UNLIMITED = (1 << 64) - 1
SLOTS = 1024
CHARGE_MANAGED, CHARGE_OVERHEAD, DENY_SETTINGS, NO_GATE, OBSERVE_ONLY = 1, 2, 4, 8, 16
USED, SLOT, SLOT_SIZE = 4096, 4096 + 8 * SLOTS, 192
OVERHEAD, UTILIZATION = 4096, 4096 + 4 * SLOTS
RUNTIME = os.environ.get("DRAWBRIDGE_SANITIZER_RUNTIME", "")  # comes before every library that was built for it
GAUGES = ("linear", "managed", "array", "vmm", "pool", "graph", "imported")


def boot_id() -> bytes:
    return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes


def preloaded(*libraries: str) -> dict[str, str]:
    """The variable that preloads these."""
    named = [name for name in (RUNTIME, *libraries) if name]
    return {"LD_PRELOAD": " ".join(named)} if named else {}


class Share:
    """One share's folder below a root; figures are read and written as the agent does, with pread and pwrite."""

    def __init__(self, root: Path, name: str, device: bytes, memory: int, *, context: int = 0, physical: int = 0, permille: int = 1000,
                 flags: int = CHARGE_MANAGED | CHARGE_OVERHEAD | DENY_SETTINGS, boot: bytes | None = None) -> None:  # fmt: skip
        self.folder = root / "shares" / name
        self.folder.mkdir(parents=True)
        limits = bytearray(16384)
        struct.pack_into("<QHHI", limits, 0, 0x53544D494C424400, 1, 0, len(limits))
        struct.pack_into("<Q16s16s16s40sIIQQQIIII", limits, 16, 2, device, boot or boot_id(), b"0000:00:06.0", b"", 0, flags,
                         memory, physical, context, permille, 0, 0, 1 << 16)  # fmt: skip
        (self.folder / "limits").write_bytes(limits)
        ledger = bytearray(262144)
        struct.pack_into("<QHHI", ledger, 0, 0x524744454C424400, 1, 0, len(ledger))
        (self.folder / "ledger").write_bytes(ledger)
        os.chmod(self.folder / "ledger", 0o666)

    def read(self, name: str, place: int, form: str) -> tuple[int, ...]:
        with (self.folder / name).open("rb") as file:
            return struct.unpack(form, os.pread(file.fileno(), struct.calcsize(form), place))

    def write(self, name: str, place: int, form: str, *values: int) -> None:
        with (self.folder / name).open("r+b") as file:
            os.pwrite(file.fileno(), struct.pack(form, *values), place)

    def set_memory(self, memory: int) -> None:
        """Changes the limit in place, under the generation word."""
        generation = self.read("limits", 16, "<Q")[0]
        self.write("limits", 16, "<Q", generation + 1)
        self.write("limits", 120, "<Q", memory)
        self.write("limits", 16, "<Q", generation + 2)

    def set_overhead(self, slot: int, mib: int) -> None:
        self.write("limits", OVERHEAD + 4 * slot, "<I", mib)

    def used(self) -> list[int]:
        """The used word of each slot that was ever used."""
        count = self.read("ledger", 16, "<I")[0]
        return list(self.read("ledger", USED, f"<{count}Q"))

    def slot(self, index: int) -> dict[str, int]:
        values = self.read("ledger", SLOT + SLOT_SIZE * index, "<IIQQIIQ7Q6Q12I")
        names = ["state", "pid", "start_time", "pid_namespace", "in_flight", "flags", "provisional", *GAUGES, "allocations", "frees",
                 "denied_bytes", "launches", "throttle_ns", "busy_ns", "denied", "unknown_frees", "unknown_handles", "identity_misses",
                 "gate_closures", "probes", "reaps", "oom_retries", "errors", "last_error", "seen_generation", "driver_version"]  # fmt: skip
        return dict(zip(names, values, strict=True))


class Root:
    """A folder that stands for /run/drawbridge: lib/libdrawbridge.so and shares/."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        (folder / "lib").mkdir(parents=True)
        (folder / "shares").mkdir()
        self.library = folder / "lib" / "libdrawbridge.so"
        shutil.copy(library, self.library)

    def share(self, name: str, device: bytes, memory: int, **more: object) -> Share:
        """Makes a share of a card."""
        return Share(self.folder, name, device, memory, **more)  # type: ignore[arg-type]

    def clear(self) -> None:
        """Takes all shares away."""
        for share in (self.folder / "shares").iterdir():
            shutil.rmtree(share)

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | preloaded(str(self.library)) | more


FRONT_NAMES = ("libcuda.so.1", "libcuda.so.580.159")  # the driver's file has a versioned name too
# A shell of its own for the mounts: the library is preloaded into the command alone, since before them there is no such file.
ENTER = 'mount -t tmpfs none /run && mkdir /run/drawbridge && mount --bind "$1" /run/drawbridge && shift && exec "$@"'
LOADER = ("LD_PRELOAD", "LD_LIBRARY_PATH")


class FrontRoot(Root):
    """Also what a container has on a node where the front stands in the place of libcuda.so.1: the driver's file at its fixed place,
    and a folder of libraries in which every name of that file is the front's."""

    def __init__(self, folder: Path, library: Path, front: Path, driver: Path, names: tuple[str, ...] = FRONT_NAMES) -> None:
        super().__init__(folder, library)
        self.driver, self.libraries = folder / "driver" / "libcuda.so.1", folder / "libraries"
        self.apart = ["unshare", "--mount"]  # to a mount namespace of its own
        self.driver.parent.mkdir()
        self.libraries.mkdir()
        shutil.copy(driver, self.driver)
        shutil.copy(front, folder / "front")
        for name in names:
            (self.libraries / name).hardlink_to(folder / "front")

    def environment(self, preload: bool = True, **more: str) -> dict[str, str]:
        """That of a command which `entered` runs."""
        loaded = preloaded("/run/drawbridge/lib/libdrawbridge.so" if preload else "")
        path = {"LD_LIBRARY_PATH": ":".join(filter(None, [str(self.libraries), os.environ.get("LD_LIBRARY_PATH")]))}
        return os.environ | loaded | path | more

    def entered(self, command: list[str], environment: dict[str, str]) -> dict[str, object]:
        """Arguments of subprocess.run that run a command with mounts of its own, in which this folder is /run/drawbridge."""
        loaded = [f"{name}={environment[name]}" for name in LOADER if name in environment]
        entered = [*self.apart, "sh", "-c", ENTER, "sh", str(self.folder), "env", *loaded, *command]
        return {"args": entered, "env": {name: value for name, value in environment.items() if name not in LOADER}}


def built_ways(folder: Path, driver: Path) -> Path:
    """Builds programs/ways.c in a folder: as a program, as one that is linked to the driver, and as a library that is."""
    source = Path(__file__).resolve().parent / "programs" / "ways.c"
    for name, flags in {"ways": [], "linked": ["-DLINKED", driver], "plugin.so": ["-DPLUGIN", "-shared", "-fPIC", driver]}.items():
        subprocess.run(["gcc", "-w", "-o", folder / name, source, *flags], check=True)
    return folder


def ways_to_libcuda(ways: Path, versioned: Path) -> dict[str, list[str]]:
    """The command of each way that a program can come to the driver's functions. `versioned`: the path of the file that is there by
    another name."""
    plugin, program, linked = str(ways / "plugin.so"), str(ways / "ways"), str(ways / "linked")
    return {
        "linked": [linked, "link"], "RTLD_NEXT": [linked, "next"], "RTLD_DEFAULT": [linked, "default"], "dlopen, global": [program, "global"],
        "dlopen, private": [program, "private"], "cuGetProcAddress": [program, "look-up"], "dlmopen": [program, "namespace", "libcuda.so.1"],
        "RTLD_DEEPBIND": [program, "deep", plugin], "a plugin": [program, "plugin", plugin], "its versioned name": [program, "private", str(versioned)],
    }  # fmt: skip
