"""Calls the CUDA driver and NVML by ctypes, as plain numbers; knows the few structures the recorder needs."""

from __future__ import annotations

import ctypes
import os
import struct

MIB = 1 << 20


class Driver:
    """The driver library: `cu.call("cuMemFree_v2", pointer)` gives the CUresult, -1 where the name is missing."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1", use_errno=False)

    def call(self, name: str, *arguments: object) -> int:
        try:
            function = getattr(self.library, name)
        except AttributeError:
            return -1
        function.restype = ctypes.c_int
        converted = [ctypes.c_uint64(value) if isinstance(value, int) else value for value in arguments]
        return int(function(*converted))

    def out(self, name: str, *arguments: object) -> tuple[int, int]:
        """Calls a function whose first parameter is a 64-bit result: (CUresult, value)."""
        value = ctypes.c_uint64(0)
        status = self.call(name, ctypes.byref(value), *arguments)
        return status, value.value

    def must(self, name: str, *arguments: object) -> None:
        status = self.call(name, *arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {status}")

    def must_out(self, name: str, *arguments: object) -> int:
        status, value = self.out(name, *arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {status}")
        return value

    def start(self) -> None:
        """Initialises, retains device 0's primary context and makes it current."""
        self.must("cuInit", 0)
        self.must("cuCtxSetCurrent", self.must_out("cuDevicePrimaryCtxRetain", 0))

    def free_bytes(self) -> int:
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        self.must("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def total_bytes(self) -> int:
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        self.must("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return total.value


class Nvml:
    """The three figures of NVML that the recorder compares with the driver's."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def device_used(self) -> int:
        info = (ctypes.c_uint64 * 5)()
        ctypes.c_uint32.from_buffer(info).value = ctypes.sizeof(info) | 2 << 24
        if self.library.nvmlDeviceGetMemoryInfo_v2(self.device, info) != 0:
            return -1
        return int(info[4])  # version, total, reserved, free, used

    def process_used(self, pid: int | None = None) -> int:
        """Bytes of a process, -1 where NVML does not list it, -2 where it lists it without a figure."""
        count = ctypes.c_uint32(256)
        entries = (ctypes.c_uint64 * (3 * 256))()
        self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), entries)
        for index in range(count.value):
            if entries[3 * index] & 0xFFFFFFFF == (pid or os.getpid()):
                used = int(entries[3 * index + 1])
                return -2 if used == (1 << 64) - 1 else used
        return -1


def allocation_properties(location: int = 0, handle_types: int = 0, kind: int = 1, usage: int = 0) -> ctypes.Array[ctypes.c_char]:
    """CUmemAllocationProp: pinned memory of a device (kind 1 = device, 0 with kind 2.. = host); usage 1 for tiles of arrays."""
    return ctypes.create_string_buffer(struct.pack("<IIII8xBBH4x", 1, handle_types, kind, location, 0, 0, usage), 32)


def multicast_properties(devices: int, size: int, handle_types: int = 0) -> ctypes.Array[ctypes.c_char]:
    """CUmulticastObjectProp."""
    return ctypes.create_string_buffer(struct.pack("<I4xQQQ", devices, size, handle_types, 0), 32)


MAP, UNMAP = 1, 2


def tiles(operation: int, array: int, box: tuple[int, ...], handle: int = 0, *, level: int = 0, layer: int = 0, mipmap: bool = False,
          device: int = 0, offset: int = 0) -> bytes:  # fmt: skip
    """CUarrayMapInfo for a box of a sparse array: x, y, z, width, height, depth in elements."""
    return struct.pack("<IxxxxQIxxxx8IIIQQII8x", 1 if mipmap else 0, array, 0, level, layer, *box, operation, 0, handle, offset, 1 << device, 0)


def tail(operation: int, array: int, start: int, size: int, handle: int = 0, *, layer: int = 0, device: int = 0) -> bytes:
    """CUarrayMapInfo for a range of the tail of a sparse mipmapped array."""
    return struct.pack("<IxxxxQIxxxxIxxxxQQ8xIIQQII8x", 1, array, 1, layer, start, size, operation, 0, handle, 0, 1 << device, 0)


def pool_properties(location: int = 0, kind: int = 1, maximum: int = 0) -> ctypes.Array[ctypes.c_char]:
    """CUmemPoolProps: pinned memory of a device."""
    return ctypes.create_string_buffer(struct.pack("<IIII8xQ", 1, 0, kind, location, maximum), 88)


def access_description(location: int = 0) -> ctypes.Array[ctypes.c_char]:
    """CUmemAccessDesc: read and write for a device."""
    return ctypes.create_string_buffer(struct.pack("<III", 1, location, 3), 12)


def array_description(width: int, height: int, depth: int, form: int, channels: int, flags: int = 0) -> ctypes.Array[ctypes.c_char]:
    """CUDA_ARRAY3D_DESCRIPTOR."""
    return ctypes.create_string_buffer(struct.pack("<QQQIII4x", width, height, depth, form, channels, flags), 40)
