#include "preload/charge.hpp"
#include "preload/vmm.hpp"

namespace preload {

constinit PhysicalMemory physical;

namespace {

// A record's `owner`: references to the handle in the low half, and above them what else holds the
// memory: mappings, and pieces of multicast objects and sparse arrays.
constexpr uint64_t one_hold = uint64_t{1} << 32;
constexpr uint64_t shared_mark = uint64_t{1} << 63;
constexpr uint64_t all_holds = shared_mark - one_hold;

uint64_t counted(uint64_t owner, uint64_t step) {
    return owner & (step == one_hold ? all_holds : one_hold - 1);
}

void gone(const Record& record) {
    const bool is_shared = (record.owner & shared_mark) != 0;
    if (record.share >= 0) {
        if (is_shared)
            leave_to_measure(record.share, record.bytes, DRAWBRIDGE_GAUGE_VMM);
        else
            release(record.share, record.bytes, DRAWBRIDGE_GAUGE_VMM);
        return;
    }
    // A multicast object lets go of what is bound to it, unless others hold the object.
    physical.pieces.drop(record.key, [is_shared](uint64_t handle) {
        if (is_shared) mark_shared(handle);
        let_go(handle);
    });
}

// False for an unknown handle. What was never counted is not taken away.
bool change(uint64_t handle, uint64_t step, uint64_t more, uint64_t less) {
    Record last;
    bool is_last = false;
    const bool known = physical.handles.update(handle, [&](Record& record) {
        const uint64_t count = counted(record.owner, step) / step + more;
        if (count >= less) record.owner += (more - less) * step;
        is_last = (record.owner & ~shared_mark) == 0;
        last = record;
        return !is_last;
    });
    if (is_last) gone(last);
    return known;
}

}  // namespace

void know_handle(const Record& record) {
    physical.handles.insert(record);
}

void add_reference(uint64_t handle) {
    if (!change(handle, 1, 1, 0)) count_unknown_handle();
}

void drop_reference(uint64_t handle) {
    if (!change(handle, 1, 0, 1)) count_unknown_handle();
}

bool hold(uint64_t handle) {
    return change(handle, one_hold, 1, 0);
}

bool hold_charged(uint64_t handle, int& device) {
    Record record;
    if (!physical.handles.find(handle, record) || record.share < 0) return false;
    device = record.device;
    return hold(handle);
}

void let_go(uint64_t handle) {
    change(handle, one_hold, 0, 1);
}

void cut_pieces(uint64_t owner, uint64_t part, const Box& box) {
    physical.pieces.cut(owner, part, box, [](uint64_t handle, uint64_t more, uint64_t less) {
        change(handle, one_hold, more, less);
    });
}

void drop_pieces(uint64_t owner) {
    physical.pieces.drop(owner, let_go);
}

void mark_shared(uint64_t handle) {
    physical.handles.update(handle, [](Record& record) {
        record.owner |= shared_mark;
        return true;
    });
}

void count_unknown_handle() {
    if (process.share_count > 0 && process.shares[0].holds_slot)
        ledger::add(own_slot(0).unknown_handles, 1);
}

void forget_vmm() {
    physical.handles.forget();
    physical.mappings.forget();
    physical.pieces.forget();
    physical.lock = Mutex{};
}

}  // namespace preload
