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
    physical.pieces.drop(record.key, [is_shared](const Memory& memory) {
        if (is_shared) mark_shared(memory.handle);
        let_go(memory);
    });
}

// False for memory that is not there. What was never counted is not taken away.
bool change(const Memory& memory, uint64_t step, uint64_t more, uint64_t less) {
    Record last;
    bool is_last = false;
    bool is_known = false;
    physical.handles.update(memory.handle, [&](Record& record) {
        is_known = record.life == memory.life;
        if (!is_known) return true;
        const uint64_t count = counted(record.owner, step) / step + more;
        if (count >= less) record.owner += (more - less) * step;
        is_last = (record.owner & ~shared_mark) == 0;
        last = record;
        return !is_last;
    });
    if (is_last) gone(last);
    return is_known;
}

}  // namespace

uint64_t last_number() {
    const Guard guard(physical.lock);
    return physical.numbers;
}

void know_handle(Record record) {
    static uint16_t lives;
    lives = lives == UINT16_MAX ? 1 : static_cast<uint16_t>(lives + 1);
    Record before;
    if (physical.handles.take(record.key, before)) gone(before);
    record.life = lives;
    physical.handles.insert(record);
}

Memory memory_of(uint64_t handle) {
    Record record;
    return physical.handles.find(handle, record) ? Memory{handle, record.life} : Memory{handle, 0};
}

void add_reference(uint64_t handle) {
    if (!change(memory_of(handle), 1, 1, 0)) count_unknown_handle();
}

void drop_reference(const Memory& memory) {
    if (!change(memory, 1, 0, 1) && memory.life == 0) count_unknown_handle();
}

Memory hold(uint64_t handle) {
    const Memory memory = memory_of(handle);
    if (memory.life != 0) change(memory, one_hold, 1, 0);
    return memory;
}

Memory hold_charged(uint64_t handle, int& device) {
    Record record;
    if (!physical.handles.find(handle, record) || record.share < 0) return {};
    device = record.device;
    return hold(handle);
}

void let_go(const Memory& memory) {
    change(memory, one_hold, 0, 1);
}

void cut_pieces(uint64_t owner, uint64_t part, const Box& box, uint64_t number) {
    physical.pieces.cut(owner, part, box, number,
                        [](const Memory& memory, uint64_t more, uint64_t less) {
                            change(memory, one_hold, more, less);
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
