#include "preload/charge.hpp"
#include "preload/gate.hpp"
#include "preload/launch.hpp"
#include "preload/os.hpp"
#include "preload/resolve.hpp"
#include "preload/streams.hpp"

namespace preload {
namespace {

constexpr int max_gates = 32;

// Launches between two readings of the cycle counter, which costs more than all the rest where the
// machine is virtual. A look comes that many launches late at most; what they did is charged then.
constexpr uint64_t stride = 8;

uint64_t cycles() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t value = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#endif
}

template <class Word>
Word relaxed(const Word& word) {
    return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

class World;

}  // namespace

struct Gated {
    uint64_t context = 0;  // 0: place is free
    OrNone share;
    int device = 0;
    // Guarded by the lock.
    Mutex lock;
    gate::Gate<World> gate;
    void* events[gate::Gate<World>::events] = {};
    uint64_t looked_cycles = 0;
    uint64_t looked_ns = 0;
};

namespace {

constinit Gated gates[max_gates];

// When the next launch on a device has to look. Read at every launch, which asks the driver
// nothing; written at a look. Threads may lose a count among each other.
struct alignas(64) Due {
    uint64_t launches = 0;  // of which the last one has to look
    uint64_t cycles = 0;    // from which on each has to
    uint64_t passed = 0;    // launches since the last look

    bool comes() {
        const uint64_t number = relaxed(passed) + 1;
        __atomic_store_n(&passed, number, __ATOMIC_RELAXED);
        if (number >= relaxed(launches)) return true;
        return number % stride == 0 && preload::cycles() >= relaxed(cycles);
    }
    void at_once() { __atomic_store_n(&launches, 0, __ATOMIC_RELAXED); }
};

constinit Due dues[max_devices];
int gate_places;
Mutex gates_lock;

class World {
public:
    World(Gated& gated, bool per_thread)
        : gated_(gated), share_(process.shares[gated.share]), per_thread_(per_thread) {}

    uint64_t now() const { return monotonic_ns(); }
    void sleep(uint64_t ns) const { sleep_ns(ns); }

    gate::Orders orders() const {
        const drawbridge_limits& limits = *share_.limits;
        // Of several shares of a card the parts add up; the rest is as the first one says.
        uint32_t permille = relaxed(limits.core_permille);
        for (int next = share_.next; next >= 0; next = process.shares[next].next)
            permille += relaxed(process.shares[next].limits->core_permille);
        return {permille,
                relaxed(limits.policy),
                relaxed(limits.flags),
                relaxed(limits.busy_scale),
                relaxed(limits.heartbeat_ns),
                relaxed(limits.contended_until_ns),
                relaxed(limits.paused_until_ns)};
    }

    bool record(int event, void* stream) const {
        const RelaxedCapture capture;
        void*& place = gated_.events[event];
        if (place == nullptr &&
            (helpers.event_create == nullptr || helpers.event_create(&place, 0) != cuda_success))
            return false;
        auto* call = per_thread_ ? helpers.event_record_ptsz : helpers.event_record;
        return call != nullptr && call(place, stream) == cuda_success;
    }

    int query(int event) const {
        const RelaxedCapture capture;
        const int status = helpers.event_query(gated_.events[event]);
        return status == cuda_success ? 1 : status == cuda_not_ready ? 0 : -1;
    }

    int64_t elapsed(int from, int to) const {
        const RelaxedCapture capture;
        float milliseconds = 0;
        if (helpers.event_elapsed(&milliseconds, gated_.events[from], gated_.events[to]) !=
            cuda_success)
            return 0;
        return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
    }

    void count(uint64_t busy, uint64_t throttled, uint32_t closures, uint32_t probes) const {
        drawbridge_slot& slot = own_slot(gated_.share);
        ledger::add(slot.busy_ns, busy);
        ledger::add(slot.throttle_ns, throttled);
        ledger::add(slot.gate_closures, closures);
        ledger::add(slot.probes, probes);
    }

private:
    Gated& gated_;
    Share& share_;
    bool per_thread_;
};

Gated* find_gate(uint64_t context, int share, int device) {
    const int count = __atomic_load_n(&gate_places, __ATOMIC_ACQUIRE);
    for (int at = 0; at < count; ++at)
        if (relaxed(gates[at].context) == context) return &gates[at];
    const Guard guard(gates_lock);
    for (int at = 0; at < max_gates; ++at) {
        if (gates[at].context == context) return &gates[at];
        if (gates[at].context != 0) continue;
        gates[at].share = share;
        gates[at].device = device;
        __atomic_store_n(&gates[at].context, context, __ATOMIC_RELEASE);
        if (at >= gate_places) __atomic_store_n(&gate_places, at + 1, __ATOMIC_RELEASE);
        return &gates[at];
    }
    return nullptr;  // more contexts than anybody has: not gated, seen by the agent
}

// The next look, in cycles, from the rate seen between two looks.
void plan(Gated& gated) {
    const uint64_t ns = monotonic_ns();
    const uint64_t now = cycles();
    const uint64_t wait = gated.gate.next_look();
    uint64_t span = wait;  // one cycle a nanosecond, until a rate is known
    if (gated.looked_ns != 0 && ns > gated.looked_ns) {
        const double rate = static_cast<double>(now - gated.looked_cycles) /
                            static_cast<double>(ns - gated.looked_ns);
        span = static_cast<uint64_t>(static_cast<double>(wait) * (rate < 16 ? rate : 1));
    }
    if (ns - gated.looked_ns > gate::segment_ns) {
        gated.looked_ns = ns;
        gated.looked_cycles = now;
    }
    Due& due = dues[gated.device];
    __atomic_store_n(&due.cycles, now + span, __ATOMIC_RELAXED);
    __atomic_store_n(&due.launches, gated.gate.next_launches(), __ATOMIC_RELAXED);
}

}  // namespace

bool launch_is_due() {
    const int device = current_device();
    const int share = share_of_device(device);
    return share >= 0 && is_gated(process.shares[share]) && dues[device].comes();
}

Gated* gate_here() {
    const int device = current_device();
    const int share = share_of_device(device);
    if (share < 0 || !is_gated(process.shares[share])) return nullptr;
    const uint64_t context = current_context();
    return context == 0 ? nullptr : find_gate(context, share, device);
}

bool look_before(Gated& gated, void* stream, bool per_thread) {
    const KeepErrno keep;
    if (is_capturing(stream, per_thread)) return false;
    const Guard guard(gated.lock);
    dues[gated.device].at_once();  // whoever comes meanwhile looks too
    const uint64_t launches = __atomic_exchange_n(&dues[gated.device].passed, 0, __ATOMIC_RELAXED);
    ledger::add(own_slot(gated.share).launches, launches);
    World world(gated, per_thread);
    uint64_t& tat = process.shares[gated.share].view.ledger->tat_ns;
    return gated.gate.before(world, tat, stream, launches == 0 ? 0 : launches - 1);
}

void look_after(Gated& gated, void* stream, bool per_thread, bool opened) {
    const KeepErrno keep;
    if (is_capturing(stream, per_thread)) return;
    const Guard guard(gated.lock);
    World world(gated, per_thread);
    gated.gate.after(world, stream, opened);
    plan(gated);
}

void forget_gate(uint64_t context) {
    for (Gated& gated : gates) {
        if (context == 0 || relaxed(gated.context) != context) continue;
        const Guard guard(gated.lock);
        gated.gate = {};
        for (void*& event : gated.events)
            event = nullptr;  // they died with the context
        gated.looked_ns = gated.looked_cycles = 0;
        dues[gated.device].at_once();
        __atomic_store_n(&gated.context, 0, __ATOMIC_RELEASE);
    }
}

void forget_gates() {
    for (Gated& gated : gates) {
        gated.lock = Mutex{};
        const uint64_t context = gated.context;
        forget_gate(context);
    }
    gate_places = 0;
    gates_lock = Mutex{};
}

}  // namespace preload
