#include "preload/table.hpp"

namespace preload {

Record* Table::Part::place_of(uint64_t key) {
    uint64_t at = home_of(key, size);
    while (entries[at].key != key && entries[at].key != 0)
        at = (at + 1) & (size - 1);
    return entries + at;
}

Record* Table::Part::find(uint64_t key) {
    if (size == 0) return nullptr;
    Record* place = place_of(key);
    return place->key == 0 ? nullptr : place;
}

// Closes the gap: entries behind it that may move forward without passing their own place do.
void Table::Part::erase(Record* place) {
    uint64_t gap = static_cast<uint64_t>(place - entries);
    for (uint64_t at = (gap + 1) & (size - 1); entries[at].key != 0; at = (at + 1) & (size - 1)) {
        const uint64_t home = home_of(entries[at].key, size);
        if (((at - home) & (size - 1)) < ((at - gap) & (size - 1))) continue;
        entries[gap] = entries[at];
        gap = at;
    }
    entries[gap] = Record{};
    --count;
}

bool Table::Part::grow() {
    const uint64_t old_size = size;
    Record* old = entries;
    const uint64_t new_size = size == 0 ? 16 : size * 2;
    auto* fresh = static_cast<Record*>(pages(new_size * sizeof(Record)));
    if (fresh == nullptr) return false;
    // A child that is forked in between must not unmap more than there is.
    __atomic_store_n(&entries, fresh, __ATOMIC_RELEASE);
    __atomic_store_n(&size, new_size, __ATOMIC_RELEASE);
    for (uint64_t at = 0; at < old_size; ++at)
        if (old[at].key != 0) *place_of(old[at].key) = old[at];
    unmap(old, old_size * sizeof(Record));
    return true;
}

bool Table::insert(const Record& record, Record& before) {
    before.key = 0;
    if (record.key == 0) return true;
    Part& part = part_of(record.key);
    const Guard guard(part.lock);
    Record* place = part.size == 0 ? nullptr : part.place_of(record.key);
    if (place != nullptr && place->key != 0) {
        before = *place;
        *place = record;
        return true;
    }
    if (part.count * 2 >= part.size) {
        if (!part.grow()) return false;
        place = part.place_of(record.key);
    }
    *place = record;
    ++part.count;
    return true;
}

bool Table::take(uint64_t key, Record& record) {
    return update(key, [&](Record& place) {
        record = place;
        return false;
    });
}

bool Table::find(uint64_t key, Record& record) {
    return update(key, [&](Record& place) {
        record = place;
        return true;
    });
}

void Table::forget() {
    for (Part& part : parts_) {
        unmap(part.entries, part.size * sizeof(Record));
        part = Part{};
    }
}

}  // namespace preload
