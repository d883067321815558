// The cards of the stand-in, shared by all processes that name the same file: who has taken how
// much of each.
#pragma once

#include <cstdint>

namespace standin {

inline constexpr int max_devices = 8;
inline constexpr std::uint64_t mib = 1 << 20;
inline constexpr std::uint64_t large_page = 2 * mib;
inline constexpr std::uint64_t pool_chunk = 32 * mib;
// Recorded on an H200 with driver 580.
inline constexpr std::uint64_t context_bytes = 543162368;
inline constexpr std::uint64_t idle_bytes = 3407872;    // of a card, after cuInit
inline constexpr std::uint64_t hidden_bytes = 5832704;  // of a context, beside the process figure
inline constexpr std::uint64_t device_bytes = 150109880320;
inline constexpr std::uint64_t reserved_bytes = 644939776;  // NVML's total has these on top
inline constexpr int multiprocessors = 132;
inline constexpr int threads_per_multiprocessor = 2048;

inline constexpr std::uint64_t second_ns = 1000000000;
inline constexpr int busy_seconds = 4;  // that are remembered

struct Holder {
    std::uint32_t pid;
    std::uint32_t taken;  // slot in use
    std::uint64_t start_time;
    std::uint64_t pid_namespace;          // inode
    std::uint64_t blocks[max_devices];    // what a share is charged for
    std::uint64_t overhead[max_devices];  // contexts and stacks
    std::uint64_t contexts[max_devices];
    // GPU time of kernels, by the second of the wall clock that they ran in: those of the last few.
    std::uint64_t busy_second[max_devices][busy_seconds];
    std::uint64_t busy_ns[max_devices][busy_seconds];
};

struct World {
    std::uint32_t devices;
    std::uint32_t high_water;  // places of holders ever used
    std::uint64_t bytes[max_devices];
    std::uint64_t peak[max_devices];  // most that all blocks together ever were
    std::uint64_t busy_ns;            // GPU time of all kernels ever launched
    std::uint64_t held[max_devices];  // by all blocks together
    Holder holders[512];
};

/// Mapped at the first call: the file that DRAWBRIDGE_STANDIN_STATE names (made if empty), else
/// private memory. Devices and bytes come from DRAWBRIDGE_STANDIN_DEVICES and
/// DRAWBRIDGE_STANDIN_BYTES when it is made.
World& world();

/// This process's place.
Holder& holder();

/// Lets go of what processes held that are gone.
void sweep();

/// The pid of a place's process as this process's pid namespace has it; 0 where it has none, or the
/// process is gone. Whoever shares the file finds it, in whatever pid namespace either of them is:
/// the kernel tells who holds the lock on a place.
std::uint32_t pid_of(const Holder& one);

/// Takes memory of a card. False where it has none left, after the dead were swept.
bool take_blocks(int device, std::uint64_t bytes);
void give_blocks(int device, std::uint64_t bytes);
bool take_overhead(int device, std::uint64_t bytes);
void give_overhead(int device, std::uint64_t bytes);
/// Counts a context made (1) or destroyed (-1).
void count_context(int device, int change);

/// Counts a kernel that runs on a card between two points of the wall clock, in ns.
void count_busy(int device, std::uint64_t from_ns, std::uint64_t to_ns);
/// GPU time of a process's kernels in a second of the wall clock; 0 where that is long ago.
std::uint64_t busy_in(const Holder& one, int device, std::uint64_t second);

/// Bytes of all living processes on a card.
std::uint64_t used_on(int device);

/// 16 bytes of a card's UUID, made up.
void uuid_of(int device, unsigned char (&uuid)[16]);

}  // namespace standin
