#pragma once
// The normal form of what one claim gives, and how the demands of containers that never run
// together combine.

#include <cstdint>
#include <optional>
#include <vector>

namespace drawbridge::translate {

/// Memory on each device: all of it, or the greater of a figure and a percentage of the device,
/// each 0 where not asked for. Both are set only where several containers share a claim.
struct MemoryDemand {
    bool all = false;
    std::int64_t mib = 0;
    std::int64_t percent = 0;  ///< 1 to 99

    bool operator==(const MemoryDemand&) const = default;
};

/// What each of `count` different devices gives. Equal shapes in one pod come to equal templates.
struct ClaimShape {
    std::int64_t count = 0;  ///< at most 32
    MemoryDemand memory;
    std::int64_t cores = 0;  ///< percent; 0: no limit; 100: the card for itself
    std::optional<std::int64_t> priority;

    [[nodiscard]] bool is_exclusive() const { return cores == 100; }
    [[nodiscard]] bool is_whole_card() const { return memory.all && is_exclusive(); }
    bool operator==(const ClaimShape&) const = default;
};

/// Whether one claim can serve both: same count and priority, and no compute figure that would cap
/// a container without one (design.md "peak of cores"; 100 caps nobody).
[[nodiscard]] bool can_share(const ClaimShape& left, const ClaimShape& right);

/// The pointwise maximum.
[[nodiscard]] ClaimShape peak(const ClaimShape& left, const ClaimShape& right);

/// MiB of memory that a demand comes to on a device of `size` MiB.
[[nodiscard]] std::int64_t memory_on(const MemoryDemand& memory, std::int64_t size);

/// What growing a claim costs: memory over the sizes of the fleet first, then compute, then cards
/// that are too small for it (a claim for all the memory of a card, whatever its size, that serves
/// a figure too).
struct Growth {
    std::int64_t memory = 0;
    std::int64_t cores = 0;
    std::int64_t least_card = 0;
    auto operator<=>(const Growth&) const = default;  // NOLINT(modernize-use-nullptr)
    [[nodiscard]] bool is_none() const { return memory <= 0 && cores <= 0; }
};

/// How much `shape` grows to cover `other`; `sizes` in MiB, may be empty.
[[nodiscard]] Growth growth(const ClaimShape& shape, const ClaimShape& other,
                            const std::vector<std::int64_t>& sizes);

}  // namespace drawbridge::translate
