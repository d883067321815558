#pragma once
// The mappings of this process in order of address, so that one unmap call may cover several.

#include "preload/os.hpp"

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
    /// False where no memory could be had.
    bool add(const Mapping& mapping) {
        if (count_ == room_ && !grow()) return false;
        const uint64_t at = first_from(mapping.address);
        memmove(entries_ + at + 1, entries_ + at, (count_ - at) * sizeof(Mapping));
        entries_[at] = mapping;
        ++count_;
        return true;
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
};

/// Forgets all handles and mappings, in a forked child.
void forget_vmm();

}  // namespace preload
