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
    uint64_t handle = 0;
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

    /// Removes the mappings that begin in [address, address + bytes) and tells `each` of them.
    template <class Each>
    void remove(uint64_t address, uint64_t bytes, Each each) {
        const uint64_t from = first_from(address);
        uint64_t to = from;
        for (; to < count_ && entries_[to].address - address < bytes; ++to)
            each(entries_[to]);
        memmove(entries_ + from, entries_ + to, (count_ - to) * sizeof(Mapping));
        count_ -= to - from;
    }

    /// The memory at an address; 0 where nothing is mapped there.
    uint64_t handle_at(uint64_t address) const {
        uint64_t next = first_from(address);
        if (next < count_ && entries_[next].address == address) ++next;
        if (next == 0 || address - entries_[next - 1].address >= entries_[next - 1].bytes) return 0;
        return entries_[next - 1].handle;
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

    bool grow() {
        const uint64_t room = room_ == 0 ? 128 : room_ * 2;
        auto* fresh = static_cast<Mapping*>(pages(room * sizeof(Mapping)));
        if (fresh == nullptr) return false;
        if (count_ != 0) memcpy(fresh, entries_, count_ * sizeof(Mapping));
        unmap(entries_, room_ * sizeof(Mapping));
        entries_ = fresh;
        room_ = room;
        return true;
    }

    Mapping* entries_ = nullptr;
    uint64_t count_ = 0;
    uint64_t room_ = 0;
    uint64_t promised_ = 0;
};

/// What this process knows of physical memory. All but `lock` is used under it.
struct PhysicalMemory {
    Mutex lock;
    Table handles;  // handle -> bytes; `owner` counts what holds it, see physical.cpp
    MappingList mappings;
    PieceList pieces;  // of multicast objects and sparse arrays
};
extern PhysicalMemory physical;

// The caller of these has the lock.

/// Notes a handle that the driver gave out.
void know_handle(const Record& record);
/// One reference to a handle more or less. Unknown handles are counted.
void add_reference(uint64_t handle);
void drop_reference(uint64_t handle);
/// One thing more that holds a handle's memory, or the object: before the driver is asked, which
/// may wait for other threads. False for an unknown handle.
bool hold(uint64_t handle);
/// The same for memory that is charged to a share, whose device is given; false for any other.
bool hold_charged(uint64_t handle, int& device);
/// One thing less.
void let_go(uint64_t handle);
/// Takes out what of an owner's part lies in a box, and all that an owner has.
void cut_pieces(uint64_t owner, uint64_t part, const Box& box);
void drop_pieces(uint64_t owner);
/// Others may hold a handle's memory too, beyond what this process sees.
void mark_shared(uint64_t handle);
/// Counts the use of a handle that nobody knows.
void count_unknown_handle();

/// Forgets all handles and what holds them, in a forked child.
void forget_vmm();

}  // namespace preload
