#pragma once
// What this process holds: address or handle -> bytes, share and kind. Split into parts with a lock
// each, so that threads seldom meet; a look-up costs the same with ten and with a million entries.
// Few parts that begin small: where addresses never come again, each look-up is of another part and
// place, and what few entries lie in should fit in the processor's first cache.
// Memory comes from the kernel in pages, never from malloc, which a program may have replaced.

#include "preload/os.hpp"

#include <stdint.h>

namespace preload {

enum class Kind : uint8_t { linear, managed, array, pool_block, vmm_handle, graph_block };

/// `owner` is what the entry dies with or belongs to: a context, a pool, or what holds a VMM
/// handle.
struct Record {
    uint64_t key = 0;
    uint64_t bytes = 0;
    uint64_t owner = 0;
    int16_t share = -1;
    Kind kind = Kind::linear;
    int16_t device = -1;  // ordinal, of physical memory
    uint16_t life = 0;    // which of those that had this handle, of physical memory
};

/// A hash table without constructor; zero-initialised means empty. Key 0 is no key.
class Table {
public:
    /// Adds or replaces. False where no memory could be had. `before`: what was replaced; its key
    /// is 0 where nothing was.
    bool insert(const Record& record, Record& before);
    bool insert(const Record& record) {
        Record before;
        return insert(record, before);
    }
    /// Removes the entry of a key and gives it.
    bool take(uint64_t key, Record& record);
    bool find(uint64_t key, Record& record);
    /// Runs `change(Record&)` under the lock if the key is there; removes the entry where that
    /// answers false.
    template <class Change>
    bool update(uint64_t key, Change change) {
        if (key == 0) return false;
        Part& part = part_of(key);
        const Guard guard(part.lock);
        Record* place = part.find(key);
        if (place == nullptr) return false;
        if (!change(*place)) part.erase(place);
        return true;
    }
    /// Removes every entry for which `choose(const Record&)` is true. `choose` may look at an entry
    /// twice.
    template <class Choose>
    void remove_if(Choose choose) {
        for (Part& part : parts_) {
            const Guard guard(part.lock);
            for (uint64_t at = 0; at < part.size;) {
                Record* place = part.entries + at;
                if (place->key != 0 && choose(*place))
                    part.erase(place);  // may move another entry here: look again
                else
                    ++at;
            }
        }
    }
    /// Forgets everything, in a child that was forked: the locks may be held by threads that are
    /// not there.
    void forget();

    /// The part that has a key, and where its entry is looked for first in one of a size. Addresses
    /// are multiples of a power of two, so that the lower bits of a product tell few of them apart.
    static uint64_t part_number(uint64_t key) { return mixed(key) >> 60; }
    static uint64_t home_of(uint64_t key, uint64_t size) { return mixed(key) >> 32 & (size - 1); }

private:
    struct Part {
        SpinLock lock;
        uint64_t size = 0;  // a power of two, or 0
        uint64_t count = 0;
        Record* entries = nullptr;

        /// The entry of a key, or the empty one where it belongs. There must be entries.
        Record* place_of(uint64_t key);
        Record* find(uint64_t key);
        void erase(Record* place);
        bool grow();
    };

    static uint64_t mixed(uint64_t key) { return (key >> 4 ^ key >> 21) * 0x9E3779B97F4A7C15ull; }
    Part& part_of(uint64_t key) { return parts_[part_number(key)]; }

    Part parts_[16] = {};
};

}  // namespace preload
