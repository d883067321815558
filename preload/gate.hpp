#pragma once
// The launch gate: a process of a share with a compute limit may launch while the share has not
// used more GPU time than its part. Pure: the world (clock, events, sleep) is given.
//
// The unit is nanoseconds of busy GPU. One clock for each share, `tat` ("theoretical arrival
// time"), common to all its processes, moves ahead by busy / part for each measured stretch of
// work; launches wait while it is more than the tolerance ahead of now (GCRA). Work is measured by
// timing events around segments of at least two milliseconds.

#include "preload/abi.h"

#include <stdint.h>

namespace preload::gate {

inline constexpr uint64_t ms = 1000000;
inline constexpr uint64_t tolerance =
    50 * ms;  // credit that can be saved, and debt that is let through
inline constexpr uint64_t segment_ns = 2 * ms;  // host time between two looks
inline constexpr uint64_t slice_ns = 10 * ms;   // longest sleep before the limits are read again
inline constexpr uint64_t stale_heartbeat = 10000 * ms;
inline constexpr uint64_t longest_pause = 3000 * ms;  // the agent renews a pause each second
inline constexpr uint64_t longest_wait = 10000 * ms;  // of one launch; the debt stays
inline constexpr uint64_t backlog_age =
    20 * ms;  // of the oldest probe, from which on launches wait for it
inline constexpr uint64_t work_between_looks = 10 * ms;  // of the GPU, as far as kernels are known
inline constexpr uint64_t backlog_wait = 50 * ms;  // of one launch; kernels may wait for each other

/// What the agent says, as of now.
struct Orders {
    uint32_t core_permille = DRAWBRIDGE_ALL_CORES;
    uint32_t policy = DRAWBRIDGE_POLICY_DEFAULT;
    uint32_t flags = 0;
    uint32_t busy_scale = 1u << 16;
    uint64_t heartbeat_ns = 0;
    uint64_t contended_until_ns = 0;
    uint64_t paused_until_ns = 0;
};

/// Whether compute is limited at this moment.
inline bool limited(const Orders& orders, uint64_t now) {
    if (orders.core_permille >= DRAWBRIDGE_ALL_CORES ||
        (orders.flags & (DRAWBRIDGE_NO_GATE | DRAWBRIDGE_OBSERVE_ONLY)) != 0)
        return false;
    if (orders.policy == DRAWBRIDGE_POLICY_DISABLE) return false;
    if (orders.policy == DRAWBRIDGE_POLICY_FORCE) return true;
    // An agent that is gone cannot say who else is active: strict then.
    const bool stale =
        orders.heartbeat_ns + stale_heartbeat < now || orders.heartbeat_ns > now + stale_heartbeat;
    return stale || now < orders.contended_until_ns;
}

/// Whether a share of higher priority has the GPU. A pause farther ahead than any agent writes is
/// none.
inline bool paused(const Orders& orders, uint64_t now) {
    return now < orders.paused_until_ns && orders.paused_until_ns - now <= longest_pause;
}

/// Moves the share's clock ahead for work that took `busy` ns of GPU time.
inline void charge(uint64_t& tat, uint64_t now, uint64_t busy, uint32_t core_permille) {
    const uint64_t part = core_permille == 0 ? 1 : core_permille;
    const uint64_t floor = now > tolerance ? now - tolerance : 0;
    uint64_t before = __atomic_load_n(&tat, __ATOMIC_RELAXED);
    uint64_t after = 0;
    do {
        // A value that no clock reaches was written by a tenant; the share starts anew.
        const uint64_t from = before > now + 3600 * 1000 * ms ? now : before;
        after = (from > floor ? from : floor) + busy * DRAWBRIDGE_ALL_CORES / part;
    } while (!__atomic_compare_exchange_n(&tat, &before, after, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

/// How long a launch has to wait for the share's clock.
inline uint64_t wait_for(const uint64_t& tat, uint64_t now) {
    const uint64_t at = __atomic_load_n(&tat, __ATOMIC_RELAXED);
    return at > now + tolerance && at <= now + 3600 * 1000 * ms ? at - tolerance - now : 0;
}

/// The gate of one device in one process. `World` has:
///   uint64_t now()                          CLOCK_MONOTONIC, ns
///   void sleep(uint64_t ns)
///   Orders orders()                         read anew
///   bool record(int event, void* stream)    false where no event can be had
///   int query(int event)                    1 done, 0 not yet, -1 lost
///   int64_t elapsed(int from, int to)       ns of GPU time between two events that are done
///   void count(uint64_t busy, uint64_t throttled, uint32_t closures, uint32_t probes)
template <class World>
class Gate {
public:
    static constexpr int probes = 4;
    static constexpr int slots =
        probes + 2;  // those under way, the open one, and the one measured last
    static constexpr int events = 3 * slots;

    /// Before a launch that is due for a look. May sleep. `tat` is the share's clock.
    /// `passed`: launches since the last look, without this one.
    /// True if this launch opens a segment.
    bool before(World& world, uint64_t& tat, void* stream, uint64_t passed) {
        if (open_) current().launches += passed;
        poll(world, tat);
        // A closed gate is no work: what is under way is measured up to here.
        if (open_ && wait_for(tat, world.now()) > 0) close(world, stream);
        hold(world, tat);
        gated_ = limited(world.orders(), world.now());
        if (gated_) clear_backlog(world, tat);
        if (!gated_ || open_ || count_ == probes) return false;
        Segment& segment = current();
        segment = {world.now(), 0, false};
        open_ = world.record(event(segment, 0), stream);
        fresh_ = open_;
        return open_;
    }

    /// After that launch. `opened`: what `before` answered; threads may come between.
    void after(World& world, void* stream, bool opened) {
        if (!open_) {
            carried_ += gated_ ? 1 : 0;  // all probes are out: counted at the mean of a kernel
            return;
        }
        Segment& segment = current();
        ++segment.launches;
        if (fresh_) {
            if (!opened) return;
            fresh_ = false;
            segment.sampled = world.record(event(segment, 1), stream);
            return;
        }
        const bool enough = mean_ == 0 || segment.launches * mean_ >= work_between_looks;
        if (enough || world.now() - segment.began >= segment_ns) close(world, stream);
    }

    /// When the next look is due, in ns of host time from the last one, and after how many launches
    /// at the latest.
    uint64_t next_look() const { return gated_ && !open_ ? 0 : segment_ns; }
    uint64_t next_launches() const {
        if (!gated_) return UINT64_MAX;
        if (!open_ || mean_ == 0) return 1;
        return mean_ >= work_between_looks ? 1 : work_between_looks / mean_;
    }

    /// Forgets what is under way: its events are gone with their context.
    void forget() {
        count_ = 0;
        open_ = false;
        fresh_ = false;
        has_previous_ = false;
    }

private:
    struct Segment {
        uint64_t began = 0;
        uint64_t launches = 0;
        bool sampled = false;
    };

    int event(const Segment& segment, int which) const {
        return static_cast<int>(&segment - segments_) * 3 + which;
    }

    Segment& current() { return segments_[(first_ + count_) % slots]; }

    void close(World& world, void* stream) {
        if (fresh_) return;
        open_ = false;
        if (!world.record(event(current(), 2), stream)) return;
        ++count_;
        world.count(0, 0, 0, 1);
    }

    // The share's clock, and pauses: sleeps in slices, so that a new limit or a lapsed pause is
    // seen at once.
    void hold(World& world, uint64_t& tat) {
        const uint64_t began = world.now();
        bool closed = false;
        for (uint64_t now = began; now - began < longest_wait; now = world.now()) {
            const Orders orders = world.orders();
            uint64_t wait = limited(orders, now) ? wait_for(tat, now) : 0;
            if (paused(orders, now) && wait < orders.paused_until_ns - now)
                wait = orders.paused_until_ns - now;
            if (wait == 0) break;
            closed = true;
            world.sleep(wait < slice_ns ? wait : slice_ns);
            poll(world, tat);
        }
        if (closed) world.count(0, world.now() - began, 1, 0);
    }

    // So that only some tens of ms of work are queued ahead and the debt is known in time.
    void clear_backlog(World& world, uint64_t& tat) {
        const uint64_t began = world.now();
        for (uint64_t now = began; backlog(now) && now - began < backlog_wait; now = world.now()) {
            world.sleep(now - began < ms ? ms / 5 : ms);
            poll(world, tat);
        }
        if (world.now() != began) world.count(0, world.now() - began, 0, 0);
    }

    bool backlog(uint64_t now) const {
        if (count_ == 0) return false;
        uint64_t launches = open_ ? segments_[(first_ + count_) % slots].launches : 0;
        for (int at = 0; at < count_; ++at)
            launches += segments_[(first_ + at) % slots].launches;
        return count_ == probes || now - segments_[first_].began > backlog_age ||
               launches * mean_ > 2 * backlog_age;
    }

    void poll(World& world, uint64_t& tat) {
        while (count_ > 0) {
            const Segment& segment = segments_[first_];
            const int state = world.query(event(segment, 2));
            if (state == 0) return;
            const uint64_t busy = state < 0 ? segment.launches * mean_ : measure(world, segment);
            const Orders orders = world.orders();
            const uint64_t scaled = busy * orders.busy_scale >> 16;
            charge(tat, world.now(), scaled, orders.core_permille);
            world.count(scaled, 0, 0, 0);
            first_ = (first_ + 1) % slots;
            --count_;
        }
    }

    uint64_t measure(World& world, const Segment& segment) {
        const int64_t whole = world.elapsed(event(segment, 0), event(segment, 2));
        int64_t busy = whole < 0 ? 0 : whole;
        // What another stream's segment has been charged for already.
        const int64_t gap = has_previous_ ? world.elapsed(previous_, event(segment, 0)) : 0;
        if (gap < 0) busy = busy + gap < 0 ? 0 : busy + gap;
        if (segment.sampled) {
            const int64_t one = world.elapsed(event(segment, 0), event(segment, 1));
            const auto sample = static_cast<uint64_t>(one < 0 ? 0 : one);
            mean_ = mean_ == 0 ? sample : (15 * mean_ + sample) / 16;
        }
        previous_ = event(segment, 2);
        has_previous_ = true;
        // Gaps between the small kernels of a program that is bound by its launches are not busy.
        const uint64_t kernels = segment.launches * mean_;
        const uint64_t carried = carried_ * mean_;
        carried_ = 0;
        const auto measured = static_cast<uint64_t>(busy);
        return carried + (mean_ != 0 && kernels < measured / 8 * 7 ? kernels : measured);
    }

    Segment segments_[slots] = {};
    int first_ = 0;
    int count_ = 0;  // closed, not yet measured
    bool open_ = false;
    bool fresh_ = false;
    bool gated_ = false;
    bool has_previous_ = false;
    int previous_ = 0;
    uint64_t mean_ = 0;
    uint64_t carried_ = 0;
};

}  // namespace preload::gate
