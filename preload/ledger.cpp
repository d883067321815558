#include "preload/ledger.hpp"

#include <string.h>

namespace preload::ledger {
namespace {

constexpr uint64_t mib = uint64_t{1} << 20;

uint64_t& own_word(const View& view) {
    return view.ledger->used[view.slot];
}

bool fits(uint64_t held, uint64_t limit, uint64_t bytes) {
    return held <= limit && bytes <= limit - held;
}

}  // namespace

void charge(const View& view, uint64_t bytes) {
    __atomic_fetch_add(&own_word(view), bytes, __ATOMIC_SEQ_CST);
}

bool uncharge(const View& view, uint64_t bytes) {
    uint64_t now = load(own_word(view));
    while (!__atomic_compare_exchange_n(&own_word(view), &now, now < bytes ? 0 : now - bytes, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return now >= bytes;
}

bool try_charge(const View& view, uint64_t limit, uint64_t bytes) {
    if (bytes > absurd_bytes) return false;
    // Others would see it until it is taken back, and could be refused for what nobody gets.
    if (!fits(load(own_word(view)), limit, bytes)) return false;
    charge(view, bytes);
    if (limit == DRAWBRIDGE_UNLIMITED) return true;
    uint64_t sum = 0;
    const uint32_t count = slots_in_use(*view.ledger);
    for (uint32_t slot = 0; slot < count; ++slot)
        sum =
            saturating(sum, saturating(load(view.ledger->used[slot]), overhead_bytes(view, slot)));
    if (sum <= limit) return true;
    uncharge(view, bytes);
    return false;
}

uint64_t usage(const View& view) {
    uint64_t sum = 0;
    const uint32_t count = slots_in_use(*view.ledger);
    for (uint32_t slot = 0; slot < count; ++slot) {
        if (load(view.ledger->slot[slot].state) != DRAWBRIDGE_SLOT_LIVE) continue;
        sum = saturating(sum, held(view, slot));
    }
    return sum;
}

uint64_t overhead_bytes(const View& view, uint32_t slot) {
    const uint32_t now = __atomic_load_n(&view.limits->overhead_mib[slot], __ATOMIC_RELAXED);
    const bool is_left =
        slot == view.slot && now == __atomic_load_n(&view.left_mib, __ATOMIC_RELAXED);
    return is_left ? 0 : now * mib;
}

uint64_t held(const View& view, uint32_t slot) {
    const uint64_t& assumed = view.ledger->slot[slot].provisional;
    // The owner drops the assumption before it takes it from the word, and charges the word before
    // it assumes: the lesser of two readings around the word is never more than the word holds.
    const uint64_t before = load(assumed);
    const uint64_t used = load(view.ledger->used[slot]);
    const uint64_t after = load(assumed);
    const uint64_t counted = before < after ? before : after;
    const uint64_t measured = overhead_bytes(view, slot);
    return measured > counted ? saturating(used, measured - counted) : used;
}

uint32_t slots_in_use(const drawbridge_ledger& ledger) {
    const uint32_t count = load(ledger.high_water);
    return count < DRAWBRIDGE_SLOTS ? count : DRAWBRIDGE_SLOTS;
}

void raise_slots_in_use(drawbridge_ledger& ledger, uint32_t count) {
    uint32_t now = load(ledger.high_water);
    while (now < count && !__atomic_compare_exchange_n(&ledger.high_water, &now, count, false,
                                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

bool read_limits(const drawbridge_limits& limits, Limits& copy) {
    for (int tries = 0; tries < 3; ++tries) {
        const uint64_t before = __atomic_load_n(&limits.generation, __ATOMIC_ACQUIRE);
        Limits read;
        read.generation = before;
        read.memory_bytes = __atomic_load_n(&limits.memory_bytes, __ATOMIC_RELAXED);
        read.physical_bytes = __atomic_load_n(&limits.physical_bytes, __ATOMIC_RELAXED);
        read.context_bytes = __atomic_load_n(&limits.context_bytes, __ATOMIC_RELAXED);
        read.flags = __atomic_load_n(&limits.flags, __ATOMIC_RELAXED);
        read.core_permille = __atomic_load_n(&limits.core_permille, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before % 2 == 0 && before == __atomic_load_n(&limits.generation, __ATOMIC_RELAXED)) {
            copy = read;
            return true;
        }
    }
    return false;
}

void clear_slot(drawbridge_ledger& ledger, uint32_t slot) {
    __atomic_store_n(&ledger.used[slot], 0, __ATOMIC_SEQ_CST);
    drawbridge_slot& entry = ledger.slot[slot];
    __atomic_store_n(&entry.state, DRAWBRIDGE_SLOT_FREE, __ATOMIC_SEQ_CST);
    char* from = reinterpret_cast<char*>(&entry) + sizeof entry.state;
    memset(from, 0, sizeof entry - sizeof entry.state);
}

uint64_t rounded_linear(uint64_t bytes) {
    const uint64_t step = bytes <= mib ? 512 : 2 * mib;
    return bytes > absurd_bytes ? bytes : (bytes + step - 1) / step * step;
}

Report report(const Limits& limits, uint64_t usage, uint64_t device_total, uint64_t device_free) {
    Report made;
    made.total = limits.memory_bytes < device_total ? limits.memory_bytes : device_total;
    made.used = usage < made.total ? usage : made.total;
    made.free = made.total - made.used;
    if (made.free > device_free) made.free = device_free;
    return made;
}

}  // namespace preload::ledger
