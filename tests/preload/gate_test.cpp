// The gate on a virtual clock, under models of how a GPU divides its time; the models stand before
// the gate was tuned.
#include "preload/gate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <vector>

using namespace preload::gate;

namespace {

// One GPU: kernels of a program run in order; while `others` programs keep it busy too, it goes
// round in slices.
struct Gpu {
    std::uint64_t slice = 0;  // ns; 0: no other program
    int others = 0;
    std::uint64_t busy = 0;  // of the program that is looked at

    // When work that is ready at `ready` and takes `length` ns of the GPU has ended.
    std::uint64_t run(std::uint64_t ready, std::uint64_t length) {
        busy += length;
        if (others == 0 || slice == 0) return ready + length;
        const std::uint64_t round = slice * static_cast<std::uint64_t>(others + 1);
        std::uint64_t at = ready;
        while (length > 0) {
            const std::uint64_t place = at % round;
            if (place >= slice) {
                at += round - place;
                continue;
            }
            const std::uint64_t step = std::min(length, slice - place);
            at += step;
            length -= step;
        }
        return at;
    }
};

struct Simulated {
    std::uint64_t time = 1000 * ms;
    std::uint64_t stream_end = 0;
    std::uint64_t stamps[64] = {};
    Orders given;
    Gpu gpu;
    std::uint64_t throttled = 0;
    std::uint64_t charged = 0;
    std::deque<std::uint64_t> queue;

    std::uint64_t now() const { return time; }
    void sleep(std::uint64_t ns) { time += ns; }
    Orders orders() const { return given; }
    bool record(int event, void*) {
        stamps[event] = std::max(time, stream_end);
        return true;
    }
    int query(int event) const { return stamps[event] <= time; }
    std::int64_t elapsed(int from, int to) const {
        return static_cast<std::int64_t>(stamps[to] - stamps[from]);
    }
    void count(std::uint64_t busy, std::uint64_t slept, std::uint32_t, std::uint32_t) {
        charged += busy;
        throttled += slept;
    }

    void launch(std::uint64_t length) {
        while (queue.size() >= 1024) {  // the driver blocks when its queue is full
            time = std::max(time, queue.front());
            queue.pop_front();
        }
        stream_end = gpu.run(std::max(time, stream_end), length);
        queue.push_back(stream_end);
        while (!queue.empty() && queue.front() <= time)
            queue.pop_front();
    }
    void synchronise() { time = std::max(time, stream_end); }
};

struct Load {
    const char* name;
    std::uint64_t kernel;     // ns on the GPU
    std::uint64_t host;       // ns between launches
    int launches_a_sync = 0;  // 0: never
    double jitter = 0;        // of the kernel's length
};

struct Outcome {
    double share;       // of the time that the GPU gave this program
    double throughput;  // kernels done against an unlimited run
};

// What the agent does each second: what was charged is compared with what the GPU gave, and the
// scale follows slowly.
struct Agent {
    std::uint64_t due = 0;
    std::uint64_t busy = 0;
    std::uint64_t charged = 0;

    void look(Simulated& world) {
        if (world.time < due) return;
        const auto given = static_cast<double>(world.gpu.busy - busy);
        const auto taken = static_cast<double>(world.charged - charged);
        if (due != 0 && taken > 0) {
            const double step = std::clamp(given / taken, 0.8, 1.25);
            world.given.busy_scale = static_cast<std::uint32_t>(
                std::clamp(world.given.busy_scale * step, 0.1 * 65536, 1.2 * 65536));
        }
        busy = world.gpu.busy;
        charged = world.charged;
        due = world.time + 1000 * ms;
    }
};

std::uint64_t drive(Simulated& world, const Load& load, std::uint64_t span, bool gated,
                    std::uint64_t& tat, int& kernels) {
    Gate<Simulated> gate;
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> spread(1 - load.jitter, 1 + load.jitter);
    std::uint64_t next = 0;
    std::uint64_t launches = 0;
    std::uint64_t most = 0;
    Agent agent;
    const std::uint64_t end = world.time + span;
    const std::uint64_t busy_before = world.gpu.busy;
    for (kernels = 0; world.time < end; ++kernels) {
        world.time += load.host;
        ++launches;
        if (world.gpu.others != 0) agent.look(world);
        const auto length =
            static_cast<std::uint64_t>(static_cast<double>(load.kernel) * spread(random));
        if (gated && (world.time >= next || launches >= most)) {
            const bool opened = gate.before(world, tat, nullptr, launches - 1);
            world.launch(length);
            gate.after(world, nullptr, opened);
            launches = 0;
            next = world.time + gate.next_look();
            most = gate.next_launches();
        } else {
            world.launch(length);
        }
        if (load.launches_a_sync != 0 && kernels % load.launches_a_sync == 0) world.synchronise();
    }
    world.synchronise();
    return world.gpu.busy - busy_before;
}

Outcome measure(const Load& load, std::uint32_t permille, std::uint64_t slice, int others,
                std::uint64_t span) {
    Outcome outcome{};
    int free_kernels = 0;
    int kernels = 0;
    std::uint64_t tat = 0;
    Simulated bare;
    drive(bare, load, span, false, tat, free_kernels);
    const double bare_time = static_cast<double>(bare.time - 1000 * ms);
    Simulated world;
    world.given.core_permille = permille;
    world.given.policy = DRAWBRIDGE_POLICY_FORCE;
    world.gpu.slice = slice;
    world.gpu.others = others;
    // Events see the slices of the others too: the agent's correction starts at one part of the
    // active ones.
    world.given.busy_scale = (1u << 16) / static_cast<unsigned>(others + 1);
    if (others != 0) drive(world, load, 10000 * ms, true, tat, kernels);
    const std::uint64_t began = world.time;
    const std::uint64_t busy = drive(world, load, span, true, tat, kernels);
    const auto time = static_cast<double>(world.time - began);
    outcome.share = static_cast<double>(busy) / time;
    outcome.throughput = (kernels / time) / (free_kernels / bare_time);
    return outcome;
}

const Load loads[] = {
    {"5 us kernels, launch-bound", 5000, 6000},
    {"20 us kernels, GPU-bound", 20000, 4000},
    {"1 ms kernels", ms, 5000},
    {"20 ms kernels", 20 * ms, 5000},
    {"jittered 100 us kernels", 100000, 10000, 0, 0.9},
    {"1 ms kernels, sync each", ms, 20000, 1},
    {"200 us kernels, sync each 10", 200000, 10000, 10},
};

}  // namespace

TEST_CASE("a lone program gets its part of the GPU, within five points over ten seconds") {
    for (const Load& load : loads) {
        for (const std::uint32_t permille : {100u, 250u, 500u, 750u, 900u}) {
            const Outcome got = measure(load, permille, 0, 0, 10000 * ms);
            const double part = permille / 1000.0;
            CAPTURE(load.name);
            CAPTURE(permille);
            CAPTURE(got.share);
            CAPTURE(got.throughput);
            // A program that cannot fill its part anyway is not held back.
            const double able = static_cast<double>(load.kernel) /
                                static_cast<double>(std::max(load.kernel, load.host));
            CHECK(got.share <= part + 0.05);
            CHECK(got.share >= std::min(part, able * 0.95) - 0.05);
        }
    }
}

TEST_CASE("throughput at a limit is at least 95 % of its part of native") {
    for (const Load& load : {loads[1], loads[2], loads[4]}) {
        for (const std::uint32_t permille : {250u, 500u, 750u}) {
            const Outcome got = measure(load, permille, 0, 0, 20000 * ms);
            CAPTURE(load.name);
            CAPTURE(permille);
            CHECK(got.throughput >= 0.95 * permille / 1000.0);
        }
    }
}

TEST_CASE("beside another program, under slices of 1 and 5 ms, the part holds too") {
    for (const std::uint64_t slice : {1 * ms, 5 * ms}) {
        for (const Load& load : {loads[1], loads[2], loads[4]}) {
            for (const std::uint32_t permille : {100u, 300u, 400u}) {
                const Outcome got = measure(load, permille, slice, 1, 10000 * ms);
                CAPTURE(load.name);
                CAPTURE(permille);
                CAPTURE(slice);
                CAPTURE(got.share);
                CHECK(std::abs(got.share - permille / 1000.0) <= 0.05);
            }
        }
    }
}

TEST_CASE("a long kernel at a small part is paid for afterwards") {
    // 2 s at 10 %: eighteen seconds of closed gate, in calls of ten at most.
    const Outcome got = measure({"2 s kernels", 2000 * ms, 5000, 1}, 100, 0, 0, 200000 * ms);
    CHECK(got.share <= 0.25);
}

TEST_CASE("no limit in force, no waiting") {
    Simulated world;
    Gate<Simulated> gate;
    std::uint64_t tat = 0;
    for (int i = 0; i < 1000; ++i) {
        const bool opened = gate.before(world, tat, nullptr, 0);
        world.launch(ms);
        gate.after(world, nullptr, opened);
    }
    CHECK(world.throttled == 0);
    CHECK(tat == 0);
}

TEST_CASE("policies and pauses follow the agent, and lapse with it") {
    Orders orders;
    orders.core_permille = 500;
    orders.heartbeat_ns = 100000 * ms;
    const std::uint64_t now = 100001 * ms;
    CHECK_FALSE(limited(orders, now));
    orders.contended_until_ns = now + 1;
    CHECK(limited(orders, now));
    orders.contended_until_ns = 0;
    CHECK(limited(orders, now + stale_heartbeat));
    orders.policy = DRAWBRIDGE_POLICY_DISABLE;
    CHECK_FALSE(limited(orders, now + stale_heartbeat));
    orders.policy = DRAWBRIDGE_POLICY_FORCE;
    CHECK(limited(orders, now));
    orders.flags = DRAWBRIDGE_NO_GATE;
    CHECK_FALSE(limited(orders, now));
    orders.paused_until_ns = now + 2000 * ms;
    CHECK(paused(orders, now));
    CHECK_FALSE(paused(orders, now + 2000 * ms));
    orders.paused_until_ns = now + 4000 * ms;
    CHECK_FALSE(paused(orders, now));
}

TEST_CASE("a clock that a tenant has written ahead does not close the gate for ever") {
    std::uint64_t tat = UINT64_MAX;
    CHECK(wait_for(tat, 1000 * ms) == 0);
    charge(tat, 1000 * ms, 10 * ms, 500);
    CHECK(tat == 1020 * ms);
}

TEST_CASE("a step change of the limit is followed within a tenth of a second") {
    Simulated world;
    world.given.core_permille = 100;
    world.given.policy = DRAWBRIDGE_POLICY_FORCE;
    std::uint64_t tat = 0;
    int kernels = 0;
    drive(world, loads[1], 5000 * ms, true, tat, kernels);
    world.given.core_permille = 900;
    const std::uint64_t busy = drive(world, loads[1], 2000 * ms, true, tat, kernels);
    CHECK(static_cast<double>(busy) / (2000.0 * ms) >= 0.8);
}

namespace {

// What others do: as many launches in a period as blocks' worth of tokens flow, learnt for one kind
// of kernel.
double share_of_a_token_bucket(const Load& load, double part) {
    Simulated world;
    const double tokens_a_ms = part;  // right for kernels of 1 ms
    double tokens = 0;
    std::uint64_t filled = world.time;
    const std::uint64_t begin = world.time;
    while (world.time < begin + 10000 * ms) {
        world.time += load.host;
        const auto since = static_cast<double>(world.time - filled) / ms;
        tokens = std::min(tokens + tokens_a_ms * since, 32.0);
        filled = world.time;
        if (tokens < 0) {
            world.sleep(10 * ms);
            continue;
        }
        tokens -= 1;
        world.launch(load.kernel);
        if (load.launches_a_sync != 0) world.synchronise();
    }
    world.synchronise();
    return static_cast<double>(world.gpu.busy) / static_cast<double>(world.time - begin);
}

}  // namespace

TEST_CASE("a bucket of launch tokens fails where the gate holds") {
    double worst = 0;
    for (const Load& load : loads)
        worst = std::max(worst, std::abs(share_of_a_token_bucket(load, 0.5) - 0.5));
    CHECK(std::abs(share_of_a_token_bucket(loads[2], 0.5) - 0.5) < 0.05);
    CHECK(worst > 0.3);
}
