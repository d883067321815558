"""Programs that run under the preload library on a real GPU; each prints one line of JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "preload" / "record"))

from held import multicast, sparse  # noqa: E402, F401
from driver import MIB, Driver, Nvml, access_description, allocation_properties, array_description, pool_properties  # noqa: E402


def report(cu: Driver, nvml: Nvml | None = None) -> dict[str, int]:
    """What the driver and NVML say of the memory at this moment."""
    free, total = cu.free_bytes(), cu.total_bytes()
    found = {"free": free, "total": total, "device_total": cu.must_out("cuDeviceTotalMem_v2", 0)}
    if nvml is not None:
        found |= {"nvml_used": nvml.device_used(), "nvml_process": nvml.process_used()}
    return found


def fill(cu: Driver, allocate: object, step: int) -> tuple[int, int]:
    """Allocates until refused: (bytes, status)."""
    taken = 0
    while True:
        status = allocate(step)  # type: ignore[operator]
        if status != 0:
            return taken, status
        taken += step


def linear() -> dict[str, object]:
    """64 MiB blocks, then 2 MiB, until refused; then a free makes room again."""
    cu, nvml = Driver(), Nvml()
    cu.start()
    begin = report(cu, nvml)
    blocks: list[int] = []

    def allocate(size: int) -> int:
        status, pointer = cu.out("cuMemAlloc_v2", size)
        if status == 0:
            blocks.append(pointer)
        return status

    large = fill(cu, allocate, 64 * MIB)
    small = fill(cu, allocate, 2 * MIB)
    full = report(cu, nvml)
    freed = cu.call("cuMemFree_v2", blocks.pop()) if blocks else -1
    room = report(cu, nvml)
    again = allocate(2 * MIB)
    beyond = allocate(MIB)
    for block in blocks:
        cu.must("cuMemFree_v2", block)
    return {"begin": begin, "large": large, "small": small, "full": full, "freed": freed, "room": room, "again": again, "beyond": beyond, "end": report(cu, nvml)}


def kinds() -> dict[str, object]:
    """Every kind of allocation to its refusal, one after the other, each freed after; what is left in between."""
    cu = Driver()
    cu.start()
    left: dict[str, object] = {"begin": cu.free_bytes()}

    def run(name: str, make: object, free: object, step: int) -> None:
        held: list[int] = []
        taken = 0
        while (answer := make(step))[0] == 0:  # type: ignore[operator]
            held.append(answer[1])
            taken += step
        full = cu.free_bytes()
        statuses = {free(item) for item in held}  # type: ignore[operator]
        cu.must("cuCtxSynchronize")
        left[name] = [taken, answer[0], full, sorted(statuses), cu.free_bytes()]

    run("linear", lambda n: cu.out("cuMemAlloc_v2", n), lambda p: cu.call("cuMemFree_v2", p), 16 * MIB)
    run("async", lambda n: cu.out("cuMemAllocAsync", n, 0), lambda p: cu.call("cuMemFreeAsync", p, 0), 16 * MIB)
    run("async freed by cuMemFree", lambda n: cu.out("cuMemAllocAsync", n, 0), lambda p: cu.call("cuMemFree_v2", p), 16 * MIB)
    cu.call("cuMemPoolTrimTo", cu.must_out("cuDeviceGetDefaultMemPool", 0), 0)
    left["trimmed"] = cu.free_bytes()
    run("vmm", lambda n: cu.out("cuMemCreate", n, allocation_properties(), 0), lambda h: cu.call("cuMemRelease", h), 16 * MIB)
    run("array", lambda n: cu.out("cuArray3DCreate_v2", array_description(1024, n // 4096, 0, 0x20, 1)), lambda a: cu.call("cuArrayDestroy", a), 16 * MIB)
    pool = cu.must_out("cuMemPoolCreate", pool_properties())
    run("own pool", lambda n: cu.out("cuMemAllocFromPoolAsync", n, pool, 0), lambda p: cu.call("cuMemFreeAsync", p, 0), 16 * MIB)
    left["pool destroyed"] = [cu.call("cuMemPoolDestroy", pool), cu.free_bytes()]
    left["managed"] = cu.out("cuMemAllocManaged", 1 << 38, 1)[0]
    where = cu.must_out("cuMemAddressReserve", 64 * MIB, 0, 0, 0)
    handle = cu.must_out("cuMemCreate", 64 * MIB, allocation_properties(), 0)
    cu.must("cuMemMap", where, 64 * MIB, 0, handle, 0)
    cu.must("cuMemSetAccess", where, 64 * MIB, access_description(), 1)
    cu.must("cuMemRelease", handle)
    mapped = cu.free_bytes()
    cu.must("cuMemUnmap", where, 64 * MIB)
    left["released while mapped, unmapped"] = [mapped, cu.free_bytes()]
    left["stack"] = [cu.call("cuCtxSetLimit", 0, 65536), cu.free_bytes()]
    left["stack small"] = [cu.call("cuCtxSetLimit", 0, 2048), cu.free_bytes(), cu.call("cuCtxSetLimit", 0, 1024), cu.free_bytes()]
    left["second context"] = [cu.out("cuCtxCreate_v2", 0, 0)[0], cu.free_bytes()]
    return left


def torch_fill() -> dict[str, object]:
    import torch

    free, total = torch.cuda.mem_get_info()
    held, error = [], ""
    try:
        while True:
            held.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as problem:
        error = str(problem)[:160]
    full = torch.cuda.mem_get_info()
    count = len(held)
    x = held[0]
    x.fill_(3)
    ok = int(x[-1].item()) == 3
    del held, x
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    return {"before": [free, total], "taken": count * 64 * MIB, "error": error, "full": full, "works": ok, "after": torch.cuda.mem_get_info(),
            "properties": torch.cuda.get_device_properties(0).total_memory, "process": Nvml().process_used()}  # fmt: skip


def torch_graph() -> dict[str, object]:
    """A captured graph and capturing itself are left whole."""
    import torch

    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    graph.replay()
    torch.cuda.synchronize()
    return {"sum": y.sum().item()}


def torch_busy() -> dict[str, object]:
    """Matrix products for some seconds, launched ahead: products in a second, and the GPU's busy share as NVML saw it."""
    import time

    import torch

    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        y = x @ x
    torch.cuda.synchronize()
    began, count = time.monotonic(), 0
    while time.monotonic() - began < float(sys.argv[2]):
        for _ in range(50):
            y = x @ x
        count += 50
        torch.cuda.synchronize()
    return {"rate": count / (time.monotonic() - began), "finite": bool(torch.isfinite(y).all().item())}


def cupy_fill() -> dict[str, object]:
    import cupy

    held: list[object] = []
    error = ""
    try:
        while True:
            held.append(cupy.empty(64 * MIB, dtype=cupy.uint8))
    except cupy.cuda.memory.OutOfMemoryError as problem:
        error = str(problem)[:160]
    return {"info": cupy.cuda.runtime.memGetInfo(), "taken": len(held) * 64 * MIB, "error": error}


def jax_fill() -> dict[str, object]:
    import jax.numpy as jnp

    x = jnp.ones((1024, 1024))
    return {"sum": float((x @ x).sum()), "process": Nvml().process_used()}


def views() -> dict[str, object]:
    """NVML through pynvml beside the driver's own figures."""
    import pynvml as n

    cu = Driver()
    cu.start()
    cu.must_out("cuMemAlloc_v2", 100 * MIB)
    n.nvmlInit()
    handle = n.nvmlDeviceGetHandleByIndex(0)
    info = n.nvmlDeviceGetMemoryInfo(handle)
    second = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
    processes = [[item.pid == os.getpid(), item.usedGpuMemory] for item in n.nvmlDeviceGetComputeRunningProcesses(handle)]
    try:
        n.nvmlDeviceSetComputeMode(handle, 0)
        refused = "allowed"
    except n.NVMLError as problem:
        refused = type(problem).__name__
    return {"free": cu.free_bytes(), "total": cu.total_bytes(), "nvml": [info.total, info.free, info.used], "nvml_v2": [second.total, second.free, second.used, second.reserved],
            "processes": processes, "graphics": len(n.nvmlDeviceGetGraphicsRunningProcesses(handle)), "setting": refused, "utilization": n.nvmlDeviceGetUtilizationRates(handle).gpu}  # fmt: skip


def hold() -> dict[str, object]:
    """Takes all it can get, says so and waits to be killed."""
    cu = Driver()
    cu.start()
    taken = fill(cu, lambda size: cu.out("cuMemAlloc_v2", size)[0], 256 * MIB)
    print(json.dumps({"taken": taken[0]}), flush=True)
    sys.stdin.read()
    return {}


def measured() -> dict[str, object]:
    """Says what is free, and again after a line of input."""
    cu = Driver()
    cu.start()
    print(json.dumps({"free": cu.free_bytes()}), flush=True)
    sys.stdin.readline()
    return {"free": cu.free_bytes()}


def ways() -> dict[str, object]:
    """The same function by every way a program can get it: all must be one address, the wrapper's."""
    cu = Driver()
    own = ctypes.CDLL(None)
    dlsym = ctypes.CDLL(None).dlsym
    dlsym.restype, dlsym.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    handle = ctypes.c_void_p(cu.library._handle)
    look_up, more = ("cuGetProcAddress_v2", [None]) if hasattr(cu.library, "cuGetProcAddress_v2") else ("cuGetProcAddress", [])
    found: dict[str, object] = {}
    for name, version, flags, exported in (("cuMemAlloc", 12000, 0, "cuMemAlloc_v2"), ("cuMemAlloc", 3010, 0, "cuMemAlloc"), ("cuMemAllocAsync", 12000, 0, "cuMemAllocAsync"),
                                           ("cuMemAllocAsync", 12000, 2, "cuMemAllocAsync_ptsz"), ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"), ("cuCtxCreate", 12000, 0, "cuCtxCreate_v3"),
                                           ("cuGraphLaunch", 12000, 2, "cuGraphLaunch_ptsz")):  # fmt: skip
        if not hasattr(cu.library, exported):  # the driver is older
            continue
        pointer = ctypes.c_void_p()
        cu.must(look_up, name.encode(), ctypes.byref(pointer), ctypes.c_int(version), flags, *more)
        addresses = {pointer.value, dlsym(handle, exported.encode()), dlsym(None, exported.encode()), ctypes.cast(getattr(own, exported), ctypes.c_void_p).value}
        maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if "libdrawbridge" in line]
        low, high = (min(int(line.split("-")[0], 16) for line in maps), max(int(line.split("-")[1].split()[0], 16) for line in maps)) if maps else (0, 0)
        found[f"{name} {version} {flags}"] = [len(addresses), all(address is not None and low <= address < high for address in addresses)]
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()), flush=True)
