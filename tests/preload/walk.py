"""A random walk over all kinds of memory under the library, compared with a model after every step.

`walk.py SEED STEPS LEDGER LIMIT CONTEXT`; prints the number of steps, denials and of each kind, or dies at the first
difference. Runs under the preload library on the stand-in driver."""

from __future__ import annotations

import ctypes
import json
import os
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "record"))

from driver import MAP, MIB, UNMAP, Driver, allocation_properties, array_description, multicast_properties, pool_properties, tiles  # noqa: E402

PAGE = 2 * MIB
OOM = 2


def rounded(size: int) -> int:
    step = 512 if size <= MIB else PAGE
    return (size + step - 1) // step * step


class Walk:
    """The model: what is held and what it is charged with. Pools are charged with what the driver says they reserve."""

    def __init__(self, seed: int, ledger: str, limit: int, context: int) -> None:
        self.random = random.Random(seed)
        self.limit, self.context = limit, context
        self.ledger = os.open(ledger, os.O_RDONLY)
        self.cu = Driver()
        self.cu.start()
        self.blocks: dict[int, int] = {}
        self.arrays: dict[int, int] = {}
        self.handles: dict[int, list[int]] = {}  # bytes, references, mappings, bindings, tiles
        self.mappings: dict[int, tuple[int, int]] = {}  # address -> size, handle
        self.objects: dict[int, dict[int, int]] = {}  # multicast object -> offset -> handle
        self.sparse: dict[int, dict[int, int]] = {}  # array -> tile -> handle
        self.pools = [self.cu.must_out("cuDeviceGetDefaultMemPool", 0)]
        self.pool_blocks: list[int] = []
        self.has_objects = hasattr(self.cu.library, "cuMulticastCreate")
        self.counts: dict[str, int] = {}
        self.denials = 0

    def pooled(self) -> int:
        return sum(self.reserved(pool) for pool in self.pools)

    def reserved(self, pool: int) -> int:
        value = ctypes.c_uint64()
        self.cu.must("cuMemPoolGetAttribute", pool, 5, ctypes.byref(value))
        return value.value

    def charge(self) -> int:
        physical = sum(entry[0] for entry in self.handles.values())
        return self.context + sum(self.blocks.values()) + sum(self.arrays.values()) + physical + self.pooled()

    def used(self) -> int:
        return int(struct.unpack("<Q", os.pread(self.ledger, 8, 4096))[0])

    def allow(self, status: int, before: int, size: int, what: str) -> bool:
        """A refusal must be due; so must a grant, unless trimmed pools made room."""
        if status == OOM:
            self.denials += 1
            assert before + size > self.limit, (what, "refused although it fits", before, size)
            return False
        assert status == 0, (what, status)
        return True

    # ------------------------------------------------------------------------------------------------- steps

    def linear(self) -> None:
        size = self.random.choice([1, 512, 4096, MIB - 1, MIB, MIB + 1, 3 * MIB, 10 * MIB, 100 * MIB, self.random.randrange(1, 300 * MIB)])
        before = self.charge()
        status, pointer = self.cu.out("cuMemAlloc_v2", size)
        if self.allow(status, before, rounded(size), "linear"):
            self.blocks[pointer] = rounded(size)

    def free(self) -> None:
        if self.blocks:
            pointer = self.random.choice(list(self.blocks))
            call = ("cuMemFree_v2", pointer) if self.random.random() < 0.8 else ("cuMemFreeAsync", pointer, 0)
            assert self.cu.call(*call) == 0
            del self.blocks[pointer]

    def free_twice(self) -> None:
        assert self.cu.call("cuMemFree_v2", 0x123456000) == 1

    def array(self) -> None:
        height = self.random.choice([128, 1280, 12800])
        size = rounded(1024 * 4 * height)
        before = self.charge()
        status, array = self.cu.out("cuArray3DCreate_v2", array_description(1024, height, 0, 0x20, 1))
        if self.allow(status, before, size, "array"):
            self.arrays[array] = size

    def array_destroy(self) -> None:
        if self.arrays:
            array = self.random.choice(list(self.arrays))
            assert self.cu.call("cuArrayDestroy", array) == 0
            del self.arrays[array]

    def create(self) -> None:
        size = self.random.choice([PAGE, 20 * MIB, 64 * MIB])
        before = self.charge()
        status, handle = self.cu.out("cuMemCreate", size, allocation_properties(usage=1), 0)
        if self.allow(status, before, size, "create"):
            self.handles[handle] = [size, 1, 0, 0, 0]

    def drop(self, handle: int) -> None:
        if not any(self.handles[handle][1:]):
            del self.handles[handle]

    def release(self) -> None:
        choices = self.referenced()
        if choices:
            handle = self.random.choice(choices)
            assert self.cu.call("cuMemRelease", handle) == 0
            self.handles[handle][1] -= 1
            self.drop(handle)

    def map(self) -> None:
        choices = self.referenced()
        if choices:
            handle = self.random.choice(choices)
            size = self.handles[handle][0]
            address = self.cu.must_out("cuMemAddressReserve", size, 0, 0, 0)
            assert self.cu.call("cuMemMap", address, size, 0, handle, 0) == 0
            self.mappings[address] = (size, handle)
            self.handles[handle][2] += 1

    def retain(self) -> None:
        if self.mappings:
            address = self.random.choice(list(self.mappings))
            status, handle = self.cu.out("cuMemRetainAllocationHandle", address)
            assert (status, handle) == (0, self.mappings[address][1])
            self.handles[handle][1] += 1

    def unmap(self) -> None:
        if self.mappings:
            address = self.random.choice(list(self.mappings))
            size, handle = self.mappings.pop(address)
            assert self.cu.call("cuMemUnmap", address, size) == 0
            self.handles[handle][2] -= 1
            self.drop(handle)

    def referenced(self) -> list[int]:
        return [handle for handle, entry in self.handles.items() if entry[1] > 0]

    def object_create(self) -> None:
        if len(self.objects) < 3:
            made = self.cu.must_out("cuMulticastCreate", multicast_properties(1, 256 * MIB))
            self.cu.must("cuMulticastAddDevice", made, 0)
            self.objects[made] = {}

    def bind(self) -> None:
        if not self.objects or not self.referenced():
            return
        handle, (made, bound) = self.random.choice(self.referenced()), self.random.choice(list(self.objects.items()))
        offset = self.random.choice([0, 64, 128, 192]) * MIB
        mapped = [address for address, (_, other) in self.mappings.items() if other == handle]
        if mapped and self.random.random() < 0.5:
            status = self.cu.call("cuMulticastBindAddr", made, offset, mapped[0], self.handles[handle][0], 0)
        else:
            status = self.cu.call("cuMulticastBindMem", made, offset, handle, 0, self.handles[handle][0], 0)
        assert status == (1 if offset in bound else 0)
        if status == 0:
            bound[offset] = handle
            self.handles[handle][3] += 1

    def unbind(self) -> None:
        if not self.objects:
            return
        made, bound = self.random.choice(list(self.objects.items()))
        offset, size = self.random.choice([(0, 64), (64, 64), (128, 64), (0, 128), (64, 192), (0, 256)])
        gone = [at for at in bound if offset * MIB <= at < (offset + size) * MIB]
        assert self.cu.call("cuMulticastUnbind", made, 0, offset * MIB, size * MIB) == (0 if gone else 1)
        for at in gone:
            self.forget(bound.pop(at), 3)

    def object_release(self) -> None:
        if self.objects:
            made, bound = self.objects.popitem()
            assert self.cu.call("cuMemRelease", made) == 0
            for handle in bound.values():
                self.forget(handle, 3)

    def forget(self, handle: int, what: int) -> None:
        self.handles[handle][what] -= 1
        self.drop(handle)

    def sparse_create(self) -> None:
        if len(self.sparse) < 3:
            self.sparse[self.cu.must_out("cuArray3DCreate_v2", array_description(512, 512, 0, 0x20, 1, 0x40))] = {}

    def sparse_destroy(self) -> None:
        if self.sparse:
            array, mapped = self.sparse.popitem()
            assert self.cu.call("cuArrayDestroy", array) == 0
            for handle in mapped.values():
                self.forget(handle, 4)

    def tile(self) -> None:
        """Maps or unmaps a box of 4 by 4 tiles, over what is there."""
        if not self.sparse or not self.referenced():
            return
        array, mapped = self.random.choice(list(self.sparse.items()))
        x, y = self.random.randrange(4), self.random.randrange(4)
        width, height = self.random.randint(1, 4 - x), self.random.randint(1, 4 - y)
        box = (128 * x, 128 * y, 0, 128 * width, 128 * height, 1)
        handle = self.random.choice([0, self.random.choice(self.referenced())])
        one = tiles(MAP if handle else UNMAP, array, box, handle)
        name = self.random.choice(["cuMemMapArrayAsync", "cuMemMapArrayAsync_ptsz"])
        assert self.cu.call(name, one, 1, 0) == 0
        places = [4 * row + column for row in range(y, y + height) for column in range(x, x + width)]
        if handle:
            self.handles[handle][4] += len(places)
        for place in places:
            if place in mapped:
                self.forget(mapped.pop(place), 4)
            if handle:
                mapped[place] = handle

    def pool_create(self) -> None:
        if len(self.pools) < 4:
            self.pools.append(self.cu.must_out("cuMemPoolCreate", pool_properties()))

    def pool_alloc(self) -> None:
        size = self.random.choice([1, MIB, 20 * MIB, 33 * MIB, 100 * MIB])
        before = self.charge()
        status, pointer = self.cu.out("cuMemAllocFromPoolAsync", size, self.random.choice(self.pools), 0)
        # A pool grows by whole chunks of 32 MiB.
        if self.allow(status, before, (size + 32 * MIB - 1) // (32 * MIB) * 32 * MIB, "pool"):
            self.pool_blocks.append(pointer)

    def pool_free(self) -> None:
        if self.pool_blocks:
            pointer = self.pool_blocks.pop(self.random.randrange(len(self.pool_blocks)))
            assert self.cu.call(*self.random.choice([("cuMemFree_v2", pointer), ("cuMemFreeAsync", pointer, 0)])) == 0

    def synchronise(self) -> None:
        assert self.cu.call("cuCtxSynchronize") == 0

    def trim(self) -> None:
        assert self.cu.call("cuMemPoolTrimTo", self.random.choice(self.pools), 0) == 0

    def check(self) -> None:
        """Reports add up to the model; the word in the ledger is the model."""
        free = self.cu.free_bytes()
        model = self.charge()
        assert self.used() == model, (self.used(), model)
        assert free == max(self.limit - model, 0), (free, self.limit - model)

    def step(self) -> None:
        moves = [self.linear, self.linear, self.free, self.free, self.free_twice, self.array, self.array_destroy, self.create, self.release, self.map, self.retain, self.unmap,
                 self.pool_create, self.pool_alloc, self.pool_free, self.pool_free, self.synchronise, self.trim, self.sparse_create, self.sparse_destroy, self.tile, self.tile]  # fmt: skip
        if self.has_objects:
            moves += [self.object_create, self.bind, self.bind, self.unbind, self.object_release]
        move = self.random.choice(moves)
        move()
        self.counts[move.__name__] = self.counts.get(move.__name__, 0) + 1
        self.check()


def main() -> None:
    seed, steps, limit, context = (int(sys.argv[index]) for index in (1, 2, 4, 5))
    walk = Walk(seed, sys.argv[3], limit, context)
    for _ in range(steps):
        walk.step()
    print(json.dumps([sum(walk.counts.values()), walk.denials, walk.counts]))


if __name__ == "__main__":
    main()
