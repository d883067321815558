"""Fills CuPy's memory pools until they are refused, then asks CUDA for 1 MiB more. CuPy's wheel has NVIDIA's CUDA runtime
linked in. Prints what each step answered, as JSON."""

import json
from pathlib import Path

import cupy

MIB = 1 << 20
runtime = cupy.cuda.runtime


def fill(pool, step):
    """How much a pool gave, what it said at the end, what 1 MiB more is answered, and whether all comes back."""
    whole, taken, message, beyond = runtime.memGetInfo()[0], [], "", 0
    try:
        while True:
            taken.append(pool.malloc(step))
    except cupy.cuda.memory.OutOfMemoryError as problem:
        message = str(problem)
    left = runtime.memGetInfo()[0]
    try:
        runtime.free(runtime.malloc(MIB))
    except runtime.CUDARuntimeError as problem:
        beyond = problem.status
    given = step * len(taken)
    taken.clear()
    runtime.deviceSynchronize()
    pool.free_all_blocks()
    return {"taken": given, "left": left, "beyond": beyond, "message": message, "back": runtime.memGetInfo()[0] == whole}


whole, total = runtime.memGetInfo()
found = {"whole": whole, "total": total, "runtime": runtime.runtimeGetVersion(), "driver": runtime.driverGetVersion()}
found["linear"] = fill(cupy.cuda.MemoryPool(), 20 * MIB)
found["managed"] = fill(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed), 20 * MIB)
found["async"] = fill(cupy.cuda.MemoryAsyncPool(), 32 * MIB)  # what the driver's pools grow by
array = cupy.empty((10, MIB), dtype="u1")  # of the default pool
found["array"] = whole - runtime.memGetInfo()[0] == array.nbytes
found["linked in"] = "libcudart" not in Path("/proc/self/maps").read_text()
print(json.dumps(found))
