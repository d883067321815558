#pragma once
// Charging memory to shares: reserve before the driver is called, settle after. The fast path takes
// no lock and asks no kernel; a refusal is decided slowly and surely.

#include "preload/marks.hpp"
#include "preload/process.hpp"
#include "preload/table.hpp"

#include <stdint.h>

namespace preload {

/// Bytes set aside for one driver call. `share` is -1 where nothing is limited.
struct Reservation {
    int share = -1;
    uint64_t bytes = 0;
};

/// Addresses and handles of this process: device pointers, arrays, blocks of pools.
extern Table blocks;

/// Sets bytes aside on a device's share. False: over the limit.
bool reserve(int device, uint64_t bytes, Reservation& made);
/// The same without the slow way: false may mean that a closer look would find room.
bool reserve_at_once(int device, uint64_t bytes, Reservation& made);

/// Charges without asking, for what is not refused (contexts). Overhead, see `add_overhead`.
void add_overhead(int share, uint64_t bytes);
void drop_overhead(int first, uint64_t bytes);
/// Overhead that may be refused (stacks, heaps).
bool reserve_overhead(int device, uint64_t bytes, Reservation& made);
void settle_overhead(const Reservation& made);

/// Gives everything back: the driver has refused.
void cancel(const Reservation& made);

/// The driver has granted it: keeps `kept` bytes of the reservation (or more) and counts them to a
/// gauge.
void settle(const Reservation& made, uint64_t kept, drawbridge_gauge gauge);

/// The driver has freed it.
void release(int share, uint64_t bytes, drawbridge_gauge gauge);

/// This process holds it no more, but others may, whom it does not see: it stays charged as
/// overhead until the agent has measured the process anew; where nobody measures, until room is
/// needed.
void leave_to_measure(int share, uint64_t bytes, drawbridge_gauge gauge);

/// What the shares of one device are charged for a thing whose size the driver tells: share ->
/// bytes.
struct Spread {
    uint64_t bytes[max_shares] = {};
};

/// Brings the charge of such a thing to `now`. What it grew by goes to the share that has set bytes
/// aside for it, `room`, or to the first one; what it shrank by comes from the last.
void spread(Spread& charged, int first, int room, uint64_t now, drawbridge_gauge gauge);

/// Whether the shares of a device hold more than all their limits together.
bool over_limits(int first);

/// The gauge that a kind of block counts to.
drawbridge_gauge gauge_of(Kind kind);

/// The own slot of a share, for counters.
drawbridge_slot& own_slot(int share);

/// The limits as of now.
const ledger::Limits& limits_of(int share);

/// After a denial or before a report: what this process's pools hold now. Defined where pools are.
void refresh_pools();
/// Gives back what pools and graphs of a device hold unused. `first`: the device's first share.
void trim_pools(int first);

/// True where a "no memory" of the driver is worth another try: slots of dead processes were freed
/// less than two seconds ago and the driver may still be at it. Sleeps a little; at most 5 times
/// for each `tries`.
bool retry_after_reap(int share, int& tries);
/// A driver call that takes memory, repeated as long as that is worth it.
template <class Call>
int call_for_memory(int share, Call call) {
    int tries = 0;
    int status = call();
    while (status == cuda_out_of_memory && retry_after_reap(share, tries))
        status = call();
    return status;
}

/// Remembers a block that the driver has made. What had its address before is gone, with its
/// context or by a way that nobody sees, and is uncharged.
void keep_block(const Record& record);
/// Uncharges a block that the driver has freed.
void block_gone(const Record& record);

/// A driver call that makes a block: reserves, calls, settles, remembers.
/// `call` answers a CUresult; `key` and `size` give the address and the bytes afterwards.
template <class Call, class Key, class Size>
int make_block(int device, uint64_t expected, Kind kind, uint64_t owner, Call call, Key key,
               Size size) {
    Reservation made;
    if (!reserve(device, expected, made)) return cuda_out_of_memory;
    pass(Mark::charged);
    const int status = call_for_memory(made.share, call);
    if (status != cuda_success) {
        cancel(made);
        return status;
    }
    pass(Mark::made);
    const uint64_t bytes = size();
    settle(made, bytes, gauge_of(kind));
    pass(Mark::settled);
    if (made.share >= 0) keep_block({key(), bytes, owner, static_cast<int16_t>(made.share), kind});
    return status;
}

/// One whose size is known before.
template <class Call, class Key>
int make_block(int device, uint64_t bytes, Kind kind, uint64_t owner, Call call, Key key) {
    return make_block(device, bytes, kind, owner, call, key, [bytes] { return bytes; });
}

/// A driver call that frees a block. The record goes out first: another thread may be given the
/// address at once.
template <class Call>
int free_block(uint64_t key, Call call) {
    Record record;
    const bool known = blocks.take(key, record);
    pass(Mark::forgotten);
    const int status = call();
    pass(Mark::freed);
    if (!known) return status;
    if (status != cuda_success)
        blocks.insert(record);
    else
        block_gone(record);
    return status;
}

}  // namespace preload
