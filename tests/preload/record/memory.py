"""What the driver takes from the card for each kind of allocation: experiments that print figures."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import subprocess
import sys
import time

from driver import MIB, Driver, Nvml, access_description, allocation_properties, array_description, pool_properties
from rules import rules

GIB = 1 << 30
SIZES = [1, 256, 512, 513, 4096, 65536, 65537, MIB // 2, MIB - 1, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1,
         3 * MIB, 4 * MIB + 1, 10 * MIB, 32 * MIB, 33 * MIB + 1, 100 * MIB + 1, GIB + 1]  # fmt: skip


class Meter:
    """Differences since the last reset, by the driver's free memory, NVML's used memory and NVML's process figure."""

    def __init__(self, cu: Driver, nvml: Nvml) -> None:
        self.cu, self.nvml = cu, nvml
        self.reset()

    def reset(self) -> None:
        self.base = self.read()

    def read(self) -> tuple[int, int, int]:
        return -self.cu.free_bytes(), self.nvml.device_used(), self.nvml.process_used()

    def delta(self) -> list[int]:
        return [now - then for now, then in zip(self.read(), self.base, strict=True)]


def start() -> tuple[Driver, Meter]:
    cu = Driver()
    nvml = Nvml()
    cu.start()
    return cu, Meter(cu, nvml)


def context() -> dict[str, object]:
    """Bytes of contexts, in the order of events."""
    cu, nvml = Driver(), Nvml()
    steps: dict[str, object] = {}

    def step(name: str) -> None:
        steps[name] = [nvml.device_used(), nvml.process_used()]

    step("before_init")
    cu.must("cuInit", 0)
    step("after_init")
    primary = cu.must_out("cuDevicePrimaryCtxRetain", 0)
    step("primary_retained")
    cu.must("cuCtxSetCurrent", primary)
    step("primary_current")
    steps["mem_get_info"] = [cu.free_bytes(), cu.total_bytes()]
    status, second = cu.out("cuCtxCreate_v2", 0, 0)
    step(f"second_created_{status}")
    cu.call("cuCtxDestroy_v2", second)
    step("second_destroyed")
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    step("primary_released")
    cu.must_out("cuDevicePrimaryCtxRetain", 0)
    step("primary_again")
    cu.call("cuDevicePrimaryCtxReset_v2", 0)
    step("primary_reset")
    steps["total_mem"] = cu.must_out("cuDeviceTotalMem_v2", 0)
    return steps


def linear() -> dict[str, object]:
    """One and eight blocks of each size, freed after each; [one, eight, after free, spacing]."""
    cu, meter = start()
    found: dict[str, object] = {}
    for size in SIZES:
        meter.reset()
        blocks = [cu.must_out("cuMemAlloc_v2", size)]
        one = meter.delta()
        blocks += [cu.must_out("cuMemAlloc_v2", size) for _ in range(7)]
        eight = meter.delta()
        for block in blocks:
            cu.must("cuMemFree_v2", block)
        spacing = sorted({b - a for a, b in zip(blocks, blocks[1:], strict=False)}, key=abs)[:3]
        found[str(size)] = {"one": one, "eight": eight, "freed": meter.delta(), "spacing": spacing}
    meter.reset()
    small = [cu.must_out("cuMemAlloc_v2", 512) for _ in range(10000)]
    found["10000x512"] = meter.delta()
    for block in small:
        cu.must("cuMemFree_v2", block)
    found["10000x512 freed"] = meter.delta()
    mixed = [cu.must_out("cuMemAlloc_v2", MIB + 512) for _ in range(64)]
    found["64x(1MiB+512)"] = meter.delta()
    for block in mixed:
        cu.must("cuMemFree_v2", block)
    return found


def pitched() -> dict[str, object]:
    cu, meter = start()
    found: dict[str, object] = {}
    for width, height, element in [(1, 1, 4), (100, 100, 4), (513, 1000, 4), (4096, 4096, 16), (5000, 3000, 8), (1 << 20, 3, 4), (7, 100000, 4)]:
        meter.reset()
        pointer, pitch = ctypes.c_uint64(), ctypes.c_uint64()
        status = cu.call("cuMemAllocPitch_v2", ctypes.byref(pointer), ctypes.byref(pitch), width, height, element)
        found[f"{width}x{height}/{element}"] = [status, pitch.value, meter.delta()]
        if status == 0:
            cu.must("cuMemFree_v2", pointer.value)
    for element in (0, 1, 2, 3, 5, 32):
        found[f"element {element}"] = cu.call("cuMemAllocPitch_v2", ctypes.byref(ctypes.c_uint64()), ctypes.byref(ctypes.c_uint64()), 64, 4, element)
    return found


def managed() -> dict[str, object]:
    """64 MiB only: managed memory is never overcommitted here."""
    cu, meter = start()
    pointer = cu.must_out("cuMemAllocManaged", 64 * MIB, 1)
    found: dict[str, object] = {"allocated": meter.delta()}
    cu.must("cuMemsetD8_v2", pointer, 1, 64 * MIB)
    cu.must("cuCtxSynchronize")
    found["touched"] = meter.delta()
    cu.must("cuMemFree_v2", pointer)
    found["freed"] = meter.delta()
    found["flags 0, 2, 3"] = [cu.out("cuMemAllocManaged", MIB, flags)[0] for flags in (0, 2, 3)]
    found["size 0"] = cu.out("cuMemAllocManaged", 0, 1)[0]
    return found


ARRAYS = [(1024, 0, 0, 0x20, 1), (1000, 1000, 0, 0x20, 4), (1000, 1000, 0, 0x01, 1), (100, 100, 100, 0x10, 2), (1, 1, 0, 0x01, 1),
          (4096, 4096, 0, 0x20, 4), (256, 256, 0, 0x91, 4), (256, 256, 0, 0x9D, 4), (640, 480, 0, 0xB0, 3), (333, 777, 0, 0x02, 2),
          (3000000, 0, 0, 0x01, 1), (3000, 1, 0, 0x20, 4), (1, 20000, 0, 0x20, 4), (17, 20000, 0, 0x01, 1), (2000, 129, 0, 0x20, 4), (2000, 2000, 3, 0x20, 4), (300, 5, 300, 0x20, 4),
          (65, 65, 65, 0x20, 4), (1000, 40, 1000, 0x10, 1), (4100, 4100, 0, 0x20, 1), (2050, 1030, 0, 0x91, 4)]  # fmt: skip


def arrays() -> dict[str, object]:
    cu, meter = start()
    found: dict[str, object] = {}
    for width, height, depth, form, channels in ARRAYS:
        meter.reset()
        status, array = cu.out("cuArray3DCreate_v2", array_description(width, height, depth, form, channels))
        entry: list[object] = [status, meter.delta()]
        if status == 0:
            need = ctypes.create_string_buffer(32)
            entry += [cu.call("cuArrayGetMemoryRequirements", need, array, 0), struct.unpack("<QQ", need.raw[:16])]
            cu.must("cuArrayDestroy", array)
        found[f"{width}x{height}x{depth} format {form:#x} channels {channels}"] = entry
    for levels in (1, 5, 11):
        meter.reset()
        status, mipmap = cu.out("cuMipmappedArrayCreate", array_description(1024, 1024, 0, 0x20, 4), levels)
        entry = [status, meter.delta()]
        if status == 0:
            need = ctypes.create_string_buffer(32)
            entry += [cu.call("cuMipmappedArrayGetMemoryRequirements", need, mipmap, 0), struct.unpack("<QQ", need.raw[:16])]
            cu.must("cuMipmappedArrayDestroy", mipmap)
        found[f"mipmap 1024x1024 levels {levels}"] = entry
    meter.reset()
    many = [cu.must_out("cuArray3DCreate_v2", array_description(64, 64, 0, 1, 1)) for _ in range(100)]
    found["100 of 64x64 bytes"] = meter.delta()
    for array in many:
        cu.must("cuArrayDestroy", array)
    status, deferred = cu.out("cuArray3DCreate_v2", array_description(1024, 1024, 0, 0x20, 4, 0x80))
    found["deferred mapping"] = [status, meter.delta()]
    status, sparse = cu.out("cuArray3DCreate_v2", array_description(1024, 1024, 0, 0x20, 4, 0x40))
    found["sparse"] = [status, meter.delta()]
    return found


def virtual() -> dict[str, object]:
    cu, meter = start()
    found: dict[str, object] = {}
    properties = allocation_properties()
    found["granularity min, recommended"] = [cu.out("cuMemGetAllocationGranularity", properties, option) for option in (0, 1)]
    host = allocation_properties(0, 0, 2)
    found["host granularity"] = cu.out("cuMemGetAllocationGranularity", host, 0)
    host_numa = allocation_properties(0, 0, 3)
    found["host numa granularity"] = cu.out("cuMemGetAllocationGranularity", host_numa, 0)
    for name, props in (("host create", host), ("host numa create", host_numa)):
        status, handle = cu.out("cuMemCreate", 2 * MIB, props, 0)
        found[name] = [status, meter.delta()]
        if status == 0:
            cu.call("cuMemRelease", handle)
    for size in (2 * MIB, 20 * MIB, 20 * MIB + 1, MIB, 0):
        meter.reset()
        status, handle = cu.out("cuMemCreate", size, properties, 0)
        found[f"create {size}"] = [status, meter.delta()]
        if status == 0:
            cu.must("cuMemRelease", handle)
    meter.reset()
    size = 64 * MIB
    handle = cu.must_out("cuMemCreate", size, properties, 0)
    where = cu.must_out("cuMemAddressReserve", 4 * size, 0, 0, 0)
    found["handle"] = hex(handle)
    found["map"] = cu.call("cuMemMap", where, size, 0, handle, 0)
    found["map same handle again"] = cu.call("cuMemMap", where + size, size, 0, handle, 0)
    found["map over a mapping"] = cu.call("cuMemMap", where, size, 0, handle, 0)
    found["map part"] = cu.call("cuMemMap", where + 2 * size, size // 2, 0, handle, 0)
    found["map with offset"] = cu.call("cuMemMap", where + 3 * size, size // 2, size // 2, handle, 0)
    found["set access"] = cu.call("cuMemSetAccess", where, 2 * size, access_description(), 1)
    status, retained = cu.out("cuMemRetainAllocationHandle", where)
    found["retained equals handle"] = [status, retained == handle]
    status, inside = cu.out("cuMemRetainAllocationHandle", where + 4096)
    found["retained inside equals handle"] = [status, inside == handle]
    found["release x3"] = [cu.call("cuMemRelease", handle) for _ in range(3)]
    found["released, still mapped"] = meter.delta()
    found["release 4th"] = cu.call("cuMemRelease", handle)
    status, again = cu.out("cuMemRetainAllocationHandle", where)
    found["retained after last release equals handle"] = [status, again == handle]
    if status == 0:
        found["release of it"] = cu.call("cuMemRelease", again)
    found["unmap half of a mapping"] = cu.call("cuMemUnmap", where, size // 2)
    found["unmap two mappings"] = cu.call("cuMemUnmap", where, 2 * size)
    found["after two"] = meter.delta()
    found["unmap again"] = cu.call("cuMemUnmap", where, size)
    found["address free while mapped"] = cu.call("cuMemAddressFree", where, 4 * size)
    found["unmap part mappings"] = [cu.call("cuMemUnmap", where + 2 * size, size // 2), cu.call("cuMemUnmap", where + 3 * size, size // 2)]
    found["after all"] = meter.delta()
    found["unmap with hole"] = cu.call("cuMemUnmap", where, 4 * size)
    found["address free"] = cu.call("cuMemAddressFree", where, 4 * size)
    return found


def shared_handle() -> dict[str, object]:
    """Export to a descriptor and import in the same process."""
    cu, meter = start()
    properties = allocation_properties(0, 1)
    status, handle = cu.out("cuMemCreate", 64 * MIB, properties, 0)
    found: dict[str, object] = {"create exportable": [status, meter.delta()]}
    if status == 0:
        descriptor = ctypes.c_int(-1)
        found["export"] = cu.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, 1, 0)
        status, imported = cu.out("cuMemImportFromShareableHandle", descriptor.value, 1)
        found["import"] = [status, imported == handle, meter.delta()]
        found["release both"] = [cu.call("cuMemRelease", handle), meter.delta(), cu.call("cuMemRelease", imported), meter.delta()]
        os.close(descriptor.value)
    return found


RESERVED, RESERVED_HIGH, USED, THRESHOLD = 5, 6, 7, 4


def pool_value(cu: Driver, pool: int, attribute: int) -> int:
    value = ctypes.c_uint64(0)
    cu.must("cuMemPoolGetAttribute", pool, attribute, ctypes.byref(value))
    return value.value


def pools() -> dict[str, object]:
    cu, meter = start()
    found: dict[str, object] = {}
    pool = cu.must_out("cuDeviceGetDefaultMemPool", 0)
    status, current = cu.out("cuDeviceGetMemPool", 0)
    found["default is current"] = [status, current == pool]
    found["threshold"] = pool_value(cu, pool, THRESHOLD)

    def line(name: str) -> None:
        found[name] = [pool_value(cu, pool, RESERVED), pool_value(cu, pool, USED), meter.delta()]

    line("empty")
    for size in (1, 512, 513, MIB, 2 * MIB, 2 * MIB + 1, 31 * MIB, 32 * MIB, 33 * MIB, 64 * MIB, 65 * MIB, 100 * MIB + 1, GIB + 1):
        meter.reset()
        block = cu.must_out("cuMemAllocAsync", size, 0)
        line(f"alloc {size}")
        cu.must("cuMemFreeAsync", block, 0)
        cu.must("cuCtxSynchronize")
        line(f"freed {size}")
    meter.reset()
    blocks = [cu.must_out("cuMemAllocAsync", 10 * MIB, 0) for _ in range(10)]
    line("10 x 10 MiB")
    cu.must("cuMemFreeAsync", blocks.pop(), 0)
    line("one freed async, not synchronised")
    cu.must("cuStreamSynchronize", 0)
    line("synchronised")
    found["free by cuMemFree"] = cu.call("cuMemFree_v2", blocks.pop())
    line("after cuMemFree")
    threshold = ctypes.c_uint64((1 << 64) - 1)
    cu.must("cuMemPoolSetAttribute", pool, THRESHOLD, ctypes.byref(threshold))
    for block in blocks:
        cu.must("cuMemFreeAsync", block, 0)
    cu.must("cuCtxSynchronize")
    line("all freed, threshold max")
    found["trim 50 MiB"] = cu.call("cuMemPoolTrimTo", pool, 50 * MIB)
    line("trimmed to 50 MiB")
    cu.must("cuMemPoolTrimTo", pool, 0)
    line("trimmed to 0")
    found["destroy default"] = cu.call("cuMemPoolDestroy", pool)
    own = cu.must_out("cuMemPoolCreate", pool_properties())
    block = cu.must_out("cuMemAllocFromPoolAsync", 10 * MIB, own, 0)
    meter.reset()
    found["destroy with a live block"] = [cu.call("cuMemPoolDestroy", own), meter.delta()]
    found["free of it"] = [cu.call("cuMemFreeAsync", block, 0), cu.call("cuCtxSynchronize"), meter.delta()]
    found["maximum size"] = [cu.out("cuMemPoolCreate", pool_properties(0, 1, 64 * MIB))[0]]
    found["size 0"] = cu.out("cuMemAllocAsync", 0, 0)[0]
    found["huge"] = cu.out("cuMemAllocAsync", 1 << 46, 0)[0]
    return found


def graphs() -> dict[str, object]:
    """Graph memory: a captured allocation, launched, trimmed."""
    cu, meter = start()
    found: dict[str, object] = {}
    stream = cu.must_out("cuStreamCreate", 1)

    def line(name: str) -> None:
        values = []
        for attribute in (0, 2):
            value = ctypes.c_uint64(0)
            cu.must("cuDeviceGetGraphMemAttribute", 0, attribute, ctypes.byref(value))
            values.append(value.value)
        found[name] = [*values, meter.delta()]

    line("before")
    cu.must("cuStreamBeginCapture_v2", stream, 2)
    status, pointer = cu.out("cuMemAllocAsync", 100 * MIB, stream)
    found["captured alloc"] = [status, pointer != 0]
    found["linear alloc while capturing relaxed"] = cu.out("cuMemAlloc_v2", MIB)[0]
    found["info while capturing"] = cu.free_bytes() > 0
    cu.must("cuMemsetD8Async", pointer, 1, 100 * MIB, stream)
    found["captured free"] = cu.call("cuMemFreeAsync", pointer, stream)
    graph = ctypes.c_uint64()
    cu.must("cuStreamEndCapture", stream, ctypes.byref(graph))
    line("captured")
    status, executable = cu.out("cuGraphInstantiateWithFlags", graph.value, 0)
    found["instantiate"] = status
    line("instantiated")
    cu.must("cuGraphLaunch", executable, stream)
    cu.must("cuStreamSynchronize", stream)
    line("launched")
    cu.must("cuGraphExecDestroy", executable)
    line("destroyed")
    found["trim"] = cu.call("cuDeviceGraphMemTrim", 0)
    line("trimmed")
    cu.must("cuStreamBeginCapture_v2", stream, 2)
    pointer = cu.must_out("cuMemAllocAsync", 30 * MIB, stream)
    cu.must("cuStreamEndCapture", stream, ctypes.byref(graph))
    executable = cu.must_out("cuGraphInstantiateWithFlags", graph.value, 0)
    found["upload"] = cu.call("cuGraphUpload", executable, stream)
    line("uploaded, no free node")
    cu.must("cuGraphLaunch", executable, stream)
    found["launch twice without a free"] = cu.call("cuGraphLaunch", executable, stream)
    found["cuMemFree of graph memory"] = cu.call("cuMemFree_v2", pointer)
    line("freed")
    return found


def limits() -> dict[str, object]:
    cu, meter = start()
    found: dict[str, object] = {}
    for name, limit, values in (("stack", 0, (4096, 65536, 1024)), ("printf", 1, (64 * MIB, MIB)), ("heap", 2, (256 * MIB, 8 * MIB)), ("pending", 4, (1 << 16,))):
        found[f"{name} default"] = cu.out("cuCtxGetLimit", limit)
        for value in values:
            meter.reset()
            found[f"{name} {value}"] = [cu.call("cuCtxSetLimit", limit, value), cu.out("cuCtxGetLimit", limit), meter.delta()]
    return found


def fill() -> dict[str, object]:
    """Fills the card with 1 GiB blocks, then smaller ones; what is refused and what the reports say then."""
    cu, meter = start()
    found: dict[str, object] = {"before": [cu.free_bytes(), cu.total_bytes(), meter.nvml.device_used()]}
    blocks: list[int] = []
    for size in (GIB, 64 * MIB, 2 * MIB, 4096):
        count = 0
        while count < 4096:
            status, block = cu.out("cuMemAlloc_v2", size)
            if status != 0:
                found[f"refused {size}"] = [status, count, cu.free_bytes(), meter.nvml.device_used(), meter.nvml.process_used()]
                break
            blocks.append(block)
            count += 1
    found["alloc async when full"] = cu.out("cuMemAllocAsync", 64 * MIB, 0)[0]
    found["create when full"] = cu.out("cuMemCreate", 64 * MIB, allocation_properties(), 0)[0]
    found["array when full"] = cu.out("cuArray3DCreate_v2", array_description(8192, 8192, 0, 0x20, 4))[0]
    found["context when full"] = cu.out("cuCtxCreate_v2", 0, 0)[0]
    for block in blocks:
        cu.must("cuMemFree_v2", block)
    found["freed"] = meter.delta()
    return found


def holder() -> dict[str, object]:
    """Child of `reclaim`: takes 100 GiB, says so, waits to be killed."""
    cu = Driver()
    cu.start()
    for _ in range(100):
        cu.must("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), GIB)
    print("ready", flush=True)
    signal.pause()
    return {}


def reclaim() -> dict[str, object]:
    """Milliseconds from SIGKILL of a process with 100 GiB until NVML shows it gone, and until exit is seen."""
    nvml = Nvml()
    base = nvml.device_used()
    rounds = []
    for _ in range(3):
        child = subprocess.Popen([sys.executable, __file__, "holder"], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        held = nvml.device_used() - base
        began = time.monotonic()
        child.kill()
        child.wait()
        reaped = time.monotonic()
        while nvml.device_used() - base > held // 100 and time.monotonic() - began < 10:
            pass
        rounds.append([held, round(1000 * (reaped - began), 1), round(1000 * (time.monotonic() - began), 1)])
    return {"held bytes, exit ms, memory back ms": rounds}


EXPERIMENTS = {f.__name__: f for f in (context, linear, pitched, managed, arrays, virtual, shared_handle, pools, graphs, limits, fill, reclaim, rules, holder)}

if __name__ == "__main__":
    print(json.dumps(EXPERIMENTS[sys.argv[1]]()))
