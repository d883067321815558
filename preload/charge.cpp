#include "preload/charge.hpp"

#include "preload/marks.hpp"
#include "preload/os.hpp"
#include "preload/pools.hpp"

namespace preload {

constinit Table blocks;

namespace {

constexpr uint64_t reap_memory_ns = 2000000000;
constexpr uint64_t agent_silence_ns = 10000000000;

void refresh_limits(Share& share) {
    const uint64_t generation = __atomic_load_n(&share.limits->generation, __ATOMIC_ACQUIRE);
    if (generation == share.cached.generation) return;
    ledger::Limits fresh;
    if (!ledger::read_limits(*share.limits, fresh)) return;
    // Two threads may write the same values at once; each field is a word of its own.
    __atomic_store_n(&share.cached.memory_bytes, fresh.memory_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&share.cached.physical_bytes, fresh.physical_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&share.cached.context_bytes, fresh.context_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&share.cached.flags, fresh.flags, __ATOMIC_RELAXED);
    __atomic_store_n(&share.cached.core_permille, fresh.core_permille, __ATOMIC_RELAXED);
    __atomic_store_n(&share.cached.generation, fresh.generation, __ATOMIC_RELEASE);
    if (share.holds_slot)
        __atomic_store_n(&share.view.ledger->slot[share.view.slot].seen_generation,
                         static_cast<uint32_t>(fresh.generation), __ATOMIC_RELAXED);
}

// The agent has measured this process anew: its figure takes the place of what was assumed.
void take_measured_overhead(Share& share) {
    const uint64_t now =
        __atomic_load_n(&share.limits->overhead_mib[share.view.slot], __ATOMIC_RELAXED);
    if (now == __atomic_load_n(&share.seen_overhead, __ATOMIC_RELAXED)) return;
    __atomic_store_n(&share.view.left_mib, 0u, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&share.seen_overhead, now, __ATOMIC_RELAXED) == now || now == 0) return;
    __atomic_store_n(&share.left_bytes, uint64_t{0}, __ATOMIC_RELAXED);
    drawbridge_slot& slot = share.view.ledger->slot[share.view.slot];
    const uint64_t assumed = __atomic_exchange_n(&slot.provisional, 0, __ATOMIC_RELAXED);
    if (assumed != 0) ledger::uncharge(share.view, assumed);
}

void uncharge(Share& share, uint64_t bytes) {
    if (!ledger::uncharge(share.view, bytes))
        ledger::add(share.view.ledger->slot[share.view.slot].errors, 1);
}

// Bytes of the own word stand for overhead from now on. What is assumed takes the place of the last
// measure, so that goes into it too, and into the word.
void assume(Share& share, uint64_t bytes) {
    uint64_t& assumed = share.view.ledger->slot[share.view.slot].provisional;
    const uint64_t measured = ledger::overhead_bytes(share.view, share.view.slot);
    uint64_t before = ledger::load(assumed);
    uint64_t charged = 0;
    uint64_t lacking = 0;
    do {
        lacking = measured > before ? measured - before : 0;
        if (lacking > charged) ledger::charge(share.view, lacking - charged);
        if (lacking > charged) charged = lacking;
    } while (!__atomic_compare_exchange_n(&assumed, &before, before + lacking + bytes, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    if (charged > lacking) uncharge(share, charged - lacking);  // another thread was first
}

// Up to so many bytes; how many.
uint64_t drop_assumed(Share& share, uint64_t bytes) {
    uint64_t& assumed = share.view.ledger->slot[share.view.slot].provisional;
    uint64_t now = __atomic_load_n(&assumed, __ATOMIC_RELAXED);
    uint64_t less = 0;
    do {
        less = now < bytes ? now : bytes;
    } while (!__atomic_compare_exchange_n(&assumed, &now, now - less, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    if (less != 0) uncharge(share, less);
    return less;
}

// What was left to a measure that nobody takes is given back where room is needed: the agent is
// silent, or has long been at work since and found no moment for it.
void drop_unmeasured(Share& share) {
    if (__atomic_load_n(&share.left_bytes, __ATOMIC_RELAXED) == 0) return;
    const uint64_t now = monotonic_ns();
    const uint64_t left = __atomic_load_n(&share.left_at, __ATOMIC_RELAXED);
    const uint64_t beat = __atomic_load_n(&share.limits->heartbeat_ns, __ATOMIC_RELAXED);
    const bool is_silent = now > beat && now - beat > agent_silence_ns;
    const bool is_overdue = beat > left && beat - left > agent_silence_ns;
    if (is_silent || is_overdue)
        drop_assumed(share, __atomic_exchange_n(&share.left_bytes, 0, __ATOMIC_RELAXED));
}

uint64_t effective_limit(const Share& share) {
    if ((share.cached.flags & DRAWBRIDGE_OBSERVE_ONLY) != 0) return DRAWBRIDGE_UNLIMITED;
    return __atomic_load_n(&share.cached.memory_bytes, __ATOMIC_RELAXED);
}

// Also other threads of this process, which is marked once by this one.
bool others_in_flight(const Share& share) {
    const uint32_t count = ledger::slots_in_use(*share.view.ledger);
    for (uint32_t slot = 0; slot < count; ++slot) {
        const uint64_t own = slot == share.view.slot ? 1 : 0;
        if (__atomic_load_n(&share.view.ledger->slot[slot].in_flight, __ATOMIC_RELAXED) > own)
            return true;
    }
    return false;
}

// Looks first: what is charged and taken back could have others refused meanwhile.
bool charge_exactly(Share& share, uint64_t bytes) {
    const uint64_t limit = effective_limit(share);
    const uint64_t before = ledger::usage(share.view);
    if (before > limit || bytes > limit - before) return false;
    ledger::charge(share.view, bytes);
    if (ledger::usage(share.view) <= limit) return true;
    ledger::uncharge(share.view, bytes);
    return false;
}

// The slow way: one process of the share at a time, after the dead are gone and the own pools are
// as small as can be.
bool decide(int first, Share& share, uint64_t bytes) {
    if (bytes > ledger::absurd_bytes || !check_ledger(share)) return false;
    const bool locked = lock_denials(share);
    pass(Mark::denying);
    __atomic_store_n(&share.view.ledger->arbiter, 1u, __ATOMIC_SEQ_CST);
    pass(Mark::arbitrating);
    reap(share);
    refresh_pools();
    drop_unmeasured(share);
    bool granted = charge_exactly(share, bytes);
    if (!granted) {
        trim_pools(first);
        granted = charge_exactly(share, bytes);
    }
    for (int tries = 0; !granted && tries < 5 && others_in_flight(share); ++tries) {
        sleep_ns(50000);
        granted = charge_exactly(share, bytes);
    }
    pass(Mark::denied);
    __atomic_store_n(&share.view.ledger->arbiter, 0u, __ATOMIC_SEQ_CST);
    if (locked) unlock_denials(share);
    return granted;
}

bool charge_at_once(Share& share, uint64_t bytes) {
    refresh_limits(share);
    take_measured_overhead(share);
    drawbridge_slot& slot = share.view.ledger->slot[share.view.slot];
    ledger::add(slot.in_flight, 1);
    pass(Mark::in_flight);
    if (__atomic_load_n(&share.view.ledger->arbiter, __ATOMIC_SEQ_CST) == 0 &&
        ledger::try_charge(share.view, effective_limit(share), bytes))
        return true;
    ledger::add(slot.in_flight, static_cast<uint64_t>(-1));
    return false;
}

bool charge_slowly(int first, Share& share, uint64_t bytes) {
    drawbridge_slot& slot = share.view.ledger->slot[share.view.slot];
    ledger::add(slot.in_flight, 1);
    if (decide(first, share, bytes)) return true;
    ledger::add(slot.in_flight, static_cast<uint64_t>(-1));
    return false;
}

void count_gauge(int share, uint64_t more, uint64_t less, drawbridge_gauge gauge) {
    ledger::add(own_slot(share).gauge[gauge], more - less);
}

}  // namespace

drawbridge_slot& own_slot(int share) {
    const ledger::View& view = process.shares[share].view;
    return view.ledger->slot[view.slot];
}

const ledger::Limits& limits_of(int share) {
    refresh_limits(process.shares[share]);
    return process.shares[share].cached;
}

// On the first of a device's shares that has room.
template <class Charge>
bool reserve_by(int first, uint64_t bytes, Reservation& made, Charge charge) {
    made = {};
    for (int share = first; share >= 0; share = process.shares[share].next) {
        if (!charge(process.shares[share], bytes)) continue;
        made = {share, bytes};
        // What nobody refuses (contexts) may be more than an earlier share has.
        if (share == first || !over_limits(first)) return true;
        cancel(made);
        made = {};
        break;
    }
    return first < 0;
}

bool reserve(int device, uint64_t bytes, Reservation& made) {
    if (reserve_at_once(device, bytes, made)) return true;
    const int first = share_of_device(device);
    if (reserve_by(first, bytes, made, [first](Share& share, uint64_t wanted) {
            return charge_slowly(first, share, wanted);
        }))
        return true;
    ledger::add(own_slot(first).denied, 1);
    ledger::add(own_slot(first).denied_bytes, bytes);
    return false;
}

bool reserve_at_once(int device, uint64_t bytes, Reservation& made) {
    return reserve_by(enforcing() ? share_of_device(device) : -1, bytes, made, charge_at_once);
}

void cancel(const Reservation& made) {
    if (made.share < 0) return;
    uncharge(process.shares[made.share], made.bytes);
    ledger::add(own_slot(made.share).in_flight, static_cast<uint64_t>(-1));
}

void settle(const Reservation& made, uint64_t kept, drawbridge_gauge gauge) {
    if (made.share < 0) return;
    drawbridge_slot& slot = own_slot(made.share);
    if (kept > made.bytes) ledger::charge(process.shares[made.share].view, kept - made.bytes);
    if (kept < made.bytes) uncharge(process.shares[made.share], made.bytes - kept);
    count_gauge(made.share, kept, 0, gauge);
    ledger::add(slot.allocations, 1);
    ledger::add(slot.in_flight, static_cast<uint64_t>(-1));
}

void release(int share, uint64_t bytes, drawbridge_gauge gauge) {
    if (share < 0) return;
    uncharge(process.shares[share], bytes);
    count_gauge(share, 0, bytes, gauge);
    ledger::add(own_slot(share).frees, 1);
}

void spread(Spread& charged, int first, int room, uint64_t now, drawbridge_gauge gauge) {
    uint64_t sum = 0;
    for (int share = first; share >= 0; share = process.shares[share].next)
        sum += charged.bytes[share];
    const int host = room >= 0 ? room : first;
    if (first >= 0 && now > sum) {
        ledger::charge(process.shares[host].view, now - sum);
        charged.bytes[host] += now - sum;
        count_gauge(host, now - sum, 0, gauge);
    }
    // Shares of one device follow each other by number.
    uint64_t less = now < sum ? sum - now : 0;
    for (int share = max_shares - 1; less != 0; --share) {
        const uint64_t part = charged.bytes[share] < less ? charged.bytes[share] : less;
        if (part == 0) continue;
        uncharge(process.shares[share], part);
        charged.bytes[share] -= part;
        count_gauge(share, 0, part, gauge);
        less -= part;
    }
}

bool over_limits(int first) {
    uint64_t room = 0;
    uint64_t used = 0;
    for (int share = first; share >= 0; share = process.shares[share].next) {
        const ledger::Limits& limits = limits_of(share);
        if ((limits.flags & DRAWBRIDGE_OBSERVE_ONLY) != 0 ||
            __builtin_add_overflow(room, limits.memory_bytes, &room))
            return false;
        if (__builtin_add_overflow(used, ledger::usage(process.shares[share].view), &used))
            return true;
    }
    return used > room;
}

void add_overhead(int share, uint64_t bytes) {
    if (share < 0 || (limits_of(share).flags & DRAWBRIDGE_CHARGE_OVERHEAD) == 0) return;
    take_measured_overhead(process.shares[share]);  // which was measured before this is there
    ledger::charge(process.shares[share].view, bytes);
    assume(process.shares[share], bytes);
}

void drop_overhead(int first, uint64_t bytes) {
    for (int share = first; share >= 0; share = process.shares[share].next) {
        take_measured_overhead(process.shares[share]);  // with which the assumption has gone
        bytes -= drop_assumed(process.shares[share], bytes);
    }
}

void leave_to_measure(int share, uint64_t bytes, drawbridge_gauge gauge) {
    if ((limits_of(share).flags & DRAWBRIDGE_CHARGE_OVERHEAD) == 0)
        return release(share, bytes, gauge);
    Share& own = process.shares[share];
    take_measured_overhead(own);  // which was measured before this is left
    assume(own, bytes);
    __atomic_store_n(&own.left_at, monotonic_ns(), __ATOMIC_RELAXED);
    ledger::add(own.left_bytes, bytes);
    count_gauge(share, 0, bytes, gauge);
    ledger::add(own_slot(share).frees, 1);
}

bool reserve_overhead(int device, uint64_t bytes, Reservation& made) {
    made = {};
    const int first = enforcing() ? share_of_device(device) : -1;
    if (first < 0 || (limits_of(first).flags & DRAWBRIDGE_CHARGE_OVERHEAD) == 0) return true;
    return reserve(device, bytes, made);
}

void settle_overhead(const Reservation& made) {
    if (made.share < 0) return;
    assume(process.shares[made.share], made.bytes);
    ledger::add(own_slot(made.share).in_flight, static_cast<uint64_t>(-1));
}

void keep_block(const Record& record) {
    Record before;
    blocks.insert(record, before);
    if (before.key != 0) block_gone(before);
}

void block_gone(const Record& record) {
    if (record.kind == Kind::pool_block)
        pool_block_freed(record);
    else
        release(record.share, record.bytes, gauge_of(record.kind));
}

drawbridge_gauge gauge_of(Kind kind) {
    switch (kind) {
        case Kind::linear:
            return DRAWBRIDGE_GAUGE_LINEAR;
        case Kind::managed:
            return DRAWBRIDGE_GAUGE_MANAGED;
        case Kind::array:
            return DRAWBRIDGE_GAUGE_ARRAY;
        case Kind::vmm_handle:
            return DRAWBRIDGE_GAUGE_VMM;
        case Kind::pool_block:
            return DRAWBRIDGE_GAUGE_POOL;
        case Kind::graph_block:
            return DRAWBRIDGE_GAUGE_GRAPH;
    }
    return DRAWBRIDGE_GAUGE_LINEAR;
}

bool retry_after_reap(int share, int& tries) {
    if (share < 0 || tries >= 5) return false;
    uint64_t last = 0;
    for (int other = 0; other < process.share_count; ++other) {
        const uint64_t at = __atomic_load_n(&process.shares[other].reaped_at, __ATOMIC_RELAXED);
        if (at > last) last = at;
    }
    if (last == 0 || monotonic_ns() - last > reap_memory_ns) return false;
    ++tries;
    sleep_ns(20000000);
    ledger::add(own_slot(share).oom_retries, 1);
    return true;
}

}  // namespace preload
