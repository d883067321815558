#include "preload/table.hpp"

namespace preload {

Record* Table::Part::find(uint64_t key) {
    if (size == 0) return nullptr;
    for (uint64_t at = mixed(key) & (size - 1);; at = (at + 1) & (size - 1)) {
        if (entries[at].key == key) return entries + at;
        if (entries[at].key == 0) return nullptr;
    }
}

void Table::Part::put(const Record& record) {
    uint64_t at = mixed(record.key) & (size - 1);
    while (entries[at].key != 0)
        at = (at + 1) & (size - 1);
    entries[at] = record;
    ++count;
}

// Closes the gap: entries behind it that may move forward without passing their own place do.
void Table::Part::erase(Record* place) {
    uint64_t gap = static_cast<uint64_t>(place - entries);
    for (uint64_t at = (gap + 1) & (size - 1); entries[at].key != 0; at = (at + 1) & (size - 1)) {
        const uint64_t home = mixed(entries[at].key) & (size - 1);
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
    const uint64_t new_size = size == 0 ? 64 : size * 2;
    auto* fresh = static_cast<Record*>(pages(new_size * sizeof(Record)));
    if (fresh == nullptr) return false;
    entries = fresh;
    size = new_size;
    count = 0;
    for (uint64_t at = 0; at < old_size; ++at)
        if (old[at].key != 0) put(old[at]);
    unmap(old, old_size * sizeof(Record));
    return true;
}

bool Table::insert(const Record& record, Record& before) {
    before.key = 0;
    if (record.key == 0) return true;
    Part& part = part_of(record.key);
    const Guard guard(part.lock);
    Record* place = part.find(record.key);
    if (place != nullptr) {
        before = *place;
        *place = record;
        return true;
    }
    if (part.count * 2 >= part.size && !part.grow()) return false;
    part.put(record);
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
