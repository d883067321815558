"""What the driver answers to calls that are wrong or odd."""

from __future__ import annotations

import ast
import ctypes
import json
import os
from collections.abc import Callable

from driver import MIB, Driver, Nvml, allocation_properties, array_description


def rules() -> dict[str, object]:
    """Status of calls that are wrong or odd, each in a forked child: a driver may crash on some."""
    tests: dict[str, Callable[[Driver], object]] = {
        "free 0": lambda cu: cu.call("cuMemFree_v2", 0),
        "free twice": lambda cu: (lambda p: [cu.call("cuMemFree_v2", p), cu.call("cuMemFree_v2", p)])(cu.must_out("cuMemAlloc_v2", MIB)),
        "free inside": lambda cu: cu.call("cuMemFree_v2", cu.must_out("cuMemAlloc_v2", 4 * MIB) + 512),
        "free unknown": lambda cu: cu.call("cuMemFree_v2", 0x123456000),
        "free host": lambda cu: cu.call("cuMemFree_v2", cu.must_out("cuMemHostAlloc", MIB, 0)),
        "free async of linear": lambda cu: cu.call("cuMemFreeAsync", cu.must_out("cuMemAlloc_v2", MIB), 0),
        "free async of managed": lambda cu: cu.call("cuMemFreeAsync", cu.must_out("cuMemAllocManaged", MIB, 1), 0),
        "free async twice": lambda cu: (lambda p: [cu.call("cuMemFreeAsync", p, 0), cu.call("cuMemFreeAsync", p, 0)])(cu.must_out("cuMemAllocAsync", MIB, 0)),
        "free async 0": lambda cu: cu.call("cuMemFreeAsync", 0, 0),
        "free async unknown": lambda cu: cu.call("cuMemFreeAsync", 0x123456000, 0),
        "alloc 0": lambda cu: cu.out("cuMemAlloc_v2", 0)[0],
        "alloc null": lambda cu: cu.call("cuMemAlloc_v2", 0, MIB),
        "alloc huge": lambda cu: cu.out("cuMemAlloc_v2", 1 << 50)[0],
        "alloc max": lambda cu: cu.out("cuMemAlloc_v2", (1 << 64) - 1)[0],
        "info null free": lambda cu: cu.call("cuMemGetInfo_v2", 0, ctypes.byref(ctypes.c_uint64())),
        "info null total": lambda cu: cu.call("cuMemGetInfo_v2", ctypes.byref(ctypes.c_uint64()), 0),
        "info null both": lambda cu: cu.call("cuMemGetInfo_v2", 0, 0),
        "total null": lambda cu: cu.call("cuDeviceTotalMem_v2", 0, 0),
        "total bad device": lambda cu: cu.out("cuDeviceTotalMem_v2", 7)[0],
        "create null": lambda cu: cu.call("cuMemCreate", 0, 2 * MIB, allocation_properties(), 0),
        "create null properties": lambda cu: cu.out("cuMemCreate", 2 * MIB, 0, 0)[0],
        "create bad device": lambda cu: cu.out("cuMemCreate", 2 * MIB, allocation_properties(5), 0)[0],
        "create flags 1": lambda cu: cu.out("cuMemCreate", 2 * MIB, allocation_properties(), 1)[0],
        "release 0": lambda cu: cu.call("cuMemRelease", 0),
        "release unknown": lambda cu: cu.call("cuMemRelease", 0x123456),
        "release twice": lambda cu: (lambda h: [cu.call("cuMemRelease", h), cu.call("cuMemRelease", h)])(cu.must_out("cuMemCreate", 2 * MIB, allocation_properties(), 0)),
        "unmap unknown": lambda cu: cu.call("cuMemUnmap", 0x123400000, 2 * MIB),
        "retain unknown": lambda cu: cu.out("cuMemRetainAllocationHandle", 0x123400000)[0],
        "array null": lambda cu: cu.call("cuArray3DCreate_v2", 0, array_description(8, 8, 0, 1, 1)),
        "array channels 3": lambda cu: cu.out("cuArray3DCreate_v2", array_description(8, 8, 0, 1, 3))[0],
        "array bad format": lambda cu: cu.out("cuArray3DCreate_v2", array_description(8, 8, 0, 0x77, 1))[0],
        "array width 0": lambda cu: cu.out("cuArray3DCreate_v2", array_description(0, 8, 0, 1, 1))[0],
        "array destroy 0": lambda cu: cu.call("cuArrayDestroy", 0),
        "pool destroy 0": lambda cu: cu.call("cuMemPoolDestroy", 0),
        "pool alloc null pool": lambda cu: cu.out("cuMemAllocFromPoolAsync", MIB, 0, 0)[0],
        "alloc async on legacy handle 1, per-thread 2": lambda cu: [cu.out("cuMemAllocAsync", MIB, 1)[0], cu.out("cuMemAllocAsync", MIB, 2)[0]],
        "set limit unknown": lambda cu: cu.call("cuCtxSetLimit", 99, 1),
        "no context": lambda cu: [cu.call("cuCtxSetCurrent", 0), cu.out("cuMemAlloc_v2", MIB)[0], cu.call("cuMemGetInfo_v2", ctypes.byref(ctypes.c_uint64()), ctypes.byref(ctypes.c_uint64())), cu.out("cuMemAllocManaged", MIB, 1)[0], cu.out("cuMemCreate", 2 * MIB, allocation_properties(), 0)[0], cu.out("cuMemAllocAsync", MIB, 0)[0], cu.call("cuMemFree_v2", 0), cu.out("cuArray3DCreate_v2", array_description(8, 8, 0, 1, 1))[0]],
        "no context, free": lambda cu: (lambda p: [cu.call("cuCtxSetCurrent", 0), cu.call("cuMemFree_v2", p)])(cu.must_out("cuMemAlloc_v2", MIB)),
        "init flags 1": lambda cu: cu.call("cuInit", 1),
        "context destroyed frees": lambda cu: (lambda n: [n.device_used(), (lambda c: [cu.out("cuMemAlloc_v2", 256 * MIB)[0], n.device_used(), cu.call("cuCtxDestroy_v2", c), n.device_used()])(cu.must_out("cuCtxCreate_v2", 0, 0))])(Nvml()),
        "reset frees": lambda cu: (lambda n: [cu.out("cuMemAlloc_v2", 256 * MIB)[0], n.device_used(), cu.call("cuDevicePrimaryCtxReset_v2", 0), n.device_used(), cu.out("cuMemAlloc_v2", MIB)[0]])(Nvml()),
        "pool survives reset": lambda cu: (lambda n: [cu.out("cuMemAllocAsync", 256 * MIB, 0)[0], n.device_used(), cu.call("cuDevicePrimaryCtxReset_v2", 0), n.device_used()])(Nvml()),
        "handle survives reset": lambda cu: (lambda n: [cu.out("cuMemCreate", 256 * MIB, allocation_properties(), 0)[0], n.device_used(), cu.call("cuDevicePrimaryCtxReset_v2", 0), n.device_used()])(Nvml()),
        "pool and handle after the second context": lambda cu: (lambda n, c: [cu.out("cuMemAllocAsync", 256 * MIB, 0)[0], cu.out("cuMemCreate", 256 * MIB, allocation_properties(), 0)[0], n.device_used(), cu.call("cuCtxDestroy_v2", c), n.device_used()])(Nvml(), cu.must_out("cuCtxCreate_v2", 0, 0)),
        "address free while mapped": lambda cu: (lambda h, a: [cu.call("cuMemMap", a, 2 * MIB, 0, h, 0), cu.call("cuMemAddressFree", a, 2 * MIB), cu.call("cuMemUnmap", a, 2 * MIB)])(cu.must_out("cuMemCreate", 2 * MIB, allocation_properties(), 0), cu.must_out("cuMemAddressReserve", 2 * MIB, 0, 0, 0)),
        "free mapped by cuMemFree": lambda cu: (lambda h, a: [cu.call("cuMemMap", a, 2 * MIB, 0, h, 0), cu.call("cuMemFree_v2", a)])(cu.must_out("cuMemCreate", 2 * MIB, allocation_properties(), 0), cu.must_out("cuMemAddressReserve", 2 * MIB, 0, 0, 0)),
        "ipc handle": lambda cu: cu.call("cuIpcGetMemHandle", ctypes.create_string_buffer(64), cu.must_out("cuMemAlloc_v2", 4 * MIB)),
        "fork then use": fork_then_use,
    }  # fmt: skip
    before = Driver()
    found: dict[str, object] = {"before init": [before.out("cuMemAlloc_v2", MIB)[0], before.call("cuMemFree_v2", 0), before.out("cuDeviceGet", 0)[0],
                                                before.out("cuDeviceTotalMem_v2", 0)[0], before.out("cuMemCreate", 2 * MIB, allocation_properties(), 0)[0],
                                                before.out("cuDriverGetVersion")[0], before.out("cuCtxGetCurrent")[0]]}  # fmt: skip
    for name, test in tests.items():
        found[name] = in_child(test)
    return found


def fork_then_use(cu: Driver) -> object:
    return in_child(lambda _: [cu.call("cuInit", 0), cu.out("cuMemAlloc_v2", MIB)[0], cu.out("cuDeviceGet", 0)[0]], False)


def in_child(test: Callable[[Driver], object], begin: bool = True) -> object:
    """Runs a test in a forked child with a fresh driver; its value, or how the child died."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            cu = Driver()
            if begin:
                cu.start()
            answer = repr(json.loads(json.dumps(test(cu))))
        except Exception as error:  # the record says what went wrong
            answer = repr(f"{type(error).__name__}: {error}")
        os.write(send, answer.encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as source:
        answer = source.read().decode()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return ast.literal_eval(answer)
