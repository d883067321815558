"""Makes what the node agent makes for a container: the library in its place and the two files of each share."""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from pathlib import Path

MIB = 1 << 20
UNLIMITED = (1 << 64) - 1
SLOTS = 1024
CHARGE_MANAGED, CHARGE_OVERHEAD, DENY_SETTINGS, NO_GATE, OBSERVE_ONLY = 1, 2, 4, 8, 16
USED, SLOT, SLOT_SIZE = 4096, 4096 + 8 * SLOTS, 192
OVERHEAD, UTILIZATION = 4096, 4096 + 4 * SLOTS
GAUGES = ("linear", "managed", "array", "vmm", "pool", "graph", "imported")


def boot_id() -> bytes:
    return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes


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
        return Share(self.folder, name, device, memory, **more)  # type: ignore[arg-type]

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {"LD_PRELOAD": str(self.library)} | more
