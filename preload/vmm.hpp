#pragma once
// Physical memory of virtual memory management: what it is charged, and what holds it. The mappings
// of this process are in order of address, so that one unmap call may cover several.

#include "preload/pieces.hpp"
#include "preload/table.hpp"

#include <stdint.h>
#include <string.h>

namespace preload {

struct Mapping {
    uint64_t address = 0;
    uint64_t bytes = 0;
    Memory memory;
    uint64_t number = 0;
};

/// A sorted array; the caller holds a lock. Zero-initialised means empty.
class MappingList {
public:
    /// Makes sure of room for one mapping. False where no memory could be had.
    bool promise() {
        if (count_ + promised_ == room_ && !grow()) return false;
        ++promised_;
        return true;
    }
    /// Gives promised room back.
    void withdraw() { --promised_; }

    /// Adds a mapping for which there is a promise.
    void keep(const Mapping& mapping) {
        --promised_;
        const uint64_t at = first_from(mapping.address);
        memmove(entries_ + at + 1, entries_ + at, (count_ - at) * sizeof(Mapping));
        entries_[at] = mapping;
        ++count_;
    }

    /// Removes the mappings up to a number that begin in [address, address + bytes) and tells
    /// `each` of them.
    template <class Each>
    void remove(uint64_t address, uint64_t bytes, uint64_t number, Each each) {
        uint64_t from = first_from(address);
        uint64_t to = from;
        for (; to < count_ && entries_[to].address - address < bytes; ++to) {
            if (entries_[to].number <= number)
                each(entries_[to]);
            else
                entries_[from++] = entries_[to];
        }
        memmove(entries_ + from, entries_ + to, (count_ - to) * sizeof(Mapping));
        count_ -= to - from;
    }

    /// The memory that was last mapped at an address; none where there is nothing.
    Memory memory_at(uint64_t address) const {
        uint64_t next = first_from(address);
        if (next < count_ && entries_[next].address == address) ++next;
        if (next == 0 || address - entries_[next - 1].address >= entries_[next - 1].bytes)
            return {};
        return entries_[next - 1].memory;
    }

    uint64_t size() const { return count_; }

    void forget() {
        unmap(entries_, room_ * sizeof(Mapping));
        *this = MappingList{};
    }

private:
    uint64_t first_from(uint64_t address) const {
        uint64_t low = 0;
        for (uint64_t high = count_; low < high;) {
            const uint64_t middle = (low + high) / 2;
            if (entries_[middle].address < address)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    bool grow() { return grow_pages(entries_, count_, room_, 128); }

    Mapping* entries_ = nullptr;
    uint64_t count_ = 0;
    uint64_t room_ = 0;
    uint64_t promised_ = 0;
};

/// What this process knows of physical memory. All but `lock` is used under it, and no call to the
/// driver is made under it: unmapping and releasing may wait for work on the GPU, and a bind or a
/// map for what other threads do. While a call is under way, what it takes away is taken away
/// already for other threads: a handle's value may come again, and an address be mapped anew.
struct PhysicalMemory {
    Mutex lock;
    Table handles;  // handle -> bytes; `owner` counts what holds it, see physical.cpp
    MappingList mappings;
    PieceList pieces;      // of multicast objects and sparse arrays
    uint64_t numbers = 0;  // of mappings and pieces
};
extern PhysicalMemory physical;

/// The number of the mapping or piece that came last: a call that begins now takes no later one
/// away.
uint64_t last_number();

// The caller of these has the lock.

/// Notes a handle that the driver has made. What had its value before is gone.
void know_handle(Record record);
/// The memory or object that has a handle now; `life` is 0 where nobody knows it.
Memory memory_of(uint64_t handle);
/// One reference to a handle more; one less of a memory. What is unknown is counted.
void add_reference(uint64_t handle);
void drop_reference(const Memory& memory);
/// One thing more that holds a handle's memory, or the object: before the driver is asked. `life`
/// is 0 for an unknown handle.
Memory hold(uint64_t handle);
/// The same for memory that is charged to a share, whose device is given; none for any other.
Memory hold_charged(uint64_t handle, int& device);
/// One thing less.
void let_go(const Memory& memory);
/// Takes out what of an owner's part lies in a box, up to a piece's number, and all that an owner
/// has.
void cut_pieces(uint64_t owner, uint64_t part, const Box& box, uint64_t number);
void drop_pieces(uint64_t owner);
/// Others may hold a handle's memory too, beyond what this process sees.
void mark_shared(uint64_t handle);
/// Counts the use of a handle that nobody knows.
void count_unknown_handle();

/// Forgets all handles and what holds them, in a forked child.
void forget_vmm();

}  // namespace preload
