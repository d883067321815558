"""Programs whose physical memory is held by something else than its handle: multicast objects and sparse arrays. They run with and
without the library; holders.py checks what they print."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from driver import MAP, MIB, UNMAP, Driver, access_description, allocation_properties, array_description, multicast_properties, tiles

MULTICAST, SPARSE = 132, 112  # CUdevice_attribute: supported
SPARSE_ARRAY, TILE_POOL = 0x40, 1  # CUDA_ARRAY3D_SPARSE, CU_MEM_CREATE_USAGE_TILE_POOL
SIZE = 64 * MIB
SIDE = 4096  # of an array of as many bytes, in elements of four; a multiple of every tile
MOST = 64  # pieces of memory that are more than a share holds

Steps = list[tuple[str, Callable[[], object]]]


def supported(cu: Driver, attribute: int) -> bool:
    value = ctypes.c_int(0)
    return cu.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, 0) == 0 and value.value == 1


def traced(cu: Driver, steps: Steps) -> list[list[object]]:
    """Bytes that are gone from the free ones after each step."""
    begin = cu.free_bytes()
    trace: list[list[object]] = []
    for name, step in steps:
        step()
        cu.must("cuCtxSynchronize")
        trace.append([name, begin - cu.free_bytes()])
    return trace


def filled(cu: Driver, most: int, hold: Callable[[int, int], None], usage: int = 0) -> list[int]:
    """Makes memory that something else than its handle holds, until refused: [how often, the answer]."""
    for count in range(most):
        status, handle = cu.out("cuMemCreate", SIZE, allocation_properties(usage=usage), 0)
        if status != 0:
            return [count, status]
        hold(count, handle)
        cu.must("cuMemRelease", handle)
    return [most, 0]


# ------------------------------------------------------------------------------------------------- the programs


def multicast_object(cu: Driver, size: int) -> tuple[int, int]:
    """One of device 0 alone: (CUresult, handle). Drivers differ in whether one must be fit to be exported."""
    for kind in (0, 1):
        status, handle = cu.out("cuMulticastCreate", multicast_properties(1, size, kind))
        if status == 0:
            return cu.call("cuMulticastAddDevice", handle, 0), handle
    return status, 0


def multicast() -> dict[str, object]:
    cu = Driver()
    cu.start()
    if not supported(cu, MULTICAST):
        return {"not supported": "the card and its driver have no multicast objects"}
    size = MOST * SIZE
    status, handle = multicast_object(cu, size)
    if status != 0:
        return {"not supported": f"the driver answers {status} to a multicast object of one card"}
    cu.must("cuMemRelease", handle)
    return {"traces": [bound(cu, size), outlived(cu, size), bound_by_address(cu, size)], "fill": fill_object(cu, size)}


def bound(cu: Driver, size: int) -> list[list[object]]:
    _, object_ = multicast_object(cu, size)
    memory = cu.must_out("cuMemCreate", SIZE, allocation_properties(), 0)
    trace = traced(cu, [("bind", lambda: cu.must("cuMulticastBindMem", object_, 0, memory, 0, SIZE, 0)), ("release", lambda: cu.must("cuMemRelease", memory)),
                        ("unbind", lambda: cu.must("cuMulticastUnbind", object_, 0, 0, SIZE))])  # fmt: skip
    cu.must("cuMemRelease", object_)
    return moved(trace)


def outlived(cu: Driver, size: int) -> list[list[object]]:
    """The object goes with what is bound to it."""
    _, object_ = multicast_object(cu, size)
    memory = cu.must_out("cuMemCreate", SIZE, allocation_properties(), 0)
    return moved(traced(cu, [("bind", lambda: cu.must("cuMulticastBindMem", object_, SIZE, memory, 0, SIZE, 0)), ("release", lambda: cu.must("cuMemRelease", memory)),
                             ("release the object", lambda: cu.must("cuMemRelease", object_))]))  # fmt: skip


def bound_by_address(cu: Driver, size: int) -> list[list[object]]:
    _, object_ = multicast_object(cu, size)
    memory, where = cu.must_out("cuMemCreate", SIZE, allocation_properties(), 0), cu.must_out("cuMemAddressReserve", SIZE, 0, 0, 0)
    cu.must("cuMemMap", where, SIZE, 0, memory, 0)
    cu.must("cuMemSetAccess", where, SIZE, access_description(), 1)
    trace = traced(cu, [("bind", lambda: cu.must("cuMulticastBindAddr", object_, 0, where, SIZE, 0)), ("release", lambda: cu.must("cuMemRelease", memory)),
                        ("unmap", lambda: cu.must("cuMemUnmap", where, SIZE)), ("unbind", lambda: cu.must("cuMulticastUnbind", object_, 0, 0, SIZE))])  # fmt: skip
    cu.must("cuMemRelease", object_)
    return moved(trace)


def moved(trace: list[list[object]]) -> list[list[object]]:
    """The memory was there when the trace began: what is gone more than then, and at first."""
    return [[name, SIZE + gone] for name, gone in trace]  # type: ignore[operator]


def fill_object(cu: Driver, size: int) -> list[int]:
    """No more than the share, though each handle is released at once; then all of it is back."""
    if "DRAWBRIDGE_GPU_BARE" in os.environ:
        return []  # the card may have more than the object
    begin = cu.free_bytes()
    _, object_ = multicast_object(cu, size)
    found = filled(cu, size // SIZE, lambda at, memory: cu.must("cuMulticastBindMem", object_, at * SIZE, memory, 0, SIZE, 0))
    cu.must("cuMemRelease", object_)
    return [*found, begin - cu.free_bytes()]


def sparse() -> dict[str, object]:
    cu = Driver()
    cu.start()
    if not supported(cu, SPARSE):
        return {"not supported": "the card and its driver have no sparse arrays"}
    stream = cu.must_out("cuStreamCreate", 0)
    return {"traces": [unmapped(cu, stream), destroyed(cu, stream)], "fill": fill_array(cu, stream)}


def sparse_array(cu: Driver) -> int:
    return cu.must_out("cuArray3DCreate_v2", array_description(SIDE, SIDE, 0, 0x20, 1, SPARSE_ARRAY))


def box(top: int = 0, height: int = 0) -> tuple[int, ...]:
    return (0, top, 0, SIDE, height or SIDE, 1)


def tile(cu: Driver, stream: int, operation: bytes) -> None:
    cu.must("cuMemMapArrayAsync", operation, 1, stream)


def unmapped(cu: Driver, stream: int) -> list[list[object]]:
    """One half, then the other: the memory is held by what is left."""
    array, memory = sparse_array(cu), cu.must_out("cuMemCreate", SIZE, allocation_properties(usage=TILE_POOL), 0)
    trace = traced(cu, [("map", lambda: tile(cu, stream, tiles(MAP, array, box(), memory))), ("release", lambda: cu.must("cuMemRelease", memory)),
                        ("unmap a half", lambda: tile(cu, stream, tiles(UNMAP, array, box(0, SIDE // 2)))),
                        ("unmap the rest", lambda: tile(cu, stream, tiles(UNMAP, array, box(SIDE // 2, SIDE // 2))))])  # fmt: skip
    cu.must("cuArrayDestroy", array)
    return moved(trace)


def destroyed(cu: Driver, stream: int) -> list[list[object]]:
    array, memory = sparse_array(cu), cu.must_out("cuMemCreate", SIZE, allocation_properties(usage=TILE_POOL), 0)
    return moved(traced(cu, [("map", lambda: tile(cu, stream, tiles(MAP, array, box(), memory))), ("release", lambda: cu.must("cuMemRelease", memory)),
                             ("destroy the array", lambda: cu.must("cuArrayDestroy", array))]))  # fmt: skip


def fill_array(cu: Driver, stream: int) -> list[int]:
    if "DRAWBRIDGE_GPU_BARE" in os.environ:
        return []
    begin = cu.free_bytes()
    arrays = [sparse_array(cu) for _ in range(MOST)]
    found = filled(cu, MOST, lambda at, memory: tile(cu, stream, tiles(MAP, arrays[at], box(), memory)), TILE_POOL)
    for array in arrays:
        cu.must("cuArrayDestroy", array)
    return [*found, begin - cu.free_bytes()]
