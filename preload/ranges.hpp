#pragma once
// Ranges of addresses on devices, which may lie over each other, and how many bytes they are
// together.

#include "preload/os.hpp"

#include <stdint.h>

namespace preload {

class Ranges {
public:
    Ranges() = default;
    ~Ranges() { unmap(entries_, room_ * sizeof(Range)); }
    Ranges(const Ranges&) = delete;
    Ranges& operator=(const Ranges&) = delete;

    /// Adds a range, in whole pages. One whose address is not known (0) lies over no other; one
    /// that no memory is there to remember is left out.
    void add(int device, uint64_t address, uint64_t bytes) {
        if (count_ == room_ && !grow_pages(entries_, count_, room_, 128)) return;
        if (bytes > most) bytes = most;
        const uint64_t from = (address == 0 ? nowhere_ : address) / page * page;
        const uint64_t past = (address == 0 ? nowhere_ : address) + bytes + page - 1;
        entries_[count_++] = {device, from, past / page * page};
        if (address == 0) nowhere_ += bytes + page;
    }

    /// Puts them in order, before they are added up.
    void sort() {
        for (uint64_t at = count_ / 2; at > 0; --at)
            sink(at - 1, count_);
        for (uint64_t last = count_; last > 1; --last) {
            swap(0, last - 1);
            sink(0, last - 1);
        }
    }

    /// Bytes that the ranges of a device cover.
    uint64_t bytes_on(int device) const {
        uint64_t sum = 0;
        uint64_t covered = 0;
        for (uint64_t at = 0; at < count_; ++at) {
            const Range& range = entries_[at];
            if (range.device != device || range.to <= covered) continue;
            sum += range.to - (range.from > covered ? range.from : covered);
            covered = range.to;
        }
        return sum;
    }

private:
    static constexpr uint64_t page = uint64_t{2} << 20;
    static constexpr uint64_t most = uint64_t{1} << 50;  // that any device has

    struct Range {
        int device;
        uint64_t from;
        uint64_t to;
    };

    bool comes_before(uint64_t one, uint64_t other) const {
        return entries_[one].from < entries_[other].from;
    }

    void swap(uint64_t one, uint64_t other) {
        const Range kept = entries_[one];
        entries_[one] = entries_[other];
        entries_[other] = kept;
    }

    // A heap whose largest entry is the first one.
    void sink(uint64_t at, uint64_t count) {
        for (uint64_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
            if (child + 1 < count && comes_before(child, child + 1)) ++child;
            if (!comes_before(at, child)) return;
            swap(at, child);
        }
    }

    Range* entries_ = nullptr;
    uint64_t count_ = 0;
    uint64_t room_ = 0;
    uint64_t nowhere_ = uint64_t{1} << 60;
};

}  // namespace preload
